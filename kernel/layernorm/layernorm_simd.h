/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm_simd.h - the rows of a layer norm, written once for any width of vector. Private to the
 * files that include it.
 *
 * Each of them first includes its vectors (row_simd.h lists their operations) and defines:
 *
 *     GROUP, group_of   rows that are processed at once: at most, and for a dtype
 *     SHORT          elements summed in float before they are added to a double, for statistics:
 *                    few, since the bound of the mean is tight
 *     NEAR           whether rows near zero have a shorter path, where arithmetic is slow
 *     FAR            bytes that forward prefetches into the second-level cache; 0: none
 *     BACK           bytes of a row to be read again, prefetched into the first level; 0: none
 *     LAG            columns, a multiple of SHORT, by which y lags behind the sums of the next
 * rows: equal columns of all rows may be in the same set of a cache; 0: none */
#ifndef TS_LAYERNORM_SIMD_H
#define TS_LAYERNORM_SIMD_H

#include <float.h>
#include <math.h>

enum { CENTRED = 1 };

#include "norm_simd.h"
#include "norm_threads.h"

enum {
    BLOCK = 1024, /* columns summed in float before they go on to a double */
    AHEAD = 1024, /* bytes of a row that are prefetched */
};

/* Where element i of a row and `ahead` bytes more are: in its group of rows or, past their end, in
 * the next. A single row and the next follow one another. */
INLINE int64_t ahead_of(int64_t i, int64_t n, ts_dtype t, int ahead, int group, int64_t to_next)
{
    const int64_t j = i + ahead / size_of(t);
    return j < n || group == 1 ? j * size_of(t) : (j - n) * size_of(t) + to_next;
}

/* UNIT elements of `group` rows, from p on, will be wanted soon, or later. */
INLINE void prefetch(const char *p, int group, int64_t pitch, ts_dtype t, int soon)
{
#pragma GCC unroll 4
    for (int k = 0; k < group; k++)
        for (int64_t b = 0; b < UNIT * size_of(t); b += LINE)
            if (soon) __builtin_prefetch(p + k * pitch + b);
            else __builtin_prefetch(p + k * pitch + b, 0, 2);
}

INLINE void prefetch_ahead(const char *p, int group, int64_t pitch, ts_dtype t, int64_t i,
                           int64_t n, int64_t to_next)
{
    prefetch(p + ahead_of(i, n, t, AHEAD, group, to_next), group, pitch, t, 1);
    if (FAR) prefetch(p + ahead_of(i, n, t, FAR, group, to_next), group, pitch, t, 0);
}

INLINE scale scale_of(double mean, double rstd, int constant)
{
    double h = 1;
    if (rstd < 0x1p-60) h = 0x1p-64;
    /* A row with so small a spread that is not constant is near 0, so its values may be scaled up.
     * */
    if (rstd > 0x1p60 && !constant) h = 0x1p64;
    const float hi = (float)mean;
    double      r = rstd / h;
    if (r > FLT_MAX) r = FLT_MAX; /* a constant row: 0 times anything finite */
    return (scale) { (float)h, (float)(-hi * h), (float)r, (float)((hi - mean) * h * r) };
}

/* Nothing to scale or to shift: xhat is the same in fewer operations. */
INLINE int is_plain(const scale *s)
{
    return NEAR && s->h == 1 && s->shift == 0;
}

/* The mean of the first elements, as a float. Sums of x - pivot and of its square give the variance
 * in one sweep: those k of the n elements have k / n of the weight, so (mean - pivot)^2 <= n / k *
 * v, and the subtraction of the two costs at most log2(n / k) of a double's 53 bits. The mean of
 * equal values is that value, so a constant row has variance 0. */
INLINE float pivot_of(const char *x, ts_dtype t, int64_t n)
{
    const int k = (int)ts_lesser(n, UNIT);
    return (float)(wide_total(wide_sum(wide_zero(), x, t, 0, k, 0).d) / k);
}

