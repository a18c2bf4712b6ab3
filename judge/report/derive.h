/* SPDX-License-Identifier: Apache-2.0 */
/* derive.h - derives scores, matches and ranks from the times and verdicts of a log, as new
 * records. The judge only measures. */
#ifndef TS_DERIVE_H
#define TS_DERIVE_H

#include "log.h"

/* Receives derived records: begin, fill with ts_jw_*, commit. */
typedef struct ts_sink {
    ts_jw *(*begin)(void *to, const char *type);
    bool (*commit)(void *to);
    void *to;
} ts_sink;

/* Derives the records that the log's runs lack, and then, if there were any, an overall ranking,
 * unless its players fall into groups that never met. A challenge with more than 64 timed entrants
 * has no matches. The two sinks append to the log, and to records in memory. False if a record
 * could not be written. */
bool ts_derive(const ts_records *r, ts_sink sink);
bool ts_derive_into_log(const ts_records *r, ts_log *l);
bool ts_derive_into_records(ts_records *r);

/* The overall ranking alone, from the matches of the records. */
bool ts_derive_overall(const ts_records *r, ts_sink sink);

#endif
