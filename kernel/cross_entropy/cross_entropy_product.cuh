/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_product.cuh - matmuls c = a b in tiles of 128 x 128 by a block of 256 threads: mma
 * of sm_80 for 16-bit elements, with sums in float, and multiply-adds for float.
 *
 * Both factors go through shared memory as [row][inner index], DEEP of the inner index at a time;
 * the next are loaded into registers meanwhile. An operand is stored along the inner index or
 * across it; the latter is transposed on the way. Elements past an operand's end are read as 0, and
 * so are the rows of h that are not counted: they may be NaN, which times a gradient of 0 is NaN.
 * */
#ifndef TS_CROSS_ENTROPY_PRODUCT_CUH
#define TS_CROSS_ENTROPY_PRODUCT_CUH

#include <string.h>
#include <type_traits>

#include "cross_entropy.cuh"

namespace
{

enum { TILE = 128, DEEP = 32, PRODUCT_THREADS = 256, PER_THREAD = TILE * DEEP / PRODUCT_THREADS };

/* Element (row, inner) is at[row * stride + inner], or across: at[inner * stride + row]. */
template <class T> struct operand {
    const T       *at;
    int64_t        stride, n_rows, n_inner;
    bool           across;
    const int32_t *target; /* with `across`: of each inner index; NULL: all count */
};

/* A row of a tile in shared memory: an odd number of 32-bit words, or of 16-byte chunks. */
template <class T> constexpr int PITCH = sizeof(T) == 4 ? DEEP + 1 : DEEP + 8;

/* This thread's elements of the tile whose first row and inner index these are. Neighbours have
 * what lies side by side. */
template <class T>
__device__ __forceinline__ void bring(const rule &r, const operand<T> &o, int64_t row,
                                      int64_t inner, T (&to)[PER_THREAD])
{
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        const int     at = i * PRODUCT_THREADS + (int)threadIdx.x;
        const int64_t n = row + (o.across ? at % TILE : at / DEEP);
        const int64_t k = inner + (o.across ? at / TILE : at % DEEP);
        const bool    there =
            n < o.n_rows && k < o.n_inner && (!o.target || is_counted(r, o.target[k]));
        from_float(&to[i], 0.0f);
        if (there) to[i] = o.across ? o.at[k * o.stride + n] : o.at[n * o.stride + k];
    }
}

template <class T>
__device__ __forceinline__ void keep(const operand<T> &o, const T (&from)[PER_THREAD], T *tile)
{
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
        const int at = i * PRODUCT_THREADS + (int)threadIdx.x;
        const int n = o.across ? at % TILE : at / DEEP, k = o.across ? at / TILE : at % DEEP;
        tile[n * PITCH<T> + k] = from[i];
    }
}

/* ---- float: a thread has rows y + 16 i and columns x + 16 j ---- */

template <class T> struct sums {
    float c[8][8];

    __device__ __forceinline__ void add(const T *a, const T *b)
    {
        const int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
#pragma unroll 4
        for (int k = 0; k < DEEP; k++) {
            float left[8], right[8];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                left[i] = a[(y + 16 * i) * PITCH<T> + k];
                right[i] = b[(x + 16 * i) * PITCH<T> + k];
            }
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++) c[i][j] = fmaf(left[i], right[j], c[i][j]);
        }
    }
    template <class F> __device__ __forceinline__ void each(const F &f) const
    {
        const int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) f(y + 16 * i, x + 16 * j, c[i][j]);
    }
};

/* ---- 16 bits: a warp has 64 rows by 32 columns, in matrices of 16 x 8 ---- */

/* d += A B, A 16 x 16, B 16 x 8. Lane 4 g + t has of d rows g and g + 8, columns 2 t and 2 t + 1;
 * of A the same rows, columns 2 t, 2 t + 1 (a[0], a[1]) and 8 further on (a[2], a[3]); of B column
 * g, rows 2 t and 2 t + 1 (b[0]), and 8 further down (b[1]). */
template <class T>
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4],
                                         const unsigned (&b)[2])
{
    if constexpr (std::is_same<T, __half>::value)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <class T> struct warp_sums {
    float c[4][4][4];

    static __device__ __forceinline__ int row(void)
    {
        return (int)threadIdx.x / 128 * 64 + (int)threadIdx.x % 32 / 4;
    }
    static __device__ __forceinline__ int column(void)
    {
        return (int)threadIdx.x / 32 % 4 * 32;
    }
    /* Two elements, at an even place. */
    static __device__ __forceinline__ unsigned pair(const T *tile, int n, int k)
    {
        unsigned w;
        memcpy(&w, __builtin_assume_aligned(tile + n * PITCH<T> + k, 4), sizeof w);
        return w;
    }
    __device__ __forceinline__ void add(const T *a, const T *b)
    {
        const int g = (int)threadIdx.x % 32 / 4, t = (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int k = 0; k < DEEP; k += 16) {
            unsigned right[4][2];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                right[j][0] = pair(b, column() + 8 * j + g, k + t);
                right[j][1] = pair(b, column() + 8 * j + g, k + t + 8);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const unsigned left[4] = { pair(a, row() + 16 * i, k + t),
                                           pair(a, row() + 16 * i + 8, k + t),
                                           pair(a, row() + 16 * i, k + t + 8),
                                           pair(a, row() + 16 * i + 8, k + t + 8) };
#pragma unroll
                for (int j = 0; j < 4; j++) multiply<T>(c[i][j], left, right[j]);
            }
        }
    }
    template <class F> __device__ __forceinline__ void each(const F &f) const
    {
        const int t = (int)threadIdx.x % 4 * 2;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int e = 0; e < 4; e++)
                    f(row() + 16 * i + e / 2 * 8, column() + 8 * j + t + e % 2, c[i][j][e]);
    }
};

template <> struct sums<__half> : warp_sums<__half> {
};
template <> struct sums<__nv_bfloat16> : warp_sums<__nv_bfloat16> {
};

/* In float, alike terms are rounded alike: sums begin anew after so many. */
template <class T> constexpr int64_t SEGMENT = sizeof(T) == 4 ? 512 : INT64_MAX;

/* put(row, column, sum, whether it is the first) for every element of the block's tile that is
 * there, once for each segment. */
template <class T, class Put>
__device__ __forceinline__ void product(const rule &r, const operand<T> &a, const operand<T> &b,
                                        const Put &put)
{
    __shared__ __align__(16) unsigned char memory[2 * TILE * PITCH<T> * sizeof(T)];
    T *const left = (T *)memory, *const right = left + TILE * PITCH<T>;
    const int64_t row = (int64_t)blockIdx.x * TILE, column = (int64_t)blockIdx.y * TILE;
    T             next_left[PER_THREAD], next_right[PER_THREAD];
    sums<T>       s;
    memset(&s, 0, sizeof s);
    bring(r, a, row, 0, next_left);
    bring(r, b, column, 0, next_right);
    for (int64_t k = 0; k < a.n_inner; k += DEEP) {
        keep(a, next_left, left);
        keep(b, next_right, right);
        __syncthreads();
        bring(r, a, row, k + DEEP, next_left);
        bring(r, b, column, k + DEEP, next_right);
        s.add(left, right);
        __syncthreads();
        const int64_t end = k + DEEP;
        if (end < a.n_inner && (sizeof(T) != 4 || end % SEGMENT<T> != 0)) continue;
        s.each([&](int i, int j, float v) {
            if (row + i < a.n_rows && column + j < b.n_rows)
                put(row + i, column + j, v, end <= SEGMENT<T>);
        });
        memset(&s, 0, sizeof s);
    }
}

} // namespace

#endif
