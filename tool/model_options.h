/* SPDX-License-Identifier: Apache-2.0 */
/* model_options.h - options of the commands that run a model: generate, evaluate, chat. */
#ifndef TS_TOOL_MODEL_OPTIONS_H
#define TS_TOOL_MODEL_OPTIONS_H

#include "tool.h"
#include "touchstone/touchstone.h"

#ifndef TS_HAVE_MODEL
#define TS_HAVE_MODEL 0
#endif

#define TS_UNSET UINT64_MAX /* a count that was not given */

/* Prints one line on standard error, with the command; returns false. A `why` that begins with
 * `what` does not repeat it: a reader names the file that it cannot open, or a file in a folder. */
bool ts_complain(const char *what, const char *why);

/* These leave *value as it is where `text` is NULL. */
bool ts_parse_real(const char *option, const char *text, double lo, double hi, double *value);
bool ts_parse_count(const char *option, const char *text, uint64_t lo, uint64_t hi,
                    uint64_t *value);
/* NULL: f32, cpu. */
bool ts_parse_dtype(const char *text, ts_dtype *dtype);
bool ts_parse_device(const char *text, ts_dtype dtype, ts_device *device);
/* If none is named: $TOUCHSTONE_MODEL, or the bundled one. */
bool ts_find_model(const char **model);

#endif
