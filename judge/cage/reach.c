/* SPDX-License-Identifier: Apache-2.0 */
/* reach.c - access to a Python that is installed in a home directory which only its owner may
 * enter.
 *
 * In the cage's mount namespace that directory contains the interpreter only, and is accessible. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

/* Flags that older C libraries do not define. */
enum { CLONE_TREE = 1, MOVE_FROM_FD = 4 };

static void cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) *slash = 0;
}

/* Folders that a Python entrant may read: those of its modules, two levels above the interpreter's
 * path and above its resolved path, and its own. */
int cage_folders(const ts_call_plan *p, char path[CAGE_FOLDERS][CAGE_PATH])
{
    int n = 0;
    snprintf(path[n], CAGE_PATH, "%s", p->python);
    cut(path[n]), cut(path[n]);
    if (*path[n]) n++;
    if (realpath(p->python, path[n])) {
        cut(path[n]), cut(path[n]);
        if (*path[n]) n++;
    }
    if (*p->folder) snprintf(path[n++], CAGE_PATH, "%s", p->folder);
    return n;
}

/* The folder that a Python entrant on a device may write to: Triton, CuPy and torch.compile store
 * compiled code in files. The judge has created it next to the entrant's own. */
bool cage_scratch(const ts_call_plan *p, char path[CAGE_PATH])
{
    if (p->class != TS_GPU_PYTHON || !*p->folder) return false;
    snprintf(path, CAGE_PATH, "%s", p->folder);
    cut(path);
    strncat(path, "/tmp", CAGE_PATH - strlen(path) - 1);
    return true;
}

/* n bytes of a file from `at` on. */
static bool read_at(FILE *f, uint64_t at, void *to, size_t n)
{
    return !fseek(f, (long)at, SEEK_SET) && fread(to, 1, n, f) == n;
}

bool cage_interpreter(const char *program, char path[CAGE_PATH])
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    bool       found = false;
    FILE      *f = fopen(program, "rb");
    const bool is_elf = f && read_at(f, 0, &h, sizeof h) && !memcmp(h.e_ident, ELFMAG, SELFMAG);
    for (int i = 0; is_elf && i < h.e_phnum && !found; i++) {
        if (!read_at(f, h.e_phoff + (size_t)i * sizeof p, &p, sizeof p)) break;
        found = p.p_type == PT_INTERP && p.p_filesz < CAGE_PATH &&
                read_at(f, p.p_offset, path, p.p_filesz);
    }
    if (found) path[p.p_filesz] = 0;
    if (f) fclose(f);
    return found;
}

/* Whether a folder exists and is not accessible to all users. */
static bool shut(const char *folder)
{
    struct stat st;
    return !stat(folder, &st) && !(st.st_mode & S_IXOTH);
}

/* Calls f on every folder above path, from the root, until it returns true. */
static bool above(char *path, bool (*f)(const char *folder))
{
    bool found = false;
    for (char *slash = strchr(path + 1, '/'); slash && !found; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        found = f(path);
        *slash = '/';
    }
    return found;
}

static bool open_up(const char *folder)
{
    if (mkdir(folder, 0755) && shut(folder)) mount("none", folder, "tmpfs", 0, "mode=755,size=1m");
    return false;
}

bool cage_reach(const ts_call_plan *p)
{
    char      path[CAGE_FOLDERS][CAGE_PATH];
    int       tree[CAGE_FOLDERS];
    bool      reached = true;
    const int n = cage_folders(p, path);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return false; /* other processes would see the mounts */
    for (int i = 0; i < n; i++) {
        tree[i] = -1;
        if (!above(path[i], shut)) continue;
        tree[i] = (int)syscall(SYS_open_tree, AT_FDCWD, path[i], CLONE_TREE | O_CLOEXEC);
        if (tree[i] < 0) reached = false;
    }
    for (int i = 0; i < n; i++) {
        if (tree[i] < 0) continue;
        above(path[i], open_up);
        mkdir(path[i], 0755); /* on failure, unless it is there, the next call fails */
        if (syscall(SYS_move_mount, tree[i], "", AT_FDCWD, path[i], MOVE_FROM_FD)) reached = false;
        close(tree[i]);
    }
    return reached;
}
