/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_impl.h - the implementations. Private. */
#ifndef TS_SOFTMAX_TOPK_IMPL_H
#define TS_SOFTMAX_TOPK_IMPL_H

#include "impl.h"
#include "touchstone/softmax_topk.h"

extern const ts_impl ts_softmax_topk_impls[];

ts_status ts_softmax_topk_ref(const void *args, const ts_exec *x);

#endif
