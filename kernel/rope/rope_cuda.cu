/* SPDX-License-Identifier: Apache-2.0 */
/* rope_cuda.cu - rope on a CUDA device.
 *
 * A block has some rows, one after the other. Its threads have two indices: along the pairs of a
 * head, whose cosine and sine a thread computes once for all of its heads, and along the heads. */
#include "row_teams.cuh"
#include "touchstone/rope.h"

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 16 };

/* cos and sin of an angle: in double its remainder by a quarter turn, as rope_simd.h has it. */
__device__ __forceinline__ float2 turn_of(double angle)
{
    const double k = rint(angle * 0x1.45f306dc9c883p-1);
    const double r = fma(-k, 0x1.1a62633145c07p-54, fma(-k, 0x1.921fb54442d18p0, angle));
    const int    quarter = (int)((long long)k & 3);
    const float  f = (float)r, z = f * f;
    float        s = 1.0f / 362880, c = -1.0f / 3628800;
    s = fmaf(s, z, -1.0f / 5040);
    s = fmaf(s, z, 1.0f / 120);
    s = fmaf(s, z, -1.0f / 6);
    s = fmaf(s * z, f, f);
    c = fmaf(c, z, 1.0f / 40320);
    c = fmaf(c, z, -1.0f / 720);
    c = fmaf(c, z, 1.0f / 24);
    c = fmaf(c, z, -0.5f);
    c = fmaf(c, z, 1.0f);
    const float of_cosine = quarter & 1 ? s : c, of_sine = quarter & 1 ? c : s;
    return make_float2((quarter + 1) & 2 ? -of_cosine : of_cosine,
                       quarter & 2 ? -of_sine : of_sine);
}

/* Not by the read-only cache, nor restrict: y may be x, whose pairs a thread has for itself. */
template <class T>
__device__ __forceinline__ void turn_heads(const ts_rope_args &a, const T *x, T *y, int64_t first,
                                           int64_t second, float2 by)
{
#pragma unroll 4
    for (int64_t h = threadIdx.y; h < a.n_heads; h += blockDim.y) {
        const int64_t at = h * a.head_dim;
        const float   p = to_float(x[at + first]), q = to_float(x[at + second]);
        from_float(y + at + first, p * by.x - q * by.y);
        from_float(y + at + second, q * by.x + p * by.y);
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) rope_rows(const ts_rope_args a)
{
    const int64_t half = a.rotary_dim / 2;
    const bool    adjacent = a.pairing == TS_ROPE_ADJACENT;
    for (int64_t i = threadIdx.x; i < half; i += blockDim.x) {
        const double f =
            a.frequency ? a.frequency[i] : pow(a.theta, -2.0 * (double)i / (double)a.rotary_dim);
        for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x) {
            const double position = (double)a.position[r];
            turn_heads(a, (const T *)a.x + r * a.x_stride, (T *)a.y + r * a.y_stride,
                       adjacent ? 2 * i : i, adjacent ? 2 * i + 1 : i + half,
                       turn_of(a.inverse ? -position * f : position * f));
        }
    }
    if (a.x == a.y) return;
    for (int64_t r = blockIdx.x; r < a.n_rows; r += gridDim.x)
        for (int64_t h = threadIdx.y; h < a.n_heads; h += blockDim.y)
            for (int64_t c = a.rotary_dim + threadIdx.x; c < a.head_dim; c += blockDim.x)
                ((T *)a.y)[r * a.y_stride + h * a.head_dim + c] =
                    ((const T *)a.x)[r * a.x_stride + h * a.head_dim + c];
}

} // namespace

extern "C" TS_API ts_status ts_rope_cuda(const void *args, const ts_exec *x)
{
    const ts_rope_args *a = (const ts_rope_args *)args;
    const cudaStream_t  s = (cudaStream_t)x->stream;
    const int64_t       n = a->rotary_dim ? a->rotary_dim / 2 : a->head_dim;
    unsigned            along = 32;
    if (a->n_rows == 0) return TS_OK;
    while (along < n && along < THREADS) along *= 2;
    const dim3 block(along, THREADS / along);
    const dim3 grid((unsigned)(a->n_rows < MOST_BLOCKS ? a->n_rows : (int64_t)MOST_BLOCKS));
    if (a->dtype == TS_F32) rope_rows<float><<<grid, block, 0, s>>>(*a);
    else if (a->dtype == TS_BF16) rope_rows<__nv_bfloat16><<<grid, block, 0, s>>>(*a);
    else rope_rows<__half><<<grid, block, 0, s>>>(*a);
    return launched();
}
