/* SPDX-License-Identifier: Apache-2.0 */
/* rope_impl.h - implementations of rope. Private. */
#ifndef TS_ROPE_IMPL_H
#define TS_ROPE_IMPL_H

#include "impl.h"
#include "touchstone/rope.h"

extern const ts_impl ts_rope_impls[];

TS_DECLARE_IMPLS(ts_rope)

/* theta^(-2 pair / rotary_dim), or the table's. */
double ts_rope_frequency_of(const ts_rope_args *a, int64_t pair);

#endif
