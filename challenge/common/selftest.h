/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.h - what the public self-tests share. Plain and slow on purpose. */
#ifndef SELFTEST_H
#define SELFTEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "touchstone/sealed.h"
#include "touchstone/touchstone.h"

static int n_cases, n_failed, is_failing; /* is_failing: this case has said so already */

/* The judge's threads, here one after another. */
void j_parallel_for(int64_t n, void (*fn)(int64_t i, void *ctx), void *ctx)
{
    for (int64_t i = 0; i < n; i++) fn(i, ctx);
}

static inline void begin_case(void)
{
    n_cases++;
    is_failing = 0;
}

/* The first flaw of a case is said, the others are not. */
static inline void flaw(const char *name, const char *what, int64_t i, double got, double want)
{
    if (is_failing) return;
    is_failing = 1;
    n_failed++;
    printf("FAIL %s: %s[%lld] is %.9g, expected %.9g\n", name, what, (long long)i, got, want);
}

/* Written so that NaN fails unless it is wanted. */
static inline void compare(const char *name, const char *what, int64_t i, double got, double want,
                           double bound)
{
    if (isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= bound) return;
    flaw(name, what, i, got, want);
}

static inline void refused(const char *name, ts_status got, ts_status want)
{
    begin_case();
    if (got != want) flaw(name, "status", 0, got, want);
}

static inline int verdict(void)
{
    printf("%d cases, %d failed\n", n_cases, n_failed);
    return n_failed != 0;
}

/* About normal: four uniform numbers. */
static inline double draw(void)
{
    static uint64_t s = 0x5eed;
    double          v = 0;
    for (int i = 0; i < 4; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        v += (double)(s >> 40) * 0x1p-24 - 0.5;
    }
    return v * 1.7;
}

/* Elements of TS_F32 and TS_BF16. */
static inline double get(const void *p, ts_dtype t, int64_t i)
{
    float f;
    if (t == TS_F32) return ((const float *)p)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline void set(void *p, ts_dtype t, int64_t i, double v)
{
    const float f = (float)v;
    uint32_t    bits;
    memcpy(&bits, &f, sizeof bits);
    if (t == TS_F32) ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] =
            isnan(v) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* n elements of any dtype, all NaN: what is never written is seen. */
static inline void *fresh(int64_t n)
{
    void *p = malloc((size_t)n * 8 + 8);
    if (!p) abort();
    return memset(p, 0xff, (size_t)n * 8 + 8);
}

#endif
