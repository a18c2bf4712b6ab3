/* SPDX-License-Identifier: Apache-2.0 */
/* unit_reading.c - tests the seam between judge and reader: a reader that was taken over, crashes
 * or hangs costs its entrant, and nothing else. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cage.h"
#include "clock.h"
#include "forbid.h"
#include "isa_calls.h"
#include "kind.h"
#include "reader_here.h"
#include "unit_entrant.h"

#define FOLDER                                                                                     \
    "{" HEAD "\"class\":\"host\",\"language\":\"c\",\"sources\":[\"k.c\",\"k.h\"],\"adapter\":"    \
    "\"adapter.c\",\"offers\":\"k <= 32\"}"
#define GPU                                                                                        \
    "{" HEAD "\"class\":\"sealed-gpu\",\"language\":\"cuda\",\"sources\":[\"k.cu\"],\"launch\":["  \
    "{\"kernel\":\"k\",\"grid\":[\"1\"],\"block\":[\"1\"],\"args\":[\"i64 k\"]}]}"
#define BINARY "{" HEAD "\"class\":\"host\",\"language\":\"binary\",\"sources\":[\"k.so\"]}"
#define ANSWER "a\n```c\nint ts_softmax_topk(void) { return 0; }\n```\n"

static void lay_out(void)
{
    write_text("k.c", "int ts_softmax_topk(void) { return 0; } // why\n");
    write_text("k.h", "#define K 1\n");
    write_text("adapter.c", "#include \"k.c\"\n");
    write_text("k.cu", "__global__ void k(long n) {}\n");
    write_text("k.so", "no object");
    write_text("one.c",
               "// touchstone-offers: k < 9\n#include <stdio.h>\nint ts_softmax_topk();\n");
    write_text("bad.c", "// touchstone-offers:\nint ts_softmax_topk();\n");
    write_text("one.py", "def softmax_topk(x): pass # why\n");
    write_text("one.md", ANSWER);
    write_text("none.md", "I am sorry.\n");
}

/* ---- a process reads the same ---- */

static void assert_same(const char *path, const char *challenge)
{
    ts_entrant a, b;
    ts_refusal of_a, of_b;
    const bool here = ts_entrant_read_with(ask_here, NULL, path, challenge, &a, &of_a);
    const bool there = ts_entrant_read(path, challenge, &b, &of_b);
    if (here != there) fail_msg("%s: '%s', then '%s'", path, of_a.text, of_b.text);
    assert_string_equal(of_a.text, of_b.text);
    assert_int_equal(a.n_sources, b.n_sources);
    for (int i = 0; i < a.n_sources; i++) {
        assert_int_equal(a.source[i].n, b.source[i].n);
        assert_memory_equal(a.source[i].bytes, b.source[i].bytes, a.source[i].n + 1);
        free(a.source[i].bytes);
        free(b.source[i].bytes);
        a.source[i].bytes = b.source[i].bytes = NULL;
    }
    assert_memory_equal(&a, &b, sizeof a);
}

static void a_process_reads_the_same(void **state)
{
    static const char *const json[] = { FOLDER, GPU, BINARY, "{", "{" HEAD "}" };
    (void)state;
    lay_out();
    for (size_t i = 0; i < sizeof json / sizeof *json; i++) {
        write_text("entry.json", json[i]);
        assert_same(home, NULL);
    }
    assert_same(in_home("one.c"), NULL);
    assert_same(in_home("bad.c"), NULL);
    assert_same(in_home("one.py"), "softmax_topk");
    assert_same(in_home("one.md"), NULL);
    assert_same(in_home("one.md"), "kv_cache");
    assert_same(in_home("none.md"), "softmax_topk");
}

/* ---- processes that misbehave ---- */

