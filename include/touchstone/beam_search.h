/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.h - the best continuations of each of several prompts.
 *
 * Log-probabilities are the log-softmax of the model's logits, added up in double. `length` counts
 * generated tokens, EOS among them, and
 *     score = logprob / length^alpha          (length 0: 0).
 * The penalty ranks, and never enters logprob.
 *
 * Each item (prompt) starts from one empty beam. A step puts an item's finished beams, and every
 * unfinished one extended by every token whose logit is not -inf, into one pool, and keeps the
 * beam_width best by score; fewer, if there are fewer. EOS ends its beam, which then keeps its
 * score, is not extended, and holds its slot until a better one takes it. Equal scores: the smaller
 * slot of the parent first (a finished beam is its own parent), then the smaller token; two tokens
 * of one beam go by their logits, as the scores would were they not rounded. Slots are ranks. An
 * item without an unfinished beam stops; so do all at max_new_tokens. No item sees another.
 *
 * Each step is one call of model->next, for the unfinished beams of the items that go on. A row
 * with a NaN or +inf, or without a finite logit: TS_E_MODEL.
 *
 * Returned are the beams by rank, finished or not; tokens past a length are -1. Places past n_found
 * have length 0, logprob and score -inf, finished 0.
 *
 * ts_beam_search_archive is another search: a beam that ends is kept aside. Each step every
 * extension by EOS is offered to the item's archive, which has room for the beam_width best, and
 * the beam_width best of the other extensions go on. Returned are the beam_width best of archive
 * and unfinished beams. Equal scores: the archive first, in it the one that came first. An item
 * stops, too, once its archive is full and no unfinished beam, were the rest of its tokens certain,
 * could enter it.
 *
 * With TS_CUDA the logits stay on the device, where model->next writes them, and the workspace is
 * memory of that device; all else is the host's, and so is the scratch `host`, in which the strings
 * lie. A call waits for the device in every step. From the same logits it finds what the CPU does:
 * the same strings, log-probabilities within 1e-12 a step. */
#ifndef TOUCHSTONE_BEAM_SEARCH_H
#define TOUCHSTONE_BEAM_SEARCH_H

#include "touchstone/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_beam_dims {
    int64_t n_items;        /* >= 0 */
    int64_t beam_width;     /* >= 1, < 2^31 */
    int64_t max_new_tokens; /* >= 0 */
    double  alpha;          /* >= 0, finite */
    int32_t eos;            /* a token, or -1: none */
} ts_beam_dims;

typedef struct ts_beam_search_args {
    ts_beam_dims    d;
    const ts_model *model;
    const int32_t  *prompts;    /* one after the other */
    const int64_t  *prompt_len; /* [n_items], >= 1 each */
    int32_t        *tokens;     /* [n_items][beam_width][max_new_tokens] */
    int64_t        *length;     /* [n_items][beam_width] */
    double         *logprob;    /* [n_items][beam_width] */
    double         *score;      /* [n_items][beam_width] */
    uint8_t        *finished;   /* [n_items][beam_width]: 1 if it ends in EOS */
    int64_t        *n_found;    /* [n_items] */
    void           *host;       /* with TS_CUDA only: as many bytes as ts_.._host asks for */
    size_t          host_bytes;
} ts_beam_search_args;

TS_API ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x);
TS_API ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                          size_t *n_bytes);
TS_API ts_status ts_beam_search_host(const ts_beam_search_args *a, const ts_exec *x,
                                     size_t *n_bytes); /* 0 on the CPU */

TS_API ts_status ts_beam_search_archive(const ts_beam_search_args *a, const ts_exec *x);
TS_API ts_status ts_beam_search_archive_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                                  size_t *n_bytes);
TS_API ts_status ts_beam_search_archive_host(const ts_beam_search_args *a, const ts_exec *x,
                                             size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
