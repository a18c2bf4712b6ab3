/* SPDX-License-Identifier: Apache-2.0 */
/* site.h - a log as a folder of pages: the board, a page per entrant and a page per challenge. */
#ifndef TS_SITE_H
#define TS_SITE_H

#include "board.h"

/* Appends the prompts of a challenge ("softmax_topk", "softmax_topk/cuda") to an array, as objects
 * with "title" and "text". */
typedef void ts_site_prompts(const char *task, ts_jw *w);

/* DIR/index.html, DIR/entrant/1-NAME.html by rank, DIR/challenge/NAME.html. False and one line in
 * why if a file cannot be written; *n_pages: how many were. `prompts` may be NULL. */
bool ts_site_write(const ts_records *r, const ts_board *b, ts_site_prompts *prompts,
                   const char *dir, int *n_pages, char why[TS_WHY]);

#endif
