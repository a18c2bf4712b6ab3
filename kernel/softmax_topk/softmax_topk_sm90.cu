/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_sm90.cu - one read of the logits.
 *
 * A block streams its row, or a cluster of blocks its share each, a chunk at a time: four
 * vectors of 16 bytes a thread, with the next chunks on their way to shared memory. Of each chunk a
 * thread adds exp(z - m) to its own running sum, m being its own running maximum, and puts the
 * logits above the block's threshold on a pile in shared memory. The threshold is a value that k
 * entries met so far are known to reach. At the row's end the pile is cut down to k and sorted, and
 * only then probabilities are formed.
 *
 * The pile cannot overflow. Before a chunk is piled up the block counts the threads that have
 * something above the threshold. If there might not be room, the pile is cut down to about k, which
 * gives a higher threshold; and if the chunk alone is too much, the k-th largest of its vectors'
 * maxima is one: k vectors reach it, and no more than about k vectors have anything above it. So
 * however the winners lie, a chunk adds no more than they and their neighbours. */
#include <cooperative_groups.h>
#include <float.h>

#include "dtype.cuh"
#include "softmax_topk_select.cuh"

extern "C" {
#include "touchstone/softmax_topk.h"
}

namespace cg = cooperative_groups;

namespace
{

/* VECTORS of a chunk a thread has; STAGES, chunks in shared memory; MOST_K a pass over the row
 * finds; SHARES of a row at most. */
enum { VECTORS = 4, STAGES = 2, MOST_K = 1024, SHARES = 8 };

/* Logits of a chunk a thread has. */
template <class T> constexpr int logits_of = VECTORS *lanes<T>::n;

struct topk_params {
    int64_t     n_rows, row_stride, k;
    int         n_vocab, n_shares;
    int         capacity; /* keys on the pile */
    int         at_once;  /* blocks that run side by side */
    float       scale;    /* inv_temperature * log2(e) */
    double      inv_temperature;
    const void *logits;
    int32_t    *index;
    float      *prob, *lse;
};

struct partial {
    float m, s; /* maximum, and sum of 2^(scale (x - m)) */
};

struct shared_state {
    pile     p;
    partial  warp[WARPS], share[SHARES];
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

/* ---- a row, seen as vectors of 16 bytes from the address below its first logit ---- */

template <class T> struct row_view {
    const T *base;       /* on a 16-byte boundary */
    unsigned lead, size; /* places before the first logit; places up to the last one */

    __device__ __forceinline__ row_view(const topk_params &p, int64_t row)
    {
        const T *first = (const T *)p.logits + row * p.row_stride;
        lead = (unsigned)((uintptr_t)first % 16 / sizeof(T));
        base = first - lead;
        size = lead + (unsigned)p.n_vocab;
    }
    __device__ __forceinline__ int n_vectors(void) const
    {
        return (int)((size + lanes<T>::n - 1) / lanes<T>::n);
    }
};

template <class T> __device__ __forceinline__ unsigned minus_inf(void)
{
    return 0xff80ff80u;
}
template <> __device__ __forceinline__ unsigned minus_inf<float>(void)
{
    return 0xff800000u;
}
template <> __device__ __forceinline__ unsigned minus_inf<__half>(void)
{
    return 0xfc00fc00u;
}

/* A vector of which not all places are logits: those that are not become -inf. */
template <class T> __device__ __noinline__ uint4 ragged(const row_view<T> &r, int at)
{
    constexpr int E = lanes<T>::n;
    float         f[E];
    for (int e = 0; e < E; e++) {
        const unsigned place = (unsigned)at * E + e;
        f[e] = place >= r.lead && place < r.size ? to_float(r.base[place]) : -INFINITY;
    }
    return pack_as<T>(f);
}

/* A corner of shared memory for each vector of a thread. */
struct chunk {
    uint4 v[VECTORS][THREADS];
};

__device__ __forceinline__ void copy_ahead(uint4 *to, const uint4 *from)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

/* Until all chunks but the latest STAGES - 1 have come. */
__device__ __forceinline__ void wait_for_oldest(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
}

/* Sends for the thread's own vectors of the chunk at `at`; those from `end` on are not its block's.
 */
template <class T>
__device__ __forceinline__ void fetch(chunk *to, const row_view<T> &r, int at, int end)
{
    constexpr int E = lanes<T>::n, N = VECTORS;
    const uint4  *from = (const uint4 *)r.base + at + threadIdx.x;
    const int     whole = min(end, (int)(r.size / E));
    if ((at > 0 || r.lead == 0) && at + N * THREADS <= whole) {
#pragma unroll
        for (int v = 0; v < N; v++) copy_ahead(&to->v[v][threadIdx.x], from + v * THREADS);
    } else {
        for (int v = 0; v < N; v++) {
            const int      mine = at + v * THREADS + (int)threadIdx.x;
            const unsigned none = minus_inf<T>();
            uint4         *corner = &to->v[v][threadIdx.x];
            if (mine < whole && (mine > 0 || r.lead == 0)) copy_ahead(corner, from + v * THREADS);
            else *corner = mine < end ? ragged(r, mine) : make_uint4(none, none, none, none);
        }
    }
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
        using pair = typename std::conditional<sizeof(T) == 2 && std::is_same<T, __half>::value,
                                               __half2, __nv_bfloat162>::type;
        pair w[4];
        memcpy(w, &v, sizeof v);
        const pair m = __hmax2(__hmax2(w[0], w[1]), __hmax2(w[2], w[3]));
        unsigned   bits;
        memcpy(&bits, &m, sizeof bits);
        const float2 f = widen(bits, T());
        return fmaxf(f.x, f.y);
    }
}

/* ---- the pile ---- */

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
__device__ void pile_maxima(topk_key *to, const chunk *c, int at, const row_view<T> &r)
{
    constexpr int E = lanes<T>::n;
    for (int v = 0; v < VECTORS; v++) {
        const unsigned first = ((unsigned)at + v * THREADS + threadIdx.x) * E;
        const float    m = largest<T>(c->v[v][threadIdx.x]);
        const bool     any = first < r.size && first + E > r.lead && m == m;
        to[v * THREADS + threadIdx.x] = any ? key_of(m, first + E - 1 - r.lead) : 0;
    }
}

/* How many logits of the chunk are above the threshold. */
template <class T> __device__ int count_above(const chunk *c, float value, pile *p)
{
    constexpr int E = lanes<T>::n;
    unsigned      n = 0;
    for (int v = 0; v < VECTORS; v++) {
        float x[E];
        unpack_as<T>(c->v[v][threadIdx.x], x);
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

/* A threshold that at least k of the chunk's logits reach and not many more vectors do. */
template <class T>
__device__ __forceinline__ void raise(threshold *t, float largest_own, const chunk *c, int at,
                                      const row_view<T> &r, topk_key *scratch, unsigned k,
                                      unsigned most_threads, pile *p)
{
    const topk_key mine = (topk_key)ordered_of(largest_own) << 32 | 0xffffffffu;
    topk_key       floor = 0;
    bool           fits = k <= most_threads;
    if (fits) {
        const key_range range = bounds(mine, mine, p);
        const auto      own = [=](topk_key from) { return (unsigned)(mine >= from); };
        floor = search(range, k, most_threads, own, &fits, p) & ~0xffffffffull;
    }
    if (!fits) {
        pile_maxima<T>(scratch, c, at, r);
        __syncthreads();
        floor = select_key(scratch, VECTORS * THREADS, k, k, p);
    }
    if (floor && !(logit_of(floor) < t->value)) {
        t->value = logit_of(floor);
        t->exact = floor;
    }
}

/* All threads come here after a barrier and before anyone piles up more. own: the thread's largest;
 * n: threads that have something above the threshold. */
template <class T>
__device__ __noinline__ threshold make_room(threshold t, float own, int n, const chunk *c, int at,
                                            const row_view<T> &r, int end, topk_key *keys,
                                            unsigned k, int capacity, pile *p)
{
    constexpr int  E = lanes<T>::n, LOGITS = logits_of<T>;
    const unsigned enough = k + k / 4 + 16;
    const int  held = (int)p->count, some = min(end, r.n_vectors()) - at; /* vectors there are */
    const bool fresh = t.value != t.value;
    __syncthreads();
    t.room = capacity - held - n * LOGITS;
    if (t.room >= 0 && !fresh) return t;
    t.room = capacity - held - (fresh ? some * E : count_above<T>(c, t.value, p));
    if (t.room >= 0 && (!fresh || some <= (int)k)) return t;
    int left = held;
    if (held > (int)enough) {
        const topk_key floor = select_key(keys, held, k, enough, p);
        keep_from(floor, keys, held, p);
        left = (int)p->count;
        t.value = logit_of(floor);
        t.room = capacity - left - count_above<T>(c, t.value, p);
        if (t.room >= 0) return t;
    }
    const int free = capacity - left, heads = VECTORS * THREADS;
    t.room = free - THREADS * LOGITS;
    if (t.room >= 0 && (!fresh || 2 * (int)k > heads)) return t;
    /* Threads whose logits would all find room. */
    const int most_threads = min(free / LOGITS, 2 * (int)k + 16);
    raise<T>(&t, own == own ? own : -INFINITY, c, at, r, keys + left, k, (unsigned)most_threads, p);
    t.room = free - max((int)k * E, most_threads * LOGITS);
    __syncthreads();
    return t;
}

/* Puts what is above the threshold on the pile. The warp looks together at each of its threads that
 * has something: a lane takes one of the logits. */
template <class T>
__device__ __forceinline__ void pile_up(bool has, const chunk *c, int at, const row_view<T> &r,
                                        const threshold &t, topk_key *keys, pile *p)
{
    constexpr int  E = lanes<T>::n;
    const unsigned lane = threadIdx.x % 32;
    const int      v = (int)lane / E % VECTORS, e = (int)lane % E;
    for (unsigned todo = __ballot_sync(0xffffffffu, has); todo; todo &= todo - 1) {
        const unsigned who = threadIdx.x - lane + (unsigned)__ffs((int)todo) - 1;
        const unsigned place = ((unsigned)at + v * THREADS + who) * E + e;
        const float    x = to_float(((const T *)&c->v[v][who])[e]);
        const topk_key key = key_of(x, place - r.lead);
        const bool     above = t.exact ? key >= t.exact && x == x : x > t.value;
        const bool     mine = lane < logits_of<T> && (above || (t.value != t.value && x == x)) &&
                          place >= r.lead && place < r.size;
        const unsigned votes = __ballot_sync(0xffffffffu, mine);
        unsigned       to = 0;
        if (lane == 0) to = atomicAdd(&p->count, (unsigned)__popc(votes));
        to = __shfl_sync(0xffffffffu, to, 0) + (unsigned)__popc(votes & ((1u << lane) - 1));
        if (mine) keys[to] = key;
    }
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
#pragma unroll
    for (int v = 0; v < N; v++) {
        float x[E];
        unpack_as<T>(raw[v], x);
#pragma unroll
        for (int e = 0; e < E; e++)
            s[e % 4] += exp2_of(near ? fmaf(x[e], scale, -base) : (x[e] - m) * scale);
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
            const unsigned place = ((unsigned)at + v * THREADS + threadIdx.x) * E + e;
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
    constexpr int STEP = VECTORS * THREADS;
    for (int s = 0; s < STAGES - 1; s++)
        fetch<T>((chunk *)(keys + p.capacity) + s, r, begin + s * STEP, end);
}

/* The block's share of the row, the vectors from begin to end, once its first chunks are on their
 * way. AGAIN: a later pass, which sums nothing and passes over what is not below `given_out`. */
template <class T, bool AGAIN>
__device__ __forceinline__ partial scan(const topk_params &p, const row_view<T> &r, int begin,
                                        int end, unsigned k, topk_key given_out, topk_key *keys,
                                        shared_state *sh)
{
    constexpr int N = VECTORS, STEP = N * THREADS, LOGITS = logits_of<T>;
    chunk        *stages = (chunk *)(keys + p.capacity);
    threshold     t = { NAN, 0, -1 };
    partial       own = { -INFINITY, 0 };
    int           stage = 0, free_stage = STAGES - 1;
    if (threadIdx.x == 0) sh->p.count = 0;
    for (int at = begin; at < end; at += STEP) {
        fetch<T>(stages + free_stage, r, at + (STAGES - 1) * STEP, end);
        chunk *here = stages + stage;
        free_stage = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        wait_for_oldest();
        uint4 raw[N];
#pragma unroll
        for (int v = 0; v < N; v++) raw[v] = here->v[v][threadIdx.x];
        if constexpr (AGAIN) {
            forget<T, N>(raw, at, r, given_out);
#pragma unroll
            for (int v = 0; v < N; v++) here->v[v][threadIdx.x] = raw[v];
        }
        float c = largest<T>(raw[0]);
#pragma unroll
        for (int v = 1; v < N; v++) c = fmaxf(c, largest<T>(raw[v]));
        const int n = __syncthreads_count(!(c <= t.value));
        if (n * LOGITS > t.room)
            t = make_room<T>(t, c, n, here, at, r, end, keys, k, p.capacity, &sh->p);
        else t.room -= n * LOGITS;
        pile_up<T>(t.exact ? !(c < t.value) : !(c <= t.value), here, at, r, t, keys, &sh->p);
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

template <int WIDTH> __device__ __forceinline__ float warp_sum(float s)
{
#pragma unroll
    for (int d = WIDTH / 2; d; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    return s;
}

/* Over the block, in a fixed order; every thread gets the same bits. */
__device__ partial block_partial(partial own, float scale, shared_state *sh)
{
    float m = warp_max(own.m);
    float s = warp_sum<32>(rescaled(own, m, scale));
    if (threadIdx.x % 32 == 0) sh->warp[threadIdx.x / 32] = { m, s };
    __syncthreads();
    own = sh->warp[threadIdx.x % WARPS];
    m = warp_max(own.m);
    return { m, warp_sum<WARPS>(rescaled(own, m, scale)) };
}

/* Leaves at most `at_most` keys, the k largest among them; returns how many. */
__device__ int cut_pile(topk_key *keys, unsigned k, unsigned at_most, pile *p)
{
    const int n = (int)p->count;
    if (n <= (int)at_most) return n;
    const topk_key floor = select_key(keys, n, k, at_most, p);
    keep_from(floor, keys, n, p);
    return (int)p->count;
}

/* The places of the row from `first` on, k of them. Returns whether there are more entries. */
__device__ __noinline__ bool give_out(const topk_params &p, int64_t row, int64_t first, unsigned k,
                                      partial all, topk_key *keys, shared_state *sh)
{
    const int  n = cut_pile(keys, k, (unsigned)rankable(p.capacity), &sh->p);
    const bool sick = !(all.s >= 0); /* a NaN or +inf made the sum NaN */
    int32_t   *index = p.index + row * p.k + first;
    float     *prob = p.prob + row * p.k + first;
    const auto put = [&](int rank, topk_key key) {
        if (rank >= (int)k) return;
        const double z = ((double)logit_of(key) - (double)all.m) * p.inv_temperature;
        index[rank] = sick ? -1 : (int32_t)index_of(key);
        prob[rank] = sick ? NAN : all.s > 0 ? expf((float)z) / all.s : 0.0f;
        if (rank == (int)k - 1) sh->last = key;
    };
    rank_keys(keys, n, &sh->p, put);
    for (unsigned j = (unsigned)n + threadIdx.x; j < k; j += THREADS) {
        index[j] = -1;
        prob[j] = sick ? NAN : 0.0f;
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
        for (int i = threadIdx.x; i < n; i += THREADS) first_keys[begin + i] = keys[i];
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
    for (int64_t j = first + threadIdx.x; j < p.k; j += THREADS) {
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
        if (p.n_shares > 1)
            begin = (int)(n * share / p.n_shares), end = (int)(n * (share + 1) / p.n_shares);
    }
};

__device__ __forceinline__ float lse_of(partial all, double inv_temperature)
{
    if (!(all.s >= 0)) return NAN;
    return all.s == 0 ? -INFINITY : (float)(inv_temperature * all.m + (double)logf(all.s));
}

/* Blocks stay, and send for the next row before they finish with one. */
template <class T, bool SHARED>
__global__ void __launch_bounds__(THREADS, 4) softmax_topk(const __grid_constant__ topk_params p)
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
    const size_t n_bytes = p.capacity * sizeof(topk_key) + STAGES * sizeof(chunk);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)n_bytes);
    cudaLaunchConfig_t config = {};
    const int64_t      most = SHARED ? INT32_MAX : p.at_once;
    const int64_t      n_blocks = p.n_rows * p.n_shares;
    config.gridDim = dim3((unsigned)(n_blocks < most ? n_blocks : most));
    config.blockDim = dim3(THREADS);
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

/* The pile has room for k keys and what a chunk may add to them; four blocks find room on a
 * multiprocessor, fewer when k is large. */
template <class T> ts_status launch(topk_params p, cudaStream_t s)
{
    const bool small = p.k <= 256;
    p.capacity = small ? 2816 : MOST_K + MOST_K / 4 + 16 + THREADS * logits_of<T>;
    p.at_once = (small ? 4 : sizeof(T) == 4 ? 3 : 2) * n_multiprocessors();
    p.n_shares = shares_of(p);
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
