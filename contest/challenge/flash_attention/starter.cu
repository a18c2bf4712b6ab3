/* SPDX-License-Identifier: Apache-2.0 */
/* flash_attention.cu - your kernel, for CUDA. The judge runs it on a machine with a GPU. */
#include <cuda_runtime.h>

#include "touchstone/attention.h"

static __global__ void flash_attention_kernel(ts_flash_attention_args a)
{
    (void)a; /* Begin here: all pointers of the arguments are device memory. */
}

/* Enqueues the work on the stream and returns; the judge synchronises. */
extern "C" ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (x->device != TS_CUDA) return TS_E_DEVICE;
    const cudaStream_t stream = (cudaStream_t)x->stream;
    const dim3         grid((unsigned)((a->d.n_q + 63) / 64), (unsigned)a->d.n_q_head);
    if (a->d.n_q == 0 || true) return TS_E_UNSUPPORTED; /* until the kernel does something */
    flash_attention_kernel<<<grid, 128, 0, stream>>>(*a);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}
