/* SPDX-License-Identifier: Apache-2.0 */
/* unroll.h - INLINE, of functions whose constant arguments must be seen; and UNROLL, before a loop
 * with a small constant trip count: unrolls it fully, so that arrays in it stay in registers. */
#ifndef TS_BASE_UNROLL_H
#define TS_BASE_UNROLL_H

#define INLINE static inline __attribute__((always_inline))

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
