/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_three_pass.c - the three-pass method: reads each row for its maximum, for the sum of
 * the exponentials, and for its k largest elements.
 *
 * No softmax is stored and no workspace is needed, but two of the three passes read the row again.
 * */
#include <math.h>
#include <stdbool.h>

#include "dtype.h"
#include "softmax_topk_impl.h"
#include "threads.h"

typedef struct row {
    const void *logits;
    ts_dtype    dtype;
    int64_t     begin, n;
} row;

static double at(const row *r, int64_t i)
{
    return ts_load(r->logits, r->dtype, r->begin + i);
}

/* The first pass. NaN where the row has a NaN or +inf. */
static double max_of(const row *r)
{
    double m = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        const double x = at(r, i);
        if (isnan(x) || x == INFINITY) return (double)NAN;
        if (x > m) m = x;
    }
    return m;
}

/* -inf has no weight, even where it is the maximum. */
static double weight(double x, double m, double t)
{
    return x == -INFINITY ? 0 : exp(t * (x - m));
}

/* The second pass. */
static double sum_of(const row *r, double m, double t)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) sum += weight(at(r, i), m, t);
    return sum;
}

/* The third pass: a sorted list in the outputs themselves, each index with its logit, which a float
 * represents exactly in every dtype, in place of its probability. Elements come by ascending index,
 * so among equal ones a new one goes last. */
static int64_t top(const row *r, int64_t k, int32_t *index, float *logit)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const float x = (float)at(r, i);
        if (n == k && !(x > logit[k - 1])) continue;
        int64_t j = n < k ? n++ : k - 1;
        for (; j > 0 && x > logit[j - 1]; j--) {
            index[j] = index[j - 1];
            logit[j] = logit[j - 1];
        }
        index[j] = (int32_t)i;
        logit[j] = x;
    }
    return n;
}

static void do_row(const ts_softmax_topk_args *a, int64_t number)
{
    const row    r = { a->logits, a->dtype, number * a->row_stride, a->n_vocab };
    const double t = a->inv_temperature, m = max_of(&r);
    const bool   nonfinite = isnan(m);
    const double sum = nonfinite ? (double)NAN : sum_of(&r, m, t);
    if (a->lse)
        a->lse[number] = nonfinite ? NAN : sum > 0 ? (float)(t * m + log(sum)) : (float)-INFINITY;
    if (a->k == 0) return;
    int32_t *const index = a->index + number * a->k;
    float *const   prob = a->prob + number * a->k;
    const int64_t  n = nonfinite ? 0 : top(&r, a->k, index, prob);
    for (int64_t j = 0; j < n; j++)
        prob[j] = sum > 0 ? (float)(weight((double)prob[j], m, t) / sum) : 0;
    for (int64_t j = n; j < a->k; j++) {
        index[j] = -1;
        prob[j] = nonfinite ? NAN : 0;
    }
}

static ts_status run(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = args;
    const int                   n = ts_threads(x);
    if (a->n_rows == 0) return TS_OK;
#pragma omp parallel for num_threads(n < a->n_rows ? n : (int)a->n_rows) schedule(dynamic)
    for (int64_t i = 0; i < a->n_rows; i++) do_row(a, i);
    return TS_OK;
}

static const ts_impl rows[] = {
    { "three_pass", TS_CPU, 0, TS_HAS_FAST, run, NULL, NULL },
    { 0 },
};

ts_status ts_softmax_topk_three_pass_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_softmax_topk_args *a = args;
    const ts_status             s = n_bytes ? ts_softmax_topk_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(rows, a->dtype, a, x, n_bytes);
}

ts_status ts_softmax_topk_three_pass(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = args;
    const ts_status             s = ts_softmax_topk_check(a, x);
    return s ? s : ts_impl_run(rows, a->dtype, a, x, NULL);
}
