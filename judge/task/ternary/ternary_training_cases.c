/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_cases.c - the models, and what is done to each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "case_list.h"
#include "ternary_training_inside.h"

enum { CHECK = TS_USE_CHECK, JUDGE = TS_USE_JUDGE };

#define TINY   11, 8, 1, 2, 1, 4
#define MIDDLE 256, 128, 2, 4, 2, 32
#define SHARED 13, 16, 1, 4, 2, 4  /* which KV head is read shows where there are two */
#define ODD    37, 130, 1, 3, 1, 6 /* a group of 128 and one of 2 */

/* clang-format off */
static const ts_case some[] = {
    { CHECK, TS_F32, { TINY, 2, 6 }, "normal" },
    { CHECK, TS_F32, { TINY, 1, 2 }, "normal" },
    { CHECK, TS_F32, { TINY, 3, 9 }, "normal" },
    { CHECK, TS_F32, { SHARED, 2, 5 }, "normal" },
    { CHECK, TS_F32, { ODD, 2, 3 }, "normal" },
    { CHECK, TS_F32, { MIDDLE, 1, 6 }, "normal" },
    { CHECK, TS_F32, { TINY, 33, 33 }, "normal" }, /* past 1024 rows */
    { CHECK, TS_F32, { TINY, 1, 140 }, "normal" },
    { CHECK, TS_F32, { SHARED, 2, 70 }, "normal" },
    { CHECK, TS_F32, { TINY, 3, 7 }, "ragged" },
    { CHECK, TS_F32, { ODD, 2, 3 }, "ragged" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "clip" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "loose" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "decay" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "rates" },
    { CHECK, TS_F32, { SHARED, 2, 6 }, "shared" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "gap" },
    { CHECK, TS_F32, { TINY, 1, 5 }, "once" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "zeros" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "ties" },
    { CHECK, TS_F32, { TINY, 2, 6 }, "nonsense" },
    { CHECK, TS_F32, { TINY, 1, 4 }, "slow" },
    { CHECK, TS_F32, { TINY, 8, 9 }, "learn" },
    { CHECK, TS_F32, { TINY, 8, 9 }, "uniform" },
    { JUDGE, TS_F32, { 64, 64, 1, 2, 1, 32, 2, 9 }, "normal" },
    { JUDGE, TS_F32, { 128, 128, 1, 4, 2, 32, 1, 9 }, "normal" },
    { JUDGE, TS_F32, { MIDDLE, 1, 9 }, "normal" },
    { TS_USE_TIME, TS_F32, { MIDDLE, 4, 33 }, "normal" },
    { TS_USE_TIME, TS_F32, { MIDDLE, 8, 65 }, "normal" },
};
/* clang-format on */

static int64_t ffn_of(const ts_case *c)
{
    const int64_t width = c->dim[WIDTH];
    return c->dim[FFN] ? c->dim[FFN] : width < 128 ? (width * 3 + 1) / 2 : width * 3;
}

/* By weights times tokens: the reference is in no hurry. */
static bool affordable(const ts_case *c)
{
    const int64_t *m = c->dim, W = m[WIDTH];
    const int64_t  heads = (2 * m[HEADS] + 2 * m[KV_HEADS]) * m[HEAD_DIM];
    const int64_t  n = m[VOCAB] * W + m[LAYERS] * W * (heads + 3 * ffn_of(c));
    return n <= 40000 && n * m[BATCH] * m[TOKENS] <= 120000;
}

/* vocab, width, layers, heads that share, kv_heads, head_dim, batch, tokens; theta, eps. Narrower
 * models are so ill-conditioned that the bounds after a step do not hold; for the same reason there
 * is one step, not three. */
const ts_cover ts_ternary_training_cover = {
    .use = CHECK,
    .dtypes = F32,
    .family = { { "normal", F32 },
                { "clip", F32 },
                { "loose", F32 },
                { "decay", F32 },
                { "nonsense", F32 } },
    .dim = { TS_COUNTS(2, 600, 1, 2, 9, 33, 129, 257, 513), TS_RANGE(0, 260, 8, 33, 128, 129, 257),
             TS_RANGE(0, 6, 1, 2, 3, 5), TS_RANGE(0, 8, 1, 2, 3, 5), TS_RANGE(0, 4, 1, 2, 3),
             TS_NUMBERS(1, 2, 4, 6, 16, 32, 64, 128), TS_RANGE(0, 9, 1, 2, 3, 5, 9),
             TS_COUNTS(0, 70, 2, 3, 4, 9, 10, 17, 33, 65), TS_NUMBERS(0, 0, 3, 500000),
             TS_NUMBERS(2, -4, -2, 0), TS_NUMBERS(0, 0, 5, 40, 130) },
    .allows = affordable,
    .make = ts_multiply_heads,
    .read = ts_divide_heads,
};

