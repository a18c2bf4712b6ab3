/* SPDX-License-Identifier: Apache-2.0 */
/* unit_entrant.h - shared by the tests of entrants and of their builds: a folder per test, and
 * checks of the reasons for rejection. */
#ifndef UNIT_ENTRY_H
#define UNIT_ENTRY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "entrant.h"
#include "unit.h"

static char home[64]; /* a folder for each test */

static inline int make_home(void **state)
{
    (void)state;
    strcpy(home, "/tmp/touchstone-unit-XXXXXX");
    return !mkdtemp(home);
}

static inline int drop_home(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static inline const char *in_home(const char *name)
{
    static char path[8][256];
    static int  turn;
    char       *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", home, name);
    return p;
}

static inline void write_file(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(in_home(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* One line, nothing that could move a cursor, and the part that must be in it. */
static inline void assert_said(const char *text, const char *part)
{
    assert_true(text[0]);
    for (const char *p = text; *p; p++) assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
    if (!strstr(text, part)) fail_msg("said '%s', expected '%s' in it", text, part);
}

static inline void assert_refused(const char *path, const char *reason, const char *part)
{
    ts_entrant e;
    ts_refusal why;
    if (ts_entrant_read(path, NULL, &e, &why)) fail_msg("%s was read, expected '%s'", path, part);
    ts_entrant_free(&e);
    assert_string_equal(why.reason, reason);
    assert_said(why.text, part);
}

static inline void assert_entrant_refused(const char *json, const char *reason, const char *part)
{
    write_text("entry.json", json);
    assert_refused(home, reason, part);
}

#define IN_HOME(f) cmocka_unit_test_setup_teardown(f, make_home, drop_home)

#define HEAD   "\"name\":\"n\",\"author\":\"a\",\"challenge\":\"softmax_topk\","
#define SEALED "\"class\":\"sealed\",\"language\":\"c\","

#endif
