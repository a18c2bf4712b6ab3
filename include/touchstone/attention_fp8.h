/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8.h - attention forward over q, k and v of 8 bits each.
 *
 * q, k and v are e4m3 codes: one bit of sign, 4 of exponent (bias 7), 3 of mantissa; 0x7f and 0xff
 * are NaN, there is no infinity, and the largest number is 448. The real number of a code is its
 * value times the scale of its batch and head, which is finite and positive. With these numbers,
 * o and lse are defined as in attention.h, and so are layouts, masks, kv_len and rows that see no
 * key. d.dtype is the format of o: TS_F32, TS_F16 or TS_BF16. d.scale, usually 1 / sqrt(head_dim),
 * is a factor of the scores in addition to q_scale and k_scale. lse is float.
 *
 * An implementation may round weights to e4m3 before it multiplies them by v, and may sum up to 256
 * products of e4m3 numbers with 13 bits after the leading one. doc/attention_fp8.md
 * derives from this the error that each element of o and lse may have. */
#ifndef TOUCHSTONE_ATTENTION_FP8_H
#define TOUCHSTONE_ATTENTION_FP8_H

#include "touchstone/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arguments of ts_flash_attention_fp8. */
typedef struct ts_flash_attention_fp8_args {
    ts_attention_dims d;                 /* shape and mask; d.dtype is that of o */
    const uint8_t    *q, *k, *v;         /* e4m3 codes, in the layout of attention.h */
    const float      *q_scale;           /* [n_batch][n_q_head], > 0, finite */
    const float      *k_scale, *v_scale; /* [n_batch][n_kv_head], > 0, finite */
    const int32_t    *kv_len;            /* [n_batch], keys per batch, 0 .. n_k; NULL: n_k */
    void             *o;                 /* output, of q's shape */
    float            *lse;               /* [n_batch][n_q_head][n_q], output; or NULL */
} ts_flash_attention_fp8_args;

/* Computes o and, unless NULL, lse. */
TS_API ts_status ts_flash_attention_fp8(const ts_flash_attention_fp8_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_flash_attention_fp8 needs for these arguments. */
TS_API ts_status ts_flash_attention_fp8_workspace(const ts_flash_attention_fp8_args *a,
                                                  const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
