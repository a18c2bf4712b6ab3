/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_impl.h - the implementations, and what the threaded ones for the CPU share.
 * Private.
 *
 * A step is a block of words by a chunk of counted rows. Rows are in lanes: a tile of logits is
 * [words][lanes], so that maxima and sums over words are vertical, and all three matmuls read w and
 * h in place. At any time PARTS blocks, one per part, process the same chunk of rows. Parts, and
 * with them every order of summation, depend on the shape alone. */
#ifndef TS_CROSS_ENTROPY_IMPL_H
#define TS_CROSS_ENTROPY_IMPL_H

#include "impl.h"
#include "touchstone/cross_entropy.h"
#include "whole.h"

extern const ts_impl ts_cross_entropy_impls[], ts_cross_entropy_logits_impls[];

TS_DECLARE_IMPLS(ts_cross_entropy)
ts_status ts_cross_entropy_ref_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_cross_entropy_threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes);

TS_DECLARE_IMPLS(ts_cross_entropy_logits)
ts_status ts_cross_entropy_logits_threads_workspace(const void *args, const ts_exec *x,
                                                    size_t *n_bytes);

enum { TS_XE_LANES = 16 }; /* what counts are rounded up to: the lanes of the widest vector */

/* What becomes of a logit. */
typedef struct ts_xe_form {
    float softcap;
    float smooth; /* smoothing / n_vocab */
    float hit;    /* 1 - smoothing */
    float z2;     /* 2 z_loss */
    int   means;  /* whether sums of z are wanted */
} ts_xe_form;

/* Of a counted row: max of z, sum of exp(z - max), sum of z, the target's z; then lse. */
typedef struct ts_xe_row {
    double max, sum, z_sum, hit, lse;
} ts_xe_row;

/* Of a row of up to TS_XE_KEPT logits exp(z - base), each line with a base of its own. */
enum { TS_XE_LINE = 512, TS_XE_KEPT = 1 << 15 };
typedef struct ts_xe_kept {
    float e[TS_XE_KEPT], base[TS_XE_KEPT / TS_XE_LINE];
} ts_xe_kept;

/* A block of words with a chunk of rows. Strides are in floats. */
typedef struct ts_xe_step {
    ts_xe_form     form;
    int64_t        n_words, n_rows, lanes, width; /* width: n_hidden, rounded up as lanes are */
    int64_t        n_hidden, first_word;
    const float   *w;                       /* [n_words][width] */
    const float   *bias;                    /* [n_words], or NULL */
    const float   *h, *h_columns;           /* [n_rows][width], [n_hidden][lanes] */
    const int32_t *target;                  /* [n_rows] */
    float         *x;                       /* [n_words][lanes]: logits, then gradients */
    float         *max, *sum, *z_sum, *hit; /* [lanes]: forward's; hit: only where it is here */
    const float   *lse;                     /* [lanes]: backward's */
    float         *dh;                      /* [n_rows][width], overwritten; or NULL */
    float         *dw;                      /* [n_words][width], added to; or NULL */
} ts_xe_step;

typedef struct ts_xe_steps {
    /* n elements as floats, and zeros up to a multiple of TS_XE_LANES. */
    void (*widen)(const void *from, ts_dtype t, int64_t at, int64_t n, float *to);
    void (*forward)(const ts_xe_step *s);
    void (*backward)(const ts_xe_step *s);
    /* A row of logits: its sums, and its gradient times g, from one place to another or the same.
     * kept goes from one to the other, or is NULL. */
    void (*sum_row)(const void *x, ts_dtype t, int64_t at, int64_t n, const ts_xe_form *f,
                    ts_xe_row *r, ts_xe_kept *kept);
    void (*grade_row)(const void *x, void *dx, ts_dtype t, int64_t at, int64_t n,
                      const ts_xe_form *f, const ts_xe_row *r, ts_xe_kept *kept, int32_t target,
                      float g);
} ts_xe_steps;

ts_status ts_cross_entropy_threads(const ts_cross_entropy_args *a, const ts_exec *x,
                                   const ts_xe_steps *steps);
ts_status ts_cross_entropy_logits_threads(const ts_cross_entropy_logits_args *a, const ts_exec *x,
                                          const ts_xe_steps *steps);

#endif
