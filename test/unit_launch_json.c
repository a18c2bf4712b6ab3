/* SPDX-License-Identifier: Apache-2.0 */
/* unit_launch_json.c - launch plans from entry.json to what is launched. */
#include "json.h"
#include "reader.h"
#include "unit_launch.h"

static bool from_json(const char *json, char text[TS_LAUNCH_BYTES + 1], ts_refusal *why)
{
    char       what[256];
    ts_jr_doc *doc = ts_jr_parse(json, strlen(json), what, sizeof what);
    if (!doc) fail_msg("%s: %s", json, what);
    const bool ok = ts_launch_from_json(ts_jr_root(doc), text, TS_LAUNCH_BYTES + 1, why);
    ts_jr_free(doc);
    return ok;
}

static ts_launch *plan_of(const char *json, const char *want)
{
    char       text[TS_LAUNCH_BYTES + 1], said[256];
    ts_refusal why;
    if (!from_json(json, text, &why)) fail_msg("%s", why.text);
    assert_string_equal(text, want);
    ts_launch *l = ts_launch_read(text, strlen(text), said, sizeof said);
    if (!l) fail_msg("%s", said);
    if (!ts_launch_knows(l, &env, said, sizeof said)) fail_msg("%s", said);
    return l;
}

static void step_of(const ts_launch *l, int i, const ts_launch_env *e, ts_step *s)
{
    char why[256];
    if (!ts_launch_step(l, i, e, s, why, sizeof why)) fail_msg("%s", why);
}

TEST(launches_softmax)
{
    ts_launch_env e = env;
    ts_step       s;
    int64_t       n;
    float         t;
    char          why[256];
    ts_launch    *l = plan_of("{\"name\": 1, \"launch\": [ { \"kernel\": \"softmax_{dtype}\","
                                 "\"when\": \"k <= 64\", \"grid\": [\"rows\"], \"block\": [\"256\"],"
                                 "\"shared\": \"4*k*8\", \"args\": [\"ptr logits\","
                                 "\"i64 logits.stride\", \"i32 vocab\", \"f32 inv_temperature\","
                                 "\"ptr index\", \"ptr workspace\"] } ], \"workspace\": \"rows*8\"}",
                              "workspace rows*8\nkernel softmax_{dtype}\nwhen k <= 64\ngrid rows\n"
                                 "block 256\nshared 4*k*8\narg ptr logits\narg i64 logits.stride\n"
                                 "arg i32 vocab\narg f32 inv_temperature\narg ptr index\n"
                                 "arg ptr workspace\n");
    assert_int_equal(ts_launch_steps(l), 1);
    assert_true(ts_launch_workspace(l, &e, &n, why, sizeof why) && n == 56);
    step_of(l, 0, &e, &s);
    assert_true(s.applies && !s.empty);
    assert_string_equal(s.kernel, "softmax_bf16");
    assert_true(s.grid[0] == 7 && s.grid[1] == 1 && s.grid[2] == 1 && s.block[0] == 256);
    assert_int_equal(s.shared_bytes, 4 * 64 * 8);
    assert_int_equal(s.n_args, 6);
    memcpy(&t, s.arg[3], sizeof t);
    assert_true(t == 1.25F && s.arg_bytes[3] == 4);
    e.v[1].i = 65; /* k: no step is left, the call is not supported */
    step_of(l, 0, &e, &s);
    assert_false(s.applies);
    ts_launch_free(l);
}

/* Rows at once, each block with sums of its own, and then the columns of those. */
TEST(launches_two_steps)
{
    ts_launch_env e = env;
    ts_step       s;
    int64_t       n;
    uint64_t      p;
    char          why[256];
    ts_launch    *l = plan_of(
           "{\"workspace\": \"2 * align(min(ceil_div(rows, 4), 132) * vocab * 4, 256)\","
              " \"launch\": ["
              "{\"kernel\": \"ln_bwd_rows_{dtype}\", \"grid\": [\"min(ceil_div(rows, 4), 132)\"],"
              " \"block\": [\"32\", \"4\"], \"args\": [\"ptr logits\", \"ptr workspace\","
              " \"ptr index + align(min(ceil_div(rows, 4), 132) * vocab * 4, 256)\", \"u32 rows\"]},"
              "{\"kernel\": \"ln_bwd_sum\", \"grid\": [\"ceil_div(vocab, 256)\", \"2\"],"
              " \"block\": [\"256\"], \"args\": []}]}",
           "workspace 2 * align(min(ceil_div(rows, 4), 132) * vocab * 4, 256)\n"
              "kernel ln_bwd_rows_{dtype}\ngrid min(ceil_div(rows, 4), 132)\nblock 32,4\n"
              "arg ptr logits\narg ptr workspace\n"
              "arg ptr index + align(min(ceil_div(rows, 4), 132) * vocab * 4, 256)\narg u32 rows\n"
              "kernel ln_bwd_sum\ngrid ceil_div(vocab, 256),2\nblock 256\n");
    assert_int_equal(ts_launch_steps(l), 2);
    assert_true(ts_launch_workspace(l, &e, &n, why, sizeof why) && n == 2 * 1026048);
    step_of(l, 0, &e, &s);
    assert_string_equal(s.kernel, "ln_bwd_rows_bf16");
    assert_true(s.applies && s.grid[0] == 2 && s.block[0] == 32 && s.block[1] == 4);
    memcpy(&p, s.arg[2], sizeof p);
    assert_true(p == 0x7f0000002000 + 1026048);
    step_of(l, 1, &e, &s);
    assert_string_equal(s.kernel, "ln_bwd_sum");
    assert_true(s.applies && s.grid[0] == 501 && s.grid[1] == 2 && s.shared_bytes == 0);
    e.v[0].i = 0; /* no rows: the first launches nothing, the second still writes its sums */
    step_of(l, 0, &e, &s);
    assert_true(s.applies && s.empty);
    step_of(l, 1, &e, &s);
    assert_true(s.applies && !s.empty);
    ts_launch_free(l);
}

