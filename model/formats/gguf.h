/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.h - a GGUF file: keys with values, and tensors by name. Nothing in it is trusted. What is
 * found points into the file's bytes, which must outlive it. */
#ifndef TS_MODEL_GGUF_H
#define TS_MODEL_GGUF_H

#include <stdint.h>

#include "file.h"

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

/* All keys, in the order of the file. */
int64_t      ts_gguf_keys(const ts_gguf *g);
ts_gguf_text ts_gguf_key(const ts_gguf *g, int64_t i);
/* The number of key i, the largest of an array of numbers, or 0 where that is less or a text. */
double ts_gguf_most(const ts_gguf *g, int64_t i);

/* ---- tensors ---- */

enum { TS_GGUF_DIMS = 4 };

typedef struct ts_gguf_tensor {
    ts_gguf_text         name;
    uint64_t             dim[TS_GGUF_DIMS], offset; /* offset: from the first tensor */
    uint32_t             n_dims, format;
    const unsigned char *at;
    size_t               room; /* bytes from there to the end of the file */
} ts_gguf_tensor;

const ts_gguf_tensor *ts_gguf_tensors(const ts_gguf *g, int64_t *n);
const ts_gguf_tensor *ts_gguf_named(const ts_gguf *g, const char *name); /* NULL: there is none */

#endif
