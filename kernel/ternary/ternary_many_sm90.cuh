/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_many_sm90.cuh - the product with many rows, by the instructions of a warp: of float, and
 * on devices that do not have a warpgroup's.
 *
 * A block has 256 outputs and 32 rows, a warp 32 of the outputs; inputs pass through shared memory
 * a group at a time, codes go straight to registers. */
#ifndef TS_TERNARY_MANY_SM90_CUH
#define TS_TERNARY_MANY_SM90_CUH

#include "ternary_arrange_sm90.cuh"

namespace
{

enum {
    STAGES = 3, /* groups of inputs, on their way or in use */
    MANY = 32,  /* rows of a block */
};

/* A tile of rows is [group][part][row][unit]. */
struct many_layout {
    static constexpr int ROWS = MANY, N_OUTPUTS = OUTPUTS * WARPS, N_THREADS = THREADS;

    template <int P>
    static __device__ __forceinline__ void put(uint4 *tile, int column, int i,
                                               const uint4 (&part)[P])
    {
        uint4 *to = tile + (int64_t)(i / UNITS) * (P * MANY * UNITS) + column * UNITS +
                    place_of(i % UNITS, column);
#pragma unroll
        for (int k = 0; k < P; k++) to[k * MANY * UNITS] = part[k];
    }
    template <class T> static constexpr size_t n_shared(void)
    {
        return STAGES * parts<T>::n * MANY * UNITS * sizeof(uint4) +
               MANY * N_OUTPUTS * sizeof(float);
    }
};

/* Four results that lie side by side. */
template <class T>
__device__ __forceinline__ void store_four(const arranged_params &a, int64_t row, int64_t out,
                                           const float (&v)[4])
{
    T         *to = (T *)a.p.y + row * a.p.n_out + out;
    const bool wide = a.p.n_out % 4 == 0 && (uintptr_t)a.p.y % (4 * sizeof(T)) == 0;
    if (wide && out + 4 <= a.p.n_out) {
        if constexpr (sizeof(T) == 4) *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
        else *(uint2 *)to = make_uint2(narrow(v[0], v[1], T()), narrow(v[2], v[3], T()));
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (out + k < a.p.n_out) from_float(to + k, v[k]);
    }
}

/* Sums of stripes or segments wait in shared memory, a column of it for each thread. */
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) many_kernel(arranged_params a)
{
    using E = typename parts<T>::element;
    constexpr int P = parts<T>::n, TILES = MANY / 8, STAGE = P * MANY * UNITS;
    const int     lane = threadIdx.x % 32, n_groups = a.p.n_groups;
    const int     n_row_tiles = (int)ceil_div(a.p.n_rows, MANY);
    const int64_t row_tile = blockIdx.x % n_row_tiles;
    const int     tile = (int)(blockIdx.x / n_row_tiles * WARPS + threadIdx.x / 32);
    const uint4  *from = a.units + row_tile * n_groups * STAGE + threadIdx.x;
    float        *total = (float *)(memory + STAGES * STAGE) + threadIdx.x;
    const place   here(a.p, tile);
    const columns inputs(MANY);
    piece         x[2];
    threes        seen;
    float         y[2][TILES][4] = {};
    int           stage = 0;
    bool          some = false; /* is there a total? */
    auto          send = [&](int g) {
        uint4 *to = memory + g % STAGES * STAGE + threadIdx.x;
        if (g < n_groups)
#pragma unroll
            for (int i = 0; i < STAGE; i += THREADS)
                copy_ahead<16>(to + i, from + (int64_t)g * STAGE + i);
        close_copies();
    };
    auto load = [&](int g, piece *to) {
        address far;
        far.find(a.p, here, (unsigned)g);
        far.load<ALIGNED>(to);
    };
    start_after_others();
    for (int g = 0; g < STAGES - 1; g++) send(g);
    load(0, &x[0]);
    for (int g = 0; g < n_groups; g += SEGMENT) {
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            if (g + i >= n_groups) break;
            if (g + i + 1 < n_groups) load(g + i + 1, &x[(i + 1) % 2]);
            await_all_but<STAGES - 2>();
            __syncthreads(); /* all have it, and none is at the stage before it any more */
            send(g + i + STAGES - 1);
            seen.look(x[i % 2]);
            add_group<E, P, TILES>(inputs, stage * STAGE * (int)sizeof(uint4), x[i % 2], y);
            stage = stage + 1 < STAGES ? stage + 1 : 0;
        }
        if (STRIPED<T> && !ends_stripe((int)ceil_div(n_groups, SEGMENT), g / SEGMENT)) continue;
        seen.poison(y);
#pragma unroll
        for (int i = 0; i < 8 * TILES; i++) {
            float &v = y[i / 4 / TILES][i / 4 % TILES][i % 4];
            total[i * THREADS] = some ? total[i * THREADS] + v : v;
            v = 0;
        }
        some = true;
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int64_t row = row_tile * MANY + t * 8 + lane % 4 * 2 + c;
            const float   lift = row < a.p.n_rows ? a.lift[row] : 0;
            float         v[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                v[k] = total[((k / 2 * TILES + t) * 4 + k % 2 * 2 + c) * THREADS] * lift;
            if (row < a.p.n_rows) store_four<T>(a, row, (int64_t)tile * OUTPUTS + lane / 4 * 4, v);
        }
}

} // namespace

#endif
