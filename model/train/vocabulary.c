/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c - byte-level BPE learned from a text: join the commonest pair of neighbours inside
 * words, again and again.
 *
 * Words are cut as GPT-2's pattern cuts them, by the code that will cut them when the vocabulary is
 * used. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"
#include "rng.h"

static const char end_of_text[] = "<|endoftext|>";

/* ---- a table of counts, by a key of 64 bits ---- */

typedef struct count {
    uint64_t key; /* 0: nothing here */
    int64_t  n;
} count;

typedef struct table {
    count *at;
    size_t room, used; /* room: a power of two */
} table;

static count *find(const table *t, uint64_t key)
{
    size_t i = (size_t)ts_mix(key) & (t->room - 1);
    while (t->at[i].key && t->at[i].key != key) i = (i + 1) & (t->room - 1);
    return &t->at[i];
}

static bool grow(table *t)
{
    table more = { calloc(t->room ? 2 * t->room : 1024, sizeof *more.at),
                   t->room ? 2 * t->room : 1024, t->used };
    if (!more.at) return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->at[i].key) *find(&more, t->at[i].key) = t->at[i];
    free(t->at);
    *t = more;
    return true;
}

/* The entry of `key`, made where there was none; NULL without memory. */
static count *entry(table *t, uint64_t key)
{
    if (2 * t->used >= t->room && !grow(t)) return NULL;
    count *c = find(t, key);
    if (!c->key) {
        *c = (count) { key, 0 };
        t->used++;
    }
    return c;
}

/* ---- words, each once ---- */

typedef struct word {
    int64_t from; /* among the symbols */
    int64_t n;    /* symbols it has now */
    int64_t n_byte, count;
} word;

typedef struct learner {
    word    *word;
    int64_t  n_word, word_room;
    int32_t *symbol; /* one a byte at first */
    char    *bytes;  /* the same bytes, to tell words apart */
    int64_t  n_byte, byte_room;
    table    seen, pair; /* word by hash: its number, then on by one; pair: how often */
} learner;

static bool keep(learner *y, const char *p, size_t n)
{
    if (y->n_word == y->word_room) {
        word *more =
            realloc(y->word, (size_t)(y->word_room = 2 * y->word_room + 1024) * sizeof *more);
        if (!more) return false;
        y->word = more;
    }
    if (y->n_byte + (int64_t)n > y->byte_room) {
        y->byte_room = 2 * (y->n_byte + (int64_t)n) + 4096;
        int32_t *symbols = realloc(y->symbol, (size_t)y->byte_room * sizeof *symbols);
        if (symbols) y->symbol = symbols;
        char *bytes = realloc(y->bytes, (size_t)y->byte_room);
        if (bytes) y->bytes = bytes;
        if (!symbols || !bytes) return false;
    }
    y->word[y->n_word++] = (word) { y->n_byte, (int64_t)n, (int64_t)n, 1 };
    memcpy(y->bytes + y->n_byte, p, n);
    for (size_t i = 0; i < n; i++) y->symbol[y->n_byte++] = (unsigned char)p[i];
    return true;
}

static bool tell(void *user, const char *p, size_t n)
{
    learner *y = user;
    uint64_t key = ts_text_hash(0, p, n);
    for (;; key++) { /* words of one hash take the keys that follow */
        count *c = entry(&y->seen, key ? key : ++key);
        if (!c) return false;
        if (!c->n) {
            c->n = y->n_word + 1;
            return keep(y, p, n);
        }
        word *w = &y->word[c->n - 1];
        if (w->n_byte == (int64_t)n && !memcmp(y->bytes + w->from, p, n)) {
            w->count++;
            return true;
        }
    }
}

/* ---- pairs ---- */

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(left + 1) << 32 | (uint32_t)(right + 1);
}

static bool count_pairs(learner *y, const word *w, int64_t sign)
{
    for (int64_t i = 0; i + 1 < w->n; i++) {
        count *c = entry(&y->pair, pair_key(y->symbol[w->from + i], y->symbol[w->from + i + 1]));
        if (!c) return false;
        c->n += sign * w->count;
    }
    return true;
}

/* The commonest; of equals the one with the lowest tokens. NULL where none occurs twice. */
static const count *commonest(const learner *y)
{
    const count *best = NULL;
    for (size_t i = 0; i < y->pair.room; i++) {
        const count *c = &y->pair.at[i];
        if (!c->key || c->n < 2) continue;
        if (!best || c->n > best->n || (c->n == best->n && c->key < best->key)) best = c;
    }
    return best;
}

static bool has(const learner *y, const word *w, int32_t left, int32_t right)
{
    const int32_t *s = y->symbol + w->from;
    for (int64_t i = 0; i + 1 < w->n; i++)
        if (s[i] == left && s[i + 1] == right) return true;
    return false;
}

static bool join(learner *y, int32_t left, int32_t right, int32_t joined)
{
    for (int64_t k = 0; k < y->n_word; k++) {
        word    *w = &y->word[k];
        int32_t *s = y->symbol + w->from;
        int64_t  n = 0;
        if (!has(y, w, left, right)) continue;
        if (!count_pairs(y, w, -1)) return false;
        for (int64_t i = 0; i < w->n; i++) {
            const bool both = i + 1 < w->n && s[i] == left && s[i + 1] == right;
            s[n++] = both ? joined : s[i];
            i += both;
        }
        w->n = n;
        if (!count_pairs(y, w, 1)) return false;
    }
    return true;
}

