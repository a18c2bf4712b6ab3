/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_model.h - a cache as lists of tokens. */
#ifndef TS_TASK_KV_CACHE_MODEL_H
#define TS_TASK_KV_CACHE_MODEL_H

#include "kv_cache_inside.h"

/* The rows of a token's key and value. Rows that were read back count from 1; 0: none. */
typedef struct kv_token {
    int64_t row;                  /* of the inputs */
    int64_t key_read, value_read; /* what was last read of it, and is still so */
    int64_t key_back; /* cut: what was read of its finished group, which is now its key */
    bool    cut;
    bool    exact; /* of a tree: its key is what was given */
} kv_token;

typedef struct kv_seq {
    bool      open;
    int64_t   len[MOST_LAYERS];
    kv_token *token[MOST_LAYERS];
    int32_t  *page[MOST_LAYERS];
} kv_seq;

typedef struct kv_cache {
    const ts_kv_dims *d;
    kv_seq            seq[TS_KV_SLOTS];
    int32_t          *n_held;     /* of each page, by how many */
    int32_t           least_free; /* no page below it is free */
    int64_t           n_free, n_open;
    bool              forked; /* ever */
} kv_cache;

typedef struct kv_model {
    const ts_kv_cache_args *a;
    const ts_kv_dims       *d; /* of the first cache; the others differ in pages only */
    const float            *read;
    kv_cache                cache[TS_KV_CACHES];
    ts_want                *want_read, *want_out, *want_lse; /* of the next operation */
    int64_t                 n_read, n_out;                   /* rows so far */
    uint64_t                one_in; /* one in so many rows and heads is computed */
} kv_model;

/* A timed script that takes more is checked in item. */
#define MOST_FLOPS 4e8

/* Expected values for the rows of an operation; with `done` false, of one that is rejected: none.
 * */
void ts_kv_model_read(kv_model *m, const ts_kv_op *o, const ts_kv_item *item, bool done);
void ts_kv_model_attend(kv_model *m, const ts_kv_op *o, const ts_kv_item *item, bool done);
void ts_kv_model_tree(kv_model *m, const ts_kv_op *o, const ts_kv_item *item, const int32_t *word,
                      bool done);

#endif
