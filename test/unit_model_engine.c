/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_engine.c - tests batches of requests: joining, waiting, truncation, rejection; and the
 * distribution of sampling. */
#include "unit_model.h"

/* ---- requests ---- */

/* What can never fit ends with a status; the others do not notice. */
TEST(too_few_pages)
{
    static const int32_t    prompt[3] = { 1, 2, 3 };
    const ts_engine_options o = {
        .n_seq = 2, .capacity = 60, .page = 4, .n_page = 2 * 3, .chunk = 8, .store = TS_F32
    };
    ts_request  q[3];
    results     r;
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    for (int i = 0; i < 3; i++)
        q[i] = (ts_request) {
            .prompt = prompt, .n_prompt = 3, .n_new = i == 1 ? 40 : 5, .sampling = greedy
        };
    run(m, &o, q, 3, &r, NULL);
    assert_int_equal(r.status[0], TS_OK);
    assert_int_equal(r.n[0], 5);
    assert_int_equal(r.status[1], TS_E_CAPACITY);
    assert_int_equal(r.n[1], 10); /* 12 tokens in pages, and the one after them */
    assert_int_equal(r.status[2], TS_OK);
    assert_int_equal(r.n[2], 5);
    assert_memory_equal(r.token[0], r.token[2], 5 * sizeof **r.token);
    ts_decoder_free(&m);
}

TEST(invalid_requests)
{
    const ts_engine_options o = { .n_seq = 1, .capacity = 4, .chunk = 8, .store = TS_F32 };
    const int32_t           fine[5] = { 1 }, wild[1] = { 320 };
    char                    why[TS_MODEL_WHY];
    ts_engine              *e;
    ts_decoder             *m = load(checkpoint("qwen3", ""), TS_F32);
    assert_true(ts_engine_create(m, &o, &e, why));
    assert_false(ts_engine_add(e, &(ts_request) { .prompt = fine, .n_prompt = 0 }, why));
    assert_false(ts_engine_add(e, &(ts_request) { .prompt = fine, .n_prompt = 5 }, why));
    assert_false(ts_engine_add(e, &(ts_request) { .prompt = wild, .n_prompt = 1 }, why));
    assert_true(
        ts_engine_add(e, &(ts_request) { .prompt = fine, .n_prompt = 4, .sampling = greedy }, why));
    ts_engine_free(&e);
    ts_engine_options bad = o;
    bad.capacity = 65; /* the model was made for 64 */
    assert_false(ts_engine_create(m, &bad, &e, why));
    bad = o;
    bad.chunk = 0;
    assert_false(ts_engine_create(m, &bad, &e, why));
    bad = o;
    bad.store = TS_I32;
    assert_false(ts_engine_create(m, &bad, &e, why));
    ts_decoder_free(&m);
}

/* ---- sampling ---- */

enum { VOCAB = 300, DRAWS = 20000 };

/* Draws against the law, by chi squared over the tokens that it can give. */
static void expect_law(const float *logits, ts_sampling how, const double *law, int n_possible)
{
    static int  count[VOCAB];
    ts_sampler *s;
    double      chi2 = 0, rare = 0, rare_want = 0; /* too rare ones share a bin */
    int         possible = 0, bins = 0;
    memset(count, 0, sizeof count);
    assert_true(ts_sampler_create(VOCAB, &s));
    for (int64_t i = 0; i < DRAWS; i++) {
        int32_t token = -1;
        assert_int_equal(ts_sampler_draw(s, &how, i, logits, &token), TS_OK);
        assert_in_range(token, 0, VOCAB - 1);
        count[token]++;
    }
    for (int t = 0; t < VOCAB; t++) {
        const double want = law[t] * DRAWS;
        possible += law[t] > 0;
        if (law[t] == 0) assert_int_equal(count[t], 0);
        else if (want < 10) rare_want += want, rare += count[t];
        else chi2 += (count[t] - want) * (count[t] - want) / want, bins++;
    }
    if (rare_want > 0) chi2 += (rare - rare_want) * (rare - rare_want) / rare_want, bins++;
    assert_int_equal(possible, n_possible);
    /* Five standard deviations of chi squared. */
    assert_true(chi2 <= bins - 1 + 5 * sqrt(2.0 * bins));
    ts_sampler_free(&s);
}

