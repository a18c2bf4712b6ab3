/* SPDX-License-Identifier: Apache-2.0 */
/* row_ring.cuh - rows copied ahead into shared memory, and which rows go to which block, for blocks
 * that stay for the whole call. */
#ifndef TS_BASE_ROW_RING_CUH
#define TS_BASE_ROW_RING_CUH

#include "row_vectors.cuh"

/* ---- rows ahead, in shared memory ---- */

/* A thread fetches its vectors a few rows ahead into its own corner of shared memory. No other
 * thread reads them, so no barrier guards them: it only waits for its own copies. Some 64 to 128 KB
 * are in flight per multiprocessor. More was slower: the farther apart concurrent reads are, the
 * less of the bandwidth there is. */
static __device__ __forceinline__ void copy_ahead(uint4 *shared, const void *global, int n_bytes)
{
    const unsigned s = shared_address(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(s), "l"(global), "r"(n_bytes)
                 : "memory");
}

static __device__ __forceinline__ void close_group(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void await_all_but(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

static __device__ __forceinline__ void await_all_but(int n)
{
    if (n >= 4) await_all_but<4>();
    else if (n == 3) await_all_but<3>();
    else if (n == 2) await_all_but<2>();
    else await_all_but<1>();
}

/* The thread's vectors of N arrays, which are `pitch` vectors apart in shared memory. `at`: offset
 * of the thread's first element in the arrays. Of a vector that the row's end cuts, no more is read
 * than there is. */
template <int N, class T, class OWN>
static __device__ __forceinline__ void stage_row(uint4 *corner, int pitch, const OWN &mine,
                                                 const void *const (&from)[3], int64_t at, bool any)
{
    constexpr int E = OWN::E;
    if (any) {
#pragma unroll
        for (int v = 0; v < OWN::N; v++) {
            if (!mine.has(v)) continue;
            const int left = mine.n_cols - mine.at(v, 0);
            const int n_bytes = OWN::CUT && left < E ? left * (int)sizeof(T) : 16;
#pragma unroll
            for (int a = 0; a < N; a++)
                if (a < 2 || from[a])
                    copy_ahead(corner + a * pitch + v * mine.apart,
                               (const T *)from[a] + at + v * mine.apart * E, n_bytes);
        }
        if (mine.wraps(0, 0)) {
#pragma unroll
            for (int a = 0; a < N; a++)
                if (a < 2 || from[a])
                    copy_ahead(corner + a * pitch + pitch - 1, (const T *)from[a] + at + mine.far,
                               mine.wrap * (int)sizeof(T));
        }
    }
    close_group();
}

/* ---- host side ---- */

/* Bytes that a multiprocessor should have on their way, and that a ring may take. */
enum { IN_FLIGHT = 60 << 10, RING_BYTES = 196 << 10 };

/* At most `most` blocks of `teams` teams, and no more than finish in the fewest turns, so that all
 * end together. The rows of a team are n_blocks * teams apart: a multiple of `unit`, a power of
 * two, if it has more than one. */
struct grid_plan {
    int  turns, n_blocks;
    bool fits; /* false: there is no such number of blocks */

    grid_plan(int64_t n_rows, int most, int teams, int unit)
    {
        const int by = unit > teams ? unit / teams : 1, use = most > by ? most / by * by : by;
        turns = (int)((n_rows + (int64_t)use * teams - 1) / ((int64_t)use * teams));
        const int64_t least = (n_rows + turns - 1) / turns;
        n_blocks = (int)((least + teams - 1) / teams);
        if (turns > 1) n_blocks = (n_blocks + by - 1) / by * by;
        fits = n_blocks <= most;
    }
};

/* Stages of the ring: `held` rows in use, and enough on their way. */
static int stages_for(int stage_bytes, int held)
{
    int ahead = (IN_FLIGHT + stage_bytes - 1) / stage_bytes;
    ahead = ahead < 2 ? 2 : ahead > 4 ? 4 : ahead;
    while (ahead > 1 && (held + ahead) * stage_bytes > RING_BYTES) ahead--;
    return held + ahead;
}

/* Rows a multiple of which are whole vectors apart. */
template <class T> static int row_unit(int64_t row_stride)
{
    int unit = lanes<T>::n;
    while (unit > 1 && row_stride % 2 == 0) unit /= 2, row_stride /= 2;
    return unit;
}

/* Rows above the columns of a block: a cluster per row, as few blocks as have at most V vectors per
 * thread, and no idle warps. */
struct wide_plan {
    int n_ranks, pitch, n_threads; /* pitch: vectors of a block */

    wide_plan(int n_vec, int V)
    {
        n_ranks = (n_vec + 512 * V - 1) / (512 * V);
        pitch = (n_vec + n_ranks - 1) / n_ranks;
        n_threads = ((pitch + V - 1) / V + 31) / 32 * 32;
    }
};

/* How many clusters of this kernel run at a time; 0 if none can. */
template <class KERNEL> static int most_clusters(KERNEL kernel, const cluster_launch &how)
{
    int most = 0;
    if (cudaOccupancyMaxActiveClusters(&most, kernel, &how.config) != cudaSuccess) most = 0;
    return most;
}

#endif
