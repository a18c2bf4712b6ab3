/* SPDX-License-Identifier: Apache-2.0 */
/* isa_raw.h - no attempts without a library: every system call fails. */
#ifndef TS_ISA_RAW_H
#define TS_ISA_RAW_H

enum {
    NR_WRITE,
    NR_MMAP,
    NR_MPROTECT,
    NR_SHMGET,
    NR_SETITIMER,
    NR_GETPID,
    NR_SOCKET,
    NR_CLONE,
    NR_EXECVE,
    NR_EXIT,
    NR_KILL,
    NR_PTRACE,
    NR_GETPPID,
    NR_PRCTL,
    NR_GETTID,
    NR_FUTEX,
    NR_SETAFFINITY,
    NR_TIME,
    NR_EXIT_GROUP,
    NR_TGKILL,
    NR_OPENAT,
    NR_DUP3,
    NR_PRLIMIT,
    NR_PEEK,
    NR_MEMFD,
};

static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
    volatile long refused = -1; /* volatile, so that the compiler draws no conclusions */
    (void)n, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    return refused;
}

static inline long raw_open(const char *path, long flags, long mode)
{
    (void)path, (void)flags, (void)mode;
    return -1;
}

static inline long raw_fork(void)
{
    return -1;
}

static inline long raw_dup2(long from, long to)
{
    (void)from, (void)to;
    return -1;
}

static inline void raw_pause(void)
{
}

static inline unsigned long raw_clock(void)
{
    return 0;
}

static inline void raw_flush_to_zero(void)
{
}

enum { RAW_MAPPED = 0, RAW_DIVIDE_TRAPS = 0 };

/* No jump is possible. */
enum { RAW_WAY = 1 };
#define RAW_MARK(way)    ((void)(way), 0)
#define RAW_GO_BACK(way) __builtin_trap()

#define RAW_COMMENT "#" /* begins a comment in assembly */

#endif
