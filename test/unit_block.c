/* SPDX-License-Identifier: Apache-2.0 */
/* unit_block.c - tests many slots and calls in one cage, the input line that changes at go, objects
 * that the loader must reject, and Python's cage. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "rng.h"
#include "unit_cage.h"

enum { SLOTS = 32 };

/* ---- many ---- */

TEST(a_block_of_32_slots_and_1000_calls)
{
    ts_case      c[SLOTS] = { { 0 } };
    ts_want      want[2 * 3000];
    ts_cage_plan p = plan_for(TS_SEALED, c, 1);
    p.n_slots = SLOTS;
    for (int i = 0; i < SLOTS; i++) {
        c[i] = probe_case(TS_PROBE_RIGHT, i ? 1 + 90 * i : 0);
        c[i].dim[2] = i % 2;
        p.slot[i] = &c[i];
        p.seed[i] = ts_mix((uint64_t)i); /* anywhere */
    }
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    if (!k) fail_msg("no cage: %s", why);
    for (int i = 0; i < 1000; i++) {
        const int   s = i * 7 % SLOTS;
        ts_call     r;
        const void *args = ts_cage_fill(k, s, ts_mix((uint64_t)i));
        ts_task_probe.oracle(&c[s], args, want);
        if (!ts_cage_call(k, s, &r))
            fail_msg("call %d: %s (%s; cpu before %.0f, after %.0f)", i, ts_call_reason(&r), r.text,
                     r.cpu_before_ns, r.cpu_after_ns);
        assert_true(answer_is_right(k, s, &c[s], args, want));
    }
    ts_cage_stop(&k);
}

TEST(without_a_fill_the_inputs_are_the_same)
{
    const ts_case      c = probe_case(TS_PROBE_RIGHT, 5000);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    ts_call            r;
    assert_non_null(k);
    ts_cage_fill(k, 0, 9);
    assert_true(ts_cage_call(k, 0, &r));
    const uint64_t bits = ts_arena_output_hash(ts_cage_arena(k, 0));
    for (int i = 0; i < 20; i++) {
        assert_true(ts_cage_call(k, 0, &r));
        assert_int_equal(ts_arena_output_hash(ts_cage_arena(k, 0)), bits);
    }
    /* An entrant that writes nothing must not pass with the outputs of the one before. */
    ts_probe_args idle = *(const ts_probe_args *)ts_cage_fill(k, 0, 9);
    ts_flaw       f;
    assert_true(ts_cage_call(k, 0, &r));
    idle.what = TS_PROBE_NOTHING;
    assert_true(ts_cage_call_with(k, 0, &idle, NULL, &r));
    assert_true(ts_arena_outputs_untouched(ts_cage_arena(k, 0), &f));
    ts_cage_stop(&k);
}

/* ---- the late canary: a line of the input is not there before go ---- */

typedef struct watcher {
    const float *x;
    int64_t      n;
    const float *truth;
    atomic_int   stop, n_lies;
} watcher;

static void *watch(void *at)
{
    watcher *w = at;
    while (!atomic_load(&w->stop))
        if (memcmp(w->x, w->truth, (size_t)w->n * sizeof *w->x)) atomic_fetch_add(&w->n_lies, 1);
    return NULL;
}

TEST(a_line_of_the_input_comes_with_go)
{
    const int64_t      n = 4096;
    const ts_case      c = probe_case(TS_PROBE_RIGHT, n);
    const ts_cage_plan p = plan_for(TS_SEALED, &c, 1);
    float             *truth = malloc((size_t)n * sizeof *truth);
    ts_want           *want = calloc(2 * (size_t)n, sizeof *want);
    pthread_t          t;
    ts_call            r;
    watcher            w = { .n = n, .truth = truth };
    assert_true(truth && want);
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    assert_non_null(k);
    const ts_probe_args *a = ts_cage_fill(k, 0, 3);
    ts_task_probe.oracle(&c, a, want);
    memcpy(truth, a->x, (size_t)n * sizeof *truth);
    w.x = a->x;
    assert_int_equal(pthread_create(&t, NULL, watch, &w), 0);
    assert_true(ts_cage_call(k, 0, &r)); /* the first call waits a while before go */
    atomic_store(&w.stop, 1);
    pthread_join(t, NULL);
    assert_true(atomic_load(&w.n_lies) > 0);
    assert_memory_equal(truth, a->x, (size_t)n * sizeof *truth);
    assert_true(answer_is_right(k, 0, &c, a, want));
    ts_cage_stop(&k);
    free(truth);
    free(want);
}

/* ---- the loader ---- */

