/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.h - keys and values of past tokens, for many sequences, and attention over them.
 *
 * A cache holds n_layer layers for up to n_seq_max sequences. Each sequence has a length in every
 * layer, advanced only by an append to that layer. Tokens of a call are packed, without padding:
 * the rows [n_heads][head_dim] of the first sequence in the list, then of the second, and so on.
 *
 * Attend: the queries of a sequence are its last n_q tokens, so append comes first. The query at
 * position p sees keys j <= p and, when window > 0, of those only p - j < window or j < n_sink.
 * Query head h reads KV head h * n_kv_head / n_q_head. Memory past a sequence's length is never
 * used.
 *
 * Layouts: page = 0 reserves `capacity` tokens for each sequence and layer. page > 0 shares n_page
 * pages among all sequences, each with `page` tokens of one layer. A fork copies no page, the first
 * write to a shared page copies it, and truncate and free return each page exactly once. Both
 * layouts give bitwise identical results. An append that does not fit for one of its sequences
 * changes nothing.
 *
 * Stores: io_dtype itself, TS_F32, TS_BF16, TS_F16, or codes TS_U8 (0..255) and TS_U4 (0..15, two
 * to a byte, the even element low): s = (hi - lo) / (2^bits - 1), q = rint((x - lo) / s) clamped,
 * read back as lo + q s; s and lo are kept in meta_dtype, TS_F32 or TS_F16. Values: a group is a
 * token's head. Keys: with TS_KEY_TOKEN key_group channels of a token's head; with TS_KEY_CHANNEL
 * one channel over key_group tokens, from a multiple of key_group on, and the tokens of an
 * unfinished group stay in io_dtype (a truncation into a finished group leaves its read-back values
 * there). The stored bits do not depend on how the tokens are split into calls.
 *
 * Errors of codes: |read - x| <= s/2 + 2^-22 (|lo| + |hi|) with F32 metadata, and s/2 + 2^-10 (|lo|
 * + |hi|) + 2^(bits-25) with F16. Attend is exact attention over the values that read returns.
 *
 * On any status but TS_OK nothing has changed. With TS_CUDA `memory`, k, v, q, out, lse and the
 * outputs of read are device memory; everything else is host memory. Calls on one cache must not
 * overlap. */
#ifndef TOUCHSTONE_KV_CACHE_H
#define TOUCHSTONE_KV_CACHE_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ts_key_axis { TS_KEY_TOKEN, TS_KEY_CHANNEL } ts_key_axis;

typedef struct ts_kv_dims {
    int64_t n_layer, n_seq_max, n_q_head, n_kv_head, head_dim; /* >= 1; n_seq_max < 2^31 */
    int64_t capacity;                                          /* tokens per sequence, >= 1 */
    int64_t page, n_page;        /* tokens per page, and pages, < 2^31; page 0: contiguous */
    int64_t window, n_sink;      /* window 0: every key j <= p */
    int64_t key_group;           /* for codes, >= 1; divides page with TS_KEY_CHANNEL; with
                                    TS_KEY_TOKEN a head's last group may be shorter */
    int64_t     max_call_tokens; /* the largest sum of n_new, n_q or n_row in one call */
    ts_key_axis key_axis;
    ts_dtype    io_dtype;    /* of k, v, q and out: TS_F32, TS_BF16, TS_F16 or TS_F64 */
    ts_dtype    store_dtype; /* io_dtype, TS_F32, TS_BF16, TS_F16, TS_U8 or TS_U4 */
    ts_dtype    meta_dtype;
    double      scale; /* of the scores */
} ts_kv_dims;

typedef struct ts_kv_usage {
    int64_t n_page, n_free;
    size_t  bytes_reserved, bytes_live; /* live: data and metadata of stored tokens */
} ts_kv_usage;

typedef struct ts_kv ts_kv;

/* state_bytes: memory for ts_kv_create. workspace_bytes: workspace for every other call. */
TS_API ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                             size_t *workspace_bytes);
TS_API ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory,
                              size_t memory_bytes, ts_kv **c);
TS_API ts_status ts_kv_destroy(ts_kv **c); /* the memory stays the caller's; *c becomes NULL */

TS_API ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq);
TS_API ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst);
TS_API ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n);
TS_API ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq);

TS_API ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_new, /* [n_seq] */
                              const void *k, const void *v); /* [sum n_new][n_kv_head][head_dim] */
TS_API ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_q, /* [n_seq] */
                              const void *q, void *out, /* [sum n_q][n_q_head][head_dim] */
                              float *lse);              /* [sum n_q][n_q_head], or NULL */
TS_API ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                            int64_t n, float *k, float *v); /* [n][n_kv_head][head_dim] */

/* len and u may be NULL. */
TS_API ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len,
                              ts_kv_usage *u);

/* Attention for drafted tokens that are not in the cache: each sequence has a tree of them behind
 * its last token. Row i follows row parent[i] < i, or the sequence's last token if parent[i] is -1;
 * such rows have depth 1. A row is at position len + depth - 1 and sees the sequence, its ancestors
 * and itself, as if these had been appended in that order. With TS_KEY_CHANNEL the keys of the tree
 * are exact, as in an unfinished group. Nothing is stored: to keep a path, append its k and v. This
 * function is an optional part of the challenge. */
typedef struct ts_kv_tree {
    const int32_t *parent; /* [sum n_row], in host memory */
    const void    *k, *v;  /* [sum n_row][n_kv_head][head_dim] */
} ts_kv_tree;

TS_API ts_status ts_kv_attend_tree(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                   const int32_t *seq, const int64_t *n_row, /* [n_seq] */
                                   const ts_kv_tree *tree, const void *q, void *out, float *lse);

#ifdef __cplusplus
}
#endif
#endif
