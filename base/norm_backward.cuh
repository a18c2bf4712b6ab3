/* SPDX-License-Identifier: Apache-2.0 */
/* norm_backward.cuh - backward pass of layer norm, and of RMS norm as the case with mean 0, no
 * dbeta and a gradient dr to add.
 *
 * One block per multiprocessor, divided into teams; each team takes every n_teams-th row. A thread
 * owns 16 columns of its team's rows: it copies them into its own corner of shared memory a few
 * rows ahead and keeps gamma and its columns' shares of dgamma and dbeta in registers throughout. A
 * row costs one barrier of its team, for the averages. Rows above 8192 columns are shared by the
 * blocks of a cluster, whose sums arrive while the next row is summed. At the end a block's teams
 * are added up in order, and once all blocks are done they add up each other's sums, each for some
 * of the columns. Which row goes where depends only on the shape and the device, so the bits never
 * change.
 *
 * Rows that do not begin at 16-byte boundaries (SHIFTED) are taken in the aligned vectors that
 * cover them. All rows of a team begin at the same place within 16 bytes, since the number of teams
 * is chosen so; a thread thus has the same columns of all of them. */
#ifndef TS_BASE_NORM_BACKWARD_CUH
#define TS_BASE_NORM_BACKWARD_CUH

#include "norm_sums.cuh"
#include "row_ring.cuh"

