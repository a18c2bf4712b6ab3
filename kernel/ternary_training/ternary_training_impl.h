/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_impl.h - the handle, the place of each weight in it, and one pass over a batch.
 * Private.
 *
 * Matmuls, attention, norms, rotation, activations and packing are those of the other kernels,
 * through their public API. */
#ifndef TS_TERNARY_TRAINING_IMPL_H
#define TS_TERNARY_TRAINING_IMPL_H

#include <stdbool.h>

#include "impl.h"
#include "scratch.h"
#include "ternary_training_layer.h"
#include "touchstone/ternary_training.h"

extern const ts_impl ts_ternary_training_impls[];

/* ---- weights ---- */

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

/* All of it in the workspace. The last token of a sequence is a target only, not an input. */
typedef struct ts_ternary_pass {
    ts_ternary_dims d;
    const float    *w; /* latents, then gains */
    ts_exec         x; /* for the kernels */
    ts_layers       layers;
    int64_t         n_pos, n; /* n_tok - 1; rows of all sequences */
    float          *gradient; /* as w */
    char           *kept;     /* n_layer times what one takes */
    size_t          layer_bytes;
    float          *last, *t;       /* [n][width]: after the last layer; t also [n][ffn] */
    float          *rstd_last;      /* [n] */
    float          *logits;         /* [n][n_vocab] */
    float          *loss, *lse;     /* of some rows at a time, and the sum of their losses */
    double         *parts;          /* of the gradient's norm */
    int32_t        *input, *target; /* [n] */
    uint8_t        *code;           /* of n embedded rows */
    uint16_t       *code_scale;
    void           *inner; /* the kernels' workspace */
} ts_ternary_pass;

/* Shapes and functions of a pass whose dims are set. */
void ts_ternary_layers(ts_ternary_pass *p, int64_t n_batch, int64_t n_tok);

/* Everything of a pass that has its place in the workspace, from base on; NULL: its size alone. */
size_t ts_ternary_lay(ts_ternary_pass *p, char *base);
/* The largest workspace of the kernels in a pass of up to max_batch by max_tokens. */
ts_status ts_ternary_inner_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *n_bytes);

/* nll summed over all targets; with `back` also the gradient of its mean. */
ts_status ts_ternary_run(ts_ternary_pass *p, bool back, double *nll_sum);

#endif
