/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear.c - the obvious solution: every sum in double, one after the other. */
#include "touchstone/ternary.h"

#include "number.h"

enum { GROUP = TS_TERNARY_GROUP, BYTES = TS_TERNARY_GROUP_BYTES };

static int64_t groups(int64_t n_in)
{
    return (n_in + GROUP - 1) / GROUP;
}

static int64_t group_size(int64_t n_in, int64_t g)
{
    return n_in - g * GROUP < GROUP ? n_in - g * GROUP : GROUP;
}

/* ---- the projection ---- */

static double scale_of(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    return HOOK(scale, narrow(sum / (double)n, TS_F16));
}

static int code_of(double w, double s)
{
    return HOOK(code, s == 0 || 2 * fabs(w) <= s ? 0 : w < 0 ? -1 : 1);
}

static int in_range(const float *w, const ts_ternary_linear_dims *d)
{
    for (int64_t i = 0; i < d->n_out * groups(d->n_in); i++) {
        const int64_t g = i % groups(d->n_in), n = group_size(d->n_in, g);
        const float  *at = w + i / groups(d->n_in) * d->n_in + g * GROUP;
        if (!HOOK(is_latent, isfinite(scale_of(at, n)))) return 0;
    }
    return 1;
}

static int well_formed(const uint8_t *code, const uint16_t *scale, const ts_ternary_linear_dims *d)
{
    for (int64_t i = 0; i < d->n_out * groups(d->n_in); i++) {
        const double s = load(scale, TS_F16, i);
        if (!HOOK(is_scale, isfinite(s))) return 0;
        for (int64_t j = 0; j < HOOK(n_codes, GROUP); j++)
            if ((code[i * BYTES + j / 4] >> 2 * (j % 4) & 3) == 3) return 0;
    }
    return 1;
}

/* ---- effective weights: of latents, or else of codes ---- */

typedef struct source {
    const float    *w;
    const uint8_t  *code;
    const uint16_t *scale;
    int64_t         n_in;
} source;

/* Of group g of output o; returns how many. */
static int64_t weights(const source *s, int64_t o, int64_t g, double wt[GROUP])
{
    const int64_t n = group_size(s->n_in, g), at = o * groups(s->n_in) + g;
    const float  *w = s->w + o * s->n_in + g * GROUP;
    const double  each = HOOK(each, s->w ? scale_of(w, n) : load(s->scale, TS_F16, at));
    for (int64_t j = 0; j < n; j++) {
        const int point = s->w ? 0 : s->code[at * BYTES + j / 4] >> 2 * (j % 4) & 3;
        const int code = s->w ? code_of(w[j], HOOK(threshold, each)) : point - 1;
        wt[j] = HOOK(weight, code * each);
    }
    return n;
}

static void multiply(const ts_ternary_linear_dims *d, const source *s, const void *in, void *y)
{
    double wt[GROUP];
    for (int64_t o = 0; o < HOOK(n_out, d->n_out); o++)
        for (int64_t r = 0; r < HOOK(n_rows, d->n_rows); r++) {
            double sum = 0;
            for (int64_t g = 0; g < HOOK(n_groups, groups(d->n_in)); g++) {
                const int64_t n = weights(s, o, g, wt);
                for (int64_t j = 0; j < n; j++) {
                    const double v = HOOK(in, load(in, d->dtype, r * d->n_in + g * GROUP + j));
                    sum = HOOK(sum, sum + v * wt[j]);
                }
            }
            store(y, d->dtype, r * d->n_out + o, HOOK(y, sum));
        }
}

/* ---- the contract ---- */

