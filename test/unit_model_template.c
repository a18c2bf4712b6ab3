/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_template.c - chat templates: the text that jinja2 makes of each case of a golden file
 * (make_template.py), or a failure where jinja2 fails; bounds; one line for what is unknown.
 *
 * With a file of cases as its argument, those alone are run. */
#define _POSIX_C_SOURCE 200809L
#include "template.h"
#include "unit_model.h"

static const char *cases_file;

static bool render(const char *template, size_t n, const json_t *variables, time_t now,
                   ts_text *out, char why[TS_MODEL_WHY])
{
    ts_template *t;
    *out = (ts_text) { 0 };
    if (!ts_template_parse(template, n, &t, why)) return false;
    const bool ok = ts_template_run(t, variables, now, out, why);
    ts_template_free(&t);
    return ok;
}

/* The case's value, or the one of the file's list that it has the place of. */
static const json_t *value_of(const json_t *all, const json_t *c, const char *key)
{
    const json_t *v = json_object_get(c, key);
    if (json_is_integer(v))
        v = json_array_get(json_object_get(all, key), (size_t)json_integer_value(v));
    assert_non_null(v);
    return v;
}

/* True if the case is as jinja2 has it. */
static bool check(const json_t *all, const json_t *c, time_t now)
{
    const json_t *template = value_of(all, c, "template"), *want = json_object_get(c, "text");
    const json_t *fails = json_object_get(c, "fails"), *name = json_object_get(c, "name");
    const char   *what = json_string_value(name ? name : template);
    char          why[TS_MODEL_WHY] = "";
    ts_text       out;
    const bool    ran = render(json_string_value(template), json_string_length(template),
                               value_of(all, c, "variables"), now, &out, why);
    bool          ok = ran == !fails;
    if (ran && !fails)
        ok = out.n == json_string_length(want) &&
             (!out.n || !memcmp(out.p, json_string_value(want), out.n));
    if (!ok && ran && fails)
        print_message("%.300s\n  got a text, jinja2 fails: %s\n", what, json_string_value(fails));
    else if (!ok && !ran) print_message("%.300s\n  failed: %s\n", what, why);
    else if (!ok) { /* from where they differ */
        const char *got = out.p ? out.p : "", *golden = json_string_value(want);
        while (*got && *got == *golden) got++, golden++;
        print_message("%.300s\n  got  '%.80s'\n  want '%.80s'\n", what, got, golden);
    }
    free(out.p);
    return ok;
}

TEST(equal_to_jinja)
{
    char          path[4096];
    const json_t *c;
    size_t        i;
    int           bad = 0, n_fails = 0;
    snprintf(path, sizeof path, "%s/test/template/golden.json", TS_TEST_SOURCE);
    json_t       *all = read_json(cases_file ? cases_file : path);
    const json_t *cases = json_object_get(all, "cases");
    const time_t  now = (time_t)json_integer_value(json_object_get(all, "now"));
    assert_true(json_array_size(cases) > 0);
    json_array_foreach(cases, i, c)
    {
        bad += !check(all, c, now);
        n_fails += json_object_get(c, "fails") != NULL;
    }
    print_message("%d of %d cases equal to jinja2, %d of them failures\n",
                  (int)json_array_size(cases) - bad, (int)json_array_size(cases), n_fails);
    json_decref(all);
    assert_int_equal(bad, 0);
}

/* ---- what is rejected, with a line that names it ---- */

TEST(refuses_by_name)
{
    static const struct {
        const char *template, *word;
    } bad[] = {
        { "{% include 'x' %}", "include" },
        { "{% extends 'x' %}", "extends" },
        { "{% if false %}{{ 'a'|xmlattr }}{% endif %}", "filter xmlattr" },
        { "{% if false %}{{ 'a' is callable }}{% endif %}", "test callable" },
        { "{% if false %}{{ x.append(1) }}{% endif %}", "method append" },
        { "{% if false %}{{ lipsum(1) }}{% endif %}", "function lipsum" },
        { "a\nb\n{{ nothing.x }}", "line 3" },
        { "{{ raise_exception('only this') }}", "only this" },
        { "{% for x in y recursive %}{% endfor %}", "recursive" },
        { "{% for x in y %}", "endfor" },
        { "{{ x", "does not end" },
        { "{% set x = namespace() %}{% set x.a = x %}", "namespace" },
    };
    char    why[TS_MODEL_WHY];
    json_t *none = json_object();
    ts_text out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(render(bad[i].template, strlen(bad[i].template), none, 0, &out, why));
        if (!strstr(why, bad[i].word)) fail_msg("got '%s' for %s", why, bad[i].template);
        for (const char *c = why; *c; c++) assert_in_range(*c, ' ', '~');
        free(out.p);
    }
    json_decref(none);
}

/* A hostile template ends, with a line. */
TEST(is_bounded)
{
    static const char *const bad[] = {
        "{% for i in range(9999999) %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x + "
        "n.x %}{% endfor %}",
        "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}",
        "{% set n = namespace(x=[]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor "
        "%}",
        "{{ 'a' * 99999999999 }}",
        "{{ 9223372036854775807 + 1 }}",
    };
    char    why[TS_MODEL_WHY], deep[8192];
    json_t *none = json_object();
    ts_text out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (render(bad[i], strlen(bad[i]), none, 0, &out, why)) fail_msg("ran: %s", bad[i]);
        free(out.p);
    }
    for (size_t i = 0; i < 3; i++) {
        memset(deep, "([-"[i], sizeof deep);
        memcpy(deep, "{{ ", 3);
        assert_false(render(deep, sizeof deep, none, 0, &out, why));
        memcpy(deep + sizeof deep - 3, " }}", 3);
        assert_false(render(deep, sizeof deep, none, 0, &out, why));
        free(out.p);
    }
    json_decref(none);
}

/* Every prefix of a template, and every one with a byte changed, is parsed or refused. */
TEST(cut_and_changed)
{
    char         path[4096], why[TS_MODEL_WHY];
    size_t       n;
    ts_text      out;
    ts_template *t;
    json_t      *variables = json_pack("{s[{ssss}]}", "messages", "role", "user", "content", "x");
    snprintf(path, sizeof path, "%s/test/template/thinking.jinja", TS_TEST_SOURCE);
    char *text = read_bytes(path, &n);
    for (size_t i = 0; i < n; i++) {
        if (ts_template_parse(text, i, &t, why)) ts_template_free(&t);
        const char was = text[i];
        text[i] = "{}%'|.("[i % 7];
        render(text, n, variables, 0, &out, why);
        free(out.p);
        text[i] = was;
    }
    free(text);
    json_decref(variables);
}

int main(int argc, char **argv)
{
    setenv("TZ", "UTC", 1);
    cases_file = argc > 1 ? argv[1] : NULL;
    return unit_run();
}
