/* SPDX-License-Identifier: Apache-2.0 */
/* keeper_inside.h - private to keeper.c, in the judge, and to keep.c, keep_gate.c and survey.c, in
 * the keeper's process. */
#ifndef TS_KEEPER_INSIDE_H
#define TS_KEEPER_INSIDE_H

#include "keeper.h"

enum { TS_KEEP_LAY, TS_KEEP_WEIGH, TS_KEEP_FETCH };

typedef struct ts_order_kept {
    int32_t  verb, slot;
    uint32_t how; /* TS_LAY_* */
    uint64_t n_workspace;
} ts_order_kept;

typedef struct ts_reply_kept {
    ts_kept_word word;
    int32_t      buf; /* that the flaw is about */
} ts_reply_kept;

/* Shared. A byte on the socket says that `last` is complete. */
typedef struct ts_kept_page {
    ts_reply_kept last;
    uint32_t      laid;     /* the keeper: number of the call whose inputs are laid out */
    uint32_t      go, done; /* the judge: numbers of calls */
} ts_kept_page;

struct ts_keeper {
    pid_t                  pid;
    int                    fd; /* orders, and a byte per reply */
    int                    n;
    const ts_arena *const *slots;
    ts_kept_page          *page;
};

/* The size and place of a buffer's mapping; of host memory the place is the same modulo
 * TS_LAY_BYTES. */
static inline size_t ts_kept_mapped(size_t n_bytes, size_t granule)
{
    return (n_bytes + TS_LAY_SLACK + granule - 1) / granule * granule;
}

static inline size_t ts_kept_offset(const ts_arena_buf *b, size_t granule)
{
    return ts_lay_offset(b->lay, b->residue, b->n_bytes, ts_kept_mapped(b->n_bytes, granule));
}

/* The main functions of the keeper and of the process that surveys the device. */
_Noreturn void ts_keep(const ts_keeper *k, size_t n_workspace, int orders, int to);
_Noreturn void ts_keep_survey(ts_survey *s);

#endif
