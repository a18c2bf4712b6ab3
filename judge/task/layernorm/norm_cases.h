/* SPDX-License-Identifier: Apache-2.0 */
/* norm_cases.h - what the cases of layer norm and of RMS norm share: shapes, ranges, numbers. */
#ifndef TS_TASK_NORM_CASES_H
#define TS_TASK_NORM_CASES_H

#include "case_list.h"

/* The first places of a case's dim, and where its power of eps is. */
enum { TS_NORM_ROWS, TS_NORM_COLS, TS_NORM_PAD, TS_NORM_EPS = TS_MAX_DIMS };

/* Of covers. */
#define TS_NORM_ROW_RANGE TS_COUNTS(2, 70000, 0, 1, 2, 9, 33, 257, 1025, 20001)
#define TS_NORM_COL_RANGE TS_COUNTS(2, 65537, 1, 2, 9, 17, 33, 65, 129, 257, 1025, 4097, 16385)
#define TS_NORM_TAILS     .row = TS_COVER_DIMS + TS_NORM_COLS, .gap = TS_COVER_DIMS + TS_NORM_PAD
#define TS_NORM_PAD_RANGE TS_RANGE(0, 64, 0, 1, 2, 8, 17)
#define TS_NORM_EPS_POWER TS_NUMBERS(1, -12, 0, 1, 4, 40)

bool ts_norm_affordable(const ts_case *c);

typedef struct ts_norm_shape {
    int64_t rows, cols;
} ts_norm_shape;

typedef struct ts_norm_family {
    const char   *name;
    unsigned      dtypes;
    ts_norm_shape shapes[4];
} ts_norm_family;

/* A list that a norm fills in its own way: `one` appends the case with the switches that `flags`
 * stands for, or several, and `shape` the i-th shape of a table with some of them. */
typedef struct ts_norm_list ts_norm_list;
struct ts_norm_list {
    void (*one)(ts_norm_list *l, ts_case c, int flags);
    void (*shape)(ts_norm_list *l, unsigned dtypes, ts_norm_shape s, int64_t pad, int i);
    ts_case_list all;
};

void ts_norm_add(ts_norm_list *l, unsigned use, unsigned dtypes, ts_norm_shape s, int64_t pad,
                 int flags, const char *name);
void ts_norm_add_shapes(ts_norm_list *l);
/* With flags first, first + step, ... */
void ts_norm_add_family(ts_norm_list *l, const ts_norm_family *f, int first, int step);
/* Rows whose end outweighs all before it, long ones too; with flags first, first + step, ... */
void ts_norm_add_ends(ts_norm_list *l, int first, int step);
/* Where a row is a little longer than a number of blocks whose width is no power of two. */
void ts_norm_add_blocks(ts_norm_list *l, int first, int step);
/* Rows whose offsets pass 2^31 and 2^32 elements, and more rows than a launch has blocks. */
void ts_norm_add_far(ts_norm_list *l, int flags);
/* The cases of devices, and those that are timed; `judged`, up to {0, 0}, also by the judge. */
void ts_norm_add_large(ts_norm_list *l, int flags, const ts_norm_shape *judged);
/* Sets the power of eps of the cases from `first` on. */
void ts_norm_set_eps(ts_norm_list *l, int first, int power);

/* Of all four descriptors; and of their invalid calls: n_rows, n_cols, row_stride, and dtype. */
#define TS_NORM_TASK                                                                               \
    .kind = TS_PLAIN, .devices = TS_ON_CPU | TS_ON_CUDA, .more_name = { "eps" },                   \
    .more_says = { "log10(eps); 0: the usual eps of that kind of input" },                         \
    .canon_of = ts_norm_canon
/* The rule of inputs that leave the range of what squares, sums and eps are usually kept in. */
const ts_canon *ts_norm_canon(const ts_case *c);
#define TS_NORM_NONFINITE                                                                          \
    {                                                                                              \
        "nonfinite", "a NaN or infinity makes its own row NaN and no other", true                  \
    }
#define TS_NORM_EXTENTS(type)                                                                      \
    .extent = { { offsetof(type, n_rows), 0, 0, 0, true, false },                                  \
                { offsetof(type, n_cols), 1, 0, offsetof(type, row_stride), false, false },        \
                { offsetof(type, row_stride), 1, 0, 0, false, true } },                            \
    .n_extent = 3, .product = { { { 1, 2 } }, { { 1, 3 } } }
#define TS_NORM_BAD(type)                                                                          \
    TS_BAD_LIKE(type, TS_E_SHAPE, row_stride, n_cols, -1),                                         \
        TS_BAD(type, TS_E_DTYPE, dtype, TS_U8, 99)

int64_t ts_norm_stride(const ts_case *c);
double  ts_norm_eps(const ts_case *c, double usual);

/* Of what a family makes larger or smaller than usual: 1 in most. */
double ts_norm_size(const ts_case *c, double loud, double faint);
/* Which element of a row is the odd one of its family. */
int64_t ts_norm_chosen(uint64_t seed, int64_t row, int64_t n_cols);
/* By what an element of x, or of dy, is multiplied: in family `back` large at the end of a row,
 * else 1. */
double ts_norm_end(const char *family, int64_t i, int64_t n_cols, double large);
/* An element of a family that both norms have; z is normal. */
double ts_norm_draw(const char *family, ts_dtype t, double z, bool chosen);
/* Normal numbers times size in each row. */
void ts_norm_draw_rows(const ts_case *c, void *p, uint64_t seed, double size);
/* The gradients dy of a case, or what goes with them. */
void ts_norm_draw_gradient(const ts_case *c, void *p, uint64_t seed);

#endif
