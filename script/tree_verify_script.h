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

/* How a call is spoilt where the dims alone do not say so. */
enum {
    TS_TREE_SOUND,
    TS_TREE_NO_FORWARD,
    TS_TREE_NO_VOCAB,
    TS_TREE_MUCH_VOCAB,  /* 2^31 */
    TS_TREE_CHILD_FIRST, /* the first node hangs on the second */
    TS_TREE_OWN_PARENT,  /* the last node on itself */
    TS_TREE_BELOW,       /* a parent of -2 */
    TS_TREE_FAR_TOKEN,   /* a node's token is past the vocabulary */
    TS_TREE_FAR_PROMPT,  /* the prompt's */
    TS_TREE_NEGATIVE,    /* a node's token is -1 */
    TS_TREE_LOW_PROMPT,  /* the prompt's */
    TS_TREE_DRAW_OF_ONE, /* temperature 1, and the last u = 1 */
    TS_TREE_DRAW_BELOW,  /* it is below 0 */
    TS_TREE_DRAW_NAN,
    TS_TREE_WITHOUT, /* and each that follows: a pointer of the args is NULL */
};
int ts_tree_without(void); /* so many pointers must be there: u where temperature is not 0 */

enum { TS_TREE_MOST = 512 }; /* nodes */

/* What is played: cycles of verify; or of another function one call after the other, sound ones or
 * each spoilt in its own way, see tree_more.c. */
enum { TS_TREE_VERIFY, TS_TREE_MASK, TS_TREE_BIAS, TS_TREE_RESIDUAL };

/* Of those, what is seen of a call: its status, bytes changed beside what it may write, the number
 * of the child; then positions. Of spoilt calls: each one's status, and all bytes changed. */
enum { TS_MORE_STATUS, TS_MORE_OVER, TS_MORE_ACCEPTED, TS_MORE_SEEN };
enum { TS_MORE_ROWS = 512 }; /* of a mask */

/* What is seen of a cycle: its status, n_out, n_path; how often next and forward were called; the
 * rows and the wanted rows of the first pass; bytes changed around what the judge holds itself, or
 * by a call that failed. Then the nodes' status. */
enum {
    TS_TREE_STATUS,
    TS_TREE_N_OUT,
    TS_TREE_N_PATH,
    TS_TREE_NEXTS,
    TS_TREE_FORWARDS,
    TS_TREE_ROWS,
    TS_TREE_WANTS,
    TS_TREE_OVER,
    TS_TREE_SEEN,
};

typedef struct ts_tree_play_args {
    ts_tree_dims   d; /* of a spoilt call, which is the first cycle's; else max_new, temperature */
    int64_t        n_cycle, n_node, max_new, n_vocab, most_rows;
    int64_t        how; /* TS_TREE_SOUND, or a way to spoil */
    int64_t        spoilt;
    int64_t        function, refused; /* TS_TREE_VERIFY, ...; 1: all its calls are spoilt */
    const int32_t *word;
    const float   *weight;
    const int32_t *script; /* a cycle: prompt_len; prompt, tokens, parents. Else, [n_cycle][n_node]:
                              parents; or tokens of children */
    const double *u;       /* [n_cycle][max_new]; of residual [n_cycle][n_node + 1] */
    const double *p, *q;   /* residual: [n_cycle][n_vocab] */
    int32_t      *out;     /* [n_cycle][max_new] */
    int32_t      *path;    /* [n_cycle][n_node] */
    double       *seen;    /* [n_cycle][TS_TREE_SEEN + n_node] */
    int32_t      *passed;  /* [n_cycle][most_rows]: token, position, wanted or not and
                              ts_toy_digest of the answer; the mask */
    uint8_t *visible;      /* [n_cycle][rows][rows], rows being prompt and nodes */
    float   *bias;         /* likewise */
} ts_tree_play_args;

/* Words of `passed` for a row: the mask goes in bits. */
static inline int64_t ts_tree_row_words(int64_t most_rows)
{
    return 3 + (most_rows + 31) / 32;
}

/* The contract's functions: in the order of ts_tree_names, of ts_tree_optional and of
 * ts_tree_queries. All but the first may be NULL. */
typedef struct ts_tree_table {
    ts_run_fn       verify, mask, bias, residual;
    ts_workspace_fn verify_workspace;
} ts_tree_table;

extern const char *const ts_tree_names[2], *const ts_tree_optional[4], *const ts_tree_queries[2];

/* Plays ts_tree_play_args over a ts_tree_table. A call without args or exec is verify's own to
 * reject. A query is asked before there are inputs: it is shown shapes, with the longest prompt
 * that a cycle may have, and a chain of nodes. */
extern const ts_player ts_player_tree_verify;

/* The status that call i of the spoilt ones of a function must answer; false: there is no such
 * call. */
bool ts_tree_more_must(int64_t function, int i, ts_status *must);

/* Private to script/: calls of another function than verify. */
ts_status ts_tree_play_more(ts_run_fn f, const ts_tree_play_args *a, const ts_exec *x);

#endif
