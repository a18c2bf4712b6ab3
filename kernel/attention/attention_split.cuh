/* SPDX-License-Identifier: Apache-2.0 */
/* attention_split.cuh - matmuls of floats on tensor cores, and tiles of floats in shared memory for
 * them; every device from sm_80 on has the instruction (mma.sync, m16n8k8, TF32).
 *
 * TF32 has 11 significant bits. A float x is split into x = h + l: h is x rounded to 11 bits, l is
 * the exact rest, of which the tensor core reads 11 bits. Then a b = h h' + (h l' + l h') + l l';
 * the last term, at most 2^-22 |a b|, is dropped. h h' and the rest have sums of their own: a sum
 * that begins at 0 and has few terms loses little where tensor cores truncate, and one that is
 * infinite because an operand is infinite is not spoilt by inf - inf.
 *
 * The inner index of a matmul may run in any order that both operands share. Lane 4 g + t needs
 * inner indices t and t + 4 of each 8; taking four neighbouring elements of a row for two steps
 * makes that one 16-byte load. Where the inner index is the row, t and t + 4 stand for rows 2 t and
 * 2 t + 1, which is how a lane has its scores: weights are operands as they are.
 *
 * Rows of a tile are D floats long. The 16-byte pieces of row r are swapped by xor with turned(r),
 * so that both ways to read a tile are free of bank conflicts. */
#ifndef TS_ATTENTION_SPLIT_CUH
#define TS_ATTENTION_SPLIT_CUH

#include "attention.cuh"
#include "attention_mma_instructions.cuh"

/* For float; TS_E_UNSUPPORTED: head_dim is no multiple of 4, a tensor is not aligned to 16 bytes,
 * or the device has too little shared memory. There are queries, and lengths are at most
 * MOST_LENGTH. */
ts_status ts_flash_attention_split(const ts_flash_attention_args *a, const ts_exec *x);
ts_status ts_flash_attention_backward_split(const ts_flash_attention_backward_args *a,
                                            const ts_exec                          *x);

namespace
{

/* ---- a float in two ---- */

struct halves {
    unsigned high, low;
};

__device__ __forceinline__ halves split(float x)
{
    const unsigned high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    return { high, __float_as_uint(x - __uint_as_float(high)) };
}

/* d += A B, A 16 x 8, B 8 x 8. Lane 4 g + t has of d rows g (d[0], d[1]) and g + 8 (d[2], d[3]),
 * columns 2 t and 2 t + 1; of A rows g (a[0], a[2]) and g + 8 (a[1], a[3]), columns t and t + 4; of
 * B column g, rows t (b0) and t + 4 (b1). */
__device__ __forceinline__ void tf32_product(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                             unsigned b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct split_a {
    unsigned high[4], low[4];

    __device__ __forceinline__ void set(int i, float x)
    {
        const halves h = split(x);
        high[i] = h.high, low[i] = h.low;
    }
};

/* A sum in two parts. */
struct split_sum {
    float main[4] = { 0, 0, 0, 0 }, rest[4] = { 0, 0, 0, 0 };

    __device__ __forceinline__ void add(const split_a &a, halves b0, halves b1)
    {
        tf32_product(rest, a.low, b0.high, b1.high);
        tf32_product(rest, a.high, b0.low, b1.low);
        tf32_product(main, a.high, b0.high, b1.high);
    }
    /* The rest of an infinite operand is NaN; that of a NaN too, and it counts. */
    __device__ __forceinline__ float of(int i) const
    {
        return fabsf(main[i]) == INFINITY ? main[i] : main[i] + rest[i];
    }
};

/* ---- tiles ---- */

__device__ __forceinline__ int turned(int row)
{
    return (row & 6) ^ ((row & 1) << 2);
}

/* Rows of one head in memory, each of whole 16-byte chunks. Those from `end` on are read as zero,
 * and so are columns from head_dim on. */
struct float_rows {
    const float *first;
    int64_t      stride;
    int          end, head_dim;

    /* By all of the block's threads; the rows have come after copies_wait and a barrier. */
    template <int D, int ROWS, int THREADS>
    __device__ __forceinline__ void bring(unsigned to, int row) const
    {
        constexpr int PIECES = D / 4, STEP = THREADS / PIECES; /* rows at once */
        static_assert(ROWS % STEP == 0 && STEP % 2 == 0, "whole steps");
        const int    mine = (int)threadIdx.x / PIECES, piece = (int)threadIdx.x % PIECES;
        const bool   there = piece * 4 < head_dim;
        const float *from = first + (row + mine) * stride + piece * 4;
#pragma unroll
        for (int r = 0; r < ROWS; r += STEP) {
            const bool copied = there && row + r + mine < end;
            copy_piece(to + (unsigned)((r + mine) * D * 4 + ((piece ^ turned(r + mine)) << 4)),
                       copied ? from : first, copied);
            from += STEP * stride;
        }
    }
};

/* Where a lane reads rows g, g + 8 .. along which the inner index runs. */
template <int D> __device__ __forceinline__ unsigned along_rows(unsigned at)
{
    const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
    return at + (unsigned)(g * D * 4 + ((t ^ turned(g)) << 4));
}

/* Columns 16 i + 4 t .. + 3 of row 8 n + g. */
template <int D> __device__ __forceinline__ float4 along_row(unsigned lane_at, int n, int i)
{
    return load_floats((lane_at ^ (unsigned)((i & 1) << 6)) +
                       (unsigned)(n * 8 * D * 4 + (i >> 1) * 128));
}

/* ---- matmuls of a warp ---- */

/* sum += A B': 16 M rows of A and 8 N rows of B, each as along_rows has them, of 16 `steps`
 * columns. */
template <int D, int M, int N>
__device__ __forceinline__ void add_dots(split_sum (&sum)[M][N], unsigned a_at, unsigned b_at,
                                         int steps)
{
#pragma unroll 2
    for (int i = 0; i < steps; i++) {
        split_a a[M][2];
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float4 x = along_row<D>(a_at, 2 * m + h, i);
                a[m][0].set(h, x.x), a[m][0].set(2 + h, x.y);
                a[m][1].set(h, x.z), a[m][1].set(2 + h, x.w);
            }
#pragma unroll
        for (int n = 0; n < N; n++) {
            const float4 y = along_row<D>(b_at, n, i);
            const halves b[4] = { split(y.x), split(y.y), split(y.z), split(y.w) };
#pragma unroll
            for (int m = 0; m < M; m++) {
                sum[m][n].add(a[m][0], b[0], b[1]);
                sum[m][n].add(a[m][1], b[2], b[3]);
            }
        }
    }
}

/* Rows of B which are the inner index. G neighbouring columns are one load: of each 8 G columns,
 * group j of 8 has columns G g + j. */
template <int D, int G> struct inner_rows {
    unsigned at[2]; /* where a lane reads rows 2 t and 2 t + 1 of 8, columns G g .. */

    __device__ __forceinline__ explicit inner_rows(unsigned tile)
    {
        const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int row = 2 * t + h;
            at[h] =
                tile + (unsigned)(row * D * 4 + ((g * G / 4 ^ turned(row)) << 4) + g * G % 4 * 4);
        }
    }
    /* Of rows 8 n .. and columns 8 G i .. */
    __device__ __forceinline__ void load(float (&b)[2][G], int n, int i) const
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            /* Pieces are swapped within eight: 16 columns are either half of them. */
            const unsigned from =
                (unsigned)(n * 8 * D * 4) +
                (G == 4 ? at[h] + (unsigned)(i * 128)
                        : (at[h] ^ (unsigned)((i & 1) << 6)) + (unsigned)(i / 2 * 128));
            if constexpr (G == 4) {
                const float4 x = load_floats(from);
                b[h][0] = x.x, b[h][1] = x.y, b[h][2] = x.z, b[h][3] = x.w;
            } else {
                const float2 x = load_pair(from);
                b[h][0] = x.x, b[h][1] = x.y;
            }
        }
    }
};

