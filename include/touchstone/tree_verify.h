/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.h - a tree of drafted tokens checked in one pass of the model.
 *
 * Behind P = prompt_len prompt tokens stand n_node drafted ones. Node i follows node parent[i] < i,
 * or the last prompt token where parent[i] is -1; the nodes of the latter kind have depth 1. The
 * pass has P + n_node rows: prompt token t is row t, at position t, and sees rows 0 .. t; node i is
 * row P + i, at position P + depth - 1, and sees the prompt, its ancestors and itself.
 *
 * Verification. Start at row P - 1, and repeat until max_new tokens are out: choose a token from
 * the row's logits, and emit it. If children of the row carry it, accept the first of them and go
 * to its row, else stop. The choice is, at temperature 0, the largest logit, the lower id among
 * equal ones; else the first id at which softmax(logits / temperature), summed in double in the
 * order of ids, exceeds u[tokens emitted so far]. So the tokens are those of plain decoding with
 * the same u.
 *
 * A row is visited if a token was chosen from it. status: TS_NODE_ACCEPTED on the path;
 * TS_NODE_REJECTED if the parent was visited, and the node is not on the path; else
 * TS_NODE_UNREACHED. A visited row with a NaN or +inf, or without a finite logit: TS_E_MODEL.
 *
 * With max_new > 0 model->forward is called once, and wants the rows P - 1 .. P + n_node - 1; with
 * max_new = 0 it is not called. model->next never is.
 *
 * With TS_CUDA the logits stay on the device, where model->forward writes them, and the workspace
 * is memory of that device; all else is the host's, and so is the scratch `host`. From the same
 * logits come the tokens that the CPU has, but where u is within a rounding of a sum. Mask, bias
 * and residual do not ask for the device. */
#ifndef TOUCHSTONE_TREE_VERIFY_H
#define TOUCHSTONE_TREE_VERIFY_H

#include "touchstone/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_node_status {
    TS_NODE_UNREACHED,
    TS_NODE_ACCEPTED,
    TS_NODE_REJECTED
} ts_node_status;

typedef struct ts_tree_dims {
    int64_t prompt_len;  /* >= 1 */
    int64_t n_node;      /* >= 0; prompt_len + n_node < 2^31 */
    int64_t max_new;     /* >= 0 */
    double  temperature; /* >= 0, finite */
} ts_tree_dims;

/* Who sees whom. With R = prompt_len + n_node: */
typedef struct ts_tree_mask_args {
    ts_tree_dims   d;        /* max_new and temperature do not matter, but must be sound */
    const int32_t *parent;   /* [n_node] */
    uint8_t       *visible;  /* [R][R]: 1 if the row sees the column, else 0 */
    int64_t       *position; /* [R] */
} ts_tree_mask_args;

/* The same, to be added to scores. */
typedef struct ts_tree_bias_args {
    ts_tree_dims   d;
    const int32_t *parent; /* [n_node] */
    float         *bias;   /* [R][R]: 0 if the row sees the column, else -inf */
} ts_tree_bias_args;

typedef struct ts_tree_verify_args {
    ts_tree_dims    d;
    const ts_model *model;
    const int32_t  *prompt; /* [prompt_len] */
    const int32_t  *token;  /* [n_node] */
    const int32_t  *parent; /* [n_node] */
    const double   *u;      /* [max_new], in [0, 1); not looked at when temperature is 0 */
    int32_t        *out;    /* [max_new]; -1 past n_out */
    int64_t        *n_out;
    int32_t        *path; /* [n_node]: the accepted nodes, root first; -1 past n_path */
    int64_t        *n_path;
    uint8_t        *status; /* [n_node], ts_node_status */
    void           *host;   /* with TS_CUDA only: as many bytes as ts_tree_verify_host asks for */
    size_t          host_bytes;
} ts_tree_verify_args;

/* For children of one row that were drawn, each by itself, from a law q, where the row's own law is
 * p: emits a token that has law p. Child j, in turn, is accepted if u[j] q(child) < p(child).
 * Otherwise p becomes max(p - q, 0), made to sum to 1, and the next is asked; but p stays where
 * that sums to less than 2^-100, as then only a rounding can have refused the child. With all
 * refused, the first id at which p, summed in the order of ids, exceeds u[n_child]. p and q may
 * have any positive sum. */
typedef struct ts_tree_residual_args {
    int64_t        n_vocab;  /* >= 1, < 2^31 */
    int64_t        n_child;  /* >= 0 */
    const double  *p;        /* [n_vocab], >= 0, finite */
    const double  *q;        /* [n_vocab], likewise; > 0 at every child. NULL if n_child is 0 */
    const int32_t *child;    /* [n_child], tokens */
    const double  *u;        /* [n_child + 1], in [0, 1) */
    int32_t       *token;    /* what is emitted */
    int64_t       *accepted; /* which child that is, or -1 */
} ts_tree_residual_args;

TS_API ts_status ts_tree_mask(const ts_tree_mask_args *a, const ts_exec *x);
TS_API ts_status ts_tree_bias(const ts_tree_bias_args *a, const ts_exec *x);

TS_API ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x);
TS_API ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x,
                                          size_t *n_bytes);
TS_API ts_status ts_tree_verify_host(const ts_tree_verify_args *a, const ts_exec *x,
                                     size_t *n_bytes); /* 0 on the CPU */

TS_API ts_status ts_tree_residual(const ts_tree_residual_args *a, const ts_exec *x);

#ifdef __cplusplus
}
#endif
#endif
