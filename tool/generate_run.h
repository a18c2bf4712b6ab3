/* SPDX-License-Identifier: Apache-2.0 */
/* generate_run.h - what the ways to generate share: prompts, a model, and what is said of them. */
#ifndef TS_TOOL_GENERATE_RUN_H
#define TS_TOOL_GENERATE_RUN_H

#include "decoder.h"
#include "generate.h"

/* One prompt and what became of it. */
typedef struct ts_story {
    const char *text;
    size_t      n_text;
    int32_t    *token; /* the prompt's, then those made */
    int64_t     n_prompt, n_token, n_most;
    bool        ended;
    ts_status   status;
} ts_story;

typedef struct ts_generate_work {
    const ts_generate_plan *p;
    ts_decoder             *m;
    ts_tokenizer           *t;
    char                   *file; /* of --prompts */
    ts_story               *story;
    int64_t                 n_story, n_told; /* of several; told in this order */
    ts_engine              *e;
    FILE                   *out; /* NULL when standard output carries JSON */
} ts_generate_work;

/* A cache for so many sequences as long as the longest story. */
ts_engine_options ts_generate_options(const ts_generate_work *w, int64_t n_seq);
/* Tokens that end a text; their number. */
int ts_generate_stops(const ts_generate_work *w, int32_t stop[TS_MODEL_STOPS]);
/* Every story as a request of the engine. */
bool ts_generate_add_all(const ts_generate_work *w, ts_engine *e);

/* One story as it comes; of several each when it and all before it are done. `user`: the work. */
void ts_generate_tell(void *user, const ts_event *e);
void ts_generate_show(FILE *out, const char *text, size_t n);
/* The list `stories`; the exit status. */
int    ts_generate_stories(const ts_generate_work *w, ts_json *json);
double ts_generate_rate(int64_t n, double s); /* 0 in no time */
double ts_generate_now(void);

/* ---- generate_search.c: an exit status ---- */

int ts_generate_beams(ts_generate_work *w, ts_json *json);
int ts_generate_drafts(ts_generate_work *w, ts_json *json);

#endif
