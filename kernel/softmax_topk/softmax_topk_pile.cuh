/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_pile.cuh - what of a chunk may be among the k largest, and room for it.
 *
 * The pile cannot overflow. Before a chunk is piled up the block counts the threads that have
 * something above the threshold. If there might not be room, the pile is cut down to about k, which
 * gives a higher threshold; and if the chunk alone is too much, the k-th largest of its vectors'
 * maxima is one: k vectors reach it, and no more than about k vectors have anything above it. So
 * however the winners lie, a chunk adds no more than they and their neighbours. */
#ifndef TS_SOFTMAX_TOPK_PILE_CUH
#define TS_SOFTMAX_TOPK_PILE_CUH

#include "softmax_topk_row.cuh"

namespace
{

/* What must be above to be piled up. A NaN lets everything pass. In the chunk whose own maxima made
 * it, `exact` says how far equals go; later ones lose to those that lie there by their index. */
struct threshold {
    float    value;
    topk_key exact; /* 0: value alone decides */
    int      room;  /* keys for which there will be room after this chunk, at least */
};

/* The keys of the vectors' maxima, each with its vector's last index: no larger than the key of the
 * entry it stands for. */
template <class T>
__device__ void pile_maxima(topk_key *to, const uint4 *c, int at, const row_view<T> &r)
{
    constexpr int E = lanes<T>::n;
    for (int v = 0; v < VECTORS; v++) {
        const unsigned first = ((unsigned)at + v * n_threads() + threadIdx.x) * E;
        const float    m = largest<T>(c[v * n_threads() + threadIdx.x]);
        const bool     any = first < r.size && first + E > r.lead && m == m;
        to[v * n_threads() + threadIdx.x] = any ? key_of(m, first + E - 1 - r.lead) : 0;
    }
}

/* How many logits of the chunk are above the threshold. */
template <class T> __device__ int count_above(const uint4 *c, float value, pile *p)
{
    constexpr int E = lanes<T>::n;
    unsigned      n = 0;
    for (int v = 0; v < VECTORS; v++) {
        float x[E];
        unpack_as<T>(c[v * n_threads() + threadIdx.x], x);
#pragma unroll
        for (int e = 0; e < E; e++) n += !(x[e] <= value);
    }
    n = __reduce_add_sync(0xffffffffu, n);
    if (threadIdx.x == 0) p->tally[0][0] = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicAdd(&p->tally[0][0], n);
    __syncthreads();
    return (int)p->tally[0][0];
}

/* The largest a thread has met so far in each of its vectors' places. */
struct tops {
    float of[VECTORS];
};

/* Of the values that the warp's lanes hold, PER each: one that at least `want` and at most `most`
 * of them reach; 0 if too many are equal for that. */
template <int PER>
__device__ __forceinline__ unsigned search_in_warp(const unsigned (&value)[PER], unsigned want,
                                                   unsigned most)
{
    constexpr unsigned ALL = 0xffffffffu;
    unsigned           low = ALL, high = 0;
#pragma unroll
    for (int i = 0; i < PER; i++) low = min(low, value[i]), high = max(high, value[i]);
    low = __reduce_min_sync(ALL, low), high = __reduce_max_sync(ALL, high);
    while (low < high) {
        const unsigned middle = high - (high - low) / 2;
        unsigned       c = 0;
#pragma unroll
        for (int i = 0; i < PER; i++) c += value[i] >= middle;
        c = __reduce_add_sync(ALL, c);
        if (c < want) high = middle - 1;
        else if (c > most) low = middle;
        else return middle;
    }
    return 0;
}

/* A threshold that k logits are known to reach: the k-th largest or so of the groups' tops, a group
 * being a place of a vector in a thread of a small block and a whole thread of a large one. Not
 * more than `most` groups have anything that reaches it. One warp finds it, for then no step needs
 * a barrier. False: too many are equal. */
__device__ __forceinline__ bool raise_to_top(threshold *t, const tops &top, unsigned k,
                                             unsigned most, unsigned *scratch, pile *p)
{
    constexpr int PER = GROUPS / 32;
    if (n_threads() == GROUPS) {
        float largest = top.of[0];
#pragma unroll
        for (int v = 1; v < VECTORS; v++) largest = fmaxf(largest, top.of[v]);
        scratch[threadIdx.x] = ordered_of(largest);
    } else {
#pragma unroll
        for (int v = 0; v < VECTORS; v++)
            scratch[v * n_threads() + threadIdx.x] = ordered_of(top.of[v]);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        unsigned value[PER];
#pragma unroll
        for (int i = 0; i < PER; i++) value[i] = scratch[i * 32 + threadIdx.x];
        const unsigned found = search_in_warp(value, k, most);
        if (threadIdx.x == 0) p->found = found;
    }
    __syncthreads();
    const topk_key floor = (topk_key)p->found << 32;
    if (!floor) return false;
    if (!(logit_of(floor) < t->value)) t->value = logit_of(floor), t->exact = floor;
    return true;
}

/* The same of this chunk alone, and whatever is equal. */
template <class T>
__device__ __forceinline__ void raise_among_equals(threshold *t, const uint4 *c, int at,
                                                   const row_view<T> &r, topk_key *scratch,
                                                   unsigned k, pile *p)
{
    pile_maxima<T>(scratch, c, at, r);
    __syncthreads();
    const topk_key floor = select_key(scratch, VECTORS * n_threads(), k, k, p);
    if (floor && !(logit_of(floor) < t->value)) t->value = logit_of(floor), t->exact = floor;
}

/* All threads come here after a barrier and before anyone piles up more. n: threads that have
 * something above the threshold; tighten: find a better one though there may be room. */
template <class T>
__device__ __noinline__ threshold make_room(threshold t, tops top, int n, bool tighten,
                                            const uint4 *c, int at, row_view<T> r, int end,
                                            topk_key *keys, unsigned k, int capacity, pile *p)
{
    constexpr int E = lanes<T>::n, LOGITS = logits_of<T>;
    const int     heads = VECTORS * n_threads(), group = heads * E / GROUPS; /* logits of a group */
    const unsigned enough = k + k / 4 + 16;
    const int  held = (int)p->count, some = min(end, r.n_vectors()) - at; /* vectors there are */
    const bool fresh = t.value != t.value;
    int        left = held;
    __syncthreads();
    t.room = capacity - held - (fresh ? min(some, heads) * E : n * LOGITS);
    if (t.room >= 0 && !tighten && (!fresh || some <= (int)k)) return t;
    if (!fresh && !tighten) {
        t.room = capacity - held - count_above<T>(c, t.value, p);
        if (t.room >= 0) return t;
    }
    if (held > (int)enough && capacity - held < max((2 * (int)k + 16) * group, heads)) {
        const topk_key floor = select_key(keys, held, k, enough, p);
        keep_from(floor, keys, held, p);
        left = (int)p->count;
        t.value = logit_of(floor);
        t.room = capacity - left - count_above<T>(c, t.value, p);
        if (t.room >= 0) return t;
    }
    const int free = capacity - left, most = min(free / group, 2 * (int)k + 16);
    t.room = free - heads * E;
    if ((int)k <= min(most, GROUPS / 2) &&
        raise_to_top(&t, top, k, (unsigned)most, (unsigned *)(keys + left), p))
        t.room = free - most * group;
    else if (t.room < 0) {
        raise_among_equals<T>(&t, c, at, r, keys + left, k, p);
        t.room = free - (int)k * E;
    }
    __syncthreads();
    return t;
}

/* Puts what is above the threshold on the pile. Each thread marks which of its logits are; the warp
 * takes places for all of them at once. All its threads come here. */
template <class T, int N>
__device__ __forceinline__ void pile_up(const uint4 (&raw)[N], const float (&largest_of)[N],
                                        const uint4 *c, int at, const row_view<T> &r,
                                        const threshold &t, topk_key *keys, pile *p)
{
    constexpr int      E = lanes<T>::n;
    constexpr unsigned ALL = 0xffffffffu;
    const unsigned     begin = ((unsigned)at + threadIdx.x) * E;
    unsigned           mask = 0;
    if ((unsigned)t.exact || t.value != t.value) { /* which equals, and places that are none */
        for (int i = 0; i < N * E; i++) {
            const unsigned place = begin + i / E * (n_threads() * E) + i % E;
            const float x = to_float(((const T *)(c + i / E * n_threads() + threadIdx.x))[i % E]);
            const bool  above = x == x && key_of(x, place - r.lead) >= t.exact;
            if (above && place >= r.lead && place < r.size) mask |= 1u << i;
        }
    } else {
#pragma unroll
        for (int v = 0; v < N; v++)
            if (__any_sync(ALL, largest_of[v] >= t.value)) {
                float x[E];
                unpack_as<T>(raw[v], x);
#pragma unroll
                for (int e = 0; e < E; e++)
                    mask |= (unsigned)(t.exact ? x[e] >= t.value : x[e] > t.value) << (v * E + e);
            }
    }
    const unsigned n = (unsigned)__popc(mask), lane = threadIdx.x % 32;
    unsigned       upto = n, to = 0;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned other = __shfl_up_sync(ALL, upto, d);
        if (lane >= (unsigned)d) upto += other;
    }
    if (lane == 31 && upto) to = atomicAdd(&p->count, upto);
    to = __shfl_sync(ALL, to, 31) + upto - n;
    for (; mask; mask &= mask - 1) {
        const int      i = __ffs((int)mask) - 1;
        const unsigned place = begin + i / E * (n_threads() * E) + i % E;
        keys[to++] = key_of(to_float(((const T *)(c + i / E * n_threads() + threadIdx.x))[i % E]),
                            place - r.lead);
    }
}

} // namespace

#endif
