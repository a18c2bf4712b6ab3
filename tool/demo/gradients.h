/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.h - methods that verify the float64 gradients of layernorm. Loss: sum(dy * y).
 *
 * Every method fills a ts_gradients_report: for dx, dgamma and dbeta, the error that is worst
 * relative to its limit, and that limit. */
#ifndef TS_GRADIENTS_H
#define TS_GRADIENTS_H

#include <stdbool.h>
#include <stdint.h>

/* One matrix, and the library's gradients. x, gamma and beta are multiples of 2^-30 below 2^4, so
 * that adding a power-of-two step is exact. */
typedef struct ts_gradients_case {
    int64_t  n_rows, n_cols;
    uint64_t seed;
    double   eps;
    double  *x, *dy, *gamma, *beta;
    double  *mean, *rstd;
    double  *dx, *dgamma, *dbeta;
    double  *memory; /* all of the above */
} ts_gradients_case;

enum { TS_DX, TS_DGAMMA, TS_DBETA, TS_N_GRADIENTS };

typedef struct ts_gradients_report {
    double error[TS_N_GRADIENTS], limit[TS_N_GRADIENTS];
} ts_gradients_report;

/* On failure false, with one line on standard error, and nothing to free. */
bool     ts_gradients_make(uint64_t seed, int64_t n_rows, int64_t n_cols, ts_gradients_case *c);
void     ts_gradients_free(ts_gradients_case *c);
uint64_t ts_gradients_hash(const ts_gradients_case *c); /* of the inputs */

/* y = forward(x, gamma, beta) of n_rows rows of c's width; statistics go to mean and rstd. */
bool ts_gradients_forward(const ts_gradients_case *c, int64_t n_rows, const double *x,
                          const double *gamma, const double *beta, double *y, double *mean,
                          double *rstd);

/* Batched central differences: along a random direction in every row, and along a random direction
 * of all of gamma and all of beta, evaluated column by column. */
bool ts_gradients_batched(const ts_gradients_case *c, ts_gradients_report *r);

/* Central differences of random single elements of each gradient. */
bool ts_gradients_spots(const ts_gradients_case *c, ts_gradients_report *r);

#endif
