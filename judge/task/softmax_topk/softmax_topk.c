/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk.c - task: the k most probable elements of each row. Inputs, the oracle with its
 * bounds, the least cost.
 *
 * The cases are in softmax_topk_cases.c, their logits in softmax_topk_draw.c. The oracle computes
 * in double from the rounded logits, with a compensated sum. It ranks pairs of logit and index by
 * comparison, in a heap: another method than any that is judged. Index and probability of a place
 * come from the same element, so outputs that were sorted separately fail.
 *
 * The common contract has every textbook formula: z = t x before the softmax, or x / T; p = exp(z -
 * lse); a sum in one loop; and the k largest of the probabilities instead of the logits. Then z
 * errs by 2u of itself, z - z_max and the sum by that of z_max too, lse by u of itself and of
 * z_max. So p errs by (V + 2 |z| + 7 |z_max|) u more than by the canon, as |lse| <= |z_max| + ln V,
 * and ln V is within kappa; lse by (V + 6 |z_max|) u more. Where that says nothing of p, some is
 * known of the largest logit, whose z is z_max, and at t = 1, where z is x, of all: z_max + ln sum,
 * rounded, is no less than z_max and at most 2 ln sum more, so exp(z - lse) is from p / sum to p
 * sum. */
#include "touchstone/softmax_topk.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "softmax_topk_cases.h"
#include "spoil.h"

static const char NONFINITE[] =
    "a row with a NaN or +inf, and no other, has indices -1 and probabilities NaN";
static const char HOLES[] = "-inf has weight 0, even if a row begins with many";

enum { COOL = TS_MAX_DIMS };

static const double U = 0x1p-24; /* of float, in which every kernel may reckon */

static double kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

/* ---- inputs ---- */

static void draw(const ts_case *c, uint64_t seed, void *logits, int64_t stride)
{
    const ts_softmax_topk_draw of = ts_softmax_topk_draw_of(c->family);
    const int64_t              V = c->dim[1];
    for (int64_t r = 0; r < c->dim[0]; r++) {
        ts_softmax_topk_row w = { c->dtype, seed, c->dim[0], r, V, c->dim[2], 0 };
        if (V) w.chosen = (int64_t)(ts_bits(seed + 8, r) % (uint64_t)V);
        for (int64_t i = 0; i < V; i++) ts_store(logits, c->dtype, r * stride + i, of(&w, i));
    }
}

/* Where pad is odd the logits come third: nothing may depend on the order of the buffers. */
static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_softmax_topk_args *a = args;
    const int64_t         R = c->dim[0], V = c->dim[1], K = c->dim[2], S = V + c->dim[3];
    const ts_buf          logits = { "logits", TS_IN, c->dtype, R, V, S };
    const bool            third = c->dim[3] % 2 != 0;
    *a = (ts_softmax_topk_args) { .dtype = c->dtype, .n_rows = R, .n_vocab = V, .row_stride = S };
    a->k = K;
    /* A float, so that rounding it has no effect. */
    static const double cool[] = { 1, 0x1p-100, 0x1p60, 0x1p120, 0x1p-125 };
    a->inv_temperature = (double)((float)c->dim[4] / 100) * cool[c->dim[COOL]];
    ts_scalar(m, "k", (double)K);
    ts_scalar(m, "inv_temperature", a->inv_temperature);
    void *x = third ? NULL : ts_take(m, &a->logits, logits);
    if (K) {
        ts_take(m, &a->index, (ts_buf) { "index", TS_OUT, TS_I32, R, K, K });
        ts_take(m, &a->prob, (ts_buf) { "prob", TS_OUT, TS_F32, R, K, K });
    }
    if (third) x = ts_take(m, &a->logits, logits);
    if (c->dim[5]) ts_take(m, &a->lse, (ts_buf) { "lse", TS_OUT, TS_F32, 1, R, R });
    draw(c, ts_mix(seed), x, S);
}

/* ---- the canonical order ---- */

typedef struct entry {
    double  x;
    int64_t index;
} entry;

