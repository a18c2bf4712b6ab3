/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_backward_cuda.cu - rows of dy sorted by token, then summed without atomics.
 *
 * The sort is stable, so the rows of a token keep their order, and every element of dtable is
 * summed by one thread, in double. Nothing depends on how blocks are scheduled. */
#include <cub/device/device_radix_sort.cuh>

#include "row_teams.cuh"
#include "touchstone/embedding.h"

namespace
{

enum { THREADS = 128, AHEAD = 8 /* rows that are fetched before they are added */ };

struct backward_params {
    int64_t        n_cols, table_stride, dy_stride;
    int            n_rows;
    int32_t        n_tokens; /* a key from here on is no token */
    double         scale;
    const int32_t *key, *row; /* sorted */
    const void    *dy;
    float         *dtable;
};

/* In the workspace, behind each other. */
struct layout {
    int32_t *key, *row, *sorted_key, *sorted_row;
    void    *rest;
    size_t   rest_bytes, all_bytes;
};

/* Bits of the keys 0 .. n_tokens. */
int bits_of(int32_t n_tokens)
{
    int bits = 1;
    while (bits < 31 && n_tokens >> bits) bits++;
    return bits;
}

cudaError_t sort(const ts_embedding_backward_args &a, layout &l, cudaStream_t s)
{
    return cub::DeviceRadixSort::SortPairs(l.rest, l.rest_bytes, l.key, l.sorted_key, l.row,
                                           l.sorted_row, (int)a.n_rows, 0,
                                           bits_of((int32_t)a.n_vocab), s);
}

cudaError_t lay_out(const ts_embedding_backward_args &a, const ts_exec *x, char *base, layout &l)
{
    const size_t each = ((size_t)a.n_rows * sizeof(int32_t) + 255) / 256 * 256;
    l = layout {};
    const cudaError_t e = sort(a, l, (cudaStream_t)x->stream); /* without memory: its size alone */
    char *const       at = base ? base + (256 - (uintptr_t)base % 256) : nullptr;
    l.key = (int32_t *)at;
    l.row = (int32_t *)(at + each);
    l.sorted_key = (int32_t *)(at + 2 * each);
    l.sorted_row = (int32_t *)(at + 3 * each);
    l.rest = at + 4 * each;
    l.all_bytes = 4 * each + l.rest_bytes + 256;
    return e;
}

__global__ void __launch_bounds__(THREADS) zero_rows(float *dtable, int64_t n_cols, int64_t stride)
{
    for (int64_t c = threadIdx.x; c < n_cols; c += THREADS) dtable[blockIdx.x * stride + c] = 0;
}

__global__ void __launch_bounds__(THREADS)
    make_keys(const int32_t *__restrict__ token, int n, int32_t n_tokens, int32_t *__restrict__ key,
              int32_t *__restrict__ row)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n) return;
    const int32_t t = token[i];
    key[i] = t >= 0 && t < n_tokens ? t : n_tokens;
    row[i] = (int32_t)i;
}

/* A block per place in the sorted list and THREADS columns: the first place of each token works. */
template <class T>
__global__ void __launch_bounds__(THREADS) sum_rows(const __grid_constant__ backward_params p)
{
    const int     first = (int)blockIdx.x;
    const int32_t token = p.key[first];
    const int64_t c = blockIdx.y * (int64_t)THREADS + threadIdx.x;
    if (token >= p.n_tokens || (first > 0 && p.key[first - 1] == token) || c >= p.n_cols) return;
    const T *dy = (const T *)p.dy + c;
    double   sum = 0;
    int      i = first;
    for (; i + AHEAD <= p.n_rows && p.key[i + AHEAD - 1] == token; i += AHEAD) {
        float v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) v[j] = to_float(dy[p.row[i + j] * p.dy_stride]);
#pragma unroll
        for (int j = 0; j < AHEAD; j++) sum += (double)v[j];
    }
    for (; i < p.n_rows && p.key[i] == token; i++)
        sum += (double)to_float(dy[p.row[i] * p.dy_stride]);
    float *to = p.dtable + token * p.table_stride + c;
    *to = (float)((double)*to + p.scale * sum);
}

template <class T> void launch(const backward_params &p, cudaStream_t s)
{
    const dim3 blocks((unsigned)p.n_rows, (unsigned)((p.n_cols + THREADS - 1) / THREADS));
    sum_rows<T><<<blocks, THREADS, 0, s>>>(p);
}

} // namespace

extern "C" TS_API ts_status ts_embedding_backward_cuda_workspace(const void *args, const ts_exec *x,
                                                                 size_t *n_bytes);
extern "C" TS_API ts_status ts_embedding_backward_cuda(const void *args, const ts_exec *x);

ts_status ts_embedding_backward_cuda_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_embedding_backward_args &a = *(const ts_embedding_backward_args *)args;
    layout                            l;
    if (a.n_rows > INT32_MAX || a.n_vocab > INT32_MAX) return TS_E_UNSUPPORTED;
    if (lay_out(a, x, nullptr, l) != cudaSuccess) return TS_E_DEVICE;
    *n_bytes = l.all_bytes;
    return TS_OK;
}

ts_status ts_embedding_backward_cuda(const void *args, const ts_exec *x)
{
    const ts_embedding_backward_args &a = *(const ts_embedding_backward_args *)args;
    const cudaStream_t                s = (cudaStream_t)x->stream;
    layout                            l;
    if (a.n_rows > INT32_MAX || a.n_vocab > INT32_MAX || a.n_cols > 65535 * (int64_t)THREADS)
        return TS_E_UNSUPPORTED;
    if (!a.accumulate)
        zero_rows<<<(unsigned)a.n_vocab, THREADS, 0, s>>>((float *)a.dtable, a.n_cols,
                                                          a.table_stride);
    if (a.n_rows == 0) return launched();
    if (lay_out(a, x, (char *)x->workspace, l) != cudaSuccess) return TS_E_DEVICE;
    const int32_t n_tokens = (int32_t)a.n_vocab;
    make_keys<<<(unsigned)((a.n_rows + THREADS - 1) / THREADS), THREADS, 0, s>>>(
        a.token, (int)a.n_rows, n_tokens, l.key, l.row);
    if (sort(a, l, s) != cudaSuccess) return TS_E_DEVICE;
    const backward_params p = { a.n_cols, a.table_stride,   a.dy_stride,  (int)a.n_rows,
                                n_tokens, a.scale,          l.sorted_key, l.sorted_row,
                                a.dy,     (float *)a.dtable };
    if (a.dtype == TS_F32) launch<float>(p, s);
    else if (a.dtype == TS_BF16) launch<__nv_bfloat16>(p, s);
    else launch<__half>(p, s);
    return launched();
}
