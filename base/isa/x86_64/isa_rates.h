/* SPDX-License-Identifier: Apache-2.0 */
/* isa_rates.h - the fastest memory access and arithmetic of an x86-64 core, and cache flushes.
 * Included by judge/exam/ceiling.c only.
 *
 *   ts_isa_copy         copies n bytes, a multiple of LINE, with streaming stores: no line is read
 *                       before it is overwritten
 *   ts_isa_read         sums n bytes, so that they are read
 *   ts_isa_flush        writes back and evicts every cached line in [begin, end)
 *   ts_isa_fma_steps    STEPS times SUMS independent float32 FMAs, ts_isa_fma_width() lanes each
 *   ts_isa_matrix_gain  bfloat16 rate of the matrix units as a multiple of that; 1: none */
#ifndef TS_ISA_RATES_H
#define TS_ISA_RATES_H

#include <cpuid.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE = 64, TS_ISA_FLUSHES = 1 };
/* Enough independent sums to hide the latency of two units, and few enough to fit in registers. */
enum { SUMS = 12, STEPS = 1 << 16 };

__attribute__((target("avx512f"))) static void copy_lines_512(unsigned char       *to,
                                                              const unsigned char *from, size_t n)
{
    for (size_t i = 0; i + LINE <= n; i += LINE) {
        _mm_prefetch((const char *)from + i + 4096, _MM_HINT_T1);
        _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512(from + i));
    }
    _mm_sfence();
}

static void copy_lines_128(unsigned char *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i + LINE <= n; i += LINE) {
        _mm_prefetch((const char *)from + i + 4096, _MM_HINT_T1);
        for (size_t k = 0; k < LINE; k += 16)
            _mm_stream_si128((__m128i *)(void *)(to + i + k),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + i + k)));
    }
    _mm_sfence();
}

static void ts_isa_copy(unsigned char *to, const unsigned char *from, size_t n)
{
    if (__builtin_cpu_supports("avx512f")) copy_lines_512(to, from, n);
    else copy_lines_128(to, from, n);
}

__attribute__((target("avx512f"))) static uint64_t read_lines_512(const unsigned char *from,
                                                                  size_t               n)
{
    __m512i s = _mm512_setzero_si512();
    for (size_t i = 0; i + LINE <= n; i += LINE) {
        _mm_prefetch((const char *)from + i + 4096, _MM_HINT_T1);
        s = _mm512_add_epi64(s, _mm512_loadu_si512(from + i));
    }
    return (uint64_t)_mm512_reduce_add_epi64(s);
}

static uint64_t read_lines_128(const unsigned char *from, size_t n)
{
    __m128i  s = _mm_setzero_si128();
    uint64_t part[2];
    for (size_t i = 0; i + LINE <= n; i += LINE) {
        _mm_prefetch((const char *)from + i + 4096, _MM_HINT_T1);
        for (size_t k = 0; k < LINE; k += 16)
            s = _mm_add_epi64(s, _mm_loadu_si128((const __m128i *)(const void *)(from + i + k)));
    }
    _mm_storeu_si128((__m128i *)(void *)part, s);
    return part[0] + part[1];
}

static uint64_t ts_isa_read(const unsigned char *from, size_t n)
{
    return __builtin_cpu_supports("avx512f") ? read_lines_512(from, n) : read_lines_128(from, n);
}

static int has_clflushopt(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 23 & 1);
}

__attribute__((target("clflushopt"))) static void flush_opt(const char *p, const char *end)
{
    for (; p < end; p += LINE) _mm_clflushopt((void *)(uintptr_t)p);
    _mm_mfence();
}

static void ts_isa_flush(const void *begin, const void *end)
{
    if (has_clflushopt()) flush_opt(begin, end);
    else
        for (const char *p = begin; p < (const char *)end; p += LINE) _mm_clflush(p);
}

__attribute__((target("avx512f"))) static float steps_512(void)
{
    const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
    __m512       s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = _mm512_set1_ps((float)k);
    for (int i = 0; i < STEPS; i++)
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++) s[k] = _mm512_fmadd_ps(s[k], a, b);
    for (int k = 1; k < SUMS; k++) s[0] = _mm512_add_ps(s[0], s[k]);
    return _mm512_reduce_add_ps(s[0]);
}

__attribute__((target("avx2,fma"))) static float steps_256(void)
{
    const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
    __m256       s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = _mm256_set1_ps((float)k);
    for (int i = 0; i < STEPS; i++)
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++) s[k] = _mm256_fmadd_ps(s[k], a, b);
    for (int k = 1; k < SUMS; k++) s[0] = _mm256_add_ps(s[0], s[k]);
    return _mm256_cvtss_f32(s[0]);
}

static float steps_128(void)
{
    const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(0.001f);
    __m128       s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = _mm_set1_ps((float)k);
    for (int i = 0; i < STEPS; i++)
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++) s[k] = _mm_add_ps(_mm_mul_ps(s[k], a), b);
    for (int k = 1; k < SUMS; k++) s[0] = _mm_add_ps(s[0], s[k]);
    return _mm_cvtss_f32(s[0]);
}

static int ts_isa_fma_width(void)
{
    if (__builtin_cpu_supports("avx512f")) return 16;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 4;
}

static float ts_isa_fma_steps(void)
{
    const int width = ts_isa_fma_width();
    return width == 16 ? steps_512() : width == 8 ? steps_256() : steps_128();
}

/* A tile matmul does 16 * 16 * 32 multiply-adds in 16 cycles, vectors 2 * 16 in one. */
static double ts_isa_matrix_gain(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) ? 16 : 1; /* AMX-BF16 */
}

#endif
