/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_many.cuh - the k largest of a row for a k that is too large for candidate buffers.
 *
 * The first read sums, and counts logits in 2048 bins by the upper bits of their keys. The bin with
 * the k-th largest key is the cut. If the cut and the bins above it have no more keys than fit, a
 * last read collects those, and they are sorted. Otherwise another read divides the range of the
 * cut into bins, and so on: values first, then indices among equals, so any row ends after a few
 * reads. A bin below the cut of what was counted so far cannot matter, and is not counted any more.
 * */
#ifndef TS_SOFTMAX_TOPK_MANY_CUH
#define TS_SOFTMAX_TOPK_MANY_CUH

#include "softmax_topk_sum.cuh"

namespace
{

enum { CUT_BITS = 11, CUT_BINS = 1 << CUT_BITS, MOST_MANY = 8192, MANY_THREADS = 1024 };
enum { FIRST_SHIFT = 64 - CUT_BITS, VALUE_SHIFT = 32 - CUT_BITS }; /* of a key, and of its value */

struct many_state {
    partial  warp[MANY_THREADS / 32];
    unsigned before[MANY_THREADS / 32];
    unsigned bin, above, in_bin; /* the cut, and how many keys are above it and in it */
    unsigned n_list;
    topk_key low, high; /* of the keys that were counted */
};

/* Its memory: the list, and bins. A power of two, so that it can be sorted. */
__host__ __device__ __forceinline__ int many_capacity(int64_t k)
{
    return k <= MOST_MANY / 2 ? MOST_MANY : 2 * MOST_MANY;
}

/* Calls meet(x, index, is_logit) for every place of the lane's vectors of a chunk. */
template <class T, class MEET>
__device__ __forceinline__ void each_logit(const row_view<T> &r, int                chunk,
                                           const uint4 (&raw)[VECTORS], const MEET &meet)
{
    constexpr int E = lanes<T>::n;
    const bool    whole = r.is_whole(chunk);
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        float x[E];
        unpack_as<T>(raw[v], x);
#pragma unroll
        for (int e = 0; e < E; e++) {
            const unsigned place = (unsigned)(chunk * CHUNK + v * 32 + lane()) * E + e;
            meet(x[e], place - r.lead, whole || place - r.lead < r.size - r.lead);
        }
    }
}

/* Places that are no logits become -inf. Returns the largest of the lane's logits. */
template <class T>
__device__ __forceinline__ float load_chunk(uint4 (&raw)[VECTORS], const row_view<T> &r, int chunk)
{
    const uint4 *from = (const uint4 *)r.base + chunk * CHUNK + lane();
    float        most = -INFINITY;
    if (r.is_whole(chunk))
#pragma unroll
        for (int v = 0; v < VECTORS; v++) raw[v] = __ldg(from + v * 32);
    else
#pragma unroll 1
        for (int v = 0; v < VECTORS; v++) {
            const uint4 x = ragged(r, chunk * CHUNK + v * 32 + lane());
#pragma unroll
            for (int u = 0; u < VECTORS; u++)
                if (u == v) raw[u] = x;
        }
#pragma unroll
    for (int v = 0; v < VECTORS; v++) most = fmaxf(most, largest<T>(raw[v]));
    return most;
}

/* One more in a bin for every lane that is in. Of many lanes, what they have in common is added at
 * once: else a row of equal logits would have them queue. */
__device__ __forceinline__ void count_in(unsigned *bins, unsigned bin, bool in)
{
    const unsigned all = __ballot_sync(ALL, in);
    if (__popc(all) <= 8) {
        if (in) atomicAdd(&bins[bin], 1u);
        return;
    }
    const int      first = __ffs((int)all) - 1;
    const unsigned common = __shfl_sync(ALL, bin, first);
    const unsigned same = __ballot_sync(ALL, in && bin == common);
    if (lane() == first) atomicAdd(&bins[common], (unsigned)__popc(same));
    else if (in && bin != common) atomicAdd(&bins[bin], 1u);
}

/* The highest bin that, with those above it, has at least `want` keys; bin 0 with none where all
 * have fewer. All threads come here, and the bins may be changed after that. */
