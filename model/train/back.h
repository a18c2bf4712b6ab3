/* SPDX-License-Identifier: Apache-2.0 */
/* back.h - operations of training on arrays, in addition to those of model/decode/ops.h, in one
 * precision. Rows are divided among threads; no order of a sum depends on the division. */
#ifndef TS_TRAIN_BACK_H
#define TS_TRAIN_BACK_H

#include <stdbool.h>
#include <stdint.h>

/* Fewer elements, or 32 times as many products, are done before a second thread wakes up. */
enum { TS_BACK_SMALL = 1 << 16 };

static inline int ts_threads_for(int64_t work, int n_threads)
{
    return work < TS_BACK_SMALL ? 1 : n_threads;
}

/* c = a b, or c += that: c [m][n], the sum over k. a is [m][k], or [k][m] where it is turned; b is
 * [n][k] where it is turned, else [k][n]. */
typedef struct ts_product {
    const void *a, *b;
    void       *c;
    int64_t     m, n, k;
    bool        turn_a, turn_b, add;
    int         n_threads;
} ts_product;

typedef struct ts_back {
    void (*product)(const ts_product *p);
    /* right[i]: the first of the largest logits of row i is its target's. */
    void (*find_right)(const void *logits, const int32_t *target, bool *right, int64_t n,
                       int64_t n_vocab, int n_threads);
    void (*add_float)(void *y, const float *x, int64_t n, int n_threads);
    void (*to_float)(float *y, const void *x, int64_t n);
    void (*of_float)(void *y, const float *x, int64_t n);
} ts_back;

extern const ts_back ts_back_f32, ts_back_f64;

#endif