static void assert_ends(const char *reason, int limit_s, const char *script, const char *part)
{
    char           text[256];
    ts_reader_file reader = { .path = in_home("stub"), .limit_s = limit_s };
    ts_entrant     e;
    ts_refusal     why;
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    write_text("stub", text);
    assert_int_equal(chmod(reader.path, 0700), 0);
    const double from_s = ts_seconds();
    assert_false(ts_entrant_read_with(ts_ask_process, &reader, home, NULL, &e, &why));
    ts_entrant_free(&e);
    assert_string_equal(why.reason, reason);
    assert_said(why.text, "the reader ");
    assert_said(why.text, part);
    assert_true(ts_seconds() - from_s < 50); /* on a busy machine; one that hangs would take 100 */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

/* A reader that has read something: the text may have done it. */
static void assert_stub(int limit_s, const char *script, const char *part)
{
    char text[200];
    snprintf(text, sizeof text, "head -c 9 >/dev/null; %s", script);
    assert_ends("entry", limit_s, text, part);
}

static void bad_readers_are_refused(void **state)
{
    char whole[128], garbage[128];
    (void)state;
    write_text("entry.json", FOLDER);
    lay_out();
    snprintf(whole, sizeof whole, "exec head -c %zu /dev/zero", sizeof(ts_reading));
    snprintf(garbage, sizeof garbage, "exec head -c %zu /dev/urandom", sizeof(ts_reading));
    assert_stub(40, "exit 0", "sent 0 bytes, expected");
    assert_stub(40, "exit 3", "ended with status 3");
    assert_stub(40, "exec head -c 100 /dev/zero", "sent 100 bytes, expected");
    assert_stub(40, "exec cat /dev/zero", "bytes or more, expected");
    assert_stub(40, whole, "sent an invalid mark");
    assert_stub(40, garbage, "sent an invalid mark");
    assert_stub(40, "kill -SEGV $$", "crashed: Segmentation fault");
    assert_stub(2, "exec sleep 100", "took more than 2 s");
    assert_stub(40, "exec >&-; exec sleep 100", "sent 0 bytes, expected"); /* lingers */
    assert_stub(2, "while :; do :; done", "took more than 2 s");
}

/* What goes wrong before the reader has read a byte is no fault of the entrant. */
static void the_judges_faults_are_its_own(void **state)
{
    ts_reader_file none = { .path = "/nowhere", .limit_s = 40 };
    ts_entrant     e;
    ts_refusal     why;
    (void)state;
    write_text("entry.json", FOLDER);
    lay_out();
    assert_ends("error", 40, "exit 0", "the reader read nothing");
    assert_ends("error", 40, "exit 127", "ended with status 127");
    assert_ends("error", 40, "echo RLIMIT_AS: no; exit 1", "ended with status 1: RLIMIT_AS: no");
    assert_ends("error", 40, "kill -SEGV $$", "crashed: Segmentation fault");
    assert_ends("error", 1, "exec sleep 100", "took more than 1 s");
    assert_false(ts_entrant_read_with(ts_ask_process, &none, home, NULL, &e, &why));
    assert_string_equal(why.reason, "error");
    assert_said(why.text, "the reader ended with status 126: /nowhere: No such file or directory");
}

/* Exits with 0 if the judge, without a feature, says `part` of an entrant; 77: cannot be forbidden.
 */
static int ends_without(const char *feature, const char *part)
{
    int         status;
    const pid_t pid = fork();
    if (pid == 0) {
        ts_entrant e;
        ts_refusal why;
        if ((status = forbid(feature))) _exit(status);
        const bool ok = ts_entrant_read(home, NULL, &e, &why);
        if (ok || strcmp(why.reason, "error") || !strstr(why.text, part))
            print_error("without %s: '%s', expected '%s'\n", feature, why.text, part), _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status >> 8;
}

static void failed_steps_are_named(void **state)
{
    static const char *const step[][2] = {
        { "limits", "RLIMIT_CPU: Function not implemented" },
        { "death", "PR_SET_PDEATHSIG: Function not implemented" },
        { "memfd", "memory for the question: Function not implemented" },
        { "pipes", "pipe: Function not implemented" },
        { "processes", "fork: Function not implemented" },
    };
    (void)state;
    write_text("entry.json", FOLDER);
    lay_out();
    for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
        const int status = ends_without(step[i][0], step[i][1]);
        if (status == 77) skip();
        assert_int_equal(status, 0);
    }
}

/* It can open nothing, and a filter is in place, before it has read a byte. */
static void the_reader_is_confined(void **state)
{
    char        path[4096], status[4096] = "";
    int         in[2];
    const bool  filters = TS_ISA_AUDIT_ARCH && !access("/proc/sys/kernel/seccomp", F_OK);
    const char *wanted = filters ? "Seccomp:\t2" : "NoNewPrivs:\t1";
    (void)state;
    assert_true(ts_beside("touchstone-reader", path, sizeof path));
    assert_int_equal(pipe(in), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        close(in[1]);
        execl(path, path, NULL);
        _exit(127);
    }
    for (int i = 0; i < 2000 && !strstr(status, wanted); i++) {
        char file[64];
        usleep(5000);
        snprintf(file, sizeof file, "/proc/%d/status", (int)pid);
        const int     fd = open(file, O_RDONLY);
        const ssize_t n = fd < 0 ? -1 : read(fd, status, sizeof status - 1);
        status[n > 0 ? n : 0] = 0;
        close(fd);
    }
    assert_non_null(strstr(status, wanted));
    assert_non_null(strstr(status, "NoNewPrivs:\t1"));
    close(in[0]);
    close(in[1]);
    int ended;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 2); /* no question */
}

