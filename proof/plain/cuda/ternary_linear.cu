// SPDX-License-Identifier: Apache-2.0
// ternary_linear.cu - the obvious solution on a device: one thread per group or per output, which
// sums in double, in order. Latents are packed into the workspace first.
#include "number.cuh"
#include "touchstone/ternary.h"

enum { GROUP = TS_TERNARY_GROUP, BYTES = TS_TERNARY_GROUP_BYTES };

struct matrix {
    ts_ternary_linear_dims d;
    int64_t                groups; // of a row
    const float           *w;
    uint8_t               *code;
    uint16_t              *scale;
    const void            *in, *dy;
    void                  *y;
    float                 *wt, *dw;
};

static __device__ int64_t group_size(const matrix &m, int64_t g)
{
    return m.d.n_in - g * GROUP < GROUP ? m.d.n_in - g * GROUP : GROUP;
}

// Codes and scale of a group. One that is out of range gets codes of 0 and a scale of NaN.
static __global__ void pack(matrix m)
{
    const int64_t i = item(), g = i % m.groups;
    if (i >= m.d.n_out * m.groups) return;
    const int64_t n = group_size(m, g);
    const float  *w = m.w + i / m.groups * m.d.n_in + g * GROUP;
    double        sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    const double rounded = narrow(sum / (double)n, TS_F16), s = isfinite(rounded) ? rounded : NAN;
    store(m.scale, TS_F16, i, s);
    for (int64_t b = 0; b < BYTES; b++) {
        int byte = 0;
        for (int64_t j = 4 * b; j < 4 * b + 4; j++) {
            const double v = j < n ? w[j] : 0;
            const int    c = isnan(s) || 2 * fabs(v) <= s || s == 0 ? 0 : v < 0 ? -1 : 1;
            byte |= (1 + c) << 2 * (j % 4);
        }
        m.code[i * BYTES + b] = (uint8_t)byte;
    }
}

// Of weight j of output o. A code point of 3 is not a number.
static __device__ double weight(const matrix &m, int64_t o, int64_t j)
{
    const int64_t at = o * m.groups + j / GROUP, k = j % GROUP;
    const int     point = m.code[at * BYTES + k / 4] >> 2 * (k % 4) & 3;
    const double  s = load(m.scale, TS_F16, at);
    return point == 3 || !isfinite(s) ? NAN : (point - 1) * s;
}

static __global__ void unpack(matrix m)
{
    const int64_t i = item();
    if (i < m.d.n_out * m.d.n_in) m.wt[i] = (float)weight(m, i / m.d.n_in, i % m.d.n_in);
}

static __global__ void multiply(matrix m)
{
    const int64_t i = item(), r = i / m.d.n_out, o = i % m.d.n_out;
    double        sum = 0;
    if (i >= m.d.n_rows * m.d.n_out) return;
    for (int64_t j = 0; j < m.d.n_in; j++)
        sum += load(m.in, m.d.dtype, r * m.d.n_in + j) * weight(m, o, j);
    store(m.y, m.d.dtype, i, sum);
}

static __global__ void back_in(matrix m)
{
    const int64_t i = item(), r = i / m.d.n_in, j = i % m.d.n_in;
    double        sum = 0;
    if (i >= m.d.n_rows * m.d.n_in) return;
    for (int64_t o = 0; o < m.d.n_out; o++)
        sum += load(m.dy, m.d.dtype, r * m.d.n_out + o) * weight(m, o, j);
    store(m.y, m.d.dtype, i, sum);
}

static __global__ void back_weights(matrix m)
{
    const int64_t i = item(), o = i / m.d.n_in, j = i % m.d.n_in;
    double        sum = 0;
    if (i >= m.d.n_out * m.d.n_in) return;
    for (int64_t r = 0; r < m.d.n_rows; r++)
        sum += load(m.dy, m.d.dtype, r * m.d.n_out + o) * load(m.in, m.d.dtype, r * m.d.n_in + j);
    m.dw[i] = (float)sum;
}

// ---- the contract ----

static ts_status check(const ts_ternary_linear_dims *d, const ts_exec *x)
{
    if (!x) return TS_E_ARG;
    if (d->n_out < 0 || d->n_in < 0 || d->n_rows < 0) return TS_E_SHAPE;
    const double o = (double)d->n_out, n = (double)d->n_in, r = (double)d->n_rows, most = 0x1p52;
    if (fmax(o, 1) * fmax(n, 128) >= most || r * fmax(o, n) >= most) return TS_E_SHAPE;
    if (d->dtype == TS_F64) return TS_E_UNSUPPORTED;
    if (d->dtype != TS_F32 && d->dtype != TS_F16 && d->dtype != TS_BF16) return TS_E_DTYPE;
    return x->device == TS_CUDA ? TS_OK : TS_E_UNSUPPORTED;
}

