/* SPDX-License-Identifier: Apache-2.0 */
/* cores.c - threads that share the items of a loop. */
#define _GNU_SOURCE
#include "cores.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

static cpu_set_t given;

void ts_cores_use(const cpu_set_t *cores)
{
    given = *cores;
}

static int cores_of(cpu_set_t *cores)
{
    *cores = given;
    if (!CPU_COUNT(cores) && sched_getaffinity(0, sizeof *cores, cores)) CPU_ZERO(cores);
    const int n = CPU_COUNT(cores);
    return n < 1 ? 1 : n < MOST_THREADS ? n : MOST_THREADS;
}

int ts_cores_count(void)
{
    cpu_set_t cores;
    return cores_of(&cores);
}

typedef struct crowd {
    int        n;
    atomic_int next;
    void (*work)(int i, void *of);
    void *of;
} crowd;

static void *labour(void *at)
{
    crowd *c = at;
    for (int i; (i = atomic_fetch_add(&c->next, 1)) < c->n;) c->work(i, c->of);
    return NULL;
}

void ts_on_all_cores(int n, void (*work)(int i, void *of), void *of)
{
    crowd          c = { .n = n, .work = work, .of = of };
    pthread_t      thread[MOST_THREADS];
    pthread_attr_t any; /* the caller may be pinned to one core: these threads are not */
    cpu_set_t      cores;
    const int      most = cores_of(&cores);
    int            made = 0;
    if (pthread_attr_init(&any)) abort();
    if (CPU_COUNT(&cores) && pthread_attr_setaffinity_np(&any, sizeof cores, &cores)) abort();
    while (made + 1 < most && made + 1 < n && !pthread_create(&thread[made], &any, labour, &c))
        made++;
    labour(&c);
    while (made) pthread_join(thread[--made], NULL);
    pthread_attr_destroy(&any);
}
