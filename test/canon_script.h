/* SPDX-License-Identifier: Apache-2.0 */
/* canon_script.h - a case of a script, played with functions of which one may be wrong, and what
 * the judge says of it. */
#ifndef TS_TEST_CANON_SCRIPT_H
#define TS_TEST_CANON_SCRIPT_H

#include <string.h>

#include "canon.h"
#include "player.h"

/* The first f32 case of the list that is checked, of this family, with this dimension. */
static inline const ts_case *find(const char *task, const char *family, const char *dim,
                                  int64_t value)
{
    const ts_task *t = ts_task_called(task);
    const ts_case *c = t->cases();
    int            i = 0;
    while (strcmp(t->dim_name[i], dim)) i++;
    while (strcmp(c->family, family) || c->dtype != TS_F32 || c->dim[i] != value)
        assert_non_null((++c)->family);
    return c;
}

static inline void play(question *q, const void *table)
{
    const ts_player *p = ts_player_of(q->t->name);
    ts_exec          x = { .device = TS_CPU, .n_threads = 1, .deterministic = 1 };
    ts_arena_reset(&q->m);
    assert_int_equal(p->workspace(table, q->args, &x, &x.workspace_bytes), TS_OK);
    x.workspace = calloc(x.workspace_bytes + 1, 1);
    assert_int_equal(p->play(table, NULL, q->args, &x), TS_OK);
    free(x.workspace);
}

/* The rule that is broken, "" if the output is right, NULL if it is wrong. */
static inline const char *verdict(question *q, const void *table)
{
    ts_flaw   f = { 0 };
    ts_errors e = { 0 };
    play(q, table);
    if (q->t->check(q->c, q->args, q->want, &f, &e)) return "";
    return ts_canon_broken(q->t, q->c, q->args, q->want, &f, &e);
}

static inline void assert_right(question *q, const void *table)
{
    assert_string_equal(verdict(q, table), "");
}

#endif
