/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_arrange_sm90.cuh - many rows: their inputs are first laid out in the workspace, as the
 * kernel that multiplies will have them in shared memory. */
#ifndef TS_TERNARY_ARRANGE_SM90_CUH
#define TS_TERNARY_ARRANGE_SM90_CUH

#include "ternary_product_sm90.cuh"

namespace
{

enum {
    CHUNK = 4096,    /* rows that are laid out at one time */
    TILE_ROWS = 128, /* what chunks are rounded to: the most that a kernel has in a tile */
};

struct arranged_params {
    product_params p;
    uint4         *units; /* [tile of rows], and then as the kernel's layout says */
    float         *lift;  /* [row] */
};

/* A row a block. L is a layout: ROWS of a tile, and where unit i of a row of it lies. Rows of the
 * last tile that are not there are 0. */
template <class T, class L>
__global__ void __launch_bounds__(THREADS) arrange_kernel(arranged_params a)
{
    constexpr int       P = parts<T>::n;
    __shared__ unsigned most;
    const int64_t       row = blockIdx.x;
    const bool          there = row < a.p.n_rows;
    const int           n = a.p.n_groups * UNITS, column = (int)(row % L::ROWS);
    uint4              *tile = a.units + row / L::ROWS * L::ROWS * n * P;
    auto                put_row = [&](auto plain, float shrink) {
        unsigned own = 0;
        for (int i = threadIdx.x; i < n; i += THREADS) {
            uint4 part[P] = {};
            if (there) {
                const raw_unit<T> u = load_unit<T>(a.p, row, i);
                own = max(own, decltype(plain)::value ? plain_unit(u, part)
                                                                     : make_unit<T>(u, shrink, part));
            }
            L::put(tile, column, i, part);
        }
        return own;
    };
    auto most_of = [&](unsigned own) { /* of the block */
                                       __syncthreads();
                                       if (threadIdx.x == 0) most = 0;
                                       __syncthreads();
                                       own = __reduce_max_sync(ALL, own);
                                       if (threadIdx.x % 32 == 0) atomicMax(&most, own);
                                       __syncthreads();
                                       return most;
    };
    start_after_others();
    unsigned all = most_of(put_row(std::true_type(), 1));
    if (there && !is_plain(all)) { /* perhaps too large or too small as it is */
        all = most_of(put_row(std::false_type(), 1));
        put_row(std::false_type(), shrink_of(all));
    }
    if (threadIdx.x == 0) a.lift[row] = lift_of(shrink_of(all));
}

/* ---- host side ---- */

inline int64_t chunk_of(int64_t n_rows)
{
    return n_rows < CHUNK ? ceil_div(n_rows, TILE_ROWS) * TILE_ROWS : (int64_t)CHUNK;
}

/* Also where tiles of fewer rows end past the last of 128. */
template <class T> size_t arranged_bytes(int64_t n_rows, int64_t n_groups)
{
    const size_t rows = (size_t)chunk_of(n_rows) + TILE_ROWS;
    return rows * (size_t)n_groups * parts<T>::n * UNITS * sizeof(uint4) + rows * sizeof(float) +
           LINE;
}

/* L also has what a launch needs: N_OUTPUTS of a block, N_THREADS, and bytes of shared memory. */
template <class T, class L>
ts_status run_arranged(void (*kernel)(arranged_params), const product_params &p, void *workspace,
                       cudaStream_t stream)
{
    arranged_params a = { p, (uint4 *)(void *)first_line(workspace), NULL };
    const int64_t   n_rows = p.n_rows, n_tiles = ceil_div(p.n_out, L::N_OUTPUTS);
    if (ceil_div(chunk_of(n_rows), L::ROWS) * n_tiles > INT32_MAX) return TS_E_UNSUPPORTED;
    if (allow_shared(kernel, L::template n_shared<T>())) return TS_E_DEVICE;
    a.lift = (float *)(a.units + chunk_of(n_rows) * p.n_groups * parts<T>::n * UNITS);
    for (int64_t first = 0; first < n_rows; first += CHUNK) {
        a.p.n_rows = n_rows - first < CHUNK ? n_rows - first : (int64_t)CHUNK;
        const int64_t tiles = ceil_div(a.p.n_rows, L::ROWS);
        ts_status     s =
            launch(arrange_kernel<T, L>, dim3((unsigned)(tiles * L::ROWS)), THREADS, 0, stream, a);
        if (!s)
            s = launch(kernel, dim3((unsigned)(tiles * n_tiles)), L::N_THREADS,
                       L::template n_shared<T>(), stream, a);
        if (s) return s;
        a.p.in = (const T *)a.p.in + CHUNK * p.n_in;
        a.p.y = (T *)a.p.y + CHUNK * p.n_out;
    }
    return TS_OK;
}

} // namespace

#endif
