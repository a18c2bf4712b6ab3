/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.h - linear layers whose weights are -s, 0 or +s, with one s per group: 2.125 bits per
 * weight.
 *
 * A matrix is [n_out][n_in]; a group is 128 consecutive inputs of one output; the last group of a
 * row may be shorter. Training stores float latents w, from which the weights are computed. For
 * each group
 *     s = mean |w|, summed in double over the weights of the group, rounded to the nearest f16,
 *     c = 0 where 2 |w| <= s, else the sign of w; all 0 where s = 0,
 * and the effective weight is wt = c s, with the rounded s, in training too.
 *
 * Packed, code points 0, 1, 2 are c = -1, 0, +1. Weight j of a row is in byte j / 4 of that row, in
 * bits 2 (j mod 4) and 2 (j mod 4) + 1. A row has 32 bytes for each of its
 * groups = ceil(n_in / 128); positions past n_in have code point 1. Scales are f16,
 * [n_out][groups].
 *
 * in is [n_rows][n_in], y [n_rows][n_out], both of `dtype`: TS_F32, TS_F64, TS_F16 or TS_BF16. A
 * prime is a transpose.
 *     y = in wt'      from latents, or from codes
 *     dx = dy wt      with the effective weights, not the latents
 *     dw = dy' in     straight through: for every weight, none masked, and s held constant
 * Sums are float (double for TS_F64), rounded once. dw is float, as the latents are. Outputs are
 * overwritten. NaN and infinity in `in` and dy follow the formulas: 0 times either is NaN.
 *
 * Both forward passes are bitwise identical: the one from latents packs into workspace and calls
 * the other. Within one implementation the summation order of y[r][o] depends on n_in and that row
 * of `in` only: sums per group, then the sum over groups, each times its s. So a row's bits depend
 * neither on other rows nor on the number of threads.
 *
 * Rejected, with nothing written: TS_E_RANGE for latents that are not finite or an s beyond f16;
 * TS_E_FORMAT for code point 3 anywhere, or a scale that is not finite.
 *
 * TS_CUDA does not support TS_F64, and a call does not wait to inspect tensors: neither error is
 * reported. A group of latents out of range gets codes of 0 and a scale of NaN. Results computed
 * from such a scale, or from input that TS_E_FORMAT describes, are not finite: the weight or the
 * group in wt, the group's share of dx, and the whole output in y. */
#ifndef TOUCHSTONE_TERNARY_H
#define TOUCHSTONE_TERNARY_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Weights per group, and bytes of their codes. */
enum { TS_TERNARY_GROUP = 128, TS_TERNARY_GROUP_BYTES = 32 };

/* Shape of a layer and of one call. pack and unpack read n_out and n_in only. */
typedef struct ts_ternary_linear_dims {
    ts_dtype dtype;               /* of in, y, dy and dx */
    int64_t  n_out, n_in, n_rows; /* outputs, inputs, rows of in; >= 0 */
} ts_ternary_linear_dims;

/* Arguments of ts_ternary_pack. */
typedef struct ts_ternary_pack_args {
    ts_ternary_linear_dims d;     /* shape */
    const float           *w;     /* [n_out][n_in], latents */
    uint8_t               *code;  /* [n_out][32 * groups], output */
    uint16_t              *scale; /* [n_out][groups] f16, output */
} ts_ternary_pack_args;

/* Arguments of ts_ternary_unpack. */
typedef struct ts_ternary_unpack_args {
    ts_ternary_linear_dims d;     /* shape */
    const uint8_t         *code;  /* [n_out][32 * groups] */
    const uint16_t        *scale; /* [n_out][groups] f16 */
    float                 *wt;    /* [n_out][n_in], output: effective weights */
} ts_ternary_unpack_args;

/* Arguments of ts_ternary_linear. */
typedef struct ts_ternary_linear_args {
    ts_ternary_linear_dims d;  /* shape */
    const float           *w;  /* [n_out][n_in], latents */
    const void            *in; /* [n_rows][n_in], input */
    void                  *y;  /* [n_rows][n_out], output */
} ts_ternary_linear_args;

/* Arguments of ts_ternary_linear_packed. */
typedef struct ts_ternary_linear_packed_args {
    ts_ternary_linear_dims d;     /* shape */
    const uint8_t         *code;  /* [n_out][32 * groups] */
    const uint16_t        *scale; /* [n_out][groups] f16 */
    const void            *in;    /* [n_rows][n_in], input */
    void                  *y;     /* [n_rows][n_out], output */
} ts_ternary_linear_packed_args;

/* Arguments of ts_ternary_linear_backward. */
typedef struct ts_ternary_linear_backward_args {
    ts_ternary_linear_dims d;       /* shape */
    const float           *w;       /* [n_out][n_in], latents */
    const void            *in, *dy; /* [n_rows][n_in], forward's input; [n_rows][n_out] */
    void                  *dx;      /* [n_rows][n_in], gradient of in */
    float                 *dw;      /* [n_out][n_in], gradient of w */
} ts_ternary_linear_backward_args;

/* Computes codes and scales from latents. */
TS_API ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_ternary_pack needs for these arguments. */
TS_API ts_status ts_ternary_pack_workspace(const ts_ternary_pack_args *a, const ts_exec *x,
                                           size_t *n_bytes);

/* Computes the effective weights from codes and scales. */
TS_API ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_ternary_unpack needs for these arguments. */
TS_API ts_status ts_ternary_unpack_workspace(const ts_ternary_unpack_args *a, const ts_exec *x,
                                             size_t *n_bytes);

/* Computes y from latents. */
TS_API ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_ternary_linear needs for these arguments. */
TS_API ts_status ts_ternary_linear_workspace(const ts_ternary_linear_args *a, const ts_exec *x,
                                             size_t *n_bytes);

/* Computes y from codes and scales. */
TS_API ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_ternary_linear_packed needs for these arguments. */
TS_API ts_status ts_ternary_linear_packed_workspace(const ts_ternary_linear_packed_args *a,
                                                    const ts_exec *x, size_t *n_bytes);

/* Computes dx and dw from latents. */
TS_API ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a,
                                            const ts_exec                         *x);

/* Sets *n_bytes to the workspace that ts_ternary_linear_backward needs for these arguments. */
TS_API ts_status ts_ternary_linear_backward_workspace(const ts_ternary_linear_backward_args *a,
                                                      const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
