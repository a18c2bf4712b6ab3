/* SPDX-License-Identifier: Apache-2.0 */
/* cage_watch.c - the entrant's own part of a wait: wall time less the time that its threads were
 * runnable but had no core.
 *
 * A busy machine can delay a correct entrant without limit, so no time limit is compared with wall
 * time. What is charged is the time in which the entrant could run: it computed, or it slept. A
 * thread that is runnable and gets no CPU time waits for the machine. No more is deducted than the
 * entrant's cores were free of it, so that its own threads cannot delay each other for nothing, and
 * never less is charged than the CPU time that it used per core.
 *
 * Thread states are sampled, which needs no option of the kernel. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cage_inside.h"

/* Interval of samples. CPU times of running threads are up to 10 ms old. */
static const double SAMPLE_NS = 10e6;

/* The state of a task, from "12 (name) S 1 ..."; 0: it has ended. */
char ts_task_state(int process, const char *task)
{
    char path[320], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%.200s/stat", process, task);
    const int     fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *state = strrchr(text, ')');
    return (char)(state && state[1] ? state[2] : 0);
}

int ts_cage_threads_in(const ts_cage *c, const char *states)
{
    char           path[64];
    struct dirent *e;
    int            n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)c->pid);
    DIR *d = opendir(path);
    while (d && (e = readdir(d))) {
        const char state = (char)(*e->d_name == '.' ? 0 : ts_task_state(c->pid, e->d_name));
        n += state && strchr(states, state);
    }
    if (d) closedir(d);
    return n;
}

ts_watch ts_watch_from(double ns, double cpu_ns, const char *states)
{
    return (
        ts_watch) { .states = states, .begin = ns, .cpu = cpu_ns, .last = ns, .last_cpu = cpu_ns };
}

static double own_part(const ts_cage *c, const ts_watch *w)
{
    const double cores = c->n_cores > 1 ? c->n_cores : 1;
    const double wall = w->last - w->begin, used = w->last_cpu - w->cpu;
    const double others = fmax(0, cores * wall - used);
    return fmin(wall, fmax(wall - fmin(w->waited, others), used / cores));
}

double ts_watch_own_ns(const ts_cage *c, ts_watch *w)
{
    const double now = ts_now_ns(), past = now - w->last;
    if (past < SAMPLE_NS) return own_part(c, w) + past;
    const double cpu = ts_cage_cpu_ns(c);
    const double n = past > TS_ABSENT_NS ? c->n_cores : ts_cage_threads_in(c, w->states);
    w->waited += fmax(0, n * past - (cpu - w->last_cpu));
    w->last = now, w->last_cpu = cpu;
    return own_part(c, w);
}
