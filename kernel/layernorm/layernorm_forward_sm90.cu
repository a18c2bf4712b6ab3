/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_forward_sm90.cu - one read of x, one write of y.
 *
 * Blocks stay for the whole run, cut into teams; each team takes every n_teams-th row. The next row
 * is on its way into registers while the two reductions of the one at hand are done.
 *
 * Statistics are the corrected two-pass ones: a first mean, then the sums of d = x - mean and of
 * d^2, which give what rounding left out of the mean and a variance that never cancels. xhat is
 * formed from d and that remainder, so it is right to a few units at any offset. A row whose
 * squares leave the range of float is done again, scaled by a power of two. */
#include "layernorm_sm90.cuh"

#include <float.h>

namespace
{

enum { THREADS = 512, MOST_COLUMNS = 8192 };

struct forward_params {
    int64_t     n_rows, row_stride;
    int         n_cols, turns;
    float       one_over_n;
    double      eps;
    const void *x, *gamma, *beta;
    void       *y;
    float      *mean, *rstd;
};

/* How d = x - mean, mean being the first one, becomes xhat: d -> d * r + rest. */
struct row_map {
    float r, rest;
};

/* Whether float holds the squares of d, or at least eps makes up for those too small for it. */
__device__ __forceinline__ bool in_range(float squares, double eps)
{
    return squares <= FLT_MAX && eps >= 0x1p-60;
}

/* The scale that puts the row's largest magnitude near 1; NaN if it is not finite. */
__device__ __forceinline__ float scale_for(float largest)
{
    if (!(largest <= FLT_MAX)) return nanf("");
    const int e = largest > 0 ? ilogbf(largest) : 0;
    return ldexpf(1.0f, min(max(-e, -126), 126));
}

/* |x|, with NaN counted as infinite: fmaxf alone would drop it. */
__device__ __forceinline__ float magnitude(float x)
{
    return isnan(x) ? INFINITY : fabsf(x);
}

__device__ __forceinline__ float one_over_sqrt(float a)
{
    const float r = rsqrtf(a); /* within 2 units; a step of Newton's makes it 1 */
    return fmaf(0.5f * r, fmaf(-a * r, r, 1.0f), r);
}

/* From the first mean and the sums of d and d^2. */
__device__ __forceinline__ row_map finish(float m, float2 sum, const forward_params &p, float *mean,
                                          float *rstd)
{
    const float rest = sum.x * p.one_over_n;
    const float v = fmaxf(sum.y * p.one_over_n - rest * rest, 0.0f);
    *mean = m + rest;
    *rstd = one_over_sqrt(v + (float)p.eps);
    return { *rstd, -rest * *rstd };
}

/* The same of a row scaled by h; mean and rstd are those of the row as it was. */
__device__ __forceinline__ row_map finish_scaled(float h, float m, float2 sum,
                                                 const forward_params &p, float *mean, float *rstd)
{
    const float  rest = sum.x * p.one_over_n;
    const float  v = fmaxf(sum.y * p.one_over_n - rest * rest, 0.0f);
    const double exact = 1.0 / sqrt((double)v + p.eps * h * h);
    const float  r = (float)fmin(exact, (double)FLT_MAX); /* more only if every d is 0 */
    *mean = (m + rest) / h;
    *rstd = (float)(exact * h);
    return { r, -rest * r };
}

/* ---- rows of 16-byte vectors ---- */

/* The thread's vectors of a row; 0 past its end. Volatile: the loads must leave when they are
 * written here, a row ahead of their use, and not when the compiler would rather have them. */
template <int TEAM, int V>
__device__ __forceinline__ void fetch_row(uint4 (&raw)[V], const uint4 *x, int on)
{
#pragma unroll
    for (int v = 0; v < V; v++) {
        raw[v] = make_uint4(0, 0, 0, 0);
        if (v < on)
            asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
                         : "=r"(raw[v].x), "=r"(raw[v].y), "=r"(raw[v].z), "=r"(raw[v].w)
                         : "l"(x + v * TEAM));
    }
}

template <class T, int V, int E>
__device__ __forceinline__ void widen_row(const uint4 (&raw)[V], float h, float (&x)[V][E])
{
#pragma unroll
    for (int v = 0; v < V; v++) {
        unpack_as<T>(raw[v], x[v]);
#pragma unroll
        for (int e = 0; e < E; e++) x[v][e] *= h;
    }
}

