/* SPDX-License-Identifier: Apache-2.0 */
/* cage_control.c - starts a process with nothing of an entrant in it. If not even that starts, the
 * machine is at fault, whatever the entrant's process said. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cage_inside.h"

/* A module that has every function. */
static const char anything[] = "def __getattr__(name):\n    return lambda *a, **k: None\n";

static bool write_module(const char *path)
{
    FILE *f = fopen(path, "w");
    return f && fputs(anything, f) >= 0 && !fclose(f) && !chmod(path, 0644);
}

static bool starts(const ts_cage_plan *p, char *why, size_t n)
{
    ts_cage   *c = ts_cage_start(p, why, n);
    const bool ok = c != NULL;
    ts_cage_stop(&c);
    return ok;
}

/* The module lies next to the entrant's folder and is removed with it. */
bool ts_cage_starts_nothing(const ts_cage_plan *p, char *why, size_t n)
{
    ts_cage_plan plan = *p;
    char         folder[1024], file[1100];
    plan.n_returned = NULL;
    plan.idle = !ts_in_python(p->class);
    if (plan.idle || !p->folder) return starts(&plan, why, n);
    snprintf(why, n, "error: no room for a module");
    snprintf(folder, sizeof folder, "%s-none", p->folder);
    snprintf(file, sizeof file, "%s/none.py", folder);
    plan.object = file, plan.folder = folder;
    const bool ok = !mkdir(folder, 0755) && write_module(file) && starts(&plan, why, n);
    unlink(file);
    rmdir(folder);
    return ok;
}