static bool before(entry a, entry b)
{
    return a.x > b.x || (a.x == b.x && a.index < b.index);
}

/* heap[0 .. n) has its last entry in canonical order on top; e takes the place at `hole`, from
 * which smaller ones are moved up. */
static void sift(entry *heap, int64_t n, int64_t hole, entry e)
{
    for (int64_t child; (child = 2 * hole + 1) < n; hole = child) {
        if (child + 1 < n && before(heap[child], heap[child + 1])) child++;
        if (!before(e, heap[child])) break;
        heap[hole] = heap[child];
    }
    heap[hole] = e;
}

/* The first k of the row, in order; k <= n_vocab. */
static void first_of(const ts_softmax_topk_args *a, int64_t begin, entry *list, int64_t k)
{
    if (!k) return;
    for (int64_t i = 0; i < k; i++)
        list[i] = (entry) { ts_load(a->logits, a->dtype, begin + i), i };
    for (int64_t i = k / 2; i-- > 0;) sift(list, k, i, list[i]);
    for (int64_t i = k; i < a->n_vocab; i++) {
        const entry e = { ts_load(a->logits, a->dtype, begin + i), i };
        if (before(e, list[0])) sift(list, k, 0, e);
    }
    for (int64_t n = k - 1; n > 0; n--) { /* the last of all goes to the end */
        const entry last = list[0];
        sift(list, n, 0, list[n]);
        list[n] = last;
    }
}

/* ---- oracle ---- */

typedef struct row_sum {
    double max, sum;  /* sum of exp(t (x - max)); 0 where nothing is finite */
    bool   nonfinite; /* a NaN or +inf is in it */
} row_sum;

/* Neumaier's sum: what each addition loses is kept apart. */
static row_sum sum_of(const ts_softmax_topk_args *a, int64_t begin)
{
    row_sum s = { -INFINITY, 0, false };
    double  lost = 0;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const double x = ts_load(a->logits, a->dtype, begin + i);
        s.nonfinite |= isnan(x) || x == INFINITY;
        if (x > s.max) s.max = x;
    }
    for (int64_t i = 0; i < a->n_vocab && !s.nonfinite; i++) {
        const double x = ts_load(a->logits, a->dtype, begin + i);
        if (x == -INFINITY) continue;
        const double term = ts_exp64(a->inv_temperature * (x - s.max)), sum = s.sum + term;
        lost += s.sum >= term ? s.sum - sum + term : term - sum + s.sum;
        s.sum = sum;
    }
    s.sum += lost;
    return s;
}

/* p = exp(z - z_max) / sum. Forming z - z_max in float errs by up to 2u of itself, which is p's
 * relative error; 16 roundings are for the exponential and the quotient, kappa for the sum. What is
 * below the smallest normal may be flushed. */
static ts_want want_prob(double x, const row_sum *s, const ts_softmax_topk_args *a)
{
    if (x == -INFINITY) return (ts_want) { 0, 0 };
    const double d = a->inv_temperature * (x - s->max), p = ts_exp64(d) / s->sum;
    const double error = p * (2 * fabs(d) + 16 + kappa(a->n_vocab)) * U;
    return (ts_want) { p, error + (double)FLT_MIN * U + (p - error < (double)FLT_MIN ? p : 0) };
}

/* lse = z_max + ln sum. A relative error of the sum is an absolute one of its logarithm: kappa for
 * adding, and 16 roundings for the exponentials and the logarithm; that the terms err by 2u |z -
 * z_max| each makes at most 2 ln(V) u of the whole, since they weigh as their own exponential, and
 * lies within kappa. Forming t * max in float costs 2u of it, with t rounded; storing the result
 * costs u of the result. One that is no float is rounded to infinity. */
