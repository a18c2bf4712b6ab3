/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_script.h - one beam search over one of the judge's models, and a record of it: the
 * results, and the calls that the model received.
 *
 * The task draws the model and knows the expected record. The program plays the script for the
 * library and for mutants, the cage for an entrant. */
#ifndef TS_BEAM_SEARCH_SCRIPT_H
#define TS_BEAM_SEARCH_SCRIPT_H

#include "player.h"
#include "touchstone/beam_search.h"
#include "toy.h"

/* How a call is spoilt where the dims alone do not say so. */
enum {
    TS_BEAM_SOUND,
    TS_BEAM_NO_NEXT,
    TS_BEAM_NO_VOCAB,
    TS_BEAM_MUCH_VOCAB,   /* 2^31 */
    TS_BEAM_EMPTY_PROMPT, /* the last one */
    TS_BEAM_LONG_PROMPTS, /* of 2^52 tokens each */
    TS_BEAM_NO_TOKEN,     /* a prompt's last token is past the vocabulary */
    TS_BEAM_LOW_TOKEN,    /* or its first is -1 */
    TS_BEAM_WAYS,
    /* And where they do; then without args, exec, a workspace, or its last byte. */
    TS_BEAM_ITEMS_MINUS = TS_BEAM_WAYS,
    TS_BEAM_ITEMS_HUGE, /* nothing is read before it is refused */
    TS_BEAM_WIDTH_0,
    TS_BEAM_WIDTH_HUGE,
    TS_BEAM_STEPS_MINUS,
    TS_BEAM_STEPS_HUGE,
    TS_BEAM_ALPHA_NAN,
    TS_BEAM_ALPHA_MINUS,
    TS_BEAM_ALPHA_INF,
    TS_BEAM_EOS_MINUS,
    TS_BEAM_EOS_FAR,
    TS_BEAM_NO_ARGS,
    TS_BEAM_NO_EXEC,
    TS_BEAM_NO_WORKSPACE,
    TS_BEAM_SHORT,
    TS_BEAM_WITHOUT, /* and each that follows: a pointer of the args is NULL */
};
int ts_beam_without(void); /* so many pointers must be there */

/* What is kept of each call of next: the number of strings, and their ts_toy_string, added up, in
 * two halves. Behind the steps stand the number of calls of next, of forward, and of bytes changed
 * around what the judge holds itself; then the status. */
enum { TS_BEAM_SEEN = 3, TS_BEAM_SEEN_MORE = 2 };
enum { TS_BEAM_MOST = 1024, TS_BEAM_ITEMS = 64 }; /* beams of all items; items */

typedef struct ts_beam_play_args {
    ts_beam_dims d;                     /* as the search is told */
    int64_t      n_items, width, steps; /* as it is */
    int64_t      n_vocab;
    int32_t      prompt_len[TS_BEAM_ITEMS];
    int64_t      how;              /* TS_BEAM_SOUND, or a way to spoil */
    int64_t      archive, refused; /* 1: ts_beam_search_archive is called; in all ways to spoil,
                                      whose statuses are told in `calls`, one after the other */
    const int32_t *word;
    const float   *weight;
    const int32_t *prompts; /* their lengths once more, [n_items]; then one after the other */
    const int64_t *lengths; /* [n_items] */
    int32_t       *tokens;  /* [n_items][width][steps] */
    double        *logprob; /* [n_items][width] */
    double        *score;   /* [n_items][width] */
    double        *beams;   /* [n_items]: lengths, finished flags, [width] each; n_found */
    double        *calls;   /* [steps + TS_BEAM_SEEN_MORE][TS_BEAM_SEEN] */
} ts_beam_play_args;

/* The contract's functions: in the order of ts_beam_names, of ts_beam_optional and of
 * ts_beam_queries. All but the first may be NULL. */
typedef struct ts_beam_table {
    ts_run_fn       search, archive;
    ts_workspace_fn search_workspace, archive_workspace;
} ts_beam_table;

extern const char *const ts_beam_names[2], *const ts_beam_optional[2], *const ts_beam_queries[3];

/* Plays ts_beam_play_args over a ts_beam_table. A status but TS_OK and TS_E_MODEL is answered, and
 * nothing was written; that of the model is something to be seen. A call without args or exec is
 * the search's own to reject.
 * A query is asked before there are inputs: it is shown shapes, and prompts that are none. */
extern const ts_player ts_player_beam_search;

#endif
