/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - dense comparison against the oracle, and the names of things. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cores.h"
#include "dtype.h"
#include "task.h"

/* A double's bits without the low ones of its mantissa count eighths of octaves. */
enum { BIN_SHIFT = 49, ONE = 0x3ff << 3 };

static void add_error(ts_errors *e, double ratio)
{
    uint64_t bits;
    memcpy(&bits, &ratio, sizeof bits);
    const int64_t bin = ONE - 1 - (int64_t)(bits >> BIN_SHIFT);
    e->n++;
    if (bin < TS_ERROR_BINS) e->bin[bin < 0 ? 0 : bin]++;
    if (ratio > e->worst) e->worst = ratio;
}

double ts_errors_quantile(const ts_errors *e, double q)
{
    int64_t above = 0;
    for (int i = 0; i < TS_ERROR_BINS; i++) {
        const uint64_t bits = (uint64_t)(ONE - i) << BIN_SHIFT; /* where the bin ends */
        double         edge;
        memcpy(&edge, &bits, sizeof edge);
        above += e->bin[i];
        if ((double)above > (1 - q) * (double)e->n) return fmin(edge, e->worst);
    }
    return 0;
}

/* Elements from .. to of a buffer, in the order of its rows. */
typedef struct span {
    const ts_buf  *b;
    const void    *p;
    const ts_want *want;
    int64_t        from, to;
    ts_flaw        f;
    ts_errors      e;
    bool           ok;
} span;

/* Whether infinity is what the dtype has for a number within the bound: one that rounds to more
 * than the largest. */
static bool overflows(const ts_format *t, double got, const ts_want *want)
{
    const double least = t->max * (1 + t->u / (2 - 2 * t->u));
    return isinf(got) && signbit(got) == signbit(want->value) &&
           fabs(want->value) + want->bound >= least;
}

static bool check_element(const ts_buf *b, const ts_format *t, const void *p, int64_t i,
                          const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const int64_t r = i / b->n_cols, c = i % b->n_cols, at = r * b->row_stride + c;
    const bool    whole = b->dtype == TS_I32 || b->dtype == TS_U8;
    const double  got = ts_load(p, b->dtype, at), d = fabs(got - want->value);
    /* Of a float dtype poison is a NaN: most numbers need no second look. */
    const bool unwritten =
        (whole || isnan(got)) &&
        ts_is_poison(b->dtype, (const unsigned char *)p + (size_t)at * t->n_bytes, t->n_bytes);
    const bool right = want->bound == TS_WRITTEN ? true
                       : isnan(want->value)      ? isnan(got)
                       : isinf(want->value)      ? got == want->value
                                                 : d <= want->bound || overflows(t, got, want);
    if (!right || unwritten) {
        *f = (ts_flaw) { unwritten ? TS_FAULT_UNWRITTEN : TS_FAULT_VALUE,
                         b->name,
                         r,
                         c,
                         got,
                         want->value,
                         want->bound };
        return false;
    }
    if (want->bound == TS_WRITTEN) return true;
    if (want->bound > 0 && isfinite(d)) add_error(e, d / want->bound);
    const double unit = 2 * t->u * fmax(fabs(want->value), t->min_normal);
    if (d > e->ulps * unit && unit > 0 && isfinite(d)) e->ulps = d / unit;
    return true;
}

static void check_span(int i, void *of)
{
    span                  *s = (span *)of + i;
    const ts_format *const t = ts_format_of(s->b->dtype);
    s->ok = true;
    for (int64_t k = s->from; k < s->to && s->ok; k++)
        if (s->want[k].bound != INFINITY)
            s->ok = check_element(s->b, t, s->p, k, &s->want[k], &s->f, &s->e);
}

void ts_errors_add(ts_errors *to, const ts_errors *e)
{
    to->worst = fmax(to->worst, e->worst);
    to->ulps = fmax(to->ulps, e->ulps);
    to->n += e->n;
    for (int i = 0; i < TS_ERROR_BINS; i++) to->bin[i] += e->bin[i];
}

