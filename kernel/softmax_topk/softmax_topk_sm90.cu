/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_sm90.cu - softmax + top-k with one read of the logits.
 *
 * A block, or a cluster of blocks, takes a row. Each of its warps streams chunks of it
 * independently, four vectors of 16 bytes per lane, with the next chunks on their way to shared
 * memory. Of each chunk a lane adds exp(z - m) to its own running sum, m being its own running
 * maximum, and the warp appends the logits that may be among the k largest to its candidate buffer.
 * Warps exchange thresholds a few times per row. At the end of the row their buffers are reduced to
 * k together and sorted; only then are probabilities computed. */
#include <cooperative_groups.h>
#include <float.h>
#include <limits.h>

extern "C" {
#include "touchstone/softmax_topk.h"
}

#include "softmax_topk_many.cuh"
#include "softmax_topk_pile.cuh"

namespace cg = cooperative_groups;

namespace
{

struct shared_state {
    meeting  at;
    partial  warp[MOST_WARPS], share[SHARES];
    topk_key last;      /* the smallest one that was given out */
    unsigned n_list[4]; /* keys in the list, at first and if there were too many; of the cluster,
                           likewise */
    unsigned n_share[SHARES];
    topk_key highest; /* see softmax_topk_pile.cuh */
};

/* ---- one chunk ---- */

/* What was given out in an earlier pass becomes NaN, which is never piled up. */
template <class T>
__device__ __forceinline__ void forget(uint4 (&raw)[VECTORS], uint4 *here, int chunk,
                                       const row_view<T> &r, topk_key given_out)
{
    constexpr int E = lanes<T>::n;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        float x[E];
        unpack_as<T>(raw[v], x);
#pragma unroll
        for (int e = 0; e < E; e++) {
            const unsigned place = (unsigned)(chunk * CHUNK + v * 32 + lane()) * E + e;
            if (key_of(x[e], place - r.lead) >= given_out) x[e] = NAN;
        }
        here[v * 32 + lane()] = raw[v] = pack_as<T>(x);
    }
}

/* Layout of a block's shared memory: every warp's chunks, every warp's buffer, the list. */
struct places {
    uint4    *ring; /* this warp's chunks */
    topk_key *piles, *list;

    __device__ __forceinline__ places(const topk_params &p)
        : ring(memory + warp() * (STAGES * CHUNK)), piles((topk_key *)memory + first_pile()),
          list(piles + n_warps() * p.capacity)
    {
    }
    static __device__ __forceinline__ int first_pile(void)
    {
        return n_warps() * (STAGES * CHUNK) * (int)(sizeof(uint4) / sizeof(topk_key));
    }
};

/* What a block does of a row. */
template <class T> struct share_of_row {
    row_view<T> r;
    chunk_walk  walk;             /* to the chunks that have not been sent for */
    int         sent[STAGES - 1]; /* those that have been, the oldest first; -1: none */

    __device__ __forceinline__ share_of_row(const topk_params &p, int64_t row, int share)
        : share_of_row(p, row_view<T>(p, row), share)
    {
    }
    __device__ __forceinline__ share_of_row(const topk_params &p, row_view<T> r_, int share)
        : r(r_), walk(walk_of(p, r_, share))
    {
    }
    static __device__ __forceinline__ chunk_walk walk_of(const topk_params &p, row_view<T> r,
                                                         int share)
    {
        const int64_t n = r.n_chunks();
        if (p.n_shares == 1) return chunk_walk(0, (int)n);
        return chunk_walk((int)(n * share / p.n_shares), (int)(n * (share + 1) / p.n_shares));
    }
    /* Sends for the first chunks, all but one of those there is room for. */
    __device__ __forceinline__ void begin(uint4 *ring)
    {
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) {
            sent[s] = walk.next();
            fetch<T>(ring + s * CHUNK, r, sent[s]);
        }
    }
    /* Sends for one more. Returns the oldest one, which is no longer counted. */
    __device__ __forceinline__ int go_on(uint4 *to)
    {
        const int oldest = sent[0];
#pragma unroll
        for (int s = 0; s + 1 < STAGES - 1; s++) sent[s] = sent[s + 1];
        sent[STAGES - 2] = walk.next();
        fetch<T>(to, r, sent[STAGES - 2]);
        return oldest;
    }
};

/* The share of a row whose first chunks are on their way. AGAIN: a later pass, which sums nothing
 * and passes over what is not below `given_out`. */
