/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_time.cu - times the ternary matmuls on a CUDA device, compared with the memory bandwidth
 * and with cuBLAS in bf16, in one process.
 *
 * Calls are replayed from a graph, so that host time does not count, each with another copy of its
 * matrix, so that it is not in L2. */
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

extern "C" {
#include "touchstone/ternary.h"
}

namespace
{

const size_t COLD = 400u << 20; /* bytes that no cache keeps */

void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "ternary_time: %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
    exit(1);
}

unsigned next_random(void)
{
    static unsigned long long state = 1;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33);
}

/* n bytes on the device: a few megabytes of `element` again and again. */
template <class T> T *filled(size_t n, const std::function<T(void)> &element)
{
    const size_t   part = std::min(n, (size_t)(4 << 20) / sizeof(T));
    std::vector<T> some(part);
    T             *p = NULL;
    for (T &v : some) v = element();
    must(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess, "memory");
    for (size_t i = 0; i < n; i += part)
        cudaMemcpy(p + i, some.data(), std::min(part, n - i) * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

float small_float(void)
{
    return ((float)next_random() - (float)next_random()) * 0x1p-31f;
}

uint8_t four_codes(void)
{
    unsigned b = 0;
    for (int i = 0; i < 8; i += 2) b |= next_random() % 3 << i;
    return (uint8_t)b;
}

uint16_t scale(void)
{
    return (uint16_t)(0x2400 + next_random() % 0x400); /* 1/64 to 1/32 */
}

/* Seconds of a call: the median of many graphs of n calls. */
double time_of(int n, const std::function<void(int, cudaStream_t)> &call, int n_replays = 15)
{
    cudaStream_t        s;
    cudaGraph_t         graph;
    cudaGraphExec_t     exec;
    cudaEvent_t         a, b;
    std::vector<double> t;
    must(cudaStreamCreate(&s) == cudaSuccess, "stream");
    cudaEventCreate(&a), cudaEventCreate(&b);
    call(0, s); /* whatever a first call does */
    must(cudaStreamSynchronize(s) == cudaSuccess, "call");
    cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < n; i++) call(i, s);
    must(cudaStreamEndCapture(s, &graph) == cudaSuccess, "capture");
    must(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess, "graph");
    for (int i = -3; i < n_replays; i++) {
        float ms;
        cudaEventRecord(a, s);
        cudaGraphLaunch(exec, s);
        cudaEventRecord(b, s);
        must(cudaEventSynchronize(b) == cudaSuccess, "run");
        cudaEventElapsedTime(&ms, a, b);
        if (i >= 0) t.push_back(ms * 1e-3 / n);
    }
    std::sort(t.begin(), t.end());
    cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(s);
    return t[t.size() / 2];
}

__global__ void read_all(const uint4 *p, size_t n, unsigned *sum)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    unsigned     s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i + 3 * step < n; i += 4 * step)
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint4 v = __ldcs(p + i + k * step);
            s ^= v.x ^ v.y ^ v.z ^ v.w;
        }
    if (s == 0x12345678u) *sum = s; /* or the reads would be left out */
}

double read_rate(void)
{
    const size_t n = (size_t)4 << 30;
    uint4       *p;
    unsigned    *sum;
    must(cudaMalloc(&p, n) == cudaSuccess && cudaMalloc(&sum, 4) == cudaSuccess, "memory");
    cudaMemset(p, 1, n);
    double best = 0;
    for (int blocks = 4; blocks <= 16; blocks *= 2)
        best = std::max(best, (double)n / time_of(2, [&](int, cudaStream_t s) {
                                  read_all<<<132 * blocks, 512, 0, s>>>(p, n / 16, sum);
                              }));
    cudaFree(p), cudaFree(sum);
    return best;
}

using gemm_fn = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                   int, const void *, const void *, cudaDataType, int, const void *,
                                   cudaDataType, int, const void *, void *, cudaDataType, int,
                                   cublasComputeType_t, cublasGemmAlgo_t);

/* cuBLAS, where the loader finds it. */
struct blas {
    cublasHandle_t             handle = NULL;
    gemm_fn                    gemm = NULL;
    decltype(&cublasSetStream) set_stream = NULL;

