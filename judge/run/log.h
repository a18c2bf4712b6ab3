/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the append-only log of a run: one JSON object per line.
 *
 * {"seq":N,"prev":HASH of the line before,"type":...,...,"self":HASH of this line up to here}
 *
 * `prev` chains every line to all before it; `self` also protects the last line. A changed, moved,
 * missing or duplicate line is reported by number. Removal of whole lines at the end is not
 * detected by the chain, but by a missing `end` record and by the hash in the report's footer.
 *
 * The chain has no secret: a log whose every hash was computed again is a valid one. A record
 * `signature` vouches for all lines before it, see tool/signature.h. */
#ifndef TS_LOG_H
#define TS_LOG_H

#include <string.h>

#include "json.h"

enum { TS_WHY = 256 };

/* ---- reading ---- */

typedef struct ts_record {
    const char       *line; /* without newline */
    size_t            n;
    const char       *type;
    const ts_jr_node *root;
    ts_jr_doc        *doc;
    char             *own; /* not NULL: its line is allocated separately */
} ts_record;

static inline bool ts_record_is(const ts_record *r, const char *type)
{
    return !strcmp(r->type, type);
}

typedef struct ts_records {
    ts_record *at;
    size_t     n;
    char       last[65]; /* hash of the last line; 64 zeros if there is none */
    size_t     n_bytes;  /* of whole lines */
    size_t     n_torn;   /* bytes of an incomplete last line */
    char      *text;
} ts_records;

/* Takes ownership of the text (malloc), even on failure: false, and in `why` the number of the
 * first altered line. */
bool ts_records_parse(char *text, size_t n, ts_records *r, char why[TS_WHY]);
bool ts_records_read(const char *path, ts_records *r, char why[TS_WHY]);
void ts_records_free(ts_records *r);

/* Whether its last run ended; signatures may follow. */
bool ts_records_ended(const ts_records *r);

/* The verdict on this source in this task, NULL if there is none: --resume skips such entrants. */
const ts_record *ts_records_verdict(const ts_records *r, const char *source_sha256,
                                    const char *task);

/* ---- writing ---- */

/* Private to log.c and log_read.c. */
typedef struct ts_log {
    int     fd;
    int64_t seq;
    int     error; /* an errno: nothing more can be appended */
    char    prev[65];
    ts_jw   w;
} ts_log;

/* Creates the log, or verifies and continues it. *r, if not NULL, receives its records. An
 * incomplete last line is removed and reported in `why`, which is otherwise empty. NULL and `why`
 * if the log is altered, is being written by another process, or cannot be written. */
ts_log *ts_log_open(const char *path, ts_records *r, char why[TS_WHY]);

/* A record: begin, fill with ts_jw_*, commit. Commit writes one line and waits until it is on disk;
 * on false it is not, and nothing more can be appended. */
ts_jw *ts_log_begin(ts_log *l, const char *type);
bool   ts_log_commit(ts_log *l);
void   ts_log_close(ts_log *l);

/* The hash of the last line. */
static inline const char *ts_log_last(const ts_log *l)
{
    return l->prev;
}

#endif
