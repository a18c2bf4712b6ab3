/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_ref.c - the reference implementation: the definition in the order of
 * cross_entropy.h, for every dtype and shape.
 *
 * Arithmetic is double throughout; one thread; the workspace contains one row of logits and one of
 * dw. dw's logits are computed again, one word after the other. */
#include <math.h>
#include <stdbool.h>

#include "cross_entropy_impl.h"
#include "dtype.h"
#include "scratch.h"

/* The arguments of both functions in addition to rows and gradients. */
typedef struct rule {
    double  g, smoothing, z_loss, softcap;
    int64_t n_vocab;
} rule;

typedef struct summary {
    double lse, loss;
} summary;

static double capped(const rule *r, double x)
{
    return r->softcap > 0 ? r->softcap * tanh(x / r->softcap) : x;
}

/* A sum that keeps what each addition rounds away and gives it back to the next: the roundings of
 * equal terms would add up instead of cancelling. */
typedef struct total {
    double sum, lost;
} total;

static void add(total *t, double term)
{
    const double x = term - t->lost, next = t->sum + x;
    t->lost = isfinite(next) ? (next - t->sum) - x : 0;
    t->sum = next;
}

/* Of the row of logits that begins at element `at` of x; both NaN where there is no largest number.
 */
static summary summarise(const rule *r, const void *x, ts_dtype t, int64_t at, int32_t target)
{
    const double s = r->smoothing;
    double       m = -INFINITY;
    total        sum = { 0, 0 }, z_sum = { 0, 0 };
    for (int64_t v = 0; v < r->n_vocab; v++) {
        const double z = capped(r, ts_load(x, t, at + v));
        if (!(z <= m)) m = z;
    }
    if (!isfinite(m)) return (summary) { NAN, NAN };
    for (int64_t v = 0; v < r->n_vocab; v++) {
        const double z = capped(r, ts_load(x, t, at + v));
        add(&sum, exp(z - m)); /* NaN where any z is one */
        if (s > 0) add(&z_sum, z);
    }
    const double lse = m + log(sum.sum);
    double       loss = lse + r->z_loss * lse * lse;
    if (s < 1) loss -= (1 - s) * capped(r, ts_load(x, t, at + target));
    if (s > 0) loss -= s * (z_sum.sum / (double)r->n_vocab);
    return (summary) { lse, loss };
}

static double gradient(const rule *r, double x, double lse, bool is_target)
{
    const double t = r->softcap > 0 ? tanh(x / r->softcap) : 0;
    const double p = exp(capped(r, x) - lse), s = r->smoothing;
    const double dz =
        (1 + 2 * r->z_loss * lse) * p - (is_target ? 1 - s : 0) - s / (double)r->n_vocab;
    return r->g * dz * (1 - t * t);
}

static int64_t n_counted(const int32_t *target, int64_t n, int32_t ignored)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += target[i] != ignored;
    return count;
}

static double share_of(double scale, int mean, int64_t n)
{
    return mean && n ? scale / (double)n : scale;
}

static void put_total(void *total, ts_dtype wide, double sum, int mean, int64_t n)
{
    ts_store(total, wide, 0, mean ? sum / (double)n : sum);
}

/* ---- from hidden states ---- */

static double logit(const ts_cross_entropy_args *a, int64_t i, int64_t v)
{
    double sum = a->bias ? ts_load(a->bias, a->dtype, v) : 0;
    for (int64_t k = 0; k < a->n_hidden; k++)
        sum += ts_load(a->h, a->dtype, i * a->h_stride + k) *
               ts_load(a->w, a->dtype, v * a->w_stride + k);
    return sum;
}

/* Adds to what is there, or replaces it. */
static void put(const ts_cross_entropy_args *a, void *to, int64_t at, double v)
{
    ts_store(to, a->grad_dtype, at, a->accumulate ? ts_load(to, a->grad_dtype, at) + v : v);
}

/* x: the row's dx */
static void put_dh(const ts_cross_entropy_args *a, int64_t i, const double *x, bool counted)
{
    for (int64_t k = 0; k < a->n_hidden; k++) {
        double sum = 0;
        for (int64_t v = 0; v < a->n_vocab && counted; v++)
            sum += x[v] * ts_load(a->w, a->dtype, v * a->w_stride + k);
        put(a, a->dh, i * a->h_stride + k, sum);
    }
}

