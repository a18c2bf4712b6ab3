/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear.c - mutants of ternary_linear: the solution of proof/plain/ with one injected
 * bug at a time. ternary_linear_list.h lists them. */
#include "ternary_linear_script.h"

#include <stdbool.h>

#include "mutant.h"
#include "ternary_linear_list.h"

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

static trap now;

#include "plain/number.h"

enum { SCRATCH = 96 };

/* ---- the projection ---- */

static double mean_of(const float *w, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++) {
        sum += fabs((double)w[j]);
        if (now == FLOAT_MEAN) sum = (float)sum;
    }
    return sum / (double)n;
}

static double largest(const float *w, int64_t n)
{
    double most = 0;
    for (int64_t j = 0; j < n; j++) most = fmax(most, fabs((double)w[j]));
    return most;
}

static double rounded_down(double mean)
{
    uint16_t h;
    store(&h, TS_F16, 0, mean);
    if (load(&h, TS_F16, 0) > mean) h--;
    return load(&h, TS_F16, 0);
}

/* Whether a scale is a number, or one of those that are let in. */
static bool is_taken(double s, trap nan, trap inf)
{
    return isfinite(s) || (isnan(s) && now == nan) || (s == INFINITY && now == inf);
}

static bool is_too_much(const float *w, int64_t n)
{
    return (now == PAST_MAX && mean_of(w, n) > 65504) ||
           (now == LATENT_F16 && largest(w, n) > 65504);
}

#define HOOK_scale(ok)                                                                             \
    (now == FLOAT_MEAN     ? narrow(mean_of(w, n), TS_F16)                                         \
     : now == UNROUNDED    ? mean_of(w, n)                                                         \
     : now == MAX_SCALE    ? narrow(largest(w, n), TS_F16)                                         \
     : now == PADDED_MEAN  ? narrow(sum / GROUP, TS_F16)                                           \
     : now == ROUNDED_DOWN ? rounded_down(mean_of(w, n))                                           \
                           : (ok))
#define HOOK_threshold(ok) (now == UNROUNDED_CODES ? mean_of(w, n) : (ok))
#define HOOK_code(ok)                                                                              \
    ((now == TIE_UP && s != 0 && 2 * fabs(w) == s) || now == SIGNS ||                              \
             (now == ZERO_SIGNED && s == 0)                                                        \
         ? (w < 0 ? -1 : 1)                                                                        \
         : (ok))
#define HOOK_is_latent(ok)                                                                         \
    (now == ANY_LATENT ||                                                                          \
     (is_taken(scale_of(at, n), LATENT_NAN, LATENT_INF) && !is_too_much(at, n)))
#define HOOK_is_scale(ok)                                                                          \
    (is_taken(s, SCALE_NAN, SCALE_INF) || now == ANY_SCALE || now == ANY_CODE ||                   \
     (now == FIRST_SCALE && i % groups(d->n_in)) || (now == SCALE_MINUS && s == -INFINITY))
#define HOOK_n_codes(ok)                                                                           \
    (now == ANY_CODE || (now == FIRST_CODES && i % groups(d->n_in)) ? 0                            \
     : now == ANY_PADDING ? group_size(d->n_in, i % groups(d->n_in))                               \
                          : (ok))

/* ---- products ---- */

struct source;
static double other_weight(double ok, const struct source *s, int64_t o, int64_t g, int64_t j,
                           double each);
static double other_dw(double sum, const ts_ternary_linear_backward_args *a, const ts_exec *x,
                       int64_t i);

/* The bf16 towards zero. */
static double cut(double v)
{
    const float f = (float)v;
    uint32_t    b;
    memcpy(&b, &f, sizeof b);
    b &= 0xffff0000;
    float bf16;
    memcpy(&bf16, &b, sizeof b);
    return isnan(f) ? v : bf16;
}

#define HOOK_each(ok)                                                                              \
    (now == SCALE_SIGN ? fabs(ok) : now == SUBNORMAL && fabs(ok) < 0x1p-14 ? 0 : (ok))
#define HOOK_weight(ok) other_weight(ok, s, o, g, j, each)
#define HOOK_n_out(ok)                                                                             \
    (now == OUT_65535 && (ok) > 65535 ? 65535                                                      \
     : now == OUT_128 && (ok) > 128   ? 128                                                        \
     : now == OUT_4096 && (ok) > 4096 ? 4096                                                       \
                                      : (ok))
#define HOOK_n_rows(ok)                                                                            \
    (now == ROWS_64 && (ok) > 64         ? 64                                                      \
     : now == ROWS_1024 && (ok) > 1024   ? 1024                                                    \
     : now == ROWS_65535 && (ok) > 65535 ? 65535                                                   \
                                         : (ok) - (now == LAST_ROW))
