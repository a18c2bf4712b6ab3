/* SPDX-License-Identifier: Apache-2.0 */
/* isa_source.h - how entrants are compiled on aarch64, and words of it for tests that write
 * sources. */
#ifndef TS_ISA_SOURCE_H
#define TS_ISA_SOURCE_H

/* Flags: for this very machine, without helpers of the compiler's that
 * look at the CPU when loaded, and without landing pads that a loader would have to know. */
#define TS_ISA_FLAGS "-mcpu=native -mno-outline-atomics -mbranch-protection=none"

#define TS_ISA_INTRINSICS "arm_neon.h"                        /* the header of its vectors */
#define TS_ISA_ZERO       "vgetq_lane_f32(vdupq_n_f32(0), 0)" /* 0, by way of one */

#endif
