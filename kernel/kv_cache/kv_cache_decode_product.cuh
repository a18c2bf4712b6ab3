/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_decode_product.cuh - queries as fragments, and their products with keys and values, for
 * kv_cache_decode.cuh. */
#ifndef TS_KV_CACHE_DECODE_PRODUCT_CUH
#define TS_KV_CACHE_DECODE_PRODUCT_CUH

#include "kv_cache_decode_load.cuh"

namespace decode
{

/* ---- queries ---- */

/* The channel of element e of fragment f of a lane, as its vectors have them: see products below.
 */
template <class S> __device__ __forceinline__ int channel_of(int f, int e)
{
    const int t = lane() % 4;
    if constexpr (S::BITS == 16) return f / 2 * 32 + t * 8 + f % 2 * 4 + e;
    if constexpr (S::BITS == 8) return f / 4 * 64 + t * 16 + f % 4 * 4 + e;
    return t * (S::D / 4) + f / 2 * 8 + f % 2 * 2 + e / 2 + e % 2 * 4;
}

/* Codes of U4 at odd places are 16 times what they say. */
template <class S> __device__ __forceinline__ float place_of(int e)
{
    return S::BITS == 4 && e >= 2 ? 1.0f / 16 : 1.0f;
}

static __device__ __forceinline__ float max_of_four(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

static __device__ __forceinline__ float sum_of_four(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* The power of two by which numbers up to `top` come to lie in the upper range of an f16. */
static __device__ __forceinline__ int lift_of(float top)
{
    return top > 0 && top < INFINITY ? min(13 - ilogbf(top), 120) : 0;
}

/* Queries as fragments, column lane / 4; and what makes scores of products, for the two columns
 * that the lane has scores of. */
template <class S, class T> struct queries {
    unsigned b[S::D / 16][2];
    float    factor[2], offset[2]; /* score = s product factor + lo offset, or product factor */
    int      position[2];

    static __device__ __forceinline__ int column(int i)
    {
        return (lane() % 4 * 2 + i) % S::USED;
    }
    /* From the lanes of a column to those that have its scores. */
    __device__ __forceinline__ void spread(float factor_, float offset_)
    {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            factor[i] = __shfl_sync(0xffffffffu, factor_, column(i) * 4);
            offset[i] = __shfl_sync(0xffffffffu, offset_, column(i) * 4);
        }
    }
    /* Of the lane's column, as floats; zeros where there is none. */
    static __device__ __forceinline__ void load(const attend_call &a, const segment &s,
                                                float (&x)[S::D / 16][4])
    {
        const int       c = lane() / 4 % S::USED;
        const bool      is_half = a.c.l.io_dtype == TS_F16;
        const uint16_t *q = (const uint16_t *)a.q +
                            row_of(a, s.part, s.head, s.chunk, min(c, s.n_columns - 1)) * S::D;
#pragma unroll
        for (int f = 0; f < S::D / 16; f++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const unsigned bits = c < s.n_columns ? q[channel_of<S>(f, e)] : 0u;
                x[f][e] = is_half ? widen(bits, __half()).x : widen(bits, __nv_bfloat16()).x;
            }
    }
    __device__ __forceinline__ void begin(const attend_call &a, const segment &s)
    {
#pragma unroll
        for (int i = 0; i < 2; i++)
            position[i] = position_of(a, s, min(column(i), s.n_columns - 1));
        factor[0] = factor[1] = a.scale;
        if constexpr (S::CHANNEL) return; /* hangs on the group of tokens */
        float x[S::D / 16][4], top = 0, sum = 0;
        load(a, s, x);
        if constexpr (S::CODES) {
#pragma unroll
            for (int f = 0; f < S::D / 16; f++)
#pragma unroll
                for (int e = 0; e < 4; e++) top = fmaxf(top, fabsf(x[f][e])), sum += x[f][e];
            const int   lift = lift_of(max_of_four(top));
            const float by = ldexpf(1.0f, lift);
            spread(ldexpf(a.scale, 24 - lift), a.scale * sum_of_four(sum));
#pragma unroll
            for (int f = 0; f < S::D / 16; f++)
#pragma unroll
                for (int e = 0; e < 4; e++) x[f][e] *= by * place_of<S>(e);
        }
#pragma unroll
        for (int f = 0; f < S::D / 16; f++) {
            b[f][0] = narrow(x[f][0], x[f][1], T());
            b[f][1] = narrow(x[f][2], x[f][3], T());
        }
    }
    /* Keys by channel: q s of the group that a token lies in. The columns of the second half take
     * what rounding leaves over. */
    __device__ __forceinline__ void begin_group(const attend_call &a, const segment &s, int token)
    {
        const ts_kv_layout &l = a.c.l;
        const int64_t       page = pages_of(a.c, a.c.part[s.part])[a.page.of(token)];
        const int64_t       pair = ts_kv_key_pair(&l, page, s.head, token % (int)l.page, 0);
        float               x[S::D / 16][4], top = 0, sum = 0;
        load(a, s, x);
#pragma unroll
        for (int f = 0; f < S::D / 16; f++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float2 m = load_pair(l.meta_dtype, l.k_meta, pair + channel_of<S>(f, e));
                sum = fmaf(x[f][e], m.y, sum);
                x[f][e] *= m.x;
                top = fmaxf(top, fabsf(x[f][e]));
            }
        const int   lift = lift_of(max_of_four(top));
        const float by = ldexpf(1.0f, lift);
        spread(ldexpf(a.scale, 24 - lift), a.scale * sum_of_four(sum));
#pragma unroll
        for (int f = 0; f < S::D / 16; f++) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                x[f][e] *= by * place_of<S>(e);
                if (lane() >= 16) x[f][e] -= __half2float(__float2half_rn(x[f][e]));
            }
            b[f][0] = narrow(x[f][0], x[f][1], __half());
            b[f][1] = narrow(x[f][2], x[f][3], __half());
        }
    }
};

