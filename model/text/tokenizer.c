/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.c - text to tokens and back, for whatever vocabulary was read. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

/* ---- the vocabulary ---- */

bool ts_tokenizer_parse(const void *bytes, size_t n, ts_tokenizer **out, char why[TS_MODEL_WHY])
{
    const unsigned char *p = bytes;
    ts_tokenizer        *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return ts_say(why, "out of memory for a tokenizer");
    for (int i = 0; i < 256; i++) t->byte[i] = -1;
    t->stop = -1;
    const bool ok = ts_is_gguf(p, n)   ? ts_tokenizer_gguf(t, p, n, why)
                    : n && p[0] == '{' ? ts_tokenizer_json(t, p, n, why)
                                       : ts_tokenizer_llama2c(t, p, n, why);
    if (ok) *out = t;
    else ts_tokenizer_free(&t);
    return ok;
}

bool ts_tokenizer_load(const char *path, ts_tokenizer **t, char why[TS_MODEL_WHY])
{
    ts_file f;
    *t = NULL;
    if (!ts_file_map(path, &f, why)) return false;
    const bool ok = ts_tokenizer_parse(f.bytes, f.n, t, why);
    ts_file_unmap(&f);
    return ok;
}

bool ts_tokenizer_is_inside(const char *path)
{
    ts_file f;
    char    why[TS_MODEL_WHY];
    if (!ts_file_map(path, &f, why)) return false;
    const bool is = ts_is_gguf(f.bytes, f.n);
    ts_file_unmap(&f);
    return is;
}

void ts_tokenizer_free(ts_tokenizer **p)
{
    ts_tokenizer *t = *p;
    if (!t) return;
    for (int i = 0; i < t->n_split; i++) pcre2_code_free(t->split[i]);
    free(t->piece);
    free(t->text);
    free(t->sorted);
    free(t->merge);
    free(t->added);
    free(t);
    *p = NULL;
}

int64_t ts_tokenizer_size(const ts_tokenizer *t)
{
    return t->n_piece;
}

int ts_tokenizer_first(const ts_tokenizer *t)
{
    return t->n_first;
}

int32_t ts_tokenizer_stop(const ts_tokenizer *t)
{
    return t->stop;
}

static int compare(const char *a, size_t n_a, const char *b, size_t n_b)
{
    const int c = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return c ? c : n_a < n_b ? -1 : n_a > n_b;
}

typedef struct keyed {
    const ts_piece *piece;
    int32_t         token;
} keyed;

/* Equal pieces by token, so that the lowest is found. */
static int by_bytes(const void *x, const void *y)
{
    const keyed *a = x, *b = y;
    const int    c = compare(a->piece->bytes, a->piece->n, b->piece->bytes, b->piece->n);
    return c ? c : a->token < b->token ? -1 : a->token > b->token;
}

bool ts_tokenizer_sort(ts_tokenizer *t, const bool *ordinary, char why[TS_MODEL_WHY])
{
    keyed *all = malloc(((size_t)t->n_piece + 1) * sizeof *all);
    t->sorted = malloc(((size_t)t->n_piece + 1) * sizeof *t->sorted);
    if (!all || !t->sorted) {
        free(all);
        return ts_say(why, "out of memory for %lld pieces", (long long)t->n_piece);
    }
    for (int64_t i = 0; i < t->n_piece; i++)
        if (t->piece[i].bytes && (!ordinary || ordinary[i]))
            all[t->n_sorted++] = (keyed) { &t->piece[i], (int32_t)i };
    qsort(all, (size_t)t->n_sorted, sizeof *all, by_bytes);
    for (int64_t i = 0; i < t->n_sorted; i++) t->sorted[i] = all[i].token;
    free(all);
    return true;
}

int32_t ts_tokenizer_find(const ts_tokenizer *t, const char *bytes, size_t n)
{
    int64_t lo = 0, hi = t->n_sorted;
    while (lo < hi) {
        const int64_t   mid = lo + (hi - lo) / 2;
        const ts_piece *p = &t->piece[t->sorted[mid]];
        if (compare(p->bytes, p->n, bytes, n) < 0) lo = mid + 1;
        else hi = mid;
    }
    if (lo == t->n_sorted) return -1;
    const ts_piece *p = &t->piece[t->sorted[lo]];
    return compare(p->bytes, p->n, bytes, n) ? -1 : t->sorted[lo];
}

