/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the board as one HTML file that needs nothing else: page/ holds its style and script. */
#ifndef TS_PAGE_H
#define TS_PAGE_H

#include "board.h"

/* False if it could not all be written. */
bool ts_page_write(const ts_records *r, const ts_board *b, FILE *f);

/* One of several pages: "index", "entrant", "challenge"; "": the only one. */
bool ts_page_write_kind(const ts_records *r, const ts_board *b, const char *kind, FILE *f);

#endif
