/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h - mutants: implementations with one injected bug each. If one is accepted, or rejected
 * by another check than the one it names, the examiner is wrong. */
#ifndef TS_MUTANT_H
#define TS_MUTANT_H

#include "task.h"

typedef struct ts_mutant {
    const char     *name;
    const char     *task;
    ts_fault        fault;  /* the check that must catch it; NONE: a control, which must pass */
    const char     *family; /* in cases of this family; NULL: of "normal" */
    ts_run_fn       run;
    ts_workspace_fn workspace; /* NULL: needs none */
    ts_device       device;
} ts_mutant;

/* Keys of a tile in the mutants of flash_attention, 1 to 128: 16, unless a wrong output is compared
 * with theirs, which depends on it. */
extern int64_t ts_mutant_tile;

/* A list of mutants as the bugs of an enum. */
#define TRAP(trap, ...) trap,

/* Bugs are injected at named points of a plain solution (proof/plain/): HOOK_<point> is given the
 * right value and gives that or another one, HERE_<point> is a statement. They use the variables of
 * the function around the point. */
#define HOOK(point, ...) HOOK_##point(__VA_ARGS__)
#define HERE(point)      HERE_##point

#endif