    blas(void)
    {
        void *lib = NULL;
        for (const char *name : { "libcublas.so.13", "libcublas.so.12", "libcublas.so" })
            if (!lib) lib = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
        auto create = lib ? (decltype(&cublasCreate_v2))dlsym(lib, "cublasCreate_v2") : NULL;
        if (!create || create(&handle)) {
            handle = NULL;
            printf("no cuBLAS: its column is empty\n");
            return;
        }
        gemm = (gemm_fn)dlsym(lib, "cublasGemmEx");
        set_stream = (decltype(set_stream))dlsym(lib, "cublasSetStream_v2");
    }
    /* y = in w' in bf16. */
    void multiply(int64_t n_out, int64_t n_in, int64_t n_rows, const void *w, const void *in,
                  void *y, cudaStream_t s) const
    {
        const float one = 1, zero = 0;
        set_stream(handle, s);
        must(gemm(handle, CUBLAS_OP_T, CUBLAS_OP_N, (int)n_out, (int)n_rows, (int)n_in, &one, w,
                  CUDA_R_16BF, (int)n_in, in, CUDA_R_16BF, (int)n_in, &zero, y, CUDA_R_16BF,
                  (int)n_out, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == 0,
             "cuBLAS");
    }
    double time(int64_t n_out, int64_t n_in, int64_t n_rows) const
    {
        const size_t each = (size_t)(n_out * n_in);
        const int    copies = (int)std::max<size_t>(1, COLD / (each * 2));
        if (!handle) return 0;
        auto         element = [] { return __float2bfloat16(small_float()); };
        auto        *w = filled<__nv_bfloat16>(each * copies, element);
        auto        *in = filled<__nv_bfloat16>((size_t)(n_rows * n_in), element);
        auto        *y = filled<__nv_bfloat16>((size_t)(n_rows * n_out), element);
        const double t = time_of(std::max(copies, 4), [&](int i, cudaStream_t s) {
            multiply(n_out, n_in, n_rows, w + i % copies * each, in, y, s);
        });
        cudaFree(w), cudaFree(in), cudaFree(y);
        return t;
    }
};

size_t size_of(ts_dtype t)
{
    return t == TS_F32 ? 4 : 2;
}

void *inputs_of(ts_dtype t, size_t n)
{
    if (t == TS_F32) return filled<float>(n, small_float);
    if (t == TS_BF16)
        return filled<__nv_bfloat16>(n, [] { return __float2bfloat16(small_float()); });
    return filled<__half>(n, [] { return __float2half(small_float()); });
}

const char *name_of(ts_dtype t)
{
    return t == TS_F32 ? "f32" : t == TS_BF16 ? "bf16" : "f16";
}

void time_packed(ts_dtype t, int64_t n_out, int64_t n_in, int64_t n_rows, double rate, double dense)
{
    const int64_t n_groups = (n_in + 127) / 128;
    const size_t  codes = (size_t)(n_out * n_groups) * 32, scales = (size_t)(n_out * n_groups);
    const int     copies = (int)std::max<size_t>(1, COLD / (codes + 2 * scales));
    uint8_t      *code = filled<uint8_t>(codes * copies, four_codes);
    uint16_t     *s = filled<uint16_t>(scales * copies, scale);
    void         *in = inputs_of(t, (size_t)(n_rows * n_in)), *room = NULL;
    void         *y = inputs_of(t, (size_t)(n_rows * n_out));
    ts_exec       x = { TS_CUDA, 0, 1, NULL, NULL, 0 };
    ts_ternary_linear_packed_args a = { { t, n_out, n_in, n_rows }, code, s, in, y };
    must(ts_ternary_linear_packed_workspace(&a, &x, &x.workspace_bytes) == TS_OK, "workspace");
    must(!x.workspace_bytes || cudaMalloc(&room, x.workspace_bytes) == cudaSuccess, "memory");
    x.workspace = room;
    const double sec = time_of(std::min(copies, 256), [&](int i, cudaStream_t stream) {
        a.code = code + i * codes, a.scale = s + i * scales, x.stream = stream;
        must(ts_ternary_linear_packed(&a, &x) == TS_OK, "product");
    });
    const double bytes =
        (double)(codes + 2 * scales) + (double)size_of(t) * (double)(n_rows * (n_in + n_out));
    const double flops = 2.0 * (double)n_rows * (double)n_out * (double)n_in;
    printf("%-4s %6lld x %-5lld rows %-4lld %9.2f us %6.0f GB/s %4.0f %% of read %6.1f TFLOP/s",
           name_of(t), (long long)n_out, (long long)n_in, (long long)n_rows, sec * 1e6,
           bytes / sec / 1e9, 100 * bytes / sec / rate, flops / sec / 1e12);
    if (dense > 0)
        printf("   cuBLAS bf16 %9.2f us %6.1f TFLOP/s, %.2f of its time", dense * 1e6,
               flops / dense / 1e12, sec / dense);
    printf("\n");
    fflush(stdout);
    cudaFree(code), cudaFree(s), cudaFree(in), cudaFree(y), cudaFree(room);
}

/* Row counts from 1 to 4096 in bf16, next to cuBLAS, every call with another copy of its matrix:
 * the ratio of the times, worst and median, up to 256 rows and beyond. */
void sweep_shape(const blas &dense, double rate, int64_t n_out, int64_t n_in,
                 std::vector<double> (&ratio)[2])
{
    static const int64_t rows[] = { 1,   2,   3,   4,   5,   8,    9,    12,  16,  17,
                                    24,  32,  33,  48,  64,  65,   96,   97,  128, 129,
                                    192, 256, 257, 384, 512, 1024, 2048, 4096 };
    const int64_t        n_groups = (n_in + 127) / 128;
    const size_t  codes = (size_t)(n_out * n_groups) * 32, scales = (size_t)(n_out * n_groups);
    const size_t  each = (size_t)(n_out * n_in);
    const int64_t most = std::min<int64_t>(4096, ((int64_t)1 << 27) / n_out);
    const int     copies = (int)(COLD / (codes + 2 * scales)),
              dense_copies = (int)(COLD / (each * 2)) + 1;
    auto  element = [] { return __float2bfloat16(small_float()); };
    auto *code = filled<uint8_t>(codes * copies, four_codes);
    auto *s = filled<uint16_t>(scales * copies, scale);
    auto *w = filled<__nv_bfloat16>(each * dense_copies, element);
    auto *in = filled<__nv_bfloat16>((size_t)(most * n_in), element);
    auto *y = filled<__nv_bfloat16>((size_t)(most * n_out), element);
    for (int64_t r : rows) {
        void                         *room = NULL;
        ts_exec                       x = { TS_CUDA, 0, 1, NULL, NULL, 0 };
        ts_ternary_linear_packed_args a = { { TS_BF16, n_out, n_in, r }, code, s, in, y };
        const int                     calls = r <= 64 ? 96 : r <= 512 ? 16 : 4;
        if (r > most) continue;
        must(ts_ternary_linear_packed_workspace(&a, &x, &x.workspace_bytes) == TS_OK, "workspace");
        must(!x.workspace_bytes || cudaMalloc(&room, x.workspace_bytes) == cudaSuccess, "memory");
        x.workspace = room;
        const double ours = time_of(
            std::min(copies, calls),
            [&](int i, cudaStream_t stream) {
                a.code = code + i * codes, a.scale = s + i * scales, x.stream = stream;
                must(ts_ternary_linear_packed(&a, &x) == TS_OK, "product");
            },
            7);
        const double peer =
            !dense.handle ? 0
                          : time_of(
                                std::max(4, std::min(dense_copies, calls)),
                                [&](int i, cudaStream_t stream) {
                                    dense.multiply(n_out, n_in, r, w + i % dense_copies * each, in,
                                                   y, stream);
                                },
                                7);
        const double bytes = (double)(codes + 2 * scales) + 2.0 * (double)(r * (n_in + n_out));
        printf(
            "%6lld x %-5lld rows %-4lld %8.2f us %4.0f %% of read %6.1f TFLOP/s  cuBLAS %8.2f us "
            "%6.1f TFLOP/s  ratio %.2f\n",
            (long long)n_out, (long long)n_in, (long long)r, ours * 1e6, 100 * bytes / ours / rate,
            2e-12 * (double)r * (double)each / ours, peer * 1e6,
            peer > 0 ? 2e-12 * (double)r * (double)each / peer : 0, peer / ours);
        fflush(stdout);
        ratio[r > 256].push_back(peer / ours);
        cudaFree(room);
    }
    cudaFree(code), cudaFree(s), cudaFree(w), cudaFree(in), cudaFree(y);
}

void sweep(const blas &dense, double rate)
{
    static const int64_t shapes[][2] = {
        { 4096, 4096 }, { 14336, 4096 }, { 4096, 14336 }, { 3072, 1024 }, { 151936, 1024 }
    };
    std::vector<double> ratio[2];
    for (const auto &s : shapes) sweep_shape(dense, rate, s[0], s[1], ratio);
    for (auto &v : ratio) {
        std::sort(v.begin(), v.end());
        printf("%s: time of cuBLAS / ours, worst %.2f, median %.2f of %d\n",
               &v == ratio ? "1 to 256 rows" : "more rows", v.front(), v[v.size() / 2],
               (int)v.size());
    }
}

/* Latents to codes; a forward and a backward from latents. */
void time_latents(ts_dtype t, int64_t n_out, int64_t n_in, int64_t n_rows, double rate)
{
    const ts_ternary_linear_dims d = { t, n_out, n_in, n_rows };
    const int64_t                n_groups = (n_in + 127) / 128;
    const size_t                 n = (size_t)(n_out * n_in);
    const int                    copies = (int)std::max<size_t>(1, COLD / (4 * n));
    float                       *w = filled<float>(n * copies, small_float);
    float                       *dw = filled<float>(n, small_float);
    uint8_t  *code = filled<uint8_t>((size_t)(n_out * n_groups) * 32, four_codes);
    uint16_t *s = filled<uint16_t>((size_t)(n_out * n_groups), scale);
    void     *in = inputs_of(t, (size_t)(n_rows * n_in));
    void     *dx = inputs_of(t, (size_t)(n_rows * n_in));
    void     *dy = inputs_of(t, (size_t)(n_rows * n_out)), *room = NULL;
    ts_exec   x = { TS_CUDA, 0, 1, NULL, NULL, 0 };
    ts_ternary_linear_backward_args b = { d, w, in, dy, dx, dw };
    must(ts_ternary_linear_backward_workspace(&b, &x, &x.workspace_bytes) == TS_OK, "workspace");
    must(cudaMalloc(&room, x.workspace_bytes) == cudaSuccess, "memory");
    x.workspace = room;
    const double pack = time_of(std::max(copies, 4), [&](int i, cudaStream_t stream) {
        const ts_ternary_pack_args p = { d, w + i % copies * n, code, s };
        x.stream = stream;
        must(ts_ternary_pack(&p, &x) == TS_OK, "pack");
    });
    const double back = time_of(2, [&](int, cudaStream_t stream) {
        x.stream = stream;
        must(ts_ternary_linear_backward(&b, &x) == TS_OK, "backward");
    });
    const double bytes = (double)n * (4 + 17.0 / 64);
    printf("pack %6lld x %-5lld %9.2f us %6.0f GB/s %4.0f %% of read; backward, %s, rows %lld "
           "%9.2f us %6.1f TFLOP/s\n",
           (long long)n_out, (long long)n_in, pack * 1e6, bytes / pack / 1e9,
           100 * bytes / pack / rate, name_of(t), (long long)n_rows, back * 1e6,
           4.0 * (double)n_rows * (double)n / back / 1e12);
    fflush(stdout);
    cudaFree(w), cudaFree(dw), cudaFree(code), cudaFree(s), cudaFree(in), cudaFree(dx);
    cudaFree(dy), cudaFree(room);
}

} // namespace

