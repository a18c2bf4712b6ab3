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
 * after a 16-byte boundary. A thread has at most V of them, and all threads have the first SURE.
 * WRAP: if the elements after the last whole vector fit into the first one before the row's begin,
 * they are there, so that a row has no more vectors than an aligned one. */
template <class T, int V, int SURE, bool SHIFTED, bool WRAP = false> struct row_vectors {
    static constexpr int  E = lanes<T>::n, N = V;
    static constexpr bool CUT = SHIFTED; /* a row's ends may cut a vector */
    int                   on, apart, n_cols;
    int                   column;    /* of the first element; negative if that is before the row */
    int                   wrap, far; /* elements of the first vector that are `far` behind it */

    __device__ __forceinline__ row_vectors(int n_cols, int lead, int begin, int end, int t,
                                           int apart)
        : apart(apart), n_cols(n_cols)
    {
        const int n = (n_cols + (WRAP ? 0 : lead) + E - 1) / E;
        const int most = (end < n ? end : n) - begin;
        on = t < most ? (most - t + apart - 1) / apart : 0;
        column = (begin + t) * E - lead;
        far = n * E;
        wrap = WRAP && begin + t == 0 ? max(n_cols + lead - far, 0) : 0;
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
        return has(v) && (!SHIFTED || (unsigned)at(v, e) < (unsigned)n_cols || wraps(v, e));
    }
    __device__ __forceinline__ bool wraps(int v, int e) const
    {
        return WRAP && v == 0 && e < wrap;
    }
    /* Where element e of vector v is, relative to the vector's first. */
    __device__ __forceinline__ int place(int v, int e) const
    {
        return wraps(v, e) ? far + e : e;
    }
    __device__ __forceinline__ bool whole(int v) const
    {
        return !SHIFTED || (at(v, 0) >= 0 && at(v, 0) + E <= n_cols);
    }

    /* All vectors, the first of which begins at *from. Those that the row's end cuts are read
     * whole, since others follow, but for the last row of an array. What is outside of the row is
     * anything: see cut(). */
    __device__ __forceinline__ void load(const T *from, uint4 (&raw)[V], bool last) const
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            const bool any = has(v) && !(SHIFTED && last && ends_in(v));
            raw[v] = make_uint4(0, 0, 0, 0);
            /* Volatile: all loads leave before the first use. Predicated: a branch per load would
             * let the first of them wait for the next. */
            asm volatile("{\n"
                         ".reg .pred any;\n"
                         "setp.ne.u32 any, %5, 0;\n"
                         "@any ld.global.v4.u32 {%0,%1,%2,%3}, [%4];\n"
                         "}\n"
                         : "+r"(raw[v].x), "+r"(raw[v].y), "+r"(raw[v].z), "+r"(raw[v].w)
                         : "l"(from + v * apart * E), "r"((unsigned)any));
        }
        if (SHIFTED && last) {
#pragma unroll
            for (int v = 0; v < V; v++)
                if (has(v) && ends_in(v)) raw[v] = gather(from + v * apart * E, v);
        }
    }
    __device__ __forceinline__ bool ends_in(int v) const
    {
        return at(v, 0) + E > n_cols;
    }
    __device__ __forceinline__ uint4 gather(const T *from, int v) const
    {
        float f[E] = { 0 };
#pragma unroll
        for (int e = 0; e < E; e++)
            if (has(v, e)) f[e] = to_float(from[place(v, e)]);
        return pack_as<T>(f);
    }

    /* A vector that was read whole: 0 outside of the row. */
    __device__ __forceinline__ uint4 cut(int v, uint4 raw) const
    {
        if (whole(v)) return raw;
        unsigned w[4] = { raw.x, raw.y, raw.z, raw.w };
#pragma unroll
        for (int e = 0; e < E; e++)
            if (!has(v, e)) w[e * 4 / E] &= E == 4 ? 0 : 0xffff0000u >> e % 2 * 16;
        return make_uint4(w[0], w[1], w[2], w[3]);
    }

    /* Vector v of a row in shared memory, where the thread's first is at *row and what wraps around
     * is the last of `pitch` vectors. */
    __device__ __forceinline__ uint4 shared(const uint4 *row, int v, int pitch) const
    {
        uint4 raw = row[v * apart];
        if (!wraps(v, 0)) return raw;
        const uint4 more = row[pitch - 1];
        unsigned    w[4] = { raw.x, raw.y, raw.z, raw.w };
        unsigned    m[4] = { more.x, more.y, more.z, more.w };
#pragma unroll
        for (int e = 0; e < E; e++) {
            const unsigned bits = E == 4 ? 0xffffffffu : 0xffffu << e % 2 * 16;
            if (wraps(v, e)) w[e * 4 / E] = (w[e * 4 / E] & ~bits) | (m[e * 4 / E] & bits);
        }
        return make_uint4(w[0], w[1], w[2], w[3]);
    }

    /* The elements of `array`, [n_cols] at any address, that belong to the columns of vector v. */
    __device__ __forceinline__ void load_columns(const T *array, int v, float (&f)[E]) const
    {
        const T *from = array + at(v, 0);
        if constexpr (!SHIFTED) {
            unpack_as<T>(__ldg((const uint4 *)from), f);
            return;
        }
        /* Two aligned vectors, whose second one begins at column `next`. */
        const unsigned off = (unsigned)(uintptr_t)from % 16;
        const uint4   *a = (const uint4 *)((uintptr_t)from - off);
        const int      next = at(v, 0) + E - (int)(off / sizeof(T));
        const bool     lo = next > 0 && next <= n_cols;
        const bool     hi = next < at(v, 0) + E && next + E <= n_cols;
        if (next > n_cols || (!hi && next < at(v, 0) + E && next < n_cols) || wraps(v, 0)) {
            unpack_as<T>(gather(from, v), f);
            return;
        }
        /* Of columns outside of the row, those of a vector that may be read. */
        const uint4 first = __ldg(lo ? a : a + 1), second = __ldg(hi ? a + 1 : a);
        unsigned    w[8] = {
               first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w
        };
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
            if (has(v, e)) from_float(to + place(v, e), f[e]);
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
