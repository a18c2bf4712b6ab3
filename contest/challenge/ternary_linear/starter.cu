/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear.cu - your layers, for CUDA. The prompt is the specification.
 *
 * All pointers of the arguments are device memory. A function enqueues its work on
 * (cudaStream_t)x->stream, and returns. One that needs scratch memory has a second one, its name
 * and _workspace, that returns the size; see include/touchstone/ternary.h. */
#include <cuda_runtime.h>

#include "touchstone/ternary.h"

/* Begin here: codes and scales of float latents. */
extern "C" ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}

extern "C" ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}

/* y = in wt', from latents. */
extern "C" ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}

/* The same from codes, bit for bit. */
extern "C" ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a,
                                              const ts_exec                       *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}

/* dx = dy wt, dw = dy' in. */
extern "C" ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a,
                                                const ts_exec                         *x)
{
    (void)a, (void)x;
    return TS_E_UNSUPPORTED;
}
