/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_impl.h - the implementations, and what the threaded CPU ones share. Private. */
#ifndef TS_LAYERNORM_IMPL_H
#define TS_LAYERNORM_IMPL_H

#include "impl.h"
#include "touchstone/layernorm.h"
#include "whole.h"

extern const ts_impl ts_layernorm_forward_impls[], ts_layernorm_backward_impls[];

ts_status ts_layernorm_forward_ref(const void *args, const ts_exec *x);
ts_status ts_layernorm_forward_avx2(const void *args, const ts_exec *x);
ts_status ts_layernorm_forward_avx512(const void *args, const ts_exec *x);
ts_status ts_layernorm_forward_neon(const void *args, const ts_exec *x);

ts_status ts_layernorm_backward_ref(const void *args, const ts_exec *x);
ts_status ts_layernorm_backward_avx2(const void *args, const ts_exec *x);
ts_status ts_layernorm_backward_avx512(const void *args, const ts_exec *x);
ts_status ts_layernorm_backward_neon(const void *args, const ts_exec *x);

/* Rows are cut into the same few chunks whatever the number of threads, so that the order in which
 * dgamma and dbeta are summed, and with it every bit of the result, never depends on it. */
typedef void (*ts_layernorm_forward_rows)(const ts_layernorm_forward_args *a, int64_t row_begin,
                                          int64_t row_end);
/* Also adds the rows' dy * xhat and dy to dgamma[n_cols] and dbeta[n_cols]. */
typedef void (*ts_layernorm_backward_rows)(const ts_layernorm_backward_args *a, int64_t row_begin,
                                           int64_t row_end, float *dgamma, float *dbeta);

ts_status ts_layernorm_forward_threads(const ts_layernorm_forward_args *a, const ts_exec *x,
                                       ts_layernorm_forward_rows rows);
ts_status ts_layernorm_backward_threads(const ts_layernorm_backward_args *a, const ts_exec *x,
                                        ts_layernorm_backward_rows rows);
ts_status ts_layernorm_backward_threads_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes);

#endif
