/* SPDX-License-Identifier: Apache-2.0 */
/* fair_time.c - measures how much longer B's layernorm_forward takes than A's, without the judge.
 *
 *     fair_time A.so B.so REPEATS
 *
 * Calls alternate on the shape that the judge times; prints the median of the ratios in per cent.
 * */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "touchstone/layernorm.h"

enum { ROWS = 8192, COLS = 768 };
static float x[ROWS * COLS], y[ROWS * COLS], gamma_[COLS], beta[COLS], mean[ROWS], rstd[ROWS];

typedef ts_status run_fn(const ts_layernorm_forward_args *, const ts_exec *);

static double timed(run_fn *run)
{
    const ts_layernorm_forward_args a = { .n_rows = ROWS,
                                          .n_cols = COLS,
                                          .row_stride = COLS,
                                          .dtype = TS_F32,
                                          .eps = 1e-5,
                                          .x = x,
                                          .y = y,
                                          .gamma = gamma_,
                                          .beta = beta,
                                          .mean = mean,
                                          .rstd = rstd };
    const ts_exec                   e = { .device = TS_CPU, .n_threads = 1 };
    struct timespec                 from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (run(&a, &e)) exit(1);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return 1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec);
}

static run_fn *load(const char *path)
{
    void *const o = dlopen(path, RTLD_NOW), *const f = o ? dlsym(o, "ts_layernorm_forward") : NULL;
    run_fn *run;
    if (!f) exit(2);
    memcpy(&run, &f, sizeof run);
    return run;
}

static int ascending(const void *a, const void *b)
{
    const double u = *(const double *)a, v = *(const double *)b;
    return (u > v) - (u < v);
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    run_fn *const a = load(argv[1]), *const b = load(argv[2]);
    const int n = atoi(argv[3]) > 0 ? atoi(argv[3]) : 1;
    double   *ratio = calloc((size_t)n, sizeof *ratio), *ms = calloc((size_t)n, sizeof *ms);
    if (!ratio || !ms) return 2;
    for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)(i % 251) - 125;
    for (int i = 0; i < COLS; i++) gamma_[i] = 1;
    for (int i = 0; i < n; i++) { /* the order alternates, since the second finds a warm cache */
        const double first = timed(i % 2 ? b : a), second = timed(i % 2 ? a : b);
        ms[i] = i % 2 ? second : first;
        ratio[i] = i % 2 ? first / second : second / first;
    }
    qsort(ratio, (size_t)n, sizeof *ratio, ascending);
    qsort(ms, (size_t)n, sizeof *ms, ascending);
    printf("%.2f ms, the other %+.2f %% (quartiles %+.2f, %+.2f)\n", ms[n / 2],
           100 * (ratio[n / 2] - 1), 100 * (ratio[n / 4] - 1), 100 * (ratio[3 * n / 4] - 1));
    free(ratio);
    free(ms);
    return 0;
}
