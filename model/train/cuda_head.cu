/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_head.cu - cross-entropy. */
#include "cuda_impl.cuh"

namespace
{

enum {
    EACH = 8, /* elements of an access */
    THREADS = 256,
    ROW_THREADS = 1024, /* of a row of logits */
    ROW_WARPS = ROW_THREADS / WARP,
};

int64_t blocks_for(int64_t n, int64_t each)
{
    return (n + each - 1) / each;
}

/* ---- cross-entropy ---- */

/* The largest so far, the first place that has it, and sum exp(z - most). */
struct seen {
    float most, sum;
    int   place;
};

__device__ __forceinline__ seen join(seen a, seen b)
{
    const bool  first = a.most > b.most || (a.most == b.most && a.place < b.place);
    const float most = first ? a.most : b.most;
    /* where nothing was seen most is -inf, and -inf - -inf no number; one that is none stays */
    const float x = a.sum == 0 ? 0 : a.sum * expf(a.most - most);
    const float y = b.sum == 0 ? 0 : b.sum * expf(b.most - most);
    return { most, x + y, first ? a.place : b.place };
}

template <int N> __device__ __forceinline__ void see(seen &s, const float (&z)[N], int place)
{
    float most = z[0];
#pragma unroll
    for (int j = 1; j < N; j++) most = fmaxf(most, z[j]);
    if (most > s.most) {
#pragma unroll
        for (int j = N - 1; j >= 0; j--)
            if (z[j] == most) s.place = place + j;
        s.sum *= expf(s.most - most);
        s.most = most;
    }
#pragma unroll
    for (int j = 0; j < N; j++) s.sum += expf(z[j] - s.most);
}

__device__ __forceinline__ seen block_seen(seen s)
{
    __shared__ seen part[ROW_WARPS];
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) {
        const seen other = { __shfl_xor_sync(0xffffffffu, s.most, d),
                             __shfl_xor_sync(0xffffffffu, s.sum, d),
                             __shfl_xor_sync(0xffffffffu, s.place, d) };
        s = join(s, other);
    }
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = s;
    __syncthreads();
    s = part[0];
    for (int w = 1; w < ROW_WARPS; w++) s = join(s, part[w]);
    return s;
}

/* A block a row, twice over it: the second time it is still in the cache. */
template <typename T>
__global__ void __launch_bounds__(ROW_THREADS) entropy_rows(const ts_cuda_entropy e)
{
    T        *z = (T *)e.logits + blockIdx.x * e.n_row;
    const int n = (int)e.n_vocab, whole = n / EACH * EACH, target = e.target[blockIdx.x];
    const int first = (int)threadIdx.x * EACH;
    float     v[EACH];
    if (target < 0) {
        if (!threadIdx.x) e.nll[blockIdx.x] = e.right[blockIdx.x] = 0;
        if (!e.weight) return;
#pragma unroll
        for (int j = 0; j < EACH; j++) v[j] = 0;
        for (int i = first; i < (int)e.n_row; i += ROW_THREADS * EACH) store(z + i, v);
        return;
    }
    const float wanted = widen(z[target]);
    seen        s = { -INFINITY, 0, n };
#pragma unroll 4
    for (int i = first; i < whole; i += ROW_THREADS * EACH) {
        load(v, z + i);
        see(s, v, i);
    }
    if (whole + (int)threadIdx.x < n) {
        const float last[1] = { widen(z[whole + threadIdx.x]) };
        see(s, last, whole + (int)threadIdx.x);
    }
    s = block_seen(s); /* and after its barrier z[target] may change */
    if (!threadIdx.x) {
        e.nll[blockIdx.x] = log((double)s.sum) - ((double)wanted - (double)s.most);
        e.right[blockIdx.x] = s.place == target;
    }
    if (!e.weight) return;
    const float weight = *e.weight, scale = weight / s.sum;
#pragma unroll 4
    for (int i = first; i < whole; i += ROW_THREADS * EACH) {
        load(v, z + i);
#pragma unroll
        for (int j = 0; j < EACH; j++)
            v[j] = scale * expf(v[j] - s.most) - (i + j == target ? weight : 0);
        store(z + i, v);
    }
    const int last = whole + (int)threadIdx.x;
    if (last < n)
        narrow(z + last, scale * expf(widen(z[last]) - s.most) - (last == target ? weight : 0));
}

/* One block: thread by thread in order, then the threads. */
__global__ void __launch_bounds__(ROW_THREADS)
    score_rows(const double *__restrict__ nll, const int32_t *__restrict__ right,
               const int32_t *__restrict__ target, int64_t n, ts_cuda_score *s)
{
    __shared__ double part[3][ROW_WARPS];
    double            sum = 0, n_right = 0, n_count = 0; /* counts are exact in double, too */
    for (int64_t i = threadIdx.x; i < n; i += ROW_THREADS) {
        sum += nll[i];
        n_right += right[i];
        n_count += target[i] >= 0;
    }
    sum = team_sum(sum, ROW_WARPS, part[0]);
    n_right = team_sum(n_right, ROW_WARPS, part[1]);
    n_count = team_sum(n_count, ROW_WARPS, part[2]);
    if (threadIdx.x) return;
    s->nll += sum;
    s->n_right += (int64_t)n_right;
    s->n_count += (int64_t)n_count;
}

} // namespace

void ts_train_entropy(void *self, const ts_cuda_entropy *e)
{
    with_type(e->type,
              [&](auto t) { launch(self, entropy_rows<decltype(t)>, e->n, ROW_THREADS, *e); });
}

void ts_train_score(void *self, const double *nll, const int32_t *right, const int32_t *target,
                    int64_t n, ts_cuda_score *s)
{
    launch(self, score_rows, 1, ROW_THREADS, nll, right, target, n, s);
}
