/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_wide_sm90.cuh - the forward matmul of 16-bit inputs by wgmma: the same sums in the same
 * order as the warp-level kernel, and so bitwise identical.
 *
 * The matmul is transposed: outputs are m, rows are n. A block has 128 outputs and C rows: two
 * warpgroups multiply, 64 outputs each. Codes become the left factor in registers. Warps of a third
 * warpgroup load inputs, a group per stage, in the layout of arrange_kernel, and codes, a segment
 * per stage. The warpgroups alternate: one decodes while the matmuls of the other run.
 *
 * If there are few tiles, the stripes of a sum are divided: both warpgroups have the same 64
 * outputs and half of the segments each, or the four blocks of a cluster have a stripe each and add
 * them through distributed shared memory. Two blocks that have the same rows may form a cluster:
 * each then copies half of the inputs to both. */
#ifndef TS_TERNARY_WIDE_SM90_CUH
#define TS_TERNARY_WIDE_SM90_CUH

#include "sm90.cuh"
#include "ternary_arrange_sm90.cuh"

namespace
{

enum {
    WIDE_OUT = 128, /* outputs of a block */
    WIDE_THREADS = 3 * WARPGROUP,
    CODE_THREADS = 64, /* the second half of the first warpgroup */
    WIDE_TILE = 16, /* rows that are laid out together: a slab of 2 KB for each half of a group */
    SEGMENT_BYTES = SEGMENT * GROUP_BYTES,                 /* of an output */
    CODE_STAGE = WIDE_OUT * (SEGMENT_BYTES + SEGMENT * 2), /* codes, then scales */
    WIDE_WARPS = 2 * WARPGROUP / 32,                       /* that multiply */
    WIDE_SLAB = WIDE_TILE * SLAB_BYTES,
};

struct wide_params {
    const char     *units; /* [tile of rows][group][half][row], and then as wide_layout says */
    const float    *lift;  /* [row] */
    const uint8_t  *code;
    const uint16_t *scale;
    void           *y;
    int64_t         n_out, n_rows;
    int             n_groups, n_segments;
    int             n_tiles, n_row_tiles;
    int             n_shares;    /* that share the stripes of a tile: 1; 2: warpgroups; 4: blocks */
    int             n_peers;     /* blocks that share their inputs: 1 or 2 */
    int             whole_codes; /* can they be copied 16 bytes at a time? */
    int             scale_unit;  /* scales: so many bytes at a time, 8, 4 or 2 */
};

/* Of a tile: the columns of a half are in the order of the steps and, in a step, of those that
 * lanes have. */
struct wide_layout {
    static constexpr int ROWS = WIDE_TILE;

    static __device__ __forceinline__ void put(uint4 *tile, int row, int i, const uint4 (&part)[1])
    {
        const int      pair = i % UNITS / 4, t = i % 4;
        const unsigned w[4] = { part[0].x, part[0].y, part[0].z, part[0].w };
        char          *to = (char *)tile + (int64_t)(i / UNITS * 2 + pair / 2) * WIDE_SLAB +
                   row * SLAB_BYTES + t * 4;
#pragma unroll
        for (int k = 0; k < 4; k++)
            *(unsigned *)(void *)(to + ((pair % 2 * 4 + k) ^ row % 8) * 16) = w[k];
    }
};

/* Blocks of C rows. */
template <int C> struct wide {
    static constexpr int STAGE = C * GROUP * 2; /* a group of inputs */
    /* An even number where halves have one half of them each. */
    static constexpr int STAGES = C > 96 ? 3 : C > 64 ? 4 : C > 32 ? 6 : C > 16 ? 12 : 16;
    static constexpr int CODES = C > 64 ? 3 : C > 32 ? 5 : 6;
    static constexpr int SUMS = C / 2; /* of a thread: two outputs */
    static constexpr int TOTAL = WIDE_OUT * C * 4;
    static constexpr int BYTES =
        1024 + STAGES * STAGE + CODES * CODE_STAGE + TOTAL + 2 * (STAGES + CODES) * 8;
};

/* Where things are in a block's memory. */
template <int C> struct wide_places {
    unsigned stages, codes, totals, full, empty, code_full, code_empty;

    __device__ __forceinline__ wide_places(void)
        : stages((shared_address(memory) + 1023) / 1024 * 1024),
          codes(stages + wide<C>::STAGES * wide<C>::STAGE),
          totals(codes + wide<C>::CODES * CODE_STAGE), full(totals + wide<C>::TOTAL),
          empty(full + wide<C>::STAGES * 8), code_full(empty + wide<C>::STAGES * 8),
          code_empty(code_full + wide<C>::CODES * 8)
    {
    }
};

/* ---- what a block has to do ---- */

/* A tile of outputs and rows, and after it the next. In halves, n_shares = 2, a tile has 64 outputs
 * and both warpgroups have the same: the first has the first half of the segments. */
struct wide_walk {
    int item, step, n_items;
    int rank, peer; /* in the cluster; among the blocks that share inputs */
    int begin, end; /* segments; of the second half in halves, where the first may have one less */
    int skip;       /* from a segment of the second half to that of the first, or 0 */

