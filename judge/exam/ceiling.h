/* SPDX-License-Identifier: Apache-2.0 */
/* ceiling.h - measures this machine's peak rates, and flushes its caches. */
#ifndef TS_CEILING_H
#define TS_CEILING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ts_pass {
    double bytes,
        ns; /* bytes read and written; time from the common start until the last thread is done */
} ts_pass;

/* One pass of TS_CEILING_* over n bytes by n_threads persistent threads. */
ts_pass ts_ceiling_pass(int ceiling, void *to, const void *from, size_t n, int n_threads);

/* float32 multiplications and additions, in billions per second. */
double ts_ceiling_gflops(int n_threads);

/* The fastest known sums of exponentials of n floats x <= 0, n a multiple of 256: with the
 * precision of float, and of double. The caller gives them, since the judge has no kernels. */
typedef struct ts_exp_sums {
    float (*in_float)(const float *x, int64_t n);
    double (*in_double)(const float *x, int64_t n);
} ts_exp_sums;

/* Exponentials in billions per second, by one of the two. */
double ts_ceiling_exps(const ts_exp_sums *sums, bool wide, int n_threads);

/* The bfloat16 rate of the matrix units as a multiple of that; 1: there are none. */
double ts_ceiling_matrix(void);

/* Writes back and evicts every cached line in [begin, end). */
void ts_flush_lines(const void *begin, const void *end);

/* Does so for n bytes with n_threads threads, if that is faster. */
void ts_flush_together(const void *begin, size_t n, int n_threads);

/* Latency of a line after ts_flush_lines as a multiple of a cached one's; about 1 where the flush
 * has no effect. */
double ts_flush_effect(void);

void ts_describe_cpu(char *text, size_t n);

#endif
