/* SPDX-License-Identifier: Apache-2.0 */
/* filter.c - the seccomp filters: which system calls each class may make. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "isa_calls.h"
#include "process.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65 /* missing from headers older than Linux 6.3 */
#endif

enum { KILL = SECCOMP_RET_KILL_PROCESS, ALLOW = SECCOMP_RET_ALLOW };

/* clang-format off */
/* Calls that a multithreaded program needs. Files can be opened for reading only. */
static const int host_may[] = {
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_futex, SYS_read,
    SYS_readv, SYS_pread64, SYS_write, SYS_writev, SYS_close, SYS_lseek, SYS_dup,
    SYS_fstat, SYS_newfstatat, SYS_statx, SYS_faccessat,
    SYS_faccessat2, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_ppoll, SYS_pselect6, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sigaltstack, SYS_restart_syscall, SYS_sched_yield, SYS_sched_getaffinity,
    SYS_sched_getparam, SYS_sched_getscheduler, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getuid,
    SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrusage, SYS_getrlimit, SYS_times, SYS_uname,
    SYS_sysinfo, SYS_getrandom, SYS_clock_gettime, SYS_clock_getres, SYS_gettimeofday,
    SYS_nanosleep, SYS_clock_nanosleep, SYS_set_robust_list, SYS_set_tid_address, SYS_rseq,
    SYS_membarrier, SYS_get_mempolicy, SYS_getcpu, SYS_exit, SYS_exit_group, TS_ISA_HOST_MAY,
};
/* clang-format on */

/* clang-format off */
/* Calls that only an attack makes: the process is killed. A call in neither list returns EPERM. */
static const int host_dies[] = {
    TS_ISA_HOST_DIES, SYS_execveat, SYS_socket, SYS_socketpair, SYS_connect, SYS_bind,
    SYS_sendto, SYS_sendmsg, SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_ptrace,
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd,
    SYS_io_uring_setup, SYS_pidfd_open, SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_setns,
    SYS_unshare, SYS_mount, SYS_chroot, SYS_pivot_root, SYS_init_module, SYS_finit_module,
    SYS_keyctl, SYS_open_by_handle_at,
};
/* clang-format on */

static struct sock_filter code[512];
static unsigned short     n_code;

static void emit(unsigned op, unsigned k, int if_true, int if_false)
{
    if (n_code == sizeof code / sizeof *code)
        cage_stop(TS_STOP_SETUP, "the seccomp filter is too long");
    code[n_code++] = (struct sock_filter) { (unsigned short)op, (unsigned char)if_true,
                                            (unsigned char)if_false, k };
}

static void load(size_t offset)
{
    emit(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

static void answer(unsigned what)
{
    emit(BPF_RET | BPF_K, what, 0, 0);
}

static void rule(int call, unsigned what)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1);
    answer(what);
}

/* Allowed if (argument & mask) == want in the lower half: the kernel reads no more of an int. */
static void rule_if(int call, int argument, unsigned mask, unsigned want, unsigned otherwise)
{
    emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 5);
    load(offsetof(struct seccomp_data, args) + 8 * (size_t)argument);
    emit(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    emit(BPF_JMP | BPF_JEQ | BPF_K, want, 0, 1);
    answer(ALLOW);
    answer(otherwise);
}

/* Allowed if both halves of a pointer are 0. */
static void rule_if_null(int call, int argument, unsigned otherwise)
{
    const size_t at = offsetof(struct seccomp_data, args) + 8 * (size_t)argument;
    emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 6);
    load(at);
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    load(at + 4);
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    answer(ALLOW);
    answer(otherwise);
}

/* Killed if the range that two arguments give meets the buffers or their guards; else the next rule
 * decides. In units of 64 KiB, in which addresses have 32 bits; the region has 2 MiB of them. */
