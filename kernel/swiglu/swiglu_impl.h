/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_impl.h - implementations of swiglu. Private. */
#ifndef TS_SWIGLU_IMPL_H
#define TS_SWIGLU_IMPL_H

#include "impl.h"
#include "touchstone/swiglu.h"

extern const ts_impl ts_swiglu_forward_impls[], ts_swiglu_backward_impls[];

TS_DECLARE_IMPLS(ts_swiglu_forward)

TS_DECLARE_IMPLS(ts_swiglu_backward)

/* One element, in double, for any magnitudes. */
typedef struct ts_swiglu_slopes {
    double dgate, dup;
} ts_swiglu_slopes;

double           ts_swiglu_value(double gate, double up);
ts_swiglu_slopes ts_swiglu_gradient(double gate, double up, double dy);

/* Of the threaded ones: n elements one behind the other. Each input is read before an output that
 * is the same is written. */
typedef void (*ts_swiglu_forward_run)(ts_dtype t, const char *gate, const char *up, char *y,
                                      int64_t n);
typedef void (*ts_swiglu_backward_run)(ts_dtype t, const char *gate, const char *up, const char *dy,
                                       char *dgate, char *dup, int64_t n);

ts_status ts_swiglu_forward_threads(const ts_swiglu_forward_args *a, const ts_exec *x,
                                    ts_swiglu_forward_run run);
ts_status ts_swiglu_backward_threads(const ts_swiglu_backward_args *a, const ts_exec *x,
                                     ts_swiglu_backward_run run);

#endif
