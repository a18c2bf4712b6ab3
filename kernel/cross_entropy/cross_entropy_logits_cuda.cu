/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_logits_cuda.cu - a block per row, which reads it twice: for its maximum and sums,
 * and for its gradient.
 *
 * Rows of 16-byte alignment are read 16 bytes at a time. A long row has a large block, so that
 * fewer rows are under way at once, and more of them are still in the L2 cache the second time. */
#include "cross_entropy.cuh"

namespace
{

template <class T> struct logits_params {
    rule           r;
    int64_t        row_stride;
    const T       *x;
    T             *dx; /* NULL, another matrix, or x */
    const int32_t *target;
    const shares  *s;
    float         *loss, *lse;
};

enum { LONG_THREADS = 1024, LONG_ROW = 1 << 14 };

/* f(i, z) for N neighbouring elements at a time, from i on, as far as they are whole vectors of
 * aligned rows; then one at a time. */
template <int THREADS, class T, class F>
__device__ __forceinline__ void for_elements(const T *x, int64_t n, bool aligned, const F &f)
{
    constexpr int N = lanes<T>::n;
    const int64_t whole = aligned ? n / N * N : 0;
#pragma unroll 4
    for (int64_t i = (int64_t)threadIdx.x * N; i < whole; i += THREADS * N) {
        float z[N];
        unpack_as<T, N>(*(const uint4 *)(x + i), z);
        f(i, z);
    }
    for (int64_t i = whole + threadIdx.x; i < n; i += THREADS) {
        float z[1] = { to_float(x[i]) };
        f(i, z);
    }
}

/* In one pass: what was summed is scaled when a larger logit is met. A NaN makes the sum one. */
struct running_sums {
    float max = -INFINITY, sum = 0, z_sum = 0;

    template <int N> __device__ __forceinline__ void take(const rule &r, const float (&x)[N])
    {
        float z[N], most = max;
#pragma unroll
        for (int k = 0; k < N; k++) {
            z[k] = capped(r, x[k]);
            most = larger_of()(z[k], most);
        }
        if (most > max) sum *= expf(max - most);
        max = most;
        const float base = isfinite(max) ? max : 0;
#pragma unroll
        for (int k = 0; k < N; k++) {
            sum += expf(z[k] - base);
            z_sum += z[k];
        }
    }

    template <int THREADS> __device__ __forceinline__ row_sums join(void) const
    {
        const float all = fold<THREADS>(max, larger_of()), base = isfinite(all) ? all : 0;
        const float mine = isfinite(max) ? sum * expf(max - base) : sum;
        return row_sums { all, fold<THREADS>(mine, sum_of()), fold<THREADS>(z_sum, sum_of()) };
    }
};

template <class T, int N> __device__ __forceinline__ void store(T *p, const float (&z)[N])
{
    if constexpr (N == 1) from_float(p, z[0]);
    else *(uint4 *)p = pack_as<T, N>(z);
}

template <class T, int THREADS>
__global__ void __launch_bounds__(THREADS) row_kernel(logits_params<T> p)
{
    const int64_t i = blockIdx.x;
    const T      *x = p.x + i * p.row_stride;
    T            *dx = p.dx ? p.dx + i * p.row_stride : nullptr;
    const int32_t target = p.target[i];
    const bool    aligned = ((uintptr_t)x | (uintptr_t)dx) % 16 == 0;
    if (!is_counted(p.r, target)) {
        for (int64_t v = threadIdx.x; v < p.r.n_vocab && dx; v += THREADS) from_float(dx + v, 0.0f);
        if (threadIdx.x == 0) p.lse[i] = 0;
        if (threadIdx.x == 0) p.loss[i] = target == p.r.ignored ? 0 : nanf("");
        return;
    }
    running_sums mine;
    for_elements<THREADS>(x, p.r.n_vocab, aligned, [&](int64_t, auto &z) { mine.take(p.r, z); });
    const row_sums s = mine.join<THREADS>();
    const float    lse = lse_of(s), g = p.s->g;
    /* Before any of it is overwritten: fold ended with a barrier, and so does this. */
    if (threadIdx.x == 0) {
        p.lse[i] = lse;
        p.loss[i] = loss_of(p.r, s, lse, capped(p.r, to_float(x[target])));
    }
    __syncthreads();
    if (!dx) return;
    for_elements<THREADS>(x, p.r.n_vocab, aligned, [&](int64_t v, auto &z) {
        for (int k = 0; k < (int)(sizeof z / sizeof *z); k++)
            z[k] = g * gradient(p.r, z[k], lse, v + k == target);
        store(dx + v, z);
    });
}

template <class T>
void launch(const ts_cross_entropy_logits_args &a, const rule &r, cudaStream_t s, shares *share)
{
    const logits_params<T> p = {
        r,        a.row_stride, (const T *)a.logits, (T *)(a.in_place ? a.logits : a.dlogits),
        a.target, share,        (float *)a.loss,     (float *)a.lse
    };
    count_kernel<<<1, SUM_THREADS, 0, s>>>(r, a.target, share);
    const unsigned n = (unsigned)a.n_rows;
    if (n && a.n_vocab >= LONG_ROW) row_kernel<T, LONG_THREADS><<<n, LONG_THREADS, 0, s>>>(p);
    else if (n) row_kernel<T, ROW_THREADS><<<n, ROW_THREADS, 0, s>>>(p);
    total_kernel<<<1, SUM_THREADS, 0, s>>>(r, p.loss, share, (float *)a.total);
}

} // namespace

extern "C" TS_API ts_status ts_cross_entropy_logits_cuda_workspace(const void    *args,
                                                                   const ts_exec *x,
                                                                   size_t        *n_bytes);
extern "C" TS_API ts_status ts_cross_entropy_logits_cuda(const void *args, const ts_exec *x);

ts_status ts_cross_entropy_logits_cuda_workspace(const void *args, const ts_exec *x,
                                                 size_t *n_bytes)
{
    (void)args, (void)x;
    *n_bytes = sizeof(shares) + 16;
    return TS_OK;
}

ts_status ts_cross_entropy_logits_cuda(const void *args, const ts_exec *x)
{
    const ts_cross_entropy_logits_args &a = *(const ts_cross_entropy_logits_args *)args;
    const cudaStream_t                  s = (cudaStream_t)x->stream;
    shares *const share = (shares *)(((uintptr_t)x->workspace + 15) / 16 * 16);
    const rule    r = { (float)a.softcap, (float)a.smoothing, (float)a.z_loss, a.mean,
                        a.ignore_index,   a.n_rows,           a.n_vocab,       a.scale };
    if (a.n_rows > INT32_MAX) return TS_E_UNSUPPORTED;
    if (a.dtype == TS_F32) launch<float>(a, r, s, share);
    else if (a.dtype == TS_BF16) launch<__nv_bfloat16>(a, r, s, share);
    else launch<__half>(a, r, s, share);
    return cudaGetLastError() == cudaSuccess ? TS_OK : TS_E_DEVICE;
}
