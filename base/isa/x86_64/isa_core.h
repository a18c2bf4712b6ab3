/* SPDX-License-Identifier: Apache-2.0 */
/* isa_core.h - a pause for spinning threads, and the floating-point mode of the core. */
#ifndef TS_ISA_CORE_H
#define TS_ISA_CORE_H

#include <stdbool.h>

static inline void ts_isa_pause(void)
{
    __builtin_ia32_pause();
}

enum { TS_ISA_FP_MODE = 1 }; /* the mode can be read and set */

/* Round to nearest, all traps masked, denormals kept; also for x87, in extended precision. */
static inline void ts_isa_fp_set(void)
{
    const unsigned       mxcsr = 0x1f80;
    const unsigned short x87 = 0x37f;
    __asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr), "m"(x87));
}

static inline bool ts_isa_fp_kept(void)
{
    unsigned       mxcsr;
    unsigned short x87;
    __asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(x87));
    return (mxcsr & ~0x3fu) == 0x1f80 && x87 == 0x37f; /* ignoring the exception flags */
}

#endif