namespace
{

/* Rows of a team, and of a cluster, up to which one block or cluster takes all; groups of rows of
 * the general path. */
enum { FEW_TURNS = 3, FEW_WIDE_TURNS = 2, ANY_SPLITS = 128 };

/* (x - mean) * rstd without overflow on the way: rows of tiny rstd are scaled down first. */
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

/* From the sums of g and of g * xhat: dx = rstd * (g - avg(g) - xhat * avg(g * xhat)) + dr. */
template <bool CENTRED> struct slope {
    float rstd, c1, c2;

    __device__ __forceinline__ slope(float rstd, float2 sum, float one_over_n) : rstd(rstd)
    {
        c1 = CENTRED ? rstd * (sum.x * one_over_n) : 0.0f;
        c2 = CENTRED ? rstd * (sum.y * one_over_n) : sum.y * one_over_n;
    }
    __device__ __forceinline__ float dx(float g, float xhat, float dr) const
    {
        if constexpr (CENTRED) return fmaf(xhat, -c2, fmaf(g, rstd, -c1));
        else return fmaf(rstd, fmaf(xhat, -c2, g), dr);
    }
};

/* ---- what a row adds ---- */

template <class T, class OWN>
__device__ __forceinline__ void load_gamma(const norm_params &p, const OWN &mine,
                                           float (&gamma)[COLUMNS])
{
    constexpr int E = OWN::E;
#pragma unroll
    for (int v = 0; v < OWN::N; v++) {
        float g[E] = { 0 };
        if (mine.has(v)) mine.load_columns((const T *)p.gamma, v, g);
#pragma unroll
        for (int e = 0; e < E; e++) gamma[v * E + e] = mine.has(v, e) ? g[e] + p.offset : 0.0f;
    }
}

/* Vector v in shared memory: adds to the sums over the row and over the columns. MASKED: some of
 * its elements are outside of the row. */
template <bool CENTRED, class T, bool MASKED, class OWN>
__device__ __forceinline__ void sum_vector(const OWN &mine, int v, const uint4 *row, int pitch,
                                           row_map map, const float *gamma, float *xhat, float *g,
                                           float *dgamma, float *dbeta, float2 *sum)
{
    constexpr int E = OWN::E;
    float         x[E], dy[E];
    float2        part = make_float2(0, 0); /* short chains of additions */
    unpack_as<T>(mine.shared(row, v, pitch), x);
    unpack_as<T>(mine.shared(row + pitch, v, pitch), dy);
#pragma unroll
    for (int e = 0; e < E; e++) {
        const bool  in = !MASKED || mine.has(v, e);
        const float d = in ? dy[e] : 0.0f;
        xhat[e] = in ? xhat_of(x[e], map) : 0.0f;
        g[e] = gamma[e] * d;
        part.y = fmaf(g[e], xhat[e], part.y);
        dgamma[e] = fmaf(d, xhat[e], dgamma[e]);
        if constexpr (CENTRED) part.x += g[e], dbeta[e] += d;
    }
    sum->x += part.x, sum->y += part.y;
}

/* All of the thread's vectors. xhat and g: of COLUMNS elements, or nullptr. */
template <bool CENTRED, class T, class OWN>
__device__ __forceinline__ float2 sum_row(const OWN &mine, const uint4 *row, int pitch, row_map map,
                                          const float (&gamma)[COLUMNS], float (&dgamma)[COLUMNS],
                                          float (&dbeta)[COLUMNS], float *xhat, float *g)
{
    constexpr int E = OWN::E;
    float2        sum = make_float2(0, 0);
#pragma unroll
    for (int v = 0; v < OWN::N; v++) {
        float  own_xhat[E], own_g[E];
        float *to_xhat = xhat ? xhat + v * E : own_xhat, *to_g = g ? g + v * E : own_g;
        if (!mine.has(v)) continue;
        if (mine.whole(v))
            sum_vector<CENTRED, T, false>(mine, v, row, pitch, map, gamma + v * E, to_xhat, to_g,
                                          dgamma + v * E, dbeta + v * E, &sum);
        else
            sum_vector<CENTRED, T, true>(mine, v, row, pitch, map, gamma + v * E, to_xhat, to_g,
                                         dgamma + v * E, dbeta + v * E, &sum);
    }
    return sum;
}

/* ---- rows of at most 8192 columns ---- */

template <class T, bool CENTRED, int TEAM, bool SHIFTED>
__global__ void __launch_bounds__(THREADS, 1) backward_rows(const __grid_constant__ norm_params p)
{
    constexpr int           E = lanes<T>::n, V = COLUMNS / E, TEAMS = THREADS / TEAM;
    constexpr int           ARRAYS = CENTRED ? 2 : 3;
    extern __shared__ uint4 memory[];
    __shared__ float        slots[2 * THREADS / 32 * 2];
    __shared__ int          leads[SHIFTED ? TEAMS : 1];
    const int               t = threadIdx.x % TEAM, team = threadIdx.x / TEAM;
    const int64_t           first = blockIdx.x * TEAMS + team, n_teams = (int64_t)gridDim.x * TEAMS;
    const int64_t           step = n_teams * p.row_stride;
    int64_t                 at = first * p.row_stride;
    const int               lead = lead_of<T, SHIFTED>(p.x, at);
    const row_vectors<T, V, SHIFTED ? 0 : V / 2, SHIFTED, SHIFTED> mine(p.n_cols, lead, 0, TEAM * V,
                                                                        t, TEAM);
    const void *const                                              from[3] = { p.x, p.dy, p.dr };
    const int    pitch = (p.n_cols + E - 1) / E + SHIFTED; /* vectors of a row */
    const int    arrays = ARRAYS == 3 && p.dr ? 3 : 2, stage_size = TEAMS * arrays * pitch;
    uint4 *const corner = memory + team * arrays * pitch + t;
    int          n_rows = p.turns;
    while (n_rows > 0 && first + (n_rows - 1) * n_teams >= p.n_rows) n_rows--;
    if (SHIFTED && t == 0) leads[team] = lead;

    at += t * E - lead;
    int64_t   next = at;
    const int ahead = p.n_stages - 1;
    for (int s = 0; s < ahead; s++, next += step)
        stage_row<ARRAYS, T>(corner + s * stage_size, pitch, mine, from, next, s < n_rows);
    float gamma[COLUMNS], dgamma[COLUMNS] = { 0 }, dbeta[COLUMNS] = { 0 };
    load_gamma<T>(p, mine, gamma);

    const float *mean = p.mean + first, *rstds = p.rstd + first;
    float next_mean = CENTRED && n_rows ? __ldg(mean) : 0, next_rstd = n_rows ? __ldg(rstds) : 0;
    int   stage = 0, free_stage = ahead, set = 0;
    /* Teams with a row less go along: those of a warp reduce together, and a race checker counts
     * the barriers of a block. */
    for (int k = 0; k < p.turns; k++) {
        const bool    live = k < n_rows;
        const row_map map = map_of(next_mean, next_rstd);
        const float   rstd = next_rstd;
        if (k + 1 < n_rows) {
            if constexpr (CENTRED) next_mean = __ldg(mean += n_teams);
            next_rstd = __ldg(rstds += n_teams);
        }
        stage_row<ARRAYS, T>(corner + free_stage * stage_size, pitch, mine, from, next,
                             k + ahead < n_rows);
        next += step;
        await_all_but(ahead);

        const uint4 *row = corner + stage * stage_size;
        float        xhat[COLUMNS], g[COLUMNS];
        float2       sum = make_float2(0, 0);
        if (live) sum = sum_row<CENTRED, T>(mine, row, pitch, map, gamma, dgamma, dbeta, xhat, g);
        if constexpr (CENTRED) sum = team_sums<TEAM>(sum, slots, &set);
        else sum.y = team_reduce<add, TEAM>(sum.y, slots, &set);
        const slope<CENTRED> by(rstd, sum, p.one_over_n);
        if (live) {
#pragma unroll
            for (int v = 0; v < V; v++) {
                if (!mine.has(v)) continue;
                float dx[E], more[E] = { 0 };
                if (!CENTRED && p.dr) unpack_as<T>(mine.shared(row + 2 * pitch, v, pitch), more);
#pragma unroll
                for (int e = 0; e < E; e++) dx[e] = by.dx(g[v * E + e], xhat[v * E + e], more[e]);
                mine.template store<true>((T *)p.dx + at + v * TEAM * E, v, pack_as<T>(dx));
            }
        }
        at += step;
        free_stage = stage;
        stage = stage + 1 == p.n_stages ? 0 : stage + 1;
    }
    await_all_but<0>();
    write_sums<CENTRED, TEAM, E>(p, reinterpret_cast<float *>(memory), SHIFTED ? leads : nullptr,
                                 dgamma, dbeta);
    finish<CENTRED>(p, gridDim.x, reinterpret_cast<float *>(memory));
}

/* ---- rows above 8192 columns: a block per 8192, in a cluster ---- */

/* The sums of row k are sent, then row k + 1 is summed, and row k is finished from the ring when
 * its sums have arrived. dr is needed in the second half only: it is fetched into L2 ahead. */
template <class T, bool CENTRED, bool SHIFTED>
__global__ void __launch_bounds__(THREADS, 1) backward_wide(const __grid_constant__ norm_params p)
{
    constexpr int            E = lanes<T>::n, V = COLUMNS / E;
    extern __shared__ uint4  memory[];
    __shared__ cluster_slots slots;
    const row_cluster        cluster(&slots);
    const int64_t            n_clusters = gridDim.x / cluster.n_ranks;
    const int64_t            first = blockIdx.x / cluster.n_ranks, step = n_clusters * p.row_stride;
    int64_t                  at = first * p.row_stride;
    const int                lead = lead_of<T, SHIFTED>(p.x, at);
    const int                n_vec = (p.n_cols + (SHIFTED ? 2 * E - 2 : E - 1)) / E;
    const int pitch = (n_vec + cluster.n_ranks - 1) / cluster.n_ranks; /* vectors of a slice */
    const int begin = cluster.rank * pitch, apart = (int)blockDim.x, t = (int)threadIdx.x;
    const row_vectors<T, V, 0, SHIFTED> mine(p.n_cols, lead, begin, begin + pitch, t, apart);
    const void *const                   from[3] = { p.x, p.dy, nullptr };
    const int                           stage_size = 2 * pitch;
    uint4 *const                        corner = memory + t;
    const int n_rows = (int)((p.n_rows - first + n_clusters - 1) / n_clusters);

    at += (begin + t) * (int64_t)E - lead;
    int64_t next = at;
    for (int s = 0; s < p.n_stages; s++, next += step)
        stage_row<2, T>(corner + s * stage_size, pitch, mine, from, next, s < n_rows);
    float gamma[COLUMNS], dgamma[COLUMNS] = { 0 }, dbeta[COLUMNS] = { 0 };
    load_gamma<T>(p, mine, gamma);
    const float *mean = p.mean + first, *rstds = p.rstd + first;
    float   next_mean = CENTRED && n_rows ? __ldg(mean) : 0, next_rstd = n_rows ? __ldg(rstds) : 0;
    row_map before = map_of(0, 0);
    float   before_rstd = 0;
    int     stage = 0;
    cluster.begin_end();

    for (int k = 0; k <= n_rows; k++) {
        const row_map map = map_of(next_mean, next_rstd);
        const float   rstd = next_rstd;
        uint4         dr[V];
        if constexpr (!CENTRED) { /* of the row to finish */
            if (p.dr && k > 0)
                mine.load((const T *)p.dr + at, dr, first + (k - 1) * n_clusters + 1 == p.n_rows);
            if (p.dr && t == 0 && k + 2 < n_rows) {
                const int full = (p.n_cols + lead) / E - begin, n_bytes = min(full, pitch) * 16;
                const T  *row = (const T *)p.dr + at + (k > 0 ? 3 : 2) * step;
                asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(row),
                             "r"((unsigned)n_bytes)
                             : "memory");
            }
        }
        if (k < n_rows) {
            if (k + 1 < n_rows) {
                if constexpr (CENTRED) next_mean = __ldg(mean += n_clusters);
                next_rstd = __ldg(rstds += n_clusters);
            }
            await_all_but(p.n_stages - 2);
            const uint4 *row = corner + stage * stage_size;
            const float2 sum =
                sum_row<CENTRED, T>(mine, row, pitch, map, gamma, dgamma, dbeta, nullptr, nullptr);
            if constexpr (CENTRED) cluster.send_sums(k, sum);
            else cluster.send<add>(k, sum.y);
        }
        if (k > 0) {
            const int old = stage == 0 ? p.n_stages - 1 : stage - 1;
            uint4    *row = corner + old * stage_size;
            float2    sum = make_float2(0, 0);
            if constexpr (CENTRED) sum = cluster.receive_sums(k - 1);
            else sum.y = cluster.receive<add>(k - 1);
            const slope<CENTRED> by(before_rstd, sum, p.one_over_n);
#pragma unroll
            for (int v = 0; v < V; v++) {
                if (!mine.has(v)) continue;
                float x[E], dy[E], more[E] = { 0 };
                unpack_as<T>(row[v * apart], x);
                unpack_as<T>(row[pitch + v * apart], dy);
                if (!CENTRED && p.dr) unpack_as<T>(dr[v], more);
#pragma unroll
                for (int e = 0; e < E; e++)
                    x[e] = by.dx(gamma[v * E + e] * dy[e], xhat_of(x[e], before), more[e]);
                mine.template store<true>((T *)p.dx + at + v * apart * E, v, pack_as<T>(x));
            }
            at += step;
            stage_row<2, T>(row, pitch, mine, from, next, k - 1 + p.n_stages < n_rows);
            next += step;
        }
        before = map;
        before_rstd = rstd;
        stage = stage + 1 == p.n_stages ? 0 : stage + 1;
    }
    await_all_but<0>();
    write_wide_sums<CENTRED>(p, reinterpret_cast<float *>(memory), mine, begin * E - lead, pitch,
                             n_clusters == 1, first, dgamma, dbeta);
    if (n_clusters == 1) return;
    cooperative_groups::this_grid().sync();
    add_partials<CENTRED>(p, (int)n_clusters, reinterpret_cast<float *>(memory));
}

