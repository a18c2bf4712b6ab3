/* SPDX-License-Identifier: Apache-2.0 */
/* real.c - exp, log, pow, sin and cos bitwise identical on every machine. */
#include "real.h"

#include <string.h>

/* 2^(j/64) */
static const ts_real root[64] = {
    { 0x1p0, 0 },
    { 0x1.02c9a3e778061p0, -0x1.19083535b085dp-56 },
    { 0x1.059b0d3158574p0, 0x1.d73e2a475b465p-55 },
    { 0x1.0874518759bc8p0, 0x1.186be4bb284ffp-57 },
    { 0x1.0b5586cf9890fp0, 0x1.8a62e4adc610bp-54 },
    { 0x1.0e3ec32d3d1a2p0, 0x1.03a1727c57b53p-59 },
    { 0x1.11301d0125b51p0, -0x1.6c51039449b3ap-54 },
    { 0x1.1429aaea92dep0, -0x1.32fbf9af1369ep-54 },
    { 0x1.172b83c7d517bp0, -0x1.19041b9d78a76p-55 },
    { 0x1.1a35beb6fcb75p0, 0x1.e5b4c7b4968e4p-55 },
    { 0x1.1d4873168b9aap0, 0x1.e016e00a2643cp-54 },
    { 0x1.2063b88628cd6p0, 0x1.dc775814a8495p-55 },
    { 0x1.2387a6e756238p0, 0x1.9b07eb6c70573p-54 },
    { 0x1.26b4565e27cddp0, 0x1.2bd339940e9d9p-55 },
    { 0x1.29e9df51fdee1p0, 0x1.612e8afad1255p-55 },
    { 0x1.2d285a6e4030bp0, 0x1.0024754db41d5p-54 },
    { 0x1.306fe0a31b715p0, 0x1.6f46ad23182e4p-55 },
    { 0x1.33c08b26416ffp0, 0x1.32721843659a6p-54 },
    { 0x1.371a7373aa9cbp0, -0x1.63aeabf42eae2p-54 },
    { 0x1.3a7db34e59ff7p0, -0x1.5e436d661f5e3p-56 },
    { 0x1.3dea64c123422p0, 0x1.ada0911f09ebcp-55 },
    { 0x1.4160a21f72e2ap0, -0x1.ef3691c309278p-58 },
    { 0x1.44e086061892dp0, 0x1.89b7a04ef80dp-59 },
    { 0x1.486a2b5c13cdp0, 0x1.3c1a3b69062fp-56 },
    { 0x1.4bfdad5362a27p0, 0x1.d4397afec42e2p-56 },
    { 0x1.4f9b2769d2ca7p0, -0x1.4b309d25957e3p-54 },
    { 0x1.5342b569d4f82p0, -0x1.07abe1db13cadp-55 },
    { 0x1.56f4736b527dap0, 0x1.9bb2c011d93adp-54 },
    { 0x1.5ab07dd485429p0, 0x1.6324c054647adp-54 },
    { 0x1.5e76f15ad2148p0, 0x1.ba6f93080e65ep-54 },
    { 0x1.6247eb03a5585p0, -0x1.383c17e40b497p-54 },
    { 0x1.6623882552225p0, -0x1.bb60987591c34p-54 },
    { 0x1.6a09e667f3bcdp0, -0x1.bdd3413b26456p-54 },
    { 0x1.6dfb23c651a2fp0, -0x1.bbe3a683c88abp-57 },
    { 0x1.71f75e8ec5f74p0, -0x1.16e4786887a99p-55 },
    { 0x1.75feb564267c9p0, -0x1.0245957316dd3p-54 },
    { 0x1.7a11473eb0187p0, -0x1.41577ee04992fp-55 },
    { 0x1.7e2f336cf4e62p0, 0x1.05d02ba15797ep-56 },
    { 0x1.82589994cce13p0, -0x1.d4c1dd41532d8p-54 },
    { 0x1.868d99b4492edp0, -0x1.fc6f89bd4f6bap-54 },
    { 0x1.8ace5422aa0dbp0, 0x1.6e9f156864b27p-54 },
    { 0x1.8f1ae99157736p0, 0x1.5cc13a2e3976cp-55 },
    { 0x1.93737b0cdc5e5p0, -0x1.75fc781b57ebcp-57 },
    { 0x1.97d829fde4e5p0, -0x1.d185b7c1b85d1p-54 },
    { 0x1.9c49182a3f09p0, 0x1.c7c46b071f2bep-56 },
    { 0x1.a0c667b5de565p0, -0x1.359495d1cd533p-54 },
    { 0x1.a5503b23e255dp0, -0x1.d2f6edb8d41e1p-54 },
    { 0x1.a9e6b5579fdbfp0, 0x1.0fac90ef7fd31p-54 },
    { 0x1.ae89f995ad3adp0, 0x1.7a1cd345dcc81p-54 },
    { 0x1.b33a2b84f15fbp0, -0x1.2805e3084d708p-57 },
    { 0x1.b7f76f2fb5e47p0, -0x1.5584f7e54ac3bp-56 },
    { 0x1.bcc1e904bc1d2p0, 0x1.23dd07a2d9e84p-55 },
    { 0x1.c199bdd85529cp0, 0x1.11065895048ddp-55 },
    { 0x1.c67f12e57d14bp0, 0x1.2884dff483cadp-54 },
    { 0x1.cb720dcef9069p0, 0x1.503cbd1e949dbp-56 },
    { 0x1.d072d4a07897cp0, -0x1.cbc3743797a9cp-54 },
    { 0x1.d5818dcfba487p0, 0x1.2ed02d75b3707p-55 },
    { 0x1.da9e603db3285p0, 0x1.c2300696db532p-54 },
    { 0x1.dfc97337b9b5fp0, -0x1.1a5cd4f184b5cp-54 },
    { 0x1.e502ee78b3ff6p0, 0x1.39e8980a9cc8fp-55 },
    { 0x1.ea4afa2a490dap0, -0x1.e9c23179c2893p-54 },
    { 0x1.efa1bee615a27p0, 0x1.dc7f486a4b6bp-54 },
    { 0x1.f50765b6e454p0, 0x1.9d3e12dd8a18bp-54 },
    { 0x1.fa7c1819e90d8p0, 0x1.74853f3a5931ep-55 },
};

