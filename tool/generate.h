/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - what `touchstone generate` was asked for. */
#ifndef TS_TOOL_GENERATE_H
#define TS_TOOL_GENERATE_H

#include "tool.h"
#include "touchstone/touchstone.h"

/* Without --model the one that comes with the program, or $TOUCHSTONE_MODEL; without a prompt
 * besides, samples of its own. */
typedef struct ts_generate_plan {
    const char *model, *tokenizer, *prompt, *prompts, *json, *textbook, *draft, *verify;
    uint64_t    n_new, top_k, n_page, chunk, seed;
    uint64_t    n_beam;                 /* 0: no beam search */
    uint64_t    tree_width, tree_depth; /* of drafts */
    double      temperature, top_p, alpha;
    bool        paged, samples;
    ts_dtype    dtype, store;
    ts_device   device;
} ts_generate_plan;

/* One line on standard error; false. */
bool ts_generate_complain(const char *what, const char *why);

/* Loads, generates, reports; an exit status. */
int ts_generate(const ts_generate_plan *p);

#endif
