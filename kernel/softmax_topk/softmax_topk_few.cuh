/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_few.cuh - few rows, each by a cluster of large blocks that have it in shared memory.
 *
 * All logits of a block's share are sent for at once. Of the largest logit of each thread the block
 * takes the k-th: at least k logits reach that, and seldom many more. Where there are too many, it
 * searches all logits of its share, by value and among equals by index. So every block leaves
 * between k and kept_of(k) keys in the list of the cluster's first block, which searches those once
 * more and puts them in order. No block waits for another but once. The code is short, since a
 * single row takes hardly longer than to fetch it. */
#ifndef TS_SOFTMAX_TOPK_FEW_CUH
#define TS_SOFTMAX_TOPK_FEW_CUH

#include <cooperative_groups.h>

#include "softmax_topk_sum.cuh"

namespace
{

enum { FEW_THREADS = 1024, FEW_SHARES = 16, FEW_BLOCKS = 128, FEW_BYTES = 224 << 10 };

struct few_state {
    meeting  at;
    partial  warp[FEW_THREADS / 32], share[FEW_SHARES];
    unsigned n_list, n_kept;
};

/* The vectors of a share: those of a thread are FEW_THREADS apart. */
template <class T> struct few_share {
    row_view<T> r;
    int         begin, n; /* of the row's vectors */
    uint4      *data;

    __device__ __forceinline__ few_share(const topk_params &p, int64_t row, int share)
        : r(p, row), data(memory)
    {
        const int all = r.n_vectors();
        begin = (int)((int64_t)all * share / p.n_shares);
        n = (int)((int64_t)all * (share + 1) / p.n_shares) - begin;
    }
    /* Vectors that have places before or behind the row are not copied as they are. */
    __device__ __forceinline__ void fetch(void) const
    {
        const int whole = (int)(r.size / lanes<T>::n);
        for (int i = (int)threadIdx.x; i < n; i += FEW_THREADS) {
            const int at = begin + i;
            if ((at > 0 || r.lead == 0) && at < whole)
                copy_ahead(data + i, (const uint4 *)r.base + at);
            else data[i] = ragged(r, at);
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
    }
    /* Calls meet(x, key) for each of the thread's places; those that are no logits are -inf. What
     * is not looked for has key 0. */
    template <class MEET> __device__ __forceinline__ void each(const MEET &meet) const
    {
        constexpr int E = lanes<T>::n;
        for (int i = (int)threadIdx.x; i < n; i += FEW_THREADS) {
            float x[E];
            unpack_as<T>(data[i], x);
#pragma unroll
            for (int e = 0; e < E; e++) {
                const unsigned index = (unsigned)((begin + i) * E + e) - r.lead;
                meet(x[e], x[e] > -INFINITY ? key_of(x[e], index) : 0);
            }
        }
    }
};

/* Of the share's keys, as search() wants it. */
template <class T> struct few_count {
    const few_share<T> &of;

    __device__ __forceinline__ void operator()(const topk_key (&from)[3], unsigned (&n)[3]) const
    {
        of.each([&](float, topk_key key) {
#pragma unroll
            for (int q = 0; q < 3; q++) n[q] += key >= from[q];
        });
    }
};

struct top_count {
    float top;

    __device__ __forceinline__ void operator()(const unsigned (&from)[3], unsigned (&n)[3]) const
    {
#pragma unroll
        for (int q = 0; q < 3; q++) n[q] += ordered_of(top) >= from[q];
    }
};

struct list_count {
    const topk_key *list;
    int             n;

    __device__ __forceinline__ void operator()(const topk_key (&from)[3],
                                               unsigned (&count)[3]) const
    {
        for (int i = (int)threadIdx.x; i < n; i += FEW_THREADS)
#pragma unroll
            for (int q = 0; q < 3; q++) count[q] += list[i] >= from[q];
    }
};

/* How many of the share's finite logits reach a key. All the block's threads come here. */
template <class T>
__device__ __noinline__ unsigned few_reach(few_share<T> mine, topk_key floor, few_state *sh)
{
    unsigned n = 0;
    mine.each([&](float, topk_key key) { n += key >= floor; });
    n = __reduce_add_sync(ALL, n);
    __syncthreads(); /* what was there has been read */
    if (lane() == 0) sh->at.count[warp()] = n;
    __syncthreads();
    return __reduce_add_sync(ALL, lane() < n_warps() ? sh->at.count[lane()] : 0);
}

/* A key that at least k finite logits of the share reach, if there are so many, and at most `room`
 * do. top: the largest of the thread's. */
template <class T>
__device__ __forceinline__ topk_key few_floor(const few_share<T> &mine, float top, unsigned k,
                                              unsigned room, few_state *sh)
{
    const block_team team = { &sh->at };
    topk_key         floor = LEAST_FLOOR;
    const bool       finite = top > -INFINITY;
    if ((unsigned)__syncthreads_count(finite) >= k) {
        const range<unsigned> r = { ordered_of(finite ? top : INFINITY), ordered_of(top) };
        range<unsigned>       all = team.bounds(r);
        all.low = max(all.low, (unsigned)(LEAST_FLOOR >> 32));
        floor = (topk_key)search(team, all, k, k + k / 8 + 4, top_count { top }) << 32;
    }
    if (few_reach(mine, floor, sh) <= room) return floor;
    const unsigned        high = ordered_of(top);
    const range<topk_key> r = { floor, (topk_key)high << 32 | ALL };
    return search(team, team.bounds(r), k, room, few_count<T> { mine });
}

/* The list has `room` places for each share; 0: none. */
template <class T>
__global__ void __launch_bounds__(FEW_THREADS, 1)
    softmax_topk_few(const __grid_constant__ topk_params p)
{
    __shared__ few_state              sh;
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    const int                         rank = (int)cluster.block_rank();
    const int                         row = (int)blockIdx.x / p.n_shares;
    const unsigned     k = (unsigned)p.k, least_k = k ? k : 1, room = kept_of(least_k);
    const few_share<T> mine(p, row, rank);
    topk_key *const    list = (topk_key *)(memory + p.capacity);
    cluster.barrier_arrive();
    if (threadIdx.x == 0) sh.n_list = sh.n_kept = 0;
    mine.fetch();
    running sums = { -INFINITY, 0, 0, false };
    float   top = -INFINITY;
    mine.each([&](float x, topk_key) { top = fmaxf(top, x); });
    sums.meet(top, p.scale);
    mine.each([&](float x, topk_key) {
        sums.s +=
            sums.far ? exp2_of((x - sums.m) * p.scale) : exp2_of(fmaf(x, p.scale, -sums.base));
    });
    const partial  own = block_partial({ sums.m, sums.relative_to_m(p.scale) }, p.scale, sh.warp);
    const topk_key floor = few_floor(mine, top, least_k, room, &sh);
    topk_key      *to = cluster.map_shared_rank(list, 0) + (unsigned)rank * room;
    cluster.barrier_wait(); /* all blocks are there */
    mine.each([&](float, topk_key key) {
        if (key >= floor) to[atomicAdd(&sh.n_list, 1u)] = key;
    });
    __syncthreads();
    for (unsigned i = sh.n_list + threadIdx.x; i < room; i += FEW_THREADS) to[i] = 0;
    if (threadIdx.x == 0) cluster.map_shared_rank(&sh, 0)->share[rank] = own;
    cluster.barrier_arrive();
    if (rank) return;
    cluster.barrier_wait();

    const int        n = (int)room * p.n_shares;
    const list_count of = { list, n };
    const block_team team = { &sh.at };
    topk_key        *kept = list + n, last = LEAST_FLOOR;
    range<topk_key>  r = { ~0ull, 0 };
    partial          all = { -INFINITY, 0 };
    for (int s = 0; s < p.n_shares; s++) all.m = fmaxf(all.m, sh.share[s].m);
    for (int s = 0; s < p.n_shares; s++) all.s += rescaled(sh.share[s], all.m, p.scale);
    unsigned there = 0;
    for (int i = (int)threadIdx.x; i < n; i += FEW_THREADS) {
        if (!list[i]) continue;
        r.low = min(r.low, list[i]), r.high = max(r.high, list[i]);
        there++;
    }
    r = team.bounds(r);
    there = __reduce_add_sync(ALL, there);
    if (lane() == 0) sh.at.count[warp()] = there;
    __syncthreads();
    there = __reduce_add_sync(ALL, lane() < n_warps() ? sh.at.count[lane()] : 0);
    if (there > room) last = search(team, r, least_k, room, of);
    for (int i = (int)threadIdx.x; i < n; i += FEW_THREADS)
        if (list[i] >= last) kept[atomicAdd(&sh.n_kept, 1u)] = list[i];
    __syncthreads();
    const int  n_kept = (int)sh.n_kept;
    const bool sick = !(all.s >= 0); /* a NaN or +inf made the sum NaN */
    int32_t   *index = p.index + row * p.k;
    float     *prob = p.prob + row * p.k;
    if (threadIdx.x == 0 && p.lse) p.lse[row] = lse_of(all, p.inv_temperature);
    rank_keys(kept, n_kept, (int)k, kept + room, &sh.at, [&](topk_key key, int j) {
        index[j] = sick ? -1 : (int32_t)index_of(key);
        prob[j] = prob_of(logit_of(key), all, p.inv_temperature);
    });
    if (n_kept < (int)k || sick) {
        __syncthreads();
        fill_rest<T>(p, row, min(n_kept, (int)k), sick, sh.at.count);
    }
}

/* Bytes of a block: its share, the list, what is kept of it, and room to put that in order. */
template <class T> size_t few_bytes(const topk_params &p)
{
    const size_t room = kept_of(p.k ? (unsigned)p.k : 1u);
    return (size_t)p.capacity * sizeof(uint4) +
           (room * ((size_t)p.n_shares + 2) + BINS / 2) * sizeof(topk_key);
}

/* Whether such a cluster can take a row, of at most 128 blocks at once; and then how. */
template <class T> bool fit_few(topk_params *p)
{
    const int64_t vectors = p->n_vocab / lanes<T>::n + 2;
    p->n_shares = FEW_SHARES;
    while (p->n_shares > 1 && (p->n_rows * p->n_shares > FEW_BLOCKS ||
                               vectors <= (int64_t)p->n_shares / 2 * FEW_THREADS))
        p->n_shares /= 2;
    for (;; p->n_shares *= 2) {
        if (p->n_shares > FEW_SHARES || p->n_rows * p->n_shares > 2 * FEW_BLOCKS) return false;
        p->capacity = (int)((vectors + p->n_shares - 1) / p->n_shares);
        if (few_bytes<T>(*p) <= FEW_BYTES) return true;
    }
}

template <class T> ts_status launch_few(const topk_params &p, cudaStream_t s)
{
    const size_t        n_bytes = few_bytes<T>(p);
    cudaLaunchConfig_t  config = {};
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = (unsigned)p.n_shares;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.gridDim = dim3((unsigned)(p.n_rows * p.n_shares));
    config.blockDim = dim3(FEW_THREADS);
    config.dynamicSmemBytes = n_bytes;
    config.stream = s;
    config.attrs = &cluster;
    config.numAttrs = 1;
    cudaFuncSetAttribute(softmax_topk_few<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)n_bytes);
    if (p.n_shares > 8) /* larger than every device promises */
        cudaFuncSetAttribute(softmax_topk_few<T>, cudaFuncAttributeNonPortableClusterSizeAllowed,
                             1);
    cudaLaunchKernelEx(&config, softmax_topk_few<T>, p);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

} // namespace

#endif
