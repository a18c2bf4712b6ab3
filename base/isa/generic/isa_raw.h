/* SPDX-License-Identifier: Apache-2.0 */
/* isa_raw.h - nothing can be tried without a library: every system call is refused. */
#ifndef TS_ISA_RAW_H
#define TS_ISA_RAW_H

enum {
    NR_OPENAT,
    NR_WRITE,
    NR_EXIT,
    NR_EXIT_GROUP,
    NR_FUTEX,
    NR_TIME,
    NR_PTRACE,
    NR_SETAFFINITY,
    NR_KILL,
    NR_PRCTL,
    NR_GETPPID,
    NR_SOCKET,
    NR_CLONE,
    NR_EXECVE,
    NR_MMAP,
    NR_MPROTECT,
    NR_PEEK
};

static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
    (void)n, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return -1;
}

static inline unsigned long raw_clock(void)
{
    return 0;
}

static inline void raw_flush_to_zero(void)
{
}

enum { RAW_MAPPED = 0, RAW_DIVIDE_TRAPS = 0 };

#endif
