/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear_sm90.cu - the forward product on the device, from codes or from latents.
 *
 * Few rows: codes are read once, and nearly at the rate of memory. A block keeps all inputs of its
 * rows in shared memory, laid out for the matrix instructions. A team of warps has 32 outputs at a
 * time; its warps share out the segments, whose sums are then added in order.
 *
 * Many rows: inputs are first laid out in the workspace. A block has 256 outputs and 32 rows, a
 * warp 32 of the outputs; inputs pass through shared memory a group at a time, codes go straight to
 * registers. */
#include <math.h>

#include "ternary_product_sm90.cuh"

namespace
{

enum {
    FEW = 8, /* rows: the columns of one matrix instruction */
    MOST_SHARED = 224 * 1024,
    STAGES = 3, /* groups of inputs, on their way or in use */
    MANY = 32,  /* rows of a block */
    CHUNK = 4096,
};

/* ---- few rows ---- */

struct few_params {
    product_params p;
    int            rows; /* of a block; columns, too */
    int            team; /* warps that share out the segments of a tile; a power of two */
    int            n_segments, n_tiles;
};

/* Where things lie in a block's memory. */
template <int P> struct few_places {
    uint4    *columns; /* [group][part][row][unit] */
    float    *sums;    /* [team][2][segment][output][row], and 2 of nothing to spread banks */
    unsigned *most;    /* [row], bits of a float */
    int       width;   /* from one output's sums to the next */

    __host__ __device__ few_places(const few_params &f, void *at)
        : columns((uint4 *)at), width((f.rows + 1) / 2 * 2 + 2)
    {
        sums = (float *)(columns + (size_t)f.p.n_groups * P * f.rows * UNITS);
        most = (unsigned *)(sums + (size_t)2 * (WARPS / f.team) * f.n_segments * (OUTPUTS * width));
    }
    size_t n_bytes(void) const
    {
        return (size_t)((const char *)(most + FEW) - (const char *)columns);
    }
};

/* Inputs of all rows of a block, a row at a time. */
template <class T>
__device__ __forceinline__ void put_columns(const few_params &f, const few_places<parts<T>::n> &m,
                                            int64_t first, int rows, bool again)
{
    constexpr int P = parts<T>::n;
    for (int r = 0; r < rows; r++) {
        const float shrink = again ? shrink_of(m.most[r]) : 1;
        unsigned    most = 0;
        for (int i = threadIdx.x; i < f.p.n_groups * UNITS; i += THREADS) {
            const int g = i / UNITS, unit = i % UNITS;
            uint4     part[P];
            most = max(most, unit_of<T>(f.p, first + r, g, unit, shrink, part));
#pragma unroll
            for (int n = 0; n < P; n++)
                m.columns[((g * P + n) * f.rows + r) * UNITS + place_of(unit, r)] = part[n];
        }
        most = __reduce_max_sync(ALL, most);
        if (!again && threadIdx.x % 32 == 0) atomicMax(m.most + r, most);
    }
}

/* A row is taken as it is, and once more where it is too large or too small for that. */
template <class T>
__device__ __forceinline__ void put_all(const few_params &f, const few_places<parts<T>::n> &m,
                                        int64_t first, int rows)
{
    if (threadIdx.x < FEW) m.most[threadIdx.x] = 0;
    __syncthreads();
    put_columns<T>(f, m, first, rows, false);
    __syncthreads();
    bool odd = false;
    for (int r = 0; r < rows; r++) odd |= shrink_of(m.most[r]) != 1;
    if (!odd) return;
    put_columns<T>(f, m, first, rows, true);
    __syncthreads();
}

/* A warp's sums of a segment to memory: `to` is where its own begin. */
__device__ __forceinline__ void put_sums(float *to, int width, float (&y)[2][1][4])
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        float *d = &y[k / 2][0][k % 2 * 2];
        if (lane % 4 * 2 < width - 2)
            *(float2 *)(to + (lane / 4 * 4 + k) * width + lane % 4 * 2) = make_float2(d[0], d[1]);
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
        float        sum = *from;
        for (int s = 1; s < f.n_segments; s++) sum += from[s * OUTPUTS * m.width];
        if (out + o < f.p.n_out)
            from_float((T *)f.p.y + (first + r) * f.p.n_out + out + o,
                       sum * lift_of(shrink_of(m.most[r])));
    }
}

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
        return more() ? min((int)SEGMENT, p.n_groups - segment * SEGMENT) : 0;
    }
};

