/* SPDX-License-Identifier: Apache-2.0 */
/* without.c - runs a program without one of the kernel's features, as on a machine that lacks it.
 *
 *     without seccomp|landlock|namespaces|mounts|limits|capset|hostname|userns PROGRAM
 * [ARGUMENT...]
 *
 * The steps of judge/cage/seal.c that no machine lacks are here, too, so that their failure is
 * seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int         call;
        unsigned    flags; /* of its first argument; 0: any */
    } all[] = { { "seccomp", SYS_seccomp, 0 },
                { "landlock", SYS_landlock_create_ruleset, 0 },
                { "namespaces", SYS_clone, CLONE_NEWPID },
                { "mounts", SYS_mount_setattr, 0 },
                { "limits", SYS_prlimit64, 0 },
                { "capset", SYS_capset, 0 },
                { "hostname", SYS_sethostname, 0 },
                { "userns", SYS_unshare, CLONE_NEWUSER } };
    size_t i = 0;
    while (argc > 2 && i < sizeof all / sizeof *all && strcmp(argv[1], all[i].name)) i++;
    if (argc < 3 || i == sizeof all / sizeof *all) return 2;
    const unsigned     first = offsetof(struct seccomp_data, args);
    struct sock_filter code[] = {
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr) },
        { BPF_JMP | BPF_JEQ | BPF_K, 0, 3, (unsigned)all[i].call },
        { BPF_LD | BPF_W | BPF_ABS, 0, 0, first },
        { BPF_ALU | BPF_AND | BPF_K, 0, 0, all[i].flags },
        { BPF_JMP | BPF_JEQ | BPF_K, 1, 0, all[i].flags }, /* 0 of 0 is */
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW },
        { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS },
    };
    const struct sock_fprog program = { sizeof code / sizeof *code, code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) return 77;
    execvp(argv[2], argv + 2);
    return 127;
}
