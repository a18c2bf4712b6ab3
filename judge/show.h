/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - text that strangers wrote, on a terminal. */
#ifndef TS_SHOW_H
#define TS_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 code point at s (*code is it), 0 if s holds none within n bytes. */
int ts_utf8(const char *s, size_t n, uint32_t *code);

/* True for what can move a cursor, hide or reorder text: controls, bidi marks, zero widths. */
bool ts_hostile(uint32_t code);

/* The JSON escape of a code point: one \uXXXX, or a surrogate pair. */
void ts_escape(uint32_t code, char out[13]);

/* Writes n bytes of s as one line that a terminal survives: hostile characters are escaped, a byte
 * that is no UTF-8 becomes \ufffd. Cut at a whole character to fit n_out, always ended with 0.
 * Returns its length. */
size_t ts_show(const char *s, size_t n, char *out, size_t n_out);

#endif
