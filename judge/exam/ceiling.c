/* SPDX-License-Identifier: Apache-2.0 */
/* ceiling.c - measures peak rates with persistent threads, and flushes caches. */
#define _GNU_SOURCE
#include "ceiling.h"
#include "clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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

/* Persistent threads, since creating and joining them would take longer than the passes. Each is
 * pinned to a core, the i-th of those that the process had when it was created. Between passes they
 * sleep; they are awake and at the start line before the clock starts. */

typedef struct job {
    int                  ceiling;
    unsigned char       *to;
    const unsigned char *from;
    size_t               n;
    uint64_t             sum;
    float                fma;
    const ts_exp_sums   *sums;
    double               exps;
    double               best_ns, end_ns;
} job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  call, rest;
    pid_t           owner; /* a forked child has the memory but not the threads */
    int             n;
    unsigned        epoch;
    void (*work)(job *j);
    int        asked, left;
    atomic_int waiting, go;
    job        job[MAX_THREADS];
} team = { .lock = PTHREAD_MUTEX_INITIALIZER,
           .call = PTHREAD_COND_INITIALIZER,
           .rest = PTHREAD_COND_INITIALIZER };

static void *member(void *at)
{
    const int i = (int)(intptr_t)at;
    unsigned  seen = 0;
    for (;;) {
        pthread_mutex_lock(&team.lock);
        while (team.epoch == seen || i >= team.asked) {
            seen = team.epoch;
            pthread_cond_wait(&team.call, &team.lock);
        }
        seen = team.epoch;
        pthread_mutex_unlock(&team.lock);
        atomic_fetch_sub(&team.waiting, 1);
        while (!atomic_load(&team.go)) sched_yield(); /* the caller may need this core */
        team.work(&team.job[i]);
        team.job[i].end_ns = ts_now_ns();
        pthread_mutex_lock(&team.lock);
        if (!--team.left) pthread_cond_signal(&team.rest);
        pthread_mutex_unlock(&team.lock);
    }
    return NULL;
}

static void choose_core(pthread_attr_t *a, int i)
{
    static cpu_set_t all;
    cpu_set_t        own;
    if (!i && sched_getaffinity(0, sizeof all, &all)) CPU_ZERO(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || i-- > 0) continue;
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        pthread_attr_setaffinity_np(a, sizeof own, &own);
        return;
    }
}

/* As many of n as can be created. */
static int gather(int n)
{
    if (n < 1) n = 1;
    if (n > MAX_THREADS) n = MAX_THREADS;
    if (team.owner != getpid()) {
        team.owner = getpid();
        team.n = team.asked = 0;
        pthread_mutex_init(&team.lock, NULL);
        pthread_cond_init(&team.call, NULL);
        pthread_cond_init(&team.rest, NULL);
    }
    for (; team.n < n; team.n++) {
        pthread_t      t;
        pthread_attr_t a;
        pthread_attr_init(&a);
        pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
        choose_core(&a, team.n);
        const bool made = !pthread_create(&t, &a, member, (void *)(intptr_t)team.n);
        pthread_attr_destroy(&a);
        if (!made) break;
    }
    return n < team.n ? n : team.n;
}

/* Nanoseconds from the start until the last of the first n jobs is done. */
static double together(int n, void (*work)(job *j))
{
    team.work = work;
    atomic_store(&team.go, 0);
    atomic_store(&team.waiting, n);
    pthread_mutex_lock(&team.lock);
    team.asked = team.left = n;
    team.epoch++;
    pthread_cond_broadcast(&team.call);
    pthread_mutex_unlock(&team.lock);
    while (atomic_load(&team.waiting)) sched_yield();
    const double begin = ts_now_ns();
    double       end = begin;
    atomic_store(&team.go, 1);
    pthread_mutex_lock(&team.lock);
    while (team.left) pthread_cond_wait(&team.rest, &team.lock);
    pthread_mutex_unlock(&team.lock);
    for (int i = 0; i < n; i++)
        if (team.job[i].end_ns > end) end = team.job[i].end_ns;
    return end - begin;
}

/* ---- their work ---- */

static void copy_plain(unsigned char *to, const unsigned char *from, size_t n)
{
    enum { PIECE = 4096 }; /* short chunks: memcpy must not choose streaming stores */
    for (size_t i = 0; i < n; i += PIECE) memcpy(to + i, from + i, n - i < PIECE ? n - i : PIECE);
}

static void pass(job *j)
{
    if (j->ceiling == TS_CEILING_COPY) ts_isa_copy(j->to, j->from, j->n);
    else if (j->ceiling == TS_CEILING_COPY_PLAIN) copy_plain(j->to, j->from, j->n);
    else j->sum = ts_isa_read(j->from, j->n); /* stored, so that it is not optimised away */
}