    __device__ __forceinline__ explicit wide_walk(const wide_params &a)
    {
        const int size = (a.n_shares == 4 ? 4 : 1) * a.n_peers;
        rank = (int)blockIdx.x % size, peer = rank % a.n_peers;
        item = (int)blockIdx.x / size, step = (int)gridDim.x / size;
        n_items = (a.n_tiles + a.n_peers - 1) / a.n_peers * a.n_row_tiles;
        begin = a.n_shares == 4   ? stripe_begin(a.n_segments, rank)
                : a.n_shares == 2 ? stripe_begin(a.n_segments, 2)
                                  : 0;
        end = a.n_shares == 4 ? stripe_begin(a.n_segments, rank + 1) : a.n_segments;
        skip = a.n_shares == 2 ? begin : 0;
    }
    __device__ __forceinline__ bool more(void) const
    {
        return item < n_items;
    }
    __device__ __forceinline__ int64_t row(const wide_params &a, int rows) const
    {
        return (int64_t)(item % a.n_row_tiles) * rows;
    }
    __device__ __forceinline__ int64_t output(const wide_params &a) const
    {
        return (int64_t)(item / a.n_row_tiles * a.n_peers + peer) *
               (a.n_shares == 2 ? WIDE_OUT / 2 : WIDE_OUT);
    }
    /* The segment that the first warpgroup has with s; past the last one: none. */
    __device__ __forceinline__ int first_half(const wide_params &a, int s) const
    {
        return s - skip < skip ? s - skip : a.n_segments;
    }
};

/* A place in the ring of inputs; of halves, 0 or 1, each has its own part of it. */
struct wide_ring {
    int      stage, first, end;
    unsigned parity = 0;

    __device__ __forceinline__ wide_ring(const wide_params &a, int n_stages, int half)
        : first(a.n_shares == 2 ? half * n_stages / 2 : 0),
          end(a.n_shares == 2 ? (half + 1) * n_stages / 2 : n_stages)
    {
        stage = first;
    }
    __device__ __forceinline__ void advance(void)
    {
        if (++stage == end) stage = first, parity ^= 1;
    }
};

/* ---- the warps that send ---- */

/* load_bytes for blocks 0 and 1 of the cluster: to the same addresses. */
__device__ __forceinline__ void load_bytes_to_both(unsigned to, const void *from, unsigned n_bytes,
                                                   unsigned bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "r"(n_bytes), "r"(bar), "h"((uint16_t)3)
                 : "memory");
}

