/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_select.cuh - keys, and what a block does with a pile of them in shared memory.
 *
 * A key is a logit and its index in 64 bits that compare as the canonical order does: larger logit
 * first, lower index first among equal ones. No two entries of a row have the same key, and none
 * is 0, which stands for no entry. */
#ifndef TS_SOFTMAX_TOPK_SELECT_CUH
#define TS_SOFTMAX_TOPK_SELECT_CUH

#include <stdint.h>

enum { MOST_WARPS = 16, BINS = 1024 };

typedef unsigned long long topk_key;

static __device__ __forceinline__ int n_threads(void)
{
    return (int)blockDim.x;
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

struct pile {
    unsigned count; /* keys that lie in it */
    unsigned found; /* by one warp, for all */
    topk_key least[MOST_WARPS], most[MOST_WARPS];
    unsigned tally[3][3]; /* of three steps in turn: one is filled, one read, one cleared */
};

struct key_range {
    topk_key low, high;
};

/* The least and the most of all threads' keys. */
static __device__ __forceinline__ key_range bounds(topk_key least, topk_key most, pile *p)
{
    constexpr unsigned ALL = 0xffffffffu;
    const unsigned     low = __reduce_min_sync(ALL, (unsigned)(least >> 32));
    const unsigned     high = __reduce_max_sync(ALL, (unsigned)(most >> 32));
    const unsigned     under = (unsigned)(least >> 32) == low ? (unsigned)least : ALL;
    const unsigned     over = (unsigned)(most >> 32) == high ? (unsigned)most : 0;
    const topk_key     l = (topk_key)low << 32 | __reduce_min_sync(ALL, under);
    const topk_key     h = (topk_key)high << 32 | __reduce_max_sync(ALL, over);
    __syncthreads(); /* what was there has been read */
    if (threadIdx.x % 32 == 0) p->least[threadIdx.x / 32] = l, p->most[threadIdx.x / 32] = h;
    if (threadIdx.x < 3) p->tally[0][threadIdx.x] = 0;
    __syncthreads();
    key_range r = { p->least[0], p->most[0] };
    for (int w = 1; w < n_threads() / 32; w++)
        r.low = min(r.low, p->least[w]), r.high = max(r.high, p->most[w]);
    return r;
}

/* Of n keys, more than at_most: one such that at least `want` and at most `at_most` are not below
 * it. Quarters the range at each step: the upper half of a key is its value, so values are told
 * apart first and indices only among equals. A histogram would need fewer steps, but its atomics
 * queue up, for logits share few exponents. 0 is the only key that may be there more than once; it
 * is returned if fewer than `want` others are. */
static __device__ __noinline__ topk_key select_key(const topk_key *keys, int n, unsigned want,
                                                   unsigned at_most, pile *p)
{
    topk_key least = ~0ull, most = 0;
    for (int i = threadIdx.x; i < n; i += n_threads()) {
        const topk_key key = keys[i];
        least = min(least, key), most = max(most, key);
    }
    /* As many keys as there are threads reach the smallest of the threads' largest. */
    const bool all_see = n >= n_threads() && (int)want <= n_threads();
    key_range  r = bounds(all_see ? most : least, most, p);
    for (int turn = 0; r.low < r.high; turn++) {
        const topk_key middle = r.high - (r.high - r.low) / 2;
        const topk_key from[3] = { middle - (middle - r.low) / 2, middle,
                                   r.high - (r.high - middle) / 2 };
        unsigned      *tally = p->tally[turn % 3], own[3] = { 0, 0, 0 };
        for (int i = threadIdx.x; i < n; i += n_threads())
#pragma unroll
            for (int q = 0; q < 3; q++) own[q] += keys[i] >= from[q];
        if (threadIdx.x < 3) p->tally[(turn + 1) % 3][threadIdx.x] = 0;
#pragma unroll
        for (int q = 0; q < 3; q++) {
            const unsigned c = __reduce_add_sync(0xffffffffu, own[q]);
            if (threadIdx.x % 32 == 0) atomicAdd(tally + q, c);
        }
        __syncthreads();
        int q = 2; /* the highest that enough keys reach */
        while (q >= 0 && tally[q] < want) q--;
        if (q >= 0 && tally[q] <= at_most) return from[q];
        if (q < 2) r.high = from[q + 1] - 1;
        if (q >= 0) r.low = from[q];
    }
    return r.low;
}

/* Keeps the keys that are not below `floor`, at the front of the pile. */
static __device__ void keep_from(topk_key floor, topk_key *keys, int n, pile *p)
{
    constexpr int PER_THREAD = 4;
    __syncthreads();
    if (threadIdx.x == 0) p->count = 0;
    for (int begin = 0; begin < n; begin += PER_THREAD * n_threads()) {
        topk_key mine[PER_THREAD];
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++) {
            const int at = begin + i * n_threads() + threadIdx.x;
            mine[i] = at < n ? keys[at] : 0;
        }
        __syncthreads(); /* what is written from here on lies where all have read */
#pragma unroll
        for (int i = 0; i < PER_THREAD; i++)
            if (mine[i] && mine[i] >= floor) keys[atomicAdd(&p->count, 1u)] = mine[i];
    }
    __syncthreads();
}

