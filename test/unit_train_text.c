/* SPDX-License-Identifier: Apache-2.0 */
/* unit_train_text.c - tests documents of a text and their split, a vocabulary learned from it, and
 * exported models.
 *
 * model/ reads the vocabulary, and computes the same loss from the export; exported codes, decoded
 * here by the definition, are the effective weights. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include "dtype.h"
#include "unit_model.h"
#include "unit_train.h"

/* ---- texts ---- */

static ts_corpus *corpus_of(const char *text, uint64_t seed)
{
    char       why[TS_MODEL_WHY] = "";
    ts_corpus *c = NULL;
    if (!ts_corpus_parse(text, strlen(text), seed, &c, why)) fail_msg("%s", why);
    return c;
}

/* Sentences by chance from a few words, some of them not ASCII. */
static char *prose(int n_document, uint64_t seed)
{
    static const char *const word[] = { "the",          "river", "ran",    "past",         "old",
                                        "caf\xc3\xa9",  "and",   "winter", "12",           "it's",
                                        "na\xc3\xafve", "stone", "under",  "\xe6\xb0\xb4", "light",
                                        "never",        "quite", "came" };
    char                    *text = calloc((size_t)n_document, 500);
    int64_t                  i = 0;
    assert_non_null(text);
    char *at = text;
    for (int d = 0; d < n_document; d++) {
        for (int w = 0; w < 30; w++)
            at += sprintf(at, "%s%s", w ? " " : "",
                          word[ts_bits(seed, i++) % (sizeof word / sizeof *word)]);
        at += sprintf(at, ".\n\n");
    }
    return text;
}

TEST(documents)
{
    ts_corpus      *c = corpus_of("\n \none\nmore \n\ntwo\n\t\n\none\nmore\r\n\r\nthree four", 1);
    ts_corpus_facts f = ts_corpus_facts_of(c);
    assert_int_equal(f.n_document, 3);
    assert_int_equal(f.n_repeated, 1);
    assert_int_equal(f.bytes, strlen("one\nmore") + strlen("two") + strlen("three four"));
    assert_int_equal(f.n_held_out, 1);
    ts_corpus_free(&c);
}

TEST(bad_texts)
{
    char       why[TS_MODEL_WHY] = "";
    ts_corpus *c;
    assert_false(ts_corpus_parse("one document", 12, 1, &c, why));
    assert_non_null(strstr(why, "got 1 documents"));
    assert_false(ts_corpus_parse("", 0, 1, &c, why));
    assert_non_null(strstr(why, "got 0 documents"));
    assert_false(ts_corpus_parse("a\n\nb\xff", 5, 1, &c, why));
    assert_non_null(strstr(why, "UTF-8 at byte 4"));
    assert_false(ts_corpus_load("/nowhere", 1, &c, why));
    assert_null(c);
    c = corpus_of("a b\n\nc d\n\ne f", 1);
    char  *json;
    size_t n;
    assert_false(ts_corpus_vocabulary(c, 256, &json, &n, why));
    assert_non_null(strstr(why, "vocabulary: got 256"));
    ts_corpus_free(&c);
}

/* What is held out depends on the seed and on nothing else, and overlap is seen where there is
 * some: a document of both halves' words, whichever half it comes into. */