/* ---- any alignment, any length: x and dy are read again for the second half of a row, and once
 * more for the columns ---- */

template <class T, bool CENTRED>
__global__ void __launch_bounds__(256) backward_any_dx(const norm_params p)
{
    constexpr int    TEAM = 256;
    __shared__ float slots[2 * TEAM / 32 * 2];
    const T         *gamma = (const T *)p.gamma;
    int              set = 0;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const int64_t begin = row * p.row_stride;
        const T      *x = (const T *)p.x + begin, *dy = (const T *)p.dy + begin;
        const T      *dr = (const T *)p.dr + begin;
        T            *dx = (T *)p.dx + begin;
        const row_map k = map_of(CENTRED ? p.mean[row] : 0.0f, p.rstd[row]);
        float2        sum = make_float2(0, 0);
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            const float g = (to_float(gamma[i]) + p.offset) * to_float(dy[i]);
            sum.x += g, sum.y = fmaf(g, xhat_of(to_float(x[i]), k), sum.y);
        }
        const slope<CENTRED> by(p.rstd[row], team_sums<TEAM>(sum, slots, &set), p.one_over_n);
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            const float g = (to_float(gamma[i]) + p.offset) * to_float(dy[i]);
            const float more = !CENTRED && p.dr ? to_float(dr[i]) : 0.0f;
            from_float(dx + i, by.dx(g, xhat_of(to_float(x[i]), k), more));
        }
    }
}

