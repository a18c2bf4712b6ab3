/* SPDX-License-Identifier: Apache-2.0 */
/* unit_answers.c - tests answers of models: their authors, the code in Markdown, and several
 * answers of one model. */
#define _GNU_SOURCE
#include <math.h>
#include <sys/stat.h>

#include "board.h"
#include "markdown.h"
#include "unit_entrant.h"

/* ---- whose they are ---- */

static const ts_answer *answer_at(const ts_paths *list, const char *path)
{
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->at[i].path, in_home(path))) return &list->at[i];
    return NULL;
}

static void in_tree(const char *path)
{
    char folder[128];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *p = folder; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(in_home(folder), 0700);
    }
    write_text(path, "int x;");
}

TEST_WITH(names_models, make_home, drop_home)
{
    static const struct {
        const char *path, *model, *sample, *challenge;
    } want[] = {
        { "a/ann/softmax_topk.c", "ann", "", "softmax_topk" },
        { "a/bob/softmax_topk.c", "bob", "", "softmax_topk" },
        { "a/org/cay/kv_cache/kv_cache.cu", "org/cay", "", "kv_cache" },
        { "a/bob/kv_cache/sample-3/kv_cache.py", "bob", "sample-3", "kv_cache" },
        { "a/bob/kv_cache/sample-4.md", "bob", "sample-4", "kv_cache" },
        { "a/dan/sample-2/beam_search.md", "dan", "sample-2", "beam_search" },
        { "a/eve/kernel.c", "eve", "", NULL },
        { "a/mine.c", "", "", NULL },
        { "a/tree_verify.py", "a", "", "tree_verify" },
    };
    enum { N = sizeof want / sizeof *want };
    ts_paths  *list = calloc(1, sizeof *list);
    ts_refusal why;
    for (int i = 0; i < N; i++) in_tree(want[i].path);
    in_tree("a/ann/README.md");
    in_tree("a/.git/softmax_topk.c");
    in_tree("a/fay/softmax_topk/entry.json");
    in_tree("a/fay/softmax_topk/selftest.c");
    in_tree("a/gil/any/entry.json");
    assert_true(ts_entrant_list(in_home("a"), list, &why));
    assert_int_equal(list->n, N + 2);
    for (int i = 0; i < N; i++) {
        const ts_answer *a = answer_at(list, want[i].path);
        assert_non_null(a);
        assert_string_equal(a->model, want[i].model);
        assert_string_equal(a->sample, want[i].sample);
        if (want[i].challenge) assert_string_equal(a->challenge, want[i].challenge);
        else assert_null(a->challenge);
    }
    assert_string_equal(answer_at(list, "a/fay/softmax_topk")->model, "fay");
    assert_string_equal(answer_at(list, "a/gil/any")->model, "");
    ts_entrant_list_free(list);
    /* A file by itself is its folder's, unless it has a name of its own. */
    assert_true(ts_entrant_list(in_home("a/ann/softmax_topk.c"), list, &why));
    assert_string_equal(list->at[0].model, "ann");
    ts_entrant_list_free(list);
    assert_true(ts_entrant_list(in_home("a/mine.c"), list, &why));
    assert_string_equal(list->at[0].model, "");
    ts_entrant_list_free(list);
    free(list);
}

/* ---- Markdown ---- */

static void block(const char *text, const char *wanted, const char *code, const char *ending,
                  int number, int of)
{
    const char *const words[] = { wanted, "ts_f", "ts_g", NULL };
    ts_block          b = { 0 };
    assert_true(ts_markdown_code(text, wanted ? words : NULL, &b));
    assert_int_equal(b.n, strlen(code));
    assert_memory_equal(b.code, code, b.n);
    assert_string_equal(b.ending, ending);
    assert_int_equal(b.number, number);
    assert_int_equal(b.of, of);
}

