/* SPDX-License-Identifier: Apache-2.0 */
/* corpus.c - a text as documents, a split of them, and the sequences that training sees. */
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "rng.h"

enum { HELD_OUT = 10, RUN = 8 }; /* one byte in so many; words of a run */

/* ---- documents ---- */

uint64_t ts_text_hash(uint64_t seed, const char *p, size_t n)
{
    uint64_t h = ts_mix(seed + n);
    for (size_t i = 0; i < n; i++) h = ts_mix(h ^ (unsigned char)p[i]) + 1;
    return h;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v';
}

/* The end of the line at p, past its newline; *empty where there is nothing on it. */
static size_t line_end(const char *p, size_t n, bool *empty)
{
    size_t i = 0;
    *empty = true;
    for (; i < n && p[i] != '\n'; i++) *empty &= is_space(p[i]);
    return i < n ? i + 1 : i;
}

/* With `d` NULL it only counts. */
static int64_t cut(const char *text, size_t n, uint64_t seed, ts_document *d)
{
    int64_t count = 0;
    size_t  from = 0, to = 0;
    for (size_t at = 0; at <= n;) {
        bool         empty = true;
        const size_t len = at < n ? line_end(text + at, n - at, &empty) : 1;
        if (empty && to > from) {
            while (is_space(text[to - 1])) to--;
            if (d)
                d[count] = (ts_document) { text + from, to - from,
                                           ts_text_hash(seed, text + from, to - from), false };
            count++;
        }
        at += len;
        if (empty) from = at;
        to = empty ? from : at;
    }
    return count;
}

static int by_hash(const void *x, const void *y)
{
    const ts_document *a = x, *b = y;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return a->text < b->text ? -1 : a->text > b->text;
}

static int by_place(const void *x, const void *y)
{
    const ts_document *a = x, *b = y;
    return a->text < b->text ? -1 : a->text > b->text;
}

static void drop_repeated(ts_corpus *c)
{
    int64_t n = 0;
    for (int64_t i = 0; i < c->n_document; i++) {
        const ts_document *d = &c->document[i], *last = n ? &c->document[n - 1] : NULL;
        if (last && last->n == d->n && !memcmp(last->text, d->text, d->n)) continue;
        c->document[n++] = *d;
    }
    c->facts.n_repeated = c->n_document - n;
    c->facts.n_document = c->n_document = n;
}

/* By hash: which documents are held out does not depend on their place. */
static void split(ts_corpus *c)
{
    int64_t wanted;
    for (int64_t i = 0; i < c->n_document; i++) c->facts.bytes += (int64_t)c->document[i].n;
    wanted = c->facts.bytes / HELD_OUT + 1;
    for (int64_t i = 0; i + 1 < c->n_document && c->facts.held_out_bytes < wanted; i++) {
        c->document[i].held_out = true;
        c->facts.held_out_bytes += (int64_t)c->document[i].n;
        c->facts.n_held_out++;
    }
}

/* ---- overlap: runs of words that both halves have ---- */

typedef struct runs {
    uint64_t *hash;
    int64_t   n;
} runs;

/* With r->hash NULL it only counts. */
static void add_runs(const ts_document *d, runs *r)
{
    uint64_t word[RUN] = { 0 };
    int64_t  n_word = 0;
    for (size_t i = 0; i < d->n;) {
        size_t from = i;
        while (from < d->n && is_space(d->text[from])) from++;
        for (i = from; i < d->n && !is_space(d->text[i]);) i++;
        if (i == from) break;
        word[n_word++ % RUN] = ts_text_hash(0, d->text + from, i - from);
        if (n_word < RUN) continue;
        uint64_t all = 0;
        for (int64_t j = 0; j < RUN; j++) all = ts_mix(all ^ word[(n_word + j) % RUN]) + 1;
        if (r->hash) r->hash[r->n] = all;
        r->n++;
    }
}

static bool runs_of(const ts_corpus *c, bool held_out, runs *r)
{
    *r = (runs) { 0 };
    for (int pass = 0; pass < 2; pass++) {
        r->n = 0;
        for (int64_t i = 0; i < c->n_document; i++)
            if (c->document[i].held_out == held_out) add_runs(&c->document[i], r);
        if (!pass && !(r->hash = malloc((size_t)(r->n + 1) * sizeof *r->hash))) return false;
    }
    return true;
}

