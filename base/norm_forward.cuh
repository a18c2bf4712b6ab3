/* SPDX-License-Identifier: Apache-2.0 */
/* norm_forward.cuh - forward pass of layer norm (CENTRED) and of RMS norm: the kernels, and which
 * of them takes a call. norm_row.cuh has the arithmetic.
 *
 * The input is read once, y and r are written once. A team of threads processes one row; if a row
 * is too long for a block, a cluster of blocks does. A row in packed registers leaves room for many
 * teams on a multiprocessor, and while some of them reduce, others keep the memory busy. */
#ifndef TS_BASE_NORM_FORWARD_CUH
#define TS_BASE_NORM_FORWARD_CUH

#include "norm_row.cuh"
#include "row_ring.cuh"

namespace
{

/* Threads that must find room on a multiprocessor, each then having 64 registers, or 80. */
template <int V> constexpr int resident = V < 5 ? 1024 : 768;

/* Vectors of a row above which clusters take it, and columns of their threads. */
enum { MOST_VECTORS = 2048, CLUSTER_VECTORS = 4, WIDE_COLUMNS = 16 };

/* Whether the clusters of long rows stay, with the next rows fetched ahead. Centred 16-bit rows
 * take less time to read than the exchange does, and were slower so. */
template <bool CENTRED, class T> constexpr bool stays = !CENTRED || sizeof(T) == 4;

/* A row per team, V vectors of it per thread, of which the last may be missing. */
template <bool CENTRED, class T, int TEAM, int V, bool SHIFTED>
__global__ void __launch_bounds__(threads_of<TEAM>, resident<V> / threads_of<TEAM>)
    forward_rows(const __grid_constant__ forward_params p)
{
    constexpr int    TEAMS = threads_of<TEAM> / TEAM, E = lanes<T>::n;
    __shared__ float slots[2 * threads_of<TEAM> / 32 * 2];
    const int        t = threadIdx.x % TEAM;
    int64_t          row = blockIdx.x * (int64_t)TEAMS + threadIdx.x / TEAM;
    const bool       live = row < p.n_rows;
    if (TEAM >= 32 && !live) return; /* a whole team, for which no other waits */
    if (!live) row = 0;
    const int64_t begin = row * p.row_stride;
    const int     lead = lead_of<T, SHIFTED>(p.x, begin);
    /* Teams of less than a warp may lack a row, and then every vector of it. */
    constexpr int                          SURE = SHIFTED || TEAM < 32 ? 0 : V - 1;
    const row_vectors<T, V, SURE, SHIFTED> mine(p.n_cols, lead, 0, live ? TEAM * V : 0, t, TEAM);
    const int64_t                          at = begin + t * E - lead;
    over_team<TEAM>                        over(slots);
    uint4                                  raw[V];
    fetch_row<CENTRED, T>(p, row, at, mine, raw);
    normalise<CENTRED, T>(p, row, at, mine, over, raw, t == 0, live);
}

/* ---- long rows: a cluster of blocks each ---- */

/* A cluster per row, as a team is. */
template <bool CENTRED, class T, bool SHIFTED>
__global__ void __launch_bounds__(512, 2) forward_cluster(const __grid_constant__ forward_params p)
{
    constexpr int            E = lanes<T>::n, V = CLUSTER_VECTORS;
    __shared__ cluster_slots slots;
    const row_cluster        cluster(&slots);
    over_cluster             over(cluster, &slots);
    const int                t = (int)threadIdx.x, rank = cluster.rank;
    const int64_t            row = blockIdx.x / cluster.n_ranks, begin = row * p.row_stride;
    const int                lead = lead_of<T, SHIFTED>(p.x, begin);
    const row_vectors<T, V, 0, SHIFTED> mine(p.n_cols, lead, rank * p.pitch, (rank + 1) * p.pitch,
                                             t, (int)blockDim.x);
    const int64_t                       at = begin + (rank * p.pitch + t) * (int64_t)E - lead;
    uint4                               raw[V];
    fetch_row<CENTRED, T>(p, row, at, mine, raw);
    cluster.begin_end();
    normalise<CENTRED, T>(p, row, at, mine, over, raw, t == 0 && rank == 0, true);
}

/* What the warps of a cluster tell each other about row i. */
template <bool CENTRED> struct row_statistics;

/* Every warp has its own first mean m, of n elements, and sums of d and d^2. ref is the first
 * warp's m; what the row's mean is above it, and the sum of squares around the mean, follow without
 * cancellation. */
template <> struct row_statistics<true> {
    float ref, rest, squares;

    __device__ __forceinline__ row_statistics(const row_cluster &cluster, int i, float one_over_n)
    {
        const float(*of)[RANKS * CLUSTER_WARPS] = cluster.s->value[i % SETS];
        const int n = cluster.n_ranks * cluster.n_warps, lane = threadIdx.x % 32;
        float     sum = 0;
        squares = 0;
        cluster.await(i);
        ref = of[3][0];
        for (int k = lane; k < n; k += 32) sum += fmaf(of[1][k], of[3][k] - ref, of[0][k]);
        rest = butterfly<add, 32>(sum) * one_over_n;
        for (int k = lane; k < n; k += 32) {
            const float off = rest - (of[3][k] - ref); /* the mean above this m */
            squares += fmaf(off, fmaf(of[1][k], off, -2.0f * of[0][k]), of[2][k]);
        }
        squares = butterfly<add, 32>(squares);
    }

    /* Eight lanes each send the sum of d, n, the sum of d^2, m. */
    template <class T, class OWN>
    static __device__ __forceinline__ void send(const row_cluster &cluster, int i, const OWN &mine,
                                                const uint4 (&raw)[OWN::N], float n,
                                                float one_over_n)
    {
        const float m = butterfly<add, 32>(plain_sum<T>(raw, 1.0f)) * one_over_n;
        const int   which = threadIdx.x % 32 / 8;
        const float s = half_warp_sum(deviations<T>(mine, raw, 1.0f, m));
        cluster.send_to(threadIdx.x % 8, i, which, 4, which == 1 ? n : which == 3 ? m : s);
    }

    __device__ __forceinline__ row_map map(const forward_params &p, float *mean, float *rstd) const
    {
        return finish(ref, rest, fmaxf(squares * p.one_over_n, 0.0f), p, mean, rstd);
    }
};

template <> struct row_statistics<false> {
    float squares;

    __device__ __forceinline__ row_statistics(const row_cluster &cluster, int i, float)
    {
        squares = cluster.receive<add>(i);
    }

    template <class T, class OWN>
    static __device__ __forceinline__ void send(const row_cluster &cluster, int i, const OWN &,
                                                const uint4 (&raw)[OWN::N], float, float)
    {
        cluster.send<add>(i, squares_of<T>(raw, 1.0f));
    }

    __device__ __forceinline__ row_map map(const forward_params &p, float *mean, float *rstd) const
    {
        return finish<false>({ 0.0f, { 0.0f, squares } }, p, mean, rstd);
    }
};

/* Clusters that stay, with the next rows fetched ahead. The statistics of row k are sent, then
 * those of row k + 1 are formed, and y of row k is written from the ring when all blocks' have
 * arrived. */
template <bool CENTRED, class T, bool SHIFTED>
__global__ void __launch_bounds__(512, 1) forward_wide(const __grid_constant__ forward_params p)
{
    constexpr int            E = lanes<T>::n, V = WIDE_COLUMNS / E;
    extern __shared__ uint4  memory[];
    __shared__ cluster_slots slots[2]; /* the second for rows out of range */
    const row_cluster        cluster(slots, 2);
    over_cluster             rare(cluster, slots + 1);
    const bool               fused = !CENTRED && p.residual;
    const int64_t            n_clusters = gridDim.x / cluster.n_ranks;
    const int64_t            first = blockIdx.x / cluster.n_ranks, step = n_clusters * p.row_stride;
    int64_t                  at = first * p.row_stride;
    const int                lead = lead_of<T, SHIFTED>(p.x, at), pitch = p.pitch;
    const int begin = cluster.rank * pitch, apart = (int)blockDim.x, t = (int)threadIdx.x;
    const row_vectors<T, V, 0, SHIFTED> mine(p.n_cols, lead, begin, begin + pitch, t, apart);
    const void *const                   from[3] = { p.x, fused ? p.residual : p.x, nullptr };
    const int                           stage_size = (fused ? 2 : 1) * pitch;
    uint4 *const                        corner = memory + t;
    const int  n_rows = (int)((p.n_rows - first + n_clusters - 1) / n_clusters);
    const auto fetch = [&](int stage, int64_t where, bool any) {
        if (fused) stage_row<2, T>(corner + stage * stage_size, pitch, mine, from, where, any);
        else stage_row<1, T>(corner + stage * stage_size, pitch, mine, from, where, any);
    };
    const auto r_of = [&](int stage, int v) {
        const uint4 *row = corner + stage * stage_size + v * apart;
        return fused ? sum_of<T>(row[0], row[pitch]) : row[0];
    };

    at += (begin + t) * (int64_t)E - lead;
    int64_t next = at;
    for (int s = 0; s < p.n_stages; s++, next += step) fetch(s, next, s < n_rows);
    float gain[V][E], beta[V][E], n = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        if (!mine.has(v)) continue;
        mine.load_columns((const T *)p.gamma, v, gain[v]);
        if constexpr (CENTRED) mine.load_columns((const T *)p.beta, v, beta[v]);
#pragma unroll
        for (int e = 0; e < E; e++)
            if constexpr (CENTRED) n += mine.has(v, e) ? 1.0f : 0.0f;
            else gain[v][e] += p.offset, beta[v][e] = 0;
    }
    if constexpr (CENTRED) n = butterfly<add, 32>(n);
    const float one_over_n = n > 0 ? 1.0f / n : 0.0f;
    int         stage = 0;
    int64_t     r_at = at;
    cluster.begin_end();

