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

/* Invalid calls: three lists, each of which begins at its number. */
enum {
    TS_BEAM_SOUND,
    TS_BEAM_ODD = 100,     /* by what the dims alone do not express */
    TS_BEAM_NUMBERS = 200, /* by its dims; then without args, exec, a workspace, or its last byte */
    TS_BEAM_WITHOUT = 300, /* without a pointer of the args */
    TS_BEAM_LISTS = 100,   /* from one to the next */
};

/* The status that such a call must return; false: there is none. */
bool ts_beam_must(const void *args, int64_t how, ts_status *must);

/* The record of each call of next: the number of strings, and the sum of their ts_toy_string, in
 * two halves. After the steps come the numbers of calls of next and forward, and of bytes changed
 * around the judge's buffers; then the status, the bytes that a failed search wrote, and the number
 * of prompts that were no string or, of a search that the model ended, 1 if it never did: all that
 * it gave was a distribution.
 * Of invalid calls: the status of each, what they wrote and called, bytes changed around buffers.
 */
enum { TS_BEAM_SEEN = 3, TS_BEAM_SEEN_MORE = 2 };
enum { TS_BEAM_STATUS = 3, TS_BEAM_WROTE, TS_BEAM_AMISS }; /* among those after the steps */
enum { TS_BEAM_MOST = 4352, TS_BEAM_ITEMS = 64 };          /* beams of all items; items */

typedef struct ts_beam_play_args {
    ts_beam_dims d;                     /* as passed to the search */
    int64_t      n_items, width, steps; /* actual */
    int64_t      n_vocab;
    int32_t      prompt_len[TS_BEAM_ITEMS];
    int64_t      how;         /* TS_BEAM_SOUND, or an invalid call */
    int64_t archive, refused; /* archive 1: call ts_beam_search_archive. refused 1: make all invalid
                                 calls, and store their statuses in `calls`, one after the other */
    const int32_t *word;
    const float   *weight;
    const int32_t
        *prompts; /* their lengths again, [n_items]; then the prompts, one after the other */
    const int64_t *lengths; /* [n_items] */
    int32_t       *tokens;  /* [n_items][width][steps] */
    double        *logprob; /* [n_items][width] */
    double        *score;   /* [n_items][width] */
    double        *beams;   /* [n_items]: lengths, finished flags, [width] each; n_found */
    double        *calls;   /* [steps + TS_BEAM_SEEN_MORE][TS_BEAM_SEEN] */
} ts_beam_play_args;

/* The API functions in the order of ts_beam_names, ts_beam_optional and ts_beam_queries. All but
 * the first may be NULL. */
typedef struct ts_beam_table {
    ts_run_fn       search, archive;
    ts_workspace_fn search_workspace, archive_workspace, search_host, archive_host;
} ts_beam_table;

extern const char *const ts_beam_names[2], *const ts_beam_optional[2], *const ts_beam_queries[5];

/* Plays ts_beam_play_args over a ts_beam_table. Returns any status other than TS_OK and TS_E_MODEL,
 * with nothing written; TS_E_MODEL is part of the record. The search itself must reject a call
 * without args or exec. The workspace is queried before there are inputs, with the right shapes and
 * invalid prompts. */
extern const ts_player ts_player_beam_search;

#endif
