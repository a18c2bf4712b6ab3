/* SPDX-License-Identifier: Apache-2.0 */
/* xent_online.c - cross_entropy with a running maximum over blocks of 32 words.
 *
 * dh row by row and dw word by word, 32 columns at a time, on the judge's threads; logits are
 * computed again wherever they are needed. */
#include "honest.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/sealed.h"

typedef ts_cross_entropy_args xent;

enum { STEP = 32 };

typedef struct job {
    const xent *a;
    double      g;
} job;

static ts_dtype wide_of(ts_dtype t)
{
    return t == TS_F64 ? TS_F64 : TS_F32;
}

static int bad(double v, double most)
{
    return !(v >= 0 && v <= most);
}

static ts_status refuse_xent(const xent *a, const ts_exec *x)
{
    if (!a || !x || !a->w || !a->total) return TS_E_ARG;
    if (a->n_rows && (!a->h || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if ((unsigned)a->mean > 1 || (unsigned)a->accumulate > 1 || a->chunk < 0) return TS_E_ARG;
    if (!isfinite(a->scale) || bad(a->smoothing, 1)) return TS_E_ARG;
    if (bad(a->z_loss, DBL_MAX) || bad(a->softcap, DBL_MAX)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->n_hidden < 1) return TS_E_SHAPE;
    if (a->h_stride < a->n_hidden || a->w_stride < a->n_hidden) return TS_E_SHAPE;
    if (a->n_rows && a->h_stride > INT64_MAX / 8 / a->n_rows) return TS_E_SHAPE;
    if (a->w_stride > INT64_MAX / 8 / a->n_vocab) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    if (a->grad_dtype != a->dtype && a->grad_dtype != wide_of(a->dtype)) return TS_E_DTYPE;
    for (int64_t i = 0; i < a->n_rows; i++)
        if (a->target[i] != a->ignore_index && (a->target[i] < 0 || a->target[i] >= a->n_vocab))
            return TS_E_ARG;
    return TS_OK;
}

static double raw_at(const xent *a, int64_t i, int64_t v)
{
    double sum = 0;
    for (int64_t k = 0; k < a->n_hidden; k++)
        sum +=
            load(a->h, a->dtype, i * a->h_stride + k) * load(a->w, a->dtype, v * a->w_stride + k);
    return a->bias ? sum + load(a->bias, a->dtype, v) : sum;
}

static double z_of(const xent *a, double x)
{
    return a->softcap > 0 ? a->softcap * tanh(x / a->softcap) : x;
}

/* By Neumaier: what an addition loses is kept apart. */
typedef struct exact {
    double sum, lost;
} exact;

static void gather(exact *s, double v)
{
    const double next = s->sum + v;
    if (isfinite(next)) s->lost += fabs(s->sum) >= fabs(v) ? s->sum - next + v : v - next + s->sum;
    s->sum = next;
}

static void losses(int64_t i, void *ctx)
{
    const xent    *a = ((const job *)ctx)->a;
    const ts_dtype wide = wide_of(a->dtype);
    const double   s = a->smoothing;
    double         m = -INFINITY, hit = 0, loss = 0, lse = 0, block[STEP];
    exact          sum = { 0, 0 }, z_sum = { 0, 0 };
    for (int64_t v = 0; v < a->n_vocab && a->target[i] != a->ignore_index; v += STEP) {
        const int64_t n = a->n_vocab - v < STEP ? a->n_vocab - v : STEP;
        double        top = m;
        for (int64_t k = 0; k < n; k++) {
            block[k] = z_of(a, raw_at(a, i, v + k));
            if (!(block[k] <= top)) top = block[k];
            if (s > 0) gather(&z_sum, block[k]);
            if (v + k == a->target[i]) hit = block[k];
        }
        if (top == -INFINITY) continue;
        if (m > -INFINITY) sum.sum *= exp(m - top), sum.lost *= exp(m - top);
        for (int64_t k = 0; k < n; k++) gather(&sum, exp(block[k] - top));
        m = top;
    }
    if (a->target[i] != a->ignore_index) {
        lse = m + log(sum.sum + sum.lost);
        loss = lse + a->z_loss * lse * lse;
        if (s < 1) loss -= (1 - s) * hit;
        if (s > 0) loss -= s * ((z_sum.sum + z_sum.lost) / (double)a->n_vocab);
    }
    store(a->lse, wide, i, lse);
    store(a->loss, wide, i, loss);
}

static double dx_at(const job *j, int64_t i, int64_t v)
{
    const xent  *a = j->a;
    const double x = raw_at(a, i, v), t = a->softcap > 0 ? tanh(x / a->softcap) : 0;
    const double lse = load(a->lse, wide_of(a->dtype), i), s = a->smoothing;
    double       dz = (1 + 2 * a->z_loss * lse) * exp(z_of(a, x) - lse);
    if (v == a->target[i]) dz -= 1 - s;
    return j->g * (dz - s / (double)a->n_vocab) * (1 - t * t);
}

/* Columns from k on of a row of dh, where `other` is w, or of dw, where it is h. */
static void columns(const job *j, int64_t row, int64_t k, int of_h)
{
    const xent   *a = j->a;
    const int64_t n = a->n_hidden - k < STEP ? a->n_hidden - k : STEP;
    const int64_t stride = of_h ? a->h_stride : a->w_stride,
                  there = of_h ? a->w_stride : a->h_stride;
    void *const to = of_h ? a->dh : a->dw;
    double      sum[STEP] = { 0 };
    for (int64_t o = 0; o < (of_h ? a->n_vocab : a->n_rows); o++) {
        const int64_t i = of_h ? row : o, v = of_h ? o : row;
        if (a->target[i] == a->ignore_index) continue;
        const double dx = dx_at(j, i, v);
        for (int64_t c = 0; c < n; c++)
            sum[c] += dx * load(of_h ? a->w : a->h, a->dtype, o * there + k + c);
    }
    for (int64_t c = 0; c < n; c++) {
        const int64_t at = row * stride + k + c;
        store(to, a->grad_dtype, at, sum[c] + (a->accumulate ? load(to, a->grad_dtype, at) : 0));
    }
}

static void dh_row(int64_t i, void *ctx)
{
    const job *j = ctx;
    for (int64_t k = 0; k < j->a->n_hidden; k += STEP) columns(j, i, k, 1);
}

static void dw_row(int64_t v, void *ctx)
{
    const job *j = ctx;
    for (int64_t k = 0; k < j->a->n_hidden; k += STEP) columns(j, v, k, 0);
}

ts_status ts_cross_entropy(const ts_cross_entropy_args *a, const ts_exec *x)
{
    const ts_status s = refuse_xent(a, x);
    double          n = 0;
    exact           total = { 0, 0 };
    if (s) return s;
    for (int64_t i = 0; i < a->n_rows; i++) n += a->target[i] != a->ignore_index;
    job j = { a, a->mean && n > 0 ? a->scale / n : a->scale };
    j_parallel_for(a->n_rows, losses, &j);
    for (int64_t i = 0; i < a->n_rows; i++) gather(&total, load(a->loss, wide_of(a->dtype), i));
    total.sum += total.lost;
    store(a->total, wide_of(a->dtype), 0, a->mean ? total.sum / n : total.sum);
    if (a->dh) j_parallel_for(a->n_rows, dh_row, &j);
    if (a->dw) j_parallel_for(a->n_vocab, dw_row, &j);
    return TS_OK;
}
