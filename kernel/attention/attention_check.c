/* SPDX-License-Identifier: Apache-2.0 */
/* attention_check.c - validates the arguments of both passes. */
#include <math.h>
#include <stdbool.h>

#include "attention_impl.h"

/* Whether a * b elements, with b >= 1, fit in 63 bits of bytes, and so do sums over several
 * tensors. */
static bool fits(int64_t a, int64_t b)
{
    return a <= INT64_MAX / 64 / b;
}

/* Extents that are too large are rejected before any product is computed. */
static bool tensor_fits(const ts_attention_dims *d, int64_t n_head, int64_t n)
{
    const int64_t some = n > 0 ? n : 1;
    return fits(d->n_batch, some) && fits(d->n_batch * some, n_head) &&
           fits(d->n_batch * some * n_head, d->head_dim);
}

static ts_status check_dims(const ts_attention_dims *d)
{
    if (d->layout != TS_BHND && d->layout != TS_BNHD) return TS_E_ARG;
    if ((d->causal != 0 && d->causal != 1) || !isfinite(d->scale)) return TS_E_ARG;
    if (d->window > 0 && !d->causal) return TS_E_ARG;
    if (d->n_batch < 0 || d->n_q < 0 || d->n_k < 0 || d->window < 0) return TS_E_SHAPE;
    if (d->tile_q < 0 || d->tile_k < 0) return TS_E_SHAPE;
    if (d->n_q_head < 1 || d->n_kv_head < 1 || d->n_q_head % d->n_kv_head) return TS_E_SHAPE;
    if (d->head_dim < 1 || d->head_dim > TS_ATTENTION_WIDEST) return TS_E_SHAPE;
    if (d->n_q > INT64_MAX / 4 || d->n_k > INT64_MAX / 4) return TS_E_SHAPE; /* their sum, too */
    return tensor_fits(d, d->n_q_head, d->n_q) && tensor_fits(d, d->n_kv_head, d->n_k) ? TS_OK
                                                                                       : TS_E_SHAPE;
}

/* On a device the lengths cannot be read from here. */
static ts_status check_lengths(const ts_attention_dims *d, const int32_t *kv_len, const ts_exec *x)
{
    if (!kv_len || x->device != TS_CPU) return TS_OK;
    for (int64_t b = 0; b < d->n_batch; b++)
        if (kv_len[b] < 0 || kv_len[b] > d->n_k) return TS_E_ARG;
    return TS_OK;
}

ts_status ts_flash_attention_check(const ts_flash_attention_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_dims(&a->d);
    if (s) return s;
    if (a->d.n_batch > 0 && a->d.n_q > 0 && (!a->q || !a->o)) return TS_E_ARG;
    if (a->d.n_batch > 0 && a->d.n_k > 0 && (!a->k || !a->v)) return TS_E_ARG;
    return check_lengths(&a->d, a->kv_len, x);
}

ts_status ts_flash_attention_backward_check(const ts_flash_attention_backward_args *a,
                                            const ts_exec                          *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_status s = check_dims(&a->d);
    if (s) return s;
    if (a->d.n_batch > 0 && a->d.n_q > 0 && (!a->q || !a->o || !a->dout || !a->lse || !a->dq))
        return TS_E_ARG;
    if (a->d.n_batch > 0 && a->d.n_k > 0 && (!a->k || !a->v || !a->dk || !a->dv)) return TS_E_ARG;
    return check_lengths(&a->d, a->kv_len, x);
}
