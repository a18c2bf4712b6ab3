/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_sm90a.cu - the passes before and after the main one, and the choice of a way.
 */
#include "attention_backward_sm90.cuh"

namespace
{

enum { SIDE_THREADS = 256, QUARTERS = 4 }; /* a block of these passes takes a quarter of a tile */

struct side_params {
    strides      of_q;
    int          n_q, n_q_head, n_tile;
    float        scale;
    const void  *o, *dout;
    const float *lse;
    void        *dq;
    float       *dq_sums, *stats; /* stats: [batch][query head][tile][lse, delta][row] */
    int         *turns, *ticket;
};

/* Eight columns of a row of queries. */
template <int D> struct side_place {
    int tile, row, piece; /* tile of all heads; row of the tile; columns 8 piece .. */

    __device__ __forceinline__ side_place(void)
        : tile((int)blockIdx.x / QUARTERS),
          row((int)blockIdx.x % QUARTERS * (HEIGHT<D> / QUARTERS) + (int)threadIdx.x / (D / 8)),
          piece((int)threadIdx.x % (D / 8))
    {
    }
    __device__ __forceinline__ int query(const side_params &p) const
    {
        return tile % p.n_tile * HEIGHT<D> + row;
    }
    __device__ __forceinline__ int64_t element(const side_params &p) const
    {
        const int head = tile / p.n_tile;
        return p.of_q.at(head / p.n_q_head, head % p.n_q_head, query(p)) + piece * 8;
    }
};

/* Number f of a tile's stats: the copy engine permutes pieces within rows of 128 bytes, and what is
 * permuted here the same way comes out in order. */
__device__ __forceinline__ int stat_at(int f)
{
    const int row = f / 32, piece = f % 32 / 4;
    return row * 32 + (piece ^ row % 8) * 4 + f % 4;
}

/* Row sums, lse in units of log 2, and zeros to add to. Rows past the last and those that see
 * nothing get an lse of +inf, hence weights of 0. */
template <class T, int D>
__global__ void __launch_bounds__(SIDE_THREADS) backward_begin(const side_params p)
{
    constexpr int       H = HEIGHT<D>;
    const side_place<D> me;
    const int           query = me.query(p);
    float               delta = 0, lse = INFINITY;
    if (query < p.n_q) {
        const int64_t at = me.element(p);
        float         o[8], dout[8];
        unpack_as<T>(*(const uint4 *)((const T *)p.o + at), o);
        unpack_as<T>(*(const uint4 *)((const T *)p.dout + at), dout);
#pragma unroll
        for (int i = 0; i < 8; i++) delta = fmaf(o[i], dout[i], delta);
        const float l = p.lse[(int64_t)(me.tile / p.n_tile) * p.n_q + query];
        if (l != -INFINITY) lse = l * (float)LOG2_E;
    }
#pragma unroll
    for (int by = D / 16; by; by >>= 1) delta += __shfl_xor_sync(0xffffffffu, delta, by);
    if (me.piece == 0) {
        float *stats = p.stats + (int64_t)me.tile * 2 * H;
        stats[stat_at(me.row)] = lse;
        stats[stat_at(H + me.row)] = delta;
        if (me.row == 0 && p.turns) p.turns[me.tile] = 0;
        if (me.row == 0 && p.turns && me.tile == 0) *p.ticket = 0;
    }
    float4 *sums = (float4 *)(p.dq_sums + ((int64_t)me.tile * H + me.row) * D + me.piece * 8);
    sums[0] = sums[1] = make_float4(0, 0, 0, 0);
}

template <class T, int D>
__global__ void __launch_bounds__(SIDE_THREADS) backward_end(const side_params p)
{
    const side_place<D> me;
    if (me.query(p) >= p.n_q) return;
    const int     half = D == 64 ? me.row / 64 : me.piece / 8;
    const float4 *sums = (const float4 *)(p.dq_sums + ((int64_t)me.tile * 2 + half) * PART_FLOATS +
                                          dq_piece(me.row % 64, me.piece % 8));
    const float4  a = sums[0], b = sums[1];
    const float   dq[8] = { a.x * p.scale, a.y * p.scale, a.z * p.scale, a.w * p.scale,
                            b.x * p.scale, b.y * p.scale, b.z * p.scale, b.w * p.scale };
    *(uint4 *)((T *)p.dq + me.element(p)) = pack_as<T>(dq);
}

/* ---- choice ---- */

struct plan {
    int64_t height, n_tile, n_tiles, n_block, n_blocks; /* of a head; of all */

