/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_cases.h - the cases of the layer norm tasks, and how their inputs are drawn. */
#ifndef TS_TASK_LAYERNORM_CASES_H
#define TS_TASK_LAYERNORM_CASES_H

#include "task.h"

extern const ts_cover ts_layernorm_forward_cover, ts_layernorm_backward_cover;

/* dim: rows, cols, pad (row_stride = cols + pad) and, backward, acc. */
const ts_case *ts_layernorm_forward_cases(void);
const ts_case *ts_layernorm_backward_cases(void);

/* Element (r, i) of x, before it is rounded to t. */
double ts_layernorm_draw(const char *family, ts_dtype t, uint64_t seed, int64_t r, int64_t i,
                         int64_t n_cols);

#endif
