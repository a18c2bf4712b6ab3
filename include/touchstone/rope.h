/* SPDX-License-Identifier: Apache-2.0 */
/* rope.h - rotary position embedding: rotates pairs of channels of queries or keys by angles
 * proportional to the position.
 *
 * The first rotary_dim channels of each head form pairs (a, b) with i = 0 .. rotary_dim / 2 - 1:
 *     TS_ROPE_HALVES     a is channel i, b channel i + rotary_dim / 2  (Hugging Face)
 *     TS_ROPE_ADJACENT   a is channel 2 i, b channel 2 i + 1           (llama2.c)
 * With angle = position[row] * frequency[i]:
 *     a' = a cos(angle) - b sin(angle),   b' = b cos(angle) + a sin(angle).
 * Without a table, frequency[i] = theta^(-2 i / rotary_dim). `inverse` rotates by -angle: this is
 * the inverse of the rotation, and also its backward pass, from the gradient of y to that of x. The
 * other channels of a head are copied.
 *
 * x and y have `dtype`: TS_F32, TS_BF16, TS_F16, or TS_F64 (reference only). The heads of a row are
 * contiguous; row r begins at element r * x_stride of x and r * y_stride of y.
 *
 * Angles are computed and reduced in double. For |angle| <= 2^40 the error of cosine and sine is at
 * most (4 + |ln frequency|) 2^-53 |angle|, which is 1e-10 at position 10^5 and frequency 1, plus
 * 2^-23, two units of float's roundoff. For larger angles no accuracy is guaranteed.
 *
 * A NaN in a pair makes both of its channels NaN; if one is infinite, both may be infinite or NaN.
 * Other pairs are not affected. Subnormal results may be flushed to zero, except copies. */
#ifndef TOUCHSTONE_ROPE_H
#define TOUCHSTONE_ROPE_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which channels form a pair. */
enum { TS_ROPE_HALVES, TS_ROPE_ADJACENT };

/* Arguments of ts_rope. */
typedef struct ts_rope_args {
    ts_dtype       dtype;      /* of x and y */
    int            pairing;    /* TS_ROPE_HALVES or TS_ROPE_ADJACENT */
    int            inverse;    /* 0: rotate by angle; 1: by -angle */
    int64_t        n_rows;     /* tokens, >= 0 */
    int64_t        n_heads;    /* >= 1 */
    int64_t        head_dim;   /* >= 1 */
    int64_t        rotary_dim; /* even, 0 .. head_dim */
    int64_t        x_stride;   /* elements from row to row of x, >= n_heads * head_dim */
    int64_t        y_stride;   /* the same of y; equal to x_stride if y is x */
    double         theta;      /* > 0, finite; not read if frequency is given */
    const double  *frequency;  /* [rotary_dim / 2], table of frequencies, finite; or NULL */
    const int32_t *position;   /* [n_rows] */
    const void    *x;          /* [n_rows][n_heads][head_dim], input */
    void          *y;          /* [n_rows][n_heads][head_dim], output; may be x */
} ts_rope_args;

/* Computes y. */
TS_API ts_status ts_rope(const ts_rope_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_rope needs for these arguments. */
TS_API ts_status ts_rope_workspace(const ts_rope_args *a, const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
