/* SPDX-License-Identifier: Apache-2.0 */
/* isa_fault.h - classifies a fault by a signal handler's context. Needs _GNU_SOURCE. */
#ifndef TS_ISA_FAULT_H
#define TS_ISA_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* The exception syndrome, from the records after the registers; 0 if the kernel provides none, as
 * for SIGILL and a hidden counter. */
static inline uint64_t ts_isa_syndrome(const void *context)
{
    enum { ESR_RECORD = 0x45535201, HEAD = 8 };
    const mcontext_t *m = &((const ucontext_t *)context)->uc_mcontext;
    uint32_t          head[2]; /* magic and size */
    uint64_t          esr = 0;
    for (size_t at = 0; at + 2 * HEAD <= sizeof m->__reserved; at += head[1]) {
        memcpy(head, (const char *)m->__reserved + at, HEAD);
        if (head[0] == ESR_RECORD)
            memcpy(&esr, (const char *)m->__reserved + at + HEAD, sizeof esr);
        if (esr || head[0] == 0 || head[1] < HEAD) break;
    }
    return esr;
}

/* A data abort by a store; cache maintenance counts as a read. */
static inline bool ts_isa_fault_writes(const void *context)
{
    enum { DATA_ABORT = 0x24, WRITE = 1 << 6, CACHE = 1 << 8 };
    const uint64_t esr = ts_isa_syndrome(context);
    return esr >> 26 == DATA_ABORT && (esr & (WRITE | CACHE)) == WRITE;
}

/* mrs of CNTVCT_EL0 and CNTFRQ_EL0 faults without an address if the counter is hidden. */
static inline bool ts_isa_fault_clock(int sig, const siginfo_t *info, const void *context)
{
    const uint32_t any_register = 31, mrs_cntvct = 0xd53be040, mrs_cntfrq = 0xd53be000;
    if (sig != SIGSEGV || info->si_code != SI_KERNEL) return false;
    uint32_t code;
    memcpy(&code, (const void *)(uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc, 4);
    code &= ~any_register;
    return code == mrs_cntvct || code == mrs_cntfrq;
}

#endif
