/* SPDX-License-Identifier: Apache-2.0 */
/* isa_source.h - flags for compiling entrants on any other set, and source text for tests. */
#ifndef TS_ISA_SOURCE_H
#define TS_ISA_SOURCE_H

/* The compiler's default. */
#define TS_ISA_FLAGS ""

#define TS_ISA_INTRINSICS "stdint.h" /* header of the vector intrinsics */
#define TS_ISA_ZERO       "0.0f"     /* 0, computed with an intrinsic */

#endif