/* A sealed entrant from a text; NULL when there is no compiler. */
static const char *build(const char *source, const char *flags)
{
    static char path[256];
    char        command[1024];
    snprintf(path, sizeof path, "/tmp/unit_cage.%d.so", (int)getpid());
    snprintf(command, sizeof command, "cc -x c -O1 -fPIC -shared -nostdlib %s -o %s - 2>/dev/null",
             flags, path);
    FILE *f = popen(command, "w");
    if (!f) return NULL;
    fputs(source, f);
    return pclose(f) ? NULL : path;
}

TEST(objects_that_reach_for_more_are_refused)
{
    static const struct {
        const char *source, *flags, *why;
    } row[] = {
        { "int ts_probe(void) { return 0; }", "", "" },
        { "double sin(double); double j; int ts_probe(void) { j = sin(j); return 0; }", "", "" },
        { "static int t; int *p[] = { &t }; int ts_probe(void) { return *p[0]; }", "", "" },
        { "int ts_probe(void) { return 0; }", "-Wl,--hash-style=sysv", "" },
        { "int ts_other(void) { return 0; }", "", "missing: " },
        { "int ts_probe;", "", "missing: " },
        { "int getpid(void); int ts_probe(void) { return getpid(); }", "",
          "symbol: calls 'getpid'" },
        { "__attribute__((constructor)) void f(void) {} int ts_probe(void) { return 0; }", "",
          "symbol: code that runs" },
        { "__attribute__((destructor)) void f(void) {} int ts_probe(void) { return 0; }", "",
          "symbol: code that runs" },
        { "_Thread_local int t; int ts_probe(void) { return t++; }", "-ftls-model=initial-exec",
          "symbol: " },
        { "_Thread_local int t; int ts_probe(void) { return 0; }", "", "symbol: thread-local" },
        { "static int f(void) { return 0; } static void *g(void) { return f; }"
          "int h(void) __attribute__((ifunc(\"g\"))); int ts_probe(void) { return h(); }",
          "", "symbol: " },
        { "int ts_probe(void) { return 0; }", "-Wl,-z,execstack", "symbol: an executable stack" },
        { "int ts_probe(void) { return 0; }", "-Wl,--no-as-needed -lc", "symbol: needs library" },
        { "char big[1 << 30]; int ts_probe(void) { return big[1]; }", "", "size: " },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const ts_case c = probe_case(0, 10);
        ts_cage_plan  p = plan_for(TS_SEALED, &c, 1);
        p.object = build(row[i].source, row[i].flags);
        if (!p.object && i == 0) skip();
        if (!p.object) fail_msg("row %zu does not compile", i);
        *why = 0;
        ts_cage *k = ts_cage_start(&p, why, sizeof why);
        if (!k != (*row[i].why != 0) || strncmp(why, row[i].why, strlen(row[i].why)))
            fail_msg("row %zu: got '%s', expected '%s'", i, why, row[i].why);
        ts_cage_stop(&k);
        unlink(p.object);
    }
    assert_int_equal(system("true"), 0);
}

/* Random damage to a good object: whatever comes of it, it comes in time and the judge is whole. */
TEST(damaged_objects_do_no_harm)
{
    static unsigned char good[256 << 10], bad[256 << 10];
    char                 path[64];
    FILE                *f = fopen(object, "rb");
    assert_non_null(f);
    const size_t n = fread(good, 1, sizeof good, f);
    fclose(f);
    assert_true(n > 4096 && n < sizeof good);
    snprintf(path, sizeof path, "/tmp/unit_cage.%d.bad", (int)getpid());
    const char *const times = getenv("TS_FUZZ");
    const int         n_trials = times ? atoi(times) : 300;
    const double      begin = ts_seconds();
    int               loaded = 0, refused = 0;
    for (int i = 0; i < n_trials; i++) {
        const ts_case c = probe_case(TS_PROBE_RIGHT, 100);
        ts_cage_plan  p = plan_for(TS_SEALED, &c, 1);
        ts_call       r;
        memcpy(bad, good, n);
        for (uint64_t k = 0; k <= ts_bits(i, 0) % 8; k++) { /* most of them in the headers */
            const uint64_t z = ts_bits((uint64_t)i, (int64_t)k + 1);
            bad[(z & 1 ? z >> 8 : (z >> 8) % 1024) % n] ^= (unsigned char)(1u << (z >> 1 & 7));
        }
        f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(bad, 1, i % 10 ? n : ts_bits(i, 99) % n, f) > 0, 1);
        fclose(f);
        p.object = path;
        p.limit_ms = 100;
        ts_cage *k = ts_cage_start(&p, why, sizeof why);
        if (k) {
            loaded++;
            ts_cage_fill(k, 0, (uint64_t)i);
            ts_cage_call(k, 0, &r);
        } else {
            refused++;
            if (strncmp(why, "symbol", 6) && strncmp(why, "missing", 7) && strncmp(why, "size", 4))
                fail_msg("trial %d: %s", i, why); /* the loader itself fell over it */
        }
        ts_cage_stop(&k);
    }
    unlink(path);
    printf("damaged objects: %d loaded, %d refused, %.1f s\n", loaded, refused,
           ts_seconds() - begin);
    assert_true(loaded && refused);
    ts_call r;
    assert_true(once(TS_SEALED, TS_PROBE_RIGHT, 1, &r));
}