/* ln 2 / 64 and pi / 2, split so that products of the leading parts with a count below 2^17, or
 * 2^20, are exact. */
static const double  LN2_64[] = { 0x1.62e42fefap-7, 0x1.cf79abc9ep-46, 0x1.d9cc01f97b57ap-85 };
static const double  HALF_PI[] = { 0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                                   0x1.b839a252049c1p-104 };
static const ts_real LN2 = { 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56 };

/* Rounds to the nearest integer, for |x| < 2^51. */
static double whole(double x)
{
    return x + 0x1.8p52 - 0x1.8p52;
}

/* 2^n for n from -1022 to 1023. */
static double power(int64_t n)
{
    const uint64_t bits = (uint64_t)(n + 1023) << 52;
    double         x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x 2^n, rounded once. */
static double scaled(double x, int64_t n)
{
    return x * power(n / 2) * power(n - n / 2);
}

/* The coefficient of the highest power comes first. */
static double series(double z, const double *part, int n)
{
    double y = part[0];
    for (int i = 1; i < n; i++) y = y * z + part[i];
    return y;
}

/* ---- exp: x = k ln 2 / 64 + r, so exp(x) = 2^(k / 64) e^r, and |r| < 0.0055 ---- */

static const double LEAST = -746, MOST = 710; /* below and above, exp is 0 and infinite */

double ts_exp64(double x)
{
    if (!(x > LEAST)) return isnan(x) ? x : 0;
    if (x > MOST) return INFINITY;
    const double k = whole(x * 0x1.71547652b82fep6);
    const double r = x - k * LN2_64[0] - k * (LN2_64[1] + LN2_64[2]);
    const double part =
        r + r * r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r / 720))));
    const int64_t n = (int64_t)k, j = n & 63;
    return scaled(root[j].hi + (root[j].lo + root[j].hi * part), (n - j) / 64);
}

/* The series of e^r - 1, from r^6 on in double. */
static ts_real tail_of_exp(ts_real r)
{
    static const ts_real part[] = { { 0x1.1111111111111p-7, 0x1.1111111111111p-63 }, /* 1 / 5! */
                                    { 0x1.5555555555555p-5, 0x1.5555555555555p-59 },
                                    { 0x1.5555555555555p-3, 0x1.5555555555555p-57 },
                                    { 0.5, 0 },
                                    { 1, 0 } };
    const double         x = r.hi;
    const double         more = x / 720 * (1 + x / 7 * (1 + x / 8 * (1 + x / 9 * (1 + x / 10))));
    ts_real              y = ts_real_add(part[0], ts_real_of(more));
    for (int i = 1; i < 5; i++) y = ts_real_add(ts_real_mul(y, r), part[i]);
    return ts_real_mul(y, r);
}

