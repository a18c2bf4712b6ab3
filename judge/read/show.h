/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - prints untrusted text safely on a terminal. */
#ifndef TS_SHOW_H
#define TS_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the UTF-8 code point at s, and the code point in *code; 0 if it is invalid or longer
 * than n. */
int ts_utf8(const char *s, size_t n, uint32_t *code);

/* True for code points that can move the cursor, hide or reorder text: controls, bidi marks, zero
 * width. */
bool ts_hostile(uint32_t code);

/* The JSON escape of a code point: one \uXXXX, or a surrogate pair. */
void ts_escape(uint32_t code, char out[13]);

/* Writes n bytes of s as one line that is safe on a terminal: hostile characters are escaped, and
 * an invalid byte becomes \ufffd. Truncated at a character boundary to fit n_out, always
 * 0-terminated. Returns its length. */
size_t ts_show(const char *s, size_t n, char *out, size_t n_out);

#endif
