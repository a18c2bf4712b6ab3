/* SPDX-License-Identifier: Apache-2.0 */
/* xent_logits_float.c - cross_entropy_logits in float, except the sum of the losses.
 *
 * The maximum first, then the sum of exponentials in eight lanes, then the gradient, a word at a
 * time, each read before it is overwritten. */
#include "honest.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/sealed.h"

typedef ts_cross_entropy_logits_args xent;

enum { LANES = 8 };

typedef struct job {
    const xent *a;
    double      g;
} job;

static int bad(double v, double most)
{
    return !(v >= 0 && v <= most);
}

static ts_status refuse_xent(const xent *a, const ts_exec *x)
{
    if (!a || !x || !a->total || (unsigned)a->mean > 1 || (unsigned)a->in_place > 1)
        return TS_E_ARG;
    if (a->n_rows && (!a->logits || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (a->in_place && a->dlogits) return TS_E_ARG;
    if (!isfinite(a->scale) || bad(a->smoothing, 1)) return TS_E_ARG;
    if (bad(a->z_loss, DBL_MAX) || bad(a->softcap, DBL_MAX)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->row_stride < a->n_vocab) return TS_E_SHAPE;
    if (a->n_rows && a->row_stride > INT64_MAX / 8 / a->n_rows) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    for (int64_t i = 0; i < a->n_rows; i++)
        if (a->target[i] != a->ignore_index && (a->target[i] < 0 || a->target[i] >= a->n_vocab))
            return TS_E_ARG;
    return a->dtype == TS_F64 ? TS_E_UNSUPPORTED : TS_OK;
}

static float z_of(const xent *a, float x)
{
    const float c = (float)a->softcap;
    return c > 0 ? c * tanhf(x / c) : x;
}

static float raw_at(const xent *a, int64_t i, int64_t v)
{
    return (float)load(a->logits, a->dtype, i * a->row_stride + v);
}

static float folded(const float *lane)
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

static void grade(const xent *a, int64_t i, float lse, float g, void *to)
{
    const float s = (float)a->smoothing, each = s / (float)a->n_vocab, c = (float)a->softcap;
    const float more = 1 + 2 * (float)a->z_loss * lse;
    for (int64_t v = 0; v < a->n_vocab; v++) {
        const float x = raw_at(a, i, v), t = c > 0 ? tanhf(x / c) : 0;
        const float hit = v == a->target[i] ? 1 - s : 0;
        const float dz = more * expf(z_of(a, x) - lse) - hit - each;
        store(to, a->dtype, i * a->row_stride + v, (double)(g * dz * (1 - t * t)));
    }
}

static void row(int64_t i, void *ctx)
{
    const job   *j = ctx;
    const xent  *a = j->a;
    void *const  to = a->in_place ? a->logits : a->dlogits;
    const double s = a->smoothing;
    float        m = -INFINITY, sum[LANES] = { 0 }, z_sum[LANES] = { 0 };
    if (a->target[i] == a->ignore_index) {
        ((float *)a->loss)[i] = ((float *)a->lse)[i] = 0;
        for (int64_t v = 0; v < a->n_vocab && to; v++)
            store(to, a->dtype, i * a->row_stride + v, 0);
        return;
    }
    for (int64_t v = 0; v < a->n_vocab; v++) {
        const float z = z_of(a, raw_at(a, i, v));
        if (!(z <= m)) m = z;
    }
    for (int64_t v = 0; v < a->n_vocab; v++) {
        const float z = z_of(a, raw_at(a, i, v));
        sum[v % LANES] += expf(z - m);
        if (s > 0) z_sum[v % LANES] += z;
    }
    const double lse = (double)m + log((double)folded(sum));
    double       loss = lse + a->z_loss * lse * lse;
    if (s < 1) loss -= (1 - s) * (double)z_of(a, raw_at(a, i, a->target[i]));
    if (s > 0) loss -= s * ((double)folded(z_sum) / (double)a->n_vocab);
    ((float *)a->lse)[i] = (float)lse;
    ((float *)a->loss)[i] = (float)loss;
    if (to) grade(a, i, (float)lse, (float)j->g, to);
}

ts_status ts_cross_entropy_logits(const ts_cross_entropy_logits_args *a, const ts_exec *x)
{
    const ts_status s = refuse_xent(a, x);
    double          n = 0, total = 0;
    if (s) return s;
    for (int64_t i = 0; i < a->n_rows; i++) n += a->target[i] != a->ignore_index;
    job j = { a, a->mean && n > 0 ? a->scale / n : a->scale };
    j_parallel_for(a->n_rows, row, &j);
    for (int64_t i = 0; i < a->n_rows; i++) total += (double)((float *)a->loss)[i];
    *(float *)a->total = (float)(a->mean ? total / n : total);
    return TS_OK;
}
