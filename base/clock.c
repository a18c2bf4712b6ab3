/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c - a monotonic clock. */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"

#include <time.h>

double ts_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double ts_seconds(void)
{
    return 1e-9 * ts_now_ns();
}
