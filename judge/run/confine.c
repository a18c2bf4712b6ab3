/* SPDX-License-Identifier: Apache-2.0 */
/* confine.c - a process with limits, Landlock, another user and empty namespaces, for the
 * compiler. */
#define _GNU_SOURCE
#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "build.h"

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

static void limit(int what, rlim_t most)
{
    const struct rlimit r = { most, most };
    setrlimit(what, &r);
}

/* Switches to another user, if permitted. The folder already belongs to that user. */
static bool step_down(bool given)
{
    if (!given) return false;
    limit(RLIMIT_NPROC, 512);
    return !setgroups(0, NULL) && !setresgid(65534, 65534, 65534) &&
           !setresuid(65534, 65534, 65534);
}

static void become(const char *folder, const char *cwd, const char *const *argv, int limit_s,
                   bool given, bool apart, int out)
{
    static const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C",
                                       "SOURCE_DATE_EPOCH=1", NULL, NULL };
    const char              *all[sizeof env / sizeof *env];
    char                     tmp[128] = "TMPDIR=";
    unsigned                 guards = 0;
    limit(RLIMIT_CPU, (rlim_t)limit_s);
    limit(RLIMIT_AS, (rlim_t)TS_CONFINED_GIB << 30);
    limit(RLIMIT_FSIZE, (rlim_t)TS_CONFINED_MIB << 20);
    limit(RLIMIT_CORE, 0);
    if (apart) guards |= TS_GUARD_NETWORK;
    if (step_down(given)) guards |= TS_GUARD_USER;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
    const int null = open("/dev/null", O_RDONLY);
    if (chdir(cwd) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || dup2(null, 0) < 0) _exit(126);
    if (lock_files(folder, argv[0])) guards |= TS_GUARD_FILES;
    const unsigned char first = (unsigned char)guards;
    if (write(out, &first, 1) != 1 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    memcpy(all, env, sizeof all);
    strncat(tmp, folder, sizeof tmp - 8);
    all[3] = tmp;
    execvpe(argv[0], (char *const *)argv, (char *const *)all);
    _exit(127);
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

static long left_ms(const struct timespec *end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const long ms = (end->tv_sec - now.tv_sec) * 1000 + (end->tv_nsec - now.tv_nsec) / 1000000;
    return ms > 0 ? ms : 0;
}

/* Keeps the beginning of its output and discards the rest, so that it neither blocks nor fills
 * memory. */
static void listen_to(int in, const struct timespec *end, ts_confined *c)
{
    struct pollfd ready = { .fd = in, .events = POLLIN };
    char          more[4096];
    size_t        n = 0;
    unsigned char guards = 0;
    bool          first = true;
    while (poll(&ready, 1, (int)left_ms(end)) == 1) {
        const bool    keep = !first && n < sizeof c->said - 1;
        const ssize_t got = first  ? read(in, &guards, 1)
                            : keep ? read(in, c->said + n, sizeof c->said - 1 - n)
                                   : read(in, more, sizeof more);
        if (got <= 0) break;
        if (keep) n += (size_t)got;
        if (first) c->guards = guards;
        first = false;
    }
    for (size_t i = 0; i < n; i++)
        if (!c->said[i]) c->said[i] = '?';
}

bool ts_confine(const char *folder, const char *cwd, const char *const *argv, int limit_s,
                ts_confined *c)
{
    int             out[2];
    struct timespec end;
    const bool      given = geteuid() == 0 && !chown(folder, 65534, 65534);
    memset(c, 0, sizeof *c);
    if (pipe2(out, O_CLOEXEC)) return false;
    bool        apart;
    const pid_t pid = split(&apart);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        const pid_t compiler = apart ? fork() : 0;
        if (!compiler) become(folder, cwd, argv, limit_s, given, apart, out[1]);
        close(out[1]);
        stand_by(compiler);
    }
    close(out[1]);
    if (pid > 0) {
        setpgid(pid, pid);
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += limit_s;
        listen_to(out[0], &end, c);
        /* Not reaped until its group is dead, so that its PID cannot be reused. */
        siginfo_t info = { 0 };
        while (!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid &&
               left_ms(&end) > 0)
            usleep(500);
        kill(-pid, SIGKILL);
        c->late = !info.si_pid;
        struct rusage used = { 0 };
        wait4(pid, &c->status, 0, &used);
        if (WIFEXITED(c->status) && WEXITSTATUS(c->status) > SIGNALLED)
            c->status = WEXITSTATUS(c->status) - SIGNALLED; /* as waitpid would give it */
        c->cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
        c->gib = (double)used.ru_maxrss / (1 << 20);
    }
    close(out[0]);
    return pid > 0;
}
