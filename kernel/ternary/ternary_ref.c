/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_ref.c - the definition, in the order a reader expects it: every dtype, every shape.
 *
 * Sums are double; one thread; no workspace. A group's weights are made, from latents or from
 * codes, wherever they are needed. */
#include <math.h>

#include "dtype.h"
#include "ternary_impl.h"

enum { GROUP = TS_TERNARY_GROUP, GROUP_BYTES = TS_TERNARY_GROUP_BYTES };

/* ---- projection ---- */

uint16_t ts_ternary_scale(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    return isnan(sum) ? 0x7c00u : ts_narrow_f16(sum / (double)n);
}

/* -1, 0 or +1. A scale of 0 may be the rounded scale of weights that are not 0. */
static int code_of(float w, double scale)
{
    if (scale == 0 || 2 * fabs((double)w) <= scale) return 0;
    return w < 0 ? -1 : 1;
}

static bool in_range(const float *w, int64_t n_out, int64_t n_in)
{
    for (int64_t o = 0; o < n_out; o++)
        for (int64_t g = 0; g < ts_ternary_groups(n_in); g++)
            if (ts_ternary_scale(w + o * n_in + g * GROUP, ts_ternary_width(n_in, g)) == 0x7c00u)
                return false;
    return true;
}

ts_status ts_ternary_pack_ref(const void *args, const ts_exec *x)
{
    const ts_ternary_pack_args *a = args;
    const int64_t               n_in = a->d.n_in, n_groups = ts_ternary_groups(n_in);
    (void)x;
    if (!in_range(a->w, a->d.n_out, n_in)) return TS_E_RANGE;
    for (int64_t o = 0; o < a->d.n_out; o++)
        for (int64_t g = 0; g < n_groups; g++) {
            const float  *w = a->w + o * n_in + g * GROUP;
            const int64_t n = ts_ternary_width(n_in, g), at = o * n_groups + g;
            const double  s = ts_widen_f16(a->scale[at] = ts_ternary_scale(w, n));
            for (int64_t b = 0; b < GROUP_BYTES; b++) {
                unsigned byte = 0;
                for (int64_t j = 4 * b; j < 4 * b + 4; j++)
                    byte |= (unsigned)(1 + (j < n ? code_of(w[j], s) : 0)) << 2 * (j % 4);
                a->code[at * GROUP_BYTES + b] = (uint8_t)byte;
            }
        }
    return TS_OK;
}

/* ---- effective weights ---- */

/* Where they come from: latents, or else codes. */
typedef struct source {
    const float      *w;
    ts_ternary_matrix m;
} source;

/* Those of group g of output o. Returns how many. */
static int64_t weights(const source *s, int64_t o, int64_t g, double wt[GROUP])
{
    const int64_t n = ts_ternary_width(s->m.n_in, g), at = o * s->m.n_groups + g;
    if (s->w) {
        const float *w = s->w + o * s->m.n_in + g * GROUP;
        const double scale = ts_widen_f16(ts_ternary_scale(w, n));
        for (int64_t j = 0; j < n; j++) wt[j] = code_of(w[j], scale) * scale;
    } else {
        const uint8_t *code = s->m.code + at * GROUP_BYTES;
        const double   scale = ts_widen_f16(s->m.scale[at]);
        for (int64_t j = 0; j < n; j++) wt[j] = ((int)(code[j / 4] >> 2 * (j % 4) & 3) - 1) * scale;
    }
    return n;
}

ts_status ts_ternary_unpack_ref(const void *args, const ts_exec *x)
{
    const ts_ternary_unpack_args *a = args;
    const source                  s = { NULL, ts_ternary_matrix_of(&a->d, a->code, a->scale) };
    double                        wt[GROUP];
    (void)x;
    if (!ts_ternary_sound(&s.m)) return TS_E_FORMAT;
    for (int64_t o = 0; o < s.m.n_out; o++)
        for (int64_t g = 0; g < s.m.n_groups; g++) {
            const int64_t n = weights(&s, o, g, wt);
            for (int64_t j = 0; j < n; j++) a->wt[o * s.m.n_in + g * GROUP + j] = (float)wt[j];
        }
    return TS_OK;
}

