/* SPDX-License-Identifier: Apache-2.0 */
/* adapter-example.c - how a trainer with other names enters. Unused until entry.json names it:
 *
 *     "sources": ["theirs.c"], "adapter": "adapter.c"
 *
 * It is a source like any other, which defines the seven functions of the contract. Say that
 * theirs.c keeps a model in a struct of its own, and has
 *
 *     size_t net_size(int vocab, int width, int layers);
 *     void   net_load(void *net, const float *weights, int vocab, int width, int layers);
 *
 * Then two of the functions could begin like this. */
#if 0
#include "touchstone/ternary_training.h"

size_t net_size(int vocab, int width, int layers);
void   net_load(void *net, const float *weights, int vocab, int width, int layers);

ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                           size_t *workspace_bytes)
{
    (void)x;
    if (d->n_head != d->n_kv_head) return TS_E_UNSUPPORTED; /* said, not guessed */
    *state_bytes = net_size((int)d->n_vocab, (int)d->width, (int)d->n_layer);
    *workspace_bytes = 0;
    return TS_OK;
}

ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                            const float *norm, void *memory, size_t memory_bytes, ts_ternary **m)
{
    (void)x, (void)norm;
    if (memory_bytes < net_size((int)d->n_vocab, (int)d->width, (int)d->n_layer))
        return TS_E_WORKSPACE;
    net_load(memory, latent, (int)d->n_vocab, (int)d->width, (int)d->n_layer);
    *m = memory;
    return TS_OK;
}
#endif