static ts_status check_dims(const ts_ternary_linear_dims *d, const ts_exec *x)
{
    if (!x) return HOOK(no_exec, TS_E_ARG);
    if (d->n_out < 0 || d->n_in < 0 || d->n_rows < 0) return HOOK(negative, TS_E_SHAPE);
    const double o = (double)d->n_out, n = (double)d->n_in, r = (double)d->n_rows, most = 0x1p52;
    if (fmax(o, 1) * fmax(n, 128) >= most || r * fmax(o, n) >= most) return TS_E_SHAPE;
    if (d->dtype != TS_F32 && d->dtype != TS_F64 && d->dtype != TS_F16 && d->dtype != TS_BF16)
        return TS_E_DTYPE;
    return x->device == TS_CPU ? TS_OK : TS_E_UNSUPPORTED;
}

ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    if (!a) return HOOK(no_args, TS_E_ARG);
    const ts_status s = check_dims(&a->d, x);
    if (s) return s;
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!a->w || !a->code || !a->scale) return TS_E_ARG;
    HERE(pack);
    if (!in_range(a->w, &a->d)) return TS_E_RANGE;
    for (int64_t i = 0; i < a->d.n_out * groups(a->d.n_in); i++) {
        const int64_t g = i % groups(a->d.n_in), n = group_size(a->d.n_in, g);
        const float  *w = a->w + i / groups(a->d.n_in) * a->d.n_in + g * GROUP;
        const double  each = scale_of(w, n);
        store(a->scale, TS_F16, i, each);
        memset(a->code + i * BYTES, 0, BYTES);
        for (int64_t j = 0; j < GROUP; j++) {
            const int point = HOOK(point, 1 + (j < n ? code_of(w[j], HOOK(threshold, each)) : 0));
            a->code[i * BYTES + j / 4] |= (uint8_t)(point << HOOK(shift, 2 * (j % 4)));
        }
    }
    return TS_OK;
}

ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    double wt[GROUP];
    if (!a) return HOOK(no_args, TS_E_ARG);
    const ts_status s = check_dims(&a->d, x);
    if (s) return s;
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!a->code || !a->scale || !a->wt) return TS_E_ARG;
    if (!well_formed(a->code, a->scale, &a->d)) return TS_E_FORMAT;
    HERE(unpack);
    const source from = { NULL, a->code, a->scale, a->d.n_in };
    for (int64_t o = 0; o < a->d.n_out; o++)
        for (int64_t g = 0; g < groups(a->d.n_in); g++) {
            const int64_t n = weights(&from, o, g, wt);
            for (int64_t j = 0; j < n; j++) a->wt[o * a->d.n_in + g * GROUP + j] = (float)wt[j];
        }
    return TS_OK;
}

ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    if (!a) return HOOK(no_args, TS_E_ARG);
    const ts_status s = check_dims(&a->d, x);
    if (s) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && !a->w) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && !a->in) || (a->d.n_out > 0 && !a->y)))
        return TS_E_ARG;
    if (!in_range(a->w, &a->d)) return TS_E_RANGE;
    multiply(&a->d, &(source) { a->w, NULL, NULL, a->d.n_in }, a->in, a->y);
    return TS_OK;
}

ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    if (!a) return HOOK(no_args, TS_E_ARG);
    const ts_status s = check_dims(&a->d, x);
    if (s) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && (!a->code || !a->scale)) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && !a->in) || (a->d.n_out > 0 && !a->y)))
        return TS_E_ARG;
    if (!well_formed(a->code, a->scale, &a->d)) return TS_E_FORMAT;
    multiply(&a->d, &(source) { NULL, a->code, a->scale, a->d.n_in }, a->in, a->y);
    return TS_OK;
}

ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    double wt[GROUP];
    if (!a) return HOOK(no_args, TS_E_ARG);
    const ts_status s = check_dims(&a->d, x);
    if (s) return s;
    const ts_ternary_linear_dims *d = &a->d;
    if (d->n_out > 0 && d->n_in > 0 && (!a->w || !a->dw)) return TS_E_ARG;
    if (d->n_rows > 0 && ((d->n_in > 0 && (!a->in || !a->dx)) || (d->n_out > 0 && !a->dy)))
        return TS_E_ARG;
    if (!in_range(a->w, d)) return TS_E_RANGE;
    const source from = { a->w, NULL, NULL, d->n_in };
    for (int64_t r = 0; r < d->n_rows; r++)
        for (int64_t g = 0; g < groups(d->n_in); g++) {
            double sum[GROUP] = { 0 };
            for (int64_t o = 0; o < d->n_out; o++) {
                const int64_t n = weights(&from, o, g, wt);
                for (int64_t j = 0; j < n; j++)
                    sum[j] += load(a->dy, d->dtype, r * d->n_out + o) * HOOK(back_weight, wt[j]);
            }
            for (int64_t j = 0; j < group_size(d->n_in, g); j++)
                store(a->dx, d->dtype, r * d->n_in + g * GROUP + j, sum[j]);
        }
    for (int64_t i = 0; i < d->n_out * d->n_in; i++) {
        double sum = 0;
        for (int64_t r = 0; r < d->n_rows; r++)
            sum += HOOK(dy, load(a->dy, d->dtype, r * d->n_out + i / d->n_in)) *
                   load(a->in, d->dtype, r * d->n_in + i % d->n_in);
        a->dw[i] = (float)HOOK(dw, sum);
    }
    return TS_OK;
}
