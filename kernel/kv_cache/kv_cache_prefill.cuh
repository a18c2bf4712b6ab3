/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_prefill.cuh - attention of many queries over a cache of 16-bit elements.
 *
 * A block takes 128 columns of a head, a warp 16 of them as rows of its mma. All warps share tiles
 * of keys and values in shared memory; the next tile is loaded meanwhile. */
#ifndef TS_KV_CACHE_PREFILL_CUH
#define TS_KV_CACHE_PREFILL_CUH

#include "kv_cache_attend.cuh"
#include "kv_cache_mma.cuh"

namespace prefill
{

enum { WARPS = 8, THREADS = 32 * WARPS, TOKENS = 64, COLUMNS = 16 * WARPS };

/* Rows of a tile are contiguous; vectors of 16 bytes are permuted within a row, so that the same
 * vector of eight rows is in different banks. */
template <int D> struct tile_view {
    static constexpr int ROW = 2 * D, BYTES = TOKENS * ROW;
    unsigned             at;

    __device__ __forceinline__ unsigned vector(int row, int i) const
    {
        return at + (unsigned)(row * ROW + ((i ^ row % 8) * 16));
    }
};

static inline size_t shared_bytes(int D)
{
    return (size_t)(2 * 2 * TOKENS * D) * 2; /* keys and values, now and next */
}

/* Four threads fetch a token's rows. The page of the next one is looked up a turn before. */
template <int D> struct loader {
    const int32_t *pages;
    int            row, page, rest;
    bool           seen;

    __device__ __forceinline__ void look_up(const attend_call &a, const segment &s, int t)
    {
        row = (int)threadIdx.x / 4;
        const int token = s.tiles.at(t) * TOKENS + row, at = a.page.of(token);
        seen = t < s.end && s.see.any(token);
        page = seen ? pages[at] : 0;
        rest = (s.head - at) * (int)a.c.l.page + token;
    }
    __device__ __forceinline__ void send(const attend_call &a, tile_view<D> k, tile_view<D> v)
    {
        const int64_t at = seen ? (int64_t)(page * a.page_rows + rest) * (2 * D) : 0;
        const int     twist = twist_of(2 * D, row);
#pragma unroll
        for (int n = 0; n < D / 32; n++) {
            const int i = (int)threadIdx.x % 4 + 4 * n;
            copy_ahead<16>(k.vector(row, i), a.c.l.k_data + at + ((i * 16) ^ twist), seen);
            copy_ahead<16>(v.vector(row, i), a.c.l.v_data + at + ((i * 16) ^ twist), seen);
        }
    }
};

/* What a warp has of its 16 rows: lane 4 g + t of rows g and g + 8. */
template <class T, int D> struct rows {
    unsigned q[D / 16][4];
    float    o[D / 8][4] = {};
    float    m[2] = { -INFINITY, -INFINITY }, l[2] = { 0, 0 };
    int      position[2];

    static __device__ __forceinline__ int column(int i)
    {
        return (int)(threadIdx.x / 32) * 16 + lane() / 4 + 8 * i;
    }
    __device__ __forceinline__ void begin(const attend_call &a, const segment &s)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int c = min(column(i), s.n_columns - 1);
            const T  *from = (const T *)a.q + row_of(a, s.part, s.head, s.chunk, c) * D;
            position[i] = position_of(a, s, c);
#pragma unroll
            for (int f = 0; f < D / 8; f++) {
                const T *x = from + f * 8 + lane() % 4 * 2;
                q[f / 2][f % 2 * 2 + i] = narrow(to_float(x[0]), to_float(x[1]), T());
            }
        }
    }
    __device__ __forceinline__ void score(float (&x)[TOKENS / 8][4], tile_view<D> k)
    {
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++) {
            x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
#pragma unroll
            for (int f = 0; f < D / 16; f += 2) {
                unsigned w[4];
                load_matrices<false>(w, k.vector(n * 8 + lane() % 8, f * 2 + lane() / 8));
                const unsigned b[2][2] = { { w[0], w[1] }, { w[2], w[3] } };
                mma<T>(x[n], q[f][0], q[f][1], q[f][2], q[f][3], b[0]);
                mma<T>(x[n], q[f + 1][0], q[f + 1][1], q[f + 1][2], q[f + 1][3], b[1]);
            }
        }
    }
    /* Scores become weights. */
    __device__ __forceinline__ void weigh(float (&x)[TOKENS / 8][4], float scale)
    {
        float top[2] = { -INFINITY, -INFINITY };
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                x[n][k] *= scale;
                top[k / 2] = fmaxf(top[k / 2], x[n][k]);
            }
        float keep[2], base[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
            top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2));
            const float next = fmaxf(m[i], top[i]);
            keep[i] = weight_of(m[i], next);
            base[i] = next == -INFINITY ? 0.0f : next;
            m[i] = next;
            l[i] *= keep[i];
        }
