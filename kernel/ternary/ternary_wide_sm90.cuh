/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_wide_sm90.cuh - the product with many rows of 16-bit inputs, by the instructions of a
 * warpgroup: the same sums in the same order as a warp's, and so the same bits.
 *
 * A block has 128 outputs and 128 rows. Two warpgroups have 64 outputs each: codes go from memory
 * to registers and become the left factor there, inputs come through shared memory a group at a
 * time, as arrange_kernel laid them out; a thread of a third sends for them. While one warpgroup
 * takes a group's scales to its sums and decodes the next, the other's products run. */
#ifndef TS_TERNARY_WIDE_SM90_CUH
#define TS_TERNARY_WIDE_SM90_CUH

#include "sm90.cuh"
#include "ternary_arrange_sm90.cuh"

namespace
{

enum {
    WIDE = TILE_ROWS,     /* rows of a block */
    WIDE_OUT = WARPGROUP, /* outputs of a block, and of a warpgroup: */
    WIDE_HALF = WIDE_OUT / 2,
    WIDE_STAGES = 4, /* groups of inputs, on their way or in use */
    WIDE_STAGE = WIDE * GROUP * 2,
    WIDE_SUMS = WIDE / 2, /* of a thread: two outputs */
    WIDE_TOTAL = 2 * WARPGROUP * WIDE_SUMS * 4,
};

/* A tile of rows is [group][slab of 64 columns][row], in the order of the steps and, in a step, of
 * the columns that lanes have. */
struct wide_layout {
    static constexpr int ROWS = WIDE, N_OUTPUTS = WIDE_OUT, N_THREADS = 3 * WARPGROUP;

    static __device__ __forceinline__ void put(uint4 *tile, int row, int i, const uint4 (&part)[1])
    {
        const int      pair = i % UNITS / 4, t = i % 4;
        const unsigned w[4] = { part[0].x, part[0].y, part[0].z, part[0].w };
        char          *to = (char *)tile + (int64_t)(i / UNITS) * WIDE_STAGE +
                   pair / 2 * (WIDE * SLAB_BYTES) + row * SLAB_BYTES + t * 4;
#pragma unroll
        for (int k = 0; k < 4; k++)
            *(unsigned *)(void *)(to + ((pair % 2 * 4 + k) ^ row % 8) * 16) = w[k];
    }
    template <class T> static constexpr size_t n_shared(void)
    {
        return 1024 + WIDE_STAGES * WIDE_STAGE + WIDE_TOTAL + 2 * WIDE_STAGES * 8;
    }
};

/* Where things lie in a block's memory. */
struct wide_places {
    unsigned stages, totals, full, empty;

