/* SPDX-License-Identifier: Apache-2.0 */
/* chat.h - the options of `touchstone chat`. */
#ifndef TS_TOOL_CHAT_H
#define TS_TOOL_CHAT_H

#include "model_options.h"

typedef struct ts_chat_plan {
    const char *model, *tokenizer, *template, *system, *json;
    const char *stop[TS_OPTION_MANY];
    uint64_t    n_new, context, chunk, seed, n_threads; /* context 0: the default */
    uint64_t    top_k;                                  /* TS_UNSET: the model's */
    double      temperature, top_p;                     /* below 0: the model's */
    ts_dtype    dtype;
    ts_device   device;
    const char *exact; /* an option that was given, or NULL */
} ts_chat_plan;

/* Loads, talks and reports; returns an exit status. */
int ts_chat_run(const ts_chat_plan *p);

#endif
