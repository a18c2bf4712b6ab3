/* SPDX-License-Identifier: Apache-2.0 */
/* attention_impl.h - the implementations, and what those for the CPU share. Private.
 *
 * Every implementation may rely on what attention_check.c validated: dtype, layout, causal and
 * scale are valid; no product of extents overflows; n_q_head is a multiple of n_kv_head; head_dim
 * is in 1 .. TS_ATTENTION_WIDEST; window > 0 only with causal; every tensor that has elements has a
 * pointer aligned to its element, except lse of the forward pass, which may be NULL. On the CPU
 * kv_len, if given, is in 0 .. n_k; on CUDA it is device memory, and the caller guarantees this.
 * n_batch, n_q and n_k may each be 0: with n_k = 0 o, lse and dq are still written, with n_q = 0 dk
 * and dv. The workspace has the size that the implementation's own query returned, and any
 * alignment. */
#ifndef TS_ATTENTION_IMPL_H
#define TS_ATTENTION_IMPL_H

#include "impl.h"
#include "touchstone/attention.h"
#include "whole.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TS_ATTENTION_WIDEST = 256 }; /* head_dim */

extern const ts_impl ts_flash_attention_impls[], ts_flash_attention_backward_impls[],
    ts_flash_attention_fp8_impls[];

ts_status ts_flash_attention_check(const ts_flash_attention_args *a, const ts_exec *x);
ts_status ts_flash_attention_backward_check(const ts_flash_attention_backward_args *a,
                                            const ts_exec                          *x);

TS_DECLARE_IMPLS(ts_flash_attention)
ts_status ts_flash_attention_amx(const void *args, const ts_exec *x);
ts_status ts_flash_attention_amx_workspace(const void *args, const ts_exec *x, size_t *n_bytes);

/* flash_attention_fp8; floats: for every instruction set. */
ts_status ts_flash_attention_fp8_ref(const void *args, const ts_exec *x);
ts_status ts_flash_attention_fp8_ref_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_flash_attention_fp8_floats(const void *args, const ts_exec *x);
ts_status ts_flash_attention_fp8_floats_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes);

TS_DECLARE_IMPLS(ts_flash_attention_backward)
ts_status ts_flash_attention_backward_amx(const void *args, const ts_exec *x);
ts_status ts_flash_attention_backward_amx_workspace(const void *args, const ts_exec *x,
                                                    size_t *n_bytes);

/* ---- the keys that a query sees, and where they are stored ---- */

/* Row i of head h of batch b, in elements, in a tensor of n_head heads and n rows each. */
static inline int64_t ts_attention_row(const ts_attention_dims *d, int64_t n_head, int64_t n,
                                       int64_t b, int64_t h, int64_t i)
{
    return (d->layout == TS_BHND ? (b * n_head + h) * n + i : (b * n + i) * n_head + h) *
           d->head_dim;
}

/* From one row of a head to the next. */
static inline int64_t ts_attention_stride(const ts_attention_dims *d, int64_t n_head)
{
    return d->layout == TS_BHND ? d->head_dim : n_head * d->head_dim;
}

static inline int64_t ts_attention_keys(const ts_attention_dims *d, const int32_t *kv_len,
                                        int64_t b)
{
    return kv_len ? kv_len[b] : d->n_k;
}

/* A window that hides nothing is as wide as all there is, so that no sum with it overflows. */
static inline int64_t ts_attention_window(const ts_attention_dims *d)
{
    return d->window > 0 && d->window < d->n_q + d->n_k ? d->window : d->n_q + d->n_k;
}

/* Query i sees the keys [first, end) of `len`; none where end <= first. */
static inline int64_t ts_attention_first(const ts_attention_dims *d, int64_t i)
{
    const int64_t first = i + d->n_k - d->n_q - ts_attention_window(d) + 1;
    return d->causal && first > 0 ? first : 0;
}

static inline int64_t ts_attention_end(const ts_attention_dims *d, int64_t len, int64_t i)
{
    const int64_t end = i + d->n_k - d->n_q + 1;
    return d->causal && end < len ? end : len;
}

/* ---- the CPU's vector implementations: work items divided among threads ---- */

enum { TS_ATTENTION_TILE = 64 }; /* queries in a tile, and keys, at most */

/* Floats from one row of a tile to the next, where the row is a query's, a key's or a value's. */
static inline int64_t ts_attention_width(const ts_attention_dims *d)
{
    return (d->head_dim + 15) / 16 * 16;
}

/* Floats of any tile: TS_ATTENTION_TILE rows of either kind. */
static inline int64_t ts_attention_tile(const ts_attention_dims *d)
{
    const int64_t width = ts_attention_width(d);
    return TS_ATTENTION_TILE * (width > TS_ATTENTION_TILE ? width : TS_ATTENTION_TILE);
}

enum { TS_ATTENTION_TILES = 6, TS_ATTENTION_BACKWARD_TILES = 11 }; /* of scratch */

/* Some queries, or keys, of one head: at most TS_ATTENTION_TILE. */
typedef struct ts_attention_piece {
    int64_t batch, head, begin, end;
} ts_attention_piece;

/* What a width of vector supplies. What is cut, and where, depends on the dims alone, and so does
 * the order of every sum: no bit of a result depends on the number of threads. */
typedef struct ts_attention_steps {
    /* o and lse of queries. */
    void (*forward)(const ts_flash_attention_args *a, const ts_attention_piece *queries,
                    float *scratch);
    /* dk and dv of keys of a KV head. Adds what these give to dq, but for the scale, to sums,
     * [n_q_head / n_kv_head][n_q][head_dim]. */
    void (*backward)(const ts_flash_attention_backward_args *a, const ts_attention_piece *keys,
                     float *sums, float *scratch);
    /* dq of queries, from n_sums sums of their rows, `stride` floats apart. */
    void (*finish)(const ts_flash_attention_backward_args *a, const ts_attention_piece *queries,
                   const float *sums, int64_t n_sums, int64_t stride);
} ts_attention_steps;

ts_status ts_attention_threads(const ts_flash_attention_args *a, const ts_exec *x,
                               const ts_attention_steps *steps);
ts_status ts_attention_threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes);
ts_status ts_attention_threads_backward(const ts_flash_attention_backward_args *a, const ts_exec *x,
                                        const ts_attention_steps *steps);
ts_status ts_attention_threads_backward_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes);

#ifdef __cplusplus
}
#endif
#endif
