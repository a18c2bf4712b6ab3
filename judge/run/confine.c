/* SPDX-License-Identifier: Apache-2.0 */
/* confine.c - a process with limits, Landlock, another user and empty namespaces, for the
 * compiler. */
#define _GNU_SOURCE
#include "confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build.h"
#include "clock.h"
#include "hear.h"
#include "limit.h"

/* Landlock's numbers: the C library has no wrappers, and old headers lack the constants. */
enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, PATH_BENEATH = 1 };
enum { MAY_READ = 1 << 0 | 1 << 2 | 1 << 3, MAY_USE_FILE = 1 << 1 | 1 << 2 };

struct ruleset {
    uint64_t files;
};

struct beneath {
    uint64_t allowed;
    int32_t  fd;
} __attribute__((packed));

static bool allow(int rules, const char *path, uint64_t access)
{
    struct stat    st;
    struct beneath b = { access, open(path, O_PATH | O_CLOEXEC) };
    if (b.fd < 0) return errno == ENOENT;
    if (!fstat(b.fd, &st) && !S_ISDIR(st.st_mode)) b.allowed &= 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14;
    const bool ok = !syscall(ADD_RULE, rules, PATH_BENEATH, &b, 0);
    close(b.fd);
    return ok;
}

/* A compiler with an absolute path may read its own installation: the folder above its own. */
static bool allow_home(int rules, const char *program)
{
    char  home[4096];
    char *slash;
    snprintf(home, sizeof home, "%s", program);
    for (int i = 0; i < 2; i++)
        if ((slash = strrchr(home, '/'))) *slash = 0;
    return !*home || !strchr(program, '/') || allow(rules, home, MAY_READ);
}

static bool lock_files(const char *folder, const char *program)
{
    static const char *const readable[] = {
        "/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives"
    };
    const long abi = syscall(CREATE_RULESET, NULL, 0, 1);
    if (abi < 1) return false;
    /* Version 1 has thirteen rights, versions 2 and 3 one more each. */
    struct ruleset r = { ((uint64_t)1 << (abi >= 3 ? 15 : abi == 2 ? 14 : 13)) - 1 };
    const int      rules = (int)syscall(CREATE_RULESET, &r, sizeof r, 0);
    bool           ok = rules >= 0 && allow(rules, folder, r.files);
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++)
        ok = ok && allow(rules, readable[i], MAY_READ);
    ok = ok && allow(rules, "/dev/null", MAY_USE_FILE) && allow_home(rules, program);
    return ok && !syscall(RESTRICT_SELF, rules, 0);
}

/* What the child says before it becomes the compiler. It is in shared memory, which the compiler
 * does not have: only the judge's own code can blame the judge. */
typedef struct birth {
    unsigned guards;
    int      error;       /* an errno */
    char     failed[128]; /* the step that failed; "": none */
} birth;

/* Ends the child unless a step of its confinement has worked. */
static void must(birth *b, bool worked, const char *step)
{
    if (worked) return;
    b->error = errno;
    snprintf(b->failed, sizeof b->failed, "%s", step);
    _exit(126);
}

/* Switches to another user, if permitted. The folder already belongs to that user. */
static bool step_down(birth *b, bool given)
{
    if (!given) return false;
    must(b, ts_limit(RLIMIT_NPROC, 512), "RLIMIT_NPROC");
    return !setgroups(0, NULL) && !setresgid(65534, 65534, 65534) &&
           !setresuid(65534, 65534, 65534);
}

_Noreturn static void become(birth *b, const char *folder, const char *cwd, const char *const *argv,
                             int limit_s, bool given, bool apart, int out)
{
    static const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C",
                                       "SOURCE_DATE_EPOCH=1", NULL, NULL };
    const char              *all[sizeof env / sizeof *env];
    char                     tmp[128] = "TMPDIR=";
    must(b, ts_limit(RLIMIT_CPU, (rlim_t)limit_s), "RLIMIT_CPU");
    must(b, ts_limit(RLIMIT_AS, (rlim_t)TS_CONFINED_GIB << 30), "RLIMIT_AS");
    must(b, ts_limit(RLIMIT_FSIZE, (rlim_t)TS_CONFINED_MIB << 20), "RLIMIT_FSIZE");
    must(b, ts_limit(RLIMIT_CORE, 0), "RLIMIT_CORE");
    if (apart) b->guards |= TS_GUARD_NETWORK;
    if (step_down(b, given)) b->guards |= TS_GUARD_USER;
    /* Again: a change of user clears it. */
    must(b, !prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
    must(b, !chdir(cwd), cwd);
    must(b, !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS");
    must(b, dup2(open("/dev/null", O_RDONLY), 0) == 0, "/dev/null");
    if (lock_files(folder, argv[0])) b->guards |= TS_GUARD_FILES;
    must(b, dup2(out, 1) == 1 && dup2(out, 2) == 2, "dup2");
    must(b, !syscall(SYS_close_range, 3u, ~0u, 0u), "close_range");
    memcpy(all, env, sizeof all);
    strncat(tmp, folder, sizeof tmp - 8);
    all[3] = tmp;
    execvpe(argv[0], (char *const *)argv, (char *const *)all);
    must(b, false, argv[0]);
    abort();
}

/* ---- the init process of the namespace ---- */

enum { SIGNALLED = 128 }; /* plus the number of the signal that ended the compiler */

/* PID 1 of the namespace: when it ends, for instance with the judge, the kernel kills everything
 * that the compiler started. */
_Noreturn static void stand_by(pid_t compiler)
{
    int   status = 0;
    pid_t pid;
    do pid = waitpid(-1, &status, 0);
    while (pid != compiler && (pid > 0 || errno == EINTR));
    _exit(WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status));
}

