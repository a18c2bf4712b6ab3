/* SPDX-License-Identifier: Apache-2.0 */
/* isa_rates.h - the fastest memory access and arithmetic of an aarch64 core, and cache flushes.
 * Included by judge/exam/ceiling.c only.
 *
 *   ts_isa_copy         copies n bytes, a multiple of LINE, with memcpy: streaming stores are not
 *                       faster
 *   ts_isa_read         sums n bytes, so that they are read
 *   ts_isa_flush        writes back and evicts every cached line in [begin, end)
 *   ts_isa_fma_steps    STEPS times SUMS independent float32 FMAs, ts_isa_fma_width() lanes each
 *   ts_isa_matrix_gain  bfloat16 rate of the matrix units as a multiple of that; 1: none */
#ifndef TS_ISA_RATES_H
#define TS_ISA_RATES_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

enum { LINE = 64, TS_ISA_FLUSHES = 1 };
/* Enough independent sums to hide the latency of two units, and few enough to fit in registers. */
enum { SUMS = 20, STEPS = 1 << 16 };

static void ts_isa_copy(unsigned char *to, const unsigned char *from, size_t n)
{
    memcpy(to, from, n);
}

static uint64_t ts_isa_read(const unsigned char *from, size_t n)
{
    uint64x2_t s[4] = { vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0) };
    for (size_t i = 0; i + LINE <= n; i += LINE)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            s[k] = vaddq_u64(s[k], vreinterpretq_u64_u8(vld1q_u8(from + i + 16 * k)));
    return vaddvq_u64(vaddq_u64(vaddq_u64(s[0], s[1]), vaddq_u64(s[2], s[3])));
}

static size_t data_line(void)
{
    uint64_t ctr;
    __asm__("mrs %0, ctr_el0" : "=r"(ctr));
    return (size_t)4 << (ctr >> 16 & 15);
}

static void ts_isa_flush(const void *begin, const void *end)
{
    const size_t line = data_line();
    for (uintptr_t p = (uintptr_t)begin & ~(line - 1); p < (uintptr_t)end; p += line)
        __asm__ volatile("dc civac, %0" : : "r"(p) : "memory");
    __asm__ volatile("dsb ish" : : : "memory");
}

static int ts_isa_fma_width(void)
{
    return 4;
}

static float ts_isa_fma_steps(void)
{
    const float32x4_t a = vdupq_n_f32(0.999f), b = vdupq_n_f32(0.001f);
    float32x4_t       s[SUMS];
#pragma GCC unroll 20 /* this loop too, or gcc keeps the sums in memory */
    for (int k = 0; k < SUMS; k++) s[k] = vdupq_n_f32((float)k);
    for (int i = 0; i < STEPS; i++)
#pragma GCC unroll 20
        for (int k = 0; k < SUMS; k++) s[k] = vfmaq_f32(s[k], a, b);
#pragma GCC unroll 20
    for (int k = 1; k < SUMS; k++) s[0] = vaddq_f32(s[0], s[k]);
    return vaddvq_f32(s[0]);
}

/* A matmul instruction does 16 multiply-adds, a vector instruction 4. */
static double ts_isa_matrix_gain(void)
{
    return getauxval(AT_HWCAP2) >> 14 & 1 ? 4 : 1; /* BF16 */
}

#endif