/* As a tree, so that the sum of a constant row is exact. */
template <int V, int E> __device__ __forceinline__ float plain_sum(const float (&x)[V][E])
{
    float s[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        float f[E];
#pragma unroll
        for (int e = 0; e < E; e++) f[e] = x[v][e];
#pragma unroll
        for (int w = E / 2; w; w >>= 1)
#pragma unroll
            for (int e = 0; e < w; e++) f[e] += f[e + w];
        s[v] = f[0];
    }
#pragma unroll
    for (int w = V / 2; w; w >>= 1)
#pragma unroll
        for (int v = 0; v < w; v++) s[v] += s[v + w];
    return s[0];
}

/* x becomes d = x - m; returns the sums of d and of d^2. */
template <int V, int E> __device__ __forceinline__ float2 centre(float (&x)[V][E], float m, int on)
{
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < on) {
#pragma unroll
            for (int e = 0; e < E; e++) {
                x[v][e] -= m;
                sum.x += x[v][e], sum.y = fmaf(x[v][e], x[v][e], sum.y);
            }
        }
    return sum;
}

template <int V, int E> __device__ __forceinline__ float largest_of(const float (&x)[V][E])
{
    float largest = 0;
#pragma unroll
    for (int v = 0; v < V; v++)
#pragma unroll
        for (int e = 0; e < E; e++) largest = fmaxf(largest, magnitude(x[v][e]));
    return largest;
}

/* COLUMNS of a row a thread: their floats, gamma and beta stay in its registers, and the next row
 * is on its way into others. FULL: no thread lacks a vector. */
template <class T, int TEAM, int COLUMNS, bool FULL>
__global__ void __launch_bounds__(THREADS, 1) forward_rows(const forward_params p)
{
    constexpr int        E = lanes<T>::n, V = COLUMNS / E;
    __shared__ float     slots[2 * THREADS / 32 * 2];
    const share<T, TEAM> mine(p.n_rows, p.turns, p.row_stride, p.n_cols);
    const int            on = FULL ? V : mine.on;
    const uint4         *in = (const uint4 *)p.x + mine.begin;
    uint4               *out = (uint4 *)p.y + mine.begin;
    uint4                next[V], gamma[V], beta[V];
    int                  set = 0;

    if (mine.n_rows) fetch_row<TEAM, V>(next, in, on);
    fetch_row<TEAM, V>(gamma, (const uint4 *)p.gamma + mine.t, on);
    fetch_row<TEAM, V>(beta, (const uint4 *)p.beta + mine.t, on);
    for (int k = 0; k < mine.n_rows; k++, in += mine.step, out += mine.step) {
        float   x[V][E], mean, rstd;
        row_map map;
        widen_row<T>(next, 1.0f, x);
        if (k + 1 < mine.n_rows) fetch_row<TEAM, V>(next, in + mine.step, on);
        float  m = team_reduce<add, TEAM>(plain_sum(x), slots, &set) * p.one_over_n;
        float2 sum = team_sums<TEAM>(centre(x, m, on), slots, &set);
        if (in_range(sum.y, p.eps)) map = finish(m, sum, p, &mean, &rstd);
        else {
            uint4 again[V];
            fetch_row<TEAM, V>(again, in, on);
            widen_row<T>(again, 1.0f, x);
            const float h = scale_for(team_reduce<larger, TEAM>(largest_of(x), slots, &set));
            widen_row<T>(again, h, x);
            m = team_reduce<add, TEAM>(plain_sum(x), slots, &set) * p.one_over_n;
            sum = team_sums<TEAM>(centre(x, m, on), slots, &set);
            map = finish_scaled(h, m, sum, p, &mean, &rstd);
        }
        keep_packed(gamma);
        keep_packed(beta);
#pragma unroll
        for (int v = 0; v < V; v++)
            if (v < on) {
                float g[E], b[E], y[E];
                unpack_as<T>(gamma[v], g);
                unpack_as<T>(beta[v], b);
#pragma unroll
                for (int e = 0; e < E; e++) y[e] = fmaf(g[e], fmaf(x[v][e], map.r, map.rest), b[e]);
                out[v * TEAM] = pack_as<T>(y);
            }
        if (mine.t == 0) {
            const int64_t row = mine.first + k * mine.n_teams;
            p.mean[row] = mean, p.rstd[row] = rstd;
        }
    }
}