static ts_want want_lse(const row_sum *s, const ts_softmax_topk_args *a)
{
    if (s->nonfinite) return (ts_want) { NAN, 0 };
    if (!(s->sum > 0)) return (ts_want) { -INFINITY, 0 };
    const double z = a->inv_temperature * s->max, v = z + ts_log64(s->sum);
    const double error = (16 + kappa(a->n_vocab) + 2 * fabs(z) + fabs(v)) * U;
    if (fabs(v) + error <= (double)FLT_MAX) return (ts_want) { v, error };
    if (fabs(v) - error > (double)FLT_MAX) return (ts_want) { copysign(INFINITY, v), 0 };
    /* On the brink. Of a largest number at t = 1 nothing is rounded but the sum. */
    return (ts_want) { v, a->inv_temperature == 1 ? error : INFINITY };
}

/* The same by the common contract. Where nothing is known of p it is between 0 and 1. */
static ts_want want_prob_any(double x, const row_sum *s, const ts_softmax_topk_args *a)
{
    ts_want w = want_prob(x, s, a);
    if (x == -INFINITY) return w;
    const double t = a->inv_temperature, d = t * (x - s->max);
    const double share = 2 * fabs(d) + 16 + kappa(a->n_vocab) + (double)a->n_vocab +
                         2 * fabs(t * x) + 7 * fabs(t * s->max);
    const double most = w.value * s->sum, least = w.value / s->sum, V = (double)a->n_vocab;
    const double error = w.bound * s->sum + V * U * most;
    w.bound = fmin(w.bound + w.value * expm1(share * U), 1);
    if ((t == 1 || x == s->max) && (most - least) / 2 + error < w.bound)
        w = (ts_want) { (most + least) / 2, (most - least) / 2 + error };
    return w;
}

static ts_want want_lse_any(const row_sum *s, const ts_softmax_topk_args *a)
{
    ts_want w = want_lse(s, a);
    if (isfinite(w.value))
        w.bound += ((double)a->n_vocab + 6 * fabs(a->inv_temperature * s->max)) * U;
    return w;
}

static size_t n_want(const ts_case *c)
{
    return (size_t)(c->dim[0] * (2 * c->dim[2] + (c->dim[5] != 0)));
}

/* want: index row by row, then prob, then lse if requested */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_softmax_topk_args *a = args;
    const int64_t               R = a->n_rows, K = a->k, n = K < a->n_vocab ? K : a->n_vocab;
    ts_want                    *index = want, *prob = index + R * K, *lse = prob + R * K;
    entry                      *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) abort();
    for (int64_t r = 0; r < R; r++) {
        const row_sum s = sum_of(a, r * a->row_stride);
        if (!s.nonfinite) first_of(a, r * a->row_stride, list, n);
        for (int64_t j = 0; j < K; j++) {
            const bool there = j < n && !s.nonfinite;
            *index++ = (ts_want) { there ? (double)list[j].index : -1, 0 };
            *prob++ = there ? want_prob(list[j].x, &s, a) : (ts_want) { s.nonfinite ? NAN : 0, 0 };
        }
        if (c->dim[5]) *lse++ = want_lse(&s, a);
    }
    free(list);
}

/* ---- check, cost ---- */

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_softmax_topk_args *a = args;
    const int64_t               R = a->n_rows, K = a->k;
    (void)c;
    if (K && !ts_check_buf((ts_buf) { "index", TS_OUT, TS_I32, R, K, K }, a->index, want, f, e))
        return false;
    if (K &&
        !ts_check_buf((ts_buf) { "prob", TS_OUT, TS_F32, R, K, K }, a->prob, want + R * K, f, e))
        return false;
    return !a->lse || ts_check_buf((ts_buf) { "lse", TS_OUT, TS_F32, 1, R, R }, a->lse,
                                   want + 2 * R * K, f, e);
}

static const char TIES[] = "equal logits are ordered by index, lowest first";
static const char ALL_MASKED[] =
    "a row of -inf has indices 0 to k - 1, probabilities 0 and lse -inf";

static const char PRECISE[] = "elements are ranked by their logits, and probabilities are as "
                              "precise as exp(t (x - max)) / sum";

/* Whether probabilities of both, each computed in float, may be in either order. Where both are 0,
 * one may be that of -inf: PyTorch's topk of its softmax has such orders in every family. */