INLINE float first_pivot(const char *x, ts_dtype t, int64_t n)
{
    return NEAR ? 0 : pivot_of(x, t, n);
}

/* Whether each element goes to double by itself, or in sums of some in float. */
INLINE int widens(ts_dtype t)
{
    return t == TS_F32 && !NEAR;
}

typedef struct row_sums {
    wide all;
    part some; /* on their way to `all` */
} row_sums;

INLINE row_sums sums_zero(void)
{
    return (row_sums) { wide_zero(), part_zero() };
}

INLINE row_sums sum_x(row_sums s, const char *x, ts_dtype t, int64_t i, int n, float pivot)
{
    if (widens(t)) {
        s.all = wide_sum(s.all, x, t, i, n, (double)pivot);
        return s;
    }
    vec d = load(x, t, i, n);
    if (!NEAR) d = keep(add(d, splat(-pivot)), t, n);
    s.some = (part) { fold(s.some.a, d), fold_madd(s.some.b, d, d) };
    return s;
}

/* Sums that have come to a multiple of SHORT go on, so that a row is summed in the same order
 * wherever it stands. i: the last UNIT that is in them. */
INLINE void settle(row_sums *s, int group, ts_dtype t, int64_t i)
{
    if (widens(t) || (i + UNIT) % SHORT != 0) return;
#pragma GCC unroll 4
    for (int k = 0; k < group; k++)
        s[k] = (row_sums) { wide_add(s[k].all, s[k].some.a, s[k].some.b), part_zero() };
}

/* Whether sums that were made in float will do. Not where squares left the range of float. And with
 * no pivot (NEAR), only where mean^2 <= v + eps: then the subtraction that gives v doubles a
 * relative error, at most. Otherwise the row is summed again in doubles, with a pivot. */
INLINE int holds(const wide *all, double size, double eps)
{
    const double square = wide_total(all->dd) / size + eps, mean = wide_total(all->d) / size;
    return square > 0x1p-120 && square < INFINITY && (!NEAR || mean * mean <= square / 2);
}

/* Takes in the elements from i on; then the statistics of row r are known. */
INLINE scale finish_sums(const forward_call *c, int64_t r, ts_dtype t, row_sums sums, int64_t i,
                         float pivot)
{
    const char  *x = c->x + r * c->pitch;
    const double size = (double)c->n;
    for (; i + UNIT <= c->n; i += UNIT) {
        sums = sum_x(sums, x, t, i, UNIT, pivot);
        settle(&sums, 1, t, i);
    }
    if (i < c->n) sums = sum_x(sums, x, t, i, (int)(c->n - i), pivot);
    wide all = wide_add(sums.all, sums.some.a, sums.some.b);
    if (!widens(t) && !holds(&all, size, c->eps)) {
        all = wide_zero();
        if (NEAR) pivot = pivot_of(x, t, c->n);
        for (i = 0; i < c->n; i += UNIT)
            all = wide_sum(all, x, t, i, (int)ts_lesser(UNIT, c->n - i), (double)pivot);
    }
    const double shift = wide_total(all.d) / size, mean = (double)pivot + shift;
    const double v = wide_total(all.dd) / size - shift * shift;
    const double rstd = 1 / sqrt((v < 0 ? 0 : v) + c->eps);
    c->mean[r] = (float)mean;
    c->rstd[r] = (float)rstd;
    /* Near zero, what rounding leaves out of the mean is below u. */
    const int near = NEAR && fabs(mean) * rstd <= 1;
    return scale_of(near ? (double)(float)mean : mean, rstd, !(v > 0));
}

/* Units from i to stop: sums over `group` rows from x on, and y of as many rows before them. What
 * it works with is its own, so that no store can be taken for one to it. */