template <class T, bool AGAIN>
__device__ __forceinline__ partial scan(const topk_params &p, share_of_row<T> mine, unsigned k,
                                        topk_key given_out, const places &in, pile *own,
                                        shared_state *sh)
{
    const int  n_rounds = mine.walk.n_rounds();
    const bool by_tops = !AGAIN && tops_suffice(k, n_threads());
    running    sums = { -INFINITY, 0, 0, false };
    tops       top;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) top.of[v] = -INFINITY;
    own->count = 0;
    own->floor = LEAST_FLOOR;
    if (threadIdx.x < 4) sh->n_list[threadIdx.x] = 0;
    if (threadIdx.x == 0) sh->highest = 0;
    if (by_tops) { /* what has come is looked through first: a better floor spares a great deal */
        wait_for_all();
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++) {
            const int chunk = mine.sent[s];
            uint4    *here = in.ring + s * CHUNK;
            if (chunk >= 0 && !mine.r.is_whole(chunk)) clean_edge(here, mine.r, chunk);
            if (chunk >= 0) top.meet<T>(here);
        }
    }
    for (int i = 0;;) {
        const int raise =
            by_tops ? 3 * i + 8 : 2 * i + 2; /* the round before which it is done next */
        const int until = min(n_rounds, raise);
        if (by_tops) own->floor = max(own->floor, floor_of_tops(top, k, &sh->at));
        else if (i) own->floor = max(own->floor, floor_of_piles(*own, k, &sh->at));
        else __syncthreads(); /* n_list are 0 */
        if (!by_tops) keep_from_floor(own);
        if (i == n_rounds) break;
        for (; i < until; i++) {
            const int chunk = mine.go_on(in.ring + (i + STAGES - 1) % STAGES * CHUNK);
            uint4    *here = in.ring + i % STAGES * CHUNK;
            wait_for_oldest();
            if (chunk < 0) continue;
            if (!mine.r.is_whole(chunk)) clean_edge(here, mine.r, chunk);
            uint4 raw[VECTORS];
            float c = -INFINITY;
#pragma unroll
            for (int v = 0; v < VECTORS; v++) raw[v] = here[v * 32 + lane()];
            if constexpr (AGAIN) forget<T>(raw, here, chunk, mine.r, given_out);
#pragma unroll
            for (int v = 0; v < VECTORS; v++) {
                const float m = largest<T>(raw[v]);
                c = fmaxf(c, m);
                top.of[v] = fmaxf(top.of[v], m);
            }
            pile_up<T>(own, raw, c, here, mine.r, chunk, k, &sh->highest);
            if constexpr (!AGAIN) {
                sums.meet(c, p.scale);
                sums.add<T>(raw, p.scale);
            }
        }
    }
    return { sums.m, sums.relative_to_m(p.scale) };
}

/* ---- the row's end ---- */

/* The places of the row from `first` on, k of them, from n keys of the list. Returns whether they
 * were filled, so that there may be more. */
template <class T>
__device__ __noinline__ bool give_out(const topk_params &p, int64_t row, int64_t first, unsigned k,
                                      partial all, const topk_key *list, int n, topk_key *scratch,
                                      shared_state *sh)
{
    const bool nonfinite = !(all.s >= 0); /* a NaN or +inf made the sum NaN */
    int32_t   *index = p.index + row * p.k + first;
    float     *prob = p.prob + row * p.k + first;
    rank_keys(list, n, (int)k, scratch, &sh->at, [&](topk_key key, int j) {
        index[j] = nonfinite ? -1 : (int32_t)index_of(key);
        prob[j] = prob_of(logit_of(key), all, p.inv_temperature);
        if (j == (int)k - 1) sh->last = key;
    });
    __syncthreads();
    if (n >= (int)k && !nonfinite) return true;
    fill_rest<T>(p, row, first + min(n, (int)k), nonfinite, sh->at.count);
    return false;
}

/* The shares of a row come together in its first block: partials, and k keys or more from each, of
 * which there are n here. */
__device__ partial gather(partial own, int n, float scale, topk_key *list, shared_state *sh)
{
    cg::cluster_group cluster = cg::this_cluster();
    const int         rank = (int)cluster.block_rank(), n_shares = (int)cluster.num_blocks();
    shared_state     *first = cluster.map_shared_rank(sh, 0);
    topk_key         *first_list = cluster.map_shared_rank(list, 0);
    cluster.barrier_wait(); /* all are there, see the kernel */
    if (threadIdx.x == 0) { /* each in its own place, so that no block waits for an atomic */
        first->share[rank] = own;
        first->n_share[rank] = (unsigned)n;
    }
    cluster.sync();
    unsigned begin = 0;
    for (int s = 0; s < rank; s++) begin += first->n_share[s];
    if (rank)
        for (int i = threadIdx.x; i < n; i += n_threads()) first_list[begin + i] = list[i];
    cluster.sync();
    if (rank) return own;
    partial all = own;
    for (int s = 1; s < n_shares; s++) all.m = fmaxf(all.m, sh->share[s].m);
    all.s = rescaled(own, all.m, scale);
    for (int s = 1; s < n_shares; s++) all.s += rescaled(sh->share[s], all.m, scale);
    return all;
}