/* ---- any alignment, any length: the row is read three times, from the caches after the first ----
 */

template <class T> __global__ void __launch_bounds__(256) forward_any(const forward_params p)
{
    constexpr int    TEAM = 256;
    __shared__ float slots[2 * TEAM / 32 * 2];
    int              set = 0;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const T *x = (const T *)p.x + row * p.row_stride, *g = (const T *)p.gamma;
        T       *y = (T *)p.y + row * p.row_stride;
        float    h = 1.0f, m, mean, rstd;
        float2   sum;
        row_map  map;
        for (;;) {
            float s = 0, largest = 0;
            for (int i = threadIdx.x; i < p.n_cols; i += TEAM) s = fmaf(to_float(x[i]), h, s);
            m = team_reduce<add, TEAM>(s, slots, &set) * p.one_over_n;
            sum = make_float2(0, 0);
            for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
                const float d = fmaf(to_float(x[i]), h, -m);
                sum.x += d, sum.y = fmaf(d, d, sum.y);
            }
            sum = team_sums<TEAM>(sum, slots, &set);
            if (h != 1.0f || in_range(sum.y, p.eps)) break;
            for (int i = threadIdx.x; i < p.n_cols; i += TEAM)
                largest = fmaxf(largest, magnitude(to_float(x[i])));
            h = scale_for(team_reduce<larger, TEAM>(largest, slots, &set));
            if (h == 1.0f) break;
        }
        if (in_range(sum.y, p.eps) && h == 1.0f) map = finish(m, sum, p, &mean, &rstd);
        else map = finish_scaled(h, m, sum, p, &mean, &rstd);
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM)
            from_float(y + i,
                       fmaf(to_float(g[i]), fmaf(fmaf(to_float(x[i]), h, -m), map.r, map.rest),
                            to_float(((const T *)p.beta)[i])));
        if (threadIdx.x == 0) p.mean[row] = mean, p.rstd[row] = rstd;
    }
}

/* ---- choice ---- */

template <class T, int TEAM, int COLUMNS> void launch_rows(forward_params p, cudaStream_t s)
{
    const auto      kernel = p.n_cols == TEAM * COLUMNS ? forward_rows<T, TEAM, COLUMNS, true>
                                                        : forward_rows<T, TEAM, COLUMNS, false>;
    const grid_plan plan(p.n_rows, THREADS / TEAM);
    p.turns = plan.turns;
    kernel<<<plan.n_blocks, THREADS, 0, s>>>(p);
}

template <class T> void launch(const forward_params &p, cudaStream_t s)
{
    /* 64 bytes a thread; what a float row lacks in teams, a row of 16 bits has in work. */
    constexpr int C = 64 / sizeof(T);
    const int     n = p.n_cols, E = lanes<T>::n;
    const bool vectors = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) && aligned16(p.y) &&
                         aligned16(p.gamma) && aligned16(p.beta);
    if (!vectors || n > MOST_COLUMNS || p.n_rows > INT32_MAX) {
        const int64_t blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
        forward_any<T><<<(unsigned)blocks, 256, 0, s>>>(p);
    } else if (n <= 32 * C) launch_rows<T, 32, C>(p, s);
    else if (n <= 64 * C) launch_rows<T, 64, C>(p, s);
    else if (n <= 128 * C) launch_rows<T, 128, C>(p, s);
    else if (n <= 256 * C) launch_rows<T, 256, C>(p, s);
    else launch_rows<T, 512, C>(p, s);
}

} // namespace

extern "C" TS_API ts_status ts_layernorm_forward_sm90(const void *args, const ts_exec *x)
{
    const ts_layernorm_forward_args *a = (const ts_layernorm_forward_args *)args;
    const cudaStream_t               s = (cudaStream_t)x->stream;
    if (a->n_rows == 0) return TS_OK;
    if (a->n_cols > INT32_MAX) return TS_E_UNSUPPORTED;
    const forward_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .turns = 0,
        .one_over_n = 1.0f / (float)a->n_cols,
        .eps = a->eps,
        .x = a->x,
        .gamma = a->gamma,
        .beta = a->beta,
        .y = a->y,
        .mean = (float *)a->mean,
        .rstd = (float *)a->rstd,
    };
    if (a->dtype == TS_F32) launch<float>(p, s);
    else if (a->dtype == TS_BF16) launch<__nv_bfloat16>(p, s);
    else launch<__half>(p, s);
    return launched();
}
