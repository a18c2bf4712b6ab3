/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_decode.cuh - attention of a few queries over many cached tokens, limited by memory
 * bandwidth.
 *
 * A warp takes 16 or 32 tokens at a time for 8 columns and keeps its own sums; the warps of a block
 * merge at the end of a segment. If there are more columns, 2 or 4 warps take the same tokens, for
 * 8 columns each: so tokens are read from memory once. Matmuls are mma with tokens as rows: S^T = K
 * Q^T, with columns of queries, and O^T = V^T P^T. The order of channels in a matmul is free as
 * long as both sides agree, so a lane reads whole vectors of the rows that its fragments need. One
 * more warp loads the tokens for all others, whole runs of rows at a time, a few turns ahead and
 * beyond the end of a segment.
 *
 * Codes are never converted to values. As the low bits of an f16 they are subnormals, c 2^-24, and
 * exact. With s and lo of the token, S = s (q . c) + lo sum(q), and O = sum (w (c + lo / s)) with w
 * = p s, rounded once, scaled by its own largest exponent so that it does not underflow in an f16.
 * Keys coded by channel have s folded into q instead, in two parts, in separate columns. */
#ifndef TS_KV_CACHE_DECODE_CUH
#define TS_KV_CACHE_DECODE_CUH

#include "kv_cache_decode_product.cuh"

namespace decode
{

/* ---- sums ---- */

static __device__ __forceinline__ float max_of_tokens(float x)
{
#pragma unroll
    for (int d = 4; d < 32; d *= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, d));
    return x;
}

