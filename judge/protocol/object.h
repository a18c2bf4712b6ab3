/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - reads an ELF shared object from memory, with every access bounds-checked, and decides
 * whether a sealed entrant may use it.
 *
 * Judge and cage share it: the audit reports why an object is rejected, the loader maps one that
 * passed. */
#ifndef TS_OBJECT_H
#define TS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "isa_elf.h"

enum { TS_ELF_SEGMENTS = 64, TS_ELF_TAGS = 256 };

typedef struct ts_elf {
    const unsigned char *bytes;
    size_t               n;
    Elf64_Phdr           load[TS_ELF_SEGMENTS];
    int                  n_loads, n_tags;
    bool                 tls, interp, exec_stack;
    uint32_t             odd_header; /* a type of program header that no compiler emits; 0: none */
    Elf64_Dyn            tag[TS_ELF_TAGS];
    uint64_t             symtab, strtab, n_strings;
    uint32_t             n_symbols;
} ts_elf;

/* NULL, or what is wrong with the file, as in "the object has ...". */
const char *ts_elf_read(ts_elf *f, const void *object, size_t n);

bool ts_elf_tag(const ts_elf *f, int64_t tag, uint64_t *value); /* false: absent */

/* Symbol i and its name, truncated to fit. */
bool ts_elf_symbol(const ts_elf *f, uint32_t i, Elf64_Sym *s, char *name, size_t room);

/* Relocation i of the table that DT_RELA and DT_RELASZ, or DT_JMPREL and DT_PLTRELSZ, name. */
bool ts_elf_relocation(const ts_elf *f, int64_t tag, uint64_t i, Elf64_Rela *r);

/* The segment that contains n bytes at an address and has all of `flags`; NULL: none. */
const Elf64_Phdr *ts_elf_within(const ts_elf *f, uint64_t address, uint64_t n, uint32_t flags);

/* The address of an exported function, in executable code; false: there is none. */
bool ts_elf_function(const ts_elf *f, const char *name, uint64_t *address);

/* Whether a sealed entrant may use this object: only functions of allow.h are undefined, nothing
 * runs at load time, and there is no TLS, no needed library, no segment that is both writable and
 * executable, no page with two segments, no relocation but a few plain types, and none in code. The
 * loader maps every object that passes, unless it is too large. `why` is one line of printable
 * ASCII. */
bool ts_elf_sealed(const ts_elf *f, char *why, size_t n);

bool ts_allowed(const char *symbol);

#endif
