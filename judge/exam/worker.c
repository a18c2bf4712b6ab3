/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - the worker process: takes orders, runs them on its backend, reports crashes and
 * hangs. */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend.h"
#include "cpu.h"
#include "isa_fault.h"

/* Memory that the two processes share in addition to the arena: the order for the worker, and its
 * reply. */
typedef struct board {
    ts_order      order;
    ts_arena      arena;
    unsigned char args[sizeof((ts_session *)0)->args];
    ts_reply      reply;
    int           signal; /* that killed the worker, and the address of the fault */
    uintptr_t     address;
    bool          write;
} board;

struct ts_worker {
    ts_function     function;
    const ts_arena *arena;
    board          *board;
    pid_t           pid; /* 0: not running */
    int             fd;
};

/* ---- in the worker ---- */

static board *own_board; /* for the signal handler */

static void on_fault(int sig, siginfo_t *info, void *context)
{
    own_board->signal = sig;
    own_board->address = (uintptr_t)info->si_addr;
    own_board->write = ts_isa_fault_writes(context);
    _exit(1);
}

static void catch_faults(void)
{
    /* The signal frame contains all registers: tens of KiB with wide vectors or matrices. */
    const size_t           least = 4 * (size_t)getauxval(AT_MINSIGSTKSZ), usual = 64 << 10;
    const size_t           n = least > usual ? least : usual;
    const stack_t          alternate = { .ss_sp = malloc(n), .ss_size = n };
    const struct sigaction act = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    if (alternate.ss_sp) sigaltstack(&alternate, NULL);
    const int fatal[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT };
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) sigaction(fatal[i], &act, NULL);
}

void ts_session_workspace(ts_session *s, const ts_order *o)
{
    unsigned char args[sizeof s->args];
    size_t        n = 0;
    memcpy(args, s->args, sizeof args);
    /* The call's: a pointer that is NULL may choose another way than one that is not aligned. */
    if (o->spoil == TS_NO_EMPTY) ts_arena_drop_empty(s->arena, args);
    s->reply->status = TS_OK;
    if (s->function->workspace) s->reply->status = s->function->workspace(args, &s->exec, &n);
    s->reply->workspace_bytes = s->exec.workspace_bytes = s->reply->status ? 0 : n;
}

/* Invalid calls 0 and 1 have a missing and a short workspace, if the function needs one; the task
 * defines the rest. */
static bool spoil(ts_session *s, const ts_order *o, void *args, ts_exec *x)
{
    s->reply->must = TS_E_WORKSPACE;
    if (o->spoil >= 2) return ts_task_spoil(o->task, o->spoil - 2, args, x, &s->reply->must);
    if (o->spoil == 0) x->workspace = NULL;
    if (x->workspace_bytes) x->workspace_bytes -= o->spoil;
    return true;
}

/* Calls the function, and its workspace query, without one of the arguments. */
static void call_without(ts_session *s, int what)
{
    const void    *args = what == TS_NO_ARGS ? NULL : s->args;
    const ts_exec *x = what == TS_NO_EXEC ? NULL : &s->exec;
    size_t         n;
    s->reply->must = s->reply->status = TS_E_ARG;
    if (what != TS_NO_SIZE) s->reply->status = s->function->run(args, x);
    if (s->function->workspace && s->reply->status == TS_E_ARG)
        s->reply->status = s->function->workspace(args, x, what == TS_NO_SIZE ? NULL : &n);
}

void ts_session_call(ts_session *s, const ts_order *o)
{
    unsigned char args[sizeof s->args];
    ts_exec       x = s->exec;
    if (o->spoil == TS_SOUND) {
        s->reply->status = s->function->run(s->args, &s->exec);
        return;
    }
    memcpy(args, s->args, sizeof args);
    if (o->spoil == TS_NO_EMPTY) {
        ts_arena_drop_empty(s->arena, args);
        s->reply->status = s->function->run(args, &s->exec);
        return;
    }
    if (o->spoil < 0) {
        call_without(s, o->spoil);
        return;
    }
    s->reply->none = !spoil(s, o, args, &x);
    s->reply->status = s->reply->must;
    if (s->reply->none || (o->spoil < 2 && !s->exec.workspace_bytes)) return;
    s->reply->status = s->function->run(args, &x);
    size_t n;
    if (o->spoil >= 2 && s->function->workspace && s->reply->status == s->reply->must)
        s->reply->status = s->function->workspace(args, &x, &n);
}

static void obey(const ts_backend *b, ts_session *s, const ts_order *o)
{
    s->exec.n_threads = o->n_threads;
    switch (o->verb) {
    case TS_LOAD:
        b->load(s, o);
        break;
    case TS_RUN:
    case TS_TIME:
        b->run(s, o);
        break;
    case TS_STORE:
        b->store(s);
        break;
    case TS_DROP:
        b->drop(s);
        break;
    case TS_PROBE:
        b->probe(s);
        break;
    case TS_CEILING:
        b->ceiling(s, o);
        break;
    }
}

