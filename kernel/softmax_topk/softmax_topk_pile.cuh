/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_pile.cuh - candidate buffers: the keys that may be among the k largest, one buffer
 * per warp.
 *
 * A warp appends the keys of its chunks that are not below its threshold, a key that at least k
 * elements of the row reach. A full buffer is reduced to about k keys, which gives a higher
 * threshold: a buffer cannot overflow, wherever the k largest are. Long before that the warp, or
 * for a larger k the block, raises the threshold from the largest logits its threads have read.
 * Appending needs no barrier. */
#ifndef TS_SOFTMAX_TOPK_PILE_CUH
#define TS_SOFTMAX_TOPK_PILE_CUH

#include "softmax_topk_row.cuh"

namespace
{

struct pile {
    int      at;              /* where its keys begin in the block's memory */
    int      count, capacity; /* at least kept_of(k) + 32 */
    topk_key floor;

    __device__ __forceinline__ topk_key *keys(void) const
    {
        return (topk_key *)memory + at;
    }
};

/* What a logit must reach to be piled up, in a chunk whose indices begin at `first`. Behind the
 * floor's own index its equals are below it. */
__device__ __forceinline__ float bar_of(topk_key floor, unsigned first)
{
    return logit_of(first > index_of(floor) ? floor + (1ull << 32) : floor);
}

/* Leaves the keys that are not below the floor. */
__device__ __forceinline__ void keep_from_floor(pile *p)
{
    const int n = p->count;
    p->count = 0;
    for (int at = 0; at < n; at += 32) {
        __syncwarp();
        const topk_key key = at + lane() < n ? p->keys()[at + lane()] : 0;
        const unsigned in = __ballot_sync(ALL, key >= p->floor);
        __syncwarp(); /* all have read what is overwritten next */
        if (key >= p->floor) p->keys()[p->count + __popc(in & ((1u << lane()) - 1))] = key;
        p->count += __popc(in);
    }
    __syncwarp();
}

/* How many of the buffer's keys are not below each of three; its least and largest key. */
struct pile_count {
    const pile &p;

    __device__ __forceinline__ void operator()(const topk_key (&from)[3], unsigned (&n)[3]) const
    {
        for (int i = lane(); i < p.count; i += 32)
#pragma unroll
            for (int q = 0; q < 3; q++) n[q] += p.keys()[i] >= from[q];
    }
    __device__ __forceinline__ range<topk_key> bounds(void) const
    {
        range<topk_key> r = { ~0ull, 0 };
        __syncwarp(); /* other lanes have piled up */
        for (int i = lane(); i < p.count; i += 32)
            r.low = min(r.low, p.keys()[i]), r.high = max(r.high, p.keys()[i]);
        return r;
    }
};

/* Makes room, by the highest floor that any warp of the block got so, or else by a new one. By
 * value, as all that is not inlined: what has an address has no register. */
__device__ __noinline__ pile cut_pile(pile p, unsigned k, topk_key *highest)
{
    const unsigned most = max(kept_of(k), (k + (unsigned)p.capacity) / 2);
    topk_key       known = 0;
    if (lane() == 0) known = atomicMax(highest, p.floor);
    p.floor = max(p.floor, __shfl_sync(ALL, known, 0));
    keep_from_floor(&p);
    if (p.count <= (int)most) return p;
    const pile_count of = { p };
    const warp_team  team;
    p.floor = search(team, team.bounds(of.bounds()), k, most, of);
    if (lane() == 0) atomicMax(highest, p.floor);
    keep_from_floor(&p);
    return p;
}

/* ---- a chunk ---- */

/* Bits of the lane's logits that reach the threshold. The two halves of a word have the lower and
 * the upper one of each pair of 16-bit logits. */
__device__ __forceinline__ unsigned hits_of(const uint4 (&raw)[VECTORS], float bar, float)
{
    unsigned hits = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        float x[4];
        unpack_as<float>(raw[v], x);
#pragma unroll
        for (int e = 0; e < 4; e++) hits |= (unsigned)(x[e] >= bar) << (v * 4 + e);
    }
    return hits;
}

__device__ __forceinline__ unsigned reaches(unsigned pair, float bar, __nv_bfloat16)
{
    const __nv_bfloat162 b = __bfloat162bfloat162(__float2bfloat16_ru(bar));
    return __hge2_mask(*reinterpret_cast<const __nv_bfloat162 *>(&pair), b);
}

__device__ __forceinline__ unsigned reaches(unsigned pair, float bar, __half)
{
    const __half2 b = __half2half2(__float2half_ru(bar));
    return __hge2_mask(*reinterpret_cast<const __half2 *>(&pair), b);
}

