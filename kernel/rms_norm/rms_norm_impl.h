/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_impl.h - implementations of rms_norm. Private. */
#ifndef TS_RMS_NORM_IMPL_H
#define TS_RMS_NORM_IMPL_H

#include "impl.h"
#include "touchstone/rms_norm.h"

extern const ts_impl ts_rms_norm_forward_impls[], ts_rms_norm_backward_impls[];

TS_DECLARE_IMPLS(ts_rms_norm_forward)

TS_DECLARE_IMPLS(ts_rms_norm_backward)

#endif