    explicit plan(const ts_attention_dims &d) : height(d.head_dim == 64 ? HEIGHT<64> : HEIGHT<128>)
    {
        n_tile = (d.n_q + height - 1) / height;
        n_tiles = d.n_batch * d.n_q_head * n_tile;
        n_block = (d.n_k + KEYS - 1) / KEYS;
        n_blocks = d.n_batch * d.n_kv_head * n_block;
    }
    int64_t n_sums(void) const /* floats */
    {
        return n_tiles * 2 * PART_FLOATS;
    }
    int64_t n_stats(void) const
    {
        return n_tiles * 2 * height;
    }
    int64_t n_bytes(void) const
    {
        return (n_sums() + n_stats() + n_tiles + 1) * 4;
    }
};

/* Few queries would be mostly padding; the sums of many heads of such, more memory than it is
 * worth.
 */
bool is_fast(const ts_attention_dims &d)
{
    const plan n(d);
    return (d.dtype == TS_BF16 || d.dtype == TS_F16) && (d.head_dim == 64 || d.head_dim == 128) &&
           d.n_batch > 0 && d.n_q > 0 && d.n_k > 0 && d.n_q <= MOST_LENGTH &&
           d.n_k <= MOST_LENGTH && n.n_tiles <= INT_MAX / QUARTERS && n.n_blocks <= INT_MAX &&
           (d.n_q >= 32 || n.n_bytes() <= 4 << 20);
}

bool all_aligned(const ts_flash_attention_backward_args *a)
{
    return is_aligned(a->q) && is_aligned(a->k) && is_aligned(a->v) && is_aligned(a->o) &&
           is_aligned(a->dout) && is_aligned(a->dq) && is_aligned(a->dk) && is_aligned(a->dv);
}

/* Rows of 128 bytes, told as 64 elements of 16 bits. */
bool map_stats(CUtensorMap *map, const float *stats, const ts_attention_dims &d, const plan &n)
{
    const int64_t     rows = n.n_tile * n.height / 16, n_head = d.n_batch * d.n_q_head;
    const tensor_view t = { stats, 1, n_head, rows, 64, n_head * rows * 64, rows * 64, 64 };
    return make_map(map, t, d.dtype == TS_F16, (int)n.height / 16);
}

bool make_maps(tensor_maps *map, const ts_flash_attention_backward_args *a, const float *stats)
{
    const ts_attention_dims &d = a->d;
    const plan               n(d);
    const int                height = (int)n.height;
    return map_rows(&map->q, a->q, d, d.n_q_head, d.n_q, height) &&
           map_rows(&map->dout, a->dout, d, d.n_q_head, d.n_q, height) &&
           map_rows(&map->k, a->k, d, d.n_kv_head, d.n_k, HALF) &&
           map_rows(&map->v, a->v, d, d.n_kv_head, d.n_k, HALF) &&
           map_rows(&map->dk, a->dk, d, d.n_kv_head, d.n_k, HALF) &&
           map_rows(&map->dv, a->dv, d, d.n_kv_head, d.n_k, HALF) &&
           map_stats(&map->stats, stats, d, n);
}

/* As many KV heads as have q, dout and dq_sums of one of their query heads in a third of the L2
 * together; in turns fewer, so that blocks which wait for each other began together. */
int section_of(const ts_attention_dims &d, bool in_turns)
{
    const int64_t most = d.n_batch * d.n_kv_head,
                  n = ((in_turns ? 8 : 16) << 20) / (d.n_q * d.head_dim * 8);
    return (int)(n < 1 ? 1 : n < most ? n : most);
}

template <class T, int D>
ts_status launch(const main_params &p, const side_params &side, const plan &n, cudaStream_t s)
{
    const int      n_bytes = block_memory<D>::ALLOCATED;
    const unsigned quarters = (unsigned)n.n_tiles * QUARTERS;
    if (cudaFuncSetAttribute(backward_main<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             n_bytes) != cudaSuccess)
        return TS_E_DEVICE;
    backward_begin<T, D><<<quarters, SIDE_THREADS, 0, s>>>(side);
    backward_main<T, D><<<(unsigned)n.n_blocks, BLOCK_THREADS, n_bytes, s>>>(p);
    backward_end<T, D><<<quarters, SIDE_THREADS, 0, s>>>(side);
    return launched();
}

ts_status run_fast(const ts_flash_attention_backward_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const plan               n(d);
    const cudaStream_t       s = (cudaStream_t)x->stream;
    float *const             dq_sums = (float *)aligned_up(x->workspace);
    float *const             stats = dq_sums + n.n_sums();
    int *const               turns = x->deterministic ? (int *)(stats + n.n_stats()) : NULL;
    int *const               ticket = turns ? turns + n.n_tiles : NULL;

    main_params p = {
        .map = {},
        .see = sight(d),
        .n_q_head = (int)d.n_q_head,
        .n_kv_head = (int)d.n_kv_head,
        .n_head = (int)(d.n_batch * d.n_kv_head),
        .n_tile = (int)n.n_tile,
        .n_block = (int)n.n_block,
        .section = section_of(d, turns),
        .scale = (float)d.scale,
        .scale_log2 = (float)(d.scale * LOG2_E),
        .kv_len = a->kv_len,
        .dq_sums = dq_sums,
        .turns = turns,
        .ticket = ticket,
    };

    const side_params side = {
        .of_q = strides(d, d.n_q_head, d.n_q),
        .n_q = (int)d.n_q,
        .n_q_head = (int)d.n_q_head,
        .n_tile = (int)n.n_tile,
        .scale = (float)d.scale,
        .o = a->o,
        .dout = a->dout,
        .lse = (const float *)a->lse,
        .dq = a->dq,
        .dq_sums = dq_sums,
        .stats = stats,
        .turns = turns,
        .ticket = ticket,
    };
    if (!make_maps(&p.map, a, stats)) return TS_E_DEVICE;
    if (d.dtype == TS_BF16)
        return d.head_dim == 64 ? launch<__nv_bfloat16, 64>(p, side, n, s)
                                : launch<__nv_bfloat16, 128>(p, side, n, s);
    return d.head_dim == 64 ? launch<__half, 64>(p, side, n, s)
                            : launch<__half, 128>(p, side, n, s);
}

} // namespace

/* Enough for either way: which one is taken depends on addresses, too. */
extern "C" TS_API ts_status ts_flash_attention_backward_sm90_workspace(const void    *args,
                                                                       const ts_exec *x,
                                                                       size_t        *n_bytes)
{
    const ts_attention_dims &d = ((const ts_flash_attention_backward_args *)args)->d;
    const ts_status          s = ts_flash_attention_backward_cuda_workspace(args, x, n_bytes);
    const size_t             fast = ALIGN + (size_t)plan(d).n_bytes();
    if (!s && is_fast(d) && *n_bytes < fast) *n_bytes = fast;
    return s;
}

extern "C" TS_API ts_status ts_flash_attention_backward_sm90(const void *args, const ts_exec *x)
{
    const ts_flash_attention_backward_args *a = (const ts_flash_attention_backward_args *)args;
    if (is_fast(a->d) && all_aligned(a) && wgmma_device()) return run_fast(a, x);
    return ts_flash_attention_backward_cuda(a, x);
}
