/* SPDX-License-Identifier: Apache-2.0 */
/* verdicts.h - the verdicts of `touchstone judge --json`. */
#ifndef TS_VERDICTS_H
#define TS_VERDICTS_H

#include "board.h"
#include "run.h"
#include "tool.h"

/* Adds the array "verdicts", of the entrants that this run judged. */
void ts_verdicts_list(const ts_run *c, const ts_board *b, ts_json *root);

#endif
