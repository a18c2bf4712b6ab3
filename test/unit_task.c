/* SPDX-License-Identifier: Apache-2.0 */
/* unit_task.c - every task is what its description says: what its cases take is declared, and what
 * is declared is taken; and no invalid call is lost. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "dtype.h"
#include "player.h"
#include "spoil.h"
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

TEST(buffers_are_as_declared)
{
    static ts_arena m;
    assert_true(ts_arena_open(&m));
    for (int i = 0; ts_tasks[i]; i++) {
        const ts_task *t = ts_tasks[i];
        void *const    args = calloc(1, t->args_bytes);
        bool           seen[TS_MAX_NAMES] = { 0 }, given[TS_MAX_NUMBERS] = { 0 };
        int            n_cases = 0, turn = 0;
        for (const ts_case *c = t->cases(); c->use; c++) {
            const ts_cost cost = t->cost(c);
            if (cost.bytes > SMALL_BYTES || cost.flops > SMALL_FLOPS) continue;
            if (!strcmp(c->family, "far")) continue;
            if (SANITIZED && turn++ % 4) continue; /* neighbours differ in sizes */
            ts_arena_setup(&m, t, c, 7, args);
            n_cases++;
            for (int k = 0; k < m.n; k++) seen[taken(t, c, &m.buf[k].b)] = true;
            for (int k = 0; k < m.n_scalars; k++) {
                const ts_number *const n = ts_task_number(t, m.scalar[k].name);
                if (!n) fail_msg("%s: %s is not declared", t->name, m.scalar[k].name);
                const double v = m.scalar[k].value;
                assert_true(!n->integer || v == floor(v));
                given[n - t->number] = true;
            }
            ts_arena_clear(&m);
        }
        printf("%s: %d cases\n", t->name, n_cases);
        for (int k = 0; k < TS_MAX_NAMES && t->buffer[k].name; k++)
            if (!seen[k]) fail_msg("%s: no case takes %s", t->name, t->buffer[k].name);
        for (int k = 0; k < TS_MAX_NUMBERS && t->number[k].name; k++)
            if (!given[k]) fail_msg("%s: no case passes %s", t->name, t->number[k].name);
        free(args);
    }
    ts_arena_close(&m);
}

