/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8_cuda.cu - attention over e4m3 codes by way of floats, for every call: decodes q, k
 * and v into the workspace, calls attention of floats, and rounds o. */
#include <cuda_fp8.h>

#include "attention_fp8.cuh"

namespace
{

enum { THREADS = 256 };

/* Elements, with axes [batch][outer][inner][head_dim]; heads are one of the two in the middle. */
struct axes {
    int64_t n, head_dim, inner, outer;
    bool    heads_first;

    axes(const ts_attention_dims &d, int64_t n_head, int64_t n_row)
        : n(d.n_batch * n_head * n_row * d.head_dim), head_dim(d.head_dim),
          inner(d.layout == TS_BHND ? n_row : n_head), outer(d.layout == TS_BHND ? n_head : n_row),
          heads_first(d.layout == TS_BHND)
    {
    }
    /* The scale of element i. */
    __device__ __forceinline__ int64_t head(int64_t i) const
    {
        const int64_t row = i / head_dim, at = row / inner; /* batch and outer */
        return heads_first ? at : at / outer * inner + row % inner;
    }
};

__global__ void __launch_bounds__(THREADS)
    decode(float *to, const uint8_t *from, const float *scale, axes a)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.n;
         i += (int64_t)gridDim.x * THREADS) {
        __nv_fp8_e4m3 code;
        code.__x = from[i];
        to[i] = float(code) * scale[a.head(i)];
    }
}

template <class T>
__global__ void __launch_bounds__(THREADS) round_all(T *to, const float *from, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS)
        from_float(to + i, from[i]);
}

unsigned blocks_of(int64_t n)
{
    const int64_t blocks = (n + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks < 8192 ? blocks : 8192);
}

int64_t padded(int64_t n) /* floats, to the next array */
{
    return (n + 63) / 64 * 64;
}

} // namespace

extern "C" ts_status ts_flash_attention_fp8_cuda_workspace(const void *args, const ts_exec *x,
                                                           size_t *n_bytes)
{
    const ts_attention_dims &d = ((const ts_flash_attention_fp8_args *)args)->d;
    const axes               q(d, d.n_q_head, d.n_q), k(d, d.n_kv_head, d.n_k);
    (void)x;
    *n_bytes = ALIGN + (size_t)((d.dtype == TS_F32 ? 1 : 2) * padded(q.n) + 2 * padded(k.n)) *
                           sizeof(float);
    return TS_OK;
}

extern "C" ts_status ts_flash_attention_fp8_cuda(const void *args, const ts_exec *x)
{
    const ts_flash_attention_fp8_args *a = (const ts_flash_attention_fp8_args *)args;
    const cudaStream_t                 stream = (cudaStream_t)x->stream;
    const axes of_q(a->d, a->d.n_q_head, a->d.n_q), of_k(a->d, a->d.n_kv_head, a->d.n_k);
    float *q = (float *)aligned_up(x->workspace), *k = q + padded(of_q.n), *v = k + padded(of_k.n),
          *o = v + padded(of_k.n);
    const bool rounds = a->d.dtype != TS_F32;
    if (of_q.n == 0) return TS_OK;
    decode<<<blocks_of(of_q.n), THREADS, 0, stream>>>(q, a->q, a->q_scale, of_q);
    decode<<<blocks_of(of_k.n), THREADS, 0, stream>>>(k, a->k, a->k_scale, of_k);
    decode<<<blocks_of(of_k.n), THREADS, 0, stream>>>(v, a->v, a->v_scale, of_k);
    ts_flash_attention_args f = { a->d, q, k, v, a->kv_len, rounds ? o : a->o, a->lse };
    f.d.dtype = TS_F32;
    const ts_status s = ts_flash_attention_cuda(&f, x);
    if (s != TS_OK || !rounds) return s;
    if (a->d.dtype == TS_BF16)
        round_all<<<blocks_of(of_q.n), THREADS, 0, stream>>>((__nv_bfloat16 *)a->o, o, of_q.n);
    else round_all<<<blocks_of(of_q.n), THREADS, 0, stream>>>((__half *)a->o, o, of_q.n);
    return launched();
}