template <int M, int G>
__device__ __forceinline__ void add_columns(split_sum (&sum)[M][G], const split_a *(&a)[M],
                                            const float (&b)[2][G])
{
#pragma unroll
    for (int j = 0; j < G; j++) {
        const halves b0 = split(b[0][j]), b1 = split(b[1][j]);
#pragma unroll
        for (int m = 0; m < M; m++) sum[m][j].add(*a[m], b0, b1);
    }
}

/* W B: weights of 16 M rows and 8 N inner ones, as they lay in sums, and the inner rows of B. */
template <int D, int M, int N, int G> struct weighted {
    split_a          w[M][N];
    inner_rows<D, G> b;

    __device__ __forceinline__ weighted(const float (&s)[M][N * 4], unsigned tile) : b(tile)
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++) {
                w[m][n].set(0, s[m][4 * n]), w[m][n].set(2, s[m][4 * n + 1]);
                w[m][n].set(1, s[m][4 * n + 2]), w[m][n].set(3, s[m][4 * n + 3]);
            }
    }
    /* Columns 8 G i .. of the product. */
    __device__ __forceinline__ void find(split_sum (&sum)[M][G], int i) const
    {
#pragma unroll
        for (int n = 0; n < N; n++) {
            const split_a *a[M];
            float          x[2][G];
#pragma unroll
            for (int m = 0; m < M; m++) a[m] = &w[m][n];
            b.load(x, n, i);
            add_columns(sum, a, x);
        }
    }
};

/* ---- results ---- */

/* Row h (0: g, 1: g + 8) of 16 rows of such sums, times `by`, to columns from `first` on of a row
 * in memory. A lane has 2 G neighbouring columns of each group. */
template <int GROUPS, int G, int N>
__device__ __forceinline__ void store_columns(float *row, int first, int head_dim,
                                              const float (&sum)[N], int h, float by)
{
    const int column = first + (int)threadIdx.x % 4 * 2 * G;
#pragma unroll
    for (int n = 0; n < GROUPS; n++)
#pragma unroll
        for (int i = 0; i < 2 * G; i += 4) {
            float x[4];
            if (column + n * 8 * G + i >= head_dim) continue;
#pragma unroll
            for (int e = 0; e < 4; e++)
                x[e] = sum[n * 4 * G + (i + e) % G * 4 + h * 2 + (i + e) / G] * by;
            *(float4 *)(row + column + n * 8 * G + i) = make_float4(x[0], x[1], x[2], x[3]);
        }
}

/* To sums in memory that blocks add to in any order. */
__device__ __forceinline__ void add_floats(float *to, float a, float b, float c, float d)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c),
                 "f"(d)
                 : "memory");
#else
    atomicAdd(to, a), atomicAdd(to + 1, b), atomicAdd(to + 2, c), atomicAdd(to + 3, d);
#endif
}

} // namespace

#endif