/* The merged keys are divided among the warps' buffers, and reduced once more. */
__device__ int collect_again(unsigned k, const places &in, shared_state *sh)
{
    unsigned n = 0;
    for (int s = 0; s < (int)cg::this_cluster().num_blocks(); s++) n += sh->n_share[s];
    const int begin = (int)n * warp() / n_warps(), end = (int)n * (warp() + 1) / n_warps();
    const int list = (int)(in.list - (topk_key *)memory);
    pile      part = { list + begin, end - begin, end - begin, LEAST_FLOOR };
    return collect(part, k, in.piles, sh->n_list + 2, &sh->at);
}

/* How a row is processed: by one block, small or large, by a cluster of large ones, or by one block
 * in several passes, for a k that is too large for one pass. */
enum way { ALONE, WIDE, SHARED, PASSES };

constexpr bool is_large(way w)
{
    return w == WIDE || w == SHARED;
}

enum { SMALL_BLOCK = 128, LARGE_BLOCK = 256 };

/* The places from MOST_K on, as many at a time. */
template <class T>
__device__ void give_out_rest(const topk_params &p, int64_t row, const row_view<T> &r, partial all,
                              const places &in, pile *own, shared_state *sh)
{
    int64_t first = MOST_K;
    for (bool more = true; more && first < p.k; first += MOST_K) {
        const unsigned  now = (unsigned)(p.k - first < MOST_K ? p.k - first : MOST_K);
        share_of_row<T> mine(p, r, 0);
        mine.begin(in.ring);
        scan<T, true>(p, mine, now, sh->last, in, own, sh);
        const int n = collect(*own, now, in.list, sh->n_list, &sh->at);
        more = give_out<T>(p, row, first, now, all, in.list, n, in.piles, sh);
    }
}

/* One row a block, or a cluster; as soon as one is done the device puts the next one in its place.
 */
template <class T, way WAY>
__global__ void __launch_bounds__(is_large(WAY) ? LARGE_BLOCK : SMALL_BLOCK, is_large(WAY)   ? 2
                                                                             : WAY == PASSES ? 3
                                                                                             : 5)
    softmax_topk(const __grid_constant__ topk_params p)
{
    __shared__ shared_state sh;
    const places            in(p);
    const int               share = WAY == SHARED ? (int)(blockIdx.x % p.n_shares) : 0;
    const int               row = (int)blockIdx.x / (WAY == SHARED ? p.n_shares : 1);
    const unsigned          k = WAY == PASSES ? MOST_K : (unsigned)p.k, least_k = k ? k : 1;
    pile                    own = { places::first_pile() + warp() * p.capacity, 0, p.capacity, 0 };
    share_of_row<T>         mine(p, row, share);
    mine.begin(in.ring);
    if (WAY == SHARED) cg::this_cluster().barrier_arrive();
    partial all = scan<T, false>(p, mine, least_k, 0, in, &own, &sh);
    all = block_partial(all, p.scale, sh.warp);
    int n = collect(own, least_k, in.list, sh.n_list, &sh.at);
    if (WAY == SHARED) {
        all = gather(all, n, p.scale, in.list, &sh);
        if (share) return;
        n = collect_again(least_k, in, &sh);
    }
    if (threadIdx.x == 0 && p.lse) p.lse[row] = lse_of(all, p.inv_temperature);
    const bool more = give_out<T>(p, row, 0, k, all, WAY == SHARED ? in.piles : in.list, n,
                                  in.piles + (WAY == SHARED ? n : 0), &sh);
    if (WAY == PASSES && more) give_out_rest<T>(p, row, mine.r, all, in, &own, &sh);
}

/* ---- choice ---- */

size_t shared_bytes(const topk_params &p)
{
    return p.n_threads / 32 * (STAGES * CHUNK * sizeof(uint4)) +
           (p.n_threads / 32 * p.capacity + p.n_list) * sizeof(topk_key);
}

