/* SPDX-License-Identifier: Apache-2.0 */
/* train_learn.c - tests training on sources whose learnable information is known.
 *
 * A copy with a delay, which needs attention; a Markov chain, whose entropy is known; and random
 * tokens, which a model can predict only if it has seen them. */
#include "unit_train.h"

static ts_train_options options_of(int64_t n_step, double lr)
{
    return (ts_train_options) { .adamw = { lr, 0.9, 0.95, 1e-8, 0.01, 1 },
                                .last = 0.1,
                                .n_step = n_step,
                                .n_warm = n_step / 20,
                                .n_accumulate = 1,
                                .eval_every = n_step,
                                .save_every = n_step,
                                .seed = 1,
                                .stop_token = -1 };
}

typedef struct outcome {
    ts_train_result r;
    double          accuracy; /* held out */
} outcome;

static outcome learn(ts_net_options o, const ts_feed *f, int64_t n_step, double lr)
{
    const ts_train_options t = options_of(n_step, lr);
    ts_net                *n = net_of(&o, 0x5eed);
    ts_net_batch           b = batch_of(&o);
    ts_net_score           s = { 0 };
    outcome                y;
    char                   why[TS_MODEL_WHY] = "";
    if (!ts_train(n, f, &t, NULL, NULL, &y.r, why)) fail_msg("%s", why);
    assert_int_equal(f->n_held_out % o.n_batch, 0);
    for (int64_t i = 0; i < f->n_held_out; i += o.n_batch) {
        for (int64_t j = 0; j < o.n_batch; j++)
            f->fill(f->user, true, i + j, b.input + j * o.n_token, b.target + j * o.n_token,
                    o.n_token);
        assert_int_equal(ts_net_eval(n, &b, &s), TS_OK);
    }
    assert_true(fabs(s.nll / (double)s.n_count - y.r.last) <= 1e-12);
    y.accuracy = (double)s.n_right / (double)s.n_count;
    batch_free(&b);
    ts_net_free(&n);
    return y;
}

static uint64_t stream(bool held_out, int64_t i)
{
    return ts_bits(held_out ? 0xbead : 0xfeed, i);
}

/* ---- the second half repeats the first ---- */

static void fill_copy(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target,
                      int64_t n)
{
    const int64_t n_vocab = *(int64_t *)user, half = (n + 1) / 2;
    for (int64_t t = 0; t < n; t++)
        input[t] = (int32_t)(ts_bits(stream(held_out, i), t % half) % (uint64_t)n_vocab);
    for (int64_t t = 0; t < n; t++) target[t] = t + 1 >= half && t + 1 < n ? input[t + 1] : -1;
}

TEST(delayed_copy)
{
    int64_t       n_vocab = 16;
    const ts_feed f = { fill_copy, &n_vocab, 64, 0 };
    for (int ternary = 0; ternary < 2; ternary++) {
        ts_net_options o = net_options(2, 64, 4, 2, 16, 128, n_vocab);
        o.n_batch = 32;
        o.n_token = 16;
        o.ternary = ternary;
        const outcome y = learn(o, &f, 150, 5e-3);
        print_message("delayed copy, %s: held out %.4f, accuracy %.1f %%, %.1f s\n",
                      ternary ? "ternary" : "float", y.r.last, 100 * y.accuracy, y.r.took_s);
        assert_true(y.accuracy > 0.8);
        assert_true(y.r.last < 0.3);
    }
}

/* ---- a chain ---- */

enum { STATES = 8 };

typedef struct chain {
    double p[STATES][STATES], entropy; /* nats a token, in the long run */
} chain;

static chain chain_of(uint64_t seed)
{
    chain  c = { 0 };
    double at[STATES], next[STATES];
    for (int i = 0; i < STATES; i++) {
        double sum = 0;
        for (int j = 0; j < STATES; j++)
            sum += c.p[i][j] = exp(2 * ts_normal(seed, i * STATES + j));
        for (int j = 0; j < STATES; j++) c.p[i][j] /= sum;
        at[i] = 1.0 / STATES;
    }
    for (int k = 0; k < 1000; k++) {
        memset(next, 0, sizeof next);
        for (int i = 0; i < STATES; i++)
            for (int j = 0; j < STATES; j++) next[j] += at[i] * c.p[i][j];
        memcpy(at, next, sizeof at);
    }
    for (int i = 0; i < STATES; i++)
        for (int j = 0; j < STATES; j++) c.entropy -= at[i] * c.p[i][j] * log(c.p[i][j]);
    return c;
}

static void fill_chain(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target,
                       int64_t n)
{
    const chain *c = user;
    int          at = 0;
    for (int64_t t = -20; t <= n; t++) { /* some steps before anybody looks */
        double u = 0.5 + 0.5 * ts_uniform(stream(held_out, i), t + 20);
        int    next = 0;
        while (next + 1 < STATES && (u -= c->p[at][next]) >= 0) next++;
        if (t >= 0 && t < n) input[t] = at;
        if (t >= 1) target[t - 1] = at;
        at = next;
    }
}

TEST(markov)
{
    chain         c = chain_of(3);
    const ts_feed f = { fill_chain, &c, 256, 0 };
    for (int ternary = 0; ternary < 2; ternary++) {
        ts_net_options o = net_options(1, 32, 2, 1, 16, 64, STATES);
        o.n_batch = 32;
        o.n_token = 32;
        o.ternary = ternary;
        const outcome y = learn(o, &f, 120, 5e-3);
        print_message("Markov chain, %s: held out %.4f, entropy %.4f, ln V %.4f, %.1f s\n",
                      ternary ? "ternary" : "float", y.r.last, c.entropy, log(STATES), y.r.took_s);
        assert_true(y.r.last < c.entropy + 0.03);
        assert_true(y.r.last > c.entropy - 0.03);
    }
}

/* ---- nothing to learn ---- */

static void fill_uniform(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target,
                         int64_t n)
{
    const int64_t n_vocab = *(int64_t *)user;
    for (int64_t t = 0; t <= n; t++) {
        const int32_t token = (int32_t)(ts_bits(stream(held_out, i), t) % (uint64_t)n_vocab);
        if (t < n) input[t] = token;
        if (t) target[t - 1] = token;
    }
}

/* Inputs for labels: what it must not be taken for. */
static void fill_leak(void *user, bool held_out, int64_t i, int32_t *input, int32_t *target,
                      int64_t n)
{
    fill_uniform(user, held_out, i, input, target, n);
    memcpy(target, input, (size_t)n * sizeof *target);
}

TEST(uniform)
{
    int64_t       n_vocab = 32;
    const ts_feed f = { fill_uniform, &n_vocab, 128, 0 }, leak = { fill_leak, &n_vocab, 128, 0 };
    for (int ternary = 0; ternary < 2; ternary++) {
        ts_net_options o = net_options(1, 32, 2, 1, 16, 64, n_vocab);
        o.n_batch = 16;
        o.n_token = 32;
        o.ternary = ternary;
        const outcome y = learn(o, &f, 100, 5e-3), seen = learn(o, &leak, 100, 5e-3);
        print_message("uniform tokens, %s: held out %.4f, ln V %.4f; with labels for inputs %.4f\n",
                      ternary ? "ternary" : "float", y.r.last, log((double)n_vocab), seen.r.last);
        assert_true(y.r.last >= log((double)n_vocab) - 0.01);
        assert_true(y.r.last <= log((double)n_vocab) + 0.1);
        assert_true(seen.r.last < 1); /* the control can fail */
    }
}
