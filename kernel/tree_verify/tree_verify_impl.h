/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_impl.h - the implementations, and the walk that they share. Private. */
#ifndef TS_TREE_VERIFY_IMPL_H
#define TS_TREE_VERIFY_IMPL_H

#include "impl.h"
#include "touchstone/tree_verify.h"
#include "whole.h"

extern const ts_impl ts_tree_verify_impls[];

ts_status ts_tree_verify_ref(const void *args, const ts_exec *x);
ts_status ts_tree_verify_avx2(const void *args, const ts_exec *x);
ts_status ts_tree_verify_avx512(const void *args, const ts_exec *x);
ts_status ts_tree_verify_any_workspace(const void *args, const ts_exec *x, size_t *n_bytes);

/* What every door refuses that is given a tree. */
ts_status ts_tree_check(const ts_tree_dims *d, const int32_t *parent);

/* The mask and positions of a sound tree. */
void ts_tree_fill(const ts_tree_dims *d, const int32_t *parent, uint8_t *visible,
                  int64_t *position);

/* What a choice is made with. */
typedef struct ts_tree_chooser {
    int64_t n_vocab;
    double  temperature;
    double *sum;   /* [pieces of a row] */
    ts_exec inner; /* for softmax_topk */
} ts_tree_chooser;

/* The token that u chooses from a row of logits; TS_E_MODEL where there is none. */
typedef ts_status (*ts_tree_choose_fn)(const ts_tree_chooser *c, const float *logits, double u,
                                       int32_t *token);

ts_status ts_tree_run(const ts_tree_verify_args *a, const ts_exec *x, ts_tree_choose_fn choose);

/* ---- a choice by softmax_topk, and by sums over pieces of the row ---- */

enum { TS_TREE_PIECE = 1 << 12 };

/* The sum of exp(t (x - max)) over a piece. */
typedef double (*ts_tree_sum_fn)(const float *x, int64_t n, double max, double t);

ts_status ts_tree_choose(const ts_tree_chooser *c, const float *logits, double u, int32_t *token,
                         ts_tree_sum_fn sum);
ts_status ts_tree_choose_workspace(int64_t n_vocab, const ts_exec *x, size_t *n_bytes);

#endif
