/* SPDX-License-Identifier: Apache-2.0 */
/* model_open.h - reads a model and its tokenizer for a command. */
#ifndef TS_TOOL_MODEL_OPEN_H
#define TS_TOOL_MODEL_OPEN_H

#include "decoder.h"
#include "model_options.h"

typedef struct ts_model_source {
    const char *model, *tokenizer; /* tokenizer may be NULL: in the model or next to it */
    ts_dtype    dtype;
    ts_device   device;
} ts_model_source;

/* False and one line on standard error on failure; the caller frees what is there in any case. */
bool ts_model_open(const ts_model_source *from, ts_decoder **m, ts_tokenizer **t);

/* A whole file, or standard input for "-"; at least one byte, and room for one more. NULL and one
 * line on standard error on failure. */
char *ts_read_text(const char *path, size_t *n);

#endif