static matrix matrix_of(const ts_ternary_linear_dims *d)
{
    matrix m = {};
    m.d = *d;
    m.groups = (d->n_in + GROUP - 1) / GROUP;
    return m;
}

static size_t scale_bytes(const matrix &m)
{
    return (size_t)(m.d.n_out * m.groups) * sizeof(uint16_t);
}

static ts_status packed_bytes(const ts_ternary_linear_dims *d, const ts_exec *x, size_t *n)
{
    const ts_status s = n ? check(d, x) : TS_E_ARG;
    if (!s) *n = scale_bytes(matrix_of(d)) + (size_t)(d->n_out * matrix_of(d).groups) * BYTES;
    return s;
}

// Packs latents into the workspace.
static ts_status pack_latents(matrix *m, const ts_exec *x)
{
    size_t n = 0;
    packed_bytes(&m->d, x, &n);
    if (n && (!x->workspace || x->workspace_bytes < n)) return TS_E_WORKSPACE;
    m->scale = (uint16_t *)x->workspace;
    m->code = (uint8_t *)x->workspace + scale_bytes(*m);
    return launch(pack, *m, m->d.n_out * m->groups, x);
}

TS_API ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    const ts_status s = a ? check(&a->d, x) : TS_E_ARG;
    if (s) return s;
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!a->w || !a->code || !a->scale) return TS_E_ARG;
    matrix m = matrix_of(&a->d);
    m.w = a->w, m.code = a->code, m.scale = a->scale;
    return launch(pack, m, m.d.n_out * m.groups, x);
}

TS_API ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    const ts_status s = a ? check(&a->d, x) : TS_E_ARG;
    if (s) return s;
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!a->code || !a->scale || !a->wt) return TS_E_ARG;
    matrix m = matrix_of(&a->d);
    m.code = (uint8_t *)a->code, m.scale = (uint16_t *)a->scale, m.wt = a->wt;
    return launch(unpack, m, m.d.n_out * m.d.n_in, x);
}

TS_API ts_status ts_ternary_linear_workspace(const ts_ternary_linear_args *a, const ts_exec *x,
                                             size_t *n)
{
    return a ? packed_bytes(&a->d, x, n) : TS_E_ARG;
}

TS_API ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    ts_status s = a ? check(&a->d, x) : TS_E_ARG;
    if (s) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && !a->w) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && !a->in) || (a->d.n_out > 0 && !a->y)))
        return TS_E_ARG;
    matrix m = matrix_of(&a->d);
    m.w = a->w, m.in = a->in, m.y = a->y;
    s = pack_latents(&m, x);
    return s ? s : launch(multiply, m, m.d.n_rows * m.d.n_out, x);
}

TS_API ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const ts_status s = a ? check(&a->d, x) : TS_E_ARG;
    if (s) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && (!a->code || !a->scale)) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && !a->in) || (a->d.n_out > 0 && !a->y)))
        return TS_E_ARG;
    matrix m = matrix_of(&a->d);
    m.code = (uint8_t *)a->code, m.scale = (uint16_t *)a->scale, m.in = a->in, m.y = a->y;
    return launch(multiply, m, m.d.n_rows * m.d.n_out, x);
}

TS_API ts_status ts_ternary_linear_backward_workspace(const ts_ternary_linear_backward_args *a,
                                                      const ts_exec *x, size_t *n)
{
    return a ? packed_bytes(&a->d, x, n) : TS_E_ARG;
}

TS_API ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a,
                                            const ts_exec                         *x)
{
    ts_status s = a ? check(&a->d, x) : TS_E_ARG;
    if (s) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && (!a->w || !a->dw)) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && (!a->in || !a->dx)) || (a->d.n_out > 0 && !a->dy)))
        return TS_E_ARG;
    matrix m = matrix_of(&a->d);
    m.w = a->w, m.in = a->in, m.dy = a->dy, m.y = a->dx, m.dw = a->dw;
    s = pack_latents(&m, x);
    if (!s) s = launch(back_in, m, m.d.n_rows * m.d.n_in, x);
    return s ? s : launch(back_weights, m, m.d.n_out * m.d.n_in, x);
}
