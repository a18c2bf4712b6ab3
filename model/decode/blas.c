/* SPDX-License-Identifier: Apache-2.0 */
/* blas.c - how many threads a matrix product gets. OpenBLAS takes all of them from some thousand
 * multiplications on; where cores are shared, waking them costs more than a small product. */
#include "ops.h"

/* OpenBLAS has these; another BLAS is left to itself. */
extern void openblas_set_num_threads(int n) __attribute__((weak));
extern int  openblas_get_num_threads(void) __attribute__((weak));

enum { SMALL = 1 << 20 }; /* multiplications */

static int all, now;

void ts_blas_limit(int n_threads)
{
    if (n_threads > 0 && openblas_set_num_threads) openblas_set_num_threads(all = now = n_threads);
}

void ts_blas_threads(int64_t n_products)
{
    if (!openblas_set_num_threads || !openblas_get_num_threads) return;
    if (!all) all = now = openblas_get_num_threads();
    const int wanted = n_products < SMALL ? 1 : all;
    if (wanted != now) openblas_set_num_threads(now = wanted);
}
