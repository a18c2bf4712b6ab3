/* SPDX-License-Identifier: Apache-2.0 */
/* isa_core.h - a pause for spinning threads, and the floating-point mode of the core. */
#ifndef TS_ISA_CORE_H
#define TS_ISA_CORE_H

#include <stdbool.h>
#include <stdint.h>

/* `yield` does nothing on most cores; `isb` empties the pipeline, some 13 ns. */
static inline void ts_isa_pause(void)
{
    __asm__ volatile("isb" : : : "memory");
}

enum { TS_ISA_FP_MODE = 1 }; /* the mode can be read and set */

/* All bits 0: round to nearest, denormals and NaNs kept. FPSR, with the exception flags, is not
 * part of the mode. */
static inline void ts_isa_fp_set(void)
{
    __asm__ volatile("msr fpcr, xzr" : : : "memory");
}

static inline bool ts_isa_fp_kept(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr) : : "memory");
    return fpcr == 0;
}

#endif
