/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_json.c - BPE from a Hugging Face tokenizer.json: of bytes, or of characters as in
 * SentencePiece, with bytes for those that have no token.
 *
 * The pattern that splits words is the file's own, matched by PCRE2. An unknown step is an error,
 * never ignored. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { MOST_TOKENS = 1 << 20, MOST_PATTERN = 4096 };

/* GPT-2's, which a ByteLevel without a pattern of its own means. */
static const char gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

static const char blank[] = "\xe2\x96\x81"; /* U+2581 */

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

/* Sets *ordinary: text can give it. A piece `<0xHH>` stands for a byte that no character covers. */
static bool read_piece(ts_tokenizer *t, int64_t id, const char *name, char *text, size_t *n,
                       bool *ordinary, char why[TS_MODEL_WHY])
{
    const size_t len = strlen(name);
    const int    byte = t->characters ? ts_raw_byte(name, len) : -1;
    *ordinary = byte < 0;
    if (byte >= 0) {
        *text = (char)byte;
        *n = 1;
    } else if (t->characters) *n = t->blank_mark ? ts_blanks(name, len, text) : 0;
    else if (!ts_bytes_of(name, len, text, n)) *n = 0;
    if (!*n)
        return ts_say(why, "vocabulary: token %lld: expected byte-level characters", (long long)id);
    t->piece[id] = (ts_piece) { .bytes = text, .n = *n };
    if (*n == 1 && (!t->characters || byte >= 0)) t->byte[(unsigned char)*text] = (int32_t)id;
    return true;
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
        if (json_is_true(json_object_get(v, "single_word")))
            return ts_say(why, "added_tokens: id %lld: single_word is not supported",
                          (long long)id);
        if (t->blank_mark && !t->leading_once && json_is_true(json_object_get(v, "normalized")))
            return ts_say(why, "added_tokens: id %lld: normalized is not supported here",
                          (long long)id);
        t->piece[id] = (ts_piece) { .bytes = text,
                                    .n = n,
                                    .strip_left = json_is_true(json_object_get(v, "lstrip")),
                                    .strip_right = json_is_true(json_object_get(v, "rstrip")) };
        t->added[t->n_added++] = (int32_t)id;
        text += n;
    }
    json_object_foreach((json_t *)(uintptr_t)vocab, name, v)
    {
        const int64_t id = json_integer_value(v);
        if (t->piece[id].bytes && !ordinary[id]) continue; /* special tokens may be in both */
        if (t->piece[id].bytes)
            return ts_say(why, "vocabulary: token %lld: listed twice", (long long)id);
        if (!read_piece(t, id, name, text, &n, &ordinary[id], why)) return false;
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
    if (t->blank_mark) {
        n_left = ts_blanks(l, n_l, room);
        n_right = ts_blanks(r, n_r, room + n_left);
    } else if (!ts_bytes_of(l, n_l, room, &n_left) || !ts_bytes_of(r, n_r, room + n_left, &n_right))
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
               ts_tokenizer_split(t, gpt2_pattern, why);
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

/* SentencePiece's words keep the space before them, and all spaces are pieces of U+2581. */
static bool metaspace(ts_tokenizer *t, const json_t *o, char why[TS_MODEL_WHY])
{
    const char *scheme = text_of(o, "prepend_scheme");
    const bool  old = !*scheme && !json_is_false(json_object_get(o, "add_prefix_space"));
    t->leading_once = true;
    t->leading_first = !strcmp(scheme, "first");
    t->leading_space = t->leading_first || old || !strcmp(scheme, "always");
    if (strcmp(text_of(o, "replacement"), blank))
        return ts_say(why, "pre_tokenizer: Metaspace: expected U+2581 as replacement");
    if (*scheme && !t->leading_space && strcmp(scheme, "never"))
        return ts_say(why, "pre_tokenizer: Metaspace: prepend_scheme: got '%.20s'", scheme);
    t->blank_mark = true;
    return json_is_false(json_object_get(o, "split")) || ts_tokenizer_split(t, " [^ ]*|[^ ]+", why);
}

static bool splits(ts_tokenizer *t, const json_t *root, char why[TS_MODEL_WHY])
{
    const json_t *o = json_object_get(root, "pre_tokenizer"), *v;
    const json_t *list = json_object_get(o, "pretokenizers");
    bool          bytes = false;
    size_t        i;
    if (!strcmp(text_of(o, "type"), "Metaspace")) return metaspace(t, o, why);
    if (t->blank_mark && (!o || json_is_null(o))) return true;
    if (!json_is_array(list)) {
        if (!one_step(t, o, &bytes, why)) return false;
    } else json_array_foreach(list, i, v)
        {
            if (!one_step(t, v, &bytes, why)) return false;
        }
    if (bytes && !t->blank_mark) return true;
    return ts_say(why, "pre_tokenizer: expected ByteLevel, Metaspace, or none after a Replace of "
                       "spaces");
}

/* ---- what is done to a text before ---- */

static bool normaliser(ts_tokenizer *t, const json_t *o, char why[TS_MODEL_WHY])
{
    const char   *type = text_of(o, "type");
    const json_t *v;
    size_t        i;
    if (!o || json_is_null(o)) return true;
    if (!strcmp(type, "Sequence")) {
        json_array_foreach(json_object_get(o, "normalizers"), i, v)
        {
            if (!normaliser(t, v, why)) return false;
        }
        return true;
    }
    if (!strcmp(type, "NFC")) return t->nfc = true;
    if (!strcmp(type, "Prepend") && !strcmp(text_of(o, "prepend"), blank))
        return t->leading_space = true;
    if (!strcmp(type, "Replace") && !strcmp(text_of(o, "content"), blank) &&
        !strcmp(text_of(json_object_get(o, "pattern"), "String"), " "))
        return t->blank_mark = true;
    return ts_say(why, "normalizer: got '%.40s', expected NFC, or U+2581 in place of spaces", type);
}

/* Sets how pieces are written, too. */
static bool steps(ts_tokenizer *t, const json_t *root, char why[TS_MODEL_WHY])
{
    const json_t *model = json_object_get(root, "model");
    if (!normaliser(t, json_object_get(root, "normalizer"), why) || !splits(t, root, why))
        return false;
    if (t->leading_space && !t->blank_mark)
        return ts_say(why, "normalizer: got Prepend without a Replace of spaces");
    t->characters = t->blank_mark;
    if (t->characters && !json_is_true(json_object_get(model, "byte_fallback")))
        return ts_say(why, "tokenizer: model.byte_fallback: expected true, as nothing cuts bytes");
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return ts_say(why, "tokenizer: model.dropout: expected none");
    if (*text_of(model, "continuing_subword_prefix") || *text_of(model, "end_of_word_suffix"))
        return ts_say(why, "tokenizer: prefixes and suffixes of words are not supported");
    return true;
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

static bool beginning(ts_tokenizer *t, const json_t *o, char why[TS_MODEL_WHY])
{
    const json_t *v;
    size_t        i;
    const char   *type = text_of(o, "type");
    if (!o || json_is_null(o) || !strcmp(type, "ByteLevel")) return true; /* offsets only */
    if (!strcmp(type, "TemplateProcessing")) return template(t, o, why);
    if (strcmp(type, "Sequence"))
        return ts_say(why, "post_processor: got '%.40s', expected TemplateProcessing", type);
    json_array_foreach(json_object_get(o, "processors"), i, v)
    {
        if (!beginning(t, v, why)) return false;
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
    ok = ok && steps(t, root, why) && vocabulary(t, root, why) && merges(t, root, why) &&
         beginning(t, json_object_get(root, "post_processor"), why);
    t->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    json_decref(root);
    return ok;
}
