/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_sm90.cuh - what the forward and the backward kernels of rms_norm share. */
#ifndef TS_RMS_NORM_SM90_CUH
#define TS_RMS_NORM_SM90_CUH

#include "row_teams.cuh"
#include "touchstone/rms_norm.h"

/* Vectors of a row that a thread has at most: 16 columns of 32 bits, or 32 of 16 bits. */
enum { VECTORS = 4, LEAST_THREADS = 256 };

/* Threads of a block, which is a team or several small ones. */
template <int TEAM> constexpr int threads_of = TEAM < LEAST_THREADS ? LEAST_THREADS : TEAM;

/* The place of a thread in its team, and how many vectors of n_vec it has: the (v * TEAM + t)-th.
 */
template <int TEAM> struct place {
    int t, on;

    __device__ __forceinline__ explicit place(int n_vec)
    {
        t = threadIdx.x % TEAM;
        on = t < n_vec ? (n_vec - t + TEAM - 1) / TEAM : 0;
    }
};

/* The thread's vectors of a row; 0 past its end. Not by the read-only cache: r may be x. */
template <int TEAM, int V>
static __device__ __forceinline__ void fetch_row(uint4 (&raw)[V], const uint4 *from, int on)
{
#pragma unroll
    for (int v = 0; v < V; v++) raw[v] = v < on ? from[v * TEAM] : make_uint4(0, 0, 0, 0);
}

#endif
