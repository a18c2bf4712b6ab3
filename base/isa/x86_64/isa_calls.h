/* SPDX-License-Identifier: Apache-2.0 */
/* isa_calls.h - system calls that x86-64 has besides those of every Linux. */
#ifndef TS_ISA_CALLS_H
#define TS_ISA_CALLS_H

#include <linux/audit.h>
#include <sys/syscall.h>

#define TS_ISA_AUDIT_ARCH AUDIT_ARCH_X86_64 /* 0: no filter can be written */

/* What host code may do, and what it dies of. */
#define TS_ISA_HOST_MAY                                                                            \
    SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_poll, SYS_select, SYS_time, SYS_arch_prctl
#define TS_ISA_HOST_DIES SYS_fork, SYS_vfork

#define TS_ISA_OPEN SYS_open /* the call whose second argument is the way to open; -1: none */

#endif