/* ---- python ---- */

static void python_with(int n_threads, const char *text, const char *reason, ts_status status)
{
    const ts_case c = probe_case(TS_PROBE_RIGHT, 100);
    ts_cage_plan  p = plan_for(TS_PYTHON, &c, 1);
    char          path[64], runner[512];
    ts_want       want[200];
    ts_call       r;
    snprintf(path, sizeof path, "/tmp/unit_cage.%d.py", (int)getpid());
    assert_non_null(getcwd(runner, sizeof runner - 32));
    strcat(runner, "/test/cage_runner.py");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    p.object = path, p.folder = "/nowhere", p.python = "/usr/bin/python3", p.runner = runner;
    p.memory_bytes = (size_t)256 << 20;
    p.n_threads = n_threads;
    p.limit_ms = 3000;
    ts_cage *k = ts_cage_start(&p, why, sizeof why);
    if (!k) fail_msg("no cage: %s", why);
    for (int i = 0; i < 3; i++) {
        const void *args = ts_cage_fill(k, 0, (uint64_t)i);
        ts_task_probe.oracle(&c, args, want);
        const bool ok = ts_cage_call(k, 0, &r);
        if (strcmp(ts_call_reason(&r), reason))
            fail_msg("'%s': got '%s' (%s, %s), expected '%s'", text, ts_call_reason(&r), r.text,
                     r.stderr_tail, reason);
        if (!ok) break;
        if (r.status != status) fail_msg("'%s': status %d, expected %d", text, r.status, status);
        assert_true(answer_is_right(k, 0, &c, args, want));
    }
    ts_cage_stop(&k);
    unlink(path);
}

static void python(const char *text, const char *reason, ts_status status)
{
    python_with(1, text, reason, status);
}

/* What a BLAS takes: a buffer for each thread. */
TEST(python_has_memory_for_its_threads)
{
    static const char *const text =
        "import threading\n"
        "end, n, flags = threading.Event(), 64, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\n"
        "held = [mmap.mmap(-1, 120 << 20, flags=flags) for _ in range(n)]\n"
        "threads = [threading.Thread(target=end.wait) for _ in range(n)]\n"
        "for t in threads: t.start()\n"
        "end.set()\n"
        "for t in threads: t.join()\n"
        "for m in held: m.close()\n";
    if (access("/usr/bin/python3", X_OK) || access("test/cage_runner.py", R_OK)) skip();
    python_with(64, text, "", TS_OK);
    python_with(1, text, "", TS_E_UNSUPPORTED);
}

/* Changes how memory of its own may be used. */
#define PROTECT                                                                                    \
    "import ctypes\n"                                                                              \
    "libc, m = ctypes.CDLL(None, use_errno=True), mmap.mmap(-1, 4096)\n"                           \
    "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"                                        \
    "def protect(how):\n"                                                                          \
    "    if libc.mprotect(ctypes.c_void_p(at), 4096, how):\n"                                      \
    "        raise OSError(ctypes.get_errno(), 'mprotect')\n"

TEST(python_entrants_are_caged)
{
    if (access("/usr/bin/python3", X_OK) || access("test/cage_runner.py", R_OK)) skip();
    python("pass", "", TS_OK);
    python("open('/etc/passwd').read()", "", TS_E_UNSUPPORTED);
    python("open('/tmp/unit_cage.w', 'w')", "", TS_E_UNSUPPORTED);
    python("import os; os.sched_setaffinity(0, range(2))", "", TS_E_UNSUPPORTED);
    python("import os; os.execv('/bin/true', ['true'])", "", TS_E_UNSUPPORTED);
    python("import os; os.fork()", "seal", TS_OK);
    python("import socket; socket.socket()", "seal", TS_OK);
    python("import os; os.kill(os.getppid(), 9)", "seal", TS_OK);
    python("import os; os._exit(0)", "protocol", TS_OK);
    python("while True: pass", "hang", TS_OK);
    python("mmap.mmap(inputs_fd, 4096)", "", TS_E_UNSUPPORTED);
    python(PROTECT "protect(1)", "", TS_OK);
    python(PROTECT "protect(5)", "", TS_E_UNSUPPORTED); /* executable */
}

int main(void)
{
    return run_with_probe();
}
