/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - what can be told from source text without a compiler. */
#ifndef TS_SOURCE_H
#define TS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* Copies s[0..n) to out (n + 1 bytes) without comments and, in C, spliced lines. */
void ts_scrub(const char *s, size_t n, bool python, char *out);

/* Does scrubbed text name `word` as a whole, right before a '('? */
bool ts_calls(const char *text, const char *word);

/* The next #include of scrubbed C, or NULL; its name without quotes or brackets. */
const char *ts_next_include(const char *text, char *name, size_t n_name, bool *quoted);

/* Would the sealed class refuse this C text out of hand? Includes and OpenMP tell. */
bool ts_needs_host(const char *text);

/* In preprocessed text: the pragma or attribute that would change the judge's flags, or NULL. */
const char *ts_smuggled(const char *text, size_t n);

#endif
