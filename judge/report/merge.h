/* SPDX-License-Identifier: Apache-2.0 */
/* merge.h - the records of several logs as one list, for one board.
 *
 * Verdicts are merged. Times are compared only if they come from like machines: runs with the same
 * CPU, cores, device, version, draw rule, depth and number of threads, whose measured peak rates
 * differ by at most a quarter. A challenge that was timed on unlike machines keeps its verdicts and
 * loses its times, scores and matches, and a note says so. Different challenges may be of unlike
 * machines, which is noted, too.
 *
 * An answer that is in several logs (same name, author, class, sample and challenge) counts once:
 * the first log with a verdict on it, in the order in which the logs were added.
 *
 * The list begins with the run that verified the fewest guarantees, and has an `end` only if all
 * logs have. A record `merge` has the number of logs, the hashes of their last lines, the note, and
 * in `timed` machine, device and peak rates of challenges that were timed on another machine than
 * that of the list's run. */
#ifndef TS_MERGE_H
#define TS_MERGE_H

#include "log.h"

typedef struct ts_merge ts_merge;

ts_merge *ts_merge_begin(void); /* NULL if out of memory */

/* Derives what the log lacks, and adds its records; they may be freed afterwards. False, and one
 * line in why, if the log is inconsistent or its version is not that of the others. */
bool ts_merge_add(ts_merge *m, ts_records *r, char why[TS_WHY]);

/* Who signed the log that was added last: a line for the `merge` record's `signed`, which has one
 * per log. False if out of memory. */
bool ts_merge_signed(ts_merge *m, const char *text);

/* A log that is expected, but not there yet. */
void ts_merge_await(ts_merge *m);

/* Moves everything to *all, and frees m, also on failure. */
bool ts_merge_end(ts_merge *m, ts_records *all, char why[TS_WHY]);
void ts_merge_free(ts_merge *m);

/* What makes times of two runs incomparable: "machine A and B"; "" if nothing does. */
void ts_merge_unlike(const ts_jr_node *a, const ts_jr_node *b, char *text, size_t n);

#endif
