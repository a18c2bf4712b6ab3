/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - launch plans: how the kernels of a sealed GPU entrant are launched.
 *
 * A plan is data, since none of the entrant's host code runs. The judge writes it from entry.json,
 * and the cage reads it:
 *
 *     workspace rows*8
 *     kernel softmax_{dtype}
 *     when k <= 64
 *     grid rows
 *     block 256
 *     shared 4*k*8
 *     arg ptr logits
 *     arg f32 inv_temperature
 *
 * One item per line, in this order. workspace, when and shared are optional (0, always, 0). grid
 * and block have 1 to 3 expressions, separated by ','. Each kernel begins a step.
 *
 * arg is "ptr BUFFER", "ptr BUFFER + BYTES", or i32, u32, i64, u64, f32 or f64 with an expression;
 * the last two also take the name of a real number. `workspace` is a buffer like any other. An
 * absent buffer is 0, whatever is added. */
#ifndef TS_GPU_LAUNCH_H
#define TS_GPU_LAUNCH_H

#include "expr.h"

enum {
    TS_LAUNCH_STEPS = 16,
    TS_LAUNCH_ARGS = 32,
    TS_LAUNCH_BYTES = 8192, /* of text */
    TS_LAUNCH_KERNEL = 127, /* characters in a kernel's name */
    TS_LAUNCH_THREADS = 1024,
    TS_LAUNCH_SHARED = 232448,
};
#define TS_LAUNCH_WORKSPACE ((int64_t)1 << 40)

typedef struct ts_launch ts_launch;

typedef struct ts_step {
    char          kernel[TS_LAUNCH_KERNEL + 1];
    bool          applies; /* `when` is not 0; otherwise the rest is not set */
    bool          empty;   /* a grid of 0: applies, but launches nothing; the rest is not set */
    unsigned      grid[3], block[3], shared_bytes;
    int           n_args;
    unsigned char arg[TS_LAUNCH_ARGS][8];
    size_t        arg_bytes[TS_LAUNCH_ARGS];
} ts_step;

/* Checks all that does not depend on a call: evaluation fails only on names and values. In all
 * functions `why` is one line: "step 1, grid 2, column 5: division by zero". */
ts_launch *ts_launch_read(const char *text, size_t n, char *why, size_t n_why);
void       ts_launch_free(ts_launch *l);

/* Whether every name of the plan is defined and has the right kind. Does not check values. */
bool ts_launch_knows(const ts_launch *l, const ts_launch_env *names, char *why, size_t n_why);

bool ts_launch_workspace(const ts_launch *l, const ts_launch_env *e, int64_t *n_bytes, char *why,
                         size_t n_why);

/* Steps run in order. A call to which no step applies is not supported. */
int  ts_launch_steps(const ts_launch *l);
bool ts_launch_step(const ts_launch *l, int i, const ts_launch_env *e, ts_step *s, char *why,
                    size_t n_why);

#endif