/* 32 columns by 8 rows at a time; block y of the grid takes every gridDim.y-th group of 8 rows. */
template <class T, bool CENTRED>
__global__ void __launch_bounds__(256) backward_any_columns(const norm_params p)
{
    __shared__ float part[2][8][32];
    const int        lane = threadIdx.x % 32, deep = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
    float            dgamma = 0, dbeta = 0;
    for (int64_t row = blockIdx.y * 8 + deep; row < p.n_rows && c < p.n_cols;
         row += gridDim.y * 8) {
        const float   dy = to_float(((const T *)p.dy)[row * p.row_stride + c]);
        const float   x = to_float(((const T *)p.x)[row * p.row_stride + c]);
        const row_map k = map_of(CENTRED ? p.mean[row] : 0.0f, p.rstd[row]);
        dgamma = fmaf(dy, xhat_of(x, k), dgamma);
        dbeta += dy;
    }
    part[0][deep][lane] = dgamma;
    part[1][deep][lane] = dbeta;
    __syncthreads();
    if (deep > CENTRED || c >= p.n_cols) return;
    float s = 0;
    for (int k = 0; k < 8; k++) s += part[deep][k][lane];
    write_sum<CENTRED>(p, false, deep, c, blockIdx.y, s);
}

template <bool CENTRED>
__global__ void __launch_bounds__(THREADS) backward_any_sums(const norm_params p, int n_partials)
{
    __shared__ float part[PART_SIZE];
    add_partials<CENTRED>(p, n_partials, part);
}

