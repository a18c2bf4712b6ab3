// SPDX-License-Identifier: Apache-2.0
// number.cuh - what the obvious solutions for CUDA share: number.h in device code, and a launch of
// one thread per item.
#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "touchstone/touchstone.h"

#define inline __host__ __device__ inline
#include "number.h"
#undef inline

// The number of this thread.
static __device__ int64_t item()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

template <class A> ts_status launch(void (*kernel)(A), A a, int64_t n_items, const ts_exec *x)
{
    enum { THREADS = 128 };
    void *params[] = { &a };
    if (n_items == 0) return TS_OK;
    return cudaLaunchKernel(kernel, dim3((unsigned)((n_items + THREADS - 1) / THREADS)),
                            dim3(THREADS), params, 0, (cudaStream_t)x->stream)
               ? TS_E_DEVICE
               : TS_OK;
}
