/* SPDX-License-Identifier: Apache-2.0 */
/* unit_gpu.c - entrants on a device, before a stand-in for the CUDA driver. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build.h"
#include "cage_inside.h"
#include "examine.h"
#include "selfcheck.h"
#include "unit.h"

static ts_places places;

/* A buffer lies at the host's address modulo the widest vector, as the entrant's process maps it.
 */
static void look_at_addresses(const ts_cage *cage, int n_slots, int *n_odd)
{
    for (int s = 0; s < n_slots; s++)
        for (int i = 0; i < cage->slot[s].arena.n; i++) {
            const ts_arena_buf *b = &cage->slot[s].arena.buf[i];
            const uint64_t      at = cage->control->device[s][i] % TS_LAY_BYTES;
            assert_int_equal(at, (uintptr_t)b->p % TS_LAY_BYTES);
            *n_odd += at % 16 != 0;
        }
}

/* What comes of one case: "" or a reason. */
static const char *judged(ts_cage *cage, const ts_task *t, int slot, const ts_case *c, char *text)
{
    ts_call     r;
    ts_flaw     f = { 0 };
    ts_errors   errors = { 0 };
    const char *reason = "";
    const void *args = ts_cage_fill(cage, slot, 77);
    ts_want    *want = calloc(t->n_want(c) + 1, sizeof *want);
    t->oracle(c, args, want);
    if (!ts_cage_workspace(cage, slot, &r) || !ts_cage_call(cage, slot, &r)) {
        reason = ts_call_reason(&r);
        snprintf(text, 256, "%.120s %.120s", r.text, r.stderr_tail);
    } else if (r.status) {
        reason = "status";
        snprintf(text, 256, "%d %.200s", r.status, r.stderr_tail);
    } else if (!ts_arena_intact(ts_cage_arena(cage, slot), &f) ||
               !t->check(c, args, want, &f, &errors)) {
        ts_verdict v = { .first = f };
        ts_flaw_text(&v, text, 256);
        reason = ts_fault_name(f.fault);
    }
    free(want);
    return reason;
}

/* Runs an entrant on up to n of its task's small cases, of no fewer elements than `least`. */
static const char *run(const char *path, int n, int least, bool idle, char *text)
{
    ts_entrant  e;
    ts_built    b = { .object = -1, .launch = -1 };
    ts_refusal  why = { 0 };
    char        object[64], launch[64], said[256];
    const char *reason = "";
    *text = 0;
    if (!ts_entrant_read(path, NULL, &e, &why) || !ts_build(&e, &places, NULL, &b, &why)) {
        snprintf(text, 256, "%.250s", why.text);
        return why.reason;
    }
    const ts_task *t = ts_task_called(e.task);
    const ts_case *all = t->cases();
    snprintf(object, sizeof object, "/proc/self/fd/%d", b.object);
    snprintf(launch, sizeof launch, "/proc/self/fd/%d", b.launch);
    ts_cage_plan p = { .class = e.cls,
                       .object = object,
                       .runner = b.launch < 0 ? NULL : launch,
                       .task = t,
                       .n_threads = 1,
                       .idle = idle,
                       .memory_bytes = (size_t)4 << 30,
                       .workspace_bytes = 1 << 20,
                       .limit_ms = 20000 };
    for (int i = 0; all[i].use && p.n_slots < n; i++)
        if (all[i].use & TS_USE_CHECK && all[i].dtype != TS_F64 &&
            all[i].dim[0] * all[i].dim[1] >= least && all[i].dim[0] * all[i].dim[1] < 4000 &&
            strcmp(all[i].family, "far")) {
            p.seed[p.n_slots] = (uint64_t)i;
            p.slot[p.n_slots++] = &all[i];
        }
    ts_cage *cage = ts_cage_start(&p, said, sizeof said);
    if (!cage) {
        snprintf(text, 256, "%s", said);
        reason = "start";
    }
    int n_odd = 0;
    if (cage) look_at_addresses(cage, p.n_slots, &n_odd);
    if (cage && p.n_slots > 4) assert_true(n_odd > p.n_slots); /* of several buffers each */
    for (int i = 0; cage && i < p.n_slots && !*reason; i++)
        reason = judged(cage, t, i, p.slot[i], text);
    ts_cage_stop(&cage);
    ts_built_free(&b);
    ts_entrant_free(&e);
    return reason;
}

