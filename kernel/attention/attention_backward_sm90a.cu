/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_sm90a.cu - the kernels before and after the main backward kernel, and the
 * selection of that kernel. */
#include <utility>

#include "attention_backward_sm90.cuh"
#include "attention_backward_wide_sm90.cuh"

namespace
{

enum { SIDE_THREADS = 256 };

/* In the first kernel each thread has a chunk of 8 columns of a row, threads past head_dim are
 * idle; a block has some rows of a tile. */
template <int D> struct begin_shape {
    static constexpr int PIECES = D <= 64 ? 8 : D <= 128 ? 16 : 32, ROWS = SIDE_THREADS / PIECES;
    static constexpr int BLOCKS = HEIGHT<D> / ROWS; /* of a tile */
};

struct side_params {
    strides      of_q;
    int          n_q, n_q_head, n_tile, head_dim;
    float        scale;
    const void  *o, *dout;
    const float *lse;
    void        *dq;
    float       *dq_sums, *stats; /* stats: [batch][query head][tile][lse, delta][row] */
    int         *turns, *ticket;
};

/* The address of eight columns of a row of queries; the tile is one of all heads, the row one of
 * the tile. */
template <int D>
__device__ __forceinline__ int64_t element_of(const side_params &p, int tile, int row, int column)
{
    const int head = tile / p.n_tile, query = tile % p.n_tile * HEIGHT<D> + row;
    return p.of_q.at(head / p.n_q_head, head % p.n_q_head, query) + column;
}

template <int D> constexpr int TURNS = D <= 128 ? 1 : 2; /* of a tile */

/* Number f of a tile's stats: TMA permutes 16-byte chunks within rows of 128 bytes, and what is
 * permuted here in the same way comes out in order. */
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
    constexpr int H = HEIGHT<D>, PIECES = begin_shape<D>::PIECES, BLOCKS = begin_shape<D>::BLOCKS;
    const int     tile = (int)blockIdx.x / BLOCKS, piece = (int)threadIdx.x % PIECES;
    const int     row = ((int)blockIdx.x % BLOCKS * SIDE_THREADS + (int)threadIdx.x) / PIECES;
    const int     query = tile % p.n_tile * H + row;
    float         delta = 0, lse = INFINITY;
    launch_next();
    if (query < p.n_q) {
        if (piece * 8 < p.head_dim) {
            const int64_t at = element_of<D>(p, tile, row, piece * 8);
            float         o[8], dout[8];
            unpack_as<T>(*(const uint4 *)((const T *)p.o + at), o);
            unpack_as<T>(*(const uint4 *)((const T *)p.dout + at), dout);
#pragma unroll
            for (int i = 0; i < 8; i++) delta = fmaf(o[i], dout[i], delta);
        }
        const float l = p.lse[(int64_t)(tile / p.n_tile) * p.n_q + query];
        if (l != -INFINITY) lse = l * (float)LOG2_E;
    }
#pragma unroll
    for (int by = PIECES / 2; by; by >>= 1) delta += __shfl_xor_sync(0xffffffffu, delta, by);
    if (piece == 0) {
        float *stats = p.stats + (int64_t)tile * 2 * H;
        stats[stat_at(row)] = lse;
        stats[stat_at(H + row)] = delta;
        if (row == 0 && p.turns)
            for (int i = 0; i < TURNS<D>; i++) p.turns[tile * TURNS<D> + i] = 0;
        if (row == 0 && tile == 0) *p.ticket = 0;
    }
    float4 *sums = (float4 *)p.dq_sums + (int64_t)blockIdx.x * (H * D / BLOCKS / 4);
#pragma unroll
    for (int i = (int)threadIdx.x; i < H * D / BLOCKS / 4; i += SIDE_THREADS)
        sums[i] = make_float4(0, 0, 0, 0);
}

/* A block has a tile. Sums are read in their storage order, and transposed in shared memory into
 * rows, which are an odd number of 16-byte chunks apart: no bank conflicts. */
