/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_tree.cuh - attention of drafted tokens over the tokens of their own call: the branches
 * of a tree.
 *
 * A warp takes a row and one of its heads, and adds the row and its ancestors, a few at a time, to
 * the row's result over the cached keys. Rows are converted as though they had been stored. */
#ifndef TS_KV_CACHE_TREE_CUH
#define TS_KV_CACHE_TREE_CUH

#include "kv_cache_attend.cuh"

namespace tree
{

/* MOST_SUMS: rows, times heads, of a round; at 128 channels they are 8.6 MB. */
enum { MOST_SUMS = 1 << 14, MOST_NEWS = 1024, WARPS = 4, THREADS = 32 * WARPS };
enum { MOST_D = 256, PIECES = MOST_D / 32, AT_ONCE = 4 };

/* ---- the parents of rows, as parameters of launches ---- */

struct news {
    int     n;
    int32_t up[MOST_NEWS], position[MOST_NEWS];
};

static __global__ void __launch_bounds__(MOST_NEWS)
    write_news(const __grid_constant__ news w, int32_t *up, int32_t *position)
{
    const int i = (int)threadIdx.x;
    if (i < w.n) up[i] = w.up[i], position[i] = w.position[i];
}

/* For each row of the call the row that it follows, or -1, and its position. Returns how many rows
 * follow one another at most. */
static int send(const ts_kv_part *part, int64_t n_part, const ts_kv_tree *tree, int32_t *up,
                int32_t *position, cudaStream_t stream)
{
    news    w = {};
    int64_t sent = 0, deep = 0;
    for (int64_t i = 0; i < n_part; i++)
        for (int64_t j = 0; j < part[i].n; j++) {
            const int64_t parent = tree->parent[part[i].first + j];
            const int64_t above = parent < 0 ? -1 : part[i].first + parent;
            const int64_t p = parent < 0     ? part[i].len
                              : above < sent ? ts_kv_position(tree, part + i, j)
                                             : w.position[above - sent] + 1;
            deep = p - part[i].len + 1 > deep ? p - part[i].len + 1 : deep;
            w.up[w.n] = (int32_t)above;
            w.position[w.n++] = (int32_t)p;
            if (w.n < MOST_NEWS && (i + 1 < n_part || j + 1 < part[i].n)) continue;
            write_news<<<1, MOST_NEWS, 0, stream>>>(w, up + sent, position + sent);
            sent += w.n;
            w.n = 0;
        }
    return (int)deep;
}

/* ---- rounds ---- */

/* Rows first .. first + n_rows of the call, by the parts, or parts of parts, that they are. */
struct round {
    int64_t    first, n_rows, n_part;
    int64_t    i, done; /* the part that comes next, and rows of it that came before */
    ts_kv_part part[MOST_PARTS];

    bool next(const ts_kv_part *all, int64_t n_all, int64_t most)
    {
        first += n_rows;
        n_rows = n_part = 0;
        while (i < n_all && n_rows < most && n_part < MOST_PARTS) {
            const int64_t left = all[i].n - done, n = left < most - n_rows ? left : most - n_rows;
            part[n_part++] = { all[i].len, n, n_rows, all[i].seq };
            n_rows += n;
            done += n;
            if (done == all[i].n) i++, done = 0;
        }
        return n_rows > 0;
    }
};

/* ---- rows as though they had been stored ---- */

/* Element lane + 32 i of a row of head_dim. */
typedef float row[PIECES];

static __device__ __forceinline__ float rounded(ts_dtype t, float x)
{
    if (t == TS_F16) return __half2float(__float2half_rn(x));
    return t == TS_BF16 ? __bfloat162float(__float2bfloat16_rn(x)) : x;
}

/* Coded in groups, and read back. */
static __device__ __forceinline__ void pass_codes(const ts_kv_layout &l, row &x, int group)
{
    const int D = (int)l.head_dim;
#pragma unroll 1
    for (int from = 0; from < D; from += group) {
        const auto is_in = [&](int i) {
            const int d = lane() + 32 * i;
            return d >= from && d < min(D, from + group);
        };
        extremes e;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (is_in(i)) e.meet(x[i]);
        e.of_warp();
        const float2 m = pair_of(l, e);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            if (is_in(i)) x[i] = decoded((float)code_of(x[i], m, top_code(l)), m);
    }
}

template <class IO>
static __device__ __forceinline__ void load_row(row &x, const void *from, int64_t at, int D)
{
    const IO *p = (const IO *)from + at * D + lane();
#pragma unroll
    for (int i = 0; i < PIECES; i++) x[i] = lane() + 32 * i < D ? to_float(p[32 * i]) : 0.0f;
}

/* group: elements that are coded together; 0: it is kept as it is. */
template <bool CODES>
static __device__ __forceinline__ void as_stored(row &x, const ts_kv_layout &l, int group)
{
    if constexpr (CODES) {
        if (group) pass_codes(l, x, group);
    } else {
#pragma unroll
        for (int i = 0; i < PIECES; i++) x[i] = rounded(l.store_dtype, x[i]);
    }
}

/* ---- the kernel ---- */

struct call {
    ts_kv_layout   l;
    int            first, n_rows; /* of the round */
    int            window, n_sink;
    float          scale; /* of the scores, with log2(e) */
    const void    *q, *k, *v;
    void          *out;
    float         *lse;
    const float   *sums;          /* of the round, [n_rows][n_q_head][partial_pitch] */
    const int32_t *up, *position; /* [rows of the call] */
};

static __device__ __forceinline__ float sum_of_warp(float x)
{
#pragma unroll
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}

/* What a warp has of a row and head. */
struct branch {
    float m = -INFINITY, l = 0;
    row   o = {};

