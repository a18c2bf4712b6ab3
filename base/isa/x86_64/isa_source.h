/* SPDX-License-Identifier: Apache-2.0 */
/* isa_source.h - how entrants are compiled on x86-64, and words of it for tests that write sources.
 */
#ifndef TS_ISA_SOURCE_H
#define TS_ISA_SOURCE_H

/* Flags: for this very machine. */
#define TS_ISA_FLAGS "-march=native"

#define TS_ISA_INTRINSICS "immintrin.h"                           /* the header of its vectors */
#define TS_ISA_ZERO       "_mm256_cvtss_f32(_mm256_setzero_ps())" /* 0, by way of one */

#endif
