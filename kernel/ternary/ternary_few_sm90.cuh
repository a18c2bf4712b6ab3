/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_few_sm90.cuh - the forward matmul with few rows: codes are read once, at nearly the
 * memory bandwidth.
 *
 * A block, the only one of its multiprocessor, keeps all inputs of its rows in shared memory, in
 * the layout of the matrix instructions. A team of warps has 32 outputs at a time; its warps divide
 * the segments, whose sums are then added in order. The codes and scales that a warp has of a
 * segment are a chunk: the warp loads it, in whole lines, one or two chunks ahead, and no other
 * warp uses it. So at least 64 KB are in flight at any time. */
#ifndef TS_TERNARY_FEW_SM90_CUH
#define TS_TERNARY_FEW_SM90_CUH

#include "sm90.cuh"
#include "ternary_product_sm90.cuh"

namespace
{

enum {
    FEW = 8, /* rows: the columns of one matrix instruction */
    FEW_WARPS = 16,
    FEW_THREADS = 32 * FEW_WARPS,
    ROW_CODES = SEGMENT * GROUP_BYTES, /* bytes of an output in a chunk; of its scales */
    ROW_SCALES = SEGMENT * 2,
    PARCEL = OUTPUTS * (ROW_CODES + ROW_SCALES),
};

struct few_params {
    product_params p;
    int            rows; /* of a block; columns, too */
    int            team; /* warps that share out the segments of a tile; a power of two */
    int            n_segments, n_tiles;
    int            n_sums;       /* of an output: segments or stripes */
    int            n_parcels;    /* of a warp, on their way */
    int            n_sets;       /* of sums, of a team */
    bool           whole_scales; /* may four scales be copied at once? */
};

/* Where things lie in a block's memory. */
template <int P> struct few_places {
    uint4    *columns; /* [group][part][row][unit] */
    char     *parcels; /* [warp][chunk] */
    float    *sums;    /* [team][set][sum][output][row], and 2 of nothing to spread banks */
    unsigned *most;    /* [row], bits of a float */
    int       width;   /* from one output's sums to the next */

    __host__ __device__ few_places(const few_params &f, void *at)
        : columns((uint4 *)at), width((f.rows + 1) / 2 * 2 + 2)
    {
        parcels = (char *)(columns + (size_t)f.p.n_groups * P * f.rows * UNITS);
        sums = (float *)(void *)(parcels + FEW_WARPS * f.n_parcels * PARCEL);
        most = (unsigned *)(sums +
                            (size_t)f.n_sets * (FEW_WARPS / f.team) * f.n_sums * (OUTPUTS * width));
    }
    size_t n_bytes(void) const
    {
        return (size_t)((const char *)(most + FEW) - (const char *)columns);
    }
};

/* ---- inputs ---- */

/* Inputs of all rows of a block: so many warps for each row, which load four units before they use
 * the first. PLAIN: as they are. */
template <class T, bool PLAIN>
__device__ __forceinline__ void put_columns(const few_params &f, const few_places<parts<T>::n> &m,
                                            int64_t first, int rows, bool shrunk)
{
    constexpr int P = parts<T>::n, AT_ONCE = 4;
    const int     warp = threadIdx.x / 32, warps = FEW_WARPS / rows, r = warp / warps;
    const int     n = f.p.n_groups * UNITS, step = 32 * warps;
    if (r >= rows) return;
    const float shrink = shrunk ? shrink_of(m.most[r]) : 1;
    unsigned    most = 0;
    for (int i = warp % warps * 32 + threadIdx.x % 32; i < n; i += AT_ONCE * step) {
        raw_unit<T> u[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (i + k * step < n) u[k] = load_unit<T>(f.p, first + r, i + k * step);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int at = i + k * step, g = at / UNITS;
            uint4     part[P];
            if (at >= n) break;
            most = max(most, PLAIN ? plain_unit(u[k], part) : make_unit<T>(u[k], shrink, part));
#pragma unroll
            for (int c = 0; c < P; c++)
                m.columns[((g * P + c) * f.rows + r) * UNITS + place_of(at % UNITS, r)] = part[c];
        }
    }
    most = __reduce_max_sync(ALL, most);
    if (!shrunk && threadIdx.x % 32 == 0) atomicMax(m.most + r, most);
}

/* Rows are taken as they are; and once more where one may be too large or too small for that. */
template <class T>
__device__ __forceinline__ void put_all(const few_params &f, const few_places<parts<T>::n> &m,
                                        int64_t first, int rows)
{
    if (threadIdx.x < FEW) m.most[threadIdx.x] = 0;
    __syncthreads();
    put_columns<T, true>(f, m, first, rows, false);
    __syncthreads();
    bool plain = true;
    for (int r = 0; r < rows; r++) plain &= is_plain(m.most[r]);
    if (plain) return;
    __syncthreads();
    if (threadIdx.x < FEW) m.most[threadIdx.x] = 0;
    __syncthreads();
    put_columns<T, false>(f, m, first, rows, false);
    __syncthreads();
    put_columns<T, false>(f, m, first, rows, true);
    __syncthreads();
}

/* ---- chunks ---- */

/* Where a warp is, on its way over its team's tiles of outputs and, in each, its segments. */
struct walk {
    int tile, n_tiles, step;
    int segment, begin, end;

