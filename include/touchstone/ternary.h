/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.h - linear layers whose weights are -s, 0 or +s in groups, and 2.125 bits each.
 *
 * A matrix is [n_out][n_in]; a group is 128 consecutive inputs of one output, the last of a row
 * perhaps fewer. Training keeps float latents w. Of each group
 *     s = mean |w|, summed in double over the weights that are there, rounded to the nearest f16,
 *     c = 0 where 2 |w| <= s, else the sign of w; all 0 where s = 0,
 * and the weight that serves is wt = c s, with the rounded s, in training too.
 *
 * Packed, code points 0, 1, 2 are c = -1, 0, +1. Weight j of a row is bits 2 (j mod 4) and the next
 * of the row's byte j / 4. A row has 32 bytes for each of its ceil(n_in / 128) groups, and those
 * past n_in are coded 1. Scales are f16, [n_out][groups].
 *
 * in is [n_rows][n_in], y [n_rows][n_out], both of `dtype`: TS_F32, TS_F64, TS_F16 or TS_BF16.
 *     y = in wt'      from latents, or from codes
 *     dx = dy wt      with the weights that serve, not the latents
 *     dw = dy' in     straight through: for every weight, none masked, and s held constant
 * Sums are float (double for TS_F64), rounded once. dw is float, as the latents are. Outputs are
 * overwritten. What is NaN or infinite in `in` or dy behaves as the formulas say: 0 times it is
 * NaN.
 *
 * Both forwards agree in every bit: from latents it is a pack into workspace and then the other. In
 * one implementation the order of the sum for y[r][o] depends on n_in alone: a sum for each group,
 * then the groups, each times its s. So no bit of a row depends on what other rows there are, nor
 * on the number of threads.
 *
 * Refused, with nothing written: TS_E_RANGE, latents that are not finite or an s past f16;
 * TS_E_FORMAT, code point 3, wherever it stands, or a scale that is not finite.
 *
 * With TS_CUDA there is no TS_F64, and a call does not wait to see what tensors hold: neither is
 * refused. A group of latents that is out of range is given codes of 0 and a scale that is NaN.
 * What is made of such a scale, or of what TS_E_FORMAT is for, is not finite: the weight or the
 * group in wt, the group's share of dx, and in y all of the output. */
#ifndef TOUCHSTONE_TERNARY_H
#define TOUCHSTONE_TERNARY_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TS_TERNARY_GROUP = 128, TS_TERNARY_GROUP_BYTES = 32 };

/* pack and unpack look at n_out and n_in alone. */
typedef struct ts_ternary_linear_dims {
    ts_dtype dtype;
    int64_t  n_out, n_in, n_rows; /* >= 0 */
} ts_ternary_linear_dims;

typedef struct ts_ternary_pack_args {
    ts_ternary_linear_dims d;
    const float           *w;
    uint8_t               *code;
    uint16_t              *scale;
} ts_ternary_pack_args;

typedef struct ts_ternary_unpack_args {
    ts_ternary_linear_dims d;
    const uint8_t         *code;
    const uint16_t        *scale;
    float                 *wt; /* [n_out][n_in] */
} ts_ternary_unpack_args;

typedef struct ts_ternary_linear_args {
    ts_ternary_linear_dims d;
    const float           *w;
    const void            *in;
    void                  *y;
} ts_ternary_linear_args;

typedef struct ts_ternary_linear_packed_args {
    ts_ternary_linear_dims d;
    const uint8_t         *code;
    const uint16_t        *scale;
    const void            *in;
    void                  *y;
} ts_ternary_linear_packed_args;

typedef struct ts_ternary_linear_backward_args {
    ts_ternary_linear_dims d;
    const float           *w;
    const void            *in, *dy;
    void                  *dx; /* [n_rows][n_in] */
    float                 *dw; /* [n_out][n_in] */
} ts_ternary_linear_backward_args;

TS_API ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x);
TS_API ts_status ts_ternary_pack_workspace(const ts_ternary_pack_args *a, const ts_exec *x,
                                           size_t *n_bytes);

TS_API ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x);
TS_API ts_status ts_ternary_unpack_workspace(const ts_ternary_unpack_args *a, const ts_exec *x,
                                             size_t *n_bytes);

TS_API ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x);
TS_API ts_status ts_ternary_linear_workspace(const ts_ternary_linear_args *a, const ts_exec *x,
                                             size_t *n_bytes);

TS_API ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x);
TS_API ts_status ts_ternary_linear_packed_workspace(const ts_ternary_linear_packed_args *a,
                                                    const ts_exec *x, size_t *n_bytes);

TS_API ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a,
                                            const ts_exec                         *x);
TS_API ts_status ts_ternary_linear_backward_workspace(const ts_ternary_linear_backward_args *a,
                                                      const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
