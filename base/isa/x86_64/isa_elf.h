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
    TS_ELF_RELATIVE = R_X86_64_RELATIVE, /* the object's base address */
};

/* Program headers and dynamic tags of this set that need no action of a loader. A list must not be
 * empty. */
#define TS_ELF_HEADERS  PT_NULL
#define TS_ELF_TAGS_TOO DT_RELACOUNT

/* Functions that a sealed entrant may call because other sets have an instruction for them; in the
 * form of judge/protocol/allow.h. */
#define TS_ISA_ALLOWED(X)

#endif
