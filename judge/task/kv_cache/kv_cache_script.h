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
    TS_KV_SIZE, /* query the size of the state, and create with one byte less, which must fail */
    TS_KV_OPEN,
    TS_KV_APPEND,
    TS_KV_ATTEND,
    TS_KV_READ,
    TS_KV_TRUNCATE,
    TS_KV_FORK, /* the first item into the second */
    TS_KV_FREE,
    TS_KV_STATUS,
    TS_KV_DESTROY,
    TS_KV_WRONG, /* invalid call number `from` of function `data`: see ts_kv_wrong_ways */
    TS_KV_TREE,  /* attend to a tree behind each sequence; its data follow the items */
};

/* How to perform an operation. */
enum {
    TS_KV_NO_LSE = 1,
    TS_KV_SHORT = 2, /* with too small a workspace */
    TS_KV_MANY = 4,  /* n_seq is 2^60, with an unreadable page after the list */
    /* For a tree, pass NULL for: */
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
    TS_KV_CHILD_FIRST = 8192, /* the first row's parent is the second row */
    TS_KV_OWN_PARENT = 16384, /* the last row is its own parent */
    TS_KV_BELOW = 32768,      /* the last row's parent is -2 */
    TS_KV_LAST_WAY = TS_KV_BELOW,
    TS_KV_INVALID = 2 * TS_KV_LAST_WAY - TS_KV_MANY,
};

/* A script is a sequence of these, each followed by its n_item items, and for a tree by `from` more
 * words: the first row of q, then the parents. A script names sequences by `slot`; the player maps
 * slots to the numbers that a cache assigns. */
typedef struct ts_kv_op {
    int32_t what, cache, layer, n_item;
    int32_t data; /* first row of k and v, or of q */
    int32_t from; /* TS_KV_READ */
    int32_t how;
    int32_t same; /* an earlier operation that must have given the same bits; -1: none */
} ts_kv_op;

typedef struct ts_kv_item {
    int32_t slot, n; /* n: tokens, or the length to keep */
} ts_kv_item;

/* The record of an operation, in doubles: its status; the number of a sequence, a length, or a size
 * in bytes; and a ts_kv_usage. Unused places are 0. */
enum { TS_KV_SEEN = 6, TS_KV_SLOTS = 512, TS_KV_ITEMS = 256, TS_KV_CACHES = 2 };
enum { TS_KV_WORDS = 2048 }; /* of a tree */
enum { TS_KV_UNSEEN = -77 }; /* initial value of outputs that a failed call must not write */

typedef struct ts_kv_cache_args {
    ts_kv_dims     dims[TS_KV_CACHES];    /* equal except for the pages */
    int64_t        n_cache, n_op, n_word; /* operations; words of the script */
    int64_t        staged; /* 1: k, v and q are copied for each call, to unaligned addresses */
    const int32_t *script;
    const void    *k, *v; /* [n][n_kv_head][head_dim] */
    const void    *q;     /* [n][n_q_head][head_dim] */
    double        *seen;  /* [n_op][TS_KV_SEEN] */
    void          *out;   /* of each attend in turn: [n][n_q_head][head_dim] */
    float         *lse;   /* [n][n_q_head] */
    float         *read;  /* of each read in turn: keys, then values: [2 n][n_kv_head][head_dim] */
} ts_kv_cache_args;

/* The API functions, in the order of ts_kv_names. */
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
    /* of ts_kv_optional: NULL if absent */
    ts_status (*attend_tree)(ts_kv *, const ts_exec *, int64_t, int64_t, const int32_t *,
                             const int64_t *, const ts_kv_tree *, const void *, void *, float *);
} ts_kv_table;

enum { TS_KV_FUNCTIONS = sizeof(ts_kv_table) / sizeof(void (*)(void)) - 1 };
extern const char *const ts_kv_names[TS_KV_FUNCTIONS + 1]; /* "ts_kv_bytes", ...; NULL ends */
extern const char *const ts_kv_optional[2];

/* Number of invalid calls of a function, each invalid in one respect: a NULL pointer or an invalid
 * number, which must give TS_E_ARG; or an unknown sequence, which must give some error. The item is
 * a sequence with a token. */
int ts_kv_wrong_ways(int function);
int ts_kv_wrong_sequences(int function); /* the last ones of these */

/* Plays ts_kv_cache_args over a ts_kv_table. The workspace also contains the caches' states. On any
 * status but TS_OK no cache could be created, and nothing was written. */
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
