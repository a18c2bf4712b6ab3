/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_inside.h - what keeper.c, in the judge, and keep.c, in the keeper's process, know of each
 * other. */
#ifndef TS_KEEPER_INSIDE_H
#define TS_KEEPER_INSIDE_H

#include "keeper.h"

enum { TS_KEEP_LAY, TS_KEEP_PROBE, TS_KEEP_FETCH };

typedef struct ts_order_kept {
    int32_t  verb, slot;
    uint32_t fresh; /* the slot was drawn anew */
    uint64_t n_workspace;
} ts_order_kept;

typedef struct ts_reply_kept {
    ts_kept_word word;
    int32_t      buf; /* that the flaw is about */
} ts_reply_kept;

struct ts_keeper {
    pid_t                  pid;
    int                    fd; /* orders, and a byte for each answer */
    int                    n;
    const ts_arena *const *slots;
    ts_reply_kept         *last; /* shared: what the keeper says */
};

/* The keeper's life, and that of one who only looks. */
_Noreturn void ts_keep(const ts_keeper *k, size_t n_workspace, int orders, int to);
_Noreturn void ts_keep_survey(ts_survey *s);

#endif
