/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_backward_sm90.cu - r, dy and dr are read once, dx written once.
 *
 * Blocks are cut into teams; each team takes every n_teams-th row. A thread owns the same columns
 * of all of its team's rows and keeps their share of dw in registers throughout. At the end a block
 * adds up its teams in order and writes a partial; a second kernel adds up the partials. Which row
 * goes where depends only on the shape and the device, so the bits never change. */
#include "rms_norm_sm90.cuh"

namespace
{

/* Threads resident on a multiprocessor, each then having 128 registers. */
enum { RESIDENT = 512, MOST_BLOCKS = RESIDENT / LEAST_THREADS, ANY_SPLITS = 128, SUM_COLUMNS = 32 };

struct backward_params {
    int64_t      n_rows, row_stride;
    int          n_cols, accumulate;
    float        one_over_n, offset;
    const void  *r, *dy, *dr, *w;
    const float *rstd;
    void        *dx;
    float       *dw;
    float       *partial; /* [blocks][n_cols] */
};

/* r * rstd without loss on the way: of far rows rstd is subnormal. */
__device__ __forceinline__ float rhat_of(float r, float rstd)
{
    return rstd < 0x1p-100f ? r * 0x1p-24f * (rstd * 0x1p24f) : r * rstd;
}

/* ---- rows of 16-byte vectors ---- */

/* Adds the teams' sums in order: sums are [team][a thread's column][thread]. */
template <int TEAM, int E, int COLUMNS>
__device__ __forceinline__ void write_partial(const backward_params &p, float *sums,
                                              const float (&dw)[COLUMNS])
{
    constexpr int TEAMS = threads_of<TEAM> / TEAM, TEAM_SUMS = COLUMNS * TEAM;
    float        *own = sums + threadIdx.x / TEAM * TEAM_SUMS + threadIdx.x % TEAM;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) own[c * TEAM] = dw[c];
    __syncthreads();
    for (int i = threadIdx.x; i < p.n_cols; i += threads_of<TEAM>) {
        const int    vec = i / E;
        const float *from = sums + (vec / TEAM * E + i % E) * TEAM + vec % TEAM;
        float        s = from[0];
        for (int k = 1; k < TEAMS; k++) s += from[k * TEAM_SUMS];
        p.partial[blockIdx.x * (int64_t)p.n_cols + i] = s;
    }
}

template <class T, int TEAM, int V>
__global__ void __launch_bounds__(threads_of<TEAM>, RESIDENT / threads_of<TEAM>)
    backward_rows(const __grid_constant__ backward_params p)
{
    constexpr int           TEAMS = threads_of<TEAM> / TEAM, E = lanes<T>::n;
    extern __shared__ float sums[];
    __shared__ float        slots[2 * threads_of<TEAM> / 32 * 2];
    const place<TEAM>       mine(p.n_cols / E);
    const int64_t           n_teams = (int64_t)gridDim.x * TEAMS;
    const uint4            *w = (const uint4 *)p.w + mine.t;
    float                   dw[V * E] = { 0 };
    int                     set = 0;
    for (int64_t first = blockIdx.x * (int64_t)TEAMS; first < p.n_rows; first += n_teams) {
        /* Teams past the last row go along with the others, to the same barriers. */
        const int64_t row = first + threadIdx.x / TEAM;
        const int     on = row < p.n_rows ? mine.on : 0;
        const int64_t at = row * (p.row_stride / E) + mine.t;
        const float   rstd = on ? __ldg(p.rstd + row) : 0.0f;
        uint4         r[V], dy[V], dr[V];
        fetch_row<TEAM, V>(r, (const uint4 *)p.r + at, on);
        fetch_row<TEAM, V>(dy, (const uint4 *)p.dy + at, on);
        fetch_row<TEAM, V>(dr, (const uint4 *)p.dr + at, p.dr ? on : 0);
        float sum = 0;
#pragma unroll
        for (int v = 0; v < V; v++) {
            float x[E], d[E], gain[E] = { 0 }, part = 0; /* short chains of additions */
            unpack_as<T>(r[v], x);
            unpack_as<T>(dy[v], d);
            if (v < on) unpack_as<T>(__ldg(w + v * TEAM), gain);
#pragma unroll
            for (int e = 0; e < E; e++) {
                const float rhat = v < on ? rhat_of(x[e], rstd) : 0.0f;
                part = fmaf((gain[e] + p.offset) * d[e], rhat, part);
                dw[v * E + e] = fmaf(d[e], rhat, dw[v * E + e]);
            }
            sum += part;
        }
        keep_packed(r);
        keep_packed(dy);
        keep_packed(dr);
        const float avg = team_reduce<add, TEAM>(sum, slots, &set) * p.one_over_n;
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (v >= on) continue;
            float x[E], d[E], more[E], gain[E];
            unpack_as<T>(r[v], x);
            unpack_as<T>(dy[v], d);
            unpack_as<T>(dr[v], more);
            unpack_as<T>(__ldg(w + v * TEAM), gain);
#pragma unroll
            for (int e = 0; e < E; e++) {
                const float g = (gain[e] + p.offset) * d[e];
                x[e] = fmaf(rstd, fmaf(rhat_of(x[e], rstd), -avg, g), more[e]);
            }
            __stcs((uint4 *)p.dx + at + v * TEAM, pack_as<T>(x));
        }
    }
    write_partial<TEAM, E>(p, sums, dw);
}

