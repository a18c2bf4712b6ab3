/* SPDX-License-Identifier: Apache-2.0 */
/* isa_source.h - flags for compiling entrants on aarch64, and source text for tests. */
#ifndef TS_ISA_SOURCE_H
#define TS_ISA_SOURCE_H

/* For exactly this CPU, without outlined atomics, which query the CPU at load time, and without
 * branch protection, which a loader would have to support. */
#define TS_ISA_FLAGS "-mcpu=native -mno-outline-atomics -mbranch-protection=none"

#define TS_ISA_INTRINSICS "arm_neon.h"                        /* header of the vector intrinsics */
#define TS_ISA_ZERO       "vgetq_lane_f32(vdupq_n_f32(0), 0)" /* 0, computed with an intrinsic */

#endif
