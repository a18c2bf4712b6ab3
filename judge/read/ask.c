/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - starts a reader, gives it a question, and takes its reply or its end.
 *
 * The question is a file in memory, complete before the reader starts, so that neither can wait for
 * the other. The reader confines itself before it reads; see judge/reader/main.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cage.h"
#include "clock.h"
#include "hear.h"
#include "limit.h"
#include "reading.h"

static bool put(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;
    ssize_t     done;
    for (; n; p += done, n -= (size_t)done)
        if ((done = write(fd, p, n)) <= 0) return false;
    return true;
}

static int question_of(const ts_question *q, const ts_source *file)
{
    const int fd = memfd_create("question", MFD_CLOEXEC);
    bool      ok = fd >= 0 && put(fd, q, sizeof *q);
    for (uint32_t i = 0; ok && i < q->n_files; i++) ok = put(fd, file[i].bytes, file[i].n);
    if (ok && !lseek(fd, 0, SEEK_SET)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Says which step failed where the answer would be. */
static void must(bool worked, int out, const char *step)
{
    if (worked) return;
    dprintf(out, "%s: %s", step, strerror(errno));
    _exit(126);
}

_Noreturn static void become(const char *path, int limit_s, int in, int out)
{
    char *const argv[] = { (char[]) { "touchstone-reader" }, NULL }, *const env[] = { NULL };
    must(!prctl(PR_SET_PDEATHSIG, SIGKILL), out, "PR_SET_PDEATHSIG");
    /* The judge's clock, which says why, is first. */
    must(ts_limit(RLIMIT_CPU, (rlim_t)limit_s + 1), out, "RLIMIT_CPU");
    must(ts_limit(RLIMIT_AS, (rlim_t)256 << 20), out, "RLIMIT_AS");
    must(ts_limit(RLIMIT_FSIZE, 0), out, "RLIMIT_FSIZE");
    must(ts_limit(RLIMIT_CORE, 0), out, "RLIMIT_CORE");
    must(dup2(open("/dev/null", O_WRONLY), 2) == 2, out, "/dev/null");
    must(dup2(in, 0) == 0 && dup2(out, 1) == 1, out, "dup2");
    must(!syscall(SYS_close_range, 3u, ~0u, 0u), 1, "close_range");
    execve(path, argv, env);
    must(false, 1, path);
    abort();
}

/* Whether it could have used half of its time limit, but had no core. A busy machine is not its
 * author's doing. */
static bool is_starved(pid_t pid, int limit_s)
{
    char            path[64], text[256];
    struct timespec used = { 0 };
    clockid_t       clock;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const int     fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *state = strrchr(text, ')'); /* "12 (name) R ..." */
    if (!state || strncmp(state, ") R", 3)) return false;
    return !clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &used) &&
           used.tv_sec < limit_s / 2;
}

/* Reads the reply; false: it was not complete in time. A starved process gets the time limit again,
 * up to PATIENCE times. */
static bool hear_reply(int from, pid_t pid, int limit_s, ts_reply *r, bool *starved)
{
    enum { PATIENCE = 10 };
    bool in_time = false;
    *starved = true;
    for (int i = 0; i < PATIENCE && *starved; i++) {
        size_t n;
        in_time = ts_hear(from, ts_seconds() + limit_s, false, r->bytes + r->n,
                          sizeof r->bytes - r->n, &n);
        r->n += n;
        *starved = !in_time && is_starved(pid, limit_s);
    }
    return in_time;
}

/* Ends it, and says in words how it ended; "": well. One that has closed its pipe is dead, or has
 * nothing left to do: SIGKILL then changes no status. */
static void end_of(pid_t pid, bool in_time, int limit_s, char *text, size_t n)
{
    int status = 0;
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    *text = 0;
    if (!in_time) snprintf(text, n, "took more than %d s", limit_s);
    else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        snprintf(text, n, "crashed: %s", strsignal(WTERMSIG(status)));
    else if (WIFEXITED(status) && WEXITSTATUS(status))
        snprintf(text, n, "ended with status %d", WEXITSTATUS(status));
}

/* Without a byte of the question no text of an entrant can have had to do with it: what the pipe
 * brought, if anything, is the step of our own code that failed. The reader's filter leaves no
 * system call that would set the position back. A reply with all its bytes counts, however its
 * sender ended. */
static bool has_replied(int question, bool in_time, const char *end, const ts_reply *r,
                        ts_refusal *why)
{
    if (lseek(question, 0, SEEK_CUR) <= 0)
        return ts_refuse(why, TS_FAULT_OF_JUDGE, "the reader %s%s%.*s", *end ? end : "read nothing",
                         r->n ? ": " : "", (int)(r->n < 200 ? r->n : 200), (const char *)r->bytes);
    return (in_time && (!*end || r->n >= sizeof(ts_reading))) ||
           ts_refuse(why, "entry", "the reader %s", end);
}

static bool no_reader(ts_refusal *why, const char *step)
{
    return ts_refuse(why, TS_FAULT_OF_JUDGE, "the reader: %s: %s", step, strerror(errno));
}

bool ts_ask_process(const void *reader, const ts_question *q, const ts_source *file, ts_reply *r,
                    ts_refusal *why)
{
    const ts_reader_file *f = reader;
    char                  path[4096], end[128];
    int                   out[2];
    const char           *program = f->path;
    r->n = 0;
    if (!program && ts_beside("touchstone-reader", path, sizeof path)) program = path;
    if (!program)
        return ts_refuse(why, TS_FAULT_OF_JUDGE,
                         "the reader: touchstone-reader not found next to the program; reinstall");
    const int in = question_of(q, file);
    if (in < 0) return no_reader(why, "memory for the question");
    if (pipe2(out, O_CLOEXEC)) return no_reader(why, "pipe"), close(in), false;
    const pid_t pid = fork();
    if (pid == 0) become(program, f->limit_s, in, out[1]);
    bool ok = pid > 0 || no_reader(why, "fork");
    close(out[1]);
    if (ok) {
        bool       starved;
        const bool in_time = hear_reply(out[0], pid, f->limit_s, r, &starved);
        end_of(pid, in_time, f->limit_s, end, sizeof end);
        ok = starved
                 ? ts_refuse(why, TS_FAULT_OF_JUDGE, "the reader %s: the machine is too busy", end)
                 : has_replied(in, in_time, end, r, why);
    }
    close(out[0]);
    close(in);
    return ok;
}
