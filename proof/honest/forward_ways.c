/* SPDX-License-Identifier: Apache-2.0 */
/* forward_ways.c - layernorm_forward by textbook formulas, in float, or of f64 in double.
 *
 * Two passes with sums in several orders; the variance updated as numbers come, one by one or in
 * blocks that are merged; one pass over distances from the first number. Then (x - mean) rstd gamma
 * + beta in several orders of multiplication.
 *
 * Common ways: loop lanes pairs kahan wide welford merged shifted gamma_first fused quotient
 */
#include "honest.h"

enum way {
    loop,
    lanes,
    pairs,
    kahan,
    wide,
    welford,
    merged,
    shifted,
    gamma_first,
    fused,
    quotient
};
#define K(v) keep(a->dtype, v)

static const enum order order = WAY == lanes || WAY == quotient ? BY_LANES
                                : WAY == pairs || WAY == fused  ? BY_PAIRS
                                : WAY == kahan                  ? BY_KAHAN
                                : WAY == wide                   ? BY_DOUBLE
                                                                : BY_LOOP;
static double           about; /* what distances are from */

static double itself(const void *p, int64_t r, int64_t i)
{
    return x_at(p, r, i);
}

static double distance(const void *p, int64_t r, int64_t i)
{
    const forward *a = p;
    return order == BY_DOUBLE ? x_at(a, r, i) - about : K(x_at(a, r, i) - about);
}

static double square(const void *p, int64_t r, int64_t i)
{
    const double d = distance(p, r, i);
    return d * d;
}

typedef struct moments {
    double n, mean, m2;
} moments;

static moments merge(const forward *a, moments b, moments c)
{
    const double n = b.n + c.n, d = K(c.mean - b.mean), share = K(c.n / n);
    return (moments) { n, K(b.mean + K(d * share)),
                       K(K(b.m2 + c.m2) + K(K(d * d) * K(b.n * share))) };
}

/* Of n numbers from `begin` on, updated one by one up to 16. */
static moments update(const forward *a, int64_t r, int64_t begin, int64_t n)
{
    moments m = { 0, 0, 0 };
    if (WAY == merged && n > 16)
        return merge(a, update(a, r, begin, n / 2), update(a, r, begin + n / 2, n - n / 2));
    for (int64_t i = begin; i < begin + n; i++) {
        const double x = x_at(a, r, i), d = K(x - m.mean);
        m.mean = K(m.mean + K(d / ++m.n));
        m.m2 = K(m.m2 + K(d * K(x - m.mean)));
    }
    return m;
}

static void statistics(const forward *a, int64_t r, double *mean, double *variance)
{
    const int64_t  n = a->n_cols;
    const ts_dtype t = a->dtype;
    if (WAY == welford || WAY == merged) {
        const moments m = update(a, r, 0, n);
        *mean = m.mean, *variance = K(m.m2 / m.n);
    } else if (WAY == shifted) {
        about = x_at(a, r, 0);
        const double d = K(sum_in_order(BY_LANES, t, distance, a, r, n) / (double)n);
        *mean = K(about + d);
        *variance = K(K(sum_in_order(BY_LANES, t, square, a, r, n) / (double)n) - K(d * d));
        if (*variance < 0) *variance = 0;
    } else {
        *mean = sum_in_order(order, t, itself, a, r, n) / (double)n;
        if (order != BY_DOUBLE) *mean = K(*mean);
        about = *mean;
        *variance = K(sum_in_order(order, t, square, a, r, n) / (double)n);
    }
}

static double y_of(const forward *a, double x, double gamma, double beta, double mean,
                   double variance)
{
    const double root = K(sqrt(K(variance + K(a->eps)))), rstd = K(1 / root);
    if (WAY == gamma_first) return K(K(K(gamma * K(x - mean)) * rstd) + beta);
    if (WAY == quotient) return K(K(gamma * K(K(x - mean) / root)) + beta);
    if (WAY != fused) return K(K(K(K(x - mean) * rstd) * gamma) + beta);
    const double scale = K(rstd * gamma);
    return K(K(x * scale) + K(beta - K(mean * scale)));
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = with_f64(refuse_forward(a, x), a ? a->dtype : TS_F32);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        const ts_dtype t = a->dtype;
        double         mean, variance;
        statistics(a, r, &mean, &variance);
        store(a->mean, dtype_of_sums(t), r, mean);
        store(a->rstd, dtype_of_sums(t), r, K(1 / K(sqrt(K(variance + K(a->eps))))));
        for (int64_t c = 0; c < a->n_cols; c++)
            store(
                a->y, t, r * a->row_stride + c,
                y_of(a, x_at(a, r, c), load(a->gamma, t, c), load(a->beta, t, c), mean, variance));
    }
    return s;
}
