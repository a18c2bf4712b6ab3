/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_product_sm90.cuh - a group of 32 outputs times a group of rows, by matrix instructions.
 *
 * They are m16n8k16 with float sums: 16 outputs, 8 rows of `in`. Of a word's complement the two
 * bits of a code are a sign and whether there is anything: shifted to the top of a half they are
 * -2, 0 or 2, in f16 and in bf16 alike. So a shift and a mask make two weights, and no bias remains
 * that a large input would have to cancel against. Code point 3 would be 0: it is looked for aside.
 *
 * An input is as many f16s or bf16s as it has digits for, after a power of two for its row, and
 * their products are exact. The order of the sum is, for every kernel and any number of rows: the
 * inputs of a group, 16 at a time in `first_input`'s order; groups, each times its s; and then, of
 * 16-bit inputs, the groups of a stripe and the four stripes, of float the groups of a segment and
 * the segments. */
#ifndef TS_TERNARY_PRODUCT_SM90_CUH
#define TS_TERNARY_PRODUCT_SM90_CUH

#include <string.h>
#include <type_traits>

#include "ternary_sm90.cuh"

namespace
{

enum {
    OUTPUTS = 32, /* of a warp, at a time */
    SEGMENT = 4,  /* groups */
    UNITS = 16,   /* of 8 inputs each, in a group: what a lane takes for two steps */
};

/* Stripes are whole segments, as many as n_in says: blocks or warps can share them out. */
enum { STRIPES = 4 };

template <class T> constexpr bool STRIPED = sizeof(T) == 2;

/* The first segment of a stripe. */
__host__ __device__ __forceinline__ int stripe_begin(int n_segments, int i)
{
    return (int)((int64_t)n_segments * i / STRIPES);
}

/* The stripe of a segment; and is the segment its last one? */
__device__ __forceinline__ int stripe_of(int n_segments, int segment)
{
    int i = 0;
#pragma unroll
    for (int k = 1; k < STRIPES; k++) i += segment >= stripe_begin(n_segments, k);
    return i;
}

__device__ __forceinline__ bool ends_stripe(int n_segments, int segment)
{
    return segment + 1 == stripe_begin(n_segments, stripe_of(n_segments, segment) + 1);
}

/* What an input is taken for, and in how many parts. */
template <class T> struct parts {
    using element = __nv_bfloat16;
    static constexpr int n = 1;
};
template <> struct parts<float> {
    using element = __nv_bfloat16;
    static constexpr int n = 3;
};
template <> struct parts<__half> {
    using element = __half;
    static constexpr int n = 1;
};

struct product_params {
    const uint8_t  *code;
    const uint16_t *scale;
    const void     *in;
    void           *y;
    int64_t         n_out, n_in, n_rows;
    int             n_groups;
    bool            aligned; /* may four inputs be loaded at once? */
};

inline product_params params_of(const ts_ternary_linear_packed_args *a)
{
    const size_t   four = a->d.dtype == TS_F32 ? 16 : 8;
    product_params p = {};
    p.code = a->code, p.scale = a->scale, p.in = a->in, p.y = a->y;
    p.n_out = a->d.n_out, p.n_in = a->d.n_in, p.n_rows = a->d.n_rows;
    p.n_groups = (int)groups_of(a->d.n_in);
    p.aligned = a->d.n_in % 4 == 0 && aligned_to(a->in, four);
    return p;
}

/* ---- inputs ---- */

/* Any order of inputs inside a group will do if both factors have the same. Lanes take codes as
 * they lie: lane t of the four that share a row has words 2t and 2t + 1 of a group, and a mask
 * takes codes h and h + 8 of a word. Unit 4 p + t is for steps 2p and 2p + 1. */
__device__ __forceinline__ int first_input(int unit)
{
    return unit % 4 * 32 + unit / 8 * 16 + 4 - unit / 4 % 2 * 4;
}

/* Where a unit of a column lies among its UNITS: lanes that load at one time then do not meet. */
__device__ __forceinline__ int place_of(int unit, int column)
{
    return unit ^ (column & 1) << 2;
}

/* The eight inputs of a unit as they lie in memory: four, and those 8 further on. */
template <class T> struct raw_unit {
    uint2 low, high; /* 16 bits each */

    __device__ __forceinline__ void widened(float (&v)[2][4]) const
    {
        const uint2 half[2] = { low, high };
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const float2 a = widen(half[k].x, T()), b = widen(half[k].y, T());
            v[k][0] = a.x, v[k][1] = a.y, v[k][2] = b.x, v[k][3] = b.y;
        }
    }
};

