/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - a monotonic clock, and the CPU time of a thread. */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"

#include <time.h>

static double read_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double ts_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

double ts_seconds(void)
{
    return 1e-9 * ts_now_ns();
}

double ts_thread_cpu_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}
