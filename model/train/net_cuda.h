/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda.h - a net on a CUDA device, as the files net_cuda*.c have it. */
#ifndef TS_TRAIN_NET_CUDA_H
#define TS_TRAIN_NET_CUDA_H

#include "train_impl.h"

/* What forward leaves behind for backward, of each layer. */
typedef struct ts_cuda_layer {
    float *x, *middle;      /* [n][width]: residual before attention, before feed-forward */
    void  *h_1, *h_2;       /* their norms */
    void  *rows;            /* [n][(n_head + 2 n_kv_head) head_dim] */
    void  *q, *k, *v, *out; /* [n][heads][head_dim]; of attention */
    void  *gate_up, *act;   /* [n][2 n_ffn], [n][n_ffn] */
    float *lse;             /* [n_batch][n_head][n_token] */
} ts_cuda_layer;

/* Operands of the matmuls for weights' gradients, which may run on the second stream: layers
 * alternate between them, so that no operand is overwritten while it is read. */
typedef struct ts_cuda_beside {
    void *d_down, *d_gate_up, *d_o, *d_rows; /* of what each product gives */
} ts_cuda_beside;

/* A batch as the device gets it, in one piece. */
typedef struct ts_cuda_input {
    int32_t *row, *target; /* [n] */
    float   *weight;
} ts_cuda_input;

/* Loss alone; with a gradient that begins; with one that is added to. */
typedef enum ts_cuda_kind { TS_PASS_EVAL, TS_PASS_FIRST, TS_PASS_AGAIN, TS_PASSES } ts_cuda_kind;

struct ts_net_cuda {
    const ts_train_module *ops;
    void                  *self;
    ts_dtype               type;
    size_t                 size; /* of an element of it */
    ts_cuda_serving        how;
    bool                   flat;              /* groups are those of one long row */
    bool                   fresh;             /* the effective weights are up to date */
    bool                   clean;             /* the gradient is 0, whatever is in memory */
    void                  *memory, *moments;  /* moments: [2][n_count] float; NULL: none yet */
    float                 *weight, *gradient; /* [n_count] */
    void                  *serving;           /* [n_matrix] */
    ts_cuda_layer         *layer;             /* [n_layer] */
    float                 *x, *dx;            /* [n][width]: after the last layer; of any */
    void                  *h, *t, *dh;        /* [n][width] */
    void                  *dq, *dk, *dv, *dout, *d_act;
    ts_cuda_beside         beside[TS_CUDA_BESIDES];
    void                  *logits; /* [n_head_row][n_logit] */
    int64_t                n_head_row, n_logit;
    float                 *turn; /* [n_token][head_dim / 2][2] */
    float                 *sums; /* [TS_CUDA_SUMS][n_count - n_matrix] */
    double                *nll, *norm;
    int32_t               *right;
    ts_cuda_score         *score;
    ts_cuda_input          in, host; /* the device's, and what is copied there */
    void                  *in_memory, *host_memory;
    size_t                 in_bytes;
    void                  *recording[TS_PASSES];
    int                    n_pass[TS_PASSES];
    bool                   watched;
    ts_exec                exec;
};

static inline int64_t ts_cuda_heads_width(const ts_decoder_dims *d)
{
    return (d->n_head + 2 * d->n_kv_head) * d->head_dim;
}

/* Names the part of a step that the following work belongs to, for measurements. */
static inline void ts_cuda_part_is(const ts_net *n, ts_cuda_part p)
{
    if (n->cuda->watched) n->cuda->ops->part(n->cuda->self, p);
}

/* A pass under way; aside: with weights' gradients of layers on the second stream. */
ts_status ts_cuda_enqueue(const ts_net *n, ts_cuda_kind k, bool aside);

/* What kernels need of the device's memory. */
bool ts_cuda_workspace(const ts_net *n, ts_exec *x, char why[TS_MODEL_WHY]);

/* What is said to be 0, and is to be looked at. */
void ts_cuda_settle(const ts_net *n);

#endif
