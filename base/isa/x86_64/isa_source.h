/* SPDX-License-Identifier: Apache-2.0 */
/* isa_source.h - flags for compiling entrants on x86-64, and source text for tests. */
#ifndef TS_ISA_SOURCE_H
#define TS_ISA_SOURCE_H

/* For exactly this CPU. */
#define TS_ISA_FLAGS "-march=native"

#define TS_ISA_INTRINSICS "immintrin.h" /* header of the vector intrinsics */
#define TS_ISA_ZERO       "_mm256_cvtss_f32(_mm256_setzero_ps())" /* 0, by an intrinsic */

#endif
