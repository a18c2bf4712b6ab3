/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - j_parallel_for on threads that are created before the seal, which forbids new ones. They
 * sleep unless a call is armed. */
#include <pthread.h>
#include <stdatomic.h>

#include "isa_core.h"
#include "process.h"

enum { MAX_WORKERS = 255, SPINS = 20000 };

static struct {
    int              n_workers;
    bool             spin; /* every thread has its own core */
    _Atomic(int64_t) next;
    int64_t          n, chunk;
    void (*fn)(int64_t i, void *ctx);
    void       *ctx;
    atomic_int  armed, parked, fp_changed;
    atomic_uint epoch, left;
} pool;

static _Thread_local bool in_parallel;

static void work(void)
{
    in_parallel = true;
    for (;;) {
        const int64_t begin = atomic_fetch_add(&pool.next, pool.chunk);
        if (begin >= pool.n) break;
        const int64_t end = pool.n - begin < pool.chunk ? pool.n : begin + pool.chunk;
        for (int64_t i = begin; i < end; i++) pool.fn(i, pool.ctx);
    }
    in_parallel = false;
}

static unsigned wait_for_work(unsigned seen)
{
    for (int i = 0; pool.spin && i < SPINS && atomic_load(&pool.armed); i++) {
        if (atomic_load(&pool.epoch) != seen) return atomic_load(&pool.epoch);
        ts_isa_pause();
    }
    while (atomic_load(&pool.epoch) == seen) {
        atomic_fetch_add(&pool.parked, 1);
        cage_wait((uint32_t *)&pool.epoch, seen);
        atomic_fetch_sub(&pool.parked, 1);
    }
    return atomic_load(&pool.epoch);
}

static void *worker(void *unused)
{
    (void)unused;
    cage_fault_stack();
    for (unsigned seen = 0;;) {
        seen = wait_for_work(seen);
        ts_isa_fp_set();
        work();
        if (!ts_isa_fp_kept()) atomic_store(&pool.fp_changed, 1);
        if (atomic_fetch_sub(&pool.left, 1) == 1) cage_wake((uint32_t *)&pool.left);
    }
    return NULL;
}

static void run(int64_t n, void (*fn)(int64_t i, void *ctx), void *ctx)
{
    unsigned left;
    pool.n = n;
    pool.fn = fn;
    pool.ctx = ctx;
    pool.chunk = n / (8 * (pool.n_workers + 1)) + 1;
    atomic_store(&pool.next, 0);
    atomic_store(&pool.left, (unsigned)pool.n_workers);
    atomic_fetch_add(&pool.epoch, 1);
    if (atomic_load(&pool.parked)) cage_wake((uint32_t *)&pool.epoch);
    work();
    for (int i = 0; (left = atomic_load(&pool.left)); i++) {
        if (pool.spin && i < SPINS) ts_isa_pause();
        else cage_wait((uint32_t *)&pool.left, left);
    }
}

void j_parallel_for(int64_t n, void (*fn)(int64_t i, void *ctx), void *ctx)
{
    if (n > 1 && pool.n_workers && !in_parallel) run(n, fn, ctx);
    else
        for (int64_t i = 0; i < n; i++) fn(i, ctx);
}

void cage_pool_start(int n_threads, bool spin)
{
    pthread_attr_t a;
    pthread_t      t;
    pool.spin = spin;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 2 << 20);
    for (; pool.n_workers < n_threads - 1 && pool.n_workers < MAX_WORKERS; pool.n_workers++)
        if (pthread_create(&t, &a, worker, NULL))
            cage_stop(TS_STOP_SETUP, "cannot start more threads");
    pthread_attr_destroy(&a);
    while (atomic_load(&pool.parked) < pool.n_workers) ts_isa_pause();
}

void cage_pool_arm(void)
{
    atomic_store(&pool.fp_changed, 0);
    if (!pool.n_workers) return;
    atomic_store(&pool.armed, 1);
    run(0, NULL, NULL);
}

bool cage_pool_rest(void)
{
    atomic_store(&pool.armed, 0);
    return atomic_load(&pool.fp_changed);
}