/* ---- tokenizer.json ---- */

typedef struct pieces {
    char  **text; /* as the file writes them */
    int64_t n;
} pieces;

/* Each byte as the character that represents it. */
static bool first_pieces(pieces *p)
{
    for (unsigned c = 0; c < TS_BYTE_CHARS; c++) {
        const int b = ts_byte_of(c);
        if (b < 0) continue;
        char *s = p->text[b] = calloc(3, 1);
        if (!s) return false;
        if (c < 0x80) s[0] = (char)c;
        else s[0] = (char)(0xc0 | c >> 6), s[1] = (char)(0x80 | (c & 0x3f));
    }
    p->n = TS_CORPUS_BYTES + 1; /* the end of a text has no piece */
    return true;
}

static char *joined_text(const char *a, const char *b, const char *between)
{
    const size_t n = strlen(a) + strlen(b) + strlen(between) + 1;
    char        *s = malloc(n);
    if (!s) return NULL;
    strcpy(s, a);
    strcat(s, between);
    return strcat(s, b);
}

static bool add_merge(pieces *p, json_t *merges, int32_t left, int32_t right)
{
    char      *line = joined_text(p->text[left], p->text[right], " ");
    const bool ok = line && !json_array_append_new(merges, json_string(line)) &&
                    (p->text[p->n] = joined_text(p->text[left], p->text[right], ""));
    p->n += ok;
    free(line);
    return ok;
}

static json_t *byte_level(void)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", 1);
}

/* Takes vocab and merges over. */
static json_t *document(json_t *vocab, json_t *merges)
{
    json_t *end = json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", TS_CORPUS_END, "content",
                            end_of_text, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized",
                            0, "special", 1);
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout",
                  "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                  "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
    return json_pack("{s:s, s:n, s:n, s:[o], s:n, s:o, s:o, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", end, "normalizer", "pre_tokenizer",
                     byte_level(), "post_processor", byte_level(), "decoder", byte_level(), "model",
                     model);
}

static char *write_json(const pieces *p, json_t *merges)
{
    json_t *vocab = json_object();
    bool    ok = vocab;
    for (int64_t i = 0; ok && i < p->n; i++)
        if (p->text[i]) ok = !json_object_set_new(vocab, p->text[i], json_integer(i));
    ok = ok && !json_object_set_new(vocab, end_of_text, json_integer(TS_CORPUS_END));
    json_t *o = ok ? document(vocab, json_incref(merges)) : NULL;
    char   *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (!ok) json_decref(vocab);
    json_decref(o);
    return text;
}

/* ---- learning ---- */

/* The words of what is trained on, cut by a tokenizer that joins nothing. */
static bool read_words(const ts_corpus *c, const pieces *p, learner *y, char why[TS_MODEL_WHY])
{
    json_t       *none = json_array();
    char         *json = none ? write_json(p, none) : NULL;
    ts_tokenizer *t = NULL;
    bool ok = json ? ts_tokenizer_parse(json, strlen(json), &t, why) : ts_say(why, "out of memory");
    for (int64_t i = 0; ok && i < c->n_document; i++)
        if (!c->document[i].held_out)
            ok = ts_tokenizer_words(t, c->document[i].text, c->document[i].n, tell, y, why);
    for (int64_t i = 0; ok && i < y->n_word; i++)
        ok = count_pairs(y, &y->word[i], 1) || ts_say(why, "out of memory for pairs");
    ts_tokenizer_free(&t);
    free(json);
    json_decref(none);
    return ok;
}

static bool learn(learner *y, pieces *p, json_t *merges, int64_t n_vocab)
{
    const count *best;
    while (p->n < n_vocab && (best = commonest(y))) {
        const int32_t left = (int32_t)(best->key >> 32) - 1;
        const int32_t right = (int32_t)(best->key & 0xffffffffu) - 1;
        const int32_t joined = (int32_t)p->n;
        if (!add_merge(p, merges, left, right) || !join(y, left, right, joined)) return false;
    }
    return true;
}

bool ts_corpus_vocabulary(const ts_corpus *c, int64_t n_vocab, char **json, size_t *n_json,
                          char why[TS_MODEL_WHY])
{
    const int64_t most = 1 << 20;
    *json = NULL;
    if (n_vocab <= TS_CORPUS_END || n_vocab > most)
        return ts_say(why, "vocabulary: got %lld, expected %d to %lld", (long long)n_vocab,
                      TS_CORPUS_END + 1, (long long)most);
    learner y = { 0 };
    pieces  p = { calloc((size_t)n_vocab, sizeof *p.text), 0 };
    json_t *merges = json_array();
    bool    ok = p.text && merges && first_pieces(&p);
    if (!ok) ts_say(why, "out of memory for a vocabulary");
    ok = ok && read_words(c, &p, &y, why);
    if (ok && (!learn(&y, &p, merges, n_vocab) || !(*json = write_json(&p, merges))))
        ok = ts_say(why, "out of memory for a vocabulary of %lld", (long long)n_vocab);
    if (ok) *n_json = strlen(*json);
    for (int64_t i = 0; p.text && i < n_vocab; i++) free(p.text[i]);
    free(p.text);
    json_decref(merges);
    free(y.word);
    free(y.symbol);
    free(y.bytes);
    free(y.seen.at);
    free(y.pair.at);
    return ok;
}
