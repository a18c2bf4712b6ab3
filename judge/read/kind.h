/* SPDX-License-Identifier: Apache-2.0 */
/* kind.h - which names, classes, languages and characters an entrant may have. The reader's process
 * has these rules for its messages; the judge applies them again to what the reader sends. */
#ifndef TS_KIND_H
#define TS_KIND_H

#include "entrant.h"

extern const char *const ts_class_names[TS_N_CLASSES], *const ts_language_names[TS_N_LANGUAGES];

/* What a file's name implies. */
typedef struct ts_ending {
    const char *text; /* ".c" */
    ts_language language;
    ts_class    cls;  /* of a single file */
    bool        unit; /* compiled or loaded on its own */
} ts_ending;

const ts_ending *ts_ending_of(const char *name); /* NULL: no entrant has such files */

/* Whether entrants of this class are written in this language. */
bool ts_class_takes(ts_class cls, ts_language language);

/* Whether an entrant of this language that has n_sources may have one more, called `name`. */
bool ts_source_ok(const char *name, ts_language language, int n_sources, ts_refusal *why);

/* The number of characters in a name, or -1: not UTF-8, or with a character that could harm a
 * terminal. */
long ts_name_length(const char *text);

bool ts_offers_ok(const char *text, ts_refusal *why);

#endif
