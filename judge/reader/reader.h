/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - parses the text of an entrant. All of it runs in touchstone-reader only, which the
 * judge starts anew for each entrant; tests and fuzz targets call it directly. */
#ifndef TS_READER_H
#define TS_READER_H

#include "reading.h"

/* The answer; the bytes of each file end with a 0. */
void ts_reader_answer(const ts_question *q, const char *const *bytes, ts_reading *r);

/* Its parts: they fill in what they find, or return false and one line in *why. */
bool ts_reader_entry(const char *json, size_t n, ts_reading *r, ts_refusal *why);
bool ts_reader_single(const ts_question *q, const char *bytes, ts_reading *r, ts_refusal *why);
bool ts_reader_sources(const ts_question *q, const char *const *bytes, ts_reading *r,
                       ts_refusal *why);

/* entry.json's "launch" and "workspace" as the text of judge/gpu/launch.h, which ts_launch_read
 * accepts: `text` has room for TS_LAUNCH_BYTES and a 0. Other keys of `doc` are ignored. */
struct ts_jr_node;
bool ts_launch_from_json(const struct ts_jr_node *doc, char *text, size_t n, ts_refusal *why);

#endif
