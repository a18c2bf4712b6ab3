/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - eight bytes of length, a JSON header, and the tensors it points at. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "model_impl.h"

enum { PREFIX = 8, MOST_HEADER = 100 << 20 };

struct ts_safetensors {
    json_t              *header;
    const unsigned char *data;
    uint64_t             n_data;
};

/* A dtype's name says its bits: "F32", "BF16", "I64". */
static uint64_t element_bytes(const char *dtype)
{
    if (!strcmp(dtype, "BOOL") || strstr(dtype, "F8")) return 1;
    const char *bits = strpbrk(dtype, "0123456789");
    return bits ? strtoul(bits, NULL, 10) / 8 : 0;
}

static bool range(const json_t *entry, uint64_t n_data, uint64_t *begin, uint64_t *end)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *a = json_array_get(offsets, 0), *b = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(a) || !json_is_integer(b)) return false;
    if (json_integer_value(a) < 0 || json_integer_value(b) < json_integer_value(a)) return false;
    *begin = (uint64_t)json_integer_value(a);
    *end = (uint64_t)json_integer_value(b);
    return *end <= n_data;
}

/* The shape's product is the range's size: counted down, so that nothing can overflow. */
static bool fills(const json_t *entry, uint64_t n_bytes)
{
    const json_t  *shape = json_object_get(entry, "shape"), *v;
    const char    *dtype = json_string_value(json_object_get(entry, "dtype"));
    const uint64_t size = dtype ? element_bytes(dtype) : 0;
    size_t         i;
    if (!size || !json_is_array(shape) || n_bytes % size) return false;
    uint64_t left = n_bytes / size;
    json_array_foreach(shape, i, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
        const uint64_t extent = (uint64_t)json_integer_value(v);
        if (!extent) return n_bytes == 0;
        if (left % extent) return false;
        left /= extent;
    }
    return left == 1;
}

/* Every entry, wanted or not. Tensors do not share bytes, or a small file could need much memory.
 * */
static bool entries(const ts_safetensors *s, char why[TS_MODEL_WHY])
{
    const char *name;
    json_t     *entry;
    uint64_t    begin, end, total = 0;
    json_object_foreach(s->header, name, entry)
    {
        if (!strcmp(name, "__metadata__")) continue;
        if (!range(entry, s->n_data, &begin, &end))
            return ts_say(why, "tensor %.80s: data_offsets outside the %llu bytes of data", name,
                          (unsigned long long)s->n_data);
        if (!fills(entry, end - begin))
            return ts_say(why,
                          "tensor %.80s: got %llu bytes, which does not match its shape and dtype",
                          name, (unsigned long long)(end - begin));
        if (end - begin > s->n_data - total)
            return ts_say(why, "tensor %.80s: overlaps another tensor", name);
        total += end - begin;
    }
    return true;
}

bool ts_safetensors_parse(const void *bytes, size_t n, ts_safetensors **out, char why[TS_MODEL_WHY])
{
    const unsigned char *p = bytes;
    uint64_t             n_header = 0;
    json_error_t         e;
    *out = NULL;
    for (int i = 0; i < PREFIX && n >= PREFIX; i++) n_header |= (uint64_t)p[i] << 8 * i;
    if (n < PREFIX || n_header > MOST_HEADER || n_header > n - PREFIX)
        return ts_say(why, "safetensors: got a header of %llu bytes in a file of %zu",
                      (unsigned long long)n_header, n);
    ts_safetensors *s = calloc(1, sizeof *s);
    if (!s) return ts_say(why, "out of memory for a header");
    s->data = p + PREFIX + n_header;
    s->n_data = n - PREFIX - n_header;
    s->header = json_loadb((const char *)p + PREFIX, n_header, JSON_REJECT_DUPLICATES, &e);
    bool ok = s->header || ts_say(why, "safetensors header: %.100s", e.text);
    ok = ok && (json_is_object(s->header) || ts_say(why, "safetensors header: expected an object"));
    if (ok && entries(s, why)) {
        *out = s;
        return true;
    }
    ts_safetensors_free(&s);
    return false;
}

