/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - a strict small JSON reader (ts_jr_) and writer (ts_jw_), for logs and entry.json, which
 * are untrusted.
 *
 * The reader accepts a subset of RFC 8259: valid UTF-8, no duplicate key, no lone surrogate, no
 * U+0000, numbers within the range of a finite double, the limits below, nothing after the value.
 * Since JSON has no NaN or infinity, the writer emits the strings "nan", "inf" and "-inf", and
 * ts_jr_num accepts those three. */
#ifndef TS_JSON_H
#define TS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TS_JR_DEPTH = 16,
    TS_JR_MEMBERS = 256, /* of one object: the search for duplicate keys is quadratic */
    TS_JR_BYTES = 16 << 20,
};

typedef enum ts_jr_type {
    TS_JR_NULL,
    TS_JR_BOOL,
    TS_JR_NUM,
    TS_JR_STR,
    TS_JR_ARR,
    TS_JR_OBJ
} ts_jr_type;

typedef struct ts_jr_doc  ts_jr_doc;
typedef struct ts_jr_node ts_jr_node;

/* NULL, and "line 3, column 7: ..." in why, safe to print, if the text is rejected. */
ts_jr_doc        *ts_jr_parse(const char *text, size_t n, char *why, size_t n_why);
void              ts_jr_free(ts_jr_doc *d);
const ts_jr_node *ts_jr_root(const ts_jr_doc *d);

/* All accept NULL and any type: a missing value, or one of another type, is NULL, false or 0. */
ts_jr_type        ts_jr_is(const ts_jr_node *v);
const ts_jr_node *ts_jr_get(const ts_jr_node *object, const char *key);
size_t            ts_jr_len(const ts_jr_node *v); /* of an array or object */
const ts_jr_node *ts_jr_at(const ts_jr_node *v, size_t i);
const char       *ts_jr_key(const ts_jr_node *object, size_t i);
const char       *ts_jr_str(const ts_jr_node *v);
bool              ts_jr_num(const ts_jr_node *v, double *x);
bool              ts_jr_int(const ts_jr_node *v, int64_t *i); /* written without point or e */
bool              ts_jr_bool(const ts_jr_node *v);

/* A member by key, with a default. */
const char *ts_jr_text(const ts_jr_node *object, const char *key, const char *otherwise);
double      ts_jr_number(const ts_jr_node *object, const char *key, double otherwise);
int64_t     ts_jr_whole(const ts_jr_node *object, const char *key, int64_t otherwise);

/* The writer builds one line. Keys are not escaped; in an array the key is NULL. In strings,
 * invalid UTF-8 becomes '?', and characters that could harm a terminal or a page (ts_hostile, '<',
 * '>', '&') are escaped. Out of memory sets `failed`, after which all calls do nothing. */

typedef struct ts_jw {
    char  *text; /* 0-terminated; NULL before the first write */
    size_t n, cap;
    bool   failed;
} ts_jw;

void ts_jw_raw(ts_jw *w, const char *s, size_t n);
void ts_jw_open(ts_jw *w, const char *key, char bracket);      /* '{' or '[' */
void ts_jw_close(ts_jw *w, char bracket);                      /* '}' or ']' */
void ts_jw_text(ts_jw *w, const char *key, const char *value); /* NULL: null */
void ts_jw_num(ts_jw *w, const char *key, double value);       /* 17 digits where needed */
void ts_jw_int(ts_jw *w, const char *key, int64_t value);
void ts_jw_bool(ts_jw *w, const char *key, bool value);
void ts_jw_free(ts_jw *w);

#endif
