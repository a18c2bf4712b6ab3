/* SPDX-License-Identifier: Apache-2.0 */
/* unit_entrant.c - tests the readers of submitted files: JSON, entry.json, sources, folders. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "sha256.h"
#include "show.h"
#include "unit_entrant.h"

/* ---- sha256 ---- */

TEST(hashes_as_the_standard_says)
{
    char  hex[65];
    char *many = malloc(1000000);
    ts_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    ts_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ts_sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(many, 'a', 1000000);
    ts_sha256_hex(many, 1000000, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(many);
}

/* ---- JSON ---- */

TEST(reads_what_is_json)
{
    const char *text = " {\"a\": [1, -0.5e+1, true, false, null, {}], \"\\u00e9\\ud83d\\ude00\":"
                       " \"x\\n\\\"\\/\\u0041\xc3\xa9\"} \n";
    char        why[128];
    ts_jr_doc  *doc = ts_jr_parse(text, strlen(text), why, sizeof why);
    const ts_jr_node *root = ts_jr_root(doc), *a = ts_jr_get(root, "a");
    double            x, y;
    assert_non_null(doc);
    assert_int_equal(ts_jr_is(a), TS_JR_ARR);
    assert_int_equal(ts_jr_len(a), 6);
    assert_true(ts_jr_num(ts_jr_at(a, 0), &x) && ts_jr_num(ts_jr_at(a, 1), &y));
    assert_true(x == 1 && y == -5 && ts_jr_bool(ts_jr_at(a, 2)) && !ts_jr_bool(ts_jr_at(a, 3)));
    assert_string_equal(ts_jr_text(root, "\xc3\xa9\xf0\x9f\x98\x80", ""), "x\n\"/A\xc3\xa9");
    assert_null(ts_jr_get(root, "b"));
    assert_null(ts_jr_get(a, "a"));
    ts_jr_free(doc);
}

TEST(refuses_what_is_not)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        { "", "line 1, column 1: the text ends, expected a value" },
        { "\n\n  }", "line 3, column 3: got '}', expected a value" },
        { "{\"a\":1,}", "line 1, column 8: got '}', expected a string in double quotes" },
        { "{\"a\" 1}", "expected ':' after the key" },
        { "{\"a\":1 \"b\":2}", "expected ',' or '}'" },
        { "{'a':1}", "expected a string in double quotes" },
        { "{\"a\":1,\"a\":2}", "duplicate key" },
        { "{\"a\":1,\"\\u0061\":2}", "duplicate key" },
        { "[1 2]", "expected ',' or ']'" },
        { "[1,]", "expected a value" },
        { "[1", "the text ends, expected ',' or ']'" },
        { "{} {}", "line 1, column 4: got '{', expected nothing after the value" },
        { "{}x", "expected nothing after the value" },
        { "\xef\xbb\xbf{}", "got '\\ufffd', expected a value" },
        { "01", "number with a leading 0" },
        { "-", "expected a digit" },
        { "1.", "expected a digit after the point" },
        { "1e", "expected a digit in the exponent" },
        { ".5", "got '.', expected a value" },
        { "+1", "got '+', expected a value" },
        { "0x10", "got 'x', expected nothing after the value" },
        { "NaN", "got 'N', expected a value" },
        { "Infinity", "got 'I', expected a value" },
        { "1e999", "number out of range: 1e999" },
        { "-1e400", "number out of range" },
        { "1111111111111111111111111111111111111111111111111111111111111111111", "fewer than 64" },
        { "tru", "got 't', expected a value" },
        { "nulll", "expected nothing after the value" },
        { "\"abc", "expected a closing quote" },
        { "\"a\nb\"", "unescaped control character in a string" },
        { "\"\x1b[31m\"", "unescaped control character" },
        { "\"\\x41\"", "expected an escape" },
        { "\"\\u12\"", "four hexadecimal digits" },
        { "\"\\u00g0\"", "four hexadecimal digits" },
        { "\"\\u00\x10"
          "0\"",
          "four hexadecimal digits" },
        { "\"\\ud800\"", "unpaired surrogate" },
        { "\"\\ud800\\u0041\"", "unpaired surrogate" },
        { "\"\\udc00\"", "unpaired surrogate" },
        { "\"\\u0000\"", "U+0000" },
        { "\"\xff\"", "invalid UTF-8" },
        { "\"\xc0\xaf\"", "invalid UTF-8" },
        { "\"\xe0\x80\x80\"", "invalid UTF-8" },
        { "\"\xed\xa0\x80\"", "invalid UTF-8" },
        { "\"\xf4\x90\x80\x80\"", "invalid UTF-8" },
        { "\"\xc3", "invalid UTF-8" },
        { "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", "more than 16 levels deep" },
        { "// no\n{}", "got '/', expected a value" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char       why[160] = "";
        ts_jr_doc *doc = ts_jr_parse(bad[i].text, strlen(bad[i].text), why, sizeof why);
        if (doc) fail_msg("'%s' was read", bad[i].text);
        assert_said(why, bad[i].said);
    }
    char why[128], many[4096] = "{";
    for (int i = 0; i < 257; i++)
        snprintf(many + strlen(many), 16, "%s\"%x\":0", i ? "," : "", (unsigned)i);
    strcat(many, "}");
    assert_null(ts_jr_parse(many, strlen(many), why, sizeof why));
    assert_said(why, "more than 256 members");
    assert_null(ts_jr_parse("[0\0]", 4, why, sizeof why));
    assert_said(why, "expected ',' or ']'");
    char *large = calloc(1, TS_JR_BYTES + 1);
    assert_null(ts_jr_parse(large, TS_JR_BYTES + 1, why, sizeof why));
    assert_said(why, "expected at most 16777216");
    free(large);
}

