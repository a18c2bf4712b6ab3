/* SPDX-License-Identifier: Apache-2.0 */
/* row_vectors.cuh - the 16-byte vectors that a thread has of a row, and reductions over a row that
 * a team of threads or a cluster of blocks shares.
 *
 * Rows that do not begin or end at 16-byte boundaries (SHIFTED) are taken in the aligned vectors
 * that cover them. Elements outside of the row are neither used nor written. */
#ifndef TS_BASE_ROW_VECTORS_CUH
#define TS_BASE_ROW_VECTORS_CUH

#include "row_cluster.cuh"

/* Vectors t, t + apart, ... of those from `begin` to `end` of a row that begins `lead` elements
 * after a 16-byte boundary. A thread has at most V of them, and all threads have the first SURE. */
template <class T, int V, int SURE, bool SHIFTED> struct row_vectors {
    static constexpr int  E = lanes<T>::n, N = V;
    static constexpr bool CUT = SHIFTED; /* a row's ends may cut a vector */
    int                   on, apart, n_cols;
    int                   column; /* of the first element; negative if that is before the row */

    __device__ __forceinline__ row_vectors(int n_cols, int lead, int begin, int end, int t,
                                           int apart)
        : apart(apart), n_cols(n_cols)
    {
        const int n = (n_cols + lead + E - 1) / E;
        const int most = (end < n ? end : n) - begin;
        on = t < most ? (most - t + apart - 1) / apart : 0;
        column = (begin + t) * E - lead;
    }
    __device__ __forceinline__ bool has(int v) const
    {
        return v < SURE || v < on;
    }
    __device__ __forceinline__ int at(int v, int e) const
    {
        return column + v * apart * E + e;
    }
    __device__ __forceinline__ bool has(int v, int e) const
    {
        return has(v) && (!SHIFTED || (unsigned)at(v, e) < (unsigned)n_cols);
    }
    __device__ __forceinline__ bool whole(int v) const
    {
        return !SHIFTED || (at(v, 0) >= 0 && at(v, 0) + E <= n_cols);
    }

    /* Vector v, which begins at *from; 0 outside of the row. */
    __device__ __forceinline__ uint4 load(const T *from, int v) const
    {
        uint4 raw = make_uint4(0, 0, 0, 0);
        if (!has(v)) return raw;
        if (!whole(v)) return gather(from, v);
        /* Volatile: all loads leave before the first use. */
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                     : "l"(from));
        return raw;
    }
    __device__ __forceinline__ uint4 gather(const T *from, int v) const
    {
        float f[E] = { 0 };
#pragma unroll
        for (int e = 0; e < E; e++)
            if (has(v, e)) f[e] = to_float(from[e]);
        return pack_as<T>(f);
    }

    /* A vector that was read whole: 0 outside of the row. */
    __device__ __forceinline__ uint4 cut(int v, uint4 raw) const
    {
        float f[E];
        if (whole(v)) return raw;
        unpack_as<T>(raw, f);
#pragma unroll
        for (int e = 0; e < E; e++) f[e] = has(v, e) ? f[e] : 0.0f;
        return pack_as<T>(f);
    }

    /* The elements of `array`, [n_cols] at any address, that belong to the columns of vector v. */
    __device__ __forceinline__ void load_columns(const T *array, int v, float (&f)[E]) const
    {
        const T *from = array + at(v, 0);
        if constexpr (!SHIFTED) {
            unpack_as<T>(__ldg((const uint4 *)from), f);
            return;
        }
        if (at(v, 0) < E || at(v, 0) + 2 * E > n_cols) {
            unpack_as<T>(gather(from, v), f);
            return;
        }
        const unsigned off = (unsigned)(uintptr_t)from % 16;
        const uint4   *a = (const uint4 *)((uintptr_t)from - off);
        const uint4    lo = __ldg(a), hi = off ? __ldg(a + 1) : lo;
        unsigned       w[8] = { lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w };
#pragma unroll
        for (int k = 0; k < 6; k++) w[k] = off & 8 ? w[k + 2] : w[k];
#pragma unroll
        for (int k = 0; k < 5; k++) w[k] = off & 4 ? w[k + 1] : w[k];
        if constexpr (sizeof(T) == 2) {
#pragma unroll
            for (int k = 0; k < 4; k++) w[k] = off & 2 ? __funnelshift_r(w[k], w[k + 1], 16) : w[k];
        }
        unpack_as<T>(make_uint4(w[0], w[1], w[2], w[3]), f);
    }

    /* STREAM: it will not be read again soon. */
    template <bool STREAM> __device__ __forceinline__ void store(T *to, int v, uint4 raw) const
    {
        if (whole(v)) {
            if constexpr (STREAM) __stcs((uint4 *)to, raw);
            else *(uint4 *)to = raw;
            return;
        }
        float f[E];
        unpack_as<T>(raw, f);
#pragma unroll
        for (int e = 0; e < E; e++)
            if (has(v, e)) from_float(to + e, f[e]);
    }
};

/* How far after a 16-byte boundary the row at element `at` begins, in elements. */
template <class T, bool SHIFTED>
static __device__ __forceinline__ int lead_of(const void *x, int64_t at)
{
    return SHIFTED ? (int)(((uintptr_t)x / sizeof(T) + (uint64_t)at) % lanes<T>::n) : 0;
}

/* ---- reductions ---- */

template <int TEAM> struct over_team {
    float *slots;
    int    set = 0;

    __device__ __forceinline__ explicit over_team(float *slots) : slots(slots)
    {
    }
    template <class OP> __device__ __forceinline__ float reduce(float v)
    {
        return team_reduce<OP, TEAM>(v, slots, &set);
    }
    __device__ __forceinline__ float2 sums(float2 v)
    {
        return team_sums<TEAM>(v, slots, &set);
    }
    /* Whether any team of this warp has the condition: they reduce together. */
    static __device__ __forceinline__ bool any(bool condition)
    {
        return TEAM < 32 ? __any_sync(0xffffffffu, condition) : condition;
    }
};

struct over_cluster {
    row_cluster cluster;
    int         i = 0;

    __device__ __forceinline__ over_cluster(const row_cluster &like, cluster_slots *slots)
        : cluster(like)
    {
        cluster.s = slots;
    }
    template <class OP> __device__ __forceinline__ float reduce(float v)
    {
        cluster.send<OP>(i, v);
        return cluster.receive<OP>(i++);
    }
    __device__ __forceinline__ float2 sums(float2 v)
    {
        cluster.send_sums(i, v);
        return cluster.receive_sums(i++);
    }
    static __device__ __forceinline__ bool any(bool condition)
    {
        return condition;
    }
};

/* ---- host side: a row per team, or per cluster ---- */

/* Vectors of a row that a thread has at most. The smallest team that suffices is taken: its threads
 * then have 3 to 5, of which only the last may be missing, or fewer of the shortest rows. */
template <int TEAM> constexpr int fit_most = TEAM < 512 ? 5 : 4;

/* Threads of a block, which is a team or several small ones. */
enum { LEAST_THREADS = 256 };
template <int TEAM> constexpr int threads_of = TEAM < LEAST_THREADS ? LEAST_THREADS : TEAM;

#endif
