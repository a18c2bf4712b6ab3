/* SPDX-License-Identifier: Apache-2.0 */
/* unit_canon.c - tests which flaws are excused as a rule of the canon, with outputs written by hand
 * into the buffers of a case. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "beam_search_inside.h"
#include "dtype.h"
#include "task.h"
#include "touchstone/layernorm.h"
#include "touchstone/softmax_topk.h"
#include "unit.h"

/* With 23 bits in the timed model, a search of 64 steps has equal scores by accident here. */
static const uint64_t SEED = UINT64_C(0x826dabb60fe22e8c);

/* The first f32 case of the family that has rows, and its inputs and wants. */
typedef struct question {
    const ts_task *t;
    const ts_case *c;
    ts_arena       m;
    void          *args;
    ts_want       *want;
} question;

static void ask(question *q, const ts_task *t, const ts_case *c)
{
    *q = (question) { .t = t, .c = c };
    q->args = calloc(1, t->args_bytes);
    q->want = calloc(t->n_want(c) + 1, sizeof *q->want);
    assert_true(ts_arena_open(&q->m));
    ts_arena_setup(&q->m, t, c, SEED, q->args);
    t->oracle(c, q->args, q->want);
}

static void ask_family(question *q, const char *task, const char *family)
{
    const ts_task *t = ts_task_called(task);
    const ts_case *c = t->cases();
    while (strcmp(c->family, family) || c->dtype != TS_F32 || c->dim[0] < 2) c++;
    ask(q, t, c);
}

static void close_question(question *q)
{
    ts_arena_clear(&q->m);
    ts_arena_close(&q->m);
    free(q->args);
    free(q->want);
}

static bool is_right(const question *q, ts_flaw *f)
{
    ts_errors e = { 0 };
    return q->t->check(q->c, q->args, q->want, f, &e);
}

/* The rule that is broken; NULL: none, and the answer is wrong. */
static const char *excuse(const question *q)
{
    ts_flaw   f;
    ts_errors e = { 0 };
    assert_false(is_right(q, &f));
    return ts_canon_broken(q->t, q->c, q->args, q->want, &f, &e);
}

/* The answer of the oracle. */
static void answer_topk(question *q)
{
    const ts_softmax_topk_args *a = q->args;
    const int64_t               n = a->n_rows * a->k;
    ts_flaw                     f;
    for (int64_t i = 0; i < n; i++) {
        a->index[i] = (int32_t)q->want[i].value;
        a->prob[i] = (float)q->want[n + i].value;
    }
    for (int64_t r = 0; a->lse && r < a->n_rows; r++) a->lse[r] = (float)q->want[2 * n + r].value;
    assert_true(is_right(q, &f));
}

static void swap(int32_t *a, int32_t *b)
{
    const int32_t was = *a;
    *a = *b, *b = was;
}

TEST(any_order_of_ties)
{
    question q;
    ask_family(&q, "softmax_topk", "ties");
    const ts_softmax_topk_args *a = q.args;
    const float                *x = a->logits;
    answer_topk(&q);
    assert_true(x[a->index[0]] == x[a->index[1]]);
    swap(&a->index[0], &a->index[1]);
    assert_non_null(excuse(&q));
    a->index[0] = a->index[1]; /* one of them twice */
    assert_null(excuse(&q));
    answer_topk(&q);
    int32_t lower = 0; /* a logit that is smaller than the best */
    while (!(x[lower] < x[a->index[0]])) lower++;
    a->index[0] = lower;
    assert_null(excuse(&q));
    answer_topk(&q);
    swap(&a->index[0], &a->index[1]);
    a->prob[3] *= 1.01F; /* the order is excused, the number is not */
    assert_null(excuse(&q));
    answer_topk(&q);
    a->index[0] = (int32_t)a->n_vocab;
    assert_null(excuse(&q));
    answer_topk(&q);
    a->lse[1] += 0.01F;
    assert_null(excuse(&q));
    close_question(&q);
}

/* Of places past the vocabulary too, the flaw names the element in the caller's arrays. */
TEST(flaws_past_the_vocabulary)
{
    const ts_task *t = ts_task_called("softmax_topk");
    const ts_case *c = t->cases();
    question       q;
    while (c->dim[0] < 2 || !c->dim[1] || c->dim[2] < c->dim[1] + 4 || strcmp(c->family, "flat"))
        assert_non_null((++c)->family);
    ask(&q, t, c);
    const ts_softmax_topk_args *a = q.args;
    ts_errors                   e = { 0 };
    for (int64_t col = a->n_vocab; col < a->n_vocab + 4; col++)
        for (int prob = 0; prob < 2; prob++) {
            ts_flaw f;
            answer_topk(&q);
            if (prob) a->prob[a->k + col] = 777;
            else a->index[a->k + col] = 777;
            assert_false(is_right(&q, &f));
            assert_null(ts_canon_broken(t, c, q.args, q.want, &f, &e));
            assert_string_equal(f.what, prob ? "prob" : "index");
            assert_int_equal(f.row, 1);
            assert_int_equal(f.col, col);
            assert_true(f.got == 777);
        }
    close_question(&q);
}

