/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_impl.h - implementations of rms_norm. Private. */
#ifndef TS_RMS_NORM_IMPL_H
#define TS_RMS_NORM_IMPL_H

#include "impl.h"
#include "touchstone/rms_norm.h"

extern const ts_impl ts_rms_norm_forward_impls[], ts_rms_norm_backward_impls[];

ts_status ts_rms_norm_forward_ref(const void *args, const ts_exec *x);
ts_status ts_rms_norm_forward_avx2(const void *args, const ts_exec *x);
ts_status ts_rms_norm_forward_avx512(const void *args, const ts_exec *x);
ts_status ts_rms_norm_forward_neon(const void *args, const ts_exec *x);

ts_status ts_rms_norm_backward_ref(const void *args, const ts_exec *x);
ts_status ts_rms_norm_backward_avx2(const void *args, const ts_exec *x);
ts_status ts_rms_norm_backward_avx512(const void *args, const ts_exec *x);
ts_status ts_rms_norm_backward_neon(const void *args, const ts_exec *x);

/* Of the threaded ones: rows from begin to end. Chunks of rows are those of row_chunks.h. */
typedef void (*ts_rms_norm_forward_rows)(const ts_rms_norm_forward_args *a, int64_t begin,
                                         int64_t end);
/* Also adds the rows' dy * r * rstd to dw[n_cols]. */
typedef void (*ts_rms_norm_backward_rows)(const ts_rms_norm_backward_args *a, int64_t begin,
                                          int64_t end, float *dw);

ts_status ts_rms_norm_forward_threads(const ts_rms_norm_forward_args *a, const ts_exec *x,
                                      ts_rms_norm_forward_rows rows);
ts_status ts_rms_norm_backward_threads(const ts_rms_norm_backward_args *a, const ts_exec *x,
                                       ts_rms_norm_backward_rows rows);
ts_status ts_rms_norm_backward_threads_workspace(const void *args, const ts_exec *x,
                                                 size_t *n_bytes);

#endif
