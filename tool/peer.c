/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - starts a peer's Python process and exchanges lines with it. */
#define _GNU_SOURCE
#include "peer.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apart.h"
#include "awake.h"
#include "ceiling.h"
#include "clock.h"
#include "dtype.h"
#include "tool.h"

enum { LIMIT_MS = 300000 }; /* some peers compile first */

struct ts_peer {
    pid_t           pid;
    FILE           *to, *from;
    ts_device       device;
    const ts_arena *arena;
    char            line[512];
};

/* python/ is next to the build folder; in an installation, under share/. */
static bool find_script(char *path, size_t n)
{
    static const char *const places[] = { "../python/peers.py", "../share/touchstone/peers.py",
                                          NULL };
    return ts_find(places, path, n);
}

static bool answer(ts_peer *p)
{
    struct pollfd ready = { .fd = fileno(p->from), .events = POLLIN };
    if (poll(&ready, 1, LIMIT_MS) != 1) {
        snprintf(p->line, sizeof p->line, "no no output within the time limit");
        kill(p->pid, SIGKILL);
        return false;
    }
    if (!fgets(p->line, sizeof p->line, p->from)) {
        snprintf(p->line, sizeof p->line, "no the peer's process ended");
        return false;
    }
    p->line[strcspn(p->line, "\n")] = 0;
    return !strncmp(p->line, "ok", 2);
}

static bool say(ts_peer *p, const char *text)
{
    fprintf(p->to, "%s\n", text);
    fflush(p->to);
    return answer(p);
}

static void become_python(const char *name, ts_device device, int n_threads, int fd,
                          const int in[2], const int out[2])
{
    const char *asked = getenv("TOUCHSTONE_PYTHON"), *python = asked ? asked : "python3";
    char        path[4200], memory[32], threads[32];
    const int   own =
        fcntl(fd, F_DUPFD, 3); /* before 0 and 1 are replaced, in case it is one of them */
    dup2(in[0], 0);
    dup2(out[1], 1);
    /* Only the descriptors that the peer needs survive exec. */
    snprintf(memory, sizeof memory, "%d", own);
    snprintf(threads, sizeof threads, "%d", n_threads);
    setenv("OMP_NUM_THREADS", threads, 1);
    if (find_script(path, sizeof path))
        execlp(python, python, "-u", path, name, device == TS_CUDA ? "cuda" : "cpu", threads,
               memory, (char *)NULL);
    _exit(127);
}

ts_peer *ts_peer_start(const char *name, ts_device device, int n_threads, const ts_arena *m,
                       char *text, size_t n_text)
{
    ts_peer *p = calloc(1, sizeof *p);
    int      in[2], out[2];
    if (!p || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) abort();
    fflush(NULL);
    signal(SIGPIPE, SIG_IGN);
    p->pid = fork();
    if (p->pid == 0) become_python(name, device, n_threads, m->fd, in, out);
    close(in[0]);
    close(out[1]);
    p->to = fdopen(in[1], "w");
    p->from = fdopen(out[0], "r");
    p->device = device;
    p->arena = m;
    if (p->pid > 0 && p->to && p->from && answer(p)) return p;
    snprintf(text, n_text, "%s",
             strlen(p->line) > 3 ? p->line + 3 : "the process could not be started");
    ts_peer_stop(&p);
    return NULL;
}

void ts_peer_stop(ts_peer **p)
{
    if (!*p) return;
    if ((*p)->to) fclose((*p)->to); /* end of file: the peer exits */
    if ((*p)->from) fclose((*p)->from);
    if ((*p)->pid > 0) {
        kill((*p)->pid, SIGTERM);
        waitpid((*p)->pid, NULL, 0);
    }
    free(*p);
    *p = NULL;
}

bool ts_peer_load(ts_peer *p, const ts_exam *e, char *text, size_t n_text)
{
    const ts_arena   *m = p->arena;
    const char *const role[] = { "in", "out", "inout" };
    fprintf(p->to, "load %s %s %zu\n", e->task->name, ts_format_of(e->c->dtype)->name, m->used);
    for (int i = 0; i < m->n_scalars; i++)
        fprintf(p->to, "scalar %s %.17g%s\n", m->scalar[i].name, m->scalar[i].value,
                ts_task_number(e->task, m->scalar[i].name)->integer ? " integer" : "");
    for (int i = 0; i < m->n; i++) {
        const ts_arena_buf *b = &m->buf[i];
        int64_t             extent[TS_MAX_RANK];
        const int           n = ts_task_shape(e->task, e->c, &b->b, extent);
        fprintf(p->to, "buf %s %s %s %lld %lld %lld %zu", b->b.name, role[b->b.role],
                ts_format_of(b->b.dtype)->name, (long long)b->b.n_rows, (long long)b->b.n_cols,
                (long long)b->b.row_stride, (size_t)(b->p - m->base));
        for (int k = 0; k < n; k++) fprintf(p->to, " %lld", (long long)extent[k]);
        fprintf(p->to, "\n");
    }
    const bool ok = say(p, "end");
    if (!ok) snprintf(text, n_text, "%s", p->line + (strlen(p->line) > 3 ? 3 : 0));
    return ok;
}

bool ts_peer_run(ts_peer *p, double *ns)
{
    if (p->device == TS_CPU)
        for (int i = 0; i < p->arena->n; i++)
            ts_flush_lines(p->arena->buf[i].lo, p->arena->buf[i].hi);
    cpu_set_t  was;
    const bool apart = p->device == TS_CPU && ts_threads_apart(p->pid, &was);
    if (apart) {
        ts_awake_begin(&was);
        ts_awake_go();
    }
    const double begin = ts_now_ns();
    const bool   ok = say(p, "run");
    *ns = ts_now_ns() - begin;
    if (apart) ts_awake_end();
    if (apart) ts_threads_free(p->pid, &was);
    if (ok && p->device == TS_CUDA) *ns = strtod(p->line + 2, NULL);
    return ok;
}

bool ts_peer_store(ts_peer *p)
{
    return say(p, "store");
}

const char *ts_peer_said(const ts_peer *p)
{
    return p->line;
}

bool ts_peers_known(const char *list)
{
    while (list && *list) {
        const size_t n = strcspn(list, ",");
        bool         known = false;
        for (const char *p = TS_PEERS; *p; p += strcspn(p, ","), p += *p == ',')
            known |= strcspn(p, ",") == n && !strncmp(p, list, n);
        if (!known)
            return ts_fail("--peers: got '%.*s', expected some of %s", (int)n, list, TS_PEERS);
        list += n + (list[n] == ',');
    }
    return true;
}