/* dw from the partials: a block per SUM_COLUMNS columns, whose 8 warps share the partials. */
__global__ void __launch_bounds__(256) sum_partials(const backward_params p, int n_partials)
{
    __shared__ float part[8][SUM_COLUMNS];
    const int        lane = threadIdx.x % SUM_COLUMNS, deep = threadIdx.x / SUM_COLUMNS;
    const int64_t    c = blockIdx.x * (int64_t)SUM_COLUMNS + lane;
    float            s = 0;
    for (int k = deep; k < n_partials && c < p.n_cols; k += 8)
        s += p.partial[k * (int64_t)p.n_cols + c];
    part[deep][lane] = s;
    __syncthreads();
    if (deep > 0 || c >= p.n_cols) return;
    for (int k = 1; k < 8; k++) s += part[k][lane];
    p.dw[c] = p.accumulate ? p.dw[c] + s : s;
}

/* ---- any alignment, any length: r and dy are read again for the second half of a row, and once
 * more for the columns ---- */

template <class T> __global__ void __launch_bounds__(256) backward_any_dx(const backward_params p)
{
    constexpr int    TEAM = 256;
    __shared__ float slots[2 * TEAM / 32 * 2];
    const T         *w = (const T *)p.w;
    int              set = 0;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const int64_t begin = row * p.row_stride;
        const T      *r = (const T *)p.r + begin, *dy = (const T *)p.dy + begin;
        const T      *dr = (const T *)p.dr + begin;
        T            *dx = (T *)p.dx + begin;
        const float   rstd = p.rstd[row];
        float         sum = 0;
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM)
            sum = fmaf((to_float(w[i]) + p.offset) * to_float(dy[i]), rhat_of(to_float(r[i]), rstd),
                       sum);
        const float avg = team_reduce<add, TEAM>(sum, slots, &set) * p.one_over_n;
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            const float g = (to_float(w[i]) + p.offset) * to_float(dy[i]);
            const float rest = fmaf(rhat_of(to_float(r[i]), rstd), -avg, g);
            from_float(dx + i, fmaf(rstd, rest, p.dr ? to_float(dr[i]) : 0.0f));
        }
    }
}

/* 32 columns by 8 rows at a time; block y of the grid takes every gridDim.y-th group of 8 rows. */
template <class T>
__global__ void __launch_bounds__(256) backward_any_columns(const backward_params p)
{
    __shared__ float part[8][SUM_COLUMNS];
    const int        lane = threadIdx.x % SUM_COLUMNS, deep = threadIdx.x / SUM_COLUMNS;
    const int64_t    c = blockIdx.x * (int64_t)SUM_COLUMNS + lane;
    float            dw = 0;
    for (int64_t row = blockIdx.y * 8 + deep; row < p.n_rows && c < p.n_cols;
         row += gridDim.y * 8) {
        const float dy = to_float(((const T *)p.dy)[row * p.row_stride + c]);
        const float r = to_float(((const T *)p.r)[row * p.row_stride + c]);
        dw = fmaf(dy, rhat_of(r, p.rstd[row]), dw);
    }
    part[deep][lane] = dw;
    __syncthreads();
    if (deep > 0 || c >= p.n_cols) return;
    for (int k = 1; k < 8; k++) dw += part[k][lane];
    p.partial[blockIdx.y * (int64_t)p.n_cols + c] = dw;
}

