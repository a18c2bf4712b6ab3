/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_impl.h - the memory layout of a cache, and the operations of an implementation. Private.
 *
 * The API (kv_cache.c) validates, and tracks lengths, pages and reference counts; an implementation
 * stores, copies and attends, and knows only pages. A contiguous cache is a paged one with one page
 * of `capacity` tokens for each sequence and layer, page id = seq * n_layer + layer. */
#ifndef TS_KV_CACHE_IMPL_H
#define TS_KV_CACHE_IMPL_H

#include "impl.h"
#include "touchstone/kv_cache.h"
#include "whole.h"

#ifdef __CUDACC__
#define TS_KV_BOTH __host__ __device__ /* kernels use the helpers below, too */
#else
#define TS_KV_BOTH
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers and addresses, to be passed to a kernel by value. Pools, each beginning at a multiple of
 * 256 bytes (a "row" is one token's head: head_dim elements in row_bytes bytes, U4 padded):
 *
 *     k_data, v_data   [n_page][n_kv_head][page] rows, of store_dtype
 *     v_meta           [n_page][n_kv_head][page][2], of meta_dtype: s, lo
 *     k_meta           TS_KEY_TOKEN:   [n_page][n_kv_head][page][n_group][2]
 *                      TS_KEY_CHANNEL: [n_page][n_kv_head][n_group][head_dim][2]
 *     tail             [n_seq_max][n_layer][n_kv_head][key_group][head_dim], of io_dtype
 *
 * Metadata exists for codes only, the tail for codes with TS_KEY_CHANNEL only: a key at position p
 * >= len - len % key_group is in the tail, at p % key_group; an earlier key is in its page. Values
 * are always in their page. */
typedef struct ts_kv_layout {
    int64_t     n_layer, n_seq_max, n_q_head, n_kv_head, head_dim;
    int64_t     page, n_page, max_pages; /* tokens per page; pages; pages per sequence and layer */
    int64_t     window, n_sink;
    int64_t     key_group; /* as in ts_kv_dims */
    int64_t     n_group; /* of channels in a row, or of tokens in a page: floor(page / key_group) */
    int64_t     max_call_tokens;
    int64_t     row_bytes;
    ts_dtype    io_dtype, store_dtype, meta_dtype;
    ts_key_axis key_axis; /* TS_KEY_TOKEN unless the store is of codes */
    double      scale;
    char       *k_data, *v_data, *k_meta, *v_meta, *tail;
    int32_t *table; /* [n_seq_max][n_layer][max_pages], page ids; with TS_CUDA the device's copy */
} ts_kv_layout;

/* One sequence of a call. Only those with n > 0 are passed on, each once. */
typedef struct ts_kv_part {
    int64_t len;   /* tokens in this layer: before an append, and at an attend */
    int64_t n;     /* tokens of this call: they follow len, or are the last n of len */
    int64_t first; /* where they begin in the packed tokens of the call */
    int64_t seq;
} ts_kv_part;

/* The position of a part's first query. Queries of a tree follow all len tokens of the sequence;
 * other queries are its last n. */
static inline int64_t ts_kv_base(const ts_kv_tree *tree, const ts_kv_part *part)
{
    return tree ? part->len : part->len - part->n;
}

/* The position of query i of a part; tree may be NULL. */
static inline int64_t ts_kv_position(const ts_kv_tree *tree, const ts_kv_part *part, int64_t i)
{
    int64_t p = ts_kv_base(tree, part);
    if (!tree) return p + i;
    while ((i = tree->parent[part->first + i]) >= 0) p++;
    return p;
}

/* Copies the first n tokens of a page, with their metadata, to another page. */
typedef struct ts_kv_copy {
    int64_t from, to, n;
} ts_kv_copy;

/* The operations of an implementation. Arguments are valid, and x->workspace has at least the size
 * that `workspace` returned. CUDA enqueues on x->stream; host arrays may change as soon as the call
 * returns. A status other than TS_OK means that nothing has changed. */
typedef struct ts_kv_ops {
    /* Bytes that every other call needs, by the shape alone. */
    size_t (*workspace)(const ts_kv_layout *l);
    /* Stores the tokens of each part at its positions len .. len + n. Their pages are in c->table
     * already. With TS_CUDA the device's table is updated here: the entries of each part from len /
     * page on may be new. */
    ts_status (*append)(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                        const ts_kv_part *part, const void *k, const void *v);
    /* lse may be NULL. */
    ts_status (*attend)(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                        const ts_kv_part *part, const void *q, void *out, float *lse);
    /* Positions from .. from + n of a sequence that has `len` tokens; n > 0. */
    ts_status (*read)(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t len,
                      int64_t from, int64_t n, float *k, float *v);
    /* For the first write to a shared page, before append; and for a contiguous fork. No page is
     * both read and written. */
    ts_status (*copy_pages)(const ts_kv *c, const ts_exec *x, int64_t n_copy,
                            const ts_kv_copy *copy);
    /* The functions below may be NULL: nothing to do. Copies the tails of all layers of a sequence
     * to another. */
    ts_status (*copy_tail)(const ts_kv *c, const ts_exec *x, int64_t from_seq, int64_t to_seq);
    /* Writes keys n - n % key_group .. n, which are in a finished group, to the tail as read back.
     * */
    ts_status (*fill_tail)(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t n);
    /* CUDA: copies entries at .. at + n of c->table to the device: all of them at create, and those
     * of a new sequence at fork. */
    ts_status (*set_table)(const ts_kv *c, const ts_exec *x, int64_t at, int64_t n);
    /* Like attend, for a tree; NULL: not supported. */
    ts_status (*attend_tree)(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                             const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                             void *out, float *lse);
} ts_kv_ops;

/* The handle. On the CPU it is at the beginning of `memory`, followed by its arrays, and then the
 * pools; with TS_CUDA it and its arrays are one block of host memory; `memory` contains the
 * device's table and the pools. */
struct ts_kv {
    ts_kv_layout     l;
    const ts_kv_ops *ops;
    ts_device        device;
    int              contiguous;
    int64_t          capacity;
    size_t           state_bytes, workspace_bytes;
    int64_t          n_free;    /* pages */
    int32_t         *free_page; /* [n_page], the first n_free are free: a stack */
    int32_t         *n_ref;     /* [n_page], sequences that use a page */
    int32_t         *n_held;    /* [n_page], scratch of ts_kv_status */
    int32_t         *table;     /* [n_seq_max][n_layer][max_pages], the host's */
    int64_t         *len;       /* [n_seq_max][n_layer] */
    uint8_t         *is_open;   /* [n_seq_max] */
    uint8_t         *is_listed; /* [n_seq_max], scratch: 0 between calls */
    ts_kv_part      *part;      /* [n_seq_max], of the call */
    ts_kv_copy      *copy;      /* [max(n_seq_max, n_layer)], of the call */
};

/* ---- addresses ---- */

static inline TS_KV_BOTH int ts_kv_code_bits(const ts_kv_layout *l)
{
    return l->store_dtype == TS_U8 ? 8 : l->store_dtype == TS_U4 ? 4 : 0;
}

/* The first position whose key is in the tail; len if there is no tail. */
static inline TS_KV_BOTH int64_t ts_kv_tail_begin(const ts_kv_layout *l, int64_t len)
{
    return l->key_axis == TS_KEY_CHANNEL ? len - len % l->key_group : len;
}

/* Entries of a sequence and layer in a table. */
static inline TS_KV_BOTH const int32_t *ts_kv_pages(const ts_kv_layout *l, const int32_t *table,
                                                    int64_t seq, int64_t layer)
{
    return table + (seq * l->n_layer + layer) * l->max_pages;
}

/* The index of a row in k_data and v_data, and of a pair in v_meta; p: a position in the page. */
static inline TS_KV_BOTH int64_t ts_kv_row(const ts_kv_layout *l, int64_t page, int64_t head,
                                           int64_t p)
{
    return (page * l->n_kv_head + head) * l->page + p;
}

/* The index in k_meta of the pair (s, lo) of channel d of that row. */
static inline TS_KV_BOTH int64_t ts_kv_key_pair(const ts_kv_layout *l, int64_t page, int64_t head,
                                                int64_t p, int64_t d)
{
    if (l->key_axis == TS_KEY_TOKEN)
        return ts_kv_row(l, page, head, p) * l->n_group + d / l->key_group;
    return ((page * l->n_kv_head + head) * l->n_group + p / l->key_group) * l->head_dim + d;
}

/* The index of an element of the tail; p: a position in the sequence. */
static inline TS_KV_BOTH int64_t ts_kv_tail_at(const ts_kv_layout *l, int64_t seq, int64_t layer,
                                               int64_t head, int64_t p)
{
    const int64_t h = (seq * l->n_layer + layer) * l->n_kv_head + head;
    return (h * l->key_group + p % l->key_group) * l->head_dim;
}

/* ---- the pages, kv_cache_book.c ---- */

/* Reserves pages so that every part can grow by its n, and lists in c->copy the shared pages that
 * are about to be written; or reserves none, and returns TS_E_CAPACITY. */
ts_status ts_kv_book_reserve(ts_kv *c, int64_t layer, int64_t n_part, int64_t *n_copy);
void      ts_kv_book_undo(ts_kv *c, int64_t layer, int64_t n_part, int64_t n_copy);
void      ts_kv_book_share(ts_kv *c, int64_t src);
/* Frees the pages past the first n tokens. */
void ts_kv_book_shrink(ts_kv *c, int64_t seq, int64_t layer, int64_t n);
void ts_kv_book_usage(const ts_kv *c, ts_kv_usage *u);

/* ---- sizes and addresses, kv_cache_layout.c ---- */

ts_status ts_kv_check_dims(const ts_kv_dims *d);
/* Fills in the numbers of c; and the addresses, if `book` and `pools` are not NULL. On the CPU both
 * are one block: pools follow the bookkeeping. TS_E_SHAPE: too large. */
ts_status ts_kv_lay_out(ts_kv *c, const ts_kv_dims *d, ts_device device, char *book, char *pools,
                        size_t *book_bytes, size_t *pool_bytes);

/* ---- rows in plain C, kv_cache_rows.c: shared by all implementations on the CPU ---- */

/* A sequence in a layer. */
typedef struct ts_kv_view {
    const ts_kv_layout *l;
    const int32_t      *pages;
    int64_t             seq, layer, tail_begin;
} ts_kv_view;

ts_kv_view ts_kv_view_of(const ts_kv *c, int64_t layer, int64_t seq, int64_t len);
/* The row at position p, read back. */
void ts_kv_key(const ts_kv_view *s, int64_t head, int64_t p, double *row);
void ts_kv_value(const ts_kv_view *s, int64_t head, int64_t p, double *row);
/* The same for a row at x[at], as if it had been appended: as a key, or as a value. */
void ts_kv_as_key(const ts_kv_layout *l, const void *x, int64_t at, double *row);
void ts_kv_as_value(const ts_kv_layout *l, const void *x, int64_t at, double *row);

/* The workspace from its first cache-line boundary on; read and fill_tail need head_dim doubles
 * there. */
double *ts_kv_scratch(const ts_exec *x);

ts_status ts_kv_rows_append(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                            const ts_kv_part *part, const void *k, const void *v);
ts_status ts_kv_rows_read(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq, int64_t len,
                          int64_t from, int64_t n, float *k, float *v);
ts_status ts_kv_rows_copy_pages(const ts_kv *c, const ts_exec *x, int64_t n_copy,
                                const ts_kv_copy *copy);
ts_status ts_kv_rows_copy_tail(const ts_kv *c, const ts_exec *x, int64_t from_seq, int64_t to_seq);
ts_status ts_kv_rows_fill_tail(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t seq,
                               int64_t n);

/* ---- attention by threads, kv_cache_threads.c ---- */

enum {
    TS_KV_TILE = 32,    /* keys that are processed together, beginning at a multiple of it */
    TS_KV_ROWS = 64,    /* queries times heads of a group that share them, at most */
    TS_KV_WIDEST = 256, /* largest head_dim; plain C handles longer rows */
    TS_KV_LANES = 16,   /* rows of floats are padded to a multiple of it */
};

/* A work item: rows of one KV head in one sequence, row r being head r % group of query r / group;
 * and, of the keys they see, those from `from` to `to` and the first n_sink. */
typedef struct ts_kv_piece {
    const ts_kv      *c;
    const ts_kv_part *part;
    int64_t           layer, head, row, n_rows, from, to, n_sink;
    const ts_kv_tree *tree; /* or NULL */
    const void       *q;
    void             *out;
    float            *lse; /* or NULL */
} ts_kv_piece;

/* The partial result of a row after some keys: sum w_j v_j in [width] floats, the largest score m,
 * and sum w_j, with w_j = exp(s_j - m). */
static inline int64_t ts_kv_width(const ts_kv_layout *l)
{
    return (l->head_dim + TS_KV_LANES - 1) / TS_KV_LANES * TS_KV_LANES;
}

static inline int64_t ts_kv_sum_floats(const ts_kv_layout *l)
{
    return ts_kv_width(l) + TS_KV_LANES;
}

typedef struct ts_kv_steps {
    void (*piece)(const ts_kv_piece *p, float *sums); /* [n_rows][ts_kv_sum_floats] */
    /* Adds up n sums of each row, `stride` floats apart, in their order, and writes the result. */
    void (*finish)(const ts_kv_piece *p, const float *sums, int64_t n, int64_t stride);
} ts_kv_steps;

size_t ts_kv_threads_workspace(const ts_kv_layout *l);
/* tree may be NULL, here and below. */
ts_status ts_kv_threads_attend(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                               const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                               void *out, float *lse, const ts_kv_steps *steps);
ts_status ts_kv_attend_tree_ref(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                                const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                                void *out, float *lse);

/* ---- the implementations: each is the `run` of a table row, and sets *ask->ops ---- */

typedef struct ts_kv_ask {
    const ts_kv_ops **ops;
} ts_kv_ask;

extern const ts_impl ts_kv_cache_impls[];

TS_DECLARE_IMPLS(ts_kv_cache)
/* ts_kv_cache_sm90 is found in the CUDA module. */

#ifdef __cplusplus
}
#endif
#endif
