/* SPDX-License-Identifier: Apache-2.0 */
/* unit_train.h - what the tests of model/train/ share: small nets, and batches for them. */
#ifndef TS_UNIT_TRAIN_H
#define TS_UNIT_TRAIN_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "train.h"
#include "unit.h"

static inline ts_net_options net_options(int64_t n_layer, int64_t width, int64_t n_head,
                                         int64_t n_kv_head, int64_t head_dim, int64_t n_ffn,
                                         int64_t n_vocab)
{
    ts_net_options o = { .dims = { .n_layer = n_layer,
                                   .width = width,
                                   .n_head = n_head,
                                   .n_kv_head = n_kv_head,
                                   .head_dim = head_dim,
                                   .n_ffn = n_ffn,
                                   .n_vocab = n_vocab,
                                   .n_context = 256,
                                   .norm_eps = 1e-6,
                                   .rope_theta = 10000 },
                         .dtype = TS_F32,
                         .n_batch = 2,
                         .n_token = 7,
                         .n_threads = 1 }; /* small nets gain nothing by more */
    ts_net_dims_set(&o.dims);
    return o;
}

/* Kinds of nets: the scale of ternary weights is that of a group, or of two. */
enum { KINDS = 3 };
static const char *const kinds[KINDS] = { "float", "ternary", "ternary in pairs" };

static inline void set_kind(ts_net_options *o, int kind)
{
    o->ternary = kind > 0;
    o->paired = kind == 2;
}

static inline ts_net *net_of(const ts_net_options *o, uint64_t seed)
{
    char    why[TS_MODEL_WHY] = "";
    ts_net *n = NULL;
    if (!ts_net_create(o, seed, &n, why)) fail_msg("%s", why);
    return n;
}

static inline ts_net_batch batch_of(const ts_net_options *o)
{
    const size_t       bytes = (size_t)(o->n_batch * o->n_token) * sizeof(int32_t);
    const ts_net_batch b = { malloc(bytes), malloc(bytes) };
    assert_true(b.input && b.target);
    return b;
}

static inline void batch_free(ts_net_batch *b)
{
    free(b->input);
    free(b->target);
}

/* Random tokens below `most`, each the target of the one before; the last has none. */
static inline void batch_fill(const ts_net_options *o, ts_net_batch *b, int64_t most, uint64_t seed)
{
    for (int64_t i = 0; i < o->n_batch * o->n_token; i++)
        b->input[i] = (int32_t)(ts_bits(seed, i) % (uint64_t)most);
    for (int64_t i = 0; i < o->n_batch * o->n_token; i++)
        b->target[i] = (i + 1) % o->n_token ? b->input[i + 1] : -1;
}

#endif
