// SPDX-License-Identifier: Apache-2.0
// softmax_topk.cu - textbook softmax_topk: a block per row, which reads the row once for its
// maximum, once for the sum, and once for each of the k elements.
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

// Larger keys come first: the logit's bits made to compare as integers, then the lower index.
static __device__ uint64_t key_of(float v, int index)
{
    if (v == 0.0f) v = 0.0f; // -0 equals +0
    const uint32_t bits = __float_as_uint(v);
    const uint32_t ordered = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)ordered << 32 | (uint32_t)~index;
}

static __device__ float logit_of(uint64_t key)
{
    const uint32_t ordered = (uint32_t)(key >> 32);
    return __uint_as_float(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered);
}

// The largest of all threads' values, or their sum; in every thread.
template <class T, bool SUM> static __device__ T together(T v)
{
    __shared__ T part[THREADS];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = THREADS / 2; half; half /= 2) {
        if (threadIdx.x < half) {
            const T other = part[threadIdx.x + half], mine = part[threadIdx.x];
            part[threadIdx.x] = SUM ? mine + other : other > mine ? other : mine;
        }
        __syncthreads();
    }
    const T all = part[0];
    __syncthreads();
    return all;
}

template <class T>
static __device__ void row(const T *logits, int64_t stride, int n, int k, double t, int32_t *index,
                           float *prob, float *lse)
{
    const T *x = logits + blockIdx.x * stride;
    double   largest = -INFINITY, sum = 0;
    int      nonfinite = 0;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const float v = wide(x[i]);
        nonfinite |= !(v < INFINITY);
        if (v > largest) largest = v;
    }
    nonfinite = together<int, false>(nonfinite);
    largest = together<double, false>(largest);
    if (largest > -INFINITY && !nonfinite)
        for (int i = threadIdx.x; i < n; i += THREADS) sum += exp((wide(x[i]) - largest) * t);
    sum = together<double, true>(sum);
    if (threadIdx.x == 0 && lse)
        lse[blockIdx.x] = nonfinite ? NAN : sum > 0 ? (float)(largest * t + log(sum)) : -INFINITY;
    uint64_t last = UINT64_MAX; // what was taken last
    for (int j = 0; j < k; j++) {
        uint64_t best = 0;
        for (int i = threadIdx.x; i < n && !nonfinite; i += THREADS) {
            const uint64_t key = key_of(wide(x[i]), i);
            if (key < last && key > best) best = key;
        }
        best = nonfinite || j >= n ? 0 : together<uint64_t, false>(best);
        last = best;
        if (threadIdx.x) continue;
        const double p = sum > 0 && best ? exp((logit_of(best) - largest) * t) / sum : 0;
        index[(int64_t)blockIdx.x * k + j] = best ? (int32_t) ~(uint32_t)best : -1;
        prob[(int64_t)blockIdx.x * k + j] = nonfinite ? NAN : (float)p;
    }
}

extern "C" __global__ void softmax_topk_f32(const float *logits, int64_t stride, int n, int k,
                                            double t, int32_t *index, float *prob, float *lse)
{
    row(logits, stride, n, k, t, index, prob, lse);
}

extern "C" __global__ void softmax_topk_f16(const __half *logits, int64_t stride, int n, int k,
                                            double t, int32_t *index, float *prob, float *lse)
{
    row(logits, stride, n, k, t, index, prob, lse);
}

extern "C" __global__ void softmax_topk_bf16(const __nv_bfloat16 *logits, int64_t stride, int n,
                                             int k, double t, int32_t *index, float *prob,
                                             float *lse)
{
    row(logits, stride, n, k, t, index, prob, lse);
}
