/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.cu - your verification, for CUDA. The prompt is the specification. Logits and the
 * workspace are device memory; all else is host memory. */
#include <cuda_runtime.h>

#include "touchstone/tree_verify.h"

/* Begin here: reject invalid calls (TS_E_ARG, TS_E_SHAPE), and return how much scratch memory the
 * call needs in x->workspace: the logits go there. */
extern "C" ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x,
                                              size_t *n_bytes)
{
    (void)a, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

/* Returns how much scratch memory on the host the call needs in a->host. */
extern "C" ts_status ts_tree_verify_host(const ts_tree_verify_args *a, const ts_exec *x,
                                         size_t *n_bytes)
{
    (void)a, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

/* One call of a->model->forward over prompt and tree, then one walk down the tree. */
extern "C" ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}
