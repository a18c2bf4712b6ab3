/* SPDX-License-Identifier: Apache-2.0 */
/* chat.h - the options of `touchstone chat`. */
#ifndef TS_TOOL_CHAT_H
#define TS_TOOL_CHAT_H

#include "model_options.h"

typedef struct ts_chat_plan {
    ts_model_plan m;
    const char *template, *system;
    int64_t n_new, context; /* context 0: the default */
} ts_chat_plan;

/* Loads, talks and reports; returns an exit status. */
int ts_chat_run(const ts_chat_plan *p);

#endif
