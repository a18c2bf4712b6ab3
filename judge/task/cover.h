/* SPDX-License-Identifier: Apache-2.0 */
/* cover.h - cases by construction. A task declares the range of every parameter, cut into classes;
 * cases are made of them so that each two classes of two parameters meet in one.
 *
 * The parameters are the dtype, the family, and the dimensions of a case. A class is a run of
 * values: 0, 1, what is usual, from just past a power of two to the next, the largest that can be
 * afforded. The classes of a parameter leave no value of its range out. Half of the cases take the
 * first value of a class, the others any of it. */
#ifndef TS_TASK_COVER_H
#define TS_TASK_COVER_H

#include "task.h"

enum {
    TS_MAX_CLASSES = 16,
    TS_MAX_FAMILIES = 40,
    TS_COVER_DTYPE = 0,
    TS_COVER_FAMILY = 1,
    TS_COVER_DIMS = 2, /* the first dimension's place among the axes */
    TS_MAX_AXES = TS_COVER_DIMS + TS_MAX_DIMS + TS_MAX_MORE
};

/* A dimension: classes begin at `from`, in rising order, and the last one ends at `most`. */
typedef struct ts_axis {
    int     usual, n; /* the class of the cheapest case; how many, 0: not varied */
    bool    exact;    /* nothing between the numbers in `from` has a meaning */
    int64_t most, from[TS_MAX_CLASSES];
} ts_axis;

#define TS_RANGE_(usual, exact, most, ...)                                                         \
    {                                                                                              \
        usual, sizeof((const int64_t[]) { __VA_ARGS__ }) / sizeof(int64_t), exact, most,           \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define TS_RANGE(usual, most, ...) TS_RANGE_(usual, false, most, __VA_ARGS__)
#define TS_NUMBERS(usual, ...)     TS_RANGE_(usual, true, INT64_MAX, __VA_ARGS__)

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

/* ---- cases as parameters, before `make` ---- */

ts_case ts_cover_usual(const ts_cover *v); /* the usual class of each, its first value */
/* Whether the task has such a case, and it is affordable. */
bool ts_cover_possible(const ts_cover *v, ts_case raw);

#endif