    /* Returns what weights relative to `top` are to be multiplied by. */
    __device__ __forceinline__ float meet(float top)
    {
        const float next = fmaxf(m, top), keep = weight_of(m, next);
        m = next;
        l *= keep;
#pragma unroll
        for (int i = 0; i < PIECES; i++) o[i] *= keep;
        return weight_of(top, next);
    }
    /* v: of weights that come to `sum`. */
    __device__ __forceinline__ void add(float w, float sum, const row &v)
    {
        l = fmaf(w, sum, l);
#pragma unroll
        for (int i = 0; i < PIECES; i++) o[i] = fmaf(w, v[i], o[i]);
    }
};

/* Rows that are not seen are never read; their places have the row itself, without a weight. */
template <class IO, bool CODES>
__global__ void __launch_bounds__(THREADS) finish_rows(const __grid_constant__ call c)
{
    const ts_kv_layout &l = c.l;
    const int           H = (int)l.n_q_head, KV = (int)l.n_kv_head, D = (int)l.head_dim;
    const int64_t       at = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (at >= (int64_t)c.n_rows * H) return;
    const int   i = c.first + (int)(at / H), h = (int)(at % H), head = h / (H / KV);
    const int   position = c.position[i];
    const sight see = { position, position, position + 1, c.window, c.n_sink };
    const int   key_group = l.key_axis == TS_KEY_CHANNEL ? 0 : (int)min(l.key_group, l.head_dim);
    row         q, x[AT_ONCE];
    branch      own;
    load_row<IO>(q, c.q, (int64_t)i * H + h, D);
    int p = position; /* of `up`, as long as there is one; then that of the last cached token */
    for (int up = i; up >= 0;) {
        int   who[AT_ONCE];
        bool  seen[AT_ONCE];
        float s[AT_ONCE], top = -INFINITY;
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            seen[j] = up >= 0 && see.one(position, p);
            who[j] = seen[j] ? up : i;
            if (up >= 0) up = c.up[up], p--;
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) load_row<IO>(x[j], c.k, (int64_t)who[j] * KV + head, D);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            as_stored<CODES>(x[j], l, key_group);
            s[j] = 0;
#pragma unroll
            for (int k = 0; k < PIECES; k++) s[j] = fmaf(q[k], x[j][k], s[j]);
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            s[j] = sum_of_warp(s[j]) * c.scale;
            if (!seen[j]) s[j] = -INFINITY;
            top = fmaxf(top, s[j]);
        }
        own.meet(top);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) load_row<IO>(x[j], c.v, (int64_t)who[j] * KV + head, D);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            as_stored<CODES>(x[j], l, D);
            if (s[j] != -INFINITY) own.add(exp2_of(s[j] - own.m), 1, x[j]);
        }
    }
    if (p >= 0) { /* there are cached tokens */
        const float *sum = c.sums + at * partial_pitch(D);
        const float  w = own.meet(sum[0]);
        load_row<float>(x[0], sum + 4, 0, D);
        own.add(w, sum[1], x[0]);
    }
    const int64_t to = (int64_t)i * H + h;
#pragma unroll
    for (int k = 0; k < PIECES; k++)
        if (lane() + 32 * k < D)
            store_io(l.io_dtype, c.out, to * D + lane() + 32 * k, own.o[k] / own.l);
    if (lane() == 0 && c.lse) c.lse[to] = lse_of(own.m, own.l);
}

template <class IO> static void launch(const call &c, cudaStream_t stream)
{
    const unsigned n = (unsigned)(((int64_t)c.n_rows * c.l.n_q_head + WARPS - 1) / WARPS);
    if (is_code(c.l.store_dtype)) finish_rows<IO, true><<<n, THREADS, 0, stream>>>(c);
    else finish_rows<IO, false><<<n, THREADS, 0, stream>>>(c);
}

static ts_status finish(const call &c, cudaStream_t stream)
{
    if (c.l.io_dtype == TS_F32) launch<float>(c, stream);
    else if (c.l.io_dtype == TS_F16) launch<__half>(c, stream);
    else launch<__nv_bfloat16>(c, stream);
    return launched();
}

} // namespace tree

#endif
