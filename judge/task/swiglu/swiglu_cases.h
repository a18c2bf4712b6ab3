/* SPDX-License-Identifier: Apache-2.0 */
/* swiglu_cases.h - the cases of the swiglu tasks, and how their inputs are drawn. */
#ifndef TS_TASK_SWIGLU_CASES_H
#define TS_TASK_SWIGLU_CASES_H

#include "task.h"

extern const ts_cover ts_swiglu_forward_cover, ts_swiglu_backward_cover;

/* What is in each place of a case's dim. */
enum { TS_SWIGLU_ROWS, TS_SWIGLU_COLS, TS_SWIGLU_PAD, TS_SWIGLU_PLACE };

/* Of TS_SWIGLU_PLACE: which outputs are inputs. Such buffers are one, so that a case is the CPU's
 * alone. */
enum { TS_SWIGLU_APART, TS_SWIGLU_Y_IS_GATE, TS_SWIGLU_Y_IS_UP }; /* forward */
enum {
    TS_SWIGLU_EACH = 1,
    TS_SWIGLU_CROSSED,
    TS_SWIGLU_DUP_IS_DY,
    TS_SWIGLU_PLACES
}; /* backward */

const ts_case *ts_swiglu_forward_cases(void);
const ts_case *ts_swiglu_backward_cases(void);

int64_t ts_swiglu_x_stride(const ts_case *c);
int64_t ts_swiglu_y_stride(const ts_case *c);

typedef struct ts_swiglu_point {
    double gate, up, dy;
} ts_swiglu_point;

/* The i-th element of all, before it is rounded to the case's dtype. */
ts_swiglu_point ts_swiglu_draw(const ts_case *c, uint64_t seed, int64_t i);

#endif