const ts_case *ts_ternary_training_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    ts_list_append(&l, some, COUNT(some));
    ts_list_cover(&l, &ts_ternary_training_cover);
    return l.c;
}

bool ts_tt_is_free(const ts_case *c)
{
    return ts_is(c, "learn") || ts_is(c, "uniform");
}

/* ---- scripts ---- */

static ts_tt_op *add(ts_tt_script *s, int what)
{
    if (s->n_op == s->room) {
        s->room = 2 * s->room + 16;
        s->op = realloc(s->op, (size_t)s->room * sizeof *s->op);
        if (!s->op) abort();
    }
    s->op[s->n_op] = (ts_tt_op) { .what = what, .same = -1 };
    if (what == TS_TT_GRAD) s->n_grad++;
    if (what == TS_TT_EXPORT) s->n_export++;
    return &s->op[s->n_op++];
}

/* With tokens of its own, or with those of an earlier operation. */
static ts_tt_op *add_batch(ts_tt_script *s, int what, int64_t n_batch, int64_t n_tok)
{
    ts_tt_op *o = add(s, what);
    o->n_batch = (int32_t)n_batch;
    o->n_tok = (int32_t)n_tok;
    o->tokens = (int32_t)s->n_token;
    s->n_token += n_batch * n_tok;
    return o;
}

static ts_tt_op *add_again(ts_tt_script *s, int64_t i, int what)
{
    const ts_tt_op old = s->op[i];
    ts_tt_op      *o = add(s, what);
    o->n_batch = old.n_batch, o->n_tok = old.n_tok, o->tokens = old.tokens;
    o->same = what == old.what ? (int32_t)i : -1;
    return o;
}

/* A step, and what it made of the model. */
static void add_step(ts_tt_script *s, int64_t n_batch, int64_t n_tok, int rate)
{
    add_batch(s, TS_TT_STEP, n_batch, n_tok)->rate = rate;
    add(s, TS_TT_EXPORT);
}

/* Called twice, with other calls between, nothing has changed. */
static void look(ts_tt_script *s, int64_t B, int64_t T)
{
    const int64_t grad = s->n_op, export = grad + 1;
    add_batch(s, TS_TT_GRAD, B, T);
    add(s, TS_TT_EXPORT);
    add_again(s, grad, TS_TT_EVAL);
    add_batch(s, TS_TT_EVAL, B, T);
    add_again(s, grad, TS_TT_GRAD);
    add(s, TS_TT_EXPORT)->same = (int32_t) export;
}

static void write_normal(ts_tt_script *s, int64_t B, int64_t T, int n_steps)
{
    add(s, TS_TT_SIZE);
    look(s, B, T);
    for (int i = 0; i < n_steps; i++) add_step(s, B, T, i);
    add_batch(s, TS_TT_GRAD, B, T);
    add_batch(s, TS_TT_EVAL, B, T);
}

static void write_ragged(ts_tt_script *s, int64_t B, int64_t T)
{
    for (int64_t b = B; b >= 1; b--)
        for (int64_t t = T; t >= 2; t -= t > 3 ? 2 : 1) {
            add_batch(s, TS_TT_GRAD, b, t);
            add_batch(s, TS_TT_EVAL, b, t);
        }
    add_step(s, 1, 2, 0);
    add_step(s, B, T, 1);
    add_batch(s, TS_TT_GRAD, B, 2);
}

