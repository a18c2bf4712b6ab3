/* SPDX-License-Identifier: Apache-2.0 */
/* unit_real.c - pairs of doubles against whole numbers of 128 bits and against mpmath; and
 * functions of doubles, within the errors that real.h states. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "real.h"
#include "rng.h"
#include "unit.h"
#include "unit_real_points.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const double U2 = 0x1p-106; /* u^2 */
static const double SHARP = 0x1p-104, MAY = 0x1p-102;

static ts_real pair(double hi, double lo)
{
    return (ts_real) { hi, lo };
}

static bool is(ts_real x, double hi, double lo)
{
    return x.hi == hi && x.lo == lo;
}

/* ---- arithmetic ---- */

__extension__ typedef __int128 wide;

static wide whole(ts_real x)
{
    return (wide)x.hi + (wide)x.lo;
}

static double size(wide x)
{
    return fabs((double)x);
}

/* n bits, of either sign */
static double draw(int64_t i, int n)
{
    return (double)((int64_t)ts_bits(0x5eed, i) >> (63 - n));
}

TEST(sums_and_products)
{
    for (int64_t i = 0; i < 20000; i++) {
        const double  a = draw(4 * i, 53), b = draw(4 * i + 1, (int)(i % 53) + 1);
        const ts_real p = ts_real_product(a, b), s = ts_real_sum(a, b);
        assert_true(whole(p) == (wide)a * (wide)b && p.hi == a * b);
        assert_true(whole(s) == (wide)a + (wide)b && s.hi == a + b);
        const ts_real q = ts_real_product(draw(4 * i + 2, 53), draw(4 * i + 3, 50));
        const ts_real sum = ts_real_add(p, q), less = ts_real_sub(p, q);
        assert_true(size(whole(sum) - (whole(p) + whole(q))) <= 8 * U2 * size(whole(sum)));
        assert_true(size(whole(less) - (whole(p) - whole(q))) <= 8 * U2 * size(whole(less)));
        assert_true(sum.hi == sum.hi + sum.lo && less.hi == less.hi + less.lo);
        assert_true(ts_real_less(p, q) == (whole(p) < whole(q)));
        /* Of 60 bits times 60: nothing of it is lost in 128. */
        const ts_real x = ts_real_sum(a * 64, draw(4 * i + 2, 6)), y = ts_real_sum(b * 64, 63);
        const wide    xy = whole(x) * whole(y);
        assert_true(size(whole(ts_real_mul(x, y)) - xy) <= 8 * U2 * size(xy));
    }
}

/* a / b and the root of a, times what undoes them. */
TEST(quotients_and_roots)
{
    for (int64_t i = 0; i < 20000; i++) {
        const ts_real a = ts_real_product(1 + fabs(draw(3 * i, 53)), draw(3 * i + 1, 40));
        const ts_real b = ts_real_sum(1 + fabs(draw(3 * i + 2, 53)), 0.3);
        const ts_real back = ts_real_mul(ts_real_div(a, b), b), r = ts_real_sqrt(ts_real_abs(a));
        assert_true(fabs(ts_real_sub(back, a).hi) <= 16 * U2 * fabs(a.hi));
        assert_true(fabs(ts_real_sub(ts_real_mul(r, r), ts_real_abs(a)).hi) <=
                    24 * U2 * fabs(a.hi));
        const double  n = draw(3 * i, 53);
        const ts_real square = ts_real_product(n, n);
        assert_true(is(ts_real_sqrt(square), fabs(n), 0));
        if (n != 0) assert_true(is(ts_real_div(square, ts_real_of(n)), n, 0));
    }
}

/* A sum whose terms are 2^100 times as large as it is. */
TEST(long_sums)
{
    static double a[4001], b[4001];
    wide          exact = 0;
    for (int i = 0; i < 4001; i++) a[i] = draw(2 * i, 50), b[i] = draw(2 * i + 1, 50);
    for (int i = 0; i < 2000; i++) a[2001 + i] = -a[i], b[2001 + i] = b[i];
    a[2000] = 3, b[2000] = 0x1.8p40;
    for (int i = 0; i < 4001; i++) exact += (wide)a[i] * (wide)b[i];
    assert_true(size(exact) == 0x1.2p42);
    const ts_real dot = ts_real_dot(a, 1, b, 1, 4001);
    assert_true(fabs(dot.hi - 0x1.2p42) <= 4001.0 * 4001.0 * U2 * 4001 * 0x1p100);
    a[2000] = 0x1.8p90, b[2000] = 3;
    const ts_real far = ts_real_dot(a, 1, b, 1, 2001),
                  near = ts_real_dot(a + 2001, 1, b + 2001, 1, 2000);
    wide half = (wide)a[2000] * 3;
    for (int i = 0; i < 2000; i++) half += (wide)a[i] * (wide)b[i];
    assert_true(size(whole(far) - half) <= 2001.0 * 2001.0 * U2 * 2001 * 0x1p100);
    assert_true(size(whole(near) + half - (wide)a[2000] * 3) <=
                2001.0 * 2001.0 * U2 * 2001 * 0x1p100);
}

