/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c - reads a GGUF file, version 2 or 3: keys and values, then what its tensors are called,
 * their shapes, formats and places. Integers are little-endian, like all supported machines. */
#include "gguf.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 1 << 16, MOST_TENSORS = 1 << 17 };

/* Kinds of values. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64, KINDS };
static const unsigned char size_of[KINDS] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

typedef struct pair {
    ts_gguf_text         key;
    uint32_t             kind, item; /* item: of an array */
    uint64_t             n;          /* items, or bytes of a string */
    const unsigned char *at;         /* first item, or the value */
} pair;

struct ts_gguf {
    pair           *pair;
    ts_gguf_tensor *tensor;
    int64_t         n_pair, n_tensor;
};

/* ---- reading ---- */

typedef struct reader {
    const unsigned char *p, *begin, *end;
    char                *why;
} reader;

static bool get(reader *r, void *to, size_t n)
{
    if (n > (size_t)(r->end - r->p))
        return ts_say(r->why, "gguf: file ends inside the header, after %zu bytes",
                      (size_t)(r->p - r->begin));
    memcpy(to, r->p, n);
    r->p += n;
    return true;
}

static bool pass(reader *r, uint64_t n, uint64_t each)
{
    if (each && n > (uint64_t)(r->end - r->p) / each)
        return ts_say(r->why, "gguf: got %llu items at byte %zu, more than the file has",
                      (unsigned long long)n, (size_t)(r->p - r->begin));
    r->p += n * each;
    return true;
}

static bool get_text(reader *r, ts_gguf_text *t)
{
    uint64_t n = 0;
    if (!get(r, &n, sizeof n)) return false;
    if (n > (uint64_t)(r->end - r->p))
        return ts_say(r->why, "gguf: got a string of %llu bytes in a file of %zu",
                      (unsigned long long)n, (size_t)(r->end - r->begin));
    t->p = (const char *)r->p;
    t->n = (size_t)n;
    return pass(r, n, 1);
}

static bool get_array(reader *r, pair *p)
{
    ts_gguf_text text;
    if (!get(r, &p->item, 4) || !get(r, &p->n, 8)) return false;
    p->at = r->p;
    if (p->item < KINDS && size_of[p->item]) return pass(r, p->n, size_of[p->item]);
    if (p->item != STRING) return ts_say(r->why, "gguf: got an array of kind %u", p->item);
    for (uint64_t i = 0; i < p->n; i++)
        if (!get_text(r, &text)) return false;
    return true;
}

static bool get_pair(reader *r, pair *p)
{
    ts_gguf_text text;
    if (!get_text(r, &p->key) || !get(r, &p->kind, 4)) return false;
    p->at = r->p;
    if (p->kind == ARRAY) return get_array(r, p);
    if (p->kind == STRING) {
        if (!get_text(r, &text)) return false;
        p->at = (const unsigned char *)text.p;
        p->n = text.n;
        return true;
    }
    if (p->kind >= KINDS) return ts_say(r->why, "gguf: got a value of kind %u", p->kind);
    return pass(r, 1, size_of[p->kind]);
}

static bool get_tensor(reader *r, ts_gguf_tensor *t)
{
    if (!get_text(r, &t->name) || !get(r, &t->n_dims, 4)) return false;
    if (t->n_dims < 1 || t->n_dims > TS_GGUF_DIMS)
        return ts_say(r->why, "gguf: tensor %.*s: got %u dimensions, expected 1 to 4",
                      (int)(t->name.n < 80 ? t->name.n : 80), t->name.p, t->n_dims);
    return get(r, t->dim, 8 * t->n_dims) && get(r, &t->format, 4) && get(r, &t->offset, 8);
}

static bool lookup_pair(const ts_gguf *g, const char *key, const pair **p)
{
    for (int64_t i = 0; i < g->n_pair; i++) {
        *p = &g->pair[i];
        if ((*p)->key.n == strlen(key) && !memcmp((*p)->key.p, key, (*p)->key.n)) return true;
    }
    return false;
}

/* Tensors begin at the next multiple of the alignment; each offset is from there. */
static bool place(ts_gguf *g, reader *r)
{
    int64_t      alignment = 32;
    const size_t at = (size_t)(r->p - r->begin), n = (size_t)(r->end - r->begin);
    ts_gguf_integer(g, "general.alignment", &alignment);
    if (alignment < 1 || alignment > 1 << 20)
        return ts_say(r->why, "gguf: got an alignment of %lld bytes", (long long)alignment);
    const size_t from = (at + (size_t)alignment - 1) / (size_t)alignment * (size_t)alignment;
    for (int64_t i = 0; i < g->n_tensor; i++) {
        ts_gguf_tensor *t = &g->tensor[i];
        if (from > n || t->offset > n - from)
            return ts_say(r->why, "gguf: tensor %.*s: truncated: the file has only %zu bytes",
                          (int)(t->name.n < 80 ? t->name.n : 80), t->name.p, n);
        t->at = r->begin + from + t->offset;
        t->room = (size_t)(r->end - t->at);
    }
    return true;
}