/* ---- choice ---- */

template <class T, bool CENTRED> void launch_any(const norm_params &p, cudaStream_t s)
{
    const int64_t  groups = (p.n_rows + 63) / 64;
    const int      splits = groups < ANY_SPLITS ? (int)groups : (int)ANY_SPLITS;
    const int64_t  blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
    const unsigned columns = (unsigned)((p.n_cols + 31) / 32);
    if (p.n_rows) {
        backward_any_dx<T, CENTRED><<<(unsigned)blocks, 256, 0, s>>>(p);
        backward_any_columns<T, CENTRED><<<dim3(columns, splits), 256, 0, s>>>(p);
    }
    backward_any_sums<CENTRED><<<(CENTRED ? 2 : 1) * columns, THREADS, 0, s>>>(p, splits);
}

template <class T, bool CENTRED, int TEAM, bool SHIFTED>
void launch_rows(norm_params p, int n_vec, cudaStream_t s)
{
    constexpr int E = lanes<T>::n, TEAMS = THREADS / TEAM;
    constexpr int V = COLUMNS / E;
    if constexpr (TEAM < THREADS) {
        if (n_vec > TEAM * V) return launch_rows<T, CENTRED, TEAM * 2, SHIFTED>(p, n_vec, s);
    }
    const auto      kernel = backward_rows<T, CENTRED, TEAM, SHIFTED>;
    const int       unit = row_unit<T>(p.row_stride);
    const bool      few = p.n_rows <= FEW_TURNS * TEAMS && TEAMS % unit == 0;
    const grid_plan plan(p.n_rows, few ? 1 : n_multiprocessors(), TEAMS, unit);
    if (!plan.fits) return launch_any<T, CENTRED>(p, s);
    const int stage_bytes = TEAMS * (p.dr ? 3 : 2) * (n_vec + SHIFTED) * 16;
    const int least = team_sums_layout<CENTRED, TEAM, E>::BYTES;
    p.turns = plan.turns;
    p.n_stages = stages_for(stage_bytes, 1);
    const int n_bytes = p.n_stages * stage_bytes > least ? p.n_stages * stage_bytes : least;
    void     *args[] = { &p };
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
    if (plan.n_blocks == 1) kernel<<<1, THREADS, n_bytes, s>>>(p);
    else if (plan.n_blocks <= FEW_BLOCKS) {
        const cluster_launch how(plan.n_blocks, THREADS, n_bytes, plan.n_blocks, false, s);
        cudaLaunchKernelEx(&how.config, kernel, p);
    } else /* all blocks at once, since they wait for each other before the partials are added */
        cudaLaunchCooperativeKernel(kernel, plan.n_blocks, THREADS, args, n_bytes, s);
}