TEST(rows_of_minus_infinity)
{
    question q;
    ask_family(&q, "softmax_topk", "all_masked"); /* whose second row is */
    const ts_softmax_topk_args *a = q.args;
    answer_topk(&q);
    a->prob[a->k] = NAN;
    a->lse[1] = NAN;
    assert_non_null(excuse(&q));
    a->prob[0] *= 1.01F;
    assert_null(excuse(&q));
    close_question(&q);
}

TEST(inputs_that_are_no_numbers)
{
    question q;
    ask_family(&q, "layernorm_forward", "nonfinite");
    const ts_layernorm_forward_args *a = q.args;
    memset(a->y, 0, (size_t)(a->n_rows * a->row_stride) * sizeof(float));
    assert_non_null(excuse(&q));
    close_question(&q);
    ask_family(&q, "layernorm_forward", "normal");
    const ts_layernorm_forward_args *b = q.args;
    memset(b->y, 0, (size_t)(b->n_rows * b->row_stride) * sizeof(float));
    assert_null(excuse(&q));
    close_question(&q);
}

/* Whether the search finds the same when equal scores are taken in other orders: four, or under
 * sanitizers one. */
static bool any_order_finds_it(const question *q)
{
    const ts_beam_play_args *a = q->args;
    const ts_toy             m = { a->word, a->weight };
    const size_t             n = q->t->n_want(q->c);
    int32_t *none = calloc((size_t)(a->n_items * a->width * a->steps) + 1, sizeof *none);
    ts_want *other = calloc(n + 1, sizeof *other);
    bool     same = true;
    assert_true(none && other);
    for (uint64_t order = 1; order <= (SANITIZED ? 1 : 4) && same; order++) {
        const ts_beam_told told = { none, order };
        ts_beam_solve(q->c, &m, a->prompts + a->n_items, &told, other);
        for (size_t i = 0; i < n; i++) same = same && other[i].value == q->want[i].value;
    }
    free(none);
    free(other);
    return same;
}

/* Few that are published define an order of equal scores: where none are meant, none are drawn. */
TEST(beams_tie_where_it_is_meant)
{
    const ts_task *const t = ts_task_called("beam_search");
    int                  n = 0, n_ties = 0;
    for (const ts_case *c = t->cases(); c->use; c++) {
        question q;
        char     name[192];
        if (!strcmp(c->family, "archive_refused") || c->use & TS_USE_COVER) continue;
        if (t->cost(c).bytes > 4e7) continue;
        ask(&q, t, c);
        const bool same = any_order_finds_it(&q);
        ts_case_string(t, c, SEED, name, sizeof name);
        if (!same && !ts_beam_means_ties(c)) fail_msg("%s: equal scores", name);
        n++, n_ties += !same;
        close_question(&q);
    }
    assert_true(n > 80 && n_ties > 10);
}

/* Equal scores of one beam's tokens are equal scores; other tokens of one beam are never too near.
 */
TEST(margins_of_one_beam)
{
    for (int near = 0; near < 2; near++) {
        const ts_case c = { .dtype = TS_F32,
                            .dim = { 1, 97, 5, 1, 3, 60, -1, TS_TOY_TABLE },
                            .family = near ? "near" : "ties" };
        ts_beam_quiz  q;
        ts_beam_draw(&c, 7, &q);
        const ts_toy m = ts_model_toy(&q.model);
        const double margin = ts_beam_solve(&c, &m, q.prompts, NULL, NULL);
        assert_true(near ? margin > 1 : margin == 0);
        ts_beam_quiz_free(&q);
    }
}

/* Of every task, an answer of zeros and one that was never written: on ordinary inputs nothing
 * excuses it, and where a rule of the canon is tested, it is that rule or one of all inputs. */
TEST(nothing_else_is_excused)
{
    int n = 0, n_open = 0;
    for (int t = 0; ts_tasks[t]; t++)
        for (const ts_case *c = ts_tasks[t]->cases(); c->use; c++) {
            const ts_canon *tested = ts_canon_of(ts_tasks[t], c);
            const bool      open = tested && tested->open;
            question        q;
            ts_flaw         f;
            if (!(c->use & TS_USE_CHECK) || ts_tasks[t]->cost(c).bytes > 1e5) continue;
            if (open && c->use & TS_USE_COVER) continue;
            if (!open && ts_case_category(ts_tasks[t], c) != TS_BASIC) continue;
            ask(&q, ts_tasks[t], c);
            for (int zero = 0; zero < 2; zero++) {
                ts_arena_reset(&q.m);
                for (int i = 0; zero && i < q.m.n; i++)
                    if (q.m.buf[i].b.role == TS_OUT) memset(q.m.buf[i].p, 0, q.m.buf[i].n_bytes);
                if (is_right(&q, &f)) continue;
                const char *rule = excuse(&q);
                char        name[192];
                ts_case_string(ts_tasks[t], c, SEED, name, sizeof name);
                if (!rule != !open) fail_msg("%s: %s", name, rule ? rule : "no rule");
                n++, n_open += open;
            }
            close_question(&q);
        }
    assert_true(n - n_open > 100 && n_open > 100);
}
