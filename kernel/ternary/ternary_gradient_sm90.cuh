/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_gradient_sm90.cuh - gradients of 16-bit activations by wgmma.
 *
 * Both are matmuls in tiles of 128 x 128, the columns being a group of inputs; 64 terms at a time
 * go through shared memory. Sums of 128 terms, which the instructions round down, are added to the
 * earlier ones in float. One warpgroup loads the factors, two multiply. If dx has few tiles, blocks
 * divide the terms of a tile into parts, and add_parts adds their sums in order.
 *
 * dx: terms are outputs. dy is the left factor, read in place; the warpgroup that loads it decodes
 * the right factor. An f16 represents a weight exactly. A bf16 does not, but the sum of two does:
 * the rounded weight and its error. A dy that is not finite is left out of the second, where it
 * would be multiplied by 0 or by a sign that the weight does not have.
 *
 * dw: terms are rows, both factors are read in place. */
#ifndef TS_TERNARY_GRADIENT_SM90_CUH
#define TS_TERNARY_GRADIENT_SM90_CUH

#include "sm90.cuh"
#include "ternary_sm90.cuh"

namespace
{

enum {
    TILE = GROUP, /* sums down and across, of a block */
    DEEP = 64,    /* terms of a stage */
    SUMS = TILE / 2,
    SLAB = DEEP * SLAB_BYTES, /* DEEP terms of 64 sums */
    MOST_STAGES = 6,
    MOST_BYTES = 227 * 1024,
};

struct gradient_params {
    CUtensorMap     left, right; /* right: of dw */
    const uint8_t  *code;        /* of dx */
    const uint16_t *scale;
    void           *out; /* [n_down][n_in] */
    int64_t         n_down, n_in, n_terms;
    int             n_groups, n_tiles; /* tiles down */
    float          *parts;             /* [part][n_down][n_in], where there are several */
    int             n_parts;
    int64_t         part; /* terms, a multiple of 128 */
};

/* What a thread of the bringing warpgroup has of a stage of codes: half a group of an output, and
 * the scale. Past the last output it comes once more: dy is 0 there. */
struct half_group {
    uint4    code;
    uint16_t scale;

