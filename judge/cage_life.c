/* SPDX-License-Identifier: Apache-2.0 */
/* cage_life.c - freezing, waiting for and ending an entrant's process, and how it ended. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cage_inside.h"
#include "isa_core.h"

/* Between looks whether it still lives; and the naps once a wait is too long to be spun through. */
static const double LOOK_NS = 100e3, NAP_NS = 50e3;

enum { FREEZE_LIMIT_MS = 2000 };

double ts_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double ts_cage_cpu_ns(const ts_cage *c)
{
    struct timespec t = { 0, 0 };
    clockid_t       k;
    if (clock_getcpuclockid(c->pid, &k) || clock_gettime(k, &t)) return 0;
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

void ts_nap(double ns)
{
    const struct timespec t = { 0, (long)ns };
    nanosleep(&t, NULL);
}

void ts_cage_relax(const ts_cage *c)
{
    if (c->shares_core) sched_yield();
    else ts_isa_pause();
}

/* ---- life and death ---- */

bool ts_cage_alive(ts_cage *c)
{
    siginfo_t i = { 0 };
    if (!c->pid) return false;
    if (waitid(P_PID, (id_t)c->pid, &i, WEXITED | WNOHANG | WNOWAIT) || !i.si_pid) return true;
    while (waitpid(c->pid, &c->wait_status, 0) < 0 && errno == EINTR) {}
    c->pid = 0;
    return false;
}

void ts_cage_kill(ts_cage *c)
{
    if (!c->pid) return;
    kill(c->pid, SIGKILL); /* of the first of its namespace: of all in it */
    while (waitpid(c->pid, &c->wait_status, 0) < 0 && errno == EINTR) {}
    c->pid = 0;
}

bool ts_cage_freeze(ts_cage *c)
{
    if (!c->pid || c->frozen) return c->pid != 0;
    kill(c->pid, SIGSTOP);
    for (const double begin = ts_now_ns(); ts_now_ns() - begin < FREEZE_LIMIT_MS * 1e6;) {
        siginfo_t i = { 0 };
        /* Reported when the last of its threads has stopped. */
        if (!waitid(P_PID, (id_t)c->pid, &i, WSTOPPED | WNOHANG) && i.si_pid)
            return c->frozen = true;
        if (!ts_cage_alive(c)) return false;
        if (ts_now_ns() - begin > LOOK_NS) ts_nap(NAP_NS);
        else ts_cage_relax(c);
    }
    ts_cage_kill(c);
    return false;
}

void ts_cage_thaw(ts_cage *c)
{
    if (c->pid) kill(c->pid, SIGCONT);
    c->frozen = false;
}

void ts_cage_listen(ts_cage *c)
{
    char    part[4096];
    ssize_t n;
    for (int i = 0; i < 32 && (n = read(c->err_fd, part, sizeof part)) > 0; i++) {
        const size_t room = sizeof c->err - 1, old = strlen(c->err);
        const size_t take = (size_t)n < room ? (size_t)n : room;
        const size_t keep = old + take > room ? room - take : old;
        memmove(c->err, c->err + old - keep, keep);
        memcpy(c->err + keep, part + (size_t)n - take, take);
        c->err[keep + take] = 0;
        for (size_t k = keep; k < keep + take; k++)
            if (!c->err[k]) c->err[k] = '?';
    }
}

/* How a process that will not answer any more ended; kills it first if it has not. */
void ts_cage_end(ts_cage *c, bool hung, ts_call *r)
{
    const bool killed = ts_cage_alive(c);
    ts_cage_kill(c);
    const int      w = c->wait_status, sig = WIFSIGNALED(w) ? WTERMSIG(w) : 0;
    const unsigned kind = c->control->fault.kind, said = c->control->fault.signal;
    *r = (ts_call) { .signal = sig, .exit_code = WIFEXITED(w) ? WEXITSTATUS(w) : 0 };
    if (!sig && said && said < 32 && r->exit_code == 128 + (int)said) r->signal = (int)said;
    if (hung || killed) r->end = TS_END_HANG;
    else if (r->signal == SIGSYS || (r->signal == SIGSEGV && kind == TS_TRAP_CLOCK))
        r->end = TS_END_SEAL;
    else if (r->signal == SIGKILL || (r->signal && kind == TS_TRAP_MEMORY)) r->end = TS_END_MEMORY;
    else r->end = r->signal ? TS_END_CRASH : TS_END_EXIT;
    switch (r->end) {
    case TS_END_SEAL:
        snprintf(r->text, sizeof r->text, "%s",
                 r->signal == SIGSYS ? "forbidden system call" : "read the time stamp counter");
        break;
    case TS_END_CRASH:
        if (kind == TS_TRAP_DEVICE)
            snprintf(r->text, sizeof r->text, "on the device: %.180s", c->control->error.text);
        else snprintf(r->text, sizeof r->text, "signal %d (%s)", r->signal, strsignal(r->signal));
        break;
    case TS_END_HANG:
        snprintf(r->text, sizeof r->text, "no return within the time limit");
        break;
    case TS_END_EXIT:
        snprintf(r->text, sizeof r->text, "exited with status %d", r->exit_code);
        break;
    default:
        snprintf(r->text, sizeof r->text, "signal %d (%s)", r->signal, strsignal(r->signal));
    }
    ts_cage_listen(c);
    memcpy(r->stderr_tail, c->err, sizeof r->stderr_tail);
}

/* ---- waiting ---- */

int ts_cage_await(ts_cage *c, const uint32_t *word, uint32_t want, double spin_ns, double limit_ns)
{
    const double begin = ts_now_ns();
    double       look = begin + LOOK_NS;
    for (unsigned i = 1;; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == want) return TS_WORD_CAME;
        ts_cage_relax(c);
        if (i % 64) continue;
        const double now = ts_now_ns();
        if (now < look) continue;
        if (!ts_cage_alive(c)) return TS_WORD_DEAD;
        if (now - begin > limit_ns) return TS_WORD_NOT;
        if (now - begin > spin_ns) ts_nap(NAP_NS);
        look = now + LOOK_NS;
    }
}

/* Class python: the byte that says done. */
int ts_cage_await_byte(ts_cage *c, int limit_ms)
{
    struct pollfd p = { .fd = c->bell_fd, .events = POLLIN };
    char          byte;
    const int     n = poll(&p, 1, limit_ms);
    if (n == 0) return TS_WORD_NOT;
    if (n == 1 && recv(c->bell_fd, &byte, 1, MSG_DONTWAIT) == 1) return TS_WORD_CAME;
    for (int i = 0; i < 100 && ts_cage_alive(c); i++)
        ts_nap(1e6); /* its descriptors go a little earlier */
    return ts_cage_alive(c) ? TS_WORD_NOT : TS_WORD_DEAD;
}