    __device__ __forceinline__ bool more(void) const
    {
        return tile < n_tiles;
    }
    /* True at the end of a tile. */
    __device__ __forceinline__ bool next(void)
    {
        if (++segment < end) return false;
        segment = begin, tile += step;
        return true;
    }
    __device__ __forceinline__ int n_groups(const product_params &p) const
    {
        return min((int)SEGMENT, p.n_groups - segment * SEGMENT);
    }
};

__device__ __forceinline__ uint4 sixteen_bytes(const uint8_t *c)
{
    return make_uint4(four_bytes(c), four_bytes(c + 4), four_bytes(c + 8), four_bytes(c + 12));
}

/* A chunk is [output][group of codes], then [output][scale]. The groups of an output are permuted,
 * so that lanes that load at one time do not meet. Eight lanes send for an output's codes, a line;
 * of scales each lane has an output. Past the end the last output comes once more: it is not
 * stored. */
template <bool ALIGNED>
__device__ __forceinline__ void send(const few_params &f, const walk &at, char *to)
{
    const int      lane = threadIdx.x % 32, n = at.n_groups(f.p), own = lane % 8 / 2;
    const unsigned last = (unsigned)f.p.n_out - 1, first = (unsigned)at.tile * OUTPUTS;
    const unsigned g = (unsigned)at.segment * SEGMENT, n_groups = (unsigned)f.p.n_groups;
    const uint8_t *code = f.p.code + lane % 8 * 16;
    char          *row = to + lane / 8 * ROW_CODES + (own ^ lane / 8) * GROUP_BYTES + lane % 2 * 16;
    if (own < n) {
#pragma unroll
        for (int i = 0; i < OUTPUTS / 4; i++) {
            const unsigned o = min(first + (unsigned)(i * 4 + lane / 8), last);
            const uint8_t *from = code + (uint64_t)(o * n_groups + g) * GROUP_BYTES;
            char          *there = row + i * 4 * ROW_CODES;
            if (ALIGNED) copy_ahead<16>(there, from);
            else *(uint4 *)(void *)there = sixteen_bytes(from);
        }
    }
    const uint16_t *scale = f.p.scale + (uint64_t)min(first + (unsigned)lane, last) * n_groups + g;
    char           *there = to + OUTPUTS * ROW_CODES + lane * ROW_SCALES;
    if (f.whole_scales) copy_ahead<8>(there, scale);
    else
        for (int i = 0; i < n; i++) ((uint16_t *)(void *)there)[i] = __ldg(scale + i);
}

/* A lane's part of each group of a chunk: outputs lane / 4 + 8 k. */
__device__ __forceinline__ void receive(const char *from, piece (&x)[SEGMENT])
{
    const int   lane = threadIdx.x % 32, row = lane / 4;
    const char *code = from + row * ROW_CODES + lane % 4 * 8;
    const char *scale = from + OUTPUTS * ROW_CODES + row * ROW_SCALES;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint2 s = *(const uint2 *)(const void *)(scale + k * 8 * ROW_SCALES);
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            x[i].code[k] = *(const uint2 *)(const void *)(code + k * 8 * ROW_CODES +
                                                          (i ^ row % 4) * GROUP_BYTES);
            x[i].scale[k] = (uint16_t)((i < 2 ? s.x : s.y) >> i % 2 * 16);
        }
    }
}

/* ---- sums ---- */

/* A warp's sums of a segment to memory: `to` is where its own begin. */
__device__ __forceinline__ void put_sums(float *to, int width, float (&y)[2][1][4])
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float *d = &y[k / 2][0][k % 2 * 2];
        if (lane % 4 * 2 < width - 2)
            *(float2 *)(to + (lane / 4 + k * 8) * width + lane % 4 * 2) = make_float2(d[0], d[1]);
        d[0] = d[1] = 0;
    }
}

