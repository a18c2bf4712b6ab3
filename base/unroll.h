/* SPDX-License-Identifier: Apache-2.0 */
/* unroll.h - UNROLL before a loop of few turns, known when it is compiled: one after the other, so
 * that an array that it walks lies in registers. */
#ifndef TS_BASE_UNROLL_H
#define TS_BASE_UNROLL_H

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
