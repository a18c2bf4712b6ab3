/* SPDX-License-Identifier: Apache-2.0 */
/* ceiling_flops.c - how many float32 operations a second this machine's cores do, by doing them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

#include "ceiling.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* As many independent sums as hide the latency of two units, and fit the registers. */
enum { MAX_THREADS = 256, SUMS = 12, STEPS = 1 << 16 };

#if defined(__x86_64__)
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
#endif

static float steps_plain(void)
{
    float s[SUMS];
    for (int k = 0; k < SUMS; k++) s[k] = (float)k;
    for (int i = 0; i < STEPS; i++)
        for (int k = 0; k < SUMS; k++) s[k] = s[k] * 0.999f + 0.001f;
    for (int k = 1; k < SUMS; k++) s[0] += s[k];
    return s[0];
}

static int width(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return 16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
    return 1;
}

static void *work(void *sum)
{
    float *s = sum;
#if defined(__x86_64__)
    if (width() == 16) *s += steps_512();
    if (width() == 8) *s += steps_256();
#endif
    if (width() == 1) *s += steps_plain();
    return NULL;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

double ts_ceiling_gflops(int n_threads)
{
    static float sum[MAX_THREADS];
    pthread_t    thread[MAX_THREADS];
    double       best = 0;
    const int    n = n_threads < 1 ? 1 : n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    for (int pass = 0; pass < 8; pass++) {
        int          begun = 1;
        const double begin = now_ns();
        while (begun < n && !pthread_create(&thread[begun], NULL, work, &sum[begun])) begun++;
        work(&sum[0]);
        for (int i = 1; i < begun; i++) pthread_join(thread[i], NULL);
        const double rate = 2.0 * STEPS * SUMS * width() * begun / (now_ns() - begin);
        if (rate > best) best = rate;
    }
    return best;
}
