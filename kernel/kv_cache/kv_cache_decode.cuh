/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_decode.cuh - attention of a few queries over a long past, at the speed of memory.
 *
 * A warp takes 16 or 32 tokens at a time and keeps sums of its own; the warps of a block come
 * together at the end of a segment. Products are those of tensor cores with tokens as rows: S^T = K
 * Q^T, with columns of queries, and O^T = V^T P^T. The order of channels in a product is free as
 * long as both sides agree, so a lane fetches whole vectors of the very rows that its fragments
 * need, to a place in shared memory that no other lane looks at: nobody waits for anybody. The next
 * tokens are on their way meanwhile, those of the next segment too.
 *
 * Codes are never turned into values. As the low bits of an f16 they are subnormals, c 2^-24, and
 * exact. With s and lo of the token, S = s (q . c) + lo sum(q), and O = sum (w (c + lo / s)) with
 * w = p s, rounded once, which has a largest exponent of its own lest it vanish in an f16. Keys
 * coded by channel have s folded into q instead, in two parts, in columns of their own. */
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

/* Scores' weights are relative to base, the largest so far, in all lanes of a column. */
struct running {
    float m = -INFINITY, base = 0;

    /* Returns what earlier weights are to be multiplied by. */
    __device__ __forceinline__ float meet(float x)
    {
        const float next = fmaxf(m, max_of_tokens(x)), keep = weight_of(m, next);
        m = next;
        base = m == -INFINITY ? 0.0f : m;
        return keep;
    }
};

static __device__ __forceinline__ float log2_of(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The lane's pairs: s and lo of a key; and of a value what weights want to know, log2(s) and
 * lo / s. A value that is all the same has s = 0 and codes of 0: its unit is |lo| instead. */
struct lane_pairs {
    float2 key, value;

    template <class LOG> static __device__ __forceinline__ float2 weighed(float2 m, LOG log)
    {
        const float unit = m.x == 0 ? fabsf(m.y) : m.x;
        return make_float2(log(unit), unit == 0 ? 0.0f : __fdividef(m.y, unit));
    }
    template <class S>
    __device__ __forceinline__ lane_pairs(const slot_view<S> &in, ts_dtype meta_dtype)
    {
        unsigned u[2], v[2];
        if (!S::CODES) return;
        if (meta_dtype == TS_F32) {
            load_words<2>(u, in.pair(0, 8));
            load_words<2>(v, in.pair(1, 8));
            key = make_float2(__uint_as_float(u[0]), __uint_as_float(u[1]));
            value = make_float2(__uint_as_float(v[0]), __uint_as_float(v[1]));
            value = weighed(value, [](float x) { return log2f(x); });
        } else { /* nothing is subnormal as a float: the quick logarithm will do */
            load_words<1>(u, in.pair(0, 4));
            load_words<1>(v, in.pair(1, 4));
            key = widen(u[0], __half());
            value = weighed(widen(v[0], __half()), [](float x) { return log2_of(x); });
        }
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
        else meet_values(x[0], in);
    }
    __device__ __forceinline__ void meet_values(const float (&x)[4], const slot_view<S> &in)
    {
        bool grows = false;
#pragma unroll
        for (int k = 0; k < 4; k++) grows |= x[k] > score[k % 2].m;
        if (__any_sync(0xffffffffu, grows)) {
            float keep[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                keep[i] = score[i].meet(fmaxf(x[i], x[2 + i]));
                l[i] *= keep[i];
            }
            rescale(keep[0], keep[1]);
        }
        float p[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            p[k] = exp2_of(x[k] - score[k % 2].base);
            l[k % 2] += p[k];
        }
        const unsigned w[2] = { transposed(narrow(p[0], p[1], T())),
                                transposed(narrow(p[2], p[3], T())) };
        multiply_values<S, T>(o, in, 0, w);
    }
    __device__ __forceinline__ void meet_codes(const float (&x)[S::PARTS][4],
                                               const slot_view<S> &in, const lane_pairs &pairs)
    {
        float y[S::PARTS][4], ratio[S::PARTS][2];
        bool  grows = false;
#pragma unroll
        for (int n = 0; n < S::PARTS; n++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float2 m = lane_pairs::of(pairs.value, n, r);
                ratio[n][r] = m.y;
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    y[n][2 * r + i] = x[n][2 * r + i] + m.x;
                    grows |= x[n][2 * r + i] > score[i].m || y[n][2 * r + i] > heavy[i].m;
                }
            }
        if (__any_sync(0xffffffffu, grows)) grow(x, y);
#pragma unroll
        for (int n = 0; n < S::PARTS; n++) {
            unsigned w[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    l[i] += exp2_of(x[n][2 * r + i] - score[i].base);
                    y[n][2 * r + i] = exp2_of(y[n][2 * r + i] - heavy[i].base);
                }
                w[r] = narrow(y[n][2 * r], y[n][2 * r + 1], T());
                const float2 rounded = widen(w[r], T());
                extra[0] = fmaf(rounded.x, ratio[n][r], extra[0]);
                extra[1] = fmaf(rounded.y, ratio[n][r], extra[1]);
                w[r] = transposed(w[r]);
            }
            multiply_values<S, T>(o, in, n, w);
        }
    }
    __device__ __forceinline__ void grow(const float (&x)[S::PARTS][4],
                                         const float (&y)[S::PARTS][4])
    {
        float keep[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float a = -INFINITY, b = -INFINITY;
#pragma unroll
            for (int n = 0; n < S::PARTS; n++) {
                a = fmaxf(a, fmaxf(x[n][i], x[n][2 + i]));
                b = fmaxf(b, fmaxf(y[n][i], y[n][2 + i]));
            }
            l[i] *= score[i].meet(a);
            keep[i] = heavy[i].meet(b);
            extra[i] *= keep[i];
        }
        rescale(keep[0], keep[1]);
    }
    /* To [columns][D + 2] of shared memory: o, m, l. */
    __device__ __forceinline__ void leave(float *to, int n_columns)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int   c = lane() % 4 * 2 + i;
            const float sum = sum_of_tokens(l[i]), rest = sum_of_tokens(extra[i]);
            const float unit = S::CODES ? weight_of(heavy[i].m, score[i].base) : 1.0f;
            if (c >= n_columns) continue;
            float *row = to + c * (S::D + 2);
