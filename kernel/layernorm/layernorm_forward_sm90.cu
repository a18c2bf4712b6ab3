/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_forward_sm90.cu - layer norm forward with one read of x and one write of y.
 *
 * A team of threads processes one row; if a row is too long for a block, a cluster of blocks does.
 * Every thread has a few 16-byte vectors of the row in registers, in their storage format: that
 * leaves room for many teams on a multiprocessor, and while some of them reduce, others keep the
 * memory busy.
 *
 * Statistics are those of the corrected two-pass algorithm: a first mean, then the sums of d = x -
 * mean and of d^2, which give the rounding error of the mean and a variance without cancellation.
 * xhat is computed from d and that error, so it is correct to a few units at any offset. A row
 * whose squares leave the range of float is computed again, scaled by a power of two. */
#include "layernorm_sm90.cuh"
#include "row_ring.cuh"

namespace
{

/* Threads that must find room on a multiprocessor, each then having 64 registers, or 80. */
template <int V> constexpr int resident = V < 5 ? 1024 : 768;

/* Vectors of a row above which clusters take it, and columns of their threads. */
enum { MOST_VECTORS = 2048, CLUSTER_VECTORS = 4, WIDE_COLUMNS = 16 };

struct forward_params {
    int64_t n_rows, row_stride;
    int     n_cols;
    int     pitch, n_stages; /* where a cluster has the row: vectors of a block; rows in its ring */
    float   one_over_n;
    double  eps;
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

/* From the first mean, what it lacks, and the variance. */
__device__ __forceinline__ row_map finish(float m, float rest, float v, const forward_params &p,
                                          float *mean, float *rstd)
{
    *mean = m + rest;
    *rstd = one_over_sqrt(v + (float)p.eps);
    return { *rstd, -rest * *rstd };
}

/* The same from the sums of d and d^2. */
__device__ __forceinline__ row_map finish(float m, float2 sum, const forward_params &p, float *mean,
                                          float *rstd)
{
    const float rest = sum.x * p.one_over_n;
    return finish(m, rest, fmaxf(sum.y * p.one_over_n - rest * rest, 0.0f), p, mean, rstd);
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
template <class T, class OWN>
__device__ __forceinline__ float2 deviations(const OWN &mine, const uint4 (&raw)[OWN::N], float h,
                                             float m)
{
    constexpr int E = OWN::E;
    float2        sum = make_float2(0, 0);
#pragma unroll
    for (int v = 0; v < OWN::N; v++)
        if (mine.has(v)) {
            float x[E];
            widen_scaled<T>(raw[v], h, x);
#pragma unroll
            for (int e = 0; e < E; e++) x[e] -= m;
            if (!mine.whole(v)) {
#pragma unroll
                for (int e = 0; e < E; e++) x[e] = mine.has(v, e) ? x[e] : 0.0f;
            }
#pragma unroll
            for (int e = 0; e < E; e++) sum.x += x[e], sum.y = fmaf(x[e], x[e], sum.y);
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

template <class T, class OWN>
__device__ __forceinline__ void fetch_row(const forward_params &p, int64_t row, int64_t at,
                                          const OWN &mine, uint4 (&raw)[OWN::N])
{
    mine.load((const T *)p.x + at, raw, row + 1 == p.n_rows);
#pragma unroll
    for (int v = 0; v < OWN::N; v++) raw[v] = mine.cut(v, raw[v]);
}

template <class T, class OWN>
__device__ __forceinline__ void write_row(const forward_params &p, int64_t at, const OWN &mine,
                                          const uint4 (&raw)[OWN::N], float h, float m, row_map map)
{
    constexpr int E = OWN::E;
#pragma unroll
    for (int v = 0; v < OWN::N; v++)
        if (mine.has(v)) {
            float x[E], g[E], b[E];
            widen_scaled<T>(raw[v], h, x);
            mine.load_columns((const T *)p.gamma, v, g);
            mine.load_columns((const T *)p.beta, v, b);
#pragma unroll
            for (int e = 0; e < E; e++) x[e] = fmaf(g[e], fmaf(x[e] - m, map.r, map.rest), b[e]);
            mine.template store<false>((T *)p.y + at + v * mine.apart * E, v, pack_as<T>(x));
        }
}

/* A row out of range, from the start. Not inlined: it would cost every row its registers. */
template <class T, class OWN, class OVER>
__device__ __noinline__ void scaled_row(const forward_params &p, int64_t row, int64_t at, OWN mine,
                                        OVER over, bool first, bool write)
{
    float mean, rstd;
    uint4 raw[OWN::N];
    fetch_row<T>(p, row, at, mine, raw);
    const float   h = scale_for(over.template reduce<larger>(largest_of<T>(raw)));
    const float   m = over.template reduce<add>(plain_sum<T>(raw, h)) * p.one_over_n;
    const float2  sum = over.sums(deviations<T>(mine, raw, h, m));
    const row_map map = finish_scaled(h, m, sum, p, &mean, &rstd);
    if (!write) return;
    write_row<T>(p, at, mine, raw, h, m, map);
    if (first) p.mean[row] = mean, p.rstd[row] = rstd;
}

/* Normalises a row; `at` is the offset of the thread's first element. A thread without a row has no
 * vectors, and takes part in reductions only. */
template <class T, class OWN, class OVER>
__device__ __forceinline__ void normalise(const forward_params &p, int64_t row, int64_t at,
                                          const OWN &mine, OVER &over, uint4 (&raw)[OWN::N],
                                          bool first, bool live)
{
    float       mean, rstd;
    const float m = over.template reduce<add>(plain_sum<T>(raw, 1.0f)) * p.one_over_n;
    keep_packed(raw);
    const float2 sum = over.sums(deviations<T>(mine, raw, 1.0f, m));
    keep_packed(raw);
    const bool out = !in_range(sum.y, p.eps);
    if (OVER::any(out)) {
        scaled_row<T>(p, row, at, mine, over, first, out && live);
        if (out) return;
    }
    const row_map map = finish(m, sum, p, &mean, &rstd);
    write_row<T>(p, at, mine, raw, 1.0f, m, map);
    if (first && live) p.mean[row] = mean, p.rstd[row] = rstd;
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
    fetch_row<T>(p, row, at, mine, raw);
    normalise<T>(p, row, at, mine, over, raw, t == 0, live);
}

/* ---- long rows: a cluster of blocks each ---- */

/* 16-bit rows: a cluster per row, as a team is. */
template <class T, bool SHIFTED>
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
    fetch_row<T>(p, row, at, mine, raw);
    cluster.begin_end();
    normalise<T>(p, row, at, mine, over, raw, t == 0 && rank == 0, true);
}

/* Every warp has its own first mean m, of n elements, and sums of d and d^2. ref is the first
 * warp's m; what the row's mean is above it, and the sum of squares around the mean, follow without
 * cancellation. */
struct row_statistics {
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
};

/* Sends a warp's statistics, eight lanes each: sum of d, n, sum of d^2, m. */
__device__ __forceinline__ void send_statistics(const row_cluster &cluster, int i, float n, float m,
                                                float2 sum)
{
    const int   which = threadIdx.x % 32 / 8;
    const float s = half_warp_sum(sum);
    cluster.send_to(threadIdx.x % 8, i, which, 4, which == 1 ? n : which == 3 ? m : s);
}

/* f32 rows: clusters that stay, with the next rows fetched ahead. 16-bit rows take less time to
 * read than the exchange does, and were slower so. The statistics of row k are sent, then those of
 * row k
 * + 1 are formed, and y of row k is written from the ring when all blocks' have arrived. */
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
    const void *const                   from[3] = { p.x, nullptr, nullptr };
    uint4 *const                        corner = memory + t;
    const int n_rows = (int)((p.n_rows - first + n_clusters - 1) / n_clusters);

    at += (begin + t) * (int64_t)E - lead;
    int64_t next = at;
    for (int s = 0; s < p.n_stages; s++, next += step)
        stage_row<1, T>(corner + s * pitch, pitch, mine, from, next, s < n_rows);
    float gamma[V][E], beta[V][E], n = 0;
#pragma unroll
    for (int v = 0; v < V; v++) {
        if (!mine.has(v)) continue;
        mine.load_columns((const T *)p.gamma, v, gamma[v]);
        mine.load_columns((const T *)p.beta, v, beta[v]);
#pragma unroll
        for (int e = 0; e < E; e++) n += mine.has(v, e) ? 1.0f : 0.0f;
    }
    n = butterfly<add, 32>(n);
    const float one_over_n = n > 0 ? 1.0f / n : 0.0f;
    int         stage = 0;
    cluster.begin_end();

    for (int k = 0; k <= n_rows; k++) {
        if (k < n_rows) {
            uint4 raw[V];
            await_all_but(p.n_stages - 2);
#pragma unroll
            for (int v = 0; v < V; v++)
                raw[v] = mine.has(v) ? mine.cut(v, corner[stage * pitch + v * apart])
                                     : make_uint4(0, 0, 0, 0);
            const float m = butterfly<add, 32>(plain_sum<T>(raw, 1.0f)) * one_over_n;
            send_statistics(cluster, k, n, m, deviations<T>(mine, raw, 1.0f, m));
        }
        if (k > 0) {
            const int            old = stage == 0 ? p.n_stages - 1 : stage - 1;
            const int64_t        row = first + (k - 1) * n_clusters;
            const bool           head = t == 0 && cluster.rank == 0;
            const row_statistics of(cluster, k - 1, p.one_over_n);
            if (in_range(of.squares, p.eps)) {
                float         mean, rstd;
                const float   v = fmaxf(of.squares * p.one_over_n, 0.0f);
                const row_map map = finish(of.ref, of.rest, v, p, &mean, &rstd);
#pragma unroll
                for (int v = 0; v < V; v++) {
                    float x[E];
                    if (!mine.has(v)) continue;
                    unpack_as<T>(corner[old * pitch + v * apart], x);
#pragma unroll
                    for (int e = 0; e < E; e++)
                        x[e] = fmaf(gamma[v][e], fmaf(x[e] - of.ref, map.r, map.rest), beta[v][e]);
                    mine.template store<false>((T *)p.y + at + v * apart * E, v, pack_as<T>(x));
                }
                if (head) p.mean[row] = mean, p.rstd[row] = rstd;
            } else { /* in all blocks of the cluster: they have the same bits */
                scaled_row<T>(p, row, at, mine, rare, head, true);
                rare.i += 3;
            }
            at += step;
            stage_row<1, T>(corner + old * pitch, pitch, mine, from, next,
                            k - 1 + p.n_stages < n_rows);
            next += step;
        }
        stage = stage + 1 == p.n_stages ? 0 : stage + 1;
    }
    await_all_but<0>();
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
    constexpr bool  STAY = sizeof(T) == 4;
    const wide_plan wide(n_vec, STAY ? WIDE_COLUMNS / lanes<T>::n : (int)CLUSTER_VECTORS);
    p.pitch = wide.pitch;
    if constexpr (!STAY) {
        const cluster_launch how((unsigned)(p.n_rows * wide.n_ranks), wide.n_threads, 0,
                                 wide.n_ranks, false, s);
        cudaLaunchKernelEx(&how.config, forward_cluster<T, SHIFTED>, p);
    } else {
        const auto kernel = forward_wide<T, SHIFTED>;
        const int  stage_bytes = wide.pitch * 16;
        p.n_stages = stages_for(stage_bytes, 2);
        const int n_bytes = p.n_stages * stage_bytes;
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes);
        cluster_launch  how(wide.n_ranks, wide.n_threads, n_bytes, wide.n_ranks, false, s);
        const grid_plan plan(p.n_rows, most_clusters(kernel, how), 1, row_unit<T>(p.row_stride));
        if (!plan.fits) return launch_any<T>(p, s);
        how.config.gridDim.x = (unsigned)(plan.n_blocks * wide.n_ranks);
        cudaLaunchKernelEx(&how.config, kernel, p);
    }
}

template <class T> void launch(const forward_params &p, cudaStream_t s)
{
    const int  n = p.n_cols, E = lanes<T>::n;
    const bool aligned = n % E == 0 && p.row_stride % E == 0 && aligned16(p.x) &&
                         aligned16(p.gamma) && aligned16(p.beta);
    const int n_vec = aligned ? n / E : (int)((n + 2LL * E - 2) / E);
    if (!same_place16(p.x, p.y) || n_vec > RANKS * 512 * 4 || p.n_rows > INT32_MAX / RANKS)
        launch_any<T>(p, s);
    else if (n_vec > MOST_VECTORS) {
        if (aligned) launch_wide<T, false>(p, n_vec, s);
        else launch_wide<T, true>(p, n_vec, s);
    } else if (aligned) launch_rows<T, 4, false>(p, n_vec, s);
    else launch_rows<T, 4, true>(p, n_vec, s);
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
        .pitch = 0,
        .n_stages = 0,
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
