/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_chat.c - conversations: a session draws what the engine draws, whatever its cache has;
 * templates of folders and GGUF files are found. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "unit_model.h"

/* ---- sessions ---- */

static int32_t by_engine(const ts_decoder *m, const int32_t *token, int64_t n)
{
    const ts_engine_options o = { .n_seq = 1, .capacity = 61, .chunk = 60, .store = TS_F64 };
    const ts_request        q = { .prompt = token, .n_prompt = n, .n_new = 1, .sampling = greedy };
    results                 r;
    run(m, &o, &q, 1, &r, NULL);
    assert_int_equal(r.n[0], 1);
    return r.token[0][0];
}

/* Longer, shorter, changed in the middle, the same again. */
TEST(draws_as_the_engine)
{
    static const char *const names[] = { "qwen3", "llama", "qwen2", "mistral", "starcoder2" };
    static const int64_t     plan[][3] = { /* tokens, the first changed one, tokens to run */
                                       { 9, 99, 9 },   { 10, 99, 1 }, { 40, 99, 30 },
                                       { 40, 99, 1 },  { 20, 99, 1 }, { 30, 12, 18 },
                                       { 60, 99, 30 }, { 5, 0, 5 },   { 6, 5, 1 }
    };
    char why[TS_MODEL_WHY];
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const ts_engine_options o = { .n_seq = 1, .capacity = 60, .chunk = 7, .store = TS_F64 };
        ts_decoder             *m = load(checkpoint(names[k], ""), TS_F64);
        const bool              window = ts_decoder_dims_of(m)->window;
        int32_t                 token[64], next;
        int64_t                 n_run;
        ts_session             *s;
        assert_true(ts_session_create(m, &o, &s, why));
        for (int i = 0; i < 64; i++) token[i] = (13 * i * i + i + 3) % 64;
        for (size_t i = 0; i < sizeof plan / sizeof *plan; i++) {
            const int64_t n = plan[i][0];
            for (int64_t j = plan[i][1]; j < 64; j++) token[j] = (token[j] + 1) % 64;
            assert_int_equal(ts_session_next(s, token, n, &greedy, 0, &next, &n_run), TS_OK);
            assert_int_equal(next, by_engine(m, token, n));
            if (!window) assert_int_equal(n_run, plan[i][2]);
        }
        assert_int_equal(ts_session_next(s, token, 61, &greedy, 0, &next, &n_run), TS_E_CAPACITY);
        assert_int_equal(ts_session_next(s, token, 0, &greedy, 0, &next, &n_run), TS_E_ARG);
        assert_int_equal(ts_session_next(s, token, 6, &greedy, 0, &next, &n_run), TS_OK);
        assert_int_equal(next, by_engine(m, token, 6));
        ts_session_free(&s);
        ts_decoder_free(&m);
    }
}

/* ---- templates ---- */

static char folder[] = "/tmp/unit_model_chat.XXXXXX";

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = text ? fopen(path, "w") : NULL;
    if (!text) remove(path);
    else {
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
    }
}

static const ts_message messages[] = { { "system", "Be brief." }, { "user", "H\xc3\xa9llo" } };

static void renders(const char *want)
{
    char     why[TS_MODEL_WHY];
    ts_chat *c;
    ts_text  out = { 0 };
    if (!ts_chat_load(folder, &c, why)) fail_msg("%s", why);
    if (!ts_chat_render(c, messages, 2, true, &out, why)) fail_msg("%s", why);
    assert_string_equal(out.p, want);
    free(out.p);
    ts_chat_free(&c);
}

static void refused(const char *word)
{
    char     why[TS_MODEL_WHY];
    ts_chat *c;
    assert_false(ts_chat_load(folder, &c, why));
    assert_null(c);
    if (!strstr(why, word)) fail_msg("got '%s', expected something about '%s'", why, word);
}

TEST(finds_templates)
{
    assert_non_null(mkdtemp(folder));
    refused("the model has none");
    put("tokenizer_config.json",
        "{\"chat_template\": \"{{ bos_token }}{% for m in messages %}[{{ "
        "m.role }}]{{ m.content }}{% endfor %}\","
        " \"bos_token\": {\"content\": \"<s>\"}, \"eos_token\": \"</s>\"}");
    renders("<s>[system]Be brief.[user]H\xc3\xa9llo");
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"x\"}, {\"name\": \"default\","
        " \"template\": \"{{ messages|length }}{{ eos_token }}\"}], \"eos_token\": \"</s>\"}");
    renders("2</s>");
    put("chat_template.jinja", "{% if add_generation_prompt %}go{% endif %}{{ eos_token }}\n");
    renders("go</s>"); /* the file wins */
    put("chat_template.jinja", "{% include 'x' %}");
    refused("include");
    put("chat_template.jinja", NULL);
    put("tokenizer_config.json", "{");
    refused("line 1");
    put("tokenizer_config.json", "{\"chat_template\": 7}");
    refused("the model has none");
    put("tokenizer_config.json", NULL);
    rmdir(folder);
}

TEST(messages_are_checked)
{
    static const char source[] = "{{ messages[0].content }}";
    const ts_message  bad = { "user", "a\xff" };
    char              why[TS_MODEL_WHY];
    ts_chat          *c;
    ts_text           out = { 0 };
    assert_true(ts_chat_parse(source, sizeof source - 1, &c, why));
    assert_false(ts_chat_render(c, &bad, 1, true, &out, why));
    assert_non_null(strstr(why, "UTF-8"));
    free(out.p);
    ts_chat_free(&c);
    assert_false(ts_chat_load(checkpoint("gguf", "llama.gguf"), &c, why));
    assert_non_null(strstr(why, "tokenizer.chat_template: missing"));
}