__device__ __noinline__ void find_cut(const unsigned *bins, unsigned want, many_state *sh)
{
    const int per = CUT_BINS / n_threads(), top = CUT_BINS - 1 - (int)threadIdx.x * per;
    unsigned  sum = 0, upto;
    __syncthreads(); /* everything was counted */
    if (threadIdx.x == 0) sh->bin = sh->above = sh->in_bin = 0;
    for (int i = 0; i < per; i++) sum += bins[top - i];
    upto = sum;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(ALL, upto, d);
        if (lane() >= d) upto += other;
    }
    if (lane() == 31) sh->before[warp()] = upto;
    __syncthreads();
    for (int w = 0; w < warp(); w++) upto += sh->before[w];
    unsigned above = upto - sum;
    if (above < want && upto >= want) /* one thread's */
        for (int i = 0; i < per; i++) {
            const unsigned n = bins[top - i];
            if (above + n >= want) {
                sh->bin = (unsigned)(top - i), sh->above = above, sh->in_bin = n;
                break;
            }
            above += n;
        }
    __syncthreads();
}

__device__ __forceinline__ void clear_bins(unsigned *bins)
{
    for (int i = (int)threadIdx.x; i < CUT_BINS; i += n_threads()) bins[i] = 0;
    __syncthreads();
}

/* The first read. Leaves the cut, and its range. */
template <class T>
__device__ __noinline__ partial sum_and_count(row_view<T> r, int n_vocab, unsigned k, float scale,
                                              unsigned *bins, many_state *sh)
{
    const int n = r.n_chunks(), n_rounds = (n + n_warps() - 1) / n_warps();
    running   sums = { -INFINITY, 0, 0, false };
    unsigned  least = ALL, most = 0;   /* of values */
    unsigned  bar = LEAST_FLOOR >> 32; /* what is below need not be counted */
    for (int i = 0; i < n_rounds; i++) {
        const int chunk = i * n_warps() + warp();
        if (chunk < n) {
            uint4       raw[VECTORS];
            const float c = load_chunk(raw, r, chunk);
            sums.meet(c, scale);
            sums.add<T>(raw, scale);
            each_logit<T>(r, chunk, raw, [&](float x, unsigned, bool is_logit) {
                const unsigned value = ordered_of(x);
                if (is_logit) least = min(least, value), most = max(most, value);
                count_in(bins, value >> VALUE_SHIFT, is_logit && value >= bar);
            });
        }
        if ((i & (i + 1)) == 0 && i + 1 < n_rounds) { /* after 1, 2, 4, .. rounds */
            find_cut(bins, k, sh);
            bar = max(bar, sh->bin << VALUE_SHIFT);
        }
    }
    least = __reduce_min_sync(ALL, least), most = __reduce_max_sync(ALL, most);
    if (lane() == 0) {
        atomicMin(&sh->low, (topk_key)least << 32 | (unsigned)-n_vocab);
        atomicMax(&sh->high, (topk_key)most << 32 | ALL);
    }
    find_cut(bins, k, sh);
    return { sums.m, sums.relative_to_m(scale) };
}

/* A further read: counts the keys from low to high in bins of 2^shift of them. */
template <class T>
__device__ __noinline__ void count_range(row_view<T> r, topk_key low, topk_key high, int shift,
                                         unsigned *bins, many_state *sh)
{
    range<topk_key> met = { ~0ull, 0 };
    for (int chunk = warp(); chunk < r.n_chunks(); chunk += n_warps()) {
        uint4 raw[VECTORS];
        load_chunk(raw, r, chunk);
        each_logit<T>(r, chunk, raw, [&](float x, unsigned index, bool is_logit) {
            const topk_key key = key_of(x, index);
            const bool     in = is_logit && key >= low && key <= high;
            if (in) met.low = min(met.low, key), met.high = max(met.high, key);
            count_in(bins, (unsigned)((key - low) >> shift), in);
        });
    }
    met = warp_team().bounds(met);
    if (lane() == 0) atomicMin(&sh->low, met.low), atomicMax(&sh->high, met.high);
}

/* A key that at least k of the row's keys reach, if there are so many, and no more than there is
 * room for. */
template <class T>
__device__ __forceinline__ topk_key find_floor(const topk_params &p, const row_view<T> &r,
                                               unsigned *bins, many_state *sh)
{
    unsigned above = sh->above;
    topk_key low = (topk_key)sh->bin << FIRST_SHIFT, high = low + ((1ull << FIRST_SHIFT) - 1);
    low = max(max(low, sh->low), LEAST_FLOOR), high = min(high, sh->high);
    while (above + sh->in_bin > (unsigned)p.capacity) {
        const int shift = max(0, 64 - __clzll((long long)(high - low)) - CUT_BITS);
        __syncthreads(); /* all have seen the cut */
        if (threadIdx.x == 0) sh->low = ~0ull, sh->high = 0;
        clear_bins(bins);
        count_range(r, low, high, shift, bins, sh);
        find_cut(bins, (unsigned)p.k - above, sh);
        const topk_key first = (topk_key)sh->bin << shift, last = first + ((1ull << shift) - 1);
        if (last < high - low) high = low + last;
        low = max(low + first, sh->low), high = min(high, sh->high);
        above += sh->above;
    }
    return low;
}

