/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - a strict reader of JSON that strangers wrote, and the escaping of what is shown of
 * them.
 *
 * Refused beyond what the grammar refuses: bad UTF-8, lone surrogates, U+0000, equal keys in one
 * object, numbers that no finite double holds, depth above 16, more than 256 members in an object,
 * texts above 16 MiB, anything after the value. A document is one allocation, sized before reading.
 */
#ifndef TS_READER_H
#define TS_READER_H

#include <stdbool.h>
#include <stddef.h>

enum { TS_JSON_DEPTH = 16, TS_JSON_MEMBERS = 256, TS_JSON_BYTES = 16 << 20 };

typedef enum ts_kind {
    TS_NULL,
    TS_FALSE,
    TS_TRUE,
    TS_NUMBER,
    TS_TEXT,
    TS_ARRAY,
    TS_OBJECT
} ts_kind;

typedef struct ts_node ts_node;
struct ts_node {
    ts_kind        kind;
    int            n; /* of items or members */
    double         number;
    const char    *text;  /* TS_TEXT: UTF-8, ends with 0 */
    const char    *key;   /* in an object */
    const ts_node *first; /* item or member */
    const ts_node *next;  /* after this one, in its array or object */
};

/* NULL, and "line 3, column 7: ..." in why, when the text is refused. The result is the caller's to
 * free(), in one go. */
ts_node *ts_json_read(const char *text, size_t n, char *why, size_t n_why);

/* The member called key, or NULL; also for a node that is no object. */
const ts_node *ts_json_member(const ts_node *o, const char *key);

/* The next character of n > 0 bytes of UTF-8, or -1; *used bytes are passed, 1 if it is bad. */
int ts_utf8_next(const char *s, size_t n, size_t *used);

/* True for what can move a cursor, hide or reorder text: controls, bidi marks, zero widths. */
bool ts_utf8_hostile(int c);

/* Writes n bytes of s as the inside of a JSON string, harmless to terminals and to pages: controls,
 * hostile characters, '<' and bytes that are no UTF-8 are escaped. Cut at a whole character to fit
 * n_out, always ended with 0. Returns its length. */
size_t ts_json_escape(const char *s, size_t n, char *out, size_t n_out);

/* The same for one line on a terminal: quotes, backslashes and '<' stay as they are. */
size_t ts_show(const char *s, size_t n, char *out, size_t n_out);

#endif
