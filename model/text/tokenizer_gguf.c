/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer_gguf.c - the vocabulary in a GGUF file: byte-level BPE ("gpt2") with merges and a named
 * way to cut words, or SentencePiece ("llama") with scores and bytes for what has no piece. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { MOST_TOKENS = 1 << 20, LONGEST = 1024, LONGEST_SCORED = 256 }; /* bpe.c joins so much */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };    /* kinds of tokens */

static const char tokens[] = "tokenizer.ggml.tokens", scores[] = "tokenizer.ggml.scores";
static const char kinds[] = "tokenizer.ggml.token_type", merge_list[] = "tokenizer.ggml.merges";

/* ---- how words are cut, by name ---- */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const char gpt2_short[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                 " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";
static const char llama3[] = CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST;
static const char qwen2[] = CONTRACTIONS "|" LETTERS "|\\p{N}|" REST;
static const char gpt4o[] = "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|"
                            "[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" CONTRACTIONS "?|"
                            "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"
                            "\\s+(?!\\S)|\\s+";

static const struct {
    const char *name, *pattern[TS_SPLITS];
    bool        whole_words, begins; /* a text begins with a token of its own */
} cutters[] = {
    { "gpt-2", { gpt2_short }, false, false },
    { "mpt", { gpt2_short }, false, false },
    { "olmo", { gpt2_short }, false, false },
    { "phi-2", { gpt2_short }, false, false },
    { "jais", { gpt2_short }, false, false },
    { "default",
      { "[\\p{P}\\$\\+<=>\\^~\\|]+", gpt2_short, "\\p{N}+", "[0-9][0-9][0-9]" },
      false,
      false },
    { "falcon", { "[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2_short, "[0-9][0-9][0-9]" }, false, false },
    { "starcoder", { "\\p{N}", gpt2_short }, false, false },
    { "refact", { "\\p{N}", gpt2_short }, false, false },
    { "command-r", { "\\p{N}", gpt2_short }, false, false },
    { "smollm", { "\\p{N}", gpt2_short }, false, false },
    { "codeshell", { "\\p{N}", gpt2_short }, false, false },
    { "exaone", { "\\p{N}", gpt2_short }, false, false },
    { "deepseek-coder",
      { "[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
        "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-"
        "\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+",
        "\\p{N}" },
      false,
      false },
    { "llama-bpe", { llama3 }, true, true },
    { "llama3", { llama3 }, true, true },
    { "llama-v3", { llama3 }, true, true },
    { "dbrx", { llama3 }, false, false },
    { "smaug-bpe", { llama3 }, false, false },
    { "qwen2", { qwen2 }, false, false },
    { "deepseek-r1-qwen", { qwen2 }, false, false },
    { "stablelm2", { qwen2 }, false, false },
    { "gpt-4o", { gpt4o }, false, false },
    { "llama4", { gpt4o }, false, false },
};

static bool cut_by_name(ts_tokenizer *t, const ts_gguf *g, bool *begins, char why[TS_MODEL_WHY])
{
    static const char key[] = "tokenizer.ggml.pre";
    ts_gguf_text      name = { "default", 7 };
    ts_gguf_string(g, key, &name);
    for (size_t i = 0; i < sizeof cutters / sizeof *cutters; i++) {
        if (strlen(cutters[i].name) != name.n || memcmp(cutters[i].name, name.p, name.n)) continue;
        t->whole_words = cutters[i].whole_words;
        *begins = cutters[i].begins;
        for (int k = 0; k < TS_SPLITS && cutters[i].pattern[k]; k++)
            if (!ts_tokenizer_split(t, cutters[i].pattern[k], why)) return false;
        return true;
    }
    return ts_say(why, "gguf: %s: got '%.*s', expected a known pre-tokenizer", key,
                  (int)(name.n < 40 ? name.n : 40), name.p);
}

/* ---- pieces ---- */

/* Sets *ordinary: text can give it. A piece of BPE in other than byte-level characters cannot. */
static bool piece(ts_tokenizer *t, int64_t i, ts_gguf_text s, int kind, bool bpe, char *text,
                  bool *ordinary, char why[TS_MODEL_WHY])
{
    size_t n = s.n;
    *ordinary = kind == NORMAL || kind == UNUSED;
    if (s.n > (bpe ? LONGEST : LONGEST_SCORED))
        return ts_say(why, "gguf: token %lld: got %zu bytes, expected at most %d", (long long)i,
                      s.n, bpe ? LONGEST : LONGEST_SCORED);
    if (kind == BYTE) {
        const int byte = ts_raw_byte(s.p, s.n);
        if (byte < 0) return ts_say(why, "gguf: token %lld: expected a byte, <0xHH>", (long long)i);
        t->byte[byte] = (int32_t)i;
        *text = (char)byte;
        n = 1;
    } else if (*ordinary && !bpe) n = ts_blanks(s.p, s.n, text);
    else if (!*ordinary || !(*ordinary = ts_bytes_of(s.p, s.n, text, &n))) {
        memcpy(text, s.p, s.n);
        n = s.n;
    }
    t->piece[i] = (ts_piece) { .bytes = n ? text : NULL, .n = n };
    if (bpe && *ordinary && n == 1) t->byte[(unsigned char)*text] = (int32_t)i;
    if (n && (kind == CONTROL || kind == USER_DEFINED)) t->added[t->n_added++] = (int32_t)i;
    return true;
}

static bool pieces(ts_tokenizer *t, const ts_gguf *g, bool bpe, bool *ordinary,
                   char why[TS_MODEL_WHY])
{
    const unsigned char *next = NULL;
    const bool           has_kind = ts_gguf_count(g, kinds, false) == t->n_piece;
    const bool           has_score = ts_gguf_count(g, scores, false) == t->n_piece;
    char                *text = t->text;
    if (!bpe && !has_score) return ts_say(why, "gguf: %s: missing, or not one a token", scores);
    for (int64_t i = 0; i < t->n_piece; i++) {
        const int    kind = has_kind ? (int)ts_gguf_at(g, kinds, i) : NORMAL;
        const double score = has_score ? ts_gguf_at(g, scores, i) : 0;
        if (!isfinite(score))
            return ts_say(why, "gguf: token %lld: expected a finite score", (long long)i);
        if (!piece(t, i, ts_gguf_next(g, tokens, &next), kind, bpe, text, &ordinary[i], why))
            return false;
        t->piece[i].score = (float)score;
        text += t->piece[i].n;
    }
    return ts_tokenizer_sort(t, ordinary, why);
}

static bool vocabulary(ts_tokenizer *t, const ts_gguf *g, bool bpe, char why[TS_MODEL_WHY])
{
    const unsigned char *next = NULL;
    size_t               n_text = 1;
    t->n_piece = ts_gguf_count(g, tokens, true);
    if (t->n_piece < 1 || t->n_piece > MOST_TOKENS)
        return ts_say(why, "gguf: %s: got %lld, expected 1 to %d", tokens, (long long)t->n_piece,
                      (int)MOST_TOKENS);
    for (int64_t i = 0; i < t->n_piece; i++) n_text += ts_gguf_next(g, tokens, &next).n;
    t->text = malloc(n_text);
    t->piece = calloc((size_t)t->n_piece, sizeof *t->piece);
    t->added = calloc((size_t)t->n_piece, sizeof *t->added);
    bool *ordinary = calloc((size_t)t->n_piece, sizeof *ordinary);
    bool  ok = t->text && t->piece && t->added && ordinary;
    if (!ok) ts_say(why, "out of memory for %lld tokens", (long long)t->n_piece);
    ok = ok && pieces(t, g, bpe, ordinary, why);
    free(ordinary);
    return ok;
}

/* Lines "left right"; the first is the best. Those of pieces that the file lacks join nothing. */
static bool merges(ts_tokenizer *t, const ts_gguf *g, char why[TS_MODEL_WHY])
{
    const unsigned char *next = NULL;
    const int64_t        n = ts_gguf_count(g, merge_list, true);
    if (n < 0 || n > MOST_TOKENS) return ts_say(why, "gguf: %s: missing, or too many", merge_list);
    t->merge = calloc((size_t)n + 1, sizeof *t->merge);
    if (!t->merge) return ts_say(why, "out of memory for %lld merges", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const ts_gguf_text line = ts_gguf_next(g, merge_list, &next);
        const char        *space = line.n > 1 ? memchr(line.p + 1, ' ', line.n - 1) : NULL;
        ts_merge          *m = &t->merge[t->n_merge];
        if (!space) return ts_say(why, "gguf: merge %lld: expected two pieces", (long long)i);
        const size_t n_left = (size_t)(space - line.p);
        m->rank = (int32_t)i;
        t->n_merge += ts_tokenizer_merge(t, line.p, n_left, space + 1, line.n - n_left - 1, m);
    }
    qsort(t->merge, (size_t)t->n_merge, sizeof *t->merge, ts_merge_order);
    return true;
}

/* What every text begins with, and the token that ends one. */
static bool ends(ts_tokenizer *t, const ts_gguf *g, bool begins, char why[TS_MODEL_WHY])
{
    int64_t begin = -1, stop = -1;
    ts_gguf_flag(g, "tokenizer.ggml.add_bos_token", &begins);
    ts_gguf_integer(g, "tokenizer.ggml.bos_token_id", &begin);
    ts_gguf_integer(g, "tokenizer.ggml.eos_token_id", &stop);
    if (begins && (begin < 0 || begin >= t->n_piece))
        return ts_say(why, "gguf: tokenizer.ggml.bos_token_id: got %lld, expected a token",
                      (long long)begin);
    if (begins) t->first[t->n_first++] = (int32_t)begin;
    if (stop >= 0 && stop < t->n_piece) t->stop = (int32_t)stop;
    return true;
}

static bool read(ts_tokenizer *t, const ts_gguf *g, char why[TS_MODEL_WHY])
{
    static const char key[] = "tokenizer.ggml.model";
    const bool        bpe = ts_gguf_is(g, key, "gpt2");
    bool              begins = !bpe, strips = false;
    ts_gguf_text      name = { "none", 4 };
    ts_gguf_string(g, key, &name);
    if (!bpe && !ts_gguf_is(g, key, "llama"))
        return ts_say(why, "gguf: %s: got '%.*s', expected gpt2 or llama", key,
                      (int)(name.n < 40 ? name.n : 40), name.p);
    ts_gguf_flag(g, "tokenizer.ggml.remove_extra_whitespaces", &strips);
    if (strips || ts_gguf_count(g, "tokenizer.ggml.precompiled_charsmap", false) > 0)
        return ts_say(why, "gguf: the vocabulary's normaliser is not supported");
    if (!vocabulary(t, g, bpe, why)) return false;
    if (bpe && (!merges(t, g, why) || !cut_by_name(t, g, &begins, why))) return false;
    t->leading_space = t->characters = t->blank_mark = !bpe;
    ts_gguf_flag(g, "tokenizer.ggml.add_space_prefix", &t->leading_space);
    return ends(t, g, begins, why);
}

bool ts_tokenizer_gguf(ts_tokenizer *t, const unsigned char *p, size_t n, char why[TS_MODEL_WHY])
{
    ts_gguf *g;
    if (!ts_gguf_parse(p, n, &g, why)) return false;
    const bool ok = read(t, g, why);
    ts_gguf_free(&g);
    return ok;
}
