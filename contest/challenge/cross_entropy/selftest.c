/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for cross_entropy against the definition in double. */
#include "selftest.h"
#include "touchstone/cross_entropy.h"

typedef ts_cross_entropy_args args;

static double logit(const args *a, int64_t i, int64_t v)
{
    double sum = a->bias ? get(a->bias, a->dtype, v) : 0;
    for (int64_t k = 0; k < a->n_hidden; k++)
        sum += get(a->h, a->dtype, i * a->h_stride + k) * get(a->w, a->dtype, v * a->w_stride + k);
    return sum;
}

static double capped(const args *a, double x)
{
    return a->softcap > 0 ? a->softcap * tanh(x / a->softcap) : x;
}

static double lse_of(const args *a, int64_t i)
{
    double sum = 0; /* logits are small here */
    for (int64_t v = 0; v < a->n_vocab; v++) sum += exp(capped(a, logit(a, i, v)));
    return log(sum);
}

static double loss_of(const args *a, int64_t i, double lse)
{
    double mean = 0;
    for (int64_t v = 0; v < a->n_vocab; v++) mean += capped(a, logit(a, i, v)) / (double)a->n_vocab;
    return lse - (1 - a->smoothing) * capped(a, logit(a, i, a->target[i])) - a->smoothing * mean +
           a->z_loss * lse * lse;
}

/* size: what the magnitudes of its terms add up to. */
static double gradient(const args *a, int64_t i, int64_t v, double lse, double g, double *size)
{
    const double x = logit(a, i, v), t = a->softcap > 0 ? tanh(x / a->softcap) : 0;
    const double p = (1 + 2 * a->z_loss * lse) * exp(capped(a, x) - lse), s = a->smoothing;
    const double hit = v == a->target[i] ? 1 - s : 0, rest = s / (double)a->n_vocab;
    *size = fabs(g) * (fabs(p) + hit + rest) * (1 - t * t);
    return g * (p - hit - rest) * (1 - t * t);
}

static void check_sums(const char *name, const char *what, const args *a, const void *got,
                       int64_t at, const double *sum, const double *size)
{
    const double u = (a->dtype == TS_F32 ? 1e-5 : 2e-2) + sum_bound(a->n_vocab);
    for (int64_t k = 0; k < a->n_hidden; k++)
        compare(name, what, at + k, get(got, a->grad_dtype, at + k), sum[k],
                u * (size[k] + fabs(sum[k])));
}

/* `before` is what dh and dw held, all of it the same number. */
static void check(const char *name, const args *a, double before)
{
    const int64_t R = a->n_rows, V = a->n_vocab, D = a->n_hidden;
    double       *dw = fresh(V * D), *size = fresh(V * D), *dh = fresh(D), *dh_size = fresh(D);
    double        total = 0, n = 0;
    for (int64_t i = 0; i < R; i++) n += a->target[i] != a->ignore_index;
    const double g = a->mean && n > 0 ? a->scale / n : a->scale;
    for (int64_t k = 0; k < V * D; k++) dw[k] = before, size[k] = fabs(before);
    for (int64_t i = 0; i < R; i++) {
        const int    counted = a->target[i] != a->ignore_index;
        const double lse = counted ? lse_of(a, i) : 0, loss = counted ? loss_of(a, i, lse) : 0;
        compare(name, "lse", i, ((float *)a->lse)[i], lse, 2e-5 * (1 + fabs(lse)));
        compare(name, "loss", i, ((float *)a->loss)[i], loss, 5e-5 * (1 + fabs(lse)));
        total += loss;
        for (int64_t k = 0; k < D; k++) dh[k] = before, dh_size[k] = fabs(before);
        for (int64_t v = 0; v < V && counted; v++) {
            double       all;
            const double dx = gradient(a, i, v, lse, g, &all);
            for (int64_t k = 0; k < D; k++) {
                const double w = get(a->w, a->dtype, v * a->w_stride + k);
                const double h = get(a->h, a->dtype, i * a->h_stride + k);
                dh[k] += dx * w, dh_size[k] += fabs(all * w) + 1e-2 * fabs(g * w) / (double)V;
                dw[v * D + k] += dx * h, size[v * D + k] += fabs(all * h) + 1e-2 * fabs(g * h);
            }
        }
        if (a->dh) check_sums(name, "dh", a, a->dh, i * a->h_stride, dh, dh_size);
    }
    total = a->mean ? total / n : total;
    compare(name, "total", 0, *(float *)a->total, total, 1e-4 * (1 + fabs(total)));
    for (int64_t v = 0; v < V && a->dw; v++)
        check_sums(name, "dw", a, a->dw, v * a->w_stride, dw + v * D, size + v * D);
}