template <> struct raw_unit<float> {
    float4 low, high;

    __device__ __forceinline__ void widened(float (&v)[2][4]) const
    {
        v[0][0] = low.x, v[0][1] = low.y, v[0][2] = low.z, v[0][3] = low.w;
        v[1][0] = high.x, v[1][1] = high.y, v[1][2] = high.z, v[1][3] = high.w;
    }
};

/* Inputs j .. j + 3 of a row, and 0 for those past its end. */
template <class T, class V>
__device__ __forceinline__ V four_inputs(const product_params &p, const T *row, int64_t j)
{
    static_assert(sizeof(V) == 4 * sizeof(T), "not four");
    if (p.aligned && j + 4 <= p.n_in) return __ldg((const V *)(const void *)(row + j));
    T four[4];
    V v;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        from_float(four + k, 0);
        if (j + k < p.n_in) four[k] = row[j + k];
    }
    memcpy(&v, four, sizeof v);
    return v;
}

/* Unit i of a row, counted from its first group on. */
template <class T>
__device__ __forceinline__ raw_unit<T> load_unit(const product_params &p, int64_t row, int i)
{
    const int64_t j = (int64_t)(i / UNITS) * GROUP + first_input(i % UNITS);
    const T      *in = (const T *)p.in + row * p.n_in;
    raw_unit<T>   u;
    u.low = four_inputs<T, decltype(u.low)>(p, in, j);
    u.high = four_inputs<T, decltype(u.low)>(p, in, j + 8);
    return u;
}

/* A unit, times a power of two, in all its parts. Returns the largest magnitude, before that, as
 * the bits of a float; what is not finite does not count. */
template <class T>
__device__ __forceinline__ unsigned make_unit(const raw_unit<T> &u, float shrink,
                                              uint4 (&part)[parts<T>::n])
{
    using E = typename parts<T>::element;
    unsigned most = 0;
    float    v[2][4];
    u.widened(v);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        const unsigned a = __float_as_uint(fabsf(v[k / 4][k % 4]));
        most = max(most, a < 0x7f800000u ? a : 0);
        v[k / 4][k % 4] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < parts<T>::n; n++) {
        unsigned w[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float &a = v[0][3 - k], &b = v[1][3 - k];
            w[k] = narrow(a, b, E());
            if (parts<T>::n > 1) { /* infinity less infinity would be NaN */
                const float2 is = widen(w[k], E());
                a = isfinite(is.x) ? a - is.x : 0, b = isfinite(is.y) ? b - is.y : 0;
            }
        }
        part[n] = make_uint4(w[0], w[1], w[2], w[3]);
    }
    return most;
}

/* The same, as it is, where that takes no arithmetic. What is not finite counts. */
template <class T>
__device__ __forceinline__ unsigned plain_unit(const raw_unit<T> &u, uint4 (&part)[1])
{
    const unsigned l[2] = { u.low.x, u.low.y }, h[2] = { u.high.x, u.high.y };
    part[0] = make_uint4(__byte_perm(l[1], h[1], 0x7632), __byte_perm(l[1], h[1], 0x5410),
                         __byte_perm(l[0], h[0], 0x7632), __byte_perm(l[0], h[0], 0x5410));
    if (std::is_same<T, __half>::value) return 0x3f800000u; /* none is too large or too small */
    const unsigned a = __vmaxu2(l[0] & 0x7fff7fffu, l[1] & 0x7fff7fffu);
    const unsigned b = __vmaxu2(h[0] & 0x7fff7fffu, h[1] & 0x7fff7fffu), c = __vmaxu2(a, b);
    return max(c & 0xffff0000u, c << 16);
}

