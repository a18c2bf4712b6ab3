/* SPDX-License-Identifier: Apache-2.0 */
/* isa_memory.h - where the judge lays buffers in an address space of 47 bits. */
#ifndef TS_ISA_MEMORY_H
#define TS_ISA_MEMORY_H

#include <stdint.h>

/* Above where a sanitizer keeps its shadows, below where the kernel puts programs and libraries. */
static const uint64_t ts_isa_lowest = (uint64_t)0x12 << 40, ts_isa_range = (uint64_t)0x3c << 40;

#endif