#define F(rest) "{\"launch\": [{\"kernel\": \"f\", " rest "}]}"
#define GB      "\"grid\": [\"1\"], \"block\": [\"1\"]"

TEST(refuses_bad_entrants)
{
    static const said bad[] = {
        { "{}", "launch: expected a list of 1 to 16 steps" },
        { "[]", "launch: expected a list of 1 to 16 steps" },
        { "{\"launch\": {}}", "expected a list of 1 to 16 steps" },
        { "{\"launch\": []}", "expected a list of 1 to 16 steps" },
        { "{\"launch\": [1]}", "launch: step 1, value: expected an object" },
        { "{\"launch\": [{}]}", "launch: step 1, kernel: expected a string" },
        { "{\"launch\": [{\"kernel\": 1, " GB "}]}", "step 1, kernel: expected a string" },
        { "{\"workspace\": 8, \"launch\": [{}]}", "launch: workspace: expected a string" },
        { F(GB ", \"stream\": \"1\""), "launch: step 1, unknown key 'stream'" },
        { F(GB ", \"\\u202ex\": \"1\""), "step 1, unknown key '\\u202ex'" },
        { F("\"grid\": [\"1\"]"), "step 1, block: expected a list of 1 to 3 strings" },
        { F("\"grid\": \"1\", \"block\": [\"1\"]"), "step 1, grid: expected a list of 1 to 3" },
        { F("\"grid\": [], \"block\": [\"1\"]"), "step 1, grid: expected a list of 1 to 3" },
        { F("\"grid\": [\"1\",\"1\",\"1\",\"1\"], \"block\": [\"1\"]"), "step 1, grid: expected" },
        { F("\"grid\": [1], \"block\": [\"1\"]"), "step 1, grid: expected a string" },
        { F("\"grid\": [\"1,1\"], \"block\": [\"1\"]"), "step 1, grid: expected one expression" },
        { F("\"grid\": [\"min(1\", \"2)\"], \"block\": [\"1\"]"), "grid: expected one expression" },
        { F("\"grid\": [\"1)(\"], \"block\": [\"1\"]"),
          "grid: expected one expression per string" },
        { F("\"grid\": [\"\"], \"block\": [\"1\"]"), "step 1, grid 1, column 1: the text ends" },
        { F(GB ", \"when\": true"), "step 1, when: expected a string" },
        { F(GB ", \"when\": null"), "step 1, when: expected a string" },
        { F(GB ", \"shared\": 64"), "step 1, shared: expected a string" },
        { F(GB ", \"args\": \"ptr x\""), "step 1, args: expected a list of strings" },
        { F(GB ", \"args\": [1]"), "step 1, args: expected a string" },
        { F(GB ", \"args\": [\"i32 1\\narg i32 2\"]"), "args: contains a character that is not" },
        { F(GB ", \"when\": \"1\\u007f\""), "when: contains a character that is not printable" },
        { F(GB ", \"when\": \"r\\u00f6ws\""), "when: contains a character that is not printable" },
        { F(GB ", \"when\": \"1\\u202e\""), "when: contains a character that is not printable" },
        { "{\"launch\": [{\"kernel\": \"f\\nwhen 0\", " GB "}]}",
          "step 1, kernel: contains a char" },
        { "{\"launch\": [{\"kernel\": \"f g\", " GB "}]}", "step 1, kernel: expected 1 to 127" },
        { F(GB ", \"args\": [\"i32 1\", \"i32 (1\"]"), "step 1, arg 2, column 7: the text ends" },
    };
    char       text[TS_LAUNCH_BYTES + 1], large[9000];
    ts_refusal why;
    for (size_t i = 0; i < LENGTH(bad); i++) {
        if (from_json(bad[i].text, text, &why)) fail_msg("%s was taken", bad[i].text);
        assert_string_equal(why.reason, "launch");
        if (!strstr(why.text, bad[i].why) || strncmp(why.text, "entry.json: launch: ", 20))
            fail_msg("%s: said '%s', expected '%s'", bad[i].text, why.text, bad[i].why);
    }
    snprintf(large, sizeof large, F("\"when\": \"%*d\", " GB), 8200, 1);
    assert_false(from_json(large, text, &why));
    assert_string_equal(why.text, "entry.json: launch: more than 8192 bytes");
}

TEST(keeps_to_its_room)
{
    static const char json[] = F(GB), want[] = "kernel f\ngrid 1\nblock 1\n";
    char              what[128];
    ts_jr_doc        *doc = ts_jr_parse(json, strlen(json), what, sizeof what);
    for (size_t n = 0; n <= sizeof want; n++) {
        char      *text = malloc(n + 1); /* one more, so that 0 is not NULL */
        ts_refusal why;
        assert_non_null(text);
        memset(text, 'x', n + 1);
        assert_int_equal(ts_launch_from_json(ts_jr_root(doc), text, n, &why), n == sizeof want);
        assert_int_equal(text[n], 'x');
        free(text);
    }
    ts_jr_free(doc);
}
