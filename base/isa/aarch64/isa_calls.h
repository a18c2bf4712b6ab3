/* SPDX-License-Identifier: Apache-2.0 */
/* isa_calls.h - system calls that aarch64 has besides those of every Linux: none, it is too young
 * for them. */
#ifndef TS_ISA_CALLS_H
#define TS_ISA_CALLS_H

#include <linux/audit.h>
#include <sys/syscall.h>

#define TS_ISA_AUDIT_ARCH AUDIT_ARCH_AARCH64 /* 0: no filter can be written */

/* What host code may do, and what it dies of: a list needs an entry, so calls of every Linux. */
#define TS_ISA_HOST_MAY  SYS_newfstatat
#define TS_ISA_HOST_DIES SYS_ptrace

#define TS_ISA_OPEN (-1) /* the call whose second argument is the way to open; -1: none */

#endif
