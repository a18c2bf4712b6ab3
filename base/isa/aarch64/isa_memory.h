/* SPDX-License-Identifier: Apache-2.0 */
/* isa_memory.h - where the judge lays buffers in an address space of 48 bits, also where the
 * hardware has 52. */
#ifndef TS_ISA_MEMORY_H
#define TS_ISA_MEMORY_H

#include <stdint.h>

/* Above where a sanitizer keeps its shadows, below where the kernel puts programs and libraries. */
static const uint64_t ts_isa_lowest = (uint64_t)0x21 << 40, ts_isa_range = (uint64_t)0x80 << 40;

#endif
