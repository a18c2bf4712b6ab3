/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_pile.cuh - what may be among the k largest: one pile a warp.
 *
 * A warp piles up the keys of its chunks that are not below its floor, a key that k entries of the
 * row are known to reach. A full pile is cut down to about k, which gives a higher floor: it cannot
 * overflow, however the winners lie. Long before that the warp, or for a larger k the block, raises
 * the floor from the largest logits its threads have met. No barrier is needed to pile up. */
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

/* Below every entry's key: -inf, and any index. */
constexpr topk_key LEAST_FLOOR = 0x007fffffull << 32;

/* Keys that a cut leaves at most. */
__host__ __device__ __forceinline__ unsigned kept_of(unsigned k)
{
    return k + k / 4 + 16;
}

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

/* How many of the pile's keys are not below each of three; its least and largest key. */
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

/* Bits of the lane's logits that reach the bar. In two halves of a word lie the lower and the upper
 * one of each pair of 16-bit logits. */
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

/* Which of the lane's vectors, and which logit of it, a bit stands for. */
template <class T> __device__ __forceinline__ unsigned vector_of(unsigned bit)
{
    return bit % 16 / 4;
}

template <class T> __device__ __forceinline__ unsigned element_of(unsigned bit)
{
    return lanes<T>::n == 4 ? bit % 4 : bit % 4 * 2 + bit / 16;
}

/* Bits of places that are logits. */
template <class T> __device__ __noinline__ unsigned places_of(row_view<T> r, unsigned first_place)
{
    constexpr int E = lanes<T>::n;
    unsigned      bits = 0;
    for (unsigned b = 0; b < VECTORS * E; b++) {
        const unsigned place = first_place + (vector_of<T>(b) * 32 + lane()) * E + element_of<T>(b);
        if (place - r.lead < r.size - r.lead) bits |= 1u << b;
    }
    return bits;
}

/* Piles up what reaches the floor in the chunk at `here`: each lane with a hit adds one at a time.
 * All lanes come here. `most`: the largest of the lane's logits. */
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
    if (bar == -INFINITY) hits &= places_of<T>(r, first); /* what is no logit is -inf */
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

/* The largest logit a thread has met in each of its vectors' places. */
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
    const block_team      team = { m };
    const range<unsigned> r = { ordered_of(low), ordered_of(high) };
    return (topk_key)search(team, team.bounds(r), k, kept_of(k), top) << 32;
}

/* The same of all piles together, for any k. `enough`: there are at least k keys in them. */
__device__ __forceinline__ topk_key floor_of_piles(const pile &p, unsigned k, bool enough,
                                                   meeting *m)
{
    const pile_count of = { p };
    const block_team team = { m };
    range<topk_key>  r = of.bounds();
    if (!enough) r.low = LEAST_FLOOR;
    return search(team, team.bounds(r), k, kept_of(k), of);
}

/* ---- the row's end ---- */

/* Cuts the block's piles down to at most kept_of(k) keys in all, the k largest among them, and lays
 * them in the list. n_list[2] are 0. Returns how many there are. */
__device__ __forceinline__ int collect(pile own, unsigned k, topk_key *list, unsigned *n_list,
                                       meeting *m)
{
    unsigned begin = 0;
    pile    *p = &own;
    keep_from_floor(p);
    if (lane() == 0) begin = atomicAdd(n_list, (unsigned)p->count);
    __syncthreads();
    if (n_list[0] > kept_of(k)) {
        p->floor = floor_of_piles(*p, k, true, m);
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
