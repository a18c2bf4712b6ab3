/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - exact attention in memory linear in the sequence length, forward and backward.
 *
 * With TS_BHND q and o are [n_batch][n_q_head][n_q][head_dim], k and v
 * [n_batch][n_kv_head][n_k][head_dim]; with TS_BNHD the two middle axes are swapped. All are dense
 * and have `dtype`: TS_F32, TS_F64, TS_F16 or TS_BF16. Query head h reads KV head
 * h * n_kv_head / n_q_head.
 *
 * Score s_ij = scale q_i.k_j. Query i of batch b sees key j if all of these are true:
 *     j < kv_len[b]                      always; with kv_len NULL, n_k is used
 *     j <= i + n_k - n_q                 if causal
 *     i + n_k - n_q - j < window         if causal and window > 0
 * So with causal the last query is aligned with key n_k - 1, the query before it with key n_k - 2;
 * kv_len does not move this alignment.
 *
 * o_i = sum p_ij v_j, where p is the softmax over the keys that the query sees;
 * lse_i = ln sum exp s_ij. With scale 0 these keys have equal weights. A query that sees no key has
 * o = 0 and lse = -inf. A score of -inf has weight 0; a visible score of NaN or +inf makes its row
 * NaN. Keys and values at or past kv_len are never used; keys that only `causal` hides must be
 * finite.
 *
 * Backward, from forward's inputs and outputs and from dout:
 *     P = exp(s - lse), dP = dout v', delta_i = sum_d dout_id o_id, dS = P (dP - delta),
 *     dv_j = sum_i P_ij dout_i,  dq_i = scale sum_j dS_ij k_j,  dk_j = scale sum_i dS_ij q_i,
 * dk and dv summed over the query heads that share a KV head. A row with lse = -inf contributes
 * nothing, and its dq is 0. Sums are float (double for TS_F64), rounded once; outputs are
 * overwritten. With x->deterministic the summation order depends on the shape only.
 *
 * lse is float, or double for TS_F64. With both layouts it is [n_batch][n_q_head][n_q]; the KV
 * cache's (kv_cache.h) has all heads of a token next to each other. */
#ifndef TOUCHSTONE_ATTENTION_H
#define TOUCHSTONE_ATTENTION_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Order of the axes batch (B), head (H), token (N) and channel (D) of q, k, v, o. */
typedef enum ts_attention_layout { TS_BHND, TS_BNHD } ts_attention_layout;

/* Shape and mask of one call. */
typedef struct ts_attention_dims {
    ts_dtype            dtype;               /* of q, k, v, o and their gradients */
    ts_attention_layout layout;              /* order of axes */
    int                 causal;              /* 1: hide keys after the query; 0: do not */
    int64_t             n_batch, n_q, n_k;   /* batches, queries and keys per batch; >= 0 */
    int64_t             n_q_head, n_kv_head; /* >= 1, the first a multiple of the second */
    int64_t             head_dim;            /* 1 .. 256 */
    int64_t             window; /* most keys that a query sees; 0: no limit; > 0 needs causal */
    int64_t             tile_q, tile_k; /* tile sizes to prefer; >= 0, 0: the library's choice */
    double              scale; /* factor of the scores, finite; usually 1 / sqrt(head_dim) */
} ts_attention_dims;

/* Arguments of ts_flash_attention. */
typedef struct ts_flash_attention_args {
    ts_attention_dims d;         /* shape and mask */
    const void       *q, *k, *v; /* inputs */
    const int32_t    *kv_len;    /* [n_batch], keys per batch, 0 .. n_k; NULL: n_k */
    void             *o;         /* output, of q's shape */
    void             *lse;       /* [n_batch][n_q_head][n_q], output; or NULL */
} ts_flash_attention_args;

/* Arguments of ts_flash_attention_backward. */
typedef struct ts_flash_attention_backward_args {
    ts_attention_dims d;                    /* as in forward */
    const void       *q, *k, *v, *o, *dout; /* forward's inputs and output; the gradient of o */
    const void       *lse;                  /* [n_batch][n_q_head][n_q], as forward wrote it */
    const int32_t    *kv_len;               /* as in forward */
    void             *dq, *dk, *dv;         /* gradients, of the shapes of q, k and v */
} ts_flash_attention_backward_args;

/* Computes o and, unless NULL, lse. */
TS_API ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x);

/* Sets *n_bytes to the workspace that ts_flash_attention needs for these arguments. */
TS_API ts_status ts_flash_attention_workspace(const ts_flash_attention_args *a, const ts_exec *x,
                                              size_t *n_bytes);

/* Computes dq, dk and dv. */
TS_API ts_status ts_flash_attention_backward(const ts_flash_attention_backward_args *a,
                                             const ts_exec                          *x);

/* Sets *n_bytes to the workspace that ts_flash_attention_backward needs for these arguments. */
TS_API ts_status ts_flash_attention_backward_workspace(const ts_flash_attention_backward_args *a,
                                                       const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