template <class T>
__device__ __forceinline__ unsigned hits_of(const uint4 (&raw)[VECTORS], float bar, T)
{
    unsigned hits = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
        const unsigned w[4] = { raw[v].x, raw[v].y, raw[v].z, raw[v].w };
#pragma unroll
        for (int j = 0; j < 4; j++) hits |= reaches(w[j], bar, T()) & (0x10001u << (v * 4 + j));
    }
    return hits;
}

/* The lane's vector, and the logit in it, that a bit represents. */
template <class T> __device__ __forceinline__ unsigned vector_of(unsigned bit)
{
    return bit % 16 / 4;
}

template <class T> __device__ __forceinline__ unsigned element_of(unsigned bit)
{
    return lanes<T>::n == 4 ? bit % 4 : bit % 4 * 2 + bit / 16;
}

/* How many of the lane's logits reach each of three. */
template <class T> struct chunk_count {
    const uint4 (&raw)[VECTORS];

    __device__ __forceinline__ void operator()(const unsigned (&from)[3], unsigned (&n)[3]) const
    {
#pragma unroll
        for (int q = 0; q < 3; q++)
            n[q] += (unsigned)__popc(hits_of(raw, logit_of((topk_key)from[q] << 32), T()));
    }
};

/* The same by keys, of a chunk whose indices begin at `index` - those of the lane's first place. */
template <class T> struct chunk_keys {
    const uint4 (&raw)[VECTORS];
    unsigned index;

    __device__ __forceinline__ void operator()(const topk_key (&from)[3], unsigned (&n)[3]) const
    {
        constexpr int E = lanes<T>::n;
#pragma unroll 1
        for (int v = 0; v < VECTORS; v++) {
            float x[E];
            unpack_as<T>(v == 0 ? raw[0] : v == 1 ? raw[1] : v == 2 ? raw[2] : raw[3], x);
#pragma unroll
            for (int e = 0; e < E; e++) {
                const topk_key key = key_of(x[e], index + (unsigned)(v * 32 * E + e));
#pragma unroll
                for (int q = 0; q < 3; q++) n[q] += x[e] == x[e] && key >= from[q];
            }
        }
    }
};

/* Raises the threshold if more than twice k logits of a chunk reach the current one: to what some
 * warp of the block has, and to what about k logits of the chunk reach. Otherwise a sorted row
 * would pass through the buffer with all its logits. `most`: the largest of the lane's; `first`:
 * the index of the chunk's first place, which may be before the row. */
template <class T>
__device__ __noinline__ topk_key floor_of_chunk(const uint4 *here, float most, unsigned first,
                                                topk_key floor, unsigned k, topk_key *highest)
{
    topk_key known = 0;
    uint4    raw[VECTORS];
    if (lane() == 0) known = atomicMax(highest, floor);
    floor = max(floor, __shfl_sync(ALL, known, 0));
#pragma unroll
    for (int v = 0; v < VECTORS; v++) raw[v] = here[v * 32 + lane()];
    const chunk_count<T>  of = { raw };
    const range<unsigned> r = { (unsigned)(floor >> 32), __reduce_max_sync(ALL, ordered_of(most)) };
    const unsigned        reach = (unsigned)__popc(hits_of(raw, logit_of(floor), T()));
    if (__reduce_add_sync(ALL, reach) <= 2 * k) return floor;
    const unsigned value = search(warp_team(), r, k, kept_of(k), of);
    const unsigned ties = (unsigned)__popc(hits_of(raw, logit_of((topk_key)value << 32), T()));
    topk_key       found = (topk_key)value << 32;
    if (__reduce_add_sync(ALL, ties) > kept_of(k)) { /* too many are equal: by index */
        constexpr unsigned    E = lanes<T>::n, N = VECTORS * 32 * E;
        const chunk_keys<T>   keys = { raw, first + (unsigned)lane() * E };
        const unsigned        least = (int)first < 0 ? 0 : first;
        const range<topk_key> in = { found | ~(first + N - 1), found | ~least };
        found = search(warp_team(), in, k, kept_of(k), keys);
    }
    floor = max(floor, found);
    if (lane() == 0) atomicMax(highest, floor);
    return floor;
}

/* Appends the logits of the chunk at `here` that reach the threshold: each lane with a hit adds one
 * at a time. All lanes call this. `most`: the largest of the lane's logits. */
