/* SPDX-License-Identifier: Apache-2.0 */
/* norm_cuda.cuh - layer norm and RMS norm on every device from sm_80 on; sm_90 has faster kernels.
 *
 * A block has one row at a time and sums in double, in which no square of a float overflows or
 * vanishes: every magnitude takes the same path. Sums over rows (dgamma, dbeta) are cut into parts
 * by the number of rows alone and added in a fixed order, so equal inputs give bitwise identical
 * results. */
#ifndef TS_NORM_CUDA_CUH
#define TS_NORM_CUDA_CUH

#include "row_teams.cuh"

namespace
{

enum {
    NORM_THREADS = 256,
    NORM_COLUMNS = 32, /* of a block that sums over rows */
    NORM_ROWS = 8,     /* that such a block reads at a time */
    NORM_PARTS = 64,
    NORM_PART_ROWS = 256, /* fewer rows are one part */
    NORM_MOST_BLOCKS = 1 << 16
};

struct norm_args {
    int64_t      n_rows, n_cols, row_stride;
    int          accumulate, parts;
    double       eps, offset; /* of the gain */
    const void  *x, *residual, *dy, *dr, *gamma, *beta;
    const float *mean, *rstd; /* as forward wrote them; mean: layer norm only */
    void        *r, *y;       /* y: dx in backward */
    float       *mean_out, *rstd_out, *dgamma, *dbeta;
    double      *partial; /* [parts][2][n_cols] */
};

/* The sum over the block, in all threads. */
__device__ __forceinline__ double block_sum(double v)
{
    __shared__ double part[NORM_THREADS / 32];
#pragma unroll
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads(); /* the last sum has been read */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
#pragma unroll
    for (int i = 0; i < NORM_THREADS / 32; i++) v += part[i];
    return v;
}

template <class T> __device__ __forceinline__ double at(const void *p, int64_t i)
{
    return (double)to_float(((const T *)p)[i]);
}

template <class T, bool CENTRED>
__global__ void __launch_bounds__(NORM_THREADS) norm_forward_rows(const norm_args a)
{
    const double n = (double)a.n_cols;
    for (int64_t row = blockIdx.x; row < a.n_rows; row += gridDim.x) {
        const int64_t first = row * a.row_stride;
        const void   *r = a.residual ? a.r : a.x;
        double        sum = 0, squares = 0, mean = 0;
        for (int64_t c = threadIdx.x; c < a.n_cols; c += NORM_THREADS) {
            if (a.residual) /* in float, rounded once; r may be x */
                from_float((T *)a.r + first + c, to_float(((const T *)a.x)[first + c]) +
                                                     to_float(((const T *)a.residual)[first + c]));
            sum += at<T>(r, first + c);
        }
        if (CENTRED) mean = block_sum(sum) / n;
        sum = 0;
        for (int64_t c = threadIdx.x; c < a.n_cols; c += NORM_THREADS) {
            const double d = at<T>(r, first + c) - mean;
            sum += d;
            squares += d * d;
        }
        squares = block_sum(squares) / n;
        if (CENTRED) { /* the mean is rounded: what that adds to the squares is taken out again */
            sum = block_sum(sum) / n;
            squares = fmax(squares - sum * sum, squares != squares ? squares : 0.0);
        }
        /* A row with an infinity has no norm. */
        const double rstd = isfinite(squares) ? 1 / sqrt(squares + a.eps) : nan("");
        if (threadIdx.x == 0) {
            a.rstd_out[row] = (float)rstd;
            if (CENTRED) a.mean_out[row] = (float)mean;
        }
        for (int64_t c = threadIdx.x; c < a.n_cols; c += NORM_THREADS) {
            const double gain = at<T>(a.gamma, c) + a.offset;
            const double shift = CENTRED ? at<T>(a.beta, c) : 0.0;
            from_float((T *)a.y + first + c,
                       (float)((at<T>(r, first + c) - mean) * rstd * gain + shift));
        }
    }
}

template <class T, bool CENTRED>
__global__ void __launch_bounds__(NORM_THREADS) norm_backward_rows(const norm_args a)
{
    const double n = (double)a.n_cols;
    for (int64_t row = blockIdx.x; row < a.n_rows; row += gridDim.x) {
        const int64_t first = row * a.row_stride;
        const double  mean = CENTRED ? (double)a.mean[row] : 0.0, rstd = (double)a.rstd[row];
        double        sum_g = 0, sum_gx = 0;
        for (int64_t c = threadIdx.x; c < a.n_cols; c += NORM_THREADS) {
            const double g = (at<T>(a.gamma, c) + a.offset) * at<T>(a.dy, first + c);
            sum_g += g;
            sum_gx += g * ((at<T>(a.x, first + c) - mean) * rstd);
        }
        sum_gx = block_sum(sum_gx) / n;
        sum_g = CENTRED ? block_sum(sum_g) / n : 0.0;
        for (int64_t c = threadIdx.x; c < a.n_cols; c += NORM_THREADS) {
            const double g = (at<T>(a.gamma, c) + a.offset) * at<T>(a.dy, first + c);
            const double xhat = (at<T>(a.x, first + c) - mean) * rstd;
            const double more = a.dr ? at<T>(a.dr, first + c) : 0.0;
            from_float((T *)a.y + first + c, (float)(rstd * (g - sum_g - xhat * sum_gx) + more));
        }
    }
}

/* Block (c, p): part p of the rows, NORM_COLUMNS columns. */
template <class T, bool CENTRED>
__global__ void __launch_bounds__(NORM_THREADS) norm_backward_columns(const norm_args a)
{
    __shared__ double part[2][NORM_ROWS][NORM_COLUMNS];
    const int64_t     c = blockIdx.x * (int64_t)NORM_COLUMNS + threadIdx.x;
    const int64_t     begin = a.n_rows * blockIdx.y / a.parts;
    const int64_t     end = a.n_rows * (blockIdx.y + 1) / a.parts;
    double            sum[2] = { 0, 0 };
    for (int64_t row = begin + threadIdx.y; row < end && c < a.n_cols; row += NORM_ROWS) {
        const double dy = at<T>(a.dy, row * a.row_stride + c);
        const double mean = CENTRED ? (double)a.mean[row] : 0.0;
        sum[0] += dy * ((at<T>(a.x, row * a.row_stride + c) - mean) * (double)a.rstd[row]);
        sum[1] += dy;
    }
    for (int k = 0; k < 2; k++) part[k][threadIdx.y][threadIdx.x] = sum[k];
    __syncthreads();
    if (threadIdx.y > 1 || c >= a.n_cols) return;
    double all = 0;
    for (int i = 0; i < NORM_ROWS; i++) all += part[threadIdx.y][i][threadIdx.x];
    a.partial[(2 * (int64_t)blockIdx.y + threadIdx.y) * a.n_cols + c] = all;
}

template <bool CENTRED>
__global__ void __launch_bounds__(NORM_THREADS) norm_backward_finish(const norm_args a)
{
    const int64_t c = blockIdx.x * (int64_t)NORM_THREADS + threadIdx.x;
    if (c >= a.n_cols) return;
    double sum[2] = { 0, 0 };
    for (int p = 0; p < a.parts; p++)
        for (int k = 0; k < 2; k++) sum[k] += a.partial[(2 * (int64_t)p + k) * a.n_cols + c];
    a.dgamma[c] = (float)(sum[0] + (a.accumulate ? (double)a.dgamma[c] : 0.0));
    if (CENTRED) a.dbeta[c] = (float)(sum[1] + (a.accumulate ? (double)a.dbeta[c] : 0.0));
}

int norm_parts(int64_t n_rows)
{
    const int64_t parts = n_rows / NORM_PART_ROWS;
    return (int)(parts < 1 ? 1 : parts < NORM_PARTS ? parts : (int64_t)NORM_PARTS);
}

size_t norm_workspace(int64_t n_rows, int64_t n_cols)
{
    return (size_t)norm_parts(n_rows) * 2 * (size_t)n_cols * sizeof(double);
}

template <class T, bool CENTRED> ts_status norm_forward_as(const norm_args &a, cudaStream_t s)
{
    const int64_t blocks = a.n_rows < NORM_MOST_BLOCKS ? a.n_rows : (int64_t)NORM_MOST_BLOCKS;
    if (blocks) norm_forward_rows<T, CENTRED><<<(unsigned)blocks, NORM_THREADS, 0, s>>>(a);
    return launched();
}

template <class T, bool CENTRED> ts_status norm_backward_as(const norm_args &a, cudaStream_t s)
{
    const int64_t blocks = a.n_rows < NORM_MOST_BLOCKS ? a.n_rows : (int64_t)NORM_MOST_BLOCKS;
    const int64_t columns = (a.n_cols + NORM_COLUMNS - 1) / NORM_COLUMNS;
    if (columns > INT32_MAX) return TS_E_UNSUPPORTED;
    if (blocks) norm_backward_rows<T, CENTRED><<<(unsigned)blocks, NORM_THREADS, 0, s>>>(a);
    norm_backward_columns<T, CENTRED>
        <<<dim3((unsigned)columns, (unsigned)a.parts), dim3(NORM_COLUMNS, NORM_ROWS), 0, s>>>(a);
    norm_backward_finish<CENTRED>
        <<<(unsigned)((a.n_cols + NORM_THREADS - 1) / NORM_THREADS), NORM_THREADS, 0, s>>>(a);
    return launched();
}

template <bool CENTRED> ts_status norm_forward(ts_dtype t, const norm_args &a, cudaStream_t s)
{
    if (t == TS_F32) return norm_forward_as<float, CENTRED>(a, s);
    if (t == TS_BF16) return norm_forward_as<__nv_bfloat16, CENTRED>(a, s);
    return norm_forward_as<__half, CENTRED>(a, s);
}

template <bool CENTRED> ts_status norm_backward(ts_dtype t, const norm_args &a, cudaStream_t s)
{
    if (t == TS_F32) return norm_backward_as<float, CENTRED>(a, s);
    if (t == TS_BF16) return norm_backward_as<__nv_bfloat16, CENTRED>(a, s);
    return norm_backward_as<__half, CENTRED>(a, s);
}

} // namespace

#endif
