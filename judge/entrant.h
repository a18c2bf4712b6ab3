/* SPDX-License-Identifier: Apache-2.0 */
/* entrant.h - an entrant as it was handed in: a folder with entry.json, or one source file.
 *
 *     { "name": "...", "author": "...", "challenge": "softmax_topk", "class": "sealed",
 *       "language": "c", "sources": ["kernel.c", "kernel.h"], "adapter": "adapter.c" }
 *
 * "offers" may say for which cases it is meant, see scope.h; in a single file a comment does, in
 * one of its first 64 lines: `touchstone-offers: k <= 32`. Class sealed-gpu has "launch" and
 * "workspace" besides; see gpu/launch.h.
 *
 * Only what is listed is read, once: what is hashed is what is built. An adapter is a source more,
 * which maps other names and orders of arguments to the challenge's. A source that another one
 * includes is not compiled by itself. */
#ifndef TS_ENTRANT_H
#define TS_ENTRANT_H

#include <stdbool.h>
#include <stddef.h>

#include "class.h"

enum {
    TS_ENTRANT_NAME = 64,            /* characters in a name, an author, a path */
    TS_ENTRANT_SOURCES = 32,         /* the adapter included */
    TS_ENTRANT_BYTES = 1 << 20,      /* of sources, in all */
    TS_ENTRANT_BINARY = 256 << 20,   /* of a prebuilt shared library */
    TS_ENTRANT_JSON_BYTES = 1 << 16, /* of entry.json */
    TS_ENTRANT_LIST = 1024,          /* entrants in one folder */
    TS_ENTRANT_OFFERS = 255,         /* characters of a scope */
};

typedef enum ts_language { TS_C, TS_CXX, TS_PY, TS_BINARY, TS_CU, TS_N_LANGUAGES } ts_language;

const char *ts_class_name(ts_class c);       /* "sealed", "host", "python", "sealed-gpu" ... */
const char *ts_language_name(ts_language l); /* "c", "c++", "python", "binary", "cuda" */

/* Why an entrant was refused: a reason code of the verdict, and one line, safe to show. */
typedef struct ts_refusal {
    const char *reason; /* "entry", "size", "build", "symbol", "missing", "launch" */
    char        text[512];
} ts_refusal;

/* Fills *why and returns false. */
bool ts_refuse(ts_refusal *why, const char *reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

typedef struct ts_source {
    char   name[TS_ENTRANT_NAME + 1]; /* relative to the folder */
    char  *bytes;                     /* and a 0 after them */
    size_t n;
    bool   compiled; /* a unit of its own: no header, nor included by another source */
} ts_source;

typedef struct ts_entrant {
    char        name[4 * TS_ENTRANT_NAME + 1], author[4 * TS_ENTRANT_NAME + 1];
    char        task[TS_ENTRANT_NAME + 1];
    ts_class    cls;
    ts_language language;
    bool        json;               /* handed in with an entry.json */
    int         n_sources, adapter; /* the adapter's place among the sources, or -1 */
    ts_source   source[TS_ENTRANT_SOURCES];
    char        source_sha256[65]; /* of the file; of what sha256sum prints, where there are more */
    char        offers[TS_ENTRANT_OFFERS + 1]; /* a scope, as it was written; "": everything */
    char        launch[8192]; /* class sealed-gpu: the launch plan, see gpu/launch.h */
    char        family[65];   /* equal for sources that differ in blanks and comments only */
} ts_entrant;

/* `challenge` may be NULL: it is needed for a single file in which no task's function is found, or
 * more than one. In any case ts_entrant_free may follow. */
bool ts_entrant_read(const char *path, const char *challenge, ts_entrant *e, ts_refusal *why);
void ts_entrant_free(ts_entrant *e);

/* The entrants at `path`, sorted: itself, or what a folder without entry.json holds. */
typedef struct ts_paths {
    int   n;
    char *path[TS_ENTRANT_LIST];
} ts_paths;

bool ts_entrant_list(const char *path, ts_paths *list, ts_refusal *why);
void ts_entrant_list_free(ts_paths *list);

/* Does the name end as a single file's does that may be an entrant? */
bool ts_entrant_takes(const char *name);

/* entry.json's "launch" and "workspace" as the text of gpu/launch.h, which ts_launch_read takes:
 * `text` has room for TS_LAUNCH_BYTES and a 0. Other keys of `doc` are not looked at. */
struct ts_jr_node;
bool ts_launch_from_json(const struct ts_jr_node *doc, char *text, size_t n, ts_refusal *why);

/* The file that a Python entrant is entered by: its adapter, else its first source. */
const ts_source *ts_entrant_main(const ts_entrant *e);

#endif
