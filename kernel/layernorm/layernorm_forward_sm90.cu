/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_forward_sm90.cu - one read of x, one write of y.
 *
 * A team of threads takes one row and is done. Every thread has a few 16-byte vectors of it in
 * registers, packed as they came: that leaves room for many teams on a multiprocessor, and while
 * some of them reduce, others keep the memory busy.
 *
 * Statistics are the corrected two-pass ones: a first mean, then the sums of d = x - mean and of
 * d^2, which give what rounding left out of the mean and a variance that never cancels. xhat is
 * formed from d and that remainder, so it is right to a few units at any offset. A row whose
 * squares leave the range of float is done again, scaled by a power of two. */
#include "layernorm_sm90.cuh"

#include <float.h>

namespace
{

/* Vectors a thread has of a row, at most; threads of a block, which is a team or several small
 * ones; and threads that must find room on a multiprocessor, each then having 64 registers. */
enum { VECTORS = 4, LEAST_THREADS = 256, RESIDENT = 1024 };
template <int TEAM> constexpr int threads_of = TEAM < LEAST_THREADS ? LEAST_THREADS : TEAM;

struct forward_params {
    int64_t     n_rows, row_stride;
    int         n_cols;
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

/* Whether float holds eps and the squares of d, or at least eps makes up for those too small for
 * it. */
__device__ __forceinline__ bool in_range(float squares, double eps)
{
    return squares <= FLT_MAX && eps >= 0x1p-60 && eps <= 0x1p60;
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

/* The thread's vectors of a row; 0 past its end. Volatile: all loads leave before the first use. */
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

/* The vector's elements times h. */
template <class T, int E>
__device__ __forceinline__ void widen_scaled(uint4 raw, float h, float (&x)[E])
{
    unpack_as<T>(raw, x);
#pragma unroll
    for (int e = 0; e < E; e++) x[e] *= h;
}

/* As a tree, so that the sum of a constant row is exact. */
template <class T, int V> __device__ __forceinline__ float plain_sum(const uint4 (&raw)[V], float h)
{
    constexpr int E = lanes<T>::n;
    float         s[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
        float x[E];
        widen_scaled<T>(raw[v], h, x);
#pragma unroll
        for (int w = E / 2; w; w >>= 1)
#pragma unroll
            for (int e = 0; e < w; e++) x[e] += x[e + w];
        s[v] = x[0];
    }
#pragma unroll
    for (int w = (V + 1) / 2, n = V; n > 1; n = w, w = (w + 1) / 2)
#pragma unroll
        for (int v = 0; v + w < n; v++) s[v] += s[v + w];
    return s[0];
}

/* The sums of d = x - m and of d^2. */
template <class T, int V>
__device__ __forceinline__ float2 deviations(const uint4 (&raw)[V], float h, float m, int on)
{
    constexpr int E = lanes<T>::n;
    float2        sum = make_float2(0, 0);
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < on) {
            float x[E];
            widen_scaled<T>(raw[v], h, x);
#pragma unroll
            for (int e = 0; e < E; e++) {
                const float d = x[e] - m;
                sum.x += d, sum.y = fmaf(d, d, sum.y);
            }
        }
    return sum;
}

template <class T, int V> __device__ __forceinline__ float largest_of(const uint4 (&raw)[V])
{
    float largest = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        float x[lanes<T>::n];
        unpack_as<T>(raw[v], x);
#pragma unroll
        for (int e = 0; e < lanes<T>::n; e++) largest = fmaxf(largest, magnitude(x[e]));
    }
    return largest;
}

template <class T, int TEAM, int V>
__device__ __forceinline__ void write_row(const forward_params &p, int64_t at, int on,
                                          const uint4 (&raw)[V], float h, float m, row_map map)
{
    constexpr int E = lanes<T>::n;
    const int     t = threadIdx.x % TEAM;
    const uint4  *gamma = (const uint4 *)p.gamma + t, *beta = (const uint4 *)p.beta + t;
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < on) {
            float x[E], g[E], b[E];
            widen_scaled<T>(raw[v], h, x);
            unpack_as<T>(__ldg(gamma + v * TEAM), g);
            unpack_as<T>(__ldg(beta + v * TEAM), b);
#pragma unroll
            for (int e = 0; e < E; e++) x[e] = fmaf(g[e], fmaf(x[e] - m, map.r, map.rest), b[e]);
            ((uint4 *)p.y)[at + v * TEAM] = pack_as<T>(x);
        }
}

