/* SPDX-License-Identifier: Apache-2.0 */
/* unit_canon.c - tests which flaws are excused as a rule of the canon, with outputs written by hand
 * into the buffers of a case. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_inside.h"
#include "canon.h"
#include "dtype.h"
#include "ternary_linear_script.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"
#include "touchstone/softmax_topk.h"
#include "tree_verify_script.h"

/* The first f32 case of the family that has rows, and its inputs and wants. */
static void ask_family(question *q, const char *task, const char *family)
{
    const ts_task *t = ts_task_called(task);
    const ts_case *c = t->cases();
    while (strcmp(c->family, family) || c->dtype != TS_F32 || c->dim[0] < 2) c++;
    ask(q, task, c);
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
    ask(&q, t->name, c);
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

/* The k largest probabilities are common too, as they are in float; so is a sum in one loop. */
TEST(nearly_equal_probabilities)
{
    question q;
    ask_family(&q, "softmax_topk", "underflow"); /* whose probabilities but one are 0 */
    const ts_softmax_topk_args *a = q.args;
    answer_topk(&q);
    swap(&a->index[1], &a->index[2]);
    assert_non_null(excuse(&q));
    swap(&a->index[0], &a->index[1]); /* whose probability is 1 */
    assert_null(excuse(&q));
    close_question(&q);
    ask_family(&q, "softmax_topk", "normal");
    const ts_softmax_topk_args *b = q.args;
    answer_topk(&q);
    swap(&b->index[0], &b->index[1]);
    assert_null(excuse(&q));
    swap(&b->index[0], &b->index[1]);
    const double u = 0x1p-24, p = b->prob[0], n = (double)b->n_vocab;
    const double bound = q.want[b->n_rows * b->k].bound;
    b->prob[0] = (float)(p + bound + 0.5 * n * u * p);
    assert_non_null(excuse(&q));
    b->prob[0] = (float)(p + bound + 100 * n * u * p);
    assert_null(excuse(&q));
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

/* The answer of the oracle, in float. */
static void answer_layernorm(question *q)
{
    const ts_layernorm_forward_args *a = q->args;
    const int64_t                    R = a->n_rows, D = a->n_cols;
    ts_flaw                          f;
    for (int64_t i = 0; i < R * D; i++)
        ((float *)a->y)[i / D * a->row_stride + i % D] = (float)q->want[i].value;
    for (int64_t r = 0; r < R; r++) {
        ((float *)a->mean)[r] = (float)q->want[R * D + r].value;
        ((float *)a->rstd)[r] = (float)q->want[R * D + R + r].value;
    }
    assert_true(is_right(q, &f));
}

TEST(inputs_that_are_no_numbers)
{
    question q;
    ask_family(&q, "layernorm_forward", "nonfinite"); /* in the second row, but not in the first */
    const ts_layernorm_forward_args *a = q.args;
    answer_layernorm(&q);
    memset((float *)a->y + a->row_stride, 0, (size_t)a->n_cols * sizeof(float));
    assert_non_null(excuse(&q));
    ts_poison(TS_F32, (float *)a->y + 1, sizeof(float)); /* unwritten */
    assert_null(excuse(&q));
    answer_layernorm(&q);
    memset(a->y, 0, (size_t)a->n_cols * sizeof(float));
    assert_null(excuse(&q));
    close_question(&q);
    ask_family(&q, "layernorm_forward", "normal");
    const ts_layernorm_forward_args *b = q.args;
    memset(b->y, 0, (size_t)(b->n_rows * b->row_stride) * sizeof(float));
    assert_null(excuse(&q));
    close_question(&q);
}

/* PyTorch's own norms overflow, flush or divide by 0 there; but not with the floats of f16, nor
 * where only gains and gradients are large. */
TEST(extreme_magnitudes)
{
    static const char *const tasks[] = { "layernorm_forward", "layernorm_backward",
                                         "rms_norm_forward", "rms_norm_backward" };
    static const char *const families[] = { "small", "huge", "extreme", "flat_huge" };
    static const char *const usual[] = { "normal", "loud", "faint", "denormal" };
    int                      n = 0, n_eps = 0, n_usual = 0;
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++)
        for (const ts_case *c = ts_task_called(tasks[t])->cases(); c->use; c++) {
            const ts_canon *r = ts_canon_of(ts_task_called(tasks[t]), c);
            /* Float has no such eps. */
            const bool none = c->dtype != TS_F64 && c->dim[TS_MAX_DIMS] == 40;
            for (size_t i = 0; i < sizeof families / sizeof *families; i++)
                if (ts_is(c, families[i])) assert_true(!r == (c->dtype == TS_F16 && !none)), n++;
            for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
                if (ts_is(c, usual[i])) assert_true(!r == !none), n_eps += none, n_usual += !none;
            assert_true(!r || !r->open || !strncmp(c->family, "nonfinite", 9));
        }
    assert_true(n > 100 && n_eps > 4 && n_usual > 100);
}

/* Not even where the error of a mean, squared, overflows. */
TEST(bounds_are_numbers)
{
    int n = 0;
    for (int t = 0; t < 2; t++) {
        const ts_task *task = ts_task_called(t ? "layernorm_backward" : "layernorm_forward");
        for (const ts_case *c = task->cases(); c->use; c++) {
            question q;
            if (!ts_is(c, "flat_huge") || c->dtype != TS_F64 || c->dim[0] * c->dim[1] > 1 << 16)
                continue;
            if (!(c->use & TS_USE_CHECK)) continue;
            ask(&q, task->name, c);
            for (size_t i = 0; i < task->n_want(c); i++, n++) assert_false(isnan(q.want[i].bound));
            close_question(&q);
        }
    }
    assert_true(n > 1000);
}

/* The error of one loop in float is excused, but not more. */
TEST(plain_sums)
{
    question q;
    ask_family(&q, "layernorm_forward", "constant");
    const ts_layernorm_forward_args *a = q.args;
    const int64_t                    R = a->n_rows, D = a->n_cols;
    answer_layernorm(&q);
    float *const mean = (float *)a->mean + R - 1;
    const double right = q.want[R * D + R - 1].value, u = 0x1p-24;
    assert_true(fabs(right) > 0);
    *mean = (float)(right * (1 + (8 + 0.7 * (double)D) * u));
    assert_non_null(excuse(&q));
    *mean = (float)(right * (1 + (8 + 2 * (double)D) * u));
    assert_null(excuse(&q));
    *mean = NAN;
    assert_null(excuse(&q));
    close_question(&q);
}

/* A call may have changed what it was given: what is excused depends on neither. */
TEST(plain_sums_in_place)
{
    const ts_task *t = ts_task_called("rms_norm_forward");
    const ts_case *c = t->cases();
    question       q;
    while (!ts_is(c, "constant") || c->dtype != TS_F32 || c->dim[4] != 2 || ts_canon_of(t, c))
        assert_non_null((++c)->family);
    ask(&q, t->name, c);
    const ts_rms_norm_forward_args *a = q.args;
    const int64_t                   R = a->n_rows, D = a->n_cols;
    ts_flaw                         f;
    for (int64_t i = 0; i < R * D; i++) {
        ((float *)a->y)[i / D * a->row_stride + i % D] = (float)q.want[i].value;
        ((float *)a->r)[i / D * a->row_stride + i % D] = (float)q.want[R * D + R + i].value;
    }
    for (int64_t r = 0; r < R; r++) ((float *)a->rstd)[r] = (float)q.want[R * D + r].value;
    assert_true(a->x == a->r && is_right(&q, &f));
    const double right = q.want[R * D].value, u = 0x1p-24;
    ((float *)a->rstd)[0] = (float)(right * (1 + (8 + 2 * sqrt((double)D) + 0.8 * (double)D) * u));
    assert_non_null(excuse(&q));
    ((float *)a->rstd)[0] = (float)(right * (1 + (12 + 2 * sqrt((double)D) + (double)D) * u));
    assert_null(excuse(&q));
    close_question(&q);
}

/* A mean in float may be on the other side of the midpoint of two scales, but not further off. */
TEST(means_in_float)
{
    question q;
    ask_family(&q, "ternary_linear", "ties"); /* every third row: such a mean */
    const ts_ternary_play_args *a = q.args;
    size_t                      at = 0;
    ts_flaw                     f;
    for (int i = 0; i < q.m.n; i++) {
        const ts_buf *b = &q.m.buf[i].b;
        for (int64_t k = 0; b->role == TS_OUT && k < b->n_rows * b->n_cols; k++)
            ts_store(q.m.buf[i].p, b->dtype, k, q.want[at++].value);
    }
    assert_true(is_right(&q, &f));
    uint16_t *const scale = a->scale + 2 * ((a->d.n_in + 127) / 128); /* of the third row */
    --*scale;
    assert_non_null(excuse(&q));
    --*scale;
    assert_null(excuse(&q));
    *scale += 3;
    assert_null(excuse(&q));
    --*scale;
    a->code[1] ^= 3; /* of a weight that is far from half of the scale */
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
        const ts_beam_told told = { none, order, false };
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
        ask(&q, t->name, c);
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

/* The answer of the oracle, with log-probabilities and scores `off` of themselves away. */
static void answer_beams(question *q, double off)
{
    const ts_beam_play_args *a = q->args;
    const int64_t            n = a->n_items * a->width, T = a->steps;
    const ts_want           *w = q->want;
    for (int64_t i = 0; i < n * T; i++) a->tokens[i] = (int32_t)(w++)->value;
    for (int64_t i = 0; i < n; i++) a->logprob[i] = (w++)->value * (1 + off);
    for (int64_t i = 0; i < n; i++) a->score[i] = (w++)->value * (1 + off);
    for (int64_t i = 0; i < a->n_items * (2 * a->width + 1); i++) a->beams[i] = (w++)->value;
    for (int64_t i = 0; i < (T + TS_BEAM_SEEN_MORE) * TS_BEAM_SEEN; i++) a->calls[i] = (w++)->value;
}

/* A float's error is excused, and so is an order of scores that differ by less; no more is. */
TEST(searches_in_float)
{
    question q;
    ts_flaw  f;
    ask_family(&q, "beam_search", "normal");
    const ts_beam_play_args *a = q.args;
    answer_beams(&q, 0);
    assert_true(is_right(&q, &f));
    answer_beams(&q, 0x1p-24);
    assert_string_equal(excuse(&q), "log-probabilities are exact to 1e-12 per token");
    answer_beams(&q, 1e-3);
    assert_null(excuse(&q));
    answer_beams(&q, 0x1p-24);
    a->tokens[0] = a->tokens[0] ? 0 : 1; /* another beam, with the score of the right one */
    assert_null(excuse(&q));
    answer_beams(&q, 0);
    assert_true(a->width > 1 && fabs(a->score[0] - a->score[1]) > 1e-4);
    for (int64_t t = 0; t < a->steps; t++) swap(&a->tokens[t], &a->tokens[a->steps + t]);
    const double logprob = a->logprob[0], score = a->score[0]; /* right, but not in order */
    a->logprob[0] = a->logprob[1], a->logprob[1] = logprob;
    a->score[0] = a->score[1], a->score[1] = score;
    assert_null(excuse(&q));
    close_question(&q);
}

static const ts_case *star_of(const ts_task *t)
{
    const ts_case *c = t->cases();
    while (strcmp(c->family, "late") || c->dim[5]) c++; /* 5: temperature */
    return c;
}

/* The answer of the oracle; or that of walks of which each ends at its first node, which is wrong.
 */
static void answer_tree(question *q, bool prefix)
{
    const ts_tree_play_args *a = q->args;
    const int64_t            N = a->n_node, R = a->most_rows;
    const ts_want           *w = q->want;
    for (int64_t i = 0; i < a->n_cycle * a->max_new; i++) a->out[i] = (int32_t)(w++)->value;
    for (int64_t i = 0; i < a->n_cycle * N; i++) a->path[i] = (int32_t)(w++)->value;
    for (int64_t i = 0; i < a->n_cycle * (TS_TREE_SEEN + N); i++) a->seen[i] = (w++)->value;
    for (int64_t i = 0; i < a->n_cycle * R * ts_tree_row_words(R); i++)
        a->passed[i] = (int32_t)(w++)->value;
    if (!prefix) return;
    for (int64_t c = 0; c < a->n_cycle; c++) {
        double *const seen = a->seen + c * (TS_TREE_SEEN + N);
        for (int64_t i = 1; i < a->max_new; i++) a->out[c * a->max_new + i] = -1;
        for (int64_t i = 0; i < N; i++) a->path[c * N + i] = -1;
        for (int64_t i = 1; i < N; i++) seen[TS_TREE_SEEN + i] = TS_NODE_UNREACHED;
        seen[TS_TREE_N_OUT] = 1, seen[TS_TREE_N_PATH] = 0;
    }
}

/* A shorter prefix is excused where every walk ends at the first wrong sibling; a token more, or a
 * wrong one, is not. See also unit_canon_tree.c. */
TEST(walks_that_end_early)
{
    const ts_task *t = ts_task_called("tree_verify");
    question       q;
    ts_flaw        f;
    ask(&q, t->name, star_of(t));
    const ts_tree_play_args *a = q.args;
    answer_tree(&q, false);
    assert_true(is_right(&q, &f));
    assert_true(a->seen[TS_TREE_N_PATH] > 0 && a->seen[TS_TREE_SEEN] == TS_NODE_REJECTED);
    answer_tree(&q, true);
    assert_string_equal(excuse(&q), "after a rejected node the walk goes on to its siblings");
    a->seen[TS_TREE_SEEN] = TS_NODE_UNREACHED; /* but the first is not even rejected */
    assert_null(excuse(&q));
    answer_tree(&q, true);
    a->out[1] = a->out[0], a->seen[TS_TREE_N_OUT] = 2; /* emitted again */
    assert_null(excuse(&q));
    answer_tree(&q, true);
    a->out[0] = (a->out[0] + 1) % (int32_t)a->n_vocab;
    assert_null(excuse(&q));
    answer_tree(&q, true);
    a->seen[TS_TREE_N_OUT] = 0, a->out[0] = -1; /* nothing at all */
    assert_null(excuse(&q));
    answer_tree(&q, true);
    a->passed[1] += 1; /* the position of the first row */
    assert_null(excuse(&q));
    close_question(&q);
}

/* Of every task, an answer of zeros and one that was never written: on ordinary inputs nothing
 * excuses it, nor one that was not written where a rule of the canon is tested. No rule excuses a
 * whole case: each task says what its rules are about. */
TEST(nothing_else_is_excused)
{
    int n = 0, n_unwritten = 0;
    for (int t = 0; ts_tasks[t]; t++)
        for (const ts_case *c = ts_tasks[t]->cases(); c->use; c++) {
            const ts_canon *tested = ts_canon_of(ts_tasks[t], c);
            const bool      named = tested && ts_tasks[t]->excuse;
            question        q;
            ts_flaw         f;
            if (tested && tested->open) assert_true(named || ts_tasks[t]->common_decides);
            if (!(c->use & TS_USE_CHECK) || ts_tasks[t]->cost(c).bytes > 1e5) continue;
            if (named && c->use & TS_USE_COVER) continue;
            if (!named && ts_case_category(ts_tasks[t], c) != TS_BASIC) continue;
            ask(&q, ts_tasks[t]->name, c);
            for (int zero = 0; zero < (named ? 1 : 2); zero++) {
                ts_arena_reset(&q.m);
                for (int i = 0; zero && i < q.m.n; i++)
                    if (q.m.buf[i].b.role == TS_OUT) memset(q.m.buf[i].p, 0, q.m.buf[i].n_bytes);
                if (is_right(&q, &f)) continue;
                const char *rule = excuse(&q);
                char        name[192];
                ts_case_string(ts_tasks[t], c, SEED, name, sizeof name);
                if (rule) fail_msg("%s: %s", name, rule);
                n++, n_unwritten += named;
            }
            close_question(&q);
        }
    assert_true(n - n_unwritten > 100 && n_unwritten > 100);
}
