/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_kv.c - a mutant of kv_cache as a third-party shared library. mutant.sh compiles it
 * once for each, with MUTANT. */
#include "kv_cache_script.h"
#include "mutant_entrant.h"

TABLE_OF(ts_kv_table, kv_cache)

ts_status ts_kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state, size_t *workspace)
{
    return kv_cache_mutant()->bytes(d, x, state, workspace);
}

ts_status ts_kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory, size_t n, ts_kv **c)
{
    return kv_cache_mutant()->create(d, x, memory, n, c);
}

ts_status ts_kv_destroy(ts_kv **c)
{
    return kv_cache_mutant()->destroy(c);
}

ts_status ts_kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    return kv_cache_mutant()->open(c, x, seq);
}

ts_status ts_kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst)
{
    return kv_cache_mutant()->fork(c, x, src, dst);
}

ts_status ts_kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    return kv_cache_mutant()->truncate(c, x, seq, n);
}

ts_status ts_kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    return kv_cache_mutant()->free(c, x, seq);
}

ts_status ts_kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                       const int64_t *n_new, const void *k, const void *v)
{
    return kv_cache_mutant()->append(c, x, layer, n_seq, seq, n_new, k, v);
}

ts_status ts_kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq, const int32_t *seq,
                       const int64_t *n_q, const void *q, void *out, float *lse)
{
    return kv_cache_mutant()->attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
}

ts_status ts_kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                     int64_t n, float *k, float *v)
{
    return kv_cache_mutant()->read(c, x, layer, seq, from, n, k, v);
}

ts_status ts_kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len, ts_kv_usage *u)
{
    return kv_cache_mutant()->status(c, layer, seq, len, u);
}

ts_status ts_kv_attend_tree(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n_row, const ts_kv_tree *tree,
                            const void *q, void *out, float *lse)
{
    return kv_cache_mutant()->attend_tree(c, x, layer, n_seq, seq, n_row, tree, q, out, lse);
}
