/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - the obvious solution: logits are computed again wherever one is needed, and
 * none is stored. */
#include "touchstone/cross_entropy.h"

#include "number.h"

typedef ts_cross_entropy_args args;

enum { COLUMNS = 256 }; /* of dh and dw, summed together */

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
    if (!a || !x || !a->w || !a->total || a->mean < 0 || a->mean > 1) return TS_E_ARG;
    if (a->accumulate < 0 || a->accumulate > 1 || a->chunk < 0) return TS_E_ARG;
    if (a->n_rows && (!a->h || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (isnan(a->scale) || isinf(a->scale) || is_odd(a->smoothing, 1)) return TS_E_ARG;
    if (is_odd(a->z_loss, INFINITY) || is_odd(a->softcap, INFINITY)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->n_hidden < 1) return TS_E_SHAPE;
    if (a->h_stride < a->n_hidden || a->w_stride < a->n_hidden) return TS_E_SHAPE;
    if (a->h_stride > INT64_MAX / 8 / (a->n_rows > 0 ? a->n_rows : 1)) return TS_E_SHAPE;
    if (a->w_stride > INT64_MAX / 8 / a->n_vocab) return TS_E_SHAPE;
    if (a->dtype != TS_F32 && a->dtype != TS_F64 && a->dtype != TS_F16 && a->dtype != TS_BF16)
        return TS_E_DTYPE;
    if (a->grad_dtype != a->dtype && a->grad_dtype != wide_of(a->dtype)) return TS_E_DTYPE;
    for (int64_t i = 0; i < a->n_rows; i++)
        if (a->target[i] != a->ignore_index && (a->target[i] < 0 || a->target[i] >= a->n_vocab))
            return TS_E_ARG;
    return TS_OK;
}

static double logit(const args *a, int64_t i, int64_t v)
{
    double sum = a->bias ? load(a->bias, a->dtype, v) : 0;
    for (int64_t k = 0; k < a->n_hidden; k++)
        sum +=
            load(a->h, a->dtype, i * a->h_stride + k) * load(a->w, a->dtype, v * a->w_stride + k);
    return sum;
}

static double capped(const args *a, double x)
{
    return a->softcap > 0 ? a->softcap * tanh(x / a->softcap) : x;
}

/* loss and lse of a row; what it adds to total */
static double row(const args *a, int64_t i)
{
    const ts_dtype wide = wide_of(a->dtype);
    const double   s = a->smoothing;
    double         m = -INFINITY, sum = 0, z_sum = 0, loss = 0, lse = 0;
    if (a->target[i] != a->ignore_index) {
        for (int64_t v = 0; v < a->n_vocab; v++) m = fmax(m, capped(a, logit(a, i, v)));
        for (int64_t v = 0; v < a->n_vocab; v++) {
            const double z = capped(a, logit(a, i, v));
            sum += exp(z - m);
            z_sum += z;
        }
        lse = m + log(sum);
        loss = lse + a->z_loss * lse * lse;
        if (s < 1) loss -= (1 - s) * capped(a, logit(a, i, a->target[i]));
        if (s > 0) loss -= s * z_sum / (double)a->n_vocab;
    }
    store(a->loss, wide, i, loss);
    store(a->lse, wide, i, lse);
    return loss;
}

static double gradient(const args *a, int64_t i, int64_t v, double g)
{
    const double x = logit(a, i, v), t = a->softcap > 0 ? tanh(x / a->softcap) : 0;
    const double lse = load(a->lse, wide_of(a->dtype), i), s = a->smoothing;
    const double p = (1 + 2 * a->z_loss * lse) * exp(capped(a, x) - lse);
    return g * (p - (v == a->target[i] ? 1 - s : 0) - s / (double)a->n_vocab) * (1 - t * t);
}

static void put(const args *a, void *to, int64_t at, const double *sum, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        store(to, a->grad_dtype, at + k,
              sum[k] + (a->accumulate ? load(to, a->grad_dtype, at + k) : 0));
}

static void dh_row(const args *a, int64_t i, double g)
{
    for (int64_t k = 0; k < a->n_hidden; k += COLUMNS) {
        const int64_t n = a->n_hidden - k < COLUMNS ? a->n_hidden - k : COLUMNS;
        double        sum[COLUMNS] = { 0 };
        for (int64_t v = 0; v < a->n_vocab && a->target[i] != a->ignore_index; v++) {
            const double dx = gradient(a, i, v, g);
            for (int64_t c = 0; c < n; c++)
                sum[c] += dx * load(a->w, a->dtype, v * a->w_stride + k + c);
        }
        put(a, a->dh, i * a->h_stride + k, sum, n);
    }
}

static void dw_row(const args *a, int64_t v, double g)
{
    for (int64_t k = 0; k < a->n_hidden; k += COLUMNS) {
        const int64_t n = a->n_hidden - k < COLUMNS ? a->n_hidden - k : COLUMNS;
        double        sum[COLUMNS] = { 0 };
        for (int64_t i = 0; i < a->n_rows; i++) {
            if (a->target[i] == a->ignore_index) continue;
            const double dx = gradient(a, i, v, g);
            for (int64_t c = 0; c < n; c++)
                sum[c] += dx * load(a->h, a->dtype, i * a->h_stride + k + c);
        }
        put(a, a->dw, v * a->w_stride + k, sum, n);
    }
}

ts_status ts_cross_entropy(const ts_cross_entropy_args *a, const ts_exec *x)
{
    const ts_status s = refuse(a, x);
    double          total = 0, n = 0;
    if (s) return s;
    for (int64_t i = 0; i < a->n_rows; i++) {
        total += row(a, i);
        n += a->target[i] != a->ignore_index;
    }
    store(a->total, wide_of(a->dtype), 0, a->mean ? total / n : total);
    const double g = a->mean && n > 0 ? a->scale / n : a->scale;
    for (int64_t i = 0; i < a->n_rows && a->dh; i++) dh_row(a, i, g);
    for (int64_t v = 0; v < a->n_vocab && a->dw; v++) dw_row(a, v, g);
    return TS_OK;
}