const char *ts_tokenizer_piece(const ts_tokenizer *t, int32_t previous, int32_t token,
                               size_t *n_bytes)
{
    *n_bytes = 0;
    if (token < 0 || token >= t->n_piece || !t->piece[token].bytes) return "";
    const ts_piece *p = &t->piece[token];
    /* What llama2.c puts before a text is not part of it. */
    const bool drop =
        t->leading_space && t->n_first && previous == t->first[0] && p->n && p->bytes[0] == ' ';
    *n_bytes = p->n - drop;
    return p->bytes + drop;
}

/* ---- text to tokens ---- */

size_t ts_utf8_length(const unsigned char *p, size_t n)
{
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    const size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc0 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    uint32_t     c = len > 1 ? p[0] & (0xffu >> (len + 1)) : p[0];
    if (!len || len > n || p[0] >= 0xf8) return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    return c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : len;
}

typedef struct output {
    const ts_tokenizer  *t;
    int32_t             *token; /* room for one a byte, and a few */
    int64_t              n;
    pcre2_match_data    *match;
    pcre2_match_context *limits;
    char                *why;
    ts_word_fn           tell; /* NULL: words are encoded */
    void                *user;
} output;

size_t ts_blanks(const char *s, size_t n, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        const bool blank = n - i >= 3 && !memcmp(s + i, "\xe2\x96\x81", 3);
        out[used++] = blank ? ' ' : s[i];
        i += blank ? 3 : 1;
    }
    return used;
}

/* Whole characters where the vocabulary has them, else bytes. */
static bool symbols(output *o, const char *p, size_t n)
{
    const ts_tokenizer *t = o->t;
    for (size_t at = 0; at < n;) {
        const size_t len =
            !t->characters ? 1 : ts_utf8_length((const unsigned char *)p + at, n - at);
        const int32_t whole = !t->characters ? -1 : ts_tokenizer_find(t, p + at, len);
        if (whole >= 0) o->token[o->n++] = whole;
        for (size_t i = 0; whole < 0 && i < len; i++) {
            const unsigned char c = (unsigned char)p[at + i];
            if (t->byte[c] < 0) return ts_say(o->why, "vocabulary: no token for byte %d", c);
            o->token[o->n++] = t->byte[c];
        }
        at += len;
    }
    return true;
}

static bool word(output *o, const char *p, size_t n)
{
    const int32_t whole = o->t->whole_words ? ts_tokenizer_find(o->t, p, n) : -1;
    const int64_t from = o->n;
    if (o->tell) return o->tell(o->user, p, n) || ts_say(o->why, "out of memory for words");
    if (whole >= 0) {
        o->token[o->n++] = whole;
        return true;
    }
    if (!symbols(o, p, n)) return false;
    int64_t n_token = o->n - from;
    if (!ts_bpe(o->t, o->token + from, &n_token)) return ts_say(o->why, "out of memory");
    o->n = from + n_token;
    return true;
}

/* Splits at each match of pattern `i`; matches and the text between them go on to the next. */
static bool cut(output *o, int i, const char *p, size_t n)
{
    size_t at = 0;
    if (!n) return true;
    if (i == o->t->n_split) return word(o, p, n);
    while (at < n) {
        const int     found = pcre2_match(o->t->split[i], (PCRE2_SPTR)p, n, at,
                                          PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, o->match, o->limits);
        const size_t *span = pcre2_get_ovector_pointer(o->match);
        if (found < 0 && found != PCRE2_ERROR_NOMATCH)
            return ts_say(o->why, "the tokenizer's pattern exceeds the match limit on this text");
        const size_t from = found < 0 ? n : span[0], to = found < 0 ? n : span[1];
        if (found >= 0 && (from < at || to <= from))
            return ts_say(o->why, "the tokenizer's pattern matched an empty or invalid range");
        if (!cut(o, i + 1, p + at, from - at) || !cut(o, i + 1, p + from, to - from)) return false;
        at = to;
    }
    return true;
}

/* The longest special token that begins here, or -1. */
static int32_t special(const ts_tokenizer *t, const char *p, size_t n)
{
    int32_t best = -1;
    for (int64_t i = 0; i < t->n_added; i++) {
        const ts_piece *a = &t->piece[t->added[i]];
        if (a->n > n || a->bytes[0] != *p || memcmp(a->bytes, p, a->n)) continue;
        if (best < 0 || a->n > t->piece[best].n) best = t->added[i];
    }
    return best;
}

