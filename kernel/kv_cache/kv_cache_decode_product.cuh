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
    constexpr int IN = S::K_VECTOR * 8 / S::BITS; /* channels of a vector */
    const int     i = f * 4 / IN, in = f * 4 % IN, first = i * (4 * IN) + lane() % 4 * IN;
    if constexpr (S::BITS == 4) return first + in / 8 * 8 + in % 8 / 2 + e / 2 + e % 2 * 4;
    return first + in + e;
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

/* Queries as fragments, column `from` + lane / 4; and what makes scores of products, for the two
 * columns that the lane has scores of. */
template <class S, class T> struct queries {
    unsigned b[S::D / 16][2];
    unsigned raw[S::CHANNEL ? S::D / 16 : 1][2];
    float    factor[2], offset[2]; /* score = s product factor + lo offset, or product factor */
    int      from, position[2];

    /* Behind `from`. */
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
    /* Of the lane's column, as they are; zeros where there is none. */
    __device__ __forceinline__ void load(const attend_call &a, const segment &s,
                                         unsigned (&x)[S::D / 16][2]) const
    {
        const int       c = from + lane() / 4 % S::USED, D = channels<S>(a.c.l);
        const uint16_t *q =
            (const uint16_t *)a.q + row_of(a, s.part, s.head, s.chunk, min(c, s.n_columns - 1)) * D;
#pragma unroll
        for (int f = 0; f < S::D / 16; f++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int d = channel_of<S>(f, 2 * e), there = !S::RAGGED || d < D ? d : 0;
                x[f][e] =
                    q[there] | (unsigned)q[S::BITS == 4 ? channel_of<S>(f, 2 * e + 1) : there + 1]
                                   << 16; /* any alignment */
                if (c >= s.n_columns || there != d) x[f][e] = 0;
            }
    }
    static __device__ __forceinline__ float2 as_floats(const attend_call &a, unsigned bits)
    {
        return a.c.l.io_dtype == TS_F16 ? widen(bits, __half()) : widen(bits, __nv_bfloat16());
    }
    __device__ __forceinline__ void begin(const attend_call &a, const segment &s, int from_)
    {
        from = from_;
#pragma unroll
        for (int i = 0; i < 2; i++)
            position[i] = position_of(a, s, min(from + column(i), s.n_columns - 1));
        factor[0] = factor[1] = a.scale;
        if constexpr (S::CHANNEL)
            return load(a, s, raw); /* the rest depends on a group of tokens */
        load(a, s, b);
        if constexpr (S::CODES) {
            float x[S::D / 16][4], top = 0, sum = 0;
#pragma unroll
            for (int f = 0; f < S::D / 16; f++)
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    const float2 y = as_floats(a, b[f][e / 2]);
                    x[f][e] = y.x, x[f][e + 1] = y.y;
                    top = fmaxf(top, fmaxf(fabsf(y.x), fabsf(y.y)));
                    sum += y.x, sum += y.y;
                }
            const int   lift = lift_of(max_of_four(top));
            const float by = ldexpf(1.0f, lift);
            spread(ldexpf(a.scale, 24 - lift), a.scale * sum_of_four(sum));
#pragma unroll
            for (int f = 0; f < S::D / 16; f++)
#pragma unroll
                for (int e = 0; e < 4; e += 2)
                    b[f][e / 2] = narrow(x[f][e] * (by * place_of<S>(e)),
                                         x[f][e + 1] * (by * place_of<S>(e)), T());
        }
    }
    /* Pairs of channels channel_of(f, 2 e) and the next. */
    static __device__ __forceinline__ void load_pairs(float2 (&m)[2], const attend_call &a,
                                                      const slot_view<S> &in, int64_t from, int f,
                                                      int e)
    {
        const ts_kv_layout &l = a.c.l;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int d = channel_of<S>(f, 2 * e + i);
            if (!a.grouped) m[i] = load_pair(l.meta_dtype, l.k_meta, from + d);
            else m[i] = pair_at(in.key_pair(pair_bytes(l.meta_dtype), d), l.meta_dtype);
        }
    }
    /* Keys by channel: q s of the group that a token lies in. The columns of the second half take
     * what rounding leaves over. */
    __device__ __forceinline__ void begin_group(const attend_call &a, const segment &s,
                                                const slot_view<S> &in, int token)
    {
        const ts_kv_layout &l = a.c.l;
        int64_t             from = 0;
        float               x[S::D / 16][4], top = 0, sum = 0;
        if (!a.grouped) {
            const int64_t page = pages_of(a.c, a.c.part[s.part])[a.page.of(token)];
            from = ts_kv_key_pair(&l, page, s.head, token % (int)l.page, 0);
        }
#pragma unroll
        for (int f = 0; f < S::D / 16; f++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float2 y = as_floats(a, raw[f][e]);
                float2       m[2];
                load_pairs(m, a, in, from, f, e);
                sum = fmaf(y.x, m[0].y, sum), sum = fmaf(y.y, m[1].y, sum);
                x[f][2 * e] = y.x * m[0].x, x[f][2 * e + 1] = y.y * m[1].x;
                top = fmaxf(top, fmaxf(fabsf(x[f][2 * e]), fabsf(x[f][2 * e + 1])));
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

/* Of parts from `part` on. Of each: tokens lane / 4 and that + 8; columns lane % 4 * 2 and that
 * + 1. Parts go side by side, and each has two sums, lest a product wait for the one before. */
template <class S, class T, int N>
__device__ __forceinline__ void multiply_keys(float (&x)[N][4], const slot_view<S> &in, int part,
                                              const unsigned (&b)[S::D / 16][2])
{
    constexpr unsigned EVEN = 0x000f000fu, ODD = 0x00f000f0u;
    constexpr int      WORDS = S::K_VECTOR / 4;
    float              y[N][4] = {};
#pragma unroll
    for (int k = 0; k < 4 * N; k++) x[k / 4][k % 4] = 0;
#pragma unroll
    for (int i = 0; i < S::K_PIECES; i++) {
        unsigned u[N][4], v[N][4];
#pragma unroll
        for (int n = 0; n < N; n++) {
            load_words<WORDS>(u[n], in.key(part + n, 0, i));
            load_words<WORDS>(v[n], in.key(part + n, 1, i));
#pragma unroll
            for (int w = 0; w < WORDS && S::RAGGED; w++)
                if (!in.has_key(i)) u[n][w] = v[n][w] = 0;
        }
#pragma unroll
        for (int k = 0; k < WORDS * N; k++) {
            const int      w = k / N, n = k % N;
            const unsigned e = u[n][w], f = v[n][w];
            if constexpr (S::BITS == 16) {
                if (w % 2) continue;
                mma<T>(w ? y[n] : x[n], e, f, u[n][w + 1], v[n][w + 1], b[2 * i + w / 2]);
            } else if constexpr (S::BITS == 8)
                mma<T>(w % 2 ? y[n] : x[n], __byte_perm(e, 0, 0x4140), __byte_perm(f, 0, 0x4140),
                       __byte_perm(e, 0, 0x4342), __byte_perm(f, 0, 0x4342), b[i * WORDS + w]);
            else {
                const unsigned g = e >> 8, h = f >> 8;
                mma<T>(x[n], e & EVEN, f & EVEN, e & ODD, f & ODD, b[2 * (i * WORDS + w)]);
                mma<T>(y[n], g & EVEN, h & EVEN, g & ODD, h & ODD, b[2 * (i * WORDS + w) + 1]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 4 * N; k++) x[k / 4][k % 4] += y[k / 4][k % 4];
}

/* o[j] has two channels of the lane's, for two columns: see channel_of_sum. */
template <class S, class T>
__device__ __forceinline__ void multiply_values(float (&o)[S::D / 16][4], const slot_view<S> &in,
                                                int part, const unsigned (&p)[2])
{
#pragma unroll
    for (int i = 0; i < S::ROW / 32; i++) {
        unsigned v[4]; /* two tokens each: 16 bits of channels */
        load_matrices<true>(v, in.value(part, i));
        if constexpr (S::BITS == 16) mma<T>(o[i], v[0], v[2], v[1], v[3], p);
        else
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned y = v[2 * half], z = v[2 * half + 1];
                const int      n = 2 * i + half;
                if constexpr (S::BITS == 8) {
                    constexpr unsigned LOW = 0x00ff00ffu;
                    mma<T>(o[n], y & LOW, __byte_perm(y, 0, 0x4341), z & LOW,
                           __byte_perm(z, 0, 0x4341), p);
                } else {
                    constexpr unsigned EVEN = 0x000f000fu, ODD = 0x00f000f0u;
                    mma<T>(o[2 * n], y & EVEN, y & ODD, z & EVEN, z & ODD, p);
                    mma<T>(o[2 * n + 1], y >> 8 & EVEN, y >> 8 & ODD, z >> 8 & EVEN, z >> 8 & ODD,
                           p);
                }
            }
    }
}

/* The lane's channel e of o[j]. */
template <class S> __device__ __forceinline__ int channel_of_sum(int j, int e)
{
    const int g = lane() / 4;
    if constexpr (S::BITS == 16) return j * 16 + e * 8 + g;
    if constexpr (S::BITS == 8) return j * 16 + g * 2 + e;
    return j / 2 * 32 + g * 4 + j % 2 * 2 + e;
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
