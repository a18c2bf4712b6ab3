/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_backward_sm90.cu - x and dy are read once, dx written once, and the sums over rows
 * never leave registers until a block is done.
 *
 * One block a multiprocessor, cut into teams; each team takes every n_teams-th row. A thread owns
 * 16 columns of its team's rows: it copies them into its own corner of shared memory a few rows
 * ahead and keeps gamma and its columns' shares of dgamma and dbeta in registers throughout. A row
 * costs one barrier of its team, for the two averages. At the end a block's teams are added up in
 * order, and once all blocks are there they add up each other's sums, each for some of the columns.
 * Which row goes where depends only on the shape and the device, so the bits never change. */
#include <cooperative_groups.h>

#include "layernorm_sm90.cuh"

namespace
{

enum { THREADS = 512, COLUMNS = 16, ANY_SPLITS = 128 };

struct backward_params {
    int64_t      n_rows, row_stride;
    int          n_cols, turns;
    float        one_over_n;
    const void  *x, *dy, *gamma;
    const float *mean, *rstd;
    void        *dx;
    float       *dgamma, *dbeta;
    int          accumulate;
    float       *partial; /* [blocks][2][n_cols]: dgamma, dbeta */
};

/* (x - mean) * rstd without overflow on the way: far rows are scaled down first. */
struct row_map {
    float h, mean, r;
};

__device__ __forceinline__ row_map map_of(float mean, float rstd)
{
    const bool  far = rstd < 0x1p-100f;
    const float h = far ? 0x1p-24f : 1.0f;
    return { h, mean * h, far ? rstd * 0x1p24f : rstd };
}

__device__ __forceinline__ float xhat_of(float x, row_map k)
{
    return fmaf(x, k.h, -k.mean) * k.r;
}

/* ---- who does what ---- */

/* Which rows a team takes, and which vectors of them a thread: the (v * TEAM + t)-th, t being its
 * place in the team. Those past the row's end it does without. */
template <class T, int TEAM> struct share {
    int     t, on;   /* place in the team; vectors this thread has, at most */
    int64_t first;   /* row */
    int64_t n_teams; /* rows from one to the next */
    int     n_rows;
    int64_t begin, step; /* in vectors: the thread's first, and to the same place in its next row */

    __device__ __forceinline__ share(int64_t all_rows, int turns, int64_t row_stride, int n_cols)
    {
        const int n_vec = n_cols / lanes<T>::n, teams = blockDim.x / TEAM;
        t = threadIdx.x % TEAM;
        on = t < n_vec ? (n_vec - t + TEAM - 1) / TEAM : 0;
        first = blockIdx.x * teams + threadIdx.x / TEAM;
        n_teams = (int64_t)gridDim.x * teams;
        n_rows = turns;
        while (n_rows > 0 && first + (n_rows - 1) * n_teams >= all_rows) n_rows--;
        begin = first * (row_stride / lanes<T>::n) + t;
        step = n_teams * (row_stride / lanes<T>::n);
    }
};

/* ---- rows ahead, in shared memory ---- */

/* The row at hand and two on their way: 64 to 128 KB in flight a multiprocessor. More was slower:
 * the farther apart what is read at one time lies, the less of the bandwidth there is. */
enum { STAGES = 3 };

/* A thread fetches its vectors a few rows ahead into its own corner of shared memory. Nobody else
 * reads them, so no barrier guards them: it only waits for its own copies. Vector v of a row is the
 * (v * TEAM + t)-th, t being the thread's place in the team; those past the row's end are skipped.
 */
__device__ __forceinline__ void copy_ahead(uint4 *shared, const uint4 *global)
{
    const unsigned s = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(global) : "memory");
}