    for (int k = 0; k <= n_rows; k++) {
        if (k < n_rows) {
            uint4 raw[V];
            await_all_but(p.n_stages - 2);
#pragma unroll
            for (int v = 0; v < V; v++) {
                raw[v] = make_uint4(0, 0, 0, 0);
                if (!mine.has(v)) continue;
                raw[v] = mine.cut(v, r_of(stage, v));
                if (fused) mine.template store<false>((T *)p.r + r_at + v * apart * E, v, raw[v]);
            }
            r_at += step;
            row_statistics<CENTRED>::template send<T>(cluster, k, mine, raw, n, one_over_n);
        }
        if (k > 0) {
            const int     old = stage == 0 ? p.n_stages - 1 : stage - 1;
            const int64_t row = first + (k - 1) * n_clusters;
            const bool    head = t == 0 && cluster.rank == 0;

            const row_statistics<CENTRED> of(cluster, k - 1, p.one_over_n);
            if (in_range<CENTRED>(of.squares, p.eps)) {
                float         mean, rstd;
                const row_map map = of.map(p, &mean, &rstd);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    float x[E];
                    if (!mine.has(v)) continue;
                    unpack_as<T>(r_of(old, v), x);
#pragma unroll
                    for (int e = 0; e < E; e++)
                        x[e] = y_of<CENTRED>(x[e], gain[v][e], beta[v][e], map);
                    mine.template store<false>((T *)p.y + at + v * apart * E, v, pack_as<T>(x));
                }
                if (head) keep_statistics<CENTRED>(p, row, mean, rstd);
            } else { /* in all blocks of the cluster: they have the same bits */
                scaled_row<CENTRED, T>(p, row, at, mine, rare, head, true);
                rare.i += CENTRED ? 3 : 2; /* its reductions */
            }
            at += step;
            fetch(old, next, k - 1 + p.n_stages < n_rows);
            next += step;
        }
        stage = stage + 1 == p.n_stages ? 0 : stage + 1;
    }
    await_all_but<0>();
}