void ts_safetensors_free(ts_safetensors **s)
{
    if (!*s) return;
    json_decref((*s)->header);
    free(*s);
    *s = NULL;
}

bool ts_safetensors_has(const ts_safetensors *s, const char *name)
{
    return json_object_get(s->header, name) != NULL;
}

static bool has_shape(const json_t *shape, ts_shape want)
{
    const size_t n = want.cols ? 2 : 1;
    return json_array_size(shape) == n &&
           json_integer_value(json_array_get(shape, 0)) == want.rows &&
           (n == 1 || json_integer_value(json_array_get(shape, 1)) == want.cols);
}

/* `known` dtypes, the first that fits; *which says it. */
static bool locate(const ts_safetensors *s, const char *name, ts_shape want,
                   const char *const *known, int n_known, int *which, const unsigned char **data,
                   char why[TS_MODEL_WHY])
{
    const json_t *entry = json_object_get(s->header, name);
    uint64_t      begin, end;
    if (!entry) return ts_say(why, "tensor %s: missing", name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!has_shape(json_object_get(entry, "shape"), want)) {
        if (!want.cols)
            return ts_say(why, "tensor %s: wrong shape, expected [%lld]", name,
                          (long long)want.rows);
        return ts_say(why, "tensor %s: wrong shape, expected [%lld, %lld]", name,
                      (long long)want.rows, (long long)want.cols);
    }
    for (*which = 0; *which < n_known; ++*which)
        if (!strcmp(dtype, known[*which]) && range(entry, s->n_data, &begin, &end)) {
            *data = s->data + begin;
            return true;
        }
    return ts_say(why, "tensor %s: dtype: got %.20s, expected %s", name, dtype,
                  n_known > 1 ? "F32, BF16 or F16" : known[0]);
}

bool ts_safetensors_find(const ts_safetensors *s, const char *name, ts_shape want, ts_tensor *t,
                         char why[TS_MODEL_WHY])
{
    static const uint32_t    known[] = { TS_BLOCK_F32, TS_BLOCK_BF16, TS_BLOCK_F16 };
    static const char *const names[] = { "F32", "BF16", "F16" };
    int                      which;
    *t = (ts_tensor) { 0 };
    if (!locate(s, name, want, names, 3, &which, &t->data, why)) return false;
    t->block = ts_block_of(known[which]);
    return true;
}

/* NAME.code and NAME.scale. */
static void parts(const char *name, char code[TS_SLOT_NAME + 8], char scale[TS_SLOT_NAME + 8])
{
    snprintf(code, TS_SLOT_NAME + 8, "%.*s.code", TS_SLOT_NAME, name);
    snprintf(scale, TS_SLOT_NAME + 8, "%.*s.scale", TS_SLOT_NAME, name);
}

bool ts_safetensors_packed(const ts_safetensors *s, const char *name)
{
    char code[TS_SLOT_NAME + 8], scale[TS_SLOT_NAME + 8];
    parts(name, code, scale);
    return ts_safetensors_has(s, code);
}

bool ts_safetensors_find_packed(const ts_safetensors *s, const char *name, ts_shape want,
                                ts_tensor *t, char why[TS_MODEL_WHY])
{
    char code[TS_SLOT_NAME + 8], scale[TS_SLOT_NAME + 8];
    int  which;
    parts(name, code, scale);
    *t = (ts_tensor) { 0 };
    return locate(s, code, ts_packed_codes(want), &(const char *) { "U8" }, 1, &which, &t->data,
                  why) &&
           locate(s, scale, ts_packed_scales(want), &(const char *) { "F16" }, 1, &which, &t->scale,
                  why) &&
           ts_packed_check(name, want, t, why);
}
