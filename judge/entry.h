/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h - an entrant as it was handed in: a folder with entry.json, or one source file.
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
 * includes is not compiled by itself.
 *
 * An answer in Markdown is a single file too: the code block of it that markdown.h finds. */
#ifndef TS_ENTRY_H
#define TS_ENTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "class.h"

enum {
    TS_ENTRY_NAME = 64,            /* characters in a name, an author, a path */
    TS_ENTRY_SOURCES = 32,         /* the adapter included */
    TS_ENTRY_BYTES = 1 << 20,      /* of sources, in all */
    TS_ENTRY_BINARY = 256 << 20,   /* of a prebuilt shared library */
    TS_ENTRY_JSON_BYTES = 1 << 16, /* of entry.json */
    TS_ENTRY_LIST = 4096,          /* entrants in one folder */
    TS_ENTRY_OFFERS = 255,         /* characters of a scope */
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
    char   name[TS_ENTRY_NAME + 1]; /* relative to the folder */
    char  *bytes;                   /* and a 0 after them */
    size_t n;
    bool   compiled; /* a unit of its own: no header, nor included by another source */
} ts_source;

typedef struct ts_candidate {
    char        name[4 * TS_ENTRY_NAME + 1], author[4 * TS_ENTRY_NAME + 1];
    char        task[TS_ENTRY_NAME + 1];
    ts_class    cls;
    ts_language language;
    bool        json;               /* handed in with an entry.json */
    int         n_sources, adapter; /* the adapter's place among the sources, or -1 */
    ts_source   source[TS_ENTRY_SOURCES];
    char        source_sha256[65]; /* of the file; of what sha256sum prints, where there are more */
    char        offers[TS_ENTRY_OFFERS + 1]; /* a scope, as it was written; "": everything */
    char        launch[8192]; /* class sealed-gpu: the launch plan, see gpu/launch.h */
    char        block[96];    /* of an answer in Markdown: which code block it is; else "" */
    char        family[65];   /* equal for sources that differ in blanks and comments only */
} ts_candidate;

/* `challenge` may be NULL: it is needed for a single file in which no task's function is found, or
 * more than one. In any case ts_entry_free may follow. */
bool ts_entry_read(const char *path, const char *challenge, ts_candidate *e, ts_refusal *why);
void ts_entry_free(ts_candidate *e);

/* The entrants at `path`, sorted: itself, or what the folders below one without entry.json hold:
 *
 *     MODEL/CHALLENGE.c   MODEL/CHALLENGE.md   MODEL/CHALLENGE/   MODEL/CHALLENGE/sample-3/
 *
 * and the like. Who handed one in is its folder, never the stem of a file that is named after a
 * challenge. Without a challenge's name in the path, entry.json or the file says who it is. */
typedef struct ts_answer {
    char       *path;
    char        model[TS_ENTRY_NAME + 1];  /* "": as the entry itself says */
    char        sample[TS_ENTRY_NAME + 1]; /* "sample-3"; "": there is one */
    const char *challenge;                 /* by the path; NULL: as the entry says */
} ts_answer;

typedef struct ts_paths {
    int       n;
    ts_answer at[TS_ENTRY_LIST];
} ts_paths;

bool ts_entry_list(const char *path, ts_paths *list, ts_refusal *why);
void ts_entry_list_free(ts_paths *list);

/* Does the name end as a single file's does that may be an entrant? */
bool ts_entry_takes(const char *name);

/* entry.json's "launch" and "workspace" as the text of gpu/launch.h, which ts_launch_read takes:
 * `text` has room for TS_LAUNCH_BYTES and a 0. Other keys of `doc` are not looked at. */
struct ts_jr_node;
bool ts_launch_from_json(const struct ts_jr_node *doc, char *text, size_t n, ts_refusal *why);

/* The file that a Python entrant is entered by: its adapter, else its first source. */
const ts_source *ts_entry_main(const ts_candidate *e);

#endif
