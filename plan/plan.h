/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - memory and speed limits of a decoder on a GPU, from its dimensions alone.
 *
 * Bytes of weights and of the cache are counted, not estimated: doc/plan.md has the formulas, and
 * the tests compare them with files and with caches that were really made. Activations and the
 * reserve are estimates. Times are bounds: nothing that moves these bytes at the data sheet's rates
 * can be faster. All is for one GPU of n_gpu that share every matrix (tensor parallelism).
 *
 * Calls that return bool leave one line in `why` when they fail. Counts stop at TS_PLAN_MOST
 * instead of wrapping. */
#ifndef TS_PLAN_H
#define TS_PLAN_H

#include <stdbool.h>

#include "touchstone/kv_cache.h"

enum { TS_PLAN_WHY = 256, TS_PLAN_PARTS = 40 };
#define TS_PLAN_MOST (INT64_MAX / 4)

/* ---- models ---- */

typedef struct ts_plan_model {
    const char *id;
    const char *note; /* where its figures come from; an assumption says so */
    int64_t     n_layer, width, n_head, n_kv_head, head_dim, n_vocab;
    int64_t     n_ffn;     /* of layers without experts */
    int64_t     n_context; /* positions it was made for */
    int64_t     window, n_window_layer;
    int64_t     n_expert, n_expert_used, n_expert_shared, n_expert_ffn;
    int64_t     n_dense_layer;                         /* of a mixture: layers without experts */
    int64_t     kv_rank, q_rank, nope, rope, v_dim;    /* latent attention where kv_rank > 0 */
    int64_t     n_norm;                                /* norms of a layer; 0 is read as 2 */
    bool        tied, qk_norm, sinks;                  /* sinks: one number a query head */
    bool        qkv_bias, o_bias, ffn_bias, norm_bias; /* ffn_bias: the router's, too */
    bool        router_bias;                           /* without ffn_bias */
    bool        plain_ffn;                             /* two matrices, no gate */
    int64_t     file_bytes;                            /* of tensors on disk; 0: no file was read */
} ts_plan_model;

extern const ts_plan_model ts_plan_models[]; /* ends with an id of NULL */

/* ---- GPUs: dense rates, without the factor for sparse matrices ---- */

typedef struct ts_plan_gpu {
    const char *id;
    double      gib;              /* memory */
    double      gbs;              /* 1e9 bytes a second */
    double      bf16, fp8, int8t; /* 1e12 operations a second; 0: not offered */
    const char *source;
} ts_plan_gpu;

extern const ts_plan_gpu ts_plan_gpus[]; /* ends with an id of NULL */

/* By id, or NULL. Then `why` names the nearest ones. */
const ts_plan_model *ts_plan_find_model(const char *id, char why[TS_PLAN_WHY]);
const ts_plan_gpu   *ts_plan_find_gpu(const char *id, char why[TS_PLAN_WHY]);

/* ---- files ---- */

/* A folder with config.json; a config.json; a .safetensors file, or a shards' index, with its
 * config.json beside it; a GGUF file. Only headers are read. */
bool ts_plan_read(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY]);
/* False unless all dimensions are there and small enough to be multiplied. */
bool ts_plan_check_model(const ts_plan_model *m, char why[TS_PLAN_WHY]);

/* ---- weights ---- */

typedef enum ts_plan_weight {
    TS_W_F32,
    TS_W_BF16,
    TS_W_FP8,
    TS_W_INT8,
    TS_W_INT4,
    TS_W_TERNARY,
    TS_W_FILE, /* as they lie on disk */
    TS_N_WEIGHTS
} ts_plan_weight;

extern const char *const ts_plan_weight_name[TS_N_WEIGHTS];

/* Which tokens meet a part: what decides on bytes read and on arithmetic. */
typedef enum ts_plan_use {
    TS_USE_ALL,    /* a matrix every token is multiplied with */
    TS_USE_EXPERT, /* a matrix of an expert; count is over all experts and layers */
    TS_USE_LOOKUP, /* an embedding: one row a token */
    TS_USE_HEAD,   /* the last matrix: only for tokens whose logits are wanted */
    TS_USE_VECTOR  /* norms and biases */
} ts_plan_use;