TEST(finds_code)
{
    ts_block b = { 0 };
    block("a\n```c\nint x;\n```\nb\n", NULL, "int x;\n", ".c", 1, 1);
    block("```c\nint x;\n```\n```c\nint y;\n```\n", NULL, "int y;\n", ".c", 2, 2);
    block("```c\nint f;\n```\n```python\nprint(1)\n```\n", "f", "int f;\n", ".c", 1, 2);
    block("```c\nint f;\n```\n```sh\nmake f\n```\n", "f", "int f;\n", ".c", 1, 2);
    block(
        "```c\nint ts_f(int a)\n{\n}\n```\n```c\nint main(void) { if (ts_f(1)) return 0; }\n```\n",
        "f", "int ts_f(int a)\n{\n}\n", ".c", 1, 2); /* defined, and called after it */
    block("```c\nint ts_f(int);\n```\n```c\nint ts_f (int (*a)(int)) { }\n```\n```c\nTEST(f) { "
          "f(\n```\n",
          "f", "int ts_f (int (*a)(int)) { }\n", ".c", 2, 3);
    block("```python\ndef f(x, k=(1, 2)) -> int:\n  pass\n```\n```python\ny = f(x)\n```\n", "f",
          "def f(x, k=(1, 2)) -> int:\n  pass\n", ".py", 1, 2);
    block("```python\ndef f(x): pass\n```\n```python\ndef f(x): return x\n```\n", "f",
          "def f(x): return x\n", ".py", 2, 2); /* the last one: it corrects the first */
    block("```c\nf\n```\n```c\nf(", "f", "f(", ".c", 2, 2);
    block("```c\nint ts_g(void) {}\n```\n```c\n#include <f.h>\nint main(void) { ts_g(); }\n```\n",
          "f", "int ts_g(void) {}\n", ".c", 1, 2); /* by another of its names */
    block("```py\ndef f(x):\n  pass\n```\n```py\ndef test_f():\n  f(1)\n```\n", "f",
          "def f(x):\n  pass\n", ".py", 1, 2); /* and its test */
    block("```py\nclass f:\n  pass\n```\n```py\nx = f()\n```\n", "f", "class f:\n  pass\n", ".py",
          1, 2);
    block("```cpp\n__global__ void k();\n```", NULL, "__global__ void k();\n", ".cu", 1, 1);
    block("~~~Python title\ndef f():\n    '''```'''\n~~~\n", "f", "def f():\n    '''```'''\n",
          ".py", 1, 1);
    block("````c\n```c\nint x;\n```\n````\n", NULL, "```c\nint x;\n```\n", ".c", 1, 1);
    block("```\n#include <math.h>\n```\n", NULL, "#include <math.h>\n", ".c", 1, 1);
    block("```C++\r\nint x;\r\n```\r\n", NULL, "int x;\r\n", ".cpp", 1, 1);
    assert_true(ts_markdown_code("```c\nint x;", NULL, &b));
    assert_false(b.closed);
    assert_int_equal(b.line, 2);
    assert_false(ts_markdown_code("no code, ``` here\n", NULL, &b));
    assert_false(ts_markdown_code("```json\n{}\n```\n", NULL, &b));
    assert_int_equal(b.of, 1);
    assert_false(ts_markdown_code("", NULL, &b));
    block("```c\n```\n", NULL, "", ".c", 1, 1);
}

TEST_WITH(reads_markdown, make_home, drop_home)
{
    ts_entrant e;
    ts_refusal why;
    write_text("softmax_topk.md", "Here:\n\n```c\n#include <stdlib.h>\nint ts_softmax_topk(void) "
                                  "{ return 4; }\n```\nand\n```sh\nls\n```\n");
    assert_true(ts_entrant_read(in_home("softmax_topk.md"), "softmax_topk", &e, &why));
    assert_int_equal(e.language, TS_C);
    assert_int_equal(e.cls, TS_HOST);
    assert_string_equal(e.source[0].name, "softmax_topk.c");
    assert_memory_equal(e.source[0].bytes, "#include", 8);
    assert_string_equal(e.block, "code block 1 of 2, from line 4");
    ts_entrant_free(&e);
    write_text("softmax_topk.md", "I am sorry.\n");
    assert_false(ts_entrant_read(in_home("softmax_topk.md"), "softmax_topk", &e, &why));
    assert_said(why.text, "got 0 code blocks");
    ts_entrant_free(&e);
}

/* ---- several answers ---- */

typedef struct row {
    const char *name, *sample, *task, *verdict, *cls;
    double      score;
} row;