TEST(splits)
{
    char           *text = prose(200, 4);
    ts_corpus      *c = corpus_of(text, 1), *same = corpus_of(text, 1), *other = corpus_of(text, 2);
    ts_corpus_facts f = ts_corpus_facts_of(c), g = ts_corpus_facts_of(same),
                    h = ts_corpus_facts_of(other);
    print_message("held out %lld of %lld documents, %.1f %% of the bytes; overlap %.4f\n",
                  (long long)f.n_held_out, (long long)f.n_document,
                  100.0 * (double)f.held_out_bytes / (double)f.bytes, f.overlap);
    assert_memory_equal(&f, &g, sizeof f);
    assert_true(f.held_out_bytes != h.held_out_bytes);
    assert_true(f.held_out_bytes * 10 >= f.bytes && f.held_out_bytes * 8 <= f.bytes);
    assert_true(f.overlap < 0.01);
    ts_corpus_free(&c);
    ts_corpus_free(&same);
    ts_corpus_free(&other);
    free(text);
    c = corpus_of("a b c d e f g h i j\n\na b c d e f g h i k\n\na b c d e f g h i l", 1);
    f = ts_corpus_facts_of(c);
    assert_true(fabs(f.overlap - 2.0 / 3) <= 1e-12);
    ts_corpus_free(&c);
}

/* ---- vocabularies ---- */

static ts_tokenizer *tokenizer_of(const ts_corpus *c, int64_t n_vocab)
{
    char          why[TS_MODEL_WHY] = "", *json;
    size_t        n;
    ts_tokenizer *t = NULL;
    if (!ts_corpus_vocabulary(c, n_vocab, &json, &n, why) || !ts_tokenizer_parse(json, n, &t, why))
        fail_msg("%s", why);
    free(json);
    return t;
}

static int64_t round_trip(const ts_tokenizer *t, const char *text, size_t n)
{
    char     why[TS_MODEL_WHY] = "";
    int32_t *token;
    int64_t  n_token;
    size_t   at = 0, len;
    if (!ts_tokenizer_encode(t, text, n, &token, &n_token, why)) fail_msg("%s", why);
    for (int64_t i = 0; i < n_token; i++) {
        const char *piece = ts_tokenizer_piece(t, i ? token[i - 1] : -1, token[i], &len);
        assert_true(at + len <= n);
        assert_memory_equal(piece, text + at, len);
        at += len;
    }
    assert_int_equal(at, n);
    free(token);
    return n_token;
}

TEST(first_merges)
{
    /* Whatever is held out, "abab" is there most: ab first, then ab ab; nothing else twice. */
    ts_corpus    *c = corpus_of("abab\n\nababx\n\nababy\n\nababz", 1);
    ts_tokenizer *t = tokenizer_of(c, 1000);
    size_t        n;
    assert_int_equal(ts_tokenizer_size(t), TS_CORPUS_END + 3);
    assert_memory_equal(ts_tokenizer_piece(t, -1, TS_CORPUS_END + 1, &n), "ab", 2);
    assert_int_equal(n, 2);
    assert_memory_equal(ts_tokenizer_piece(t, -1, TS_CORPUS_END + 2, &n), "abab", 4);
    assert_int_equal(n, 4);
    assert_int_equal(round_trip(t, "ababab", 6), 2);
    ts_tokenizer_free(&t);
    ts_corpus_free(&c);
}

TEST(vocabularies)
{
    char      *text = prose(300, 9);
    ts_corpus *c = corpus_of(text, 1);
    int64_t    before = INT64_MAX;
    const char unseen[] = "\x01 never\tseen \xf0\x9f\x8c\xb2 2024!";
    for (int64_t n_vocab = 257; n_vocab <= 317; n_vocab += 30) {
        ts_tokenizer *t = tokenizer_of(c, n_vocab);
        assert_int_equal(ts_tokenizer_size(t), n_vocab);
        const int64_t n = round_trip(t, text, strlen(text));
        round_trip(t, unseen, strlen(unseen));
        print_message("vocabulary of %lld: %zu bytes in %lld tokens\n", (long long)n_vocab,
                      strlen(text), (long long)n);
        assert_true(n < before && (n_vocab > 257 || n == (int64_t)strlen(text)));
        before = n;
        ts_tokenizer_free(&t);
    }
    ts_corpus_free(&c);
    free(text);
}

/* ---- sequences ---- */

