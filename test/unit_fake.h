/* SPDX-License-Identifier: Apache-2.0 */
/* unit_fake.h - for the tests of the stand-in driver: the kernels of unit_fake_cuda.cu, and a
 * process for every test, because a fault stays. */
#ifndef TS_UNIT_FAKE_H
#define TS_UNIT_FAKE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "unit.h"

enum { OK = 0, INVALID = 1, NOT_INITIALIZED = 3, NOT_FOUND = 500, ILLEGAL = 700, FAILED = 719 };

static char  folder[] = "/tmp/unit_fake.XXXXXX";
static char *image; /* of unit_fake_cuda.cu */

static const ts_driver *d;

/* cmocka's own would jump out of the child into the rest of the tests. */
#define CHECK(what, expected)                                                                      \
    do {                                                                                           \
        const long long got_ = (long long)(what), expected_ = (long long)(expected);               \
        if (got_ == expected_) break;                                                              \
        fprintf(stderr, "line %d: %s is %lld, not %s\n", __LINE__, #what, got_, #expected);        \
        _exit(1);                                                                                  \
    } while (0)

static inline void open_device(void)
{
    char why[256];
    d = ts_driver_open(why, sizeof why);
    if (!d) fprintf(stderr, "%s\n", why), _exit(1);
}

static inline ts_cu_any *load(const char *name)
{
    ts_cu_any *module, *f;
    CHECK(d->module_load(&module, image), OK);
    CHECK(d->module_function(&f, module, name), OK);
    return f;
}

#define LAUNCH(f, grid, block, shared, ...)                                                        \
    d->launch(f, grid, 1, 1, block, 1, 1, shared, NULL, (void *[]) { __VA_ARGS__ }, NULL)

static inline ts_device_ptr alloc(size_t n)
{
    ts_device_ptr p;
    CHECK(d->alloc(&p, n), OK);
    return p;
}

static inline ts_device_ptr place(int writable, size_t *n)
{
    uint64_t      handle;
    int           fd;
    ts_device_ptr p;
    *n = ts_driver_granule(d);
    CHECK(*n, 2 << 20);
    CHECK(ts_driver_share(d, *n, &handle, &fd), OK);
    CHECK(ts_driver_place(d, handle, *n, writable, &p), OK);
    return p;
}

/* ---- the tests ---- */

typedef struct test {
    void (*run)(void);
} test;

static inline void in_a_process(void **state)
{
    const test *t = *state;
    int         status;
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        t->run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static inline int compile(void **state)
{
    char        command[2048], name[256];
    struct stat s;
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(name, sizeof name, "%s/kernels.cubin", folder);
    snprintf(command, sizeof command,
             "'%s/fake_nvcc' -cubin -arch=sm_90 -std=c++17 -O3 -lineinfo -Xptxas -v -o %s "
             "'%s/unit_fake_cuda.cu'",
             TS_TEST_FOLDER, name, TS_TEST_FOLDER);
    if (system(command)) return -1;
    FILE *f = fopen(name, "rb");
    if (!f || fstat(fileno(f), &s)) return -1;
    image = malloc((size_t)s.st_size);
    const int is_read = image && fread(image, (size_t)s.st_size, 1, f) == 1;
    fclose(f);
    return is_read ? 0 : -1;
}

static inline int clean(void **state)
{
    char command[64];
    (void)state;
    free(image);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static inline void get_ready(void)
{
    setenv("TOUCHSTONE_LIBCUDA", TS_TEST_LIBCUDA, 1);
    if (!system("command -v g++ >/dev/null")) return;
    puts("skipped: no g++");
    exit(77);
}

/* A test in a process of its own. */
#define TEST_APART(name)                                                                           \
    static void                              name(void);                                           \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        static test t = { name };                                                                  \
        unit_add("", (struct CMUnitTest)cmocka_unit_test_prestate(in_a_process, &t));              \
    }                                                                                              \
    static void name(void)

#endif
