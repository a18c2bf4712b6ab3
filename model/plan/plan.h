/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - memory and speed limits of a decoder on a GPU, from its dimensions alone.
 *
 * Bytes of weights and of the cache are exact: doc/plan.md has the formulas, and tests compare them
 * with files and with real caches. Activations and the reserve are estimates. Times are lower
 * bounds: no code that moves these bytes at the data sheet's rates is faster. All figures are for
 * one of n_gpu GPUs that share every matrix (tensor parallelism).
 *
 * Functions that return bool write one line to `why` on failure. Counts saturate at TS_PLAN_MOST.
 */
#ifndef TS_PLAN_H
#define TS_PLAN_H

#include <stdbool.h>

#include "touchstone/kv_cache.h"

enum { TS_PLAN_WHY = 256, TS_PLAN_PARTS = 40 }; /* the former is TS_MODEL_WHY of file.h */
#define TS_PLAN_MOST (INT64_MAX / 4)

/* ---- models ---- */

typedef enum ts_plan_weight {
    TS_W_BF16,
    TS_W_F32,
    TS_W_FP8,   /* a float32 scale per block of 128 x 128, as DeepSeek-V3 is shipped */
    TS_W_MXFP4, /* a byte of scale per 32 inputs; of a mixture only the experts, as gpt-oss */
    TS_W_INT8,
    TS_W_INT4,
    TS_W_TERNARY,
    TS_W_FILE, /* as on disk */
    TS_N_WEIGHTS
} ts_plan_weight;

typedef struct ts_plan_model {
    const char    *id;
    const char    *note;    /* source of its figures; assumptions are marked */
    ts_plan_weight shipped; /* dtype of the published checkpoint */
    int64_t        n_layer, width, n_head, n_kv_head, head_dim, n_vocab;
    int64_t        n_ffn;     /* of layers without experts */
    int64_t        n_context; /* positions it was trained for */
    int64_t        window, n_window_layer;
    int64_t        n_expert, n_expert_used, n_expert_shared, n_expert_ffn;
    int64_t        n_dense_layer;                      /* layers without experts, in a mixture */
    int64_t        kv_rank, q_rank, nope, rope, v_dim; /* latent attention if kv_rank > 0 */
    /* Layers with linear attention (gated DeltaNet): heads and channels of keys and of values, and
     * the inputs of the convolution. Such a layer keeps a state instead of keys and values. */
    int64_t n_linear_layer, n_linear_key, n_linear_value, linear_key_dim, linear_value_dim, conv;
    int64_t n_norm;                                /* norms per layer; 0 means 2 */
    bool    tied, qk_norm, sinks;                  /* sinks: one number per query head */
    bool    qkv_bias, o_bias, ffn_bias, norm_bias; /* ffn_bias: also of the router */
    bool    router_bias;                           /* without ffn_bias */
    bool    q_gate, shared_gate; /* a gate per query channel; one per layer's shared expert */
    bool    plain_ffn;           /* two matrices, no gate */
    int64_t file_bytes;          /* of tensors on disk; 0: no file was read */
} ts_plan_model;

extern const ts_plan_model ts_plan_models[]; /* ends with an id of NULL */

/* ---- GPUs: dense rates, without the factor for sparse matrices ---- */

typedef struct ts_plan_gpu {
    const char *id;
    double      gib;              /* memory */
    double      gbs;              /* 1e9 bytes per second */
    double      bf16, fp8, int8t; /* 1e12 operations per second; 0: not supported */
    const char *source;
} ts_plan_gpu;

extern const ts_plan_gpu ts_plan_gpus[]; /* ends with an id of NULL */

/* By id, by the beginnings of its words, or by a part; case, spaces, '-' and '_' do not matter. A
 * maker before a '/' and a variant after the id ("-Instruct") are ignored. NULL if none or several
 * match; `why` names these, or the nearest. */
const ts_plan_model *ts_plan_find_model(const char *id, char why[TS_PLAN_WHY]);
const ts_plan_gpu   *ts_plan_find_gpu(const char *id, char why[TS_PLAN_WHY]);
/* Letters to insert, remove or change to make one of the other. */
int ts_edit_distance(const char *a, const char *b);

/* ---- files ---- */

/* A folder with config.json; a config.json; a .safetensors file, or an index of shards, with
 * config.json next to it; or a GGUF file. Reads headers only. */
bool ts_plan_read(const char *path, ts_plan_model *m, char why[TS_PLAN_WHY]);
/* False unless all dimensions are present and products cannot overflow. */
bool ts_plan_check_model(const ts_plan_model *m, char why[TS_PLAN_WHY]);