#pragma unroll
        for (int n = 0; n < TOKENS / 8; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                x[n][k] = exp2_of(x[n][k] - base[k / 2]);
                l[k / 2] += x[n][k];
            }
        if (__all_sync(0xffffffffu, keep[0] == 1 && keep[1] == 1)) return;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int k = 0; k < 4; k++) o[n][k] *= keep[k / 2];
    }
    __device__ __forceinline__ void add_values(const float (&x)[TOKENS / 8][4], tile_view<D> v)
    {
#pragma unroll
        for (int j = 0; j < TOKENS / 16; j++) {
            const unsigned p[4] = { narrow(x[2 * j][0], x[2 * j][1], T()),
                                    narrow(x[2 * j][2], x[2 * j][3], T()),
                                    narrow(x[2 * j + 1][0], x[2 * j + 1][1], T()),
                                    narrow(x[2 * j + 1][2], x[2 * j + 1][3], T()) };
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                unsigned w[4];
                load_matrices<true>(w, v.vector(j * 16 + lane() % 16, n + lane() / 16));
                const unsigned b[2][2] = { { w[0], w[1] }, { w[2], w[3] } };
                mma<T>(o[n], p[0], p[1], p[2], p[3], b[0]);
                mma<T>(o[n + 1], p[0], p[1], p[2], p[3], b[1]);
            }
        }
    }
    __device__ __forceinline__ void finish(const attend_call &a, const segment &s)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = l[i] + __shfl_xor_sync(0xffffffffu, l[i], 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (column(i) >= s.n_columns) continue;
#pragma unroll
            for (int k = 0; k < D / 4; k++)
                put(a, s, column(i), k / 2 * 8 + lane() % 4 * 2 + k % 2, m[i], sum,
                    o[k / 2][2 * i + k % 2]);
        }
    }
};

template <class T, int D>
__global__ void __launch_bounds__(THREADS, 1) attend(const __grid_constant__ attend_call a)
{
    extern __shared__ uint4 memory[];
    const unsigned          at = shared_address(memory);
    walk                    w(a, (int)blockIdx.x);
    segment                 s;
    while (w.next(a, &s)) {
        rows<T, D> own;
        loader<D>  ahead;
        const auto keys = [&](int i) { return tile_view<D> { at + i % 2 * tile_view<D>::BYTES }; };
        const auto values = [&](int i) {
            return tile_view<D> { at + (2 + i % 2) * tile_view<D>::BYTES };
        };
        ahead.pages = pages_of(a.c, a.c.part[s.part]);
        ahead.look_up(a, s, s.t);
        ahead.send(a, keys(s.t), values(s.t));
        ahead.look_up(a, s, s.t + 1);
        copies_end();
        own.begin(a, s);
        for (int t = s.t; t < s.end; t++) {
            const int first = s.tiles.at(t) * TOKENS;
            float     x[TOKENS / 8][4];
            if (t + 1 < s.end) {
                ahead.send(a, keys(t + 1), values(t + 1));
                ahead.look_up(a, s, t + 2);
            }
            copies_end();
            copies_wait<1>();
            __syncthreads();
            own.score(x, keys(t));
            if (!s.see.all(first, first + TOKENS))
#pragma unroll
                for (int k = 0; k < TOKENS / 2; k++) {
                    const int token = first + k / 4 * 8 + lane() % 4 * 2 + k % 2;
                    if (!s.see.one(own.position[k % 4 / 2], token)) x[k / 4][k % 4] = -INFINITY;
                }
            own.weigh(x, a.scale);
            own.add_values(x, values(t));
            __syncthreads();
        }
        own.finish(a, s);
    }
}

} // namespace prefill

#endif