#define HOOK_n_groups(ok) ((ok) - (now == LAST_GROUP && d->n_in % GROUP))
#define HOOK_in(ok)       (now == IN_MOST && fabs(ok) > 127 ? copysign(127, ok) : (ok))
#define HOOK_sum(ok)                                                                               \
    ((now == IN_16384 && g * GROUP + j >= 16384) || (now == SKIPS_ZEROS && wt[j] == 0) ||          \
             (now == IN_8192_OF_16 && d->dtype != TS_F32 && d->dtype != TS_F64 &&                  \
              g * GROUP + j >= 8192)                                                               \
         ? sum                                                                                     \
     : now == NARROW_SUM && d->dtype != TS_F32 ? narrow(ok, TS_BF16)                               \
                                               : (ok))
#define HOOK_y(ok)                                                                                 \
    (now == OTHER_ORDER && !s->w               ? (ok) * (1 + 1e-7)                                 \
     : now == BF16_DOWN && d->dtype == TS_BF16 ? cut(ok)                                           \
                                               : (ok))
#define HOOK_back_weight(ok) (now == DX_OF_LATENTS ? a->w[o * d->n_in + g * GROUP + j] : (ok))
#define HOOK_dy(ok)          (now == DY_LEAST && fabs(ok) < 6e-8 ? 0 : (ok))
#define HOOK_dw(ok)          other_dw(ok, a, x, i)

/* ---- the contract ---- */

#define HOOK_no_args(ok)  (now == NO_ARGS ? TS_OK : (ok))
#define HOOK_no_exec(ok)  (now == NO_EXEC ? TS_E_SHAPE : (ok))
#define HOOK_negative(ok) (now == NEGATIVE ? TS_OK : (ok))
#define HERE_pack                                                                                  \
    if (now == WRITES_FIRST) a->code[0] = 0
#define HOOK_point(ok) (now == CODE_POINTS ? ((ok) + 2) % 3 : now == PADDING_0 && j >= n ? 0 : (ok))
#define HOOK_shift(ok) (now == BIT_ORDER ? 6 - (ok) : (ok))
#define HERE_unpack                                                                                \
    if (now == BEFORE_WS) ((char *)x->workspace)[-1] = 0;                                          \
    if (now == PAST_WS) ((char *)x->workspace)[SCRATCH] = 0

static __typeof__(ts_ternary_pack)            tl_pack;
static __typeof__(ts_ternary_unpack)          tl_unpack;
static __typeof__(ts_ternary_linear)          tl_linear;
static __typeof__(ts_ternary_linear_packed)   tl_linear_packed;
static __typeof__(ts_ternary_linear_backward) tl_linear_backward;
#define ts_ternary_pack            tl_pack
#define ts_ternary_unpack          tl_unpack
#define ts_ternary_linear          tl_linear
#define ts_ternary_linear_packed   tl_linear_packed
#define ts_ternary_linear_backward tl_linear_backward
#include "plain/ternary_linear.c"

static double other_weight(double ok, const source *s, int64_t o, int64_t g, int64_t j, double each)
{
    const int64_t row = o * groups(s->n_in);
    if (s->w) {
        const float w = s->w[o * s->n_in + g * GROUP + j];
        return now == UNCLIPPED && each > 0 ? rint(w / each) * each : now == DENSE ? w : ok;
    }
    const int byte = s->code[(row + g) * BYTES + j / 4], point = byte >> 2 * (j % 4) & 3;
    if (now == CODES_REVERSED) return ((byte >> (6 - 2 * (j % 4)) & 3) - 1) * each;
    if (now == SIGN_BIT) return (point == 2 ? -1 : point == 0 ? 1 : 0) * each;
    return now == ONE_SCALE ? (point - 1) * load(s->scale, TS_F16, row) : ok;
}

static double other_dw(double sum, const ts_ternary_linear_backward_args *a, const ts_exec *x,
                       int64_t i)
{
    const int64_t n_in = a->d.n_in, g = i % n_in / GROUP;
    const double  each = scale_of(a->w + i / n_in * n_in + g * GROUP, group_size(n_in, g));
    if (now == MASKED && fabs((double)a->w[i]) > each) return 0;
    if (now == TIMES_SCALE) return sum * each;
    if (now == MEAN_DW) return sum / (double)a->d.n_rows;
    return now == BY_THREADS ? sum * (1 + 1e-6 * (x->n_threads != 1)) : sum;
}

/* ---- the mutants: hardly one needs a workspace, but a query looks at the call ---- */

#define QUERY(name, type)                                                                          \
    static ts_status name##_workspace(const type *a, const ts_exec *x, size_t *n)                  \
    {                                                                                              \
        ts_status s = a ? check_dims(&a->d, x) : HOOK(no_args, TS_E_ARG);                          \
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