    __device__ __forceinline__ wide_places(void)
        : stages((shared_address(memory) + 1023) / 1024 * 1024),
          totals(stages + WIDE_STAGES * WIDE_STAGE), full(totals + WIDE_TOTAL),
          empty(full + WIDE_STAGES * 8)
    {
    }
};

__device__ __forceinline__ void send_inputs(const arranged_params &a, const wide_places &m,
                                            int64_t row_tile)
{
    const char             *from = (const char *)a.units + row_tile * a.p.n_groups * WIDE_STAGE;
    ring_place<WIDE_STAGES> at;
    for (int g = 0; g < a.p.n_groups; g++, at.advance()) {
        const unsigned full = m.full + at.stage * 8;
        barrier_wait(m.empty + at.stage * 8, at.parity ^ 1);
        barrier_expect(full, WIDE_STAGE);
        load_bytes(m.stages + at.stage * WIDE_STAGE, from + (int64_t)g * WIDE_STAGE, WIDE_STAGE,
                   full);
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
__device__ __forceinline__ void add_total(unsigned total, bool first, float (&y)[WIDE_SUMS])
{
#pragma unroll
    for (int i = 0; i < WIDE_SUMS; i += 4) {
        const unsigned at = total + (unsigned)(i / 4 * 2 * WARPGROUP * 16);
        if (!first) {
            const float4 t = load_four_floats(at);
            y[i] = t.x + y[i], y[i + 1] = t.y + y[i + 1];
            y[i + 2] = t.z + y[i + 2], y[i + 3] = t.w + y[i + 3];
        }
    }
}

__device__ __forceinline__ void put_total(unsigned total, const float (&y)[WIDE_SUMS])
{
#pragma unroll
    for (int i = 0; i < WIDE_SUMS; i += 4)
        store_four_floats(total + (unsigned)(i / 4 * 2 * WARPGROUP * 16),
                          make_float4(y[i], y[i + 1], y[i + 2], y[i + 3]));
}

template <class T>
__device__ __forceinline__ void store_pairs(const arranged_params &a, int64_t first, int64_t out,
                                            const float (&y)[WIDE_SUMS])
{
    const bool both = a.p.n_out % 2 == 0 && (uintptr_t)a.p.y % 4 == 0;
#pragma unroll
    for (int i = 0; i < WIDE_SUMS / 2; i++) {
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
__device__ __forceinline__ void poison_pair(unsigned (&three)[2], float (&y)[WIDE_SUMS])
{
#pragma unroll
    for (int k = 0; k < 2; k++) {
        unsigned any = three[k] & 0xaaaaaaaau;
        any |= __shfl_xor_sync(ALL, any, 1);
        any |= __shfl_xor_sync(ALL, any, 2);
        if (!any) continue;
#pragma unroll
        for (int i = 0; i < WIDE_SUMS; i++)
            if (i % 4 / 2 == k) y[i] = NAN;
    }
}

template <class T, bool ALIGNED>
__device__ __forceinline__ void multiply_inputs(const arranged_params &a, const wide_places &m,
                                                int64_t row_tile, int64_t tile)
{
    const int                      own = (int)threadIdx.x - WARPGROUP, n_groups = a.p.n_groups;
    const int64_t                  out = tile * WIDE_OUT + own / 32 * 16 + own % 32 / 4 * 2;
    const unsigned                 total = m.totals + (unsigned)own * 16;
    const pair_of_outputs<ALIGNED> codes(a.p, out);
    ring_place<WIDE_STAGES>        at;
    pair_piece                     x[2] = {};
    unsigned                       three[2] = { 0, 0 }, left[32];
    float                          sum[WIDE_SUMS], y[WIDE_SUMS];
    codes.load(0, &x[0]);
    if (n_groups > 1) codes.load(1, &x[1]);
    for (int g = 0; g < n_groups; g += SEGMENT) {
#pragma unroll
        for (int i = 0; i < WIDE_SUMS; i++) y[i] = 0;
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            if (g + i >= n_groups) break;
            pair_piece &now = x[i % 2];
            const float s[2] = { __half2float(__ushort_as_half(now.scale[0])),
                                 __half2float(__ushort_as_half(now.scale[1])) };
            decode(now, left);
#pragma unroll
            for (int k = 0; k < 2; k++)
                three[k] |=
                    (now.code[k].x & now.code[k].x << 1) | (now.code[k].y & now.code[k].y << 1);
            if (g + i + 2 < n_groups) codes.load(g + i + 2, &now);
            const along_rows<WIDE> right(m.stages + at.stage * WIDE_STAGE);
            barrier_wait(m.full + at.stage * 8, at.parity);
            pin(left), pin(sum);
            products_begin();
#pragma unroll
            for (int k = 0; k < 8; k++)
                product<T, 0>(sum, left[4 * k], left[4 * k + 1], left[4 * k + 2], left[4 * k + 3],
                              right.step(k), k > 0);
            products_end();
            products_wait<0>();
            pin(left), pin(sum);
            if (threadIdx.x % 32 == 0) barrier_arrive(m.empty + at.stage * 8);
            at.advance();
#pragma unroll
            for (int k = 0; k < WIDE_SUMS; k++) y[k] = fmaf(s[k % 4 / 2], sum[k], y[k]);
        }
        add_total(total, g == 0, y);
        if (g + SEGMENT < n_groups) put_total(total, y);
    }
    poison_pair(three, y);
    store_pairs<T>(a, row_tile * WIDE, out, y);
}

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(wide_layout::N_THREADS, 1) wide_kernel(arranged_params a)
{
    if constexpr (HAS_WGMMA) {
        const wide_places m;
        const unsigned    n_row_tiles = (unsigned)ceil_div(a.p.n_rows, WIDE);
        const int64_t     row_tile = blockIdx.x % n_row_tiles, tile = blockIdx.x / n_row_tiles;
        if (threadIdx.x == 0) {
            for (int i = 0; i < WIDE_STAGES; i++) {
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
