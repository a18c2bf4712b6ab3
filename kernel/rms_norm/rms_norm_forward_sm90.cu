/* SPDX-License-Identifier: Apache-2.0 */
/* rms_norm_forward_sm90.cu - RMS norm forward: x and the residual are read once, r and y written
 * once.
 *
 * A team of threads processes one row; if a row is too long for a block, a cluster of blocks does.
 * Every thread has a few 16-byte vectors of r in registers, in their storage format, so that the
 * rounded values are those squared. A row whose squares leave the range of float is computed again,
 * scaled by a power of two. */
#include "row_ring.cuh"
#include "touchstone/rms_norm.h"

namespace
{

/* Threads that must find room on a multiprocessor, each then having 64 registers, or 80. */
template <int V> constexpr int resident = V < 5 ? 1024 : 768;

/* Vectors of a row above which clusters take it, and columns of their threads. */
enum { MOST_VECTORS = 2048, WIDE_COLUMNS = 16 };

struct forward_params {
    int64_t n_rows, row_stride;
    int     n_cols;
    int     pitch, n_stages; /* where a cluster has the row: vectors of a block; rows in its ring */
    float   one_over_n, offset;
    double  eps;
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

template <class T, class OWN>
__device__ __forceinline__ void write_row(const forward_params &p, int64_t at, const OWN &mine,
                                          const uint4 (&raw)[OWN::N], row_map map)
{
    constexpr int E = OWN::E;
#pragma unroll
    for (int v = 0; v < OWN::N; v++)
        if (mine.has(v)) {
            float r[E], gain[E];
            unpack_as<T>(raw[v], r);
            mine.load_columns((const T *)p.w, v, gain);
#pragma unroll
            for (int e = 0; e < E; e++) r[e] = r[e] * map.h * map.scaled * (gain[e] + p.offset);
            mine.template store<false>((T *)p.y + at + v * mine.apart * E, v, pack_as<T>(r));
        }
}

/* A row out of range, from r as it is stored. Not inlined: it would cost every row its registers.
 */
template <class T, class OWN, class OVER>
__device__ __noinline__ void scaled_row(const forward_params &p, int64_t row, int64_t at, OWN mine,
                                        OVER over, bool first, bool write)
{
    float rstd, largest = 0;
    uint4 raw[OWN::N];
    mine.load((const T *)p.r + at, raw, row + 1 == p.n_rows);
#pragma unroll
    for (int v = 0; v < OWN::N; v++) {
        float r[OWN::E];
        raw[v] = mine.cut(v, raw[v]);
        unpack_as<T>(raw[v], r);
#pragma unroll
        for (int e = 0; e < OWN::E; e++) largest = fmaxf(largest, magnitude(r[e]));
    }
    const float   h = scale_for(over.template reduce<larger>(largest));
    const float   squares = over.template reduce<add>(squares_of<T>(raw, h));
    const row_map map = finish_scaled(h, squares, p, &rstd);
    if (!write) return;
    write_row<T>(p, at, mine, raw, map);
    if (first) p.rstd[row] = rstd;
}

/* x + residual, rounded to the dtype. */
template <class T> __device__ __forceinline__ uint4 sum_of(uint4 x, uint4 residual)
{
    float a[lanes<T>::n], b[lanes<T>::n];
    unpack_as<T>(x, a);
    unpack_as<T>(residual, b);
#pragma unroll
    for (int e = 0; e < lanes<T>::n; e++) a[e] += b[e];
    return pack_as<T>(a);
}

/* x, to which the residual is added; r is stored then. */
template <class T, class OWN>
__device__ __forceinline__ void fetch_sum(const forward_params &p, int64_t row, int64_t at,
                                          const OWN &mine, uint4 (&raw)[OWN::N])
{
    const bool last = row + 1 == p.n_rows;
    mine.load((const T *)p.x + at, raw, last);
    if (p.residual) {
        uint4 more[OWN::N];
        mine.load((const T *)p.residual + at, more, last);
#pragma unroll
        for (int v = 0; v < OWN::N; v++) {
            raw[v] = sum_of<T>(raw[v], more[v]);
            if (mine.has(v))
                mine.template store<false>((T *)p.r + at + v * mine.apart * OWN::E, v, raw[v]);
        }
    }
#pragma unroll
    for (int v = 0; v < OWN::N; v++) raw[v] = mine.cut(v, raw[v]);
    keep_packed(raw);
}

/* Normalises a row; `at` is the offset of the thread's first element. A thread without a row has no
 * vectors, and takes part in reductions only. */
template <class T, class OWN, class OVER>
__device__ __forceinline__ void normalise(const forward_params &p, int64_t row, int64_t at,
                                          const OWN &mine, OVER &over, uint4 (&raw)[OWN::N],
                                          bool first, bool live)
{
    float       rstd;
    const float squares = over.template reduce<add>(squares_of<T>(raw, 1.0f));
    keep_packed(raw);
    const bool out = !in_range(squares, p.eps);
    if (OVER::any(out)) {
        scaled_row<T>(p, row, at, mine, over, first, out && live);
        if (out) return;
    }
    write_row<T>(p, at, mine, raw, finish(squares, p, &rstd));
    if (first && live) p.rstd[row] = rstd;
}

/* A row per team, V vectors of it per thread, of which the last may be missing. */
template <class T, int TEAM, int V, bool SHIFTED>
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
    fetch_sum<T>(p, row, at, mine, raw);
    normalise<T>(p, row, at, mine, over, raw, t == 0, live);
}

/* ---- long rows: clusters of blocks that stay ---- */

/* A row per cluster at a time, fetched ahead. The squares of row k are sent, then those of row k +
 * 1 are formed, and y of row k is written from the ring when all blocks' have arrived. */
template <class T, bool SHIFTED>
__global__ void __launch_bounds__(512, 1) forward_wide(const __grid_constant__ forward_params p)
{
    constexpr int            E = lanes<T>::n, V = WIDE_COLUMNS / E;
    extern __shared__ uint4  memory[];
    __shared__ cluster_slots slots[2]; /* the second for rows out of range */
    const row_cluster        cluster(slots, 2);
    over_cluster             rare(cluster, slots + 1);
    const int64_t            n_clusters = gridDim.x / cluster.n_ranks;
    const int64_t            first = blockIdx.x / cluster.n_ranks, step = n_clusters * p.row_stride;
    int64_t                  at = first * p.row_stride;
    const int                lead = lead_of<T, SHIFTED>(p.x, at), pitch = p.pitch;
    const int begin = cluster.rank * pitch, apart = (int)blockDim.x, t = (int)threadIdx.x;
    const row_vectors<T, V, 0, SHIFTED> mine(p.n_cols, lead, begin, begin + pitch, t, apart);
    const void *const                   from[3] = { p.x, p.residual ? p.residual : p.x, nullptr };
    const int                           stage_size = (p.residual ? 2 : 1) * pitch;
    uint4 *const                        corner = memory + t;
    const int  n_rows = (int)((p.n_rows - first + n_clusters - 1) / n_clusters);
    const auto fetch = [&](int stage, int64_t where, bool any) {
        if (p.residual) stage_row<2, T>(corner + stage * stage_size, pitch, mine, from, where, any);
        else stage_row<1, T>(corner + stage * stage_size, pitch, mine, from, where, any);
    };
    const auto r_of = [&](int stage, int v) {
        const uint4 *row = corner + stage * stage_size + v * apart;
        return p.residual ? sum_of<T>(row[0], row[pitch]) : row[0];
    };

    at += (begin + t) * (int64_t)E - lead;
    int64_t next = at;
    for (int s = 0; s < p.n_stages; s++, next += step) fetch(s, next, s < n_rows);
    float gain[V][E];
#pragma unroll
    for (int v = 0; v < V; v++) {
        if (!mine.has(v)) continue;
        mine.load_columns((const T *)p.w, v, gain[v]);
#pragma unroll
        for (int e = 0; e < E; e++) gain[v][e] += p.offset;
    }
    int     stage = 0;
    int64_t r_at = at;
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
                if (p.residual)
                    mine.template store<false>((T *)p.r + r_at + v * apart * E, v, raw[v]);
            }
            r_at += step;
            cluster.send<add>(k, squares_of<T>(raw, 1.0f));
        }
        if (k > 0) {
            const int     old = stage == 0 ? p.n_stages - 1 : stage - 1;
            const int64_t row = first + (k - 1) * n_clusters;
            const bool    head = t == 0 && cluster.rank == 0;
            const float   squares = cluster.receive<add>(k - 1);
            if (in_range(squares, p.eps)) {
                float         rstd;
                const row_map map = finish(squares, p, &rstd);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    float r[E];
                    if (!mine.has(v)) continue;
                    unpack_as<T>(r_of(old, v), r);
#pragma unroll
                    for (int e = 0; e < E; e++) r[e] = r[e] * map.scaled * gain[v][e];
                    mine.template store<false>((T *)p.y + at + v * apart * E, v, pack_as<T>(r));
                }
                if (head) p.rstd[row] = rstd;
            } else { /* in all blocks of the cluster: they have the same bits */
                scaled_row<T>(p, row, at, mine, rare, head, true);
                rare.i += 2;
            }
            at += step;
            fetch(old, next, k - 1 + p.n_stages < n_rows);
            next += step;
        }
        stage = stage + 1 == p.n_stages ? 0 : stage + 1;
    }
    await_all_but<0>();
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

