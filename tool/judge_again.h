/* SPDX-License-Identifier: Apache-2.0 */
/* judge_again.h - `touchstone judge --replay`: the parts that read the log. */
#ifndef TS_JUDGE_AGAIN_H
#define TS_JUDGE_AGAIN_H

#include "run.h"

/* Takes key, depth and --no-timing from the log. False, and an error line, if it was drawn by
 * another rule or has no key. */
bool ts_replay_key(ts_run *c, const ts_records *r, const char *log);
/* False, and an error line, if the log has a verdict on none of the entrants. */
bool ts_replay_knows(ts_run *c, const ts_records *r, const char *log);
/* Compares every verdict with the one in the log, a line each; returns the exit status. */
int ts_replay_compare(ts_run *c, const ts_records *r);
/* Compares every time with the one in the log, a line each, within their intervals and by the pace
 * of the two machines; returns the exit status. */
int ts_replay_times(const ts_run *c, const ts_records *now, const ts_records *was);

#endif