/* ---- weights ---- */

extern const char *const ts_plan_weight_name[TS_N_WEIGHTS];

/* Which tokens use a part; this determines bytes read and arithmetic. */
typedef enum ts_plan_use {
    TS_USE_ALL,    /* a matrix that every token uses */
    TS_USE_EXPERT, /* a matrix of an expert; count is over all experts and layers */
    TS_USE_LOOKUP, /* an embedding: one row per token */
    TS_USE_HEAD,   /* the output head: only tokens whose logits are needed */
    TS_USE_VECTOR  /* norms and biases */
} ts_plan_use;

typedef struct ts_plan_part {
    const char *name;
    int64_t     rows, cols, count;
    ts_plan_use use;
    bool        narrow; /* uses the requested dtype; else at least 16 bits */
    bool        mxfp4;  /* also if that is MXFP4 */
} ts_plan_part;

/* All parts of the model, as stored on one of n_gpu GPUs; returns their number. */
int     ts_plan_parts(const ts_plan_model *m, int64_t n_gpu, ts_plan_part part[TS_PLAN_PARTS]);
int64_t ts_plan_part_bytes(const ts_plan_part *p, ts_plan_weight w);
int64_t ts_plan_params(const ts_plan_model *m);
int64_t ts_plan_active_params(const ts_plan_model *m); /* that a token uses */
int64_t ts_plan_weight_bytes(const ts_plan_model *m, int64_t n_gpu, ts_plan_weight w);

/* ---- the cache ---- */

typedef struct ts_plan_cache {
    ts_dtype    store, meta, io; /* as in ts_kv_dims */
    ts_key_axis axis;
    int64_t     key_group, page; /* page 0: contiguous */
    bool        keep_all;        /* window layers keep tokens outside the window, as ts_kv does */
} ts_plan_cache;

typedef struct ts_plan_kv {
    int64_t book;  /* tables, lengths, the handle: on the CPU before the pools, with CUDA in host
                      memory */
    int64_t pools; /* keys, values, scales, tails; with CUDA also the device's page table */
    int64_t state; /* as ts_kv_bytes returns */
} ts_plan_kv;

/* `latent`: one row of head_dim per token, and no values. */
void ts_plan_kv_bytes(const ts_kv_dims *d, ts_device device, bool latent, ts_plan_kv *out);
/* Bytes that n tokens of a sequence occupy in a layer: data, scales and tails. */
int64_t ts_plan_kv_live(const ts_kv_dims *d, bool latent, int64_t n);
/* Bytes per additional token of a long cache, over all layers; layers with a full window do not
 * grow and are not counted. */
double ts_plan_kv_per_token(const ts_plan_model *m, int64_t n_gpu, const ts_plan_cache *c);

/* ---- plans ---- */

typedef struct ts_plan_ask {
    const ts_plan_model *model;
    const ts_plan_gpu   *gpu;
    int64_t              n_gpu, batch, context;
    int64_t              chunk; /* prompt tokens per step */
    ts_plan_weight       weights;
    ts_plan_cache        cache;
    double               reserve_gib; /* for the driver and fragmentation */
} ts_plan_ask;

/* Bytes per GPU. */
typedef struct ts_plan_memory {
    int64_t capacity, weights, cache, activations, reserve;
    int64_t total, missing; /* missing 0: it fits */
    int64_t waste;          /* of the cache: reserved, but not used by tokens */
} ts_plan_memory;

bool    ts_plan_check(const ts_plan_ask *a, char why[TS_PLAN_WHY]);
void    ts_plan_memory_of(const ts_plan_ask *a, ts_plan_memory *m);
int64_t ts_plan_cache_bytes(const ts_plan_ask *a);
int64_t ts_plan_state_bytes(const ts_plan_ask *a); /* of linear attention, part of the cache */
int64_t ts_plan_cache_live(const ts_plan_ask *a);
int64_t ts_plan_max_context(const ts_plan_ask *a); /* for a->batch; 0: not even one token */
int64_t ts_plan_max_batch(const ts_plan_ask *a);   /* for a->context */

/* A decode step generates one token per sequence; a prefill reads `context` tokens of each. */
typedef struct ts_plan_bound {
    double flops, bytes, weight_bytes, cache_bytes;
    double intensity, ridge; /* flops per byte: of this work, and of the GPU's roofline ridge */
    double compute_s, memory_s, seconds;
    double tokens_per_s; /* over the batch */
} ts_plan_bound;

void ts_plan_decode(const ts_plan_ask *a, ts_plan_bound *b);
void ts_plan_prefill(const ts_plan_ask *a, ts_plan_bound *b);

#endif
