/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_tokens.c - tokenizers: the tokens that Hugging Face's tokenizers gives, round trips,
 * long words, and what is malformed. */
#include "unit_model.h"

static ts_tokenizer *open_tokenizer(const char *path)
{
    char          why[TS_MODEL_WHY] = "";
    ts_tokenizer *t = NULL;
    if (!ts_tokenizer_load(path, &t, why)) fail_msg("%s: %s", path, why);
    return t;
}

/* The text that tokens stand for; the caller frees. */
static char *decoded(const ts_tokenizer *t, const int32_t *token, int64_t n, int64_t from)
{
    size_t at = 0, room = 1, len;
    for (int64_t i = from; i < n; i++, room += len) ts_tokenizer_piece(t, -1, token[i], &len);
    char *text = malloc(room);
    assert_non_null(text);
    for (int64_t i = from; i < n; i++, at += len) {
        const char *piece = ts_tokenizer_piece(t, i ? token[i - 1] : -1, token[i], &len);
        memcpy(text + at, piece, len);
    }
    text[at] = 0;
    return text;
}

/* Encoded, then back again. `first`: how many tokens stand before the text. */
static int32_t *round_trip(const ts_tokenizer *t, const char *text, int64_t first, int64_t *n)
{
    char     why[TS_MODEL_WHY] = "";
    int32_t *token;
    if (!ts_tokenizer_encode(t, text, strlen(text), &token, n, why)) fail_msg("%s", why);
    char *back = decoded(t, token, *n, first);
    assert_string_equal(back, text);
    free(back);
    return token;
}

TEST(equal_to_tokenizers)
{
    static const struct {
        const char *name;
        int64_t     first;
    } files[] = { { "qwen3", 0 }, { "llama", 1 }, { "starcoder2", 0 } };
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        ts_tokenizer *t = open_tokenizer(checkpoint(files[f].name, "tokenizer.json"));
        json_t       *golden = read_json(checkpoint(files[f].name, "tokens.json")), *o;
        size_t        i;
        assert_true(json_array_size(golden) > 5);
        json_array_foreach(golden, i, o)
        {
            int64_t  n, n_want;
            int32_t *want = integers(json_object_get(o, "tokens"), &n_want);
            int32_t *got =
                round_trip(t, json_string_value(json_object_get(o, "text")), files[f].first, &n);
            assert_int_equal(n, n_want);
            assert_memory_equal(got, want, (size_t)n * sizeof *got);
            free(want);
            free(got);
        }
        json_decref(golden);
        ts_tokenizer_free(&t);
    }
}

/* What a text is normalised to, spaces that SentencePiece's vocabularies write as U+2581, and white
 * space that special tokens take away. */
TEST(steps_of_tokenizers)
{
    static const char *const names[] = { "prepend", "first", "always", "never", "nfc" };
    char                     file[64], why[TS_MODEL_WHY];
    size_t                   i, n_other = 0;
    for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
        snprintf(file, sizeof file, "%s.json", names[f]);
        ts_tokenizer *t = open_tokenizer(checkpoint("tokenizer", file));
        snprintf(file, sizeof file, "%s.tokens.json", names[f]);
        json_t *golden = read_json(checkpoint("tokenizer", file)), *o;
        assert_true(json_array_size(golden) > 20);
        json_array_foreach(golden, i, o)
        {
            const json_t *text = json_object_get(o, "text");
            int64_t       n, n_want;
            int32_t      *want = integers(json_object_get(o, "tokens"), &n_want), *got;
            if (!ts_tokenizer_encode(t, json_string_value(text), json_string_length(text), &got, &n,
                                     why))
                fail_msg("%s: text %zu: %s", names[f], i, why);
            if (n != n_want || memcmp(got, want, (size_t)n * sizeof *got)) {
                print_message("%s: text %zu: '%s': got", names[f], i, json_string_value(text));
                for (int64_t j = 0; j < n; j++) print_message(" %d", got[j]);
                print_message(", expected");
                for (int64_t j = 0; j < n_want; j++) print_message(" %d", want[j]);
                print_message("\n");
                n_other++;
            }
            free(want);
            free(got);
        }
        json_decref(golden);
        ts_tokenizer_free(&t);
    }
    assert_int_equal(n_other, 0);
}

TEST(story_tokens)
{
    if (!story("tok512.bin")) skip();
    ts_tokenizer *t = open_tokenizer(story("tok512.bin"));
    json_t       *golden = read_json(story("stories260K.golden.json")), *c;
    size_t        i;
    int64_t       n, n_want;
    assert_int_equal(ts_tokenizer_size(t), 512);
    json_array_foreach(json_object_get(golden, "cases"), i, c)
    {
        int32_t *want = integers(json_object_get(c, "prompt_tokens"), &n_want);
        int32_t *got = round_trip(t, json_string_value(json_object_get(c, "prompt")), 1, &n);
        assert_int_equal(n, n_want);
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
        free(want);
        free(got);
    }
    free(round_trip(t, "na\xc3\xafve \xf0\x9f\x98\x80\x01 two  spaces\n", 1, &n));
    free(round_trip(t, "", 1, &n));
    assert_int_equal(n, 1);
    json_decref(golden);
    ts_tokenizer_free(&t);
}

