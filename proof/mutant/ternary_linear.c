/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear.c - mutants of ternary_linear: one correct implementation, in double, with one
 * injected bug at a time. ternary_linear_list.h lists them. */
#include "ternary_linear_script.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "dtype.h"
#include "mutant.h"
#include "ternary_linear_list.h"

#define NAME(trap, name, fault, family) trap,
typedef enum trap { MUTANTS(NAME) N_TRAPS } trap;

static trap now;

enum { GROUP = TS_TERNARY_GROUP, BYTES = TS_TERNARY_GROUP_BYTES, SCRATCH = 96 };

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
    uint16_t h;
    double   sum = 0;
    double   most = 0;
    for (int64_t j = 0; j < n; j++) {
        sum += now == FLOAT_MEAN ? (double)(float)fabs((double)w[j]) : fabs((double)w[j]);
        if (now == FLOAT_MEAN) sum = (float)sum;
        most = fmax(most, fabs((double)w[j]));
    }
    if (now == UNROUNDED) return sum / (double)n;
    if (now == MAX_SCALE) sum = most * (double)n;
    if (now == PADDED_MEAN) sum = sum * (double)n / GROUP;
    ts_store(&h, TS_F16, 0, sum / (double)n);
    if (now == ROUNDED_DOWN && ts_load(&h, TS_F16, 0) > sum / (double)n) h--;
    return ts_load(&h, TS_F16, 0);
}

/* A bug: codes from the mean before it is rounded. */
static double threshold(const float *w, int64_t n, double s)
{
    double sum = 0;
    for (int64_t j = 0; j < n && now == UNROUNDED_CODES; j++) sum += fabs((double)w[j]);
    return now == UNROUNDED_CODES ? sum / (double)n : s;
}

static int code_of(double w, double s)
{
    if (now == TIE_UP) return s == 0 || 2 * fabs(w) < s ? 0 : w < 0 ? -1 : 1;
    if (now == ZERO_SIGNED && s == 0) return w < 0 ? -1 : 1;
    if (now == SIGNS) return w < 0 ? -1 : 1;
    return s == 0 || 2 * fabs(w) <= s ? 0 : w < 0 ? -1 : 1;
}

static bool too_much(const float *w, int64_t n)
{
    double sum = 0, most = 0;
    for (int64_t j = 0; j < n; j++) {
        sum += fabs((double)w[j]);
        most = fmax(most, fabs((double)w[j]));
    }
    return (now == PAST_MAX && sum / (double)n > 65504) || (now == LATENT_F16 && most > 65504);
}

/* Whether a scale is a number, or one of those that are let in. */
static int taken(double s, trap nan, trap inf)
{
    return isfinite(s) || (isnan(s) && now == nan) || (s == INFINITY && now == inf);
}

static int in_range(const float *w, const ts_ternary_linear_dims *d)
{
    for (int64_t o = 0; o < d->n_out; o++)
        for (int64_t g = 0; g < groups(d->n_in); g++)
            if (now != ANY_LATENT &&
                (!taken(scale_of(w + o * d->n_in + g * GROUP, group_size(d->n_in, g)), LATENT_NAN,
                        LATENT_INF) ||
                 too_much(w + o * d->n_in + g * GROUP, group_size(d->n_in, g))))
                return 0;
    return 1;
}

