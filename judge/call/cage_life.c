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
enum { LISTEN_MS = 20 };

/* A stopped process uses no CPU time. One that used this much since SIGSTOP continues itself; one
 * of which no thread was runnable for that long waits where signals do not reach it. A runnable
 * thread stops as soon as it gets a core: until then the machine is at fault. */
static const double LOOSE_CPU_NS = 2e9, STUCK_NS = 3e9, FREEZE_MOST_NS = 120e9, SPARE_NS = 10e6;

/* After this much wall time beyond the limit a wait ends without evidence. */
static const double DELAY_NS = 300e9;

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

void ts_cage_kill_as(ts_cage *c, ts_killed why)
{
    if (!ts_cage_alive(c)) return;
    c->killed = why;
    kill(c->pid, SIGKILL); /* PID 1 of its namespace: kills all processes in it */
    while (waitpid(c->pid, &c->wait_status, 0) < 0 && errno == EINTR) {}
    c->pid = 0;
}

void ts_cage_kill(ts_cage *c)
{
    ts_cage_kill_as(c, TS_KILLED_END);
}

/* Since a process received SIGSTOP. */
typedef struct loose {
    double begin, cpu, last, stuck; /* stuck: how long no thread was seen runnable or stopped */
} loose;

static loose loose_from_now(const ts_cage *c)
{
    const double now = ts_now_ns();
    return (loose) { .begin = now, .cpu = ts_cage_cpu_ns(c), .last = now };
}

/* Why it still runs; TS_KILLED_NOT: not known yet. While the judge itself is stopped, or has no
 * core, it sees nothing. */
static ts_killed why_loose(const ts_cage *c, loose *l)
{
    const double now = ts_now_ns(), past = now - l->last;
    l->last = now;
    if (ts_cage_cpu_ns(c) - l->cpu > LOOSE_CPU_NS) return TS_KILLED_LOOSE;
    if (ts_cage_threads_in(c, "RTt")) l->stuck = 0;
    else if (past < TS_ABSENT_NS) l->stuck += past;
    /* A sealed entrant has no system call in which to wait like that. */
    if (l->stuck > STUCK_NS && c->plan.class != TS_SEALED) return TS_KILLED_LOOSE;
    return now - l->begin > FREEZE_MOST_NS ? TS_KILLED_BUSY : TS_KILLED_NOT;
}

/* ---- classes with several processes ---- */

