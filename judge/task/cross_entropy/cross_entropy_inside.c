/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_inside.c - the oracle of a row of logits, and the arguments of a call that are not
 * tensors.
 *
 * The oracle computes in double from the rounded inputs, and in pairs of doubles where double is
 * judged. With u the unit roundoff of accumulation and kappa(n) = 8 + 2 sqrt(n), a logit that may
 * be off by e makes z off by e times the slope of the cap, plus 8 u of the cap, whose tanh may be
 * computed from an exponential. Then
 *     lse   errs by  sum p e + (16 + kappa(V)) u + 2 u |max| + u |lse|
 *     p     by       e + that of lse + 2 u |z - lse| + 16 u of itself
 * and loss and gradient by what these make of their terms, plus 8 u of the magnitudes.
 *
 * By the common contract (`any`) kappa(n) + n stands for kappa(n), as in bound.h, and the mean of z
 * may be that of z - lse: the terms of a smoothed loss by log-softmax. In double lse may also be
 * the logarithm of a running sum, which is rounded V times: by u of itself, and log1p by 2 u. A
 * partial one is at most |max| + ln V, or weighs no more than 1 / e in the next. Float is too
 * narrow for it: of 33 logits near 1e4, p would err by 3 %. */
#include "cross_entropy_inside.h"

#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "dtype.h"
#include "rng.h"

const char ts_cross_entropy_nonfinite[] =
    "a NaN or infinity makes its own row, total and the sum over rows NaN, and nothing else";
const char ts_cross_entropy_ignored[] = "what an ignored row holds is of no consequence";
const char ts_cross_entropy_masked[] = "a logit of -inf has weight 0";

double ts_xe_kappa(const ts_xe_rule *r, int64_t n)
{
    return r->any ? ts_kappa_any(n) : ts_kappa(n);
}

/* ---- inputs ---- */

ts_xe_rule ts_xe_rule_of(const ts_case *c, int64_t mean, int64_t skip, uint64_t seed)
{
    static const double of_mean[] = { 1, 0.25, -3, 1024 }, of_sum[] = { 1, 0.25, -3, 0.0625 };
    const int           k = (int)(ts_bits(seed + 11, 31 * c->dim[0] + c->dim[1]) % 4);
    ts_xe_rule          r = { .dtype = c->dtype,
                              .n_rows = c->dim[0],
                              .n_vocab = c->dim[1],
                              .mean = (int)mean,
                              .ignored = skip == 3                    ? 0
                                         : skip == 4 && c->dim[0] % 2 ? -1
                                         : skip == 4                  ? INT32_MIN
                                                                      : -100,
                              .scale = mean ? of_mean[k] : of_sum[k],
                              .smoothing = (double)c->dim[XE_SMOOTH] / 100,
                              .z_loss = (double)c->dim[XE_Z] / 10000,
                              .softcap = (double)c->dim[XE_CAP] };
    if (c->dtype == TS_F16 && r.scale > 16) r.scale = 16; /* or gradients are no numbers of f16 */
    if (c->dtype == TS_F64) r.scale *= 1 + 0x1p-40;       /* which float rounds */
    if (ts_is(c, "loud")) r.scale *= c->dtype == TS_F64 ? 0x1p200 : 0x1p20;
    if (ts_is(c, "faint")) r.scale *= c->dtype == TS_F64 ? 0x1p-200 : 0x1p-30;
    if (ts_is(c, "still")) r.scale = 0;
    return r;
}

void ts_xe_scalars(ts_arena *m, const ts_xe_rule *r)
{
    ts_scalar(m, "scale", r->scale);
    ts_scalar(m, "smoothing", r->smoothing);
    ts_scalar(m, "z_loss", r->z_loss);
    ts_scalar(m, "softcap", r->softcap);
    ts_scalar(m, "mean", r->mean);
    ts_scalar(m, "ignore_index", r->ignored);
}

double ts_xe_tail(const ts_case *c)
{
    const double most = 13; /* terms that float adds to 1 without losing them */
    return fmin(ts_log64((double)c->dim[1]) + 6.5, most);
}

int64_t ts_xe_tail_word(const ts_case *c)
{
    return (31 * c->dim[0] + 7) % c->dim[1];
}

bool ts_xe_masks(const ts_case *c)
{
    return ts_is(c, "masked") || ts_is(c, "masked_target");
}