static int well_formed(const uint8_t *code, const uint16_t *scale, const ts_ternary_linear_dims *d)
{
    for (int64_t i = 0; i < d->n_out * groups(d->n_in) && now != ANY_CODE; i++) {
        const int64_t g = i % groups(d->n_in);
        const double  s = ts_load(scale, TS_F16, i);
        const bool    let =
            now == ANY_SCALE || (now == FIRST_SCALE && g) || (now == SCALE_MINUS && s == -INFINITY);
        if (!taken(s, SCALE_NAN, SCALE_INF) && !let) return 0;
        if (now == FIRST_CODES && g) continue;
        for (int64_t j = 0; j < (now == ANY_PADDING ? group_size(d->n_in, g) : GROUP); j++)
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
    double        each = s->w ? scale_of(w, n) : ts_load(s->scale, TS_F16, at);
    if (now == SCALE_SIGN) each = fabs(each);
    if (now == SUBNORMAL && fabs(each) < 0x1p-14) each = 0;
    for (int64_t j = 0; j < n; j++) {
        const int point = s->w ? 0 : s->code[at * BYTES + j / 4] >> 2 * (j % 4) & 3;
        const int c = s->w ? code_of(w[j], threshold(w, n, each)) : point - 1;
        wt[j] = c * each;
        if (now == UNCLIPPED && s->w && each > 0) wt[j] = rint(w[j] / each) * each;
        if (now == DENSE && s->w) wt[j] = w[j];
        if (now == CODES_REVERSED && !s->w)
            wt[j] = ((s->code[at * BYTES + j / 4] >> (6 - 2 * (j % 4)) & 3) - 1) * each;
        if (now == SIGN_BIT && !s->w) wt[j] = (point == 2 ? -1 : point == 0 ? 1 : 0) * each;
        if (now == ONE_SCALE && !s->w) wt[j] = c * ts_load(s->scale, TS_F16, o * groups(s->n_in));
    }
    return n;
}

/* The bf16 towards zero. */
static double cut(double v)
{
    const float f = (float)v;
    uint32_t    b;
    memcpy(&b, &f, sizeof b);
    return isnan(f) ? v : ts_widen_bf16((uint16_t)(b >> 16));
}

static void multiply(const ts_ternary_linear_dims *d, const source *s, const void *in, void *y)
{
    double wt[GROUP];
    for (int64_t o = 0; o < d->n_out; o++)
        for (int64_t r = 0; r < d->n_rows; r++) {
            double sum = 0;
            for (int64_t g = 0; g < groups(d->n_in) - (now == LAST_GROUP && d->n_in % GROUP); g++) {
                const int64_t n = weights(s, o, g, wt);
                for (int64_t j = 0; j < n; j++) {
                    double v = ts_load(in, d->dtype, r * d->n_in + g * GROUP + j);
                    if (now == IN_MOST) v = v > 127 ? 127 : v < -127 ? -127 : v;
                    if (now == IN_16384 && g * GROUP + j >= 16384) continue;
                    if (now == SKIPS_ZEROS && wt[j] == 0) continue;
                    sum += v * wt[j];
                    if (now == NARROW_SUM && d->dtype != TS_F32) {
                        uint16_t h;
                        ts_store(&h, TS_BF16, 0, sum);
                        sum = ts_load(&h, TS_BF16, 0);
                    }
                }
            }
            if (now == OTHER_ORDER && !s->w) sum *= 1 + 1e-7;
            if (now == LAST_ROW && r + 1 == d->n_rows) continue;
            if ((now == ROWS_64 && r >= 64) || (now == OUT_128 && o >= 128)) continue;
            if ((now == ROWS_1024 && r >= 1024) || (now == OUT_4096 && o >= 4096)) continue;
            if (now == BF16_DOWN && d->dtype == TS_BF16) sum = cut(sum);
            ts_store(y, d->dtype, r * d->n_out + o, sum);
        }
}

/* ---- the contract ---- */

static ts_status no_args(void)
{
    return now == NO_ARGS ? TS_OK : TS_E_ARG;
}

static ts_status check_dims(const ts_ternary_linear_dims *d, const ts_exec *x)
{
    if (!x) return now == NO_EXEC ? TS_E_SHAPE : TS_E_ARG;
    if ((d->n_out < 0 || d->n_in < 0 || d->n_rows < 0) && now == NEGATIVE) return TS_OK;
    if (d->n_out < 0 || d->n_in < 0 || d->n_rows < 0) return TS_E_SHAPE;
    const double o = (double)d->n_out, n = (double)d->n_in, r = (double)d->n_rows, most = 0x1p52;
    if (fmax(o, 1) * fmax(n, 128) >= most || r * fmax(o, n) >= most) return TS_E_SHAPE;
    if (d->dtype != TS_F32 && d->dtype != TS_F64 && d->dtype != TS_F16 && d->dtype != TS_BF16)
        return TS_E_DTYPE;
    return x->device == TS_CPU ? TS_OK : TS_E_UNSUPPORTED;
}

static ts_status tl_pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    const ts_status s = a ? check_dims(&a->d, x) : no_args();
    if (s || !a) return s;
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!a->w || !a->code || !a->scale) return TS_E_ARG;
    if (now == WRITES_FIRST) a->code[0] = 0;
    if (!in_range(a->w, &a->d)) return TS_E_RANGE;
    for (int64_t i = 0; i < a->d.n_out * groups(a->d.n_in); i++) {
        const int64_t g = i % groups(a->d.n_in), n = group_size(a->d.n_in, g);
        const float  *w = a->w + i / groups(a->d.n_in) * a->d.n_in + g * GROUP;
        const double  each = scale_of(w, n);
        ts_store(a->scale, TS_F16, i, each);
        memset(a->code + i * BYTES, 0, BYTES);
        for (int64_t j = 0; j < GROUP; j++) {
            int point = 1 + (j < n ? code_of(w[j], threshold(w, n, each)) : 0);
            if (now == CODE_POINTS) point = point == 1 ? 0 : point == 2 ? 1 : 2;
            if (now == PADDING_0 && j >= n) point = 0;
            a->code[i * BYTES + j / 4] |=
                (uint8_t)(point << (now == BIT_ORDER ? 6 - 2 * (j % 4) : 2 * (j % 4)));
        }
    }
    return TS_OK;
}

