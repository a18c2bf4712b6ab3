/* SPDX-License-Identifier: Apache-2.0 */
/* isa_memory.h - the judge's addresses for buffers in a 48-bit address space, also on hardware with
 * 52 bits. */
#ifndef TS_ISA_MEMORY_H
#define TS_ISA_MEMORY_H

#include <stdint.h>

/* Above the shadow memory of sanitizers, below programs and libraries. */
static const uint64_t ts_isa_lowest = (uint64_t)0x21 << 40, ts_isa_range = (uint64_t)0x80 << 40;

#endif
