/* SPDX-License-Identifier: Apache-2.0 */
/* python.c - runs interpreters, to learn which modules they have. */
#define _GNU_SOURCE
#include "python.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool ts_python_has(const char *python, const char *module, char *self, size_t n_self)
{
    int  status = -1, out[2];
    char code[128];
    snprintf(code, sizeof code, "import sys, %s; sys.stdout.write(sys.executable)", module);
    if (pipe2(out, O_CLOEXEC)) return false;
    const pid_t child = fork();
    if (!child) {
        const int null = open("/dev/null", O_RDWR);
        dup2(null, 0), dup2(out[1], 1), dup2(null, 2);
        execlp(python, python, "-c", code, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    char    buffer[4096];
    ssize_t got, n = 0;
    while ((got = read(out[0], buffer + n, sizeof buffer - 1 - (size_t)n)) > 0) n += got;
    buffer[n] = 0;
    close(out[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status) return false;
    if (self && *buffer == '/') snprintf(self, n_self, "%s", buffer);
    return true;
}

const char *ts_python_find(void)
{
    static char first[4096], self[4096];
    const char *name = getenv("TOUCHSTONE_PYTHON"), *path = getenv("PATH");
    const bool  asked = name;
    if (!asked) name = "python3";
    if (strchr(name, '/')) return name;
    for (; path && *path; path += strcspn(path, ":"), path += *path == ':') {
        char place[4096];
        snprintf(place, sizeof place, "%.*s/%s", (int)strcspn(path, ":"), path, name);
        if (access(place, X_OK)) continue;
        if (!*first) strcpy(first, place);
        if (asked) break;
        strcpy(self, place);
        if (ts_python_has(place, "numpy", self, sizeof self)) return self;
    }
    return *first ? first : name;
}