/* ---- any alignment, any length: the row is read again for each step, from the caches ---- */

/* A thread meets the same columns every time, so that it reads what it wrote itself. */
template <bool CENTRED, class T>
__global__ void __launch_bounds__(256) forward_any(const forward_params p)
{
    constexpr int    TEAM = 256;
    __shared__ float slots[2 * TEAM / 32 * 2];
    int              set = 0;
    for (int64_t row = blockIdx.x; row < p.n_rows; row += gridDim.x) {
        const int64_t begin = row * p.row_stride;
        const T      *x = (const T *)p.x + begin, *residual = (const T *)p.residual + begin;
        const T      *gamma = (const T *)p.gamma, *beta = (const T *)p.beta;
        T            *r = (T *)p.r + begin, *y = (T *)p.y + begin;
        float         h = 1.0f, mean, rstd;
        row_sums      sum = { 0.0f, { 0.0f, 0.0f } };
        row_map       map;
        for (int i = threadIdx.x; !CENTRED && p.residual && i < p.n_cols; i += TEAM)
            from_float(r + i, to_float(x[i]) + to_float(residual[i]));
        for (;;) {
            float s = 0, largest = 0;
            if constexpr (CENTRED) {
                for (int i = threadIdx.x; i < p.n_cols; i += TEAM) s = fmaf(to_float(r[i]), h, s);
                sum.m = team_reduce<add, TEAM>(s, slots, &set) * p.one_over_n;
            }
            sum.d = make_float2(0, 0);
            for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
                const float d = fmaf(to_float(r[i]), h, -sum.m);
                sum.d.x += d, sum.d.y = fmaf(d, d, sum.d.y);
            }
            if constexpr (CENTRED) sum.d = team_sums<TEAM>(sum.d, slots, &set);
            else sum.d.y = team_reduce<add, TEAM>(sum.d.y, slots, &set);
            if (h != 1.0f || in_range<CENTRED>(sum.d.y, p.eps)) break;
            for (int i = threadIdx.x; i < p.n_cols; i += TEAM)
                largest = fmaxf(largest, magnitude(to_float(r[i])));
            h = scale_for(team_reduce<larger, TEAM>(largest, slots, &set));
            if (h == 1.0f) break;
        }
        if (in_range<CENTRED>(sum.d.y, p.eps) && h == 1.0f)
            map = finish<CENTRED>(sum, p, &mean, &rstd);
        else map = finish_scaled<CENTRED>(h, sum, p, &mean, &rstd);
        for (int i = threadIdx.x; i < p.n_cols; i += TEAM) {
            const float g = to_float(gamma[i]), gain = CENTRED ? g : g + p.offset;
            from_float(y + i, y_of<CENTRED>(to_float(r[i]), gain,
                                            CENTRED ? to_float(beta[i]) : 0.0f, map));
        }
        if (threadIdx.x == 0) keep_statistics<CENTRED>(p, row, mean, rstd);
    }
}