static __device__ __forceinline__ float sum_of_tokens(float x)
{
#pragma unroll
    for (int d = 4; d < 32; d *= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* Weights are relative to base, which is the largest score so far, or was: it is worth moving only
 * when scores pass it by SLACK, since all that was summed moves with it. In all lanes of a column.
 */
static constexpr float SLACK = 4;

struct running {
    float limit = -INFINITY, base = 0;

    __device__ __forceinline__ float m(void) const
    {
        return limit == -INFINITY ? -INFINITY : base;
    }
    /* Returns what earlier weights are to be multiplied by. */
    __device__ __forceinline__ float meet(float x)
    {
        const float next = fmaxf(m(), max_of_tokens(x)), keep = weight_of(m(), next);
        limit = next + SLACK;
        base = next == -INFINITY ? 0.0f : next;
        return keep;
    }
};

/* The lane's pairs: s and lo of a key; and of a value what weights want to know, its unit, and lo
 * by that. The unit is s, but for a value that is all the same: that has s = 0 and codes of 0, and
 * its unit is |lo|. */
struct lane_pairs {
    float2 key, value;

    template <class S>
    __device__ __forceinline__ lane_pairs(const slot_view<S> &in, ts_dtype meta_dtype)
    {
        if constexpr (!S::CODES) return;
        const int bytes = pair_bytes(meta_dtype);
        if constexpr (!S::CHANNEL) key = pair_at(in.key_pair(bytes, lane()), meta_dtype);
        value = pair_at(in.value_pair(bytes), meta_dtype);
        if (value.x == 0) value.x = fabsf(value.y);
        value.y = value.x == 0 ? 0.0f : __fdividef(value.y, value.x);
    }
    /* Of token lane / 4 + 8 row of a part. */
    static __device__ __forceinline__ float2 of(float2 m, int part, int row)
    {
        const int token = part * ROWS + lane() / 4 + 8 * row;
        return make_float2(__shfl_sync(0xffffffffu, m.x, token),
                           __shfl_sync(0xffffffffu, m.y, token));
    }
};

/* What a warp has of a segment. For codes o and extra are of weights p s, relative to `heavy`. */
template <class S, class T> struct sums {
    running score[2], heavy[2];
    float   l[2] = { 0, 0 }, extra[2] = { 0, 0 };
    float   by[2] = { 1, 1 }; /* 2^(score - heavy), of their bases */
    float   o[S::D / 16][4] = {};

    __device__ __forceinline__ void rescale(float keep0, float keep1)
    {
#pragma unroll
        for (int j = 0; j < S::D / 16; j++) {
            o[j][0] *= keep0, o[j][2] *= keep0;
            o[j][1] *= keep1, o[j][3] *= keep1;
        }
    }
    /* x: scores, of each part those of tokens g and g + 8, of two columns each. */
    __device__ __forceinline__ void meet(const float (&x)[S::PARTS][4], const slot_view<S> &in,
                                         const lane_pairs &pairs)
    {
        if constexpr (S::CODES) meet_codes(x, in, pairs);
        else meet_values(x, in);
    }
    __device__ __forceinline__ void meet_values(const float (&x)[S::PARTS][4],
                                                const slot_view<S> &in)
    {
        bool grows = false;
#pragma unroll
        for (int k = 0; k < 4 * S::PARTS; k++) grows |= x[k / 4][k % 4] > score[k % 2].limit;
        if (__any_sync(0xffffffffu, grows)) {
            float keep[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float top = -INFINITY;
#pragma unroll
                for (int n = 0; n < S::PARTS; n++) top = fmaxf(top, fmaxf(x[n][i], x[n][2 + i]));
                keep[i] = score[i].meet(top);
                l[i] *= keep[i];
            }
            rescale(keep[0], keep[1]);
        }
#pragma unroll
        for (int n = 0; n < S::PARTS; n++) {
            float p[4];
#pragma unroll
            for (int k = 0; k < 4; k++) {
                p[k] = exp2_of(x[n][k] - score[k % 2].base);
                l[k % 2] += p[k];
            }
            const unsigned w[2] = { transposed(narrow(p[0], p[1], T())),
                                    transposed(narrow(p[2], p[3], T())) };
            multiply_values<S, T>(o, in, n, w);
        }
    }
    /* A weight is p times its unit, in units of its own: those are looked at again when a weight
     * becomes too large for them. */
    __device__ __forceinline__ void meet_codes(const float (&x)[S::PARTS][4],
                                               const slot_view<S> &in, const lane_pairs &pairs)
    {
        constexpr float MOST = 256; /* far below the largest f16 */
        float2          value[S::PARTS][2];
        float           p[S::PARTS][4], y[S::PARTS][4];
#pragma unroll
        for (int k = 0; k < 2 * S::PARTS; k++)
            value[k / 2][k % 2] = lane_pairs::of(pairs.value, k / 2, k % 2);
#pragma unroll 1
        for (bool again = false;; again = true) {
            bool grows = false;
#pragma unroll
            for (int k = 0; k < 4 * S::PARTS; k++) {
                const int n = k / 4, e = k % 4, i = k % 2;
                p[n][e] = exp2_of(x[n][e] - score[i].base);
                y[n][e] = p[n][e] * (value[n][e / 2].x * by[i]);
                grows |= x[n][e] > score[i].limit || y[n][e] > MOST;
            }
            if (again || !__any_sync(0xffffffffu, grows)) break;
            grow(x, value);
        }
#pragma unroll
        for (int n = 0; n < S::PARTS; n++) {
            unsigned w[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                l[0] += p[n][2 * r], l[1] += p[n][2 * r + 1];
                w[r] = narrow(y[n][2 * r], y[n][2 * r + 1], T());
                const float2 rounded = widen(w[r], T());
                extra[0] = fmaf(rounded.x, value[n][r].y, extra[0]);
                extra[1] = fmaf(rounded.y, value[n][r].y, extra[1]);
                w[r] = transposed(w[r]);
            }
            multiply_values<S, T>(o, in, n, w);
        }
    }
    __device__ __forceinline__ void grow(const float (&x)[S::PARTS][4],
                                         const float2 (&value)[S::PARTS][2])
    {
        float keep[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float a = -INFINITY, b = -INFINITY;
#pragma unroll
            for (int k = 0; k < 2 * S::PARTS; k++) {
                const float y = x[k / 2][k % 2 * 2 + i];
                a = fmaxf(a, y);
                b = fmaxf(b, y + log2f(value[k / 2][k % 2].x));
            }
            l[i] *= score[i].meet(a);
            keep[i] = heavy[i].meet(b);
            extra[i] *= keep[i];
            by[i] = exp2_of(fminf(fmaxf(score[i].base - heavy[i].base, -126.0f), 126.0f));
        }
        rescale(keep[0], keep[1]);
    }
    /* To [columns][D + 2] of shared memory: o, m, l, from column `from` on. */
    __device__ __forceinline__ void leave(float *to, int from, int n_columns, int n_channels)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int   c = from + lane() % 4 * 2 + i;
            const float sum = sum_of_tokens(l[i]), rest = sum_of_tokens(extra[i]);
            const float unit = S::CODES ? weight_of(heavy[i].m(), score[i].base) : 1.0f;
            if (c >= n_columns || c >= from + S::USED) continue;
            float *row = to + c * (S::D + 2);
#pragma unroll
            for (int j = 0; j < S::D / 16; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float x = o[j][2 * e + i];
                    if (S::CODES) x = unit * fmaf(x, 0x1p24f * place_of<S>(2 * e), rest);
                    const int d = channel_of_sum<S>(j, e);
                    if (!S::RAGGED || d < n_channels) row[d] = x;
                }
            if (lane() < 4) row[S::D] = score[i].m(), row[S::D + 1] = sum;
        }
    }
};

/* What the warps left becomes one: n sums of each column. In a team it is left in the place of the
 * first warp's. */
