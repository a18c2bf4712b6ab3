/* SPDX-License-Identifier: Apache-2.0 */
/* isa_calls.h - no system call filter: the judge reports it as missing. */
#ifndef TS_ISA_CALLS_H
#define TS_ISA_CALLS_H

#include <sys/syscall.h>

#define TS_ISA_AUDIT_ARCH 0 /* no filter is supported */
#define TS_ISA_HOST_MAY   SYS_newfstatat
#define TS_ISA_HOST_DIES  SYS_ptrace
#define TS_ISA_OPEN       (-1)

#endif
