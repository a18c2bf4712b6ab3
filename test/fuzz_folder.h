/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_folder.h - a folder with an entrant's files, for the fuzz targets that read one. */
#ifndef TS_FUZZ_FOLDER_H
#define TS_FUZZ_FOLDER_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fuzz.h"
#include "reader_here.h"

static char folder[64];

static inline void put(const char *name, const char *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !close(fd));
}

static inline void remove_folder(void)
{
    static const char *const names[] = { "entry.json", "k.c", "k.h",  "k.cu",
                                         "k.py",       "s.c", "s.py", "s.md" };
    char                     path[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* A folder of one's own, removed in the end. */
static inline void lay_out(void)
{
    if (folder[0]) return;
    /* In memory, if there is such a place: a disk would take most of the time. */
    strcpy(folder, access("/dev/shm", W_OK) ? "/tmp/touchstone-fuzz-XXXXXX"
                                            : "/dev/shm/touchstone-fuzz-XXXXXX");
    must(mkdtemp(folder) != NULL);
    put("k.c", "int ts_softmax_topk(void);\n#include \"k.h\"\n", 41);
    put("k.h", "\n", 1);
    put("k.cu", "\n", 1);
    put("k.py", "def softmax_topk(x): pass\n", 26);
    atexit(remove_folder);
}

/* Reads the folder, or a file in it, as an entrant, whatever the reader says. */
static inline void enter(const char *name, ts_ask *ask, const char *challenge)
{
    ts_entrant e;
    ts_refusal why;
    char       path[128];
    snprintf(path, sizeof path, "%s%s", folder, name);
    if (ts_entrant_read_with(ask, NULL, path, challenge, &e, &why)) {
        must_be_plain(e.name);
        must_be_plain(e.author);
        must(*e.task && e.n_sources > 0 && e.adapter < e.n_sources);
        for (int i = 0; i < e.n_sources; i++) {
            must(*name || strchr("ks", e.source[i].name[0]) != NULL);
            must(e.source[i].bytes[e.source[i].n] == 0);
        }
        must(strlen(e.source_sha256) == 64 && strlen(e.family) == 64);
        must(*ts_class_name(e.cls) && *ts_language_name(e.language));
        if (*e.offers) must_be_ascii(e.offers);
        if (*e.cause) must_be_plain(e.cause);
    } else must_be_plain(why.text);
    ts_entrant_free(&e);
}

#endif
