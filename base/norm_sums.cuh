/* SPDX-License-Identifier: Apache-2.0 */
/* norm_sums.cuh - dgamma and dbeta from the threads' shares of them, added in an order that depends
 * only on the shape and the device: teams of a block, then blocks. */
#ifndef TS_BASE_NORM_SUMS_CUH
#define TS_BASE_NORM_SUMS_CUH

#include <cooperative_groups.h>

#include "row_vectors.cuh"

namespace
{

enum {
    THREADS = 512,
    COLUMNS = 16,  /* of a thread */
    FEW_BLOCKS = 8 /* one cluster */
};

struct norm_params {
    int64_t      n_rows, row_stride;
    int          n_cols, n_stages;
    int          turns; /* rows of the busiest team */
    int          accumulate;
    float        one_over_n, offset;
    const void  *x, *dy, *dr, *gamma;
    const float *mean, *rstd;
    void        *dx;
    float       *dgamma, *dbeta;
    float       *partial; /* [blocks or clusters][1 or 2][n_cols]: dgamma, dbeta */
};

template <bool CENTRED>
__device__ __forceinline__ void write_sum(const norm_params &p, bool last, int which, int column,
                                          int64_t index, float s)
{
    if (!last) {
        p.partial[(index * (CENTRED ? 2 : 1) + which) * p.n_cols + column] = s;
        return;
    }
    float *out = (which ? p.dbeta : p.dgamma) + column;
    *out = p.accumulate ? *out + s : s;
}

/* Adds the teams' column sums in order and writes the block's. The sums pass through the ring's
 * memory as [team][dgamma or dbeta][a thread's column][thread], padded against bank conflicts. */
template <bool CENTRED, int TEAM, int E> struct team_sums_layout {
    static constexpr int SUMS = CENTRED ? 2 : 1, PITCH = TEAM + (TEAM > 4 ? 32 / E : 0);
    static constexpr int TEAM_SIZE = SUMS * COLUMNS * PITCH, TEAMS = THREADS / TEAM;
    static constexpr int BYTES = TEAMS * TEAM_SIZE * 4;
};

template <bool CENTRED, int TEAM, int E>
__device__ __forceinline__ void write_sums(const norm_params &p, float *sums, const int *leads,
                                           const float (&dgamma)[COLUMNS],
                                           const float (&dbeta)[COLUMNS])
{
    typedef team_sums_layout<CENTRED, TEAM, E> L;
    float *own = sums + threadIdx.x / TEAM * L::TEAM_SIZE + threadIdx.x % TEAM;
    __syncthreads(); /* others may still read rows there */
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        own[c * L::PITCH] = dgamma[c];
        if constexpr (CENTRED) own[(COLUMNS + c) * L::PITCH] = dbeta[c];
    }
    __syncthreads();
    const int n_vec = (p.n_cols + E - 1) / E; /* what is after them wraps around */
#pragma unroll 2
    for (int i = threadIdx.x; i < L::SUMS * p.n_cols; i += THREADS) {
        const int which = i >= p.n_cols, col = which ? i - p.n_cols : i;
        float     s = 0;
#pragma unroll(L::TEAMS < 16 ? L::TEAMS : 16)
        for (int k = 0; k < L::TEAMS; k++) {
            const int at = col + (leads ? leads[k] : 0), vec = at / E < n_vec ? at / E : 0;
            const int c = which * COLUMNS + vec / TEAM * E + at % E;
            s += sums[k * L::TEAM_SIZE + c * L::PITCH + vec % TEAM];
        }
        write_sum<CENTRED>(p, gridDim.x == 1, which, col, blockIdx.x, s);
    }
}

/* The block's sums, from column `from` on, through shared memory: consecutive threads then write
 * consecutive columns. */
