/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_select.cuh - keys, and how a warp or a block finds the k largest of many.
 *
 * A key is a logit and its index in 64 bits that compare in the canonical order: larger logit
 * first, lower index first among equal ones. No two elements of a row have the same key, and none
 * has key 0, which means "no element". */
#ifndef TS_SOFTMAX_TOPK_SELECT_CUH
#define TS_SOFTMAX_TOPK_SELECT_CUH

#include <stdint.h>

enum { MOST_WARPS = 32, BINS = 1024, MOST_COMPARED = 256 };

constexpr unsigned ALL = 0xffffffffu; /* lanes of a warp */

typedef unsigned long long topk_key;

/* Below the key of every finite logit. Logits of -inf are not looked for: see fill_rest. */
constexpr topk_key LEAST_FLOOR = 0x00800000ull << 32;

/* Keys that are left at most, where the k largest are looked for. */
static __host__ __device__ __forceinline__ unsigned kept_of(unsigned k)
{
    return k + k / 4 + 16;
}

static __device__ __forceinline__ int n_threads(void)
{
    return (int)blockDim.x;
}

static __device__ __forceinline__ int n_warps(void)
{
    return (int)blockDim.x / 32;
}

static __device__ __forceinline__ int lane(void)
{
    return (int)threadIdx.x % 32;
}

static __device__ __forceinline__ int warp(void)
{
    return (int)threadIdx.x / 32;
}

static __device__ __forceinline__ unsigned ordered_of(float x)
{
    const unsigned b = __float_as_uint(x + 0.0f); /* -0 becomes +0 */
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

static __device__ __forceinline__ topk_key key_of(float x, unsigned index)
{
    return (topk_key)ordered_of(x) << 32 | ~index;
}

static __device__ __forceinline__ float logit_of(topk_key key)
{
    const unsigned ordered = (unsigned)(key >> 32);
    return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

static __device__ __forceinline__ unsigned index_of(topk_key key)
{
    return ~(unsigned)key;
}

/* ---- search ---- */

template <class K> struct range {
    K low, high;
};

/* The barrier of a block's warps. */
struct meeting {
    topk_key low[MOST_WARPS], high[MOST_WARPS];
    unsigned tally[3][3]; /* of three steps in turn: one is filled, one read, one cleared */
    unsigned count[MOST_WARPS];
};

/* The threads that search: one warp, without a barrier, or a whole block. */
struct warp_team {
    __device__ __forceinline__ range<unsigned> bounds(range<unsigned> r) const
    {
        return { __reduce_min_sync(ALL, r.low), __reduce_max_sync(ALL, r.high) };
    }
    __device__ __forceinline__ range<topk_key> bounds(range<topk_key> r) const
    {
        const range<unsigned> upper =
            bounds(range<unsigned> { (unsigned)(r.low >> 32), (unsigned)(r.high >> 32) });
        const range<unsigned> lower = bounds(
            range<unsigned> { (unsigned)(r.low >> 32) == upper.low ? (unsigned)r.low : ALL,
                              (unsigned)(r.high >> 32) == upper.high ? (unsigned)r.high : 0 });
        return { (topk_key)upper.low << 32 | lower.low, (topk_key)upper.high << 32 | lower.high };
    }
    __device__ __forceinline__ void sum(unsigned (&n)[3], int) const
    {
#pragma unroll
        for (int q = 0; q < 3; q++) n[q] = __reduce_add_sync(ALL, n[q]);
    }
};

struct block_team {
    meeting *at;

    template <class K> __device__ __forceinline__ range<K> bounds(range<K> r) const
    {
        r = warp_team().bounds(r);
        __syncthreads(); /* what was there has been read */
        if (lane() == 0) at->low[warp()] = r.low, at->high[warp()] = r.high;
        if (threadIdx.x < 3) at->tally[0][threadIdx.x] = 0;
        __syncthreads();
        if (lane() < n_warps()) r = { (K)at->low[lane()], (K)at->high[lane()] };
        return warp_team().bounds(r);
    }
    __device__ __forceinline__ void sum(unsigned (&n)[3], int turn) const
    {
        unsigned *tally = at->tally[turn % 3];
        if (threadIdx.x < 3) at->tally[(turn + 1) % 3][threadIdx.x] = 0;
        warp_team().sum(n, turn);
#pragma unroll
        for (int q = 0; q < 3; q++)
            if (lane() == q) atomicAdd(tally + q, n[q]);
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 3; q++) n[q] = tally[q];
    }
};

/* Of the team's keys, of which `count` tells how many are not below each of three: one such that at
 * least `want` and at most `most` are not below it; when too many are equal, one that at least
 * `want` reach. As many must reach r.low. Quarters the range at each step. The upper half of a key
 * is its value, so values are told apart first and indices only among equals. */
template <class TEAM, class K, class COUNT>
static __device__ __forceinline__ K search(const TEAM &team, range<K> r, unsigned want,
                                           unsigned most, const COUNT &count)
{
    for (int turn = 0; r.low < r.high; turn++) {
        const K middle = r.high - (r.high - r.low) / 2;
        const K from[3] = { middle - (middle - r.low) / 2, middle, r.high - (r.high - middle) / 2 };
        unsigned n[3] = { 0, 0, 0 };
        count(from, n);
        team.sum(n, turn);
        unsigned here = ALL; /* the highest of the three that enough reach takes the place of low */
#pragma unroll
        for (int q = 2; q >= 0; q--)
            if (n[q] < want) r.high = from[q] - 1;
#pragma unroll
        for (int q = 0; q < 3; q++)
            if (n[q] >= want) r.low = from[q], here = n[q];
        if (here <= most) return r.low;
    }
    return r.low;
}

/* ---- order ---- */

/* Where the keys of each bin begin once they lie in order, the largest first. */
static __device__ void begin_bins(unsigned *bins, meeting *m)
{
    const int per = BINS / n_threads();
    unsigned *own = bins + threadIdx.x * per, sum = 0, upto;
    for (int i = 0; i < per; i++) sum += own[i];
    upto = sum;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(ALL, upto, d);
        if (lane() >= d) upto += other;
    }
    if (lane() == 31) m->low[warp()] = upto;
    __syncthreads();
    unsigned begin = upto - sum;
    for (int w = 0; w < warp(); w++) begin += (unsigned)m->low[w];
    for (int i = 0; i < per; i++) {
        const unsigned n = own[i];
        own[i] = begin;
        begin += n;
    }
    __syncthreads();
}