/* ---- products ---- */

/* Tokens lane / 4 and that + 8; columns lane % 4 * 2 and that + 1. */
template <class S, class T>
__device__ __forceinline__ void multiply_keys(float (&x)[4], const slot_view<S> &in, int part,
                                              const unsigned (&b)[S::D / 16][2])
{
    constexpr unsigned EVEN = 0x000f000fu, ODD = 0x00f000f0u;
    constexpr int      WORDS = S::K_VECTOR / 4;
    float              y[4] = { 0, 0, 0, 0 };
    x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll
    for (int i = 0; i < S::K_PIECES; i++) {
        unsigned u[4], v[4];
        load_words<WORDS>(u, in.key(part, 0, i));
        load_words<WORDS>(v, in.key(part, 1, i));
        if constexpr (S::BITS == 16) {
            mma<T>(x, u[0], v[0], u[1], v[1], b[2 * i]);
            mma<T>(y, u[2], v[2], u[3], v[3], b[2 * i + 1]);
        } else
#pragma unroll
            for (int w = 0; w < WORDS; w++) {
                if constexpr (S::BITS == 8)
                    mma<T>(w % 2 ? y : x, __byte_perm(u[w], 0, 0x4140),
                           __byte_perm(v[w], 0, 0x4140), __byte_perm(u[w], 0, 0x4342),
                           __byte_perm(v[w], 0, 0x4342), b[i * WORDS + w]);
                else {
                    const unsigned p = u[w] >> 8, q = v[w] >> 8;
                    mma<T>(x, u[w] & EVEN, v[w] & EVEN, u[w] & ODD, v[w] & ODD, b[2 * w]);
                    mma<T>(y, p & EVEN, q & EVEN, p & ODD, q & ODD, b[2 * w + 1]);
                }
            }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) x[k] += y[k];
}

/* o[j] has channels 2 j and 2 j + 1 of the lane's, for two columns. */
template <class S, class T>
__device__ __forceinline__ void multiply_values(float (&o)[S::D / 16][4], const slot_view<S> &in,
                                                int part, const unsigned (&p)[2])
{
    constexpr int WORDS = S::V_VECTOR / 4;
#pragma unroll
    for (int i = 0; i < S::V_PIECES; i++) {
        unsigned v[4][4];
#pragma unroll
        for (int r = 0; r < 4; r++) load_words<WORDS>(v[r], in.value(part, r, i));
#pragma unroll
        for (int w = 0; w < WORDS; w++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned pick = half ? 0x7632 : 0x5410;
                const unsigned y = __byte_perm(v[0][w], v[1][w], pick);
                const unsigned z = __byte_perm(v[2][w], v[3][w], pick);
                if constexpr (S::BITS == 16) {
                    if (half) continue;
                    mma<T>(o[i * WORDS + w], y, __byte_perm(v[0][w], v[1][w], 0x7632), z,
                           __byte_perm(v[2][w], v[3][w], 0x7632), p);
                } else if constexpr (S::BITS == 8) {
                    constexpr unsigned LOW = 0x00ff00ffu;
                    mma<T>(o[2 * w + half], y & LOW, y >> 8 & LOW, z & LOW, z >> 8 & LOW, p);
                } else {
                    constexpr unsigned EVEN = 0x000f000fu, ODD = 0x00f000f0u;
                    mma<T>(o[4 * w + 2 * half], y & EVEN, y & ODD, z & EVEN, z & ODD, p);
                    mma<T>(o[4 * w + 2 * half + 1], y >> 8 & EVEN, y >> 8 & ODD, z >> 8 & EVEN,
                           z >> 8 & ODD, p);
                }
            }
    }
}

/* The lane's first channel of o[j]. */
template <class S> __device__ __forceinline__ int channel_of_sum(int j)
{
    const int g = lane() / 4;
    if constexpr (S::BITS == 16) return j / 4 * 64 + g * 8 + j % 4 * 2;
    return g * (S::D / 8) + 2 * j;
}

/* Scores of keys that are in the tail, as they were given. */
template <class S, class T>
__device__ __noinline__ float4 multiply_tail(const attend_call &a, const segment s, int token)
{
    const ts_kv_layout &l = a.c.l;
    const kv_part      &p = a.c.part[s.part];
    const int           g = lane() / 4, t = lane() % 4, c = g % S::USED;
    float               x[4] = { 0, 0, 0, 0 };
    const T *k = (const T *)l.tail + ts_kv_tail_at(&l, p.seq, a.c.layer, s.head, token) + t * 8;
    const T *q = (const T *)a.q + row_of(a, s.part, s.head, s.chunk, c) * S::D + t * 8;
    for (int i = 0; i < S::D; i += 32) {
        const uint4 u = *(const uint4 *)(k + g * S::D + i);
        const uint4 v = *(const uint4 *)(k + (g + 8) * S::D + i);
        unsigned    b[2][2] = {};
#pragma unroll
        for (int e = 0; e < 4 && c < s.n_columns; e++)
            b[e / 2][e % 2] =
                narrow(to_float(q[i + 2 * e]), to_float(q[i + 2 * e + 1]), T()); /* any alignment */
        mma<T>(x, u.x, v.x, u.y, v.y, b[0]);
        mma<T>(x, u.z, v.z, u.w, v.w, b[1]);
    }
    return make_float4(x[0] * a.scale, x[1] * a.scale, x[2] * a.scale, x[3] * a.scale);
}

} // namespace decode

#endif
