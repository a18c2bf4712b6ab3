/* SPDX-License-Identifier: Apache-2.0 */
/* launch_inside.h - a parsed launch plan: launch.c fills it, launch_step.c evaluates it. */
#ifndef TS_GPU_LAUNCH_INSIDE_H
#define TS_GPU_LAUNCH_INSIDE_H

#include "launch.h"

typedef enum item { WORKSPACE, KERNEL, WHEN, GRID, BLOCK, SHARED, ARG, N_ITEMS } item;
typedef enum type { PTR, I32, U32, I64, U64, F32, F64, N_TYPES } type;

extern const char *const ts_launch_items[N_ITEMS], *const ts_launch_types[N_TYPES];

typedef struct part {
    ts_expr  e;
    uint16_t from;       /* column 1 in error messages */
    uint16_t name, size; /* of an argument: its buffer */
    type     type;
} part;

typedef struct plan_step {
    uint16_t kernel, size; /* offset and length of its name */
    int      n_args;
    part     when, grid[3], block[3], shared, arg[TS_LAUNCH_ARGS];
} plan_step;

struct ts_launch {
    int       n_steps;
    part      workspace;
    plan_step step[TS_LAUNCH_STEPS];
    ts_code   code;
    char      text[TS_LAUNCH_BYTES + 1];
    ts_op     op[]; /* one per character */
};

typedef struct place {
    int  step; /* 0: before the first */
    item item;
    int  number; /* 0: there is only one */
} place;

typedef struct complaint {
    char  *why;
    size_t n;
} complaint;

/* Both return false. The column of a fault counts from `from`. */
bool ts_launch_wrong(complaint c, place w, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool ts_launch_fault(complaint c, place w, size_t from, const ts_mistake *f);

/* "softmax_{dtype}" with the dtype substituted; false if it is not a kernel name. */
bool ts_launch_kernel(const char *name, size_t n, const char *dtype,
                      char out[TS_LAUNCH_KERNEL + 1]);

#endif
