/* SPDX-License-Identifier: Apache-2.0 */
/* attention_forward_split.cu - flash attention of floats on tensor cores, by split products
 * (attention_split.cuh).
 *
 * A warp has 16 or 32 rows (queries) of a head, scores and sums in registers. Values load while
 * scores are computed, the next keys while weights are. Tiles run from the last key to the first,
 * so that those which need a mask come first. Each tile's part of o begins at 0 and is added to the
 * sums in float: they are rounded once a tile, to the nearest. */
#include <float.h>

#include "attention_rows.cuh"
#include "attention_split.cuh"

namespace
{

struct split_call {
    const float   *q, *k, *v;
    const int32_t *kv_len;
    float         *o, *lse;
    visible_keys   see;
    strides        of_q, of_k;
    row_order      order;
    int            n_q, n_head, group, head_dim; /* n_head: of a batch; group: that share keys */
    float          by, scale; /* scores are times `by`, if it is not 1; scale > 0, for exp2 */
    double         natural;   /* of a score that is scaled so, to one of exp */
};

/* D: head_dim, at most; M: times 16 rows of a warp; G: as in `weighted`. */
template <int D_, int M_, int G_, int KEYS_, int WARPS_, int BLOCKS_> struct split_shape {
    static constexpr int D = D_, M = M_, G = G_, WARPS = WARPS_, BLOCKS = BLOCKS_;
    static constexpr int THREADS = WARPS * 32, KEYS = KEYS_;
    static constexpr int WARP_ROWS = 16 * M, ROWS = WARPS * WARP_ROWS;
    static constexpr int Q_BYTES = ROWS * D * 4, KV_BYTES = KEYS * D * 4;
    static constexpr int SHARED_BYTES = Q_BYTES + 2 * KV_BYTES;
};

/* What a warp has of its rows. */
template <class S> struct split_warp {
    static constexpr int M = S::M, G = S::G, D = S::D, N = S::KEYS / 8, GROUPS = D / (8 * G);

    const split_call &c;
    int               row, n_keys; /* the warp's first */
    row_sums          r[M];
    float             keep[M][2], s[M][N * 4], o[M][D / 2];

    __device__ __forceinline__ split_warp(const split_call &c_, int row_, int n_keys_)
        : c(c_), row(row_), n_keys(n_keys_)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < D / 2; i++) o[m][i] = 0;
    }
    /* Does any of the rows see a key of this tile? */
    __device__ __forceinline__ bool sees(int from) const
    {
        return row < c.n_q && from + S::KEYS > c.see.begin(row) &&
               from < c.see.end(min(row + S::WARP_ROWS, c.n_q) - 1, n_keys);
    }
    __device__ __forceinline__ void find_scores(unsigned q, unsigned k)
    {
        split_sum sum[M][N];
        add_dots<D, M, N>(sum, q, k, (c.head_dim + 15) / 16);
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < N * 4; i++) s[m][i] = sum[m][i / 4].of(i % 4);
    }
    __device__ __forceinline__ void find_weights(int from)
    {
        const int  lane = (int)threadIdx.x % 32, last = row + S::WARP_ROWS - 1;
        const bool hidden = from + S::KEYS > c.see.end(row, n_keys) || from < c.see.begin(last);
#pragma unroll
        for (int m = 0; m < M; m++) {
            if (c.by != 1)
#pragma unroll
                for (int i = 0; i < N * 4; i++) s[m][i] *= c.by;
            if (hidden)
                hide_unseen(s[m], c.see, n_keys, row + m * 16 + lane / 4, from + lane % 4 * 2);
            weigh<float>(s[m], &r[m], keep[m], c.scale);
        }
    }
    __device__ __forceinline__ void add_values(unsigned v)
    {
        const weighted<D, M, N, G> p(s, v);
#pragma unroll
        for (int n = 0; n < GROUPS; n++) {
            if (n * 8 * G >= c.head_dim) break;
            split_sum sum[M][G];
            p.find(sum, n);
#pragma unroll
            for (int m = 0; m < M; m++)
#pragma unroll
                for (int i = 0; i < 4 * G; i++) {
                    float &to = o[m][n * 4 * G + i];
                    to = fmaf(to, keep[m][i % 4 / 2], sum[m][i / 4].of(i % 4));
                }
        }
    }
    __device__ __forceinline__ void finish(void)
    {
        const int lane = (int)threadIdx.x % 32;
        int       at, block;
        c.order.find((int)blockIdx.x, &at, &block); /* not kept over the tiles */
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float sum = whole_sum(r[m], h), by = sum == 0 ? 0.0f : 1.0f / sum;
                const int   own = row + m * 16 + lane / 4 + 8 * h;
                if (own >= c.n_q) continue;
                store_columns<GROUPS, G>(c.o + c.of_q.at(at / c.n_head, at % c.n_head, own), 0,
                                         c.head_dim, o[m], h, by);
                if (c.lse && lane % 4 == 0)
                    c.lse[(int64_t)at * c.n_q + own] =
                        sum == 0 ? -INFINITY : (float)(r[m].base[h] * c.natural + log((double)sum));
            }
    }
};

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    forward_split(const __grid_constant__ split_call c)
{
    extern __shared__ uint4 memory[];
    const unsigned          q_at = shared_address(memory), k_at = q_at + S::Q_BYTES;
    const unsigned          v_at = k_at + S::KV_BYTES;
    int                     at, block;
    c.order.find((int)blockIdx.x, &at, &block);
    const int        batch = at / c.n_head, head = at % c.n_head, row = block * S::ROWS;
    const int        warp_row = (int)threadIdx.x / 32 * S::WARP_ROWS;
    const int        n_keys = c.see.length(c.kv_len, batch);
    const int64_t    kv = c.of_k.at(batch, head / c.group, 0);
    const float_rows q = { c.q + c.of_q.at(batch, head, 0), c.of_q.row, c.n_q, c.head_dim };
    const float_rows k = { c.k + kv, c.of_k.row, n_keys, c.head_dim };
    const float_rows v = { c.v + kv, c.of_k.row, n_keys, c.head_dim };
    const int        first_tile = c.see.begin(row) / S::KEYS;
    const int end_tile = (c.see.end(min(row + S::ROWS, c.n_q) - 1, n_keys) + S::KEYS - 1) / S::KEYS;
    const unsigned q_lane = along_rows<S::D>(q_at + (unsigned)(warp_row * S::D * 4));
    const unsigned k_lane = along_rows<S::D>(k_at);
    split_warp<S>  w(c, row + warp_row, n_keys);

    q.template bring<S::D, S::ROWS, S::THREADS>(q_at, row);
    if (first_tile < end_tile)
        k.template bring<S::D, S::KEYS, S::THREADS>(k_at, (end_tile - 1) * S::KEYS);
#pragma unroll 1
    for (int tile = end_tile - 1; tile >= first_tile; tile--) {
        const bool seen = w.sees(tile * S::KEYS);
        copies_wait();
        __syncthreads(); /* the keys have come, and all have read the values before */
        v.template bring<S::D, S::KEYS, S::THREADS>(v_at, tile * S::KEYS);
        if (seen) w.find_scores(q_lane, k_lane);
        copies_wait();
        __syncthreads(); /* the values have come, and all have read the keys */
        if (tile > first_tile)
            k.template bring<S::D, S::KEYS, S::THREADS>(k_at, (tile - 1) * S::KEYS);
        if (seen) {
            w.find_weights(tile * S::KEYS);
            w.add_values(v_at);
        }
    }
    copies_wait();
    w.finish();
}