INLINE void forward_units(const forward_call *c, const char *x, int64_t r, int group, ts_dtype t,
                          int plain, const scale *given, const float *from, int64_t i, int64_t stop,
                          int64_t lag, int64_t to_next, row_sums *out)
{
    scale    s[GROUP];
    row_sums sums[GROUP];
    float    pivot[GROUP];

    const char *const old = c->x + r * c->pitch - lag * size_of(t);
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) {
        s[k] = given[k];
        sums[k] = out[k];
        pivot[k] = from[k];
    }
    for (; i < stop; i += UNIT) {
        prefetch_ahead(x, group, c->pitch, t, i, c->n, to_next);
        if (BACK) prefetch(old + i * size_of(t) + BACK, group, c->pitch, t, 1);
#pragma GCC unroll 4
        for (int k = 0; k < group; k++)
            sums[k] = sum_x(sums[k], x + k * c->pitch, t, i, UNIT, pivot[k]);
        y_unit(c, r, group, s, plain, t, c->head + i - lag, UNIT, c->streaming);
    }
    settle(sums, group, t, i - UNIT);
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) out[k] = sums[k];
}

/* Writes `group` rows while it reads the next ones: memory is busy both ways all the time, and
 * gamma and beta come into the first-level cache once for all of the rows. s: from these rows' to
 * the next ones'. */
INLINE void forward_group(const forward_call *c, int64_t r, int64_t end, int group, ts_dtype t,
                          scale *s, int plain)
{
    const char   *x = c->x + (r + group) * c->pitch;
    const int64_t to_next = r + 3 * group <= end ? group * c->pitch : 0;
    const int64_t whole = (c->n - c->head) / UNIT * UNIT;
    row_sums      sums[GROUP];
    float         pivot[GROUP];
    for (int k = 0; k < group; k++) {
        pivot[k] = first_pivot(x + k * c->pitch, t, c->n);
        sums[k] = sums_zero();
    }
    const int64_t lag = whole >= 4 * LAG ? LAG : 0;
    for (int64_t i = 0; i < lag; i += UNIT) {
        prefetch_ahead(x, group, c->pitch, t, i, c->n, to_next);
        for (int k = 0; k < group; k++)
            sums[k] = sum_x(sums[k], x + k * c->pitch, t, i, UNIT, pivot[k]);
        settle(sums, group, t, i);
    }
    for (int64_t i = lag; i < whole; i += SHORT)
        forward_units(c, x, r, group, t, plain, s, pivot, i, ts_lesser(i + SHORT, whole), lag,
                      to_next, sums);
    y_ends(c, r, group, s, plain, t, c->head + whole - lag);
    for (int k = 0; k < group; k++)
        s[k] = finish_sums(c, r + group + k, t, sums[k], whole, pivot[k]);
}

INLINE void forward_rows(const ts_layernorm_forward_args *a, int64_t begin, int64_t end, ts_dtype t)
{
    forward_call c = { .x = a->x,
                       .gamma = a->gamma,
                       .beta = a->beta,
                       .y = a->y,
                       .mean = a->mean,
                       .rstd = a->rstd,
                       .eps = a->eps,
                       .n = a->n_cols,
                       .pitch = a->row_stride * size_of(t) };
    const int    group = group_of(t);
    scale        s[GROUP];
    int          known = 0; /* how many of s are there already */
    c.streaming = streams(a->n_rows, c.n, c.pitch, t);
    c.head = head_of(a->y, t, c.n, c.streaming);
    for (int64_t r = begin; r < end; r += group) {
        const int n = (int)ts_lesser(group, end - r);
        for (int k = known; k < n; k++)
            s[k] = finish_sums(&c, r + k, t, sums_zero(), 0,
                               first_pivot(c.x + (r + k) * c.pitch, t, c.n));
        known = r + 2 * group <= end ? group : 0;
        int plain = 1;
        for (int k = 0; k < n; k++) plain &= is_plain(&s[k]);
        if (known && plain) forward_group(&c, r, end, group, t, s, 1);
        else if (known) forward_group(&c, r, end, group, t, s, 0);
        else
            for (int k = 0; k < n; k++) y_ends(&c, r + k, 1, &s[k], 0, t, c.head);
    }
    if (c.streaming) end_streams();
}

