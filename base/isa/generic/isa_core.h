/* SPDX-License-Identifier: Apache-2.0 */
/* isa_core.h - an unknown core: no pause, and the floating-point mode is neither read nor set. */
#ifndef TS_ISA_CORE_H
#define TS_ISA_CORE_H

#include <stdbool.h>

static inline void ts_isa_pause(void)
{
}

enum { TS_ISA_FP_MODE = 0 }; /* the judge reports it as not guarded */

static inline void ts_isa_fp_set(void)
{
}

static inline bool ts_isa_fp_kept(void)
{
    return true;
}

#endif
