/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_impl.cuh - what the kernels of training share: launches, loads of several elements as float,
 * sums over warps and blocks. */
#ifndef TS_TRAIN_CUDA_IMPL_CUH
#define TS_TRAIN_CUDA_IMPL_CUH

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <utility>

extern "C" {
#include "train_cuda.h"
}

typedef __nv_bfloat16 bf16;

enum { WARP = 32, MOST_WARPS = 32 };

/* ---- the module's functions, as ts_train_module has them ---- */

cudaStream_t ts_train_stream(const void *self);

void ts_train_norm(void *self, const ts_cuda_norm *r);
void ts_train_norm_back(void *self, const ts_cuda_norm_back *r);
void ts_train_sum(void *self, float *y, const float *sums, int64_t n, bool add);
void ts_train_heads(void *self, const ts_cuda_heads *h);
void ts_train_heads_back(void *self, const ts_cuda_heads *h);
void ts_train_entropy(void *self, const ts_cuda_entropy *e);
void ts_train_score(void *self, const double *nll, const int32_t *right, const int32_t *target,
                    int64_t n, ts_cuda_score *s);
void ts_train_project(void *self, const ts_cuda_project *p);
void ts_train_clip(void *self, const float *gradient, int64_t n, double most, double *norm);
void ts_train_adamw(void *self, const ts_cuda_adamw *a);

/* ---- launches ---- */

/* f(T()) with the type that `type` names. */
template <typename F> static void with_type(ts_dtype type, F f)
{
    if (type == TS_BF16) f(bf16());
    else f(float());
}

template <typename... P, typename... A>
static void launch(const void *self, void (*kernel)(P...), int64_t grid, int block, A... a)
{
    const unsigned blocks = (unsigned)grid;
    if (grid > 0) kernel<<<blocks, block, 0, ts_train_stream(self)>>>(P(a)...);
}

/* ---- elements ---- */

static __device__ __forceinline__ float widen(float x)
{
    return x;
}

static __device__ __forceinline__ float widen(bf16 x)
{
    return __bfloat162float(x);
}

static __device__ __forceinline__ void narrow(float *y, float x)
{
    *y = x;
}

static __device__ __forceinline__ void narrow(bf16 *y, float x)
{
    *y = __float2bfloat16_rn(x);
}

/* N elements at once, as one or two accesses of up to 16 bytes. */
template <typename T, int N> struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) packed {
    T e[N];
};

template <int N, typename T>
static __device__ __forceinline__ void load(float (&v)[N], const T *__restrict__ p)
{
    const packed<T, N> x = *reinterpret_cast<const packed<T, N> *>(p);
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = widen(x.e[i]);
}

template <int N, typename T>
static __device__ __forceinline__ void store(T *__restrict__ p, const float (&v)[N])
{
    packed<T, N> x;
#pragma unroll
    for (int i = 0; i < N; i++) narrow(&x.e[i], v[i]);
    *reinterpret_cast<packed<T, N> *>(p) = x;
}

/* ---- sums ---- */

template <typename T> static __device__ __forceinline__ T warp_sum(T v)
{
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

/* Over each run of n_warps warps, for all of a block; part has room for one of each. */
template <typename T> static __device__ __forceinline__ T team_sum(T v, int n_warps, T *part)
{
    const int warp = (int)threadIdx.x / WARP, first = warp / n_warps * n_warps;
    v = warp_sum(v);
    if (n_warps == 1) return v;
    if (threadIdx.x % WARP == 0) part[warp] = v;
    __syncthreads();
    T sum = 0;
    for (int w = 0; w < n_warps; w++) sum += part[first + w];
    __syncthreads();
    return sum;
}

#endif