bool ts_xe_is_masked(int64_t word)
{
    return word % 3 == 1;
}

static int64_t masked_next_to(int64_t word, int64_t n_vocab)
{
    const int64_t masked = word / 3 * 3 + 1;
    return masked < n_vocab ? masked : word;
}

/* The first and the last word come up more often than by chance, and in every case of two rows. */
void ts_xe_targets(const ts_case *c, const ts_xe_rule *r, int64_t skip, uint64_t seed,
                   int32_t *target)
{
    const bool masked = ts_is(c, "masked"), far = ts_is(c, "far");
    for (int64_t i = 0; i < r->n_rows; i++) {
        const uint64_t b = ts_bits(seed, i);
        int64_t        t = (int64_t)(b % (uint64_t)r->n_vocab);
        if (i % 7 == 0) t = r->n_vocab - 1;
        if (i % 7 == 3) t = 0;
        if (masked && ts_xe_is_masked(t)) t--;
        if (ts_is(c, "masked_target") && i % 2 == 0) t = masked_next_to(t, r->n_vocab);
        target[i] = (int32_t)t;
        /* In family far the last row is the one whose offset overflows: it has to count. */
        const bool some = skip == 0 || skip == 4;
        if (skip == 2 || (some && (i == 1 || (i > 1 && !far && (b >> 40) % 5 == 0))))
            target[i] = r->ignored;
    }
}

int64_t ts_xe_counted(const ts_xe_rule *r, const int32_t *target)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_rows; i++) n += target[i] != r->ignored;
    return n;
}

double ts_xe_share(const ts_xe_rule *r, int64_t n_counted)
{
    return r->mean && n_counted ? r->scale / (double)n_counted : r->scale;
}

/* ---- oracle ---- */

/* A result below the smallest normal may be flushed; storing one errs by half its spacing. */
ts_want ts_xe_stored(double v, double error, ts_dtype t)
{
    const ts_format *f = ts_format_of(t);
    if (isnan(v)) return (ts_want) { NAN, 0 };
    if (isinf(v)) return (ts_want) { v, 0 };
    return (ts_want) { v, error + f->u * fabs(v) + f->min_normal * f->u +
                              (fabs(v) < f->min_normal ? fabs(v) : 0) };
}

static ts_real exp_of(ts_dtype t, ts_real x)
{
    return t == TS_F64 ? ts_real_exp(x) : ts_real_of(ts_exp64(x.hi));
}

static ts_real times(ts_real a, double b)
{
    return ts_real_mul(a, ts_real_of(b));
}

/* z from x, in place, and the slope there. e = exp(-2 |x| / cap); tanh = (1 - e) / (1 + e). */
static ts_xe_value cap(const ts_xe_rule *r, ts_xe_value *x, double u)
{
    const double c = r->softcap;
    ts_xe_value  slope = { ts_real_of(1), 0 };
    if (c == 0 || isnan(x->v.hi)) return slope;
    if (isinf(x->v.hi)) {
        *x = (ts_xe_value) { ts_real_of(copysign(c, x->v.hi)), 8 * u * c };
        return (ts_xe_value) { ts_real_of(0), 8 * u };
    }
    const ts_real y = ts_real_div(ts_real_abs(x->v), ts_real_of(c));
    const ts_real e = ts_real_exp(times(y, -2)), one = ts_real_of(1), d = ts_real_add(one, e);
    const ts_real t = ts_real_div(ts_real_sub(one, e), d);
    slope.v = ts_real_div(times(e, 4), ts_real_mul(d, d));
    slope.error = 8 * u + fmin(1, x->error / c);
    x->v = times(t, x->v.hi < 0 ? -c : c);
    x->error = x->error * fmin(1, slope.v.hi + 2 * x->error / c) + 8 * u * c;
    return slope;
}

/* max, lse, and the mean of z where it is wanted. */
typedef struct sums {
    ts_real lse, mean;
    double  lse_error, mean_error;
} sums;