/* ---- replies that lie ---- */

typedef struct lie {
    uint32_t    what; /* in the reply to this question: a ts_read_what */
    size_t      at, n;
    const char *bytes; /* NULL: n times 'x' */
    const char *part;  /* of the refusal */
} lie;

static bool ask_liar(const void *reader, const ts_question *q, const ts_source *file,
                     ts_reply *reply, ts_refusal *why)
{
    const lie *l = reader;
    ask_here(NULL, q, file, reply, why);
    if (q->what != l->what) return true;
    if (l->bytes) memcpy(reply->bytes + l->at, l->bytes, l->n);
    else memset(reply->bytes + l->at, 'x', l->n);
    return true;
}

static void assert_found_out(const lie *l, const char *path)
{
    ts_entrant e;
    ts_refusal why;
    if (ts_entrant_read_with(ask_liar, l, path, NULL, &e, &why)) fail_msg("read: '%s'", l->part);
    ts_entrant_free(&e);
    assert_said(why.text, l->part);
}

#define ALL(member)        offsetof(ts_reading, member), sizeof(((ts_reading *)0)->member)
#define TEXT(member, text) offsetof(ts_reading, member), sizeof(text), text
#define WORD(member, number)                                                                       \
    offsetof(ts_reading, member), 4, (const char *)(const uint32_t[])                              \
    {                                                                                              \
        number                                                                                     \
    }
#define LONG(member, number)                                                                       \
    offsetof(ts_reading, member), 8, (const char *)(const uint64_t[])                              \
    {                                                                                              \
        number                                                                                     \
    }
#define BYTE(member) offsetof(ts_reading, member), 1, "\2"