ts_real ts_real_exp(ts_real x)
{
    if (!(x.hi > LEAST)) return ts_real_of(isnan(x.hi) ? x.hi : 0);
    if (x.hi > MOST) return ts_real_of(INFINITY);
    const double  k = whole(x.hi * 0x1.71547652b82fep6);
    const int64_t n = (int64_t)k, j = n & 63;
    ts_real       r = ts_real_sum(x.hi, -k * LN2_64[0]);
    r = ts_real_add(r, ts_real_of(-k * LN2_64[1]));
    r = ts_real_add(r, ts_real_sum(x.lo, -k * LN2_64[2]));
    const ts_real y = ts_real_add(root[j], ts_real_mul(root[j], tail_of_exp(r)));
    return ts_real_tidy(scaled(y.hi, (n - j) / 64), scaled(y.lo, (n - j) / 64));
}

/* ---- log: of x = m 2^n, with m near 1, by the series of atanh; then one step of Newton ---- */

static double near_log(double m)
{
    static const double part[] = { 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11,
                                   2.0 / 9,  2.0 / 7,  2.0 / 5,  2.0 / 3,  2 };
    const double        s = (m - 1) / (m + 1);
    return s * series(s * s, part, 11);
}

ts_real ts_real_log(ts_real x)
{
    int n;
    if (!(x.hi > 0)) return ts_real_of(x.hi == 0 ? -INFINITY : NAN);
    if (!isfinite(x.hi)) return ts_real_of(x.hi);
    if (frexp(x.hi, &n) < 0x1.6a09e667f3bcdp-1) n--;
    const ts_real m = ts_real_scale(x, -n);
    const double  y = near_log(m.hi);
    const ts_real z = ts_real_sub(ts_real_mul(m, ts_real_exp(ts_real_of(-y))), ts_real_of(1));
    const ts_real of_m = ts_real_add(ts_real_of(y), ts_real_sub(z, ts_real_of(z.hi * z.hi / 2)));
    return ts_real_add(ts_real_mul(LN2, ts_real_of(n)), of_m);
}

double ts_log64(double x)
{
    return ts_real_log(ts_real_of(x)).hi;
}

/* ---- pow ---- */

/* A small integer power is a product, so it is exact if representable: 3^2 is 9, and ties between
 * quotients by it stay ties. */
ts_real ts_real_pow(double x, double y)
{
    if (x == 1) return ts_real_of(1);
    if (x > 0 && y >= 0 && y <= 8 && y == (int)y) {
        ts_real p = ts_real_of(1);
        for (int i = 0; i < (int)y; i++) p = ts_real_mul(p, ts_real_of(x));
        return p;
    }
    if (y == 0) return ts_real_of(1);
    return ts_real_exp(ts_real_mul(ts_real_of(y), ts_real_log(ts_real_of(x))));
}

double ts_pow64(double x, double y)
{
    return ts_real_pow(x, y).hi;
}

/* ---- sin and cos: x = k pi / 2 + r, and |r| < 0.79 ---- */

/* Their series, from 1 / 17! and 1 / 18! down. */
static double sin_near(ts_real r)
{
    static const double part[] = {
        1 / 355687428096000.0, -1 / 1307674368000.0, 1 / 6227020800.0, -1 / 39916800.0,
        1 / 362880.0,          -1 / 5040.0,          1 / 120.0,        -1 / 6.0
    };
    const double z = r.hi * r.hi;
    return r.hi + (r.hi * z * series(z, part, 8) + r.lo * (1 - z / 2));
}

static double cos_near(ts_real r)
{
    static const double part[] = {
        -1 / 6402373705728000.0, 1 / 20922789888000.0, -1 / 87178291200.0, 1 / 479001600.0,
        -1 / 3628800.0,          1 / 40320.0,          -1 / 720.0,         1 / 24.0
    };
    const double z = r.hi * r.hi, most = 1 - z / 2;
    return most + ((1 - most - z / 2) + (z * z * series(z, part, 8) - r.hi * r.lo));
}

/* sin(x + turns pi / 2). The parts of pi / 2 times a k of 20 bits are exact, and of more bits
 * pairs.
 */
static double sin_turned(ts_real x, int64_t turns, double most)
{
    if (!(fabs(x.hi) <= most)) return NAN;
    const double k = whole(x.hi * 0x1.45f306dc9c883p-1);
    ts_real      r = x;
    for (int i = 0; i < 4; i++) r = ts_real_add(r, ts_real_product(-k, HALF_PI[i]));
    const int64_t quarter = ((int64_t)k + turns) & 3;
    const double  y = quarter & 1 ? cos_near(r) : sin_near(r);
    return quarter & 2 ? -y : y;
}

double ts_sin64(double x)
{
    return sin_turned(ts_real_of(x), 0, 0x1p20);
}

double ts_cos64(double x)
{
    return sin_turned(ts_real_of(x), 1, 0x1p20);
}

double ts_real_sin(ts_real x)
{
    return sin_turned(x, 0, 0x1p40);
}

double ts_real_cos(ts_real x)
{
    return sin_turned(x, 1, 0x1p40);
}
