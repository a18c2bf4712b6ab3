/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_attend_any.cuh - attention for every store, head size, group and alignment: rows are
 * read back into shared memory as float, and all else is plain float arithmetic. */
#ifndef TS_KV_CACHE_ATTEND_ANY_CUH
#define TS_KV_CACHE_ATTEND_ANY_CUH

#include "kv_cache_attend.cuh"

namespace general
{

/* A column belongs to LANES threads; each has TOKENS / LANES scores and MOST_D / LANES of o. */
enum { COLUMNS = 16, LANES = 16, THREADS = COLUMNS * LANES, TOKENS = 64, MOST_D = 256 };
enum { SCORES = TOKENS / LANES, PIECES = MOST_D / LANES };

/* Floats from one row to the next: odd, so that the elements of a column are in different banks. */
static __host__ __device__ __forceinline__ int stride_of(int D)
{
    return D | 1;
}

static inline size_t shared_bytes(int D)
{
    return (size_t)(TOKENS * stride_of(D) + COLUMNS * D + COLUMNS * TOKENS) * sizeof(float);
}

struct room {
    float *rows, *q, *p; /* [TOKENS][stride], [COLUMNS][D], [COLUMNS][TOKENS] */

    __device__ __forceinline__ room(float *memory, int D)
        : rows(memory), q(rows + TOKENS * stride_of(D)), p(q + COLUMNS * D)
    {
    }
};

static __device__ void load_queries(const attend_call &a, const segment &s, float *q)
{
    const int D = (int)a.c.l.head_dim;
    for (int i = (int)threadIdx.x; i < COLUMNS * D; i += THREADS) {
        const int c = i / D;
        float     x = 0;
        if (c < s.n_columns)
            x = load_io(a.c.l.io_dtype, a.q, row_of(a, s.part, s.head, s.chunk, c) * D + i % D);
        q[i] = x * a.scale;
    }
}

/* Keys, or values, of a tile; rows that no query sees are zero. */
template <ts_dtype T, bool KEYS>
__device__ void load_tile(const attend_call &a, const segment &s, int first, float *rows)
{
    const kv_part &p = a.c.part[s.part];
    const int32_t *pages = pages_of(a.c, p);
    for (int t = (int)threadIdx.x / 32; t < TOKENS; t += THREADS / 32) {
        float     *row = rows + t * stride_of((int)a.c.l.head_dim);
        const auto put_here = [&](int d, float x) { row[d] = x; };
        if (!s.see.any(first + t))
            for (int d = lane(); d < (int)a.c.l.head_dim; d += 32) row[d] = 0;
        else if (KEYS)
            read_key<T>(a.c.l, pages, p.seq, a.c.layer, p.len, s.head, first + t, put_here);
        else read_value<T>(a.c.l, pages, s.head, first + t, put_here);
    }
}

static __device__ __forceinline__ float max_of_lanes(float x)
{
#pragma unroll
    for (int d = LANES / 2; d; d /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

static __device__ __forceinline__ float sum_of_lanes(float x)
{
#pragma unroll
    for (int d = LANES / 2; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* What a thread has of its column. */
struct column {
    float m = -INFINITY, l = 0;
    float o[PIECES] = {};

    /* Scores of a tile, of which the keys are in place; leaves 2^(s - m) in p. */
    __device__ __forceinline__ void meet(const attend_call &a, const segment &s, int first,
                                         int position, const room &in, int c, int sub)
    {
        const int D = (int)a.c.l.head_dim, stride = stride_of(D);
        float     x[SCORES] = {}, top = -INFINITY;
        for (int d = 0; d < D; d++) {
            const float q = in.q[c * D + d];
#pragma unroll
            for (int i = 0; i < SCORES; i++)
                x[i] = fmaf(q, in.rows[(sub + i * LANES) * stride + d], x[i]);
        }
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            if (!s.see.one(position, first + sub + i * LANES)) x[i] = -INFINITY;
            top = fmaxf(top, x[i]);
        }
        const float next = fmaxf(m, max_of_lanes(top)), keep = weight_of(m, next);
        const float base = next == -INFINITY ? 0.0f : next;
        float       sum = 0;
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            x[i] = exp2_of(x[i] - base);
            in.p[c * TOKENS + sub + i * LANES] = x[i];
            sum += x[i];
        }
        l = fmaf(l, keep, sum);
        m = next;
#pragma unroll
        for (int k = 0; k < PIECES; k++) o[k] *= keep;
    }
    __device__ __forceinline__ void add_values(const room &in, int c, int sub, int D)
    {
        for (int t = 0; t < TOKENS; t++) {
            const float  p = in.p[c * TOKENS + t];
            const float *v = in.rows + t * stride_of(D) + sub;
#pragma unroll
            for (int k = 0; k < PIECES; k++)
                if (k * LANES + sub < D) o[k] = fmaf(p, v[k * LANES], o[k]);
        }
    }
};

template <ts_dtype T>
__global__ void __launch_bounds__(THREADS) attend(const __grid_constant__ attend_call a)
{
    extern __shared__ float memory[];
    const int               D = (int)a.c.l.head_dim;
    const room              in(memory, D);
    const int               c = (int)threadIdx.x / LANES, sub = (int)threadIdx.x % LANES;
    walk                    w(a, (int)blockIdx.x);
    segment                 s;
    while (w.next(a, &s)) {
        const tile_list tiles(s.see, TOKENS);
        const int       position = position_of(a, s, min(c, s.n_columns - 1));
        column          own;
        load_queries(a, s, in.q);
        for (int t = s.t; t < s.end; t++) {
            const int first = tiles.at(t) * TOKENS;
            load_tile<T, true>(a, s, first, in.rows);
            __syncthreads();
            own.meet(a, s, first, position, in, c, sub);
            __syncthreads();
            load_tile<T, false>(a, s, first, in.rows);
            __syncthreads();
            own.add_values(in, c, sub, D);
            __syncthreads();
        }
        const float l = sum_of_lanes(own.l);
#pragma unroll
        for (int k = 0; k < PIECES; k++)
            if (c < s.n_columns && k * LANES + sub < D)
                put(a, s, c, k * LANES + sub, own.m, l, own.o[k]);
    }
}

} // namespace general

#endif
