/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_impl.h - implementations of embedding. Private. */
#ifndef TS_EMBEDDING_IMPL_H
#define TS_EMBEDDING_IMPL_H

#include "impl.h"
#include "touchstone/embedding.h"

extern const ts_impl ts_embedding_forward_impls[], ts_embedding_backward_impls[];

TS_DECLARE_IMPLS(ts_embedding_forward)

TS_DECLARE_IMPLS(ts_embedding_backward)

/* Of the threaded ones: rows of y from begin to end. */
typedef void (*ts_embedding_copy)(const ts_embedding_forward_args *a, int64_t begin, int64_t end);

/* Of the threaded ones: n_cols columns of a token's row of dtable, from column `from` on, out of
 * the n rows of dy that are listed. Where dtable is added to, there are some. */
typedef void (*ts_embedding_sum)(const ts_embedding_backward_args *a, int64_t token,
                                 const int64_t *row, int64_t n, int64_t from, int64_t n_cols);

ts_status ts_embedding_forward_threads(const ts_embedding_forward_args *a, const ts_exec *x,
                                       ts_embedding_copy copy);
ts_status ts_embedding_backward_threads(const ts_embedding_backward_args *a, const ts_exec *x,
                                        ts_embedding_sum sum);
ts_status ts_embedding_backward_threads_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes);

#endif
