/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_inside.h - the parts of the KV cache task: its cases, the script of each, and the model
 * of what a script must observe. */
#ifndef TS_TASK_KV_CACHE_INSIDE_H
#define TS_TASK_KV_CACHE_INSIDE_H

#include <assert.h>

#include "kv_cache_script.h"
#include "task.h"

/* dim: seqs, len (of the longest), layers, q_heads, kv_heads, head_dim, page, store. */
enum { SEQS, LEN, LAYERS, Q_HEADS, KV_HEADS, HEAD_DIM, PAGE, STORE };
static_assert(Q_HEADS == 3 && KV_HEADS == 4, "as ts_multiply_heads has them");

/* more: window and sink, 0: by the family; scale, 0: one over the root of head_dim; group of keys,
 * 0: by page and head_dim. */
enum { WINDOW = TS_MAX_DIMS, SINK, SCALE, GROUP };
enum { SCALE_0 = 1, SCALE_SMALL, SCALE_LARGE, SCALE_NEGATIVE };

/* The values of `store`. For codes: bits, the axis of keys, and in the tens the metadata. */
enum {
    STORE_IO = 0, /* the dtype of the case itself */
    STORE_F32 = 32,
    STORE_F16 = 16,
    STORE_BF16 = 17,
    STORE_U8 = 8, /* TS_KEY_TOKEN */
    STORE_U8_CHANNEL = 9,
    STORE_U4 = 4,
    STORE_U4_CHANNEL = 5,
    META_F16 = 10, /* to be added; without it TS_F32 */
};

enum { MOST_LAYERS = 12, MOST_CUTS = 5 * MOST_LAYERS };

const ts_case        *ts_kv_cache_cases(void);
extern const ts_cover ts_kv_cache_cover, ts_kv_tree_cover;

static inline bool ts_kv_is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

/* A case's script, which follows from the case alone, and the rows that it needs. */
typedef struct ts_kv_script {
    ts_kv_dims dims[TS_KV_CACHES];
    int64_t    n_cache, n_op, staged;
    int32_t   *word; /* malloc */
    size_t     n_word, room;
    int64_t    n_kv, n_q, n_out, n_read;
    int64_t    cut[MOST_CUTS][2]; /* rows of k and v, from and to, that are cut off unseen */
    int        n_cut;
    double     bytes, flops; /* the least that it takes */
} ts_kv_script;

void ts_kv_script_of(const ts_case *c, ts_kv_script *s);

/* Without the script: all but the numbers of sequences, tokens and pages. */
ts_kv_dims ts_kv_dims_of(const ts_case *c);

/* What the script of a case may do in addition to what all do: bits 1u << TS_KV_DOES_*. */
enum {
    TS_KV_DOES_FORK,
    TS_KV_DOES_TRUNCATE,
    TS_KV_DOES_FREE,
    TS_KV_DOES_TREE,
    TS_KV_DOES_REFUSED, /* calls that must be rejected */
    TS_KV_DOES
};
unsigned ts_kv_does(const ts_case *c);

/* What must be seen, read back, and attended to: wants for seen, read, out and lse, in this order.
 *
 * Codes leave room for rounding, so what attend must give follows from what read gave: `read` is
 * what an implementation answered, each attend is expected over the last values read before it.
 * Without it (NULL, before there is an answer) and with codes, only `seen` and the first reads are
 * known; anything goes for the rest. */
void ts_kv_model(const ts_kv_cache_args *a, const ts_kv_script *s, const float *read,
                 ts_want *want);

/* How large the state of a cache may be: see ts_kv_bytes. */
ts_want ts_kv_want_state(const ts_kv_dims *d);

#define TS_KV_STALE    "a NaN or infinity that was truncated never reappears"
#define TS_KV_MASKED   "keys whose score is -inf have weight 0, even if they come first"
#define TS_KV_NONSENSE "an invalid call is rejected, with nothing written or changed"

/* Lifts the wants of the canon that the usual contract does not have: what a cache says of its
 * memory; and what the rule of the family is about, in the elements of this output that break it.
 * Returns that rule if there are any, else NULL. */
const char *ts_kv_excuse(const ts_case *c, const ts_kv_cache_args *a, const ts_kv_script *s,
                         ts_want *want);

#endif
