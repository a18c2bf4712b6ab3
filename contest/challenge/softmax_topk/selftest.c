/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for softmax_topk against the definition in double. */
#include "selftest.h"
#include "touchstone/softmax_topk.h"

typedef enum family {
    NORMAL,
    TIES,
    ASCENDING,
    OFFSET,
    MASKED,
    ALL_MASKED,
    NONFINITE,
    FAR_BELOW
} family;

static const char *const family_name[] = { "normal", "ties",       "ascending", "offset",
                                           "masked", "all masked", "nonfinite", "far below" };

static double logit(family f, int64_t i, int64_t n)
{
    if (f == TIES) return floor(draw());
    if (f == ASCENDING) return (double)i / 64;
    if (f == OFFSET) return 1e4 + draw();
    if (f == MASKED) return i % 3 ? -INFINITY : draw();
    if (f == ALL_MASKED) return -INFINITY;
    if (f == NONFINITE && i == n / 2) return NAN;
    if (f == FAR_BELOW) return i == n - 1 ? 0 : -200 - (double)(i % 50);
    return draw();
}

/* The place of entry i in canonical order. */
static int64_t rank_of(const double *x, int64_t n, int64_t i)
{
    int64_t rank = 0;
    for (int64_t j = 0; j < n; j++) rank += x[j] > x[i] || (x[j] == x[i] && j < i);
    return rank;
}

static void check_row(const char *name, const ts_softmax_topk_args *a, int64_t r, double *x)
{
    double largest = -INFINITY, sum = 0;
    int    nonfinite = 0;
    for (int64_t i = 0; i < a->n_vocab; i++) {
        x[i] = get(a->logits, a->dtype, r * a->row_stride + i);
        nonfinite |= isnan(x[i]) || x[i] == INFINITY;
        largest = fmax(largest, x[i]);
    }
    for (int64_t i = 0; i < a->n_vocab; i++)
        if (x[i] > -INFINITY) sum += exp((x[i] - largest) * a->inv_temperature);
    const double lse = sum > 0 ? largest * a->inv_temperature + log(sum) : -INFINITY;
    compare(name, "lse", r, a->lse[r], nonfinite ? NAN : lse, 1e-5 + 1e-6 * fabs(lse));
    for (int64_t j = 0; j < a->k; j++) /* past the row, and in nonfinite ones */
        if (nonfinite || j >= a->n_vocab) {
            compare(name, "index", r * a->k + j, a->index[r * a->k + j], -1, 0);
            compare(name, "prob", r * a->k + j, a->prob[r * a->k + j], nonfinite ? NAN : 0, 0);
        }
    for (int64_t i = 0; i < a->n_vocab && !nonfinite; i++) {
        const int64_t j = rank_of(x, a->n_vocab, i), at = r * a->k + j;
        const double  d = x[i] > -INFINITY ? (x[i] - largest) * a->inv_temperature : 0;
        const double  p = x[i] > -INFINITY ? exp(d) / sum : 0;
        if (j >= a->k) continue;
        compare(name, "index", at, a->index[at], (double)i, 0);
        const double part = sum_bound(a->n_vocab) + (16 + 2 * fabs(d)) * 0x1p-24;
        compare(name, "prob", at, a->prob[at], p, p * part + 1.2e-38);
    }
}

static void run(ts_dtype t, int64_t rows, int64_t n, int64_t k, family f, double inv_temperature)
{
    const int64_t stride = n + 3;
    void         *logits = fresh(rows * stride);
    char          name[128];
    double       *x = fresh(n);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) set(logits, t, r * stride + i, logit(f, i, n));
    ts_softmax_topk_args a = {
        t,          rows, n, stride, k, inv_temperature, logits, fresh(rows * k), fresh(rows * k),
        fresh(rows)
    };
    ts_exec e = test_exec();
    snprintf(name, sizeof name, "%s rows=%lld vocab=%lld k=%lld %s", t == TS_F32 ? "f32" : "bf16",
             (long long)rows, (long long)n, (long long)k, family_name[f]);
    begin_case();
    const ts_status s = finish(ts_softmax_topk(&a, &e));
    if (s != TS_OK) flaw(name, "status", 0, s, TS_OK);
    for (int64_t r = 0; r < rows && s == TS_OK; r++) check_row(name, &a, r, x);
    drop_all();
}

int main(void)
{
    static const int64_t shape[][3] = { { 1, 1, 1 },     { 2, 5, 8 },    { 9, 33, 7 },
                                        { 3, 1025, 50 }, { 2, 4099, 1 }, { 5, 31, 0 } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int f = NORMAL; f <= FAR_BELOW; f++) {
            run(TS_F32, shape[i][0], shape[i][1], shape[i][2], (family)f, 1);
            run(TS_BF16, shape[i][0], shape[i][1], shape[i][2], (family)f, 0.5);
        }
    float                x[4] = { 0 }, prob[2], lse[1];
    int32_t              index[2];
    ts_exec              e = test_exec();
    ts_softmax_topk_args a = { TS_F32, 1, 4, 4, 2, 1, x, index, prob, lse }, b = a;
    b.logits = NULL;
    refused("no logits", ts_softmax_topk(&b, &e), TS_E_ARG);
    b = a, b.inv_temperature = 0;
    refused("no temperature", ts_softmax_topk(&b, &e), TS_E_ARG);
    b = a, b.row_stride = 3;
    refused("rows that overlap", ts_softmax_topk(&b, &e), TS_E_SHAPE);
    b = a, b.dtype = TS_U8;
    refused("bytes", ts_softmax_topk(&b, &e), TS_E_DTYPE);
    return verdict();
}
