/* SPDX-License-Identifier: Apache-2.0 */
/* topk.h - ts_softmax_topk without an exponential, for kernels with sums of their own. Defined with
 * the kernel, for each width of vector. */
#ifndef TS_BASE_TOPK_H
#define TS_BASE_TOPK_H

#include "impl.h"
#include "touchstone/softmax_topk.h"

/* Fills index as ts_softmax_topk does. The arguments are valid and logits are floats; prob is
 * overwritten, and lse is not used. */
typedef ts_status (*ts_topk_fn)(const ts_softmax_topk_args *a, const ts_exec *x);

#define TS_DECLARE_TOPK(set, needs, run)                                                           \
    ts_status run##_##set(const ts_softmax_topk_args *a, const ts_exec *x);
TS_EACH_SIMD(TS_DECLARE_TOPK, ts_topk)

#endif
