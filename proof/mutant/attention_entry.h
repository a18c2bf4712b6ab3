/* SPDX-License-Identifier: Apache-2.0 */
/* attention_entry.h - shared by the mutants of both attention tasks: a validation from which single
 * checks can be left out, and rows. */
#ifndef TS_ATTENTION_ENTRY_H
#define TS_ATTENTION_ENTRY_H

#include "touchstone/attention.h"
#include "values.h"

/* Which invalid calls are accepted; 0: none. */
enum {
    LET_ARG = 1,
    LET_WINDOW = 2,
    LET_HEADS = 4,
    LET_257 = 8,
    LET_OVERFLOW = 16,
    LET_DTYPE = 32,
    LET_LENGTH = 64
};

static inline bool attention_overflows(const ts_attention_dims *d, int64_t n_head, int64_t n)
{
    int64_t m = INT64_MAX / 8 / d->head_dim / n_head;
    if (d->n_batch > m) return true;
    if (d->n_batch > 0) m /= d->n_batch;
    return n > m;
}

static inline ts_status attention_entry(const ts_attention_dims *d, bool has_all, int let)
{
    if (!has_all || !isfinite(d->scale) || d->causal < 0 || d->causal > 1 ||
        (unsigned)d->layout > TS_BNHD)
        return let & LET_ARG ? TS_OK : TS_E_ARG;
    if (d->window > 0 && !d->causal) return let & LET_WINDOW ? TS_OK : TS_E_ARG;
    if (d->n_batch < 0 || d->n_q < 0 || d->n_k < 0 || d->window < 0) return TS_E_SHAPE;
    if (d->tile_q < 0 || d->tile_k < 0 || d->n_q_head < 1 || d->n_kv_head < 1) return TS_E_SHAPE;
    if (d->n_q_head % d->n_kv_head) return let & LET_HEADS ? TS_OK : TS_E_SHAPE;
    if (d->head_dim < 1) return TS_E_SHAPE;
    if (d->head_dim > 256) return let & LET_257 ? TS_OK : TS_E_SHAPE;
    if (attention_overflows(d, d->n_q_head, d->n_q) || attention_overflows(d, d->n_kv_head, d->n_k))
        return let & LET_OVERFLOW ? TS_OK : TS_E_SHAPE;
    if ((unsigned)d->dtype > TS_BF16) return let & LET_DTYPE ? TS_OK : TS_E_DTYPE;
    return TS_OK;
}

static inline ts_status attention_lengths(const ts_attention_dims *d, const int32_t *kv_len,
                                          int let)
{
    for (int64_t b = 0; kv_len && b < d->n_batch; b++)
        if ((kv_len[b] < 0 || kv_len[b] > d->n_k) && !(let & LET_LENGTH)) return TS_E_ARG;
    return TS_OK;
}

/* The first element of a row. */
static inline int64_t attention_at(const ts_attention_dims *d, int64_t n_head, int64_t n, int64_t b,
                                   int64_t h, int64_t i, bool heads_first)
{
    const int64_t row = heads_first ? (b * n_head + h) * n + i : (b * n + i) * n_head + h;
    return row * d->head_dim;
}

#endif
