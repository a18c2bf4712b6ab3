/* SPDX-License-Identifier: Apache-2.0 */
/* fact_life.c - the processes of a trial: start, communication and end. */
#define _GNU_SOURCE
#include "fact_inside.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cage_inside.h"
#include "fact_ptx.h"
#include "pass.h"

enum { PROBES = 32, WORKER_LIMIT_MS = 6000 };

void ts_trial_say(ts_trial *t, const char *name, bool held, const char *format, ...)
{
    ts_guarantee *g = &t->page->said[t->page->n];
    va_list       a;
    *g = (ts_guarantee) { .name = name, .held = held, .needed = true };
    va_start(a, format);
    vsnprintf(g->text, sizeof g->text, format, a);
    va_end(a);
    t->page->n++;
}

void ts_trial_must(ts_trial *t, int code, const char *what)
{
    if (!code) return;
    snprintf(t->page->broken, sizeof t->page->broken, "%s: %s", what, ts_driver_text(t->d, code));
    _exit(1);
}

/* ---- the driver ---- */

ts_cu_any *ts_trial_kernel(ts_trial *t, const char *name)
{
    ts_cu_any *f;
    ts_trial_must(t, t->d->module_function(&f, t->module, name), name);
    return f;
}

void ts_trial_open(ts_trial *t)
{
    t->d = ts_driver_open(t->page->broken, sizeof t->page->broken);
    if (!t->d) _exit(1);
    t->granule = ts_driver_granule(t->d);
    ts_trial_must(t, t->d->module_load(&t->module, ts_fact_ptx), "loading kernels");
    t->touch = ts_trial_kernel(t, "ts_touch");
    t->spin = ts_trial_kernel(t, "ts_spin");
}

int ts_trial_touch(ts_trial *t, ts_device_ptr p, unsigned how)
{
    void *params[] = { &p, &how };
    return t->d->launch(t->touch, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
}

int ts_trial_spin(ts_trial *t, ts_device_ptr beat, uint64_t ns, ts_cu_any *stream)
{
    void *params[] = { &beat, &ns };
    return t->d->launch(t->spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

double ts_trial_probe(ts_trial *t)
{
    const double begin = ts_now_ns();
    ts_trial_must(t, ts_trial_touch(t, 0, TS_TOUCH_NOTHING), "launch");
    ts_trial_must(t, t->d->sync(), "empty kernel");
    return ts_now_ns() - begin;
}

double ts_trial_usual(ts_trial *t)
{
    double best = ts_trial_probe(t);
    for (int i = 0; i < PROBES; i++) {
        const double ns = ts_trial_probe(t);
        if (ns < best) best = ns;
    }
    return best;
}

ts_device_ptr ts_trial_share(ts_trial *t, unsigned char byte, int *fd)
{
    ts_device_ptr p = 0;
    uint64_t      handle;
    if (!t->granule) ts_trial_must(t, 1, "this device does not support shared memory handles");
    ts_trial_must(t, ts_driver_share(t->d, t->granule, &handle, fd), "shared memory");
    ts_trial_must(t, ts_driver_place(t->d, handle, t->granule, 1, &p), "shared memory");
    ts_trial_must(t, t->d->fill(p, byte, t->granule, NULL), "filling");
    ts_trial_must(t, t->d->sync(), "filling");
    return p;
}

bool ts_trial_whole(ts_trial *t, ts_device_ptr p, unsigned char byte, size_t n)
{
    bool           same = true;
    unsigned char *host = malloc(n);
    if (!host) abort();
    ts_trial_must(t, t->d->copy_out(host, p, n), "reading");
    for (size_t i = 0; i < n; i++) same &= host[i] == byte;
    free(host);
    return same;
}

/* ---- workers ---- */

_Noreturn static void work(ts_trial *t, int number, int from, ts_worker_fn *life)
{
    uint64_t handle;
    int      fd;
    char     byte;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) _exit(1);
    if (!ts_receive(from, &fd, &byte, 1)) _exit(1);
    ts_trial_open(t);
    ts_trial_must(t, t->d->import_fd(&handle, (void *)(intptr_t)fd, 1),
                  "memory of another process");
    close(fd);
    life(t, number, handle);
    _exit(0);
}

void ts_trial_hire(ts_trial *t, int n, ts_worker_fn *life)
{
    for (int i = 0; i < n; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) abort();
        t->page->worker[i].code = -1; /* until it reports one */
        t->worker[i].fd = pair[0];
        t->worker[i].pid = fork();
        if (t->worker[i].pid < 0) abort();
        if (t->worker[i].pid == 0) {
            for (int k = 0; k <= i; k++) close(t->worker[k].fd);
            work(t, i, pair[1], life);
        }
        close(pair[1]);
    }
}

void ts_trial_give(ts_trial *t, int number, int fd)
{
    if (ts_pass(t->worker[number].fd, fd, (char[]) { 'm' }, 1)) return;
    snprintf(t->page->broken, sizeof t->page->broken, "a worker process is missing");
    _exit(1);
}

bool ts_trial_ended(ts_trial *t, int number)
{
    const double begin = ts_now_ns();
    const pid_t  pid = t->worker[number].pid;
    while (ts_now_ns() - begin < WORKER_LIMIT_MS * 1e6) {
        const pid_t got = waitpid(pid, NULL, WNOHANG);
        if (got == pid || (got < 0 && errno == ECHILD)) return true;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    return false;
}
