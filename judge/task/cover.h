/* SPDX-License-Identifier: Apache-2.0 */
/* cover.h - cases by construction. A task declares the range of every parameter, cut into classes;
 * cases are made of them so that each two classes of two parameters meet in one.
 *
 * The parameters are the dtype, the family, and the dimensions of a case. A class is a run of
 * values: 0, 1, what is usual, from just past a power of two to the next, the largest that can be
 * afforded. The classes of a parameter leave no value of its range out. Half of the cases take the
 * first value of a class, the others any of it.
 *
 * A parameter that counts something (heads, rows, tokens) has points in addition to classes: the
 * values at which code that works in blocks takes another path. They follow from the range alone:
 * every number up to 16, and of each power of two p from 16 on p, p + 1, p + 2, 2 p - 2, 2 p - 1,
 * and p plus a quarter, a quarter and 1, a half, a half and 1, and three quarters of it: of 64 also
 * 80, 81, 96, 97 and 112. Each point is in a case of a dtype other than f64. Where at most three
 * parameters count, points end at 8194.
 *
 * Of each two such parameters, the product is past 256, 1024 and 4096 in some case that shows any
 * error in any element, if the task has one.
 *
 * Of the elements of a row, every remainder by 8 occurs with a gap behind the row in every dtype,
 * and in one without a gap and with one that fills a vector: these are the tails of vectors. */
#ifndef TS_TASK_COVER_H
#define TS_TASK_COVER_H

#include "task.h"

enum {
    TS_MAX_CLASSES = 16,
    TS_MAX_FAMILIES = 40,
    TS_MAX_POINTS = 128,
    TS_COVER_DTYPE = 0,
    TS_COVER_FAMILY = 1,
    TS_COVER_DIMS = 2, /* the first dimension's place among the axes */
    TS_MAX_AXES = TS_COVER_DIMS + TS_MAX_DIMS + TS_MAX_MORE
};

/* A dimension: classes begin at `from`, in rising order, and the last one ends at `most`. */
typedef struct ts_axis {
    int     usual, n; /* the class of the cheapest case; how many, 0: not varied */
    bool    exact;    /* nothing between the numbers in `from` has a meaning */
    bool    counts;   /* has points */
    int     next_to;  /* 1 + the dimension which must exceed 1 for a point to show; 0: none */
    int64_t most, from[TS_MAX_CLASSES];
} ts_axis;

#define TS_RANGE_(usual, exact, counts, next_to, most, ...)                                        \
    {                                                                                              \
        usual, sizeof((const int64_t[]) { __VA_ARGS__ }) / sizeof(int64_t), exact, counts,         \
            next_to, most,                                                                         \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define TS_RANGE(usual, most, ...)  TS_RANGE_(usual, false, false, 0, most, __VA_ARGS__)
#define TS_COUNTS(usual, most, ...) TS_RANGE_(usual, false, true, 0, most, __VA_ARGS__)
#define TS_NUMBERS(usual, ...)      TS_RANGE_(usual, true, false, 0, INT64_MAX, __VA_ARGS__)
/* Of dimension 3, how many query heads share a KV head: with one KV head all share it. */
#define TS_RATIOS(usual, most, ...) TS_RANGE_(usual, false, true, 1 + 4, most, __VA_ARGS__)

typedef struct ts_cover_family {
    const char *name; /* the first is the usual one; NULL ends */
    unsigned    dtypes;
} ts_cover_family;

struct ts_cover {
    unsigned        use, dtypes; /* of the cases; 1u << dtype of the parameter, the first usual */
    ts_cover_family family[TS_MAX_FAMILIES];
    ts_axis         dim[TS_MAX_DIMS + TS_MAX_MORE]; /* in the order of a case's */
    /* 1u << i of each dimension that, if 0, makes the other dimensions irrelevant: only one such
     * case combines with them. */
    unsigned empties;
    /* 1u << i of each dimension that is a number of the call, such as a temperature. Many families
     * do not show it: each of its classes occurs in the first family, in every dtype. */
    unsigned scalars;
    /* The dimensions that are the elements of a row and of the gap behind it, as numbers of axes;
     * 0: no matrix has gaps. */
    int row, gap;
    /* Whether such a case exists and is affordable. Two classes that it rejects with the usual
     * other values need not be combined. NULL: always. */
    bool (*allows)(const ts_case *c);
    /* Where a dimension of a case is not the parameter itself: from parameters, and back. */
    void (*make)(ts_case *c);
    void (*read)(ts_case *c);
};

/* Appends the cases, room of them at most (else it aborts), and returns how many. */
int ts_cover_cases(const ts_cover *v, ts_case *list, int room);

/* ---- queries of the declaration, for draws and proofs ---- */

int ts_cover_classes(const ts_cover *v, int axis); /* 0: no such axis */
/* The class that a case has; -1: none. */
int ts_cover_class(const ts_cover *v, const ts_case *c, int axis);
/* Whether a case shows what the two parameters do together; with one twice, what it does. */
bool ts_cover_shows(const ts_cover *v, const ts_case *c, int axis, int other);
bool ts_cover_allows(const ts_cover *v, int axis, int cls, int other, int other_cls);
int  ts_cover_dtype(const ts_cover *v, int cls); /* of a class of TS_COVER_DTYPE */

/* The number of the point that a case has and shows, below TS_MAX_POINTS; -1: none. */
int ts_cover_point(const ts_cover *v, const ts_case *c, int axis);
/* Whether a value is a point of a parameter of this dtype, and the task has such a case. */
bool ts_cover_has_point(const ts_cover *v, int dtype_cls, int axis, int64_t value);
/* The next point above a value, in any range. */
int64_t ts_cover_next_point(int64_t value);

/* Whether a case shows a scalar's class: it is of the first family, and not empty. True of other
 * axes. */
bool ts_cover_tells(const ts_cover *v, const ts_case *c, int axis);

/* Remainders of a row's elements, by a vector of 16 bytes of 16-bit elements. */
enum { TS_TAILS = 8 };
/* What is behind the elements of a row: nothing, a gap up to a multiple of TS_TAILS, or another. */
typedef enum ts_gap { TS_GAP_NONE, TS_GAP_ANY, TS_GAP_ALIGNED, TS_GAPS } ts_gap;
/* The tail of the case's rows before such a gap, if it shows any error in any element: it is of the
 * first family, not empty, and every number of the call is usual. -1: it has and shows none. */
int ts_cover_tail(const ts_cover *v, const ts_case *c, ts_gap gap);
/* Of which blocks of 16 to 1024 the case's count, if it is larger, is one short of a multiple, or
 * one or two past it: three bits per block. 0: the parameter does not count, or the case does not
 * show any error in any element. */
uint64_t ts_cover_blocks(const ts_cover *v, const ts_case *c, int axis);

/* Code that sizes a table for all rows of all items is wrong where their product, and neither
 * number, is large. With which later axes that count the case's count makes a product past 256,
 * 1024, 4096: three bits per axis. 0 as for ts_cover_blocks. */
uint64_t ts_cover_products(const ts_cover *v, const ts_case *c, int axis);

/* ---- cases as parameters, before `make` ---- */

ts_case ts_cover_usual(const ts_cover *v); /* the usual class of each, its first value */
/* Whether the task has such a case, and it is affordable. */
bool ts_cover_possible(const ts_cover *v, ts_case raw);

#endif