/* z: the capped logits */
static sums sum_up(const ts_xe_rule *r, const ts_xe_value *z, double u)
{
    const int64_t V = r->n_vocab;
    const double  n = (double)V;
    ts_real       m = ts_real_of(-INFINITY), sum = { 0, 0 }, z_sum = { 0, 0 };
    double        weighted = 0, errors = 0, sizes = 0;
    bool          nonfinite = false, masked = false;
    for (int64_t v = 0; v < V; v++) {
        nonfinite |= isnan(z[v].v.hi) || z[v].v.hi == INFINITY;
        if (ts_real_less(m, z[v].v)) m = z[v].v;
    }
    if (nonfinite || isinf(m.hi)) return (sums) { ts_real_of(NAN), ts_real_of(NAN), 0, 0 };
    for (int64_t v = 0; v < V; v++) {
        masked |= z[v].v.hi == -INFINITY;
        if (z[v].v.hi == -INFINITY) continue;
        const ts_real e = exp_of(r->dtype, ts_real_sub(z[v].v, m));
        ts_real_gather(&sum, e);
        weighted += e.hi * (z[v].error + z[v].error * z[v].error);
        ts_real_gather(&z_sum, z[v].v);
        errors += z[v].error;
        sizes += fabs(z[v].v.hi);
    }
    sum = ts_real_gathered(sum);
    const ts_real log_sum = r->dtype == TS_F64 ? ts_real_log(sum) : ts_real_of(ts_log64(sum.hi));
    const ts_real lse = ts_real_add(m, log_sum);
    const double  size = fmax(fabs(m.hi), fabs(lse.hi));
    const double  running = r->any && r->dtype == TS_F64 ? n * u * (size + 2) : 0;
    const ts_real mean = ts_real_div(ts_real_gathered(z_sum), ts_real_of(n));
    return (sums) { lse, masked ? ts_real_of(-INFINITY) : mean,
                    weighted / sum.hi + (16 + ts_xe_kappa(r, V)) * u + 2 * u * fabs(m.hi) +
                        u * fabs(lse.hi) + running,
                    errors / n +
                        ts_xe_kappa(r, V) * u * (sizes / n + (r->any ? fabs(lse.hi) : 0)) };
}

static ts_xe_value loss_of(const ts_xe_rule *r, const sums *s, const ts_xe_value *zt, double u)
{
    const double  a = 1 - r->smoothing, b = r->smoothing, size = fabs(s->lse.hi);
    const ts_real square = times(ts_real_mul(s->lse, s->lse), r->z_loss);
    ts_real       loss = ts_real_add(s->lse, square);
    double        error = s->lse_error * (1 + r->z_loss * (2 * size + s->lse_error));
    double        terms = size + square.hi;
    const bool    infinite = (a > 0 && zt->v.hi == -INFINITY) || (b > 0 && s->mean.hi == -INFINITY);
    if (infinite && !isnan(s->lse.hi)) return (ts_xe_value) { ts_real_of(INFINITY), 0 };
    if (a > 0) {
        loss = ts_real_sub(loss, times(zt->v, a));
        error += a * zt->error, terms += a * fabs(zt->v.hi);
    }
    if (b > 0) {
        loss = ts_real_sub(loss, times(s->mean, b));
        error += b * s->mean_error, terms += b * fabs(s->mean.hi);
    }
    return (ts_xe_value) { loss, error + 8 * u * terms };
}

/* dx of a word from its z and slope. */
static ts_xe_value gradient_of(const ts_xe_rule *r, const sums *s, const ts_xe_value *z,
                               const ts_xe_value *slope, bool is_target, double u)
{
    const double smooth = r->smoothing / (double)r->n_vocab, hit = is_target ? 1 - r->smoothing : 0;
    const ts_real x = ts_real_sub(z->v, s->lse);
    const ts_real p = z->v.hi == -INFINITY ? ts_real_of(0) : exp_of(r->dtype, x);
    const ts_real more = ts_real_add(ts_real_of(1), times(s->lse, 2 * r->z_loss));
    const double  part = z->error + s->lse_error + 2 * u * fabs(x.hi) + 16 * u;
    const double  tiny = ts_format_of(ts_wide(r->dtype))->min_normal, size = fabs(more.hi) * p.hi;
    ts_real       q = ts_real_mul(more, p);
    q = ts_real_sub(ts_real_sub(q, ts_real_of(hit)), ts_real_of(smooth));
    double error = 8 * u * (size + hit + smooth) + 2 * r->z_loss * s->lse_error * p.hi;
    if (p.hi > 0) error += size * (part + part * part) + 2 * fabs(more.hi) * tiny; /* flushed */
    error =
        error * (slope->v.hi + slope->error) + fabs(q.hi) * (slope->error + 4 * u * slope->v.hi);
    return (ts_xe_value) { times(ts_real_mul(q, slope->v), r->g), fabs(r->g) * error };
}