/* ---- choice ---- */

void launch_sums(const backward_params &p, int n_partials, cudaStream_t s)
{
    const int64_t blocks = (p.n_cols + (int64_t)SUM_COLUMNS - 1) / SUM_COLUMNS;
    sum_partials<<<(unsigned)blocks, 256, 0, s>>>(p, n_partials);
}

template <class T, int TEAM, int V> void launch_rows(const backward_params &p, cudaStream_t s)
{
    constexpr int THREADS = threads_of<TEAM>, TEAMS = THREADS / TEAM;
    constexpr int n_bytes = THREADS * V * lanes<T>::n * (int)sizeof(float);
    const auto    kernel = backward_rows<T, TEAM, V>;
    const int64_t most = (int64_t)n_multiprocessors() * (RESIDENT / THREADS);
    const int64_t wanted = (p.n_rows + TEAMS - 1) / TEAMS;
    const int     blocks = (int)(wanted < most ? wanted : most);
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
    kernel<<<(unsigned)blocks, THREADS, n_bytes, s>>>(p);
    launch_sums(p, blocks, s);
}

template <class T> void launch_any(const backward_params &p, cudaStream_t s)
{
    const int64_t  groups = (p.n_rows + 63) / 64;
    const int      splits = groups < ANY_SPLITS ? (int)groups : (int)ANY_SPLITS;
    const int64_t  blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
    const unsigned columns = (unsigned)((p.n_cols + (int64_t)SUM_COLUMNS - 1) / SUM_COLUMNS);
    if (p.n_rows) {
        backward_any_dx<T><<<(unsigned)blocks, 256, 0, s>>>(p);
        backward_any_columns<T><<<dim3(columns, splits), 256, 0, s>>>(p);
    }
    launch_sums(p, splits, s);
}

/* A thread has 16 columns, whatever their dtype. */
template <class T> void launch(const backward_params &p, cudaStream_t s)
{
    constexpr int E = lanes<T>::n, V = 16 / E;
    const int     n = p.n_cols;
    const bool vectors = n % E == 0 && p.row_stride % E == 0 && aligned16(p.r) && aligned16(p.dy) &&
                         aligned16(p.dr) && aligned16(p.dx) && aligned16(p.w);
    if (!vectors || n > 512 * 16 || p.n_rows == 0 || p.n_rows > INT32_MAX) launch_any<T>(p, s);
    else if (n <= 32 * 16) launch_rows<T, 32, V>(p, s);
    else if (n <= 64 * 16) launch_rows<T, 64, V>(p, s);
    else if (n <= 128 * 16) launch_rows<T, 128, V>(p, s);
    else if (n <= 256 * 16) launch_rows<T, 256, V>(p, s);
    else launch_rows<T, 512, V>(p, s);
}

} // namespace

extern "C" TS_API ts_status ts_rms_norm_backward_sm90_workspace(const void *args, const ts_exec *x,
                                                                size_t *n_bytes)
{
    const ts_rms_norm_backward_args *a = (const ts_rms_norm_backward_args *)args;
    const int                        most = n_multiprocessors() * MOST_BLOCKS;
    (void)x;
    *n_bytes = (size_t)(most > ANY_SPLITS ? most : ANY_SPLITS) * (size_t)a->n_cols * sizeof(float);
    return TS_OK;
}

extern "C" TS_API ts_status ts_rms_norm_backward_sm90(const void *args, const ts_exec *x)
{
    const ts_rms_norm_backward_args *a = (const ts_rms_norm_backward_args *)args;
    const cudaStream_t               s = (cudaStream_t)x->stream;
    if (a->n_cols > INT32_MAX) return TS_E_UNSUPPORTED;
    const backward_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .accumulate = a->accumulate,
        .one_over_n = 1.0f / (float)a->n_cols,
        .offset = (float)a->w_offset,
        .r = a->r,
        .dy = a->dy,
        .dr = a->dr,
        .w = a->w,
        .rstd = (const float *)a->rstd,
        .dx = a->dx,
        .dw = (float *)a->dw,
        .partial = (float *)x->workspace,
    };
    if (a->dtype == TS_F32) launch<float>(p, s);
    else if (a->dtype == TS_BF16) launch<__nv_bfloat16>(p, s);
    else launch<__half>(p, s);
    return launched();
}
