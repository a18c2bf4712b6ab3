/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the scoreboard as one self-contained HTML file: page/ contains its style and script. */
#ifndef TS_PAGE_H
#define TS_PAGE_H

#include "board.h"

/* The only page. Instead of the entrants' sources it has their numbers of lines. False on a write
 * error. */
bool ts_page_write(const ts_records *r, const ts_board *b, FILE *f);

/* One page of a site (site.h), with all records given; sources only if wanted. `about` is JSON:
 * page/data.js says what it has. */
bool ts_page_write_about(const ts_records *r, const ts_board *b, const char *about, bool sources,
                         FILE *f);

#endif
