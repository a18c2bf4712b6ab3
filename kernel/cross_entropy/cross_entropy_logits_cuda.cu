/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_logits_cuda.cu - a block per row: its maximum, its sums, then its gradient. Rows of
 * up to some 100,000 words stay in the L2 cache between these. */
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

template <class T> __global__ void __launch_bounds__(ROW_THREADS) row_kernel(logits_params<T> p)
{
    const int64_t i = blockIdx.x;
    const T      *x = p.x + i * p.row_stride;
    T            *dx = p.dx ? p.dx + i * p.row_stride : nullptr;
    const int32_t target = p.target[i];
    if (!is_counted(p.r, target)) {
        for (int64_t v = threadIdx.x; v < p.r.n_vocab && dx; v += ROW_THREADS)
            from_float(dx + v, 0.0f);
        if (threadIdx.x == 0) p.lse[i] = 0;
        if (threadIdx.x == 0) p.loss[i] = target == p.r.ignored ? 0 : nanf("");
        return;
    }
    const auto     get = [=](int64_t v) { return to_float(x[v]); };
    const row_sums s = sums_of(p.r, p.r.n_vocab, get);
    const float    lse = lse_of(s), g = p.s->g;
    /* Before any of it is overwritten: fold ended with a barrier, and so does this. */
    if (threadIdx.x == 0) {
        p.lse[i] = lse;
        p.loss[i] = loss_of(p.r, s, lse, capped(p.r, get(target)));
    }
    __syncthreads();
    for (int64_t v = threadIdx.x; v < p.r.n_vocab && dx; v += ROW_THREADS)
        from_float(dx + v, g * gradient(p.r, get(v), lse, v == target));
}

template <class T>
void launch(const ts_cross_entropy_logits_args &a, const rule &r, cudaStream_t s, shares *share)
{
    const logits_params<T> p = {
        r,        a.row_stride, (const T *)a.logits, (T *)(a.in_place ? a.logits : a.dlogits),
        a.target, share,        (float *)a.loss,     (float *)a.lse
    };
    count_kernel<<<1, SUM_THREADS, 0, s>>>(r, a.target, share);
    if (a.n_rows) row_kernel<T><<<(unsigned)a.n_rows, ROW_THREADS, 0, s>>>(p);
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
