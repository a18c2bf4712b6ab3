/* SPDX-License-Identifier: Apache-2.0 */
/* ops_cuda.cu - ts_ops in float32 on a CUDA device: small kernels, and cuBLAS for the products.
 *
 * Everything is enqueued on one stream and nothing is waited for but by `end`. Errors of launches
 * stay with the runtime until then, those of cuBLAS with the gpu. */
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half_cuda.cuh"

extern "C" {
#include "ops.h"
#include "touchstone/ternary.h"
}

namespace
{

enum { THREADS = 256, MOST_BLOCKS = 1 << 16, MOST_WORDS = 512 };

const size_t BLAS_BYTES = (size_t)32 << 20; /* what cuBLAS is said to want on Hopper */

struct gpu {
    cublasHandle_t blas;
    cudaStream_t   stream;
    void          *workspace; /* of cuBLAS, [BLAS_BYTES] */
    void          *room;      /* for parts of x, or a panel of floats */
    size_t         n_room;
    cublasStatus_t failed; /* the first failure of a pass */
};

void note(gpu *g, cublasStatus_t s)
{
    if (!g->failed) g->failed = s;
}

unsigned blocks_for(int64_t n, int64_t each)
{
    const int64_t blocks = (n + each - 1) / each;
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : (int64_t)MOST_BLOCKS);
}

/* Thread by thread over n elements, however few blocks there are. */
__device__ __forceinline__ int64_t first_element(void)
{
    return blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
}

__device__ __forceinline__ int64_t all_threads(void)
{
    return gridDim.x * (int64_t)blockDim.x;
}

/* ---- rows ---- */

__global__ void __launch_bounds__(THREADS)
    gather_packed_rows(float *__restrict__ y, const uint8_t *__restrict__ code,
                       const __half *__restrict__ scale, const int32_t *row, int64_t n,
                       int64_t width)
{
    const int64_t groups = (width + TS_TERNARY_GROUP - 1) / TS_TERNARY_GROUP;
    for (int64_t r = blockIdx.x; r < n; r += gridDim.x) {
        const uint8_t *c = code + row[r] * groups * TS_TERNARY_GROUP_BYTES;
        const __half  *s = scale + row[r] * groups;
        for (int64_t j = threadIdx.x; j < width; j += blockDim.x)
            y[r * width + j] =
                (float)((c[j / 4] >> 2 * (j % 4) & 3) - 1) * __half2float(s[j / TS_TERNARY_GROUP]);
    }
}

void gather_packed(void *self, void *y, const uint8_t *code, const uint16_t *scale,
                   const int32_t *row, int64_t n, int64_t width)
{
    const gpu *g = (const gpu *)self;
    if (n)
        gather_packed_rows<<<blocks_for(n, 1), THREADS, 0, g->stream>>>(
            (float *)y, code, (const __half *)scale, row, n, width);
}

/* ---- products ---- */

__global__ void __launch_bounds__(THREADS)
    sum_rows(float *y, const float *x, const float *bias, int64_t n, int64_t width, bool add)
{
    for (int64_t i = first_element(); i < n * width; i += all_threads())
        y[i] = (x ? x[i] : 0) + (bias ? bias[i % width] : 0) + (add ? y[i] : 0);
}

void sum(void *self, void *y, const void *x, const void *bias, int64_t n, int64_t width, bool add)
{
    const gpu *g = (const gpu *)self;
    if (n)
        sum_rows<<<blocks_for(n * width, THREADS), THREADS, 0, g->stream>>>(
            (float *)y, (const float *)x, (const float *)bias, n, width, add);
}

/* To cuBLAS a matrix that lies row by row is its transpose: y^T = w x^T, of which w is given as
 * w^T. CUBLAS_COMPUTE_32F does not round to TF32. */
void linear(void *self, void *y, const void *x, const void *w, const void *bias, int64_t n,
            int64_t n_out, int64_t n_in, bool add)
{
    gpu        *g = (gpu *)self;
    const int   m = (int)n, o = (int)n_out, k = (int)n_in; /* ts_dims_check keeps them small */
    const float one = 1, beta = add || bias ? 1 : 0;
    if (!n) return;
    if (bias) sum(self, y, NULL, bias, n, n_out, add); /* for the product to be added to */
    if (n == 1)
        note(g, cublasSgemv(g->blas, CUBLAS_OP_T, k, o, &one, (const float *)w, k, (const float *)x,
                            1, &beta, (float *)y, 1));
    else
        note(g, cublasGemmEx(g->blas, CUBLAS_OP_T, CUBLAS_OP_N, o, m, k, &one, w, CUDA_R_32F, k, x,
                             CUDA_R_32F, k, &beta, y, CUDA_R_32F, o, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT));
}