TEST(escapes_what_could_harm)
{
    const char *text =
        "a\"\\\n\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xff</script>\xf3\xa0\x80\x81\xc3\xa9";
    char  out[256], small[8];
    ts_jw w = { 0 };
    ts_jw_text(&w, NULL, text);
    assert_string_equal(w.text, "\"a\\\"\\\\\\u000a\\u001b[2J\\u007f\\u009b\\u202e?\\u003c/script"
                                "\\u003e\\udb40\\udc01\xc3\xa9\"");
    ts_jw_free(&w);
    ts_show(text, strlen(text), out, sizeof out);
    assert_string_equal(out, "a\"\\\\u000a\\u001b[2J\\u007f\\u009b\\u202e\\ufffd</script>"
                             "\\udb40\\udc01\xc3\xa9");
    assert_int_equal(ts_show("abc\x1bxyz", 7, small, sizeof small), 3);
    assert_string_equal(small, "abc");
}

/* ---- entrants ---- */

TEST(reads_a_folder)
{
    ts_entrant e;
    ts_refusal why;
    write_text("k.c", "int ts_softmax_topk(void) { return 0; } // why\n");
    write_text("k.h", "#define K 1\n");
    write_text("adapter.c", "#include \"k.c\"\n");
    write_text("entry.json",
               "{\"name\":\"n\xc3\xa9\",\"author\":\"a\",\"challenge\":\"softmax_topk\"," SEALED
               "\"sources\":[\"k.c\",\"k.h\"],\"adapter\":\"adapter.c\"}");
    if (!ts_entrant_read(home, NULL, &e, &why)) fail_msg("%s", why.text);
    assert_string_equal(e.name, "n\xc3\xa9");
    assert_string_equal(e.task, "softmax_topk");
    assert_int_equal(e.cls, TS_SEALED);
    assert_int_equal(e.n_sources, 3);
    assert_int_equal(e.adapter, 2);
    assert_string_equal(ts_entrant_main(&e)->name, "adapter.c");
    assert_false(e.source[0].compiled); /* the adapter includes it */
    assert_false(e.source[1].compiled);
    assert_true(e.source[2].compiled);
    char sum[256], hex[3][65];
    for (int i = 0; i < 3; i++) ts_sha256_hex(e.source[i].bytes, e.source[i].n, hex[i]);
    snprintf(sum, sizeof sum, "%s  k.c\n%s  k.h\n%s  adapter.c\n", hex[0], hex[1], hex[2]);
    ts_sha256_hex(sum, strlen(sum), hex[0]);
    assert_string_equal(e.source_sha256, hex[0]);
    ts_entrant_free(&e);
}

