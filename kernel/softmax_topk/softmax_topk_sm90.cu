/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_sm90.cu - one read of the logits.
 *
 * A block streams its row, or a cluster of blocks its share each, a chunk at a time: four
 * vectors of 16 bytes a thread, with the next chunks on their way to shared memory. Of each chunk a
 * thread adds exp(z - m) to its own running sum, m being its own running maximum, and puts the
 * logits above the block's threshold on a pile in shared memory. The threshold is a value that k
 * entries met so far are known to reach. At the row's end the pile is cut down to k and sorted, and
 * only then probabilities are formed.
 */
#include <cooperative_groups.h>
#include <float.h>

#include "softmax_topk_pile.cuh"

extern "C" {
#include "touchstone/softmax_topk.h"
}

namespace cg = cooperative_groups;

namespace
{

struct partial {
    float m, s; /* maximum, and sum of 2^(scale (x - m)) */
};

struct shared_state {
    pile     p;
    partial  warp[MOST_WARPS], share[SHARES];
    topk_key last; /* the smallest one that was given out */
};

__device__ __forceinline__ float exp2_of(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* s of a partial once its maximum is m instead, which is no less. Both may be -inf, of one that met
 * nothing; s then is 0, or NaN. */
__device__ __forceinline__ float rescaled(partial a, float m, float scale)
{
    return a.m == m ? a.s : a.s * exp2_of((a.m - m) * scale);
}

/* ---- one chunk ---- */

template <class T, int N>
__device__ __forceinline__ void add_chunk(const uint4 (&raw)[N], float c, float scale, partial *own)
{
    constexpr int E = lanes<T>::n;
    if (c > own->m) {
        own->s *= exp2_of((own->m - c) * scale);
        own->m = c;
    }
    const float m = own->m == -INFINITY ? 0.0f : own->m; /* -inf - -inf would be NaN */
    const float base = m * scale;
    const bool  near = fabsf(base) < 0x1p20f; /* so that x * scale - base is no worse than x - m */
    float       s[4] = { 0, 0, 0, 0 };
    /* A branch the whole warp takes: of two ways in one, both would take up its time. */
    if (__all_sync(0xffffffffu, near)) {
#pragma unroll
        for (int v = 0; v < N; v++) {
            float x[E];
            unpack_as<T>(raw[v], x);
#pragma unroll
            for (int e = 0; e < E; e++) s[e % 4] += exp2_of(fmaf(x[e], scale, -base));
        }
    } else {
        for (int v = 0; v < N; v++) {
            float x[E];
            unpack_as<T>(raw[v], x);
#pragma unroll
            for (int e = 0; e < E; e++)
                s[e % 4] += exp2_of(near ? fmaf(x[e], scale, -base) : (x[e] - m) * scale);
        }
    }
    /* The one rounding that counts, that of base, is the same for all and is taken back here. */
    const float sum = (s[0] + s[1]) + (s[2] + s[3]);
    own->s += near ? sum * exp2_of(fmaf(-m, scale, base)) : sum;
}

/* What was given out in an earlier pass becomes NaN, which is never piled up. */
template <class T, int N>
__device__ __forceinline__ void forget(uint4 (&raw)[N], int at, const row_view<T> &r,
                                       topk_key given_out)
{
    constexpr int E = lanes<T>::n;
#pragma unroll
    for (int v = 0; v < N; v++) {
        float x[E];
        unpack_as<T>(raw[v], x);
#pragma unroll
        for (int e = 0; e < E; e++) {
            const unsigned place = ((unsigned)at + v * n_threads() + threadIdx.x) * E + e;
            if (key_of(x[e], place - r.lead) >= given_out) x[e] = NAN;
        }
        raw[v] = pack_as<T>(x);
    }
}

/* Sends for the first chunks of a row, all but one of those there is room for. */
template <class T>
__device__ __forceinline__ void begin_row(const topk_params &p, const row_view<T> &r, int begin,
                                          int end, topk_key *keys)
{
    const int step = VECTORS * n_threads();
    for (int s = 0; s < STAGES - 1; s++)
        fetch<T>((uint4 *)(keys + p.capacity) + s * step, r, begin + s * step, end);
}

/* The block's share of the row, the vectors from begin to end, once its first chunks are on their
 * way. AGAIN: a later pass, which sums nothing and passes over what is not below `given_out`. */
template <class T, bool AGAIN>
__device__ __forceinline__ partial scan(const topk_params &p, const row_view<T> &r, int begin,
                                        int end, unsigned k, topk_key given_out, topk_key *keys,
                                        shared_state *sh)
{
    constexpr int N = VECTORS, LOGITS = logits_of<T>;
    const int     step = N * n_threads();
    uint4        *stages = (uint4 *)(keys + p.capacity);
    threshold     t = { NAN, 0, -1 };
    partial       own = { -INFINITY, 0 };
    tops          top;
#pragma unroll
    for (int v = 0; v < N; v++) top.of[v] = -INFINITY;
    if (threadIdx.x == 0) sh->p.count = 0;
    for (int at = begin, i = 0; at < end; at += step, i++) {
        uint4 *here = stages + i % STAGES * step;
        fetch<T>(stages + (i + STAGES - 1) % STAGES * step, r, at + (STAGES - 1) * step, end);
        wait_for_oldest();
        uint4 raw[N];
        float m[N], c = -INFINITY;
#pragma unroll
        for (int v = 0; v < N; v++) raw[v] = *corner_of(here, v);
        if constexpr (AGAIN) {
            forget<T, N>(raw, at, r, given_out);
#pragma unroll
            for (int v = 0; v < N; v++) *corner_of(here, v) = raw[v];
        }
#pragma unroll
        for (int v = 0; v < N; v++) {
            m[v] = largest<T>(raw[v]);
            c = fmaxf(c, m[v]);
            top.of[v] = fmaxf(top.of[v], m[v]);
        }
        const int  n = __syncthreads_count(!(c <= t.value));
        const bool tighten = (i == 2 || i == 8 || i == 32) && n;
        if (n * LOGITS > t.room || tighten)
            t = make_room<T>(t, top, n, tighten, here, at, r, end, keys, k, p.capacity, &sh->p);
        else t.room -= n * LOGITS;
        if (__any_sync(0xffffffffu, t.exact ? !(c < t.value) : !(c <= t.value)))
            pile_up<T, N>(raw, m, here, at, r, t, keys, &sh->p);
        t.exact = 0;
        if constexpr (!AGAIN) add_chunk<T, N>(raw, c, p.scale, &own);
    }
    __syncthreads();
    return own;
}

/* Not inlined: it would cost the first pass its registers. */
template <class T>
__device__ __noinline__ void scan_again(const topk_params &p, const row_view<T> &r, unsigned k,
                                        topk_key *keys, shared_state *sh)
{
    begin_row<T>(p, r, 0, r.n_vectors(), keys);
    scan<T, true>(p, r, 0, r.n_vectors(), k, sh->last, keys, sh);
}

/* ---- the row's end ---- */

__device__ __forceinline__ float warp_max(float m)
{
    return logit_of((topk_key)__reduce_max_sync(0xffffffffu, ordered_of(m)) << 32);
}

__device__ __forceinline__ float warp_sum(float s)
{
#pragma unroll
    for (int d = 16; d; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    return s;
}

/* Over the block, in a fixed order; every thread gets the same bits. */
__device__ partial block_partial(partial own, float scale, shared_state *sh)
{
    float m = warp_max(own.m);
    float s = warp_sum(rescaled(own, m, scale));
    if (threadIdx.x % 32 == 0) sh->warp[threadIdx.x / 32] = { m, s };
    __syncthreads();
    const int lane = threadIdx.x % 32;
    own = lane < n_threads() / 32 ? sh->warp[lane] : partial { -INFINITY, 0 };
    m = warp_max(own.m);
    return { m, warp_sum(rescaled(own, m, scale)) };
}

/* The places of the row from `first` on, k of them. Returns whether there are more entries. */
__device__ __noinline__ bool give_out(const topk_params &p, int64_t row, int64_t first, unsigned k,
                                      partial all, topk_key *keys, shared_state *sh)
{
    const bool      sick = !(all.s >= 0); /* a NaN or +inf made the sum NaN */
    const int       n = sort_top(keys, (int)k, p.capacity, &sh->p);
    const topk_key *sorted = keys + p.capacity - k;
    int32_t        *index = p.index + row * p.k + first;
    float          *prob = p.prob + row * p.k + first;
    for (unsigned j = threadIdx.x; j < k; j += n_threads()) {
        const topk_key key = sorted[j];
        const bool     some = (int)j < n && !sick;
        const double   z = ((double)logit_of(key) - (double)all.m) * p.inv_temperature;
        index[j] = some ? (int32_t)index_of(key) : -1;
        prob[j] = sick ? NAN : some && all.s > 0 ? expf((float)z) / all.s : 0.0f;
        if (j == k - 1) sh->last = key;
    }
    __syncthreads();
    return n >= (int)k && !sick;
}

/* The shares of a row come together in its first block: partials, and k keys or more from each. */
__device__ partial gather(partial own, unsigned k, int capacity, float scale, topk_key *keys,
                          shared_state *sh)
{
    cg::cluster_group   cluster = cg::this_cluster();
    const int           rank = (int)cluster.block_rank(), n_shares = (int)cluster.num_blocks();
    const int           n = cut_pile(keys, k, k, &sh->p);
    shared_state       *first = cluster.map_shared_rank(sh, 0);
    topk_key           *first_keys = cluster.map_shared_rank(keys, 0);
    __shared__ unsigned begin;
    cluster.sync();
    if (rank && threadIdx.x == 0) {
        first->share[rank] = own;
        begin = atomicAdd(&first->p.count, (unsigned)n);
    }
    __syncthreads();
    if (rank)
        for (int i = threadIdx.x; i < n; i += n_threads()) first_keys[begin + i] = keys[i];
    cluster.sync();
    if (rank) return own;
    partial all = own;
    for (int s = 1; s < n_shares; s++) all.m = fmaxf(all.m, sh->share[s].m);
    all.s = rescaled(own, all.m, scale);
    for (int s = 1; s < n_shares; s++) all.s += rescaled(sh->share[s], all.m, scale);
    return all;
}

/* Places that no entry fills. */
__device__ void fill_rest(const topk_params &p, int64_t row, int64_t first, bool sick)
{
    for (int64_t j = first + threadIdx.x; j < p.k; j += n_threads()) {
        p.index[row * p.k + j] = -1;
        p.prob[row * p.k + j] = sick ? NAN : 0.0f;
    }
}

/* What a block does of a row: the vectors from begin to end. */
template <class T> struct share_of_row {
    row_view<T> r;
    int         begin, end;

    __device__ __forceinline__ share_of_row(const topk_params &p, int64_t row, int share)
        : r(p, row)
    {
        const int64_t n = r.n_vectors();
        begin = 0, end = (int)n;
        if (p.n_shares == 1) return;
        begin = (int)(n * share / p.n_shares), end = (int)(n * (share + 1) / p.n_shares);
        r.size = min(r.size, (unsigned)end * lanes<T>::n); /* what follows is another block's */
    }
};

__device__ __forceinline__ float lse_of(partial all, double inv_temperature)
{
    if (!(all.s >= 0)) return NAN;
    return all.s == 0 ? -INFINITY : (float)(inv_temperature * all.m + (double)logf(all.s));
}

/* Blocks stay, and send for the next row before they finish with one. */
template <class T, bool SHARED>
__global__ void __launch_bounds__(SHARED ? 512 : 128, SHARED ? 1 : 6)
    softmax_topk(const __grid_constant__ topk_params p)
{
    extern __shared__ topk_key keys[];
    __shared__ shared_state    sh;
    const int                  share = SHARED ? (int)(blockIdx.x % p.n_shares) : 0;
    const int64_t              step = gridDim.x / p.n_shares;
    const unsigned             k = (unsigned)(p.k < MOST_K ? p.k : MOST_K), least_k = k ? k : 1;
    int64_t                    row = blockIdx.x / p.n_shares;
    share_of_row<T>            mine(p, row, share);
    begin_row<T>(p, mine.r, mine.begin, mine.end, keys);
    for (; row < p.n_rows; row += step) {
        const row_view<T> r = mine.r;
        partial           all = scan<T, false>(p, r, mine.begin, mine.end, least_k, 0, keys, &sh);
        const bool        again = p.k > k; /* needs the room that the next row would come to */
        if (row + step < p.n_rows) {
            mine = share_of_row<T>(p, row + step, share);
            if (!again) begin_row<T>(p, mine.r, mine.begin, mine.end, keys);
        }
        all = block_partial(all, p.scale, &sh);
        if (SHARED) all = gather(all, least_k, p.capacity, p.scale, keys, &sh);
        if (threadIdx.x == 0 && share == 0 && p.lse) p.lse[row] = lse_of(all, p.inv_temperature);
        int64_t first = 0;
        for (bool more = k > 0 && share == 0; more && first < p.k; first += k) {
            const unsigned now = (unsigned)(p.k - first < k ? p.k - first : k);
            if (first) scan_again(p, r, now, keys, &sh);
            more = give_out(p, row, first, now, all, keys, &sh);
        }
        if (share == 0) fill_rest(p, row, first, !(all.s >= 0));
        if (again && row + step < p.n_rows) begin_row<T>(p, mine.r, mine.begin, mine.end, keys);
        __syncthreads();
    }
}

/* ---- choice ---- */

int n_multiprocessors(void)
{
    int device = 0, n = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    return n;
}

/* Blocks a row: as many as make the whole end soonest, when a block costs as much as so many
 * logits before and after it streams. */
int shares_of(const topk_params &p)
{
    const double fixed = 30000;
    double       best = 0;
    int          shares = 1;
    for (int s = 1; s <= SHARES && p.k <= MOST_K && s * p.k <= p.capacity; s *= 2) {
        const double turns = ceil((double)p.n_rows * s / p.at_once);
        const double cost = turns * ((double)p.n_vocab / s + fixed * (s > 1 ? 1.2 : 1));
        if (s == 1 || cost < best) best = cost, shares = s;
    }
    return shares;
}

template <class T, bool SHARED> ts_status launch(const topk_params &p, cudaStream_t s)
{
    const auto   kernel = softmax_topk<T, SHARED>;
    const size_t n_bytes =
        p.capacity * sizeof(topk_key) + STAGES * VECTORS * p.n_threads * sizeof(uint4);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    cudaLaunchConfig_t config = {};
    const int64_t      most = SHARED ? INT32_MAX : p.at_once;
    const int64_t      n_blocks = p.n_rows * p.n_shares;
    config.gridDim = dim3((unsigned)(n_blocks < most ? n_blocks : most));
    config.blockDim = dim3((unsigned)p.n_threads);
    config.dynamicSmemBytes = n_bytes;
    config.stream = s;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = (unsigned)p.n_shares;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    config.attrs = &cluster;
    config.numAttrs = SHARED ? 1 : 0;
    cudaLaunchKernelEx(&config, kernel, p);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

/* Few rows: large blocks, a multiprocessor for each. Else small ones, of which five find room on a
 * multiprocessor, fewer when k is large. The pile has room for k keys and what a chunk may add to
 * them, and for sorting k. */
template <class T> ts_status launch(topk_params p, cudaStream_t s)
{
    const int k = p.k < MOST_K ? (int)p.k : MOST_K, sms = n_multiprocessors();
    const int larger = k + k / 4 + 16 + 128 * logits_of<T>, least = 3 * k + BINS / 2;
    if (p.n_rows * 2 <= sms && k <= 256) {
        p.n_threads = 512, p.capacity = 5632, p.n_shares = 2;
        while (p.n_shares < SHARES && p.n_rows * p.n_shares * 2 <= sms) p.n_shares *= 2;
    } else {
        p.n_threads = 128;
        p.capacity = k <= 64 ? 1536 : k <= 256 ? 2816 : larger > least ? larger : least;
        p.capacity += p.capacity % 2; /* what lies behind it is moved 16 bytes at a time */
        p.at_once = (k <= 64 ? 5 : k <= 256 ? 4 : 3) * sms;
        p.n_shares = shares_of(p);
    }
    return p.n_shares > 1 ? launch<T, true>(p, s) : launch<T, false>(p, s);
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
    if (a->dtype == TS_F32) return launch<float>(p, s);
    if (a->dtype == TS_BF16) return launch<__nv_bfloat16>(p, s);
    return launch<__half>(p, s);
}