static void serve(const ts_function *e, board *d, int fd)
{
    static ts_arena   arena;
    const ts_backend *b = e->device == TS_CUDA ? &ts_backend_cuda : &ts_backend_cpu;
    ts_session        s = { .function = e, .arena = &arena, .reply = &d->reply };
    char              signal;
    s.exec = (ts_exec) { .device = e->device, .deterministic = !e->any_order };
    own_board = d;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) _exit(1); /* it would outlive its parent */
    catch_faults();
    ts_cpu_set_mask(e->mask);
    while (read(fd, &signal, 1) == 1) {
        d->reply = (ts_reply) { 0 };
        if (d->order.verb == TS_LOAD) {
            ts_arena_unlock(&arena); /* in case the last case ended early */
            arena = d->arena;
            memcpy(s.args, d->args, sizeof s.args);
        }
        obey(b, &s, &d->order);
        if (write(fd, &signal, 1) != 1) break;
    }
    /* Exit normally, so that a tool such as compute-sanitizer can print its report. */
    exit(0);
}

/* ---- in the examiner ---- */

static bool spawn(ts_worker *w)
{
    int fd[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) return false;
    fflush(NULL);
    w->board->signal = 0;
    w->pid = fork();
    if (w->pid == 0) {
        close(fd[0]);
        serve(&w->function, w->board, fd[1]);
    }
    close(fd[1]);
    w->fd = fd[0];
    if (w->pid > 0) return true;
    close(fd[0]);
    w->pid = 0;
    return false;
}

static void reap(ts_worker *w)
{
    if (!w->pid) return;
    kill(w->pid, SIGKILL);
    close(w->fd);
    while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR) {}
    w->pid = 0;
}

ts_worker *ts_worker_start(const ts_function *e, const ts_arena *m)
{
    ts_worker *w = calloc(1, sizeof *w);
    if (!w) abort();
    w->function = *e;
    w->arena = m;
    w->board =
        mmap(NULL, sizeof *w->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->board == MAP_FAILED) abort();
    return w;
}

const ts_function *ts_worker_function(const ts_worker *w)
{
    return &w->function;
}

/* Ends an idle worker: it exits when the other end of its socket is closed. */
static void dismiss(ts_worker *w)
{
    if (!w->pid) return;
    struct pollfd p = { .fd = w->fd };
    shutdown(w->fd, SHUT_WR);
    poll(&p, 1, 5000); /* until it has exited and closed its end */
    reap(w);
}

void ts_worker_stop(ts_worker **w)
{
    if (!*w) return;
    dismiss(*w);
    munmap((*w)->board, sizeof *(*w)->board);
    free(*w);
    *w = NULL;
}

static void say_how_it_died(ts_worker *w, bool hung, ts_reply *reply)
{
    const board *d = w->board;
    *reply = (ts_reply) { .flaw = { .fault = hung ? TS_FAULT_HANG : TS_FAULT_CRASH, .what = "" } };
    if (hung) return;
    memcpy(reply->text, d->reply.text, sizeof reply->text);
    if (d->signal) snprintf(reply->text, sizeof reply->text, "signal %d", d->signal);
    if (d->signal != SIGSEGV && d->signal != SIGBUS) return;
    const uintptr_t lo = d->reply.workspace_begin, hi = d->reply.workspace_end;
    if (hi && d->address - hi < TS_GUARD_BYTES)
        reply->flaw = (ts_flaw) { .fault = TS_FAULT_PAST, .what = "workspace" };
    else if (hi && lo - 1 - d->address < TS_GUARD_BYTES)
        reply->flaw = (ts_flaw) { .fault = TS_FAULT_BEFORE, .what = "workspace" };
    else ts_arena_blame(w->arena, d->address, d->write, &reply->flaw);
}

bool ts_worker_order(ts_worker *w, ts_order o, ts_reply *reply)
{
    char signal = 1;
    *reply = (ts_reply) { .flaw = { .fault = TS_FAULT_CRASH, .what = "" },
                          .text = "cannot start a process" };
    if (!w->pid && !spawn(w)) return false;
    w->board->order = o;
    if (o.verb == TS_LOAD) {
        w->board->arena = *w->arena;
        memcpy(w->board->args, w->arena->args, o.task->args_bytes);
    }
    /* Not write(): a worker that died since its last reply must not kill the examiner with SIGPIPE.
     */
    if (send(w->fd, &signal, 1, MSG_NOSIGNAL) == 1) {
        struct pollfd p = { .fd = w->fd, .events = POLLIN };
        const int     ready = poll(&p, 1, o.limit_ms);
        if (ready == 1 && read(w->fd, &signal, 1) == 1) {
            *reply = w->board->reply;
            return true;
        }
        reap(w);
        say_how_it_died(w, ready == 0, reply);
        return false;
    }
    reap(w);
    say_how_it_died(w, false, reply);
    return false;
}
