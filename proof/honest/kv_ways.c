/* SPDX-License-Identifier: Apache-2.0 */
/* kv_ways.c - kv_cache with attention by the formulas in use, in float, or in
 * double where queries are.
 *
 * Ways: two_pass normalised online split powers_of_2 wide
 *
 * two_pass: the largest score, then sums. normalised: weights are divided by their sum before they
 * meet values. online: a running maximum, key by key. split: four parts of the keys, merged.
 * powers_of_2: with log2(e) folded into the scale. wide: two_pass in double. */
#include <math.h>
#include <stdint.h>

#include "touchstone/kv_cache.h"

enum { two_pass, normalised, online, split, powers_of_2, wide };
static const int way = WAY;

static const double LOG2_E = 1.4426950408889634074;

static double score_of(const ts_kv_dims *d, const void *q, int64_t at, const double *row);
static void   gather(const ts_kv *c, int64_t seq, int64_t layer, int64_t kv, int64_t n,
                     const double *score, double *row, double *o, double *sum, double *max);

#define POINT_score     ~, SCORE
#define POINT_keys_done ~, GATHER
#define POINT_lse       ~, LSE
#define SCORE(...)      ((void)(__VA_ARGS__), score_of(d, q, at, row))
#define GATHER()        gather(c, seq, layer, kv, n, score, row, o, &sum, &most)
#define LSE(...)        lse_of(most, sum)
#include "hooks.h"

static double lse_of(double max, double sum)
{
    return way == powers_of_2 ? (max + log(sum) * LOG2_E) / LOG2_E : max + log(sum);
}

#include "kv_cache.c"

static ts_dtype io; /* of the cache at hand */

static double in(double v)
{
    return way == wide || io == TS_F64 ? v : (double)(float)v;
}

static double power(double x)
{
    return in(way == powers_of_2 ? exp2(x) : exp(x));
}

static double score_of(const ts_kv_dims *d, const void *q, int64_t at, const double *row)
{
    io = d->io_dtype;
    const double by = way == powers_of_2 ? in(d->scale * LOG2_E) : in(d->scale);
    double       dot = 0;
    for (int64_t e = 0; e < d->head_dim; e++)
        dot = in(dot + in(load(q, d->io_dtype, at + e) * in(row[e])));
    return in(dot * by);
}

static void rescale(int64_t D, double *o, double *sum, double *max, double to)
{
    const double by = *max == -INFINITY || to == *max ? 1 : power(in(*max - to));
    *max = to;
    *sum = in(*sum * by);
    for (int64_t e = 0; e < D; e++) o[e] = in(o[e] * by);
}

/* Keys begin .. end join o, sum and max. A key with a score of -inf is not seen. */
static void gather_part(const ts_kv *c, int64_t seq, int64_t layer, int64_t kv, int64_t begin,
                        int64_t end, const double *score, double *row, double *o, double *sum,
                        double *max, double total)
{
    const int64_t D = c->d.head_dim;
    for (int64_t j = begin; j < end; j++) {
        if (score[j] == -INFINITY) continue;
        if (!(score[j] <= *max)) rescale(D, o, sum, max, score[j]);
        const double w = in(power(in(score[j] - *max)) / total);
        read_row(c, seq, layer, j, 0, kv, row);
        for (int64_t e = 0; e < D; e++) o[e] = in(o[e] + in(w * in(row[e])));
        *sum = in(*sum + w);
    }
}

static void gather(const ts_kv *c, int64_t seq, int64_t layer, int64_t kv, int64_t n,
                   const double *score, double *row, double *o, double *sum, double *max)
{
    const int64_t D = c->d.head_dim, n_parts = way == split ? 4 : 1;
    const double  most = way == online || way == split ? -INFINITY : *max;
    double        part[256], part_sum, part_max, total = 1;
    *sum = way == normalised ? 0 : *sum;
    for (int64_t j = 0; j < n && way == normalised; j++)
        if (score[j] != -INFINITY) *sum = in(*sum + power(in(score[j] - most)));
    if (way == normalised) total = *sum;
    *sum = 0, *max = most;
    for (int64_t e = 0; e < D; e++) o[e] = 0;
    for (int64_t i = 0; i < n_parts; i++) {
        for (int64_t e = 0; e < D; e++) part[e] = 0;
        part_sum = 0, part_max = most;
        gather_part(c, seq, layer, kv, i * n / n_parts, (i + 1) * n / n_parts, score, row, part,
                    &part_sum, &part_max, total);
        if (part_max == -INFINITY) continue;
        const double to = *max > part_max ? *max : part_max;
        rescale(D, o, sum, max, to);
        rescale(D, part, &part_sum, &part_max, to);
        *sum = in(*sum + part_sum);
        for (int64_t e = 0; e < D; e++) o[e] = in(o[e] + part[e]);
    }
    if (way == normalised) {
        for (int64_t e = 0; e < D; e++) o[e] *= total; /* the caller divides */
        *sum = total;
    }
}