int main(int argc, char **argv)
{
    static const int64_t shapes[][2] = {
        { 4096, 4096 }, { 14336, 4096 }, { 3072, 1024 }, { 151936, 1024 }
    };
    const bool brief = argc > 1 && !strcmp(argv[1], "brief"); /* bf16 packed only */
    if (ts_cuda_unavailable_reason()) {
        printf("skipped: %s\n", ts_cuda_unavailable_reason());
        return 77;
    }
    const double rate = read_rate();
    printf("read %.0f GB/s\n", rate / 1e9);
    const blas dense;
    if (argc > 1 && !strcmp(argv[1], "sweep")) {
        sweep(dense, rate);
        return 0;
    }
    for (const auto &s : shapes)
        for (int64_t rows : { 1, 8, 16, 32, 64, 512 }) {
            time_packed(TS_BF16, s[0], s[1], rows, rate, brief ? 0 : dense.time(s[0], s[1], rows));
            if (brief || (rows > 8 && rows < 512)) continue;
            time_packed(TS_F16, s[0], s[1], rows, rate, 0);
            time_packed(TS_F32, s[0], s[1], rows, rate, 0);
        }
    for (const auto &s : shapes)
        for (ts_dtype t : { TS_BF16, TS_F16, TS_F32 })
            if (!brief) time_latents(t, s[0], s[1], 512, rate);
    return 0;
}
