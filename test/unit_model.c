/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model.c - checkpoints: what Hugging Face's transformers wrote gives its logits, in float32
 * and float64, whole and in chunks; what is malformed gets one line. */
#include "unit_model.h"

static const char *const names[] = { "qwen3", "llama", "qwen2", "mistral", "starcoder2" };
enum { NAMES = sizeof names / sizeof *names };

/* ---- logits ---- */

/* The largest difference from the golden file's `key`. */
static double distance(const char *name, ts_dtype dtype, const char *key)
{
    ts_decoder   *m = load(checkpoint(name, ""), dtype);
    json_t       *golden = read_json(checkpoint(name, "golden.json"));
    int64_t       n, n_rows;
    int32_t      *token = integers(json_object_get(golden, "tokens"), &n);
    int32_t      *rows = integers(json_object_get(golden, "rows"), &n_rows);
    const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
    double       *got = logits_of(m, token, n, (way) { .chunk = n, .store = dtype });
    double        far = 0;
    assert_true(n_rows > 0);
    for (int64_t r = 0; r < n_rows; r++) {
        const json_t *want = json_array_get(json_object_get(golden, key), (size_t)r);
        assert_int_equal(json_array_size(want), n_vocab);
        for (int64_t i = 0; i < n_vocab; i++)
            far = farther(far, got[rows[r] * n_vocab + i],
                          json_number_value(json_array_get(want, (size_t)i)));
    }
    free(got);
    free(token);
    free(rows);
    json_decref(golden);
    ts_decoder_free(&m);
    return far;
}

/* In float64 what remains is transformers' own: its rotations are float32 whatever the dtype. */
TEST(equal_to_transformers)
{
    for (int i = 0; i < NAMES; i++) {
        const double f32 = distance(names[i], TS_F32, "f32"),
                     f64 = distance(names[i], TS_F64, "f64");
        print_message("%s: largest difference of a logit %.1e in f32, %.1e in f64\n", names[i], f32,
                      f64);
        assert_true(f32 <= 2e-5);
        assert_true(f64 <= 2e-6);
    }
}

static double chunked(const ts_decoder *m, const int32_t *token, int64_t n, way w)
{
    const ts_dtype dtype = ts_decoder_dtype(m);
    double        *whole = logits_of(m, token, n, (way) { .chunk = n, .store = dtype });
    double        *parts = logits_of(m, token, n, w);
    double         far = 0;
    for (int64_t i = 0; i < n * ts_decoder_dims_of(m)->n_vocab; i++)
        far = farther(far, parts[i], whole[i]);
    free(whole);
    free(parts);
    return far;
}

TEST(chunks_equal_whole)
{
    double far = 0;
    for (int i = 0; i < NAMES; i++) {
        ts_decoder *m = load(checkpoint(names[i], ""), TS_F64);
        json_t     *golden = read_json(checkpoint(names[i], "golden.json"));
        int64_t     n;
        int32_t    *token = integers(json_object_get(golden, "tokens"), &n);
        for (int64_t chunk = 1; chunk < n; chunk += 3)
            for (int64_t page = 0; page <= 8; page += 4)
                far = farther(far, chunked(m, token, n, (way) { chunk, page, TS_F64, 0 }), 0);
        free(token);
        json_decref(golden);
        ts_decoder_free(&m);
    }
    print_message("float64, chunks of 1 to 22 against whole: largest difference %.1e\n", far);
    assert_true(far <= 1e-12);
}

TEST(refusal_changes_nothing)
{
    ts_decoder *m = load(checkpoint("qwen3", "model.safetensors"), TS_F32);
    refusal_leaves_the_sequence(m);
    ts_decoder_free(&m);
}

/* ---- readers ---- */

