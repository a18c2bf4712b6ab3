/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - a decoder under the searches of the library, over a KV cache.
 *
 * Beams are sequences of the cache: one that goes on in several ways is forked, which shares its
 * pages and copies none, and one that goes on in no way is freed. A drafted tree is run behind the
 * cached text without entering the cache; what is accepted is appended then.
 *
 * Creating allocates, steps do not. `why` is as in decoder.h. */
#ifndef TS_SEARCH_H
#define TS_SEARCH_H

#include "decoder.h"
#include "touchstone/beam_search.h"

/* ---- strings that share beginnings, for ts_beam_search ---- */

typedef struct ts_beams ts_beams;

typedef struct ts_beams_stats {
    int64_t n_pass;       /* of next */
    int64_t n_row;        /* tokens that were run */
    int64_t n_string_row; /* tokens of the requested strings: what runs without a cache */
    int64_t n_fork;
    /* In pages; 0 where the cache is contiguous. */
    int64_t held_most, alone_most; /* at once; and if every string had its own pages */
    int64_t shared;                /* that forks took over, and would have copied otherwise */
    int64_t copied;                /* that were copied then, to be written */
} ts_beams_stats;

/* o->n_seq: strings of a call, at most. */
bool ts_beams_create(const ts_decoder *m, const ts_engine_options *o, ts_beams **b,
                     char why[TS_MODEL_WHY]);
void ts_beams_free(ts_beams **b);
/* Its `next` writes logits to host memory: strings are found again by their prefix, in any order.
 * There is no `forward`. Valid until b is freed. */
ts_model              ts_beams_model(ts_beams *b);
const ts_beams_stats *ts_beams_stats_of(const ts_beams *b);
ts_status             ts_beams_status(const ts_beams *b); /* of the last call */

/* ts_beam_search, or _archive, by these beams, where the decoder is: there the logits stay. Of the
 * arguments model and host are not looked at; memory is allocated, and freed. */
ts_status ts_beams_search(ts_beams *b, const ts_beam_search_args *a, bool archive);

/* ---- the same by recomputing every string, to compare with ---- */

typedef struct ts_stateless ts_stateless;

/* Its `next` and its `forward` run the whole string of each requested row by itself. */
bool     ts_stateless_create(const ts_decoder *m, const ts_engine_options *o, ts_stateless **s,
                             char why[TS_MODEL_WHY]);
void     ts_stateless_free(ts_stateless **s);
ts_model ts_stateless_model(ts_stateless *s);

/* ---- drafts ---- */

/* Node i carries token[i] and follows node parent[i] < i, or, with -1, the text. */
typedef struct ts_draft {
    int64_t  n_node, n_most;
    int32_t *token, *parent; /* [n_most] */
} ts_draft;

/* Drafts what may follow a text: at most d->n_most nodes, the longest path n_deep. */
typedef struct ts_drafter {
    void *self;
    ts_status (*draft)(void *self, const int32_t *text, int64_t n_text, int64_t n_deep,
                       ts_draft *d);
} ts_drafter;

/* What followed the last tokens of the text where they stood before: up to three of them, the
 * longest match first, then the latest; `width` paths at most. */
typedef struct ts_lookup {
    int64_t width;
} ts_lookup;

ts_drafter ts_lookup_drafter(ts_lookup *l);

/* Another model with the same tokens: in each depth the `width` most probable strings continue. */
typedef struct ts_small ts_small;

bool ts_small_create(const ts_decoder *m, int64_t width, const ts_engine_options *o, ts_small **s,
                     char why[TS_MODEL_WHY]);
void ts_small_free(ts_small **s);
ts_drafter ts_small_drafter(ts_small *s);

/* ---- one text, made by guesses that are checked ---- */

typedef struct ts_speculator ts_speculator;

typedef struct ts_speculator_stats {
    int64_t n_pass, n_row;            /* passes of the model, and tokens run in them */
    int64_t n_drafted, n_accepted;    /* nodes */
    int64_t n_token;                  /* made: accepted ones, and one more a pass */
    double  prompt_s, draft_s, run_s; /* run: passes and what they lead to */
} ts_speculator_stats;

/* n_node, n_deep: of a tree, at most. o->n_seq is not looked at. */
bool ts_speculator_create(const ts_decoder *m, const ts_engine_options *o, int64_t n_node,
                          int64_t n_deep, ts_speculator **s, char why[TS_MODEL_WHY]);
void ts_speculator_free(ts_speculator **s);

/* Reads a prompt, and discards the earlier text. Temperature and seed: tokens are drawn as in
 * ts_tree_verify, number i of a text by seed and i. */
bool ts_speculator_begin(ts_speculator *s, const int32_t *prompt, int64_t n_prompt,
                         double temperature, uint64_t seed, char why[TS_MODEL_WHY]);

/* What a step did, until the next one. */
typedef struct ts_speculation {
    ts_draft       tree;
    const uint8_t *status; /* [tree.n_node], ts_node_status */
    const int32_t *out;    /* [n_out] */
    int64_t        n_out;  /* 0: the text is as long as it can be */
} ts_speculation;

/* One pass: at most max_new tokens, the same ones that come without a draft (d NULL). */
ts_status ts_speculator_step(ts_speculator *s, const ts_drafter *d, int64_t max_new,
                             ts_speculation *did);

const ts_speculator_stats *ts_speculator_stats_of(const ts_speculator *s);

#endif
