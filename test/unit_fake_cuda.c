/* SPDX-License-Identifier: Apache-2.0 */
/* unit_fake_cuda.c - the stand-in driver and fake_nvcc do what a device and nvcc would. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_fake.h"

/* ---- kernels ---- */

TEST_APART(rows_are_summed)
{
    enum { N_ROWS = 7, N_COLUMNS = 1000 };
    static float x[N_ROWS][N_COLUMNS], y[N_ROWS];
    int          n_columns = N_COLUMNS;
    for (int r = 0; r < N_ROWS; r++)
        for (int c = 0; c < N_COLUMNS; c++) x[r][c] = (float)((r * 31 + c * 7) % 64);
    open_device();
    ts_cu_any    *f = load("row_sums");
    ts_device_ptr dx = alloc(sizeof x), dy = alloc(sizeof y);
    CHECK(d->copy_in(dx, x, sizeof x), OK);
    for (unsigned n = 32; n <= 1024; n = n == 96 ? 1024 : n + 32) {
        CHECK(d->fill(dy, 0xff, sizeof y, NULL), OK);
        CHECK(LAUNCH(f, N_ROWS, n, n * 4, &dx, &dy, &n_columns), OK);
        CHECK(d->sync(), OK);
        CHECK(d->copy_out(y, dy, sizeof y), OK);
        for (int r = 0; r < N_ROWS; r++) {
            float sum = 0; /* of small whole numbers: exact in any order */
            for (int c = 0; c < N_COLUMNS; c++) sum += x[r][c];
            CHECK(y[r], sum);
        }
    }
    CHECK(LAUNCH(f, 1, 1025, 0, &dx, &dy, &n_columns), INVALID);
    CHECK(LAUNCH(f, 1, 32, 49153, &dx, &dy, &n_columns), INVALID);
    CHECK(d->function_set(f, TS_CU_MAX_DYNAMIC_SHARED, 65536), OK);
    CHECK(LAUNCH(f, 1, 32, 49153, &dx, &dy, &n_columns), OK);
}

TEST_APART(lanes_hear_each_other)
{
    enum { N = 40 };
    int o[N][8];
    open_device();
    ts_cu_any    *f = load("tell");
    ts_device_ptr p = alloc(sizeof o);
    CHECK(LAUNCH(f, 1, N, 0, &p), OK);
    CHECK(d->copy_out(o, p, sizeof o), OK);
    for (int t = 0; t < N; t++) {
        const int lane = t % 32, warp = t - lane, is_first = t < 32;
        CHECK((unsigned)o[t][0], is_first ? 0x49249249u : 0x49u);
        CHECK(o[t][1], 1);
        CHECK(o[t][2], !is_first);
        CHECK(o[t][3], warp + 2);
        CHECK(o[t][4], lane % 8 == 7 ? t : t + 1);
        CHECK(o[t][5], t ^ 4);
        if (lane < 4) CHECK(o[t][6], warp + 3);
        CHECK(o[t][7], N / 2);
    }
}

TEST_APART(a_reload_forgets)
{
    unsigned n;
    open_device();
    ts_device_ptr p = alloc(sizeof n);
    for (int round = 0; round < 3; round++) {
        ts_cu_any *m, *other, *f;
        CHECK(d->module_load(&m, image), OK);
        CHECK(d->module_load(&other, image), OK);
        for (unsigned call = 1; call <= 2; call++) {
            CHECK(d->module_function(&f, m, "count"), OK);
            CHECK(LAUNCH(f, 5, 33, 0, &p), OK);
            CHECK(d->copy_out(&n, p, sizeof n), OK);
            CHECK(n, call * 5 * 33);
        }
        CHECK(d->module_unload(m), OK);
        CHECK(d->module_unload(other), OK);
    }
}

TEST_APART(formats_are_exact)
{
    int n_wrong[5];
    open_device();
    ts_device_ptr p = alloc(sizeof n_wrong);
    CHECK(LAUNCH(load("formats"), 1, 1, 0, &p), OK);
    CHECK(d->copy_out(n_wrong, p, sizeof n_wrong), OK);
    for (int i = 0; i < 5; i++) CHECK(n_wrong[i], 0);
}

TEST_APART(what_is_no_kernel_is_refused)
{
    static const char text[128] = "hello", elf[128] = "\177ELF\002\001\001";
    ts_cu_any        *m, *f;
    open_device();
    CHECK(d->module_load(&m, text), 200);
    CHECK(d->module_load(&m, elf), 200);
    CHECK(d->module_load(&m, image), OK);
    CHECK(d->module_function(&f, m, "none"), NOT_FOUND);
    CHECK(d->module_function(&f, m, "gone"), NOT_FOUND);
    CHECK(d->module_load(&m, "// text\n.version 8.0\n.visible .entry nop(\n)\n{ ret; }\n"), OK);
    CHECK(d->module_function(&f, m, "no"), NOT_FOUND);
    CHECK(d->module_function(&f, m, "nop"), OK);
    CHECK(LAUNCH(f, 1000, 1000, 0, NULL), OK);
    CHECK(d->sync(), OK);
}