static void keep_region(const ts_call_plan *p, int call, int address, int bytes)
{
    const size_t   at = offsetof(struct seccomp_data, args) + 8 * (size_t)address;
    const size_t   n = offsetof(struct seccomp_data, args) + 8 * (size_t)bytes;
    const unsigned unit = 16, half = sizeof(uint32_t);
    const unsigned first = (unsigned)(p->region >> unit);
    const unsigned end = (unsigned)((p->region + p->region_bytes + (1 << unit) - 1) >> unit);
    emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 26);
    load(at + half);
    emit(BPF_ALU | BPF_LSH | BPF_K, unit, 0, 0);
    emit(BPF_ST, 0, 0, 0);
    load(at);
    emit(BPF_ALU | BPF_RSH | BPF_K, unit, 0, 0);
    emit(BPF_LDX | BPF_MEM, 0, 0, 0);
    emit(BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
    emit(BPF_JMP | BPF_JGE | BPF_K, end, 17, 0);   /* behind it */
    emit(BPF_JMP | BPF_JGE | BPF_K, first, 15, 0); /* in it */
    emit(BPF_MISC | BPF_TAX, 0, 0, 0);
    emit(BPF_LD | BPF_IMM, first, 0, 0);
    emit(BPF_ALU | BPF_SUB | BPF_X, 0, 0, 0);
    emit(BPF_ST, 0, 0, 0); /* how far before it */
    load(n + half);
    emit(BPF_JMP | BPF_JGE | BPF_K, 1 << 15, 9, 0); /* longer than any address space */
    emit(BPF_ALU | BPF_LSH | BPF_K, unit, 0, 0);
    emit(BPF_MISC | BPF_TAX, 0, 0, 0);
    load(n);
    emit(BPF_ALU | BPF_RSH | BPF_K, unit, 0, 0);
    emit(BPF_ALU | BPF_OR | BPF_X, 0, 0, 0);
    emit(BPF_ALU | BPF_ADD, 2, 0, 0); /* a constant; both ends rounded up */
    emit(BPF_LDX | BPF_MEM, 0, 0, 0);
    emit(BPF_JMP | BPF_JGT | BPF_X, 0, 1, 0);
    emit(BPF_JMP | BPF_JA, 1, 0, 0);
    answer(KILL);
    load(offsetof(struct seccomp_data, nr));
}

/* The guards stay what they are, and what touches one is seen: no mapping is changed there, and
 * faults of memory stay the cage's. Python maps its buffers elsewhere, later. */
static void keep_guards(const ts_call_plan *p)
{
    const unsigned no = SECCOMP_RET_ERRNO | EPERM;
    if (p->class != TS_PYTHON) {
        const size_t flags = offsetof(struct seccomp_data, args) + 8 * 3;
        emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4);
        load(flags);
        emit(BPF_JMP | BPF_JSET | BPF_K, MAP_FIXED, 1, 0);
        answer(ALLOW);
        load(offsetof(struct seccomp_data, nr));
        keep_region(p, SYS_mmap, 0, 1);
        keep_region(p, SYS_munmap, 0, 1);
        keep_region(p, SYS_mprotect, 0, 1);
        keep_region(p, SYS_mremap, 0, 1);
    }
    rule_if(SYS_mremap, 3, MREMAP_FIXED, 0, no);
    /* Any other signal may be the entrant's own. */
    emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 5);
    load(offsetof(struct seccomp_data, args));
    emit(BPF_JMP | BPF_JEQ | BPF_K, SIGSEGV, 2, 0);
    emit(BPF_JMP | BPF_JEQ | BPF_K, SIGBUS, 1, 0);
    answer(ALLOW);
    answer(no);
}

/* A sealed entrant may wait until it is woken, and wake threads, but not wait with a timeout: a
 * timeout is a clock. */
static void futex_without_timeout(void)
{
    const size_t timeout = offsetof(struct seccomp_data, args) + 8 * 3;
    emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 10);
    load(offsetof(struct seccomp_data, args) + 8);
    emit(BPF_ALU | BPF_AND | BPF_K, ~(unsigned)FUTEX_PRIVATE_FLAG, 0, 0);
    emit(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAKE, 5, 0);
    emit(BPF_JMP | BPF_JEQ | BPF_K, FUTEX_WAIT, 0, 5);
    load(timeout);
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    load(timeout + 4);
    emit(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    answer(ALLOW);
    answer(KILL);
}

/* Memory that was written can never be executed: only files can be mapped executable, and then not
 * writable, and no mapping becomes executable later. The entrant must have no access to a writable
 * file. */
static void no_new_code(void)
{
    const unsigned no = SECCOMP_RET_ERRNO | EPERM;
    const size_t   prot = offsetof(struct seccomp_data, args) + 8 * 2, flags = prot + 8;
    emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 8);
    load(prot);
    emit(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0);
    answer(ALLOW);
    emit(BPF_JMP | BPF_JSET | BPF_K, PROT_WRITE, 3, 0);
    load(flags);
    emit(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0);
    answer(ALLOW);
    answer(no);
    rule_if(SYS_mprotect, 2, PROT_EXEC, 0, no);
    rule_if(SYS_prctl, 0, ~0u, PR_SET_MDWE, no);
}