template <class T, way WAY> ts_status launch(const topk_params &p, cudaStream_t s)
{
    const auto   kernel = softmax_topk<T, WAY>;
    const size_t n_bytes = shared_bytes(p);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(p.n_rows * p.n_shares));
    config.blockDim = dim3((unsigned)p.n_threads);
    config.dynamicSmemBytes = n_bytes;
    config.stream = s;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = (unsigned)p.n_shares;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = WAY == SHARED ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, p);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

/* Two blocks a multiprocessor where there are rows enough for that. */
template <class T> ts_status launch_many(topk_params p, cudaStream_t s)
{
    p.capacity = many_capacity(p.k);
    p.n_threads = p.n_rows > n_multiprocessors() ? MANY_THREADS / 2 : MANY_THREADS;
    const size_t n_bytes = (size_t)p.capacity * sizeof(topk_key) + CUT_BINS * sizeof(unsigned);
    cudaFuncSetAttribute(softmax_topk_many<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         (int)n_bytes);
    softmax_topk_many<T><<<(unsigned)p.n_rows, (unsigned)p.n_threads, n_bytes, s>>>(p);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

/* Few rows: clusters of large blocks, and at most two shares if those are over 128 in all, or 96 if
 * a multiprocessor has room for one: not many more clusters fit side by side. More rows: a large
 * block per row, as long as all of them are resident at once; else a small one. The fewer keys a
 * candidate buffer holds, the more warps run side by side. With k = 0 blocks search for one key. */
template <class T> ts_status launch(topk_params p, cudaStream_t s)
{
    if (p.k > MOST_K && p.k <= MOST_MANY) return launch_many<T>(p, s);
    const int     k = p.k < MOST_K ? (int)p.k : MOST_K, kept = (int)kept_of(k ? (unsigned)k : 1u);
    const int64_t room = (int64_t)n_multiprocessors() * (k <= 256 ? 2 : 1); /* large blocks */
    const int     most_blocks = k <= 256 ? 128 : 96, most_listed = k <= 256 ? INT_MAX : 8192;
    way           w = p.k > MOST_K ? PASSES : p.n_rows > room ? ALONE : WIDE;
    p.n_shares = 1;
    p.capacity = k <= 64 ? 256 : k <= 256 ? 512 : 1536;
    if (w == WIDE && p.n_rows * 2 <= room) {
        w = SHARED, p.n_shares = 2;
        while (p.n_shares < SHARES && p.n_rows * p.n_shares * 2 <= most_blocks &&
               kept * p.n_shares * 2 <= most_listed)
            p.n_shares *= 2;
    }
    p.n_threads = is_large(w) ? LARGE_BLOCK : SMALL_BLOCK;
    p.n_list = kept * p.n_shares;
    if (w == PASSES) return launch<T, PASSES>(p, s);
    if (w == SHARED) return launch<T, SHARED>(p, s);
    return w == WIDE ? launch<T, WIDE>(p, s) : launch<T, ALONE>(p, s);
}

/* Rows without elements. Their logits may be anywhere, and the other kernels prefetch around them.
 * */
__global__ void wordless_rows(const topk_params p)
{
    const int64_t n = p.n_rows * p.k, step = (int64_t)gridDim.x * blockDim.x;
    const int64_t first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    for (int64_t i = first; i < n; i += step) p.index[i] = -1, p.prob[i] = 0;
    for (int64_t i = first; p.lse && i < p.n_rows; i += step) p.lse[i] = -INFINITY;
}

} // namespace

extern "C" TS_API ts_status ts_softmax_topk_sm90(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = (const ts_softmax_topk_args *)args;
    const cudaStream_t          s = (cudaStream_t)x->stream;
    if (a->n_rows == 0) return TS_OK;
    if (a->n_rows > INT32_MAX / SHARES) return TS_E_UNSUPPORTED;
    topk_params p = {};
    p.n_rows = a->n_rows;
    p.row_stride = a->row_stride;
    p.k = a->k;
    p.n_vocab = (int)a->n_vocab;
    p.scale = (float)fmin(a->inv_temperature * 1.4426950408889634, (double)FLT_MAX);
    p.inv_temperature = a->inv_temperature;
    p.logits = a->logits;
    p.index = a->index;
    p.prob = a->prob;
    p.lse = a->lse;
    if (a->n_vocab == 0) {
        wordless_rows<<<n_multiprocessors(), 256, 0, s>>>(p);
        return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
    }
    if (a->dtype == TS_F32) return launch<float>(p, s);
    if (a->dtype == TS_BF16) return launch<__nv_bfloat16>(p, s);
    return launch<__half>(p, s);
}
