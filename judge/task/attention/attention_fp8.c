/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8.c - task: attention forward over e4m3 codes with a scale per head. The cases are in
 * attention_fp8_cases.c.
 *
 * The oracle decodes the codes, which double does exactly, and works each row out from the
 * definition. Its bounds are those of attention.c with what 8-bit products add
 * (doc/attention_fp8.md). A sum of n <= 256 products of e4m3 numbers may err by n SUM8 of its
 * positive or its negative part, whichever is larger: of scores, n = head_dim; of weights and
 * values, those of a tile. A weight may be rounded to e4m3 before it meets v: it errs by W8 of
 * itself, or by LOST8 of the row's largest one. The sum of the weights, and so lse, has neither. */
#include <stdlib.h>
#include <string.h>

#include "attention_fp8_cases.h"
#include "attention_inside.h"
#include "rng.h"
#include "touchstone/attention_fp8.h"

typedef ts_flash_attention_fp8_args fp8_args;

static const double SUM8 = 0x1.08p-13; /* each of 33 addends is cut to 13 bits, for 32 products */
static const double W8 = 0x1p-4;       /* 3 bits after the leading one, rounded */
static const double LOST8 = 0x1p-18;   /* half the least number, weights being at most 2^8 */
enum { TILE8 = 256 };

/* ---- inputs ---- */

/* Codes of all magnitudes that the family wants: `normal` has few subnormal ones and none that is
 * large. */
static void spread(const ts_attention_drawn *w)
{
    const double  size = ts_is(w->c, "subnormal") ? 0x1p-8 : 300;
    const int64_t heads = w->d->n_kv_head > w->d->n_q_head ? w->d->n_kv_head : w->d->n_q_head;
    const int64_t rows = w->d->n_q > w->d->n_k ? w->d->n_q : w->d->n_k;
    const int64_t at = ((w->b * heads + w->h) * rows + w->i) * w->d->head_dim;
    for (int64_t e = 0; e < w->d->head_dim; e++)
        ts_store(w->to, TS_E4M3, w->begin + e, size * ts_normal(w->seed, at + e));
}

/* The first key has 2^12 times the weight of each other, and less than all of them. */
static void tail_query(const ts_attention_drawn *w)
{
    for (int64_t e = 0; e < w->d->head_dim; e++)
        ts_store(w->to, TS_E4M3, w->begin + e, e ? 0 : 4 + w->i % 2);
}

static void tail_key(const ts_attention_drawn *w)
{
    for (int64_t e = 0; e < w->d->head_dim; e++)
        ts_store(w->to, TS_E4M3, w->begin + e,
                 e || w->i ? 0 : 8.3 / (4 * w->d->scale)); /* 2^12 is e^8.3 */
}

static void tail_value(const ts_attention_drawn *w)
{
    for (int64_t e = 0; e < w->d->head_dim; e++)
        ts_store(w->to, TS_E4M3, w->begin + e, w->i ? 1 + (double)(e % 3) / 4 : -1);
}

static ts_attention_family draws_of(const ts_case *c)
{
    static const ts_attention_family all = { "", spread, spread, spread, NULL },
                                     tail = { "", tail_query, tail_key, tail_value, NULL };
    return ts_is(c, "subnormal") || ts_is(c, "extreme") ? all
           : ts_is(c, "tail")                           ? tail
                                                        : *ts_attention_family_of(c);
}

