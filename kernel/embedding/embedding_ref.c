/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_ref.c - the definition of embedding, for every dtype, shape and magnitude. Arithmetic
 * is double throughout; one thread; no workspace. */
#include <stdbool.h>

#include "dtype.h"
#include "embedding_impl.h"
#include "total.h"
#include "whole.h"

ts_status ts_embedding_forward_ref(const void *args, const ts_exec *x)
{
    const ts_embedding_forward_args *a = args;
    (void)x;
    for (int64_t i = 0; i < a->n_rows; i++)
        for (int64_t c = 0; c < a->n_cols; c++) {
            const double v = ts_load(a->table, a->dtype, a->token[i] * a->table_stride + c);
            ts_store(a->y, a->y_dtype, i * a->y_stride + c, a->scale * v);
        }
    return TS_OK;
}

enum { COLUMNS = 64 }; /* summed at a time */

/* sum[0..n) of the rows of dy from i on that have its token. NaN and infinities leave the
 * correction without meaning, and the plain sum says what they add up to. */
static void sum_rows(const ts_embedding_backward_args *a, int64_t i, int64_t from, int64_t n,
                     double *sum)
{
    ts_total total[COLUMNS] = { { 0, 0 } };
    double   plain[COLUMNS] = { 0 };
    for (int64_t k = i; k < a->n_rows; k++) {
        if (a->token[k] != a->token[i]) continue;
        for (int64_t c = 0; c < n; c++) {
            const double dy = ts_load(a->dy, a->dtype, k * a->dy_stride + from + c);
            ts_total_add(&total[c], dy);
            plain[c] += dy;
        }
    }
    for (int64_t c = 0; c < n; c++) sum[c] = plain[c] - plain[c] == 0 ? total[c].sum : plain[c];
}

static bool is_first(const ts_embedding_backward_args *a, int64_t i)
{
    for (int64_t k = 0; k < i; k++)
        if (a->token[k] == a->token[i]) return false;
    return true;
}

ts_status ts_embedding_backward_ref(const void *args, const ts_exec *x)
{
    const ts_embedding_backward_args *a = args;
    const ts_dtype                    wide = ts_wide(a->dtype);
    (void)x;
    for (int64_t t = 0; t < a->n_vocab && !a->accumulate; t++)
        for (int64_t c = 0; c < a->n_cols; c++)
            ts_store(a->dtable, wide, t * a->table_stride + c, 0);
    for (int64_t i = 0; i < a->n_rows; i++)
        for (int64_t from = 0; from < a->n_cols && is_first(a, i); from += COLUMNS) {
            const int64_t n = ts_lesser(COLUMNS, a->n_cols - from);
            double        sum[COLUMNS];
            sum_rows(a, i, from, n, sum);
            for (int64_t c = 0; c < n; c++) {
                const int64_t at = a->token[i] * a->table_stride + from + c;
                ts_store(a->dtable, wide, at, ts_load(a->dtable, wide, at) + a->scale * sum[c]);
            }
        }
    return TS_OK;
}
