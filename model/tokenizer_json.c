/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_json.c - byte-level BPE from a Hugging Face tokenizer.json. The pattern that cuts words
 * is the file's own, read by PCRE2. Normalisers are not run: text is taken as it is. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { MOST_TOKENS = 1 << 20, MOST_PATTERN = 4096 };

/* GPT-2's, which a ByteLevel without a pattern of its own means. */
const char ts_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                               "\\s+(?!\\S)|\\s+";

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* ---- pieces: each byte is written as a printable character ---- */

static bool is_itself(unsigned c)
{
    return (c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255);
}

int ts_byte_of(unsigned c)
{
    if (is_itself(c)) return (int)c;
    if (c < 256 || c >= TS_BYTE_CHARS) return -1;
    unsigned b = 0;
    for (unsigned left = c - 256;; b++)
        if (!is_itself(b) && !left--) return (int)b;
}

/* All these characters have one or two bytes in UTF-8. False if another is there. */
bool ts_bytes_of(const char *s, size_t n, char *out, size_t *n_out)
{
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned c = (unsigned char)s[i];
        if (c >= 0xe0 || (c >= 0x80 && i + 1 == n)) return false;
        if (c >= 0x80) c = (c & 0x1f) << 6 | ((unsigned char)s[++i] & 0x3f);
        const int b = ts_byte_of(c);
        if (b < 0) return false;
        out[(*n_out)++] = (char)b;
    }
    return true;
}

/* ---- the vocabulary ---- */

static bool sound_id(const json_t *v, int64_t *id)
{
    *id = json_is_integer(v) ? json_integer_value(v) : -1;
    return *id >= 0 && *id < MOST_TOKENS;
}

/* How many tokens there are, and bytes of text. */
static bool measure(ts_tokenizer *t, const json_t *vocab, const json_t *added, size_t *n_text,
                    char why[TS_MODEL_WHY])
{
    const char *name;
    json_t     *v;
    size_t      i;
    int64_t     id;
    *n_text = 1;
    json_object_foreach((json_t *)(uintptr_t)vocab, name, v)
    {
        if (!sound_id(v, &id)) return ts_say(why, "vocabulary: piece '%.40s': invalid id", name);
        if (id >= t->n_piece) t->n_piece = id + 1;
        *n_text += strlen(name);
    }
    json_array_foreach(added, i, v)
    {
        if (!sound_id(json_object_get(v, "id"), &id) || !*text_of(v, "content"))
            return ts_say(why, "added_tokens: entry %zu: invalid id or content", i);
        if (id >= t->n_piece) t->n_piece = id + 1;
        *n_text += strlen(text_of(v, "content"));
    }
    return t->n_piece > 0 || ts_say(why, "vocabulary: got 0 tokens, expected at least 1");
}

static bool pieces(ts_tokenizer *t, const json_t *vocab, const json_t *added, bool *ordinary,
                   char why[TS_MODEL_WHY])
{
    const char *name;
    json_t     *v;
    size_t      i, n;
    char       *text = t->text;
    json_array_foreach(added, i, v)
    {
        const int64_t id = json_integer_value(json_object_get(v, "id"));
        if (t->piece[id].bytes)
            return ts_say(why, "added_tokens: id %lld: listed twice", (long long)id);
        n = strlen(text_of(v, "content"));
        memcpy(text, text_of(v, "content"), n);
        t->piece[id] = (ts_piece) { text, n, 0 };
        t->added[t->n_added++] = (int32_t)id;
        text += n;
    }
    json_object_foreach((json_t *)(uintptr_t)vocab, name, v)
    {
        const int64_t id = json_integer_value(v);
        if (t->piece[id].bytes && !ordinary[id]) continue; /* special tokens may be in both */
        if (t->piece[id].bytes)
            return ts_say(why, "vocabulary: token %lld: listed twice", (long long)id);
        if (!ts_bytes_of(name, strlen(name), text, &n) || !n)
            return ts_say(why, "vocabulary: token %lld: expected byte-level characters",
                          (long long)id);
        t->piece[id] = (ts_piece) { text, n, 0 };
        ordinary[id] = true;
        if (n == 1) t->byte[(unsigned char)*text] = (int32_t)id;
        text += n;
    }
    return true;
}

