/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - starts a reader, gives it a question, and takes its reply or its end.
 *
 * The question is a file in memory, complete before the reader starts, so that neither can wait for
 * the other. The reader confines itself before it reads; see judge/reader/main.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage.h"
#include "clock.h"
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

static void limit(int what, rlim_t most)
{
    const struct rlimit r = { most, most };
    setrlimit(what, &r);
}

_Noreturn static void become(const char *path, int limit_s, int in, int out)
{
    char *const argv[] = { (char[]) { "touchstone-reader" }, NULL }, *const env[] = { NULL };
    const int null = open("/dev/null", O_WRONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    limit(RLIMIT_CPU, (rlim_t)limit_s + 1); /* the judge's clock, which says why, is first */
    limit(RLIMIT_AS, (rlim_t)256 << 20);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0) _exit(126);
    syscall(SYS_close_range, 3u, ~0u, 0u);
    execve(path, argv, env);
    _exit(127);
}

/* False: it has neither ended its reply nor itself in time. */
static bool listen_to(int in, double end_s, ts_reply *r)
{
    struct pollfd ready = { .fd = in, .events = POLLIN };
    r->n = 0;
    while (r->n < sizeof r->bytes) {
        const double left_s = end_s - ts_seconds();
        const int    n = left_s > 0 ? poll(&ready, 1, (int)(left_s * 1e3) + 1) : 0;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        const ssize_t got = read(in, r->bytes + r->n, sizeof r->bytes - r->n);
        if (got <= 0) return true;
        r->n += (size_t)got;
    }
    return true;
}

/* What became of it. One that has closed its pipe is dead, or has nothing left to do: SIGKILL then
 * changes no status. A reply with all its bytes counts, however its sender ended. */
static bool ended_well(pid_t pid, bool in_time, const ts_reply *r, int limit_s, ts_refusal *why)
{
    int status = 0;
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (!in_time) return ts_refuse(why, "entry", "the reader took more than %d s", limit_s);
    if (r->n >= sizeof(ts_reading)) return true;
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
        return ts_refuse(why, "entry", "the reader crashed: %s", strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status))
        return ts_refuse(why, "entry", "the reader ended with status %d", WEXITSTATUS(status));
    return true;
}

bool ts_ask_process(const void *reader, const ts_question *q, const ts_source *file, ts_reply *r,
                    ts_refusal *why)
{
    const ts_reader_file *f = reader;
    char                  path[4096];
    int                   out[2];
    const char           *program = f->path;
    if (!program && ts_beside("touchstone-reader", path, sizeof path)) program = path;
    if (!program) return ts_refuse(why, "entry", "the reader touchstone-reader was not found");
    const int in = question_of(q, file);
    if (in < 0 || pipe2(out, O_CLOEXEC)) {
        if (in >= 0) close(in);
        return ts_refuse(why, "entry", "the reader: %s", strerror(errno));
    }
    const double end_s = ts_seconds() + f->limit_s;
    const pid_t  pid = fork();
    if (pid == 0) become(program, f->limit_s, in, out[1]);
    close(in);
    close(out[1]);
    const bool in_time = pid > 0 && listen_to(out[0], end_s, r);
    close(out[0]);
    if (pid < 0) return ts_refuse(why, "entry", "the reader: %s", strerror(errno));
    return ended_well(pid, in_time, r, f->limit_s, why);
}