static ts_status tl_unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    double          wt[GROUP];
    const ts_status s = a ? check_dims(&a->d, x) : no_args();
    if (s || !a) return s;
    if (a->d.n_out == 0 || a->d.n_in == 0) return TS_OK;
    if (!a->code || !a->scale || !a->wt) return TS_E_ARG;
    if (!well_formed(a->code, a->scale, &a->d)) return TS_E_FORMAT;
    if (now == BEFORE_WS) ((char *)x->workspace)[-1] = 0;
    if (now == PAST_WS) ((char *)x->workspace)[SCRATCH] = 0;
    const source from = { NULL, a->code, a->scale, a->d.n_in };
    for (int64_t o = 0; o < a->d.n_out; o++)
        for (int64_t g = 0; g < groups(a->d.n_in); g++) {
            const int64_t n = weights(&from, o, g, wt);
            for (int64_t j = 0; j < n; j++) a->wt[o * a->d.n_in + g * GROUP + j] = (float)wt[j];
        }
    return TS_OK;
}

static ts_status tl_linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    const ts_status s = a ? check_dims(&a->d, x) : no_args();
    if (s || !a) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && !a->w) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && !a->in) || (a->d.n_out > 0 && !a->y)))
        return TS_E_ARG;
    if (!in_range(a->w, &a->d)) return TS_E_RANGE;
    multiply(&a->d, &(source) { a->w, NULL, NULL, a->d.n_in }, a->in, a->y);
    return TS_OK;
}

static ts_status tl_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    const ts_status s = a ? check_dims(&a->d, x) : no_args();
    if (s || !a) return s;
    if (a->d.n_out > 0 && a->d.n_in > 0 && (!a->code || !a->scale)) return TS_E_ARG;
    if (a->d.n_rows > 0 && ((a->d.n_in > 0 && !a->in) || (a->d.n_out > 0 && !a->y)))
        return TS_E_ARG;
    if (!well_formed(a->code, a->scale, &a->d)) return TS_E_FORMAT;
    multiply(&a->d, &(source) { NULL, a->code, a->scale, a->d.n_in }, a->in, a->y);
    return TS_OK;
}

