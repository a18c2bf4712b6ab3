/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_topk_cuda.cu - softmax + top-k on every device from sm_80 on; sm_90 has a faster kernel.
 *
 * A block has one row at a time. Two passes find the maximum and the sum; four passes of 8 bits
 * each find the k-th largest key; one pass collects the winners, of equal keys those that come
 * first; a bitonic sort orders them. Any k and any input take this path. */
#include "row_teams.cuh"

extern "C" {
#include "touchstone/softmax_topk.h"
}

namespace
{

enum { THREADS = 512, WARPS = THREADS / 32, DIGITS = 256, SHARED_K = 2048 };

/* Unsigned keys in the order of the floats; -0 is +0. */
__device__ __forceinline__ unsigned key_of(float v)
{
    const unsigned u = __float_as_uint(v + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

__device__ __forceinline__ float value_of(unsigned key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

template <class OP> __device__ __forceinline__ double block_reduce(double v, OP op)
{
    __shared__ double part[WARPS];
#pragma unroll
    for (int d = 16; d; d /= 2) v = op(v, __shfl_xor_sync(~0u, v, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int i = 1; i < WARPS; i++) v = op(v, part[i]);
    return v;
}

/* The k-th largest key of the row, 1 <= k <= n, and how many of the keys equal to it belong to the
 * first k. */
template <class T> __device__ uint2 threshold(const T *x, int n, int k)
{
    __shared__ unsigned count[DIGITS], found[2];
    unsigned            prefix = 0, left = (unsigned)k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < DIGITS; i += THREADS) count[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += THREADS) {
            const unsigned key = key_of(to_float(x[i]));
            if (shift == 24 || key >> (shift + 8) == prefix >> (shift + 8))
                atomicAdd(&count[key >> shift & (DIGITS - 1)], 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = DIGITS - 1;
            for (; count[digit] < left; digit--) left -= count[digit];
            found[0] = prefix | (unsigned)digit << shift;
            found[1] = left;
        }
        __syncthreads();
        prefix = found[0], left = found[1];
        __syncthreads();
    }
    return make_uint2(prefix, left);
}

/* Items of the first k in any order: key and inverted index, so that larger items come first. */
template <class T>
__device__ void collect(const T *x, int n, int k, uint2 cut, unsigned long long *item)
{
    __shared__ int above[WARPS], equal[WARPS];
    const int      warp = threadIdx.x / 32, n_above = k - (int)cut.y;
    const unsigned before = (1u << threadIdx.x % 32) - 1;
    int            at_above = 0, at_equal = 0; /* of the block's chunks so far */
    for (int first = 0; first < n; first += THREADS) {
        const int      i = first + (int)threadIdx.x;
        const unsigned key = i < n ? key_of(to_float(x[i])) : 0u;
        const bool     is_above = i < n && key > cut.x, is_equal = i < n && key == cut.x;
        const unsigned ballot_above = __ballot_sync(~0u, is_above);
        const unsigned ballot_equal = __ballot_sync(~0u, is_equal);
        if (threadIdx.x % 32 == 0) {
            above[warp] = __popc(ballot_above);
            equal[warp] = __popc(ballot_equal);
        }
        __syncthreads();
        int place_above = at_above + __popc(ballot_above & before);
        int place_equal = at_equal + __popc(ballot_equal & before);
        for (int w = 0; w < WARPS; w++) {
            if (w < warp) place_above += above[w], place_equal += equal[w];
            at_above += above[w], at_equal += equal[w];
        }
        const unsigned long long one = (unsigned long long)key << 32 | (0xffffffffu - (unsigned)i);
        if (is_above) item[place_above] = one;
        if (is_equal && place_equal < (int)cut.y) item[n_above + place_equal] = one;
        __syncthreads();
    }
}

/* Largest first; n is a power of two. */
__device__ void sort(unsigned long long *item, int n)
{
    for (int size = 2; size <= n; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            for (int i = threadIdx.x; i < n / 2; i += THREADS) {
                const int                low = 2 * i - (i & (step - 1)), high = low + step;
                const bool               falling = (low & size) == 0;
                const unsigned long long a = item[low], b = item[high];
                if ((a < b) == falling) item[low] = b, item[high] = a;
            }
            __syncthreads();
        }
}

int power_of_two(int64_t k)
{
    int64_t n = 1;
    while (n < k) n *= 2;
    return (int)n;
}

struct topk_params {
    int64_t             n_rows, row_stride, k;
    int                 n, kept, room; /* kept: min(k, n); room: a power of two */
    double              t;
    const void         *logits;
    int32_t            *index;
    float              *prob, *lse;
    unsigned long long *items; /* [blocks][room], where they do not fit into shared memory */
};

template <class T> __global__ void __launch_bounds__(THREADS) topk_rows(const topk_params p)
{
    __shared__ unsigned long long near[SHARED_K];
    unsigned long long *const     item =
        p.room <= SHARED_K ? near : p.items + blockIdx.x * (size_t)p.room;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const T *x = (const T *)p.logits + row * p.row_stride;
        double   largest = -INFINITY, bad = 0, sum = 0;
        for (int i = threadIdx.x; i < p.n; i += THREADS) {
            const float v = to_float(x[i]);
            bad += v != v || v == INFINITY;
            largest = fmax(largest, (double)v);
        }
        bad = block_reduce(bad, [](double a, double b) { return a + b; });
        largest = block_reduce(largest, [](double a, double b) { return fmax(a, b); });
        const bool none = largest == -INFINITY; /* nothing has a probability */
        for (int i = threadIdx.x; i < p.n && !bad && !none; i += THREADS)
            sum += (double)expf((float)(p.t * ((double)to_float(x[i]) - largest)));
        sum = block_reduce(sum, [](double a, double b) { return a + b; });
        const double log_sum = log(sum);
        if (threadIdx.x == 0 && p.lse)
            p.lse[row] = bad ? nanf("") : none ? -INFINITY : (float)(p.t * largest + log_sum);
        if (!bad && p.kept) {
            collect(x, p.n, p.kept, threshold(x, p.n, p.kept), item);
            for (int i = p.kept + (int)threadIdx.x; i < p.room; i += THREADS) item[i] = 0;
            __syncthreads();
            sort(item, p.room);
        }
        for (int64_t i = threadIdx.x; i < p.k; i += THREADS) {
            const bool     has = !bad && i < p.kept;
            const unsigned key = has ? (unsigned)(item[i] >> 32) : 0u;
            const double   z = has && !none ? p.t * ((double)value_of(key) - largest) : 0.0;
            p.index[row * p.k + i] = has ? (int32_t)(0xffffffffu - (unsigned)item[i]) : -1;
            p.prob[row * p.k + i] = bad ? nanf("") : has && !none ? (float)exp(z - log_sum) : 0.0f;
        }
        __syncthreads(); /* the items have been read */
    }
}

int blocks_of(const ts_softmax_topk_args *a)
{
    const int64_t most = 2 * (int64_t)n_multiprocessors();
    return (int)(a->n_rows < most ? a->n_rows : most);
}

int64_t kept_of(const ts_softmax_topk_args *a)
{
    return a->k < a->n_vocab ? a->k : a->n_vocab;
}

} // namespace

extern "C" TS_API ts_status ts_softmax_topk_cuda_workspace(const void *args, const ts_exec *x,
                                                           size_t *n_bytes)
{
    const ts_softmax_topk_args *a = (const ts_softmax_topk_args *)args;
    (void)x;
    *n_bytes = 0;
    if (kept_of(a) > (int64_t)1 << 30) return TS_E_UNSUPPORTED;
    const int room = power_of_two(kept_of(a));
    if (room > SHARED_K) *n_bytes = (size_t)blocks_of(a) * (size_t)room * 8;
    return TS_OK;
}

extern "C" TS_API ts_status ts_softmax_topk_cuda(const void *args, const ts_exec *x)
{
    const ts_softmax_topk_args *a = (const ts_softmax_topk_args *)args;
    const cudaStream_t          s = (cudaStream_t)x->stream;
    if (kept_of(a) > (int64_t)1 << 30) return TS_E_UNSUPPORTED;
    if (a->n_rows == 0) return TS_OK;
    const topk_params p = { .n_rows = a->n_rows,
                            .row_stride = a->row_stride,
                            .k = a->k,
                            .n = (int)a->n_vocab,
                            .kept = (int)kept_of(a),
                            .room = power_of_two(kept_of(a)),
                            .t = (double)(float)a->inv_temperature,
                            .logits = a->logits,
                            .index = a->index,
                            .prob = a->prob,
                            .lse = a->lse,
                            .items = (unsigned long long *)x->workspace };
    const unsigned    blocks = (unsigned)blocks_of(a);
    if (a->dtype == TS_F32) topk_rows<float><<<blocks, THREADS, 0, s>>>(p);
    else if (a->dtype == TS_BF16) topk_rows<__nv_bfloat16><<<blocks, THREADS, 0, s>>>(p);
    else topk_rows<__half><<<blocks, THREADS, 0, s>>>(p);
    return launched();
}
