/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.h - the best continuations of each of several prompts.
 *
 * Beam search extends several strings (beams) per prompt, one token per step, and keeps the best.
 * Log-probabilities are the log-softmax of the model's logits, added up in double. `length` counts
 * generated tokens, including EOS, and
 *     score = logprob / length^alpha          (length 0: 0).
 * The length penalty affects the ranking only, never logprob.
 *
 * Each item (prompt) starts from one empty beam. A step puts an item's finished beams, and every
 * unfinished one extended by every token whose logit is not -inf, into one pool, and keeps the
 * beam_width best by score; fewer, if there are fewer. EOS ends its beam, which then keeps its
 * score, is not extended, and keeps its slot until a better beam takes it. Among equal scores, the
 * smaller parent slot comes first (a finished beam is its own parent), then the smaller token; two
 * tokens of one beam are ordered by logit, as exact scores would be. Slots are ranks. An item stops
 * when it has no unfinished beam, and every item stops at max_new_tokens. Items are independent.
 *
 * Each step is one call of model->next, for the unfinished beams of the running items. A row with a
 * NaN or +inf, or without a finite logit, is TS_E_MODEL.
 *
 * The result is the beams by rank, finished or not; tokens past a length are -1. Slots past n_found
 * have length 0, logprob and score -inf, finished 0.
 *
 * ts_beam_search_archive is a different search, which moves finished beams to an archive. In each
 * step, every extension by EOS competes for a place in the item's archive, which keeps the
 * beam_width best, and the beam_width best other extensions continue. The result is the beam_width
 * best of archive and unfinished beams. Among equal scores, the archive comes first, in order of
 * arrival. An item also stops once its archive is full and no unfinished beam could enter it even
 * if all its remaining tokens had probability 1.
 *
 * With TS_CUDA the logits stay on the device, where model->next writes them, and the workspace is
 * device memory. All other memory is host memory, including the scratch buffer `host`, which stores
 * the strings. A call waits for the device in every step. From the same logits it finds the same
 * strings as the CPU, with log-probabilities within 1e-12 per step. */
#ifndef TOUCHSTONE_BEAM_SEARCH_H
#define TOUCHSTONE_BEAM_SEARCH_H

#include "touchstone/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Size and settings of a search. */
typedef struct ts_beam_dims {
    int64_t n_items;        /* prompts, >= 0 */
    int64_t beam_width;     /* beams per prompt; >= 1, < 2^31 */
    int64_t max_new_tokens; /* most tokens to generate per beam, >= 0 */
    double  alpha;          /* exponent of the length penalty; >= 0, finite */
    int32_t eos;            /* the token that ends a beam, or -1: none */
} ts_beam_dims;

/* Arguments of ts_beam_search and ts_beam_search_archive. */
typedef struct ts_beam_search_args {
    ts_beam_dims    d;          /* size and settings */
    const ts_model *model;      /* its `next` is called */
    const int32_t  *prompts;    /* [sum of prompt_len], tokens, one prompt after the other */
    const int64_t  *prompt_len; /* [n_items], tokens per prompt, >= 1 each */
    int32_t        *tokens;     /* [n_items][beam_width][max_new_tokens], generated tokens */
    int64_t        *length;     /* [n_items][beam_width], generated tokens per beam */
    double         *logprob;    /* [n_items][beam_width] */
    double         *score;      /* [n_items][beam_width] */
    uint8_t        *finished;   /* [n_items][beam_width]: 1 if the beam ends in EOS, else 0 */
    int64_t        *n_found;    /* [n_items], beams per prompt */
    void           *host;       /* TS_CUDA only: scratch in host memory, see ts_beam_search_host */
    size_t          host_bytes; /* size of host */
} ts_beam_search_args;

/* Finds the beams of every prompt. */
TS_API ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_beam_search needs for these arguments. */
TS_API ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                          size_t *n_bytes);

/* Sets *n_bytes to the size of a->host that ts_beam_search needs: 0 on the CPU. */
TS_API ts_status ts_beam_search_host(const ts_beam_search_args *a, const ts_exec *x,
                                     size_t *n_bytes);

/* Finds the beams of every prompt by the search with an archive. */
TS_API ts_status ts_beam_search_archive(const ts_beam_search_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_beam_search_archive needs for these arguments. */
TS_API ts_status ts_beam_search_archive_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                                  size_t *n_bytes);

/* Sets *n_bytes to the size of a->host that ts_beam_search_archive needs: 0 on the CPU. */
TS_API ts_status ts_beam_search_archive_host(const ts_beam_search_args *a, const ts_exec *x,
                                             size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
