/* SPDX-License-Identifier: Apache-2.0 */
/* board.h - a log seen as a scoreboard: who entered what, and how it went. Everything points into
 * the records, which must outlive the board. */
#ifndef TS_BOARD_H
#define TS_BOARD_H

#include <stdio.h>

#include "log.h"

/* One entrant in one task. */
typedef struct ts_entrant_row {
    int64_t     id;
    const char *name, *author, *klass, *language, *task;
    const char *offers; /* its scope, "": everything; and the share of the challenge that is */
    double      share;
    const char *sample; /* which of a model's answers; NULL: it is not one of a model's */
    const char *block;  /* the code block of an answer in Markdown; "": it is none */
    const ts_jr_node *verdict, *score, *rank; /* NULL where the log has none */
    size_t            contestant;
} ts_entrant_row;

/* Several answers to each task: means over all tasks of the run, 0 where there is none. With one
 * answer each, best and median are the score. */
typedef struct ts_samples {
    int    n, k;           /* the most answers to a task; the fewest, which pass_k is of */
    double pass_1, pass_k; /* chance that one answer passes, that one of k does: unbiased */
    double best, median;   /* score */
} ts_samples;

/* The same name, author and class over all tasks; a model's answers are one contestant's whatever
 * their classes. */
typedef struct ts_contestant {
    size_t            first; /* its first row: its id stands for it in the overall ranking */
    const char       *klass; /* "mixed": its answers are of several */
    int               entered, passed; /* tasks; passed: by one of its answers at least */
    double            S, S_lo, S_hi;   /* geometric mean over the tasks it passed; 0: none */
    double            score;           /* mean over all tasks of the run: one not passed counts 0 */
    ts_samples        samples;
    const char       *grade;
    const ts_jr_node *rank;
} ts_contestant;

typedef struct ts_head_to_head {
    int    won, lost, tied; /* matches; noise is a tie */
    double margin;          /* mean log ratio: above 0, the row's entrant is faster */
} ts_head_to_head;

typedef struct ts_board {
    const ts_jr_node *run; /* NULL if the log has none */
    bool              ended;
    const char      **task;
    size_t            n_tasks;
    ts_entrant_row   *row;
    size_t            n_rows;
    ts_contestant    *contestant; /* best first */
    size_t            n_contestants;
    ts_head_to_head  *pair; /* [n_contestants][n_contestants] */
} ts_board;

/* PASS or PASS (common); `whole`: PASS alone. */
bool ts_row_passed(const ts_entrant_row *r, bool whole);

bool ts_board_make(const ts_records *r, ts_board *b, char why[TS_WHY]);
void ts_board_free(ts_board *b);

/* Scoreboard, head to head and a table a challenge, at most 100 columns wide but for the commands
 * that show a flaw again. Whatever an entrant
 * wrote is shown without control characters and cut to its column. */
void ts_board_print(const ts_board *b, FILE *f);

#endif
