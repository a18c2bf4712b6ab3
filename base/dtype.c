/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c - formats of dtypes, and conversion of narrow floats. */
#include "dtype.h"

#include <float.h>
#include <math.h>

const ts_format *ts_format_of(ts_dtype t)
{
    static const ts_format formats[] = {
        [TS_F32] = { "f32", 4, 0x1p-24, FLT_MIN, FLT_MAX },
        [TS_F64] = { "f64", 8, 0x1p-53, DBL_MIN, DBL_MAX },
        [TS_F16] = { "f16", 2, 0x1p-11, 0x1p-14, 65504.0 },
        [TS_BF16] = { "bf16", 2, 0x1p-8, FLT_MIN, 0x1.fep127 },
        [TS_U8] = { "u8", 1, 0, 1, UINT8_MAX },
        [TS_I32] = { "i32", 4, 0, 1, INT32_MAX },
        [TS_E4M3] = { "e4m3", 1, 0x1p-4, 0x1p-6, 448 },
    };
    return &formats[t];
}

/* Rounds v to n_mantissa stored bits above the subnormal spacing 2^min_exp, ties to even. */
static double round_to(double v, int n_mantissa, int min_exp)
{
    int e;
    if (v == 0 || !isfinite(v)) return v;
    frexp(v, &e);
    const int unit = e - 1 - n_mantissa > min_exp ? e - 1 - n_mantissa : min_exp;
    return ldexp(nearbyint(ldexp(v, -unit)), unit);
}

uint16_t ts_narrow_f16(double v)
{
    const uint16_t sign = signbit(v) ? 0x8000u : 0;
    const double   a = round_to(fabs(v), 10, -24);
    int            e;
    if (isnan(v)) return 0x7e00u;
    if (a > 65504.0) return sign | 0x7c00u;
    if (a < 0x1p-14) return sign | (uint16_t)(a * 0x1p24);
    frexp(a, &e);
    return (uint16_t)(sign | (unsigned)(e + 14) << 10 | ((unsigned)ldexp(a, 11 - e) & 0x3ffu));
}

/* The bits are moved into a float, whose exponent is then too small by 112, subnormal or not. */
double ts_widen_f16(uint16_t h)
{
    /* The sign is moved with the bits: a branch on it would be mispredicted half of the time. */
    const uint32_t b = (uint32_t)(h & 0x8000u) << 16 | (uint32_t)(h & 0x7fffu) << 13;
    float          f;
    memcpy(&f, &b, sizeof f);
    if ((h & 0x7c00u) != 0x7c00u) return (double)f * 0x1p112;
    return h & 0x3ffu ? copysign(NAN, (double)f) : copysign(INFINITY, (double)f);
}

uint8_t ts_narrow_e4m3(double v)
{
    const uint8_t sign = signbit(v) ? 0x80u : 0;
    const double  a = fmin(round_to(fabs(v), 3, -9), 448);
    int           e;
    if (isnan(v)) return 0x7fu;
    if (a < 0x1p-6) return sign | (uint8_t)(a * 0x1p9);
    frexp(a, &e);
    return (uint8_t)(sign | (unsigned)(e + 6) << 3 | ((unsigned)ldexp(a, 4 - e) & 7u));
}

/* ---- poison ---- */

/* Repeated, and a quiet NaN in each float dtype; the last bytes of an element are its exponent. */
static const unsigned char *poison_of(ts_dtype t)
{
    static const unsigned char wide[8] = { 0xa7, 0xc3, 0x96, 0xb4, 0xd2, 0x87, 0xfd, 0xff },
                               single[8] = { 0xa7, 0xc3, 0xe5, 0xff, 0xa7, 0xc3, 0xe5, 0xff },
                               half[8] = { 0xe5, 0xff, 0xe5, 0xff, 0xe5, 0xff, 0xe5, 0xff },
                               byte[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
                               index[8] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 };
    return t == TS_F64                   ? wide
           : t == TS_F32                 ? single
           : t == TS_F16 || t == TS_BF16 ? half
           : t == TS_I32                 ? index
                                         : byte;
}

void ts_poison(ts_dtype t, void *p, size_t n_bytes)
{
    const unsigned char *const of = poison_of(t);
    unsigned char             *to = p;
    size_t                     i = 0;
    for (; i + 8 <= n_bytes; i += 8) memcpy(to + i, of, 8);
    memcpy(to + i, of, n_bytes - i);
}

bool ts_is_poison(ts_dtype t, const void *p, size_t n_bytes)
{
    const unsigned char *const of = poison_of(t), *const byte = p;
    size_t i = 0;
    for (; i + 8 <= n_bytes; i += 8)
        if (memcmp(byte + i, of, 8)) return false;
    return !memcmp(byte + i, of, n_bytes - i);
}