template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) few_kernel(few_params f)
{
    using E = typename parts<T>::element;
    constexpr int       P = parts<T>::n;
    const int           warp = threadIdx.x / 32, team = warp / f.team, nth = warp % f.team;
    const int64_t       first = (int64_t)blockIdx.y * f.rows;
    const int           rows = (int)min((int64_t)f.rows, f.p.n_rows - first);
    const few_places<P> m(f, memory);
    const columns       inputs(f.rows);
    const int           each = P * inputs.part; /* from a group to the next */
    const int           tile_sums = f.n_segments * OUTPUTS * m.width;
    float              *sums = m.sums + team * 2 * tile_sums, *other = sums + tile_sums;
    address             far;
    piece               x[SEGMENT];
    threes              seen;
    float               y[2][1][4] = {};
    walk                at = { (int)(blockIdx.x + team * gridDim.x), f.n_tiles,
                               (int)(WARPS / f.team * gridDim.x) };
    at.segment = at.begin = nth * f.n_segments / f.team;
    at.end = (nth + 1) * f.n_segments / f.team;
    if (at.more()) { /* codes are on their way while inputs are laid out */
        far.find(f.p, place(f.p, at.tile, at.segment * SEGMENT));
#pragma unroll
        for (int i = 0; i < SEGMENT; i++)
            if (i < at.n_groups(f.p)) far.load<ALIGNED>(i, &x[i]);
    }
    put_all<T>(f, m, first, rows);
    while (at.more()) {
        const int  n = at.n_groups(f.p);
        const walk now = at;
        const bool last = at.next();
        const int  n_next = at.n_groups(f.p);
        const int  group = now.segment * SEGMENT * each;
        if (n_next) far.find(f.p, place(f.p, at.tile, at.segment * SEGMENT));
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            if (i < n) {
                seen.look(x[i]);
                add_group<E, P, 1>(inputs, group + i * each, x[i], y);
            }
            if (i < n_next) far.load<ALIGNED>(i, &x[i]);
        }
        seen.poison(y);
        put_sums(sums + now.segment * OUTPUTS * m.width, m.width, y);
        if (!last) continue;
        /* Once every warp of the team has put its own. There are two sets of sums: who is ahead
         * writes the one that nobody reads any more. Barrier 0 is the block's. */
        asm volatile("bar.sync %0, %1;" ::"r"(1 + team), "r"(32 * f.team) : "memory");
        store<T>(f, m, sums, first, rows, (int64_t)now.tile * OUTPUTS);
        float *const swap = sums;
        sums = other, other = swap;
    }
}

/* ---- many rows ---- */

struct many_params {
    product_params p;
    uint4         *units; /* [tile of rows][group][part][row][unit] */
    float         *lift;  /* [row] */
    bool           wide;  /* may four results be stored at once? */
};

/* A row a block. Rows of the last tile that are not there are 0. */
template <class T> __global__ void __launch_bounds__(THREADS) arrange_kernel(many_params a)
{
    constexpr int       P = parts<T>::n;
    __shared__ unsigned most;
    const int64_t       row = blockIdx.x;
    const bool          there = row < a.p.n_rows;
    const int           n = a.p.n_groups * UNITS;
    unsigned            own = 0;
    uint4               part[P] = {};
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    for (int i = threadIdx.x; there && i < n; i += THREADS)
        own = max(own, unit_of<T>(a.p, row, i / UNITS, i % UNITS, 1, part));
    own = __reduce_max_sync(ALL, own);
    if (threadIdx.x % 32 == 0) atomicMax(&most, own);
    __syncthreads();
    const float shrink = shrink_of(most);
    if (threadIdx.x == 0) a.lift[row] = lift_of(shrink);
    for (int i = threadIdx.x; i < n; i += THREADS) {
        const int g = i / UNITS, unit = i % UNITS, column = (int)(row % MANY);
        if (there) unit_of<T>(a.p, row, g, unit, shrink, part);
        uint4 *to = a.units + (row / MANY * a.p.n_groups + g) * (P * MANY * UNITS) +
                    column * UNITS + place_of(unit, column);
#pragma unroll
        for (int k = 0; k < P; k++) to[k * MANY * UNITS] = part[k];
    }
}

