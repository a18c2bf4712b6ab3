/* SPDX-License-Identifier: Apache-2.0 */
/* markdown.h - the code in an answer that was written as Markdown. */
#ifndef TS_MARKDOWN_H
#define TS_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ts_block {
    const char *code;
    size_t      n;
    const char *ending;           /* of the file that it makes: ".c", ".cpp", ".cu", ".py" */
    int         number, of, line; /* which of how many code blocks, and where it begins; from 1 */
    bool        closed;           /* false: the text ends inside of it */
} ts_block;

/* The last block in a language that entrants are written in: of those that define a function or
 * class that `wanted` names, a list that NULL ends; if none does, of those that have such a word;
 * if none has, of all. False: there is none. */
bool ts_markdown_code(const char *text, const char *const *wanted, ts_block *b);

#endif
