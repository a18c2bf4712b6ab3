/* SPDX-License-Identifier: Apache-2.0 */
/* isa_elf.h - shared objects for aarch64: their machine, and the relocations of a sealed entrant.
 */
#ifndef TS_ISA_ELF_H
#define TS_ISA_ELF_H

#include <elf.h>

#define TS_ISA_NAME "aarch64"

enum {
    TS_ELF_MACHINE = EM_AARCH64,
    TS_ELF_ABS64 = R_AARCH64_ABS64, /* these three: the symbol's address */
    TS_ELF_GLOB_DAT = R_AARCH64_GLOB_DAT,
    TS_ELF_JUMP_SLOT = R_AARCH64_JUMP_SLOT,
    TS_ELF_RELATIVE = R_AARCH64_RELATIVE, /* where the object was placed */
};

#endif