template <class S>
__device__ void merge_warps(const attend_call &a, const segment &s, float *left, int n)
{
    const int stride = a.columns * (S::D + 2);
    for (int i = (int)threadIdx.x; i < s.n_columns * S::D; i += WORKERS) {
        const int c = i / S::D, d = i % S::D;
        float    *from = left + c * (S::D + 2);
        float     m = -INFINITY, l = 0, o = 0;
        if (S::RAGGED && d >= channels<S>(a.c.l)) continue;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            if (w < n) m = fmaxf(m, from[w * stride + S::D]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            if (w >= n) break;
            const float keep = weight_of(from[w * stride + S::D], m);
            l = fmaf(from[w * stride + S::D + 1], keep, l);
            o = fmaf(from[w * stride + d], keep, o);
        }
        if (s.slot == -2) from[d] = o;
        else put(a, s, c, d, m, l, o);
    }
}

static __device__ __forceinline__ void sync_workers(void)
{
    asm volatile("bar.sync 1, %0;" ::"n"((int)WORKERS) : "memory");
}

/* All workers of all blocks of the cluster; the warps that copy need not come. */
static __device__ __forceinline__ void sync_team(void)
{
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}

/* What block `rank` of the cluster has at the same place. */
static __device__ __forceinline__ float load_from(unsigned place, int rank)
{
    float x;
    asm volatile("{ .reg .u32 there;\n"
                 "mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there]; }"
                 : "=f"(x)
                 : "r"(place), "r"(rank)
                 : "memory");
    return x;
}

/* What the blocks of a team have left becomes the item, in order: of its elements each block takes
 * a part. First m and l of the n warps, which merge_warps left alone. */
template <class S>
__device__ __noinline__ void merge_team(const attend_call &a, int part, int head, int chunk,
                                        int n_columns, float *left, int n, int rank)
{
    const int D = channels<S>(a.c.l), size = n_columns * D, stride = a.columns * (S::D + 2);
    sync_workers();
    if ((int)threadIdx.x < n_columns) {
        float *from = left + (int)threadIdx.x * (S::D + 2) + S::D, m = -INFINITY, l = 0;
        for (int w = 0; w < n; w++) m = fmaxf(m, from[w * stride]);
        for (int w = 0; w < n; w++)
            l = fmaf(from[w * stride + 1], weight_of(from[w * stride], m), l);
        from[0] = m, from[1] = l;
    }
    sync_team();
    for (int i = (size * rank >> a.team) + (int)threadIdx.x; i < size * (rank + 1) >> a.team;
         i += WORKERS) {
        const int      c = i / D, d = i % D;
        const unsigned at = shared_address(left + c * (S::D + 2));
        float          m = -INFINITY, l = 0, o = 0;
#pragma unroll 4
        for (int r = 0; r < 1 << a.team; r++) m = fmaxf(m, load_from(at + S::D * 4, r));
#pragma unroll 4
        for (int r = 0; r < 1 << a.team; r++) {
            const float keep = weight_of(load_from(at + S::D * 4, r), m);
            l = fmaf(load_from(at + S::D * 4 + 4, r), keep, l);
            o = fmaf(load_from(at + (unsigned)d * 4, r), keep, o);
        }
        put_row(a, row_of(a, part, head, chunk, c), d, m, l, o);
    }
    sync_team(); /* before memory goes that others read */
}

/* ---- the kernel ---- */

/* Keys by channel: scores of a part, from `token` on. */
template <class S, class T>
__device__ __forceinline__ void score_group(float (&x)[4], const attend_call &a, const segment &s,
                                            queries<S, T> &q, int *group, const slot_view<S> &in,
                                            int part, int token)
{
    const ts_kv_layout &l = a.c.l;
    if (token >= ts_kv_tail_begin(&l, a.c.part[s.part].len)) {
        const float4 y = l.io_dtype == TS_F16 ? multiply_tail<S, __half>(a, s, token)
                                              : multiply_tail<S, __nv_bfloat16>(a, s, token);
        x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
        return;
    }
    if (a.key_group.of(token) != *group) {
        *group = a.key_group.of(token);
        q.begin_group(a, s, in, token);
    }
    float y[1][4];
    multiply_keys<S, T>(y, in, part, q.b);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        x[k] = y[0][k] + __shfl_xor_sync(0xffffffffu, y[0][k], 2);
        x[k] = fmaf(x[k], q.factor[k % 2], q.offset[k % 2]);
    }
}

