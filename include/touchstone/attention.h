/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - exact attention in memory linear in the sequence length, forward and backward.
 *
 * With TS_BHND q and o are [n_batch][n_q_head][n_q][head_dim], k and v
 * [n_batch][n_kv_head][n_k][head_dim]; with TS_BNHD the two middle axes are swapped. All are dense
 * and have `dtype`: TS_F32, TS_F64, TS_F16 or TS_BF16. Query head h reads KV head h * n_kv_head /
 * n_q_head.
 *
 * Score s_ij = scale q_i.k_j. Query i of batch b sees key j if
 *     j < kv_len[b]                        (NULL: n_k), and
 *     causal: j <= i + n_k - n_q           aligned at the end (last query, last key), for any
 * kv_len, and window > 0, only with causal: i + n_k - n_q - j < window.
 *
 * o_i = sum p_ij v_j, where p is the softmax over the keys that the query sees; lse_i = ln sum exp
 * s_ij. A query that sees no key has o = 0 and lse = -inf. A score of -inf has weight 0; a visible
 * score of NaN or +inf makes its row NaN. Keys and values at or past kv_len are never used; keys
 * that only `causal` hides must be finite.
 *
 * Backward, from forward's inputs and outputs and from dout:
 *     P = exp(s - lse), dP = dout v', delta_i = sum_d dout_id o_id, dS = P (dP - delta),
 *     dv_j = sum_i P_ij dout_i,  dq_i = scale sum_j dS_ij k_j,  dk_j = scale sum_i dS_ij q_i,
 * dk and dv summed over the query heads that share a KV head. A row with lse = -inf contributes
 * nothing, and its dq is 0. Sums are float (double for TS_F64), rounded once; outputs are
 * overwritten. With x->deterministic the summation order depends on the shape only.
 *
 * tile_q and tile_k are hints, 0 for none. lse is float, or double for TS_F64. */
#ifndef TOUCHSTONE_ATTENTION_H
#define TOUCHSTONE_ATTENTION_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_attention_layout { TS_BHND, TS_BNHD } ts_attention_layout;

typedef struct ts_attention_dims {
    ts_dtype            dtype;
    ts_attention_layout layout;
    int                 causal;              /* 0 or 1 */
    int64_t             n_batch, n_q, n_k;   /* >= 0 */
    int64_t             n_q_head, n_kv_head; /* >= 1, the first a multiple of the second */
    int64_t             head_dim;            /* 1 .. 256 */
    int64_t             window;              /* >= 0 */
    int64_t             tile_q, tile_k;      /* >= 0 */
    double              scale;               /* finite */
} ts_attention_dims;

typedef struct ts_flash_attention_args {
    ts_attention_dims d;
    const void       *q, *k, *v;
    const int32_t    *kv_len; /* [n_batch], 0 .. n_k; or NULL */
    void             *o;
    void             *lse; /* [n_batch][n_q_head][n_q], or NULL */
} ts_flash_attention_args;

typedef struct ts_flash_attention_backward_args {
    ts_attention_dims d;
    const void       *q, *k, *v, *o, *dout;
    const void       *lse;
    const int32_t    *kv_len;
    void             *dq, *dk, *dv;
} ts_flash_attention_backward_args;

TS_API ts_status ts_flash_attention(const ts_flash_attention_args *a, const ts_exec *x);
TS_API ts_status ts_flash_attention_workspace(const ts_flash_attention_args *a, const ts_exec *x,
                                              size_t *n_bytes);

TS_API ts_status ts_flash_attention_backward(const ts_flash_attention_backward_args *a,
                                             const ts_exec                          *x);
TS_API ts_status ts_flash_attention_backward_workspace(const ts_flash_attention_backward_args *a,
                                                       const ts_exec *x, size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
