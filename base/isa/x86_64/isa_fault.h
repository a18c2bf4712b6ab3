/* SPDX-License-Identifier: Apache-2.0 */
/* isa_fault.h - classifies a fault by a signal handler's context. Needs _GNU_SOURCE. */
#ifndef TS_ISA_FAULT_H
#define TS_ISA_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

static inline bool ts_isa_fault_writes(const void *context)
{
    return ((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
}

/* rdtsc and rdtscp fault without an address if the counter is hidden. */
static inline bool ts_isa_fault_clock(int sig, const siginfo_t *info, const void *context)
{
    const greg_t        *g = ((const ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)g[REG_RIP];
    return sig == SIGSEGV && info->si_code == SI_KERNEL && code[0] == 0x0f &&
           (code[1] == 0x31 || (code[1] == 0x01 && code[2] == 0xf9));
}

#endif