template <class T, bool CENTRED, bool SHIFTED>
void launch_wide(norm_params p, int n_vec, cudaStream_t s)
{
    const auto      kernel = backward_wide<T, CENTRED, SHIFTED>;
    const wide_plan wide(n_vec, COLUMNS / lanes<T>::n);
    const int       stage_bytes = 2 * wide.pitch * 16;
    p.n_stages = stages_for(stage_bytes, 2);
    const int n_bytes = p.n_stages * stage_bytes;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
    cluster_launch  how(wide.n_ranks, wide.n_threads, n_bytes, wide.n_ranks, true, s);
    const int       unit = row_unit<T>(p.row_stride);
    const bool      few = p.n_rows <= FEW_WIDE_TURNS && unit == 1;
    const grid_plan plan(p.n_rows, few ? 1 : most_clusters(kernel, how), 1, unit);
    if (!plan.fits) return launch_any<T, CENTRED>(p, s);
    p.turns = plan.turns;
    how.config.gridDim.x = (unsigned)(plan.n_blocks * wide.n_ranks);
    how.config.numAttrs = plan.n_blocks > 1 ? 2 : 1;
    cudaLaunchKernelEx(&how.config, kernel, p);
}

template <class T, bool CENTRED> void launch(const norm_params &p, cudaStream_t s)
{
    constexpr int E = lanes<T>::n, V = COLUMNS / E;
    const int     n = p.n_cols;
    const bool    alike =
        same_place16(p.x, p.dy) && same_place16(p.x, p.dx) && (!p.dr || same_place16(p.x, p.dr));
    const bool aligned = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) &&
                         aligned16(p.gamma) && n > 4 * COLUMNS / 2;
    const int n_vec = aligned ? n / E : (int)((n + 2LL * E - 2) / E), wrapped = (n + E - 1) / E;
    if (!alike || n_vec > RANKS * THREADS * V || p.n_rows == 0 || p.n_rows > INT32_MAX)
        launch_any<T, CENTRED>(p, s);
    else if (wrapped > THREADS * V) {
        if (aligned) launch_wide<T, CENTRED, false>(p, n_vec, s);
        else launch_wide<T, CENTRED, true>(p, n_vec, s);
    } else if (aligned) launch_rows<T, CENTRED, 4, false>(p, wrapped, s);
    else launch_rows<T, CENTRED, 4, true>(p, wrapped, s);
}

template <bool CENTRED>
ts_status norm_backward(ts_dtype dtype, const norm_params &p, cudaStream_t s)
{
    if (dtype == TS_F32) launch<float, CENTRED>(p, s);
    else if (dtype == TS_BF16) launch<__nv_bfloat16, CENTRED>(p, s);
    else launch<__half, CENTRED>(p, s);
    return launched();
}

/* Bytes of partial sums, at most. */
template <bool CENTRED> size_t norm_backward_workspace(int64_t n_cols)
{
    const int most = n_multiprocessors();
    return (size_t)(most > ANY_SPLITS ? most : ANY_SPLITS) * (CENTRED ? 2 : 1) * (size_t)n_cols *
           sizeof(float);
}

} // namespace

#endif
