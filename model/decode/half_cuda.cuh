/* SPDX-License-Identifier: Apache-2.0 */
/* half_cuda.cuh - products with matrices that stay in 16 bits on a CUDA device, of float rows.
 *
 * Few rows: four rows of the matrix are read by a block, each weight once, for all rows of x at the
 * same time. Many rows: x is split into three bf16 parts, whose sum is x exactly (8 + 8 + 8 bits of
 * its 24), and each part is multiplied on tensor cores; products of bf16 are exact in float. F16
 * has no exponents for such parts: panels of it become floats first. */
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdint.h>

namespace half_products
{

enum { FEW = 8, ROWS = 4, THREADS = 128, WARPS = THREADS / 32, EACH = 8 };

/* Matrices of one x, in one launch: Wq, Wk and Wv, or gate and up. */
struct several {
    const uint16_t *w[3];
    float          *y[3];
    int             n_out[3], first[4]; /* first: of their blocks */
    int             n;
};

template <typename T> __device__ __forceinline__ void widen(const uint4 &raw, float (&v)[EACH]);

template <> __device__ __forceinline__ void widen<__nv_bfloat16>(const uint4 &raw, float (&v)[EACH])
{
    const unsigned u[4] = { raw.x, raw.y, raw.z, raw.w };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = __uint_as_float(u[i] << 16);
        v[2 * i + 1] = __uint_as_float(u[i] & 0xffff0000u);
    }
}

template <> __device__ __forceinline__ void widen<__half>(const uint4 &raw, float (&v)[EACH])
{
    const unsigned u[4] = { raw.x, raw.y, raw.z, raw.w };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 f = __half22float2(*(const __half2 *)&u[i]);
        v[2 * i] = f.x;
        v[2 * i + 1] = f.y;
    }
}

/* y[r][o] = x[r] . w[o], or y += that. Weights are read once, past the cache; 8 divides k. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    few_rows(const __grid_constant__ several s, const float *__restrict__ x, int k, bool add)
{
    __shared__ float joined[WARPS][ROWS * N];
    int              m = 0;
    while (m + 1 < s.n && (int)blockIdx.x >= s.first[m + 1]) m++;
    const int       o = ((int)blockIdx.x - s.first[m]) * ROWS, n_out = s.n_out[m];
    const int       lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint16_t *w[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) w[i] = s.w[m] + (int64_t)min(o + i, n_out - 1) * k;
    float         sum[ROWS][N] = {};
    constexpr int AT_ONCE = N == 1 ? 2 : 1; /* so that enough loads are under way */
#pragma unroll AT_ONCE
    for (int c = threadIdx.x * EACH; c < k; c += THREADS * EACH) {
        uint4 raw[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) raw[i] = __ldcs((const uint4 *)(w[i] + c));
        float v[ROWS][EACH];
#pragma unroll
        for (int i = 0; i < ROWS; i++) widen<T>(raw[i], v[i]);
#pragma unroll
        for (int r = 0; r < N; r++) {
            const float4 a = *(const float4 *)(x + (int64_t)r * k + c);
            const float4 b = *(const float4 *)(x + (int64_t)r * k + c + 4);
            const float  e[EACH] = { a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w };
#pragma unroll
            for (int i = 0; i < ROWS; i++)
#pragma unroll
                for (int j = 0; j < EACH; j++) sum[i][r] += v[i][j] * e[j];
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int r = 0; r < N; r++) {
#pragma unroll
            for (int d = 16; d; d >>= 1) sum[i][r] += __shfl_xor_sync(~0u, sum[i][r], d);
            if (!lane) joined[warp][i * N + r] = sum[i][r];
        }
    __syncthreads();
    const int i = threadIdx.x / N, r = threadIdx.x % N;
    if ((int)threadIdx.x >= ROWS * N || o + i >= n_out) return;
    float all = 0;
#pragma unroll
    for (int g = 0; g < WARPS; g++) all += joined[g][i * N + r];
    float *y = s.y[m] + (int64_t)r * n_out + o + i;
    *y = add ? *y + all : all;
}

/* Three bf16 numbers whose sum is x; infinities and NaN stay in the first. */
__global__ void split_rows(__nv_bfloat16 *__restrict__ part, const float *__restrict__ x, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x) {
        const __nv_bfloat16 a = __float2bfloat16_rn(x[i]);
        const float         rest = isfinite(x[i]) ? x[i] - __bfloat162float(a) : 0;
        const __nv_bfloat16 b = __float2bfloat16_rn(rest);
        part[i] = a;
        part[n + i] = b;
        part[2 * n + i] = __float2bfloat16_rn(rest - __bfloat162float(b));
    }
}

__global__ void widen_rows(float *__restrict__ y, const __half *__restrict__ w, int64_t n)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * (int64_t)blockDim.x)
        y[i] = __half2float(w[i]);
}

} // namespace half_products
