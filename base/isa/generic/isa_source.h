/* SPDX-License-Identifier: Apache-2.0 */
/* isa_source.h - how entrants are compiled on any other set, and words of it for tests that write
 * sources. */
#ifndef TS_ISA_SOURCE_H
#define TS_ISA_SOURCE_H

/* Flags: as the compiler likes. */
#define TS_ISA_FLAGS ""

#define TS_ISA_INTRINSICS "stdint.h" /* the header of its vectors */
#define TS_ISA_ZERO       "0.0f"     /* 0, by way of one */

#endif
