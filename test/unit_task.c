/* SPDX-License-Identifier: Apache-2.0 */
/* unit_task.c - every task is what its description says: what its cases take is declared, and what
 * is declared is taken. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "dtype.h"
#include "player.h"
#include "task.h"
#include "unit.h"

enum { SMALL_BYTES = 300000, SMALL_FLOPS = 10000000 };

static bool is_integer(ts_dtype t)
{
    return t == TS_I32 || t == TS_U8;
}

/* The number of a buffer among those declared. */
static ptrdiff_t taken(const ts_task *t, const ts_case *c, const ts_buf *b)
{
    const ts_tensor *const d = ts_task_tensor(t, b->name);
    int64_t                extent[TS_MAX_RANK], n = 1;
    if (!d) fail_msg("%s: %s is not declared", t->name, b->name);
    assert_true(b->role == d->role || b->role == TS_INOUT); /* added to, or changed in place */
    const int n_axes = ts_task_shape(t, c, b, extent);
    assert_true(n_axes == d->n_axes && n_axes >= 1 && n_axes <= TS_MAX_RANK);
    for (int i = 0; i < n_axes; i++) n *= extent[i];
    assert_int_equal(n, b->n_rows * b->n_cols);
    if (b->dtype != TS_F64 && is_integer(b->dtype) != d->integers) /* some are told in doubles */
        fail_msg("%s: %s: dtype and integers differ", t->name, b->name);
    return d - t->buffer;
}

static void buffers_are_as_declared(void **state)
{
    static ts_arena m;
    (void)state;
    assert_true(ts_arena_open(&m));
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        void *const    args = calloc(1, t->args_bytes);
        bool           seen[TS_MAX_NAMES] = { 0 };
        int            n_cases = 0;
        for (const ts_case *c = t->cases(); c->use; c++) {
            const ts_cost cost = t->cost(c);
            if (cost.bytes > SMALL_BYTES || cost.flops > SMALL_FLOPS) continue;
            if (!strcmp(c->family, "far")) continue;
            ts_arena_setup(&m, t, c, 7, args);
            n_cases++;
            for (int k = 0; k < m.n; k++) seen[taken(t, c, &m.buf[k].b)] = true;
            for (int k = 0; k < m.n_scalars; k++) {
                const ts_number *const n = ts_task_number(t, m.scalar[k].name);
                if (!n) fail_msg("%s: %s is not declared", t->name, m.scalar[k].name);
                const double v = m.scalar[k].value;
                assert_true(!n->integer || v == floor(v));
            }
            ts_arena_clear(&m);
        }
        printf("%s: %d cases\n", t->name, n_cases);
        for (int k = 0; k < TS_MAX_NAMES && t->buffer[k].name; k++)
            if (!seen[k]) fail_msg("%s: no case takes %s", t->name, t->buffer[k].name);
        free(args);
    }
    ts_arena_close(&m);
}

static void scripts_have_players(void **state)
{
    (void)state;
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task   *t = ts_tasks[i];
        const ts_player *p = ts_player_of(t->name);
        assert_int_equal(t->kind == TS_SCRIPT, p != NULL);
        assert_true(t->devices & TS_ON_CPU);
        if (!p) continue;
        assert_ptr_equal(p->names, t->exports);
        assert_ptr_equal(p->optional, t->optional);
    }
}

static void scarce_dimensions_exist(void **state)
{
    (void)state;
    for (int i = 0; ts_tasks[i]; i++)
        for (int k = 0; k < 2; k++) {
            bool found = !ts_tasks[i]->scarce[k];
            for (int d = 0; !found && d < TS_MAX_DIMS && ts_tasks[i]->dim_name[d]; d++)
                found = !strcmp(ts_tasks[i]->dim_name[d], ts_tasks[i]->scarce[k]);
            assert_true(found);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(buffers_are_as_declared),
                                        cmocka_unit_test(scripts_have_players),
                                        cmocka_unit_test(scarce_dimensions_exist) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