/* Tokens in order of likelihood are 0, 7, 14, ... mod VOCAB; the law by hand. */
TEST(law_of_sampling)
{
    static float      logits[VOCAB];
    static double     p[VOCAB], law[VOCAB];
    const ts_sampling how[] = { { 1, 0, 1, 1 },    { 2, 0, 1, 2 },    { 1, 5, 1, 3 },
                                { 1, 0, 0.5, 4 },  { 3, 90, 0.9, 5 }, { 1, 1, 1, 6 },
                                { 3, 0, 0.999, 7 } };
    for (int r = 0; r < VOCAB; r++) logits[r * 7 % VOCAB] = -0.05f * (float)r;
    for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
        const int most = how[h].top_k ? (int)how[h].top_k : VOCAB;
        double    sum = 0, kept = 0;
        int       n = 0;
        memset(law, 0, sizeof law);
        for (int r = 0; r < most; r++) sum += p[r] = exp(-0.05f * (float)r / how[h].temperature);
        while (n < most && kept < how[h].top_p * sum * (1 - 1e-12)) kept += p[n++];
        for (int r = 0; r < n; r++) law[r * 7 % VOCAB] = p[r] / kept;
        expect_law(logits, how[h], law, n);
    }
}

TEST(nonfinite_logits)
{
    static float      logits[VOCAB];
    const ts_sampling hot = { 1, 0, 1, 1 };
    ts_sampler       *s;
    int32_t           token;
    assert_true(ts_sampler_create(VOCAB, &s));
    assert_int_equal(ts_sampler_draw(s, &greedy, 0, logits, &token), TS_OK);
    assert_int_equal(token, 0);
    logits[17] = NAN;
    assert_int_equal(ts_sampler_draw(s, &greedy, 0, logits, &token), TS_E_MODEL);
    assert_int_equal(ts_sampler_draw(s, &hot, 0, logits, &token), TS_E_MODEL);
    for (int i = 0; i < VOCAB; i++) logits[i] = -INFINITY;
    assert_int_equal(ts_sampler_draw(s, &hot, 0, logits, &token), TS_E_MODEL);
    ts_sampler_free(&s);
}

/* A request's draws are its own: alone, in company, and after giving pages back. */
TEST(same_draws_in_company)
{
    static const int32_t prompt[3] = { 1, 2, 3 };
    static const int64_t n_pages[] = { 100, 16 };
    ts_request           q[3];
    results              alone, together;
    ts_engine_stats      stats;
    ts_decoder          *m = load(checkpoint("qwen3", ""), TS_F32);
    for (int i = 0; i < 3; i++)
        q[i] = (ts_request) { .prompt = prompt,
                              .n_prompt = 3,
                              .n_new = 20,
                              .sampling = { 1.5, 40, 0.95, (uint64_t)(100 + i) } };
    for (int k = 0; k < 2; k++) {
        ts_engine_options o = {
            .n_seq = 3, .capacity = 30, .page = 4, .n_page = n_pages[k], .chunk = 2, .store = TS_F32
        };
        run(m, &o, q, 3, &together, &stats);
        assert_int_equal(stats.n_preempted > 0, k);
        for (int i = 0; i < 3; i++) {
            run(m, &o, q + i, 1, &alone, NULL);
            assert_int_equal(together.n[i], alone.n[0]);
            assert_memory_equal(together.token[i], alone.token[0],
                                (size_t)alone.n[0] * sizeof **alone.token);
        }
    }
    assert_memory_not_equal(together.token[0], together.token[1], 20 * sizeof **together.token);
    ts_decoder_free(&m);
}

