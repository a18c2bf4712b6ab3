/* SPDX-License-Identifier: Apache-2.0 */
/* isa_calls.h - legacy system calls specific to x86-64. */
#ifndef TS_ISA_CALLS_H
#define TS_ISA_CALLS_H

#include <linux/audit.h>
#include <sys/syscall.h>

#define TS_ISA_AUDIT_ARCH AUDIT_ARCH_X86_64 /* 0: no filter is supported */

/* Additional allowed and fatal calls of host code. */
#define TS_ISA_HOST_MAY                                                                            \
    SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_poll, SYS_select, SYS_time, SYS_arch_prctl
#define TS_ISA_HOST_DIES SYS_fork, SYS_vfork

#define TS_ISA_OPEN SYS_open /* the call whose second argument is the open mode; -1: none */

#endif
