/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_textbook.c - the textbook method: softmax, then top-k, as two functions with the
 * whole softmax of a row stored between them.
 *
 * That costs a second buffer as wide as the vocabulary, of which k places are read. It differs from
 * the textbook in one respect: it ranks by the logits. By the stored probabilities, all elements
 * whose probability underflows would be equal. */
#include <math.h>
#include <omp.h>
#include <stdbool.h>

#include "dtype.h"
#include "softmax_topk_impl.h"
#include "threads.h"

enum { LINE = 64, MAX_SLOTS = 64 };

typedef struct row {
    const void *logits;
    ts_dtype    dtype;
    int64_t     begin, n;
} row;

static double at(const row *r, int64_t i)
{
    return ts_load(r->logits, r->dtype, r->begin + i);
}

/* ---- softmax ---- */

/* False where the row has no softmax, because of a NaN or +inf. */
static bool softmax(const row *r, double t, float *p, float *lse)
{
    double m = -INFINITY, sum = 0;
    for (int64_t i = 0; i < r->n; i++) {
        const double x = at(r, i);
        if (isnan(x) || x == INFINITY) return false;
        if (x > m) m = x;
    }
    for (int64_t i = 0; i < r->n; i++) {
        const double x = at(r, i);
        const double e = x == -INFINITY ? 0 : exp(t * (x - m)); /* m may be -inf as well */
        p[i] = (float)e;
        sum += e;
    }
    for (int64_t i = 0; i < r->n && sum > 0; i++) p[i] = (float)((double)p[i] / sum);
    *lse = sum > 0 ? (float)(t * m + log(sum)) : (float)-INFINITY;
    return true;
}

/* ---- top k ---- */

static bool before(const row *r, int32_t i, int32_t j)
{
    const double x = at(r, i), y = at(r, j);
    return x > y || (x == y && i < j);
}

/* Lets the entry at j of a heap sink to its place; the root is the one that ranks last. */
static void sink(const row *r, int32_t *heap, int64_t n, int64_t j)
{
    const int32_t moved = heap[j];
    for (int64_t child = 2 * j + 1; child < n; child = 2 * j + 1) {
        if (child + 1 < n && before(r, heap[child], heap[child + 1])) child++;
        if (!before(r, moved, heap[child])) break;
        heap[j] = heap[child];
        j = child;
    }
    heap[j] = moved;
}

/* The first k of the row, in order; k <= n. */
static void top(const row *r, int32_t *heap, int64_t k)
{
    for (int64_t i = 0; i < k; i++) heap[i] = (int32_t)i;
    for (int64_t j = k / 2 - 1; j >= 0; j--) sink(r, heap, k, j);
    for (int64_t i = k; i < r->n; i++) {
        if (!before(r, (int32_t)i, heap[0])) continue;
        heap[0] = (int32_t)i;
        sink(r, heap, k, 0);
    }
    for (int64_t n = k - 1; n > 0; n--) {
        const int32_t last = heap[0];
        heap[0] = heap[n];
        heap[n] = last;
        sink(r, heap, n, 0);
    }
}

static void do_row(const ts_softmax_topk_args *a, int64_t number, float *p)
{
    const row     r = { a->logits, a->dtype, number * a->row_stride, a->n_vocab };
    const int64_t n = a->k < r.n ? a->k : r.n, out = number * a->k;
    float         lse = NAN;
    const bool    finite = softmax(&r, a->inv_temperature, p, &lse);
    if (a->lse) a->lse[number] = lse;
    if (a->k == 0) return; /* there need be no index then */
    if (finite) top(&r, a->index + out, n);
    for (int64_t j = 0; j < a->k; j++) {
        const bool there = finite && j < n;
        if (!there) a->index[out + j] = -1;
        a->prob[out + j] = there ? p[a->index[out + j]] : finite ? 0 : NAN;
    }
}

/* ---- API entry points ---- */

/* How many softmaxes are written side by side: what fits into the larger of 1 MiB and an eighth of
 * the logits, but one at the least. */
static int64_t count_slots(const ts_softmax_topk_args *a)
{
    const int64_t n_bytes = a->n_vocab * (int64_t)sizeof(float);
    const int64_t eighth = a->n_rows * (a->n_vocab * (int64_t)ts_format_of(a->dtype)->n_bytes / 8);
    const int64_t limit = (eighth > 1 << 20 ? eighth : 1 << 20) - LINE;
    const int64_t most = a->n_rows < MAX_SLOTS ? a->n_rows : MAX_SLOTS;
    const int64_t fit = n_bytes ? limit / n_bytes : most;
    return fit < 1 ? 1 : fit < most ? fit : most;
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_softmax_topk_args *a = args;
    (void)x;
    *n_bytes = 0;
    if (a->n_rows && a->n_vocab)
        *n_bytes = (size_t)count_slots(a) * (size_t)a->n_vocab * sizeof(float) + LINE;
    return TS_OK;
}

/* A row's answer depends neither on its thread nor on its slot. */
static ts_status run(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = args;
    if (a->n_rows == 0) return TS_OK;
    const uintptr_t past = a->n_vocab ? (uintptr_t)x->workspace % LINE : 0;
    float *const    slots = a->n_vocab ? (float *)((char *)x->workspace + (LINE - past)) : NULL;
    const int64_t   n_slots = count_slots(a);
    const int       n = ts_threads(x);
#pragma omp parallel for num_threads(n < n_slots ? n : (int)n_slots) schedule(dynamic)
    for (int64_t i = 0; i < a->n_rows; i++)
        do_row(a, i, slots ? slots + omp_get_thread_num() * a->n_vocab : NULL);
    return TS_OK;
}

static const ts_impl rows[] = {
    { "textbook", TS_CPU, 0, TS_HAS_FAST, run, workspace, NULL },
    { 0 },
};

ts_status ts_softmax_topk_textbook_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_softmax_topk_args *a = args;
    const ts_status             s = n_bytes ? ts_softmax_topk_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(rows, a->dtype, a, x, n_bytes);
}

ts_status ts_softmax_topk_textbook(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = args;
    const ts_status             s = ts_softmax_topk_check(a, x);
    return s ? s : ts_impl_run(rows, a->dtype, a, x, NULL);
}
