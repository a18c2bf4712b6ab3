/* SPDX-License-Identifier: Apache-2.0 */
/* unit_scope.c - tests which cases an entrant may declare as supported, and which it is then run
 * on. */
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "unit.h"

static double share(const char *task, const char *text)
{
    ts_scope   s;
    ts_refusal why = { 0 };
    if (!ts_scope_read(text, ts_task_called(task), TS_CPU, &s, &why)) fail_msg("%s", why.text);
    return s.share;
}

TEST(shares)
{
    assert_true(share("softmax_topk", "") == 1);
    assert_true(share("softmax_topk", "1") > 0.9999 && share("softmax_topk", "k >= 0") > 0.9999);
    const double small = share("softmax_topk", "k <= 32"), rest = share("softmax_topk", "k > 32");
    assert_true(small > 0.2 && small < 0.6 && small + rest > 0.9999 && small + rest < 1.0001);
    assert_true(share("softmax_topk", "k <= 32 && dtype == f32") < small);
    /* A store that is the dtype of the case itself is that dtype. */
    assert_true(share("kv_cache", "page == 0 && store == f32") > 0.1);
    assert_true(share("kv_cache", "store == f32 && dtype == bf16") > 0);
    assert_true(share("kv_cache", "store == u4 && channel") > 0);
    assert_true(share("kv_cache", "window > 0") > 0);
    assert_true(share("flash_attention", "causal && window == 0 && head_dim % 8 == 0") > 0.1);
}

static void refuses(const char *task, const char *text, const char *expected)
{
    ts_scope   s;
    ts_refusal why = { 0 };
    assert_false(ts_scope_read(text, ts_task_called(task), TS_CPU, &s, &why));
    assert_string_equal(why.reason, "entry");
    if (!strstr(why.text, expected) || strchr(why.text, '\n'))
        fail_msg("'%s': '%s' is not in '%s'", text, expected, why.text);
}

TEST(mistakes)
{
    refuses("softmax_topk", "kk <= 32", "column 1: unknown name 'kk'; known names: rows vocab k");
    refuses("kv_cache", "store == f31", "unknown name 'f31'; known names: store window channel");
    refuses("softmax_topk", "k <=", "column 5: the text ends");
    refuses("softmax_topk", "k <= 32)", "column 8: got ')'");
    refuses("softmax_topk", "k / pad", "division by zero, in case softmax_topk/");
    refuses("softmax_topk", "k < 0", "'k < 0' excludes every case of softmax_topk");
    refuses("kv_cache", "page == 0 && page == 1", "excludes every case");
}

/* Nothing but what is offered, and as much of it as the depth has room for. */
TEST(draws_within)
{
    int            n;
    const ts_task *t = ts_task_called("softmax_topk");
    const ts_run   c = { .depth = TS_QUICK };
    ts_scope       s;
    ts_refusal     why = { 0 };
    assert_true(ts_scope_read("k <= 32 && dtype == f32", t, TS_CPU, &s, &why));
    int *number = ts_run_draw(&c, t, TS_SEALED, &s, &n);
    assert_true(n > 30);
    for (int i = 0; i < n; i++) {
        const ts_case *one = &t->cases()[number[i]];
        assert_true(one->dim[2] <= 32 && one->dtype == TS_F32);
    }
    free(number);
    assert_true(ts_scope_takes(NULL, t, t->cases()));
}
