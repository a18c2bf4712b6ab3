/* SPDX-License-Identifier: Apache-2.0 */
/* apart.c - a process's threads on other cores than the one that calls. */
#define _GNU_SOURCE
#include "apart.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The core that a process's first thread was on last; -1: unknown. */
static int core_of(pid_t pid)
{
    char path[64], text[1024];
    int  core = -1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE        *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    const char *p = strrchr(text, ')'); /* the name before it may hold anything; 37 fields on */
    for (int i = 0; p && i < 37; i++) p = strchr(p + 1, ' ');
    if (p) sscanf(p, "%d", &core);
    return core;
}

bool ts_threads_apart(pid_t pid, cpu_set_t *was)
{
    cpu_set_t own, others;
    char      path[64];
    const int core = core_of(pid);
    if (core < 0 || sched_getaffinity(pid, sizeof *was, was) || CPU_COUNT(was) < 2) return false;
    if (!CPU_ISSET(core, was)) return false;
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    others = *was;
    CPU_CLR(core, &others);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        const pid_t thread = (pid_t)atoi(e->d_name);
        if (thread > 0 && thread != pid) sched_setaffinity(thread, sizeof others, &others);
    }
    if (d) closedir(d);
    return d && !sched_setaffinity(pid, sizeof own, &own);
}

void ts_threads_free(pid_t pid, const cpu_set_t *was)
{
    sched_setaffinity(pid, sizeof *was, was);
}
