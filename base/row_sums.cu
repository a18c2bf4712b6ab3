/* SPDX-License-Identifier: Apache-2.0 */
/* row_sums.cu - row sums in two passes: a block per chunk, then a warp per row. The order of
 * additions depends on the chunk's size only.
 *
 * exp(y) = 2^e 2^(j/32) p(r) with y 32 log2(e) = 32 e + j + r: lane j has 2^(j/32), and p is the
 * series up to r^5, within 3e-15. That is 10 operations in double, where exp() has some 30, which
 * took longer than to read a logit. */
#include <cuda_runtime.h>
#include <math.h>

extern "C" {
#include "row_sums.h"
}

namespace
{

enum { THREADS = 128, WARPS = THREADS / 32, AT_ONCE = 8 };

__device__ __forceinline__ double sum_of_warp(double x)
{
#pragma unroll
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* To 2^52 and a half of it, n is added exactly, and is in the lower word. */
constexpr double ROUND = 6755399441055744.0;

/* A normal float as a double, exactly. Others become what is as good: less than 2^-126 stays that,
 * and infinity becomes 2^128. The instruction for it is slow. */
__device__ __forceinline__ double widened(float x)
{
    const unsigned u = __float_as_uint(x);
    return __hiloint2double((int)((u & 0x80000000u) | ((u & 0x7fffffffu) >> 3) + 0x38000000u),
                            (int)(u << 29));
}

struct exponential {
    double power;       /* 2^(lane / 32) */
    double factor, max; /* of x - max, to 1/32 of an octave */
    float  top, limit;  /* exp is 0 up to there */

    __device__ __forceinline__ exponential(double t, double max_)
        : power(exp2((int)(threadIdx.x % 32) / 32.0)), factor(t * 46.166241308446828), max(max_),
          top((float)max_), limit((float)fmax(-708.0 / t, -3e38))
    {
    }
    /* sum + exp(t (x - max)). All lanes of the warp come here. */
    __device__ __forceinline__ double add_to(double sum, float x) const
    {
        const double y = widened(x) - max, z = fma(y, factor, ROUND);
        const double r = fma(y, factor, ROUND - z);
        const int    n = __double2loint(z);
        const double there = __shfl_sync(0xffffffffu, power, n & 31);
        const bool   counts = x - top > limit;
        const double scale =
            __hiloint2double(__double2hiint(there) + (n >> 5) * (1 << 20), __double2loint(there));
        constexpr double U = 0.021660849392498290; /* ln 2 / 32 */
        double           p = U * U * U * U * U / 120;
        p = fma(p, r, U * U * U * U / 24);
        p = fma(p, r, U * U * U / 6);
        p = fma(p, r, U * U / 2);
        p = fma(p, r, U);
        p = fma(p, r, 1.0);
        return counts ? fma(scale, p, sum) : sum;
    }
};

/* blockIdx.x: a chunk; blockIdx.y and on: a row. Rows may be unaligned. */
__global__ void __launch_bounds__(THREADS) sum_pieces(const ts_row_sums_args a)
{
    __shared__ double part[WARPS];
    const int64_t     begin = blockIdx.x * a.piece;
    const int         n = (int)min(a.piece, a.n_vocab - begin);
    for (int64_t r = blockIdx.y; r < a.n_rows; r += gridDim.y) {
        const float      *row = a.logits + r * a.n_vocab, *x = row + begin;
        const int         first = a.index[r * a.k];
        const double      max = first < 0 ? NAN : (double)row[first];
        const exponential e(a.t, max);
        double            sum[2] = { 0 * max, 0 }; /* NaN where the row has no largest logit */
        for (int from = 0; from < n; from += AT_ONCE * THREADS) {
            const int i = from + (int)threadIdx.x;
            float     y[AT_ONCE]; /* all loads in flight at once */
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                y[j] = i + j * THREADS < n ? __ldcs(x + i + j * THREADS) : -INFINITY;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) sum[j % 2] = e.add_to(sum[j % 2], y[j]);
        }
        const double mine = sum_of_warp(sum[0] + sum[1]);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
        __syncthreads();
        if (threadIdx.x == 0) {
            double all = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) all += part[w];
            a.sum[r * gridDim.x + blockIdx.x] = all;
        }
        __syncthreads(); /* before the next row's sums overwrite these */
    }
}

__global__ void __launch_bounds__(THREADS) end_rows(const ts_row_sums_args a, int n_pieces)
{
    const int64_t r = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int     lane = (int)threadIdx.x % 32;
    double        total = 0;
    if (r >= a.n_rows) return;
    for (int from = 0; from < n_pieces; from += 32) {
        const double mine = from + lane < n_pieces ? a.sum[r * n_pieces + from + lane] : 0;
        for (int i = 0; i < 32; i++) total += __shfl_sync(0xffffffffu, mine, i);
    }
    if (lane == 0) a.total[r] = total;
    for (int64_t j = lane; j <= a.k; j += 32) {
        const int token = j < a.k ? a.index[r * a.k + j] : a.also;
        a.value[r * (a.k + 1) + j] = token < 0 ? NAN : a.logits[r * a.n_vocab + token];
    }
}

} // namespace

extern "C" TS_API ts_status ts_row_sums_cuda(const void *args, const ts_exec *x)
{
    const ts_row_sums_args *a = (const ts_row_sums_args *)args;
    const cudaStream_t      s = (cudaStream_t)x->stream;
    const int64_t           n_pieces = (a->n_vocab + a->piece - 1) / a->piece;
    if (a->n_rows == 0) return TS_OK;
    if (a->piece > INT32_MAX / 2 || a->n_rows > INT32_MAX) return TS_E_UNSUPPORTED;
    const unsigned rows = (unsigned)(a->n_rows < 65535 ? a->n_rows : 65535);
    sum_pieces<<<dim3((unsigned)n_pieces, rows), THREADS, 0, s>>>(*a);
    end_rows<<<(unsigned)((a->n_rows + WARPS - 1) / WARPS), THREADS, 0, s>>>(*a, (int)n_pieces);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}
