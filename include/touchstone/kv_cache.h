/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.h - keys and values of past tokens, for many sequences, and attention over them.
 *
 * A cache stores n_layer layers for up to n_seq_max sequences. Each sequence has a length in every
 * layer, advanced only by an append to that layer. Tokens of a call are packed, without padding:
 * the rows [n_heads][head_dim] of the first sequence in the list, then of the second, and so on.
 * Order of calls: ts_kv_bytes, ts_kv_create, ts_kv_open per sequence; then per token and layer
 * ts_kv_append and ts_kv_attend.
 *
 * Attend: the queries of a sequence are its last n_q tokens, so append them first. The query at
 * position p sees keys j <= p and, when window > 0, of those only p - j < window or j < n_sink.
 * Query head h reads KV head h * n_kv_head / n_q_head. `scale` may be 0: then all keys that a query
 * sees have equal weight. Memory past a sequence's length is never used.
 *
 * Layouts: page = 0 reserves `capacity` tokens for each sequence and layer. page > 0 shares n_page
 * pages among all sequences, each with `page` tokens of one layer. A fork copies no page, the first
 * write to a shared page copies it, and truncate and free return each page exactly once. Both
 * layouts give bitwise identical results. An append that does not fit for one of its sequences
 * changes nothing.
 *
 * Storage formats: io_dtype itself, TS_F32, TS_BF16, TS_F16, or codes TS_U8 (0..255) and TS_U4
 * (0..15, two per byte, the even element in the low bits). Codes are computed per group of
 * elements, with lo and hi its least and largest element:
 *     s = (hi - lo) / (2^bits - 1),  q = rint((x - lo) / s) clamped,  read back as lo + q s.
 * s and lo are stored in meta_dtype, TS_F32 or TS_F16. Values: a group is one head of one token.
 * Keys with TS_KEY_TOKEN: a group is key_group channels of one head of one token. Keys with
 * TS_KEY_CHANNEL: a group is one channel of key_group tokens, beginning at a multiple of key_group;
 * the tokens of an unfinished group stay in io_dtype (a truncation into a finished group leaves its
 * read-back values there). The stored bits do not depend on how the tokens are split into calls.
 *
 * Errors of codes, with F32 metadata: |read - x| <= s/2 + 2^-22 (|lo| + |hi|); with F16 metadata:
 * |read - x| <= s/2 + 2^-10 (|lo| + |hi|) + 2^(bits-25). Attend is exact attention over the values
 * that read returns.
 *
 * Errors: on any status but TS_OK nothing has changed. Every call on a cache may return
 *     TS_E_ARG        a required pointer is NULL, x->device is not the cache's, layer is not in
 *                     0 .. n_layer - 1, or a sequence is not in 0 .. n_seq_max - 1
 *     TS_E_STATE      a sequence is not open
 *     TS_E_WORKSPACE  x->workspace is missing or smaller than ts_kv_bytes returned
 *     TS_E_DEVICE     TS_CUDA only: the CUDA runtime failed
 * and a call with a list of sequences returns TS_E_ARG if one is listed twice, if a count is
 * negative, or if the sum of counts is larger than max_call_tokens. Functions name further errors.
 *
 * With TS_CUDA `memory`, k, v, q, out, lse and the outputs of read are device memory; everything
 * else is host memory. Calls on one cache must not overlap. */
#ifndef TOUCHSTONE_KV_CACHE_H
#define TOUCHSTONE_KV_CACHE_H

#include "touchstone/touchstone.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The axis along which the elements of a group of key codes are neighbours. */
typedef enum ts_key_axis { TS_KEY_TOKEN, TS_KEY_CHANNEL } ts_key_axis;

/* Size and formats of a cache. */
typedef struct ts_kv_dims {
    int64_t n_layer, n_seq_max, n_q_head, n_kv_head, head_dim; /* >= 1; n_seq_max < 2^31 */
    int64_t capacity;            /* most tokens per sequence and layer, >= 1 */
    int64_t page, n_page;        /* tokens per page, and pages, < 2^31; page 0: contiguous */
    int64_t window, n_sink;      /* keys that a query sees, as above; window 0: every key j <= p */
    int64_t key_group;           /* for codes, >= 1; divides page with TS_KEY_CHANNEL; with
                                    TS_KEY_TOKEN a head's last group may be shorter */
    int64_t     max_call_tokens; /* the largest sum of n_new, n_q or n_row in one call, >= 1 */
    ts_key_axis key_axis;        /* groups of key codes, as above */
    ts_dtype    io_dtype;        /* of k, v, q and out: TS_F32, TS_BF16, TS_F16 or TS_F64 */
    ts_dtype    store_dtype;     /* io_dtype, TS_F32, TS_BF16, TS_F16, TS_U8 or TS_U4 */
    ts_dtype    meta_dtype;      /* of s and lo of codes: TS_F32 or TS_F16 */
    double      scale;           /* factor of the scores, finite; usually 1 / sqrt(head_dim) */
} ts_kv_dims;

