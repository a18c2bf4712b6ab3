/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_cuda.cu - CUDA mutants of softmax_topk: one correct implementation with one injected
 * bug at a time. softmax_topk_cuda_list.h lists them.
 *
 * A block of threads takes a row, thread i every THREADS-th element, beginning with the i-th. Three
 * passes: the maximum; the sum of exp(t (x - m)), in double; and for each of the k places the best
 * element after the one chosen last. Slow, and simple enough to be correct. All threads of a block
 * take every branch around a barrier together. */
#include <math_constants.h>

#include "dtype.cuh"
#include "softmax_topk_cuda_list.h"

extern "C" {
#include "touchstone/softmax_topk.h"
}

namespace
{

enum { THREADS = 128, WARP = 32, MOST_BLOCKS = 4096 };

#define TRAP(trap, name, fault, family) trap,
enum trap { CUDA_MUTANTS(TRAP) N_TRAPS };

/* A logit and its index in 64 bits that compare as the canonical order does. 0: no entry. */
typedef unsigned long long entry_key;

typedef ts_softmax_topk_args topk_args;

/* A row as one thread sees it: its own entries are first, first + step, ... below n. */
struct row {
    topk_args a;
    int64_t   number, begin;
    unsigned  n, first, step;
    bool      there, writes; /* the row is one of the call's; this thread writes for it */
    double    t, m, sum;
};

struct slots {
    double    number[THREADS];
    entry_key key[THREADS];
};

/* ---- entries ---- */

__device__ float load(const void *p, ts_dtype t, int64_t i)
{
    if (t == TS_F32) return ((const float *)p)[i];
    if (t == TS_F16) return to_float(((const __half *)p)[i]);
    return to_float(((const __nv_bfloat16 *)p)[i]);
}

/* A NaN gets here only if a bug has let it pass: then it counts for nothing. */
__device__ float at(const row &r, unsigned i)
{
    const float x = load(r.a.logits, r.a.dtype, r.begin + i);
    return x != x ? -CUDART_INF_F : x;
}

__device__ bool is_nonfinite(const row &r, unsigned i, bool nan_counts)
{
    const float x = load(r.a.logits, r.a.dtype, r.begin + i);
    return x == CUDART_INF_F || (nan_counts && x != x);
}

__device__ double weight(const row &r, float x)
{
    return x == -CUDART_INF_F ? 0 : exp(r.t * ((double)x - r.m));
}

__device__ unsigned ordered(float x)
{
    const unsigned b = __float_as_uint(x + 0.0f); /* -0 becomes +0 */
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

/* Entries that a thread has, at most. */
__device__ unsigned share(const row &r)
{
    return (r.n + THREADS - 1) / THREADS;
}

/* Among equal logits the lower place comes first. */
template <trap X> __device__ unsigned place_of(const row &r, unsigned i)
{
    return X == TIES_THREAD ? i % THREADS * share(r) + i / THREADS : i;
}

template <trap X> __device__ unsigned index_of(const row &r, entry_key key)
{
    const unsigned place = ~(unsigned)key;
    return X == TIES_THREAD ? place % share(r) * THREADS + place / share(r) : place;
}

template <trap X> __device__ entry_key key_of(const row &r, unsigned i)
{
    const float x = at(r, i);
    const float ranked = X == BY_PROB ? (float)(weight(r, x) / r.sum) : x;
    return (entry_key)ordered(ranked) << 32 | (entry_key)~place_of<X>(r, i);
}

/* ---- reductions ---- */

struct larger {
    template <class V> __device__ V operator()(V a, V b) const
    {
        return a > b ? a : b;
    }
};

struct plus {
    template <class V> __device__ V operator()(V a, V b) const
    {
        return a + b;
    }
};

/* Of what the block's threads hold, the same for all of them. */
template <trap X, class V, class F> __device__ V reduce(V mine, V *slot, F f)
{
    const int     i = (int)threadIdx.x;
    constexpr int n_slots = X == FIRST_WARP ? WARP : THREADS;
    __syncthreads(); /* the last result has been read by all */
    slot[i] = mine;
    for (int n = n_slots / 2; n > 0; n /= 2) {
        __syncthreads();
        if (i < n) slot[i] = f(slot[i], slot[i + n]);
    }
    __syncthreads();
    return slot[0];
}

/* ---- a row ---- */

template <trap X> __device__ int64_t begin_of(const topk_args &a, int64_t number)
{
    const int64_t begin = number * a.row_stride, n_bytes = a.dtype == TS_F32 ? 4 : 2;
    if (X == INT32_OFFSET) return begin & INT32_MAX;
    if (X != ALIGNED) return begin;
    /* As a load of 16 bytes would find them that ignores the low bits of its address. */
    return begin - (int64_t)((uintptr_t)a.logits + (uintptr_t)(begin * n_bytes)) % 16 / n_bytes;
}

/* The block's row. Under ROWS_MIXED each warp has one, and reductions are still the block's. */
template <trap X> __device__ row row_of(const topk_args &a, int64_t n_rows, int64_t number)
{
    row       r;
    const int warp = (int)threadIdx.x / WARP;
    r.a = a;
    r.number = X == ROWS_MIXED ? number + warp : number;
    r.first = X == ROWS_MIXED ? threadIdx.x % WARP : threadIdx.x;
    r.step = X == ROWS_MIXED ? WARP : THREADS;
    r.there = r.number < n_rows;
    r.writes = r.there && r.first == 0;
    r.begin = r.there ? begin_of<X>(a, r.number) : 0;
    r.n = r.there ? (unsigned)a.n_vocab : 0;
    if (X == TAIL_4) r.n = r.n / 4 * 4;
    r.t = X == T_IGNORED ? 1 : a.inv_temperature;
    r.m = r.sum = 0;
    return r;
}

/* The places from j on, which no entry takes. */
__device__ void put_nothing(const row &r, int64_t j, int32_t index, float prob)
{
    if (!r.there) return;
    for (j += r.first; j < r.a.k; j += r.step) {
        r.a.index[r.number * r.a.k + j] = index;
        r.a.prob[r.number * r.a.k + j] = prob;
    }
}

template <trap X> __device__ void put(const row &r, int64_t j, unsigned i, double w)
{
    const float none = X == MASKED_NAN ? CUDART_NAN_F : 0;
    r.a.index[r.number * r.a.k + j] = (int32_t)i;
    r.a.prob[r.number * r.a.k + j] = r.sum == 0 ? none : (float)(w / r.sum);
}

/* The thread's best entry that comes after `last`. */
template <trap X> __device__ entry_key best_after(const row &r, entry_key last)
{
    entry_key best = 0;
    for (unsigned i = r.first; i < r.n; i += r.step) {
        const entry_key key = key_of<X>(r, i);
        if (key < last && key > best) best = key;
    }
    return best;
}

/* Finds the k winners and writes them if so told; the sum of their weights. */
template <trap X> __device__ double select(const row &r, bool write, slots *s)
{
    entry_key last = ~0ull;
    double    sum = 0;
    int       n_mine = 0; /* winners that this thread has had */
    int64_t   j = 0;
    for (; j < r.a.k; j++) {
        entry_key mine = best_after<X>(r, X == UNMERGED ? ~0ull : last);
        if (X == UNMERGED && threadIdx.x != j % THREADS) mine = 0;
        if (X == LOCAL_K && n_mine == 2) mine = 0;
        last = reduce<X>(mine, s->key, larger());
        if (last == 0) break;
        n_mine += mine == last;
        const unsigned i = index_of<X>(r, last);
        const double   w = r.there ? weight(r, at(r, i)) : 0;
        sum += w;
        if (write && r.writes) put<X>(r, j, i, w);
    }
    if (write) put_nothing(r, j, X == INDEX_0 ? 0 : -1, 0);
    return sum;
}

template <trap X> __device__ void do_row(row r, slots *s)
{
    double m = -CUDART_INF, sum = 0;
    bool   seen = false;
    for (unsigned i = r.first; i < r.n; i += r.step) {
        m = fmax(m, (double)at(r, i));
        seen |= is_nonfinite(r, i, X != NAN_SWALLOWED);
    }
    const bool nonfinite = __syncthreads_or(seen) != 0;
    r.m = reduce<X>(m, s->number, larger());
    if (X == NO_MAX) r.m = 0;
    for (unsigned i = r.first; i < r.n; i += r.step) sum += weight(r, at(r, i));
    r.sum = reduce<X>(sum, s->number, plus());
    if (X == TIMES_32) r.sum *= WARP;
    if (X == WINNERS && !nonfinite) r.sum = select<X>(r, false, s);
    if (r.writes && r.a.lse) {
        const float lse = r.sum == 0 ? -CUDART_INF_F : (float)(r.t * r.m + log(r.sum));
        r.a.lse[r.number] = nonfinite ? CUDART_NAN_F : lse;
    }
    if (nonfinite) {
        put_nothing(r, 0, -1, CUDART_NAN_F);
        return;
    }
    if (X == RENORMALISED) r.sum = select<X>(r, false, s);
    select<X>(r, true, s);
}

/* ---- a call ---- */

template <trap X> __global__ void topk(topk_args a, int64_t n_rows)
{
    __shared__ slots s;
    constexpr int    together = X == ROWS_MIXED ? THREADS / WARP : 1;
    for (int64_t b = blockIdx.x; b * together < n_rows; b += gridDim.x)
        do_row<X>(row_of<X>(a, n_rows, b * together), &s);
    if (X == PAST_INDEX && a.k && blockIdx.x == 0 && threadIdx.x == 0) a.index[a.n_rows * a.k] = 0;
}

template <trap X> ts_status launch(const void *args, const ts_exec *x)
{
    const topk_args a = *(const topk_args *)args;
    int64_t         n_rows = a.n_rows;
    if (X == NO_LAST_ROW && n_rows > 0) n_rows--;
    if (X == ROWS_65535 && n_rows > 65535) n_rows = 65535;
    if (n_rows == 0) return TS_OK;
    const unsigned n_blocks = n_rows < MOST_BLOCKS ? (unsigned)n_rows : (unsigned)MOST_BLOCKS;
    topk<X><<<n_blocks, THREADS, 0, (cudaStream_t)x->stream>>>(a, n_rows);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}

} // namespace

#define RUN(trap, name, fault, family)                                                             \
    extern "C" TS_API ts_status ts_mutant_softmax_topk_##name(const void *a, const ts_exec *x)     \
    {                                                                                              \
        return launch<trap>(a, x);                                                                 \
    }
CUDA_MUTANTS(RUN)