#pragma unroll
            for (int j = 0; j < S::D / 16; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float x = o[j][2 * e + i];
                    if (S::CODES) x = unit * fmaf(x, 0x1p24f * place_of<S>(2 * e), rest);
                    row[channel_of_sum<S>(j) + e] = x;
                }
            if (lane() < 4) row[S::D] = score[i].m, row[S::D + 1] = sum;
        }
    }
};

/* What the warps left becomes one. */
template <class S>
__device__ void merge_warps(const attend_call &a, const segment &s, const float *left)
{
    const int stride = a.columns * (S::D + 2);
    for (int i = (int)threadIdx.x; i < s.n_columns * S::D; i += THREADS) {
        const int    c = i / S::D, d = i % S::D;
        const float *from = left + c * (S::D + 2);
        float        m = -INFINITY, l = 0, o = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) m = fmaxf(m, from[w * stride + S::D]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float keep = weight_of(from[w * stride + S::D], m);
            l = fmaf(from[w * stride + S::D + 1], keep, l);
            o = fmaf(from[w * stride + d], keep, o);
        }
        put(a, s, c, d, m, l, o);
    }
}

/* ---- the kernel ---- */

/* Scores of a part, from `token` on. */
template <class S, class T>
__device__ __forceinline__ void score_tokens(float (&x)[4], const attend_call &a, const segment &s,
                                             queries<S, T> &q, int *group, const slot_view<S> &in,
                                             int part, const lane_pairs &pairs, int token)
{
    const ts_kv_layout &l = a.c.l;
    if constexpr (S::CHANNEL) {
        if (token >= ts_kv_tail_begin(&l, a.c.part[s.part].len)) {
            const float4 y = l.io_dtype == TS_F16 ? multiply_tail<S, __half>(a, s, token)
                                                  : multiply_tail<S, __nv_bfloat16>(a, s, token);
            x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
            return;
        }
        if (token / (int)l.key_group != *group) {
            *group = token / (int)l.key_group;
            q.begin_group(a, s, token);
        }
    }
    multiply_keys<S, T>(x, in, part, q.b);
    if constexpr (S::CHANNEL) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            x[k] += __shfl_xor_sync(0xffffffffu, x[k], 2);
            x[k] = fmaf(x[k], q.factor[k % 2], q.offset[k % 2]);
        }
    } else if constexpr (S::CODES) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float2 m = lane_pairs::of(pairs.key, part, r);
#pragma unroll
            for (int i = 0; i < 2; i++)
                x[2 * r + i] = fmaf(x[2 * r + i], m.x * q.factor[i], m.y * q.offset[i]);
        }
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++) x[k] *= a.scale;
    }
}

/* Nobody's scores become -inf. */
template <class S, class T>
__device__ __forceinline__ void hide(float (&x)[4], const segment &s, const queries<S, T> &q,
                                     int token)
{
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (!s.see.one(q.position[k % 2], token + lane() / 4 + k / 2 * 8)) x[k] = -INFINITY;
}

template <class S, class T>
__global__ void __launch_bounds__(THREADS, S::BLOCKS) attend(const __grid_constant__ attend_call a)
{
    extern __shared__ uint4 memory[];
    const int               warp = (int)threadIdx.x / 32, bytes = slot_bytes<S>(a.c.l);
    const unsigned          ring = shared_address(memory) + (unsigned)(warp * S::SLOTS * bytes);
    float *const            left = (float *)((char *)memory + WARPS * S::SLOTS * bytes);
    loader<S>               ahead(a);
    walk                    w(a, (int)blockIdx.x);
    segment                 s;
    unsigned                use = 0, send = S::SLOTS - 1; /* slots */
    for (int i = 0; i < S::SLOTS - 1; i++) ahead.send(a, { ring + (unsigned)(i * bytes) });
    while (w.next(a, &s)) {
        queries<S, T> q;
        sums<S, T>    own;
        int           group = -1;
        q.begin(a, s);
        for (int i = s.t * S::STEPS; i < s.end * S::STEPS; i++) {
            const int token =
                s.tiles.at(i / S::STEPS) * S::TILE + (warp * S::STEPS + i % S::STEPS) * S::TOKENS;
            const slot_view<S> in = { ring + use * (unsigned)bytes };
            float              x[S::PARTS][4];
            ahead.send(a, { ring + send * (unsigned)bytes });
            copies_wait<S::SLOTS - 1>();
            send = use;
            use = use + 1 == S::SLOTS ? 0 : use + 1;
            const lane_pairs pairs(in, a.c.l.meta_dtype);
#pragma unroll
            for (int n = 0; n < S::PARTS; n++)
                score_tokens<S, T>(x[n], a, s, q, &group, in, n, pairs, token + n * ROWS);
            if (!s.see.all(token, token + S::TOKENS))
#pragma unroll
                for (int n = 0; n < S::PARTS; n++) hide<S, T>(x[n], s, q, token + n * ROWS);
            own.meet(x, in, pairs);
        }
        own.leave(left + warp * a.columns * (S::D + 2), s.n_columns);
        __syncthreads();
        merge_warps<S>(a, s, left);
        __syncthreads();
    }
}

} // namespace decode

#endif
