/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_cases.h - the cases of the embedding tasks, and the arguments that a case determines.
 * */
#ifndef TS_TASK_EMBEDDING_CASES_H
#define TS_TASK_EMBEDDING_CASES_H

#include "task.h"

/* Dimensions of a case; the last is forward's y_dtype, 1: TS_F32, or backward's accumulate. */
enum {
    TS_EMB_ROWS,
    TS_EMB_COLS,
    TS_EMB_VOCAB,
    TS_EMB_PAD,
    TS_EMB_FLAG,
    TS_EMB_SCALE = TS_MAX_DIMS
};

extern const ts_cover ts_embedding_forward_cover, ts_embedding_backward_cover;

const ts_case *ts_embedding_forward_cases(void);
const ts_case *ts_embedding_backward_cases(void);

int64_t ts_embedding_row_stride(const ts_case *c); /* of y and dy */
int64_t ts_embedding_table_stride(const ts_case *c);
double  ts_embedding_scale(const ts_case *c);

int32_t ts_embedding_draw_token(const ts_case *c, uint64_t seed, int64_t row);
/* An element of the table, or of dy. */
double ts_embedding_draw(const ts_case *c, uint64_t seed, int64_t row, int64_t col);

#endif
