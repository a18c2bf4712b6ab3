/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_cases.h - the cases of the rms_norm tasks, and how their inputs are drawn. */
#ifndef TS_TASK_RMS_NORM_CASES_H
#define TS_TASK_RMS_NORM_CASES_H

#include "norm_cases.h"

extern const ts_cover ts_rms_norm_forward_cover, ts_rms_norm_backward_cover;

/* What is in each place of a case's dim. */
enum { TS_RMS_ROWS, TS_RMS_COLS, TS_RMS_PAD, TS_RMS_OFFSET }; /* the first as TS_NORM_ROWS, ... */
enum { TS_RMS_RESIDUAL = TS_RMS_OFFSET + 1 };                 /* forward */
enum { TS_RMS_ACCUMULATE = TS_RMS_OFFSET + 1, TS_RMS_DR = TS_RMS_OFFSET + 2 }; /* backward */

/* Of TS_RMS_RESIDUAL. In place r is x: one buffer, so that such a case is the CPU's alone. */
enum { TS_RMS_NONE, TS_RMS_APART, TS_RMS_IN_PLACE };

const ts_case *ts_rms_norm_forward_cases(void);
const ts_case *ts_rms_norm_backward_cases(void);

/* Element (row, i) of x and, unless NULL, of the residual, before they are rounded to the case's
 * dtype. */
void ts_rms_norm_draw(const ts_case *c, uint64_t seed, int64_t row, int64_t i, double *x,
                      double *residual);

#endif
