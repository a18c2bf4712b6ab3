/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_forward_sm90.cu - x and the residual are read once, r and y written once.
 *
 * A team of threads takes one row and is done. Every thread has a few 16-byte vectors of r in
 * registers, packed as they are stored, so that what is squared is what was rounded. A row whose
 * squares leave the range of float is done again, scaled by a power of two. */
#include "rms_norm_sm90.cuh"

namespace
{

struct forward_params {
    int64_t     n_rows, row_stride;
    int         n_cols;
    float       one_over_n, offset;
    double      eps;
    const void *x, *residual, *w;
    void       *r, *y; /* r is x where there is no residual */
    float      *rstd;
};

/* rhat = (r * h) * scaled */
struct row_map {
    float h, scaled;
};

/* Whether float holds the sum of squares, or at least eps makes up for those too small for it. */
__device__ __forceinline__ bool in_range(float squares, double eps)
{
    return squares <= FLT_MAX && eps >= 0x1p-60 && eps <= 0x1p120;
}

__device__ __forceinline__ row_map finish(float squares, const forward_params &p, float *rstd)
{
    *rstd = one_over_sqrt(fmaf(squares, p.one_over_n, (float)p.eps));
    return { 1.0f, *rstd };
}

/* The same of a row scaled by h; rstd is that of the row as it was. */
__device__ __forceinline__ row_map finish_scaled(float h, float squares, const forward_params &p,
                                                 float *rstd)
{
    const double exact = 1.0 / sqrt((double)(squares * p.one_over_n) + p.eps * h * h);
    *rstd = (float)(exact * h);
    /* More than a float only if every r is 0; fmin would drop a NaN. */
    return { h, exact > FLT_MAX ? FLT_MAX : (float)exact };
}

/* ---- rows of 16-byte vectors ---- */

template <class T, int V>
__device__ __forceinline__ float squares_of(const uint4 (&raw)[V], float h)
{
    constexpr int E = lanes<T>::n;
    float         sum = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        float r[E], part = 0; /* short chains of additions */
        unpack_as<T>(raw[v], r);
#pragma unroll
        for (int e = 0; e < E; e++) part = fmaf(r[e] * h, r[e] * h, part);
        sum += part;
    }
    return sum;
}

template <class T, int TEAM, int V>
__device__ __forceinline__ void write_row(const forward_params &p, int64_t at, place<TEAM> mine,
                                          const uint4 (&raw)[V], row_map map)
{
    constexpr int E = lanes<T>::n;
    const uint4  *w = (const uint4 *)p.w + mine.t;
#pragma unroll
    for (int v = 0; v < V; v++)
        if (v < mine.on) {
            float r[E], gain[E];
            unpack_as<T>(raw[v], r);
            unpack_as<T>(__ldg(w + v * TEAM), gain);
#pragma unroll
            for (int e = 0; e < E; e++) r[e] = r[e] * map.h * map.scaled * (gain[e] + p.offset);
            ((uint4 *)p.y)[at + v * TEAM] = pack_as<T>(r);
        }
}

/* A row out of range, from r as it is stored. Not inlined: it would cost every row its registers.
 */
template <class T, int TEAM, int V>
__device__ __noinline__ void scaled_row(const forward_params &p, int64_t row, int64_t at,
                                        place<TEAM> mine, float *slots, int set)
{
    float rstd, largest = 0;
    uint4 raw[V];
    fetch_row<TEAM, V>(raw, (const uint4 *)p.r + at, mine.on);
#pragma unroll
    for (int v = 0; v < V; v++) {
        float r[lanes<T>::n];
        unpack_as<T>(raw[v], r);
#pragma unroll
        for (int e = 0; e < lanes<T>::n; e++) largest = fmaxf(largest, magnitude(r[e]));
    }
    const float h = scale_for(team_reduce<larger, TEAM>(largest, slots, &set));
    const float squares = team_reduce<add, TEAM>(squares_of<T>(raw, h), slots, &set);
    write_row<T, TEAM>(p, at, mine, raw, finish_scaled(h, squares, p, &rstd));
    if (mine.t == 0) p.rstd[row] = rstd;
}