/* ---- order ---- */

/* Where the keys of each bin begin once they lie in order, the largest first. */
static __device__ void begin_bins(unsigned *bins, pile *p)
{
    const int per = BINS / n_threads();
    unsigned *own = bins + threadIdx.x * per, sum = 0, upto;
    for (int i = 0; i < per; i++) sum += own[i];
    upto = sum;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(0xffffffffu, upto, d);
        if (threadIdx.x % 32 >= (unsigned)d) upto += other;
    }
    if (threadIdx.x % 32 == 31) p->least[threadIdx.x / 32] = upto;
    __syncthreads();
    unsigned begin = upto - sum;
    for (unsigned w = 0; w < threadIdx.x / 32; w++) begin += (unsigned)p->least[w];
    for (int i = 0; i < per; i++) {
        const unsigned n = own[i];
        own[i] = begin;
        begin += n;
    }
    __syncthreads();
}

/* Leaves at most `at_most` keys, the k largest among them; returns how many. */
static __device__ int cut_pile(topk_key *keys, unsigned k, unsigned at_most, pile *p)
{
    const int n = (int)p->count;
    if (n <= (int)at_most) return n;
    const topk_key floor = select_key(keys, n, k, at_most, p);
    keep_from(floor, keys, n, p);
    return (int)p->count;
}

/* Sorts the k largest keys to the end of the pile, which has room for `capacity`; fewer if there
 * are not so many: returns how many it had to look at. Keys are dealt into bins by value, or by
 * index where they are equal, and ranked inside their bin. */
static __device__ int sort_top(topk_key *keys, int k, int capacity, pile *p)
{
    const int n = cut_pile(keys, (unsigned)k, (unsigned)(capacity - BINS / 2 - k) / 2, p);
    topk_key *dealt = keys + n, *sorted = keys + capacity - k;
    unsigned *bins = (unsigned *)(dealt + n);
    topk_key  least = ~0ull, most = 0;
    for (int i = threadIdx.x; i < n; i += n_threads())
        least = min(least, keys[i]), most = max(most, keys[i]);
    for (int i = threadIdx.x; i < BINS; i += n_threads()) bins[i] = 0;
    const key_range r = bounds(least, most, p);
    const int       shift = max(0, 64 - __clzll((long long)(r.high - r.low)) - 10);
    for (int i = threadIdx.x; i < n; i += n_threads())
        atomicAdd(&bins[(r.high - keys[i]) >> shift], 1u);
    __syncthreads();
    begin_bins(bins, p);
    for (int i = threadIdx.x; i < n; i += n_threads())
        dealt[atomicAdd(&bins[(r.high - keys[i]) >> shift], 1u)] = keys[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n;
         i += n_threads()) { /* a bin now begins where its left one ends */
        const topk_key key = dealt[i];
        const unsigned bin = (unsigned)((r.high - key) >> shift);
        const int      begin = bin ? (int)bins[bin - 1] : 0, end = (int)bins[bin];
        int            rank = begin;
        for (int j = begin; j < end && begin < k; j++) rank += dealt[j] > key;
        if (rank < k) sorted[rank] = key;
    }
    __syncthreads();
    return n;
}

#endif
