/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_weight.cu - operations on weights: the projection to effective weights, and the norm of the
 * gradient. A warp has 128 weights, which are a ternary group. */
#include "cuda_impl.cuh"
#include "dtype.cuh"

namespace
{

enum {
    WARP = 32,
    EACH = 4,
    GROUP = WARP * EACH, /* TS_TERNARY_GROUP */
    THREADS = 256,
    WARPS = THREADS / WARP,
};

/* ---- launches, elements, sums ---- */

/* f(T()) with the type that `type` names. */
template <typename F> void with_type(ts_dtype type, F f)
{
    if (type == TS_BF16) f(__nv_bfloat16());
    else f(float());
}

template <typename... P, typename... A>
void launch(const void *self, void (*kernel)(P...), int64_t grid, int block, A... a)
{
    const unsigned blocks = (unsigned)grid;
    if (grid > 0) kernel<<<blocks, block, 0, ts_train_stream(self)>>>(P(a)...);
}

/* EACH elements, as one access. */
template <typename T> struct alignas(EACH * sizeof(T)) packed {
    T e[EACH];
};

__device__ __forceinline__ void load(float (&v)[EACH], const float *__restrict__ p)
{
    const packed<float> x = *reinterpret_cast<const packed<float> *>(p);
#pragma unroll
    for (int i = 0; i < EACH; i++) v[i] = x.e[i];
}

template <typename T>
__device__ __forceinline__ void store(T *__restrict__ p, const float (&v)[EACH])
{
    packed<T> x;
#pragma unroll
    for (int i = 0; i < EACH; i++) from_float(&x.e[i], v[i]);
    *reinterpret_cast<packed<T> *>(p) = x;
}

__device__ __forceinline__ double warp_sum(double v)
{
#pragma unroll
    for (int d = WARP / 2; d; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

__device__ __forceinline__ double block_sum(double v)
{
    __shared__ double part[WARPS];
    v = warp_sum(v);
    if (threadIdx.x % WARP == 0) part[threadIdx.x / WARP] = v;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < WARPS; w++) sum += part[w];
    return sum;
}

/* ---- the projection ---- */

/* c s: s = mean |w| over n weights, summed in double, in f16; c = 0 where 2 |w| <= s, else the
 * sign. False where s is not finite. All lanes of a warp; those past n have w = 0. */
template <int GROUPS> __device__ __forceinline__ bool ternary(float (&w)[GROUPS][EACH], int n)
{
    double sum = 0;
#pragma unroll
    for (int j = 0; j < GROUPS * EACH; j++) sum += (double)fabsf(w[j / EACH][j % EACH]);
    const float s = __half2float(__double2half(warp_sum(sum) / n));
#pragma unroll
    for (int j = 0; j < GROUPS * EACH; j++) {
        float &v = w[j / EACH][j % EACH];
        v = 2 * fabsf(v) <= s ? 0 : copysignf(s, v);
    }
    return isfinite(s);
}

__device__ __forceinline__ void count_bad(int64_t *n_bad)
{
    if (threadIdx.x % WARP == 0) atomicAdd((unsigned long long *)n_bad, 1ull);
}

/* A warp has one group of a row, or two that share a scale. */
template <typename T, bool TERNARY, int GROUPS>
__global__ void __launch_bounds__(THREADS)
    project_rows(T *__restrict__ y, const float *__restrict__ w, int64_t rows, int64_t cols,
                 int64_t *n_bad)
{
    constexpr int64_t SPAN = GROUPS * GROUP;
    const int64_t     across = (cols + SPAN - 1) / SPAN;
    const int64_t     i = blockIdx.x * (int64_t)WARPS + threadIdx.x / WARP;
    const int64_t     row = i / across, first = i % across * SPAN;
    const int64_t     c = first + threadIdx.x % WARP * EACH;
    if (row >= rows) return;
    float v[GROUPS][EACH] = {};
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        if (c + g * GROUP < cols) load(v[g], w + row * cols + c + g * GROUP);
    if (TERNARY && !ternary(v, (int)(cols - first < SPAN ? cols - first : SPAN))) count_bad(n_bad);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        if (c + g * GROUP < cols) store(y + row * cols + c + g * GROUP, v[g]);
}

/* ---- the norm ---- */

__global__ void __launch_bounds__(THREADS)
    square_parts(double *__restrict__ part, const float *__restrict__ g, int64_t n)
{
    double        sum = 0;
    const int64_t all = (int64_t)TS_CUDA_NORMS * THREADS * EACH;
    for (int64_t i = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * EACH; i < n; i += all) {
        float v[EACH];
        load(v, g + i);
        float four = 0; /* of four squares: nothing is lost that the norm could show */
#pragma unroll
        for (int j = 0; j < EACH; j++) four += v[j] * v[j];
        sum += (double)four;
    }
    sum = block_sum(sum);
    if (!threadIdx.x) part[2 + blockIdx.x] = sum;
}

/* Also the factor that clips it. */
__global__ void __launch_bounds__(THREADS) join_parts(double *norm, double most)
{
    double sum = 0;
    for (int i = (int)threadIdx.x; i < TS_CUDA_NORMS; i += THREADS) sum += norm[2 + i];
    sum = block_sum(sum);
    if (threadIdx.x) return;
    norm[0] = sqrt(sum);
    norm[1] = !isfinite(norm[0]) ? nan("") : most > 0 && norm[0] > most ? most / norm[0] : 1;
}

} // namespace

void ts_train_project(void *self, const ts_cuda_project *p)
{
    const bool    paired = p->how == TS_SERVE_PAIRED;
    const int64_t span = paired ? 2 * GROUP : GROUP, n = p->rows * ((p->cols + span - 1) / span);
    with_type(p->type, [&](auto t) {
        typedef decltype(t) T;
        launch(self,
               paired                       ? project_rows<T, true, 2>
               : p->how == TS_SERVE_TERNARY ? project_rows<T, true, 1>
                                            : project_rows<T, false, 1>,
               (n + WARPS - 1) / WARPS, THREADS, (T *)p->y, p->w, p->rows, p->cols, p->n_bad);
    });
}

void ts_train_clip(void *self, const float *gradient, int64_t n, double most, double *norm)
{
    launch(self, square_parts, TS_CUDA_NORMS, THREADS, norm, gradient, n);
    launch(self, join_parts, 1, THREADS, norm, most);
}
