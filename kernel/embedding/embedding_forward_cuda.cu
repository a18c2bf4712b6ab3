/* SPDX-License-Identifier: Apache-2.0 */
/* embedding_forward_cuda.cu - a team of threads per row of y, 16 bytes of the table at a time where
 * rows are aligned to them, else element by element. */
#include <math.h>

#include "row_teams.cuh"
#include "touchstone/embedding.h"

namespace
{

enum { THREADS = 256 };

struct forward_params {
    int64_t        n_rows, n_cols, n_vocab, table_stride, y_stride;
    double         scale;
    const void    *table;
    const int32_t *token;
    void          *y;
    int            team; /* threads per row, a power of two */
};

/* The product in double: no scale is out of its range. */
__device__ __forceinline__ float scaled(float v, double scale)
{
    return scale == 1 ? v : (float)((double)v * scale);
}

/* 16 bytes of the table as elements of Y. */
template <class T, class Y, int E>
__device__ __forceinline__ void store_vector(Y *to, const float (&f)[E])
{
    if constexpr (sizeof(T) == sizeof(Y)) {
        *(uint4 *)to = pack_as<T>(f);
    } else {
        float half[2][E / 2];
#pragma unroll
        for (int e = 0; e < E; e++) half[e / (E / 2)][e % (E / 2)] = f[e];
        ((uint4 *)to)[0] = pack_as<float>(half[0]);
        ((uint4 *)to)[1] = pack_as<float>(half[1]);
    }
}

template <class T, class Y, bool VECTORS>
__global__ void __launch_bounds__(THREADS) copy_rows(const forward_params p)
{
    constexpr int E = VECTORS ? lanes<T>::n : 1;
    const int64_t row = blockIdx.x * (int64_t)(THREADS / p.team) + threadIdx.x / p.team;
    if (row >= p.n_rows) return;
    const int32_t token = p.token[row];
    const bool    known = token >= 0 && token < p.n_vocab;
    const T      *from = (const T *)p.table + (known ? token * p.table_stride : 0);
    Y            *to = (Y *)p.y + row * p.y_stride;
    for (int64_t i = (int64_t)(threadIdx.x % p.team) * E; i < p.n_cols; i += p.team * E) {
        if constexpr (VECTORS) {
            const uint4 raw = __ldg((const uint4 *)(from + i));
            float       f[E];
            if (known && p.scale == 1 && sizeof(T) == sizeof(Y)) { /* NaN keeps its bits, too */
                *(uint4 *)(to + i) = raw;
                continue;
            }
            unpack_as<T>(raw, f);
#pragma unroll
            for (int e = 0; e < E; e++) f[e] = known ? scaled(f[e], p.scale) : nanf("");
            store_vector<T>(to + i, f);
        } else {
            from_float(to + i, known ? scaled(to_float(from[i]), p.scale) : nanf(""));
        }
    }
}

template <class T, class Y> void launch(forward_params p, cudaStream_t s)
{
    constexpr int E = lanes<T>::n;
    const bool    vectors = p.n_cols % E == 0 && p.table_stride % E == 0 && p.y_stride % E == 0 &&
                         aligned16(p.table) && aligned16(p.y);
    const int64_t each = vectors ? p.n_cols / E : p.n_cols;
    p.team = 1;
    while (p.team < THREADS && p.team < each) p.team *= 2;
    const int64_t blocks = (p.n_rows + THREADS / p.team - 1) / (THREADS / p.team);
    if (vectors) copy_rows<T, Y, true><<<(unsigned)blocks, THREADS, 0, s>>>(p);
    else copy_rows<T, Y, false><<<(unsigned)blocks, THREADS, 0, s>>>(p);
}

} // namespace

extern "C" TS_API ts_status ts_embedding_forward_cuda_workspace(const void *args, const ts_exec *x,
                                                                size_t *n_bytes);
extern "C" TS_API ts_status ts_embedding_forward_cuda(const void *args, const ts_exec *x);

ts_status ts_embedding_forward_cuda_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    (void)args, (void)x;
    *n_bytes = 0;
    return TS_OK;
}

ts_status ts_embedding_forward_cuda(const void *args, const ts_exec *x)
{
    const ts_embedding_forward_args &a = *(const ts_embedding_forward_args *)args;
    const cudaStream_t               s = (cudaStream_t)x->stream;
    const forward_params             p = { a.n_rows,   a.n_cols, a.n_vocab, a.table_stride,
                                           a.y_stride, a.scale,  a.table,   a.token,
                                           a.y,        1 };
    if (a.n_rows > INT32_MAX) return TS_E_UNSUPPORTED;
    if (a.n_rows == 0) return TS_OK;
    if (a.dtype == TS_F32) launch<float, float>(p, s);
    else if (a.dtype == TS_BF16 && a.y_dtype == TS_BF16) launch<__nv_bfloat16, __nv_bfloat16>(p, s);
    else if (a.dtype == TS_BF16) launch<__nv_bfloat16, float>(p, s);
    else if (a.y_dtype == TS_F16) launch<__half, __half>(p, s);
    else launch<__half, float>(p, s);
    return launched();
}