static void put_dw(const ts_cross_entropy_args *a, const rule *r, int64_t v, double *sum)
{
    for (int64_t k = 0; k < a->n_hidden; k++) sum[k] = 0;
    for (int64_t i = 0; i < a->n_rows; i++) {
        if (a->target[i] == a->ignore_index) continue;
        const double lse = ts_load(a->lse, ts_wide(a->dtype), i);
        const double dx = gradient(r, logit(a, i, v), lse, v == a->target[i]);
        for (int64_t k = 0; k < a->n_hidden; k++)
            sum[k] += dx * ts_load(a->h, a->dtype, i * a->h_stride + k);
    }
    for (int64_t k = 0; k < a->n_hidden; k++) put(a, a->dw, v * a->w_stride + k, sum[k]);
}

ts_status ts_cross_entropy_ref_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_cross_entropy_args *a = args;
    (void)x;
    *n_bytes = TS_LINE;
    ts_cut(NULL, n_bytes, a->n_vocab, sizeof(double));
    ts_cut(NULL, n_bytes, a->n_hidden, sizeof(double));
    return TS_OK;
}

ts_status ts_cross_entropy_ref(const void *args, const ts_exec *x)
{
    const ts_cross_entropy_args *a = args;
    const ts_dtype               wide = ts_wide(a->dtype);
    const int64_t                n = n_counted(a->target, a->n_rows, a->ignore_index);
    const rule r = { share_of(a->scale, a->mean, n), a->smoothing, a->z_loss, a->softcap,
                     a->n_vocab };
    size_t     used = 0;
    double    *line = ts_cut(ts_scratch(x), &used, a->n_vocab, sizeof *line);
    double    *sum = ts_cut(ts_scratch(x), &used, a->n_hidden, sizeof *sum);
    total      losses = { 0, 0 };
    for (int64_t i = 0; i < a->n_rows; i++) {
        const bool counted = a->target[i] != a->ignore_index;
        summary    s = { 0, 0 };
        for (int64_t v = 0; v < a->n_vocab && counted; v++) line[v] = logit(a, i, v);
        if (counted) s = summarise(&r, line, TS_F64, 0, a->target[i]);
        ts_store(a->lse, wide, i, s.lse);
        ts_store(a->loss, wide, i, s.loss);
        add(&losses, s.loss);
        for (int64_t v = 0; v < a->n_vocab && counted && a->dh; v++)
            line[v] = gradient(&r, line[v], s.lse, v == a->target[i]);
        if (a->dh) put_dh(a, i, line, counted);
    }
    put_total(a->total, wide, losses.sum, a->mean, n);
    for (int64_t v = 0; v < a->n_vocab && a->dw; v++) put_dw(a, &r, v, sum);
    return TS_OK;
}

/* ---- from logits ---- */

ts_status ts_cross_entropy_logits_ref(const void *args, const ts_exec *x)
{
    const ts_cross_entropy_logits_args *a = args;
    const ts_dtype                      t = a->dtype, wide = ts_wide(t);
    const int64_t                       n = n_counted(a->target, a->n_rows, a->ignore_index);
    const rule  r = { share_of(a->scale, a->mean, n), a->smoothing, a->z_loss, a->softcap,
                      a->n_vocab };
    void *const to = a->in_place ? a->logits : a->dlogits;
    total       sum = { 0, 0 };
    (void)x;
    for (int64_t i = 0; i < a->n_rows; i++) {
        const int64_t at = i * a->row_stride;
        const bool    counted = a->target[i] != a->ignore_index;
        summary       s = { 0, 0 };
        if (counted) s = summarise(&r, a->logits, t, at, a->target[i]);
        ts_store(a->lse, wide, i, s.lse);
        ts_store(a->loss, wide, i, s.loss);
        add(&sum, s.loss);
        for (int64_t v = 0; v < a->n_vocab && to; v++) {
            const double l = ts_load(a->logits, t, at + v);
            ts_store(to, t, at + v, counted ? gradient(&r, l, s.lse, v == a->target[i]) : 0);
        }
    }
    put_total(a->total, wide, sum.sum, a->mean, n);
    return TS_OK;
}
