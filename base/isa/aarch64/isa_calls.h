/* SPDX-License-Identifier: Apache-2.0 */
/* isa_calls.h - system calls specific to aarch64: none, since it has no legacy calls. */
#ifndef TS_ISA_CALLS_H
#define TS_ISA_CALLS_H

#include <linux/audit.h>
#include <sys/syscall.h>

#define TS_ISA_AUDIT_ARCH AUDIT_ARCH_AARCH64 /* 0: no filter is supported */

/* Additional allowed and fatal calls of host code. A list must not be empty, so these are common
 * calls. */
#define TS_ISA_HOST_MAY  SYS_newfstatat
#define TS_ISA_HOST_DIES SYS_ptrace

#define TS_ISA_OPEN (-1) /* the call whose second argument is the open mode; -1: none */

#endif
