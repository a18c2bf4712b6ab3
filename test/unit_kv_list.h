/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_list.h - what the caches of unit_kv_fuzz.c should hold: lists of tokens, and names of
 * pages. */
#ifndef TS_UNIT_KV_LIST_H
#define TS_UNIT_KV_LIST_H

#include "unit_kv_cache.h"

enum {
    N_OPS = 10000,
    N_EPISODES = 50,
    SEQS = 6,
    LAYERS = 3,
    CAPACITY = 150,
    ROW = 3 * 33, /* the largest [n_kv_head][head_dim] */
    Q_ROW = 6 * 33,
    CALL = 100, /* tokens in one call */
};

/* ---- dice ---- */

static uint64_t seed;
static int64_t  n_drawn;

static int64_t below(int64_t n)
{
    return (int64_t)(ts_bits(seed, n_drawn++) % (uint64_t)n);
}

static int64_t one_of(const int64_t *list, int n)
{
    return list[below(n)];
}
#define ONE_OF(...)                                                                                \
    one_of((const int64_t[]) { __VA_ARGS__ },                                                      \
           (int)(sizeof(int64_t[]) { __VA_ARGS__ } / sizeof(int64_t)))

/* ---- the model: what each sequence should hold ---- */

typedef struct list {
    int64_t len;
    double  k[CAPACITY][ROW], v[CAPACITY][ROW]; /* as appended, or as truncation left them */
    int64_t page[CAPACITY];                     /* names of the pages held; equal: shared */
} list;

static list    lists[SEQS][LAYERS];
static int     is_open[SEQS];
static int64_t n_names;
static box     paged, flat;
static int32_t id[SEQS], flat_id[SEQS];

static int64_t pages_for(int64_t n)
{
    return (n + paged.d.page - 1) / paged.d.page;
}

static int64_t count_holders(int64_t name, int layer)
{
    int64_t n = 0;
    for (int s = 0; s < SEQS; s++)
        for (int64_t j = 0; is_open[s] && j < pages_for(lists[s][layer].len); j++)
            n += lists[s][layer].page[j] == name;
    return n;
}

/* A page that k sequences hold counts 1 / k for each. */
static int64_t count_distinct(void)
{
    double sum = 0;
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; is_open[s] && i < paged.d.n_layer; i++)
            for (int64_t j = 0; j < pages_for(lists[s][i].len); j++)
                sum += 1.0 / (double)count_holders(lists[s][i].page[j], i);
    return llround(sum);
}

/* Grows by n; its last page, if begun and shared, becomes another one. */
static void grow_pages(list *l, int layer, int64_t n)
{
    const int64_t have = pages_for(l->len);
    if (n && l->len % paged.d.page && count_holders(l->page[have - 1], layer) > 1)
        l->page[have - 1] = n_names++;
    for (int64_t j = have; j < pages_for(l->len + n); j++) l->page[j] = n_names++;
    l->len += n;
}

#endif