/* Calls `take` for the k largest of n keys with the place of each. Few keys are compared with each
 * other; many are first sorted into bins, by value, or by index where they are equal, for which
 * `scratch` has room for n keys and the bins. */
template <class TAKE>
static __device__ __forceinline__ void rank_keys(const topk_key *list, int n, int k,
                                                 topk_key *scratch, meeting *m, const TAKE &take)
{
    if (n <= min(n_threads(), (int)MOST_COMPARED)) {
        if ((int)threadIdx.x >= n) return;
        const topk_key key = list[threadIdx.x];
        int            rank = 0;
#pragma unroll 4
        for (int j = 0; j < n; j++) rank += list[j] > key;
        if (rank < k) take(key, rank);
        return;
    }
    unsigned *bins = (unsigned *)(scratch + n);

    range<topk_key> r = { ~0ull, 0 };
    for (int i = threadIdx.x; i < n; i += n_threads())
        r.low = min(r.low, list[i]), r.high = max(r.high, list[i]);
    for (int i = threadIdx.x; i < BINS; i += n_threads()) bins[i] = 0;
    r = block_team { m }.bounds(r);
    const int shift = max(0, 64 - __clzll((long long)(r.high - r.low)) - 10);
    for (int i = threadIdx.x; i < n; i += n_threads())
        atomicAdd(&bins[(r.high - list[i]) >> shift], 1u);
    __syncthreads();
    begin_bins(bins, m);
    for (int i = threadIdx.x; i < n; i += n_threads())
        scratch[atomicAdd(&bins[(r.high - list[i]) >> shift], 1u)] = list[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += n_threads()) {
        const topk_key key = scratch[i];
        const unsigned bin = (unsigned)((r.high - key) >> shift);
        /* a bin now begins where its left one ends */
        const int begin = bin ? (int)bins[bin - 1] : 0, end = (int)bins[bin];
        int       rank = begin;
        for (int j = begin; j < end && begin < k; j++) rank += scratch[j] > key;
        if (rank < k) take(key, rank);
    }
}

#endif
