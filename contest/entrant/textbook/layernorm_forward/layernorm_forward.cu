// SPDX-License-Identifier: Apache-2.0
// layernorm_forward.cu - textbook layernorm_forward: a block per row, which reads the row three
// times: for its mean, its variance and its result.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

enum { THREADS = 256 };

static __device__ float wide(float v)
{
    return v;
}
static __device__ float wide(__half v)
{
    return __half2float(v);
}
static __device__ float wide(__nv_bfloat16 v)
{
    return __bfloat162float(v);
}
static __device__ void put(float *to, double v)
{
    *to = (float)v;
}
static __device__ void put(__half *to, double v)
{
    *to = __double2half(v);
}
static __device__ void put(__nv_bfloat16 *to, double v)
{
    *to = __double2bfloat16(v);
}

static __device__ double sum(double v)
{
    __shared__ double part[THREADS];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    const double all = part[0];
    __syncthreads();
    return all;
}

template <class T>
static __device__ void row(const T *x, int64_t stride, int n, double eps, const T *gamma,
                           const T *beta, T *y, float *mean, float *rstd)
{
    x += blockIdx.x * stride;
    y += blockIdx.x * stride;
    double s = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) s += wide(x[i]);
    const double m = sum(s) / n;
    s = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) s += (wide(x[i]) - m) * (wide(x[i]) - m);
    const double r = 1 / sqrt(sum(s) / n + eps);
    for (int i = threadIdx.x; i < n; i += THREADS)
        put(&y[i], (wide(x[i]) - m) * r * wide(gamma[i]) + wide(beta[i]));
    if (threadIdx.x) return;
    mean[blockIdx.x] = (float)m;
    rstd[blockIdx.x] = (float)r;
}

extern "C" __global__ void layernorm_forward_f32(const float *x, int64_t stride, int n, double eps,
                                                 const float *gamma, const float *beta, float *y,
                                                 float *mean, float *rstd)
{
    row(x, stride, n, eps, gamma, beta, y, mean, rstd);
}

extern "C" __global__ void layernorm_forward_f16(const __half *x, int64_t stride, int n, double eps,
                                                 const __half *gamma, const __half *beta, __half *y,
                                                 float *mean, float *rstd)
{
    row(x, stride, n, eps, gamma, beta, y, mean, rstd);
}

extern "C" __global__ void layernorm_forward_bf16(const __nv_bfloat16 *x, int64_t stride, int n,
                                                  double eps, const __nv_bfloat16 *gamma,
                                                  const __nv_bfloat16 *beta, __nv_bfloat16 *y,
                                                  float *mean, float *rstd)
{
    row(x, stride, n, eps, gamma, beta, y, mean, rstd);
}