static bool read(ts_gguf *g, reader *r)
{
    uint32_t version = 0;
    uint64_t n_tensor = 0, n_pair = 0;
    r->p += 4;
    if (!get(r, &version, 4)) return false;
    if (version < 2 || version > 3)
        return ts_say(r->why, "gguf: got version %u, expected 2 or 3", version);
    if (!get(r, &n_tensor, 8) || !get(r, &n_pair, 8)) return false;
    if (n_tensor > MOST_TENSORS || n_pair > MOST_KEYS)
        return ts_say(r->why, "gguf: got %llu tensors and %llu keys, which is too many",
                      (unsigned long long)n_tensor, (unsigned long long)n_pair);
    g->pair = calloc((size_t)n_pair + 1, sizeof *g->pair);
    g->tensor = calloc((size_t)n_tensor + 1, sizeof *g->tensor);
    if (!g->pair || !g->tensor) return ts_say(r->why, "out of memory for a GGUF header");
    for (; g->n_pair < (int64_t)n_pair; g->n_pair++)
        if (!get_pair(r, &g->pair[g->n_pair])) return false;
    for (; g->n_tensor < (int64_t)n_tensor; g->n_tensor++)
        if (!get_tensor(r, &g->tensor[g->n_tensor])) return false;
    return place(g, r);
}

bool ts_is_gguf(const void *bytes, size_t n)
{
    return n >= 4 && !memcmp(bytes, "GGUF", 4);
}

bool ts_gguf_parse(const void *bytes, size_t n, ts_gguf **out, char why[TS_MODEL_WHY])
{
    const unsigned char *p = bytes;
    reader               r = { p, p, p + n, why };
    ts_gguf             *g = calloc(1, sizeof *g);
    *out = g;
    if (!g) return ts_say(why, "out of memory for a GGUF header");
    if (ts_is_gguf(bytes, n) ? read(g, &r) : ts_say(why, "gguf: no GGUF file")) return true;
    ts_gguf_free(out);
    return false;
}

void ts_gguf_free(ts_gguf **g)
{
    if (!*g) return;
    free((*g)->pair);
    free((*g)->tensor);
    free(*g);
    *g = NULL;
}

/* ---- values ---- */

static double value_at(uint32_t kind, const unsigned char *p)
{
    union {
        uint64_t bits;
        int8_t   i8;
        int16_t  i16;
        int32_t  i32;
        int64_t  i64;
        float    f32;
        double   f64;
    } v = { 0 };
    memcpy(&v, p, size_of[kind]);
    switch (kind) {
    case I8:
        return v.i8;
    case I16:
        return v.i16;
    case I32:
        return v.i32;
    case I64:
        return (double)v.i64;
    case F32:
        return (double)v.f32;
    case F64:
        return v.f64;
    default:
        return (double)v.bits;
    }
}

static bool scalar(const ts_gguf *g, const char *key, double *v)
{
    const pair *p;
    if (!lookup_pair(g, key, &p) || p->kind == STRING || p->kind == ARRAY) return false;
    *v = value_at(p->kind, p->at);
    return true;
}

bool ts_gguf_number(const ts_gguf *g, const char *key, double *v)
{
    return scalar(g, key, v);
}

bool ts_gguf_integer(const ts_gguf *g, const char *key, int64_t *v)
{
    double x;
    if (!scalar(g, key, &x) || !(x >= -9e15 && x <= 9e15)) return false;
    *v = (int64_t)x;
    return true;
}

bool ts_gguf_flag(const ts_gguf *g, const char *key, bool *v)
{
    double x;
    if (!scalar(g, key, &x)) return false;
    *v = x != 0;
    return true;
}

bool ts_gguf_string(const ts_gguf *g, const char *key, ts_gguf_text *v)
{
    const pair *p;
    if (!lookup_pair(g, key, &p) || p->kind != STRING) return false;
    *v = (ts_gguf_text) { (const char *)p->at, (size_t)p->n };
    return true;
}

bool ts_gguf_is(const ts_gguf *g, const char *key, const char *text)
{
    ts_gguf_text v;
    return ts_gguf_string(g, key, &v) && v.n == strlen(text) && !memcmp(v.p, text, v.n);
}

int64_t ts_gguf_count(const ts_gguf *g, const char *key, bool strings)
{
    const pair *p;
    if (!lookup_pair(g, key, &p) || p->kind != ARRAY || (p->item == STRING) != strings) return -1;
    return (int64_t)p->n;
}

ts_gguf_text ts_gguf_next(const ts_gguf *g, const char *key, const unsigned char **next)
{
    const pair *p;
    uint64_t    n;
    if (!*next && lookup_pair(g, key, &p)) *next = p->at;
    memcpy(&n, *next, sizeof n);
    const ts_gguf_text t = { (const char *)*next + sizeof n, (size_t)n };
    *next += sizeof n + n;
    return t;
}

double ts_gguf_at(const ts_gguf *g, const char *key, int64_t i)
{
    const pair *p;
    return lookup_pair(g, key, &p) ? value_at(p->item, p->at + i * size_of[p->item]) : 0;
}

int64_t ts_gguf_keys(const ts_gguf *g)
{
    return g->n_pair;
}

ts_gguf_text ts_gguf_key(const ts_gguf *g, int64_t i)
{
    return g->pair[i].key;
}

double ts_gguf_most(const ts_gguf *g, int64_t i)
{
    const pair    *p = &g->pair[i];
    const uint32_t kind = p->kind == ARRAY ? p->item : p->kind;
    double         most = 0;
    if (kind == STRING) return 0;
    for (uint64_t k = 0; k < (p->kind == ARRAY ? p->n : 1); k++) {
        const double v = value_at(kind, p->at + k * size_of[kind]);
        if (v > most) most = v;
    }
    return most;
}

/* ---- tensors ---- */

const ts_gguf_tensor *ts_gguf_tensors(const ts_gguf *g, int64_t *n)
{
    *n = g->n_tensor;
    return g->tensor;
}

const ts_gguf_tensor *ts_gguf_named(const ts_gguf *g, const char *name)
{
    for (int64_t i = 0; i < g->n_tensor; i++)
        if (g->tensor[i].name.n == strlen(name) &&
            !memcmp(g->tensor[i].name.p, name, g->tensor[i].name.n))
            return &g->tensor[i];
    return NULL;
}