/* A row out of range, from the start. Not inlined: it would cost every row its registers. */
template <class T, int TEAM, int V>
__device__ __noinline__ void scaled_row(const forward_params &p, int64_t row, int64_t at, int on,
                                        float *slots, int set)
{
    float mean, rstd;
    uint4 raw[V];
    fetch_row<TEAM, V>(raw, (const uint4 *)p.x + at, on);
    const float   h = scale_for(team_reduce<larger, TEAM>(largest_of<T>(raw), slots, &set));
    const float   m = team_reduce<add, TEAM>(plain_sum<T>(raw, h), slots, &set) * p.one_over_n;
    const float2  sum = team_sums<TEAM>(deviations<T>(raw, h, m, on), slots, &set);
    const row_map map = finish_scaled(h, m, sum, p, &mean, &rstd);
    write_row<T, TEAM>(p, at, on, raw, h, m, map);
    if (threadIdx.x % TEAM == 0) p.mean[row] = mean, p.rstd[row] = rstd;
}

/* A row a team, V vectors of it a thread. FULL: no thread lacks a vector. */
template <class T, int TEAM, int V, bool FULL>
__global__ void __launch_bounds__(threads_of<TEAM>, RESIDENT / threads_of<TEAM>)
    forward_rows(const __grid_constant__ forward_params p)
{
    constexpr int    TEAMS = threads_of<TEAM> / TEAM;
    __shared__ float slots[2 * threads_of<TEAM> / 32 * 2];
    const int        t = threadIdx.x % TEAM, n_vec = p.n_cols / lanes<T>::n;
    const int        on = FULL ? V : t < n_vec ? (n_vec - t + TEAM - 1) / TEAM : 0;
    const int64_t    row = blockIdx.x * (int64_t)TEAMS + threadIdx.x / TEAM;
    if (row >= p.n_rows) return; /* a whole team: nobody waits for it */
    const int64_t at = row * (p.row_stride / lanes<T>::n) + t;
    float         mean, rstd;
    uint4         raw[V];
    int           set = 0;
    fetch_row<TEAM, V>(raw, (const uint4 *)p.x + at, on);
    const float m = team_reduce<add, TEAM>(plain_sum<T>(raw, 1.0f), slots, &set) * p.one_over_n;
    keep_packed(raw);
    const float2 sum = team_sums<TEAM>(deviations<T>(raw, 1.0f, m, on), slots, &set);
    keep_packed(raw);
    if (!in_range(sum.y, p.eps)) {
        scaled_row<T, TEAM, V>(p, row, at, on, slots, set);
        return;
    }
    const row_map map = finish(m, sum, p, &mean, &rstd);
    write_row<T, TEAM>(p, at, on, raw, 1.0f, m, map);
    if (t == 0) p.mean[row] = mean, p.rstd[row] = rstd;
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

template <class T, int TEAM, int V> void launch_rows(const forward_params &p, cudaStream_t s)
{
    constexpr int TEAMS = threads_of<TEAM> / TEAM;
    const auto    kernel = p.n_cols == TEAM * V * lanes<T>::n ? forward_rows<T, TEAM, V, true>
                                                              : forward_rows<T, TEAM, V, false>;
    kernel<<<(unsigned)((p.n_rows + TEAMS - 1) / TEAMS), threads_of<TEAM>, 0, s>>>(p);
}

template <class T> void launch(const forward_params &p, cudaStream_t s)
{
    const int  n = p.n_cols, E = lanes<T>::n, n_vec = n / E;
    const bool vectors = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) && aligned16(p.y) &&
                         aligned16(p.gamma) && aligned16(p.beta);
    if (!vectors || n_vec > 512 * VECTORS || p.n_rows > INT32_MAX) {
        const int64_t blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
        forward_any<T><<<(unsigned)blocks, 256, 0, s>>>(p);
    } else if (n_vec <= 32 * VECTORS) launch_rows<T, 32, VECTORS>(p, s);
    else if (n_vec <= 64 * VECTORS) launch_rows<T, 64, VECTORS>(p, s);
    else if (n_vec <= 128 * VECTORS) launch_rows<T, 128, VECTORS>(p, s);
    else if (n_vec <= 256 * VECTORS) launch_rows<T, 256, VECTORS>(p, s);
    else launch_rows<T, 512, VECTORS>(p, s);
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
