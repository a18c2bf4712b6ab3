/* SPDX-License-Identifier: Apache-2.0 */
/* unit.c - runs the tests of a unit_*.c, which TEST() has listed. */
#include "unit.h"

#include <string.h>

enum { MOST = 64 };

static struct {
    const char       *group;
    struct CMUnitTest test;
} all[MOST];
static int n_all;

void unit_add(const char *group, struct CMUnitTest test)
{
    if (n_all == MOST) __builtin_trap();
    all[n_all].group = group;
    all[n_all++].test = test;
}

int run_group(const char *group, CMFixtureFunction begin, CMFixtureFunction end)
{
    struct CMUnitTest some[MOST];
    size_t            n = 0;
    for (int i = 0; i < n_all; i++)
        if (!strcmp(all[i].group, group)) some[n++] = all[i].test;
    if (!n) fail_msg("no test in group '%s'", group);
    return _cmocka_run_group_tests(*group ? group : "tests", some, n, begin, end);
}

int unit_run(void)
{
    return run_group("", NULL, NULL);
}

__attribute__((weak)) int main(void)
{
    return unit_run();
}
