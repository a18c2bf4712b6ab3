/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_script.h - several cycles of verification over one of the judge's models, and a
 * record of them: the results, and every argument that forward received.
 *
 * The tokens that a cycle must emit are known in advance, so the prompts and trees of all cycles
 * are drawn with the case. An entrant that errs in one cycle has failed, whatever the later ones
 * give.
 */
#ifndef TS_TREE_VERIFY_SCRIPT_H
#define TS_TREE_VERIFY_SCRIPT_H

#include <stdbool.h>

#include "player.h"
#include "touchstone/tree_verify.h"
#include "toy.h"

/* Invalid calls: lists, each of which begins at its number. */
enum {
    TS_TREE_SOUND,
    TS_TREE_ODD = 100,     /* by what the dims alone do not express */
    TS_TREE_WITHOUT = 200, /* at temperature 1, without a pointer of the args */
    TS_TREE_LISTS = 100,   /* from one to the next */
};

/* The status that such a call must return; false: there is none. */
bool ts_tree_must(const void *args, int64_t how, ts_status *must);

enum { TS_TREE_MOST = 512 }; /* nodes */

/* What is played: cycles of verify; or several calls of another function, all valid or each invalid
 * in its own way, see tree_more.c. */
enum { TS_TREE_VERIFY, TS_TREE_MASK, TS_TREE_BIAS, TS_TREE_RESIDUAL };

/* The record of such a call: its status, changed bytes outside its outputs, the number of the
 * child; then positions. Of invalid calls: the status of each; then, of all together,
 * the bytes changed inside their outputs, and outside. */
enum { TS_MORE_STATUS, TS_MORE_OVER, TS_MORE_ACCEPTED, TS_MORE_SEEN };
enum { TS_MORE_ROWS = 512 }; /* of a mask */

/* The record of a cycle: its status, n_out, n_path; numbers of calls of next and forward; rows and
 * requested rows of the first pass; bytes changed around the judge's buffers; bytes that a failed
 * call wrote. Then the nodes' status. */
enum {
    TS_TREE_STATUS,
    TS_TREE_N_OUT,
    TS_TREE_N_PATH,
    TS_TREE_NEXTS,
    TS_TREE_FORWARDS,
    TS_TREE_ROWS,
    TS_TREE_WANTS,
    TS_TREE_OVER,
    TS_TREE_WROTE,
    TS_TREE_SEEN,
};

typedef struct ts_tree_play_args {
    ts_tree_dims
        d; /* for an invalid call, in the first cycle; else only max_new and temperature count */
    int64_t        n_cycle, n_node, max_new, n_vocab, most_rows;
    int64_t        how; /* TS_TREE_SOUND, or an invalid call */
    int64_t        spoilt;
    int64_t        function, refused; /* TS_TREE_VERIFY, ...; 1: all its calls are invalid */
    const int32_t *word;
    const float   *weight;
    const int32_t *script; /* verify, per cycle: prompt_len; prompt, tokens, parents. Others,
                              [n_cycle][n_node]: parents, or tokens of children */
    const double *u;       /* [n_cycle][max_new]; residual: [n_cycle][n_node + 1] */
    const double *p, *q;   /* residual: [n_cycle][n_vocab] */
    int32_t      *out;     /* [n_cycle][max_new] */
    int32_t      *path;    /* [n_cycle][n_node] */
    double       *seen;    /* [n_cycle][TS_TREE_SEEN + n_node] */
    int32_t *passed;  /* [n_cycle][most_rows]: token, position, whether requested, ts_toy_digest of
                         the logits; the mask */
    uint8_t *visible; /* [n_cycle][rows][rows]; rows: prompt and nodes */
    float   *bias;    /* [n_cycle][rows][rows] */
} ts_tree_play_args;

/* Words of `passed` per row: the mask is stored as bits. */
static inline int64_t ts_tree_row_words(int64_t most_rows)
{
    return 3 + (most_rows + 31) / 32;
}

/* The API functions in the order of ts_tree_names, ts_tree_optional and ts_tree_queries. All but
 * the first may be NULL. */
typedef struct ts_tree_table {
    ts_run_fn       verify, mask, bias, residual;
    ts_workspace_fn verify_workspace, verify_host;
} ts_tree_table;

extern const char *const ts_tree_names[2], *const ts_tree_optional[4], *const ts_tree_queries[3];

/* Plays ts_tree_play_args over a ts_tree_table. Verify itself must reject a call without args or
 * exec. The workspace is queried before there are inputs, with the longest prompt of any cycle and
 * a chain of nodes. */
extern const ts_player ts_player_tree_verify;

/* The status that invalid call i of a function must return; false: there is no such call. */
bool ts_tree_more_must(int64_t function, int i, ts_status *must);

/* Private to the player: calls of functions other than verify. */
ts_status ts_tree_play_more(ts_run_fn f, const ts_tree_play_args *a, const ts_exec *x);

#endif