static bool is_near(const ts_softmax_topk_args *a, const row_sum *s, double x, double y)
{
    const double t = a->inv_temperature, least = 2 * (double)FLT_MIN;
    const double dx = t * (x - s->max), dy = t * (y - s->max);
    const double size =
        fabs(dx) + fabs(dy) + fabs(t * x) + fabs(t * y) + 2 * fabs(t * s->max); /* of errors */
    if (ts_exp64(dx) / s->sum < least && ts_exp64(dy) / s->sum < least) return true;
    return fabs(dx - dy) <= (16 + 2 * size) * U;
}

/* A row by the usual contract: the k largest logits in descending order, each index once, with
 * their probabilities. Equal logits may be in any order; with s, the row's sum, those too whose
 * probabilities are nearly equal. */
static bool row_is_right(const ts_softmax_topk_args *a, int64_t r, const row_sum *s,
                         const ts_want *index, ts_want *prob, uint8_t *taken, ts_flaw *f,
                         ts_errors *e)
{
    const int32_t *got = a->index + r * a->k;
    const int64_t  n = a->k < a->n_vocab ? a->k : a->n_vocab, begin = r * a->row_stride;
    int64_t        j = 0;
    bool           ok = true;
    for (; j < n && ok; j += ok) {
        ok = index[j].value >= 0 && got[j] >= 0 && got[j] < a->n_vocab && !taken[got[j]];
        if (!ok) break;
        const double x = ts_load(a->logits, a->dtype, begin + got[j]);
        const double y = ts_load(a->logits, a->dtype, begin + (int64_t)index[j].value);
        ok = x == y || (s && is_near(a, s, x, y));
        if (ok) taken[got[j]] = 1;
        if (ok && s) prob[j] = want_prob_any(x, s, a);
    }
    for (int64_t i = 0; i < j; i++) taken[got[i]] = 0;
    int32_t poison;
    ts_poison(TS_I32, &poison, sizeof poison);
    if (!ok)
        *f = (ts_flaw) { got[j] == poison ? TS_FAULT_UNWRITTEN : TS_FAULT_VALUE,
                         "index",
                         r,
                         j,
                         got[j],
                         index[j].value,
                         0 };
    const ts_buf past = { "index", TS_OUT, TS_I32, 1, a->k - n, a->k };
    const ts_buf all = { "prob", TS_OUT, TS_F32, 1, a->k, a->k };
    if (!ok) return false;
    if (!ts_check_buf(past, got + n, index + n, f, e)) return f->row = r, f->col += n, false;
    if (!ts_check_buf(all, a->prob + r * a->k, prob, f, e)) return f->row = r, false;
    return true;
}

/* Whether a row of which the usual contract says nothing was written. nan: it is one of NaN. */
static bool row_is_written(const ts_softmax_topk_args *a, int64_t r, bool nan, ts_want *room,
                           ts_flaw *f, ts_errors *e)
{
    const int64_t K = a->k;
    const ts_want any = { nan ? NAN : 0, TS_WRITTEN };
    const ts_buf  index = { "index", TS_OUT, TS_I32, 1, K, K };
    const ts_buf  prob = { "prob", TS_OUT, TS_F32, 1, K, K };
    const ts_buf  lse = { "lse", TS_OUT, TS_F32, 1, 1, 1 };
    for (int64_t j = 0; j < K; j++) room[j] = any;
    if (a->lse && !ts_check_buf(lse, a->lse + r, &any, f, e)) return f->col = r, false;
    if (!K || (ts_check_buf(index, a->index + r * K, room, f, e) &&
               ts_check_buf(prob, a->prob + r * K, room, f, e)))
        return true;
    return f->row = r, false;
}

/* Whether the usual contract says nothing of the row: its first want shows it. */
static bool row_is_excused(const ts_softmax_topk_args *a, int64_t r, const ts_want *want)
{
    return (a->k ? want[r * a->k] : want[a->lse ? r : 0]).bound == TS_WRITTEN;
}