/* With the spaces that the vocabulary has in a text. */
static bool spaced(output *o, const char *p, size_t n, bool first)
{
    const ts_tokenizer *t = o->t;
    if (!t->leading_space && !t->blank_mark) return cut(o, 0, p, n);
    char *out = malloc(n + 1);
    if (!out) return ts_say(o->why, "out of memory");
    out[0] = ' ';
    if (t->blank_mark) n = ts_blanks(p, n, out + 1);
    else memcpy(out + 1, p, n);
    const bool lead =
        t->leading_space && (first || !t->leading_first) && !(t->leading_once && out[1] == ' ');
    const bool ok = cut(o, 0, out + !lead, n + lead);
    free(out);
    return ok;
}

/* The text between special tokens. */
static bool fragment(output *o, const char *p, size_t n, bool first)
{
    char  *composed;
    size_t n_composed;
    if (!n) return true;
    if (!o->t->nfc || o->tell) return spaced(o, p, n, first);
    if (!ts_nfc(p, n, &composed, &n_composed, o->why)) return false;
    const bool ok = spaced(o, composed, n_composed, first);
    free(composed);
    return ok;
}

/* Bytes of the white space at p; 0: none. */
static size_t blank_length(const char *p, size_t n)
{
    static const char *const wide[] = { "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                        "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                        "\xe2\x81\x9f", "\xe3\x80\x80" };
    if (!n) return 0;
    if (*p == ' ' || (*p >= '\t' && *p <= '\r')) return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (n >= strlen(wide[i]) && !memcmp(p, wide[i], strlen(wide[i]))) return strlen(wide[i]);
    const bool thin = n >= 3 && !memcmp(p, "\xe2\x80", 2) && (unsigned char)p[2] <= 0x8a;
    return thin ? 3 : 0; /* U+2000 to U+200A */
}

/* Where the white space that ends at `to` begins. */
static size_t without_blanks(const char *p, size_t from, size_t to)
{
    size_t end = from;
    for (size_t at = from, len; at < to; at += len ? len : 1)
        if (!(len = blank_length(p + at, to - at))) end = at + 1;
    return end;
}

static bool encode(output *o, const char *text, size_t n)
{
    const ts_tokenizer *t = o->t;
    size_t              from = 0;
    for (int i = 0; i < t->n_first; i++) o->token[o->n++] = t->first[i];
    for (size_t at = 0; at < n;) {
        const int32_t token = special(t, text + at, n - at);
        if (token < 0) {
            at++;
            continue;
        }
        const size_t end = t->piece[token].strip_left ? without_blanks(text, from, at) : at;
        if (!fragment(o, text + from, end - from, !from)) return false;
        o->token[o->n++] = token;
        at += t->piece[token].n;
        for (size_t len; t->piece[token].strip_right && (len = blank_length(text + at, n - at));)
            at += len;
        from = at;
    }
    return fragment(o, text + from, n - from, !from);
}

static bool run(output *o, const char *text, size_t n)
{
    char *const why = o->why;
    for (size_t at = 0, len; at < n; at += len)
        if (!(len = ts_utf8_length((const unsigned char *)text + at, n - at)))
            return ts_say(why, "invalid UTF-8 at byte %zu", at);
    /* A space a fragment; composing may make three bytes of one. */
    o->token = malloc(((o->t->nfc ? 6 : 2) * n + 1 + TS_FIRSTS) * sizeof *o->token);
    o->match = pcre2_match_data_create(1, NULL);
    o->limits = pcre2_match_context_create(NULL);
    bool ok = o->token && o->match && o->limits;
    if (!ok) ts_say(why, "out of memory");
    else {
        pcre2_set_match_limit(o->limits, 1000000);
        pcre2_set_heap_limit(o->limits, 64 << 10); /* KiB */
        ok = encode(o, text, n);
    }
    pcre2_match_data_free(o->match);
    pcre2_match_context_free(o->limits);
    return ok;
}

bool ts_tokenizer_encode(const ts_tokenizer *t, const char *text, size_t n, int32_t **token,
                         int64_t *n_token, char why[TS_MODEL_WHY])
{
    output     o = { .t = t, .why = why };
    const bool ok = run(&o, text, n);
    *token = NULL;
    *n_token = 0;
    if (ok) {
        *token = o.token;
        *n_token = o.n;
    } else free(o.token);
    return ok;
}

bool ts_tokenizer_words(const ts_tokenizer *t, const char *text, size_t n, ts_word_fn tell,
                        void *user, char why[TS_MODEL_WHY])
{
    output     o = { .t = t, .why = why, .tell = tell, .user = user };
    const bool ok = run(&o, text, n);
    free(o.token);
    return ok;
}
