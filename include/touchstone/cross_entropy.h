/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.h - cross-entropy from hidden states or from logits, with its gradients.
 *
 * For each row i with target t, over the words v of a vocabulary of V:
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
 * gradients are 0. A logit of -inf has weight 0 (with smoothing the loss is then +inf). A counted
 * row with a logit that is NaN or +inf, or with none above -inf, has NaN for its loss, lse, dh and
 * gradient, and makes total and every element of dw NaN; other rows are as if it were not there.
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

/* One call computes the losses and, unless NULL, dh and dw. The full logits are never stored: the
 * workspace contains at most `chunk` of them, a tile of rows by words, and sums whose size is
 * independent of n_rows * n_vocab. */
typedef struct ts_cross_entropy_args {
    ts_dtype    dtype;
    ts_dtype    grad_dtype; /* of dh and dw: `dtype`, or that of loss */
    int         mean;       /* total is 0: a sum, 1: a mean over counted rows */
    int         accumulate; /* 1: add to dh and dw instead of overwriting them */
    int32_t     ignore_index;
    int64_t     n_rows;             /* >= 0; with 0 rows dw is 0, or untouched */
    int64_t     n_vocab;            /* >= 1 */
    int64_t     n_hidden;           /* >= 1 */
    int64_t     h_stride, w_stride; /* >= n_hidden: elements from row to row of h, dh; of w, dw */
    int64_t     chunk;              /* most logits in the workspace; 0: the library's choice */
    double      scale;              /* finite */
    double      smoothing;          /* 0 .. 1 */
    double      z_loss, softcap;    /* >= 0, finite; 0: none */
    const void *h;                  /* [n_rows][n_hidden] */
    const void *w;                  /* [n_vocab][n_hidden] */
    const void *bias;               /* [n_vocab], or NULL */
    const int32_t *target;          /* [n_rows] */
    void          *loss, *lse;      /* [n_rows] */
    void          *total;           /* [1] */
    void          *dh;              /* [n_rows][n_hidden], or NULL */
    void          *dw;              /* [n_vocab][n_hidden], or NULL */
} ts_cross_entropy_args;

typedef struct ts_cross_entropy_logits_args {
    ts_dtype       dtype;
    int            mean;
    int            in_place; /* 1: the gradient overwrites logits, and dlogits is NULL */
    int32_t        ignore_index;
    int64_t        n_rows;     /* >= 0 */
    int64_t        n_vocab;    /* >= 1 */
    int64_t        row_stride; /* >= n_vocab: of logits and dlogits */
    double         scale;      /* finite */
    double         smoothing;  /* 0 .. 1 */
    double         z_loss, softcap;
    void          *logits; /* [n_rows][n_vocab]; written only if in_place */
    const int32_t *target; /* [n_rows] */
    void          *loss, *lse;
    void          *total;   /* [1] */
    void          *dlogits; /* [n_rows][n_vocab], or NULL */
} ts_cross_entropy_logits_args;

TS_API ts_status ts_cross_entropy(const ts_cross_entropy_args *a, const ts_exec *x);
TS_API ts_status ts_cross_entropy_workspace(const ts_cross_entropy_args *a, const ts_exec *x,
                                            size_t *n_bytes);

TS_API ts_status ts_cross_entropy_logits(const ts_cross_entropy_logits_args *a, const ts_exec *x);
TS_API ts_status ts_cross_entropy_logits_workspace(const ts_cross_entropy_logits_args *a,
                                                   const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
