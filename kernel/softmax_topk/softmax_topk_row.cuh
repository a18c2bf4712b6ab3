/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_row.cuh - a row of logits, seen as vectors of 16 bytes from the boundary at or below
 * its first one, and its way into shared memory, a chunk at a time. */
#ifndef TS_SOFTMAX_TOPK_ROW_CUH
#define TS_SOFTMAX_TOPK_ROW_CUH

#include <type_traits>

#include "dtype.cuh"
#include "softmax_topk_select.cuh"

namespace
{

/* VECTORS of a chunk a thread has; STAGES, chunks in shared memory; GROUPS of threads' vectors
 * whose maxima give the threshold; MOST_K a pass over the row finds; SHARES of a row at most. */
enum { VECTORS = 4, STAGES = 4, GROUPS = 512, MOST_K = 1024, SHARES = 8 };

/* Logits of a chunk a thread has. */
template <class T> constexpr int logits_of = VECTORS *lanes<T>::n;

struct topk_params {
    int64_t     n_rows, row_stride, k;
    int         n_vocab, n_shares;
    int         n_threads, capacity; /* of a block; keys on the pile */
    int         at_once;             /* blocks that run side by side */
    float       scale;               /* inv_temperature * log2(e) */
    double      inv_temperature;
    const void *logits;
    int32_t    *index;
    float      *prob, *lse;
};

template <class T> struct row_view {
    const T *base;       /* on a 16-byte boundary */
    unsigned lead, size; /* places before the first logit; places up to the last one */

    __device__ __forceinline__ row_view(const topk_params &p, int64_t row)
    {
        const T *first = (const T *)p.logits + row * p.row_stride;
        lead = (unsigned)((uintptr_t)first % 16 / sizeof(T));
        base = first - lead;
        size = lead + (unsigned)p.n_vocab;
    }
    __device__ __forceinline__ int n_vectors(void) const
    {
        return (int)((size + lanes<T>::n - 1) / lanes<T>::n);
    }
};

/* Where the thread's v-th vector of a chunk lies. */
__device__ __forceinline__ uint4 *corner_of(uint4 *chunk, int v)
{
    return chunk + v * n_threads() + threadIdx.x;
}

__device__ __forceinline__ void copy_ahead(uint4 *to, const uint4 *from)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

/* A vector of which not all places are logits: those that are not become -inf. */
template <class T> __device__ __forceinline__ uint4 ragged(const row_view<T> &r, int at)
{
    constexpr int E = lanes<T>::n;
    float         f[E];
    for (int e = 0; e < E; e++) {
        const unsigned place = (unsigned)at * E + e;
        f[e] = place >= r.lead && place < r.size ? to_float(r.base[place]) : -INFINITY;
    }
    return pack_as<T>(f);
}

/* The same for a chunk at either end of the row. Not inlined: it is done twice a row. */
template <class T>
__device__ __noinline__ void fetch_edge(uint4 *to, row_view<T> r, int at, int end)
{
    const int whole = min(end, (int)(r.size / lanes<T>::n));
    for (int v = 0; v < VECTORS; v++) {
        const int mine = at + v * n_threads() + (int)threadIdx.x;
        uint4    *corner = corner_of(to, v);
        if (mine < whole && (mine > 0 || r.lead == 0))
            copy_ahead(corner, (const uint4 *)r.base + mine);
        else *corner = ragged(r, mine < end ? mine : INT32_MAX / lanes<T>::n);
    }
}

/* Until all chunks but the latest STAGES - 1 have come. */
__device__ __forceinline__ void wait_for_oldest(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
}

/* Sends for the thread's own vectors of the chunk at `at`; those from `end` on are not its block's.
 */
template <class T>
__device__ __forceinline__ void fetch(uint4 *to, const row_view<T> &r, int at, int end)
{
    const uint4 *from = (const uint4 *)r.base + at + threadIdx.x;
    const int    whole = min(end, (int)(r.size / lanes<T>::n));
    if ((at > 0 || r.lead == 0) && at + VECTORS * n_threads() <= whole) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) copy_ahead(corner_of(to, v), from + v * n_threads());
    } else if (at < end) fetch_edge(to, r, at, end);
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* The largest, NaN aside. */
template <class T> __device__ __forceinline__ float largest(uint4 v)
{
    if constexpr (lanes<T>::n == 4) {
        float f[4];
        unpack(v, f);
        return fmaxf(fmaxf(f[0], f[1]), fmaxf(f[2], f[3]));
    } else {
        using pair = typename std::conditional<std::is_same<T, __half>::value, __half2,
                                               __nv_bfloat162>::type;
        pair w[4];
        memcpy(w, &v, sizeof v);
        const pair m = __hmax2(__hmax2(w[0], w[1]), __hmax2(w[2], w[3]));
        unsigned   bits;
        memcpy(&bits, &m, sizeof bits);
        const float2 f = widen(bits, T());
        return fmaxf(f.x, f.y);
    }
}

} // namespace

#endif