__device__ __forceinline__ void close_group(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ __forceinline__ void await_all_but(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* [stage][x or dy][vector][thread]: a warp's accesses are contiguous. */
template <class T> struct ring {
    static constexpr int V = COLUMNS / lanes<T>::n;
    uint4                slot[STAGES][2][V][THREADS];
};

template <int TEAM, int V>
__device__ __forceinline__ void fetch_row(uint4 *corner, const uint4 *x, const uint4 *dy, int on,
                                          bool any)
{
    if (any) {
#pragma unroll
        for (int v = 0; v < V; v++)
            if (v < on) {
                copy_ahead(corner + v * THREADS, x + v * TEAM);
                copy_ahead(corner + (V + v) * THREADS, dy + v * TEAM);
            }
    }
    close_group();
}

/* Adds the teams' column sums in order and writes the block's partial. The sums pass through the
 * ring's memory as [team][dgamma or dbeta][a thread's column][thread], free of bank conflicts. */
template <int TEAM, int E>
__device__ __forceinline__ void write_partial(const backward_params &p, float *sums, int t,
                                              const float (&dgamma)[COLUMNS],
                                              const float (&dbeta)[COLUMNS])
{
    constexpr int TEAM_SUMS = 2 * COLUMNS * TEAM;
    float        *own = sums + threadIdx.x / TEAM * TEAM_SUMS + t;
    __syncthreads(); /* others may still read rows there */
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        own[c * TEAM] = dgamma[c];
        own[(COLUMNS + c) * TEAM] = dbeta[c];
    }
    __syncthreads();
    float *out = p.partial + blockIdx.x * 2 * (int64_t)p.n_cols;
    for (int i = threadIdx.x; i < 2 * p.n_cols; i += THREADS) {
        const int    second = i >= p.n_cols, col = second ? i - p.n_cols : i, vec = col / E;
        const int    c = vec / TEAM * E + col % E;
        const float *from = sums + (second * COLUMNS + c) * TEAM + vec % TEAM;
        float        s = from[0];
#pragma unroll
        for (int k = 1; k < THREADS / TEAM; k++) s += from[k * TEAM_SUMS];
        out[i] = s;
    }
}

/* dgamma and dbeta from the partials. Each block takes as many columns, a power of two, as give all
 * blocks their share in one go; its threads share the partials, each in order. */
__device__ __forceinline__ void add_partials(const backward_params &p, int n_partials)
{
    __shared__ float part[THREADS];
    const int64_t    width = 2 * (int64_t)p.n_cols;
    int              columns = 32;
    while (columns < THREADS && columns * (int64_t)gridDim.x < width) columns *= 2;
    const int lane = threadIdx.x & (columns - 1), deep = threadIdx.x / columns;
    const int step = THREADS / columns;
    for (int64_t at = blockIdx.x * (int64_t)columns; at < width;
         at += gridDim.x * (int64_t)columns) {
        const int64_t c = at + lane;
        float         s = 0;
        if (c < width) {
#pragma unroll 12
            for (int k = deep; k < n_partials; k += step) s += __ldcg(p.partial + k * width + c);
        }
        part[threadIdx.x] = s;
        __syncthreads();
        if (deep == 0 && c < width) {
            for (int k = 1; k < step; k++) s += part[k * columns + lane];
            float *out = c < p.n_cols ? p.dgamma + c : p.dbeta + (c - p.n_cols);
            *out = p.accumulate ? *out + s : s;
        }
        __syncthreads();
    }
}

/* FULL: no thread lacks a vector. */
template <class T, int TEAM, bool FULL>
__global__ void __launch_bounds__(THREADS, 1) backward_rows(const backward_params p)
{
    constexpr int           E = lanes<T>::n, V = ring<T>::V, AHEAD = STAGES - 1;
    extern __shared__ uint4 memory[];
    __shared__ float        slots[2 * THREADS / 32 * 2];
    const share<T, TEAM>    mine(p.n_rows, p.turns, p.row_stride, p.n_cols);
    const int               on = FULL ? V : mine.on;
    uint4 *const corner = &reinterpret_cast<ring<T> *>(memory)->slot[0][0][0][threadIdx.x];
    const uint4 *next_x = (const uint4 *)p.x + mine.begin;
    const uint4 *next_dy = (const uint4 *)p.dy + mine.begin;
    uint4       *out = (uint4 *)p.dx + mine.begin;
    float        gamma[COLUMNS], dgamma[COLUMNS] = { 0 }, dbeta[COLUMNS] = { 0 };

#pragma unroll
    for (int s = 0; s < AHEAD; s++, next_x += mine.step, next_dy += mine.step)
        fetch_row<TEAM, V>(corner + s * 2 * V * THREADS, next_x, next_dy, on, s < mine.n_rows);
#pragma unroll
    for (int v = 0; v < V; v++) {
        float g[E] = { 0 };
        if (v < on) unpack_as<T>(__ldg((const uint4 *)p.gamma + v * TEAM + mine.t), g);
#pragma unroll
        for (int e = 0; e < E; e++) gamma[v * E + e] = g[e];
    }

    const float *mean = p.mean + mine.first, *rstds = p.rstd + mine.first;
    float next_mean = mine.n_rows ? __ldg(mean) : 0, next_rstd = mine.n_rows ? __ldg(rstds) : 0;
    int   stage = 0, free_stage = AHEAD, set = 0;
    for (int k = 0; k < mine.n_rows; k++) {
        const row_map map = map_of(next_mean, next_rstd);
        const float   rstd = next_rstd;
        if (k + 1 < mine.n_rows) {
            next_mean = __ldg(mean += mine.n_teams);
            next_rstd = __ldg(rstds += mine.n_teams);
        }
        fetch_row<TEAM, V>(corner + free_stage * 2 * V * THREADS, next_x, next_dy, on,
                           k + AHEAD < mine.n_rows);
        next_x += mine.step, next_dy += mine.step;
        await_all_but<AHEAD>();

        float  xhat[COLUMNS], g[COLUMNS];
        float2 sum = make_float2(0, 0);
#pragma unroll
        for (int v = 0; v < V; v++) {
            float  x[E], dy[E];
            float2 part = make_float2(0, 0); /* short chains of additions */
            unpack_as<T>(corner[(stage * 2 * V + v) * THREADS], x);
            unpack_as<T>(corner[(stage * 2 * V + V + v) * THREADS], dy);
#pragma unroll
            for (int e = 0; e < E; e++) {
                const int   c = v * E + e;
                const float d = v < on ? dy[e] : 0.0f;
                xhat[c] = v < on ? xhat_of(x[e], map) : 0.0f;
                g[c] = gamma[c] * d;
                part.x += g[c], part.y = fmaf(g[c], xhat[c], part.y);
                dbeta[c] += d, dgamma[c] = fmaf(d, xhat[c], dgamma[c]);
            }
            sum.x += part.x, sum.y += part.y;
        }
        sum = team_sums<TEAM>(sum, slots, &set);
        const float c1 = rstd * (sum.x * p.one_over_n), c2 = rstd * (sum.y * p.one_over_n);
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (v >= on) continue;
            float dx[E];
#pragma unroll
            for (int e = 0; e < E; e++)
                dx[e] = fmaf(xhat[v * E + e], -c2, fmaf(g[v * E + e], rstd, -c1));
            __stcs(out + v * TEAM, pack_as<T>(dx));
        }
        out += mine.step;
        free_stage = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
    await_all_but<0>();
    /* Teams with a row less wait as often as the others: a race checker counts a block's barriers.
     */
    if constexpr (TEAM > 32)
        for (int k = mine.n_rows; k < p.turns; k++) team_barrier<TEAM>();
    write_partial<TEAM, E>(p, reinterpret_cast<float *>(memory), mine.t, dgamma, dbeta);
    cooperative_groups::this_grid().sync();
    add_partials(p, gridDim.x);
}

/* ---- any alignment, any length: x and dy are read again for the second half of a row, and once
 * more for the columns ---- */

template <class T> __global__ void __launch_bounds__(256) backward_any_dx(const backward_params p)
{
    constexpr int    TEAM = 256;
    __shared__ float slots[2 * TEAM / 32 * 2];
    const T         *gamma = (const T *)p.gamma;
    int              set = 0;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const T *x = (const T *)p.x + row * p.row_stride,
                *dy = (const T *)p.dy + row * p.row_stride;
        T            *dx = (T *)p.dx + row * p.row_stride;
        const float   rstd = p.rstd[row];
        const row_map k = map_of(p.mean[row], rstd);
        float2        sum = make_float2(0, 0);
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            const float g = to_float(gamma[i]) * to_float(dy[i]);
            sum.x += g, sum.y = fmaf(g, xhat_of(to_float(x[i]), k), sum.y);
        }
        sum = team_sums<TEAM>(sum, slots, &set);
        const float c1 = rstd * (sum.x * p.one_over_n), c2 = rstd * (sum.y * p.one_over_n);
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            const float g = to_float(gamma[i]) * to_float(dy[i]);
            from_float(dx + i, fmaf(xhat_of(to_float(x[i]), k), -c2, fmaf(g, rstd, -c1)));
        }
    }
}

