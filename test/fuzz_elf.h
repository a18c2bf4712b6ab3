/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_elf.h - shared objects for fuzz_object.c: one made by hand, and mutations of any. */
#ifndef TS_FUZZ_ELF_H
#define TS_FUZZ_ELF_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_ELF_BYTES = 0x1900 }; /* its last segment ends with it */

/* A small object that a sealed entrant may be, for the instruction set of isa_elf.h: it exports
 * ts_softmax_topk, calls expf, and has each kind of relocation and both hash tables. */
void fuzz_elf_make(uint8_t object[FUZZ_ELF_BYTES]);

/* Changes one field of a header, segment, tag, symbol, relocation or hash table. */
void fuzz_elf_change(uint8_t *object, size_t n, uint64_t *chance);

#endif
