/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_layer.h - one layer of a decoder, forward and back, on a batch of sequences:
 * norms, attention with rotated queries and keys, SwiGLU, residual sums.
 *
 * Everything but products with weights is here, by the public API of the other kernels, in TS_F32
 * or TS_F64 on the CPU. Products and gains are the caller's: this kernel's, and model/train's. */
#ifndef TS_TERNARY_TRAINING_LAYER_H
#define TS_TERNARY_TRAINING_LAYER_H

#include <stdbool.h>

#include "touchstone/attention.h"

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

/* What forward leaves behind for backward, of each layer. What is cheap to make again is not kept:
 * norms and activations. */
typedef struct ts_layer {
    void *x, *middle;      /* [n][width]: residual before attention, and before feed-forward */
    void *q_raw, *k_raw;   /* before norm and rotation */
    void *q, *k, *v, *out; /* [n][heads][head_dim] */
    void *lse;             /* [n_batch][n_head][n_pos] */
    void *gate, *up;       /* [n][ffn] */
    void *rstd_1, *rstd_2; /* [n], of norms */
    void *rstd_q, *rstd_k; /* [n][heads] */
} ts_layer;

/* A batch under way: shapes and the caller's functions are set first, then what is cut. */
typedef struct ts_layers {
    ts_dtype       dtype;
    int64_t        n_batch, n_pos, n; /* sequences, positions of each; rows of both together */
    int64_t        width, n_head, n_kv_head, head_dim, ffn;
    double         norm_eps;
    bool           add;       /* gradients of gains are added to, not overwritten */
    const ts_exec *x;         /* for the kernels */
    void          *h, *dh;    /* [n][width] */
    void          *dx;        /* [n][width]: the gradient after a layer, then before it */
    void          *dx_before; /* [n][width]: takes the place of dx, and dx its own */
    void          *dq, *dk, *dv, *dout;
    void          *act, *dgate, *dup; /* [n][ffn] */
    double        *frequency;         /* [head_dim / 2], of the rotation; set by the caller */
    int32_t       *position;          /* [n], likewise */

    void *self;
    /* y = in w' */
    ts_status (*linear)(void *self, int64_t layer, ts_ternary_slot s, const void *in, void *y);
    /* dx = dy w, or dx += that; and the gradient of w */
    ts_status (*linear_back)(void *self, int64_t layer, ts_ternary_slot s, const void *in,
                             const void *dy, void *dx, bool add);
    /* A gain and its gradient. */
    const void *(*gain)(void *self, int64_t layer, ts_ternary_gain g, void **gradient);
} ts_layers;

/* Their places in memory, from base + *used on; base NULL: sizes alone. */
void ts_layer_cut(const ts_layers *p, ts_layer *y, char *base, size_t *used);
void ts_layers_cut(ts_layers *p, char *base, size_t *used);

/* From y->x to out. */
ts_status ts_layer_forward(const ts_layers *p, int64_t layer, const ts_layer *y, void *out);
ts_status ts_layer_backward(ts_layers *p, int64_t layer, const ts_layer *y);

/* The norm after the last layer, [n][width], and its gradient, from dh to dx. */
ts_status ts_layers_last(const ts_layers *p, const void *x, void *rstd);
ts_status ts_layers_last_back(const ts_layers *p, const void *x, const void *rstd);

/* y += x */
void ts_layers_add(const ts_layers *p, void *y, const void *x, int64_t n);

ts_attention_dims ts_layers_attention(const ts_layers *p);

/* Workspace of the kernels, of these shapes and for n rows of a norm; rotation and activation need
 * none, which is checked where they are called. *most is raised to what is asked. */
ts_status ts_layers_attention_bytes(const ts_layers *p, size_t *most);
ts_status ts_layers_norm_bytes(const ts_layers *p, int64_t n, int64_t width, size_t *most);

#endif
