/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_sum.cuh - the sum of a row's exponentials: of a lane, of a warp, of a block. */
#ifndef TS_SOFTMAX_TOPK_SUM_CUH
#define TS_SOFTMAX_TOPK_SUM_CUH

#include "device.cuh"
#include "softmax_topk_row.cuh"

namespace
{

struct partial {
    float m, s; /* maximum, and sum of 2^(scale (x - m)) */
};

/* s of a partial once its maximum is m instead, which is no less. Both may be -inf, of one that met
 * nothing; s then is 0, or NaN. */
__device__ __forceinline__ float rescaled(partial a, float m, float scale)
{
    return a.m == m ? a.s : a.s * exp2_of((a.m - m) * scale);
}

/* ---- of a lane ---- */

/* A lane's sum of 2^(x scale - base). What it is relative to is the same in all lanes: the largest
 * logit m that the warp has met, times scale. Where that is large it is rounded too much, and the
 * sum is of 2^((x - m) scale); elsewhere the rounding is taken back at the end. */
struct running {
    float m, base, s;
    bool  far;

    __device__ __forceinline__ float relative_to_m(float scale) const
    {
        return far || m == -INFINITY ? s : s * exp2_of(fmaf(-m, scale, base));
    }
    __device__ __forceinline__ void meet(float c, float scale)
    {
        if (!__any_sync(ALL, c > m)) return;
        c = logit_of((topk_key)__reduce_max_sync(ALL, ordered_of(c)) << 32);
        const float next = c * scale;
        const bool  next_far = !(fabsf(next) < 0x1p20f);
        if (m == -INFINITY) s = 0;
        else if (!far && !next_far) s *= exp2_of(base - next);
        else {
            s = relative_to_m(scale) * exp2_of((m - c) * scale);
            if (!next_far) s *= exp2_of(fmaf(c, scale, -next));
        }
        m = c, base = next, far = next_far;
    }
    template <class T> __device__ __forceinline__ void add(const uint4 (&raw)[VECTORS], float scale)
    {
        constexpr int E = lanes<T>::n;
        float         sum[4] = { 0, 0, 0, 0 };
        if (far) {
            for (int v = 0; v < VECTORS; v++) {
                float x[E];
                unpack_as<T>(raw[v], x);
#pragma unroll
                for (int e = 0; e < E; e++) sum[e % 4] += exp2_of((x[e] - m) * scale);
            }
        } else {
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                float x[E];
                unpack_as<T>(raw[v], x);
#pragma unroll
                for (int e = 0; e < E; e++) sum[e % 4] += exp2_of(fmaf(x[e], scale, -base));
            }
        }
        s += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
};

/* ---- of a block ---- */

__device__ __forceinline__ float warp_max(float m)
{
    return logit_of((topk_key)__reduce_max_sync(ALL, ordered_of(m)) << 32);
}

__device__ __forceinline__ float warp_sum(float s)
{
#pragma unroll
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(ALL, s, d);
    return s;
}

/* Over the block, in a fixed order; every thread gets the same bits. warps: room for one of each.
 */
__device__ partial block_partial(partial own, float scale, partial *warps)
{
    float m = warp_max(own.m);
    float s = warp_sum(rescaled(own, m, scale));
    if (lane() == 0) warps[warp()] = { m, s };
    __syncthreads();
    own = lane() < n_warps() ? warps[lane()] : partial { -INFINITY, 0 };
    m = warp_max(own.m);
    return { m, warp_sum(rescaled(own, m, scale)) };
}

__device__ __forceinline__ float lse_of(partial all, double inv_temperature)
{
    if (!(all.s >= 0)) return NAN;
    return all.s == 0 ? -INFINITY : (float)(inv_temperature * all.m + (double)logf(all.s));
}

/* The probability of a logit. */
__device__ __forceinline__ float prob_of(float x, partial all, double inv_temperature)
{
    const double z = ((double)x - (double)all.m) * inv_temperature;
    return !(all.s >= 0) ? NAN : all.s > 0 ? expf((float)z) / all.s : 0.0f;
}

/* Places of the row from `first` on. First go logits of -inf, which nothing has counted so far:
 * with fewer than k others, as many as are needed are among the first k logits. Places that no
 * logit fills follow. count: room for a number per warp. All the block's threads come here. */
template <class T>
__device__ __noinline__ void fill_rest(const topk_params &p, int64_t row, int64_t first,
                                       bool nonfinite, unsigned *count)
{
    const T  *x = (const T *)p.logits + row * p.row_stride;
    const int n = nonfinite ? 0 : (int)(p.k < p.n_vocab ? p.k : p.n_vocab);
    int32_t  *index = p.index + row * p.k;
    float    *prob = p.prob + row * p.k;
    for (int from = 0; from < n && first < p.k; from += n_threads()) {
        const int      i = from + (int)threadIdx.x;
        const bool     is = i < n && to_float(x[i]) == -INFINITY;
        const unsigned in = __ballot_sync(ALL, is);
        int64_t        to = first + __popc(in & ((1u << lane()) - 1));
        __syncthreads(); /* what was there has been read */
        if (lane() == 0) count[warp()] = (unsigned)__popc(in);
        __syncthreads();
        for (int w = 0; w < n_warps(); w++) {
            if (w < warp()) to += count[w];
            first += count[w];
        }
        if (is && to < p.k) index[to] = i, prob[to] = 0.0f;
    }
    for (int64_t j = first + (int)threadIdx.x; j < p.k; j += n_threads()) {
        index[j] = -1;
        prob[j] = nonfinite ? NAN : 0.0f;
    }
}

} // namespace

#endif