/* Like fork, but in new PID and network namespaces if permitted. */
static pid_t split(bool *apart)
{
    const long own = geteuid() ? CLONE_NEWUSER : 0;
    fflush(NULL);
    const pid_t pid =
        (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID | CLONE_NEWNET | own, 0, 0, 0, 0);
    *apart = pid >= 0;
    return *apart ? pid : fork();
}

/* How many processes this machine has killed for want of memory; -1: it does not say. */
static long kills_for_memory(void)
{
    char  text[128];
    long  n = -1;
    FILE *f = fopen("/proc/vmstat", "re");
    while (f && n < 0 && fgets(text, sizeof text, f)) sscanf(text, "oom_kill %ld", &n);
    if (f) fclose(f);
    return n;
}

/* The beginning of its output. */
static void listen_to(int in, double end_s, ts_confined *c)
{
    size_t n;
    ts_hear(in, end_s, true, c->said, sizeof c->said - 1, &n);
    for (size_t i = 0; i < n; i++)
        if (!c->said[i]) c->said[i] = '?';
}

/* Whether a process of its group is runnable. *cpu_s: what the group has used, in processes that
 * are killed before anything has reaped and counted them. */
static bool has_runnable(pid_t group, double *cpu_s)
{
    char           path[320], text[512];
    struct dirent *e;
    bool           any = false;
    DIR           *d = opendir("/proc");
    while (d && (e = readdir(d))) {
        unsigned long used[4];
        char          is;
        int           its = 0;
        if (*e->d_name < '1' || *e->d_name > '9') continue;
        snprintf(path, sizeof path, "/proc/%.200s/stat", e->d_name);
        const int     fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0) close(fd);
        text[n > 0 ? n : 0] = 0;
        const char *state = strrchr(text, ')'); /* "12 (name) R parent group ..." */
        if (!state ||
            sscanf(state, ") %c %*d %d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu", &is, &its,
                   &used[0], &used[1], &used[2], &used[3]) != 6 ||
            its != group)
            continue;
        any |= is == 'R';
        for (int i = 0; i < 4; i++) *cpu_s += (double)used[i] / (double)sysconf(_SC_CLK_TCK);
    }
    if (d) closedir(d);
    return any;
}

/* Waits for it and kills what it started. Its group is dead before it is reaped, so that its PID
 * cannot be reused. */
static void end_it(pid_t pid, double end_s, double limit_s, ts_confined *c)
{
    siginfo_t     info = { 0 };
    struct rusage used = { 0 };
    while (!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid &&
           ts_seconds() < end_s)
        usleep(500);
    c->late = !info.si_pid;
    double     seen_s = 0;
    const bool runnable = c->late && has_runnable(pid, &seen_s);
    kill(-pid, SIGKILL);
    wait4(pid, &c->status, 0, &used);
    if (WIFEXITED(c->status) && WEXITSTATUS(c->status) > SIGNALLED)
        c->status = WEXITSTATUS(c->status) - SIGNALLED; /* as waitpid would give it */
    c->cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
               1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    if (c->cpu_s < seen_s) c->cpu_s = seen_s;
    c->starved = runnable && c->cpu_s < limit_s / 2;
    c->gib = (double)used.ru_maxrss / (1 << 20);
}

static bool cannot(ts_confined *c, const char *step, int error)
{
    snprintf(c->said, sizeof c->said, "%s: %s", step, strerror(error));
    return false;
}

static bool run_confined(birth *b, const char *folder, const char *cwd, const char *const *argv,
                         int limit_s, ts_confined *c)
{
    int        out[2];
    bool       apart;
    const bool given = geteuid() == 0 && !chown(folder, 65534, 65534);
    if (pipe2(out, O_CLOEXEC)) return cannot(c, "pipe", errno);
    const pid_t pid = split(&apart);
    if (pid == 0) {
        must(b, !prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
        /* Until it is the compiler: that cannot attach to the process that waits for it. */
        must(b, !prctl(PR_SET_DUMPABLE, 0), "PR_SET_DUMPABLE");
        setpgid(0, 0);
        const pid_t compiler = apart ? fork() : 0;
        if (!compiler) become(b, folder, cwd, argv, limit_s, given, apart, out[1]);
        must(b, compiler > 0, "fork");
        close(out[1]);
        stand_by(compiler);
    }
    const int error = errno;
    close(out[1]);
    if (pid > 0) {
        const double end_s = ts_seconds() + limit_s;
        setpgid(pid, pid);
        listen_to(out[0], end_s, c);
        end_it(pid, end_s, limit_s, c);
    }
    close(out[0]);
    c->guards = b->guards;
    if (pid < 0) return cannot(c, "fork", error);
    return !*b->failed || cannot(c, b->failed, b->error);
}

bool ts_confine(const char *folder, const char *cwd, const char *const *argv, int limit_s,
                ts_confined *c)
{
    birth     *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const long n_kills = kills_for_memory();
    memset(c, 0, sizeof *c);
    if (b == MAP_FAILED) return cannot(c, "mmap", errno);
    const bool ok = run_confined(b, folder, cwd, argv, limit_s, c);
    c->out_of_memory = n_kills < 0 || kills_for_memory() > n_kills;
    munmap(b, sizeof *b);
    return ok;
}
