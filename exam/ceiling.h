/* SPDX-License-Identifier: Apache-2.0 */
/* ceiling.h - what this machine's memory can do at best, and caches made cold. */
#ifndef TS_CEILING_H
#define TS_CEILING_H

#include <stddef.h>

/* One pass of TS_CEILING_* over n bytes by n_threads; returns the bytes it read and wrote. */
double ts_ceiling_pass(int ceiling, void *to, const void *from, size_t n, int n_threads);

/* float32 multiplications and additions, in billions a second. */
double ts_ceiling_gflops(int n_threads);

/* Writes back and drops every cached line in [begin, end). */
void ts_flush_lines(const void *begin, const void *end);

/* How many times as long a line takes to come after ts_flush_lines as from a cache; about 1 where
 * that does nothing. */
double ts_flush_effect(void);

void ts_describe_cpu(char *text, size_t n);

#endif
