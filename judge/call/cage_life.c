/* SPDX-License-Identifier: Apache-2.0 */
/* cage_life.c - freezes, waits for and ends an entrant's process, and explains how it ended. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cage_inside.h"
#include "isa_core.h"

/* Interval of checks that it is alive; and of sleeps once a wait is too long for spinning. */
static const double LOOK_NS = 100e3, NAP_NS = 50e3;

enum { FREEZE_LIMIT_MS = 2000 };

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
    kill(c->pid, SIGKILL); /* PID 1 of its namespace: kills all processes in it */
    while (waitpid(c->pid, &c->wait_status, 0) < 0 && errno == EINTR) {}
    c->pid = 0;
}

/* ---- classes with several processes ---- */

/* Whether a task is stopped, or dead: "12 (name) T 1 ...". */
static bool is_stopped(int process, const char *task)
{
    char path[320], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%.200s/stat", process, task);
    const int     fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *state = strrchr(text, ')');
    return !state || !state[1] || strchr("TtZX", state[2]);
}

static bool all_stopped(int process)
{
    char           path[64];
    struct dirent *e;
    bool           all = true;
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *d = opendir(path);
    while (d && all && (e = readdir(d)))
        if (*e->d_name != '.') all = is_stopped(process, e->d_name);
    if (d) closedir(d);
    return all;
}

/* The PID namespace of a process; "": not accessible. */
static void namespace_of(const char *process, char text[64])
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%.200s/ns/pid", process);
    const ssize_t n = readlink(path, text, 63);
    text[n > 0 ? n : 0] = 0;
}

/* Sends the signal to every other process of the namespace; SIGSTOP only to running ones. Returns
 * how many received it; *others: how many there are. */
static int signal_others(const ts_cage *c, int sig, int *others)
{
    char           own[64], its[64], first[16];
    struct dirent *e;
    int            n = 0;
    *others = 0;
    snprintf(first, sizeof first, "%d", (int)c->pid);
    namespace_of(first, own);
    DIR *d = *own ? opendir("/proc") : NULL;
    while (d && (e = readdir(d))) {
        const int process = atoi(e->d_name);
        if (process <= 0 || process == c->pid) continue;
        namespace_of(e->d_name, its);
        if (strcmp(own, its)) continue;
        ++*others;
        if (sig == SIGSTOP && all_stopped(process)) continue;
        n += !kill(process, sig);
    }
    if (d) closedir(d);
    return n;
}

/* Repeats until a pass finds no running process: a stopped one cannot start another. */
static bool stop_others(ts_cage *c)
{
    if (!ts_on_gpu(c->plan.class)) return true; /* the filter forbids other processes */
    for (const double begin = ts_now_ns(); ts_now_ns() - begin < FREEZE_LIMIT_MS * 1e6;)
        if (!signal_others(c, SIGSTOP, &c->n_others)) return true;
    return false;
}

void ts_cage_stop_again(ts_cage *c)
{
    bool stopped = false;
    for (const double begin = ts_now_ns();
         c->pid && !stopped && ts_now_ns() - begin < FREEZE_LIMIT_MS * 1e6;) {
        stopped = all_stopped(c->pid);
        if (!stopped) kill(c->pid, SIGSTOP);
    }
    if (c->pid && !(stopped && stop_others(c))) ts_cage_kill(c);
}

bool ts_cage_freeze(ts_cage *c)
{
    if (!c->pid || c->frozen) return c->pid != 0;
    kill(c->pid, SIGSTOP);
    for (const double begin = ts_now_ns(); ts_now_ns() - begin < FREEZE_LIMIT_MS * 1e6;) {
        siginfo_t i = { 0 };
        /* Reported once its last thread has stopped. */
        if (!waitid(P_PID, (id_t)c->pid, &i, WSTOPPED | WNOHANG) && i.si_pid) {
            if (!stop_others(c)) break;
            return c->frozen = true;
        }
        if (!ts_cage_alive(c)) return false;
        if (ts_now_ns() - begin > LOOK_NS) ts_nap(NAP_NS);
        else ts_cage_relax(c);
    }
    ts_cage_kill(c);
    return false;
}

void ts_cage_thaw(ts_cage *c)
{
    int n;
    if (c->pid && c->n_others) signal_others(c, SIGCONT, &n);
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

/* Explains how an unresponsive process ended, after killing it if necessary. */
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
    if (r->end == TS_END_SEAL)
        snprintf(r->text, sizeof r->text, "%s",
                 r->signal == SIGSYS ? "forbidden system call" : "read the time stamp counter");
    else if (r->end == TS_END_HANG)
        snprintf(r->text, sizeof r->text, "no return within the time limit");
    else if (r->end == TS_END_EXIT)
        snprintf(r->text, sizeof r->text, "exited with status %d", r->exit_code);
    else if (r->end == TS_END_CRASH && kind == TS_TRAP_DEVICE)
        snprintf(r->text, sizeof r->text, "on the device: %.180s", c->control->error.text);
    else if (r->end == TS_END_CRASH)
        snprintf(r->text, sizeof r->text, "signal %d (%s) at address %#llx", r->signal,
                 strsignal(r->signal), (unsigned long long)c->control->fault.address);
    else snprintf(r->text, sizeof r->text, "signal %d (%s)", r->signal, strsignal(r->signal));
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

/* Class python: the byte that signals done. */
int ts_cage_await_byte(ts_cage *c, int limit_ms)
{
    struct pollfd p = { .fd = c->signal_fd, .events = POLLIN };
    char          byte;
    const int     n = poll(&p, 1, limit_ms);
    if (n == 0) return TS_WORD_NOT;
    if (n == 1 && recv(c->signal_fd, &byte, 1, MSG_DONTWAIT) == 1) return TS_WORD_CAME;
    for (int i = 0; i < 100 && ts_cage_alive(c); i++)
        ts_nap(1e6); /* its descriptors are closed slightly earlier */
    return ts_cage_alive(c) ? TS_WORD_NOT : TS_WORD_DEAD;
}
