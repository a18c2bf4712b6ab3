/* SPDX-License-Identifier: Apache-2.0 */
/* unit_entry.c - what strangers hand in: JSON, entry.json, sources, builds, objects. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit.h"
#include "build.h"
#include "confine.h"
#include "entry.h"
#include "json.h"
#include "sha256.h"
#include "show.h"
#include "source.h"
#include "touchstone/softmax_topk.h"
#include "unit.h"

/* ---- helpers ---- */

static char home[64]; /* a folder for each test */

static int make_home(void **state)
{
    (void)state;
    strcpy(home, "/tmp/touchstone-unit-XXXXXX");
    return !mkdtemp(home);
}

static int drop_home(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static const char *in_home(const char *name)
{
    static char path[8][256];
    static int  turn;
    char       *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", home, name);
    return p;
}

static void write_file(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(in_home(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* One line, nothing that could move a cursor, and the part that must be in it. */
static void assert_said(const char *text, const char *part)
{
    assert_true(text[0]);
    for (const char *p = text; *p; p++) assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    if (!strstr(text, part)) fail_msg("said '%s', expected '%s' in it", text, part);
}

static void assert_refused(const char *path, const char *reason, const char *part)
{
    ts_candidate e;
    ts_refusal   why;
    if (ts_entry_read(path, NULL, &e, &why)) fail_msg("%s was read, expected '%s'", path, part);
    ts_entry_free(&e);
    assert_string_equal(why.reason, reason);
    assert_said(why.text, part);
}

static void assert_entry_refused(const char *json, const char *reason, const char *part)
{
    write_text("entry.json", json);
    assert_refused(home, reason, part);
}

/* ---- sha256 ---- */

static void hashes_as_the_standard_says(void **state)
{
    char  hex[65];
    char *many = malloc(1000000);
    (void)state;
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

static void reads_what_is_json(void **state)
{
    const char *text = " {\"a\": [1, -0.5e+1, true, false, null, {}], \"\\u00e9\\ud83d\\ude00\":"
                       " \"x\\n\\\"\\/\\u0041\xc3\xa9\"} \n";
    char        why[128];
    (void)state;
    ts_jr_doc        *doc = ts_jr_parse(text, strlen(text), why, sizeof why);
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

static void refuses_what_is_not(void **state)
{
    static const struct {
        const char *text, *said;
    } bad[] = {
        { "", "line 1, column 1: the text ends, expected a value" },
        { "\n\n  }", "line 3, column 3: got '}', expected a value" },
        { "{\"a\":1,}", "line 1, column 8: got '}', expected a text in double quotes" },
        { "{\"a\" 1}", "expected ':' after the key" },
        { "{\"a\":1 \"b\":2}", "expected ',' or '}'" },
        { "{'a':1}", "expected a text in double quotes" },
        { "{\"a\":1,\"a\":2}", "a key for the second time" },
        { "{\"a\":1,\"\\u0061\":2}", "a key for the second time" },
        { "[1 2]", "expected ',' or ']'" },
        { "[1,]", "expected a value" },
        { "[1", "the text ends, expected ',' or ']'" },
        { "{} {}", "line 1, column 4: got '{', expected nothing after the value" },
        { "{}x", "expected nothing after the value" },
        { "\xef\xbb\xbf{}", "got '\\ufffd', expected a value" },
        { "01", "a number that begins with 0" },
        { "-", "expected a digit" },
        { "1.", "expected a digit after the point" },
        { "1e", "expected a digit in the exponent" },
        { ".5", "got '.', expected a value" },
        { "+1", "got '+', expected a value" },
        { "0x10", "got 'x', expected nothing after the value" },
        { "NaN", "got 'N', expected a value" },
        { "Infinity", "got 'I', expected a value" },
        { "1e999", "a number that is too large: 1e999" },
        { "-1e400", "a number that is too large" },
        { "1111111111111111111111111111111111111111111111111111111111111111111", "fewer than 64" },
        { "tru", "got 't', expected a value" },
        { "nulll", "expected nothing after the value" },
        { "\"abc", "expected a closing quote" },
        { "\"a\nb\"", "a bare control character in a text" },
        { "\"\x1b[31m\"", "a bare control character" },
        { "\"\\x41\"", "expected an escape" },
        { "\"\\u12\"", "four hexadecimal digits" },
        { "\"\\u00g0\"", "four hexadecimal digits" },
        { "\"\\u00\x10"
          "0\"",
          "four hexadecimal digits" },
        { "\"\\ud800\"", "half a surrogate pair" },
        { "\"\\ud800\\u0041\"", "half a surrogate pair" },
        { "\"\\udc00\"", "half a surrogate pair" },
        { "\"\\u0000\"", "U+0000" },
        { "\"\xff\"", "not UTF-8" },
        { "\"\xc0\xaf\"", "not UTF-8" },
        { "\"\xe0\x80\x80\"", "not UTF-8" },
        { "\"\xed\xa0\x80\"", "not UTF-8" },
        { "\"\xf4\x90\x80\x80\"", "not UTF-8" },
        { "\"\xc3", "not UTF-8" },
        { "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", "more than 16 levels deep" },
        { "// no\n{}", "got '/', expected a value" },
    };
    (void)state;
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

static void escapes_what_could_harm(void **state)
{
    const char *text =
        "a\"\\\n\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xff</script>\xf3\xa0\x80\x81\xc3\xa9";
    char  out[256], small[8];
    ts_jw w = { 0 };
    (void)state;
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

/* ---- entries ---- */

#define HEAD   "\"name\":\"n\",\"author\":\"a\",\"challenge\":\"softmax_topk\","
#define SEALED "\"class\":\"sealed\",\"language\":\"c\","

static void reads_a_folder(void **state)
{
    ts_candidate e;
    ts_refusal   why;
    (void)state;
    write_text("k.c", "int ts_softmax_topk(void) { return 0; } // why\n");
    write_text("k.h", "#define K 1\n");
    write_text("adapter.c", "#include \"k.c\"\n");
    write_text("entry.json",
               "{\"name\":\"n\xc3\xa9\",\"author\":\"a\",\"challenge\":\"softmax_topk\"," SEALED
               "\"sources\":[\"k.c\",\"k.h\"],\"adapter\":\"adapter.c\"}");
    if (!ts_entry_read(home, NULL, &e, &why)) fail_msg("%s", why.text);
    assert_string_equal(e.name, "n\xc3\xa9");
    assert_string_equal(e.task, "softmax_topk");
    assert_int_equal(e.cls, TS_SEALED);
    assert_int_equal(e.n_sources, 3);
    assert_int_equal(e.adapter, 2);
    assert_string_equal(ts_entry_main(&e)->name, "adapter.c");
    assert_false(e.source[0].compiled); /* the adapter includes it */
    assert_false(e.source[1].compiled);
    assert_true(e.source[2].compiled);
    char sum[256], hex[3][65];
    for (int i = 0; i < 3; i++) ts_sha256_hex(e.source[i].bytes, e.source[i].n, hex[i]);
    snprintf(sum, sizeof sum, "%s  k.c\n%s  k.h\n%s  adapter.c\n", hex[0], hex[1], hex[2]);
    ts_sha256_hex(sum, strlen(sum), hex[0]);
    assert_string_equal(e.source_sha256, hex[0]);
    ts_entry_free(&e);
}

static void refuses_bad_entries(void **state)
{
    (void)state;
    write_text("k.c", "int x;\n");
    write_text("k.py", "x = 1\n");
    write_text("zero.c", "int x;\n");
    write_file("zero.c", "int\0x;", 6);
    assert_int_equal(symlink("/etc/hostname", in_home("out.c")), 0);
    assert_int_equal(symlink(home, in_home("loop")), 0);
    assert_int_equal(mkfifo(in_home("pipe.c"), 0600), 0);
    assert_int_equal(mkdir(in_home("folder.c"), 0700), 0);
    char *large = malloc(TS_ENTRY_BYTES + 1);
    memset(large, ' ', TS_ENTRY_BYTES + 1);
    write_file("large.c", large, TS_ENTRY_BYTES + 1);
    write_file("half.c", large, TS_ENTRY_BYTES - 3);
    free(large);
#define SOURCES(s) "{" HEAD  SEALED "\"sources\":" s "}"
    static const char *const bad[][3] = {
        { "{", "entry", "entry.json: line 1, column 2: the text ends" },
        { "[]", "entry", "entry.json: expected an object" },
        { "{}", "entry", "'name' is missing, expected a text" },
        { "{\"name\":1}", "entry", "'name' is missing, expected a text" },
        { "{\"name\":\"\"}", "entry", "'name' has 0 characters, expected 1 to 64" },
        { "{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
          "entry", "'name' has 65 characters" },
        { "{\"name\":\"a\\u001b[2J\"}", "entry", "'name' holds a control character" },
        { "{\"name\":\"a\\u202eb\"}", "entry", "'name' holds a control character" },
        { "{\"name\":\"a\\nPASS\"}", "entry", "'name' holds a control character" },
        { "{\"name\":\"a\"}", "entry", "'author' is missing" },
        { "{\"name\":\"a\",\"author\":\"b\",\"challenge\":\"sort\",\"class\":\"host\",\"language\":"
          "\"c\"}",
          "entry", "challenge 'sort': expected one of layernorm_forward" },
        { "{" HEAD "\"class\":\"open\",\"language\":\"c\"}", "entry",
          "'class' is 'open', expected one of sealed, host, python" },
        { "{" HEAD "\"class\":\"host\",\"language\":\"rust\"}", "entry", "'language' is 'rust'" },
        { "{" HEAD "\"class\":\"host\",\"language\":\"cuda\"}", "entry",
          "CUDA entrants are judged where a GPU is" },
        { "{" HEAD "\"class\":\"sealed\",\"language\":\"c++\"}", "entry",
          "class 'sealed' takes no 'c++'" },
        { "{" HEAD "\"class\":\"python\",\"language\":\"c\"}", "entry",
          "class 'python' takes no 'c'" },
        { "{" HEAD SEALED "\"sorces\":[]}", "entry", "unknown key 'sorces'" },
        { "{" HEAD SEALED "\"a\\u001b[2J\":[]}", "entry", "unknown key 'a\\u001b[2J'" },
        { "{" HEAD "\"class\":\"sealed\",\"language\":\"c\"}", "entry", "'sources' is missing" },
        { SOURCES("[]"), "entry", "'sources' is missing, expected a list" },
        { SOURCES("\"k.c\""), "entry", "'sources' is missing, expected a list" },
        { SOURCES("[1]"), "entry", "'sources' holds what is no text" },
        { SOURCES("[\"k.c\",\"k.c\"]"), "entry", "source 'k.c' is listed twice" },
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
        { SOURCES("[\"out.c\"]"), "entry", "out.c: is a symbolic link" },
        { SOURCES("[\"loop/k.c\"]"), "entry", "loop/k.c: " },
        { SOURCES("[\"pipe.c\"]"), "entry", "pipe.c: is not a plain file" },
        { SOURCES("[\"folder.c\"]"), "entry", "folder.c: is not a plain file" },
        { SOURCES("[\"k.py\"]"), "entry", "source 'k.py' does not end as c does" },
        { SOURCES("[\"k.s\"]"), "entry", "source 'k.s' does not end as c does" },
        { SOURCES("[\"k\"]"), "entry", "source 'k' does not end as c does" },
        { SOURCES("[\"zero.c\"]"), "entry", "zero.c: holds a zero byte" },
        { SOURCES("[\"large.c\"]"), "size",
          "large.c: 1048577 bytes are too many, 1048576 are left" },
        { SOURCES("[\"half.c\",\"k.c\"]"), "size", "k.c: 7 bytes are too many, 3 are left" },
        { SOURCES("[\"k.c\"],\"adapter\":1"), "entry", "'adapter' is no text" },
        { SOURCES("[\"k.c\"],\"adapter\":\"../a.c\""), "entry", "source '../a.c'" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_entry_refused(bad[i][0], bad[i][1], bad[i][2]);
    char many[1024] = "{" HEAD SEALED "\"sources\":[";
    for (int i = 0; i < 33; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d.c", i);
        write_text(name, "");
        snprintf(many + strlen(many), 32, "%s\"%s\"", i ? "," : "", name);
    }
    assert_entry_refused(strcat(many, "]}"), "size", "more than 32 sources");
    assert_refused(in_home("none"), "entry", "No such file or directory");
}

static void read_single(const char *name, const char *text, ts_candidate *e)
{
    ts_refusal why;
    write_text(name, text);
    if (!ts_entry_read(in_home(name), NULL, e, &why)) fail_msg("%s: %s", name, why.text);
}

static void reads_single_files(void **state)
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
        { "f.py", "def softmax_topk(logits, k):\n  pass # def layernorm_forward(x)\n",
          "softmax_topk", TS_PYTHON },
        { "g.c", "int ts_softmax_topk_workspace(int a);\nint ts_layernorm_forward(int a);",
          "layernorm_forward", TS_SEALED },
    };
    ts_candidate e;
    ts_refusal   why;
    char         hex[65];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        read_single(good[i].name, good[i].text, &e);
        assert_string_equal(e.task, good[i].task);
        assert_int_equal(e.cls, good[i].cls);
        ts_sha256_hex(good[i].text, strlen(good[i].text), hex);
        assert_string_equal(e.source_sha256, hex);
        ts_entry_free(&e);
    }
    write_text("both.c", "int ts_layernorm_forward(void);int ts_layernorm_backward(void);");
    assert_refused(in_home("both.c"), "entry", "say which with --challenge");
    assert_true(ts_entry_read(in_home("both.c"), "layernorm_backward", &e, &why));
    assert_string_equal(e.task, "layernorm_backward");
    ts_entry_free(&e);
    assert_false(ts_entry_read(in_home("both.c"), "sort", &e, &why));
    ts_entry_free(&e);
    write_text("none.c", "/* ts_softmax_topk(x) */ int x;");
    assert_refused(in_home("none.c"), "entry", "no function of a challenge was found");
    write_text("gpu.cu", "");
    assert_refused(in_home("gpu.cu"), "entry", "CUDA entrants are judged where a GPU is");
    write_text("x.txt", "");
    assert_refused(in_home("x.txt"), "entry", "expected a folder with entry.json");
    write_text("x.h", "int ts_softmax_topk(void);");
    assert_refused(in_home("x.h"), "entry", "expected a folder with entry.json");
}

static void same_family(const char *name, const char *a, const char *b, bool same)
{
    ts_candidate x, y;
    read_single(name, a, &x);
    read_single(name, b, &y);
    if (!strcmp(x.family, y.family) != same) fail_msg("families of '%s' and '%s'", a, b);
    assert_string_not_equal(x.source_sha256, y.source_sha256);
    ts_entry_free(&x);
    ts_entry_free(&y);
}

static void tells_families(void **state)
{
    (void)state;
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

static void lists_folders(void **state)
{
    ts_paths  *list = calloc(1, sizeof *list);
    ts_refusal why;
    (void)state;
    assert_false(ts_entry_list(home, list, &why));
    assert_said(why.text, "no entrant in it");
    assert_int_equal(mkdir(in_home("b"), 0700), 0);
    assert_int_equal(mkdir(in_home("empty"), 0700), 0);
    write_text("b/entry.json", "{}");
    write_text("c.py", "");
    write_text("a.c", "");
    write_text("README.md", "");
    assert_int_equal(symlink("a.c", in_home("link.c")), 0);
    assert_true(ts_entry_list(home, list, &why));
    assert_int_equal(list->n, 3);
    assert_string_equal(list->path[0], in_home("a.c"));
    assert_string_equal(list->path[1], in_home("b"));
    assert_string_equal(list->path[2], in_home("c.py"));
    ts_entry_list_free(list);
    assert_true(ts_entry_list(in_home("b"), list, &why));
    assert_int_equal(list->n, 1);
    ts_entry_list_free(list);
    free(list);
}

/* ---- builds ---- */

#define TOPK "#include \"touchstone/softmax_topk.h\"\n"
#define BODY "ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)"

static bool build(const char *name, const char *text, ts_built *b, ts_refusal *why)
{
    ts_candidate e;
    ts_places    p = { .include = TS_TEST_INCLUDE };
    write_text(name, text);
    if (!ts_entry_read(in_home(name), "softmax_topk", &e, why)) fail_msg("%s", why->text);
    const bool ok = ts_build(&e, &p, NULL, b, why);
    ts_entry_free(&e);
    return ok;
}

/* Loads what was built, which the judge itself never does. */
static ts_status call(const ts_built *b)
{
    char                 path[32];
    ts_softmax_topk_args a = { 0 };
    ts_exec              x = { 0 };
    snprintf(path, sizeof path, "/proc/self/fd/%d", b->object);
    void *handle = dlopen(path, RTLD_NOW);
    if (!handle) fail_msg("%s", dlerror());
    ts_status (*run)(const ts_softmax_topk_args *, const ts_exec *);
    *(void **)&run = dlsym(handle, "ts_softmax_topk");
    assert_non_null(run);
    const ts_status s = run(&a, &x);
    dlclose(handle);
    return s;
}

static void builds_what_is_sound(void **state)
{
    static const char *const good[][2] = {
        { "plain.c", TOPK BODY "{ (void)a; (void)x; return TS_E_RANGE; }" },
        { "threads.c", TOPK "#include \"touchstone/sealed.h\"\n"
                            "static void f(int64_t i, void *c) { (void)i; (void)c; }\n" BODY
                            "{ (void)x; if (a->k) j_parallel_for(3, f, 0); return TS_E_RANGE; }" },
        { "maths.c", TOPK "#include <float.h>\n#include <immintrin.h>\n#include <limits.h>\n"
                          "#include <math.h>\n#include <stdbool.h>\n#include <string.h>\n"
                          "static float t[64];\n" BODY
                          "{ (void)x; for (int i = 0; i < 64; i++) t[i] = expf((float)a->k) +"
                          " tanhf(t[i]) + (float)exp(t[i]);"
                          " memset(t, 0, (size_t)a->k); __m256 v = _mm256_setzero_ps();"
                          " return isnan(t[0]) || INT_MAX < 0 || _mm256_cvtss_f32(v) > FLT_MAX ?"
                          " TS_OK : TS_E_RANGE; }" },
        { "wide.c", TOPK BODY
          "{ (void)x; __int128 v = a->k; return v * v / (v + 3) ? TS_OK : TS_E_RANGE; }" },
        { "host.c",
          TOPK "#include <stdlib.h>\n" BODY
               "{ (void)x; void *p = malloc(9); free(p); return a->k ? TS_OK : TS_E_RANGE; }" },
        { "host.cpp",
          TOPK "#include <vector>\n" BODY
               "{ (void)x; std::vector<int> v(3, 8); return (ts_status)(v[0] + a->k); }" },
    };
    ts_built   b;
    ts_refusal why;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!build(good[i][0], good[i][1], &b, &why)) fail_msg("%s: %s", good[i][0], why.text);
        if (i != 1) assert_int_equal(call(&b), TS_E_RANGE); /* nobody here has j_parallel_for */
        assert_true(pwrite(b.object, "x", 1, 0) < 0);       /* sealed */
        ts_built_free(&b);
    }
}

static void refuses_unsound_sources(void **state)
{
    static const char *const bad[][4] = {
        { "a.c", TOPK BODY "{ return oops; }", "build", "a.c:2:84: error: 'oops' undeclared" },
        { "a.c", TOPK "\x1b[2J", "build", "error" },
        { "a.c", TOPK "int x;", "missing", "no function 'ts_softmax_topk' is exported" },
        { "a.c", "int ts_softmax_topk(void) { return 0; }", "missing",
          "include its contract header" },
        { "a.c",
          TOPK "int ts_softmax_topk_;"
               "const int other = 1;",
          "missing", "ts_softmax_topk" },
        { "a.c", "#include \"stdio.h\"\n" TOPK BODY "{ printf(\"PASS\"); }", "build",
          "stdio.h: No such file" },
        { "a.c", TOPK "int printf(const char *, ...);" BODY "{ return printf(\"%d\", 3); }",
          "symbol", "calls 'printf'" },
        { "a.c", TOPK "long syscall(long, ...);" BODY "{ return syscall(39); }", "symbol",
          "calls 'syscall'" },
        { "a.c", TOPK "#include <immintrin.h>\n" BODY "{ return _mm_malloc(9, 64) != 0; }",
          "symbol", "calls 'posix_memalign'" },
        { "a.c",
          TOPK "__attribute__((weak)) void abort(void);" BODY "{ if (abort) abort(); return 0; }",
          "symbol", "calls 'abort'" },
        { "a.c",
          TOPK "static int n; __attribute__((constructor)) static void f(void) { n = 1; }" BODY
               "{ return n; }",
          "symbol", "runs at load or exit" },
        { "a.c",
          TOPK "static int n; __attribute__((destructor)) static void f(void) { n = 1; }" BODY
               "{ return n; }",
          "symbol", "runs at load or exit" },
        { "a.c",
          TOPK "static void f(void) {}"
               "__attribute__((section(\".init_array\"), used)) static void (*p)(void) = f;" BODY
               "{ return 0; }",
          "symbol", "runs at load or exit" },
        { "a.c", TOPK "_Thread_local int n;" BODY "{ return n++; }", "symbol", "thread-local" },
        { "a.c",
          TOPK "static ts_status f(void) { return 0; }"
               "static void *r(void) { return f; }"
               "TS_API ts_status g(void) __attribute__((ifunc(\"r\")));" BODY "{ return g(); }",
          "symbol", "indirect function" },
        { "a.c",
          TOPK "static ts_status f(void) { return 0; }"
               "static void *r(void) { return f; }"
               "static ts_status g(void) __attribute__((ifunc(\"r\")));" BODY "{ return g(); }",
          "symbol", "relocation of type" },
        { "a.c",
          TOPK "__asm__(\".section .x,\\\"awx\\\"\\n.byte 0\\n.text\");" BODY "{ return 0; }",
          "symbol", "writable and executable" },
        { "a.c", TOPK "#pragma GCC optimize(\"Ofast\")\n" BODY "{ return 0; }", "symbol",
          "'GCC optimize' changes the judge's flags" },
        { "a.c", TOPK "%:pra\\\ngma GCC opt\\\nimize(\"Ofast\")\n" BODY "{ return 0; }", "symbol",
          "'GCC optimize'" },
        { "a.c", TOPK "#define Q(x) _Pragma(#x)\nQ(GCC optimize(\"Ofast\"))\n" BODY "{ return 0; }",
          "symbol", "'GCC optimize'" },
        { "a.c", TOPK "#pragma STDC FENV_ACCESS ON\n" BODY "{ return 0; }", "symbol",
          "'STDC FENV_ACCESS'" },
        { "a.c", TOPK "#pragma float_control(precise, off)\n" BODY "{ return 0; }", "symbol",
          "'float_control'" },
        { "a.c", TOPK "__attribute__((optimize(\"Ofast\"))) " BODY "{ return 0; }", "symbol",
          "__attribute__((optimize))" },
        { "a.c",
          TOPK "#define O opti ## mize\n#define P(a, b) a ## b\n__attribute__((hot,\n#line 9\n"
               "P(opti, mize) (\"Ofast\"))) " BODY "{ return 0; }",
          "symbol", "__attribute__((optimize))" },
        { "a.cpp",
          TOPK "const char *s = R\"(\")\"; [[gnu::optimize(\"Ofast\")]] " BODY "{ return TS_OK; }",
          "symbol", "__attribute__((optimize))" },
        { "a.c", TOPK "#include \"/etc/passwd\"\n" BODY "{ return 0; }", "build", "/etc/passwd" },
        { "a.c", TOPK "#include \"" TS_TEST_INCLUDE "/../judge/allow.h\"\n" BODY "{ return 0; }",
          "build", "judge/allow.h" },
        { "a.c", TOPK "__asm__(\".incbin \\\"/etc/passwd\\\"\");" BODY "{ return 0; }", "build",
          "/etc/passwd" },
        { "a.c", TOPK "__asm__(\".incbin \\\"/proc/self/environ\\\"\");" BODY "{ return 0; }",
          "build", "/proc/self/environ" },
    };
    ts_built   b;
    ts_refusal why;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const bool ok = build(bad[i][0], bad[i][1], &b, &why);
        const bool files = b.guards & TS_GUARD_FILES;
        ts_built_free(&b);
        if (ok && i >= sizeof bad / sizeof *bad - 4 && !files)
            continue; /* a machine without landlock */
        if (ok) fail_msg("'%s' was built", bad[i][1]);
        if (strcmp(why.reason, bad[i][2]))
            fail_msg("'%s': %s: %s, expected %s", bad[i][1], why.reason, why.text, bad[i][2]);
        assert_said(why.text, bad[i][3]);
    }
}

static void outlives_compiler_bombs(void **state)
{
    char       text[2048] = TOPK "#define A0 1,1,1,1,1,1,1,1,\n";
    ts_built   b;
    ts_refusal why;
    (void)state;
    for (int i = 1; i < 12; i++)
        snprintf(text + strlen(text), 128, "#define A%d A%d A%d A%d A%d A%d A%d A%d A%d\n", i,
                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    strcat(text, "char x[] = { A11 };\n");
    assert_false(build("a.c", text, &b, &why));
    ts_built_free(&b);
    assert_string_equal(why.reason, "build");
    assert_false(
        build("a.c", TOPK "char x[3000000000] = { 1 };" BODY "{ return x[a->k]; }", &b, &why));
    ts_built_free(&b);
    assert_true(!strcmp(why.reason, "build") || !strcmp(why.reason, "size"));
    assert_false(build("a.c", "#include \"a.c\"\n", &b, &why));
    ts_built_free(&b);
}

static void confines(void **state)
{
    static const char *const hang[] = { "sh", "-c", "sleep 60 & sleep 60", NULL };
    static const char *const flood[] = { "sh", "-c", "yes x | head -c 3000000; exit 3", NULL };
    static const char *const none[] = { "no-such-program-anywhere", NULL };
    static const char *const look[] = { "sh", "-c",
                                        "cat /etc/passwd && echo SAW; echo x >/tmp/x.$$;"
                                        " env; ls -l /proc/self/fd | wc -l",
                                        NULL };
    ts_confined              c;
    (void)state;
    assert_true(ts_confine(home, home, hang, 1, &c));
    assert_true(c.late);
    assert_true(ts_confine(home, home, flood, 20, &c));
    assert_int_equal(c.status, 3 << 8);
    assert_int_equal(strlen(c.said), sizeof c.said - 1);
    assert_true(ts_confine(home, home, none, 20, &c));
    assert_int_equal(c.status, 127 << 8);
    setenv("TS_SECRET", "secret", 1);
    assert_true(ts_confine(home, home, look, 20, &c));
    assert_null(strstr(c.said, "TS_SECRET"));
    if (c.guards & TS_GUARD_FILES) assert_null(strstr(c.said, "SAW"));
    print_message("guards: files %d, network %d, user %d\n", !!(c.guards & TS_GUARD_FILES),
                  !!(c.guards & TS_GUARD_NETWORK), !!(c.guards & TS_GUARD_USER));
}

/* ---- adapters ---- */

static void builds_through_an_adapter(void **state)
{
    ts_candidate e;
    ts_refusal   why;
    ts_built     b;
    ts_places    p = { .include = TS_TEST_INCLUDE };
    (void)state;
    /* A stranger's kernel: k as a macro, other names, other order. */
    write_text("theirs.c",
               "#define GLUE2(a, b) a##b\n#define GLUE(a, b) GLUE2(a, b)\n"
               "static int GLUE(topk_, K)(int n, const float *x) { (void)x; return n + K; }\n");
    write_text("adapter.c", TOPK "#define K 4\n#include \"theirs.c\"\n#undef K\n#define K 8\n"
                                 "#include \"theirs.c\"\n" BODY
                                 "{ (void)x; return (ts_status)(a->k ? topk_4(0, a->logits) :"
                                 " topk_8(0, a->logits)); }");
    write_text("entry.json",
               "{" HEAD SEALED "\"sources\":[\"theirs.c\"],\"adapter\":\"adapter.c\"}");
    if (!ts_entry_read(home, NULL, &e, &why)) fail_msg("%s", why.text);
    if (!ts_build(&e, &p, NULL, &b, &why)) fail_msg("%s", why.text);
    assert_int_equal(call(&b), 8);
    ts_built_free(&b);
    ts_entry_free(&e);
}

/* ---- objects ---- */

/* Renames a dynamic tag of the object. */
static void retag(char *bytes, int64_t from, int64_t to)
{
    Elf64_Ehdr h;
    Elf64_Phdr p = { 0 };
    memcpy(&h, bytes, sizeof h);
    for (int i = 0; i < h.e_phnum && p.p_type != PT_DYNAMIC; i++)
        memcpy(&p, bytes + h.e_phoff + (size_t)i * sizeof p, sizeof p);
    for (size_t at = p.p_offset; at < p.p_offset + p.p_filesz; at += sizeof(Elf64_Dyn)) {
        int64_t tag;
        memcpy(&tag, bytes + at, sizeof tag);
        if (tag != from) continue;
        memcpy(bytes + at, &to, sizeof to);
        return;
    }
    fail_msg("no tag %lld", (long long)from);
}

static void refuses_tag(char *bytes, size_t n, int64_t tag, const char *part)
{
    ts_refusal why;
    retag(bytes, DT_FLAGS_1, tag);
    assert_false(ts_audit(bytes, n, TS_SEALED, "softmax_topk", &why));
    assert_said(why.text, part);
    retag(bytes, tag, DT_FLAGS_1);
}

/* Every byte of a sound object, changed in a few ways: never a crash, and no export that is not. */
static void audits_any_bytes(void **state)
{
    static char bytes[1 << 20];
    ts_built    b;
    ts_refusal  why;
    (void)state;
    assert_true(
        build("a.c", TOPK "#include <math.h>\n" BODY "{ return expf(a->k) > 1; }", &b, &why));
    const ssize_t n = pread(b.object, bytes, sizeof bytes, 0);
    assert_true(n > 1000 && (size_t)n == b.n_bytes);
    assert_true(ts_audit(bytes, (size_t)n, TS_SEALED, "softmax_topk", &why));
    assert_true(ts_audit_exports(bytes, (size_t)n, "ts_softmax_topk"));
    assert_false(ts_audit(bytes, (size_t)n, TS_SEALED, "layernorm_forward", &why));
    assert_string_equal(why.reason, "missing");
    for (ssize_t i = 0; i < n; i++) {
        const char was = bytes[i];
        for (int j = 0; j < 3; j++) {
            bytes[i] = (char)(j == 0 ? 0xff : j == 1 ? 0 : was + 1);
            ts_audit(bytes, (size_t)n, TS_SEALED, "softmax_topk", &why);
        }
        bytes[i] = was;
    }
    refuses_tag(bytes, (size_t)n, DT_NEEDED, "needs the library");
    refuses_tag(bytes, (size_t)n, DT_TEXTREL, "relocations in code");
    refuses_tag(bytes, (size_t)n, DT_INIT, "runs at load or exit");
    refuses_tag(bytes, (size_t)n, DT_RUNPATH, "a dynamic tag that no sealed entrant has");
    char *exact;
    for (size_t cut = 0; cut < (size_t)n; cut += 7) { /* at its true size, for the sanitizer */
        exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        ts_audit(exact, cut, TS_HOST, "softmax_topk", &why);
        free(exact);
    }
    assert_false(ts_audit(bytes, 63, TS_HOST, "softmax_topk", &why));
    assert_said(why.text, "no ELF header");
    bytes[EI_CLASS] = ELFCLASS32;
    assert_false(ts_audit(bytes, (size_t)n, TS_HOST, "softmax_topk", &why));
    assert_said(why.text, "no 64-bit ELF header");
    ts_built_free(&b);
}

static void audits_prebuilt_objects(void **state)
{
    ts_candidate e;
    ts_refusal   why;
    ts_built     b, again;
    ts_places    p = { .include = TS_TEST_INCLUDE };
    static char  bytes[1 << 20];
    (void)state;
    assert_true(build("a.cpp", TOPK BODY "{ return TS_E_RANGE; }", &b, &why));
    const ssize_t n = pread(b.object, bytes, sizeof bytes, 0);
    write_file("theirs.so", bytes, (size_t)n);
    if (!ts_entry_read(in_home("theirs.so"), NULL, &e, &why)) fail_msg("%s", why.text);
    assert_int_equal(e.cls, TS_HOST);
    assert_int_equal(e.language, TS_BINARY);
    if (!ts_build(&e, &p, NULL, &again, &why)) fail_msg("%s", why.text);
    assert_string_equal(again.sha256, b.sha256);
    assert_int_equal(call(&again), TS_E_RANGE);
    ts_built_free(&again);
    /* The same file would be refused as a sealed one. */
    assert_false(ts_audit(bytes, (size_t)n, TS_SEALED, "softmax_topk", &why));
    assert_string_equal(why.reason, "symbol");
    ts_built_free(&b);
    ts_entry_free(&e);
    write_text("text.so", "not an object");
    assert_refused(in_home("text.so"), "entry", "no function of a challenge was found");
}

#define IN_HOME(f) cmocka_unit_test_setup_teardown(f, make_home, drop_home)

int main(int argc, char **argv) /* [FILTER]: the tests whose names match */
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_as_the_standard_says),
        cmocka_unit_test(reads_what_is_json),
        cmocka_unit_test(refuses_what_is_not),
        cmocka_unit_test(escapes_what_could_harm),
        IN_HOME(reads_a_folder),
        IN_HOME(refuses_bad_entries),
        IN_HOME(reads_single_files),
        IN_HOME(tells_families),
        IN_HOME(lists_folders),
        IN_HOME(builds_what_is_sound),
        IN_HOME(refuses_unsound_sources),
        IN_HOME(outlives_compiler_bombs),
        IN_HOME(confines),
        IN_HOME(builds_through_an_adapter),
        IN_HOME(audits_any_bytes),
        IN_HOME(audits_prebuilt_objects),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