__device__ __forceinline__ void copy_ahead(uint4 *shared, const uint4 *global)
{
    const unsigned s = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(global) : "memory");
}

__device__ __forceinline__ void close_copies(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ __forceinline__ void await_all_but(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* Four results that lie side by side. */
template <class T>
__device__ __forceinline__ void store_four(const many_params &a, int64_t row, int64_t out,
                                           const float (&v)[4])
{
    T *to = (T *)a.p.y + row * a.p.n_out + out;
    if (a.wide && out + 4 <= a.p.n_out) {
        if constexpr (sizeof(T) == 4) *(float4 *)to = make_float4(v[0], v[1], v[2], v[3]);
        else *(uint2 *)to = make_uint2(narrow(v[0], v[1], T()), narrow(v[2], v[3], T()));
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (out + k < a.p.n_out) from_float(to + k, v[k]);
    }
}

/* Sums of segments wait in shared memory, a column of it for each thread. */
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) many_kernel(many_params a, int n_row_tiles)
{
    using E = typename parts<T>::element;
    constexpr int P = parts<T>::n, TILES = MANY / 8, STAGE = P * MANY * UNITS;
    const int     lane = threadIdx.x % 32, n_groups = a.p.n_groups;
    const int64_t row_tile = blockIdx.x % n_row_tiles;
    const int     tile = (int)(blockIdx.x / n_row_tiles * WARPS + threadIdx.x / 32);
    const uint4  *from = a.units + row_tile * n_groups * STAGE + threadIdx.x;
    float        *total = (float *)(memory + STAGES * STAGE) + threadIdx.x;
    const place   here(a.p, tile, 0);
    const columns inputs(MANY);
    piece         x[2];
    threes        seen;
    float         y[2][TILES][4] = {};
    int           stage = 0;
    auto          send = [&](int g) {
        uint4 *to = memory + g % STAGES * STAGE + threadIdx.x;
        if (g < n_groups)
#pragma unroll
            for (int i = 0; i < STAGE; i += THREADS)
                copy_ahead(to + i, from + (int64_t)g * STAGE + i);
        close_copies();
    };
    auto load = [&](int g, piece *to) {
        address far;
        far.find(a.p, here, (unsigned)g);
        far.load<ALIGNED>(0, to);
    };
    for (int g = 0; g < STAGES - 1; g++) send(g);
    load(0, &x[0]);
    for (int g = 0; g < n_groups; g += SEGMENT) {
#pragma unroll
        for (int i = 0; i < SEGMENT; i++) {
            if (g + i >= n_groups) break;
            if (g + i + 1 < n_groups) load(g + i + 1, &x[(i + 1) % 2]);
            await_all_but<STAGES - 2>();
            __syncthreads(); /* all have it, and none is at the stage before it any more */
            send(g + i + STAGES - 1);
            seen.look(x[i % 2]);
            add_group<E, P, TILES>(inputs, stage * STAGE * (int)sizeof(uint4), x[i % 2], y);
            stage = stage + 1 < STAGES ? stage + 1 : 0;
        }
        seen.poison(y);
#pragma unroll
        for (int i = 0; i < 8 * TILES; i++) {
            float &v = y[i / 4 / TILES][i / 4 % TILES][i % 4];
            total[i * THREADS] = g ? total[i * THREADS] + v : v;
            v = 0;
        }
    }
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int64_t row = row_tile * MANY + t * 8 + lane % 4 * 2 + c;
            const float   lift = row < a.p.n_rows ? a.lift[row] : 0;
            float         v[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                v[k] = total[((k / 2 * TILES + t) * 4 + k % 2 * 2 + c) * THREADS] * lift;
            if (row < a.p.n_rows) store_four<T>(a, row, (int64_t)tile * OUTPUTS + lane / 4 * 4, v);
        }
}

/* ---- host side ---- */

bool aligned_to(const void *p, size_t n)
{
    return (uintptr_t)p % n == 0;
}

template <class K> ts_status allow_shared(K *kernel, size_t n_bytes)
{
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)n_bytes) == cudaSuccess
               ? TS_OK
               : TS_E_DEVICE;
}

