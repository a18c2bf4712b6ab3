/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_ref.c - the definition: the row's log-sum-exp, then its k first entries. */
#include <math.h>
#include <stdbool.h>

#include "dtype.h"
#include "softmax_topk_impl.h"

typedef struct row {
    const void *logits;
    ts_dtype    dtype;
    int64_t     begin, n;
} row;

static double at(const row *r, int64_t i)
{
    return ts_load(r->logits, r->dtype, r->begin + i);
}

/* Enters i into the sorted list of n entries, of which k may stay. Entries come by rising index, so
 * an equal one goes behind; the new one moves up past those that are smaller. */
static int64_t enter(const row *r, int32_t *list, int64_t n, int64_t k, int64_t i)
{
    const double x = at(r, i);
    if (n == k) {
        if (!(x > at(r, list[k - 1]))) return n;
        n--;
    }
    int64_t j = n;
    for (; j > 0 && x > at(r, list[j - 1]); j--) list[j] = list[j - 1];
    list[j] = (int32_t)i;
    return n + 1;
}

static double max_of(const row *r, bool *nonfinite)
{
    double m = -INFINITY;
    *nonfinite = false;
    for (int64_t i = 0; i < r->n; i++) {
        *nonfinite |= isnan(at(r, i)) || at(r, i) == INFINITY;
        m = fmax(m, at(r, i));
    }
    return m;
}

/* exp(t (x - m)); the row without a finite logit has m = -inf and nothing but zeros. */
static double weight(double x, double m, double t)
{
    return x == -INFINITY ? 0 : exp(t * (x - m));
}

static void do_row(const ts_softmax_topk_args *a, int64_t number)
{
    const row    r = { a->logits, a->dtype, number * a->row_stride, a->n_vocab };
    const double t = a->inv_temperature;
    bool         nonfinite;
    const double m = max_of(&r, &nonfinite);
    double       sum = 0;
    int64_t      n = 0;
    for (int64_t i = 0; i < r.n; i++) sum += weight(at(&r, i), m, t);
    if (a->lse)
        a->lse[number] = nonfinite ? NAN : sum > 0 ? (float)(t * m + log(sum)) : (float)-INFINITY;
    if (a->k == 0) return;
    int32_t *index = a->index + number * a->k;
    float   *prob = a->prob + number * a->k;
    for (int64_t i = 0; i < r.n && !nonfinite; i++) n = enter(&r, index, n, a->k, i);
    for (int64_t j = 0; j < n; j++)
        prob[j] = sum > 0 ? (float)(weight(at(&r, index[j]), m, t) / sum) : 0;
    for (int64_t j = n; j < a->k; j++) {
        index[j] = -1;
        prob[j] = nonfinite ? NAN : 0;
    }
}

ts_status ts_softmax_topk_ref(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = args;
    (void)x;
    for (int64_t i = 0; i < a->n_rows; i++) do_row(a, i);
    return TS_OK;
}
