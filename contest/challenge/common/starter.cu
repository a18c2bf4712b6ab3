/* SPDX-License-Identifier: Apache-2.0 */
/* CHALLENGE.cu - your kernel, for CUDA. The judge runs it on a machine with a GPU. */
#include <cuda_runtime.h>

#include "touchstone/HEADER"

static __global__ void CHALLENGE_kernel(ts_CHALLENGE_args a)
{
    (void)a; /* Begin here: all pointers of the arguments are device memory. */
}

/* Enqueues the work on the stream and returns; the judge synchronises. */
extern "C" ts_status ts_CHALLENGE(const ts_CHALLENGE_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (x->device != TS_CUDA) return TS_E_DEVICE;
    const cudaStream_t stream = (cudaStream_t)x->stream;
    if (a->n_rows == 0 || true) return TS_E_UNSUPPORTED; /* until the kernel does something */
    CHALLENGE_kernel<<<(unsigned)a->n_rows, 256, 0, stream>>>(*a);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}