/* 32 columns by 8 rows at a time; block y of the grid takes every gridDim.y-th group of 8 rows. */
template <class T>
__global__ void __launch_bounds__(256) backward_any_columns(const backward_params p)
{
    __shared__ float part[2][8][32];
    const int        lane = threadIdx.x % 32, deep = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
    float            dgamma = 0, dbeta = 0;
    for (int64_t row = blockIdx.y * 8 + deep; row < p.n_rows && c < p.n_cols;
         row += gridDim.y * 8) {
        const float dy = to_float(((const T *)p.dy)[row * p.row_stride + c]);
        const float x = to_float(((const T *)p.x)[row * p.row_stride + c]);
        dgamma = fmaf(dy, xhat_of(x, map_of(p.mean[row], p.rstd[row])), dgamma);
        dbeta += dy;
    }
    part[0][deep][lane] = dgamma;
    part[1][deep][lane] = dbeta;
    __syncthreads();
    if (deep > 1 || c >= p.n_cols) return;
    float s = 0;
    for (int k = 0; k < 8; k++) s += part[deep][k][lane];
    p.partial[(blockIdx.y * 2 + deep) * (int64_t)p.n_cols + c] = s;
}

__global__ void __launch_bounds__(THREADS)
    backward_any_sums(const backward_params p, int n_partials)
{
    add_partials(p, n_partials);
}