/* ---- choice ---- */

template <bool CENTRED, class T> void launch_any(const forward_params &p, cudaStream_t s)
{
    const int64_t blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
    forward_any<CENTRED, T><<<(unsigned)blocks, 256, 0, s>>>(p);
}

template <bool CENTRED, class T, int TEAM, int V, bool SHIFTED>
void launch_fit(const forward_params &p, cudaStream_t s)
{
    constexpr int TEAMS = threads_of<TEAM> / TEAM;
    forward_rows<CENTRED, T, TEAM, V, SHIFTED>
        <<<(unsigned)((p.n_rows + TEAMS - 1) / TEAMS), threads_of<TEAM>, 0, s>>>(p);
}

template <bool CENTRED, class T, int TEAM, bool SHIFTED>
void launch_rows(const forward_params &p, int n_vec, cudaStream_t s)
{
    if constexpr (TEAM < 512) {
        if (n_vec > TEAM * fit_most<TEAM>)
            return launch_rows<CENTRED, T, TEAM * 2, SHIFTED>(p, n_vec, s);
    }
    constexpr int MOST = fit_most<TEAM>;
    if constexpr (SHIFTED) launch_fit<CENTRED, T, TEAM, MOST, true>(p, s);
    else if (n_vec <= TEAM * 3) launch_fit<CENTRED, T, TEAM, 3, false>(p, s);
    else if (n_vec <= TEAM * 4) launch_fit<CENTRED, T, TEAM, 4, false>(p, s);
    else launch_fit<CENTRED, T, TEAM, MOST, false>(p, s);
}

