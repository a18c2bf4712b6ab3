/* SPDX-License-Identifier: Apache-2.0 */
/* unit_fake_cuda.cu - the kernels of unit_fake_cuda.c. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

static __device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int k = 16; k; k /= 2) v += __shfl_xor_sync(0xffffffffu, v, k);
    return v;
}

/* One block a row. Whole warps. */
extern "C" __global__ void __launch_bounds__(1024)
    row_sums(const float *__restrict__ x, float *__restrict__ y, int n_columns)
{
    __shared__ float  part[32];
    extern __shared__ __align__(16) float stage[]; /* one for each thread */
    const int                             t = (int)threadIdx.x, n_warps = (int)blockDim.x / 32;
    const float                          *row = x + (size_t)blockIdx.x * (size_t)n_columns;
    float                                 sum = 0;
    for (int i = t; i < n_columns; i += (int)blockDim.x) sum += __ldg(row + i);
    stage[t] = sum;
    __syncthreads();
    sum = warp_sum(stage[blockDim.x - 1 - threadIdx.x]);
    if (t % 32 == 0) part[t / 32] = sum;
    __syncthreads();
    if (t >= 32) return; /* the others go on without them */
    sum = warp_sum(t < n_warps ? part[t] : 0);
    if (t == 0) y[blockIdx.x] = sum;
}

#if 0
extern "C" __global__ void gone(float *p) {}
#endif

extern "C" __global__ void put(float *p, int64_t i, float v)
{
    p[i] = v;
}

extern "C" __global__ void get(float *to, const float *p, int64_t i)
{
    *to = p[i];
}

extern "C" __global__ void fail()
{
    __trap();
}

struct odd {
    char c[3];
};

extern "C" __global__ void many(char a, double *b, odd c, short d)
{
    *b = a + c.c[2] + d;
}

__device__ unsigned n_calls;

extern "C" __global__ void count(unsigned *n)
{
    const unsigned before = atomicAdd(&n_calls, 1);
    if (threadIdx.x == blockDim.x - 1 && blockIdx.x == gridDim.x - 1) *n = before + 1;
}

/* What 40 threads, a warp and a quarter, tell each other: 8 words for each. */
extern "C" __global__ void tell(int *out)
{
    const int      t = (int)threadIdx.x, lane = t % 32;
    const unsigned mask = t < 32 ? 0xffffffffu : 0xffu;
    int           *o = out + 8 * t;
    o[0] = (int)__ballot_sync(mask, lane % 3 == 0);
    o[1] = __any_sync(mask, lane == 5);
    o[2] = __all_sync(mask, lane < 8);
    o[3] = __shfl_sync(mask, t, 2);
    o[4] = __shfl_down_sync(mask, t, 1, 8);
    o[5] = __shfl_xor_sync(mask, t, 4);
    __syncwarp(mask);
    if (lane < 4) o[6] = __shfl_sync(0xfu, t, 3); /* the rest of the warp is elsewhere */
    o[7] = __syncthreads_count(t % 2);
}

/* Each 16-bit number there and back, and the middle between it and the next, which goes to even. */
template <class T> static __device__ int wrong(uint16_t infinity)
{
    int n = 0;
    for (unsigned b = 0; b < 0x10000; b++) {
        T        v, next;
        uint16_t back, bits = (uint16_t)b, after = (uint16_t)(b + 1);
        memcpy(&v, &bits, 2);
        memcpy(&next, &after, 2);
        const T narrow = T((float)v);
        memcpy(&back, &narrow, 2);
        if ((b & 0x7fff) > infinity) {
            n += back != 0x7fff;
            continue;
        }
        n += back != b;
        if ((b & 0x7fff) >= infinity - 1u) continue;
        const T middle = T((float)(((double)(float)v + (double)(float)next) / 2));
        memcpy(&back, &middle, 2);
        n += back != (b % 2 ? after : bits);
    }
    return n;
}

extern "C" __global__ void formats(int *n_wrong)
{
    n_wrong[0] = wrong<__nv_bfloat16>(0x7f80);
    n_wrong[1] = wrong<__half>(0x7c00);
    n_wrong[2] = __half2float(__float2half(65519.0f)) != 65504.0f;
    n_wrong[3] = !isinf(__half2float(__float2half(65520.0f)));
    n_wrong[4] = __bfloat162float(__float2bfloat16(-1.5f)) != -1.5f;
}
