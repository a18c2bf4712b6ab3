/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the record of a run: one JSON object a line, only ever appended.
 *
 * {"seq":N,"prev":HASH of the line before,"type":...,...,"self":HASH of this line up to here}
 *
 * `prev` chains every line to all before it; `self` covers the last one too, which nothing follows
 * yet. A changed, moved, missing or doubled line is found by its number. Cutting whole lines off
 * the end is not: that is what the `end` record and the hash in the report's footer are for. */
#ifndef TS_LOG_H
#define TS_LOG_H

#include "json.h"

enum { TS_WHY = 256 };

/* ---- reading ---- */

typedef struct ts_record {
    const char       *line; /* without its newline */
    size_t            n;
    const char       *type;
    const ts_jr_node *root;
    ts_jr_doc        *doc;
    char             *own; /* not NULL: its line is no part of the text, and freed with it */
} ts_record;

typedef struct ts_records {
    ts_record *at;
    size_t     n;
    char       last[65]; /* hash of the last line; 64 zeros if there is none */
    size_t     n_bytes;  /* of whole lines */
    size_t     n_torn;   /* bytes after them: a line that was being written when the writer died */
    char      *text;
} ts_records;

/* Takes the text over (malloc) and frees it, also when it fails: with false, and in `why` the
 * number of the first line that is not as it was written. */
bool ts_records_parse(char *text, size_t n, ts_records *r, char why[TS_WHY]);
bool ts_records_read(const char *path, ts_records *r, char why[TS_WHY]);
void ts_records_free(ts_records *r);

/* The verdict on this source in this task, NULL if there is none yet: what --resume skips. */
const ts_record *ts_records_verdict(const ts_records *r, const char *source_sha256,
                                    const char *task);

/* ---- writing ---- */

typedef struct ts_log ts_log;

/* Makes the log, or continues it after verifying all of it. *r, if given, is what it held. A torn
 * last line is cut off, and `why` says so; otherwise `why` is empty. NULL and `why` if the log is
 * not whole, is being written by another process, or cannot be written. */
ts_log *ts_log_open(const char *path, ts_records *r, char why[TS_WHY]);

/* A record: begin, fill with ts_jw_*, commit. Commit writes one whole line and waits until it is on
 * the disk; false: it is not there, and nothing can be appended any more. */
ts_jw *ts_log_begin(ts_log *l, const char *type);
bool   ts_log_commit(ts_log *l);
void   ts_log_close(ts_log *l);

#endif