/* Groups that are there only. */
template <int C>
__device__ __forceinline__ void send_inputs(const wide_params &a, const wide_places<C> &m)
{
    constexpr int STAGE = wide<C>::STAGE, SLAB = C * SLAB_BYTES;
    wide_ring     ring[2] = { wide_ring(a, wide<C>::STAGES, 0), wide_ring(a, wide<C>::STAGES, 1) };
    for (wide_walk w(a); w.more(); w.item += w.step) {
        const int64_t tile = w.row(a, C) / WIDE_TILE;
        auto          send = [&](wide_ring &at, int g) {
            if (g >= a.n_groups) return;
            const unsigned full = m.full + at.stage * 8, to = m.stages + at.stage * STAGE;
            barrier_wait(m.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(full, STAGE);
            for (int i = 0; i < C / WIDE_TILE; i++) {
                const char *from = a.units + ((tile + i) * a.n_groups + g) * (2 * WIDE_SLAB);
                if (a.n_peers == 2)
                    load_bytes_to_both(to + w.peer * SLAB + i * WIDE_SLAB,
                                                from + w.peer * WIDE_SLAB, WIDE_SLAB, full);
                else
                    for (int half = 0; half < 2; half++)
                        load_bytes(to + half * SLAB + i * WIDE_SLAB, from + half * WIDE_SLAB,
                                            WIDE_SLAB, full);
            }
            at.advance();
        };
        for (int g = w.begin * SEGMENT; g < w.end * SEGMENT; g++) {
            if (a.n_shares == 2)
                send(ring[0], w.first_half(a, g / SEGMENT) * SEGMENT + g % SEGMENT);
            send(ring[1], g); /* not of halves: both are the same */
        }
    }
}

/* An arrival at `bar` once all that this thread has sent for is there. */
__device__ __forceinline__ void arrive_after_copies(unsigned bar)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

/* Chunk `chunk` of 16 bytes, of the codes of an output. The permutation keeps what half a warp
 * reads at a time, two chunks of every other output, in different banks. */
__device__ __forceinline__ unsigned code_place(unsigned stage, int output, int chunk)
{
    return stage + (unsigned)(output * SEGMENT_BYTES + (chunk ^ (output & 6)) * 16);
}

/* N bytes, of which n are there; the others are 0. */
template <int N>
__device__ __forceinline__ void copy_some(unsigned to, const void *from, unsigned n)
{
    if constexpr (N == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(N),
                     "r"(n)
                     : "memory");
}

/* The scales of an output, of segment s; 0 past the last group. */
__device__ __forceinline__ void send_scales(const wide_params &a, unsigned to, const uint16_t *from,
                                            int n)
{
    if (a.scale_unit == 8) copy_some<8>(to, from, n > 0 ? 8 : 0);
    else if (a.scale_unit == 4) {
        copy_some<4>(to, from, n > 0 ? 4 : 0);
        copy_some<4>(to + 4, n > 2 ? from + 2 : from, n > 2 ? 4 : 0);
    } else {
        unsigned v[SEGMENT];
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) v[i] = i < n ? from[i] : 0u;
        store_word(to, v[0] | v[1] << 16), store_word(to + 4, v[2] | v[3] << 16);
    }
}

/* Rows of a stage: WIDE_OUT outputs, or 64 of the one half and 64 of the other. Past the last
 * output it is sent for once more. Past the last group codes and scales are 0, as the inputs are. A
 * thread arrives twice: when its copies are complete, and for its own stores. */
template <int C>
__device__ __forceinline__ void send_codes(const wide_params &a, const wide_places<C> &m, int own)
{
    const unsigned             last = (unsigned)a.n_out - 1;
    const int                  chunk = own % 8, mask = a.n_shares == 2 ? 63 : 127;
    ring_place<wide<C>::CODES> at;
    for (wide_walk w(a); w.more(); w.item += w.step) {
        const unsigned first = (unsigned)w.output(a);
        for (int s = w.begin; s < w.end; s++, at.advance()) {
            const unsigned stage = m.codes + at.stage * CODE_STAGE;
            const int      early = a.n_shares == 2 ? w.first_half(a, s) : s;
            /* where the codes of a row begin, in groups; how many groups there are */
            auto group = [&](int o) {
                return min(first + (unsigned)(o & mask), last) * (unsigned)a.n_groups;
            };
            auto left = [&](int o) { return a.n_groups - (o < 64 ? early : s) * SEGMENT; };
            auto begin = [&](int o) {
                return left(o) > 0 ? group(o) + (unsigned)((o < 64 ? early : s) * SEGMENT) : 0;
            };
            barrier_wait(m.code_empty + at.stage * 8, at.parity ^ 1);
            if (a.whole_codes) {
#pragma unroll 2
                for (int o = own / 8; o < WIDE_OUT; o += CODE_THREADS / 8) {
                    const bool there = chunk / 2 < left(o);
                    copy_some<16>(code_place(stage, o, chunk),
                                  a.code + (uint64_t)begin(o) * GROUP_BYTES +
                                      (there ? chunk * 16 : 0),
                                  there ? 16 : 0);
                }
            } else {
#pragma unroll 1
                for (int i = own; i < WIDE_OUT * SEGMENT_BYTES / 4; i += CODE_THREADS) {
                    const int      o = i / 32, word = i % 32;
                    const uint8_t *from = a.code + (uint64_t)begin(o) * GROUP_BYTES + word * 4;
                    store_word(code_place(stage, o, word / 4) + word % 4 * 4,
                               word / 8 < left(o) ? four_bytes(from) : 0);
                }
            }
#pragma unroll 1
            for (int o = own; o < WIDE_OUT; o += CODE_THREADS)
                send_scales(a, stage + (unsigned)(WIDE_OUT * SEGMENT_BYTES + o * SEGMENT * 2),
                            a.scale + begin(o), left(o));
            arrive_after_copies(m.code_full + at.stage * 8);
            barrier_arrive(m.code_full + at.stage * 8);
        }
    }
}

