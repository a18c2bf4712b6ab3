/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.h - cross-entropy from hidden states or from logits, with its gradients.
 *
 * The loss of a language model: for each row i (a token position) with target t, over the words v
 * of a vocabulary of V = n_vocab words:
 *     x_v  = sum_k h_ik w_vk + bias_v           (cross_entropy_logits: x is given)
 *     z_v  = x_v, or softcap * tanh(x_v / softcap) where softcap > 0
 *     lse  = ln sum_v exp(z_v)
 *     loss = lse - (1 - smoothing) z_t - smoothing avg_v(z_v) + z_loss lse^2
 *     total = the sum of loss over the counted rows, or their mean.
 * Gradients are those of scale * total. With g = scale, divided by the number of counted rows where
 * total is a mean:
 *     dz_v = g ((1 + 2 z_loss lse) exp(z_v - lse) - (1 - smoothing) [v = t] - smoothing / V)
 *     dx_v = dz_v, or dz_v (1 - tanh^2(x_v / softcap))
 *     dh_ik = sum_v dx_iv w_vk,   dw_vk = sum_i dx_iv h_ik.
 *
 * A row whose target is ignore_index is not counted: its loss, lse and gradient are 0, it adds
 * nothing to total or dw, and its h or logits are not used. The mean of no rows is NaN and its
 * gradients are 0. A logit of -inf has weight 0 (with smoothing the loss is then +inf); with a
 * softcap it counts as -softcap, by the formula. A counted row with a logit that is NaN or +inf, or
 * with none above -inf, has NaN for its loss, lse, dh and gradient, and makes total and every
 * element of dw NaN; other rows are as if it were not there.
 *
 * On the CPU a target that is neither ignore_index nor in 0 .. V - 1 is rejected with TS_E_ARG. On
 * a device, whose memory the call does not read, its row has a loss of NaN, which makes total NaN,
 * and adds nothing to the gradients.
 *
 * h, w, bias and logits have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). loss,
 * lse and total are float, or double when dtype is TS_F64. */
#ifndef TOUCHSTONE_CROSS_ENTROPY_H
#define TOUCHSTONE_CROSS_ENTROPY_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_cross_entropy. */
typedef struct ts_cross_entropy_args {
    ts_dtype       dtype;              /* of h, w and bias */
    ts_dtype       grad_dtype;         /* of dh and dw: `dtype`, or that of loss */
    int            mean;               /* total is 0: the sum of the loss, 1: its mean */
    int            accumulate;         /* 1: add to dh and dw instead of overwriting them */
    int32_t        ignore_index;       /* a target whose row is not counted */
    int64_t        n_rows;             /* >= 0; with 0, dw is 0, or kept if accumulate */
    int64_t        n_vocab;            /* >= 1 */
    int64_t        n_hidden;           /* >= 1 */
    int64_t        h_stride, w_stride; /* from row to row of h and dh; of w and dw; >= n_hidden */
    int64_t        chunk;              /* most logits in the workspace; 0: the library's choice */
    double         scale;              /* factor of the gradients, finite */
    double         smoothing;          /* label smoothing, 0 .. 1 */
    double         z_loss, softcap;    /* >= 0, finite; 0: none */
    const void    *h;                  /* [n_rows][n_hidden], hidden states */
    const void    *w;                  /* [n_vocab][n_hidden], weights of the output layer */
    const void    *bias;               /* [n_vocab], or NULL */
    const int32_t *target;             /* [n_rows] */
    void          *loss, *lse;         /* [n_rows], outputs */
    void          *total;              /* [1], output */
    void          *dh;                 /* [n_rows][n_hidden], gradient of h; or NULL */
    void          *dw;                 /* [n_vocab][n_hidden], gradient of w; or NULL */
} ts_cross_entropy_args;

/* Arguments of ts_cross_entropy_logits. */
typedef struct ts_cross_entropy_logits_args {
    ts_dtype       dtype;           /* of logits and dlogits */
    int            mean;            /* total is 0: the sum of the loss, 1: its mean */
    int            in_place;        /* 1: the gradient overwrites logits, and dlogits is NULL */
    int32_t        ignore_index;    /* a target whose row is not counted */
    int64_t        n_rows;          /* >= 0 */
    int64_t        n_vocab;         /* >= 1 */
    int64_t        row_stride;      /* elements from row to row of logits, dlogits; >= n_vocab */
    double         scale;           /* factor of the gradients, finite */
    double         smoothing;       /* label smoothing, 0 .. 1 */
    double         z_loss, softcap; /* >= 0, finite; 0: none */
    void          *logits;          /* [n_rows][n_vocab]; written only if in_place */
    const int32_t *target;          /* [n_rows] */
    void          *loss, *lse;      /* [n_rows], outputs */
    void          *total;           /* [1], output */
    void          *dlogits;         /* [n_rows][n_vocab], gradient of logits; or NULL */
} ts_cross_entropy_logits_args;

/* Computes loss, lse and total from hidden states and, unless NULL, dh and dw. The full logits are
 * never stored: the workspace contains at most `chunk` of them, a tile of rows by words, and sums
 * whose size is independent of n_rows * n_vocab. */
TS_API ts_status ts_cross_entropy(const ts_cross_entropy_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_cross_entropy needs for these arguments. */
TS_API ts_status ts_cross_entropy_workspace(const ts_cross_entropy_args *a, const ts_exec *x,
                                            size_t *n_bytes);

/* Computes loss, lse and total from logits and, if in_place or unless dlogits is NULL, the gradient
 * of the logits. */
TS_API ts_status ts_cross_entropy_logits(const ts_cross_entropy_logits_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_cross_entropy_logits needs for these arguments. */
TS_API ts_status ts_cross_entropy_logits_workspace(const ts_cross_entropy_logits_args *a,
                                                   const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