/* ---- where double ends ---- */

TEST(past_the_range)
{
    const ts_real inf = ts_real_of(INFINITY), one = ts_real_of(1), zero = ts_real_of(0);
    const ts_real huge = pair(DBL_MAX, DBL_MAX * 0x1p-54), low = ts_real_neg(inf);
    assert_true(is(ts_real_add(inf, one), INFINITY, 0) && is(ts_real_sub(one, inf), -INFINITY, 0));
    assert_true(isnan(ts_real_add(inf, low).hi) && isnan(ts_real_mul(inf, zero).hi));
    assert_true(is(ts_real_mul(low, one), -INFINITY, 0) &&
                is(ts_real_mul(huge, huge), INFINITY, 0));
    assert_true(is(ts_real_add(huge, huge), INFINITY, 0) &&
                is(ts_real_div(one, zero), INFINITY, 0));
    assert_true(is(ts_real_div(one, inf), 0, 0) && isnan(ts_real_div(zero, zero).hi));
    assert_true(is(ts_real_sqrt(zero), 0, 0) && is(ts_real_sqrt(inf), INFINITY, 0));
    assert_true(isnan(ts_real_sqrt(low).hi) && isnan(ts_real_add(ts_real_of(NAN), one).hi));
    assert_true(is(ts_real_mul(ts_real_of(0x1p-1000), ts_real_of(0x1p-1000)), 0, 0));
    assert_true(is(ts_real_mul(ts_real_of(0x1p-537), ts_real_of(0x1p-537)), 0x1p-1074, 0));
    assert_true(is(ts_real_scale(pair(1, 0x1p-60), -1000), 0x1p-1000, 0x1p-1060));
    assert_true(is(ts_real_scale(pair(1, 0x1p-60), 1025), INFINITY, 0));
    assert_true(ts_real_less(low, zero) && ts_real_less(pair(1, -0x1p-60), one) &&
                !ts_real_less(one, one) && !ts_real_less(ts_real_of(NAN), one));
    ts_real sum = zero;
    ts_real_gather(&sum, one), ts_real_gather(&sum, inf), ts_real_gather(&sum, one);
    assert_true(is(ts_real_gathered(sum), INFINITY, 0));
}

TEST(past_the_range_of_functions)
{
    assert_true(ts_exp64(INFINITY) == INFINITY && ts_exp64(-INFINITY) == 0 && isnan(ts_exp64(NAN)));
    assert_true(ts_exp64(709.79) == INFINITY && ts_exp64(1e300) == INFINITY &&
                ts_exp64(-1e300) == 0);
    assert_true(ts_exp64(-745.2) == 0 && ts_exp64(0) == 1 && ts_exp64(-0.0) == 1);
    assert_true(is(ts_real_exp(ts_real_of(INFINITY)), INFINITY, 0) &&
                is(ts_real_exp(ts_real_of(-INFINITY)), 0, 0) &&
                isnan(ts_real_exp(ts_real_of(NAN)).hi));
    assert_true(is(ts_real_exp(ts_real_of(0)), 1, 0) &&
                is(ts_real_exp(ts_real_of(709.79)), INFINITY, 0));
    assert_true(is(ts_real_log(ts_real_of(1)), 0, 0) && ts_log64(0) == -INFINITY);
    assert_true(ts_log64(INFINITY) == INFINITY && isnan(ts_log64(-1)) && isnan(ts_log64(NAN)));
    assert_true(ts_log64(0x1p-1074) == -0x1.74385446d71c3p+9); /* -1074 ln 2 */
    for (int x = 1; x < 200; x++)
        for (int y = 0; y <= 4; y++) {
            double exact = 1;
            for (int i = 0; i < y; i++) exact *= x;
            const ts_real p = ts_real_pow(x, y);
            assert_true(p.hi == exact && p.lo == 0);
        }
    assert_true(ts_pow64(0, 0) == 1 && ts_pow64(0, 3) == 0 && ts_pow64(0, -1) == INFINITY);
    assert_true(isnan(ts_pow64(-2, 3)) && ts_pow64(10, 400) == INFINITY && ts_pow64(10, -400) == 0);
    assert_true(isnan(ts_sin64(INFINITY)) && isnan(ts_cos64(NAN)) && isnan(ts_sin64(0x1.1p20)));
    assert_true(ts_sin64(0) == 0 && ts_cos64(0) == 1);
}

/* ---- functions at points ---- */

static double off(ts_real got, const double want[2])
{
    return fabs(ts_real_sub(got, pair(want[0], want[1])).hi);
}