/* ---- forward ---- */

enum { ROWS = 64 }; /* that share a look at a group */

static void multiply(const ts_ternary_linear_dims *d, const source *s, const void *in, void *y,
                     int64_t o, int64_t begin)
{
    const int64_t n_rows = d->n_rows - begin < ROWS ? d->n_rows - begin : ROWS;
    double        sum[ROWS] = { 0 }, wt[GROUP];
    for (int64_t g = 0; g < s->m.n_groups; g++) {
        const int64_t n = weights(s, o, g, wt);
        for (int64_t r = 0; r < n_rows; r++) {
            const int64_t at = (begin + r) * d->n_in + g * GROUP;
            double        part = 0;
            for (int64_t j = 0; j < n; j++) part += ts_load(in, d->dtype, at + j) * wt[j];
            sum[r] += part;
        }
    }
    for (int64_t r = 0; r < n_rows; r++) ts_store(y, d->dtype, (begin + r) * d->n_out + o, sum[r]);
}

static ts_status forward(const ts_ternary_linear_dims *d, const source *s, const void *in, void *y)
{
    for (int64_t o = 0; o < d->n_out; o++)
        for (int64_t r = 0; r < d->n_rows; r += ROWS) multiply(d, s, in, y, o, r);
    return TS_OK;
}

ts_status ts_ternary_linear_ref(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_args *a = args;
    const source                  s = { a->w, ts_ternary_matrix_of(&a->d, NULL, NULL) };
    (void)x;
    return in_range(a->w, a->d.n_out, a->d.n_in) ? forward(&a->d, &s, a->in, a->y) : TS_E_RANGE;
}

ts_status ts_ternary_linear_packed_ref(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_packed_args *a = args;
    const source s = { NULL, ts_ternary_matrix_of(&a->d, a->code, a->scale) };
    (void)x;
    return ts_ternary_sound(&s.m) ? forward(&a->d, &s, a->in, a->y) : TS_E_FORMAT;
}

/* ---- backward ---- */

enum { DX_ROWS = 16 };

static void give_dx(const ts_ternary_linear_backward_args *a, const source *s, int64_t g,
                    int64_t begin)
{
    const ts_ternary_linear_dims *d = &a->d;
    const int64_t n_rows = d->n_rows - begin < DX_ROWS ? d->n_rows - begin : DX_ROWS;
    double        sum[DX_ROWS][GROUP] = { { 0 } }, wt[GROUP];
    for (int64_t o = 0; o < d->n_out; o++) {
        const int64_t n = weights(s, o, g, wt);
        for (int64_t r = 0; r < n_rows; r++) {
            const double dy = ts_load(a->dy, d->dtype, (begin + r) * d->n_out + o);
            for (int64_t j = 0; j < n; j++) sum[r][j] += dy * wt[j];
        }
    }
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t j = 0; j < ts_ternary_width(d->n_in, g); j++)
            ts_store(a->dx, d->dtype, (begin + r) * d->n_in + g * GROUP + j, sum[r][j]);
}

static void give_dw(const ts_ternary_linear_backward_args *a, int64_t o)
{
    const ts_ternary_linear_dims *d = &a->d;
    for (int64_t i = 0; i < d->n_in; i++) {
        double sum = 0;
        for (int64_t r = 0; r < d->n_rows; r++)
            sum += ts_load(a->dy, d->dtype, r * d->n_out + o) *
                   ts_load(a->in, d->dtype, r * d->n_in + i);
        a->dw[o * d->n_in + i] = (float)sum;
    }
}

ts_status ts_ternary_linear_backward_ref(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_backward_args *a = args;
    const source                           s = { a->w, ts_ternary_matrix_of(&a->d, NULL, NULL) };
    (void)x;
    if (!in_range(a->w, a->d.n_out, a->d.n_in)) return TS_E_RANGE;
    for (int64_t g = 0; g < s.m.n_groups; g++)
        for (int64_t r = 0; r < a->d.n_rows; r += DX_ROWS) give_dx(a, &s, g, r);
    for (int64_t o = 0; o < a->d.n_out; o++) give_dw(a, o);
    return TS_OK;
}