ts_pass ts_ceiling_pass(int ceiling, void *to, const void *from, size_t n, int n_threads)
{
    n_threads = gather(n_threads);
    if (!n_threads) return (ts_pass) { 0, 1 };
    const size_t share = n / (size_t)n_threads / LINE * LINE;
    for (int i = 0; i < n_threads; i++)
        team.job[i] = (job) { .ceiling = ceiling,
                              .to = (unsigned char *)to + share * (size_t)i,
                              .from = (const unsigned char *)from + share * (size_t)i,
                              .n = share };
    const double ns = together(n_threads, pass);
    return (ts_pass) { (double)share * n_threads * (ceiling == TS_CEILING_READ ? 1 : 2), ns };
}

static void multiply(job *j)
{
    const double begin = ts_now_ns();
    j->fma = ts_isa_fma_steps();
    const double ns = ts_now_ns() - begin;
    if (!(j->best_ns > 0) || ns < j->best_ns) j->best_ns = ns;
}

/* The best rate of each core while all of them work: of many cores, one is nearly always disturbed.
 */
static double best_rates(int n_threads, void (*work)(job *j), double operations)
{
    enum { PASSES = 32 }; /* less than a millisecond each */
    double    sum = 0;
    const int n = gather(n_threads);
    for (int i = 0; i < n; i++) team.job[i].best_ns = 0;
    for (int i = 0; n && i < PASSES; i++) together(n, work);
    for (int i = 0; i < n; i++) sum += operations / team.job[i].best_ns;
    return sum;
}

double ts_ceiling_gflops(int n_threads)
{
    return best_rates(n_threads, multiply, 2.0 * STEPS * SUMS * ts_isa_fma_width());
}

/* As many as a first-level cache holds, from 0 to -16. */
static float exponents[4096];
enum { EXPONENTS = sizeof exponents / sizeof *exponents, ROUNDS = 16 };

static void exponentiate(job *j, bool wide)
{
    const double begin = ts_now_ns();
    j->exps = 0;
    for (int i = 0; i < ROUNDS; i++)
        j->exps += wide ? j->sums->in_double(exponents, EXPONENTS)
                        : (double)j->sums->in_float(exponents, EXPONENTS);
    const double ns = ts_now_ns() - begin;
    if (!(j->best_ns > 0) || ns < j->best_ns) j->best_ns = ns;
}

static void exponentiate_float(job *j)
{
    exponentiate(j, false);
}

static void exponentiate_double(job *j)
{
    exponentiate(j, true);
}

double ts_ceiling_exps(const ts_exp_sums *sums, bool wide, int n_threads)
{
    for (int i = 0; i < EXPONENTS; i++) exponents[i] = -16.0F * (float)i / EXPONENTS;
    for (int i = 0; i < MAX_THREADS; i++) team.job[i].sums = sums;
    return best_rates(n_threads, wide ? exponentiate_double : exponentiate_float,
                      (double)EXPONENTS * ROUNDS);
}

double ts_ceiling_matrix(void)
{
    return ts_isa_matrix_gain();
}

/* ---- caches ---- */

void ts_flush_lines(const void *begin, const void *end)
{
    ts_isa_flush(begin, end);
}

static void drop(job *j)
{
    ts_isa_flush(j->from, j->from + j->n);
}

void ts_flush_together(const void *begin, size_t n, int n_threads)
{
    enum { ALONE = 1 << 20 }; /* below this size other threads would wake too late to help */
    n_threads = n < ALONE ? 0 : gather(n_threads);
    if (n_threads < 2) {
        ts_isa_flush(begin, (const char *)begin + n);
        return;
    }
    const size_t share = n / (size_t)n_threads / LINE * LINE;
    for (int i = 0; i < n_threads; i++)
        team.job[i] = (job) { .from = (const unsigned char *)begin + share * (size_t)i,
                              .n = i + 1 < n_threads ? share : n - share * (size_t)i };
    together(n_threads, drop);
}

/* Nanoseconds to chase pointers through every line once: each load depends on the previous one. */
static double follow(void *volatile *first)
{
    void *volatile *p = first;
    const double    begin = ts_now_ns();
    do p = *p;
    while (p != first);
    return ts_now_ns() - begin;
}

double ts_flush_effect(void)
{
    enum { LINES = 1024, PASSES = 9 }; /* 64 KiB */
    static _Alignas(LINE) struct {
        void *volatile next;
        char rest[LINE - sizeof(void *)];
    } line[LINES];
    double   warm = 1e18, cold = 1e18;
    int      order[LINES];
    uint32_t any = 1;
    /* One cycle in an order without steps of one size, which some prefetchers follow. */
    for (int i = 0; i < LINES; i++) order[i] = i;
    for (int i = LINES - 1; i > 0; i--) {
        any = any * 1664525 + 1013904223;
        const int k = (int)((any >> 8) % (uint32_t)(i + 1)), was = order[i];
        order[i] = order[k], order[k] = was;
    }
    for (int i = 0; i < LINES; i++)
        line[order[i]].next = (void *)&line[order[(i + 1) % LINES]].next;
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