/* ---- matrices in 16 bits ---- */

const int64_t PANEL = 1 << 24; /* floats of a matrix that are multiplied at once */

/* Grows seldom, and then waits for what still uses the old one. */
void *room_for(gpu *g, size_t n_bytes)
{
    if (n_bytes > g->n_room) {
        cudaFree(g->room);
        g->room = NULL;
        g->n_room = cudaMalloc(&g->room, n_bytes) ? 0 : n_bytes;
        if (!g->n_room) note(g, CUBLAS_STATUS_ALLOC_FAILED);
    }
    return g->room;
}

template <typename T, int N>
void launch_few(const gpu *g, const half_products::several &s, const ts_half_product *p)
{
    half_products::few_rows<T, N><<<s.first[s.n], half_products::THREADS, 0, g->stream>>>(
        s, (const float *)p->x, (int)p->n_in, p->add);
}

template <typename T> void multiply_few(const gpu *g, const ts_half_product *p)
{
    half_products::several s = {};
    s.n = p->n_matrix;
    for (int i = 0; i < p->n_matrix; i++) {
        s.w[i] = (const uint16_t *)p->w[i];
        s.y[i] = (float *)p->y[i];
        s.n_out[i] = (int)p->n_out[i];
        s.first[i + 1] = s.first[i] + (s.n_out[i] + half_products::ROWS - 1) / half_products::ROWS;
    }
    switch (p->n) {
    case 1:
        return launch_few<T, 1>(g, s, p);
    case 2:
        return launch_few<T, 2>(g, s, p);
    case 3:
        return launch_few<T, 3>(g, s, p);
    case 4:
        return launch_few<T, 4>(g, s, p);
    case 5:
        return launch_few<T, 5>(g, s, p);
    case 6:
        return launch_few<T, 6>(g, s, p);
    case 7:
        return launch_few<T, 7>(g, s, p);
    default:
        return launch_few<T, 8>(g, s, p);
    }
}

