/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_wide_sm90.cuh - the product with many rows of 16-bit inputs, by the instructions of a
 * warpgroup: the same sums in the same order as a warp's, and so the same bits.
 *
 * A block has 128 outputs and 64 or 128 rows. Two warpgroups have 64 outputs each: codes go from
 * memory to registers and become the left factor there, inputs come through shared memory a group
 * at a time, as arrange_kernel laid them out; a thread of a third sends for them. A warpgroup
 * decodes the next group while its products run. */
#ifndef TS_TERNARY_WIDE_SM90_CUH
#define TS_TERNARY_WIDE_SM90_CUH

#include "sm90.cuh"
#include "ternary_arrange_sm90.cuh"

namespace
{

enum {
    WIDE_OUT = WARPGROUP,                    /* outputs of a block, half of them of a warpgroup */
    WIDE_MEMORY = 4 * TILE_ROWS * GROUP * 2, /* for groups of inputs, on their way or in use */
};

/* Blocks of C rows. */
template <int C> struct wide {
    static constexpr int STAGE = C * GROUP * 2, STAGES = WIDE_MEMORY / STAGE;
    static constexpr int SUMS = C / 2; /* of a thread: two outputs */
    static constexpr int TOTAL = 2 * WARPGROUP * SUMS * 4;
};

/* A tile of rows is [group][slab of 64 columns][row], in the order of the steps and, in a step, of
 * the columns that lanes have. */
template <int C> struct wide_layout {
    static constexpr int ROWS = C, N_OUTPUTS = WIDE_OUT, N_THREADS = 3 * WARPGROUP;

    static __device__ __forceinline__ void put(uint4 *tile, int row, int i, const uint4 (&part)[1])
    {
        const int      pair = i % UNITS / 4, t = i % 4;
        const unsigned w[4] = { part[0].x, part[0].y, part[0].z, part[0].w };
        char          *to = (char *)tile + (int64_t)(i / UNITS) * wide<C>::STAGE +
                   pair / 2 * (C * SLAB_BYTES) + row * SLAB_BYTES + t * 4;
#pragma unroll
        for (int k = 0; k < 4; k++)
            *(unsigned *)(void *)(to + ((pair % 2 * 4 + k) ^ row % 8) * 16) = w[k];
    }
    template <class T> static constexpr size_t n_shared(void)
    {
        return 1024 + WIDE_MEMORY + wide<C>::TOTAL + 2 * wide<C>::STAGES * 8;
    }
};

/* Where things lie in a block's memory. */
template <int C> struct wide_places {
    unsigned stages, totals, full, empty;

    __device__ __forceinline__ wide_places(void)
        : stages((shared_address(memory) + 1023) / 1024 * 1024), totals(stages + WIDE_MEMORY),
          full(totals + wide<C>::TOTAL), empty(full + wide<C>::STAGES * 8)
    {
    }
};

template <int C>
__device__ __forceinline__ void send_inputs(const arranged_params &a, const wide_places<C> &m,
                                            int64_t row_tile)
{
    constexpr int               STAGE = wide<C>::STAGE;
    const char                 *from = (const char *)a.units + row_tile * a.p.n_groups * STAGE;
    ring_place<wide<C>::STAGES> at;
    for (int g = 0; g < a.p.n_groups; g++, at.advance()) {
        const unsigned full = m.full + at.stage * 8;
        barrier_wait(m.empty + at.stage * 8, at.parity ^ 1);
        barrier_expect(full, STAGE);
        load_bytes(m.stages + at.stage * STAGE, from + (int64_t)g * STAGE, STAGE, full);
    }
}

/* What a lane has of a group: two outputs. */
struct pair_piece {
    uint2    code[2];
    uint16_t scale[2];
};

template <bool ALIGNED> struct pair_of_outputs {
    const uint8_t  *code[2];
    const uint16_t *scale[2];

    __device__ __forceinline__ pair_of_outputs(const product_params &p, int64_t out)
    {
#pragma unroll
        for (int k = 0; k < 2; k++) { /* past the end the last once more, which is not stored */
            const int64_t at = min(out + k, p.n_out - 1) * p.n_groups;
            code[k] = p.code + at * GROUP_BYTES + threadIdx.x % 4 * 8;
            scale[k] = p.scale + at;
        }
    }
    __device__ __forceinline__ void load(int g, pair_piece *x) const
    {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            x->code[k] = eight_bytes<ALIGNED>(code[k] + (int64_t)g * GROUP_BYTES);
            x->scale[k] = __ldg(scale[k] + g);
        }
    }
};

/* All of a group as the left factor of its eight steps: [step][0 or 1: output, + 2: columns 8 ..].
 */
__device__ __forceinline__ void decode(const pair_piece &x, unsigned (&a)[32])
{
#pragma unroll
    for (int i = 0; i < 16; i++)
#pragma unroll
        for (int k = 0; k < 2; k++)
            a[i * 2 + k] = weights_of(i < 8 ? x.code[k].x : x.code[k].y, i % 8);
}

/* Sums of segments wait in shared memory, four of a thread together. */
template <int N>
__device__ __forceinline__ void add_total(unsigned total, bool first, float (&y)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const unsigned at = total + (unsigned)(i / 4 * 2 * WARPGROUP * 16);
        if (!first) {
            const float4 t = load_floats(at);
            y[i] = t.x + y[i], y[i + 1] = t.y + y[i + 1];
            y[i + 2] = t.z + y[i + 2], y[i + 3] = t.w + y[i + 3];
        }
    }
}

