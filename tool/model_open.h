/* SPDX-License-Identifier: Apache-2.0 */
/* model_open.h - what commands that run a model share. */
#ifndef TS_TOOL_MODEL_OPEN_H
#define TS_TOOL_MODEL_OPEN_H

#include "decoder.h"
#include "model_options.h"

/* The model, its tokenizer, and, unless NULL, what its authors want. False and one line on standard
 * error on failure; the caller frees what is there in any case. */
bool ts_model_open(const ts_model_plan *p, ts_decoder **m, ts_tokenizer **t, ts_generation *g);

/* Tokens that end a text: those of generation_config.json, or else of the model and the tokenizer.
 * Returns their number. */
int ts_model_stops(const ts_decoder *m, const ts_tokenizer *t, const ts_generation *g,
                   int32_t stop[TS_MODEL_STOPS]);
/* What is unset comes from the model. */
ts_sampling ts_model_sampling(const ts_generation *g, const ts_model_plan *p);

extern const char *const ts_finish_names[]; /* by ts_finish */
/* Writes the key `text`, and `bytes` if it is no UTF-8. */
void ts_text_to_json(ts_json *o, const ts_text *t);
void ts_show_text(FILE *out, const char *text, size_t n);

/* A whole file, or standard input for "-"; at least one byte, and room for one more. NULL and one
 * line on standard error on failure. */
char *ts_read_text(const char *path, size_t *n);

#endif
