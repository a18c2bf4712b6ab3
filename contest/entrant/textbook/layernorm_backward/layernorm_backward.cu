// SPDX-License-Identifier: Apache-2.0
// layernorm_backward.cu - textbook layernorm_backward: a block per row of dx, then a thread per
// column of dgamma and dbeta, which sums over all rows.
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
static __device__ void row(const T *x, const T *dy, int64_t stride, int n, const T *gamma,
                           const float *mean, const float *rstd, T *dx)
{
    const double m = mean[blockIdx.x], r = rstd[blockIdx.x];
    double       g1 = 0, g2 = 0;
    x += blockIdx.x * stride, dy += blockIdx.x * stride, dx += blockIdx.x * stride;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const double g = (double)wide(dy[i]) * wide(gamma[i]), h = (wide(x[i]) - m) * r;
        g1 += g, g2 += g * h;
    }
    g1 = sum(g1) / n, g2 = sum(g2) / n;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const double g = (double)wide(dy[i]) * wide(gamma[i]), h = (wide(x[i]) - m) * r;
        put(&dx[i], (g - g1 - h * g2) * r);
    }
}

template <class T>
static __device__ void column(const T *x, const T *dy, int64_t stride, int n_rows, int n,
                              const float *mean, const float *rstd, int accumulate, float *dgamma,
                              float *dbeta)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double g = accumulate ? dgamma[i] : 0, b = accumulate ? dbeta[i] : 0;
    for (int r = 0; r < n_rows; r++) {
        const double v = wide(dy[r * stride + i]);
        g += v * ((wide(x[r * stride + i]) - (double)mean[r]) * rstd[r]);
        b += v;
    }
    dgamma[i] = (float)g;
    dbeta[i] = (float)b;
}

extern "C" __global__ void dx_f32(const float *x, const float *dy, int64_t stride, int n,
                                  const float *gamma, const float *mean, const float *rstd,
                                  float *dx)
{
    row(x, dy, stride, n, gamma, mean, rstd, dx);
}

extern "C" __global__ void dx_f16(const __half *x, const __half *dy, int64_t stride, int n,
                                  const __half *gamma, const float *mean, const float *rstd,
                                  __half *dx)
{
    row(x, dy, stride, n, gamma, mean, rstd, dx);
}

extern "C" __global__ void dx_bf16(const __nv_bfloat16 *x, const __nv_bfloat16 *dy, int64_t stride,
                                   int n, const __nv_bfloat16 *gamma, const float *mean,
                                   const float *rstd, __nv_bfloat16 *dx)
{
    row(x, dy, stride, n, gamma, mean, rstd, dx);
}

extern "C" __global__ void dparameters_f32(const float *x, const float *dy, int64_t stride,
                                           int n_rows, int n, const float *mean, const float *rstd,
                                           int accumulate, float *dgamma, float *dbeta)
{
    column(x, dy, stride, n_rows, n, mean, rstd, accumulate, dgamma, dbeta);
}

extern "C" __global__ void dparameters_f16(const __half *x, const __half *dy, int64_t stride,
                                           int n_rows, int n, const float *mean, const float *rstd,
                                           int accumulate, float *dgamma, float *dbeta)
{
    column(x, dy, stride, n_rows, n, mean, rstd, accumulate, dgamma, dbeta);
}

extern "C" __global__ void dparameters_bf16(const __nv_bfloat16 *x, const __nv_bfloat16 *dy,
                                            int64_t stride, int n_rows, int n, const float *mean,
                                            const float *rstd, int accumulate, float *dgamma,
                                            float *dbeta)
{
    column(x, dy, stride, n_rows, n, mean, rstd, accumulate, dgamma, dbeta);
}