/* Whether a task is stopped, or dead. */
static bool is_stopped(int process, const char *task)
{
    const char state = ts_task_state(process, task);
    return !state || strchr("TtZX", state);
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
static ts_killed stop_others(ts_cage *c, loose *l)
{
    ts_killed why = TS_KILLED_NOT;
    if (!ts_on_gpu(c->plan.class)) return why; /* the filter forbids other processes */
    while (!why && signal_others(c, SIGSTOP, &c->n_others)) why = why_loose(c, l);
    return why;
}

void ts_cage_stop_again(ts_cage *c)
{
    loose     l = loose_from_now(c);
    ts_killed why = TS_KILLED_NOT;
    while (c->pid && !why && !all_stopped(c->pid)) {
        kill(c->pid, SIGSTOP);
        why = why_loose(c, &l);
    }
    if (c->pid && !why) why = stop_others(c, &l);
    if (why) ts_cage_kill_as(c, why);
}

bool ts_cage_freeze(ts_cage *c)
{
    if (!c->pid || c->frozen) return c->pid != 0;
    loose     l = loose_from_now(c);
    ts_killed why = TS_KILLED_NOT;
    kill(c->pid, SIGSTOP);
    while (!why) {
        siginfo_t i = { 0 };
        /* Reported once its last thread has stopped. */
        if (!waitid(P_PID, (id_t)c->pid, &i, WSTOPPED | WNOHANG) && i.si_pid) {
            if ((why = stop_others(c, &l))) break;
            return c->frozen = true;
        }
        if (!ts_cage_alive(c)) return false;
        if (ts_now_ns() - l.begin > LOOK_NS) ts_nap(NAP_NS);
        else ts_cage_relax(c);
        if (ts_now_ns() - l.begin > SPARE_NS) why = why_loose(c, &l);
    }
    ts_cage_kill_as(c, why);
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

const char *ts_cage_said(const ts_cage *c)
{
    return c->err;
}

/* How the process ended. What the judge did to it shows what the judge recorded, and no more.
 * Otherwise SIGKILL comes from outside, since no process of a namespace can kill its first one:
 * from the operator, or from a kernel that ran out of memory, for all processes of the machine. */
static ts_end end_of(const ts_cage *c, const ts_call *r)
{
    static const ts_end by_judge[] = { [TS_KILLED_END] = TS_END_EXIT,
                                       [TS_KILLED_HANG] = TS_END_HANG,
                                       [TS_KILLED_LOOSE] = TS_END_EXIT,
                                       [TS_KILLED_BUSY] = TS_END_BUSY };
    const unsigned      kind = c->control->fault.kind;
    if (c->killed) return by_judge[c->killed];
    if (r->signal == SIGSYS || (r->signal == SIGSEGV && kind == TS_TRAP_CLOCK)) return TS_END_SEAL;
    if (r->signal == SIGKILL) return TS_END_BUSY;
    if (r->signal && kind == TS_TRAP_MEMORY) return TS_END_MEMORY;
    return r->signal ? TS_END_CRASH : TS_END_EXIT;
}

/* Explains how an unresponsive process ended, after killing it if necessary. */
void ts_cage_end(ts_cage *c, int came, ts_call *r)
{
    /* The descriptors of a process are closed before its end can be seen. */
    for (int i = 0; i < 1000 && came == TS_WORD_DEAD && ts_cage_alive(c); i++) ts_nap(1e6);
    ts_cage_kill_as(c, came == TS_WORD_BUSY ? TS_KILLED_BUSY : TS_KILLED_HANG);
    const int      w = c->wait_status, sig = WIFSIGNALED(w) ? WTERMSIG(w) : 0;
    const unsigned kind = c->control->fault.kind, said = c->control->fault.signal;
    *r = (ts_call) { .signal = sig, .exit_code = WIFEXITED(w) ? WEXITSTATUS(w) : 0 };
    if (!sig && said && said < 32 && r->exit_code == 128 + (int)said) r->signal = (int)said;
    r->end = end_of(c, r);
    if (r->end == TS_END_SEAL)
        snprintf(r->text, sizeof r->text, "%s",
                 r->signal == SIGSYS ? "forbidden system call" : "read the time stamp counter");
    else if (r->end == TS_END_HANG)
        snprintf(r->text, sizeof r->text, "no return within the time limit");
    else if (r->end == TS_END_BUSY)
        snprintf(r->text, sizeof r->text, "%s",
                 c->killed ? "the machine is too busy: the process got too little CPU time"
                           : "signal 9 from outside: the machine is out of memory, or an operator");
    else if (c->killed == TS_KILLED_LOOSE)
        snprintf(r->text, sizeof r->text, "could not be stopped");
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

/* Whether its own time since the watch began is used up, or the machine's. */
static int is_over(const ts_cage *c, ts_watch *w, double limit_ns)
{
    if (ts_watch_own_ns(c, w) > limit_ns) return TS_WORD_NOT;
    return ts_now_ns() - w->begin > limit_ns + DELAY_NS ? TS_WORD_BUSY : TS_WORD_CAME;
}

int ts_cage_await(ts_cage *c, const uint32_t *word, uint32_t want, double spin_ns, double limit_ns,
                  ts_watch *w)
{
    double look = w->begin + LOOK_NS;
    for (unsigned i = 1;; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == want) return TS_WORD_CAME;
        ts_cage_relax(c);
        if (i % 64) continue;
        const double now = ts_now_ns();
        if (now < look) continue;
        if (!ts_cage_alive(c)) return TS_WORD_DEAD;
        if (now - w->begin > spin_ns) {
            const int over = is_over(c, w, limit_ns);
            if (over) return over;
            ts_nap(NAP_NS);
        }
        look = now + LOOK_NS;
    }
}

/* The byte that signals done; in class sealed-gpu with the time by the device's clock, which no
 * code of the entrant's can have sent. */
static bool hears_done(ts_cage *c)
{
    char          said[1 + sizeof(double)];
    const size_t  want = c->plan.class == TS_GPU_SEALED ? sizeof said : 1;
    const ssize_t n = recv(c->signal_fd, said, want, MSG_DONTWAIT);
    if (n != (ssize_t)want) return false;
    if (want > 1) memcpy(&c->device_ns, said + 1, sizeof c->device_ns);
    return true;
}

int ts_cage_await_byte(ts_cage *c, double spin_ns, int limit_ms, ts_watch *w)
{
    struct pollfd p = { .fd = c->signal_fd, .events = POLLIN };
    while (ts_now_ns() - w->begin < spin_ns) {
        if (hears_done(c)) return TS_WORD_CAME;
        if (c->n_cores < 2) sched_yield(); /* to the keeper */
    }
    for (int n; (n = poll(&p, 1, LISTEN_MS)) != 1;) {
        const int over = n < 0 ? TS_WORD_CAME : is_over(c, w, limit_ms * 1e6);
        if (over) return over;
    }
    if (hears_done(c)) return TS_WORD_CAME;
    /* It closed its descriptors, perhaps because it is ending. */
    while (ts_cage_alive(c)) {
        const int over = is_over(c, w, limit_ms * 1e6);
        if (over) return over;
        ts_nap(1e6);
    }
    return TS_WORD_DEAD;
}
