/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - scans source text without a compiler. */
#ifndef TS_SOURCE_H
#define TS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>

/* Copies s[0..n) to out (n + 1 bytes) without comments and, in C, spliced lines. */
void ts_scrub(const char *s, size_t n, bool python, char *out);

/* Whether scrubbed text contains the whole word `word` right before a '('. */
bool ts_calls(const char *text, const char *word);

/* The next #include of scrubbed C, or NULL; its name without quotes or brackets. */
const char *ts_next_include(const char *text, char *name, size_t n_name, bool *quoted);

/* Whether this C text cannot be sealed, judging by its includes and OpenMP; and what in it says so:
 * "#include <stdio.h>". */
bool ts_needs_host(const char *text, char *cause, size_t n);

#endif