TEST(refuses_bad_entrants)
{
    write_text("k.c", "int x;\n");
    write_text("k.py", "x = 1\n");
    write_text("zero.c", "int x;\n");
    write_file("zero.c", "int\0x;", 6);
    assert_int_equal(symlink("/etc/hostname", in_home("out.c")), 0);
    assert_int_equal(symlink(home, in_home("loop")), 0);
    assert_int_equal(mkfifo(in_home("pipe.c"), 0600), 0);
    assert_int_equal(mkdir(in_home("folder.c"), 0700), 0);
    char *large = malloc(TS_ENTRANT_BYTES + 1);
    memset(large, ' ', TS_ENTRANT_BYTES + 1);
    write_file("large.c", large, TS_ENTRANT_BYTES + 1);
    write_file("half.c", large, TS_ENTRANT_BYTES - 3);
    free(large);
#define SOURCES(s) "{" HEAD  SEALED "\"sources\":" s "}"
    static const char *const bad[][3] = {
        { "{", "entry", "entry.json: line 1, column 2: the text ends" },
        { "[]", "entry", "entry.json: expected an object" },
        { "{}", "entry", "'name': missing, expected a string" },
        { "{\"name\":1}", "entry", "'name': missing, expected a string" },
        { "{\"name\":\"\"}", "entry", "'name': got 0 characters, expected 1 to 64" },
        { "{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
          "entry", "'name': got 65 characters" },
        { "{\"name\":\"a\\u001b[2J\"}", "entry", "'name': contains a control character" },
        { "{\"name\":\"a\\u202eb\"}", "entry", "'name': contains a control character" },
        { "{\"name\":\"a\\nPASS\"}", "entry", "'name': contains a control character" },
        { "{\"name\":\"a\"}", "entry", "'author': missing" },
        { "{\"name\":\"a\",\"author\":\"b\",\"challenge\":\"sort\",\"class\":\"host\",\"language\":"
          "\"c\"}",
          "entry", "challenge: got 'sort', expected one of layernorm_forward" },
        { "{" HEAD "\"class\":\"open\",\"language\":\"c\"}", "entry",
          "'class': got 'open', expected one of sealed, host, python" },
        { "{" HEAD "\"class\":\"host\",\"language\":\"rust\"}", "entry", "'language': got 'rust'" },
        { "{" HEAD "\"class\":\"host\",\"language\":\"cuda\"}", "entry",
          "class 'host' does not accept language 'cuda'" },
        { "{" HEAD "\"class\":\"sealed-gpu\",\"language\":\"cuda\"}", "launch", "launch" },
        { "{" HEAD "\"class\":\"host-gpu\",\"language\":\"cuda\",\"launch\":[]}", "entry",
          "class 'host-gpu' takes no 'launch' or 'workspace'" },
        { "{" HEAD "\"class\":\"sealed\",\"language\":\"c++\"}", "entry",
          "class 'sealed' does not accept language 'c++'" },
        { "{" HEAD "\"class\":\"python\",\"language\":\"c\"}", "entry",
          "class 'python' does not accept language 'c'" },
        { "{" HEAD SEALED "\"sorces\":[]}", "entry", "unknown key 'sorces'" },
        { "{" HEAD SEALED "\"a\\u001b[2J\":[]}", "entry", "unknown key 'a\\u001b[2J'" },
        { "{" HEAD "\"class\":\"sealed\",\"language\":\"c\"}", "entry", "'sources': missing" },
        { SOURCES("[]"), "entry", "'sources': missing, expected a list" },
        { SOURCES("\"k.c\""), "entry", "'sources': missing, expected a list" },
        { SOURCES("[1]"), "entry", "'sources': expected a list of strings" },
        { SOURCES("[\"k.c\",\"k.c\"]"), "entry", "source 'k.c': listed twice" },
        { SOURCES("[\"none.c\"]"), "entry", "none.c: No such file or directory" },
        { SOURCES("[\"../k.c\"]"), "entry", "source '../k.c': expected" },
        { SOURCES("[\"a/../k.c\"]"), "entry", "source 'a/../k.c': expected" },
        { SOURCES("[\"/etc/passwd\"]"), "entry", "source '/etc/passwd': expected" },
        { SOURCES("[\"-o.c\"]"), "entry", "source '-o.c': expected" },
        { SOURCES("[\"@x.c\"]"), "entry", "source '@x.c': expected" },
        { SOURCES("[\"a b.c\"]"), "entry", "source 'a b.c': expected" },
        { SOURCES("[\".k.c\"]"), "entry", "source '.k.c': expected" },
        { SOURCES("[\"a//k.c\"]"), "entry", "source 'a//k.c': expected" },
        { SOURCES("[\"\"]"), "entry", "source '': expected" },
        { SOURCES("[\"out.c\"]"), "entry", "out.c: symbolic link not allowed" },
        { SOURCES("[\"loop/k.c\"]"), "entry", "loop/k.c: " },
        { SOURCES("[\"pipe.c\"]"), "entry", "pipe.c: not a regular file" },
        { SOURCES("[\"folder.c\"]"), "entry", "folder.c: not a regular file" },
        { SOURCES("[\"k.py\"]"), "entry", "source 'k.py': extension does not match language c" },
        { SOURCES("[\"k.s\"]"), "entry", "source 'k.s': extension does not match language c" },
        { SOURCES("[\"k\"]"), "entry", "source 'k': extension does not match language c" },
        { SOURCES("[\"zero.c\"]"), "entry", "zero.c: contains a zero byte" },
        { SOURCES("[\"large.c\"]"), "size",
          "large.c: got 1048577 bytes, expected at most 1048576" },
        { SOURCES("[\"half.c\",\"k.c\"]"), "size", "k.c: got 7 bytes, expected at most 3" },
        { SOURCES("[\"k.c\"],\"adapter\":1"), "entry", "'adapter': expected the name" },
        { SOURCES("[\"k.c\"],\"adapter\":\"../a.c\""), "entry", "source '../a.c'" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_entrant_refused(bad[i][0], bad[i][1], bad[i][2]);
    char many[1024] = "{" HEAD SEALED "\"sources\":[";
    for (int i = 0; i < 33; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d.c", i);
        write_text(name, "");
        snprintf(many + strlen(many), 32, "%s\"%s\"", i ? "," : "", name);
    }
    assert_entrant_refused(strcat(many, "]}"), "size", "more than 32 sources");
    assert_refused(in_home("none"), "entry", "No such file or directory");
}

static void read_single(const char *name, const char *text, ts_entrant *e)
{
    ts_refusal why;
    write_text(name, text);
    if (!ts_entrant_read(in_home(name), NULL, e, &why)) fail_msg("%s: %s", name, why.text);
}

TEST(reads_single_files)
{
    static const struct {
        const char *name, *text, *task;
        ts_class    cls;
    } good[] = {
        { "a.c", "#include <math.h>\nint ts_softmax_topk (int a) {}", "softmax_topk", TS_SEALED },
        { "b.c", "#include <stdio.h>\nint ts_softmax_topk(int a) {}", "softmax_topk", TS_HOST },
        { "c.c", "#pragma omp parallel\nint ts_layernorm_forward(int a) {}", "layernorm_forward",
          TS_HOST },
        { "d.c",
          "// #include <stdio.h>\n#include <immintrin.h>\nint ts_layernorm_backward(int a) {}",
          "layernorm_backward", TS_SEALED },
        { "e.cpp", "int ts_softmax_topk(int a) {}", "softmax_topk", TS_HOST },
        { "e.cu", "int ts_softmax_topk(int a) {}", "softmax_topk", TS_GPU_HOST },
        { "f.py", "def softmax_topk(logits, k):\n  pass # def layernorm_forward(x)\n",
          "softmax_topk", TS_PYTHON },
        { "g.c", "int ts_softmax_topk_workspace(int a);\nint ts_layernorm_forward(int a);",
          "layernorm_forward", TS_SEALED },
    };
    ts_entrant e;
    ts_refusal why;
    char       hex[65];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        read_single(good[i].name, good[i].text, &e);
        assert_string_equal(e.task, good[i].task);
        assert_int_equal(e.cls, good[i].cls);
        ts_sha256_hex(good[i].text, strlen(good[i].text), hex);
        assert_string_equal(e.source_sha256, hex);
        ts_entrant_free(&e);
    }
    write_text("both.c", "int ts_layernorm_forward(void);int ts_layernorm_backward(void);");
    assert_refused(in_home("both.c"), "entry", "select with --challenge");
    assert_true(ts_entrant_read(in_home("both.c"), "layernorm_backward", &e, &why));
    assert_string_equal(e.task, "layernorm_backward");
    ts_entrant_free(&e);
    assert_false(ts_entrant_read(in_home("both.c"), "sort", &e, &why));
    ts_entrant_free(&e);
    write_text("none.c", "/* ts_softmax_topk(x) */ int x;");
    assert_refused(in_home("none.c"), "entry", "found no function of a challenge");
    write_text("x.txt", "");
    assert_refused(in_home("x.txt"), "entry", "expected a folder with entry.json");
    write_text("x.h", "int ts_softmax_topk(void);");
    assert_refused(in_home("x.h"), "entry", "expected a folder with entry.json");
}

static void same_family(const char *name, const char *a, const char *b, bool same)
{
    ts_entrant x, y;
    read_single(name, a, &x);
    read_single(name, b, &y);
    if (!strcmp(x.family, y.family) != same) fail_msg("families of '%s' and '%s'", a, b);
    assert_string_not_equal(x.source_sha256, y.source_sha256);
    ts_entrant_free(&x);
    ts_entrant_free(&y);
}

TEST(tells_families)
{
    same_family("a.c", "int ts_softmax_topk(void){return 1;}",
                "/* mine */ int ts_softmax_topk ( void )\n{\n  return 1; // !\n}\n", true);
    same_family("a.c", "int ts_softmax_topk(void){return 1;}",
                "int ts_softmax_topk(void){return 2;}", false);
    same_family("a.c", "int ts_softmax_topk(void){x(\"// a\");}",
                "int ts_softmax_topk(void){x(\"// b\");}", false);
    same_family("a.c", "int ts_softmax_topk(void){y='\"';// a\n}",
                "int ts_softmax_topk(void){y='\"';// b\n}", true);
    same_family("a.c", "int ts_softmax_topk(void){}// a\\\nb\n", "int ts_softmax_topk(void){}",
                true);
    same_family("a.py", "def softmax_topk(x): # a\n  return 1\n",
                "def softmax_topk(x):\n\treturn 1", true);
    same_family("a.py", "def softmax_topk(x):\n  return '# a'",
                "def softmax_topk(x):\n  return '# b'", false);
    same_family("a.py", "def softmax_topk(x):\n  '''\n# a\n'''",
                "def softmax_topk(x):\n  '''\n# b\n'''", false);
}

TEST(lists_folders)
{
    ts_paths  *list = calloc(1, sizeof *list);
    ts_refusal why;
    assert_false(ts_entrant_list(home, list, &why));
    assert_said(why.text, "contains no entrant");
    assert_int_equal(mkdir(in_home("b"), 0700), 0);
    assert_int_equal(mkdir(in_home("empty"), 0700), 0);
    write_text("b/entry.json", "{}");
    write_text("c.py", "");
    write_text("a.c", "");
    write_text("README.md", "");
    assert_int_equal(symlink("a.c", in_home("link.c")), 0);
    assert_true(ts_entrant_list(home, list, &why));
    assert_int_equal(list->n, 3);
    assert_string_equal(list->at[0].path, in_home("a.c"));
    assert_string_equal(list->at[1].path, in_home("b"));
    assert_string_equal(list->at[2].path, in_home("c.py"));
    ts_entrant_list_free(list);
    assert_true(ts_entrant_list(in_home("b"), list, &why));
    assert_int_equal(list->n, 1);
    ts_entrant_list_free(list);
    free(list);
}

int main(int argc, char **argv) /* [FILTER]: the tests whose names match */
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_as_the_standard_says),
        cmocka_unit_test(reads_what_is_json),
        cmocka_unit_test(refuses_what_is_not),
        cmocka_unit_test(escapes_what_could_harm),
        IN_HOME(reads_a_folder),
        IN_HOME(refuses_bad_entrants),
        IN_HOME(reads_single_files),
        IN_HOME(tells_families),
        IN_HOME(lists_folders),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
