/* SPDX-License-Identifier: Apache-2.0 */
/* real.h - numbers of about 106 bits as sums of two doubles, and functions of doubles, bitwise
 * identical on every machine.
 *
 * long double has 64 bits on x86-64 and 113, by software, on aarch64; exp, log, pow, sin and cos of
 * a C library differ in the last bit between processors. This code uses only + - * / sqrt and
 * fma(), whose rounding IEEE 754 defines, and is compiled with -ffp-contract=off.
 *
 * With u = 2^-53, sums, products, quotients and roots have a relative error below 8 u^2, as long as
 * their low part is a normal number. If hi is infinite or NaN, it is the result of double
 * arithmetic, and lo is 0. */
#ifndef TS_BASE_REAL_H
#define TS_BASE_REAL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ts_real {
    double hi, lo; /* hi is hi + lo rounded to double */
} ts_real;

static inline ts_real ts_real_of(double x)
{
    return (ts_real) { x, 0 };
}

/* ---- two doubles, exactly ---- */

static inline ts_real ts_real_sum(double a, double b)
{
    const double s = a + b, b_in = s - a;
    return (ts_real) { s, (a - (s - b_in)) + (b - b_in) };
}

static inline ts_real ts_real_product(double a, double b)
{
    const double p = a * b;
    return (ts_real) { p, fma(a, b, -p) };
}

/* hi + lo, for |lo| at most about |hi|. */
static inline ts_real ts_real_tidy(double hi, double lo)
{
    const double s = hi + lo;
    if (!isfinite(hi)) return ts_real_of(hi);
    return (ts_real) { s, isfinite(s) ? lo - (s - hi) : 0 };
}

/* ---- arithmetic ---- */

static inline ts_real ts_real_neg(ts_real a)
{
    return (ts_real) { -a.hi, -a.lo };
}

static inline ts_real ts_real_abs(ts_real a)
{
    return a.hi < 0 ? ts_real_neg(a) : a;
}

static inline ts_real ts_real_add(ts_real a, ts_real b)
{
    const ts_real s = ts_real_sum(a.hi, b.hi), t = ts_real_sum(a.lo, b.lo);
    const ts_real r = ts_real_tidy(s.hi, s.lo + t.hi);
    return ts_real_tidy(r.hi, r.lo + t.lo);
}

static inline ts_real ts_real_sub(ts_real a, ts_real b)
{
    return ts_real_add(a, ts_real_neg(b));
}

static inline ts_real ts_real_mul(ts_real a, ts_real b)
{
    const ts_real p = ts_real_product(a.hi, b.hi);
    return ts_real_tidy(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

/* A double's quotient has a remainder that is a double. */
static inline ts_real ts_real_div(ts_real a, ts_real b)
{
    const double q = a.hi / b.hi;
    if (!isfinite(q) || !isfinite(b.hi)) return ts_real_of(q);
    return ts_real_tidy(q, (fma(-q, b.hi, a.hi) + (a.lo - q * b.lo)) / b.hi);
}

static inline ts_real ts_real_sqrt(ts_real a)
{
    const double s = sqrt(a.hi);
    if (!(s > 0) || !isfinite(s)) return ts_real_of(s);
    return ts_real_tidy(s, (fma(-s, s, a.hi) + a.lo) / (2 * s));
}

/* a * 2^n; exact, unless it leaves the range of double. */
static inline ts_real ts_real_scale(ts_real a, int n)
{
    return ts_real_tidy(ldexp(a.hi, n), ldexp(a.lo, n));
}

static inline bool ts_real_less(ts_real a, ts_real b)
{
    return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

/* Long sums: the high parts are added exactly, and the remainders in double. For n terms whose
 * magnitudes add up to A the error is about u |sum| + n^2 u^2 A without the low part, and n^2 u^2 A
 * with it. Tidy once, at the end. */

static inline void ts_real_gather(ts_real *sum, ts_real x)
{
    const ts_real s = ts_real_sum(sum->hi, x.hi);
    *sum = (ts_real) { s.hi, sum->lo + (s.lo + x.lo) };
}

static inline void ts_real_gather_product(ts_real *sum, ts_real a, double b)
{
    const ts_real p = ts_real_product(a.hi, b);
    ts_real_gather(sum, (ts_real) { p.hi, p.lo + a.lo * b });
}

static inline ts_real ts_real_gathered(ts_real sum)
{
    return ts_real_tidy(sum.hi, sum.lo);
}

/* sum over i of a[i a_step] b[i b_step] */
static inline ts_real ts_real_dot(const double *a, int64_t a_step, const double *b, int64_t b_step,
                                  int64_t n)
{
    ts_real sum = { 0, 0 };
    for (int64_t i = 0; i < n; i++)
        ts_real_gather_product(&sum, ts_real_of(a[i * a_step]), b[i * b_step]);
    return ts_real_gathered(sum);
}

/* ---- functions, in real.c ---- */

ts_real ts_real_exp(ts_real x); /* relative error 2^-102, as long as its low part is normal */
ts_real ts_real_log(ts_real x); /* error 2^-102 (1 + |log x|) */
ts_real ts_real_pow(double x, double y); /* x >= 0; relative error 2^-101 (1 + |y log x|) */

/* Functions of doubles, within one unit in the last place: exp, log, pow for x >= 0, and sin and
 * cos for |x| <= 2^20, beyond which they are NaN; those of a pair reach 2^40. */
double ts_exp64(double x);
double ts_log64(double x);
double ts_pow64(double x, double y);
double ts_sin64(double x);
double ts_cos64(double x);
double ts_real_sin(ts_real x);
double ts_real_cos(ts_real x);

#endif