/* A row per team, V vectors of it per thread. */
template <class T, int TEAM, int V>
__global__ void __launch_bounds__(threads_of<TEAM>)
    forward_rows(const __grid_constant__ forward_params p)
{
    constexpr int     TEAMS = threads_of<TEAM> / TEAM, E = lanes<T>::n;
    __shared__ float  slots[2 * threads_of<TEAM> / 32 * 2];
    const place<TEAM> mine(p.n_cols / E);
    const int64_t     row = blockIdx.x * (int64_t)TEAMS + threadIdx.x / TEAM;
    if (row >= p.n_rows) return; /* a whole team, for which no other waits */
    const int64_t at = row * (p.row_stride / E) + mine.t;
    float         rstd;
    uint4         raw[V];
    int           set = 0;
    fetch_row<TEAM, V>(raw, (const uint4 *)p.x + at, mine.on);
    if (p.residual) {
        uint4 more[V];
        fetch_row<TEAM, V>(more, (const uint4 *)p.residual + at, mine.on);
#pragma unroll
        for (int v = 0; v < V; v++) {
            float a[E], b[E];
            unpack_as<T>(raw[v], a);
            unpack_as<T>(more[v], b);
#pragma unroll
            for (int e = 0; e < E; e++) a[e] += b[e];
            raw[v] = pack_as<T>(a);
            if (v < mine.on) ((uint4 *)p.r)[at + v * TEAM] = raw[v];
        }
    }
    keep_packed(raw);
    const float squares = team_reduce<add, TEAM>(squares_of<T>(raw, 1.0f), slots, &set);
    keep_packed(raw);
    if (!in_range(squares, p.eps)) {
        scaled_row<T, TEAM, V>(p, row, at, mine, slots, set);
        return;
    }
    write_row<T, TEAM>(p, at, mine, raw, finish(squares, p, &rstd));
    if (mine.t == 0) p.rstd[row] = rstd;
}

/* ---- any alignment, any length: the row is read again, from the caches after the first time ----
 */

template <class T> __global__ void __launch_bounds__(256) forward_any(const forward_params p)
{
    constexpr int    TEAM = 256;
    __shared__ float slots[2 * TEAM / 32 * 2];
    int              set = 0;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const int64_t begin = row * p.row_stride;
        const T      *x = (const T *)p.x + begin, *residual = (const T *)p.residual + begin;
        const T      *w = (const T *)p.w;
        T            *r = (T *)p.r + begin, *y = (T *)p.y + begin;
        float         rstd, squares = 0, largest = 0;
        /* A thread meets the same columns every time, so that it reads what it wrote itself. */
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            if (p.residual) from_float(r + i, to_float(x[i]) + to_float(residual[i]));
            const float v = to_float(r[i]);
            squares = fmaf(v, v, squares);
            largest = fmaxf(largest, magnitude(v));
        }
        squares = team_reduce<add, TEAM>(squares, slots, &set);
        row_map map = { 1.0f, 0.0f };
        if (in_range(squares, p.eps)) {
            map = finish(squares, p, &rstd);
        } else {
            const float h = scale_for(team_reduce<larger, TEAM>(largest, slots, &set));
            squares = 0;
            for (int i = threadIdx.x; i < p.n_cols; i += TEAM)
                squares = fmaf(to_float(r[i]) * h, to_float(r[i]) * h, squares);
            map = finish_scaled(h, team_reduce<add, TEAM>(squares, slots, &set), p, &rstd);
        }
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM)
            from_float(y + i, to_float(r[i]) * map.h * map.scaled * (to_float(w[i]) + p.offset));
        if (threadIdx.x == 0) p.rstd[row] = rstd;
    }
}

/* ---- choice ---- */

template <class T, int TEAM> void launch_rows(const forward_params &p, cudaStream_t s)
{
    constexpr int TEAMS = threads_of<TEAM> / TEAM;
    forward_rows<T, TEAM, VECTORS>
        <<<(unsigned)((p.n_rows + TEAMS - 1) / TEAMS), threads_of<TEAM>, 0, s>>>(p);
}

template <class T> void launch(const forward_params &p, cudaStream_t s)
{
    const int  n = p.n_cols, E = lanes<T>::n, n_vec = n / E;
    const bool vectors = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) &&
                         aligned16(p.residual) && aligned16(p.r) && aligned16(p.y) &&
                         aligned16(p.w);
    if (!vectors || n_vec > 512 * VECTORS || p.n_rows > INT32_MAX) {
        const int64_t blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
        forward_any<T><<<(unsigned)blocks, 256, 0, s>>>(p);
    } else if (n_vec <= 32 * VECTORS) launch_rows<T, 32>(p, s);
    else if (n_vec <= 64 * VECTORS) launch_rows<T, 64>(p, s);
    else if (n_vec <= 128 * VECTORS) launch_rows<T, 128>(p, s);
    else if (n_vec <= 256 * VECTORS) launch_rows<T, 256>(p, s);
    else launch_rows<T, 512>(p, s);
}

} // namespace

extern "C" TS_API ts_status ts_rms_norm_forward_sm90(const void *args, const ts_exec *x)
{
    const ts_rms_norm_forward_args *a = (const ts_rms_norm_forward_args *)args;
    const cudaStream_t              s = (cudaStream_t)x->stream;
    if (a->n_rows == 0) return TS_OK;
    if (a->n_cols > INT32_MAX) return TS_E_UNSUPPORTED;
    const forward_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .one_over_n = 1.0f / (float)a->n_cols,
        .offset = (float)a->w_offset,
        .eps = a->eps,
        .x = a->x,
        .residual = a->residual,
        .w = a->w,
        .r = a->residual ? a->r : const_cast<void *>(a->x),
        .y = a->y,
        .rstd = (float *)a->rstd,
    };
    if (a->dtype == TS_F32) launch<float>(p, s);
    else if (a->dtype == TS_BF16) launch<__nv_bfloat16>(p, s);
    else launch<__half>(p, s);
    return launched();
}