/* A word of a million letters: hours, if joining were quadratic. */
TEST(long_word)
{
    enum { N = 1000000 };
    ts_tokenizer *t = open_tokenizer(checkpoint("qwen3", "tokenizer.json"));
    char         *text = malloc(N + 1);
    int64_t       n;
    assert_non_null(text);
    for (int i = 0; i < N; i++) text[i] = "theseandthose"[i % 13];
    text[N] = 0;
    free(round_trip(t, text, 0, &n));
    assert_in_range(n, 1, N - N / 10);
    free(text);
    ts_tokenizer_free(&t);
}

/* ---- what is malformed ---- */

TEST(not_utf8)
{
    static const char *const bad[] = { "ab\xff",           "\xc0\x80",  "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80", "a\xe2\x82", "\x80" };
    char                     why[TS_MODEL_WHY];
    int32_t                 *token;
    int64_t                  n;
    ts_tokenizer            *t = open_tokenizer(checkpoint("qwen3", "tokenizer.json"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(ts_tokenizer_encode(t, bad[i], strlen(bad[i]), &token, &n, why));
        assert_non_null(strstr(why, "UTF-8"));
    }
    ts_tokenizer_free(&t);
}

TEST(bad_json)
{
    static const char *const bad[][3] = {
        { "\"BPE\"", "\"WordPiece\"", "BPE" },
        { "\"vocab\"", "\"Vocab\"", "vocab" },
        { "\"merges\"", "\"Merges\"", "merges" },
        { "\"merges\":[", "\"merges\":[[\"zq\",\"qz\"],", "merges" },
        { "\"merges\":[", "\"merges\":[7,", "merges" },
        { "\"Isolated\"", "\"Removed\"", "pre_tokenizer" },
        { "(?i:", "(?i(:", "regular expression" },
        { "\"<|begin|>\":0", "\"<|begin|>\":-1", "id" },
        { "\"<|begin|>\":0", "\"<|begin|>\":99999999999", "id" },
        { "\"!\":2", "\"!\":3", "twice" },
        { "\"id\":1,", "\"id\":0,", "twice" },
        { "\"!\":2", "\"\\u4f60\":2", "byte-level" },
        { "\"ByteLevel\"", "\"Metaspace\"", "pre_tokenizer" },
        { "\"normalizer\":null", "\"normalizer\":{\"type\":\"Lowercase\"}", "Lowercase" },
        { "\"normalizer\":null",
          "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}", "Prepend" },
        { "\"post_processor\":null", "\"post_processor\":{\"type\":\"RobertaProcessing\"}",
          "Roberta" },
        { "\"single_word\":false", "\"single_word\":true", "single_word" },
        { "\"dropout\":null", "\"dropout\":0.1", "dropout" },
        { "\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", "suffixes" },
    };
    size_t        n;
    char          why[TS_MODEL_WHY];
    ts_tokenizer *t;
    char         *text = read_bytes(checkpoint("qwen3", "tokenizer.json"), &n);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *at = strstr(text, bad[i][0]), *copy = malloc(n + 100);
        assert_true(at && copy);
        sprintf(copy, "%.*s%s%s", (int)(at - text), text, bad[i][1], at + strlen(bad[i][0]));
        assert_false(ts_tokenizer_parse(copy, strlen(copy), &t, why));
        if (!strstr(why, bad[i][2])) fail_msg("got '%s', expected '%s'", why, bad[i][2]);
        free(copy);
    }
    for (size_t cut = 0; cut + 2 < n; cut += 97)
        assert_false(ts_tokenizer_parse(text, cut, &t, why));
    free(text);
}

TEST(bad_vocabulary)
{
    char          why[TS_MODEL_WHY], bytes[64] = { 1 };
    const float   nan = NAN;
    const int32_t negative = -1, huge = 1 << 30;
    ts_tokenizer *t;
    /* four empty pieces: sound, if of little use */
    assert_true(ts_tokenizer_parse(bytes, 4 + 4 * 8, &t, why));
    ts_tokenizer_free(&t);
    for (size_t n = 0; n < 4 + 3 * 8; n++) assert_false(ts_tokenizer_parse(bytes, n, &t, why));
    memcpy(bytes + 8, &negative, 4);
    assert_false(ts_tokenizer_parse(bytes, 36, &t, why));
    assert_non_null(strstr(why, "length"));
    memcpy(bytes + 8, &huge, 4);
    assert_false(ts_tokenizer_parse(bytes, 36, &t, why));
    memset(bytes + 8, 0, 4);
    memcpy(bytes + 4, &nan, 4);
    assert_false(ts_tokenizer_parse(bytes, 36, &t, why));
    assert_non_null(strstr(why, "score"));
}

/* Of equal pairs the leftmost joins first. */
TEST(ties_go_left)
{
    static const char *const pieces[] = { "<unk>", "<s>", "</s>", " ", "a", "aa" };
    const int32_t            want[4] = { 1, 3, 5, 4 };
    char                     why[TS_MODEL_WHY], bytes[128] = { 0 };
    size_t                   at = 4;
    ts_tokenizer            *t;
    int64_t                  n;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const int32_t len = (int32_t)strlen(pieces[i]);
        memcpy(bytes + at + 4, &len, 4);
        memcpy(bytes + at + 8, pieces[i], (size_t)len);
        at += 8 + (size_t)len;
    }
    assert_true(ts_tokenizer_parse(bytes, at, &t, why));
    int32_t *got = round_trip(t, "aaa", 1, &n);
    assert_int_equal(n, 4);
    assert_memory_equal(got, want, sizeof want);
    free(got);
    ts_tokenizer_free(&t);
}
