/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.h - verification of a tree of drafted tokens in one pass of the model.
 *
 * A cheap model drafts several continuations as a tree; the large model checks all of them at
 * once. P = prompt_len prompt tokens are followed by n_node drafted ones. Node i follows node
 * parent[i] < i, or the last prompt token if parent[i] is -1; such nodes have depth 1. The pass has
 * P + n_node rows: prompt token t is row t, at position t, and sees rows 0 .. t; node i is row
 * P + i, at position P + depth - 1, and sees the prompt, its ancestors and itself.
 *
 * Verification. Start at row P - 1, and repeat until max_new tokens are emitted: choose a token
 * from the row's logits, and emit it. If children of the row have that token, accept the first of
 * them and go to its row; else stop. At temperature 0 the choice is the largest logit, with the
 * lower id among equal ones. Otherwise it is the first id at which softmax(logits / temperature),
 * summed in double in the order of ids, exceeds u[tokens emitted so far]. So the tokens are those
 * of plain decoding with the same u.
 *
 * A row is visited if a token was chosen from it. status is TS_NODE_ACCEPTED on the path,
 * TS_NODE_REJECTED if the parent was visited but the node is not on the path, else
 * TS_NODE_UNREACHED. A visited row with a NaN or +inf, or without a finite logit, is TS_E_MODEL.
 *
 * With max_new > 0 model->forward is called once, for the logits of rows P - 1 .. P + n_node - 1;
 * with max_new = 0 it is not called. model->next is never called.
 *
 * With TS_CUDA the logits stay on the device, where model->forward writes them, and the workspace
 * is device memory. All other memory is host memory, including the scratch buffer `host`. From the
 * same logits the tokens are those of the CPU, unless u is within rounding error of a sum. Mask,
 * bias and residual do not use the device. */
#ifndef TOUCHSTONE_TREE_VERIFY_H
#define TOUCHSTONE_TREE_VERIFY_H

#include "touchstone/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fate of a drafted node. */
typedef enum ts_node_status {
    TS_NODE_UNREACHED, /* the parent was not visited */
    TS_NODE_ACCEPTED,  /* on the path */
    TS_NODE_REJECTED   /* the parent was visited, but the node is not on the path */
} ts_node_status;

/* Size and settings of a verification. */
typedef struct ts_tree_dims {
    int64_t prompt_len;  /* tokens of the prompt, >= 1 */
    int64_t n_node;      /* drafted tokens, >= 0; prompt_len + n_node < 2^31 */
    int64_t max_new;     /* most tokens to emit, >= 0 */
    double  temperature; /* >= 0, finite; 0: the largest logit is chosen */
} ts_tree_dims;

/* Arguments of ts_tree_mask. R = prompt_len + n_node. */
typedef struct ts_tree_mask_args {
    ts_tree_dims   d;        /* max_new and temperature are not used, but must be valid */
    const int32_t *parent;   /* [n_node] */
    uint8_t       *visible;  /* [R][R]: 1 if the row sees the column, else 0 */
    int64_t       *position; /* [R], positions of the rows */
} ts_tree_mask_args;

/* Arguments of ts_tree_bias. R = prompt_len + n_node. */
typedef struct ts_tree_bias_args {
    ts_tree_dims   d;      /* as in ts_tree_mask_args */
    const int32_t *parent; /* [n_node] */
    float         *bias;   /* [R][R]: 0 if the row sees the column, else -inf */
} ts_tree_bias_args;

/* Arguments of ts_tree_verify. */
typedef struct ts_tree_verify_args {
    ts_tree_dims    d;          /* size and settings */
    const ts_model *model;      /* its `forward` is called */
    const int32_t  *prompt;     /* [prompt_len], tokens */
    const int32_t  *token;      /* [n_node], drafted tokens */
    const int32_t  *parent;     /* [n_node], -1 or the number of an earlier node */
    const double   *u;          /* [max_new], random numbers in [0, 1); not read if temperature 0 */
    int32_t        *out;        /* [max_new], emitted tokens; -1 past n_out */
    int64_t        *n_out;      /* [1], number of emitted tokens */
    int32_t        *path;       /* [n_node], the accepted nodes, root first; -1 past n_path */
    int64_t        *n_path;     /* [1], number of accepted nodes */
    uint8_t        *status;     /* [n_node], a ts_node_status each */
    void           *host;       /* TS_CUDA only: scratch in host memory, see ts_tree_verify_host */
    size_t          host_bytes; /* size of host */
} ts_tree_verify_args;

/* Arguments of ts_tree_residual. */
typedef struct ts_tree_residual_args {
    int64_t        n_vocab;  /* >= 1, < 2^31 */
    int64_t        n_child;  /* >= 0 */
    const double  *p;        /* [n_vocab], >= 0, finite */
    const double  *q;        /* [n_vocab], >= 0, finite, > 0 at every child; NULL if n_child is 0 */
    const int32_t *child;    /* [n_child], tokens */
    const double  *u;        /* [n_child + 1], in [0, 1) */
    int32_t       *token;    /* the token emitted */
    int64_t       *accepted; /* the child accepted, or -1 */
} ts_tree_residual_args;

/* Computes the attention mask, the rows that each row sees, and the positions of all rows. */
TS_API ts_status ts_tree_mask(const ts_tree_mask_args *a, const ts_exec *x);

/* Computes the attention mask as a term to add to scores: 0 or -inf. */
TS_API ts_status ts_tree_bias(const ts_tree_bias_args *a, const ts_exec *x);

/* Runs the model once and verifies the tree: out, path and status. */
TS_API ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_tree_verify needs for these arguments. */
TS_API ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x,
                                          size_t *n_bytes);

/* Sets *n_bytes to the size of a->host that ts_tree_verify needs: 0 on the CPU. */
TS_API ts_status ts_tree_verify_host(const ts_tree_verify_args *a, const ts_exec *x,
                                     size_t *n_bytes);

/* Samples one token by residual sampling. The children of a row were drawn independently from a
 * distribution q; the row's own distribution is p; the token is distributed as p. Each child j in
 * turn is accepted if u[j] q(child) < p(child). Otherwise p becomes max(p - q, 0), normalised,
 * unless that sums to less than 2^-100: then only rounding can have rejected the child, and p
 * stays. If all children are rejected, the token is the first id at which p, summed in the order of
 * ids, exceeds u[n_child]. p and q may have any positive sum. */
TS_API ts_status ts_tree_residual(const ts_tree_residual_args *a, const ts_exec *x);

#ifdef __cplusplus
}
#endif
#endif
