/* SPDX-License-Identifier: Apache-2.0 */
/* isa_elf.h - no shared object is for this machine: a sealed entrant cannot be placed. */
#ifndef TS_ISA_ELF_H
#define TS_ISA_ELF_H

#include <elf.h>

#define TS_ISA_NAME "this machine"

enum {
    TS_ELF_MACHINE = EM_NONE,
    TS_ELF_ABS64 = 0x7ffffff1,
    TS_ELF_GLOB_DAT = 0x7ffffff2,
    TS_ELF_JUMP_SLOT = 0x7ffffff3,
    TS_ELF_RELATIVE = 0x7ffffff4,
};

/* Program headers and dynamic tags of its own that ask nothing of a loader; a list needs an entry.
 */
#define TS_ELF_HEADERS  PT_NULL
#define TS_ELF_TAGS_TOO DT_RELACOUNT

/* Functions that a sealed entrant may call here because they are an instruction elsewhere; a list
 * as protocol/allow.h has them. */
#define TS_ISA_ALLOWED(X)

#endif
