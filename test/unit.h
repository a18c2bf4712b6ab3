/* SPDX-License-Identifier: Apache-2.0 */
/* unit.h - cmocka, with what it must be preceded by, and tests that list themselves. */
#ifndef TS_UNIT_H
#define TS_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

/* Sanitizers make code 5 to 20 times as slow, and look at memory, not at numbers: where only
 * numbers differ from one trial to the next, fewer are tried under them. */
#if defined __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* What shows in many trials only. */
#define assert_seen(condition) assert_true(SANITIZED || (condition))

/* TEST(name) { ... } defines a test and adds it to those of the program, which run in the order of
 * the source. unit.c has a main that runs them; a program may have its own. */
#define TEST(name) TEST_OF(, name, NULL, NULL)
/* With functions to call before and after it. */
#define TEST_WITH(name, begin, end) TEST_OF(, name, begin, end)
/* Of a group, which a main runs by its name. */
#define TEST_IN(group, name) TEST_OF(group, name, NULL, NULL)

#define TEST_OF(group, name, begin, end)                                                           \
    static void                              name(void **unused_);                                 \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        unit_add(#group, (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, begin, end));    \
    }                                                                                              \
    static void name(__attribute__((unused)) void **unused_)

void unit_add(const char *group, struct CMUnitTest test);
int  unit_run(void); /* those without a group */
int  run_group(const char *group, CMFixtureFunction begin, CMFixtureFunction end);

#endif