TEST(scripts_have_players)
{
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

TEST(scarce_dimensions_exist)
{
    for (int i = 0; ts_tasks[i]; i++)
        for (int k = 0; k < 2; k++) {
            bool found = !ts_tasks[i]->scarce[k];
            for (int d = 0; !found && d < TS_MAX_DIMS && ts_tasks[i]->dim_name[d]; d++)
                found = !strcmp(ts_tasks[i]->dim_name[d], ts_tasks[i]->scarce[k]);
            assert_true(found);
        }
}

/* A task that names a dimension which it does not have is a bug: found, not searched for. */
TEST(an_unknown_dimension_is_an_error)
{
    ts_task     t = *ts_task_called("softmax_topk");
    int         status;
    const pid_t pid = fork();
    t.scarce[1] = "colour";
    if (pid == 0) {
        alarm(20);
        ts_case_group(&t, t.cases());
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- invalid calls ---- */

/* How many a task has on the CPU: none is lost unnoticed. */
static const struct {
    const char *task;
    int         n;
} known[] = {
    { "layernorm_forward", 45 },
    { "layernorm_backward", 46 },
    { "rms_norm_forward", 46 },
    { "rms_norm_backward", 45 },
    { "rope", 70 },
    { "swiglu_forward", 45 },
    { "swiglu_backward", 50 },
    { "softmax_topk", 57 },
    { "kv_cache", 166 },
    { "flash_attention", 169 },
    { "flash_attention_backward", 179 },
    { "flash_attention_fp8", 188 },
    { "beam_search", 63 },
    { "tree_verify", 47 },
    { "ternary_linear", 164 },
    { "ternary_training", 117 },
    { "cross_entropy", 92 },
    { "cross_entropy_logits", 62 },
    { "embedding_forward", 69 },
    { "embedding_backward", 68 },
    { "adamw_step", 42 },
};

TEST(no_invalid_call_is_lost)
{
    static ts_arena m;
    size_t          found = 0;
    assert_true(ts_arena_open(&m));
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const ts_task *const t = ts_task_called(known[k].task);
        if (!t) continue;
        unsigned char *const sound = calloc(1, t->args_bytes), *args = calloc(1, t->args_bytes);
        ts_status            must = TS_OK;
        int                  n = 0;
        bool                 more = true;
        assert_true(sound && args);
        ts_arena_setup(&m, t, t->cases(), 1, sound);
        for (; more; n += more) {
            ts_exec x = { .device = TS_CPU };
            memcpy(args, sound, t->args_bytes);
            more = ts_task_spoil(t, n, args, &x, &must);
        }
        if (n != known[k].n) fail_msg("%s: %d invalid calls, expected %d", t->name, n, known[k].n);
        ts_arena_clear(&m);
        free(sound);
        free(args);
        found++;
    }
    for (int t = 0; ts_tasks[t]; t++) {
        size_t k = 0;
        while (k < sizeof known / sizeof *known && strcmp(known[k].task, ts_tasks[t]->name)) k++;
        if (k == sizeof known / sizeof *known) fail_msg("%s has no row", ts_tasks[t]->name);
    }
    assert_int_equal(found, sizeof known / sizeof *known);
}

typedef struct call {
    int64_t        n, other;
    int            flag;
    double         x;
    const int32_t *list;
    const void    *p;
    int32_t        copy[4];
} call;

static int64_t seven(void *args)
{
    return ((call *)args)->n + 4;
}

TEST(rows_set_what_they_say)
{
    static const int32_t list[] = { 1, 2, 3 };
    static const ts_bad  rows[] = {
         TS_BAD(call, TS_E_ARG, x, NAN, -1),
         TS_BAD(call, TS_E_SHAPE, n, INT64_MIN, 0x1p60),
         TS_BAD(call, TS_ALSO, flag, -2),
         TS_BAD_LIKE(call, TS_E_ARG | TS_HOST, flag, n, -1),
         TS_BAD_OF(call, TS_E_DTYPE, other, seven),
         TS_BAD_TO(call, TS_E_ARG, p, list),
         TS_BAD(call, TS_E_ARG, list, 0),
         TS_BAD_ITEM(call, TS_E_RANGE, list, copy, n, TS_LAST, 9),
         TS_BAD_ITEM_LIKE(call, TS_E_RANGE, list, copy, n, TS_FIRST, n, 1),
         TS_BAD_ITEM(call, TS_E_RANGE, list, copy, n, TS_EVERY, -5),
         { 0 },
    };
    static const ts_status must[] = { TS_E_ARG,   TS_E_ARG,   TS_E_SHAPE, TS_E_SHAPE,
                                      TS_E_ARG,   TS_E_DTYPE, TS_E_ARG,   TS_E_ARG,
                                      TS_E_RANGE, TS_E_RANGE, TS_E_RANGE };
    call                   c[11];
    for (int i = 0; i < 11; i++) {
        ts_status s = TS_OK;
        int       at = i, skipped = i < 4 ? i : i - 1;
        c[i] = (call) { .n = 3, .other = 5, .flag = 1, .x = 2, .list = list };
        assert_true(ts_bad_call(rows, &at, &c[i], TS_CPU, &s));
        assert_int_equal(s, must[i]);
        if (i == 4) continue;
        assert_true(ts_bad_call(rows, &skipped, NULL, TS_CUDA, &s)); /* without the one for hosts */
        assert_int_equal(s, must[i]);
    }
    assert_true(isnan(c[0].x) && c[1].x == -1 && c[2].x == 2 && c[1].n == 3);
    assert_true(c[2].n == INT64_MIN && c[3].n == (int64_t)1 << 60);
    assert_true(c[2].flag == -2 && c[3].flag == -2 && c[4].flag == 2 && c[5].flag == 1);
    assert_true(c[5].other == 7 && c[6].p == list && !c[7].list);
    assert_true(c[8].list == c[8].copy && c[8].copy[0] == 1 && c[8].copy[2] == 9);
    assert_true(c[9].copy[0] == 4 && c[9].copy[1] == 2 && c[9].copy[2] == 3);
    assert_true(c[10].copy[0] == -5 && c[10].copy[1] == -5 && c[10].copy[2] == -5);
    int at = 14;
    assert_false(ts_bad_call(rows, &at, NULL, TS_CPU, &(ts_status) { TS_OK }));
    assert_int_equal(at, 3);
}
