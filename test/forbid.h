/* SPDX-License-Identifier: Apache-2.0 */
/* forbid.h - makes system calls of this process and its children fail, as on a machine that lacks
 * a feature. Needs _GNU_SOURCE. */
#ifndef TS_FORBID_H
#define TS_FORBID_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static const struct {
    const char *name;
    int         call;
    unsigned    flags; /* of its first argument; 0: any */
} forbidden[] = { { "seccomp", SYS_seccomp, 0 },
                  { "landlock", SYS_landlock_create_ruleset, 0 },
                  { "namespaces", SYS_clone, CLONE_NEWPID },
                  { "mounts", SYS_mount_setattr, 0 },
                  { "limits", SYS_prlimit64, 0 },
                  { "capset", SYS_capset, 0 },
                  { "hostname", SYS_sethostname, 0 },
                  { "death", SYS_prctl, PR_SET_PDEATHSIG },
                  { "memfd", SYS_memfd_create, 0 },
                  { "pipes", SYS_pipe2, 0 },
                  { "processes", SYS_clone, SIGCHLD },
                  { "userns", SYS_unshare, CLONE_NEWUSER } };

/* Returns 0; 2 if there is no such name, 77 if no filter can be installed. */
static inline int forbid(const char *name)
{
    size_t i = 0;
    while (i < sizeof forbidden / sizeof *forbidden && strcmp(name, forbidden[i].name)) i++;
    if (i == sizeof forbidden / sizeof *forbidden) return 2;
    const unsigned     first = offsetof(struct seccomp_data, args);
    struct sock_filter code[] = {
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
        { BPF_JMP | BPF_JEQ | BPF_K, 0, 3, (unsigned)forbidden[i].call },
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, first },
        { BPF_ALU | BPF_AND | BPF_K, 0, 0, forbidden[i].flags },
        { BPF_JMP | BPF_JEQ | BPF_K, 1, 0, forbidden[i].flags }, /* 0 of 0 is */
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS },
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program) ? 77 : 0;
}

#endif
