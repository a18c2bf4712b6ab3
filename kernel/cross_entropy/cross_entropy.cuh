/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.cuh - what both cross-entropy kernels have on a device: the rule of a call, sums of
 * a block, a row's loss, and the sums over rows.
 *
 * Sums over rows are taken by one block in an order that depends on their number alone. */
#ifndef TS_CROSS_ENTROPY_CUH
#define TS_CROSS_ENTROPY_CUH

#include <math.h>
#include <stdint.h>

#include "dtype.cuh"
#include "touchstone/cross_entropy.h"

namespace
{

enum { ROW_THREADS = 256, SUM_THREADS = 1024 };

struct rule {
    float   softcap, smoothing, z_loss;
    int     mean;
    int32_t ignored;
    int64_t n_rows, n_vocab;
    double  scale;
};

/* In the workspace, one for a call: made by count_kernel. */
struct shares {
    double n_counted;
    float  g;
};

__device__ __forceinline__ bool is_counted(const rule &r, int32_t target)
{
    return target != r.ignored && target >= 0 && target < r.n_vocab;
}

__device__ __forceinline__ float capped(const rule &r, float x)
{
    return r.softcap > 0 ? r.softcap * tanhf(x / r.softcap) : x;
}

/* The gradient of a counted row's logit, without its factor. */
__device__ __forceinline__ float gradient(const rule &r, float x, float lse, bool is_target)
{
    const float t = r.softcap > 0 ? tanhf(x / r.softcap) : 0;
    const float z = r.softcap > 0 ? r.softcap * t : x;
    const float p = (1 + 2 * r.z_loss * lse) * expf(z - lse);
    const float q = p - (is_target ? 1 - r.smoothing : 0) - r.smoothing / (float)r.n_vocab;
    return q * (1 - t * t);
}

/* Of all threads of a block, a power of two of them; every thread gets it. */
template <int THREADS, class V, class F> __device__ V fold(V v, F f)
{
    __shared__ V all[THREADS];
    all[threadIdx.x] = v;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            all[threadIdx.x] = f(all[threadIdx.x], all[threadIdx.x + half]);
        __syncthreads();
    }
    v = all[0];
    __syncthreads();
    return v;
}

struct larger_of {
    __device__ float operator()(float a, float b) const
    {
        return a > b ? a : b;
    }
};

struct sum_of {
    template <class V> __device__ V operator()(V a, V b) const
    {
        return a + b;
    }
};

/* max of z, sum of exp(z - max), sum of z: of a row, or of a part of it. */
struct row_sums {
    float max, sum, z_sum;
};

/* Of n logits, get(i) each, by a block of ROW_THREADS. Words of -inf alone have a sum of 0; a NaN
 * makes the sum one. */
template <class Get>
__device__ __forceinline__ row_sums sums_of(const rule &r, int64_t n, const Get &get)
{
    float max = -INFINITY, sum = 0, z_sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += ROW_THREADS)
        max = larger_of()(capped(r, get(i)), max);
    max = fold<ROW_THREADS>(max, larger_of());
    const float base = isfinite(max) ? max : 0;
    for (int64_t i = threadIdx.x; i < n; i += ROW_THREADS) {
        const float z = capped(r, get(i));
        sum += expf(z - base);
        z_sum += z;
    }
    return row_sums { max, fold<ROW_THREADS>(sum, sum_of()), fold<ROW_THREADS>(z_sum, sum_of()) };
}

__device__ __forceinline__ float lse_of(const row_sums &s)
{
    return isfinite(s.max) ? s.max + logf(s.sum) : nanf("");
}

__device__ __forceinline__ float loss_of(const rule &r, const row_sums &s, float lse, float hit)
{
    float loss = lse + r.z_loss * lse * lse;
    if (r.smoothing < 1) loss -= (1 - r.smoothing) * hit;
    if (r.smoothing > 0) loss -= r.smoothing * (s.z_sum / (float)r.n_vocab);
    return loss;
}

/* ---- over all rows ---- */

__global__ void count_kernel(rule r, const int32_t *target, shares *to)
{
    double n = 0;
    for (int64_t i = threadIdx.x; i < r.n_rows; i += SUM_THREADS) n += target[i] != r.ignored;
    n = fold<SUM_THREADS>(n, sum_of());
    if (threadIdx.x == 0) *to = shares { n, (float)(r.mean && n > 0 ? r.scale / n : r.scale) };
}

__global__ void total_kernel(rule r, const float *loss, const shares *s, float *total)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < r.n_rows; i += SUM_THREADS) sum += (double)loss[i];
    sum = fold<SUM_THREADS>(sum, sum_of());
    if (threadIdx.x == 0) *total = (float)(r.mean ? sum / s->n_counted : sum);
}

} // namespace

#endif