/* Blocks of as many rows as their memory holds; none: not even one. */
template <class T> few_params few_of(const product_params &p)
{
    few_params f = { p, p.n_rows < FEW ? (int)p.n_rows : (int)FEW, WARPS,
                     (int)ceil_div(p.n_groups, SEGMENT), (int)ceil_div(p.n_out, OUTPUTS) };
    while (f.team > f.n_segments) f.team /= 2;
    while (f.rows && few_places<parts<T>::n>(f, NULL).n_bytes() > MOST_SHARED) f.rows--;
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
    const int  most = n_bytes <= MOST_SHARED / 2 ? 2 * n_sm : n_sm;
    const dim3 grid((unsigned)(f.n_tiles < most ? f.n_tiles : most), (unsigned)turns);
    kernel<<<grid, THREADS, n_bytes, stream>>>(f);
    return launched();
}

/* Rows of the input that are laid out at one time. */
int64_t chunk_of(int64_t n_rows)
{
    return n_rows < CHUNK ? ceil_div(n_rows, MANY) * MANY : (int64_t)CHUNK;
}

template <class T> size_t many_bytes(int64_t n_rows, int64_t n_groups)
{
    const size_t rows = (size_t)chunk_of(n_rows);
    return rows * (size_t)n_groups * parts<T>::n * UNITS * sizeof(uint4) + rows * sizeof(float) +
           LINE;
}

template <class T, bool ALIGNED> ts_status run_many(many_params a, cudaStream_t stream)
{
    constexpr int P = parts<T>::n;
    auto *const   kernel = many_kernel<T, ALIGNED>;
    const size_t  n_bytes =
        STAGES * P * MANY * UNITS * sizeof(uint4) + MANY * OUTPUTS * WARPS * sizeof(float);
    const int64_t n_rows = a.p.n_rows, row_tiles = ceil_div(chunk_of(n_rows), MANY);
    const int64_t n_blocks = row_tiles * ceil_div(a.p.n_out, OUTPUTS * WARPS);
    if (n_blocks > INT32_MAX) return TS_E_UNSUPPORTED;
    if (allow_shared(kernel, n_bytes)) return TS_E_DEVICE;
    for (int64_t first = 0; first < n_rows; first += CHUNK) {
        a.p.n_rows = n_rows - first < CHUNK ? n_rows - first : (int64_t)CHUNK;
        const int64_t tiles = ceil_div(a.p.n_rows, MANY);
        arrange_kernel<T><<<(unsigned)(tiles * MANY), THREADS, 0, stream>>>(a);
        kernel<<<(unsigned)(tiles * ceil_div(a.p.n_out, OUTPUTS * WARPS)), THREADS, n_bytes,
                 stream>>>(a, (int)tiles);
        const ts_status s = launched();
        if (s) return s;
        a.p.in = (const T *)a.p.in + CHUNK * a.p.n_in;
        a.p.y = (T *)a.p.y + CHUNK * a.p.n_out;
    }
    return TS_OK;
}

/* Where there are few rows, and all their inputs fit in a block's memory. No bit depends on it. */
template <class T> bool is_few(const product_params &p)
{
    return p.n_rows <= FEW && few_of<T>(p).rows > 0;
}

template <class T> size_t workspace_for(const product_params &p)
{
    return is_few<T>(p) ? 0 : many_bytes<T>(p.n_rows, p.n_groups);
}