TEST(a_textbook_is_right)
{
    static const char *const task[] = { "softmax_topk", "layernorm_forward", "layernorm_backward" };
    for (int i = 0; i < 3; i++) {
        char path[512], text[256];
        snprintf(path, sizeof path, "%s/contest/entrant/textbook/%s", TS_TEST_SOURCE, task[i]);
        const char *reason = run(path, 12, 0, false, text);
        if (*reason) fail_msg("%s: %s: %s", task[i], reason, text);
    }
}

/* ---- kernels that are wrong, and one with host code, laid into a folder ---- */

static char folder[] = "/tmp/touchstone-unit-XXXXXX";

static void sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void sh(const char *format, ...)
{
    char    command[2048];
    va_list a;
    va_start(a, format);
    vsnprintf(command, sizeof command, format, a);
    va_end(a);
    if (system(command)) fail_msg("%s", command);
}

/* The textbook's kernel with `code` before a row is read. */
static void wrong(const char *code, const char *expected)
{
    char        text[256];
    const char *from = TS_TEST_SOURCE "/contest/entrant/textbook/layernorm_forward";
    sh("cp %s/* %s && sed -i '/y += blockIdx/a %s' %s/layernorm_forward.cu", from, folder, code,
       folder);
    const char *reason = run(folder, 8, 0, false, text);
    if (!*reason || !strstr(expected, reason))
        fail_msg("%s: '%s' %s, expected %s", code, reason, text, expected);
}

TEST(wrong_kernels_get_their_reason)
{
    wrong("return;", "unwritten");
    wrong("eps = 0;", "value");
    wrong("if (threadIdx.x == 0) *(volatile int *)64 = 1;", "crash");
    wrong("if (threadIdx.x == 0) put((T *)x, 1);", "crash");
    wrong("if (threadIdx.x == 0 \\&\\& blockIdx.x == gridDim.x - 1) put(\\&y[n], 1);",
          "crash past gap");
    /* Farther than a page, but in the mapping or its neighbourhood. */
    wrong("if (threadIdx.x == 0 \\&\\& blockIdx.x == gridDim.x - 1) put(\\&y[n + 4096], 1);",
          "past");
    wrong("if (threadIdx.x == 0 \\&\\& blockIdx.x == 0) put(\\&y[-4096], 1);", "before");
    wrong("if (threadIdx.x == 0 \\&\\& blockIdx.x == 0) put(\\&y[-(4 << 20)], 1);", "crash");
}

/* On the stand-in device its pointers are as good as the host's. */
TEST(host_code_sees_what_it_must)
{
    char text[256];
    sh("rm -f %s/* && cc -std=c11 -O2 -fPIC -shared -I%s/include -o %s/k.so "
       "%s/proof/honest/forward_two_pass.c -lm",
       folder, TS_TEST_SOURCE, folder, TS_TEST_SOURCE);
    sh("echo '{\"name\":\"a\",\"author\":\"b\",\"challenge\":\"layernorm_forward\",\"class\":"
       "\"host-gpu\",\"language\":\"binary\",\"sources\":[\"k.so\"]}' >%s/entry.json",
       folder);
    const char *reason = run(folder, 6, 2048, false, text);
    if (*reason) fail_msg("%s: %s", reason, text);
    assert_string_equal(run(folder, 6, 2048, true, text), "unwritten");
}

/* How many ticks of CPU time the children of a process have had, and how many there are. */
static long ticks_of_children(int parent, int *n)
{
    char path[320], line[512];
    long sum = 0;
    DIR *d = opendir("/proc");
    *n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        int           its_parent = 0;
        unsigned long user = 0, system = 0;
        snprintf(path, sizeof path, "/proc/%.200s/stat", e->d_name);
        FILE       *f = atoi(e->d_name) ? fopen(path, "r") : NULL;
        const char *at = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
        if (f) fclose(f);
        if (!at ||
            sscanf(at, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &its_parent, &user,
                   &system) != 3 ||
            its_parent != parent)
            continue;
        ++*n;
        sum += (long)(user + system);
    }
    if (d) closedir(d);
    return sum;
}

