/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_weight.cu - operations on weights: the projection to effective weights, the norm of the
 * gradient, and AdamW.
 *
 * AdamW of ternary nets also writes the effective weights, so that weights are read once per step.
 * A warp has 128 weights, which are a ternary group. */
#include <cuda_fp16.h>

#include "cuda_impl.cuh"

namespace
{

enum {
    EACH = 4,
    GROUP = WARP * EACH, /* TS_TERNARY_GROUP */
    THREADS = 256,
    WARPS = THREADS / WARP,
};

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
    __shared__ double joined[WARPS];
    double            sum = 0;
    const int64_t     all = (int64_t)TS_CUDA_NORMS * THREADS * EACH;
    for (int64_t i = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * EACH; i < n; i += all) {
        float v[EACH];
        load(v, g + i);
        float four = 0; /* of four squares: nothing is lost that the norm could show */
#pragma unroll
        for (int j = 0; j < EACH; j++) four += v[j] * v[j];
        sum += (double)four;
    }
    sum = team_sum(sum, WARPS, joined);
    if (!threadIdx.x) part[2 + blockIdx.x] = sum;
}

/* Also the factor that clips it. */
__global__ void __launch_bounds__(THREADS) join_parts(double *norm, double most)
{
    __shared__ double joined[WARPS];
    double            sum = 0;
    for (int i = (int)threadIdx.x; i < TS_CUDA_NORMS; i += THREADS) sum += norm[2 + i];
    sum = team_sum(sum, WARPS, joined);
    if (threadIdx.x) return;
    norm[0] = sqrt(sum);
    norm[1] = !isfinite(norm[0]) ? nan("") : most > 0 && norm[0] > most ? most / norm[0] : 1;
}

/* ---- AdamW of ternary nets ---- */

struct rates {
    float step, beta1, beta2, eps, decay, bias2; /* step = lr / bias1, decay = lr times that */
};

/* EACH divides both counts, since widths are multiples of 8. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    adamw_groups(float *__restrict__ w_at, float *__restrict__ m_at, float *__restrict__ v_at,
                 const float *__restrict__ gradient, T *__restrict__ y, int64_t n, int64_t n_matrix,
                 const rates r, const double *__restrict__ scale, int64_t *n_bad)
{
    const float clip = (float)*scale;
    if (isnan(clip)) return;
    const int64_t i = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * EACH;
    const bool    there = i < n, matrix = i < n_matrix;
    float         group[1][EACH] = {}, m[EACH], v[EACH], g[EACH];
    float(&w)[EACH] = group[0];
    if (there) {
        load(w, w_at + i);
        load(m, m_at + i);
        load(v, v_at + i);
        load(g, gradient + i);
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            g[j] *= clip;
            m[j] = r.beta1 * m[j] + (1 - r.beta1) * g[j];
            v[j] = r.beta2 * v[j] + (1 - r.beta2) * g[j] * g[j];
            const float by = m[j] / (sqrtf(v[j] * r.bias2) + r.eps);
            w[j] -= r.step * by + (matrix ? r.decay * w[j] : 0);
        }
        store(w_at + i, w);
        store(m_at + i, m);
        store(v_at + i, v);
    }
    if (!matrix) return; /* n_matrix is a multiple of GROUP: a warp agrees on it */
    if (!ternary(group, GROUP)) count_bad(n_bad);
    store(y + i, w);
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

void ts_train_adamw(void *self, const ts_cuda_adamw *a)
{
    const rates r = { (float)(a->lr / a->bias1), (float)a->beta1,
                      (float)a->beta2,           (float)a->eps,
                      (float)(a->lr * a->decay), (float)(1 / a->bias2) };
    with_type(a->type, [&](auto t) {
        typedef decltype(t) T;
        launch(self, adamw_groups<T>, (a->n + THREADS * EACH - 1) / (THREADS * EACH), THREADS, a->w,
               a->m, a->v, a->gradient, (T *)a->y, a->n, a->n_matrix, r, a->scale, a->n_bad);
    });
}
