/* SPDX-License-Identifier: Apache-2.0 */
/* isa_elf.h - shared objects for x86-64: their machine, and the relocations of a sealed entrant. */
#ifndef TS_ISA_ELF_H
#define TS_ISA_ELF_H

#include <elf.h>

#define TS_ISA_NAME "x86-64"

enum {
    TS_ELF_MACHINE = EM_X86_64,
    TS_ELF_ABS64 = R_X86_64_64, /* these three: the symbol's address */
    TS_ELF_GLOB_DAT = R_X86_64_GLOB_DAT,
    TS_ELF_JUMP_SLOT = R_X86_64_JUMP_SLOT,
    TS_ELF_RELATIVE = R_X86_64_RELATIVE, /* where the object was placed */
};

/* Program headers and dynamic tags of its own that ask nothing of a loader; a list needs an entry.
 */
#define TS_ELF_HEADERS  PT_NULL
#define TS_ELF_TAGS_TOO DT_RELACOUNT

/* Functions that a sealed entrant may call here because they are an instruction elsewhere; a list
 * as protocol/allow.h has them. */
#define TS_ISA_ALLOWED(X)

#endif
