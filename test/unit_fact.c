/* SPDX-License-Identifier: Apache-2.0 */
/* unit_fact.c - tests the trials of a device with a fake CUDA driver that performs only some of
 * what they request. Every missing guarantee must be found. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "selfcheck.h"
#include "unit.h"

static ts_guarantees g;

static const ts_guarantee *fact(const char *name)
{
    for (int i = 0; i < g.n; i++)
        if (!strcmp(g.g[i].name, name)) return &g.g[i];
    fail_msg("nothing is said of %s", name);
    return NULL;
}

static void is(const char *name, bool held)
{
    const ts_guarantee *f = fact(name);
    if (f->held != held) fail_msg("%s is %sheld: %s", name, f->held ? "" : "not ", f->text);
}

static void says(const char *name, const char *text)
{
    const ts_guarantee *f = fact(name);
    if (!strstr(f->text, text)) fail_msg("%s does not say '%s': %s", name, text, f->text);
}

static void find_out(void)
{
    g = (ts_guarantees) { .badge = "full" };
    ts_fact_all(&g);
    for (int i = 0; i < g.n; i++) /* for readers of the test's log */
        printf("%-4s %-18s %s\n", g.g[i].held ? "yes" : "NO", g.g[i].name, g.g[i].text);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no process is left */
}

TEST(what_the_device_does_holds)
{
    find_out();
    is("device-guards", true);
    says("device-guards", "8 of 8 fault, 2 of 2 allowed accesses do not, 8 processes lost");
    is("device-shared", true);
    is("device-kill", true);
    says("device-kill", "3 of 3 started, 3 ended, 3 stopped");
    is("device-cubin", true);
    says("device-cubin", "half a cubin crashed its process");
}

/* It has neither time slices nor a cache. */
TEST(what_it_does_not_is_found_out)
{
    is("device-busy", false);
    says("device-busy", "of 60");
    is("device-head-start", false);
    says("device-head-start", "of 8");
    is("device-l2", false);
    assert_string_equal(g.badge, "reduced");
}

TEST(missing_guards_are_found_out)
{
    setenv("TS_FAKE_CUDA_OPEN", "1", 1);
    find_out();
    unsetenv("TS_FAKE_CUDA_OPEN");
    is("device-guards", false);
    says("device-guards", "2 of 8 fault"); /* what is mapped to be read is still not written */
    is("device-kill", true);
}

TEST(without_a_device_nothing_holds)
{
    setenv("TS_FAKE_CUDA_NONE", "1", 1);
    find_out();
    unsetenv("TS_FAKE_CUDA_NONE");
    for (int i = 0; i < g.n; i++) {
        if (!g.g[i].needed) continue;
        is(g.g[i].name, false);
        says(g.g[i].name, "no CUDA device");
    }
}

int main(void)
{
    setenv("TOUCHSTONE_LIBCUDA", TS_TEST_LIBCUDA, 1);
    return unit_run();
}
