/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h - element sizes, limits, and conversion to and from double, for code that need not be
 * fast. Conversion from double rounds once, to nearest, ties to even. */
#ifndef TS_BASE_DTYPE_H
#define TS_BASE_DTYPE_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "touchstone/touchstone.h"

typedef struct ts_format {
    const char *name;       /* "bf16" */
    size_t      n_bytes;    /* an element */
    double      u;          /* unit roundoff: half the spacing at 1 */
    double      min_normal; /* smallest normal */
    double      max;        /* largest finite */
} ts_format;

/* TS_F32, TS_F64, TS_F16, TS_BF16, TS_E4M3; and TS_I32 and TS_U8, whose u is 0: integers are stored
 * exactly. */
const ts_format *ts_format_of(ts_dtype t);

/* The dtype of statistics and parameter gradients for data of dtype t. */
static inline ts_dtype ts_wide(ts_dtype t)
{
    return t == TS_F64 ? TS_F64 : TS_F32;
}

/* An output before it is written: for any float dtype a NaN that no arithmetic produces. Ones alone
 * would not do, which vector comparisons write and PyTorch has for NaN. An index gets a value far
 * below any index. Bytes are counted from the begin of an element. */
void ts_poison(ts_dtype t, void *p, size_t n_bytes);
bool ts_is_poison(ts_dtype t, const void *p, size_t n_bytes);

double   ts_widen_f16(uint16_t h);
uint16_t ts_narrow_f16(double v);

/* The bits are moved into a float, whose exponent is then too small by 120, subnormal or not. */
static inline double ts_widen_e4m3(uint8_t c)
{
    const uint32_t b = (uint32_t)(c & 0x80u) << 24 | (uint32_t)(c & 0x7fu) << 20;
    float          f;
    memcpy(&f, &b, sizeof f);
    return (c & 0x7fu) == 0x7fu ? (double)NAN : (double)f * 0x1p120;
}

uint8_t ts_narrow_e4m3(double v); /* what exceeds 448, which is the largest, becomes it */

static inline double ts_widen_bf16(uint16_t h)
{
    const uint32_t b = (uint32_t)h << 16;
    float          f;
    memcpy(&f, &b, sizeof f);
    return f;
}

/* Via a float rounded to odd, so that the second rounding is correct. */
static inline uint16_t ts_narrow_bf16(double v)
{
    const float f = (float)v;
    uint32_t    b;
    memcpy(&b, &f, sizeof b);
    if (v != v) return 0x7fc0u;
    if ((double)f != v && f - f == 0) {
        if ((v < 0 ? -(double)f : (double)f) > (v < 0 ? -v : v)) b--;
        b |= 1u;
    }
    return (uint16_t)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

static inline double ts_load(const void *p, ts_dtype t, int64_t i)
{
    if (t == TS_F32) return ((const float *)p)[i];
    if (t == TS_F64) return ((const double *)p)[i];
    if (t == TS_I32) return ((const int32_t *)p)[i];
    if (t == TS_U8) return ((const uint8_t *)p)[i];
    if (t == TS_E4M3) return ts_widen_e4m3(((const uint8_t *)p)[i]);
    const uint16_t h = ((const uint16_t *)p)[i];
    return t == TS_BF16 ? ts_widen_bf16(h) : ts_widen_f16(h);
}

static inline void ts_store(void *p, ts_dtype t, int64_t i, double v)
{
    if (t == TS_F32) ((float *)p)[i] = (float)v;
    else if (t == TS_F64) ((double *)p)[i] = v;
    else if (t == TS_I32) ((int32_t *)p)[i] = (int32_t)v;
    else if (t == TS_U8) ((uint8_t *)p)[i] = (uint8_t)v;
    else if (t == TS_E4M3) ((uint8_t *)p)[i] = ts_narrow_e4m3(v);
    else ((uint16_t *)p)[i] = t == TS_BF16 ? ts_narrow_bf16(v) : ts_narrow_f16(v);
}

#endif