/* Every invalid call, and then the model is as it was. */
static void write_nonsense(ts_tt_script *s, int64_t B, int64_t T)
{
    static const struct {
        int what, how;
    } bad[] = {
        { TS_TT_STEP, TS_TT_SHORT },       { TS_TT_STEP, TS_TT_NO_TOKEN },
        { TS_TT_STEP, TS_TT_LOW_TOKEN },   { TS_TT_STEP, TS_TT_ONE_TOKEN },
        { TS_TT_STEP, TS_TT_NO_BATCH },    { TS_TT_STEP, TS_TT_MORE_BATCH },
        { TS_TT_STEP, TS_TT_MORE_TOKENS }, { TS_TT_STEP, TS_TT_BAD_RATE },
        { TS_TT_STEP, TS_TT_BAD_BETA },    { TS_TT_GRAD, TS_TT_SHORT },
        { TS_TT_GRAD, TS_TT_NO_TOKEN },    { TS_TT_GRAD, TS_TT_ONE_TOKEN },
        { TS_TT_EVAL, TS_TT_LOW_TOKEN },   { TS_TT_EVAL, TS_TT_MORE_BATCH },
        { TS_TT_EVAL, TS_TT_SHORT },       { TS_TT_EXPORT, TS_TT_SHORT },
    };
    for (int i = 0; i < TS_TT_WAYS; i++) add(s, TS_TT_SIZE)->how = i;
    add_step(s, B, T, 0);
    const int64_t grad = s->n_op, export = grad + 1;
    add_batch(s, TS_TT_GRAD, B, T);
    add(s, TS_TT_EXPORT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        add_batch(s, bad[i].what, B, T)->how = bad[i].how;
    for (int f = 0; f < TS_TT_FUNCTIONS; f++)
        for (int k = 0; k < ts_tt_pointers(f); k++) {
            ts_tt_op *o = add(s, TS_TT_WITHOUT);
            o->n_batch = (int32_t)B, o->n_tok = (int32_t)T;
            o->rate = f, o->tokens = k;
        }
    add_again(s, grad, TS_TT_GRAD);
    add(s, TS_TT_EXPORT)->same = (int32_t) export;
    add_step(s, B, T, 1);
}

static void write_slow(ts_tt_script *s, int64_t B, int64_t T)
{
    add_step(s, B, T, 3);
    for (int i = 1; i < 1000; i++) {
        add_again(s, 0, TS_TT_STEP)->rate = 3;
        s->op[s->n_op - 1].same = -1;
        add(s, TS_TT_EXPORT);
    }
}

enum { BUDGET = 40 };

static void write_free(ts_tt_script *s, int64_t B, int64_t T)
{
    for (int i = 0; i < BUDGET; i++) add_batch(s, TS_TT_STEP, B, T)->rate = 3;
    add(s, TS_TT_EXPORT);
    add_batch(s, TS_TT_EVAL, B, T);
}

static void set_rates(const ts_case *c, ts_tt_script *s)
{
    /* One after the other: plain, with decay, clipped; lr, betas, eps, decay, clip */
    static const double some[TS_TT_RATES][TS_TT_RATE] = { { 3e-3, 0.9, 0.95, 1e-8, 0.1, 0 },
                                                          { 2e-3, 0.9, 0.95, 1e-8, 0.3, 1 },
                                                          { 1e-3, 0.8, 0.99, 1e-8, 0, 0.05 },
                                                          { 1e-6, 0.9, 0.999, 1e-8, 0, 0 } };
    static const double odd[3][TS_TT_RATE] = { { 0, 0.9, 0.95, 1e-3, 0.1, 0 },
                                               { 2e-3, 0, 0, 1e-3, 0, 0 },
                                               { 0.1, 0.5, 0.9, 1e-4, 0, 1e-4 } };
    memcpy(s->rate, some, sizeof some);
    for (int i = 0; i < 3; i++) {
        /* With a large eps the sizes of gradients matter, not only their signs. */
        if (ts_is(c, "clip")) s->rate[i][5] = 0.02, s->rate[i][3] = 1e-3;
        if (ts_is(c, "loose")) s->rate[i][5] = 1e6, s->rate[i][3] = 1e-3; /* nothing to clip */
        /* What is 0, large or small: no step, no memory, far, hardly. */
        if (ts_is(c, "rates")) memcpy(s->rate[i], odd[i], sizeof odd[i]);
        if (ts_is(c, "decay")) s->rate[i][4] = 8, s->rate[i][0] = 1e-2;
    }
    if (ts_tt_is_free(c)) s->rate[3][0] = 1e-2;
}

void ts_tt_script_of(const ts_case *c, ts_tt_script *s)
{
    const int64_t B = c->dim[BATCH], T = c->dim[TOKENS], width = c->dim[WIDTH];
    *s = (ts_tt_script) { 0 };
    s->d = (ts_ternary_dims) { .n_vocab = c->dim[VOCAB],
                               .width = width,
                               .n_layer = c->dim[LAYERS],
                               .n_head = c->dim[HEADS],
                               .n_kv_head = c->dim[KV_HEADS],
                               .head_dim = c->dim[HEAD_DIM],
                               .ffn = ffn_of(c),
                               .max_batch = B,
                               .max_tokens = T,
                               .rope_theta = c->dim[THETA] ? (double)c->dim[THETA] : 10000,
                               .norm_eps =
                                   c->dim[EPS_POWER] ? pow(10, (double)c->dim[EPS_POWER]) : 1e-6 };
    set_rates(c, s);
    if (!(c->use & TS_USE_CHECK)) add_step(s, B, T, 0); /* what is timed */
    else if (ts_is(c, "ragged")) write_ragged(s, B, T);
    else if (ts_is(c, "nonsense")) write_nonsense(s, B, T);
    else if (ts_is(c, "slow")) write_slow(s, B, T);
    else if (ts_tt_is_free(c)) write_free(s, B, T);
    else write_normal(s, B, T, c->use & TS_USE_COVER ? 1 : 3);
    add(s, TS_TT_DESTROY);
}
