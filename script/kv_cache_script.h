/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_script.h - a script of operations on KV caches, and its player, which calls the eleven
 * functions of touchstone/kv_cache.h.
 *
 * The task writes scripts and knows what must be observed. The program plays them for the library
 * and for mutants, the cage for an entrant. */
#ifndef TS_KV_CACHE_SCRIPT_H
#define TS_KV_CACHE_SCRIPT_H

#include <stdbool.h>
#include <string.h>

#include "player.h"
#include "touchstone/kv_cache.h"

enum {
    TS_KV_SIZE, /* bytes of the state; and a creation with one byte less, which must fail */
    TS_KV_OPEN,
    TS_KV_APPEND,
    TS_KV_ATTEND,
    TS_KV_READ,
    TS_KV_TRUNCATE,
    TS_KV_FORK, /* of the first item into the second */
    TS_KV_FREE,
    TS_KV_STATUS,
    TS_KV_DESTROY,
    TS_KV_WRONG, /* function `data` is called wrongly, in way `from`: see ts_kv_wrong_ways */
    TS_KV_TREE,  /* attend to a tree behind each sequence; what it takes is said below */
};

/* How an operation is done. */
enum {
    TS_KV_NO_LSE = 1,
    TS_KV_SHORT = 2, /* without the workspace that it must have */
    TS_KV_MANY = 4,  /* n_seq is 2^60, and nothing lies behind the list */
    /* Of a tree, with NULL for: */
    TS_KV_NO_EXEC = 8,
    TS_KV_NO_LIST = 16,   /* the sequences */
    TS_KV_NO_COUNTS = 32, /* n_q */
    TS_KV_NO_ROWS = 64,   /* q */
    TS_KV_NO_CACHE = 128,
    TS_KV_NO_TREE = 256,
    TS_KV_NO_PARENTS = 512,
    TS_KV_NO_KEYS = 1024,
    TS_KV_NO_VALUES = 2048,
    TS_KV_NO_OUT = 4096,
    TS_KV_CHILD_FIRST = 8192, /* the first row's parent is the second */
    TS_KV_OWN_PARENT = 16384, /* the last row's is itself */
    TS_KV_BELOW = 32768,      /* the last row's is -2 */
    TS_KV_LAST_WAY = TS_KV_BELOW,
    TS_KV_SENSELESS = 2 * TS_KV_LAST_WAY - TS_KV_MANY,
};

/* The script is a row of these, each followed by its n_item items; a tree's by `from` words more:
 * the first row of q, and then the parents. Sequences have names of the
 * script's own, `slot`; which number a cache gave them, the player keeps. */
typedef struct ts_kv_op {
    int32_t what, cache, layer, n_item;
    int32_t data; /* first row of k and v, or of q */
    int32_t from; /* TS_KV_READ */
    int32_t how;
    int32_t same; /* an earlier operation that must have observed the same bits; -1: none */
} ts_kv_op;

typedef struct ts_kv_item {
    int32_t slot, n; /* n: tokens, or the length that is kept */
} ts_kv_item;

/* What is seen of each operation, in a row of doubles: its status; the number of a sequence, a
 * length, or a size in bytes; and a ts_kv_usage. What does not apply is 0. */
enum { TS_KV_SEEN = 6, TS_KV_SLOTS = 512, TS_KV_ITEMS = 256, TS_KV_CACHES = 2 };
enum { TS_KV_WORDS = 2048 }; /* of a tree */
enum { TS_KV_UNSEEN = -77 }; /* of a number or a length that a refused call must not write */

typedef struct ts_kv_cache_args {
    ts_kv_dims     dims[TS_KV_CACHES]; /* alike but for the pages */
    int64_t        n_cache, n_op;
    int64_t        staged; /* 1: k, v and q are lent for the call only, at odd addresses */
    const int32_t *script;
    const void    *k, *v; /* [n][n_kv_head][head_dim] */
    const void    *q;     /* [n][n_q_head][head_dim] */
    double        *seen;  /* [n_op][TS_KV_SEEN] */
    void          *out;   /* of each attend in turn: [n][n_q_head][head_dim] */
    float         *lse;   /* [n][n_q_head] */
    float         *read;  /* of each read in turn: keys, then values: [2 n][n_kv_head][head_dim] */
} ts_kv_cache_args;

/* The contract's functions, in the order of ts_kv_names. */
typedef struct ts_kv_table {
    ts_status (*bytes)(const ts_kv_dims *, const ts_exec *, size_t *, size_t *);
    ts_status (*create)(const ts_kv_dims *, const ts_exec *, void *, size_t, ts_kv **);
    ts_status (*destroy)(ts_kv **);
    ts_status (*open)(ts_kv *, const ts_exec *, int32_t *);
    ts_status (*fork)(ts_kv *, const ts_exec *, int32_t, int32_t *);
    ts_status (*truncate)(ts_kv *, const ts_exec *, int32_t, int64_t);
    ts_status (*free)(ts_kv *, const ts_exec *, int32_t);
    ts_status (*append)(ts_kv *, const ts_exec *, int64_t, int64_t, const int32_t *,
                        const int64_t *, const void *, const void *);
    ts_status (*attend)(ts_kv *, const ts_exec *, int64_t, int64_t, const int32_t *,
                        const int64_t *, const void *, void *, float *);
    ts_status (*read)(ts_kv *, const ts_exec *, int64_t, int32_t, int64_t, int64_t, float *,
                      float *);
    ts_status (*status)(const ts_kv *, int64_t, int32_t, int64_t *, ts_kv_usage *);
    /* of ts_kv_optional: NULL if it is not there */
    ts_status (*attend_tree)(ts_kv *, const ts_exec *, int64_t, int64_t, const int32_t *,
                             const int64_t *, const ts_kv_tree *, const void *, void *, float *);
} ts_kv_table;

enum { TS_KV_FUNCTIONS = sizeof(ts_kv_table) / sizeof(void (*)(void)) - 1 };
extern const char *const ts_kv_names[TS_KV_FUNCTIONS + 1]; /* "ts_kv_bytes", ...; NULL ends */
extern const char *const ts_kv_optional[2];

/* Ways to call a function of the table wrongly, each in one respect: without a pointer, and with
 * numbers that make no sense, all TS_E_ARG; and with numbers that no sequence has, for which some
 * error is due. The item is a sequence that has a token. */
int ts_kv_wrong_ways(int function);
int ts_kv_wrong_sequences(int function); /* of these, the last ones */

/* Plays ts_kv_cache_args over a ts_kv_table. The workspace holds the caches' states too. A status
 * but TS_OK: the caches could not be made, and nothing was written. */
extern const ts_player ts_player_kv_cache;

/* Bytes of an element of k, v, q and out. */
static inline size_t ts_kv_io_bytes(const ts_kv_dims *d)
{
    return d->io_dtype == TS_F64 ? 8 : d->io_dtype == TS_F32 ? 4 : 2;
}

/* Words of a script that an operation takes. */
static inline size_t ts_kv_op_words(const ts_kv_op *o)
{
    const size_t more = o->what == TS_KV_TREE ? (size_t)o->from : 0;
    return (sizeof *o + (size_t)o->n_item * sizeof(ts_kv_item)) / sizeof(int32_t) + more;
}

#endif