/* ---- the warpgroups that multiply ---- */

/* What a lane has of a group of an output: its words 2t and 2t + 1. */
__device__ __forceinline__ uint2 load_codes(unsigned stage, int output, int group)
{
    const int t = (int)threadIdx.x % 4;
    uint2     c;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(c.x), "=r"(c.y)
                 : "r"(code_place(stage, output, group * 2 + t / 2) + (unsigned)(t % 2 * 8))
                 : "memory");
    return c;
}

/* The left factor of the eight steps of a group: [step][0 or 1: output, + 2: columns 8 ..]. */
__device__ __forceinline__ void decode(const uint2 (&c)[2], unsigned (&a)[32])
{
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
        for (int k = 0; k < 2; k++) a[i * 2 + k] = weights_of(i < 8 ? c[k].x : c[k].y, i % 8);
}

/* Scale i of a segment, of output k of two. */
__device__ __forceinline__ float scale_of(const uint4 &s, int k, int i)
{
    const unsigned w = k ? (i < 2 ? s.z : s.w) : (i < 2 ? s.x : s.y);
    return __half2float(__ushort_as_half((unsigned short)(w >> i % 2 * 16)));
}

/* A thread's sums, four together: [i / 4][thread], of a thread `own`. */
__device__ __forceinline__ unsigned total_place(unsigned totals, int own, int j)
{
    return totals + (unsigned)(j * 2 * WARPGROUP + own) * 16;
}

__device__ __forceinline__ float4 load_from_rank(unsigned at, unsigned rank)
{
    float4   v;
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(there)
                 : "memory");
    return v;
}

/* ---- results ---- */

/* Four sums of a thread: outputs out and out + 1 of rows first + 8 j + 2 t and the next, in the
 * order of wgmma's registers. */
template <class T>
__device__ __forceinline__ void store_sums(const wide_params &a, int64_t first, int64_t out, int j,
                                           float4 y)
{
    const int64_t row = first + j * 8 + threadIdx.x % 4 * 2;
    const float   v[2][2] = { { y.x, y.z }, { y.y, y.w } };
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (row + i >= a.n_rows || out >= a.n_out) continue;
        const float lift = a.lift[row + i];
        T          *to = (T *)a.y + (row + i) * a.n_out + out;
        if (a.n_out % 2 == 0 && (uintptr_t)a.y % 4 == 0)
            *(unsigned *)(void *)to = narrow(v[i][0] * lift, v[i][1] * lift, T());
        else {
            from_float(to, v[i][0] * lift);
            if (out + 1 < a.n_out) from_float(to + 1, v[i][1] * lift);
        }
    }
}

/* Sums so far, in shared memory, to the sums of this stripe. */
template <int N> __device__ __forceinline__ void add_total(unsigned totals, int own, float (&y)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 t = load_floats(total_place(totals, own, i / 4));
        y[i] = t.x + y[i], y[i + 1] = t.y + y[i + 1];
        y[i + 2] = t.z + y[i + 2], y[i + 3] = t.w + y[i + 3];
    }
}

template <int N>
__device__ __forceinline__ void put_total(unsigned totals, int own, const float (&y)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 4)
        store_floats(total_place(totals, own, i / 4),
                     make_float4(y[i], y[i + 1], y[i + 2], y[i + 3]));
}

/* The four blocks of a cluster have a stripe each: a block adds and stores every fourth part of the
 * sums. */
