/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_logits.c - the obvious solution: two passes over each row for its sums, one for the
 * gradient. */
#include "touchstone/cross_entropy.h"

#include "number.h"

typedef ts_cross_entropy_logits_args args;

static ts_dtype wide_of(ts_dtype t)
{
    return t == TS_F64 ? TS_F64 : TS_F32;
}

static int is_odd(double v, double most)
{
    return !(v >= 0 && v <= most) || isinf(v);
}

static ts_status refuse(const args *a, const ts_exec *x)
{
    if (!a || !x || !a->total || a->mean < 0 || a->mean > 1) return TS_E_ARG;
    if (a->in_place < 0 || a->in_place > 1 || (a->in_place && a->dlogits)) return TS_E_ARG;
    if (a->n_rows && (!a->logits || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (isnan(a->scale) || isinf(a->scale) || is_odd(a->smoothing, 1)) return TS_E_ARG;
    if (is_odd(a->z_loss, INFINITY) || is_odd(a->softcap, INFINITY)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->row_stride < a->n_vocab) return TS_E_SHAPE;
    if (a->row_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->dtype != TS_F32 && a->dtype != TS_F64 && a->dtype != TS_F16 && a->dtype != TS_BF16)
        return TS_E_DTYPE;
    for (int64_t i = 0; i < a->n_rows; i++)
        if (a->target[i] != a->ignore_index && (a->target[i] < 0 || a->target[i] >= a->n_vocab))
            return TS_E_ARG;
    return TS_OK;
}

static double capped(const args *a, double x)
{
    return a->softcap > 0 ? a->softcap * tanh(x / a->softcap) : x;
}

/* The row's loss; its gradient where it is wanted. */
static double row(const args *a, int64_t i, double g)
{
    const int64_t at = i * a->row_stride, target = a->target[i];
    const double  s = a->smoothing, V = (double)a->n_vocab;
    void *const   to = a->in_place ? a->logits : a->dlogits;
    const int     counted = target != a->ignore_index;
    double        m = -INFINITY, sum = 0, z_sum = 0, loss = 0, lse = 0;
    if (counted) {
        for (int64_t v = 0; v < a->n_vocab; v++)
            m = fmax(m, capped(a, load(a->logits, a->dtype, at + v)));
        for (int64_t v = 0; v < a->n_vocab; v++) {
            const double z = capped(a, load(a->logits, a->dtype, at + v));
            sum += exp(z - m);
            z_sum += z;
        }
        lse = m + log(sum);
        loss = lse + a->z_loss * lse * lse;
        if (s < 1) loss -= (1 - s) * capped(a, load(a->logits, a->dtype, at + target));
        if (s > 0) loss -= s * z_sum / V;
    }
    for (int64_t v = 0; v < a->n_vocab && to; v++) {
        const double x = load(a->logits, a->dtype, at + v);
        const double t = a->softcap > 0 ? tanh(x / a->softcap) : 0;
        const double p = (1 + 2 * a->z_loss * lse) * exp(capped(a, x) - lse);
        const double dz = g * (p - (v == target ? 1 - s : 0) - s / V) * (1 - t * t);
        store(to, a->dtype, at + v, counted ? dz : 0);
    }
    store(a->loss, wide_of(a->dtype), i, loss);
    store(a->lse, wide_of(a->dtype), i, lse);
    return loss;
}

ts_status ts_cross_entropy_logits(const ts_cross_entropy_logits_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    double          total = 0, n = 0;
    if (s) return s;
    for (int64_t i = 0; i < a->n_rows; i++) n += a->target[i] != a->ignore_index;
    const double g = a->mean && n > 0 ? a->scale / n : a->scale;
    for (int64_t i = 0; i < a->n_rows; i++) total += row(a, i, g);
    store(a->total, wide_of(a->dtype), 0, a->mean ? total / n : total);
    return TS_OK;
}