TEST_APART(parameters_are_known)
{
    static const size_t want[][2] = { { 0, 1 }, { 8, 8 }, { 16, 3 }, { 20, 2 } };
    size_t              offset, n;
    char                a = 1;
    short               s = 1000;
    double              sum;
    char                c[3] = { 9, 9, 20 };
    int                 v;
    open_device();
    ts_cu_any    *f = load("many");
    ts_device_ptr b = alloc(sizeof sum);
    for (size_t i = 0; i < 4; i++) {
        CHECK(d->param_info(f, i, &offset, &n), OK);
        CHECK(offset, want[i][0]);
        CHECK(n, want[i][1]);
    }
    CHECK(d->param_info(f, 4, &offset, &n), INVALID);
    CHECK(d->param_info(load("fail"), 0, &offset, &n), INVALID);
    CHECK(LAUNCH(f, 1, 1, 0, &a, &b, &c, &s), OK);
    CHECK(d->copy_out(&sum, b, sizeof sum), OK);
    CHECK(sum, 1021);
    CHECK(d->function_get(&v, TS_CU_REGISTERS, f), OK);
    CHECK(d->device_attribute(&v, TS_CU_SMS, 0), OK);
    CHECK(v, 2);
}

/* ---- faults ---- */

/* A last good store and then one at i, which is forbidden. */
static void fault(int64_t i)
{
    size_t        n, some;
    ts_device_ptr p;
    ts_cu_any    *any, *event;
    float         v = 3;
    open_device();
    ts_cu_any *f = load("put");
    p = place(1, &n);
    int64_t last = (int64_t)(n / 4) - 1;
    if (i > 0) i = last + 1;
    CHECK(d->event_create(&event, 0), OK);
    CHECK(LAUNCH(f, 1, 1, 0, &p, &last, &v), OK);
    CHECK(d->sync(), OK);
    CHECK(LAUNCH(f, 1, 1, 0, &p, &i, &v), OK); /* no caller has waited */
    CHECK(d->event_record(event, NULL), OK);
    CHECK(d->event_sync(event), ILLEGAL);
    CHECK(d->sync(), ILLEGAL);
    CHECK(d->copy_out(&v, p, sizeof v), ILLEGAL);
    CHECK(d->alloc(&p, 1), ILLEGAL);
    CHECK(d->memory_info(&n, &some), ILLEGAL);
    CHECK(d->module_load(&any, image), ILLEGAL);
    CHECK(d->context_retain(&any, 0), ILLEGAL);
    CHECK(LAUNCH(f, 1, 1, 0, &p, &last, &v), ILLEGAL);
    CHECK(strcmp(ts_driver_text(d, ILLEGAL), "an illegal memory access was encountered"), 0);
}

TEST_APART(one_past_stays_a_fault)
{
    fault(1);
}

TEST_APART(one_before_stays_a_fault)
{
    fault(-1);
}

TEST_APART(a_trap_is_another_fault)
{
    open_device();
    CHECK(LAUNCH(load("fail"), 1, 1, 0, NULL), OK);
    CHECK(d->sync(), FAILED);
    CHECK(d->sync(), FAILED);
}

/* ---- the device itself ---- */

TEST_APART(a_fork_has_no_device)
{
    int        status;
    size_t     n, all;
    ts_cu_any *e[2];
    float      ms = -1;
    open_device();
    if (!fork()) {
        CHECK(d->init(0), NOT_INITIALIZED);
        CHECK(d->memory_info(&n, &all), NOT_INITIALIZED);
        _exit(0);
    }
    CHECK(wait(&status) > 0, 1);
    CHECK(status, 0);
    for (int i = 0; i < 2; i++) {
        CHECK(d->event_create(&e[i], 0), OK);
        CHECK(d->event_record(e[i], NULL), OK);
        usleep(2000);
    }
    CHECK(d->event_elapsed(&ms, e[0], e[1]), OK);
    CHECK(ms >= 2 && ms < 1000, 1);
    CHECK(d->context_set(NULL), OK);
    CHECK(d->sync(), 201);
}

TEST_APART(there_may_be_none)
{
    char why[256] = "";
    setenv("TS_FAKE_CUDA_NONE", "1", 1);
    CHECK(ts_driver_open(why, sizeof why) == NULL, 1);
    CHECK(strcmp(why, "no CUDA device"), 0);
}

int main(void)
{
    get_ready();
    return run_group("", compile, clean);
}