static bool vocabulary(ts_tokenizer *t, const json_t *root, char why[TS_MODEL_WHY])
{
    const json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    const json_t *added = json_object_get(root, "added_tokens");
    size_t        n_text;
    if (!json_is_object(vocab)) return ts_say(why, "tokenizer: model.vocab: missing");
    if (!measure(t, vocab, added, &n_text, why)) return false;
    t->text = malloc(n_text);
    t->piece = calloc((size_t)t->n_piece, sizeof *t->piece);
    t->added = calloc(json_array_size(added) + 1, sizeof *t->added);
    bool *ordinary = calloc((size_t)t->n_piece, sizeof *ordinary);
    bool  ok = t->text && t->piece && t->added && ordinary;
    if (!ok) ts_say(why, "out of memory for %lld tokens", (long long)t->n_piece);
    ok = ok && pieces(t, vocab, added, ordinary, why) && ts_tokenizer_sort(t, ordinary, why);
    free(ordinary);
    return ok;
}

/* ---- merges ---- */

/* "left right", or ["left", "right"] in newer files. */
static bool sides(const json_t *v, const char **l, size_t *n_l, const char **r, size_t *n_r)
{
    const char *s = json_string_value(v), *space = s ? strchr(s, ' ') : NULL;
    if (json_array_size(v) == 2) {
        *l = json_string_value(json_array_get(v, 0));
        *r = json_string_value(json_array_get(v, 1));
        if (!*l || !*r) return false;
        *n_l = strlen(*l);
        *n_r = strlen(*r);
        return true;
    }
    if (!space) return false;
    *l = s;
    *n_l = (size_t)(space - s);
    *r = space + 1;
    *n_r = strlen(space + 1);
    return true;
}

bool ts_tokenizer_merge(const ts_tokenizer *t, const char *l, size_t n_l, const char *r, size_t n_r,
                        ts_merge *m)
{
    char   room[4096];
    size_t n_left, n_right;
    if (n_l > sizeof room || n_r > sizeof room - n_l) return false;
    if (!ts_bytes_of(l, n_l, room, &n_left) || !ts_bytes_of(r, n_r, room + n_left, &n_right))
        return false;
    m->left = ts_tokenizer_find(t, room, n_left);
    m->right = ts_tokenizer_find(t, room + n_left, n_right);
    m->joined = ts_tokenizer_find(t, room, n_left + n_right);
    return m->left >= 0 && m->right >= 0 && m->joined >= 0;
}

static bool merges(ts_tokenizer *t, const json_t *root, char why[TS_MODEL_WHY])
{
    const json_t *list = json_object_get(json_object_get(root, "model"), "merges"), *v;
    const char   *l, *r;
    size_t        i, n_l, n_r;
    if (!json_is_array(list)) return ts_say(why, "tokenizer: model.merges: missing");
    t->merge = calloc(json_array_size(list) + 1, sizeof *t->merge);
    if (!t->merge || json_array_size(list) > MOST_TOKENS)
        return ts_say(why, "merges: got %zu, which is too many", json_array_size(list));
    json_array_foreach(list, i, v)
    {
        if (!sides(v, &l, &n_l, &r, &n_r) || !ts_tokenizer_merge(t, l, n_l, r, n_r, &t->merge[i]))
            return ts_say(
                why, "merges: entry %zu: expected two pieces whose concatenation is a piece", i);
        t->merge[i].rank = (int32_t)i;
        t->n_merge++;
    }
    qsort(t->merge, (size_t)t->n_merge, sizeof *t->merge, ts_merge_order);
    return true;
}

/* ---- how a text is cut ---- */

bool ts_tokenizer_split(ts_tokenizer *t, const char *pattern, char why[TS_MODEL_WHY])
{
    int    code;
    size_t at;
    if (t->n_split == TS_SPLITS || strlen(pattern) > MOST_PATTERN)
        return ts_say(why, "pre_tokenizer: too many patterns, or a pattern too long");
    pcre2_code *made =
        pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    if (!made) return ts_say(why, "pre_tokenizer: invalid regular expression at character %zu", at);
    t->split[t->n_split++] = made;
    return true;
}