TEST(sequences)
{
    char         *text = prose(60, 2), why[TS_MODEL_WHY] = "";
    ts_corpus    *c = corpus_of(text, 1);
    ts_tokenizer *t = tokenizer_of(c, 300);
    enum { T = 32 };
    int32_t input[T], target[T], again[T];
    if (!ts_corpus_encode(c, t, T, why)) fail_msg("%s", why);
    const ts_corpus_facts facts = ts_corpus_facts_of(c);
    const ts_feed         f = ts_corpus_feed(c);
    int64_t               n_target = 0;
    for (int64_t i = 0; i < f.n_held_out; i++) {
        f.fill(f.user, true, i, input, target, T);
        for (int j = 0; j < T; j++) n_target += target[j] >= 0;
        for (int j = 0; j + 1 < T && target[j + 1] >= 0; j++)
            assert_int_equal(target[j], input[j + 1]);
    }
    assert_int_equal(n_target, facts.n_held_out_token - 1); /* each once, but for the first */
    f.fill(f.user, false, 5, input, target, T);
    f.fill(f.user, false, 5, again, target, T);
    assert_memory_equal(input, again, sizeof input);
    for (int j = 0; j + 1 < T; j++) assert_int_equal(target[j], input[j + 1]);
    f.fill(f.user, false, 6, again, target, T);
    assert_memory_not_equal(input, again, sizeof input);
    assert_false(ts_corpus_encode(c, t, facts.n_token, why));
    assert_non_null(strstr(why, "too short"));
    ts_tokenizer_free(&t);
    ts_corpus_free(&c);
    free(text);
}

/* ---- export ---- */

static double model_loss(const char *folder, const int32_t *input, const int32_t *target, int64_t n)
{
    ts_decoder   *m = load(folder, TS_F32);
    const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
    double       *z = logits_of(m, input, n, (way) { .chunk = n, .store = TS_F32 }), nll = 0;
    for (int64_t t = 0; t < n; t++) {
        double sum = 0, most = -INFINITY;
        for (int64_t v = 0; v < n_vocab; v++) most = fmax(most, z[t * n_vocab + v]);
        for (int64_t v = 0; v < n_vocab; v++) sum += exp(z[t * n_vocab + v] - most);
        nll += log(sum) + most - z[t * n_vocab + target[t]];
    }
    free(z);
    ts_decoder_free(&m);
    return nll;
}

/* A tensor of a safetensors file, by its header alone. */
static const unsigned char *tensor(const char *file, const json_t *header, const char *name,
                                   int64_t *rows, int64_t *cols)
{
    const json_t *e = json_object_get(header, name), *shape = json_object_get(e, "shape");
    uint64_t      n_header;
    if (!e) fail_msg("no tensor %s", name);
    memcpy(&n_header, file, 8);
    *rows = json_integer_value(json_array_get(shape, 0));
    *cols = json_array_size(shape) > 1 ? json_integer_value(json_array_get(shape, 1)) : 1;
    return (const unsigned char *)file + 8 + n_header +
           json_integer_value(json_array_get(json_object_get(e, "data_offsets"), 0));
}

static json_t *header_of(const char *file)
{
    uint64_t     n;
    json_error_t e;
    memcpy(&n, file, 8);
    json_t *o = json_loadb(file + 8, n, 0, &e);
    assert_non_null(o);
    return o;
}

