/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_inside.h - private to keeper.c, in the judge, and keep.c, in the keeper's process. */
#ifndef TS_KEEPER_INSIDE_H
#define TS_KEEPER_INSIDE_H

#include "keeper.h"

enum { TS_KEEP_LAY, TS_KEEP_PROBE, TS_KEEP_FETCH };

typedef struct ts_order_kept {
    int32_t  verb, slot;
    uint32_t fresh; /* the slot was refilled */
    uint64_t n_workspace;
} ts_order_kept;

typedef struct ts_reply_kept {
    ts_kept_word word;
    int32_t      buf; /* that the flaw is about */
} ts_reply_kept;

struct ts_keeper {
    pid_t                  pid;
    int                    fd; /* orders, and a byte per reply */
    int                    n;
    const ts_arena *const *slots;
    ts_reply_kept         *last; /* shared: the keeper's reply */
};

/* The main functions of the keeper and of the process that surveys the device. */
_Noreturn void ts_keep(const ts_keeper *k, size_t n_workspace, int orders, int to);
_Noreturn void ts_keep_survey(ts_survey *s);

#endif