void ts_xe_row(const ts_xe_rule *r, ts_xe_value *x, int32_t target, bool gradient,
               ts_xe_value *loss, ts_xe_value *lse)
{
    const double u = ts_format_of(ts_wide(r->dtype))->u;
    ts_xe_value  z;
    sums         s;
    if (r->softcap == 0) {
        s = sum_up(r, x, u);
        *loss = loss_of(r, &s, &x[target], u);
    } else {
        ts_xe_value *const all = malloc((size_t)r->n_vocab * sizeof *all);
        if (!all) abort();
        for (int64_t v = 0; v < r->n_vocab; v++) all[v] = x[v], cap(r, &all[v], u);
        s = sum_up(r, all, u);
        *loss = loss_of(r, &s, &all[target], u);
        free(all);
    }
    *lse = (ts_xe_value) { s.lse, s.lse_error };
    for (int64_t v = 0; v < r->n_vocab && gradient; v++) {
        z = x[v];
        const ts_xe_value slope = cap(r, &z, u);
        x[v] = gradient_of(r, &s, &z, &slope, v == target, u);
    }
}

ts_want ts_xe_total(const ts_xe_rule *r, const ts_xe_value *loss, const int32_t *target)
{
    const int64_t n = ts_xe_counted(r, target);
    const double  u = ts_format_of(ts_wide(r->dtype))->u, by = r->mean ? (double)n : 1;
    ts_real       sum = { 0, 0 };
    double        error = 0;
    if (r->mean && !n) return (ts_want) { NAN, 0 };
    for (int64_t i = 0; i < r->n_rows; i++) {
        if (target[i] == r->ignored) continue;
        if (!isfinite(loss[i].v.hi)) return (ts_want) { loss[i].v.hi, 0 };
        ts_real_gather(&sum, loss[i].v);
        error += loss[i].error + ts_xe_kappa(r, n) * u * fabs(loss[i].v.hi);
    }
    const double total = ts_real_div(ts_real_gathered(sum), ts_real_of(by)).hi;
    return ts_xe_stored(total, error / by, ts_wide(r->dtype));
}

bool ts_xe_check_loss(ts_dtype wide, int64_t n_rows, const void *loss, const void *lse,
                      const void *total, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const int64_t R = n_rows;
    return ts_check_buf((ts_buf) { "loss", TS_OUT, wide, 1, R, R }, loss, want, f, e) &&
           ts_check_buf((ts_buf) { "lse", TS_OUT, wide, 1, R, R }, lse, want + R, f, e) &&
           ts_check_buf((ts_buf) { "total", TS_OUT, wide, 1, 1, 1 }, total, want + 2 * R, f, e);
}

bool ts_xe_may_be_nan(const ts_case *c, const ts_xe_rule *r, int32_t target)
{
    return ts_xe_masks(c) || (ts_is(c, "ignored_nonfinite") && target == r->ignored);
}

/* A loss that is infinite by the formula may be NaN: 0 times infinity, where smoothing is 1. */
static void excuse_infinite(const void *p, ts_dtype t, int64_t n, ts_want *want)
{
    for (int64_t i = 0; i < n; i++)
        if (isinf(want[i].value) && isnan(ts_load(p, t, i))) ts_excuse(want + i, 1);
}

void ts_xe_excuse_loss(const ts_case *c, const ts_xe_rule *r, const int32_t *target,
                       const void *loss, const void *lse, const void *total, ts_want *want)
{
    const ts_dtype wide = ts_wide(r->dtype);
    const int64_t  R = r->n_rows;
    const size_t   each = ts_format_of(wide)->n_bytes;
    const ts_buf   one = { "", TS_OUT, wide, 1, 1, 1 };
    ts_excuse_nan(want, 2 * R + 1);
    excuse_infinite(loss, wide, R, want);
    excuse_infinite(total, wide, 1, want + 2 * R);
    for (int64_t i = 0; i < R; i++) {
        if (!ts_xe_may_be_nan(c, r, target[i])) continue;
        ts_excuse_nonfinite(one, (const char *)loss + (size_t)i * each, want + i);
        ts_excuse_nonfinite(one, (const char *)lse + (size_t)i * each, want + R + i);
    }
    if (!ts_is(c, "nonfinite")) ts_excuse_nonfinite(one, total, want + 2 * R);
}
