/* SPDX-License-Identifier: Apache-2.0 */
/* isa_raw.h - attempts without a library on x86-64: system calls, the clock, a changed
 * floating-point mode. For the cage's probe and exploits. */
#ifndef TS_ISA_RAW_H
#define TS_ISA_RAW_H

/* System call numbers, which the public headers do not define. */
enum {
    NR_WRITE = 1,
    NR_MMAP = 9,
    NR_MPROTECT = 10,
    NR_SHMGET = 29,
    NR_SETITIMER = 38,
    NR_GETPID = 39,
    NR_SOCKET = 41,
    NR_CLONE = 56,
    NR_EXECVE = 59,
    NR_EXIT = 60,
    NR_KILL = 62,
    NR_PTRACE = 101,
    NR_GETPPID = 110,
    NR_PRCTL = 157,
    NR_GETTID = 186,
    NR_FUTEX = 202,
    NR_SETAFFINITY = 203,
    NR_TIME = 228, /* clock_gettime */
    NR_EXIT_GROUP = 231,
    NR_TGKILL = 234,
    NR_OPENAT = 257,
    NR_DUP3 = 292,
    NR_PRLIMIT = 302,
    NR_PEEK = 310,  /* process_vm_readv */
    NR_MEMFD = 319, /* memfd_create */
};

static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(n)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return n;
}

/* Legacy calls, which newer instruction sets do not have. */
static inline long raw_open(const char *path, long flags, long mode)
{
    return raw(2, (long)path, flags, mode, 0, 0, 0);
}

static inline long raw_fork(void)
{
    return raw(57, 0, 0, 0, 0, 0, 0);
}

static inline long raw_dup2(long from, long to)
{
    return raw(33, from, to, 0, 0, 0, 0);
}

static inline void raw_pause(void)
{
    __builtin_ia32_pause();
}

static inline unsigned long raw_clock(void)
{
    unsigned lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return (unsigned long)hi << 32 | lo;
}

/* Flushes denormals to 0. */
static inline void raw_flush_to_zero(void)
{
    const unsigned mxcsr = 0x9fc0;
    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}

enum { RAW_MAPPED = 0x3f };    /* the bits from 41 on of addresses that the kernel chooses */
enum { RAW_DIVIDE_TRAPS = 1 }; /* an integer divided by 0 is a signal */

/* A setjmp in RAW_WAY words; after the jump RAW_MARK returns nonzero. */
enum { RAW_WAY = 5 };
#define RAW_MARK(way)    __builtin_setjmp(way)
#define RAW_GO_BACK(way) __builtin_longjmp(way, 1)

#define RAW_COMMENT "#" /* begins a comment in assembly */

#endif