    __device__ __forceinline__ void load(const gradient_params &p, int g, int64_t term)
    {
        const int64_t o = min(term + threadIdx.x % DEEP, p.n_terms - 1), at = o * p.n_groups + g;
        code = __ldg((const uint4 *)(const void *)(p.code + at * GROUP_BYTES) + threadIdx.x / DEEP);
        scale = __ldg(p.scale + at);
    }
};

/* s in as many elements as it takes, each twice in a word. */
__device__ __forceinline__ void split_scale(uint16_t s, unsigned (&part)[1], __half)
{
    part[0] = s * 0x10001u;
}

__device__ __forceinline__ void split_scale(uint16_t s, unsigned (&part)[2], __nv_bfloat16)
{
    const float f = __half2float(__ushort_as_half(s));
    part[0] = narrow(f, f, __nv_bfloat16());
    const float rest = f - widen(part[0], __nv_bfloat16()).x;
    part[1] = narrow(rest, rest, __nv_bfloat16());
}

/* Codes h and h + 8 of a word times s: a sign where the upper bit is 0, nothing where the lower is
 * 1, unless s is NaN. */
__device__ __forceinline__ unsigned two_weights(unsigned word, int h, unsigned s, unsigned keep)
{
    const unsigned none = (word >> 2 * h & 0x00010001u) * 0xffffu;
    return (s & (~none | keep)) ^ (~(word << (14 - 2 * h)) & 0x80008000u);
}

/* The weights of a stage, [part][slab of 64 inputs][output]. Of 16 inputs the first piece has codes
 * 0, 8, 2, 10 .., the second 1, 9, 3, 11 ..: then a lane's sums lie side by side. */
template <class T, int P>
__device__ __forceinline__ void put_weights(const half_group &x, unsigned to)
{
    const int      row = threadIdx.x % DEEP;
    const unsigned slab = to + threadIdx.x / DEEP * SLAB;
    const unsigned word[4] = { x.code.x, x.code.y, x.code.z, x.code.w };
    const unsigned keep = (x.scale & 0x7fff) > 0x7c00 ? ~0u : 0;
    unsigned       s[P];
    split_scale(x.scale, s, T());
#pragma unroll
    for (int n = 0; n < P; n++)
#pragma unroll
        for (int i = 0; i < 8; i++) {
            uint4 v;
            v.x = two_weights(word[i / 2], i % 2, s[n], keep);
            v.y = two_weights(word[i / 2], i % 2 + 2, s[n], keep);
            v.z = two_weights(word[i / 2], i % 2 + 4, s[n], keep);
            v.w = two_weights(word[i / 2], i % 2 + 6, s[n], keep);
            store_piece(slab_piece(slab + n * 2 * SLAB, row, i), v);
        }
}

/* dy where it is finite; else 0. */
__device__ __forceinline__ unsigned finite_of(unsigned w)
{
    const unsigned odd = ((w & 0x7f807f80u) + 0x00800080u & 0x80008000u) >> 15;
    return w & ~(odd * 0xffffu);
}

template <class T_> struct dx_of {
    using T = T_;
    using result = T_;
    static constexpr int P = std::is_same<T, __half>::value ? 1 : 2;
    static constexpr int LEFT = TILE * SLAB_BYTES, STAGE = LEFT + P * 2 * SLAB;
    static constexpr int ARRIVALS = 1 + WARPGROUP / 32;
    half_group           next;

    __device__ __forceinline__ void begin(const gradient_params &p, int g, int64_t term)
    {
        next.load(p, g, term);
    }
    __device__ __forceinline__ void bring(const gradient_params &p, unsigned to, unsigned full,
                                          int64_t down, int g, int64_t term)
    {
        const half_group now = next;
        if (threadIdx.x == 0) {
            barrier_expect(full, LEFT);
            load_box(to, &p.left, full, (int)term, (int)down, 0, 0, keep_in_l2());
        }
        if (term + DEEP < p.n_terms) next.load(p, g, term + DEEP);
        put_weights<T, P>(now, to + LEFT);
        publish_to_engines();
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(full);
    }
    /* A warpgroup's half of the rows; the left factor in registers, as both parts meet it. */
    static __device__ __forceinline__ void multiply(unsigned at, int half, float (&sum)[SUMS],
                                                    bool first)
    {
        const int             lane = threadIdx.x % 32;
        const int             row = half * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        const down_rows<DEEP> right(at + LEFT), rest(at + LEFT + (P - 1) * 2 * SLAB);
        unsigned              a[16], b[16], odd = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            a[i] = load_word(slab_piece(at, row + i % 2 * 8, i / 2) + lane % 4 * 4);
            if (P == 2) odd |= (a[i] & 0x7f807f80u) + 0x00800080u;
        }
        if (P == 2) {
            const bool any = __any_sync(ALL, odd & 0x80008000u);
#pragma unroll
            for (int i = 0; i < 16; i++) b[i] = any ? finite_of(a[i]) : a[i];
            pin(b);
        }
        pin(a), pin(sum);
        products_begin();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            product<T, 1>(sum, a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3], right.step(i),
                          i > 0 || !first);
            if (P == 2)
                product<T, 1>(sum, b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3], rest.step(i),
                              1);
        }
        products_end();
        products_wait<0>();
        pin(a), pin(sum);
        if (P == 2) pin(b);
    }
    /* Sums of columns 8 i + 2 (lane % 4) and the next, of row lane / 4 or that + 8. */
    static __device__ __forceinline__ float2 pair(const float (&y)[SUMS], int i, int low)
    {
        const int at = i / 2 * 8 + low * 2 + i % 2;
        return make_float2(y[at], y[at + 4]);
    }
};

template <class T_> struct dw_of {
    using T = T_;
    using result = float;
    static constexpr int LEFT = 2 * SLAB, STAGE = 2 * LEFT, ARRIVALS = 1;

    __device__ __forceinline__ void begin(const gradient_params &, int, int64_t)
    {
    }
    __device__ __forceinline__ void bring(const gradient_params &p, unsigned to, unsigned full,
                                          int64_t down, int g, int64_t term)
    {
        barrier_expect(full, STAGE);
        for (int i = 0; i < 2; i++) {
            load_box(to + i * SLAB, &p.left, full, (int)down + i * SLAB_COLUMNS, (int)term, 0, 0,
                     keep_in_l2());
            load_box(to + LEFT + i * SLAB, &p.right, full, g * GROUP + i * SLAB_COLUMNS, (int)term,
                     0, 0, keep_in_l2());
        }
    }
    static __device__ __forceinline__ void multiply(unsigned at, int half, float (&sum)[SUMS],
                                                    bool first)
    {
        const down_rows<DEEP> left(at + half * SLAB), right(at + LEFT);
        pin(sum);
        products_begin();
#pragma unroll
        for (int i = 0; i < 4; i++)
            product<T, 1, 1>(sum, left.step(i), right.step(i), i > 0 || !first);
        products_end();
        products_wait<0>();
        pin(sum);
    }
    static __device__ __forceinline__ float2 pair(const float (&y)[SUMS], int i, int low)
    {
        return make_float2(y[i * 4 + low * 2], y[i * 4 + low * 2 + 1]);
    }
};

template <class F> constexpr int FITTING = (MOST_BYTES - 1024 - 16 * MOST_STAGES) / F::STAGE;
template <class F>
constexpr int N_STAGES = FITTING<F> < MOST_STAGES ? FITTING<F> : (int)MOST_STAGES;
template <class F> constexpr size_t N_BYTES = 1024 + (size_t)N_STAGES<F> *(F::STAGE + 16);

