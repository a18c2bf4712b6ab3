/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_cases.h - the cases of softmax_topk, and how logits are drawn. */
#ifndef TS_TASK_SOFTMAX_TOPK_CASES_H
#define TS_TASK_SOFTMAX_TOPK_CASES_H

#include "task.h"

/* dim: rows, vocab, k, pad (row_stride = vocab + pad), heat (inv_temperature in hundredths) and lse
 * (0: not requested); more: cool (1 to 4: heat is also multiplied by 2^-100, 2^60, 2^120,
 * 2^-125). */
const ts_case        *ts_softmax_topk_cases(void);
extern const ts_cover ts_softmax_topk_cover;

/* One row that is being drawn. */
typedef struct ts_softmax_topk_row {
    ts_dtype dtype;
    uint64_t seed;
    int64_t  n_rows, number, n_vocab, k;
    int64_t  chosen; /* a place in the row, drawn anew for each */
} ts_softmax_topk_row;

/* Element i of a row, before it is rounded to the dtype. */
typedef double (*ts_softmax_topk_draw)(const ts_softmax_topk_row *w, int64_t i);

/* How the family draws. Looked up once a case: large ones have no time for names. */
ts_softmax_topk_draw ts_softmax_topk_draw_of(const char *family);

#endif
