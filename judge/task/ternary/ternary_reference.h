/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_reference.h - the ternary model in double, from the effective weights: loss and gradient;
 * and the projection that ternary.h defines. Shares nothing with any kernel. */
#ifndef TS_TASK_TERNARY_REFERENCE_H
#define TS_TASK_TERNARY_REFERENCE_H

#include <stdbool.h>

#include "touchstone/ternary_training.h"

enum { TS_TREF_GROUP = 128, TS_TREF_BYTES = 32 }; /* weights and bytes of a group */

static inline int64_t ts_tref_groups(int64_t n_in)
{
    return (n_in + TS_TREF_GROUP - 1) / TS_TREF_GROUP;
}

/* Code of a weight under a scale: -1, 0 or 1. */
int ts_tref_code(double w, double s);
/* Weight j of a row's codes. */
static inline int ts_tref_point(const uint8_t *row, int64_t j)
{
    return row[j / 4] >> 2 * (j % 4) & 3;
}

/* Matrix number i in the order of the contract: 0 is E, then seven of each layer. */
typedef struct ts_tref_matrix {
    int64_t at, n_out, n_in; /* its first weight among all */
    int64_t group;           /* its first group, or scale, among all */
} ts_tref_matrix;

int64_t        ts_tref_matrices(const ts_ternary_dims *d);
ts_tref_matrix ts_tref_matrix_of(const ts_ternary_dims *d, int64_t i);
int64_t        ts_tref_latents(const ts_ternary_dims *d);
int64_t        ts_tref_norms(const ts_ternary_dims *d);
int64_t        ts_tref_scales(const ts_ternary_dims *d);
/* Tensor number i: the matrices, then four norms of each layer, then the last; where it begins
 * among latents and gains together, and its size. */
int64_t ts_tref_tensors(const ts_ternary_dims *d);
void    ts_tref_tensor(const ts_ternary_dims *d, int64_t i, int64_t *at, int64_t *n);

/* nll summed over the batch's targets. `w`: the effective weights, then gains. `gradient`, unless
 * NULL, is of the mean.
 *
 * noise other than 0: every intermediate is off by some part, drawn by `noise`, of what an honest
 * float computation of it may be off by: kappa(n) u A for a sum of n terms of magnitudes A, and so
 * on, as for other tasks. What this does to the results is how far off right ones may be. */
double ts_tref_run(const ts_ternary_dims *d, const double *w, int64_t n_batch, int64_t n_tok,
                   const int32_t *tokens, uint64_t noise, double *gradient);

/* Runs with noise: the largest that anything was off, times this, is its bound. */
enum { TS_TREF_RUNS = 4, TS_TREF_TIMES = 4 };

#endif