/* Where things lie in a block's memory. */
template <class F> struct gradient_places {
    unsigned stages, full, empty;

    __device__ __forceinline__ gradient_places(unsigned memory)
        : stages((memory + 1023) / 1024 * 1024), full(stages + N_STAGES<F> * F::STAGE),
          empty(full + N_STAGES<F> * 8)
    {
    }
};

/* A part of a tile: its first sum down, group, and terms. */
struct share {
    int64_t down;
    int     g, part;
    int64_t begin, end;
};

/* A block's shares one after another. */
template <class G> __device__ __forceinline__ void for_shares(const gradient_params &p, G f)
{
    const int n = p.n_tiles * p.n_groups;
    for (int i = (int)blockIdx.x; i < n * p.n_parts; i += (int)gridDim.x) {
        share s = { (int64_t)(i % p.n_tiles) * TILE, i % n / p.n_tiles, i / n, 0, 0 };
        s.begin = s.part * p.part, s.end = min(s.begin + p.part, p.n_terms);
        f(s);
    }
}

template <class F, class R>
__device__ __forceinline__ void store_sums(const gradient_params &p, R *out, const float (&y)[SUMS],
                                           const share &s)
{
    const int     lane = threadIdx.x % 32;
    const int64_t row = s.down + (threadIdx.x / 32 - WARPGROUP / 32) * 16 + lane / 4;
    const bool    both = p.n_in % 2 == 0 && (uintptr_t)out % (2 * sizeof(R)) == 0;
#pragma unroll
    for (int low = 0; low < 2; low++) {
        if (row + low * 8 >= p.n_down) continue;
        R *const to = out + (row + low * 8) * p.n_in;
#pragma unroll
        for (int i = 0; i < TILE / 8; i++) {
            const int64_t j = (int64_t)s.g * GROUP + i * 8 + lane % 4 * 2;
            const float2  v = F::pair(y, i, low);
            if (both && j < p.n_in) {
                if constexpr (sizeof(R) == 4) *(float2 *)(void *)(to + j) = v;
                else *(unsigned *)(void *)(to + j) = narrow(v.x, v.y, R());
            } else {
                if (j < p.n_in) from_float(to + j, v.x);
                if (j + 1 < p.n_in) from_float(to + j + 1, v.y);
            }
        }
    }
}

/* out of the sums of all parts. */
template <class R> __global__ void __launch_bounds__(THREADS) add_parts(gradient_params p)
{
    const int64_t n = p.n_down * p.n_in, step = (int64_t)gridDim.x * THREADS;
    start_after_others();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n; i += step) {
        float sum = p.parts[i];
        for (int k = 1; k < p.n_parts; k++) sum += p.parts[k * n + i];
        from_float((R *)p.out + i, sum);
    }
}

extern __shared__ uint4 memory[];

template <class F>
__global__ void __launch_bounds__(3 * WARPGROUP, 1)
    gradient_kernel(const __grid_constant__ gradient_params p)
{
    if constexpr (HAS_WGMMA) {
        constexpr int            N = N_STAGES<F>;
        const gradient_places<F> m(shared_address(memory));
        ring_place<N>            at;
        if (threadIdx.x == 0) {
            for (int i = 0; i < N; i++) {
                barrier_init(m.full + i * 8, F::ARRIVALS);
                barrier_init(m.empty + i * 8, 2 * WARPGROUP / 32);
            }
            barrier_init_end();
        }
        __syncthreads();
        start_after_others();
        if (threadIdx.x < WARPGROUP) {
            give_registers<104>();
            F factors;
            /* A thread that never arrives must not wait: nothing would keep it in step. */
            if (F::ARRIVALS > 1 || threadIdx.x == 0)
                for_shares(p, [&](const share &s) {
                    factors.begin(p, s.g, s.begin);
                    for (int64_t term = s.begin; term < s.end; term += DEEP, at.advance()) {
                        barrier_wait(m.empty + at.stage * 8, at.parity ^ 1);
                        factors.bring(p, m.stages + at.stage * F::STAGE, m.full + at.stage * 8,
                                      s.down, s.g, term);
                    }
                });
        } else {
            take_registers<200>();
            for_shares(p, [&](const share &s) {
                float sum[SUMS], y[SUMS] = {};
                bool  first = true; /* of the stages whose terms are summed together */
                for (int64_t term = s.begin; term < s.end; term += DEEP, at.advance()) {
                    barrier_wait(m.full + at.stage * 8, at.parity);
                    F::multiply(m.stages + at.stage * F::STAGE, threadIdx.x / WARPGROUP - 1, sum,
                                first);
                    if (threadIdx.x % 32 == 0) barrier_arrive(m.empty + at.stage * 8);
                    first = !first;
                    if (!first && term + DEEP < s.end) continue;
#pragma unroll
                    for (int i = 0; i < SUMS; i++) y[i] += sum[i];
                    first = true;
                }
                if (p.n_parts == 1) store_sums<F>(p, (typename F::result *)p.out, y, s);
                else store_sums<F>(p, p.parts + s.part * p.n_down * p.n_in, y, s);
            });
        }
    }
}

} // namespace

#endif
