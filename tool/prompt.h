/* SPDX-License-Identifier: Apache-2.0 */
/* prompt.h - the whole text that an author needs for one challenge in one language. */
#ifndef TS_PROMPT_H
#define TS_PROMPT_H

#include <stdio.h>

#include "class.h"
#include "json.h"
#include "task.h"

typedef struct ts_prompt_part {
    const char *from; /* below challenge/; "%s" is the challenge */
    const char *to;
} ts_prompt_part;

typedef struct ts_prompt_language {
    const char    *name, *title, *fence; /* "c++", "C++", what a code block is marked with */
    const char    *tags;                 /* of parts of the texts that it has, see markup.h */
    const char    *language;             /* of entry.json */
    ts_class       cls;
    const char    *ending, *starter; /* of the entrant's file; of the template of it */
    ts_device      device;
    ts_prompt_part parts[10]; /* files in addition to the prompt and the starter */
} ts_prompt_language;

extern const ts_prompt_language ts_prompt_languages[]; /* name NULL ends */

/* A whole file of a folder; NULL and one line on standard error if it cannot be read. */
char *ts_slurp(const char *folder, const char *file);

/* The starter: the template, adapted to the language, with the signature that the task has. */
bool ts_starter_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                      FILE *to);

/* An adapter: what to find out about code that was not written for the challenge, and the starter's
 * function to fill in. */
bool ts_adapter_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                      FILE *to);

/* The prompt; with `whole`, one text to paste: how to answer instead of how to run the self-test.
 * `templates` and `headers` are folders. False and one line on standard error: a file is missing.
 */
bool ts_prompt_write(const ts_task *t, const ts_prompt_language *l, const char *templates,
                     const char *headers, bool whole, FILE *to);

/* The folders of the templates and of the contract's headers: next to the build folder, or as
 * installed. */
typedef struct ts_prompt_places {
    char templates[4096], headers[4096];
} ts_prompt_places;

bool ts_prompt_places_find(ts_prompt_places *p);

/* The prompts of a challenge of a log, in every language of its device, for ts_site_write. */
void ts_prompts_of(const char *label, ts_jw *w);

#endif
