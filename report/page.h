/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the scoreboard as one self-contained HTML file: page/ contains its style and script. */
#ifndef TS_PAGE_H
#define TS_PAGE_H

#include "board.h"

/* False on a write error. */
bool ts_page_write(const ts_records *r, const ts_board *b, FILE *f);

/* One of several pages: "index", "entrant", "challenge"; "": the only one. */
bool ts_page_write_kind(const ts_records *r, const ts_board *b, const char *kind, FILE *f);

#endif
