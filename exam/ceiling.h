/* SPDX-License-Identifier: Apache-2.0 */
/* ceiling.h - what this machine's memory can do at best, and caches made cold. */
#ifndef TS_CEILING_H
#define TS_CEILING_H

#include <stddef.h>

typedef struct ts_pass {
    double bytes, ns; /* read and written; from the common start until the last thread is done */
} ts_pass;

/* One pass of TS_CEILING_* over n bytes by n_threads that were there before and stay. */
ts_pass ts_ceiling_pass(int ceiling, void *to, const void *from, size_t n, int n_threads);

/* float32 multiplications and additions, in billions a second. */
double ts_ceiling_gflops(int n_threads);

/* How many times that the matrix units multiply and add bfloat16; 1: there are none. */
double ts_ceiling_matrix(void);

/* Writes back and drops every cached line in [begin, end). */
void ts_flush_lines(const void *begin, const void *end);

/* The same of n bytes by n_threads, where that is faster. */
void ts_flush_together(const void *begin, size_t n, int n_threads);

/* How many times as long a line takes to come after ts_flush_lines as from a cache; about 1 where
 * that does nothing. */
double ts_flush_effect(void);

void ts_describe_cpu(char *text, size_t n);

#endif
