/* SPDX-License-Identifier: Apache-2.0 */
/* generate_run.h - shared by plain, beam and speculative generation: prompts, model, reports. */
#ifndef TS_TOOL_GENERATE_RUN_H
#define TS_TOOL_GENERATE_RUN_H

#include "generate.h"
#include "model_open.h"

/* One prompt and its continuation. */
typedef struct ts_story {
    const char *text;
    size_t      n_text;
    int32_t    *token; /* of the prompt, then generated */
    int64_t     n_prompt, n_token, n_most;
    ts_text     made;    /* the continuation's text; ends before a stop text, tokens do not */
    size_t      n_shown; /* bytes of it */
    bool        ended;
    ts_status   status;
    ts_finish   finish;
} ts_story;

typedef struct ts_generate_work {
    const ts_generate_plan *p;
    ts_decoder             *m;
    ts_tokenizer           *t;
    char                   *file; /* of --prompts, or standard input */
    ts_story               *story;
    int64_t                 n_story, n_told; /* stories, and those already printed */
    ts_generation           model;           /* what its authors want */
    ts_sampling             sampling;
    int                     n_stop; /* texts */
    ts_engine              *e;
    FILE                   *out; /* NULL if JSON goes to standard output */
} ts_generate_work;

/* Options for a cache of this many sequences, each as long as the longest story. */
ts_engine_options ts_generate_options(const ts_generate_work *w, int64_t n_seq);
/* Tokens that end a text; returns their number. */
int ts_generate_stops(const ts_generate_work *w, int32_t stop[TS_MODEL_STOPS]);
/* Submits every story to the engine. */
bool ts_generate_add_all(const ts_generate_work *w, ts_engine *e);

/* Prints a single story as it is generated; of several, each once it and all before it are done.
 * `user`: the work. */
void ts_generate_tell(void *user, const ts_event *e);
/* Writes the list `stories` and why they ended; returns the exit status. */
int    ts_generate_stories(const ts_generate_work *w, ts_json *json);
double ts_generate_rate(int64_t n, double s); /* 0 if s is 0 */
double ts_generate_now(void);

/* ---- generate_search.c: both return an exit status ---- */

int ts_generate_beams(ts_generate_work *w, ts_json *json);
int ts_generate_drafts(ts_generate_work *w, ts_json *json);

#endif
