/* SPDX-License-Identifier: Apache-2.0 */
/* timed.h - the timed entrants of one challenge in one run, and their scores; private to derive.c
 * and timed.c. */
#ifndef TS_TIMED_H
#define TS_TIMED_H

#include "derive.h"

/* Anchors: of every kind in the listed workloads, and in those adapted to each entrant's scope. */
enum { TS_MEMBERS = 4096, TS_TIMED = 16, TS_TIMED_ANCHORS = (4 + TS_MEMBERS) * TS_TIMED };

typedef struct ts_member {
    int64_t           id;
    const ts_jr_node *verdict, *time[TS_TIMED]; /* of each workload; NULL: not timed */
} ts_member;

typedef struct ts_timed {
    const char       *task;
    int               n, n_workloads, n_anchors;
    ts_member         m[TS_MEMBERS];
    const ts_jr_node *anchor[TS_TIMED_ANCHORS];
} ts_timed;

/* Collects the entrants that passed or are under audit in records [first, end); false if none was
 * timed. */
bool ts_timed_collect(const ts_records *r, size_t first, size_t end, const char *task, ts_timed *s);

/* Writes their scores. */
bool ts_timed_put_scores(const ts_records *r, const ts_timed *s, ts_sink to);

#endif
