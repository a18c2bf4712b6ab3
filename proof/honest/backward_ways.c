/* SPDX-License-Identifier: Apache-2.0 */
/* backward_ways.c - layernorm_backward by textbook formulas, in float, or of f64 in double.
 *
 * The compact one with sums in several orders; by the gradients of variance and mean, as in the
 * first papers; as rstd g + b x + c, as PyTorch has it on the CPU; dgamma and dbeta by columns, by
 * rows, or from blocks of rows.
 *
 * Common ways: loop lanes pairs kahan wide chain affine rows blocks factored
 */
#include "honest.h"

enum way { loop, lanes, pairs, kahan, wide, chain, affine, rows, blocks, factored };
#define K(v) keep(a->dtype, v)

static const enum order order = WAY == lanes || WAY == affine  ? BY_LANES
                                : WAY == pairs || WAY == chain ? BY_PAIRS
                                : WAY == kahan                 ? BY_KAHAN
                                : WAY == wide                  ? BY_DOUBLE
                                                               : BY_LOOP;

static double at(const backward *a, const void *p, int64_t r, int64_t c)
{
    return load(p, a->dtype, r * a->row_stride + c);
}

static double stat(const backward *a, const void *p, int64_t r)
{
    return load(p, dtype_of_sums(a->dtype), r);
}

static double centred(const backward *a, int64_t r, int64_t c)
{
    return K(at(a, a->x, r, c) - stat(a, a->mean, r));
}

static double xhat(const backward *a, int64_t r, int64_t c)
{
    return K(centred(a, r, c) * stat(a, a->rstd, r));
}

static double g_of(const void *p, int64_t r, int64_t c)
{
    const backward *a = p;
    return K(load(a->gamma, a->dtype, c) * at(a, a->dy, r, c));
}

static double g_xhat(const void *p, int64_t r, int64_t c)
{
    return g_of(p, r, c) * xhat(p, r, c);
}

static double g_centred(const void *p, int64_t r, int64_t c)
{
    return g_of(p, r, c) * centred(p, r, c);
}

static double g_x(const void *p, int64_t r, int64_t c)
{
    const backward *a = p;
    return g_of(p, r, c) * at(a, a->x, r, c);
}

static double only_centred(const void *p, int64_t r, int64_t c)
{
    return centred(p, r, c);
}

/* By the gradients of the variance and of the mean. */
static double by_chain(const backward *a, int64_t r, int64_t c, const double sum[3])
{
    const double n = (double)a->n_cols, s = stat(a, a->rstd, r);
    const double dvar = K(K(K(-0.5 * s) * K(s * s)) * sum[1]);
    const double dmean = K(K(-s * sum[0]) + K(dvar * K(K(-2 * sum[2]) / n)));
    return K(K(K(g_of(a, r, c) * s) + K(K(dvar * K(2 * centred(a, r, c))) / n)) + K(dmean / n));
}

static double by_affine(const backward *a, int64_t r, int64_t c, const double sum[3])
{
    const double n = (double)a->n_cols, s = stat(a, a->rstd, r), mean = stat(a, a->mean, r);
    const double b = K(K(K(K(sum[0] * mean) - sum[1]) * K(K(s * s) * s)) / n);
    const double rest = K(K(-b * mean) - K(K(sum[0] * s) / n));
    return K(K(K(s * g_of(a, r, c)) + K(b * at(a, a->x, r, c))) + rest);
}

static void row(const backward *a, int64_t r)
{
    const int64_t n = a->n_cols;
    const double  s = stat(a, a->rstd, r);
    double        sum[3] = { sum_in_order(order, a->dtype, g_of, a, r, n), 0, 0 };
    sum[1] = sum_in_order(order, a->dtype,
                          WAY == chain    ? g_centred
                          : WAY == affine ? g_x
                                          : g_xhat,
                          a, r, n);
    if (WAY == chain) sum[2] = sum_in_order(order, a->dtype, only_centred, a, r, n);
    for (int64_t c = 0; c < n; c++) {
        const double g = g_of(a, r, c), gm = K(sum[0] / (double)n), xm = K(sum[1] / (double)n);
        double       dx = K(s * K(K(g - gm) - K(xhat(a, r, c) * xm)));
        if (WAY == chain) dx = by_chain(a, r, c, sum);
        if (WAY == affine) dx = by_affine(a, r, c, sum);
        if (WAY == factored) /* s / n (n g - sum g - xhat sum g xhat) */
            dx = K(K(s / (double)n) * K(K(K((double)n * g) - sum[0]) - K(xhat(a, r, c) * sum[1])));
        store(a->dx, a->dtype, r * a->row_stride + c, dx);
    }
}

static double dgamma_term(const void *p, int64_t c, int64_t r)
{
    const backward *a = p;
    return at(a, a->dy, r, c) * xhat(a, r, c);
}

static double dbeta_term(const void *p, int64_t c, int64_t r)
{
    const backward *a = p;
    return at(a, a->dy, r, c);
}

static void add(const backward *a, void *p, int64_t c, double v)
{
    store(p, dtype_of_sums(a->dtype), c, K(load(p, dtype_of_sums(a->dtype), c) + v));
}

/* Into the output as rows come, or sums of 32 rows at a time. */
static void columns_by_rows(const backward *a, int64_t step)
{
    for (int64_t begin = 0; begin < a->n_rows; begin += step)
        for (int64_t c = 0; c < a->n_cols; c++) {
            double g = 0, b = 0;
            for (int64_t r = begin; r < begin + step && r < a->n_rows; r++) {
                g = K(g + K(dgamma_term(a, c, r)));
                b = K(b + dbeta_term(a, c, r));
            }
            add(a, a->dgamma, c, g);
            add(a, a->dbeta, c, b);
        }
}

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = with_f64(refuse_backward(a, x), a ? a->dtype : TS_F32);
    if (s) return s;
    for (int64_t r = 0; r < a->n_rows; r++) row(a, r);
    for (int64_t c = 0; c < a->n_cols && !a->accumulate; c++)
        store(a->dgamma, dtype_of_sums(a->dtype), c, 0),
            store(a->dbeta, dtype_of_sums(a->dtype), c, 0);
    if (WAY == rows) return columns_by_rows(a, 1), TS_OK;
    if (WAY == blocks) return columns_by_rows(a, 32), TS_OK;
    for (int64_t c = 0; c < a->n_cols; c++) {
        add(a, a->dgamma, c, sum_in_order(order, a->dtype, dgamma_term, a, c, a->n_rows));
        add(a, a->dbeta, c, sum_in_order(order, a->dtype, dbeta_term, a, c, a->n_rows));
    }
    return TS_OK;
}
