/* SPDX-License-Identifier: Apache-2.0 */
/* markup.h - text of challenge/ with parts that only some languages have.
 *
 *     {c|text}         kept if "c" is among the tags; {c,cuda|text} if one of them is
 *     @NAME@           a mark, replaced by its value
 *
 * A part has no brace inside. A line that only has dropped parts is dropped with them. Paragraphs
 * and items of lists are filled again; headings, tables, code and lines indented by 4 are kept. */
#ifndef TS_TOOL_MARKUP_H
#define TS_TOOL_MARKUP_H

#include <stdio.h>

typedef struct ts_mark {
    const char *name, *value; /* "@ID@"; a name NULL ends the list */
} ts_mark;

/* `tags` are words with a blank before and after each: " c cpu plain ". */
void ts_markup(const char *text, const char *tags, const ts_mark *marks, FILE *to);

#endif
