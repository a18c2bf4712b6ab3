/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda.h - a net on a CUDA device, as the files net_cuda*.c have it. */
#ifndef TS_TRAIN_NET_CUDA_H
#define TS_TRAIN_NET_CUDA_H

#include "train_impl.h"

/* What forward leaves behind for backward, of each layer. */
typedef struct ts_cuda_layer {
    float *x, *middle;      /* [n][width]: residual before attention, before feed-forward */
    float *rstd_1, *rstd_2; /* [n], of their norms */
    void  *h_1, *h_2;       /* their norms */
    void  *q_raw, *k_raw;   /* [n][heads][head_dim], before norm and rotation */
    float *rstd_q, *rstd_k; /* [n][heads] */
    void  *q, *k, *v, *out; /* [n][heads][head_dim]; of attention */
    void  *gate_up, *act;   /* [n][2 n_ffn], [n][n_ffn] */
    float *lse;             /* [n_batch][n_head][n_token] */
} ts_cuda_layer;

/* Operands of the matmuls for weights' gradients, which may run on the second stream: layers
 * alternate between them, so that no operand is overwritten while it is read. */
typedef struct ts_cuda_beside {
    void *d_down, *d_gate_up, *d_o, *d_q, *d_k, *d_v; /* of what each product gives */
} ts_cuda_beside;

/* A batch as the device gets it, in one piece. */
typedef struct ts_cuda_input {
    int32_t *row, *target; /* [n] */
    float   *weight;
} ts_cuda_input;

/* What a pass gives, in one piece. */
typedef struct ts_cuda_output {
    float   *loss;  /* [n] */
    int32_t *top;   /* [n]: the most probable token */
    int64_t *n_bad; /* groups of latents that cannot be projected, since they last were */
} ts_cuda_output;

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
    void                  *serving;           /* [n_count]; gains as they are, in `type` */
    ts_cuda_layer         *layer;             /* [n_layer] */
    float                 *x, *dx[2];         /* [n][width]: after the last layer; of any */
    float                 *t, *y, *dh;        /* [n][width]: of products, and of a norm */
    float                 *rstd;              /* [n] of the last norm */
    void                  *h;                 /* [n][width] */
    void                  *dq, *dk, *dout, *d_act;
    ts_cuda_beside         beside[TS_CUDA_BESIDES];
    void                  *logits; /* [n_head_row][n_logit] */
    int64_t                n_head_row, n_logit;
    float                 *row, *total; /* [n_head_row], [1]: results that are not needed */
    double                *frequency;   /* [head_dim / 2] */
    int32_t               *position;    /* [n] */
    double                *norm;
    ts_cuda_input          in, host;     /* the device's, and what is copied there */
    ts_cuda_output         result, seen; /* the device's, and a copy */
    void                  *in_memory, *host_memory;
    void                  *result_memory, *seen_memory;
    size_t                 in_bytes, result_bytes;
    void                  *recording[TS_PASSES];
    int                    n_pass[TS_PASSES];
    bool                   watched;
    ts_exec                exec;
};

static inline int64_t ts_cuda_at(const ts_net *n, int64_t layer, ts_slot s)
{
    return n->param[n->slot[ts_slot_at(&n->o.dims, layer, s)]].at;
}

/* Names the part of a step that the following work belongs to, for measurements. */
static inline void ts_cuda_part_is(const ts_net *n, ts_cuda_part p)
{
    if (n->cuda->watched) n->cuda->ops->part(n->cuda->self, p);
}

/* ---- products with weights ---- */

/* A matrix, or several that follow each other, of n_out rows in all. */
typedef struct ts_cuda_matrix {
    int64_t at, n_out, n_in;
    int64_t n_y; /* from a row of what comes out to the next */
} ts_cuda_matrix;

/* How a pass goes back. */
typedef struct ts_cuda_way {
    bool         add;   /* to the gradient */
    bool         aside; /* weights' gradients of layers on the second stream */
    const float *scale; /* of dx and the gradient; NULL: 1 */
} ts_cuda_way;

ts_cuda_matrix ts_cuda_q_of(const ts_net *n, int64_t l);
ts_cuda_matrix ts_cuda_kv_of(const ts_net *n, int64_t l, ts_slot s); /* of keys or values */
ts_cuda_matrix ts_cuda_o_of(const ts_net *n, int64_t l);
ts_cuda_matrix ts_cuda_gate_up_of(const ts_net *n, int64_t l);
ts_cuda_matrix ts_cuda_down_of(const ts_net *n, int64_t l);
ts_cuda_matrix ts_cuda_head_of(const ts_net *n);

/* y = in w', y of `out` */
void ts_cuda_forward(const ts_net_cuda *c, const ts_cuda_matrix *w, const void *in, void *y,
                     ts_dtype out, int64_t n_rows);
/* dx = dy w, or dx += that, dx of `out`; the gradient of w = dy' in, or += that. */
void ts_cuda_backward(const ts_net_cuda *c, const ts_cuda_matrix *w, const void *in, const void *dy,
                      void *dx, ts_dtype out, bool add, int64_t n_rows, ts_cuda_way how);

/* ---- passes ---- */

/* A pass under way; aside: with weights' gradients of layers on the second stream. */
ts_status ts_cuda_enqueue(const ts_net *n, ts_cuda_kind k, bool aside);

/* What kernels need of the device's memory. */
bool ts_cuda_workspace(const ts_net *n, ts_exec *x, char why[TS_MODEL_WHY]);

/* What is said to be 0, and is to be looked at. */
void ts_cuda_settle(const ts_net *n);

#endif
