/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.cu - your search, for CUDA. The prompt is the specification. Logits and the workspace
 * are device memory; all else is host memory. */
#include <cuda_runtime.h>

#include "touchstone/beam_search.h"

/* Begin here: reject invalid calls (TS_E_ARG, TS_E_SHAPE), and return how much scratch memory the
 * search needs in x->workspace. The logits of a step go there too: one row of
 * a->model->n_vocab floats for each beam that goes on. */
extern "C" ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                              size_t *n_bytes)
{
    (void)a, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

/* Returns how much scratch memory on the host the call needs in a->host. */
extern "C" ts_status ts_beam_search_host(const ts_beam_search_args *a, const ts_exec *x,
                                         size_t *n_bytes)
{
    (void)a, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

/* Each step: one call of a->model->next for the unfinished beams of all items, log-softmax in
 * double, and of each item's pool the beam_width best. */
extern "C" ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}
