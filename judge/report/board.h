/* SPDX-License-Identifier: Apache-2.0 */
/* board.h - the scoreboard of a log: entrants, their verdicts, scores and matches. It points into
 * the records, which must outlive it. */
#ifndef TS_BOARD_H
#define TS_BOARD_H

#include <stdio.h>

#include "log.h"

/* The task of entrants that could not be read: it counts against no other entrant. */
#define TS_UNREAD "-"

/* Where a task runs: tasks on a GPU are called NAME/cuda. */
typedef enum ts_board_device { TS_BOARD_CPU, TS_BOARD_CUDA, TS_BOARD_DEVICES } ts_board_device;
ts_board_device ts_device_of(const char *task);

/* An entrant in one task. */
typedef struct ts_entrant_row {
    int64_t     id;
    const char *name, *author, *klass, *language, *task;
    const char *offers; /* its scope ("": every case), and the share of the challenge it covers */
    double      share;
    const char *sample; /* which of a model's answers; NULL: not an answer of a model */
    const char *block;  /* the code block of an answer in Markdown; "": not from Markdown */
    const ts_jr_node *verdict, *score, *rank; /* NULL: not in the log */
    size_t            overall;
    size_t            next; /* 1 + index of the next row of the same entrant; 0: the last */
} ts_entrant_row;

/* Several answers to each task: means over all tasks of the run, 0 for a task without answers. With
 * one answer each, best and median are the score. */
typedef struct ts_samples {
    int    n, k;           /* the most answers to a task; the fewest, the k of pass_k */
    double pass_1, pass_k; /* chance that one answer passes, that one of k does: unbiased */
    double best, median;   /* score */
} ts_samples;

/* An entrant over all tasks: rows of one name and author, and of one class on each device; the
 * answers of a model are one entrant's, whatever their classes. */
typedef struct ts_entrant_overall {
    size_t      first; /* its first row, whose id identifies it in the overall ranking */
    const char *klass; /* "mixed": its answers are of several classes */
    const char *class_on[TS_BOARD_DEVICES]; /* NULL: no answer there; "": answers of a model */
    int         entered, passed;            /* tasks; passed: by at least one of its answers */
    double      S, S_lo, S_hi;              /* geometric mean over its scores; 0: none */
    double      of_best; /* best known time / time, likewise; 0: no anchors in the log */
    int         scored;  /* answers that have a score; 0: none has */
    double      cases;   /* share of cases passed: mean over all tasks, as the score */
    double      score;   /* mean over all tasks of the run; a task not passed counts 0 */
    ts_samples  samples;
    const char *grade;
    const ts_jr_node *rank;
} ts_entrant_overall;

typedef struct ts_head_to_head {
    int    won, lost, tied; /* matches; noise is a tie */
    double margin;          /* mean log ratio: above 0, the row's entrant is faster */
} ts_head_to_head;

typedef struct ts_board {
    const ts_records   *records;
    const ts_jr_node   *run;        /* NULL if the log has none */
    const char         *note;       /* about times of unlike machines; "": there are none */
    const ts_jr_node   *signatures; /* a line per log, see ts_merge_signed; NULL: none */
    const char         *program;    /* how the program was called, for commands; NULL: touchstone */
    bool                ended;
    const char        **task;
    size_t              n_tasks;
    size_t              n_challenges; /* n_tasks without TS_UNREAD, but at least 1 */
    ts_entrant_row     *row;
    size_t              n_rows;
    size_t             *by_id;   /* the rows, sorted by id */
    ts_entrant_overall *overall; /* best first */
    size_t              n_overall;
    ts_head_to_head    *pair; /* [n_overall][n_overall]; NULL if there are no matches */
} ts_board;

/* The row with this id, or NULL. */
ts_entrant_row *ts_board_row(const ts_board *b, int64_t id);

/* The row's next timed workload from record *at on, or NULL; *at moves past it. */
const ts_jr_node *ts_board_time(const ts_board *b, const ts_entrant_row *r, size_t *at);

/* PASS or PASS (common); `whole`: PASS alone. */
bool ts_row_passed(const ts_entrant_row *r, bool whole);

/* Cases passed, run and drawn, 0 in logs of older versions; and the share passed of those drawn. */
typedef struct ts_row_cases {
    int    passed, run, drawn;
    double share;
} ts_row_cases;
ts_row_cases ts_row_cases_of(const ts_entrant_row *r);

/* The words of a fault or a verdict, with what happens: "crashes only when q <= 1". */
void ts_fault_words(const ts_jr_node *fault, char *text, size_t n);

/* Whether it has a place on the scale. A log from before the scale has scores of another one. */
bool ts_row_scored(const ts_entrant_row *r);

bool ts_board_make(const ts_records *r, ts_board *b, char why[TS_WHY]);
void ts_board_free(ts_board *b);

/* Prints the scoreboard, head-to-head results and a table per challenge, at most 100 columns wide
 * except for commands that reproduce a flaw. Text of entrants is stripped of control characters and
 * truncated to its column. */
void ts_board_print(const ts_board *b, FILE *f);

#endif