static bool one_step(ts_tokenizer *t, const json_t *o, bool *bytes, char why[TS_MODEL_WHY])
{
    const char *type = text_of(o, "type");
    if (!strcmp(type, "ByteLevel")) {
        *bytes = true;
        if (json_is_true(json_object_get(o, "add_prefix_space")))
            return ts_say(why, "pre_tokenizer: add_prefix_space is not supported");
        return json_is_false(json_object_get(o, "use_regex")) ||
               ts_tokenizer_split(t, ts_gpt2_pattern, why);
    }
    if (!strcmp(type, "Digits"))
        return ts_tokenizer_split(
            t, json_is_true(json_object_get(o, "individual_digits")) ? "\\p{N}" : "\\p{N}+", why);
    const char *regex = text_of(json_object_get(o, "pattern"), "Regex");
    if (strcmp(type, "Split") || !*regex || strcmp(text_of(o, "behavior"), "Isolated") ||
        json_is_true(json_object_get(o, "invert")))
        return ts_say(why,
                      "pre_tokenizer: got '%.40s', expected ByteLevel, Digits, or an isolated "
                      "Split by a Regex",
                      type);
    return ts_tokenizer_split(t, regex, why);
}

static bool splits(ts_tokenizer *t, const json_t *root, char why[TS_MODEL_WHY])
{
    const json_t *o = json_object_get(root, "pre_tokenizer"), *v;
    const json_t *list = json_object_get(o, "pretokenizers");
    bool          bytes = false;
    size_t        i;
    if (!json_is_array(list)) {
        if (!one_step(t, o, &bytes, why)) return false;
    } else json_array_foreach(list, i, v)
        {
            if (!one_step(t, v, &bytes, why)) return false;
        }
    return bytes || ts_say(why, "pre_tokenizer: expected one of type ByteLevel");
}

/* ---- what a text begins with ---- */

static bool template(ts_tokenizer *t, const json_t *o, char why[TS_MODEL_WHY])
{
    const json_t *v, *table = json_object_get(o, "special_tokens");
    size_t        i;
    json_array_foreach(json_object_get(o, "single"), i, v)
    {
        const json_t *special = json_object_get(v, "SpecialToken");
        const json_t *ids = json_object_get(json_object_get(table, text_of(special, "id")), "ids");
        int64_t       id;
        if (json_object_get(v, "Sequence")) break;
        if (t->n_first == TS_FIRSTS || json_array_size(ids) != 1 ||
            !sound_id(json_array_get(ids, 0), &id) || id >= t->n_piece)
            return ts_say(why, "post_processor: unsupported template");
        t->first[t->n_first++] = (int32_t)id;
    }
    return true;
}

static bool beginning(ts_tokenizer *t, const json_t *root, char why[TS_MODEL_WHY])
{
    const json_t *o = json_object_get(root, "post_processor"), *v;
    size_t        i;
    if (!strcmp(text_of(o, "type"), "TemplateProcessing")) return template(t, o, why);
    json_array_foreach(json_object_get(o, "processors"), i, v)
    {
        if (!strcmp(text_of(v, "type"), "TemplateProcessing")) return template(t, v, why);
    }
    return true;
}

bool ts_tokenizer_json(ts_tokenizer *t, const unsigned char *p, size_t n, char why[TS_MODEL_WHY])
{
    json_error_t e;
    json_t      *root = json_loadb((const char *)p, n, 0, &e);
    if (!root) return ts_say(why, "tokenizer: line %d: %.100s", e.line, e.text);
    const json_t *model = json_object_get(root, "model");
    const char   *type = text_of(model, "type");
    bool          ok = !strcmp(type, "BPE") || !*type ||
              ts_say(why, "tokenizer: model.type: got '%.40s', expected BPE", type);
    ok = ok && vocabulary(t, root, why) && merges(t, root, why) && splits(t, root, why) &&
         beginning(t, root, why);
    t->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    json_decref(root);
    return ok;
}