/* The given mean and rstd are floats, so there is nothing to shift. A NaN is replaced by the plain
 * one: rounding to bf16 relies on the low half of a NaN being 0, as it is in every other NaN here,
 * which come from bf16 data or from the machine. */
INLINE backward_row given_row(const backward_call *c, int64_t r)
{
    const float  mean = c->mean[r], rstd = c->rstd[r], h = rstd < 0x1p-60f ? 0x1p-64f : 1;
    backward_row w = { { h, -mean * h, rstd / h, 0 }, rstd, 0, 0, 0, 0, 0 };
    if (isnan(mean) || isnan(rstd)) w.s.minus_mean = w.s.r = w.rstd = NAN;
    return w;
}

/* Takes in the averages of g and of g * xhat. Multiplying out xhat = x * rstd - mean * rstd adds
 * roundings of mean * rstd, which near zero are no larger than those of 1. */
INLINE void set_averages(backward_row *w, double g, double gx)
{
    const double r = (double)w->rstd, mean_r = -(double)w->s.minus_mean * r;
    w->avg_g = (float)g;
    w->avg_gx = (float)gx;
    w->p = (float)(-r * gx);
    w->q = (float)(mean_r * gx - g);
    w->near = is_plain(&w->s) && fabs(mean_r) <= 1 && isfinite(w->p) && isfinite(w->q);
}

INLINE void dx_row(const backward_call *c, int64_t r, const backward_row *w, ts_dtype t)
{
    if (w->near) dx_ends(c, r, 1, w, 1, t, c->head);
    else dx_ends(c, r, 1, w, 0, t, c->head);
}

/* Units from i to stop of backward_group, with everything its own as in forward_units. */
INLINE void backward_units(const backward_call *c, int64_t r, int group, ts_dtype t,
                           const backward_row *given, const backward_row *before, int near,
                           int64_t i, int64_t stop, int64_t to_next, part *out)
{
    backward_row w[GROUP], done[GROUP];
    part         sums[GROUP];
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) {
        w[k] = given[k];
        if (before) done[k] = before[k];
        sums[k] = part_zero();
    }
    for (; i + UNIT <= stop; i += UNIT) {
        const int64_t ahead = r * c->pitch + ahead_of(i, c->n, t, AHEAD, group, to_next);
        prefetch(c->x + ahead, group, c->pitch, t, 1);
        prefetch(c->dy + ahead, group, c->pitch, t, 1);
        sum_unit(c, r, group, w, near, t, i, UNIT, sums);
        if (before && c->head + i + UNIT <= c->n)
            dx_unit(c, r - group, group, done, near, t, c->head + i, UNIT, c->streaming);
    }
#pragma GCC unroll 4
    for (int k = 0; k < group; k++) out[k] = sums[k];
}

/* Sums over `group` rows w from r on. Where `done` is given, dx of the `group` rows before them,
 * whose sums it holds, is written meanwhile, as in forward_group. near: w are plain, and done near.
 */
INLINE void backward_group(const backward_call *c, int64_t r, int64_t end, int group, ts_dtype t,
                           backward_row *w, const backward_row *done, int near)
{
    const int64_t to_next = r + 2 * group <= end ? group * c->pitch : 0;
    double        g[GROUP] = { 0 }, gx[GROUP] = { 0 };
    for (int64_t i = 0; i < c->n; i += BLOCK) {
        const int64_t stop = ts_lesser(i + BLOCK, c->n), whole = i + (stop - i) / UNIT * UNIT;
        part          sums[GROUP];
        backward_units(c, r, group, t, w, done, near, i, stop, to_next, sums);
        if (whole < stop) sum_unit(c, r, group, w, near, t, whole, (int)(stop - whole), sums);
        for (int k = 0; k < group; k++) {
            g[k] += total(sums[k].a);
            gx[k] += total(sums[k].b);
        }
    }
    for (int k = 0; k < group; k++) set_averages(&w[k], g[k] / (double)c->n, gx[k] / (double)c->n);
    if (done) dx_ends(c, r - group, group, done, near, t, c->head + (c->n - c->head) / UNIT * UNIT);
}