static void host_rules(const ts_call_plan *p)
{
    const ts_class k = p->class;
    const unsigned errno_of = SECCOMP_RET_ERRNO;
    if (k == TS_PYTHON) no_new_code();
    keep_guards(p);
    for (size_t i = 0; i < sizeof host_may / sizeof *host_may; i++) rule(host_may[i], ALLOW);
    for (size_t i = 0; i < sizeof host_dies / sizeof *host_dies; i++) rule(host_dies[i], KILL);
    const unsigned writing = O_ACCMODE | O_CREAT | O_TRUNC | O_APPEND;
    if (TS_ISA_OPEN >= 0) rule_if(TS_ISA_OPEN, 1, writing, O_RDONLY, errno_of | EACCES);
    rule_if(SYS_openat, 2, writing, O_RDONLY, errno_of | EACCES);
    rule_if(SYS_clone, 0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM, KILL);
    /* A filter cannot see its flags; libc falls back to clone. */
    rule(SYS_clone3, errno_of | ENOSYS);
    rule_if(SYS_fcntl, 1, 8, 0, errno_of | EPERM); /* not F_SETOWN, F_SETSIG, nor seals */
    rule_if(SYS_ioctl, 1, ~0u, FIOCLEX, errno_of | ENOTTY);
    rule_if_null(SYS_prlimit64, 2, errno_of | EPERM);
    rule_if(SYS_tgkill, 0, ~0u, (unsigned)getpid(), KILL);
    /* Python is started after the filter; Landlock forbids every other program. */
    rule(SYS_execve, k == TS_PYTHON ? ALLOW : KILL);
    answer(errno_of | EPERM);
}

/* clang-format off */
/* With a GPU the driver runs in the process, and the list of its system calls is unknown: so this
 * is a deny list of calls that the driver does not need once it runs. For how classes with several
 * processes are frozen, see judge/call/cage_life.c. */
static const int gpu_dies[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_bpf, SYS_perf_event_open,
    SYS_userfaultfd, SYS_io_uring_setup, SYS_pidfd_getfd, SYS_setns, SYS_unshare, SYS_mount,
    SYS_umount2, SYS_move_mount, SYS_open_tree, SYS_mount_setattr, SYS_fsopen, SYS_chroot,
    SYS_pivot_root, SYS_init_module, SYS_finit_module, SYS_keyctl, SYS_add_key, SYS_request_key,
    SYS_open_by_handle_at, SYS_kexec_load,
};
/* Memory that no limit counts; a change of core or priority. */
static const int gpu_may_not[] = {
    SYS_memfd_create, SYS_shmget, SYS_sched_setaffinity, SYS_sched_setscheduler,
    SYS_sched_setparam, SYS_sched_setattr, SYS_setpriority, SYS_ioprio_set, SYS_personality,
    SYS_setrlimit, /* of which the kernel kills with a signal that is the machine's */
};
static const int gpu_host_dies[] = { TS_ISA_HOST_DIES, SYS_execve, SYS_execveat };
/* clang-format on */

static void gpu_rules(ts_class k)
{
    const unsigned errno_of = SECCOMP_RET_ERRNO;
    for (size_t i = 0; i < sizeof gpu_dies / sizeof *gpu_dies; i++) rule(gpu_dies[i], KILL);
    for (size_t i = 0; i < sizeof gpu_may_not / sizeof *gpu_may_not; i++)
        /* Python: denied later, by the runner. */
        if (k == TS_GPU_HOST || gpu_may_not[i] != SYS_memfd_create)
            rule(gpu_may_not[i], errno_of | EPERM);
    rule_if_null(SYS_prlimit64, 2, errno_of | EPERM);
    if (k == TS_GPU_HOST) { /* a Python entrant starts compilers */
        const size_t n = sizeof gpu_host_dies / sizeof *gpu_host_dies;
        for (size_t i = 0; i < n; i++) rule(gpu_host_dies[i], KILL);
        rule_if(SYS_clone, 0, CLONE_THREAD | CLONE_VM, CLONE_THREAD | CLONE_VM, KILL);
        rule(SYS_clone3, errno_of | ENOSYS);
    } else { /* it must not leave the namespace in which it can be frozen */
        const unsigned apart = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS;
        rule_if(SYS_clone, 0, apart, 0, KILL);
        rule(SYS_clone3, errno_of | ENOSYS);
    }
    answer(ALLOW);
}

void cage_seccomp(const ts_call_plan *p)
{
    const ts_class k = p->class;
    if (!TS_ISA_AUDIT_ARCH) return;
    n_code = 0;
    load(offsetof(struct seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, TS_ISA_AUDIT_ARCH, 1, 0);
    answer(KILL);
    load(offsetof(struct seccomp_data, nr));
    if (k == TS_SEALED) {
        futex_without_timeout();
        rule(SYS_exit_group, ALLOW);
        answer(KILL);
    } else if (ts_on_gpu(k)) {
        gpu_rules(k);
    } else {
        host_rules(p);
    }
    /* On all threads, and without the mitigations that would slow the entrant's own code. */
    const struct sock_fprog program = { n_code, code };
    const unsigned          flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    cage_control->error.held |= TS_HELD_SECCOMP; /* set now: after the filter it may be too late */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program))
        cage_control->error.held &= ~(unsigned)TS_HELD_SECCOMP;
}
