/* SPDX-License-Identifier: Apache-2.0 */
/* apart.c - places a process's threads on cores other than its first thread's. */
#define _GNU_SOURCE
#include "apart.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of threads of a process, and the core on which its first one last ran; -1: unknown. */
static int look(pid_t pid, int *n_threads)
{
    char path[64], text[1024];
    int  core = -1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE        *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *p = strrchr(text, ')'); /* the name before it may contain anything */
    for (int i = 0; p && i < 37; i++) {
        p = strchr(p + 1, ' ');
        if (p && i == 17) sscanf(p, "%d", n_threads);
    }
    if (p) sscanf(p, "%d", &core);
    return core;
}

int ts_core_after(int last, int except, const cpu_set_t *may)
{
    for (int i = 1; i <= CPU_SETSIZE; i++) {
        const int next = (last + i) % CPU_SETSIZE;
        if (CPU_ISSET(next, may) && next != except) return next;
    }
    return -1;
}

/* Round-robin over the cores of `may` other than the first thread's. False if there is none. */
static bool scatter(pid_t pid, int core, const cpu_set_t *may)
{
    char path[64];
    int  next = core;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && next >= 0 && (e = readdir(d));) {
        const pid_t thread = (pid_t)atoi(e->d_name);
        cpu_set_t   own;
        if (thread <= 0 || thread == pid) continue;
        next = ts_core_after(next, core, may);
        if (next < 0) break;
        CPU_ZERO(&own);
        CPU_SET(next, &own);
        sched_setaffinity(thread, sizeof own, &own);
    }
    if (d) closedir(d);
    return d && next >= 0;
}

bool ts_threads_spread(pid_t pid, ts_spread *last)
{
    cpu_set_t may;
    ts_spread now = { .core = -1, .n_threads = 1 };
    now.core = look(pid, &now.n_threads);
    const bool same = now.core == last->core && now.n_threads == last->n_threads;
    *last = now;
    if (same || now.n_threads < 2) return true;
    if (now.core < 0 || sched_getaffinity(pid, sizeof may, &may) || CPU_COUNT(&may) < 2)
        return false;
    return CPU_ISSET(now.core, &may) && scatter(pid, now.core, &may);
}

bool ts_threads_apart(pid_t pid, cpu_set_t *was)
{
    cpu_set_t own;
    int       n_threads;
    const int core = look(pid, &n_threads);
    if (core < 0 || sched_getaffinity(pid, sizeof *was, was) || CPU_COUNT(was) < 2) return false;
    if (!CPU_ISSET(core, was) || !scatter(pid, core, was)) return false;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    return !sched_setaffinity(pid, sizeof own, &own);
}

void ts_threads_free(pid_t pid, const cpu_set_t *was)
{
    sched_setaffinity(pid, sizeof *was, was);
}