static ts_status tl_linear_backward(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    double          wt[GROUP];
    const ts_status s = a ? check_dims(&a->d, x) : no_args();
    if (s || !a) return s;
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
                for (int64_t j = 0; j < n && now == DX_OF_LATENTS; j++)
                    wt[j] = a->w[o * d->n_in + g * GROUP + j];
                for (int64_t j = 0; j < n; j++)
                    sum[j] += ts_load(a->dy, d->dtype, r * d->n_out + o) * wt[j];
            }
            for (int64_t j = 0; j < group_size(d->n_in, g); j++)
                ts_store(a->dx, d->dtype, r * d->n_in + g * GROUP + j, sum[j]);
        }
    for (int64_t i = 0; i < d->n_out * d->n_in; i++) {
        double sum = 0;
        for (int64_t r = 0; r < d->n_rows; r++) {
            const double dy = ts_load(a->dy, d->dtype, r * d->n_out + i / d->n_in);
            sum += (now == DY_LEAST && fabs(dy) < 6e-8 ? 0 : dy) *
                   ts_load(a->in, d->dtype, r * d->n_in + i % d->n_in);
        }
        const int64_t g = i % d->n_in / GROUP, n = group_size(d->n_in, g);
        const double  each = scale_of(a->w + i / d->n_in * d->n_in + g * GROUP, n);
        if (now == MASKED && fabs((double)a->w[i]) > each) sum = 0;
        if (now == TIMES_SCALE) sum *= each;
        if (now == MEAN_DW) sum /= (double)d->n_rows;
        if (now == BY_THREADS) sum *= 1 + 1e-6 * (x->n_threads != 1);
        a->dw[i] = (float)sum;
    }
    return TS_OK;
}

/* ---- the mutants: hardly one needs a workspace, but a query looks at the call ---- */

#define QUERY(name, type)                                                                          \
    static ts_status name##_workspace(const type *a, const ts_exec *x, size_t *n)                  \
    {                                                                                              \
        ts_status s = a ? check_dims(&a->d, x) : no_args();                                        \
        if (!n || (!s && !name##_there(a))) s = TS_E_ARG;                                          \
        if (!s) *n = now == BEFORE_WS || now == PAST_WS ? SCRATCH : 0;                             \
        return s;                                                                                  \
    }

static bool tl_pack_there(const ts_ternary_pack_args *a)
{
    return a->d.n_out == 0 || a->d.n_in == 0 || (a->w && a->code && a->scale);
}

static bool tl_unpack_there(const ts_ternary_unpack_args *a)
{
    return a->d.n_out == 0 || a->d.n_in == 0 || (a->wt && a->code && a->scale);
}

static bool tl_linear_there(const ts_ternary_linear_args *a)
{
    return a->d.n_out == 0 || a->d.n_in == 0 || a->d.n_rows == 0 || (a->w && a->in && a->y);
}

static bool tl_linear_packed_there(const ts_ternary_linear_packed_args *a)
{
    return a->d.n_out == 0 || a->d.n_in == 0 || a->d.n_rows == 0 ||
           (a->code && a->scale && a->in && a->y);
}

static bool tl_linear_backward_there(const ts_ternary_linear_backward_args *a)
{
    return a->d.n_out == 0 || a->d.n_in == 0 || a->d.n_rows == 0 ||
           (a->w && a->in && a->dy && a->dx && a->dw);
}

QUERY(tl_pack, ts_ternary_pack_args)
QUERY(tl_unpack, ts_ternary_unpack_args)
QUERY(tl_linear, ts_ternary_linear_args)
QUERY(tl_linear_packed, ts_ternary_linear_packed_args)
QUERY(tl_linear_backward, ts_ternary_linear_backward_args)

static const ts_ternary_table table = {
    tl_pack,
    tl_unpack,
    tl_linear,
    tl_linear_packed,
    tl_linear_backward,
    tl_pack_workspace,
    tl_unpack_workspace,
    tl_linear_workspace,
    tl_linear_packed_workspace,
    tl_linear_backward_workspace,
};

#define STEM  ternary_linear
#define TABLE ts_ternary_table
#include "played.h"
