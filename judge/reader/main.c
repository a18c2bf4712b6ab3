/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the process that parses what an entrant's author wrote.
 *
 * Standard input is a question of the judge, standard output takes the answer. Before it reads
 * anything the process gives up everything else: with a filter of system calls it can compute, read
 * the question and write the answer. Where Linux has no such filter, limits alone keep it from
 * opening files and sockets, from writing files, and, unless it is root's, from starting processes;
 * the answer says so, and the self-check of the machine asks. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isa_calls.h"
#include "limit.h"
#include "reader.h"

static const int may[] = {
    SYS_read,   SYS_write,   SYS_brk,       SYS_munmap,
    SYS_mremap, SYS_madvise, SYS_getrandom, SYS_exit_group,
};
enum { N_MAY = sizeof may / sizeof *may, KILL = SECCOMP_RET_KILL_PROCESS };

static struct sock_filter code[16 + 2 * N_MAY];
static unsigned short     n_code;

static void emit(unsigned op, unsigned k, int if_true, int if_false)
{
    code[n_code++] = (struct sock_filter) { (unsigned short)op, (unsigned char)if_true,
                                            (unsigned char)if_false, k };
}

static void load(size_t offset)
{
    emit(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset, 0, 0);
}

/* Memory may be mapped, but never to be executed. False: Linux refuses the filter. */
static bool filter_calls(void)
{
    load(offsetof(struct seccomp_data, arch));
    emit(BPF_JMP | BPF_JEQ | BPF_K, TS_ISA_AUDIT_ARCH, 1, 0);
    emit(BPF_RET | BPF_K, KILL, 0, 0);
    load(offsetof(struct seccomp_data, nr));
    for (int i = 0; i < (int)N_MAY; i++) {
        emit(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)may[i], 0, 1);
        emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    }
    emit(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0);
    emit(BPF_RET | BPF_K, KILL, 0, 0);
    load(offsetof(struct seccomp_data, args) + 8 * 2);
    emit(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
    emit(BPF_RET | BPF_K, KILL, 0, 0);
    emit(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    const struct sock_fprog program = { n_code, code };
    return TS_ISA_AUDIT_ARCH && !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

/* Says which step failed where the answer would be. As nothing has been read yet, the judge knows
 * that no text of an entrant says so; see judge/read/ask.c. */
static void must(bool worked, const char *step)
{
    if (worked) return;
    dprintf(1, "%s: %s", step, strerror(errno));
    _exit(1);
}

/* Returns whether there is a filter, too. */
static bool confine(void)
{
    must(ts_limit(RLIMIT_NOFILE, 0), "RLIMIT_NOFILE"); /* no descriptor beyond those it has */
    must(ts_limit(RLIMIT_FSIZE, 0), "RLIMIT_FSIZE");
    must(ts_limit(RLIMIT_NPROC, 0), "RLIMIT_NPROC");
    must(ts_limit(RLIMIT_CORE, 0), "RLIMIT_CORE");
    must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    return filter_calls();
}

static void get(void *to, size_t n)
{
    char   *p = to;
    ssize_t done;
    for (; n; p += done, n -= (size_t)done)
        if ((done = read(0, p, n)) <= 0) _exit(2);
}

int main(void)
{
    static ts_question q;
    static ts_reading  r;
    static char       *bytes[TS_ENTRANT_SOURCES];
    const bool         filtered = confine();
    get(&q, sizeof q);
    for (uint32_t i = 0; i < q.n_files; i++) {
        bytes[i] = malloc(q.file[i].n + 1);
        if (!bytes[i]) _exit(3);
        get(bytes[i], q.file[i].n);
        bytes[i][q.file[i].n] = 0;
    }
    ts_reader_answer(&q, (const char *const *)bytes, &r);
    r.filtered = filtered;
    const char *p = (const char *)&r;
    ssize_t     done;
    for (size_t n = sizeof r; n; p += done, n -= (size_t)done)
        if ((done = write(1, p, n)) <= 0) _exit(4);
    _exit(0);
}