template <class T> ts_status run_product(product_params p, void *workspace, cudaStream_t stream)
{
    p.aligned = p.n_in % 4 == 0 && aligned_to(p.in, 4 * sizeof(T));
    const bool aligned = aligned_to(p.code, 8);
    if (is_few<T>(p)) {
        const few_params f = few_of<T>(p);
        return aligned ? run_few<T, true>(f, stream) : run_few<T, false>(f, stream);
    }
    many_params a = { p, (uint4 *)(void *)first_line(workspace), NULL,
                      p.n_out % 4 == 0 && aligned_to(p.y, 4 * sizeof(T)) };
    a.lift = (float *)(a.units + chunk_of(p.n_rows) * p.n_groups * parts<T>::n * UNITS);
    return aligned ? run_many<T, true>(a, stream) : run_many<T, false>(a, stream);
}

product_params params_of(const ts_ternary_linear_dims *d)
{
    product_params p = {};
    p.n_out = d->n_out, p.n_in = d->n_in, p.n_rows = d->n_rows;
    p.n_groups = (int)groups_of(d->n_in);
    return p;
}

/* Groups are counted in 32 bits. */
bool too_large(const ts_ternary_linear_dims *d)
{
    return d->n_out > INT32_MAX / (groups_of(d->n_in) + 1) - OUTPUTS * WARPS;
}

size_t forward_bytes(const ts_ternary_linear_dims *d)
{
    const product_params p = params_of(d);
    if (d->n_out == 0 || d->n_rows == 0 || d->n_in == 0 || too_large(d)) return 0;
    return d->dtype == TS_F32    ? workspace_for<float>(p)
           : d->dtype == TS_BF16 ? workspace_for<__nv_bfloat16>(p)
                                 : workspace_for<__half>(p);
}

ts_status run_forward(const ts_ternary_linear_dims *d, const uint8_t *code, const uint16_t *scale,
                      const void *in, void *y, void *workspace, const ts_exec *x)
{
    product_params p = params_of(d);
    cudaStream_t   stream = (cudaStream_t)x->stream;
    if (d->n_out == 0 || d->n_rows == 0) return TS_OK;
    if (too_large(d)) return TS_E_UNSUPPORTED;
    p.code = code, p.scale = scale, p.in = in, p.y = y;
    if (d->n_in == 0) {
        const size_t each = d->dtype == TS_F32 ? 4 : 2;
        return cudaMemsetAsync(y, 0, (size_t)(d->n_rows * d->n_out) * each, stream) == cudaSuccess
                   ? TS_OK
                   : TS_E_DEVICE;
    }
    if (d->dtype == TS_F32) return run_product<float>(p, workspace, stream);
    if (d->dtype == TS_BF16) return run_product<__nv_bfloat16>(p, workspace, stream);
    return run_product<__half>(p, workspace, stream);
}

} // namespace

extern "C" TS_API ts_status ts_ternary_linear_packed_sm90_workspace(const void    *args,
                                                                    const ts_exec *x,
                                                                    size_t        *n_bytes)
{
    (void)x;
    *n_bytes = forward_bytes(&((const ts_ternary_linear_packed_args *)args)->d);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_packed_sm90(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_packed_args *a = (const ts_ternary_linear_packed_args *)args;
    return run_forward(&a->d, a->code, a->scale, a->in, a->y, x->workspace, x);
}

extern "C" TS_API ts_status ts_ternary_linear_sm90_workspace(const void *args, const ts_exec *x,
                                                             size_t *n_bytes)
{
    const ts_ternary_linear_dims *d = &((const ts_ternary_linear_args *)args)->d;
    (void)x;
    *n_bytes = packed_room::n_bytes(d) + forward_bytes(d);
    return TS_OK;
}

extern "C" TS_API ts_status ts_ternary_linear_sm90(const void *args, const ts_exec *x)
{
    const ts_ternary_linear_args *a = (const ts_ternary_linear_args *)args;
    const packed_room             room(&a->d, x->workspace);
    const ts_ternary_pack_args    pack = { a->d, a->w, room.code, room.scale };
    const ts_status               s = ts_ternary_pack_sm90(&pack, x);
    return s ? s : run_forward(&a->d, room.code, room.scale, a->in, a->y, room.rest, x);
}