template <class T> void launch_any(const forward_params &p, cudaStream_t s)
{
    const int64_t blocks = p.n_rows < 1 << 20 ? p.n_rows : 1 << 20;
    forward_any<T><<<(unsigned)blocks, 256, 0, s>>>(p);
}

template <class T, int TEAM, int V, bool SHIFTED>
void launch_fit(const forward_params &p, cudaStream_t s)
{
    constexpr int TEAMS = threads_of<TEAM> / TEAM;
    forward_rows<T, TEAM, V, SHIFTED>
        <<<(unsigned)((p.n_rows + TEAMS - 1) / TEAMS), threads_of<TEAM>, 0, s>>>(p);
}

template <class T, int TEAM, bool SHIFTED>
void launch_rows(const forward_params &p, int n_vec, cudaStream_t s)
{
    if constexpr (TEAM < 512) {
        if (n_vec > TEAM * fit_most<TEAM>) return launch_rows<T, TEAM * 2, SHIFTED>(p, n_vec, s);
    }
    constexpr int MOST = fit_most<TEAM>;
    if constexpr (SHIFTED) launch_fit<T, TEAM, MOST, true>(p, s);
    else if (n_vec <= TEAM * 3) launch_fit<T, TEAM, 3, false>(p, s);
    else if (n_vec <= TEAM * 4) launch_fit<T, TEAM, 4, false>(p, s);
    else launch_fit<T, TEAM, MOST, false>(p, s);
}

