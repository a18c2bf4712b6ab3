/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how a cache with other names enters. Unused until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the eleven functions of the contract. Say that
 * theirs.c keeps one sequence of one layer in a struct of its own, and has
 *
 *     size_t cache_size(int n_max, int n_heads, int head_dim);
 *     void   cache_begin(void *cache, int n_max, int n_heads, int head_dim);
 *     void   cache_push(void *cache, const float *k, const float *v);
 *
 * Then two of the functions could begin like this. */
#if 0
#include "touchstone/kv_cache.h"

size_t cache_size(int n_max, int n_heads, int head_dim);
void   cache_begin(void *cache, int n_max, int n_heads, int head_dim);

static size_t each(const ts_kv_dims *d)
{
    return cache_size((int)d->capacity, (int)d->n_kv_head, (int)d->head_dim);
}

ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state_bytes,
                      size_t *workspace_bytes)
{
    (void)x;
    /* Unsupported calls are reported; "offers" in entry.json leaves their cases out. */
    if (d->io_dtype != TS_F32 || d->store_dtype != TS_F32 || d->page || d->window)
        return TS_E_UNSUPPORTED;
    *state_bytes = each(d) * (size_t)(d->n_layer * d->n_seq_max);
    *workspace_bytes = 0;
    return TS_OK;
}

ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory, size_t memory_bytes,
                       ts_kv **c)
{
    (void)x;
    if (memory_bytes < each(d) * (size_t)(d->n_layer * d->n_seq_max)) return TS_E_WORKSPACE;
    for (int64_t i = 0; i < d->n_layer * d->n_seq_max; i++)
        cache_begin((char *)memory + (size_t)i * each(d), (int)d->capacity, (int)d->n_kv_head,
                    (int)d->head_dim);
    *c = memory;
    return TS_OK;
}
#endif
