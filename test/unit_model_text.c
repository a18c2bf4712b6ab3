/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_text.c - how a text ends: stop texts in pieces, reasons of a finish, ends that the
 * caller wants, and what generation_config.json says. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "unit_model.h"

/* ---- stop texts ---- */

/* Feeds the text in pieces of n bytes. No sure byte may ever be taken back. */
static void feed(ts_text *t, const char *text, size_t n, const char *const *stop, int n_stop)
{
    const size_t whole = strlen(text);
    size_t       sure = 0;
    for (size_t at = 0; at < whole && !t->stopped; at += n) {
        assert_true(ts_text_add(t, text + at, whole - at < n ? whole - at : n, stop, n_stop));
        assert_true(t->n_sure >= sure && t->n_sure <= t->n);
        sure = t->n_sure;
    }
}

TEST(ends_before_a_stop)
{
    static const struct {
        const char *text, *stop[2], *want;
    } cases[] = {
        { "one two three", { "two", "zzz" }, "one " },
        { "one two three", { "three", "two" }, "one " }, /* the first in the text */
        { "aaab", { "aab", "zz" }, "a" },                /* it begins inside a false start */
        { "abcabd", { "abd", "abx" }, "abc" },
        { "stop", { "stop", "top" }, "" },
        { "abc", { "c", "bc" }, "a" },
        { "ab\n\nUser: x", { "\n\nUser:", "\n\n\n" }, "ab" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t n = 1; n < 14; n++) {
            ts_text t = { 0 };
            feed(&t, cases[i].text, n, cases[i].stop, 2);
            assert_true(t.stopped);
            assert_string_equal(t.p, cases[i].want);
            assert_int_equal(t.n_sure, t.n);
            free(t.p);
        }
}

TEST(holds_back_what_may_stop)
{
    static const char *const stop[] = { "<end>" };
    ts_text                  t = { 0 };
    assert_true(ts_text_add(&t, "a <e", 4, stop, 1));
    assert_int_equal(t.n_sure, 2);
    assert_true(ts_text_add(&t, "nd", 2, stop, 1));
    assert_int_equal(t.n_sure, 2);
    assert_true(ts_text_add(&t, "?", 1, stop, 1)); /* it was none */
    assert_int_equal(t.n_sure, 7);
    assert_string_equal(t.p, "a <end?");
    assert_false(t.stopped);
    assert_true(ts_text_add(&t, "\0<end> b", 8, stop, 1)); /* a NUL is a byte like any other */
    assert_true(t.stopped);
    assert_int_equal(t.n, 8);
    free(t.p);
}

/* ---- reasons ---- */

typedef struct watch {
    ts_engine *e;
    int64_t    n[3], end_after; /* tokens of each request; -1: never */
    ts_finish  finish[3];
    int        n_ended;
} watch;

static void see(void *user, const ts_event *e)
{
    watch *w = user;
    assert_int_equal(e->status, TS_OK);
    if (e->token < 0) {
        w->finish[e->request] = e->finish;
        w->n_ended++;
    } else if (++w->n[e->request] == w->end_after) ts_engine_end(w->e, e->request);
}

static watch run_three(const ts_decoder *m, int64_t end_after, bool dismiss)
{
    static const int32_t    prompt[3] = { 1, 2, 3 };
    const ts_engine_options o = { .n_seq = 2, .capacity = 20, .chunk = 8, .store = TS_F32 };
    char                    why[TS_MODEL_WHY];
    watch                   w = { .end_after = end_after };
    assert_true(ts_engine_create(m, &o, &w.e, why));
    for (int i = 0; i < 3; i++) {
        const ts_request r = {
            .prompt = prompt, .n_prompt = 3, .n_new = i == 1 ? 40 : 9, .sampling = greedy
        };
        assert_true(ts_engine_add(w.e, &r, why));
    }
    if (dismiss) {
        assert_true(ts_engine_step(w.e, see, &w));
        ts_engine_end(w.e, 0); /* runs */
        ts_engine_end(w.e, 2); /* waits */
        ts_engine_end(w.e, 7); /* is none */
    }
    while (ts_engine_step(w.e, see, &w)) continue;
    assert_int_equal(w.n_ended, 3);
    ts_engine_free(&w.e);
    return w;
}

TEST(tells_why_it_ended)
{
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    watch       w = run_three(m, -1, false);
    assert_int_equal(w.finish[0], TS_FINISH_LENGTH);
    assert_int_equal(w.n[0], 9);
    assert_int_equal(w.finish[1], TS_FINISH_CONTEXT);
    assert_int_equal(w.n[1], 17);
    w = run_three(m, 4, false);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w.finish[i], TS_FINISH_STOP);
        assert_int_equal(w.n[i], 4);
    }
    w = run_three(m, -1, true);
    assert_int_equal(w.finish[0], TS_FINISH_STOP);
    assert_int_equal(w.n[0], 1);
    assert_int_equal(w.finish[1], TS_FINISH_CONTEXT);
    assert_int_equal(w.finish[2], TS_FINISH_STOP);
    assert_int_equal(w.n[2], 0);
    ts_decoder_free(&m);
}

/* ---- generation_config.json ---- */

static bool configured(const char *json, ts_generation *g, char why[TS_MODEL_WHY])
{
    char folder[] = "/tmp/unit_model_text.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    FILE *f = json ? fopen(path, "w") : NULL;
    if (f) {
        fputs(json, f);
        fclose(f);
    }
    const bool ok = ts_generation_load(folder, 320, g, why);
    if (json) remove(path);
    rmdir(folder);
    return ok;
}

TEST(reads_generation_config)
{
    static const struct {
        const char *json, *word;
    } bad[] = {
        { "{", "line 1" },
        { "[]", "object" },
        { "{\"temperature\": \"hot\"}", "temperature" },
        { "{\"temperature\": -1}", "temperature" },
        { "{\"top_p\": 1.5}", "top_p" },
        { "{\"top_k\": -3}", "top_k" },
        { "{\"eos_token_id\": 320}", "eos_token_id" },
        { "{\"eos_token_id\": [1, \"x\"]}", "eos_token_id" },
        { "{\"eos_token_id\": [1,2,3,4,5,6,7,8,9]}", "at most 8" },
    };
    ts_generation g;
    char          why[TS_MODEL_WHY];
    assert_true(configured(NULL, &g, why));
    assert_false(g.found);
    assert_true(configured("{\"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.9,"
                           " \"eos_token_id\": [7, 9]}",
                           &g, why));
    assert_true(g.found && g.sampling.temperature == 0.6 && g.sampling.top_p == 0.9);
    assert_int_equal(g.sampling.top_k, 50);
    assert_int_equal(g.n_stop, 2);
    assert_int_equal(g.stop[1], 9);
    /* Without do_sample transformers takes the most probable token. */
    assert_true(
        configured("{\"temperature\": 0.6, \"top_k\": null, \"eos_token_id\": 7}", &g, why));
    assert_true(g.sampling.temperature == 0 && g.sampling.top_p == 1 && !g.sampling.top_k);
    assert_int_equal(g.n_stop, 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(configured(bad[i].json, &g, why));
        if (!strstr(why, bad[i].word)) fail_msg("got '%s' for %s", why, bad[i].json);
    }
    assert_true(ts_generation_load(checkpoint("gguf", "llama.gguf"), 320, &g, why));
    assert_false(g.found);
}
