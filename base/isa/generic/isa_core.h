/* SPDX-License-Identifier: Apache-2.0 */
/* isa_core.h - a core of which nothing is known: no pause, and a floating-point mode that is
 * neither read nor set. */
#ifndef TS_ISA_CORE_H
#define TS_ISA_CORE_H

#include <stdbool.h>

static inline void ts_isa_pause(void)
{
}

enum { TS_ISA_FP_MODE = 0 }; /* the judge says that it is not guarded */

static inline void ts_isa_fp_set(void)
{
}

static inline bool ts_isa_fp_kept(void)
{
    return true;
}

#endif
