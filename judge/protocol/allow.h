/* SPDX-License-Identifier: Apache-2.0 */
/* allow.h - every external function that a sealed entrant may call. The list has three uses: the
 * headers for its compilation, the audit of its undefined symbols, and the loader's table.
 *
 *     #define X(result, name, parameters) ...
 *     TS_ALLOWED(X)
 */
#ifndef TS_ALLOW_H
#define TS_ALLOW_H

#include "isa_elf.h"

/* clang-format off */
/* math.h: in float and in double. None of these allocates, prints or makes a system call. */
#define TS_ALLOWED_MATH1(X, T, s)                                                                  \
    X(T, exp##s, (T)) X(T, exp2##s, (T)) X(T, expm1##s, (T)) X(T, log##s, (T))                     \
    X(T, log2##s, (T)) X(T, log10##s, (T)) X(T, log1p##s, (T)) X(T, logb##s, (T))                  \
    X(T, sqrt##s, (T)) X(T, cbrt##s, (T)) X(T, fabs##s, (T)) X(T, floor##s, (T))                   \
    X(T, ceil##s, (T)) X(T, trunc##s, (T)) X(T, round##s, (T)) X(T, rint##s, (T))                  \
    X(T, nearbyint##s, (T)) X(T, sin##s, (T)) X(T, cos##s, (T)) X(T, tan##s, (T))                  \
    X(T, asin##s, (T)) X(T, acos##s, (T)) X(T, atan##s, (T)) X(T, sinh##s, (T))                    \
    X(T, cosh##s, (T)) X(T, tanh##s, (T)) X(T, asinh##s, (T)) X(T, acosh##s, (T))                  \
    X(T, atanh##s, (T)) X(T, erf##s, (T)) X(T, erfc##s, (T)) X(T, tgamma##s, (T))                  \
    X(int, ilogb##s, (T)) X(long, lrint##s, (T)) X(long, lround##s, (T))                           \
    X(long long, llrint##s, (T)) X(long long, llround##s, (T))
#define TS_ALLOWED_MATH2(X, T, s)                                                                  \
    X(T, fmax##s, (T, T)) X(T, fmin##s, (T, T)) X(T, fma##s, (T, T, T)) X(T, pow##s, (T, T))       \
    X(T, atan2##s, (T, T)) X(T, fmod##s, (T, T)) X(T, remainder##s, (T, T))                        \
    X(T, hypot##s, (T, T)) X(T, fdim##s, (T, T)) X(T, copysign##s, (T, T))                         \
    X(T, nextafter##s, (T, T)) X(T, ldexp##s, (T, int)) X(T, scalbn##s, (T, int))                  \
    X(T, frexp##s, (T, int *)) X(T, modf##s, (T, T *)) X(void, sincos##s, (T, T *, T *))
#define TS_ALLOWED_MATH(X)                                                                         \
    TS_ALLOWED_MATH1(X, float, f) TS_ALLOWED_MATH2(X, float, f)                                    \
    TS_ALLOWED_MATH1(X, double, ) TS_ALLOWED_MATH2(X, double, ) TS_ISA_ALLOWED(X)

/* string.h: compilers generate calls of these. */
#define TS_ALLOWED_STRING(X)                                                                       \
    X(void *, memcpy, (void *, const void *, size_t))                                              \
    X(void *, memmove, (void *, const void *, size_t))                                             \
    X(void *, memset, (void *, int, size_t))                                                       \
    X(int, memcmp, (const void *, const void *, size_t))                                           \
    X(int, bcmp, (const void *, const void *, size_t))

/* touchstone/sealed.h: the judge's own threads. */
#define TS_ALLOWED_JUDGE(X)                                                                        \
    X(void, j_parallel_for, (int64_t n, void (*fn)(int64_t, void *), void *))

#define TS_ALLOWED(X) TS_ALLOWED_MATH(X) TS_ALLOWED_STRING(X) TS_ALLOWED_JUDGE(X)

/* clang-format on */

#endif
