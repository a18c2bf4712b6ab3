/* SPDX-License-Identifier: Apache-2.0 */
/* case_list.h - builds the list of a task's cases: sets of dtypes, and a list that grows. */
#ifndef TS_TASK_CASE_LIST_H
#define TS_TASK_CASE_LIST_H

#include "cover.h"

/* Sets of dtypes. */
enum { F32 = 1u << TS_F32, F64 = 1u << TS_F64, F16 = 1u << TS_F16, BF16 = 1u << TS_BF16 };
enum { ALL = F32 | F64 | F16 | BF16, FAST = F32 | F16 | BF16, WIDE = F32 | F64 | BF16 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A pad with which offsets of the third row pass 2^31 elements. */
#define FAR_PAD (((int64_t)1 << 30) + 7 - 40)
/* A pad with which a stride, and the offset of the second row, pass 2^32 elements of 40. */
#define FARTHER_PAD (((int64_t)1 << 32) + 7 - 40)
/* Rows past the limits of a launch, 65535, and of 17 bits; with more columns than two warps have
 * lanes. */
#define TALL_ROWS   65601
#define TALLER_ROWS 131073
#define TALL_COLS   65

typedef struct ts_case_list {
    ts_case *c; /* ends with a case whose `use` is 0 */
    int      n, room;
    bool     backward; /* of two tasks that share a list: which one it is for */
} ts_case_list;

/* Appends the case once per dtype, in the order of ts_dtype. */
void ts_list_add(ts_case_list *l, unsigned dtypes, ts_case c);
/* Appends n cases as they are. */
void ts_list_append(ts_case_list *l, const ts_case *c, int n);
/* Appends the cases that combine the classes of all parameters. */
void ts_list_cover(ts_case_list *l, const ts_cover *v);

/* One number per dtype. */
static inline double ts_by_dtype(ts_dtype t, double f32, double f64, double f16, double bf16)
{
    return (const double[]) { [TS_F32] = f32, [TS_F64] = f64, [TS_F16] = f16, [TS_BF16] = bf16 }[t];
}

/* Where dimension 3 of a case is the query heads, and 4 the KV heads: the parameter is how many of
 * the former share one of the latter. As `make` and `read` of a cover. */
void ts_multiply_heads(ts_case *c);
void ts_divide_heads(ts_case *c);

#endif