/* Every matrix of the packed file against that of the dense one; returns how many. */
static int decoded(const char *packed, const char *dense)
{
    json_t     *p = header_of(packed), *d = header_of(dense), *entry;
    const char *name;
    int         n_matrix = 0;
    json_object_foreach(d, name, entry)
    {
        char    part[256];
        int64_t rows, cols, n_code, n_scale, r;
        if (json_array_size(json_object_get(entry, "shape")) != 2) continue;
        const unsigned char *w = tensor(dense, d, name, &rows, &cols);
        snprintf(part, sizeof part, "%s.code", name);
        const unsigned char *code = tensor(packed, p, part, &r, &n_code);
        assert_int_equal(r, rows);
        assert_int_equal(n_code, (cols + 127) / 128 * 32);
        snprintf(part, sizeof part, "%s.scale", name);
        const unsigned char *scale = tensor(packed, p, part, &r, &n_scale);
        assert_int_equal(r, rows);
        for (int64_t i = 0; i < rows * cols; i++) {
            const int64_t row = i / cols, j = i % cols;
            const int     c = code[row * n_code + j / 4] >> 2 * (j % 4) & 3;
            uint16_t      s;
            float         got;
            memcpy(&s, scale + 2 * (row * n_scale + j / 128), 2);
            memcpy(&got, w + 4 * i, 4);
            assert_in_range(c, 0, 2);
            assert_true((double)got == (c - 1) * ts_widen_f16(s));
        }
        n_matrix++;
    }
    json_decref(p);
    json_decref(d);
    return n_matrix;
}

static const char *const files[] = { "config.json", "model.safetensors", "ternary.safetensors" };

TEST(exports)
{
    for (int ternary = 0; ternary < 2; ternary++) {
        char           folder[] = "/tmp/unit-train-XXXXXX", why[TS_MODEL_WHY] = "", path[64];
        ts_net_options o = net_options(2, 144, 4, 2, 12, 200, 300);
        ts_net_score   s = { 0 };
        o.n_batch = 1;
        o.n_token = 40;
        o.ternary = ternary;
        ts_net      *n = net_of(&o, 3);
        ts_net_batch b = batch_of(&o);
        float       *w = ts_net_weights(n);
        for (int64_t i = ts_net_matrix_count(n); i < ts_net_count(n); i++)
            w[i] = (float)(1 + 0.2 * ts_normal(1, i)); /* norms that differ */
        batch_fill(&o, &b, 300, 1);
        b.target[39] = 7;
        assert_non_null(mkdtemp(folder));
        if (!ts_net_export(n, folder, 5, why)) fail_msg("%s", why);
        assert_int_equal(ts_net_eval(n, &b, &s), TS_OK);
        const double theirs = model_loss(folder, b.input, b.target, 40);
        print_message("%s: loss of the net %.6f, of what model/ read %.6f\n",
                      ternary ? "ternary" : "float", s.nll / 40, theirs / 40);
        assert_true(fabs(theirs / s.nll - 1) <= 1e-6);
        if (ternary) {
            size_t size;
            snprintf(path, sizeof path, "%s/%s", folder, files[1]);
            char *dense = read_bytes(path, &size);
            snprintf(path, sizeof path, "%s/%s", folder, files[2]);
            char *packed = read_bytes(path, &size);
            assert_int_equal(decoded(packed, dense), 1 + 7 * 2);
            free(dense);
            free(packed);
        }
        for (int i = 0; i < 3; i++) {
            snprintf(path, sizeof path, "%s/%s", folder, files[i]);
            assert_int_equal(unlink(path), i == 2 && !ternary ? -1 : 0);
        }
        assert_int_equal(rmdir(folder), 0);
        batch_free(&b);
        ts_net_free(&n);
    }
}

/* ---- what transformers wrote ---- */

static const char *const matrix_names[] = { "self_attn.q_proj", "self_attn.k_proj",
                                            "self_attn.v_proj", "self_attn.o_proj",
                                            "mlp.gate_proj",    "mlp.up_proj",
                                            "mlp.down_proj" };
static const char *const norm_names[] = { "input_layernorm", "self_attn.q_norm", "self_attn.k_norm",
                                          "post_attention_layernorm" };

/* The next weights of the net from a tensor of the file. */
static float *copied(float *w, const char *file, const json_t *header, const char *name)
{
    int64_t              rows, cols;
    const unsigned char *p = tensor(file, header, name, &rows, &cols);
    memcpy(w, p, (size_t)(rows * cols) * sizeof *w);
    return w + rows * cols;
}

