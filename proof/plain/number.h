/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - what the obvious solutions share: elements of any dtype as doubles, and memory. */
#ifndef NUMBER_H
#define NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "touchstone/touchstone.h"

/* Points where proof/mutant/ injects bugs: into a value, or between two statements. */
#ifndef HOOK
#define HOOK(point, ...) (__VA_ARGS__)
#define HERE(point)      ((void)0)
#endif

static inline double load(const void *p, ts_dtype t, int64_t i)
{
    if (t == TS_F32) return ((const float *)p)[i];
    if (t == TS_F64) return ((const double *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    if (t == TS_BF16) {
        const uint32_t b = (uint32_t)h << 16;
        float          f;
        memcpy(&f, &b, 4);
        return f;
    }
    /* As a float, an f16's bits have an exponent that is too small by 112, subnormal or not. */
    const uint32_t b = (uint32_t)(h & 0x7fff) << 13;
    float          f;
    memcpy(&f, &b, 4);
    const double v = b >> 23 < 31 ? f * 0x1p112 : h & 1023 ? NAN : INFINITY;
    return h >> 15 ? -v : v;
}

/* 2^n as a double; n is from -1022 to 1023. ldexp would take most of the time of the mutants. */
static inline double power_of_2(int n)
{
    const uint64_t b = (uint64_t)(n + 1023) << 52;
    double         v;
    memcpy(&v, &b, 8);
    return v;
}

/* To a 16-bit format of n_mantissa bits and least exponent e_min: the value in units of its last
 * place is rounded to even by rint, and carries into the exponent by itself. */
static inline uint16_t round16(double v, int n_mantissa, int e_min, uint16_t inf)
{
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    int            e;
    if (isnan(v)) return (uint16_t)(inf | 1 << (n_mantissa - 1));
    if (isinf(v)) return sign | inf;
    v = fabs(v);
    frexp(v, &e);
    e = v == 0 || e - 1 < e_min ? e_min : e - 1;
    const double   units = rint(v * power_of_2(n_mantissa - e));
    const uint32_t bits =
        ((uint32_t)(e - e_min) << n_mantissa) + (uint32_t)fmin(units, 4.0 * (1 << n_mantissa));
    return sign | (uint16_t)(bits < inf ? bits : inf);
}

static inline void store(void *p, ts_dtype t, int64_t i, double v)
{
    if (t == TS_F32) ((float *)p)[i] = (float)v;
    else if (t == TS_F64) ((double *)p)[i] = v;
    else
        ((uint16_t *)p)[i] =
            t == TS_BF16 ? round16(v, 7, -126, 0x7f80) : round16(v, 10, -14, 0x7c00);
}

/* v as it is read back from a 16-bit dtype. */
static inline double narrow(double v, ts_dtype t)
{
    uint16_t h;
    store(&h, t, 0, v);
    return load(&h, t, 0);
}

enum { ALIGN = 64 };

static inline void *aligned(void *p)
{
    return (char *)p + (ALIGN - (uintptr_t)p % ALIGN) % ALIGN;
}

/* The next n elements of aligned memory; used: bytes so far. base NULL: these are only counted. */
static inline void *place(void *base, size_t *used, int64_t n, size_t each)
{
    const size_t at = *used;
    *used += ((size_t)n * each + ALIGN - 1) / ALIGN * ALIGN;
    return base ? (char *)base + at : NULL;
}

#endif
