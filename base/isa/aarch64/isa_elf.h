/* SPDX-License-Identifier: Apache-2.0 */
/* isa_elf.h - shared objects for aarch64: their machine, and relocations of a sealed entrant. */
#ifndef TS_ISA_ELF_H
#define TS_ISA_ELF_H

#include <elf.h>

#define TS_ISA_NAME "aarch64"

enum {
    TS_ELF_MACHINE = EM_AARCH64,
    TS_ELF_ABS64 = R_AARCH64_ABS64, /* these three: the symbol's address */
    TS_ELF_GLOB_DAT = R_AARCH64_GLOB_DAT,
    TS_ELF_JUMP_SLOT = R_AARCH64_JUMP_SLOT,
    TS_ELF_RELATIVE = R_AARCH64_RELATIVE, /* the object's base address */
};

/* Program headers and dynamic tags of this set that need no action of a loader. A list must not be
 * empty. */
#define TS_ELF_HEADERS  PT_NULL
#define TS_ELF_TAGS_TOO 0x70000001, 0x70000003 /* DT_AARCH64_BTI_PLT and _PAC_PLT */

/* Functions that a sealed entrant may call because other sets have an instruction for them; in the
 * form of judge/protocol/allow.h. */
#define TS_ISA_ALLOWED(X) X(long double, sqrtl, (long double))

#endif
