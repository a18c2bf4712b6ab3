/* SPDX-License-Identifier: Apache-2.0 */
/* isa_rates.h - the fastest memory access and arithmetic of an unknown core, and cache flushes.
 * Included by judge/exam/ceiling.c only.
 *
 *   ts_isa_copy         copies n bytes, a multiple of LINE, with memcpy
 *   ts_isa_read         sums n bytes, so that they are read
 *   ts_isa_flush        writes back and evicts every cached line in [begin, end)
 *   ts_isa_fma_steps    STEPS times SUMS independent float32 FMAs, ts_isa_fma_width() lanes each
 *   ts_isa_matrix_gain  bfloat16 rate of the matrix units as a multiple of that; 1: none */
#ifndef TS_ISA_RATES_H
#define TS_ISA_RATES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LINE = 64, TS_ISA_FLUSHES = 0 };
/* Enough independent sums to hide the latency of two units, and few enough to fit in registers. */
enum { SUMS = 12, STEPS = 1 << 16 };

static void ts_isa_copy(unsigned char *to, const unsigned char *from, size_t n)
{
    memcpy(to, from, n);
}

static uint64_t ts_isa_read(const unsigned char *from, size_t n)
{
    uint64_t s[8] = { 0 }, w;
    for (size_t i = 0; i + LINE <= n; i += LINE)
        for (int k = 0; k < 8; k++) {
            memcpy(&w, from + i + 8 * k, 8);
            s[k] += w;
        }
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static void ts_isa_flush(const void *begin, const void *end)
{
    (void)begin, (void)end;
}

static int ts_isa_fma_width(void)
{
    return 1;
}

static float ts_isa_fma_steps(void)
{
    float s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = (float)k;
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < SUMS; k++) s[k] = s[k] * 0.999f + 0.001f;
    for (int k = 1; k < SUMS; k++) s[0] += s[k];
    return s[0];
}

static double ts_isa_matrix_gain(void)
{
    return 1;
}

#endif