/* The smallest parts first: what they round away is least then. */
void multiply_bf16(gpu *g, const ts_half_product *p)
{
    const int64_t n = p->n * p->n_in;
    const float   one = 1;
    char *const   part = (char *)room_for(g, (size_t)n * 3 * sizeof(__nv_bfloat16));
    if (!part) return;
    half_products::split_rows<<<blocks_for(n, THREADS), THREADS, 0, g->stream>>>(
        (__nv_bfloat16 *)part, (const float *)p->x, n);
    for (int i = 0; i < p->n_matrix; i++)
        for (int k = 2; k >= 0; k--) {
            const float beta = p->add || k < 2 ? 1 : 0;
            note(g, cublasGemmEx(g->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)p->n_out[i], (int)p->n,
                                 (int)p->n_in, &one, p->w[i], CUDA_R_16BF, (int)p->n_in,
                                 part + (size_t)(k * n) * sizeof(__nv_bfloat16), CUDA_R_16BF,
                                 (int)p->n_in, &beta, p->y[i], CUDA_R_32F, (int)p->n_out[i],
                                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        }
}

void multiply_f16(gpu *g, const ts_half_product *p)
{
    const int64_t each = PANEL / p->n_in > 0 ? PANEL / p->n_in : 1;
    const float   one = 1, beta = p->add ? 1 : 0;
    float *const  panel = (float *)room_for(g, (size_t)(each * p->n_in) * sizeof *panel);
    if (!panel) return;
    for (int i = 0; i < p->n_matrix; i++)
        for (int64_t o = 0; o < p->n_out[i]; o += each) {
            const int64_t now = p->n_out[i] - o < each ? p->n_out[i] - o : each;
            half_products::
                widen_rows<<<blocks_for(now * p->n_in, THREADS), THREADS, 0, g->stream>>>(
                    panel, (const __half *)p->w[i] + o * p->n_in, now * p->n_in);
            note(g, cublasGemmEx(g->blas, CUBLAS_OP_T, CUBLAS_OP_N, (int)now, (int)p->n,
                                 (int)p->n_in, &one, panel, CUDA_R_32F, (int)p->n_in, p->x,
                                 CUDA_R_32F, (int)p->n_in, &beta, (float *)p->y[i] + o, CUDA_R_32F,
                                 (int)p->n_out[i], CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        }
}

void linear_half(void *self, const ts_half_product *p)
{
    gpu *g = (gpu *)self;
    if (!p->n) return;
    if (p->n <= half_products::FEW && p->dtype == TS_BF16) multiply_few<__nv_bfloat16>(g, p);
    else if (p->n <= half_products::FEW) multiply_few<__half>(g, p);
    else if (p->dtype == TS_BF16) multiply_bf16(g, p);
    else multiply_f16(g, p);
}

/* ---- element by element ---- */

__global__ void __launch_bounds__(THREADS) gelu_elements(float *up, int64_t n)
{
    const float c = 0.7978845608028654f; /* sqrt(2 / pi) */
    for (int64_t i = first_element(); i < n; i += all_threads()) {
        const float x = up[i];
        up[i] = x / 2 * (1 + tanhf(c * (x + 0.044715f * x * x * x)));
    }
}

void gelu(void *self, void *up, int64_t n)
{
    const gpu *g = (const gpu *)self;
    if (n) gelu_elements<<<blocks_for(n, THREADS), THREADS, 0, g->stream>>>((float *)up, n);
}

/* ---- a pass ---- */

struct words {
    unsigned word[MOST_WORDS];
};

__global__ void __launch_bounds__(MOST_WORDS)
    put_words(const __grid_constant__ words w, unsigned *to, int n)
{
    if ((int)threadIdx.x < n) to[threadIdx.x] = w.word[threadIdx.x];
}

/* As parameters of launches: nothing waits for a copy, nor does one read what has changed since. */
void put(void *self, void *to, const void *host, size_t n_bytes)
{
    const gpu   *g = (const gpu *)self;
    const size_t n = n_bytes / sizeof(unsigned);
    words        w = {};
    for (size_t done = 0; done < n; done += MOST_WORDS) {
        const size_t now = n - done < MOST_WORDS ? n - done : (size_t)MOST_WORDS;
        memcpy(w.word, (const unsigned *)host + done, now * sizeof(unsigned));
        put_words<<<1, MOST_WORDS, 0, g->stream>>>(w, (unsigned *)to + done, (int)now);
    }
}

/* Another stream takes the workspace away from the handle, so it is given anew. */
cublasStatus_t set_stream(gpu *g, cudaStream_t stream)
{
    g->stream = stream;
    const cublasStatus_t s = cublasSetStream(g->blas, stream);
    return s ? s : cublasSetWorkspace(g->blas, g->workspace, BLAS_BYTES);
}

void begin(void *self, void *stream)
{
    gpu *g = (gpu *)self;
    g->failed = CUBLAS_STATUS_SUCCESS;
    if (g->stream != (cudaStream_t)stream) note(g, set_stream(g, (cudaStream_t)stream));
}

ts_status end(void *self)
{
    const gpu        *g = (const gpu *)self;
    const cudaError_t waited = cudaStreamSynchronize(g->stream), launched = cudaGetLastError();
    return g->failed || waited || launched ? TS_E_DEVICE : TS_OK;
}

/* ---- begin and end of a gpu ---- */

void close_gpu(void *self)
{
    gpu *g = (gpu *)self;
    if (g->blas) cublasDestroy(g->blas);
    cudaFree(g->workspace);
    cudaFree(g->room);
    free(g);
}

bool open_gpu(void **self, char *why, size_t n_why)
{
    gpu *g = (gpu *)calloc(1, sizeof *g);
    if (!g) {
        snprintf(why, n_why, "out of memory for a handle of cuBLAS");
        return false;
    }
    const cudaError_t e = cudaMalloc(&g->workspace, BLAS_BYTES);
    cublasStatus_t    s = e ? CUBLAS_STATUS_ALLOC_FAILED : cublasCreate(&g->blas);
    if (!s) s = set_stream(g, NULL);
    if (e) {
        cudaGetLastError(); /* it has been told of */
        snprintf(why, n_why, "cuBLAS workspace: cannot allocate %zu bytes on the CUDA device: %s",
                 BLAS_BYTES, cudaGetErrorString(e));
    } else if (s)
        snprintf(why, n_why, "cuBLAS cannot be initialised: %s", cublasGetStatusString(s));
    else *self = g;
    if (s) close_gpu(g);
    return !s;
}

const ts_ops f32 = { begin, end, put, gather_packed, sum, linear, gelu, linear_half };

} // namespace

extern "C" TS_API const ts_model_module ts_model_cuda = { TS_MODEL_CUDA_ABI, &f32, open_gpu,
                                                          close_gpu };
