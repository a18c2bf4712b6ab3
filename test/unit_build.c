/* SPDX-License-Identifier: Apache-2.0 */
/* unit_build.c - tests the build of submitted files: sources, adapters, objects. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit.h"
#include "build.h"
#include "confine.h"
#include "forbid.h"
#include "isa_source.h"
#include "touchstone/softmax_topk.h"
#include "unit_entrant.h"

/* ---- builds ---- */

#define TOPK "#include \"touchstone/softmax_topk.h\"\n"
#define BODY "ts_status ts_softmax_topk(const ts_softmax_topk_args *a, const ts_exec *x)"

static bool build(const char *name, const char *text, ts_built *b, ts_refusal *why)
{
    ts_entrant e;
    ts_places  p = { .include = TS_TEST_INCLUDE };
    write_text(name, text);
    if (!ts_entrant_read(in_home(name), "softmax_topk", &e, why)) fail_msg("%s", why->text);
    const bool ok = ts_build(&e, &p, NULL, b, why);
    ts_entrant_free(&e);
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

TEST_WITH(builds_what_is_sound, make_home, drop_home)
{
    static const char *const good[][2] = {
        { "plain.c", TOPK BODY "{ (void)a; (void)x; return TS_E_RANGE; }" },
        { "threads.c", TOPK "#include \"touchstone/sealed.h\"\n"
                            "static void f(int64_t i, void *c) { (void)i; (void)c; }\n" BODY
                            "{ (void)x; if (a->k) j_parallel_for(3, f, 0); return TS_E_RANGE; }" },
        { "maths.c",
          TOPK "#include <float.h>\n#include <" TS_ISA_INTRINSICS ">\n#include <limits.h>\n"
               "#include <math.h>\n#include <stdbool.h>\n#include <string.h>\n"
               "static float t[64];\n" BODY
               "{ (void)x; for (int i = 0; i < 64; i++) t[i] = expf((float)a->k) +"
               " tanhf(t[i]) + (float)exp(t[i]);"
               " memset(t, 0, (size_t)a->k);"
               " return isnan(t[0]) || INT_MAX < 0 || " TS_ISA_ZERO " > FLT_MAX ?"
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
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        if (!build(good[i][0], good[i][1], &b, &why)) fail_msg("%s: %s", good[i][0], why.text);
        if (i != 1) assert_int_equal(call(&b), TS_E_RANGE); /* j_parallel_for is not defined here */
        assert_true(pwrite(b.object, "x", 1, 0) < 0);       /* sealed */
        ts_built_free(&b);
    }
}

TEST_WITH(refuses_unsound_sources, make_home, drop_home)
{
    static const char *const bad[][4] = {
        { "a.c", TOPK BODY "{ return oops; }", "build", "a.c:2:84: error: 'oops' undeclared" },
        { "a.c", TOPK "\x1b[2J", "build", "error" },
        { "a.c", TOPK "#error Killed\n", "build", "#error Killed" },
        { "a.c", TOPK "#line 1 \"cc1 died due to signal 9\"\nint rowsKilled = here;", "build",
          "here" },
        { "a.c", TOPK "int x;", "missing", "function 'ts_softmax_topk' is not defined, or hidden" },
        { "a.c", "int ts_softmax_topk(void) { return 0; }", "missing",
          "its header exports the function" },
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
        { "a.c",
          TOPK "int posix_memalign(void **, size_t, size_t);\n" BODY
               "{ void *p; return posix_memalign(&p, 64, 9); }",
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
        { "a.c",
          TOPK "#include \"" TS_TEST_INCLUDE "/../judge/protocol/allow.h\"\n" BODY "{ return 0; }",
          "build", "judge/protocol/allow.h" },
        { "a.c", TOPK "__asm__(\".incbin \\\"/etc/passwd\\\"\");" BODY "{ return 0; }", "build",
          "/etc/passwd" },
        { "a.c", TOPK "__asm__(\".incbin \\\"/proc/self/environ\\\"\");" BODY "{ return 0; }",
          "build", "/proc/self/environ" },
    };
    ts_built   b;
    ts_refusal why;
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

TEST_WITH(outlives_compiler_bombs, make_home, drop_home)
{
    char       text[2048] = TOPK "#define A0 1,1,1,1,1,1,1,1,\n";
    ts_built   b;
    ts_refusal why;
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

TEST_WITH(confines, make_home, drop_home)
{
    static const char *const hang[] = { "sh", "-c", "sleep 60 & sleep 60", NULL };
    static const char *const flood[] = { "sh", "-c", "yes x | head -c 3000000; exit 3", NULL };
    static const char *const none[] = { "no-such-program-anywhere", NULL };
    static const char *const look[] = { "sh", "-c",
                                        "cat /etc/passwd && echo SAW; echo x >/tmp/x.$$;"
                                        " env; ls -l /proc/self/fd | wc -l",
                                        NULL };
    /* What a process computes that the driver started counts, although both are killed together. */
    static const char *const spin[] = { "sh", "-c", "sh -c 'while :; do :; done'; true", NULL };
    ts_confined              c;
    assert_true(ts_confine(home, home, hang, 1, &c));
    assert_true(c.late && !c.starved);
    for (int i = 0; i < 3; i++) {
        assert_true(ts_confine(home, home, spin, 3, &c));
        assert_true(c.late && c.cpu_s > 0.1);
    }
    assert_true(ts_confine(home, home, flood, 20, &c));
    assert_int_equal(c.status, 3 << 8);
    assert_int_equal(strlen(c.said), sizeof c.said - 1);
    assert_false(ts_confine(home, home, none, 20, &c));
    assert_said(c.said, "no-such-program-anywhere: ");
    assert_false(ts_confine(home, "/nowhere", flood, 20, &c));
    assert_string_equal(c.said, "/nowhere: No such file or directory");
    setenv("TS_SECRET", "secret", 1);
    assert_true(ts_confine(home, home, look, 20, &c));
    assert_null(strstr(c.said, "TS_SECRET"));
    if (c.guards & TS_GUARD_FILES) assert_null(strstr(c.said, "SAW"));
    print_message("guards: files %d, network %d, user %d\n", !!(c.guards & TS_GUARD_FILES),
                  !!(c.guards & TS_GUARD_NETWORK), !!(c.guards & TS_GUARD_USER));
}

/* What `of` says, in a process of its own that lacks a feature. False: it cannot be forbidden. */
static bool says_without(const char *feature, void of(char said[512]), char said[512])
{
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        char text[512] = "";
        if ((status = forbid(feature))) _exit(status);
        of(text);
        _exit(write(out[1], text, sizeof text) != sizeof text);
    }
    close(out[1]);
    const ssize_t n = read(out[0], said, 512);
    close(out[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status == 77 << 8) return false;
    assert_int_equal(status, 0);
    assert_int_equal(n, 512);
    return true;
}

static void confine_one(char said[512])
{
    static const char *const fine[] = { "true", NULL };
    ts_confined              c;
    const bool               ok = ts_confine(home, home, fine, 20, &c);
    snprintf(said, 512, "%d %.400s", ok, c.said);
}

static void build_one(char said[512])
{
    ts_built   b;
    ts_refusal why;
    ts_entrant e = { .cls = TS_HOST, .language = TS_C, .n_sources = 1, .adapter = -1 };
    ts_places  p = { .include = TS_TEST_INCLUDE };
    e.source[0] = (ts_source) { "a.c", "int x;", 6, true };
    const bool ok = ts_build(&e, &p, NULL, &b, &why);
    snprintf(said, 512, "%d %s: %.400s", ok, why.reason, why.text);
    ts_built_free(&b);
}

/* A compiler that cannot be confined does not run, and its entrant is not to blame. */
TEST_WITH(a_failed_step_is_the_judges_fault, make_home, drop_home)
{
    static const char *const step[][2] = {
        { "limits", "RLIMIT_CPU: Function not implemented" },
        { "death", "PR_SET_PDEATHSIG: Function not implemented" },
        { "pipes", "pipe: Function not implemented" },
        { "processes", "fork: Function not implemented" },
    };
    char said[512];
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        if (!says_without(step[i][0], confine_one, said)) skip();
        assert_said(said, "0 ");
        assert_string_equal(said + 2, step[i][1]);
        assert_true(says_without(step[i][0], build_one, said));
        assert_said(said, "0 error: ");
        assert_said(said, i < 2 ? "locating headers: the compiler could not be started: "
                                : "no temporary folder: ");
        assert_said(said, strstr(step[i][1], ": "));
    }
}

/* ---- adapters ---- */

TEST_WITH(builds_through_an_adapter, make_home, drop_home)
{
    ts_entrant e;
    ts_refusal why;
    ts_built   b;
    ts_places  p = { .include = TS_TEST_INCLUDE };
    /* A third-party kernel: k as a macro, other names, other order. */
    write_text("theirs.c",
               "#define GLUE2(a, b) a##b\n#define GLUE(a, b) GLUE2(a, b)\n"
               "static int GLUE(topk_, K)(int n, const float *x) { (void)x; return n + K; }\n");
    write_text("adapter.c", TOPK "#define K 4\n#include \"theirs.c\"\n#undef K\n#define K 8\n"
                                 "#include \"theirs.c\"\n" BODY
                                 "{ (void)x; return (ts_status)(a->k ? topk_4(0, a->logits) :"
                                 " topk_8(0, a->logits)); }");
    write_text("entry.json",
               "{" HEAD SEALED "\"sources\":[\"theirs.c\"],\"adapter\":\"adapter.c\"}");
    if (!ts_entrant_read(home, NULL, &e, &why)) fail_msg("%s", why.text);
    if (!ts_build(&e, &p, NULL, &b, &why)) fail_msg("%s", why.text);
    assert_int_equal(call(&b), 8);
    ts_built_free(&b);
    ts_entrant_free(&e);
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
TEST_WITH(audits_any_bytes, make_home, drop_home)
{
    static char bytes[1 << 20];
    ts_built    b;
    ts_refusal  why;
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
    refuses_tag(bytes, (size_t)n, DT_NEEDED, "needs library");
    refuses_tag(bytes, (size_t)n, DT_TEXTREL, "relocations in code");
    refuses_tag(bytes, (size_t)n, DT_INIT, "runs at load or exit");
    refuses_tag(bytes, (size_t)n, DT_RUNPATH, "a dynamic tag not allowed in a sealed entrant");
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

TEST_WITH(audits_prebuilt_objects, make_home, drop_home)
{
    ts_entrant  e;
    ts_refusal  why;
    ts_built    b, again;
    ts_places   p = { .include = TS_TEST_INCLUDE };
    static char bytes[1 << 20];
    assert_true(build("a.cpp", TOPK BODY "{ return TS_E_RANGE; }", &b, &why));
    const ssize_t n = pread(b.object, bytes, sizeof bytes, 0);
    write_file("theirs.so", bytes, (size_t)n);
    if (!ts_entrant_read(in_home("theirs.so"), NULL, &e, &why)) fail_msg("%s", why.text);
    assert_int_equal(e.cls, TS_HOST);
    assert_int_equal(e.language, TS_BINARY);
    if (!ts_build(&e, &p, NULL, &again, &why)) fail_msg("%s", why.text);
    assert_string_equal(again.sha256, b.sha256);
    assert_int_equal(call(&again), TS_E_RANGE);
    ts_built_free(&again);
    /* The same file would be rejected as a sealed one. */
    assert_false(ts_audit(bytes, (size_t)n, TS_SEALED, "softmax_topk", &why));
    assert_string_equal(why.reason, "symbol");
    ts_built_free(&b);
    ts_entrant_free(&e);
    write_text("text.so", "not an object");
    assert_refused(in_home("text.so"), "entry", "found no function of a challenge");
}

int main(int argc, char **argv) /* [FILTER]: the tests whose names match */
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return unit_run();
}