template <class S> ts_status launch(const ts_flash_attention_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const int64_t    n_head = d.n_batch * d.n_q_head, n_block = (d.n_q + S::ROWS - 1) / S::ROWS;
    const double     scale = fabs(d.scale) * LOG2_E;
    const bool       none = scale < FLT_MIN; /* or as good as */
    const float      scale2 = none ? 1.0f : (float)fmin(scale, (double)FLT_MAX);
    const split_call c = {
        .q = (const float *)a->q,
        .k = (const float *)a->k,
        .v = (const float *)a->v,
        .kv_len = a->kv_len,
        .o = (float *)a->o,
        .lse = (float *)a->lse,
        .see = visible_keys(d),
        .of_q = strides(d, d.n_q_head, d.n_q),
        .of_k = strides(d, d.n_kv_head, d.n_k),
        .order = row_order(d, n_block),
        .n_q = (int)d.n_q,
        .n_head = (int)d.n_q_head,
        .group = (int)(d.n_q_head / d.n_kv_head),
        .head_dim = (int)d.head_dim,
        .by = none          ? 0.0f
              : d.scale < 0 ? -1.0f
                            : 1.0f,
        .scale = scale2,
        .natural = none ? 0.0 : fabs(d.scale) / scale2,
    };
    if (n_head > INT_MAX / n_block) return TS_E_UNSUPPORTED;
    if (cudaFuncSetAttribute(forward_split<S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::SHARED_BYTES) != cudaSuccess) {
        cudaGetLastError(); /* too little of it */
        return TS_E_UNSUPPORTED;
    }
    forward_split<S>
        <<<(unsigned)(n_head * n_block), S::THREADS, S::SHARED_BYTES, (cudaStream_t)x->stream>>>(c);
    return launched();
}

} // namespace

ts_status ts_flash_attention_split(const ts_flash_attention_args *a, const ts_exec *x)
{
    const int64_t D = a->d.head_dim;
    if (D % 4 || !is_aligned(a->q) || !is_aligned(a->k) || !is_aligned(a->v) || !is_aligned(a->o))
        return TS_E_UNSUPPORTED;
    if (D <= 64) return launch<split_shape<64, 2, 4, 32, 4, 2>>(a, x);
    if (D <= 128) return launch<split_shape<128, 2, 2, 32, 4, 2>>(a, x);
    return launch<split_shape<256, 1, 4, 32, 8, 1>>(a, x);
}