static int by_value(const void *x, const void *y)
{
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

static bool overlap(ts_corpus *c)
{
    runs       mine = { 0 }, theirs = { 0 };
    const bool ok = runs_of(c, false, &mine) && runs_of(c, true, &theirs);
    int64_t    n_both = 0;
    if (ok) qsort(mine.hash, (size_t)mine.n, sizeof *mine.hash, by_value);
    for (int64_t i = 0; ok && i < theirs.n; i++)
        n_both += bsearch(&theirs.hash[i], mine.hash, (size_t)mine.n, sizeof *mine.hash,
                          by_value) != NULL;
    if (ok && theirs.n) c->facts.overlap = (double)n_both / (double)theirs.n;
    free(mine.hash);
    free(theirs.hash);
    return ok;
}

/* ---- entry points ---- */

bool ts_corpus_parse(const char *text, size_t n, uint64_t seed, ts_corpus **out,
                     char why[TS_MODEL_WHY])
{
    *out = NULL;
    for (size_t at = 0, len; at < n; at += len)
        if (!(len = ts_utf8_length((const unsigned char *)text + at, n - at)))
            return ts_say(why, "invalid UTF-8 at byte %zu", at);
    ts_corpus *c = calloc(1, sizeof *c);
    if (!c || !(c->text = malloc(n + 1))) {
        ts_corpus_free(&c);
        return ts_say(why, "out of memory for a text of %zu bytes", n);
    }
    memcpy(c->text, text, n);
    c->seed = seed;
    c->n_document = cut(c->text, n, seed, NULL);
    c->document = calloc((size_t)c->n_document + 1, sizeof *c->document);
    bool ok = c->document;
    if (ok) {
        cut(c->text, n, seed, c->document);
        qsort(c->document, (size_t)c->n_document, sizeof *c->document, by_hash);
        drop_repeated(c);
        split(c);
        qsort(c->document, (size_t)c->n_document, sizeof *c->document, by_place);
        ok = overlap(c);
    }
    if (!ok) ts_say(why, "out of memory for documents");
    else if (c->n_document < 2)
        ok = ts_say(why, "got %lld documents, expected at least 2, separated by empty lines",
                    (long long)c->n_document);
    if (ok) *out = c;
    else ts_corpus_free(&c);
    return ok;
}

bool ts_corpus_load(const char *path, uint64_t seed, ts_corpus **c, char why[TS_MODEL_WHY])
{
    ts_file f;
    *c = NULL;
    if (!ts_file_map(path, &f, why)) return false;
    const bool ok = ts_corpus_parse((const char *)f.bytes, f.n, seed, c, why);
    ts_file_unmap(&f);
    return ok;
}

void ts_corpus_free(ts_corpus **c)
{
    if (!*c) return;
    free((*c)->text);
    free((*c)->document);
    free((*c)->token[0]);
    free((*c)->token[1]);
    free(*c);
    *c = NULL;
}

ts_corpus_facts ts_corpus_facts_of(const ts_corpus *c)
{
    return c->facts;
}

/* ---- tokens ---- */

static bool push(ts_corpus *c, bool held_out, const int32_t *token, int64_t n)
{
    int64_t *used = &c->n_token[held_out], *room = &c->room[held_out];
    if (*used + n > *room) {
        const int64_t wanted = 2 * (*used + n) + 1024;
        int32_t      *more = realloc(c->token[held_out], (size_t)wanted * sizeof *more);
        if (!more) return false;
        c->token[held_out] = more;
        *room = wanted;
    }
    memcpy(c->token[held_out] + *used, token, (size_t)n * sizeof *token);
    *used += n;
    return true;
}

bool ts_corpus_encode(ts_corpus *c, const ts_tokenizer *t, int64_t n_token, char why[TS_MODEL_WHY])
{
    const int32_t end = TS_CORPUS_END;
    c->n_token[0] = c->n_token[1] = 0;
    bool ok = push(c, false, &end, 1) && push(c, true, &end, 1);
    for (int64_t i = 0; ok && i < c->n_document; i++) {
        const ts_document *d = &c->document[i];
        int32_t           *token;
        int64_t            n;
        if (!ts_tokenizer_encode(t, d->text, d->n, &token, &n, why)) return false;
        ok = push(c, d->held_out, token, n) && push(c, d->held_out, &end, 1);
        free(token);
    }
    if (!ok) return ts_say(why, "out of memory for tokens");
    c->length = n_token;
    c->facts.n_token = c->n_token[0];
    c->facts.n_held_out_token = c->n_token[1];
    c->facts.hash = 0;
    for (int half = 0; half < 2; half++)
        c->facts.hash = ts_text_hash(c->facts.hash, (const char *)c->token[half],
                                     (size_t)c->n_token[half] * sizeof *c->token[half]);
    return c->n_token[0] > n_token ||
           ts_say(why,
                  "text too short: got %lld tokens, expected more than the sequence length, %lld",
                  (long long)c->n_token[0], (long long)n_token);
}

/* ---- sequences ---- */

/* Training sequences begin anywhere; held-out ones follow each other, so that every token but the
 * first is a target once. */
static void fill(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target, int64_t n)
{
    const ts_corpus *c = user;
    const int32_t   *token = c->token[held_out];
    const int64_t    most = c->n_token[held_out];
    const int64_t    from =
        held_out ? i * n : (int64_t)(ts_bits(c->seed ^ 0x5e90, i) % (uint64_t)(most - n));
    for (int64_t j = 0; j < n; j++) {
        input[j] = from + j < most ? token[from + j] : 0;
        target[j] = from + j + 1 < most ? token[from + j + 1] : -1;
    }
}

ts_feed ts_corpus_feed(ts_corpus *c)
{
    return (ts_feed) {
        .fill = fill,
        .user = c,
        .n_held_out = (c->n_token[1] - 1 + c->length - 1) / c->length,
        .held_out_bytes = (double)c->facts.held_out_bytes,
    };
}
