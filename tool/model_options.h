/* SPDX-License-Identifier: Apache-2.0 */
/* model_options.h - options of the commands that run a model: generate, chat, serve, evaluate. */
#ifndef TS_TOOL_MODEL_OPTIONS_H
#define TS_TOOL_MODEL_OPTIONS_H

#include "tool.h"
#include "touchstone/touchstone.h"

#ifndef TS_HAVE_MODEL
#define TS_HAVE_MODEL 0
#endif

enum { TS_MOST_TOKENS = 1 << 24, TS_MOST_THREADS = 1024 };

typedef struct ts_model_plan {
    bool        named; /* model, on the command line */
    const char *model, *tokenizer, *json;
    int64_t     chunk, n_threads; /* n_threads 0: the default */
    ts_dtype    dtype;
    ts_device   device;
    bool        exact;
    int64_t     top_k;              /* below 0: the model's */
    double      temperature, top_p; /* below 0: the model's */
    uint64_t    seed;
    const char *stop[TS_OPTION_MANY];
} ts_model_plan;

extern const ts_choice ts_stores[]; /* of the KV cache: f32, bf16, f16, int8, int4 */

/* Of --kv. */
typedef struct ts_kv_layout {
    const ts_choice *stores; /* those that are accepted */
    int              store;  /* a ts_dtype */
    bool             paged;
} ts_kv_layout;

/* "paged,int8", or either part alone, into a ts_kv_layout. */
bool ts_parse_kv(const char *text, void *layout);
#define TS_KV_EXPECTED                                                                             \
    "LAYOUT,DTYPE such as paged,int8: contiguous or paged, then f32, bf16, f16, int8 or int4"

/* The rows that all commands have, and those of generate and chat on how tokens are drawn. A
 * command parses its table once. */
const ts_option *ts_model_options(ts_model_plan *m);
const ts_option *ts_sampling_options(ts_model_plan *m);

/* ts_options with the operand MODEL; without one, $TOUCHSTONE_MODEL or the bundled one is run. */
bool ts_model_parse(int argc, char **argv, const char *usage, const ts_option *options,
                    ts_model_plan *m, int *status);

/* $TOUCHSTONE_MODEL, or the bundled model; NULL: neither. */
const char *ts_model_default(void);

/* Of a program that was built without what models need: one line, and the exit status. */
int ts_model_absent(const char *what);

#endif
