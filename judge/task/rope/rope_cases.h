/* SPDX-License-Identifier: Apache-2.0 */
/* rope_cases.h - the cases of the task rope. */
#ifndef TS_TASK_ROPE_CASES_H
#define TS_TASK_ROPE_CASES_H

#include "task.h"

extern const ts_cover ts_rope_cover;

/* What is in each place of a case's dim. A head is 2 PAIRS channels and REST. */
enum {
    TS_ROPE_ROWS,
    TS_ROPE_HEADS,
    TS_ROPE_PAIRS,
    TS_ROPE_REST,
    TS_ROPE_PAD,
    TS_ROPE_PAIRING,
    TS_ROPE_INVERSE,
    TS_ROPE_PLACE,               /* 1: y is x: one buffer, so that such a case is the CPU's alone */
    TS_ROPE_THETA = TS_MAX_DIMS, /* 0: 10000; else a power of ten */
    TS_ROPE_TABLE                /* 1: frequencies are given */
};

const ts_case *ts_rope_cases(void);

int64_t ts_rope_head_dim(const ts_case *c);
int64_t ts_rope_width(const ts_case *c); /* of a row, without the gap */

#endif