/* The first process with this text in its command line that is a child of ours. */
static int runner_of_ours(void)
{
    char path[320], line[512];
    int  found = 0;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%.200s/stat", e->d_name);
        FILE       *f = atoi(e->d_name) ? fopen(path, "r") : NULL;
        const char *at = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
        if (f) fclose(f);
        if (!at || sscanf(at, ") %*c %d", &parent) != 1 || parent != getpid()) continue;
        snprintf(path, sizeof path, "/proc/%.200s/cmdline", e->d_name);
        f = fopen(path, "r");
        memset(line, 0, sizeof line);
        if (f && fread(line, 1, sizeof line - 1, f) && strstr(line, "python"))
            found = atoi(e->d_name);
        if (f) fclose(f);
    }
    if (d) closedir(d);
    return found;
}

/* Class python-gpu may have more processes than one: all stand still between calls. */
TEST(second_processes_are_frozen)
{
    const char   *python = getenv("TOUCHSTONE_PYTHON");
    const ts_case c = { .dtype = TS_F32, .dim = { 0, 16 } };
    char          object[128], src[64], why[256];
    int           n = 0;
    if (!python) skip(); /* test/python.sh finds one */
    snprintf(object, sizeof object, "%s/src/forks.py", folder);
    sh("chmod 755 %s && rm -rf %s/* && mkdir %s/src %s/tmp && printf '%s' >%s", folder, folder,
       folder, folder,
       "import os\\nif os.fork() == 0:\\n  while True: pass\\ndef probe(**k): pass\\n", object);
    snprintf(src, sizeof src, "%s/src", folder);
    const ts_cage_plan p = { .class = TS_GPU_PYTHON,
                             .object = object,
                             .folder = src,
                             .python = python,
                             .runner = TS_TEST_RUNNER,
                             .task = &ts_task_probe,
                             .n_slots = 1,
                             .slot = { &c },
                             .n_threads = 1,
                             .memory_bytes = (size_t)32 << 30,
                             .workspace_bytes = 1 << 20,
                             .limit_ms = 20000 };
    ts_cage           *k = ts_cage_start(&p, why, sizeof why);
    if (!k) fail_msg("no cage: %s", why);
    const int runner = runner_of_ours();
    assert_true(runner > 0);
    for (int i = 0; i < 3; i++) {
        const long before = ticks_of_children(runner, &n);
        assert_int_equal(n, 1);
        usleep(200000);
        assert_true(ticks_of_children(runner, &n) - before <= 1);
        ts_cage_thaw(k);
        for (int w = 0; w < 100 && ticks_of_children(runner, &n) - before <= 3; w++) usleep(100000);
        assert_true(ticks_of_children(runner, &n) - before > 3);
        assert_true(ts_cage_freeze(k));
    }
    ts_cage_stop(&k);
}

static char stand[] = "/tmp/touchstone-stand-XXXXXX", libcuda[4096];

/* The stand-ins are copied to where other users may read them: as root, the judge starts compilers
 * and loads the driver as another user, who may not be allowed to enter the clone's
 * folder. */
int main(void)
{
    if (!mkdtemp(folder) || !mkdtemp(stand) || chmod(stand, 0755)) return 1;
    sh("cd %s/test && cp -r fake_nvcc fake_include fake_*.h %s %s", TS_TEST_SOURCE, TS_TEST_LIBCUDA,
       stand);
    snprintf(places.include, sizeof places.include, "%s/include", TS_TEST_SOURCE);
    snprintf(places.nvcc, sizeof places.nvcc, "%s/fake_nvcc", stand);
    snprintf(places.arch, sizeof places.arch, "sm_90");
    snprintf(libcuda, sizeof libcuda, "%s/%s", stand, strrchr(TS_TEST_LIBCUDA, '/') + 1);
    setenv("TOUCHSTONE_LIBCUDA", libcuda, 1);
    setenv("TOUCHSTONE_NVCC", places.nvcc, 1);
    const int failed = unit_run();
    sh("rm -r %s %s", folder, stand);
    return failed;
}
