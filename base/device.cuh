/* SPDX-License-Identifier: Apache-2.0 */
/* device.cuh - device functions that kernels of several stems share. */
#ifndef TS_DEVICE_CUH
#define TS_DEVICE_CUH

#include <cuda_runtime.h>

static inline int n_multiprocessors(void)
{
    int device = 0, n = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return n;
}

/* 2^x, within two units in the last place; subnormals become 0. */
static __device__ __forceinline__ float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
