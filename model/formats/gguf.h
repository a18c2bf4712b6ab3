/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.h - a GGUF file: keys with values, and tensors by name. Nothing in it is trusted. What is
 * found points into the file's bytes, which must outlive it. */
#ifndef TS_MODEL_GGUF_H
#define TS_MODEL_GGUF_H

#include "model_impl.h"

typedef struct ts_gguf ts_gguf;

bool ts_is_gguf(const void *bytes, size_t n);
bool ts_gguf_parse(const void *bytes, size_t n, ts_gguf **g, char why[TS_MODEL_WHY]);
void ts_gguf_free(ts_gguf **g);

/* ---- values: false, with *v untouched, where the key is missing or of another kind ---- */

typedef struct ts_gguf_text {
    const char *p;
    size_t      n;
} ts_gguf_text;

bool ts_gguf_integer(const ts_gguf *g, const char *key, int64_t *v);
bool ts_gguf_number(const ts_gguf *g, const char *key, double *v);
bool ts_gguf_flag(const ts_gguf *g, const char *key, bool *v);
bool ts_gguf_string(const ts_gguf *g, const char *key, ts_gguf_text *v);
bool ts_gguf_is(const ts_gguf *g, const char *key, const char *text);
/* Arrays: of strings in order by `next`, which starts as NULL; of numbers at any place. */
int64_t      ts_gguf_count(const ts_gguf *g, const char *key, bool strings); /* -1: no such array */
ts_gguf_text ts_gguf_next(const ts_gguf *g, const char *key, const unsigned char **next);
double       ts_gguf_at(const ts_gguf *g, const char *key, int64_t i); /* below its count */

/* A decoder whose matrices stay in the file, which it then owns: *f is empty. */
bool ts_decoder_gguf_file(ts_file *f, ts_dtype dtype, ts_decoder **m, char why[TS_MODEL_WHY]);

/* ---- tensors ---- */

/* What a file calls a weight. */
void ts_gguf_slot_name(int64_t layer, ts_slot s, char name[TS_SLOT_NAME]);

bool ts_gguf_has(const ts_gguf *g, const char *name);
/* A weight of this shape, in a format that block.c decodes. */
bool ts_gguf_find(const ts_gguf *g, const char *name, ts_shape shape, ts_tensor *t,
                  char why[TS_MODEL_WHY]);

#endif