typedef struct ts_plan_part {
    const char *name;
    int64_t     rows, cols, count;
    ts_plan_use use;
    bool        narrow; /* takes the dtype asked for; else at least 16 bits */
} ts_plan_part;

/* Everything the model consists of, as one of n_gpu GPUs has it; the number of parts. */
int     ts_plan_parts(const ts_plan_model *m, int64_t n_gpu, ts_plan_part part[TS_PLAN_PARTS]);
int64_t ts_plan_part_bytes(const ts_plan_part *p, ts_plan_weight w);
int64_t ts_plan_params(const ts_plan_model *m);
int64_t ts_plan_active_params(const ts_plan_model *m); /* that a token meets */
int64_t ts_plan_weight_bytes(const ts_plan_model *m, int64_t n_gpu, ts_plan_weight w);

/* ---- the cache ---- */

typedef struct ts_plan_cache {
    ts_dtype    store, meta, io; /* as in ts_kv_dims */
    ts_key_axis axis;
    int64_t     key_group, page; /* page 0: contiguous */
    bool        keep_all;        /* layers with a window keep what has left it, as ts_kv does */
} ts_plan_cache;

typedef struct ts_plan_kv {
    int64_t
        book; /* tables, lengths, the handle: on the CPU before the pools, with CUDA the host's */
    int64_t pools; /* keys, values, scales, tails; with CUDA the device's page table, too */
    int64_t state; /* what ts_kv_bytes answers */
} ts_plan_kv;

/* `latent`: one row of head_dim a token, and no values. */
void ts_plan_kv_bytes(const ts_kv_dims *d, ts_device device, bool latent, ts_plan_kv *out);
/* What n tokens of a sequence in a layer really fill: data, scales and tails. */
int64_t ts_plan_kv_live(const ts_kv_dims *d, bool latent, int64_t n);
/* Bytes a token adds when the cache is long, over all layers; layers whose window is full add
 * nothing more and are not counted. */
double ts_plan_kv_per_token(const ts_plan_model *m, int64_t n_gpu, const ts_plan_cache *c);

/* ---- plans ---- */

typedef struct ts_plan_ask {
    const ts_plan_model *model;
    const ts_plan_gpu   *gpu;
    int64_t              n_gpu, batch, context;
    int64_t              chunk; /* prompt tokens taken in one step */
    ts_plan_weight       weights;
    ts_plan_cache        cache;
    double               reserve_gib; /* the driver's, and what no allocator can give out */
} ts_plan_ask;

/* Of one GPU, in bytes. */
typedef struct ts_plan_memory {
    int64_t capacity, weights, cache, activations, reserve;
    int64_t total, missing; /* missing 0: it fits */
    int64_t waste;          /* of the cache: reserved, but filled by no token */
} ts_plan_memory;

bool    ts_plan_check(const ts_plan_ask *a, char why[TS_PLAN_WHY]);
void    ts_plan_memory_of(const ts_plan_ask *a, ts_plan_memory *m);
int64_t ts_plan_cache_bytes(const ts_plan_ask *a);
int64_t ts_plan_cache_live(const ts_plan_ask *a);
int64_t ts_plan_max_context(const ts_plan_ask *a); /* for a->batch; 0: not even one token */
int64_t ts_plan_max_batch(const ts_plan_ask *a);   /* for a->context */

/* A step of decode makes one token of every sequence; a prefill reads `context` tokens of each. */
typedef struct ts_plan_bound {
    double flops, bytes, weight_bytes, cache_bytes;
    double intensity, ridge; /* flops a byte: of this work, and where the GPU's two limits meet */
    double compute_s, memory_s, seconds;
    double tokens_per_s; /* over the batch */
} ts_plan_bound;

void ts_plan_decode(const ts_plan_ask *a, ts_plan_bound *b);
void ts_plan_prefill(const ts_plan_ask *a, ts_plan_bound *b);

#endif
