/* SPDX-License-Identifier: Apache-2.0 */
/* isa_elf.h - no machine type: sealed entrants cannot be loaded. */
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

/* Program headers and dynamic tags of this set that need no action of a loader. A list must not be
 * empty. */
#define TS_ELF_HEADERS  PT_NULL
#define TS_ELF_TAGS_TOO DT_RELACOUNT

/* Functions that a sealed entrant may call because other sets have an instruction for them; in the
 * form of judge/protocol/allow.h. */
#define TS_ISA_ALLOWED(X)

#endif