template <bool CENTRED, class OWN>
__device__ __forceinline__ void
write_wide_sums(const norm_params &p, float *sums, const OWN &mine, int from, int n_vec, bool last,
                int64_t index, const float (&dgamma)[COLUMNS], const float (&dbeta)[COLUMNS])
{
    constexpr int E = OWN::E, SUMS = CENTRED ? 2 : 1;
    const int     apart = mine.apart, size = apart + 32 / E, t = (int)threadIdx.x;
    __syncthreads(); /* others may still read rows there */
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        sums[c * size + t] = dgamma[c];
        if constexpr (CENTRED) sums[(COLUMNS + c) * size + t] = dbeta[c];
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < SUMS * COLUMNS; i++) {
        const int x = i % E * apart + t, v = i / E % OWN::N, which = i / COLUMNS;
        const int column = from + v * apart * E + x;
        if (v * apart + x / E < n_vec && column >= 0 && column < p.n_cols)
            write_sum<CENTRED>(p, last, which, column, index,
                               sums[(which * COLUMNS + v * E + x % E) * size + x / E]);
    }
}

/* Adds n partials for GROUPS groups of columns at a time, all loads of DEEP partials at once: their
 * latency is what it costs. A block's threads share the partials, each in order. */
template <bool CENTRED, int GROUPS, int DEEP>
__device__ __forceinline__ void add_columns(const norm_params &p, int n, int columns, float *shared)
{
    float(*const part)[THREADS] = (float(*)[THREADS])shared;
    const int64_t width = (CENTRED ? 2 : 1) * (int64_t)p.n_cols;
    const int     lane = threadIdx.x & (columns - 1), deep = threadIdx.x / columns;
    const int     step = blockDim.x / columns;
    const int64_t apart = gridDim.x * (int64_t)columns;
    for (int64_t at = blockIdx.x * (int64_t)columns; at < width; at += GROUPS * apart) {
        float s[GROUPS] = { 0 };
        for (int k = deep; k < n && deep < step; k += DEEP * step) {
            float v[GROUPS][DEEP];
#pragma unroll
            for (int i = 0; i < GROUPS * DEEP; i++) {
                const int64_t c = at + i / DEEP * apart + lane;
                const int     from = k + i % DEEP * step;
                v[i / DEEP][i % DEEP] =
                    c < width && from < n ? __ldcg(p.partial + from * width + c) : 0.0f;
            }
#pragma unroll
            for (int i = 0; i < GROUPS * DEEP; i++) s[i / DEEP] += v[i / DEEP][i % DEEP];
        }
#pragma unroll
        for (int g = 0; g < GROUPS; g++) part[g][threadIdx.x] = s[g];
        __syncthreads();
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            const int64_t c = at + g * apart + lane;
            if (deep > 0 || c >= width) continue;
            for (int k = 1; k < step; k++) s[g] += part[g][k * columns + lane];
            const int which = c >= p.n_cols;
            write_sum<CENTRED>(p, true, which, (int)(c - (which ? p.n_cols : 0)), 0, s[g]);
        }
        __syncthreads();
    }
}

/* dgamma and dbeta from the partials. Each block takes as many columns, a power of two, as give all
 * blocks their share in one go. `shared` has room for PART_SIZE floats. */
enum { GROUPS_OF_FEW = 4, PART_SIZE = GROUPS_OF_FEW * THREADS };

template <bool CENTRED>
__device__ __forceinline__ void add_partials(const norm_params &p, int n, float *shared)
{
    int columns = 32;
    while (columns * 2 <= (int)blockDim.x &&
           columns * (int64_t)gridDim.x < (CENTRED ? 2 : 1) * (int64_t)p.n_cols)
        columns *= 2;
    if (n <= FEW_BLOCKS) add_columns<CENTRED, GROUPS_OF_FEW, FEW_BLOCKS>(p, n, columns, shared);
    else add_columns<CENTRED, 1, 18>(p, n, columns, shared);
}

/* After a block's sums were written: waits for the other blocks and adds up. */
template <bool CENTRED>
__device__ __forceinline__ void finish(const norm_params &p, int n, float *shared)
{
    if (n == 1) return;
    if (n <= FEW_BLOCKS) cluster_wait(); /* launched as one cluster */
    else cooperative_groups::this_grid().sync();
    add_partials<CENTRED>(p, n, shared);
}

} // namespace

#endif