/* With s by the common contract, without by the canon but for the order of equal logits. prob: room
 * for the wants of a row. */
static bool whole_row(const ts_softmax_topk_args *a, int64_t r, const row_sum *s,
                      const ts_want *want, ts_want *prob, uint8_t *taken, ts_flaw *f, ts_errors *e)
{
    const int64_t R = a->n_rows, K = a->k;
    ts_want       lse = want[2 * R * K + (a->lse ? r : 0)];
    if (K) memcpy(prob, want + R * K + r * K, (size_t)K * sizeof *prob);
    if (K && !row_is_right(a, r, s, want + r * K, prob, taken, f, e)) return false;
    if (s && a->lse) lse = want_lse_any(s, a);
    const ts_buf one = { "lse", TS_OUT, TS_F32, 1, 1, 1 };
    if (!a->lse || ts_check_buf(one, a->lse + r, &lse, f, e)) return true;
    return f->col = r, false;
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const ts_softmax_topk_args *a = args;
    const int64_t               where = strcmp(f->what, "lse") ? f->row : f->col;
    const char                 *rule = TIES;
    uint8_t                    *taken = calloc((size_t)a->n_vocab + 1, 1);
    ts_want                    *prob = calloc((size_t)a->k + 1, sizeof *prob);
    (void)c;
    if (!taken || !prob) abort();
    for (int64_t r = 0; r < a->n_rows && rule; r++) {
        const row_sum   s = sum_of(a, r * a->row_stride);
        const ts_errors before = *e;
        if ((a->n_vocab && s.max == -INFINITY && !s.nonfinite) || row_is_excused(a, r, want)) {
            if (!row_is_written(a, r, s.nonfinite, prob, f, e)) rule = NULL;
            else if (r == where) rule = ALL_MASKED;
            continue;
        }
        if (whole_row(a, r, NULL, want, prob, taken, f, e)) continue;
        *e = before;
        if (s.nonfinite || !whole_row(a, r, &s, want, prob, taken, f, e)) rule = NULL;
        else if (rule == TIES) rule = PRECISE;
    }
    free(taken);
    free(prob);
    return rule;
}

/* Whether no probability of the row, nor its lse, is a number. */
static bool row_is_nan(const ts_softmax_topk_args *a, int64_t r)
{
    const int64_t n = a->k < a->n_vocab ? a->k : a->n_vocab;
    bool          nan = !a->lse || !isfinite(a->lse[r]);
    for (int64_t j = 0; j < n; j++) nan = nan && isnan(a->prob[r * a->k + j]);
    return nan;
}

/* Whether the rule of the case is about the row: a NaN or +inf is in it; it begins with -inf, from
 * which a maximum so far of -inf makes NaN; or t x, or t x log2(e), is no float. If only other
 * elements than the largest overflow, they have weight 0 or, again, make NaN. */
static bool rule_names(const ts_case *c, const ts_softmax_topk_args *a, int64_t r)
{
    const row_sum s = sum_of(a, r * a->row_stride);
    const bool    masked = ts_is(c, "holes") || ts_is(c, "half_masked");
    const double  most = (double)FLT_MAX / 2;
    if (!strncmp(c->family, "nonfinite", 9)) return s.nonfinite;
    if (masked)
        return a->n_vocab && ts_load(a->logits, a->dtype, r * a->row_stride) == -INFINITY &&
               row_is_nan(a, r);
    if (a->inv_temperature * fabs(s.max) > most) return true;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        const double x = fabs(ts_load(a->logits, a->dtype, r * a->row_stride + i));
        if (isfinite(x) && a->inv_temperature * x > most) return row_is_nan(a, r);
    }
    return false;
}

static void excuse(const ts_case *c, const void *args, ts_want *want)
{
    const ts_softmax_topk_args *a = args;
    const int64_t               R = a->n_rows, K = a->k;
    for (int64_t r = 0; r < R; r++) {
        if (!rule_names(c, a, r)) continue;
        ts_excuse(want + r * K, K);
        ts_excuse(want + (R + r) * K, K);
        if (a->lse) ts_excuse(want + 2 * R * K + r, 1);
    }
}

