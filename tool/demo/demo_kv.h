/* SPDX-License-Identifier: Apache-2.0 */
/* demo_kv.h - shared by demos of the cache and of the model: a cache with its memory, a decoder,
 * and texts for it. A function that fails prints one line on standard error. */
#ifndef TS_DEMO_KV_H
#define TS_DEMO_KV_H

#include "demo.h"
#include "touchstone/kv_cache.h"

/* ---- demo_kv.c ---- */

typedef struct ts_demo_kv {
    ts_kv  *c;
    ts_exec x; /* one thread, so that times are comparable */
    void   *memory;
    size_t  state_bytes, workspace_bytes; /* of the cache itself */
} ts_demo_kv;

bool   ts_demo_ok(const char *what, ts_status s);
double ts_demo_seconds(void);
/* A cache of bf16, contiguous, whose calls may have as many tokens as a sequence. */
ts_kv_dims ts_demo_kv_dims(int64_t n_layer, int64_t n_seq, int64_t n_q_head, int64_t n_kv_head,
                           int64_t head_dim, int64_t capacity);
/* Sets x.workspace to the size that the cache needs. The caller frees, even on failure. */
bool ts_demo_kv_make(const ts_kv_dims *d, ts_demo_kv *k);
void ts_demo_kv_free(ts_demo_kv *k);

/* ---- demo_model.c ---- */

struct ts_decoder;

typedef struct ts_demo_model {
    struct ts_decoder *m;
    const char        *path; /* NULL: random weights */
} ts_demo_model;

/* The model that $TOUCHSTONE_MODEL names, or the bundled one; random weights if that is empty, or
 * none is found. */
bool ts_demo_model_open(const ts_demo_args *a, ts_dtype dtype, ts_demo_model *m);
void ts_demo_model_close(ts_demo_model *m);
/* Prints one sentence about the model, and writes its name to the JSON. */
void ts_demo_model_about(const ts_demo_args *a, const ts_demo_model *m);

/* Dims of a contiguous cache for the model, in its own dtype. */
ts_kv_dims ts_demo_model_dims(const ts_demo_model *m, int64_t n_seq, int64_t capacity,
                              int64_t max_call_tokens);
/* Sets x.workspace to the size that a forward pass of max_call_tokens needs. */
bool ts_demo_model_cache(const ts_demo_model *m, const ts_kv_dims *d, ts_demo_kv *k);

/* Appends n_new[i] tokens to each sequence; returns the logits of each sequence's last token or,
 * with `all`, of every token, [rows][n_vocab] as double. */
typedef struct ts_demo_batch {
    int64_t        n_seq;
    const int32_t *seq;
    const int64_t *n_new;
    const int32_t *token; /* packed */
    bool           all;
} ts_demo_batch;

bool ts_demo_model_forward(const ts_demo_model *m, ts_demo_kv *k, const ts_demo_batch *b,
                           double *logits);

/* n tokens that the model generates at temperature 1. */
bool ts_demo_model_text(const ts_demo_model *m, uint64_t seed, int32_t *token, int64_t n);

int64_t ts_demo_likeliest(const double *logits, int64_t n);
/* The largest |a - b|; infinite if one is NaN. */
double ts_demo_farthest(const double *a, const double *b, int64_t n);

#endif