template <class T, int D>
__global__ void __launch_bounds__(SIDE_THREADS) backward_end(const side_params p)
{
    typedef dq_parts<D> parts;
    constexpr int       H = HEIGHT<D>, PIECES = D / 8, N = parts::FLOATS / 4;
    constexpr int       EACH = (N + SIDE_THREADS - 1) / SIDE_THREADS;
    __shared__ uint4    row[H][PIECES + 1];
    const int           tile = (int)blockIdx.x;
    const float4 *const sums = (const float4 *)(p.dq_sums + (int64_t)tile * parts::FLOATS);
    float4              v[EACH];
    await_last();
#pragma unroll
    for (int n = 0; n < EACH; n++) /* all under way at once */
        if (n * SIDE_THREADS + (int)threadIdx.x < N) v[n] = sums[n * SIDE_THREADS + threadIdx.x];
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        const int chunk = (n * SIDE_THREADS + (int)threadIdx.x) / WARPGROUP;
        const int piece = D <= 64 ? chunk % parts::FIRST : chunk, thread = threadIdx.x % WARPGROUP;
        const int first =
            (D <= 64 ? chunk / parts::FIRST * 64 : 0) + thread / 32 * 16 + thread % 32 / 4;
        if (chunk >= parts::ALL) continue;
        ((unsigned *)&row[first][piece])[thread % 4] =
            narrow(v[n].x * p.scale, v[n].y * p.scale, T());
        ((unsigned *)&row[first + 8][piece])[thread % 4] =
            narrow(v[n].z * p.scale, v[n].w * p.scale, T());
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < (H * PIECES + SIDE_THREADS - 1) / SIDE_THREADS; n++) {
        const int i = n * SIDE_THREADS + (int)threadIdx.x, r = i / PIECES, piece = i % PIECES;
        if (r < H && tile % p.n_tile * H + r < p.n_q && piece * 8 < p.head_dim)
            *(uint4 *)((T *)p.dq + element_of<D>(p, tile, r, piece * 8)) = row[r][piece];
    }
}

/* ---- choice ---- */

/* The widths that there are kernels for. */
const std::integer_sequence<int, 16, 32, 48, 64, 80, 96, 112, 128> NARROW;
const std::integer_sequence<int, 160, 192, 224, 256>               WIDE;

bool is_wide(const ts_attention_dims &d)
{
    return d.head_dim > 128;
}

struct plan {
    int64_t width, height, n_tile, n_tiles, n_block, n_blocks; /* of a head; of all */

    explicit plan(const ts_attention_dims &d) : height(d.head_dim <= 64 ? HEIGHT<64> : HEIGHT<128>)
    {
        const int64_t step = is_wide(d) ? 32 : 16, keys = is_wide(d) ? KEYS<256> : KEYS<128>;
        width = (d.head_dim + step - 1) / step * step;
        n_tile = (d.n_q + height - 1) / height;
        n_tiles = d.n_batch * d.n_q_head * n_tile;
        n_block = (d.n_k + keys - 1) / keys;
        n_blocks = d.n_batch * d.n_kv_head * n_block;
    }
    int64_t n_sums(void) const /* floats */
    {
        return n_tiles * height * width;
    }
    int64_t n_stats(void) const
    {
        return n_tiles * 2 * height;
    }
    int64_t n_bytes(void) const
    {
        return (n_sums() + n_stats() + n_tiles * TURNS<256> + 1) * 4;
    }
};

/* Few queries would be mostly padding; the sums of many heads of such, more memory than it is
 * worth.
 */
