/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_cases.h - the cases of ternary_linear. */
#ifndef TS_TASK_TERNARY_LINEAR_CASES_H
#define TS_TASK_TERNARY_LINEAR_CASES_H

#include "task.h"
#include "ternary_linear_script.h"

/* The places of a case's dim, and values of the last. */
enum { OUT, IN, ROWS, PARTS };
enum { EACH = 31, PACKED = 1 << TS_TL_PACKED, BACK = 1 << TS_TL_BACKWARD, PACK = 1 << TS_TL_PACK };

extern const ts_cover ts_ternary_linear_cover;
const ts_case        *ts_ternary_linear_cases(void);
/* For ts_task.scope: the functions that a case calls. */
int ts_ternary_linear_scope(const ts_case *c, ts_parameter p[TS_MAX_PARAMETERS]);
/* Whether the contents of tensors must be rejected. */
bool ts_ternary_linear_is_bad(const ts_case *c);
/* The status that a function must return. */
ts_status ts_ternary_linear_must(const ts_case *c, int function);

/* The outputs, in the order of their wants. A tensor that is not requested has no rows. */
enum { SEEN, CODE, SCALE, WT, Y, Y_PACKED, DX, DW, OUTPUTS };
void ts_ternary_linear_outputs(const ts_case *c, ts_buf b[OUTPUTS]);
/* The function that writes an output; of `seen`, all. */
static const int ts_ternary_linear_by[OUTPUTS] = {
    -1,           TS_TL_PACK,   TS_TL_PACK,     TS_TL_UNPACK,
    TS_TL_LINEAR, TS_TL_PACKED, TS_TL_BACKWARD, TS_TL_BACKWARD
};

/* ternary_linear_canon.c: the rule of a case whose family alone does not say it, and the elements
 * that rules name. */
const ts_canon *ts_ternary_linear_canon_of(const ts_case *c);
void            ts_ternary_linear_excuse(const ts_case *c, const void *args, ts_want *want);

#endif