/* Where t x is no float. */
static const ts_canon *canon_of(const ts_case *c)
{
    static const ts_canon huge = { "offset30",
                                   "results are correct even if inv_temperature * logit overflows",
                                   false };
    if (ts_is(c, "offset30")) return &huge;
    return ts_is(c, "floor") && c->dtype != TS_F16 && c->dim[4] > 100 ? &huge : NULL;
}

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    (void)c, (void)args;
    if (strcmp(f->what, "lse"))
        snprintf(s, n, "row %lld, place %lld", (long long)f->row, (long long)f->col);
}

static ts_cost cost(const ts_case *c)
{
    const double R = (double)c->dim[0], V = (double)c->dim[1], K = (double)c->dim[2];
    const double b = (double)ts_format_of(c->dtype)->n_bytes;
    return (ts_cost) { .bytes = R * (V * b + 8 * K + (c->dim[5] ? 4 : 0)),
                       .flops = 3 * R * V,
                       .exps = R * V,
                       .reads_only = true };
}

/* ---- invalid calls ---- */

#define AT(member)     offsetof(ts_softmax_topk_args, member)
#define BAD(must, ...) TS_BAD(ts_softmax_topk_args, TS_E_##must, __VA_ARGS__)

static const ts_bad bad[] = {
    BAD(ARG, inv_temperature, 0, -1, NAN, INFINITY, -INFINITY, 1e-300, 1e300),
    TS_BAD_LIKE(ts_softmax_topk_args, TS_E_SHAPE, row_stride, n_vocab, -1),
    BAD(DTYPE, dtype, TS_U8, TS_U4, TS_F64, TS_I32, 99),
    { 0 },
};

/* n_rows, n_vocab, row_stride, k */
static const ts_invalid invalid = {
    .pointer = { AT(logits) + 1, AT(index) + 1, AT(prob) + 1 },
    .extent = { { AT(n_rows), 0, 0, 0, true, false },
                { AT(n_vocab), 0, INT32_MAX, AT(row_stride), false, false },
                { AT(row_stride), 1, 0, 0, false, true },
                { AT(k), 0, INT32_MAX, 0, false, false } },
    .n_extent = 4,
    .product = { { { 1, 2 } }, { { 1, 3 } }, { { 1, 4 } } },
    .bad = bad,
};

const ts_task ts_task_softmax_topk = {
    .name = "softmax_topk",
    .dim_name = { "rows", "vocab", "k", "pad", "heat", "lse" },
    .dim_says = { "n_rows", "n_vocab", "k", "row_stride - n_vocab", "100 inv_temperature",
                  "1 if lse is wanted" },
    .more_name = { "cool" },
    .more_says = { "1, 2, 3: inv_temperature is also multiplied by 2^-100, 2^60, 2^120" },
    .kind = TS_PLAIN,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .varies = { "heat", INT64_MAX },
    .scarce = { "k", "vocab" },
    .buffer = { { "logits", TS_IN, 2, false },
                { "index", TS_OUT, 2, true },
                { "prob", TS_OUT, 2, false },
                { "lse", TS_OUT, 1, false } },
    .number = { { "k", true }, { "inv_temperature", false } },
    .args_bytes = sizeof(ts_softmax_topk_args),
    .cases = ts_softmax_topk_cases,
    .cover = &ts_softmax_topk_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .canon = { { "nonfinite", NONFINITE, true },
               { "nonfinite_one", NONFINITE, true },
               { "nonfinite_inf", NONFINITE, true },
               { "holes", HOLES, false },
               { "half_masked", HOLES, false },
               { "all_masked", ALL_MASKED, false },
               { "ties", TIES, false },
               { "equal", TIES, false },
               { "sawtooth", TIES, false },
               { "zeros", TIES, false } },
    .canon_of = canon_of,
    .excuse = excuse,
    .common = common,
    .explain = explain,
};
