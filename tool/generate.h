/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - the options of `touchstone generate`. */
#ifndef TS_TOOL_GENERATE_H
#define TS_TOOL_GENERATE_H

#include "model_options.h"

/* The default model is $TOUCHSTONE_MODEL or the bundled one; with it the default prompts are
 * built-in samples. */
typedef struct ts_generate_plan {
    const char *model, *tokenizer, *prompt, *prompts, *json, *textbook, *draft, *verify;
    const char *stop[TS_OPTION_MANY];
    uint64_t    n_new, n_page, chunk, seed, n_threads;
    uint64_t    top_k;                  /* TS_UNSET: the model's */
    uint64_t    n_beam;                 /* 0: no beam search */
    uint64_t    tree_width, tree_depth; /* of drafts */
    double      temperature, top_p;     /* below 0: the model's */
    double      alpha;
    bool        paged, samples;
    ts_dtype    dtype, store;
    ts_device   device;
    const char *exact; /* an option that was given, or NULL */
} ts_generate_plan;

/* Loads, generates and reports; returns an exit status. */
int ts_generate(const ts_generate_plan *p);

#endif