/* Of head i: between 1/2 and 2, and by a power of 2 that suits the codes. */
static void fill_scales(const ts_case *c, uint64_t seed, float *to, int64_t n, char which)
{
    int power = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ts_is(c, "subnormal")) power = 8;
        if (ts_is(c, "extreme") && which != 'v') power = -8;
        if (ts_is(c, "scaled")) power = which == 'q' ? 30 : which == 'k' ? -30 : i % 2 ? 12 : -12;
        const double s = ts_is(c, "tail") ? 1 : 1.25 + 0.75 * ts_uniform(seed, i);
        to[i] = (float)ldexp(s, power);
    }
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    fp8_args                 *a = args;
    const ts_attention_dims   d = ts_attention_dims_of(c);
    const ts_attention_family f = draws_of(c);
    const int64_t             D = d.head_dim, Q = d.n_batch * d.n_q_head * d.n_q;
    const int64_t             K = d.n_batch * d.n_kv_head * d.n_k, B = d.n_batch, H = d.n_kv_head;
    ts_attention_dims         codes = d;
    codes.dtype = TS_E4M3;
    *a = (fp8_args) { .d = d };
    ts_attention_scalars(m, &d);
    void  *q = ts_take(m, &a->q, (ts_buf) { "q", TS_IN, TS_E4M3, Q, D, D });
    void  *k = ts_take(m, &a->k, (ts_buf) { "k", TS_IN, TS_E4M3, K, D, D });
    void  *v = ts_take(m, &a->v, (ts_buf) { "v", TS_IN, TS_E4M3, K, D, D });
    float *qs =
        ts_take(m, &a->q_scale, (ts_buf) { "q_scale", TS_IN, TS_F32, B, d.n_q_head, d.n_q_head });
    float *ks = ts_take(m, &a->k_scale, (ts_buf) { "k_scale", TS_IN, TS_F32, B, H, H });
    float *vs = ts_take(m, &a->v_scale, (ts_buf) { "v_scale", TS_IN, TS_F32, B, H, H });
    ts_take(m, &a->o, (ts_buf) { "o", TS_OUT, d.dtype, Q, D, D });
    if (!(c->dim[7] % 10 & TS_FORM_NO_LSE))
        ts_take(m, &a->lse, (ts_buf) { "lse", TS_OUT, TS_F32, 1, Q, Q });
    ts_attention_take_lengths(c, ts_mix(seed + 4), m, &a->kv_len);
    fill_scales(c, ts_mix(seed + 5), qs, B * d.n_q_head, 'q');
    fill_scales(c, ts_mix(seed + 6), ks, B * H, 'k');
    fill_scales(c, ts_mix(seed + 7), vs, B * H, 'v');
    ts_attention_fill(c, &codes, a->kv_len, ts_mix(seed), q, d.n_q_head, d.n_q, f.q);
    ts_attention_fill(c, &codes, a->kv_len, ts_mix(seed + 1), k, H, d.n_k, f.k);
    ts_attention_fill(c, &codes, a->kv_len, ts_mix(seed + 2), v, H, d.n_k, f.v);
}

/* ---- oracle ---- */

typedef struct scored {
    double s, p, size, part; /* size: of all products; part: of those of one sign; scaled */
} scored;

typedef struct answer {
    double value[256], error[256], lse, lse_error;
} answer;

/* Returns the largest score: NaN if one is NaN, as none is infinite. */
static double scores(int64_t D, ts_span keys, double scale, const double *q, const double *k,
                     scored *y)
{
    double max = -INFINITY;
    for (int64_t j = keys.begin; j < keys.end; j++) {
        double plus = 0, minus = 0;
        for (int64_t e = 0; e < D; e++) {
            const double x = q[e] * k[j * D + e];
            if (x > 0) plus += x;
            else minus -= x;
        }
        const double s = scale * (plus - minus), by = fabs(scale);
        if (isnan(s)) return NAN;
        if (s > max) max = s;
        y[j] = (scored) { s, 0, by * (plus + minus), by * fmax(plus, minus) };
    }
    return max;
}

/* One row. q, k and v are codes' values, of one batch and head. */
static void work_out(const ts_attention_dims *d, ts_span keys, double scale, double v_scale,
                     const double *q, const double *k, const double *v, scored *y, answer *a)
{
    const int64_t D = d->head_dim, n = keys.end - keys.begin;
    const double  u = ts_attention_u(TS_F32), tile = SUM8 * (double)(n < TILE8 ? n : TILE8);
    const double  all_u = u * (double)(n + 16); /* of a sum over all keys */
    const double  max = scores(D, keys, scale, q, k, y);
    double        sum = 0, mean_error = 0;
    for (int64_t e = 0; e < D; e++) a->value[e] = isnan(max) ? NAN : 0, a->error[e] = 0;
    a->lse = max;
    a->lse_error = 0;
    if (!isfinite(max)) return;
    for (int64_t j = keys.begin; j < keys.end; j++) sum += y[j].p = ts_exp64(y[j].s - max);
    for (int64_t j = keys.begin; j < keys.end; j++) {
        const double p = y[j].p / sum, lost = ts_attention_lost(y[j].p, TS_F32) / sum;
        const double off = ts_attention_kappa(D) * u * y[j].size + (double)D * SUM8 * y[j].part +
                           u * fabs(y[j].s - max);
        const double all = (1 + off) * (1 + W8) * (1 + tile + all_u) - 1;
        mean_error += p * off + lost;
        for (int64_t e = 0; e < D; e++) {
            const double x = v_scale * v[j * D + e];
            a->value[e] += p * x;
            a->error[e] += (p * all + lost + LOST8 / sum) * fabs(x);
        }
    }
    for (int64_t e = 0; e < D; e++) a->error[e] += (mean_error + all_u) * fabs(a->value[e]);
    a->lse = max + ts_real_log(ts_real_of(sum)).hi;
    a->lse_error = mean_error + all_u + 2 * u * fabs(max);
}