/* A request that joins a running batch gets what it would get alone. */
TEST(joins_late)
{
    static const int32_t    prompt[5] = { 4, 3, 2, 1, 9 };
    const ts_engine_options o = {
        .n_seq = 2, .capacity = 30, .page = 4, .n_page = 100, .chunk = 3, .store = TS_F32
    };
    const ts_request q = { .prompt = prompt, .n_prompt = 5, .n_new = 12, .sampling = greedy };
    results          alone, r = { 0 };
    char             why[TS_MODEL_WHY];
    ts_engine       *e;
    ts_decoder      *m = load(checkpoint("qwen3", ""), TS_F32);
    run(m, &o, &q, 1, &alone, NULL);
    assert_true(ts_engine_create(m, &o, &e, why));
    assert_false(ts_engine_step(e, note, &r)); /* no request is running */
    for (int i = 0; i < 4; i++) {
        assert_true(ts_engine_add(e, &q, why)); /* more than can run at once: the last ones wait */
        for (int k = 0; k < 3; k++) assert_true(ts_engine_step(e, note, &r));
    }
    while (ts_engine_step(e, note, &r)) continue;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(r.n[i], alone.n[0]);
        assert_memory_equal(r.token[i], alone.token[0], (size_t)alone.n[0] * sizeof **alone.token);
    }
    ts_engine_free(&e);
    ts_decoder_free(&m);
}

/* A stop token ends its request and is not given out. */
TEST(stops)
{
    static const int32_t    prompt[3] = { 1, 2, 3 };
    const ts_engine_options o = { .n_seq = 1, .capacity = 30, .chunk = 8, .store = TS_F32 };
    ts_request  q = { .prompt = prompt, .n_prompt = 3, .n_new = 20, .sampling = { 1, 0, 1, 5 } };
    results     all, some;
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    run(m, &o, &q, 1, &all, NULL);
    assert_int_equal(all.n[0], 20);
    q.stop = &all.token[0][7];
    q.n_stop = 1;
    run(m, &o, &q, 1, &some, NULL);
    assert_in_range(some.n[0], 0, 7);
    assert_int_equal(all.token[0][some.n[0]], all.token[0][7]);
    assert_memory_equal(some.token[0], all.token[0], (size_t)some.n[0] * sizeof **some.token);
    ts_decoder_free(&m);
}

/* ---- shared pages ---- */

/* Texts that begin alike: tokens are those without sharing, fewer are run, and every page comes
 * back. */
static void expect_sharing(const ts_decoder *m, ts_dtype store, int64_t n_page, int64_t n_keep,
                           int64_t least_shared)
{
    const ts_engine_options plain = {
        .n_seq = 3, .capacity = 60, .page = 4, .n_page = 500, .chunk = 5, .store = store
    };
    const bool        window = ts_decoder_dims_of(m)->window;
    ts_engine_options o = plain;
    int32_t           text[MOST_REQUESTS][23];
    ts_request        q[MOST_REQUESTS];
    results           want, got = { 0 };
    ts_kv_usage       use;
    char              why[TS_MODEL_WHY];
    ts_engine        *e;
    o.n_page = n_page;
    o.share = true;
    o.n_keep = n_keep;
    for (int i = 0; i < MOST_REQUESTS; i++) {
        for (int k = 0; k < 23; k++) text[i][k] = (7 * k + (k >= 2 * i + 5 ? i : 0)) % 64;
        q[i] = (ts_request) {
            .prompt = text[i], .n_prompt = 18 + i % 3, .n_new = 9, .sampling = greedy
        };
    }
    run(m, &plain, q, MOST_REQUESTS, &want, NULL);
    assert_true(ts_engine_create(m, &o, &e, why));
    for (int i = 0; i < MOST_REQUESTS; i++) { /* at once, and after the others */
        assert_true(ts_engine_add(e, &q[i], why));
        while (i % 3 && ts_engine_step(e, note, &got)) continue;
    }
    ts_engine_end(e, MOST_REQUESTS - 1); /* has ended: no effect */
    while (ts_engine_step(e, note, &got)) continue;
    for (int i = 0; i < MOST_REQUESTS; i++) {
        assert_int_equal(got.status[i], TS_OK);
        assert_int_equal(got.n[i], 9);
        assert_memory_equal(got.token[i], want.token[i], 9 * sizeof **want.token);
    }
    const int64_t n_shared = ts_engine_stats_of(e)->n_shared;
    assert_true(window ? !n_shared : n_shared >= least_shared);
    ts_engine_usage(e, &use);
    assert_int_equal(use.n_free == n_page, window || !n_keep);
    ts_engine_forget(e);
    ts_engine_usage(e, &use);
    assert_int_equal(use.n_free, n_page);
    assert_int_equal(use.bytes_live, 0);
    ts_engine_free(&e);
}