/* The text with the first `from` replaced. */
static char *replaced(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    char *out = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(out);
    sprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

TEST(bad_configs)
{
    static const struct {
        const char *from, *to, *word;
    } bad[] = {
        { "\"qwen3\"", "\"bert\\n\\u001b\"", "model_type" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "model.layers.2" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "layers" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 99999999999", "layers" },
        { "\"num_hidden_layers\": 2", "\"num_hidden_layers\": \"2\"", "expected an integer" },
        { "\"hidden_size\": 24", "\"hidden_size\": 25", "shape" },
        { "\"hidden_size\": 24", "\"hidden_size\": -24", "width" },
        { "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "multiple" },
        { "\"head_dim\": 8", "\"head_dim\": 7", "even" },
        { "\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": 0", "epsilon" },
        { "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"", "rope type" },
        { "\"rope_theta\": 10000.0", "\"rope_theta\": 0", "rope_theta" },
        { "\"hidden_act\": \"silu\"", "\"hidden_act\": \"relu\"", "hidden_act" },
        { "\"eos_token_id\": 1", "\"eos_token_id\": 320", "eos_token_id" },
        { "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false", "lm_head.weight" },
        { "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 7", "expected true or false" },
        { "{", "[", "config" },
        { "\"use_sliding_window\": false",
          "\"sliding_window\": 4, \"layer_types\": [\"sliding_attention\", \"full_attention\"]",
          "window" },
        { "\"use_sliding_window\": false",
          "\"sliding_window\": 4, \"layer_types\": null, \"max_window_layers\": 1", "window" },
    };
    size_t      n_config, n;
    char        why[TS_MODEL_WHY];
    ts_decoder *m;
    char       *config = read_bytes(checkpoint("qwen3", "config.json"), &n_config);
    char       *tensors = read_bytes(checkpoint("qwen3", "model.safetensors"), &n);
    assert_true(ts_decoder_safetensors(config, n_config, tensors, n, TS_F32, &m, why));
    ts_decoder_free(&m);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = replaced(config, bad[i].from, bad[i].to);
        assert_false(ts_decoder_safetensors(text, strlen(text), tensors, n, TS_F32, &m, why));
        one_line(why, bad[i].word);
        free(text);
    }
    free(config);
    free(tensors);
}

/* The header's text with a replacement of the same length. */
static void spoil(char *bytes, size_t n, const char *from, const char *to)
{
    const size_t len = strlen(from);
    assert_int_equal(len, strlen(to));
    for (size_t i = 8; i + len < n; i++)
        if (!memcmp(bytes + i, from, len)) {
            memcpy(bytes + i, to, len);
            return;
        }
    fail_msg("no '%s' in the header", from);
}

TEST(bad_safetensors)
{
    static const char *const bad[][3] = {
        { "\"dtype\":\"F32\"", "\"dtype\":\"I32\"", "dtype" },
        { "\"shape\":[24]", "\"shape\":[25]", "shape" },
        { "\"shape\":[320,24]", "\"shape\":[24,320]", "shape" },
        { "\"data_offsets\":[0,", "\"data_offsets\":[4,", "shape" },
        { "\"data_offsets\":[0,", "\"data_offsets\":{0,", "header" },
        { "embed_tokens", "Embed_tokens", "model.embed_tokens.weight: missing" },
        { "[320,24]", "[-32,24]", "shape" },
    };
    size_t      n_config, n;
    char        why[TS_MODEL_WHY];
    ts_decoder *m;
    char       *config = read_bytes(checkpoint("qwen3", "config.json"), &n_config);
    char       *tensors = read_bytes(checkpoint("qwen3", "model.safetensors"), &n);
    char       *copy = malloc(n);
    assert_non_null(copy);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(copy, tensors, n);
        spoil(copy, n, bad[i][0], bad[i][1]);
        assert_false(ts_decoder_safetensors(config, n_config, copy, n, TS_F32, &m, why));
        one_line(why, bad[i][2]);
    }
    for (size_t cut = 0; cut < n; cut += cut < 4096 ? 37 : 1009) {
        assert_false(ts_decoder_safetensors(config, n_config, tensors, cut, TS_F32, &m, why));
        one_line(why, "");
    }
    for (int i = 0; i < 8; i++) { /* the header's length, one byte at a time */
        memcpy(copy, tensors, n);
        copy[i] ^= 0x55;
        assert_false(ts_decoder_safetensors(config, n_config, copy, n, TS_F32, &m, why));
    }
    free(config);
    free(tensors);
    free(copy);
}

/* Two names for the same bytes: a small file that needs much memory. */
TEST(shared_bytes)
{
    const char  header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                           "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    size_t      n_config;
    char        why[TS_MODEL_WHY], file[8 + sizeof header + 8] = { sizeof header - 1 };
    ts_decoder *m;
    char       *config = read_bytes(checkpoint("qwen3", "config.json"), &n_config);
    memcpy(file + 8, header, sizeof header - 1);
    assert_false(
        ts_decoder_safetensors(config, n_config, file, 8 + sizeof header - 1 + 8, TS_F32, &m, why));
    one_line(why, "overlaps");
    free(config);
}

/* A sound llama2.c file of the smallest kind, and what can be wrong with it. */
TEST(bad_llama2c)
{
    static const int32_t sound[7] = { 4, 6, 1, 2, 1, 5, 3 };
    static const struct {
        int     at;
        int32_t value;
    } bad[] = { { 0, 0 }, { 0, -4 },        { 0, 5 },         { 0, INT32_MAX }, { 1, 7 },
                { 2, 2 }, { 2, INT32_MAX }, { 3, 0 },         { 3, 4 },         { 4, 3 },
                { 4, 0 }, { 5, 0 },         { 5, INT32_MIN }, { 5, -5 },        { 6, -1 } };
    /* embedding, norms, q o, k v, the three of the feed-forward, and the two tables */
    enum { COUNT = 5 * 4 + 3 * 4 + 2 * 4 * 4 + 2 * 2 * 4 + 3 * 6 * 4 + 3 * 2 };
    static struct {
        int32_t header[7];
        float   weight[COUNT];
    } file;
    char        why[TS_MODEL_WHY];
    ts_decoder *m;
    memcpy(file.header, sound, sizeof sound);
    assert_true(ts_decoder_llama2c(&file, sizeof file, TS_F64, &m, why));
    assert_true(ts_decoder_dims_of(m)->tied);
    ts_decoder_free(&m);
    for (size_t n = 0; n < sizeof file; n += 3) {
        assert_false(ts_decoder_llama2c(&file, n, TS_F32, &m, why));
        one_line(why, "expected");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file.header[bad[i].at] = bad[i].value;
        assert_false(ts_decoder_llama2c(&file, sizeof file, TS_F32, &m, why));
        one_line(why, "expected");
        file.header[bad[i].at] = sound[bad[i].at];
    }
}

TEST(absent_files)
{
    char        why[TS_MODEL_WHY];
    ts_decoder *m;
    assert_false(ts_decoder_load("no/such/file", TS_F32, &m, why));
    one_line(why, "no/such/file: cannot open: No such file or directory");
    assert_false(ts_decoder_load(checkpoint("", ""), TS_F32, &m, why));
    one_line(why, "config.json");
    assert_false(ts_decoder_load("/dev/null", TS_F32, &m, why));
    one_line(why, "/dev/null");
}