/* Memory use of a cache. */
typedef struct ts_kv_usage {
    int64_t n_page, n_free;             /* pages in all, and free ones; 0 if contiguous */
    size_t  bytes_reserved, bytes_live; /* of `memory`: needed in all; used by stored tokens */
} ts_kv_usage;

/* A cache. The caller owns its memory and sees only this pointer. */
typedef struct ts_kv ts_kv;

/* Sets *state_bytes to the size of `memory` that ts_kv_create needs, and *workspace_bytes to the
 * workspace that every other call on such a cache needs, with any n_threads. TS_E_SHAPE, TS_E_DTYPE
 * or TS_E_ARG: invalid dims. */
TS_API ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                             size_t *workspace_bytes);

/* Makes an empty cache in memory[0 .. memory_bytes), which must stay valid until ts_kv_destroy, and
 * sets *c. With TS_CUDA it also allocates host memory for the page tables, which ts_kv_destroy
 * frees. Invalid dims are rejected as in ts_kv_bytes. TS_E_WORKSPACE: memory_bytes is smaller than
 * ts_kv_bytes returned. */
TS_API ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory,
                              size_t memory_bytes, ts_kv **c);

/* Ends the use of a cache and sets *c to NULL. The caller then frees `memory`. */
TS_API ts_status ts_kv_destroy(ts_kv **c);

/* Opens an empty sequence and sets *seq to its number. TS_E_CAPACITY: n_seq_max are open. */
TS_API ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq);

/* Opens a sequence with the tokens of sequence src in every layer, and sets *dst to its number.
 * TS_E_CAPACITY: n_seq_max are open. */
TS_API ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst);

/* Keeps the first n tokens of a sequence in every layer and drops the others. TS_E_ARG: n is
 * negative or larger than the length in some layer. */
TS_API ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n);

/* Drops all tokens of a sequence and closes it: its number may be returned by open and fork. */
TS_API ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq);

/* Appends n_new[i] tokens to sequence seq[i] in one layer, for each i < n_seq. TS_E_CAPACITY: a
 * sequence would exceed `capacity`, or too few pages are free. */
TS_API ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_new, /* [n_seq] */
                              const void *k, const void *v); /* [sum n_new][n_kv_head][head_dim] */
/* Computes attention of the last n_q[i] tokens of sequence seq[i] over its stored tokens in one
 * layer, for each i < n_seq: out and, unless NULL, lse. As in out, all heads of a token are next to
 * each other in lse; attention.h has all tokens of a head there. TS_E_ARG: n_q[i] is larger than
 * the length. */
TS_API ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_q, /* [n_seq] */
                              const void *q, void *out, /* [sum n_q][n_q_head][head_dim] */
                              float *lse);              /* [sum n_q][n_q_head], or NULL */
/* Reads tokens from .. from + n - 1 of a sequence back into k and v, decoded to float. TS_E_ARG:
 * one of them is not stored. */
TS_API ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                            int64_t n, float *k, float *v); /* [n][n_kv_head][head_dim] */

/* Returns the length of a sequence in one layer, and the memory use of the whole cache. With len
 * NULL layer and seq are not used; u may be NULL, too. */
TS_API ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len,
                              ts_kv_usage *u);

/* Drafted tokens that are not in the cache: a tree of n_row[i] tokens per sequence, which continue
 * it. Row r of a tree follows its row parent[r] < r, or the sequence's last token if parent[r] is
 * -1; such rows have depth 1. */
typedef struct ts_kv_tree {
    const int32_t *parent; /* [sum n_row], in host memory */
    const void    *k, *v;  /* [sum n_row][n_kv_head][head_dim] */
} ts_kv_tree;

/* Computes attention for drafted tokens: out and, unless NULL, lse, with q, out and lse shaped as
 * in ts_kv_attend for n_row instead of n_q. A row is at position len + depth - 1 and sees the
 * sequence, its ancestors and itself, as if these had been appended in that order. With
 * TS_KEY_CHANNEL the keys of the tree are exact, as in an unfinished group. Nothing is stored: to
 * keep a path, append its k and v. TS_E_ARG: a parent is not an earlier row of its tree or -1. */
TS_API ts_status ts_kv_attend_tree(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                   const int32_t *seq, const int64_t *n_row, /* [n_seq] */
                                   const ts_kv_tree *tree, const void *q, void *out, float *lse);

#ifdef __cplusplus
}
#endif
#endif