TEST(shares_pages)
{
    static const char *const names[] = { "qwen3", "mistral" }; /* mistral has a window */
    for (int i = 0; i < 2; i++) {
        ts_decoder *m = load(checkpoint(names[i], ""), TS_F64);
        expect_sharing(m, TS_F64, 500, 0, 8);
        expect_sharing(m, TS_F64, 500, 4, 60);
        expect_sharing(m, TS_F64, 2 * 8 + 6, 4, 1); /* one fits, and little of another */
        expect_sharing(m, TS_U8, 500, 4, 60);
        expect_sharing(m, TS_U4, 500, 2, 40);
        ts_decoder_free(&m);
    }
}

/* ---- log-probabilities ---- */

typedef struct probed {
    int       n;
    int32_t   token[16];
    double    logprob[16];
    ts_likely likely[16][5];
} probed;

static void probe(void *user, const ts_event *e)
{
    probed *p = user;
    assert_ptr_equal(e->tag, p);
    if (e->token < 0) return;
    assert_in_range(p->n, 0, 15);
    assert_int_equal(e->n_likely, 5);
    p->token[p->n] = e->token;
    p->logprob[p->n] = e->logprob;
    memcpy(p->likely[p->n++], e->likely, sizeof *p->likely);
}

/* Those of the logits, at any temperature and in any batch. */
TEST(log_probabilities)
{
    const ts_engine_options o = { .n_seq = 2, .capacity = 30, .chunk = 4, .store = TS_F64 };
    int32_t                 text[19] = { 1, 2, 3 };
    probed                  p = { 0 };
    char                    why[TS_MODEL_WHY];
    ts_engine              *e;
    ts_decoder             *m = load(checkpoint("qwen3", ""), TS_F64);
    const ts_request        q = { .prompt = text,
                                  .n_prompt = 3,
                                  .n_new = 16,
                                  .sampling = { 1.7, 0, 0.9, 5 },
                                  .logprobs = true,
                                  .n_likely = 5,
                                  .tag = &p };
    assert_true(ts_engine_create(m, &o, &e, why));
    assert_true(ts_engine_add(e, &q, why));
    while (ts_engine_step(e, probe, &p)) continue;
    ts_request bad = q;
    bad.n_likely = TS_MODEL_LIKELY + 1;
    assert_false(ts_engine_add(e, &bad, why));
    ts_engine_free(&e);
    assert_int_equal(p.n, 16);
    memcpy(text + 3, p.token, sizeof p.token);
    const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
    double       *logits = logits_of(m, text, 19, (way) { .chunk = 19, .store = TS_F64 });
    for (int i = 0; i < 16; i++) {
        const double *x = logits + (2 + i) * n_vocab;
        double        sum = 0;
        for (int64_t c = 0; c < n_vocab; c++) sum += exp(x[c]);
        assert_true(fabs(p.logprob[i] - (x[text[3 + i]] - log(sum))) <= 1e-5);
        for (int k = 0; k < 5; k++) {
            const ts_likely *l = &p.likely[i][k];
            int64_t          before = 0;
            assert_true(fabs(l->logprob - (x[l->token] - log(sum))) <= 1e-5);
            for (int64_t c = 0; c < n_vocab; c++) before += x[c] > x[l->token];
            assert_int_equal(before, k);
        }
    }
    free(logits);
    ts_decoder_free(&m);
}
