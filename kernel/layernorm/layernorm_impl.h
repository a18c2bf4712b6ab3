/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_impl.h - implementations of layer norm. Private. */
#ifndef TS_LAYERNORM_IMPL_H
#define TS_LAYERNORM_IMPL_H

#include "impl.h"
#include "touchstone/layernorm.h"

extern const ts_impl ts_layernorm_forward_impls[], ts_layernorm_backward_impls[];

TS_DECLARE_IMPLS(ts_layernorm_forward)

TS_DECLARE_IMPLS(ts_layernorm_backward)

#endif
