/* SPDX-License-Identifier: Apache-2.0 */
/* attention_mma.cuh - warp-level mma, which every device from sm_80 on has, and tiles of 16-bit
 * elements in shared memory for it.
 *
 * The distance between rows of a tile is their length plus 16 bytes, an odd multiple of 16 bytes:
 * the 16-byte chunks of eight rows of a matrix are then in different banks, and an address is a
 * register plus a constant. Shared memory is addressed by 32 bits. */
#ifndef TS_ATTENTION_MMA_CUH
#define TS_ATTENTION_MMA_CUH

#include "attention.cuh"
#include "attention_mma_instructions.cuh"

namespace
{

/* Rows of head_dim elements, at most D, with zeros up to D. */
template <int D> constexpr int PITCH = D * 2 + 16; /* bytes */

/* Rows of one head in memory. Those from `end` on are read as zero. */
template <class T> struct head_rows {
    const T *first;
    int64_t  stride;
    int      end, head_dim;
    bool in_pieces; /* every row begins at a multiple of 16 bytes, and has whole 16-byte chunks */

    /* By all of the block's threads; the rows have come after copies_wait and a barrier. */
    template <int D, int ROWS, int THREADS>
    __device__ __forceinline__ void bring(unsigned to, int row) const
    {
        if (in_pieces) bring_pieces<D, ROWS, THREADS>(to, row);
        else bring_elements<D, ROWS, THREADS>(to, row);
    }

    template <int D, int ROWS, int THREADS>
    __device__ __forceinline__ void bring_pieces(unsigned to, int row) const
    {
        constexpr int PIECES = D / 8, STEP = THREADS / PIECES; /* rows at once */
        const int     mine = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
        const bool    there = piece * 8 < head_dim;
        const T      *from = first + (row + mine) * stride + piece * 8;
        to += (unsigned)(mine * PITCH<D> + piece * 16);
#pragma unroll
        for (int r = 0; r < ROWS; r += STEP) {
            const bool copied = there && row + r + mine < end;
            if (mine < STEP && r + mine < ROWS)
                copy_piece(to + (unsigned)(r * PITCH<D>), copied ? from : first, copied);
            from += STEP * stride;
        }
    }

    template <int D, int ROWS, int THREADS>
    __device__ __forceinline__ void bring_elements(unsigned to, int row) const
    {
#pragma unroll 1
        for (int i = (int)threadIdx.x; i < ROWS * D / 2; i += THREADS) {
            const int  r = i / (D / 2), d = i % (D / 2) * 2;
            const bool there = row + r < end;
            const T   *from = first + (row + r) * stride + d;
            const T    zero = {};
            store_word(to + (unsigned)(r * PITCH<D> + d * 2),
                       word_of(there && d < head_dim ? from[0] : zero,
                               there && d + 1 < head_dim ? from[1] : zero));
        }
    }
};

/* ---- where a lane's rows of the matrices are: `at` is where row 0 of the tile begins ---- */

/* A, 16 rows; or B of 16 rows which are the inner index, transposed while they are read. */
template <int D> __device__ __forceinline__ unsigned rows_then_columns(unsigned at)
{
    const int lane = (int)threadIdx.x % 32;
    return at + (unsigned)(lane % 16 * PITCH<D> + lane / 16 * 16);
}

/* B, of 16 rows along which the inner index runs; or A of rows which are the inner index. */
template <int D> __device__ __forceinline__ unsigned columns_then_rows(unsigned at)
{
    const int lane = (int)threadIdx.x % 32;
    return at + (unsigned)((lane / 16 * 8 + lane % 8) * PITCH<D> + lane / 8 % 2 * 16);
}

/* ---- a warp's products; sums are laid out as in attention_rows.cuh ---- */

/* Columns 16 n .. of the sums get A B. */
template <class T, int N>
__device__ __forceinline__ void add_product(float (&sum)[N], int n, const unsigned (&a)[4],
                                            const unsigned (&b)[4])
{
    product<T>(sum[8 * n], sum[8 * n + 1], sum[8 * n + 2], sum[8 * n + 3], a, b[0], b[1]);
    product<T>(sum[8 * n + 4], sum[8 * n + 5], sum[8 * n + 6], sum[8 * n + 7], a, b[2], b[3]);
}

/* sum += A B': 16 * TILES rows of A, from a_rows on, and N rows of B, from b_rows on, of D
 * elements, each as its lanes see them. */
template <class T, int D, int TILES, int N>
__device__ __forceinline__ void add_scores(float (&sum)[TILES][N / 2], unsigned a_rows,
                                           unsigned b_rows)
{
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        unsigned a[TILES][4], b[4];
#pragma unroll
        for (int t = 0; t < TILES; t++)
            load_matrices<false>(a[t], a_rows + (unsigned)(t * 16 * PITCH<D> + i * 32));
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            load_matrices<false>(b, b_rows + (unsigned)(n * 16 * PITCH<D> + i * 32));
#pragma unroll
            for (int t = 0; t < TILES; t++) add_product<T>(sum[t], n, a[t], b);
        }
    }
}

