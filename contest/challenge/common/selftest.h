/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.h - shared by the public self-tests. Simple and slow on purpose. */
#ifndef SELFTEST_H
#define SELFTEST_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "touchstone/sealed.h"
#include "touchstone/touchstone.h"

/* In CUDA, selftest_cuda.cu supplies memory that both sides reach, and waits. */
#ifdef SELFTEST_CUDA
void     *selftest_memory(size_t n_bytes);
void      selftest_drop(void *p);
ts_status selftest_finish(ts_status s);
#define TEST_DEVICE TS_CUDA
#else
#define TEST_DEVICE        TS_CPU
#define selftest_memory    malloc
#define selftest_drop      free
#define selftest_finish(s) (s)
#endif

enum { SCRATCH = 1 << 24 };

static int n_cases, n_failed, is_failing; /* is_failing: this case has said so already */
static int n_status, n_unwritten, n_nan;  /* of the failed ones */

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

/* ---- what was wrong, in words ---- */

static inline const char *status_name(double s)
{
    static const char *const name[] = { "TS_OK",
                                        "TS_E_ARG (a pointer is NULL or a value is invalid)",
                                        "TS_E_SHAPE (an extent is invalid)",
                                        "TS_E_DTYPE (a dtype that is not offered)",
                                        "TS_E_UNSUPPORTED (legal, but not offered)",
                                        "TS_E_WORKSPACE (workspace missing or too small)",
                                        "TS_E_CAPACITY",
                                        "TS_E_STATE",
                                        "TS_E_RANGE",
                                        "TS_E_FORMAT",
                                        "TS_E_MODEL",
                                        "TS_E_DEVICE (the device reported an error)" };
    return s >= 0 && s < 12 ? name[(int)s] : "a number that is no status";
}

/* Outputs begin as NaN with all bits set; arithmetic does not make this one. */
static inline int is_unwritten(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits >> 45 == 0x7ffff;
}

/* The first flaw of a case is said, the others are not. bound < 0: equality was due. */
static inline void flaw_by(const char *name, const char *what, int64_t i, double got, double want,
                           double bound)
{
    if (is_failing) return;
    is_failing = 1;
    n_failed++;
    printf("FAIL %s: ", name);
    if (!strcmp(what, "status")) {
        n_status++;
        printf("the call returned %s, expected %s\n", status_name(got), status_name(want));
        return;
    }
    printf("%s[%lld] ", what, (long long)i);
    n_unwritten += is_unwritten(got);
    n_nan += isnan(got) && !is_unwritten(got);
    if (is_unwritten(got)) printf("was not written, expected %.9g\n", want);
    else if (isnan(want)) printf("is %.9g, expected NaN\n", got);
    else if (isnan(got) || isinf(want) || bound <= 0)
        printf("is %.9g, expected %s%.9g\n", got, bound <= 0 ? "exactly " : "", want);
    else
        printf("is %.9g, expected %.9g: off by %.3g, allowed is %.3g\n", got, want,
               fabs(got - want), bound);
}

static inline void flaw(const char *name, const char *what, int64_t i, double got, double want)
{
    flaw_by(name, what, i, got, want, -1);
}

/* Written so that NaN fails unless it is wanted. */
static inline void compare(const char *name, const char *what, int64_t i, double got, double want,
                           double bound)
{
    if (isnan(want)   ? isnan(got) && !is_unwritten(got)
        : isinf(want) ? got == want
                      : fabs(got - want) <= bound)
        return;
    flaw_by(name, what, i, got, want, bound);
}

static inline void refused(const char *name, ts_status got, ts_status want)
{
    char invalid[96];
    snprintf(invalid, sizeof invalid, "invalid call (%s)", name);
    begin_case();
    if (got != want) flaw(invalid, "status", 0, got, want);
}

static inline int verdict(void)
{
    printf("%d cases, %d failed", n_cases, n_failed);
    const int count[] = { n_status, n_unwritten, n_nan, n_failed - n_status - n_unwritten - n_nan };
    const char *what[] = { "returned the wrong status", "left an output unwritten",
                           "gave an unexpected NaN", "gave a wrong value" };
    for (int i = 0, first = 1; i < 4; i++)
        if (count[i]) printf("%s%d %s", first ? ": " : ", ", count[i], what[i]), first = 0;
    printf("\n");
    return n_failed != 0;
}

/* ---- numbers ---- */

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

/* The error that PROMPT.md allows a sum of n terms, as part of what their magnitudes add up to. No
 * bound of a self-test is tighter than what follows from it: else it would reject what the judge
 * accepts. */
static inline double sum_bound(int64_t n)
{
    return (8 + 2 * sqrt((double)n)) * 0x1p-24;
}

/* What `fresh` gave, until drop_all takes it back. */
static void **given;
static size_t n_given;

/* n bytes, all bits set: what is never written is seen. */
static inline void *fresh_bytes(size_t n)
{
    void **more = realloc(given, (n_given + 1) * sizeof *given);
    void  *p = selftest_memory(n);
    if (!p || !more) abort();
    given = more, given[n_given++] = p;
    return memset(p, 0xff, n);
}

/* n elements of any dtype, all NaN. */
static inline void *fresh(int64_t n)
{
    return fresh_bytes((size_t)n * 8 + 8);
}

/* A case is over: nothing that it was given is used any more. */
static inline void drop_all(void)
{
    while (n_given) selftest_drop(given[--n_given]);
}

/* With scratch memory for kernels that need some; the judge queries the size. */
static inline ts_exec test_exec(void)
{
    static void *scratch;
    if (!scratch) scratch = selftest_memory(SCRATCH);
    if (!scratch) abort();
    memset(scratch, 0xff, SCRATCH);
    return (ts_exec) {
        .device = TEST_DEVICE, .n_threads = 1, .workspace = scratch, .workspace_bytes = SCRATCH
    };
}

/* The status of a call whose work is done. */
static inline ts_status finish(ts_status s)
{
    return selftest_finish(s);
}

#endif