template <class T, int C>
__device__ __forceinline__ void store_shared(const wide_params &a, const wide_places<C> &m,
                                             const wide_walk &w, int own)
{
    const int64_t first = w.row(a, C), out = w.output(a) + own / 32 * 16 + own % 32 / 4 * 2;
#pragma unroll
    for (int i = 0; i < C / 8; i += STRIPES) {
        const int j = i + w.rank;
        float4    part[STRIPES];
        if (j >= C / 8) continue;
#pragma unroll
        for (unsigned r = 0; r < STRIPES; r++)
            part[r] = load_from_rank(total_place(m.totals, own, j), r);
#pragma unroll
        for (int r = 1; r < STRIPES; r++) {
            part[0].x += part[r].x, part[0].y += part[r].y;
            part[0].z += part[r].z, part[0].w += part[r].w;
        }
        store_sums<T>(a, first, out, j, part[0]);
    }
}

__device__ __forceinline__ void named_arrive(int id, int n)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory");
}

enum { MEET = 1, TURN = 2 }; /* named barriers; TURN + 1 is the second warpgroup's */

template <class T, int C>
__device__ __forceinline__ void multiply_inputs(const wide_params &a, const wide_places<C> &m)
{
    constexpr int              SUMS = wide<C>::SUMS, STAGE = wide<C>::STAGE;
    const int                  own = (int)threadIdx.x - WARPGROUP, lane = own % 32;
    const int                  output = own / 32 * 16 + lane / 4 * 2; /* of the stage */
    const int                  group = own / WARPGROUP;               /* of the two */
    const bool                 halves = C <= 64 && a.n_shares == 2, early = group == 0;
    wide_ring                  at(a, wide<C>::STAGES, group);
    ring_place<wide<C>::CODES> code_at;
    wide_walk                  w(a);
    float                      sum[SUMS], y[SUMS];
    /* Groups of all tiles: so many turns are left, if both take turns. */
    int turns = w.more() && !halves ? ((w.n_items - w.item - 1) / w.step + 1) *
                                          (min(a.n_groups, w.end * SEGMENT) - w.begin * SEGMENT)
                                    : 0;
    if (turns && !early) named_arrive(TURN, 2 * WARPGROUP);
    for (; w.more(); w.item += w.step) {
        bool     some = false; /* is there a total? */
        unsigned three[2] = { 0, 0 };
#pragma unroll
        for (int i = 0; i < SUMS; i++) y[i] = 0;
        for (int segment = w.begin; segment < w.end; segment++) {
            const int      mine = halves && early ? w.first_half(a, segment) : segment;
            const int      n = a.n_groups - mine * SEGMENT;
            const unsigned stage = m.codes + code_at.stage * CODE_STAGE;
            barrier_wait(m.code_full + code_at.stage * 8, code_at.parity);
            const uint4 scales =
                load_piece(stage + WIDE_OUT * SEGMENT_BYTES + (unsigned)output * (SEGMENT * 2));
#pragma unroll
            for (int i = 0; i < SEGMENT; i++) {
                if (i >= n) break;
                const uint2 c[2] = { load_codes(stage, output, i),
                                     load_codes(stage, output + 1, i) };
                const float s[2] = { scale_of(scales, 0, i), scale_of(scales, 1, i) };
                unsigned    left[32];
                decode(c, left);
#pragma unroll
                for (int k = 0; k < 2; k++)
                    three[k] |= (c[k].x & c[k].x << 1) | (c[k].y & c[k].y << 1);
                const along_rows<C> right(m.stages + at.stage * STAGE);
                pin(left);
                if (!halves) named_wait(TURN + group, 2 * WARPGROUP);
                barrier_wait(m.full + at.stage * 8, at.parity);
                pin(left), pin(sum);
                products_begin();
#pragma unroll
                for (int k = 0; k < 8; k++)
                    product<T, 0>(sum, left[4 * k], left[4 * k + 1], left[4 * k + 2],
                                  left[4 * k + 3], right.step(k), k > 0);
                products_end();
                products_wait<0>();
                pin(left), pin(sum);
                if (!halves && (--turns || early)) named_arrive(TURN + 1 - group, 2 * WARPGROUP);
                if (a.n_peers == 1) {
                    if (lane == 0) barrier_arrive(m.empty + at.stage * 8);
                } else if (lane < 2) barrier_arrive_at(m.empty + at.stage * 8, (unsigned)lane);
                at.advance();
#pragma unroll
                for (int k = 0; k < SUMS; k++) y[k] = fmaf(s[k % 4 / 2], sum[k], y[k]);
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(m.code_empty + code_at.stage * 8);
            code_at.advance();
            if (a.n_shares == 4 || mine + 1 >= a.n_segments || !ends_stripe(a.n_segments, mine))
                continue;
            if (some) add_total(m.totals, own, y);
            put_total(m.totals, own, y), some = true;
#pragma unroll
            for (int k = 0; k < SUMS; k++) y[k] = 0;
        }
        /* Of an output with code point 3 all becomes NaN, for all lanes that share it. */
#pragma unroll
        for (int k = 0; k < 2; k++) {
            unsigned any = three[k] & 0xaaaaaaaau;
            any |= __shfl_xor_sync(ALL, any, 1);
            any |= __shfl_xor_sync(ALL, any, 2);
            if (!any) continue;
#pragma unroll
            for (int i = 0; i < SUMS; i++)
                if (i % 4 / 2 == k) y[i] = NAN;
        }
        if (a.n_shares == 4) {
            put_total(m.totals, own, y);
            break;
        }
        if (halves) { /* the later half adds the earlier one's sums, its third stripe, its fourth */
            if (early && some) add_total(m.totals, own, y);
            if (early) put_total(m.totals, own, y);
            named_wait(MEET, 2 * WARPGROUP);
            if (!early) {
                float p[SUMS] = {};
                add_total(m.totals, own - WARPGROUP, p);
                if (some) {
#pragma unroll
                    for (int i = 0; i < SUMS; i += 4) {
                        const float4 t = load_floats(total_place(m.totals, own, i / 4));
                        p[i] += t.x, p[i + 1] += t.y, p[i + 2] += t.z, p[i + 3] += t.w;
                    }
                }
#pragma unroll
                for (int i = 0; i < SUMS; i++) y[i] = p[i] + y[i];
            }
            named_wait(MEET, 2 * WARPGROUP);
            if (early) continue;
        } else if (some) add_total(m.totals, own, y);
        const int64_t first = w.row(a, C), out = w.output(a) + (halves ? output % 64 : output);
#pragma unroll
        for (int j = 0; j < C / 8; j++)
            store_sums<T>(a, first, out, j,
                          make_float4(y[4 * j], y[4 * j + 1], y[4 * j + 2], y[4 * j + 3]));
    }
    if (a.n_shares < 4) return;
    cluster_wait();
    store_shared<T, C>(a, m, w, own);
}

template <class T, int C>
__global__ void __launch_bounds__(WIDE_THREADS, 1) wide_kernel(wide_params a)
{
    if constexpr (HAS_WGMMA) {
        constexpr int        TAKEN = C > 96 ? 232 : 224, GIVEN = 3 * 168 - 2 * TAKEN;
        const wide_places<C> m;
        const int            i = (int)threadIdx.x;
        const bool           alone = a.n_shares < 4 && a.n_peers == 1;
        if (i < wide<C>::STAGES) {
            barrier_init(m.full + i * 8, 1);
            barrier_init(m.empty + i * 8,
                         a.n_shares == 2 ? WIDE_WARPS / 2 : WIDE_WARPS * a.n_peers);
        } else if (i >= 32 && i - 32 < wide<C>::CODES) {
            barrier_init(m.code_full + (i - 32) * 8, 2 * CODE_THREADS);
            barrier_init(m.code_empty + (i - 32) * 8, WIDE_WARPS);
        }
        if (i < 64) barrier_init_end();
        if (alone) __syncthreads();
        else cluster_wait();
        /* Codes do not wait for the inputs: what came before those has been waited for by them. */
        const bool sends_codes = i >= WARPGROUP - CODE_THREADS && i < WARPGROUP;
        if (sends_codes) launch_next();
        else start_after_others();
        if (threadIdx.x < WARPGROUP) {
            give_registers<GIVEN>();
            if (threadIdx.x == 0) send_inputs<C>(a, m);
            if (sends_codes) send_codes<C>(a, m, (int)threadIdx.x - (WARPGROUP - CODE_THREADS));
            __syncwarp();
            if (a.n_shares == 4) cluster_wait();
        } else {
            take_registers<TAKEN>();
            multiply_inputs<T, C>(a, m);
            __syncwarp();
        }
        if (!alone) cluster_wait(); /* others may read or write this block's memory until here */
    }
}

} // namespace

#endif
