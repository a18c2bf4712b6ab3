/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_impl.h - the handle, where each weight stands, and one pass over a batch.
 * Private. Products, attention and packing are the other kernels', through their doors. */
#ifndef TS_TERNARY_TRAINING_IMPL_H
#define TS_TERNARY_TRAINING_IMPL_H

#include <stdbool.h>

#include "impl.h"
#include "scratch.h"
#include "touchstone/attention.h"
#include "touchstone/ternary_training.h"

extern const ts_impl ts_ternary_training_impls[];

/* ---- weights ---- */

typedef enum ts_ternary_slot {
    TS_TERNARY_Q,
    TS_TERNARY_K,
    TS_TERNARY_V,
    TS_TERNARY_O,
    TS_TERNARY_GATE,
    TS_TERNARY_UP,
    TS_TERNARY_DOWN,
    TS_TERNARY_SLOTS,
    TS_TERNARY_E = TS_TERNARY_SLOTS /* of no layer */
} ts_ternary_slot;

typedef enum ts_ternary_gain {
    TS_TERNARY_NORM_1,
    TS_TERNARY_NORM_Q,
    TS_TERNARY_NORM_K,
    TS_TERNARY_NORM_2,
    TS_TERNARY_NORM_LAST /* of no layer */
} ts_ternary_gain;

typedef struct ts_ternary_place {
    int64_t at, n_out, n_in; /* of its first weight among all latents */
} ts_ternary_place;

ts_ternary_place ts_ternary_place_of(const ts_ternary_dims *d, int64_t layer, ts_ternary_slot s);
int64_t          ts_ternary_gain_at(const ts_ternary_dims *d, int64_t layer, ts_ternary_gain g);
int64_t          ts_ternary_latents(const ts_ternary_dims *d);
int64_t          ts_ternary_norms(const ts_ternary_dims *d);

/* ---- the handle: masters and moments, latents first and then gains ---- */

struct ts_ternary {
    ts_ternary_dims d;
    int64_t         n_latent, n_norm, n_step; /* steps taken */
    float          *w, *m, *v;                /* [n_latent + n_norm] */
};

/* ---- a pass ---- */

/* What forward leaves behind for backward, of each layer. */
typedef struct ts_ternary_layer {
    float *x, *middle;      /* [n][width]: residual before attention, and before feed-forward */
    float *q_raw, *k_raw;   /* before norm and rotation */
    float *q, *k, *v, *out; /* [n][heads][head_dim] */
    float *lse;             /* [n_batch][n_head][n_pos] */
    float *gate, *up;       /* [n][ffn] */
} ts_ternary_layer;

/* All of it in the workspace. The last token of a sequence is nobody's input. */
typedef struct ts_ternary_pass {
    ts_ternary_dims d;
    const float    *w;                 /* latents, then gains */
    ts_exec         x;                 /* for the kernels */
    int64_t         n_batch, n_pos, n; /* n_tok - 1; rows of both together */
    float          *gradient;          /* as w */
    char           *layers;            /* n_layer times what one takes */
    size_t          layer_bytes;
    float          *last;            /* [n][width]: after the last layer */
    float          *h, *t, *dx, *dh; /* [n][width] */
    float          *dq, *dk, *dv, *dout;
    float          *act, *dgate, *dup; /* [n][ffn] */
    float          *turn;              /* [n_pos][head_dim / 2][2]: cosine and sine */
    float          *logits;            /* [n][n_vocab] */
    float          *loss, *lse;        /* of some rows at a time, and the sum of their losses */
    double         *scale;             /* of norms, [n n_head] */
    double         *parts;             /* of the gradient's norm */
    int32_t        *input, *target;    /* [n] */
    uint8_t        *code;              /* of n embedded rows */
    uint16_t       *code_scale;
    void           *inner; /* the kernels' workspace */
} ts_ternary_pass;

/* Everything of a pass that has its place in the workspace, from base on; NULL: its size alone. */
size_t           ts_ternary_lay(ts_ternary_pass *p, char *base);
ts_ternary_layer ts_ternary_layer_of(const ts_ternary_pass *p, int64_t layer);
/* The most that the kernels ask for in a pass of up to max_batch by max_tokens. */
ts_status ts_ternary_inner_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *n_bytes);

/* nll summed over all targets; with `back` also the gradient of its mean. */
ts_status ts_ternary_run(ts_ternary_pass *p, bool back, double *nll_sum);

/* ---- what is done to rows; over threads, no sum's order depending on how ---- */

typedef struct ts_ternary_rms {
    const float *x, *gain, *dy;
    float       *dx;    /* may be dy, unless add */
    float       *dgain; /* overwritten */
    double      *scale; /* [n], for itself */
    int64_t      n, width;
    double       eps;
    bool         add; /* dx += */
    int          n_threads;
} ts_ternary_rms;

void ts_ternary_rms_forward(const float *x, const float *gain, float *y, int64_t n, int64_t width,
                            double eps, int n_threads);
void ts_ternary_rms_back(const ts_ternary_rms *r);

void ts_ternary_turns(const ts_ternary_dims *d, int64_t n_pos, float *turn);
/* back: by the opposite angle. */
void ts_ternary_rotate(const ts_ternary_pass *p, float *x, int64_t n_head, bool back);

void ts_ternary_silu(const float *gate, const float *up, float *act, int64_t n, int n_threads);
/* dact of act = silu(gate) up becomes dgate and dup; dup may be dact. */
void ts_ternary_silu_back(const float *gate, const float *up, const float *dact, float *dgate,
                          float *dup, int64_t n, int n_threads);
void ts_ternary_add(float *y, const float *x, int64_t n, int n_threads);

#endif
