/* SPDX-License-Identifier: Apache-2.0 */
/* row_sums.cu - row sums in two passes: a block per chunk, then a warp per row. The order of
 * additions depends on the chunk's size only. */
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

/* blockIdx.x: a chunk; blockIdx.y and on: a row. Rows may be unaligned. */
__global__ void __launch_bounds__(THREADS) sum_pieces(const ts_row_sums_args a)
{
    __shared__ double part[WARPS];
    const int64_t     begin = blockIdx.x * a.piece;
    const int         n = (int)min(a.piece, a.n_vocab - begin);
    for (int64_t r = blockIdx.y; r < a.n_rows; r += gridDim.y) {
        const float *row = a.logits + r * a.n_vocab, *x = row + begin;
        const int    first = a.index[r * a.k];
        const double max = first < 0 ? NAN : (double)row[first];
        double       sum[2] = { 0, 0 };
        for (int i = (int)threadIdx.x; i < n; i += AT_ONCE * THREADS) {
            float y[AT_ONCE]; /* all loads in flight at once */
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
                y[j] = i + j * THREADS < n ? __ldcs(x + i + j * THREADS) : -INFINITY;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) sum[j % 2] += exp(a.t * ((double)y[j] - max));
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