/* ---- choice ---- */

/* At most one block a multiprocessor, and no more than finish in the fewest turns: all teams end
 * together, and none is left to take a last row alone. */
struct grid_plan {
    int      turns; /* rows the busiest team takes */
    unsigned n_blocks;

    grid_plan(int64_t n_rows, int teams_a_block)
    {
        const int64_t most = n_multiprocessors() * (int64_t)teams_a_block;
        turns = (int)((n_rows + most - 1) / most);
        const int64_t teams = (n_rows + turns - 1) / turns;
        n_blocks = (unsigned)((teams + teams_a_block - 1) / teams_a_block);
    }
};

template <class T, int TEAM> void launch_rows(backward_params p, cudaStream_t s)
{
    const auto kernel =
        p.n_cols == TEAM * COLUMNS ? backward_rows<T, TEAM, true> : backward_rows<T, TEAM, false>;
    const int       n_bytes = (int)sizeof(ring<T>);
    const grid_plan plan(p.n_rows, THREADS / TEAM);
    void           *args[] = { &p };
    p.turns = plan.turns;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
    /* All blocks at once, since they wait for each other before the partials are added. */
    cudaLaunchCooperativeKernel(kernel, plan.n_blocks, THREADS, args, n_bytes, s);
}

template <class T> void launch_any(const backward_params &p, cudaStream_t s)
{
    const int64_t  groups = (p.n_rows + 63) / 64;
    const int      splits = groups < ANY_SPLITS ? (int)groups : ANY_SPLITS;
    const int64_t  blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
    const unsigned columns = (unsigned)((p.n_cols + 31) / 32);
    if (p.n_rows) {
        backward_any_dx<T><<<(unsigned)blocks, 256, 0, s>>>(p);
        backward_any_columns<T><<<dim3(columns, splits), 256, 0, s>>>(p);
    }
    backward_any_sums<<<2 * columns, THREADS, 0, s>>>(p, splits);
}

template <class T> void launch(const backward_params &p, cudaStream_t s)
{
    const int  n = p.n_cols, E = lanes<T>::n;
    const bool vectors = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) && aligned16(p.dy) &&
                         aligned16(p.dx) && aligned16(p.gamma);
    if (!vectors || n > THREADS * COLUMNS || p.n_rows == 0 || p.n_rows > INT32_MAX)
        launch_any<T>(p, s);
    else if (n <= 32 * COLUMNS) launch_rows<T, 32>(p, s);
    else if (n <= 64 * COLUMNS) launch_rows<T, 64>(p, s);
    else if (n <= 128 * COLUMNS) launch_rows<T, 128>(p, s);
    else if (n <= 256 * COLUMNS) launch_rows<T, 256>(p, s);
    else launch_rows<T, 512>(p, s);
}

} // namespace

extern "C" TS_API ts_status ts_layernorm_backward_sm90_workspace(const void *args, const ts_exec *x,
                                                                 size_t *n_bytes)
{
    const ts_layernorm_backward_args *a = (const ts_layernorm_backward_args *)args;
    const int                         most = n_multiprocessors();
    (void)x;
    *n_bytes =
        (size_t)(most > ANY_SPLITS ? most : ANY_SPLITS) * 2 * (size_t)a->n_cols * sizeof(float);
    return TS_OK;
}

extern "C" TS_API ts_status ts_layernorm_backward_sm90(const void *args, const ts_exec *x)
{
    const ts_layernorm_backward_args *a = (const ts_layernorm_backward_args *)args;
    const cudaStream_t                s = (cudaStream_t)x->stream;
    if (a->n_cols > INT32_MAX / 2) return TS_E_UNSUPPORTED;
    const backward_params p = {
        .n_rows = a->n_rows,
        .row_stride = a->row_stride,
        .n_cols = (int)a->n_cols,
        .turns = 0,
        .one_over_n = 1.0f / (float)a->n_cols,
        .x = a->x,
        .dy = a->dy,
        .gamma = a->gamma,
        .mean = (const float *)a->mean,
        .rstd = (const float *)a->rstd,
        .dx = a->dx,
        .dgamma = (float *)a->dgamma,
        .dbeta = (float *)a->dbeta,
        .accumulate = a->accumulate,
        .partial = (float *)x->workspace,
    };
    if (a->dtype == TS_F32) launch<float>(p, s);
    else if (a->dtype == TS_BF16) launch<__nv_bfloat16>(p, s);
    else launch<__half>(p, s);
    return launched();
}