/* want: the numbers of the rows that are computed, their o, their lse */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const fp8_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t D = d->head_dim, n = ts_attention_picked_q(d), share = d->n_q_head / d->n_kv_head;
    double       *q = ts_attention_wide(d, a->q, TS_E4M3, d->n_q_head, d->n_q, D);
    double       *k = ts_attention_wide(d, a->k, TS_E4M3, d->n_kv_head, d->n_k, D);
    double       *v = ts_attention_wide(d, a->v, TS_E4M3, d->n_kv_head, d->n_k, D);
    scored       *scratch = malloc((size_t)(d->n_k + 1) * sizeof *scratch);
    ts_want      *o = want + n, *lse = o + n * D;
    (void)c;
    if (!scratch) abort();
    ts_attention_pick(d->n_batch * d->n_q_head * d->n_q, n, want);
    for (int64_t r = 0; r < n; r++) {
        const int64_t row = (int64_t)want[r].value, i = row % d->n_q, h = row / d->n_q;
        const int64_t g = h / share, first = g * d->n_k * D;
        const ts_span keys = ts_attention_keys(d, a->kv_len, h / d->n_q_head, i);
        answer        x;
        if (d->n_k == 0) work_out(d, keys, 0, 0, q + row * D, k, v, scratch, &x);
        else
            work_out(d, keys, d->scale * (double)a->q_scale[h] * (double)a->k_scale[g],
                     (double)a->v_scale[g], q + row * D, k + first, v + first, scratch, &x);
        for (int64_t e = 0; e < D; e++)
            o[r * D + e] = ts_attention_stored(x.value[e], x.error[e], d->dtype);
        lse[r] = ts_attention_stored(x.lse, x.lse_error, TS_F32);
        if (isnan(x.lse)) lse[r].bound = INFINITY; /* a NaN row's may be anything */
    }
    free(q);
    free(k);
    free(v);
    free(scratch);
}

/* ---- check, cost, invalid calls ---- */

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const fp8_args *a = args;
    (void)c;
    return ts_attention_forward_check(&a->d, a->kv_len, a->o, a->lse, true, want, f, e);
}

static ts_cost cost(const ts_case *c)
{
    return ts_attention_forward_cost(c, 1 + (double)ts_format_of(c->dtype)->n_bytes, 2);
}

#define FOUR(x)    x, x, x, x
#define SIXTEEN(x) FOUR(x), FOUR(x), FOUR(x), FOUR(x)
static const float zero[64], minus[] = { FOUR(SIXTEEN(-1)) },
                             not_a_number[] = { FOUR(SIXTEEN(NAN)) },
                             infinite[] = { FOUR(SIXTEEN(INFINITY)) };

#define SCALES(member)                                                                             \
    TS_BAD_TO(fp8_args, TS_E_ARG | TS_HOST, member, zero),                                         \
        TS_BAD_TO(fp8_args, TS_E_ARG | TS_HOST, member, minus),                                    \
        TS_BAD_TO(fp8_args, TS_E_ARG | TS_HOST, member, not_a_number),                             \
        TS_BAD_TO(fp8_args, TS_E_ARG | TS_HOST, member, infinite)

static_assert(offsetof(fp8_args, d) == 0, "the dims come first");
static const ts_bad bad[] = {
    SCALES(q_scale),
    SCALES(k_scale),
    SCALES(v_scale),
    TS_BAD(fp8_args, TS_E_DTYPE, d.dtype, TS_F64),
    TS_ATTENTION_BAD(fp8_args, k_scale),
    { 0 },
};

static const ts_invalid invalid = {
    .pointer = { TS_POINTER(fp8_args, q), TS_POINTER(fp8_args, k), TS_POINTER(fp8_args, v),
                 TS_POINTER(fp8_args, q_scale), TS_POINTER(fp8_args, k_scale),
                 TS_POINTER(fp8_args, v_scale), TS_POINTER(fp8_args, o) },
    TS_ATTENTION_EXTENTS,
    .bad = bad,
};

const ts_task ts_task_flash_attention_fp8 = {
    .name = "flash_attention_fp8",
    TS_ATTENTION_TASK,
    .no_challenge = true,
    .buffer = { { "q", TS_IN, 4, false },
                { "k", TS_IN, 4, false },
                { "v", TS_IN, 4, false },
                { "q_scale", TS_IN, 2, false },
                { "k_scale", TS_IN, 2, false },
                { "v_scale", TS_IN, 2, false },
                { "o", TS_OUT, 4, false },
                { "lse", TS_OUT, 3, false },
                { "kv_len", TS_IN, 1, true } },
    .args_bytes = sizeof(fp8_args),
    .cases = ts_flash_attention_fp8_cases,
    .cover = &ts_flash_attention_fp8_cover,
    .setup = setup,
    .n_want = ts_attention_forward_n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
};
