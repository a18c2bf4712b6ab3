/* SPDX-License-Identifier: Apache-2.0 */
/* row_teams.cuh - teams of threads that process one row each, and their reductions.
 *
 * A team has 4 to 512 threads, a power of two. A thread has whole 16-byte vectors of the row, so
 * that every access of a team is contiguous. Teams of less than a warp reduce by shuffles, in which
 * all of the warp takes part. */
#ifndef TS_BASE_ROW_TEAMS_CUH
#define TS_BASE_ROW_TEAMS_CUH

#include <float.h>

#include "device.cuh"
#include "dtype.cuh"
#include "touchstone/touchstone.h"

/* Keeps packed elements packed: otherwise the compiler unpacks them before the loop and spills
 * registers. */
template <int N> static __device__ __forceinline__ void keep_packed(uint4 (&v)[N])
{
#pragma unroll
    for (int k = 0; k < N; k++)
        asm volatile("" : "+r"(v[k].x), "+r"(v[k].y), "+r"(v[k].z), "+r"(v[k].w));
}

/* ---- reductions over a team ---- */

struct add {
    static __device__ __forceinline__ float of(float a, float b)
    {
        return a + b;
    }
};

struct larger {
    static __device__ __forceinline__ float of(float a, float b)
    {
        return fmaxf(a, b);
    }
};

template <class OP, int WIDTH> static __device__ __forceinline__ float butterfly(float v)
{
#pragma unroll
    for (int d = WIDTH / 2; d; d >>= 1) v = OP::of(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}

/* Combines the slots of the team's warps, after the only barrier. A block has two sets of slots,
 * and calls alternate between them: a warp that is ahead writes the set that no warp reads any
 * more. */
template <int TEAM> static __device__ __forceinline__ float *own_slots(float *slots, int *set)
{
    float *own = slots + (*set * (blockDim.x / 32) + threadIdx.x / TEAM * (TEAM / 32)) * 2;
    *set ^= 1;
    return own;
}

/* A barrier per team of a block; 0 is that of __syncthreads. Barrier numbers are constants: with a
 * number in a register a block gets all sixteen, and a multiprocessor has room for only four such
 * blocks. */
template <int TEAM, int N = 0> static __device__ __forceinline__ void team_barrier(void)
{
    static_assert(N < 8, "no block has more than 512 threads");
    if ((N + 1) * TEAM >= 512 || threadIdx.x / TEAM == N)
        asm volatile("bar.sync %0, %1;" ::"n"(N + 1), "n"(TEAM) : "memory");
    else if constexpr ((N + 1) * TEAM < 512) team_barrier<TEAM, N + 1>();
}

/* One value; every thread gets the same bits. */
template <class OP, int TEAM>
static __device__ __forceinline__ float team_reduce(float v, float *slots, int *set)
{
    constexpr int W = TEAM / 32;
    v = butterfly<OP, (TEAM < 32 ? TEAM : 32)>(v);
    if constexpr (W > 1) {
        float *own = own_slots<TEAM>(slots, set);
        if (threadIdx.x % 32 == 0) own[threadIdx.x % TEAM / 32] = v;
        team_barrier<TEAM>();
        v = butterfly<OP, W>(own[threadIdx.x % W]);
    }
    return v;
}

/* The warp's sum of v.x in lanes 0 to 15, and of v.y in the others: little more than the cost of
 * one.
 */
static __device__ __forceinline__ float half_warp_sum(float2 v)
{
    const bool  second = threadIdx.x & 16;
    const float s = second ? v.y : v.x;
    return butterfly<add, 16>(s + __shfl_xor_sync(0xffffffffu, second ? v.x : v.y, 16));
}

/* Two sums at once. */
template <int TEAM>
static __device__ __forceinline__ float2 team_sums(float2 v, float *slots, int *set)
{
    if constexpr (TEAM < 32)
        return make_float2(butterfly<add, TEAM>(v.x), butterfly<add, TEAM>(v.y));
    constexpr int W = TEAM / 32;
    const bool    second = threadIdx.x & 16;
    float         s = half_warp_sum(v);
    if constexpr (W > 1) {
        float *own = own_slots<TEAM>(slots, set);
        if (threadIdx.x % 16 == 0) own[second * W + threadIdx.x % TEAM / 32] = s;
        team_barrier<TEAM>();
        s = butterfly<add, W>(own[second * W + threadIdx.x % W]);
    }
    return make_float2(__shfl_sync(0xffffffffu, s, 0), __shfl_sync(0xffffffffu, s, 16));
}

/* ---- rows whose squares leave the range of float ---- */

/* The scale that brings the row's largest magnitude near 1; NaN if that is not finite. */
static __device__ __forceinline__ float scale_for(float largest)
{
    if (!(largest <= FLT_MAX)) return nanf("");
    const int e = largest > 0 ? ilogbf(largest) : 0;
    return ldexpf(1.0f, min(max(-e, -126), 126));
}

/* |x|, with NaN counted as infinite: fmaxf alone would drop it. */
static __device__ __forceinline__ float magnitude(float x)
{
    return isnan(x) ? INFINITY : fabsf(x);
}

static __device__ __forceinline__ float one_over_sqrt(float a)
{
    const float r = rsqrtf(a); /* within 2 units in the last place; a Newton step makes it 1 */
    return fmaf(0.5f * r, fmaf(-a * r, r, 1.0f), r);
}

/* ---- host side ---- */

static inline bool aligned16(const void *p)
{
    return (uintptr_t)p % 16 == 0;
}

/* Whether both begin at the same place within 16 bytes. */
static inline bool same_place16(const void *a, const void *b)
{
    return ((uintptr_t)a - (uintptr_t)b) % 16 == 0;
}

static inline ts_status launched(void)
{
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

#endif