template <bool CENTRED, class T>
constexpr int wide_vectors = stays<CENTRED, T> ? WIDE_COLUMNS / lanes<T>::n : CLUSTER_VECTORS;

template <bool CENTRED, class T, bool SHIFTED>
void launch_wide(forward_params p, int n_vec, cudaStream_t s)
{
    const wide_plan wide(n_vec, wide_vectors<CENTRED, T>);
    p.pitch = wide.pitch;
    if constexpr (!stays<CENTRED, T>) {
        const cluster_launch how((unsigned)(p.n_rows * wide.n_ranks), wide.n_threads, 0,
                                 wide.n_ranks, false, s);
        cudaLaunchKernelEx(&how.config, forward_cluster<CENTRED, T, SHIFTED>, p);
    } else {
        const auto kernel = forward_wide<CENTRED, T, SHIFTED>;
        const int  stage_bytes = (p.residual ? 2 : 1) * wide.pitch * 16;
        p.n_stages = stages_for(stage_bytes, 2);
        const int n_bytes = p.n_stages * stage_bytes;
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
        cluster_launch  how(wide.n_ranks, wide.n_threads, n_bytes, wide.n_ranks, false, s);
        const grid_plan plan(p.n_rows, most_clusters(kernel, how), 1, row_unit<T>(p.row_stride));
        if (!plan.fits) return launch_any<CENTRED, T>(p, s);
        how.config.gridDim.x = (unsigned)(plan.n_blocks * wide.n_ranks);
        cudaLaunchKernelEx(&how.config, kernel, p);
    }
}

template <bool CENTRED, class T> void launch(const forward_params &p, cudaStream_t s)
{
    const int  n = p.n_cols, E = lanes<T>::n;
    const bool aligned = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) &&
                         aligned16(p.gamma) && (!CENTRED || aligned16(p.beta));
    const bool alike = same_place16(p.x, p.y) &&
                       (!p.residual || (same_place16(p.x, p.residual) && same_place16(p.x, p.r)));
    const int n_vec = aligned ? n / E : (int)((n + 2LL * E - 2) / E);
    if (!alike || n_vec > RANKS * 512 * wide_vectors<CENTRED, T> ||
        p.n_rows > (CENTRED ? INT32_MAX / RANKS : INT32_MAX))
        launch_any<CENTRED, T>(p, s);
    else if (n_vec > MOST_VECTORS) {
        if (aligned) launch_wide<CENTRED, T, false>(p, n_vec, s);
        else launch_wide<CENTRED, T, true>(p, n_vec, s);
    } else if (aligned) launch_rows<CENTRED, T, 4, false>(p, n_vec, s);
    else launch_rows<CENTRED, T, 4, true>(p, n_vec, s);
}

template <bool CENTRED> ts_status norm_forward(ts_dtype t, const forward_params &p, cudaStream_t s)
{
    if (p.n_rows == 0) return TS_OK;
    if (t == TS_F32) launch<CENTRED, float>(p, s);
    else if (t == TS_BF16) launch<CENTRED, __nv_bfloat16>(p, s);
    else launch<CENTRED, __half>(p, s);
    return launched();
}

} // namespace

#endif