template <class T>
__device__ __forceinline__ void store(const few_params &f, const few_places<parts<T>::n> &m,
                                      const float *sums, int64_t first, int rows, int64_t out)
{
    for (int i = threadIdx.x % (32 * f.team); i < OUTPUTS * rows; i += 32 * f.team) {
        const int    o = i % OUTPUTS, r = i / OUTPUTS;
        const float *from = sums + o * m.width + r;
        float        sum = 0;
        for (int s = 0; s < f.n_sums; s++)
            if (!STRIPED<T> || stripe_begin(f.n_segments, s) < stripe_begin(f.n_segments, s + 1))
                sum += from[s * OUTPUTS * m.width];
        if (out + o < f.p.n_out)
            from_float((T *)f.p.y + (first + r) * f.p.n_out + out + o,
                       sum * lift_of(shrink_of(m.most[r])));
    }
}

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(FEW_THREADS, 1) few_kernel(few_params f)
{
    using E = typename parts<T>::element;
    constexpr int       P = parts<T>::n;
    const int           warp = threadIdx.x / 32, team = warp / f.team, nth = warp % f.team;
    const int64_t       first = (int64_t)blockIdx.y * f.rows;
    const int           rows = (int)min((int64_t)f.rows, f.p.n_rows - first);
    const few_places<P> m(f, memory);
    const columns       inputs(f.rows);
    const int           each = P * inputs.part; /* from a group to the next */
    const int           tile_sums = f.n_sums * OUTPUTS * m.width;
    float              *sums = m.sums + team * f.n_sets * tile_sums;
    float              *other = sums + (f.n_sets - 1) * tile_sums;
    char               *parcel = m.parcels + warp * f.n_parcels * PARCEL, *sent = parcel + PARCEL;
    threes              seen;
    float               y[2][1][4] = {};
    walk                at = { (int)(blockIdx.x + team * gridDim.x), f.n_tiles,
                               (int)(FEW_WARPS / f.team * gridDim.x) };
    at.begin = STRIPED<T> ? stripe_begin(f.n_segments, nth * STRIPES / f.team)
                          : nth * f.n_segments / f.team;
    at.end = STRIPED<T> ? stripe_begin(f.n_segments, (nth + 1) * STRIPES / f.team)
                        : (nth + 1) * f.n_segments / f.team;
    at.segment = at.begin;
    walk ahead = at;
    /* An empty chunk counts, too. */
    auto send_next = [&](char *to) {
        if (ahead.more()) send<ALIGNED>(f, ahead, to);
        ahead.next();
        close_copies();
    };
    /* All of the team; barrier 0 is the block's. */
    auto together = [&] {
        if (f.team == 1) __syncwarp();
        else named_wait(1 + team, 32 * f.team);
    };
    start_after_others();
    send_next(parcel); /* on its way while inputs are laid out */
    if (f.n_parcels == 2) send_next(sent);
    else sent = parcel;
    put_all<T>(f, m, first, rows);
    while (at.more()) {
        const int  n = at.n_groups(f.p), group = at.segment * SEGMENT * each;
        const walk now = at;
        const bool last = at.next();
        piece      x[SEGMENT];
        if (f.n_parcels == 2) await_all_but<1>();
        else await_all_but<0>();
        __syncwarp(); /* what other lanes sent for is there as well */
        receive(parcel, x);
        __syncwarp();
        send_next(parcel);
        char *const turn = parcel;
        parcel = sent, sent = turn;
#pragma unroll
        for (int i = 0; i < SEGMENT; i++)
            if (i < n) {
                seen.look(x[i]);
                add_group<E, P, 1>(inputs, group + i * each, x[i], y);
            }
        seen.poison(y);
        if (!STRIPED<T>) put_sums(sums + now.segment * OUTPUTS * m.width, m.width, y);
        else if (ends_stripe(f.n_segments, now.segment))
            put_sums(sums + stripe_of(f.n_segments, now.segment) * OUTPUTS * m.width, m.width, y);
        if (!last) continue;
        /* After every warp of the team has stored its sums. With two sets of sums, a warp that is
         * ahead writes the set that is no longer read. */
        together();
        store<T>(f, m, sums, first, rows, (int64_t)now.tile * OUTPUTS);
        if (f.n_sets == 1) together();
        float *const swap = sums;
        sums = other, other = swap;
    }
}

/* ---- host side ---- */

/* Blocks of as many rows as their memory holds; none: not even one. */
template <class T> few_params few_of(const product_params &p)
{
    const size_t most = most_shared();
    few_params   f = {};
    f.p = p, f.rows = p.n_rows < FEW ? (int)p.n_rows : (int)FEW;
    f.n_segments = (int)ceil_div(p.n_groups, SEGMENT), f.n_tiles = (int)ceil_div(p.n_out, OUTPUTS);
    f.team = STRIPED<T> ? (int)STRIPES : (int)FEW_WARPS;
    f.whole_scales = p.n_groups % SEGMENT == 0 && aligned_to(p.scale, ROW_SCALES);
    while (f.team > f.n_segments) f.team /= 2;
    f.n_sums = STRIPED<T> ? (int)STRIPES : f.n_segments;
    for (; f.rows; f.rows--)
        for (int spare = 2; spare >= 0; spare--) {
            f.n_parcels = spare > 1 ? 2 : 1, f.n_sets = spare > 0 ? 2 : 1;
            if (few_places<parts<T>::n>(f, NULL).n_bytes() <= most) return f;
        }
    return f;
}

template <class T, bool ALIGNED> ts_status run_few(const few_params &f, cudaStream_t stream)
{
    auto *const   kernel = few_kernel<T, ALIGNED>;
    const size_t  n_bytes = few_places<parts<T>::n>(f, NULL).n_bytes();
    const int64_t turns = ceil_div(f.p.n_rows, f.rows);
    int           device, n_sm;
    if (allow_shared(kernel, n_bytes) || cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return TS_E_DEVICE;
    const dim3 grid((unsigned)(f.n_tiles < n_sm ? f.n_tiles : n_sm), (unsigned)turns);
    return launch(kernel, grid, FEW_THREADS, n_bytes, stream, f);
}

} // namespace

#endif