/* A large buffer on all cores; of several flaws the first counts, as on one core. */
bool ts_check_buf(ts_buf b, const void *p, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    enum { MOST = 64, EACH = 1 << 16 };
    span          spans[MOST];
    const int64_t all = b.n_rows * b.n_cols, many = (all + EACH - 1) / EACH;
    const int     n = many < 2 ? 1 : many < MOST ? (int)many : MOST;
    bool          ok = true;
    for (int i = 0; i < n; i++)
        spans[i] = (span) { .b = &b,
                            .p = p,
                            .want = want,
                            .from = all / n * i,
                            .to = i + 1 < n ? all / n * (i + 1) : all };
    if (n > 1) ts_on_all_cores(n, check_span, spans);
    else check_span(0, spans);
    for (int i = 0; i < n && ok; i++) {
        ts_errors_add(e, &spans[i].e);
        ok = spans[i].ok;
        if (!ok) *f = spans[i].f;
    }
    return ok;
}

bool ts_check_untouched(ts_buf b, const void *p, ts_flaw *f)
{
    const unsigned char *byte = p;
    const size_t         each = ts_format_of(b.dtype)->n_bytes;
    for (int64_t at = 0; at < b.n_rows * b.n_cols; at++) {
        if (ts_is_poison(b.dtype, byte + (size_t)at * each, each)) continue;
        *f = (ts_flaw) {
            TS_FAULT_VALUE, b.name, at / b.n_cols, at % b.n_cols, ts_load(p, b.dtype, at), NAN, 0
        };
        return false;
    }
    return true;
}

void ts_case_string(const ts_task *t, const ts_case *c, uint64_t seed, char *s, size_t n)
{
    size_t o = (size_t)snprintf(s, n, "%s/%s/", t->name, ts_format_of(c->dtype)->name);
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i] && o < n; i++)
        o += (size_t)snprintf(s + o, n - o, "%s%s=%lld", i ? "," : "", t->dim_name[i],
                              (long long)c->dim[i]);
    for (int i = 0; i < TS_MAX_MORE && o < n; i++)
        if (c->dim[TS_MAX_DIMS + i])
            o += (size_t)snprintf(s + o, n - o, ",%s=%lld", t->more_name[i],
                                  (long long)c->dim[TS_MAX_DIMS + i]);
    if (o < n) snprintf(s + o, n - o, "/%s@0x%llx", c->family, (unsigned long long)seed);
}

const char *ts_common_by(ts_oracle_of *wider, ts_check_of *check, const ts_want *want,
                         size_t n_want, const char *rule, const ts_case *c, const void *args,
                         ts_flaw *f, ts_errors *e)
{
    ts_want *wide = calloc(n_want + 1, sizeof *wide);
    if (!wide) abort();
    memcpy(wide, want, n_want * sizeof *wide);
    wider(c, args, wide);
    for (size_t i = 0; i < n_want; i++)
        if (want[i].bound == TS_WRITTEN || want[i].bound == INFINITY) wide[i] = want[i];
    const bool kept = check(c, args, wide, f, e);
    free(wide);
    return kept ? rule : NULL;
}

void ts_excuse(ts_want *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (want[i].bound != INFINITY) want[i].bound = TS_WRITTEN;
}

void ts_excuse_nan(ts_want *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(want[i].value)) ts_excuse(&want[i], 1);
}

void ts_excuse_nonfinite(ts_buf b, const void *p, ts_want *want)
{
    for (int64_t r = 0; r < b.n_rows; r++)
        for (int64_t c = 0; c < b.n_cols; c++, want++) {
            if (!isfinite(ts_load(p, b.dtype, r * b.row_stride + c)) && isfinite(want->value))
                ts_excuse(want, 1);
        }
}
