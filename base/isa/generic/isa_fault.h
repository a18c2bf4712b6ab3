/* SPDX-License-Identifier: Apache-2.0 */
/* isa_fault.h - without details of a fault. */
#ifndef TS_ISA_FAULT_H
#define TS_ISA_FAULT_H

#include <signal.h>
#include <stdbool.h>

static inline bool ts_isa_fault_writes(const void *context)
{
    (void)context;
    return true;
}

static inline bool ts_isa_fault_clock(int sig, const siginfo_t *info, const void *context)
{
    (void)sig, (void)info, (void)context;
    return false;
}

#endif