/* options: 1 mean, 2 bias, 4 accumulate, 8 wide gradients, 16 smoothing, 32 z-loss, 64 softcap */
static void run(ts_dtype t, int64_t rows, int64_t vocab, int64_t hidden, int options)
{
    const int64_t S = hidden + 3, W = hidden + 1;
    char          name[128];
    ts_exec       e = test_exec();
    void         *h = fresh(rows * S), *w = fresh(vocab * W), *bias = fresh(vocab);
    int32_t      *target = fresh(rows);
    args          a = { .dtype = t,
                        .grad_dtype = options & 8 ? TS_F32 : t,
                        .mean = options & 1,
                        .accumulate = options & 4 ? 1 : 0,
                        .ignore_index = -100,
                        .n_rows = rows,
                        .n_vocab = vocab,
                        .n_hidden = hidden,
                        .h_stride = S,
                        .w_stride = W,
                        .scale = 0.5,
                        .smoothing = options & 16 ? 0.1 : 0,
                        .z_loss = options & 32 ? 0.01 : 0,
                        .softcap = options & 64 ? 2 : 0,
                        .h = h,
                        .w = w,
                        .bias = options & 2 ? bias : NULL,
                        .target = target,
                        .loss = fresh(rows),
                        .lse = fresh(rows),
                        .total = fresh(1),
                        .dh = fresh(rows * S),
                        .dw = fresh(vocab * W) };
    for (int64_t i = 0; i < rows * S; i++) set(h, t, i, draw());
    for (int64_t i = 0; i < vocab * W; i++) set(w, t, i, draw() / sqrt((double)hidden));
    for (int64_t v = 0; v < vocab; v++) set(bias, t, v, draw());
    for (int64_t i = 0; i < rows; i++)
        target[i] = i % 5 == 1 ? -100 : (int32_t)((i * 7 + vocab - 1) % vocab);
    for (int64_t i = 0; i < rows * S && a.accumulate; i++) set(a.dh, a.grad_dtype, i, 2);
    for (int64_t i = 0; i < vocab * W && a.accumulate; i++) set(a.dw, a.grad_dtype, i, 2);
    snprintf(name, sizeof name, "%s rows=%lld vocab=%lld hidden=%lld options=%d",
             t == TS_F32 ? "f32" : "bf16", (long long)rows, (long long)vocab, (long long)hidden,
             options);
    begin_case();
    const ts_status s = finish(ts_cross_entropy(&a, &e));
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    else check(name, &a, a.accumulate ? 2 : 0);
    drop_all();
}

int main(void)
{
    static const int64_t shape[][3] = { { 0, 4, 3 },   { 1, 1, 1 },    { 3, 2, 5 },   { 5, 7, 3 },
                                        { 17, 33, 9 }, { 2, 1025, 4 }, { 130, 40, 8 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int options = 0; options < 128; options = options * 2 + 1) {
            run(TS_F32, shape[i][0], shape[i][1], shape[i][2], options);
            run(TS_BF16, shape[i][0], shape[i][1], shape[i][2], options);
        }
    float   x[4] = { 0 }, loss[1], lse[1], total[1], dh[4], dw[4];
    int32_t target[1] = { 1 };
    ts_exec e = test_exec();
    args    a = { .ignore_index = -100,
                  .n_rows = 1,
                  .n_vocab = 2,
                  .n_hidden = 2,
                  .h_stride = 2,
                  .w_stride = 2,
                  .scale = 1,
                  .h = x,
                  .w = x,
                  .target = target,
                  .loss = loss,
                  .lse = lse,
                  .total = total,
                  .dh = dh,
                  .dw = dw },
         b = a;
    b.w = NULL;
    refused("no w", ts_cross_entropy(&b, &e), TS_E_ARG);
    b = a, b.n_vocab = 1;
    refused("target out of range", ts_cross_entropy(&b, &e), TS_E_ARG);
    b = a, b.smoothing = 2;
    refused("too smooth", ts_cross_entropy(&b, &e), TS_E_ARG);
    b = a, b.n_hidden = 0;
    refused("no columns", ts_cross_entropy(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_cross_entropy(&b, &e), TS_E_DTYPE);
    return verdict();
}