bool is_fast(const ts_attention_dims &d)
{
    const plan n(d);
    return (d.dtype == TS_BF16 || d.dtype == TS_F16) && d.head_dim % 8 == 0 && d.n_batch > 0 &&
           d.n_q > 0 && d.n_k > 0 && d.n_q <= MOST_LENGTH && d.n_k <= MOST_LENGTH &&
           n.n_tiles <= INT_MAX / begin_shape<256>::BLOCKS && n.n_blocks <= INT_MAX / 2 &&
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

/* KV heads of a section: as many as have q, dout and dq_sums of one of their query heads in a third
 * of the L2 together; all, if they have them in it. In turns fewer, so that blocks which wait for
 * each other began together. */
int section_of(const ts_attention_dims &d, bool in_turns)
{
    const int64_t all = d.n_batch * d.n_kv_head, one = d.n_q * d.head_dim * 8;
    const int64_t n = ((in_turns ? 8 : all * one <= 48 << 20 ? 48 : 16) << 20) / one;
    return (int)(n < 1 ? 1 : n < all ? n : all);
}

/* The last section has up to three times as many heads, if all others are whole: its short jobs
 * fill up the end. In turns it has what remains. */
int n_sections(int n_head, int section, bool in_turns)
{
    if (in_turns) return (n_head + section - 1) / section;
    return n_head < 2 * section ? 1 : n_head / section - 1;
}

/* A kernel that may begin before the last one has ended, and then waits for it. */
template <class A>
bool launch_early(void (*kernel)(A), int64_t n_block, int threads, int n_bytes, cudaStream_t stream,
                  const A &args)
{
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t  how = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    how.gridDim = dim3((unsigned)n_block), how.blockDim = dim3((unsigned)threads);
    how.dynamicSmemBytes = (size_t)n_bytes, how.stream = stream;
    how.attrs = &early, how.numAttrs = 1;
    return cudaLaunchKernelEx(&how, kernel, args) == cudaSuccess;
}

template <class T, int D>
ts_status launch(const main_params &p, const side_params &side, const plan &n, cudaStream_t s)
{
    const int n_bytes = block_memory<D>::ALLOCATED;
    void (*main_pass)(main_params);
    if constexpr (D <= 128) main_pass = backward_main<T, D>;
    else main_pass = backward_wide<T, D>;
    if (cudaFuncSetAttribute(main_pass, cudaFuncAttributeMaxDynamicSharedMemorySize, n_bytes) !=
        cudaSuccess)
        return TS_E_DEVICE;
    backward_begin<T, D>
        <<<(unsigned)n.n_tiles * begin_shape<D>::BLOCKS, SIDE_THREADS, 0, s>>>(side);
    const int64_t sms = n_multiprocessors();
    if (!launch_early(main_pass, n.n_blocks < sms ? n.n_blocks : sms, BLOCK_THREADS, n_bytes, s,
                      p) ||
        !launch_early(backward_end<T, D>, n.n_tiles, SIDE_THREADS, 0, s, side))
        return TS_E_DEVICE;
    return launched();
}

/* By the least of these that is not below head_dim. */
template <class T, int... D>
ts_status launch_least(const main_params &p, const side_params &side, const plan &n, cudaStream_t s,
                       std::integer_sequence<int, D...>)
{
    ts_status status = TS_E_UNSUPPORTED;
    (void)((side.head_dim <= D && (status = launch<T, D>(p, side, n, s), true)) || ...);
    return status;
}

ts_status run_fast(const ts_flash_attention_backward_args *a, const ts_exec *x)
{
    const ts_attention_dims &d = a->d;
    const plan               n(d);
    const cudaStream_t       s = (cudaStream_t)x->stream;
    float *const             dq_sums = (float *)aligned_up(x->workspace);
    float *const             stats = dq_sums + n.n_sums();
    int *const               ticket = (int *)(stats + n.n_stats());
    int *const               turns = x->deterministic ? ticket + 1 : NULL;

    const int section = section_of(d, turns), n_head = (int)(d.n_batch * d.n_kv_head);

    main_params p = {
        .map = {},
        .see = sight(d),
        .n_q_head = (int)d.n_q_head,
        .n_kv_head = (int)d.n_kv_head,
        .n_head = n_head,
        .n_tile = (int)n.n_tile,
        .n_block = (int)n.n_block,
        .n_job = (int)n.n_blocks,
        .section = section,
        .n_section = n_sections(n_head, section, turns),
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
        .head_dim = (int)d.head_dim,
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
        return is_wide(d) ? launch_least<__nv_bfloat16>(p, side, n, s, WIDE)
                          : launch_least<__nv_bfloat16>(p, side, n, s, NARROW);
    return is_wide(d) ? launch_least<__half>(p, side, n, s, WIDE)
                      : launch_least<__half>(p, side, n, s, NARROW);
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
