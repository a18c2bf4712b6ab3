/* SPDX-License-Identifier: Apache-2.0 */
/* unit_gpu.c - entrants on a device, before a stand-in for the CUDA driver. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "build.h"
#include "cage.h"
#include "examine.h"

static ts_places places;

static const ts_task *task_called(const char *name)
{
    for (int i = 0; ts_tasks[i]; i++)
        if (!strcmp(ts_tasks[i]->name, name)) return ts_tasks[i];
    return NULL;
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

/* All slots between one go and done. */
static const char *judged_together(ts_cage *cage, const ts_cage_plan *p, char *text)
{
    ts_call     r;
    const char *reason = "";
    for (int i = 0; i < p->n_slots; i++) ts_cage_fill(cage, i, 100 + (uint64_t)i);
    if (!ts_cage_call_all(cage, &r) || r.status) {
        snprintf(text, 256, "%.120s %.120s", r.text, r.stderr_tail);
        return r.status ? "status" : ts_call_reason(&r);
    }
    for (int i = 0; i < p->n_slots && !*reason; i++) {
        ts_flaw     f = { 0 };
        ts_errors   errors = { 0 };
        const void *args = ts_cage_args(cage, i);
        ts_want    *want = calloc(p->task->n_want(p->slot[i]) + 1, sizeof *want);
        p->task->oracle(p->slot[i], args, want);
        if (!ts_arena_intact(ts_cage_arena(cage, i), &f) ||
            !p->task->check(p->slot[i], args, want, &f, &errors))
            reason = ts_fault_name(f.fault);
        free(want);
    }
    return reason;
}

enum { ONE_BY_ONE, TOGETHER, IDLE };

/* Runs an entrant on up to n of its task's small cases, of no fewer elements than `least`. */
static const char *run(const char *path, int n, int least, int how, char *text)
{
    ts_candidate e;
    ts_built     b = { .object = -1, .launch = -1 };
    ts_refusal   why = { 0 };
    char         object[64], launch[64], said[256];
    const char  *reason = "";
    *text = 0;
    if (!ts_entry_read(path, NULL, &e, &why) || !ts_build(&e, &places, NULL, &b, &why)) {
        snprintf(text, 256, "%.250s", why.text);
        return why.reason;
    }
    const ts_task *t = task_called(e.task);
    const ts_case *all = t->cases();
    snprintf(object, sizeof object, "/proc/self/fd/%d", b.object);
    snprintf(launch, sizeof launch, "/proc/self/fd/%d", b.launch);
    ts_cage_plan p = { .class = e.cls,
                       .object = object,
                       .runner = b.launch < 0 ? NULL : launch,
                       .task = t,
                       .n_threads = 1,
                       .idle = how == IDLE,
                       .memory_bytes = (size_t)4 << 30,
                       .workspace_bytes = 1 << 20,
                       .limit_ms = 20000 };
    for (int i = 0; all[i].use && p.n_slots < n; i++)
        if (all[i].use & TS_USE_CHECK && all[i].dtype != TS_F64 &&
            all[i].dim[0] * all[i].dim[1] >= least && all[i].dim[0] * all[i].dim[1] < 4000 &&
            strcmp(all[i].family, "far"))
            p.slot[p.n_slots++] = &all[i];
    ts_cage *cage = ts_cage_start(&p, said, sizeof said);
    if (!cage) {
        snprintf(text, 256, "%s", said);
        reason = "start";
    }
    for (int i = 0; cage && i < p.n_slots && !*reason && how == ONE_BY_ONE; i++)
        reason = judged(cage, t, i, p.slot[i], text);
    if (cage && how != ONE_BY_ONE) reason = judged_together(cage, &p, text);
    ts_cage_stop(&cage);
    ts_built_free(&b);
    ts_entry_free(&e);
    return reason;
}

static void a_textbook_is_right(void **state)
{
    static const char *const task[] = { "softmax_topk", "layernorm_forward", "layernorm_backward" };
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[512], text[256];
        snprintf(path, sizeof path, "%s/entrant/textbook/%s", TS_TEST_SOURCE, task[i]);
        const char *reason = run(path, 12, 0, ONE_BY_ONE, text);
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
    const char *from = TS_TEST_SOURCE "/entrant/textbook/layernorm_forward";
    sh("cp %s/* %s && sed -i '/y += blockIdx/a %s' %s/layernorm_forward.cu", from, folder, code,
       folder);
    const char *reason = run(folder, 8, 0, ONE_BY_ONE, text);
    if (strcmp(reason, expected))
        fail_msg("%s: '%s' %s, expected %s", code, reason, text, expected);
}

static void wrong_kernels_get_their_reason(void **state)
{
    (void)state;
    wrong("return;", "unwritten");
    wrong("eps = 0;", "value");
    wrong("if (threadIdx.x == 0) *(volatile int *)64 = 1;", "crash");
    wrong("if (threadIdx.x == 0) put((T *)x, 1);", "crash");
    wrong("if (threadIdx.x == 0 \\&\\& blockIdx.x == gridDim.x - 1) put(\\&y[n], 1);", "crash");
}

/* On the stand-in device its pointers are as good as the host's. */
static void host_code_sees_what_it_must(void **state)
{
    char text[256];
    (void)state;
    sh("rm -f %s/* && cc -std=c11 -O2 -fPIC -shared -I%s/include -o %s/k.so "
       "%s/honest/forward_two_pass.c -lm",
       folder, TS_TEST_SOURCE, folder, TS_TEST_SOURCE);
    sh("echo '{\"name\":\"a\",\"author\":\"b\",\"challenge\":\"layernorm_forward\",\"class\":"
       "\"host-gpu\",\"language\":\"binary\",\"sources\":[\"k.so\"]}' >%s/entry.json",
       folder);
    for (int how = ONE_BY_ONE; how <= TOGETHER; how++) {
        const char *reason = run(folder, 6, 2048, how, text);
        if (*reason) fail_msg("%s: %s", reason, text);
    }
    assert_string_equal(run(folder, 6, 2048, IDLE, text), "unwritten");
}

int main(void)
{
    setenv("TOUCHSTONE_LIBCUDA", TS_TEST_LIBCUDA, 1);
    setenv("TOUCHSTONE_NVCC", TS_TEST_SOURCE "/test/fake_nvcc", 1);
    snprintf(places.include, sizeof places.include, "%s/include", TS_TEST_SOURCE);
    snprintf(places.nvcc, sizeof places.nvcc, "%s/test/fake_nvcc", TS_TEST_SOURCE);
    snprintf(places.arch, sizeof places.arch, "sm_90");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_textbook_is_right),
        cmocka_unit_test(wrong_kernels_get_their_reason),
        cmocka_unit_test(host_code_sees_what_it_must),
    };
    if (!mkdtemp(folder)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    sh("rm -r %s", folder);
    return failed;
}
