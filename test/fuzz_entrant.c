/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_entrant.c - fuzzes the readers of an entrant's text.
 *
 * The first byte selects one: JSON, entry.json, or source text; a single file is also read as an
 * entrant of its own, and as Markdown. */
#define _GNU_SOURCE
#include "fuzz_folder.h"
#include "json.h"
#include "smuggled.h"
#include "source.h"

/* Of long arrays the beginning: to reach an item, those before it are stepped over. */
static size_t count(const ts_jr_node *v)
{
    const char *s = ts_jr_str(v);
    size_t      n = 1 + (s ? strlen(s) : 0);
    for (size_t i = 0; i < ts_jr_len(v) && i < 64; i++) n += count(ts_jr_at(v, i));
    return n;
}

static void fuzz_json(const char *text, size_t n)
{
    char       why[200] = "", *copy = calloc(1, n + 1);
    ts_jw      w = { 0 };
    ts_jr_doc *doc = ts_jr_parse(text, n, why, sizeof why);
    if (doc) must(count(ts_jr_root(doc)) <= 2 * n + 1);
    else must_be_plain(why);
    ts_jr_free(doc);
    /* What was escaped is JSON again, whatever it was. */
    if (!copy) return;
    memcpy(copy, text, n);
    ts_jw_text(&w, NULL, copy);
    must_be_plain(w.text);
    doc = ts_jr_parse(w.text, w.n, why, sizeof why);
    must(doc != NULL);
    ts_jr_free(doc);
    ts_jw_free(&w);
    free(copy);
}

static void fuzz_entrant(const char *text, size_t n)
{
    lay_out();
    put("entry.json", text, n);
    enter("", ask_here, NULL);
}

static void fuzz_source(const char *text, size_t n)
{
    char       *out = malloc(n + 1), name[65], cause[80];
    bool        quoted;
    const char *p = out;
    if (!out) return;
    for (int python = 0; python < 2; python++) {
        ts_scrub(text, n, python, out);
        must(strlen(out) <= n);
        ts_calls(out, "ts_softmax_topk");
        ts_needs_host(out, cause, sizeof cause);
        for (p = out; (p = ts_next_include(p, name, sizeof name, &quoted));) must(name[0]);
    }
    ts_smuggled(text, n);
    free(out);
    lay_out();
    put("s.c", text, n);
    enter("/s.c", ask_here, NULL);
    put("s.py", text, n);
    enter("/s.py", ask_here, NULL);
    put("s.md", text, n);
    enter("/s.md", ask_here, "softmax_topk");
    enter("/s.md", ask_here, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    char *copy = exact(data + 1, n - 1);
    switch (data[0] % 3) {
    case 0:
        fuzz_json(copy, n - 1);
        break;
    case 1:
        fuzz_entrant(copy, n - 1);
        break;
    default:
        fuzz_source(copy, n - 1);
    }
    free(copy);
    return 0;
}
