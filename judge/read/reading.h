/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - what the judge asks the reader, and what the reader may answer.
 *
 * The judge opens an entrant's files and keeps their bytes, but parses none of them: it sends them
 * to a process of its own, touchstone-reader, which sends back one ts_reading and ends. A new
 * process reads each entrant, and has no descriptor but its question and its answer.
 *
 * Malicious text that takes the reader over gains nothing. The answer names files that the judge
 * then opens below the entrant's own folder, a part of a file that the judge has, and values that
 * the entrant's author could have written: name, class, scope, launch plan. The judge checks each
 * of them, computes the hash, and decides itself what does not depend on the text: the device, the
 * challenge that the operator named, the name of a single file. */
#ifndef TS_READING_H
#define TS_READING_H

#include <stdint.h>

#include "entrant.h"

enum {
    TS_READING_MARK = 0x7e5d0002, /* changes with the layout below */
    TS_READING_TASKS = 64,
    TS_READER_SECONDS = 30,
};

typedef enum ts_read_what {
    TS_READ_ENTRY,   /* entry.json */
    TS_READ_FILE,    /* a single source file, or an answer in Markdown */
    TS_READ_SOURCES, /* all sources of a folder */
} ts_read_what;

/* The bytes of the files follow it. */
typedef struct ts_question {
    uint32_t what, language; /* ts_read_what; ts_language, except of Markdown */
    int32_t  markdown;       /* 1: the file is an answer in Markdown */
    int32_t  wanted;         /* the task that it answers; -1: unknown */
    uint32_t n_files, n_tasks;
    struct {
        uint64_t n;
        char     name[TS_ENTRANT_NAME + 1];
    } file[TS_ENTRANT_SOURCES];
    struct {
        char name[64], function[64]; /* in Python; in other languages */
    } task[TS_READING_TASKS];
} ts_question;

/* Reasons of a refusal by number; 0: none. */
enum { TS_N_READING_REASONS = 4 };
extern const char *const ts_reading_reasons[TS_N_READING_REASONS];

/* Strings end with 0 inside their arrays; flags are 0 or 1. What the question does not ask for is
 * ignored. */
typedef struct ts_reading {
    uint32_t mark;
    uint32_t filtered;  /* its system calls are; believed where the judge wrote the text, only */
    uint32_t reason;    /* why it is rejected, once what precedes it in the text is accepted */
    char     text[512]; /* of the refusal */

    /* entry.json; what was read before a refusal */
    uint32_t cls, language;
    char     name[4 * TS_ENTRANT_NAME + 1], author[4 * TS_ENTRANT_NAME + 1];
    char     task[4 * TS_ENTRANT_NAME + 1];
    char     launch[TS_ENTRANT_LAUNCH + 1];
    uint32_t n_sources;
    int32_t  adapter;
    char     source[TS_ENTRANT_SOURCES][TS_ENTRANT_NAME + 1];

    char offers[TS_ENTRANT_OFFERS + 1]; /* of entry.json or a single file */

    /* a single file */
    struct {
        uint64_t at, n;
        uint32_t found, language, closed;
        int32_t  number, of, line;
    } block;                         /* of Markdown */
    uint8_t calls[TS_READING_TASKS]; /* whether the function of a task occurs */
    uint8_t host;                    /* C that class sealed does not accept, and why */
    char    cause[TS_ENTRANT_CAUSE + 1];

    /* sources: which others include, and the hash of all without blanks and comments */
    uint8_t included[TS_ENTRANT_SOURCES];
    char    family[65];
} ts_reading;

typedef struct ts_reply {
    size_t        n; /* sizeof bytes: too many */
    unsigned char bytes[sizeof(ts_reading) + 1];
} ts_reply;

/* Sends the question and its files to a reader, and receives the reply. False and one line in *why
 * if there is none: by the judge's fault if the reader has not read a byte of the question yet.
 * `reader` is what the caller of ts_entrant_read_with gave. */
typedef bool ts_ask(const void *reader, const ts_question *q, const ts_source *file, ts_reply *r,
                    ts_refusal *why);

/* Asks a new process, and ends it: ts_reader_file says which program. */
typedef struct ts_reader_file {
    const char *path; /* NULL: touchstone-reader, next to the program */
    int         limit_s;
} ts_reader_file;
ts_ask ts_ask_process;

/* Checks everything in the reply. False and one line in *why if it is no answer to q. */
bool ts_reading_take(const ts_reply *reply, const ts_question *q, ts_reading *r, ts_refusal *why);

/* As ts_entrant_read, with another reader. */
bool ts_entrant_read_with(ts_ask *ask, const void *reader, const char *path, const char *challenge,
                          ts_entrant *e, ts_refusal *why);

#endif