/* Scores of a slot, from `token` on. */
template <class S, class T>
__device__ __forceinline__ void
score_tokens(float (&x)[S::PARTS][4], const attend_call &a, const segment &s, queries<S, T> &q,
             int *group, const slot_view<S> &in, const lane_pairs &pairs, int token)
{
    if constexpr (S::CHANNEL) {
#pragma unroll
        for (int n = 0; n < S::PARTS; n++)
            score_group<S, T>(x[n], a, s, q, group, in, n, token + n * ROWS);
        return;
    }
    multiply_keys<S, T>(x, in, 0, q.b);
#pragma unroll
    for (int k = 0; k < 4 * S::PARTS; k++) {
        const int n = k / 4, e = k % 4, i = k % 2;
        if constexpr (S::CODES) {
            const float2 m = lane_pairs::of(pairs.key, n, e / 2);
            x[n][e] = fmaf(x[n][e], m.x * q.factor[i], m.y * q.offset[i]);
        } else x[n][e] *= a.scale;
    }
}

/* Scores of keys that no query sees become -inf. */
template <class S, class T>
__device__ __forceinline__ void hide(float (&x)[4], const segment &s, const queries<S, T> &q,
                                     int token)
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (!s.see.one(q.position[k % 2], token + lane() / 4 + k / 2 * 8)) x[k] = -INFINITY;
}

/* Values that no query sees become zero: shared memory may contain anything there. */
template <class S>
__device__ __forceinline__ void clear_unseen(const segment &s, const slot_view<S> &in, int token)
{
    if (lane() < S::TOKENS && !s.see.any(token + lane()))
#pragma unroll
        for (int i = 0; i < in.row; i += 16)
            store_zero(in.values() + (unsigned)(lane() * in.row + i));
    copies_see_stores();
    __syncwarp();
}

/* SPREAD: several warps may take the same tokens, as many as a.spread says. */
template <class S, class T, bool SPREAD>
__global__ void __launch_bounds__(THREADS, S::BLOCKS) attend(const __grid_constant__ attend_call a)
{
    extern __shared__ __align__(1024) uint4 memory[];
    const int                               warp = (int)threadIdx.x / 32;
    const ring_view<S>                      ring(shared_address(memory), a.c.l);
    float *const                            left = (float *)((char *)memory + ring_bytes<S>(a.c.l));
    next_may_begin();
    if (threadIdx.x < ring.n) {
        barrier_begin(ring.full(threadIdx.x), S::CODES ? 1 + 32 : 1);
        barrier_begin(ring.empty(threadIdx.x), WARPS);
        copies_see_stores();
    }
    __syncthreads();
    if (warp == WARPS) return send_all<S>(a, ring);
    const int     spread = SPREAD ? a.spread : 1, column = warp % spread * S::USED;
    const int     first_share = warp - warp % spread;
    walk_by<true> w(a, (int)blockIdx.x);
    segment       s;
    unsigned      use = 0, parity = 0; /* the slot that is next */
    while (w.next(a, &s)) {
        queries<S, T> q;
        sums<S, T>    own;
        int           group = -1;
        q.begin(a, s, column);
        for (int i = s.t * S::STEPS; i < s.end * S::STEPS; i++) {
            const int  tile = s.tiles.at(i / S::STEPS) * S::TILE;
            const auto token_of = [&](int share) {
                return tile + (share * S::STEPS + i % S::STEPS) * S::TOKENS;
            };
            barrier_wait(ring.full(use), parity);
            __syncwarp();
            if (spread > 1 && !s.see.all(tile, tile + S::TILE)) { /* others read what it clears */
                clear_unseen<S>(s, slot_view<S>(ring.slot(use), warp, a.c.l), token_of(warp));
                sync_workers();
            }
#pragma unroll 1
            for (int j = 0; j < spread && column < s.n_columns; j++) {
                const int          token = token_of(first_share + j);
                const slot_view<S> in(ring.slot(use), first_share + j, a.c.l);
                const lane_pairs   pairs(in, a.c.l.meta_dtype);
                float              x[S::PARTS][4];
                score_tokens<S, T>(x, a, s, q, &group, in, pairs, token);
                if (!s.see.all(token, token + S::TOKENS)) {
#pragma unroll
                    for (int n = 0; n < S::PARTS; n++) hide<S, T>(x[n], s, q, token + n * ROWS);
                    if (spread == 1) clear_unseen<S>(s, in, token);
                }
                own.meet(x, in, pairs);
            }
            __syncwarp();
            if (lane() == 0) barrier_arrive(ring.empty(use));
            use = use + 1 == ring.n ? 0 : use + 1;
            parity ^= use == 0;
        }
        sync_workers(); /* what the warps left last time was merged */
        own.leave(left + first_share / spread * a.columns * (S::D + 2), column, s.n_columns,
                  channels<S>(a.c.l));
        sync_workers();
        merge_warps<S>(a, s, left, WARPS / spread);
        if (a.team)
            merge_team<S>(a, s.part, s.head, s.chunk, s.n_columns, left, WARPS / spread, w.rank);
    }
}

} // namespace decode

#endif
