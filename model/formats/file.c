/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - maps files into memory, and formats the one-line reasons of model/'s readers. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

bool ts_say(char why[TS_MODEL_WHY], const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(why, TS_MODEL_WHY, format, list);
    va_end(list);
    for (char *c = why; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    return false;
}

bool ts_file_map(const char *path, ts_file *f, char why[TS_MODEL_WHY])
{
    struct stat is;
    const int   fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO would wait */
    *f = (ts_file) { 0 };
    if (fd < 0) return ts_say(why, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &is) || !S_ISREG(is.st_mode) || is.st_size <= 0) {
        close(fd);
        return ts_say(why, "%s: expected a regular, non-empty file", path);
    }
    void *p = mmap(NULL, (size_t)is.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return ts_say(why, "%s: cannot map: %s", path, strerror(errno));
    *f = (ts_file) { p, (size_t)is.st_size };
    return true;
}

void ts_file_unmap(ts_file *f)
{
    if (f->bytes) munmap((void *)(uintptr_t)f->bytes, f->n);
    *f = (ts_file) { 0 };
}