INLINE void backward_rows(const ts_layernorm_backward_args *a, int64_t begin, int64_t end,
                          ts_dtype t, float *const sum[2])
{
    backward_call c = { .x = a->x,
                        .dy = a->dy,
                        .gamma = a->gamma,
                        .dx = a->dx,
                        .mean = a->mean,
                        .rstd = a->rstd,
                        .dgamma = sum[0],
                        .dbeta = sum[1],
                        .n = a->n_cols,
                        .pitch = a->row_stride * size_of(t) };
    backward_row  w[GROUP] = { 0 }, done[GROUP] = { 0 };
    const int     group = group_of(t);
    int64_t       r = begin;
    c.streaming = streams(a->n_rows, c.n, c.pitch, t);
    c.head = head_of(a->dx, t, c.n, c.streaming);
    for (; r + group <= end; r += group) {
        int n_plain = 0, n_near = 0;
        for (int k = 0; k < group; k++) {
            w[k] = given_row(&c, r + k);
            n_plain += is_plain(&w[k].s);
            n_near += done[k].near;
        }
        /* A row has the same formula, whichever are in its group. */
        const int alone = r > begin && n_near > 0 && n_near + n_plain < 2 * group;
        for (int k = 0; k < group && alone; k++) dx_row(&c, r - group + k, &done[k], t);
        if (r == begin || alone) backward_group(&c, r, end, group, t, w, NULL, 0);
        else if (n_near > 0) backward_group(&c, r, end, group, t, w, done, 1);
        else backward_group(&c, r, end, group, t, w, done, 0);
        for (int k = 0; k < group; k++) done[k] = w[k];
    }
    for (int64_t k = r - begin < group ? 0 : group; k > 0; k--)
        dx_row(&c, r - k, &done[group - k], t);
    for (; r < end; r++) {
        w[0] = given_row(&c, r);
        backward_group(&c, r, end, 1, t, w, NULL, 0);
        dx_row(&c, r, w, t);
    }
    if (c.streaming) end_streams();
}

static void forward_any(const void *args, int64_t begin, int64_t end)
{
    const ts_layernorm_forward_args *a = args;
    if (a->dtype == TS_BF16) forward_rows(a, begin, end, TS_BF16);
    else if (a->dtype == TS_F16) forward_rows(a, begin, end, TS_F16);
    else forward_rows(a, begin, end, TS_F32);
}

static void backward_any(const void *args, int64_t begin, int64_t end, float *const sum[2])
{
    const ts_layernorm_backward_args *a = args;
    if (a->dtype == TS_BF16) backward_rows(a, begin, end, TS_BF16, sum);
    else if (a->dtype == TS_F16) backward_rows(a, begin, end, TS_F16, sum);
    else backward_rows(a, begin, end, TS_F32, sum);
}

ts_status SIMD(ts_layernorm_forward)(const void *args, const ts_exec *x)
{
    const ts_layernorm_forward_args *a = args;
    return ts_chunk_run(a, a->n_rows, a->n_cols, x, forward_any);
}

ts_status SIMD(ts_layernorm_backward)(const void *args, const ts_exec *x)
{
    const ts_layernorm_backward_args *a = args;
    return ts_norm_backward_threads(a, a->n_rows, a->n_cols, a->accumulate,
                                    (void *const[]) { a->dgamma, a->dbeta }, x, backward_any);
}

#endif
