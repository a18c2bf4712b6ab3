/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for cross_entropy_logits against the definition in double. */
#include "selftest.h"
#include "touchstone/cross_entropy.h"

typedef ts_cross_entropy_logits_args args;

static double capped(const args *a, double x)
{
    return a->softcap > 0 ? a->softcap * tanh(x / a->softcap) : x;
}

/* x: the logits as they were; got: the gradient, or NULL. What the row adds to total. */
static double check_row(const char *name, const args *a, int64_t i, const double *x,
                        const void *got, double g)
{
    const int64_t at = i * a->row_stride, t = a->target[i];
    const double  V = (double)a->n_vocab, s = a->smoothing, u = a->dtype == TS_F32 ? 1e-5 : 5e-3;
    double        sum = 0, mean = 0;
    for (int64_t v = 0; v < a->n_vocab; v++) {
        sum += exp(capped(a, x[v]) - 40); /* no logit is larger than some 45 */
        mean += capped(a, x[v]) / V;
    }
    const int    counted = t != a->ignore_index;
    const double lse = counted ? 40 + log(sum) : 0, hit = counted ? capped(a, x[t]) : 0;
    const double loss = counted ? lse - (1 - s) * hit - s * mean + a->z_loss * lse * lse : 0;
    compare(name, "lse", i, ((float *)a->lse)[i], lse, 2e-5 * (1 + fabs(lse)));
    compare(name, "loss", i, ((float *)a->loss)[i], loss, 1e-4 * (1 + fabs(lse)));
    for (int64_t v = 0; v < a->n_vocab && got; v++) {
        const double slope = a->softcap > 0 ? 1 - pow(tanh(x[v] / a->softcap), 2) : 1;
        const double p = (1 + 2 * a->z_loss * lse) * exp(capped(a, x[v]) - lse);
        const double off = /* of p: the sum, and exponents that were rounded */
            sum_bound(a->n_vocab) +
            (56 + 3 * fabs(lse) + 2 * fabs(capped(a, x[v]) - lse)) * 0x1p-24;
        const double dx = g * (p - (v == t ? 1 - s : 0) - s / V) * slope;
        compare(name, "gradient", at + v, get(got, a->dtype, at + v), counted ? dx : 0,
                counted ? u * (fabs(dx) + 1e-2 * fabs(g)) + off * fabs(g * p) : 0);
    }
    return loss;
}

/* options: 1 mean, 2 in place, 4 smoothing, 8 z-loss, 16 softcap, 32 no gradient */
static void run(ts_dtype t, int64_t rows, int64_t vocab, int options)
{
    const int64_t S = vocab + 3;
    char          name[128];
    ts_exec       e = test_exec();
    void         *logits = fresh(rows * S), *dlogits = options & 34 ? NULL : fresh(rows * S);
    double       *x = fresh(rows * S), total = 0, n = 0;
    int32_t      *target = fresh(rows);
    args          a = { .dtype = t,
                        .mean = options & 1,
                        .in_place = options & 2 ? 1 : 0,
                        .ignore_index = -100,
                        .n_rows = rows,
                        .n_vocab = vocab,
                        .row_stride = S,
                        .scale = 0.5,
                        .smoothing = options & 4 ? 0.1 : 0,
                        .z_loss = options & 8 ? 0.01 : 0,
                        .softcap = options & 16 ? 2 : 0,
                        .logits = logits,
                        .target = target,
                        .loss = fresh(rows),
                        .lse = fresh(rows),
                        .total = fresh(1),
                        .dlogits = dlogits };
    for (int64_t i = 0; i < rows * S; i++) {
        set(logits, t, i, 30 + 3 * draw());
        x[i] = get(logits, t, i);
    }
    for (int64_t i = 0; i < rows; i++) {
        target[i] = i % 5 == 1 ? -100 : (int32_t)((i * 7 + vocab - 1) % vocab);
        n += target[i] != -100;
    }
    snprintf(name, sizeof name, "%s rows=%lld vocab=%lld options=%d", t == TS_F32 ? "f32" : "bf16",
             (long long)rows, (long long)vocab, options);
    begin_case();
    const ts_status s = finish(ts_cross_entropy_logits(&a, &e));
    const double    g = a.mean && n > 0 ? a.scale / n : a.scale;
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    for (int64_t i = 0; i < rows && s == TS_OK; i++)
        total += check_row(name, &a, i, x + i * S, a.in_place ? logits : dlogits, g);
    total = a.mean ? total / n : total;
    if (s == TS_OK) compare(name, "total", 0, *(float *)a.total, total, 1e-4 * (1 + fabs(total)));
    drop_all();
}

int main(void)
{
    static const int64_t shape[][2] = { { 0, 4 },   { 1, 1 },    { 3, 2 },   { 5, 7 },
                                        { 17, 33 }, { 2, 1025 }, { 130, 40 } };
    static const int     options[] = { 0, 1, 2, 3, 4, 8, 16, 29, 30, 32 };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            run(TS_F32, shape[i][0], shape[i][1], options[k]);
            run(TS_BF16, shape[i][0], shape[i][1], options[k]);
        }
    float   x[2] = { 0 }, loss[1], lse[1], total[1], dx[2];
    int32_t target[1] = { 1 };
    ts_exec e = test_exec();
    args    a = { .ignore_index = -100,
                  .n_rows = 1,
                  .n_vocab = 2,
                  .row_stride = 2,
                  .scale = 1,
                  .logits = x,
                  .target = target,
                  .loss = loss,
                  .lse = lse,
                  .total = total,
                  .dlogits = dx },
         b = a;
    b.logits = NULL;
    refused("no logits", ts_cross_entropy_logits(&b, &e), TS_E_ARG);
    b = a, b.n_vocab = 1;
    refused("target out of range", ts_cross_entropy_logits(&b, &e), TS_E_ARG);
    b = a, b.in_place = 1;
    refused("in place, and apart", ts_cross_entropy_logits(&b, &e), TS_E_ARG);
    b = a, b.row_stride = 1;
    refused("short rows", ts_cross_entropy_logits(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_cross_entropy_logits(&b, &e), TS_E_DTYPE);
    return verdict();
}
