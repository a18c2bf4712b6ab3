/* SPDX-License-Identifier: Apache-2.0 */
/* awake.c - keeps cores awake for the start of a timed call. */
#define _GNU_SOURCE
#include "awake.h"
#include "clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "isa_core.h"

enum { MOST = CPU_SETSIZE };

/* A core that does not respond in this time has other work, and is awake. */
static const double LIMIT_NS = 5e6;

/* How long to spin before go, if go does not come, and after it. After that time every thread with
 * work has its core, and at the next tick the scheduler would run even the lowest class. */
static const double BEFORE_NS = 30e6, AFTER_NS = 2e6;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  call;
    pid_t           owner; /* a forked child has the memory but not the threads */
    cpu_set_t       made, asked;
    unsigned        epoch;
    _Atomic(double) until;
    atomic_int      up;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER, .call = PTHREAD_COND_INITIALIZER };

/* The lowest class yields at once only to threads of the same scheduling group, and an entrant's
 * session is a group of its own (autogroup). Without this call the entrant waited for a tick or for
 * the spinning to end: calls of 0.4 ms took 2, 4 or 7 ms. */
static void make_way(void)
{
    for (int i = 0; i < 16; i++) ts_isa_pause();
    sched_yield();
}

static void *keep_awake(void *at)
{
    const int core = (int)(intptr_t)at;
    unsigned  seen = 0;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    for (;;) {
        pthread_mutex_lock(&watch.lock);
        while (watch.epoch == seen || !CPU_ISSET(core, &watch.asked)) {
            seen = watch.epoch;
            pthread_cond_wait(&watch.call, &watch.lock);
        }
        seen = watch.epoch;
        pthread_mutex_unlock(&watch.lock);
        sched_setaffinity(0, sizeof own, &own); /* ts_threads_apart() may have changed it */
        atomic_fetch_add(&watch.up, 1);
        while (ts_now_ns() < atomic_load_explicit(&watch.until, memory_order_relaxed)) make_way();
    }
    return NULL;
}

/* SCHED_IDLE: any other thread that wants the core preempts it. */
static bool make(int core)
{
    const struct sched_param none = { 0 };
    cpu_set_t                own;
    pthread_attr_t           a;
    pthread_t                t;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    pthread_attr_init(&a);
    pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
    pthread_attr_setaffinity_np(&a, sizeof own, &own);
    pthread_attr_setstacksize(&a, 256 << 10);
    const bool made = !pthread_create(&t, &a, keep_awake, (void *)(intptr_t)core) &&
                      !pthread_setschedparam(t, SCHED_IDLE, &none);
    pthread_attr_destroy(&a);
    return made;
}

void ts_awake_begin(const cpu_set_t *cores)
{
    const int own = sched_getcpu(); /* this core is running */
    int       n = 0;
    if (watch.owner != getpid()) {
        watch.owner = getpid();
        CPU_ZERO(&watch.made);
        CPU_ZERO(&watch.asked);
        pthread_mutex_init(&watch.lock, NULL);
        pthread_cond_init(&watch.call, NULL);
    }
    for (int i = 0; i < MOST; i++) {
        if (!CPU_ISSET(i, cores)) continue;
        if (!CPU_ISSET(i, &watch.made) && !make(i)) continue;
        CPU_SET(i, &watch.made);
        n += i != own;
    }
    atomic_store(&watch.up, 0);
    atomic_store(&watch.until, ts_now_ns() + BEFORE_NS);
    pthread_mutex_lock(&watch.lock);
    watch.asked = *cores;
    watch.epoch++;
    pthread_cond_broadcast(&watch.call);
    pthread_mutex_unlock(&watch.lock);
    for (const double begin = ts_now_ns();
         atomic_load(&watch.up) < n && ts_now_ns() - begin < LIMIT_NS;)
        sched_yield();
}

void ts_awake_go(void)
{
    atomic_store(&watch.until, ts_now_ns() + AFTER_NS);
}

void ts_awake_end(void)
{
    atomic_store(&watch.until, 0);
}