/* sum += W B: W are weights of 16 rows and N inner ones, narrowed as they lay in the sums; B's rows
 * are the inner ones, of PITCH<D> bytes, its COLUMNS columns those of the sum. */
template <class T, int D, int COLUMNS, int TILES, int N>
__device__ __forceinline__ void add_weighted(float (&sum)[TILES][COLUMNS / 2],
                                             const unsigned (&w)[TILES][N / 4], unsigned b_rows)
{
#pragma unroll
    for (int i = 0; i < N / 16; i++)
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            unsigned b[4];
            load_matrices<true>(b, b_rows + (unsigned)(i * 16 * PITCH<D> + n * 32));
#pragma unroll
            for (int t = 0; t < TILES; t++) {
                const unsigned a[4] = { w[t][4 * i], w[t][4 * i + 1], w[t][4 * i + 2],
                                        w[t][4 * i + 3] };
                add_product<T>(sum[t], n, a, b);
            }
        }
}

/* ---- results ---- */

/* 16 rows of sums, narrowed, to a tile of a warp's own. */
template <class T, int D, int N>
__device__ __forceinline__ void stage_sums(unsigned to, const float (&sum)[N], float first,
                                           float second)
{
    const int lane = (int)threadIdx.x % 32;
    to += (unsigned)(lane / 4 * PITCH<D> + lane % 4 * 4);
#pragma unroll
    for (int j = 0; j < N / 4; j++) {
        store_word(to + (unsigned)(j * 16),
                   narrow(sum[4 * j] * first, sum[4 * j + 1] * first, T()));
        store_word(to + (unsigned)(8 * PITCH<D> + j * 16),
                   narrow(sum[4 * j + 2] * second, sum[4 * j + 3] * second, T()));
    }
}

/* From there to `row` and the following ones of a head, n of them, columns `from` .. `from` +
 * COLUMNS - 1, by the same warp. */
template <class T, int D, int COLUMNS>
__device__ __forceinline__ void store_staged(T *head, int64_t stride, int row, int n, int from,
                                             int head_dim, bool in_pieces, unsigned at)
{
    const int width = min(COLUMNS, head_dim - from); /* may be negative: nothing is stored */
    __syncwarp();
    if (in_pieces)
#pragma unroll 4
        for (int i = (int)threadIdx.x % 32; i < n * (COLUMNS / 8); i += 32) {
            const int r = i / (COLUMNS / 8), piece = i % (COLUMNS / 8);
            if (piece * 8 < width)
                *(uint4 *)(head + (row + r) * stride + from + piece * 8) =
                    load_piece(at + (unsigned)(r * PITCH<D> + piece * 16));
        }
    else
#pragma unroll 1
        for (int i = (int)threadIdx.x % 32; i < n * COLUMNS; i += 32) {
            const int r = i / COLUMNS, d = i % COLUMNS;
            if (d < width)
                head[(row + r) * stride + from + d] =
                    load_element<T>(at + (unsigned)(r * PITCH<D> + d * 2));
        }
}

} // namespace

#endif
