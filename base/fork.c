/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c - lets a process fork after a call in several threads.
 *
 * GNU's OpenMP keeps the threads of a parallel region for the next one. A forked child has none of
 * them and waits for them without end: Python's multiprocessing hung. So they end before a fork,
 * and the next region starts them again. Clang's runtime does that by itself. */
#include "fork.h"

#include <pthread.h>

#ifndef __clang__
/* Absent where a program has no OpenMP, or one from before GCC 9. Its header needs a flag that
 * base/ is compiled without. */
extern int omp_pause_resource_all(int kind) __attribute__((weak));

static void end_threads(void)
{
    const int soft = 1; /* settings stay */
    omp_pause_resource_all(soft);
}

static void prepare(void)
{
    if (omp_pause_resource_all) pthread_atfork(end_threads, NULL, NULL);
}
#endif

void ts_fork_prepare(void)
{
#ifndef __clang__
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
#endif
}
