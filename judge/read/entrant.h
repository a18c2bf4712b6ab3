/* SPDX-License-Identifier: Apache-2.0 */
/* entrant.h - an entrant as submitted: a folder with entry.json, or one source file.
 *
 *     { "name": "...", "author": "...", "challenge": "softmax_topk", "class": "sealed",
 *       "language": "c", "sources": ["kernel.c", "kernel.h"], "adapter": "adapter.c" }
 *
 * "offers" declares the supported cases, see scope.h; in a single file, a comment in one of its
 * first 64 lines does: `touchstone-offers: k <= 32`. Class sealed-gpu also has "launch" and
 * "workspace"; see judge/gpu/launch.h.
 *
 * Only listed files are read, and only once: the bytes hashed are the bytes built. The judge reads
 * the bytes; a process of its own, the reader, parses them: see reading.h. An adapter is an
 * additional source that maps the challenge's functions to those of the entrant. A source that
 * another one includes is not compiled on its own.
 *
 * An answer in Markdown is also a single file: the code block in it that judge/reader/markdown.h
 * finds. */
#ifndef TS_ENTRANT_H
#define TS_ENTRANT_H

#include <stdbool.h>
#include <stddef.h>

#include "class.h"

enum {
    TS_ENTRANT_NAME = 64,            /* characters in a name, an author, a path */
    TS_ENTRANT_SOURCES = 32,         /* including the adapter */
    TS_ENTRANT_BYTES = 1 << 20,      /* of all sources together */
    TS_ENTRANT_BINARY = 256 << 20,   /* of a prebuilt shared library */
    TS_ENTRANT_JSON_BYTES = 1 << 16, /* of entry.json */
    TS_ENTRANT_LIST = 65536,         /* entrants in one tree of folders */
    TS_ENTRANT_OFFERS = 255,         /* characters of a scope */
    TS_ENTRANT_LAUNCH = 8191,        /* of a launch plan */
    TS_ENTRANT_CAUSE = 299,          /* of the cause of a class */
};

typedef enum ts_language { TS_C, TS_CXX, TS_PY, TS_BINARY, TS_CU, TS_N_LANGUAGES } ts_language;

const char *ts_class_name(ts_class c);       /* "sealed", "host", "python", "sealed-gpu" ... */
const char *ts_language_name(ts_language l); /* "c", "c++", "python", "binary", "cuda" */

/* The reason code where the machine or the installation is at fault: the verdict is then ERROR. */
#define TS_FAULT_OF_JUDGE "error"

/* Why an entrant was rejected: the verdict's reason code, and one line, safe to print. */
typedef struct ts_refusal {
    const char *reason; /* "entry", "size", "build", "symbol", "missing", "launch"; or the above */
    char        text[512];
} ts_refusal;

/* Fills *why and returns false. */
bool ts_refuse(ts_refusal *why, const char *reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct ts_source {
    char   name[TS_ENTRANT_NAME + 1]; /* relative to the folder */
    char  *bytes;                     /* 0-terminated */
    size_t n;
    bool   compiled; /* on its own: neither a header nor included by another source */
} ts_source;

typedef struct ts_entrant {
    char        name[4 * TS_ENTRANT_NAME + 1], author[4 * TS_ENTRANT_NAME + 1];
    char        task[TS_ENTRANT_NAME + 1];
    ts_class    cls;
    ts_language language;
    bool        json;               /* has an entry.json */
    int         n_sources, adapter; /* the adapter's index, or -1 */
    ts_source   source[TS_ENTRANT_SOURCES];
    char source_sha256[65]; /* of the file; of the output of sha256sum if there are several */
    char offers[TS_ENTRANT_OFFERS + 1]; /* its scope, verbatim; "": every case */
    char launch[TS_ENTRANT_LAUNCH +
                1]; /* class sealed-gpu: the launch plan, see judge/gpu/launch.h */
    char block[96]; /* of an answer in Markdown: which code block it is; else "" */
    char cause[TS_ENTRANT_CAUSE + 1]; /* of a single C file: what makes it class host; else "" */
    char family[65]; /* equal for sources that differ in blanks and comments only */
} ts_entrant;

/* `challenge` may be NULL, except for a single file that defines no task's function, or several.
 * Call ts_entrant_free even on failure. */
bool ts_entrant_read(const char *path, const char *challenge, ts_entrant *e, ts_refusal *why);
void ts_entrant_free(ts_entrant *e);

/* The entrants at `path`, sorted: the path itself, or the contents of the folders below one without
 * entry.json:
 *
 *     MODEL/CHALLENGE.c   MODEL/CHALLENGE.md   MODEL/CHALLENGE/   MODEL/CHALLENGE/sample-3/
 *
 * and similar paths. The folder names the model, never the stem of a file that is named after a
 * challenge. If no part of the path names a challenge, entry.json or the file name names the
 * entrant. */
typedef struct ts_answer {
    char       *path;
    char        model[TS_ENTRANT_NAME + 1];  /* "": the entrant's own name */
    char        sample[TS_ENTRANT_NAME + 1]; /* "sample-3"; "": there is one answer */
    const char *challenge;                   /* by the path; NULL: the entrant's own */
} ts_answer;

typedef struct ts_paths {
    int       n, n_ignored;  /* texts that no challenge's name makes an answer */
    char      ignored[4096]; /* the first of them */
    ts_answer at[TS_ENTRANT_LIST];
} ts_paths;

bool ts_entrant_list(const char *path, ts_paths *list, ts_refusal *why);
void ts_entrant_list_free(ts_paths *list);

/* Whether a file with this name can be an entrant on its own. */
bool ts_entrant_takes(const char *name);

/* The file that Python imports: the adapter, else the first source. */
const ts_source *ts_entrant_main(const ts_entrant *e);

#endif
