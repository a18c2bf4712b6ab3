/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - the options of `touchstone generate`. */
#ifndef TS_TOOL_GENERATE_H
#define TS_TOOL_GENERATE_H

#include "model_options.h"

/* The default model is $TOUCHSTONE_MODEL or the bundled one; with it the default prompts are
 * built-in samples. */
typedef struct ts_generate_plan {
    ts_model_plan m;
    const char   *prompt, *prompts, *draft;
    int64_t       n_new, n_page;
    int64_t       n_beam;  /* 0: no beam search */
    int64_t       tree[2]; /* of drafts: width, depth */
    double        alpha;
    ts_kv_layout  kv;
    bool          samples, textbook, verify;
} ts_generate_plan;

/* Loads, generates and reports; returns an exit status. */
int ts_generate(const ts_generate_plan *p);

#endif
