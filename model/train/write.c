/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - writes files atomically: to a temporary name, flushed to disk, then renamed. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train_impl.h"

bool ts_path(char path[TS_TRAIN_PATH], const char *folder, const char *name, char why[TS_MODEL_WHY])
{
    if (snprintf(path, TS_TRAIN_PATH, "%s/%s", folder, name) < TS_TRAIN_PATH) return true;
    return ts_say(why, "%s: path too long", name);
}

static bool put(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* A name is on the disk when its folder is. */
static void sync_folder(const char *path)
{
    char        folder[TS_TRAIN_PATH] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    const int fd = open(folder, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

bool ts_file_write_parts(const char *path, const ts_part *part, size_t n, char why[TS_MODEL_WHY])
{
    char beside[TS_TRAIN_PATH];
    if (snprintf(beside, sizeof beside, "%s.tmp", path) >= (int)sizeof beside)
        return ts_say(why, "%.60s: path too long", path);
    const int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return ts_say(why, "cannot write %s: %s", beside, strerror(errno));
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) ok = put(fd, part[i].bytes, part[i].n);
    ok = ok && !fsync(fd);
    int error = errno;
    if (close(fd) && ok) ok = false, error = errno;
    if (ok && rename(beside, path)) ok = false, error = errno;
    if (ok) {
        sync_folder(path);
        return true;
    }
    unlink(beside);
    return ts_say(why, "cannot write %s: %s", path, strerror(error));
}

bool ts_file_write(const char *path, const void *bytes, size_t n, char why[TS_MODEL_WHY])
{
    return ts_file_write_parts(path, &(ts_part) { bytes, n }, 1, why);
}
