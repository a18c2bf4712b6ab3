/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ceiling.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { LINE = 64, MAX_THREADS = 256 };

typedef struct slice {
    int                  ceiling;
    unsigned char       *to;
    const unsigned char *from;
    size_t               n;
    uint64_t             sum;
    pthread_t            thread;
} slice;

#if defined(__x86_64__)
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

/* Stores that bypass the caches, so that no line is read only to be overwritten. */
static void copy_streaming(unsigned char *to, const unsigned char *from, size_t n)
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
#else
static void copy_streaming(unsigned char *to, const unsigned char *from, size_t n)
{
    memcpy(to, from, n);
}
#endif

static uint64_t read_plain(const unsigned char *from, size_t n)
{
    uint64_t s[8] = { 0 }, w;
    for (size_t i = 0; i + LINE <= n; i += LINE)
        for (int k = 0; k < 8; k++) {
            memcpy(&w, from + i + 8 * k, 8);
            s[k] += w;
        }
    return s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
}

static uint64_t read_all(const unsigned char *from, size_t n)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return read_lines_512(from, n);
#endif
    return read_plain(from, n);
}

static void copy_plain(unsigned char *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i += TS_PAGE) /* short pieces: memcpy must not choose to stream */
        memcpy(to + i, from + i, n - i < TS_PAGE ? n - i : TS_PAGE);
}

static void *pass(void *arg)
{
    slice *s = arg;
    if (s->ceiling == TS_CEILING_COPY) copy_streaming(s->to, s->from, s->n);
    else if (s->ceiling == TS_CEILING_COPY_PLAIN) copy_plain(s->to, s->from, s->n);
    else s->sum = read_all(s->from, s->n);
    return NULL;
}

double ts_ceiling_pass(int ceiling, void *to, const void *from, size_t n, int n_threads)
{
    slice             s[MAX_THREADS];
    volatile uint64_t sink = 0;
    if (n_threads < 1) n_threads = 1;
    if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
    /* To start a thread for less than a megabyte costs more than it gains. */
    if (n_threads > (int)(n >> 20) + 1) n_threads = (int)(n >> 20) + 1;
    const size_t share = n / (size_t)n_threads / LINE * LINE;
    for (int i = 0; i < n_threads; i++) {
        s[i] = (slice) { ceiling,
                         (unsigned char *)to + share * (size_t)i,
                         (const unsigned char *)from + share * (size_t)i,
                         share,
                         0,
                         0 };
        if (i + 1 < n_threads && pthread_create(&s[i].thread, NULL, pass, &s[i])) s[i].n = 0;
    }
    pass(&s[n_threads - 1]);
    size_t done = 0;
    for (int i = 0; i < n_threads; i++) {
        if (i + 1 < n_threads && s[i].n) pthread_join(s[i].thread, NULL);
        done += s[i].n;
        sink += s[i].sum;
    }
    (void)sink; /* or the reads would be for nothing, and left out */
    return (double)done * (ceiling == TS_CEILING_READ ? 1 : 2);
}

void ts_flush_lines(const void *begin, const void *end)
{
#if defined(__x86_64__)
    if (has_clflushopt()) flush_opt(begin, end);
    else
        for (const char *p = begin; p < (const char *)end; p += LINE) _mm_clflush(p);
#else
    (void)begin;
    (void)end;
#endif
}

void ts_describe_cpu(char *text, size_t n)
{
    char  line[256], *name = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && !name && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10)) name = strchr(line, ':');
    if (f) fclose(f);
    if (name) name[strcspn(name, "\n")] = 0;
    snprintf(text, n, "%s, %ld cores", name ? name + 2 : "CPU", sysconf(_SC_NPROCESSORS_ONLN));
}