__device__ __forceinline__ unsigned plain_unit(const raw_unit<float> &u, uint4 (&part)[3])
{
    return make_unit<float>(u, 1, part);
}

/* The power of two for a row whose largest magnitude has these bits. No sum of a group passes the
 * largest float then though the result, times a scale, would not; and no part falls below the
 * smallest. */
__device__ __forceinline__ float shrink_of(unsigned most)
{
    const float m = __uint_as_float(most);
    return m >= 0x1p100f ? 0x1p-40f : m < 0x1p-60f ? 0x1p60f : 1;
}

/* Is it 1, whatever else there is that is not finite? */
__device__ __forceinline__ bool is_plain(unsigned most)
{
    return most >= 0x21800000u && most < 0x71800000u;
}

/* What undoes that, and that weights were 2. */
__device__ __forceinline__ float lift_of(float shrink)
{
    return 0.5f / shrink;
}

/* ---- codes ---- */

__device__ __forceinline__ unsigned four_bytes(const uint8_t *c)
{
    return __ldg(c) | __ldg(c + 1) << 8 | __ldg(c + 2) << 16 | (unsigned)__ldg(c + 3) << 24;
}

template <bool ALIGNED> __device__ __forceinline__ uint2 eight_bytes(const uint8_t *c)
{
    uint2 v;
    if (ALIGNED)
        asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0, %1}, [%2];"
                     : "=r"(v.x), "=r"(v.y)
                     : "l"(c));
    else v = make_uint2(four_bytes(c), four_bytes(c + 4));
    return v;
}

/* What a lane has of a group, of its four outputs: 4 (lane / 4) and the next three. */
struct piece {
    uint2    code[4];
    uint16_t scale[4];
};

/* Where that of the first group lies: in groups from the first of the matrix on. */
struct place {
    unsigned at[4];

    __device__ __forceinline__ place(const product_params &p, int tile)
    {
#pragma unroll
        for (int k = 0; k < 4; k++) { /* past the end the last once more, which is not stored */
            const unsigned o = (unsigned)tile * OUTPUTS + threadIdx.x % 32 / 4 * 4 + k;
            at[k] = min(o, (unsigned)p.n_out - 1) * (unsigned)p.n_groups;
        }
    }
};

/* And that of another; pointers, which take more registers. */
struct address {
    const uint8_t  *code[4];
    const uint16_t *scale[4];

    __device__ __forceinline__ void find(const product_params &p, const place &from, unsigned g)
    {
        const uint8_t *own = p.code + threadIdx.x % 4 * 8;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            code[k] = own + (uint64_t)(from.at[k] + g) * GROUP_BYTES;
            scale[k] = p.scale + (from.at[k] + g);
        }
    }
    template <bool ALIGNED> __device__ __forceinline__ void load(piece *x) const
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            x->code[k] = eight_bytes<ALIGNED>(code[k]);
            x->scale[k] = __ldg(scale[k]);
        }
    }
};

/* Codes 7 - k and 15 - k of a word. */
__device__ __forceinline__ unsigned weights_of(unsigned word, int k)
{
    return ~(word << 2 * k) & 0xc000c000u;
}

/* Has a lane met code point 3, of each of its outputs? */
struct threes {
    unsigned of[4] = { 0, 0, 0, 0 }; /* in the upper bit of a code */

    __device__ __forceinline__ void look(const piece &x)
    {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            of[k] |= x.code[k].x & x.code[k].x << 1;
            of[k] |= x.code[k].y & x.code[k].y << 1;
        }
    }
    /* Sums of outputs that have one become NaN, for all lanes that share the output. */
    template <int TILES> __device__ __forceinline__ void poison(float (&y)[2][TILES][4])
    {
        unsigned any = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            any |= of[k] & 0xaaaaaaaau ? 1u << k : 0;
            of[k] = 0;
        }
        if (!__any_sync(ALL, any)) return;
        any |= __shfl_xor_sync(ALL, any, 1);
        any |= __shfl_xor_sync(ALL, any, 2);
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (any >> i / 2 & 1) y[i / 4][t][i % 4] = NAN;
    }
};

