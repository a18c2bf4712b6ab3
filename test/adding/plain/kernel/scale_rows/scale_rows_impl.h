/* SPDX-License-Identifier: Apache-2.0 */
/* scale_rows_impl.h - implementations of scale_rows. */
#ifndef TS_SCALE_ROWS_IMPL_H
#define TS_SCALE_ROWS_IMPL_H

#include "impl.h"
#include "touchstone/scale_rows.h"

extern const ts_impl ts_scale_rows_impls[];
ts_status            ts_scale_rows_ref(const void *args, const ts_exec *x);

#endif