template <class T>
__device__ __forceinline__ void pile_up(pile *p, const uint4 (&raw)[VECTORS], float most,
                                        const uint4 *here, const row_view<T> &r, int chunk,
                                        unsigned k, topk_key *highest)
{
    constexpr int  E = lanes<T>::n;
    const unsigned first = (unsigned)chunk * (VECTORS * 32 * E);
    const unsigned index = first > r.lead ? first - r.lead : 0;
    float          bar = bar_of(p->floor, index);
    if (!__any_sync(ALL, most >= bar)) return;
    unsigned hits = hits_of(raw, bar, T());
    if (__any_sync(ALL, __popc(hits) > 4) && __reduce_add_sync(ALL, __popc(hits)) > 2 * k) {
        p->floor = floor_of_chunk<T>(here, most, first - r.lead, p->floor, k, highest);
        bar = bar_of(p->floor, index);
        hits &= hits_of(raw, bar, T());
    }
    for (unsigned any; (any = __ballot_sync(ALL, hits != 0)) != 0;) {
        if (p->count + 32 > p->capacity) {
            *p = cut_pile(*p, k, highest);
            bar = bar_of(p->floor, index);
            hits &= hits_of(raw, bar, T());
            continue;
        }
        if (hits) {
            const unsigned b = (unsigned)__ffs((int)hits) - 1, at = vector_of<T>(b) * 32 + lane();
            const float    x = to_float(((const T *)(here + at))[element_of<T>(b)]);
            const unsigned place = first + at * E + element_of<T>(b);
            p->keys()[p->count + __popc(any & ((1u << lane()) - 1))] = key_of(x, place - r.lead);
            hits &= hits - 1;
        }
        p->count += __popc(any);
    }
}

/* ---- the block's floor ---- */

/* The largest logit that a thread has read at each of its vectors' places. */
struct tops {
    float of[VECTORS];

    __device__ __forceinline__ void operator()(const unsigned (&from)[3], unsigned (&n)[3]) const
    {
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
#pragma unroll
            for (int q = 0; q < 3; q++) n[q] += ordered_of(of[v]) >= from[q];
    }
    template <class T> __device__ __forceinline__ void meet(const uint4 *chunk)
    {
#pragma unroll
        for (int v = 0; v < VECTORS; v++) of[v] = fmaxf(of[v], largest<T>(chunk[v * 32 + lane()]));
    }
};

/* Whether the tops of so many threads say anything of the k-th largest logit. */
__device__ __forceinline__ bool tops_suffice(unsigned k, int n_threads)
{
    return (int)k <= VECTORS * n_threads * 5 / 8;
}

/* A key that at least k of the row's entries reach, for as many tops do, and if it can be had not
 * many more. All the block's threads come here. */
__device__ __forceinline__ topk_key floor_of_tops(const tops &top, unsigned k, meeting *m)
{
    float low = top.of[0], high = low;
#pragma unroll
    for (int v = 1; v < VECTORS; v++) low = fminf(low, top.of[v]), high = fmaxf(high, top.of[v]);
    /* As many tops as there are threads reach the smallest of the threads' largest. */
    if ((int)k <= n_threads()) low = high;
    const block_team team = { m };
    range<unsigned>  r = team.bounds(range<unsigned> { ordered_of(low), ordered_of(high) });
    if (r.low < (unsigned)(LEAST_FLOOR >> 32)) { /* some are -inf: are there enough that are not? */
        int n = 0;
#pragma unroll
        for (int v = 0; v < VECTORS; v++) n += top.of[v] > -INFINITY;
        unsigned finite = 0;
        for (int v = 1; v <= VECTORS; v++) finite += (unsigned)__syncthreads_count(n >= v);
        if (finite < k) return LEAST_FLOOR;
        r.low = (unsigned)(LEAST_FLOOR >> 32);
    }
    return (topk_key)search(team, r, k, kept_of(k), top) << 32;
}

/* The same for all buffers together, for any k. */
__device__ __forceinline__ topk_key floor_of_piles(const pile &p, unsigned k, meeting *m)
{
    const pile_count of = { p };
    const block_team team = { m };
    unsigned         n = 0;
    __syncthreads(); /* what was there has been read */
    if (lane() == 0) m->count[warp()] = (unsigned)p.count;
    const range<topk_key> r = team.bounds(of.bounds());
    for (int w = 0; w < n_warps(); w++) n += m->count[w];
    return n < k ? LEAST_FLOOR : search(team, r, k, kept_of(k), of);
}

/* ---- the row's end ---- */

/* Reduces the block's buffers to at most kept_of(k) keys in all, the k largest among them, and
 * writes them to the list. n_list[2] are 0. Returns how many there are. */
__device__ __forceinline__ int collect(pile own, unsigned k, topk_key *list, unsigned *n_list,
                                       meeting *m)
{
    unsigned begin = 0;
    pile    *p = &own;
    keep_from_floor(p);
    if (lane() == 0) begin = atomicAdd(n_list, (unsigned)p->count);
    __syncthreads();
    if (n_list[0] > kept_of(k)) {
        p->floor = floor_of_piles(*p, k, m);
        keep_from_floor(p);
        n_list++;
        if (lane() == 0) begin = atomicAdd(n_list, (unsigned)p->count);
        __syncthreads();
    }
    begin = __shfl_sync(ALL, begin, 0);
    for (int i = lane(); i < p->count; i += 32) list[begin + i] = p->keys()[i];
    const int n = (int)*n_list;
    __syncthreads();
    return n;
}

} // namespace

#endif