/* ---- the product ---- */

/* d += a b, from 0 on where it is the first. */
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1, bool first, __nv_bfloat16)
{
    const float c[4] = { first ? 0 : d[0], first ? 0 : d[1], first ? 0 : d[2], first ? 0 : d[3] };
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]),
                   "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1, bool first, __half)
{
    const float c[4] = { first ? 0 : d[0], first ? 0 : d[1], first ? 0 : d[2], first ? 0 : d[3] };
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]),
                   "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

extern __shared__ uint4 memory[];

/* Columns of inputs, [part][n][UNITS], in a block's memory from its first byte on. Those of a lane,
 * in bytes: units of even pairs of steps, and of odd ones. Lanes that have no column take the
 * first: what they make of it is not stored. */
struct columns {
    int even, odd, part; /* from a part to the next */

    __device__ __forceinline__ explicit columns(int n) : part(n * UNITS * (int)sizeof(uint4))
    {
        const int lane = threadIdx.x % 32, c = lane / 4 < n ? lane / 4 : 0;
        even = (c * UNITS + place_of(lane % 4, c)) * (int)sizeof(uint4);
        odd = (c * UNITS + place_of(lane % 4 + 4, c) - 4) * (int)sizeof(uint4);
        asm("" : "+r"(even), "+r"(odd)); /* else they are made anew for every group */
    }
    /* Unit 4 pair + lane % 4, of another group and of the t-th eight of columns. */
    __device__ __forceinline__ uint4 load(int group, int n, int t, int pair) const
    {
        const char *at = (const char *)memory + group + (pair % 2 ? odd : even) + n * part;
        return ((const uint4 *)(const void *)at)[t * 8 * UNITS + pair * 4];
    }
};

/* Steps 2 PAIR and the next, of both halves of the outputs and all columns. */
template <class E, int P, int TILES, int PAIR>
__device__ __forceinline__ void add_steps(const columns &c, int group, const piece &x,
                                          float (&sum)[2][TILES][4])
{
    unsigned a[2][2][4];
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const unsigned word = PAIR < 2 ? x.code[k].x : x.code[k].y;
            a[i / 2][k / 2][i % 2 * 2 + k % 2] = weights_of(word, PAIR % 2 * 4 + i);
        }
#pragma unroll
    for (int n = 0; n < P; n++)
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            const uint4 b = c.load(group, n, t, PAIR);
#pragma unroll
            for (int half = 0; half < 2; half++)
                multiply(sum[half][t], a[0][half], b.x, b.y, PAIR == 0 && n == 0, E());
#pragma unroll
            for (int half = 0; half < 2; half++)
                multiply(sum[half][t], a[1][half], b.z, b.w, false, E());
        }
}

/* Adds a group, whose inputs are so many bytes from the first, to sums y: [half of the outputs]
 * [tile][output 0 or 1 of the half, column 0 or 1]. */
template <class E, int P, int TILES>
__device__ __forceinline__ void add_group(const columns &c, int group, const piece &x,
                                          float (&y)[2][TILES][4])
{
    float sum[2][TILES][4];
    add_steps<E, P, TILES, 0>(c, group, x, sum);
    add_steps<E, P, TILES, 1>(c, group, x, sum);
    add_steps<E, P, TILES, 2>(c, group, x, sum);
    add_steps<E, P, TILES, 3>(c, group, x, sum);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float s = __half2float(__ushort_as_half(x.scale[k]));
#pragma unroll
        for (int t = 0; t < TILES; t++)
#pragma unroll
            for (int i = k % 2 * 2; i < k % 2 * 2 + 2; i++)
                y[k / 2][t][i] = fmaf(s, sum[k / 2][t][i], y[k / 2][t][i]);
    }
}

} // namespace

#endif