TEST(at_points)
{
    for (size_t i = 0; i < COUNT(exp_points); i++) {
        const double *p = exp_points[i];
        assert_true(off(ts_real_exp(pair(p[0], p[1])), p + 2) <= SHARP * p[2]);
    }
    for (size_t i = 0; i < COUNT(log_points); i++) {
        const double *p = log_points[i];
        assert_true(off(ts_real_log(pair(p[0], p[1])), p + 2) <= SHARP * (1 + fabs(p[2])));
    }
    for (size_t i = 0; i < COUNT(pow_points); i++) {
        const double *p = pow_points[i];
        assert_true(off(ts_real_pow(p[0], p[1]), p + 2) <=
                    MAY * (1 + fabs(p[1] * ts_log64(p[0]))) * p[2]);
    }
}

/* Units in the last place. */
static double ulps(double got, double want)
{
    const double to = nextafter(fabs(want), INFINITY) - fabs(want);
    return fabs(got - want) / to;
}

/* The points are rounded: half a unit of theirs, and one of the function's. */
TEST(at_points_of_double)
{
    for (size_t i = 0; i < COUNT(exp64_points); i++)
        assert_true(ulps(ts_exp64(exp64_points[i][0]), exp64_points[i][1]) <= 1);
    for (size_t i = 0; i < COUNT(turn_points); i++) {
        assert_true(ulps(ts_sin64(turn_points[i][0]), turn_points[i][1]) <= 1);
        assert_true(ulps(ts_cos64(turn_points[i][0]), turn_points[i][2]) <= 1);
    }
    for (size_t i = 0; i < COUNT(exp_points); i++) /* the pair, rounded, where x is a double */
        assert_true(
            ulps(ts_exp64(exp_points[i][0]), ts_real_exp(ts_real_of(exp_points[i][0])).hi) <= 1);
}

/* Far from 0; and the low part of a pair counts. */
TEST(turned_far)
{
    static const double far[][3] = {
        { 1000000000000.0, -0x1.38f4477984352p-1, 0x1.9538731dff223p-1 },
        { 10000000000.0, -0x1.f334c7896a4e3p-2, 0x1.bf098901c931ap-1 },
        { -250000000000.0, 0x1.4f30696634710p-3, 0x1.f9189683a3b5dp-1 },
        { 2147483647.0, -0x1.7328434159860p-1, -0x1.60af33efcd1b2p-1 },
        { 1048577.0, 0x1.f20cc1ff62d21p-1, 0x1.dacfb27d45b34p-3 },
        { 0x1.921fb54442d18p+39, -0x1.1a62633060b0ep-15, 0x1.fffffffb220c6p-1 },
    };
    for (size_t i = 0; i < COUNT(far); i++) {
        assert_true(ulps(ts_real_sin(ts_real_of(far[i][0])), far[i][1]) <= 1);
        assert_true(ulps(ts_real_cos(ts_real_of(far[i][0])), far[i][2]) <= 1);
    }
    for (int64_t i = 0; i < 20000; i++) {
        const ts_real a = ts_real_product(0x1p31 * ts_uniform(3, i), ts_uniform(4, i));
        const double s = ts_real_sin(a), c = ts_real_cos(a), twice = ts_real_sin(ts_real_add(a, a));
        assert_true(fabs(2 * s * c - twice) <= 4 * DBL_EPSILON);
    }
    const ts_real turn = { 0x1.921fb54442d18p2, 0x1.1a62633145c07p-52 }; /* 2 pi */
    const ts_real many = ts_real_mul(turn, ts_real_of(0x1p36));
    assert_true(fabs(ts_real_sin(ts_real_add(many, ts_real_of(0x1p-30))) - 0x1p-30) <= 0x1p-60);
    assert_true(isnan(ts_real_sin(ts_real_of(0x1.1p40))) && isnan(ts_real_cos(ts_real_of(NAN))));
}

/* exp(a + b) = exp(a) exp(b), log(exp(a)) = a, sin^2 + cos^2 = 1: at many points, through every
 * root of the table. */
TEST(identities)
{
    for (int64_t i = 0; i < 20000; i++) {
        const double  a = 300 * ts_uniform(1, i), b = 300 * ts_uniform(2, i);
        const ts_real x = ts_real_of(a), y = ts_real_of(b), ex = ts_real_exp(x);
        const ts_real both = ts_real_exp(ts_real_sum(a, b)),
                      product = ts_real_mul(ex, ts_real_exp(y));
        assert_true(fabs(ts_real_sub(both, product).hi) <= 4 * SHARP * both.hi);
        assert_true(fabs(ts_real_sub(ts_real_log(ex), x).hi) <= 2 * SHARP * (1 + fabs(a)));
        const double s = ts_sin64(a), c = ts_cos64(a);
        assert_true(fabs(s * s + c * c - 1) <= 8 * DBL_EPSILON);
    }
}
