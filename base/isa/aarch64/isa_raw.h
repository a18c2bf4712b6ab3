/* SPDX-License-Identifier: Apache-2.0 */
/* isa_raw.h - attempts without a library on aarch64: system calls, the clock, a changed
 * floating-point mode. For the cage's probe and exploits. */
#ifndef TS_ISA_RAW_H
#define TS_ISA_RAW_H

/* System call numbers, which the public headers do not define. */
enum {
    NR_DUP3 = 24,
    NR_OPENAT = 56,
    NR_WRITE = 64,
    NR_EXIT = 93,
    NR_EXIT_GROUP = 94,
    NR_FUTEX = 98,
    NR_SETITIMER = 103,
    NR_TIME = 113, /* clock_gettime */
    NR_PTRACE = 117,
    NR_SETAFFINITY = 122,
    NR_KILL = 129,
    NR_TGKILL = 131,
    NR_PRCTL = 167,
    NR_GETPID = 172,
    NR_GETPPID = 173,
    NR_GETTID = 178,
    NR_SHMGET = 194,
    NR_SOCKET = 198,
    NR_CLONE = 220,
    NR_EXECVE = 221,
    NR_MMAP = 222,
    NR_MPROTECT = 226,
    NR_PRLIMIT = 261,
    NR_PEEK = 270,  /* process_vm_readv */
    NR_MEMFD = 279, /* memfd_create */
};

static inline long raw(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b,
                     x2 __asm__("x2") = c, x3 __asm__("x3") = d, x4 __asm__("x4") = e,
                     x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

static inline long raw_open(const char *path, long flags, long mode)
{
    return raw(NR_OPENAT, -100, (long)path, flags, mode, 0, 0);
}

static inline long raw_fork(void)
{
    return raw(NR_CLONE, 17 /* SIGCHLD */, 0, 0, 0, 0, 0);
}

static inline long raw_dup2(long from, long to)
{
    return raw(NR_DUP3, from, to, 0, 0, 0, 0);
}

static inline void raw_pause(void)
{
    __asm__ volatile("isb" : : : "memory");
}

static inline unsigned long raw_clock(void)
{
    unsigned long t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
}

/* Flushes denormals to 0. */
static inline void raw_flush_to_zero(void)
{
    const unsigned long fz = 1ul << 24;
    __asm__ volatile("msr fpcr, %0" : : "r"(fz));
}

enum { RAW_MAPPED = 0x7f };    /* the bits from 41 on of addresses that the kernel chooses */
enum { RAW_DIVIDE_TRAPS = 0 }; /* an integer divided by 0 is 0 */

/* A setjmp in RAW_WAY words; after the jump RAW_MARK returns nonzero. In assembly, since clang has
 * no builtin here. */
enum { RAW_WAY = 22 };
#define RAW_MARK(way)    raw_mark(way)
#define RAW_GO_BACK(way) raw_go_back(way)

__attribute__((visibility("hidden"), returns_twice)) extern int raw_mark(void *way[RAW_WAY]);
__attribute__((visibility("hidden"), noreturn)) extern void     raw_go_back(void *way[RAW_WAY]);

__asm__(".text\n"
        ".local raw_mark\n"
        ".type raw_mark, %function\n"
        "raw_mark:\n"
        "    stp x19, x20, [x0]\n    stp x21, x22, [x0, 16]\n    stp x23, x24, [x0, 32]\n"
        "    stp x25, x26, [x0, 48]\n    stp x27, x28, [x0, 64]\n    stp x29, x30, [x0, 80]\n"
        "    mov x1, sp\n    str x1, [x0, 96]\n"
        "    stp d8, d9, [x0, 104]\n    stp d10, d11, [x0, 120]\n"
        "    stp d12, d13, [x0, 136]\n    stp d14, d15, [x0, 152]\n"
        "    mov w0, 0\n    ret\n"
        ".local raw_go_back\n"
        ".type raw_go_back, %function\n"
        "raw_go_back:\n"
        "    ldp x19, x20, [x0]\n    ldp x21, x22, [x0, 16]\n    ldp x23, x24, [x0, 32]\n"
        "    ldp x25, x26, [x0, 48]\n    ldp x27, x28, [x0, 64]\n    ldp x29, x30, [x0, 80]\n"
        "    ldr x1, [x0, 96]\n    mov sp, x1\n"
        "    ldp d8, d9, [x0, 104]\n    ldp d10, d11, [x0, 120]\n"
        "    ldp d12, d13, [x0, 136]\n    ldp d14, d15, [x0, 152]\n"
        "    mov w0, 1\n    ret\n");

#define RAW_COMMENT "//" /* begins a comment in assembly */

#endif
