/* SPDX-License-Identifier: Apache-2.0 */
/* hide.c - finds what this machine has of the project, so that no entrant can load it.
 *
 * Host code may read the system's folders (judge/cage/seal.c), a Python entrant the interpreter's
 * too (judge/cage/reach.c). If the library is installed there, the entrant could call it.
 * Everything in these folders whose name contains "touchstone" is listed: the cage mounts something
 * empty over each. The folders are searched once, and once per interpreter. */
#define _GNU_SOURCE
#include "hide.h"

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { ROOTS = 5, PATH = 4096 };

static bool is_below(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (path[n] == '/' || !path[n]);
}

static void cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
}

/* Adds a folder, unless one that contains it is listed. */
static int add_root(char root[ROOTS][PATH], int n, const char *path, int levels_up)
{
    if (!realpath(path, root[n])) return n;
    while (levels_up--) cut(root[n]);
    for (int i = 0; i < n; i++)
        if (is_below(root[n], root[i])) return n;
    return *root[n] ? n + 1 : n;
}

/* Folders that contain the interpreter are searched, not listed. */
static bool is_listed(const FTSENT *e, const char *python, const char *resolved)
{
    return e->fts_level > 0 && strcasestr(e->fts_name, "touchstone") &&
           !is_below(python, e->fts_path) && !is_below(resolved, e->fts_path);
}

static bool search(char *const *roots, const char *python, const char *resolved, char *list,
                   size_t room)
{
    bool fits = true;
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    for (FTSENT *e; walk && (e = fts_read(walk));) {
        const size_t n = (size_t)e->fts_pathlen + 1;
        if (e->fts_info == FTS_DP || !is_listed(e, python, resolved)) continue;
        if (e->fts_info == FTS_D) fts_set(walk, e, FTS_SKIP);
        fits = fits && n + 1 < room;
        if (!fits) break;
        memcpy(list, e->fts_path, n);
        list += n, room -= n;
        *list = 0;
    }
    if (walk) fts_close(walk);
    return walk && fits;
}

bool ts_hide_list(const char *python, char list[TS_CALL_HIDDEN])
{
    static struct {
        bool searched, ok;
        char python[PATH], list[TS_CALL_HIDDEN];
    } known[2], *k; /* without and with an interpreter */
    char root[ROOTS][PATH], resolved[PATH], *roots[ROOTS + 1] = { 0 };
    k = &known[*python != 0];
    if (!k->searched || strcmp(k->python, python)) {
        int n = add_root(root, 0, "/usr", 0);
        n = add_root(root, n, "/lib", 0);
        n = add_root(root, n, "/lib64", 0);
        n = add_root(root, n, python, 2);
        if (!realpath(python, resolved)) *resolved = 0;
        if (strlen(python) < PATH) { /* a link in a folder of its own: a virtual environment */
            char place[PATH];
            strcpy(place, python);
            cut(place), cut(place);
            n = add_root(root, n, place, 0);
        }
        for (int i = 0; i < n; i++) roots[i] = root[i];
        memset(k->list, 0, sizeof k->list);
        snprintf(k->python, sizeof k->python, "%s", python);
        k->ok = search(roots, python, resolved, k->list, sizeof k->list);
        k->searched = true;
    }
    memcpy(list, k->list, sizeof k->list);
    return k->ok;
}
