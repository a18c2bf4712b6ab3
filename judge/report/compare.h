/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h - what changed between two logs: verdicts, counts of cases, faults, scores.
 *
 * Entrants are matched by name and author, their answers by challenge; of several answers to a
 * challenge the best one is compared, and how many passed. A speed differs only if the 95 %
 * intervals of both are apart, and only between like machines.
 *
 * A record `against` has the label and start of the earlier log, a note if its times are not
 * compared, the number of answers in both logs, and all entrants with passed, entered and score of
 * each log. A record `change` per answer that changed has name, author, task, kind, `was` and
 * `now` (verdict, cases, score, S, of_best, answers, passed), faults_new, faults_gone and, if the
 * answer is the same, same_files: the change comes from the draw or the machine. Kinds:
 * lost, gained, verdict, faults, cases, slower, faster, new, removed. */
#ifndef TS_COMPARE_H
#define TS_COMPARE_H

#include "board.h"
#include "memory.h"

/* Appends the records; false if out of memory. */
bool ts_compare(const ts_board *was, const ts_board *now, const char *label, ts_memory *to);

/* Prints them, at most 100 columns wide, for a terminal. */
void ts_compare_print(const ts_record *at, size_t n, FILE *f);

#endif
