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

/* VECTORS of a chunk a lane has; STAGES, chunks a warp has in shared memory; MOST_K a pass over the
 * row finds; SHARES of a row at most. */
enum { VECTORS = 4, STAGES = 4, CHUNK = 32 * VECTORS, MOST_K = 1024, SHARES = 8 };

struct topk_params {
    int64_t n_rows, row_stride, k;
    int     n_vocab, n_shares;
    int     n_threads, capacity,
        n_list;        /* of a block; keys of a warp's candidate buffer; of the list */
    float       scale; /* inv_temperature * log2(e) */
    double      inv_temperature;
    const void *logits;
    int32_t    *index;
    float      *prob, *lse;
};

extern __shared__ uint4 memory[]; /* of a block */

template <class T> struct row_view {
    const T *base;                 /* on a 16-byte boundary */
    unsigned lead, size;           /* places before the first logit; places up to the last one */
    bool     came_before, goes_on; /* there are rows before it, and behind it */

    __device__ __forceinline__ row_view(const topk_params &p, int64_t row)
    {
        const T *first = (const T *)p.logits + row * p.row_stride;
        lead = (unsigned)((uintptr_t)first % 16 / sizeof(T));
        base = first - lead;
        size = lead + (unsigned)p.n_vocab;
        came_before = row > 0, goes_on = row + 1 < p.n_rows;
    }
    __device__ __forceinline__ int n_vectors(void) const
    {
        return (int)((size + lanes<T>::n - 1) / lanes<T>::n);
    }
    __device__ __forceinline__ int n_chunks(void) const
    {
        return (int)((size + CHUNK * lanes<T>::n - 1) / (CHUNK * lanes<T>::n));
    }
    /* Whether every place of a chunk is a logit. */
    __device__ __forceinline__ bool is_whole(int chunk) const
    {
        return chunk >= (lead > 0) && chunk < (int)(size / (CHUNK * lanes<T>::n));
    }
};

/* The chunks that one warp of a block's share of a row takes: every n_warps-th, in the order of
 * their numbers' reversed bits, which meets every part of the row early. What is sorted then has
 * few chunks that beat all before them. Each warp begins elsewhere. */
struct chunk_walk {
    int first, n, mine; /* of the share: where this warp's begin, how many there are, and its */
    int offset;
    unsigned turn;
    int      shift; /* a number of 32 - shift bits is each of them */

    __device__ __forceinline__ chunk_walk(int begin, int end)
        : first(begin + warp()), n(end - begin), mine((n - warp() + n_warps() - 1) / n_warps()),
          offset(warp() * mine / n_warps()), turn(0)
    {
        shift = mine > 2 ? __clz(mine - 1) : 31;
    }
    __device__ __forceinline__ int next(void) /* -1: there is none */
    {
        int at;
        do {
            if (turn >> (32 - shift)) return -1;
            at = (int)(__brev(turn++) >> shift);
        } while (at >= mine);
        at += offset;
        return first + n_warps() * (at < mine ? at : at - mine);
    }
    __device__ __forceinline__ int n_rounds(void) const
    {
        return (n + n_warps() - 1) / n_warps();
    }
};

__device__ __forceinline__ void copy_ahead(uint4 *to, const uint4 *from)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

/* A vector of which not all places are logits, and some may not even be memory of ours: those that
 * are no logits become -inf. */
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

/* A chunk at either end of the row. Not inlined: it runs twice per row. The other bytes of a
 * logit's 16-byte vector are read with it, which costs nothing, unless they are outside the tensor.
 * */
template <class T> __device__ __noinline__ void fetch_edge(uint4 *to, row_view<T> r, int chunk)
{
    const int whole = (int)(r.size / lanes<T>::n), some = r.n_vectors();
    for (int v = 0; v < VECTORS; v++) {
        const int at = chunk * CHUNK + v * 32 + lane();
        if ((at < whole || (at < some && r.goes_on)) && (at > 0 || r.lead == 0 || r.came_before))
            copy_ahead(to + v * 32 + lane(), (const uint4 *)r.base + at);
        else to[v * 32 + lane()] = ragged(r, at);
    }
}

/* What has come of it: places that are no logits become -inf. */
template <class T> __device__ __noinline__ void clean_edge(uint4 *chunk_, row_view<T> r, int chunk)
{
    constexpr int E = lanes<T>::n;
    for (int v = 0; v < VECTORS; v++) {
        const unsigned first = (unsigned)(chunk * CHUNK + v * 32 + lane()) * E;
        T             *x = (T *)(chunk_ + v * 32 + lane());
        if (first >= r.lead && first + E <= r.size) continue;
        for (unsigned e = 0; e < E; e++)
            if (first + e < r.lead || first + e >= r.size) from_float(x + e, -INFINITY);
    }
}

/* Until all chunks but the latest STAGES - 1 have come. A lane reads only what it sent for. */
__device__ __forceinline__ void wait_for_oldest(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
}

__device__ __forceinline__ void wait_for_all(void)
{
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/* Sends for the lane's own vectors of a chunk. */
template <class T> __device__ __forceinline__ void fetch(uint4 *to, const row_view<T> &r, int chunk)
{
    const uint4 *from = (const uint4 *)r.base + chunk * CHUNK + lane();
    if (r.is_whole(chunk)) {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) copy_ahead(to + v * 32 + lane(), from + v * 32);
    } else if (chunk >= 0) fetch_edge(to, r, chunk);
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
