/* SPDX-License-Identifier: Apache-2.0 */
/* derive.h - what follows from the times and verdicts of a log: scores, matches and ranks, as
 * records of their own. The judge only measures. */
#ifndef TS_DERIVE_H
#define TS_DERIVE_H

#include "log.h"

/* Where derived records go: begin, fill with ts_jw_*, commit. */
typedef struct ts_sink {
    ts_jw *(*begin)(void *to, const char *type);
    bool (*commit)(void *to);
    void *to;
} ts_sink;

/* Derives what the log's runs lack; an overall ranking follows if anything did. Appending to the
 * log, and to the records in memory: false if one of the records could not be written. */
bool ts_derive(const ts_records *r, ts_sink sink);
bool ts_derive_into_log(const ts_records *r, ts_log *l);
bool ts_derive_into_records(ts_records *r);

#endif
