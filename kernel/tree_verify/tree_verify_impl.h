/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_impl.h - the implementations, and the walk that they share. Private. */
#ifndef TS_TREE_VERIFY_IMPL_H
#define TS_TREE_VERIFY_IMPL_H

#include "topk.h"
#include "touchstone/tree_verify.h"
#include "whole.h"

extern const ts_impl ts_tree_verify_impls[], ts_tree_verify_device_impls[];

TS_DECLARE_IMPLS(ts_tree_verify)
ts_status ts_tree_verify_cuda(const void *args, const ts_exec *x);
ts_status ts_tree_verify_any_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
/* What of it is the host's, where the workspace is not; 0 on the CPU. */
ts_status ts_tree_host_bytes(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_bytes);

/* Validates a tree, for every API function that takes one. */
ts_status ts_tree_check(const ts_tree_dims *d, const int32_t *parent);

/* The mask and positions of a valid tree. */
void ts_tree_fill(const ts_tree_dims *d, const int32_t *parent, uint8_t *visible,
                  int64_t *position);

/* What is known of rows on a device. Without a temperature value and sum have no rows. */
typedef struct ts_tree_found {
    int32_t *first; /* [rows]: of the largest; -1: a NaN or +inf */
    float   *prob;  /* [rows]: its probability; 0: there is no finite logit */
    float   *value; /* [rows][2]: its logit, and a place that ts_row_sums wants */
    double  *sum;   /* [rows][pieces] */
} ts_tree_found;

/* What a choice is made with. */
typedef struct ts_tree_chooser {
    int64_t n_rows, n_vocab;
    double  temperature;
    float  *logits; /* [n_rows][n_vocab], where the call runs */
    double *sum;    /* [chunks of a row]; with TS_CUDA [n_rows]: their totals */
    ts_exec inner;  /* for softmax_topk */
    /* With TS_CUDA: */
    ts_tree_found found, device; /* the host's; and where it comes from */
    size_t        n_found;       /* bytes from first to the end of sum */
    float        *piece;         /* [TS_TREE_PIECE], the host's */
} ts_tree_chooser;

/* look, which may be NULL, is called once the logits are there. choose: the token that u chooses
 * from a row of them; TS_E_MODEL where there is none. */
typedef struct ts_tree_steps {
    ts_status (*look)(const ts_tree_chooser *c);
    ts_status (*choose)(const ts_tree_chooser *c, int64_t row, double u, int32_t *token);
} ts_tree_steps;

ts_status ts_tree_run(const ts_tree_verify_args *a, const ts_exec *x, const ts_tree_steps *steps);

/* ---- a choice by softmax_topk, and by sums over chunks of the row ---- */

enum { TS_TREE_PIECE = 1 << 12 };

static inline int64_t ts_tree_pieces(int64_t n_vocab)
{
    return (n_vocab + TS_TREE_PIECE - 1) / TS_TREE_PIECE;
}

/* The sum of exp(t (x - max)) over a chunk. */
typedef double (*ts_tree_sum_fn)(const float *x, int64_t n, double max, double t);

ts_status ts_tree_choose(const ts_tree_chooser *c, int64_t row, double u, int32_t *token,
                         ts_topk_fn topk, ts_tree_sum_fn sum);
ts_status ts_tree_choose_workspace(int64_t n_vocab, const ts_exec *x, size_t *n_bytes);

/* 1 / temperature, or nearly: 0 times inf would be NaN. */
double ts_tree_scale(const ts_tree_chooser *c);

/* The chunk of n logits from `begin` on that contains u; the sum before it; and what the sum has to
 * exceed. */
typedef struct ts_tree_draw {
    int64_t begin, n;
    double  before, target;
} ts_tree_draw;

ts_tree_draw ts_tree_draw_of(const double *sum, int64_t n_vocab, double u);
/* The chosen id, x being the logits of the chunk. */
int32_t ts_tree_find(const ts_tree_draw *d, const float *x, double max, double t);

#endif
