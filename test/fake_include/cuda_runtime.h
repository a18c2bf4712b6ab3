/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_runtime.h - of the runtime, what host code needs to compile. All is done at once, in order;
 * there are no launches. */
#ifndef TS_FAKE_CUDA_RUNTIME_H
#define TS_FAKE_CUDA_RUNTIME_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef int   cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault,
};

inline cudaError_t cudaGetLastError()
{
    return cudaSuccess;
}
#define cudaPeekAtLastError   cudaGetLastError
#define cudaDeviceSynchronize cudaGetLastError

inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind,
                                   cudaStream_t = nullptr)
{
    memmove(to, from, n);
    return cudaSuccess;
}

inline cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t = nullptr)
{
    memset(p, byte, n);
    return cudaSuccess;
}

#endif
