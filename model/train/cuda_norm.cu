/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_norm.cu - RMSNorm of rows, with what is added before it, and back. A row is held in the
 * registers of a team of warps, two for a width of 1024. */
#include "cuda_impl.cuh"

namespace
{

enum {
    EACH = 4,                       /* columns of an access */
    PER = 4,                        /* accesses of a lane, at most */
    WARP_WIDTH = WARP * EACH * PER, /* columns that a warp can hold */
    BACK_WARPS = 8,                 /* of a block; a power of two */
    BACK_THREADS = WARP * BACK_WARPS,
};
static_assert((int)TS_CUDA_WIDTH <= (int)WARP_WIDTH * BACK_WARPS, "a row must fit");

/* Warps for a row: a power of two. */
int team_of(int64_t width)
{
    int warps = 1;
    while (warps * WARP_WIDTH < width) warps *= 2;
    return warps;
}

/* A lane's pieces of a row, all fetched before any is looked at; 0 past its end. */
template <typename T>
__device__ __forceinline__ void load_row(float (&v)[PER][EACH], const T *__restrict__ p, int lane,
                                         int members, int width)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int c = (lane + k * members) * EACH;
        if (c < width) load(v[k], p + c);
        else
#pragma unroll
            for (int i = 0; i < EACH; i++) v[k][i] = 0;
    }
}

template <typename T>
__device__ __forceinline__ void store_row(T *__restrict__ p, const float (&v)[PER][EACH], int lane,
                                          int members, int width)
{
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int c = (lane + k * members) * EACH;
        if (c < width) store(p + c, v[k]);
    }
}

/* ---- forward ---- */

/* A block a row. */
template <typename T>
__global__ void __launch_bounds__(BACK_THREADS)
    norm_rows(const float *__restrict__ x, const T *__restrict__ t, float *__restrict__ sum,
              T *__restrict__ h, const float *__restrict__ gain, int width, float eps)
{
    __shared__ float part[BACK_WARPS];
    const int        lane = (int)threadIdx.x, members = (int)blockDim.x;
    const int64_t    at = blockIdx.x * (int64_t)width;
    float            v[PER][EACH], more[PER][EACH], squares = 0;
    load_row(v, x + at, lane, members, width);
    if (t) {
        load_row(more, t + at, lane, members, width);
#pragma unroll
        for (int k = 0; k < PER; k++)
#pragma unroll
            for (int i = 0; i < EACH; i++) v[k][i] += more[k][i];
        store_row(sum + at, v, lane, members, width);
    }
    load_row(more, gain, lane, members, width);
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int i = 0; i < EACH; i++) squares += v[k][i] * v[k][i];
    squares = team_sum(squares, members / WARP, part);
    const float scale = 1 / sqrtf(squares / (float)width + eps);
#pragma unroll
    for (int k = 0; k < PER; k++)
#pragma unroll
        for (int i = 0; i < EACH; i++) v[k][i] *= scale * more[k][i];
    store_row(h + at, v, lane, members, width);
}

/* ---- backward ---- */

/* y = x s g with s = (mean x^2 + eps)^-1/2, so dx = s (g dy - x s^2 mean(g dy x)). The teams of a
 * block take rows; gains' gradients stay in registers until the last. */
template <typename T>
__global__ void __launch_bounds__(BACK_THREADS, 2)
    norm_rows_back(const ts_cuda_norm_back r, int team_warps)
{
    __shared__ float             part[2][BACK_WARPS];
    alignas(16) __shared__ float joined[BACK_WARPS * WARP_WIDTH];
    const int                    width = (int)r.width, teams = BACK_WARPS / team_warps;
    const int                    members = team_warps * WARP, team = (int)threadIdx.x / members;
    const int                    lane = (int)threadIdx.x % members;
    float                        dgain[PER][EACH] = {};
    for (int64_t first = (int64_t)blockIdx.x * teams; first < r.n;
         first += (int64_t)gridDim.x * teams) {
        const int64_t row = first + team, at = row * width;
        const int     here = row < r.n ? width : 0;
        float         x[PER][EACH], dh[PER][EACH], dx[PER][EACH], squares = 0, dot = 0;
        load_row(x, r.x + at, lane, members, here);
        load_row(dh, (const T *)r.dh + at, lane, members, here);
        load_row(dx, r.dx + at, lane, members, r.add ? here : 0); /* before the sums wait */
#pragma unroll
        for (int k = 0; k < PER; k++) {
            const int c = (lane + k * members) * EACH;
            float     g[EACH] = {};
            if (c < here) load(g, r.gain + c);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                squares += x[k][i] * x[k][i];
                dot += g[i] * dh[k][i] * x[k][i];
            }
        }
        squares = team_sum(squares, team_warps, part[0]);
        dot = team_sum(dot, team_warps, part[1]);
        const float s = 1 / sqrtf(squares / (float)width + (float)r.eps);
        const float share = dot * s * s / (float)width;
#pragma unroll
        for (int k = 0; k < PER; k++) {
            const int c = (lane + k * members) * EACH;
            if (c >= here) continue;
            float g[EACH];
            load(g, r.gain + c);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                dgain[k][i] += dh[k][i] * x[k][i] * s;
                dx[k][i] += s * (g[i] * dh[k][i] - x[k][i] * share);
            }
            store(r.dx + at + c, dx[k]);
            if (r.narrow) store((T *)r.narrow + at + c, dx[k]);
        }
    }
    store_row(joined + team * members * EACH * PER, dgain, lane, members, width);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < width; c += BACK_THREADS) {
        float sum = 0;
        for (int t = 0; t < teams; t++) sum += joined[t * members * EACH * PER + c];
        r.sums[(int64_t)blockIdx.x * r.n_sums + c] = sum;
    }
}

__global__ void __launch_bounds__(BACK_THREADS)
    sum_columns(float *__restrict__ y, const float *__restrict__ sums, int64_t n, bool add)
{
    const int64_t i = blockIdx.x * (int64_t)BACK_THREADS + threadIdx.x;
    if (i >= n) return;
    double sum = 0;
#pragma unroll 8
    for (int b = 0; b < TS_CUDA_SUMS; b++) sum += (double)sums[b * n + i];
    y[i] = (float)(add ? (double)y[i] + sum : sum);
}

} // namespace

void ts_train_norm(void *self, const ts_cuda_norm *r)
{
    with_type(r->type, [&](auto t) {
        typedef decltype(t) T;
        launch(self, norm_rows<T>, r->n, WARP * team_of(r->width), r->x, (const T *)r->t, r->sum,
               (T *)r->h, r->gain, (int)r->width, (float)r->eps);
    });
}

void ts_train_norm_back(void *self, const ts_cuda_norm_back *r)
{
    with_type(r->type, [&](auto t) {
        launch(self, norm_rows_back<decltype(t)>, TS_CUDA_SUMS, BACK_THREADS, *r,
               team_of(r->width));
    });
}

void ts_train_sum(void *self, float *y, const float *sums, int64_t n, bool add)
{
    launch(self, sum_columns, (n + BACK_THREADS - 1) / BACK_THREADS, BACK_THREADS, y, sums, n, add);
}