/* The last read: keys from the floor on, in any order. */
template <class T>
__device__ __noinline__ void list_keys(row_view<T> r, topk_key floor, int capacity, topk_key *list,
                                       many_state *sh)
{
    const unsigned bar = (unsigned)(floor >> 32);
    for (int chunk = warp(); chunk < r.n_chunks(); chunk += n_warps()) {
        uint4       raw[VECTORS];
        const float c = load_chunk(raw, r, chunk);
        if (!__any_sync(ALL, ordered_of(c) >= bar)) continue;
        unsigned n = 0, upto, at = 0;
        each_logit<T>(r, chunk, raw, [&](float x, unsigned index, bool is_logit) {
            n += is_logit && key_of(x, index) >= floor;
        });
        upto = n;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const unsigned other = __shfl_up_sync(ALL, upto, d);
            if (lane() >= d) upto += other;
        }
        if (lane() == 31) at = atomicAdd(&sh->n_list, upto);
        at = __shfl_sync(ALL, at, 31) + upto - n;
        if (n)
            each_logit<T>(r, chunk, raw, [&](float x, unsigned index, bool is_logit) {
                const topk_key key = key_of(x, index);
                if (!is_logit || key < floor) return;
                if (at < (unsigned)capacity) list[at] = key;
                at++;
            });
    }
}

/* Puts n keys, a power of two, in order, the largest first. Pairs whose distance is at most 32 are
 * all of one warp's own 64 keys. */
__device__ __noinline__ void sort_keys(topk_key *list, int n)
{
    for (int run = 2; run <= n; run *= 2)
        for (int d = run / 2; d; d /= 2) {
            for (int i = (int)threadIdx.x; i < n / 2; i += n_threads()) {
                const int      a = 2 * i - (i & (d - 1)), b = a + d;
                const topk_key x = list[a], y = list[b];
                if ((x < y) == ((a & run) == 0)) list[a] = y, list[b] = x;
            }
            if (d > 32 || (d == 1 && run > 32)) __syncthreads();
            else __syncwarp();
        }
    __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(MANY_THREADS, 1)
    softmax_topk_many(const __grid_constant__ topk_params p)
{
    __shared__ many_state sh;
    const row_view<T>     r(p, blockIdx.x);
    topk_key             *list = (topk_key *)memory;
    unsigned             *bins = (unsigned *)(list + p.capacity);
    if (threadIdx.x == 0) sh.n_list = 0, sh.low = ~0ull, sh.high = 0;
    clear_bins(bins);
    partial        all = sum_and_count<T>(r, p.n_vocab, (unsigned)p.k, p.scale, bins, &sh);
    const topk_key floor = find_floor<T>(p, r, bins, &sh);
    all = block_partial(all, p.scale, sh.warp);
    list_keys<T>(r, floor, p.capacity, list, &sh);
    __syncthreads();
    const int  n = min((int)sh.n_list, p.capacity), k = (int)p.k;
    const bool nonfinite = !(all.s >= 0); /* a NaN or +inf made the sum NaN */
    int        size = 64;
    while (size < n) size *= 2;
    for (int i = n + (int)threadIdx.x; i < size; i += n_threads()) list[i] = 0; /* below all keys */
    __syncthreads();
    sort_keys(list, size);
    int32_t *index = p.index + (int64_t)blockIdx.x * p.k;
    float   *prob = p.prob + (int64_t)blockIdx.x * p.k;
    for (int j = (int)threadIdx.x; j < min(n, k) && !nonfinite; j += n_threads()) {
        index[j] = (int32_t)index_of(list[j]);
        prob[j] = prob_of(logit_of(list[j]), all, p.inv_temperature);
    }
    if (n < k || nonfinite) fill_rest<T>(p, blockIdx.x, nonfinite ? 0 : n, nonfinite, sh.before);
    if (threadIdx.x == 0 && p.lse) p.lse[blockIdx.x] = lse_of(all, p.inv_temperature);
}

} // namespace

#endif
