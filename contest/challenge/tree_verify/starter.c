/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - your verification. The prompt is the specification. */
#include "touchstone/tree_verify.h"

/* Begin here: reject invalid calls (TS_E_ARG, TS_E_SHAPE), and return how much scratch memory the
 * call needs in x->workspace: mask, positions and logits go there. */
ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_bytes)
{
    (void)a, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

/* One call of a->model->forward over prompt and tree, then one walk down the tree. */
ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}