static void lies_in_an_entry_are_found(void **state)
{
    enum { E = TS_READ_ENTRY, S = TS_READ_SOURCES };
    const lie lies[] = {
        { E, WORD(mark, 1), "invalid mark" },
        { E, WORD(reason, TS_N_READING_REASONS), "invalid reason" },
        { E, WORD(reason, 1), "invalid reason" }, /* without words */
        { E, TEXT(text, "words"), "invalid reason" },
        { E, ALL(text), NULL, "invalid string" },
        { E, ALL(name), NULL, "invalid string" },
        { E, ALL(author), NULL, "invalid string" },
        { E, ALL(task), NULL, "invalid string" },
        { E, ALL(launch), NULL, "invalid string" },
        { E, ALL(offers), NULL, "invalid string" },
        { E, ALL(cause), NULL, "invalid string" },
        { E, ALL(family), NULL, "invalid string" },
        { E, ALL(source[0]), NULL, "invalid string" },
        { E, ALL(source[31]), NULL, "invalid string" },
        { E, TEXT(name, "a\x1b[2J"), "invalid name" },
        { E, TEXT(name, "a\xff"), "invalid name" },
        { E, TEXT(name, ""), "invalid name" },
        { E, TEXT(author, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
          "invalid name" },
        { E, TEXT(task, ""), "invalid name" },
        { E, TEXT(task, "sort"), "challenge: got 'sort'" },
        { E, WORD(cls, TS_N_CLASSES), "invalid class" },
        { E, WORD(cls, UINT32_MAX), "invalid class" },
        { E, WORD(cls, TS_PYTHON), "invalid class" },
        { E, WORD(language, TS_N_LANGUAGES), "invalid class" },
        { E, WORD(language, TS_BINARY), "invalid number of sources" },
        { E, WORD(n_sources, TS_ENTRANT_SOURCES + 1), "invalid number of sources" },
        { E, WORD(n_sources, 0), "invalid number of sources" },
        { E, WORD(n_sources, 2), "invalid adapter" },
        { E, WORD(adapter, 3), "invalid adapter" },
        { E, WORD(adapter, 0), "invalid adapter" },
        { E, WORD(adapter, (uint32_t)-2), "invalid adapter" },
        { E, WORD(adapter, INT32_MAX), "invalid adapter" },
        { E, TEXT(launch, "kernel k\n"), "invalid launch plan" },
        { E, TEXT(launch, "\t"), "invalid launch plan" },
        { E, TEXT(offers, "a\nb"), "invalid scope" },
        { E, TEXT(source[0], "../k.c"), "source '../k.c': expected a path" },
        { E, TEXT(source[0], "/etc/passwd"), "source '/etc/passwd': expected a path" },
        { E, TEXT(source[0], "k.o"), "source 'k.o': extension" },
        { E, TEXT(source[1], "k.c"), "source 'k.c': listed twice" },
        { E, WORD(filtered, 2), "invalid flag" },
        { E, BYTE(host), "invalid flag" },
        { E, BYTE(calls[63]), "invalid flag" },
        { S, BYTE(included[31]), "invalid flag" },
        { S, TEXT(family, "0123456789abcdef"), "invalid family" },
        { S, TEXT(family, "Z123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
          "invalid family" },
    };
    (void)state;
    lay_out();
    write_text("entry.json", FOLDER);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) assert_found_out(&lies[i], home);
    const lie plan = { E, TEXT(launch, ""), "invalid launch plan" };
    write_text("entry.json", GPU);
    assert_found_out(&plan, home);
}

static void lies_about_a_file_are_found(void **state)
{
    enum { F = TS_READ_FILE, N = sizeof ANSWER - 1 };
    const lie lies[] = {
        { F, LONG(block.at, N + 1), "invalid block" },
        { F, LONG(block.at, UINT64_MAX), "invalid block" },
        { F, LONG(block.n, N), "invalid block" },
        { F, LONG(block.n, UINT64_MAX), "invalid block" },
        { F, WORD(block.language, TS_BINARY), "invalid block" },
        { F, WORD(block.language, UINT32_MAX), "invalid block" },
        { F, WORD(block.of, UINT32_MAX), "invalid block" },
        { F, WORD(block.found, 2), "invalid flag" },
        { F, WORD(block.closed, 0x100), "invalid flag" },
        { F, TEXT(cause, "a\x1b[2J"), "invalid block" },
        { F, TEXT(family, ""), "invalid family" },
        { F, TEXT(offers, "\xff"), "invalid scope" },
    };
    (void)state;
    lay_out();
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        assert_found_out(&lies[i], in_home("one.md"));
}

/* What an author could have written is no lie, and what the operator said stays. */
static void the_operator_decides(void **state)
{
    const lie  names = { TS_READ_FILE, TEXT(name, "another"), NULL };
    const lie  calls = { TS_READ_FILE, offsetof(ts_reading, calls), 3, "\0\0", NULL };
    ts_entrant e;
    ts_refusal why;
    (void)state;
    lay_out();
    assert_true(ts_entrant_read_with(ask_liar, &names, in_home("one.c"), NULL, &e, &why));
    assert_string_equal(e.name, "one");
    assert_string_equal(e.author, "unknown");
    ts_entrant_free(&e);
    assert_true(ts_entrant_read_with(ask_liar, &calls, in_home("one.c"), "kv_cache", &e, &why));
    assert_string_equal(e.task, "kv_cache");
    assert_string_equal(e.cause, "#include <stdio.h>");
    ts_entrant_free(&e);
}

int main(int argc, char **argv) /* [FILTER]: the tests whose names match */
{
    const struct CMUnitTest tests[] = {
        IN_HOME(a_process_reads_the_same),        IN_HOME(bad_readers_are_refused),
        IN_HOME(the_judges_faults_are_its_own),   IN_HOME(failed_steps_are_named),
        cmocka_unit_test(the_reader_is_confined), IN_HOME(lies_in_an_entry_are_found),
        IN_HOME(lies_about_a_file_are_found),     IN_HOME(the_operator_decides),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
