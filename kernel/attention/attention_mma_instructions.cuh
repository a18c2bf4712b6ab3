/* SPDX-License-Identifier: Apache-2.0 */
/* attention_mma_instructions.cuh - instructions of sm_80 that have no name in C. */
#ifndef TS_ATTENTION_MMA_INSTRUCTIONS_CUH
#define TS_ATTENTION_MMA_INSTRUCTIONS_CUH

#include <string.h>
#include <type_traits>

#include "dtype.cuh"
#include "shared_memory.cuh"

/* ---- copies to shared memory, which go on while their thread does other things ---- */

/* 16 bytes; zeros if it is not there, and then nothing is read. */
static __device__ __forceinline__ void copy_piece(unsigned to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}

/* 8 bytes, likewise. */
static __device__ __forceinline__ void copy_pair(unsigned to, const void *from, bool there)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 8 : 0)
                 : "memory");
}

/* Until all copies of this thread have come. */
static __device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* ---- elements ---- */

template <class T> static __device__ __forceinline__ T load_element(unsigned at)
{
    unsigned short bits;
    T              x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at) : "memory");
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Two elements, the lower first. */
template <class T> static __device__ __forceinline__ unsigned word_of(T low, T high)
{
    unsigned short l, h;
    memcpy(&l, &low, sizeof l);
    memcpy(&h, &high, sizeof h);
    return (unsigned)h << 16 | l;
}

/* ---- matrices ---- */

/* Four 8 x 8 matrices of 16-bit elements: lane 8 i + r gives the address of row r of matrix i, and
 * lane 4 g + t gets row g, columns 2 t and 2 t + 1 of each; of the transposed ones, column g, rows
 * 2 t and 2 t + 1. */
template <bool TRANSPOSED>
static __device__ __forceinline__ void load_matrices(unsigned (&m)[4], unsigned row)
{
    if constexpr (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                     : "r"(row)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
                     : "r"(row)
                     : "memory");
}

/* d += A B, A 16 x 16, B 16 x 8. Lane 4 g + t has of d rows g (d0, d1) and g + 8 (d2, d3), columns
 * 2 t and 2 t + 1; of A rows g (a[0], a[2]) and g + 8 (a[1], a[3]), the same columns and those 8
 * further on; of B column g, rows 2 t and 2 t + 1 (b0), and those 8 further down (b1). */
template <class T>
static __device__ __forceinline__ void product(float &d0, float &d1, float &d2, float &d3,
                                               const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    if constexpr (std::is_same<T, __half>::value)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
            "%7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* ---- sums in memory that blocks add to in any order ---- */

/* Lane i adds four floats to those of the 128 that it has by lane_sum. One instruction where there
 * is one for it, and whole lines either way. */
static __device__ __forceinline__ int lane_sum(int lane, int i)
{
#if __CUDA_ARCH__ >= 900
    return lane * 4 + i;
#else
    return i * 32 + lane;
#endif
}

static __device__ __forceinline__ void add_four(float *to, int lane, float a, float b, float c,
                                                float d)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + lane * 4), "f"(a),
                 "f"(b), "f"(c), "f"(d)
                 : "memory");
#else
    const float f[4] = { a, b, c, d };
    for (int i = 0; i < 4; i++)
        asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to + lane_sum(lane, i)), "f"(f[i])
                     : "memory");
#endif
}

#endif