static void read_weights(ts_net *n, const char *file, const json_t *header)
{
    float *const from = ts_net_weights(n);
    char         name[128];
    float       *w = copied(from, file, header, "model.embed_tokens.weight");
    for (int norms = 0; norms < 2; norms++)
        for (int l = 0; l < 2; l++)
            for (int i = 0; i < (norms ? 4 : 7); i++) {
                snprintf(name, sizeof name, "model.layers.%d.%s.weight", l,
                         norms ? norm_names[i] : matrix_names[i]);
                w = copied(w, file, header, name);
            }
    assert_int_equal(copied(w, file, header, "model.norm.weight") - from, ts_net_count(n));
}

/* Tensor by tensor, under the same names. */
static void same_tensors(const char *a, const char *b)
{
    json_t     *x = header_of(a), *y = header_of(b), *entry;
    const char *name;
    assert_int_equal(json_object_size(x), json_object_size(y));
    json_object_foreach(x, name, entry)
    {
        int64_t r[2], c[2];
        if (!strcmp(name, "__metadata__")) continue;
        assert_true(json_equal(json_object_get(entry, "shape"),
                               json_object_get(json_object_get(y, name), "shape")));
        assert_string_equal(json_string_value(json_object_get(entry, "dtype")), "F32");
        const unsigned char *p = tensor(a, x, name, &r[0], &c[0]);
        assert_memory_equal(p, tensor(b, y, name, &r[1], &c[1]), (size_t)(r[0] * c[0]) * 4);
    }
    json_decref(x);
    json_decref(y);
}

/* With the weights that transformers wrote the net has its losses, and writes its file again. */
TEST(as_transformers_has_it)
{
    char           folder[] = "/tmp/unit-train-XXXXXX", why[TS_MODEL_WHY] = "", path[64];
    json_t        *golden = read_json(checkpoint("qwen3", "golden.json"));
    size_t         n_file, n_rows = json_array_size(json_object_get(golden, "rows"));
    char          *file = read_bytes(checkpoint("qwen3", "model.safetensors"), &n_file);
    json_t        *header = header_of(file);
    int64_t        n_token;
    int32_t       *token = integers(json_object_get(golden, "tokens"), &n_token);
    ts_net_options o = net_options(2, 24, 4, 2, 8, 40, 320);
    double         off = 0;
    o.n_batch = 1;
    o.n_token = n_token;
    ts_net      *n = net_of(&o, 1);
    ts_net_batch b = batch_of(&o);
    read_weights(n, file, header);
    memcpy(b.input, token, (size_t)n_token * sizeof *token);
    for (size_t r = 0; r < n_rows; r++) {
        const json_t *z = json_array_get(json_object_get(golden, "f64"), r);
        const int64_t at = json_integer_value(json_array_get(json_object_get(golden, "rows"), r));
        const int32_t target = (int32_t)(37 * r % 320);
        ts_net_score  s = { 0 };
        double        sum = 0;
        for (size_t v = 0; v < 320; v++) sum += exp(json_number_value(json_array_get(z, v)));
        for (int64_t t = 0; t < n_token; t++) b.target[t] = t == at ? target : -1;
        assert_int_equal(ts_net_eval(n, &b, &s), TS_OK);
        off = farther(off, s.nll, log(sum) - json_number_value(json_array_get(z, (size_t)target)));
    }
    print_message("transformers' weights, %zu rows: nll off by %.1e at most\n", n_rows, off);
    assert_true(n_rows > 0 && off <= 2e-5);
    assert_non_null(mkdtemp(folder));
    if (!ts_net_export(n, folder, 1, why)) fail_msg("%s", why);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    char *ours = read_bytes(path, &n_file);
    same_tensors(file, ours);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    free(ours);
    free(file);
    free(token);
    json_decref(header);
    json_decref(golden);
    batch_free(&b);
    ts_net_free(&n);
}