static void write_log(const char *path, const row *of, int n)
{
    char       why[TS_WHY];
    ts_records earlier = { 0 };
    ts_log    *l = ts_log_open(path, &earlier, why);
    assert_non_null(l);
    for (int i = 0; i < n; i++) {
        static const char *const text[] = { "author", "language", "source_sha256", "family" };
        ts_jw                   *w = ts_log_begin(l, "entrant");
        ts_jw_int(w, "id", i);
        ts_jw_text(w, "name", of[i].name);
        ts_jw_text(w, "class", of[i].cls);
        ts_jw_text(w, "task", of[i].task);
        if (of[i].sample) ts_jw_text(w, "sample", of[i].sample);
        for (int k = 0; k < 4; k++) ts_jw_text(w, text[k], "");
        assert_true(ts_log_commit(l));
        w = ts_log_begin(l, "verdict");
        ts_jw_int(w, "entrant", i);
        ts_jw_text(w, "task", of[i].task);
        ts_jw_text(w, "verdict", of[i].verdict);
        ts_jw_text(w, "reason", "");
        ts_jw_text(w, "text", "");
        assert_true(ts_log_commit(l));
        if (of[i].score <= 0) continue;
        static const char *const number[] = { "S", "S_lo", "S_hi",  "S_min",  "P",
                                              "R", "M",    "speed", "of_best" };
        w = ts_log_begin(l, "score");
        ts_jw_int(w, "entrant", i);
        ts_jw_text(w, "task", of[i].task);
        ts_jw_num(w, "score", of[i].score);
        for (int k = 0; k < 9; k++) ts_jw_num(w, number[k], 0.5);
        ts_jw_text(w, "grade", "C");
        assert_true(ts_log_commit(l));
    }
    ts_log_close(l);
    ts_records_free(&earlier);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) < 1e-12)) fail_msg("%.15g, expected %.15g", a, b);
}

/* Two tasks. ann: 1 of 4 and 2 of 3, so k = 3; bob: one answer of each, both right. */
TEST_WITH(counts_samples, make_home, drop_home)
{
    static const row of[] = {
        { "ann", "sample-1", "t", "FAIL", "-", 0 },
        { "ann", "sample-2", "t", "PASS", "sealed", 400 },
        { "ann", "sample-3", "t", "FAIL", "sealed", 0 },
        { "ann", "sample-4", "t", "FAIL", "host", 0 },
        { "ann", "sample-1", "u", "PASS", "sealed", 100 },
        { "ann", "sample-2", "u", "PASS (common)", "sealed", 300 },
        { "ann", "sample-3", "u", "FAIL", "sealed", 0 },
        { "bob", "", "t", "PASS", "python", 10 },
        { "bob", "", "u", "PASS", "python", 20 },
        { "ann", NULL, "t", "PASS", "sealed", 900 }, /* another author: no model */
    };
    ts_records r;
    ts_board   b;
    char       why[TS_WHY];
    write_log(in_home("log"), of, sizeof of / sizeof *of);
    assert_true(ts_records_read(in_home("log"), &r, why));
    assert_true(ts_board_make(&r, &b, why));
    assert_int_equal(b.n_overall, 3);
    const ts_entrant_overall *bob = &b.overall[0], *ann = &b.overall[2];
    assert_string_equal(b.row[bob->first].name, "bob"); /* more passed, though the score is less */
    assert_string_equal(ann->klass, "mixed");
    assert_int_equal(ann->entered, 2);
    assert_int_equal(ann->passed, 2);
    assert_int_equal(ann->samples.n, 4);
    assert_int_equal(ann->samples.k, 3);
    near(ann->samples.pass_1, (1. / 4 + 2. / 3) / 2);
    near(ann->samples.pass_k, (3. / 4 + 1) / 2); /* 1 - C(3,3) / C(4,3); 1 - 0 */
    near(ann->score, (100 + 400. / 3) / 2);
    near(ann->samples.best, (400 + 300) / 2.);
    near(ann->samples.median, (0 + 100) / 2.);
    near(bob->samples.pass_1, 1);
    near(bob->samples.pass_k, 1);
    near(bob->samples.median, 15);
    near(b.overall[1].samples.pass_1, 0.5);
    ts_board_free(&b);
    ts_records_free(&r);
}
