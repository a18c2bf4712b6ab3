/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - the privileges that the process gives up before it calls the entrant.
 *
 * A confinement that this machine does not support is skipped and missing from error.held; the
 * judge shows it in the entrant's badge. A step that every machine supports is taken with
 * cage_must: if it fails, the entrant does not run. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isa_fault.h"
#include "limit.h"
#include "process.h"

enum { NOBODY = 65534, MIB = 1 << 20 };

void cage_must(const ts_call_plan *p, bool done, const char *step)
{
    if (done || p->birth & TS_BORN_UNSAFE) return;
    cage_stop(TS_STOP_SETUP, "it cannot be confined here: %s: %s", step, strerror(errno));
}

/* CUDA writes to /proc/self, which must be that of this namespace, and to /dev/shm; a Python
 * entrant writes to a folder that vanishes with this process. */
static bool mount_for_driver(const ts_call_plan *p)
{
    char path[CAGE_PATH];
    /* If one fails, the driver reports the error. */
    return !(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
             mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) ||
             mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m") ||
             (cage_scratch(p, path) &&
              mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=1g")));
}

static bool is_mounted_with(const char *path, unsigned long flag)
{
    struct statvfs s;
    return !statvfs(path, &s) && s.f_flag & flag;
}

/* Puts something empty over every file and folder that an entrant must not load. True if all
 * of them are covered. */
static bool hide(const ts_call_plan *p)
{
    const unsigned long flags = MS_RDONLY | MS_NOEXEC | MS_NOSUID | MS_NODEV;
    bool hidden = !*cage_control->hidden || !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    for (const char *s = cage_control->hidden; *s; s += strlen(s) + 1) {
        const size_t n = strlen(s);
        if (!strncmp(p->folder, s, n) && p->folder[n] == '/') continue; /* the entrant is there */
        if (mount("none", s, "tmpfs", flags, "mode=755,size=4k") &&
            (errno != ENOTDIR || mount("/dev/null", s, NULL, MS_BIND, NULL)) && errno != ENOENT)
            hidden = false;
    }
    return hidden;
}

/* Makes everything read-only, and a Python entrant's own files not executable, not even by mapping:
 * machine code is not Python. True on success. */
static bool mount_for_all(const ts_call_plan *p)
{
    /* struct mount_attr, which older C libraries lack: set read-only, clear nothing. */
    const uint64_t      a[4] = { 1, 0, MS_PRIVATE, 0 };
    const unsigned long noexec = MS_RDONLY | MS_NOEXEC | MS_NOSUID | MS_NODEV;
    const bool          own = p->class == TS_PYTHON && *p->folder && !access(p->folder, F_OK);
    if (!hide(p)) return false;
    if (own && (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
                mount(p->folder, p->folder, NULL, MS_BIND, NULL) ||
                mount(NULL, p->folder, NULL, MS_REMOUNT | MS_BIND | noexec, NULL)))
        return false;
    if (syscall(SYS_mount_setattr, -1, "/", 0x8000 /* AT_RECURSIVE */, a, sizeof a)) return false;
    return is_mounted_with("/", ST_RDONLY) && (!own || is_mounted_with(p->folder, ST_NOEXEC));
}

static bool put_text(const char *path, const char *text)
{
    const int     fd = open(path, O_WRONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    if (fd >= 0) close(fd);
    return n == (ssize_t)strlen(text);
}

/* An ordinary user's cage has a user namespace: of all users it knows the judge's only, by the same
 * number. Without that it could create no file in what it mounts. */
static bool keep_own_name(const ts_call_plan *p)
{
    char user[64], group[64];
    if (!p->uid) return true;
    snprintf(user, sizeof user, "%u %u 1", p->uid, p->uid);
    snprintf(group, sizeof group, "%u %u 1", p->gid, p->gid);
    return put_text("/proc/self/setgroups", "deny") && put_text("/proc/self/uid_map", user) &&
           put_text("/proc/self/gid_map", group);
}

static void enter_namespaces(const ts_call_plan *p)
{
    unsigned held = TS_HELD_NAMESPACE;
    cage_must(p, keep_own_name(p), "the names of users");
    cage_must(p, !sethostname("cage", 4), "the machine's name");
    if (ts_in_python(p->class) && geteuid() == 0)
        cage_must(p, cage_reach(p), "access to Python and the entrant's files");
    bool mounted = p->class == TS_SEALED || mount_for_all(p);
    if (ts_on_gpu(p->class) && !mount_for_driver(p)) mounted = false;
    if (mounted) held |= TS_HELD_MOUNTS;
    if (p->class != TS_SEALED) held |= TS_HELD_NETWORK;
    if (geteuid()) held |= TS_HELD_THREADS; /* an ordinary judge's cage has a user namespace */
    cage_control->error.held |= held;
}

void cage_become_nobody(const ts_call_plan *p)
{
    if (p->birth & TS_BORN_APART) enter_namespaces(p);
    if (geteuid() == 0) {
        if (!setgroups(0, NULL) && !setresgid(NOBODY, NOBODY, NOBODY) &&
            !setresuid(NOBODY, NOBODY, NOBODY))
            cage_control->error.held |= TS_HELD_USER;
        /* Else its own /proc entries belong to root. */
        cage_must(p, !prctl(PR_SET_DUMPABLE, 1), "PR_SET_DUMPABLE");
        if (!unshare(CLONE_NEWUSER)) cage_control->error.held |= TS_HELD_THREADS;
    }
    struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct   none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
    const bool                      dropped = !syscall(SYS_capset, &h, none);
    if (!dropped) cage_control->error.held &= ~(unsigned)TS_HELD_USER;
    cage_must(p, dropped, "capabilities");
    cage_must(p, !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    /* A change of user clears it. */
    cage_must(p, !prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
}

void cage_insist(const ts_call_plan *p, unsigned needed)
{
    const unsigned lacks = needed & ~cage_control->error.held;
    if (!lacks || p->birth & TS_BORN_UNSAFE) return;
    cage_stop(TS_STOP_SETUP, "it cannot be confined here: lacks 0x%x", lacks);
}

static void limit(const ts_call_plan *p, int what, uint64_t n)
{
    cage_must(p, ts_limit(what, n), "resource limits");
}

/* Bytes of data, and bytes in total, that this process has mapped so far. */
static uint64_t mapped_bytes(void)
{
    unsigned long long pages = 0;
    FILE              *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%llu", &pages) != 1) pages = (unsigned long long)1 << 20;
    if (f) fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void cage_limit(const ts_call_plan *p)
{
    const bool gpu = ts_on_gpu(p->class), python = ts_in_python(p->class);
    /* OpenBLAS has a buffer per thread, 32 MiB in NumPy's own build and 128 MiB in others; each
     * thread's heap takes 128 MiB of address space. */
    const uint64_t buffers = python ? (uint64_t)p->n_threads * 128 * MIB : 0;
    const uint64_t stacks = ((uint64_t)p->n_threads + 4) * 10 * MIB + buffers;
    const uint64_t mapped = python ? 2 * p->region_bytes + 4096 * (uint64_t)MIB + buffers
                                   : mapped_bytes() + 256 * (uint64_t)MIB;
    limit(p, RLIMIT_CORE, 0);
    if (!gpu)
        limit(p, RLIMIT_FSIZE, 0); /* a driver writes to memory files; no other file is writable */
    limit(p, RLIMIT_NOFILE, gpu ? 1024 : 128);
    limit(p, RLIMIT_NPROC, p->n_threads + 128u);
    limit(p, RLIMIT_STACK, 8 * MIB);
    limit(p, RLIMIT_DATA, p->memory_bytes + stacks);
    if (!gpu) limit(p, RLIMIT_AS, mapped + p->memory_bytes + stacks); /* CUDA reserves all of it */
}

/* ---- faults: record the cause for the judge, and exit ---- */

static size_t probe_bytes; /* 0: sealed, no system call is possible */

static void on_fault(int sig, siginfo_t *info, void *context)
{
    ts_control *c = cage_control;
    c->fault.address = (uintptr_t)info->si_addr;
    c->fault.kind = TS_TRAP_OTHER;
    c->fault.write = ts_isa_fault_writes(context);
    if (ts_isa_fault_clock(sig, info, context)) c->fault.kind = TS_TRAP_CLOCK;
    if (probe_bytes && mmap(NULL, probe_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
        c->fault.kind = TS_TRAP_MEMORY;
    c->fault.signal = (uint32_t)sig;
    syscall(SYS_exit_group, 128 + sig);
}

void cage_fault_stack(void)
{
    /* The signal frame contains all registers: tens of KiB with wide vectors or matrices. */
    const size_t  least = 4 * (size_t)getauxval(AT_MINSIGSTKSZ), usual = 64 << 10;
    const size_t  n = least > usual ? least : usual;
    const stack_t s = { .ss_sp = malloc(n), .ss_size = n };
    if (!s.ss_sp || sigaltstack(&s, NULL)) cage_stop(TS_STOP_SETUP, "no stack for signals");
}

void cage_catch_faults(size_t memory_bytes)
{
    const struct sigaction a = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    const int              fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT };
    probe_bytes = memory_bytes / 4;
    cage_fault_stack();
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (sigaction(fatal[i], &a, NULL)) cage_stop(TS_STOP_SETUP, "signal %d", fatal[i]);
}

/* ---- Landlock: read access to system libraries and the entrant's own files ---- */

/* Failure leaves the path closed. */
static void open_path(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr a = { .allowed_access = rights };
    a.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (a.parent_fd < 0) return;
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0)) {
        a.allowed_access &= ~(uint64_t)LANDLOCK_ACCESS_FS_READ_DIR; /* not valid for a file */
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
    }
    close(a.parent_fd);
}

void cage_landlock(const ts_call_plan *p)
{
    const uint64_t    read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    const char *const system[] = { "/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom" };
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    struct landlock_ruleset_attr all = { .handled_access_fs = (1u << 13) - 1 };
    if (abi < 1) return;
    if (abi >= 2) all.handled_access_fs |= 1u << 13;
    if (abi >= 3) all.handled_access_fs |= 1u << 14;
    const int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0) return;
    for (size_t i = 0; i < sizeof system / sizeof *system; i++) open_path(rules, system[i], read);
    if (ts_on_gpu(p->class)) {
        const char *const driver[] = { "/proc", "/sys", "/etc", "/dev" };
        for (size_t i = 0; i < sizeof driver / sizeof *driver; i++)
            open_path(rules, driver[i], read | LANDLOCK_ACCESS_FS_WRITE_FILE);
        if (getenv("TOUCHSTONE_LIBCUDA")) open_path(rules, getenv("TOUCHSTONE_LIBCUDA"), read);
        open_path(rules, "/dev/shm", all.handled_access_fs & ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE);
    }
    if (ts_in_python(p->class)) {
        /* Packages ask which instructions the processor has: PyTorch cannot convert halves
         * without. */
        const char *const processor[] = { "/proc/cpuinfo", "/sys/devices/system/cpu" };
        for (size_t i = 0; i < sizeof processor / sizeof *processor; i++)
            open_path(rules, processor[i], read);
        char path[CAGE_FOLDERS][CAGE_PATH];
        for (int i = cage_folders(p, path) - 1; i >= 0; i--) open_path(rules, path[i], read);
        open_path(rules, p->python, read | LANDLOCK_ACCESS_FS_EXECUTE);
        if (cage_interpreter(p->python, path[0]))
            open_path(rules, path[0], read | LANDLOCK_ACCESS_FS_EXECUTE);
    }
    if (!syscall(SYS_landlock_restrict_self, rules, 0))
        cage_control->error.held |= TS_HELD_LANDLOCK;
    close(rules);
}

/* ---- clocks: neither the time stamp counter nor the vDSO ---- */

void cage_hide_clock(void)
{
    char  line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    bool  gone = f != NULL;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long lo, hi;
        if (!strstr(line, "[vvar") && !strstr(line, "[vdso]")) continue;
        if (sscanf(line, "%lx-%lx", &lo, &hi) != 2 || munmap((void *)lo, hi - lo)) gone = false;
    }
    if (f) fclose(f);
    if (!prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) && gone)
        cage_control->error.held |= TS_HELD_TSC;
}
