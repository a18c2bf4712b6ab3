/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "ceiling.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "isa_name.h"
#include "isa_rates.h"
#include "worker.h"

enum { MAX_THREADS = 256 };

typedef struct slice {
    int                  ceiling;
    unsigned char       *to;
    const unsigned char *from;
    size_t               n;
    uint64_t             sum;
    pthread_t            thread;
} slice;

static void copy_plain(unsigned char *to, const unsigned char *from, size_t n)
{
    enum { PIECE = 4096 }; /* short pieces: memcpy must not choose to stream */
    for (size_t i = 0; i < n; i += PIECE) memcpy(to + i, from + i, n - i < PIECE ? n - i : PIECE);
}

static void *pass(void *arg)
{
    slice *s = arg;
    if (s->ceiling == TS_CEILING_COPY) ts_isa_copy(s->to, s->from, s->n);
    else if (s->ceiling == TS_CEILING_COPY_PLAIN) copy_plain(s->to, s->from, s->n);
    else s->sum = ts_isa_read(s->from, s->n);
    return NULL;
}

/* The i-th thread besides the caller's, on a core of its own: where the system places a new thread
 * it often stays on its maker's core for longer than a pass takes. False: none could be made. */
static bool start(pthread_t *thread, int i, void *(*work)(void *), void *arg)
{
    cpu_set_t      may;
    pthread_attr_t a;
    const int      own = sched_getcpu();
    pthread_attr_init(&a);
    if (!sched_getaffinity(0, sizeof may, &may))
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &may) || cpu == own || i-- > 0) continue;
            CPU_ZERO(&may);
            CPU_SET(cpu, &may);
            pthread_attr_setaffinity_np(&a, sizeof may, &may);
            break;
        }
    const bool made = !pthread_create(thread, &a, work, arg);
    pthread_attr_destroy(&a);
    return made;
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
        if (i + 1 < n_threads && !start(&s[i].thread, i, pass, &s[i])) s[i].n = 0;
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
    ts_isa_flush(begin, end);
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Nanoseconds to follow a chain through every line once: each address is known only when the line
 * before has come. */
static double follow(void *volatile *first)
{
    void *volatile *p = first;
    const double    begin = now_ns();
    do p = *p;
    while (p != first);
    return now_ns() - begin;
}

double ts_flush_effect(void)
{
    enum { LINES = 1024, STEP = 389, PASSES = 9 }; /* 64 KiB; the step is prime, and no stride */
    static _Alignas(LINE) struct {
        void *volatile next;
        char rest[LINE - sizeof(void *)];
    } line[LINES];
    double warm = 1e18, cold = 1e18;
    for (int i = 0; i < LINES; i++) line[i].next = (void *)&line[(i + STEP) % LINES].next;
    for (int i = 0; i < PASSES; i++) {
        follow(&line[0].next);
        const double w = follow(&line[0].next);
        ts_flush_lines(line, line + LINES);
        const double c = follow(&line[0].next);
        if (w < warm) warm = w;
        if (c < cold) cold = c;
    }
    return cold / warm;
}

void ts_describe_cpu(char *text, size_t n)
{
    char name[256];
    ts_isa_cpu_name(name, sizeof name);
    snprintf(text, n, "%s, %ld cores", name, sysconf(_SC_NPROCESSORS_ONLN));
}

static void *work(void *sum)
{
    float *s = sum;
    *s += ts_isa_fma_steps();
    return NULL;
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
        while (begun < n && start(&thread[begun], begun - 1, work, &sum[begun])) begun++;
        work(&sum[0]);
        for (int i = 1; i < begun; i++) pthread_join(thread[i], NULL);
        const double rate = 2.0 * STEPS * SUMS * ts_isa_fma_width() * begun / (now_ns() - begin);
        if (rate > best) best = rate;
    }
    return best;
}