template <int N> __device__ __forceinline__ void put_total(unsigned total, const float (&y)[N])
{
#pragma unroll
    for (int i = 0; i < N; i += 4)
        store_floats(total + (unsigned)(i / 4 * 2 * WARPGROUP * 16),
                     make_float4(y[i], y[i + 1], y[i + 2], y[i + 3]));
}

template <class T, int N>
__device__ __forceinline__ void store_pairs(const arranged_params &a, int64_t first, int64_t out,
                                            const float (&y)[N])
{
    const bool both = a.p.n_out % 2 == 0 && (uintptr_t)a.p.y % 4 == 0;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        const int64_t row = first + i / 2 * 8 + threadIdx.x % 4 * 2 + i % 2;
        if (row >= a.p.n_rows) continue;
        const float lift = a.lift[row];
        const float v[2] = { y[i / 2 * 4 + i % 2] * lift, y[i / 2 * 4 + i % 2 + 2] * lift };
        T          *to = (T *)a.p.y + row * a.p.n_out + out;
        if (both && out < a.p.n_out) *(unsigned *)(void *)to = narrow(v[0], v[1], T());
        else {
            if (out < a.p.n_out) from_float(to, v[0]);
            if (out + 1 < a.p.n_out) from_float(to + 1, v[1]);
        }
    }
}

/* Of an output with code point 3 all becomes NaN, for all lanes that share it. */
template <int N> __device__ __forceinline__ void poison_pair(unsigned (&three)[2], float (&y)[N])
{
#pragma unroll
    for (int k = 0; k < 2; k++) {
        unsigned any = three[k] & 0xaaaaaaaau;
        any |= __shfl_xor_sync(ALL, any, 1);
        any |= __shfl_xor_sync(ALL, any, 2);
        if (!any) continue;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i % 4 / 2 == k) y[i] = NAN;
    }
}

template <class T, bool ALIGNED, int C>
__device__ __forceinline__ void multiply_inputs(const arranged_params &a, const wide_places<C> &m,
                                                int64_t row_tile, int64_t tile)
{
    constexpr int                  SUMS = wide<C>::SUMS, STAGE = wide<C>::STAGE;
    const int                      own = (int)threadIdx.x - WARPGROUP, n_groups = a.p.n_groups;
    const int64_t                  out = tile * WIDE_OUT + own / 32 * 16 + own % 32 / 4 * 2;
    const unsigned                 total = m.totals + (unsigned)own * 16;
    const pair_of_outputs<ALIGNED> codes(a.p, out);
    ring_place<wide<C>::STAGES>    at;
    pair_piece                     x[2];
    unsigned                       three[2] = { 0, 0 }, left[2][32];
    float                          sum[SUMS], y[SUMS], s[2][2];
    /* Group g out of x to left and s, all of them [g % 2]; then x is for g + 2. Past the end the
     * last comes once more: a branch would wait for what was loaded. */
    auto prepare = [&](int g, int k) {
        decode(x[k], left[k]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint2 c = x[k].code[i];
            three[i] |= (c.x & c.x << 1) | (c.y & c.y << 1);
            s[k][i] = __half2float(__ushort_as_half(x[k].scale[i]));
        }
        codes.load(min(g + 2, n_groups - 1), &x[k]);
    };
    codes.load(0, &x[0]);
    codes.load(min(1, n_groups - 1), &x[1]);
    prepare(0, 0);
    for (int g = 0; g < n_groups; g += SEGMENT) {
#pragma unroll
        for (int i = 0; i < SUMS; i++) y[i] = 0;
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            if (g + i >= n_groups) break;
            unsigned(&factor)[32] = left[i % 2];
            const along_rows<C> right(m.stages + at.stage * STAGE);
            barrier_wait(m.full + at.stage * 8, at.parity);
            pin(factor), pin(sum);
            products_begin();
#pragma unroll
            for (int k = 0; k < 8; k++)
                product<T, 0>(sum, factor[4 * k], factor[4 * k + 1], factor[4 * k + 2],
                              factor[4 * k + 3], right.step(k), k > 0);
            products_end();
            prepare(g + i + 1, (i + 1) % 2);
            pin(left[(i + 1) % 2]); /* and not later */
            products_wait<0>();
            pin(factor), pin(sum);
            if (threadIdx.x % 32 == 0) barrier_arrive(m.empty + at.stage * 8);
            at.advance();
#pragma unroll
            for (int k = 0; k < SUMS; k++) y[k] = fmaf(s[i % 2][k % 4 / 2], sum[k], y[k]);
        }
        add_total(total, g == 0, y);
        if (g + SEGMENT < n_groups) put_total(total, y);
    }
    poison_pair(three, y);
    store_pairs<T>(a, row_tile * C, out, y);
}

template <class T, bool ALIGNED, int C>
__global__ void __launch_bounds__(wide_layout<C>::N_THREADS, 1) wide_kernel(arranged_params a)
{
    if constexpr (HAS_WGMMA) {
        const wide_places<C> m;
        const unsigned       n_row_tiles = (unsigned)ceil_div(a.p.n_rows, C);
        const int64_t        row_tile = blockIdx.x % n_row_tiles, tile = blockIdx.x / n_row_tiles;
        if (threadIdx.x == 0) {
            for (int i = 0; i < wide<C>::STAGES; i++) {
                barrier_init(m.full + i * 8, 1);
                barrier_init(m.empty + i * 8, 2 * WARPGROUP / 32);
            }
            barrier_init_end();
        }
        __syncthreads();
        start_after_others();
        if (threadIdx.x < WARPGROUP) {
            give_registers<24>();
            if (threadIdx.x == 0) send_inputs(a, m, row_tile);
        } else {
            take_registers<240>();
            multiply_inputs<T, ALIGNED>(a, m, row_tile, tile);
        }
    }
}

} // namespace

#endif
