/* SPDX-License-Identifier: Apache-2.0 */
/* rope.h - rotary position embedding: pairs of channels of queries or keys are turned by angles
 * that grow with the position.
 *
 * Of each head the first rotary_dim channels are pairs (a, b), numbered i = 0 .. rotary_dim / 2 -
 * 1: TS_ROPE_HALVES     a is channel i, b channel i + rotary_dim / 2  (Hugging Face)
 *     TS_ROPE_ADJACENT   a is channel 2 i, b channel 2 i + 1           (llama2.c)
 * With angle = position[row] * frequency[i]:
 *     a' = a cos(angle) - b sin(angle),   b' = b cos(angle) + a sin(angle).
 * Without a table, frequency[i] = theta^(-2 i / rotary_dim). `inverse` turns by -angle: that is the
 * inverse of the rotation, and its backward pass, from the gradient of y to that of x. The other
 * channels of a head are copied.
 *
 * x and y have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). Heads lie one behind
 * the other; row r begins r * x_stride elements into x and r * y_stride into y.
 *
 * Angles are made and reduced in double. Up to an angle of 2^40, cosine and sine are off by no more
 * than (4 + |ln frequency|) 2^-53 |angle|, which is 1e-10 at position 10^5 and frequency 1, and by
 * 2^-23, two units of float's roundoff. Beyond it nothing is said of them.
 *
 * A NaN in a pair makes both of it NaN; where one is infinite, both may be infinite or NaN. Other
 * pairs are as if it were not there. Subnormal results may be flushed to zero, except copies. */
#ifndef TOUCHSTONE_ROPE_H
#define TOUCHSTONE_ROPE_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TS_ROPE_HALVES, TS_ROPE_ADJACENT };

typedef struct ts_rope_args {
    ts_dtype       dtype;
    int            pairing;    /* TS_ROPE_* */
    int            inverse;    /* 1: by the opposite angle */
    int64_t        n_rows;     /* >= 0 */
    int64_t        n_heads;    /* >= 1 */
    int64_t        head_dim;   /* >= 1 */
    int64_t        rotary_dim; /* even, 0 .. head_dim */
    int64_t        x_stride;   /* >= n_heads * head_dim */
    int64_t        y_stride;   /* >= n_heads * head_dim; x_stride where y is x */
    double         theta;      /* > 0, finite; not read where there is a table */
    const double  *frequency;  /* [rotary_dim / 2], finite; or NULL */
    const int32_t *position;   /* [n_rows] */
    const void    *x;          /* [n_rows][n_heads][head_dim] */
    void          *y;          /* [n_rows][n_heads][head_dim]; may be x */
} ts_rope_args;

TS_API ts_status ts_rope(const ts_rope_args *a, const ts_exec *x);
TS_API ts_status ts_rope_workspace(const ts_rope_args *a, const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