template <class T, bool SHIFTED> void launch_wide(forward_params p, int n_vec, cudaStream_t s)
{
    const auto      kernel = forward_wide<T, SHIFTED>;
    const wide_plan wide(n_vec, WIDE_COLUMNS / lanes<T>::n);
    const int       stage_bytes = (p.residual ? 2 : 1) * wide.pitch * 16;
    p.pitch = wide.pitch;
    p.n_stages = stages_for(stage_bytes, 2);
    const int n_bytes = p.n_stages * stage_bytes;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
    cluster_launch  how(wide.n_ranks, wide.n_threads, n_bytes, wide.n_ranks, false, s);
    const grid_plan plan(p.n_rows, most_clusters(kernel, how), 1, row_unit<T>(p.row_stride));
    if (!plan.fits) return launch_any<T>(p, s);
    how.config.gridDim.x = (unsigned)(plan.n_blocks * wide.n_ranks);
    cudaLaunchKernelEx(&how.config, kernel, p);
}

template <class T> void launch(const forward_params &p, cudaStream_t s)
{
    const int  n = p.n_cols, E = lanes<T>::n;
    const bool aligned = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) && aligned16(p.w);
    const bool alike = same_place16(p.x, p.y) &&
                       (!p.residual || (same_place16(p.x, p.residual) && same_place16(p.x, p.r)));
    const int n_vec = aligned ? n / E : (int)((n + 2LL * E - 2) / E);
    if (!alike || n_vec > RANKS * 512 * (WIDE_COLUMNS / E) || p.n_rows > INT32_MAX)
        launch_any<T>(p, s);
    else if (n_vec > MOST_VECTORS) {
        if (aligned) launch_wide<T, false>(p, n_vec, s);
        else launch_wide<T, true>(p, n_vec, s);
    } else if (aligned) launch_rows<T, 4, false>(p, n_vec, s);
    else launch_rows<T, 4, true>(p, n_vec, s);
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
        .pitch = 0,
        .n_stages = 0,
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
