/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_story.c [cuda] - tests a real model against golden tokens and logits. Skipped if the
 * model or the device is absent.
 *
 * The tokens are the same for every layout, batch and chunk size; errors of quantised caches are
 * measured. */
#include "unit_model.h"

static ts_decoder *story_model;
static json_t     *golden;

static const json_t *story_case(size_t i)
{
    return json_array_get(json_object_get(golden, "cases"), i);
}

/* Both golden prompts, and `others` of another length each around them. */
typedef struct batch {
    ts_request request[MOST_REQUESTS];
    int32_t   *token[2];
    int64_t    n_total[2];
    int        n, at[2];
} batch;

static batch golden_batch(int others)
{
    static const int32_t noise[9] = { 1, 403, 20, 300, 261, 400, 77, 5, 350 };
    batch                b = { 0 };
    for (int i = 0; i < 2; i++) {
        int64_t n_prompt;
        for (int k = 0; k < others; k++)
            b.request[b.n++] = (ts_request) { .prompt = noise,
                                              .n_prompt = 1 + 3 * i + 2 * k,
                                              .n_new = 30 * (k + 1),
                                              .sampling = greedy };
        free(integers(json_object_get(story_case((size_t)i), "prompt_tokens"), &n_prompt));
        b.token[i] =
            integers(json_object_get(story_case((size_t)i), "greedy_tokens"), &b.n_total[i]);
        b.at[i] = b.n;
        b.request[b.n++] = (ts_request) { .prompt = b.token[i],
                                          .n_prompt = n_prompt,
                                          .n_new = b.n_total[i] - n_prompt,
                                          .sampling = greedy };
    }
    return b;
}

static void free_batch(batch *b)
{
    free(b->token[0]);
    free(b->token[1]);
}

static void expect_golden(const batch *b, const results *r)
{
    for (int i = 0; i < 2; i++) {
        const ts_request *q = &b->request[b->at[i]];
        assert_int_equal(r->status[b->at[i]], TS_OK);
        assert_int_equal(r->n[b->at[i]], q->n_new);
        assert_memory_equal(r->token[b->at[i]], b->token[i] + q->n_prompt,
                            (size_t)q->n_new * sizeof **b->token);
    }
}

TEST(golden_tokens)
{
    static const int64_t chunks[] = { 1, 7, 64 }, page_sizes[] = { 0, 1, 16 };
    results              r;
    int                  n_run = 0;
    for (int others = 0; others <= 3; others += 3)
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < 3; p++) {
                const int64_t           page = page_sizes[p];
                batch                   b = golden_batch(others);
                const ts_engine_options o = { .n_seq = others ? 5 : 1,
                                              .capacity = 200,
                                              .page = page,
                                              .n_page = page ? 5 * 5 * (208 / page) : 0,
                                              .chunk = chunks[c],
                                              .store = TS_F32 };
                run(story_model, &o, b.request, b.n, &r, NULL);
                expect_golden(&b, &r);
                free_batch(&b);
                n_run++;
            }
    print_message("%d ways to run: 2 x 200 golden tokens each\n", n_run);
}

TEST(golden_logits)
{
    double far = 0;
    for (size_t i = 0; i < 2; i++) {
        int64_t  n;
        int32_t *token = integers(json_object_get(story_case(i), "greedy_tokens"), &n);
        double  *got =
            logits_of(story_model, token, n, (way) { .chunk = 64, .page = 16, .store = TS_F32 });
        json_t     *rows = json_object_get(story_case(i), "logits_at"), *row;
        const char *at;
        assert_true(json_object_size(rows) > 3);
        json_object_foreach(rows, at, row)
        {
            for (size_t t = 0; t < 512; t++)
                far = farther(far, got[(size_t)atoi(at) * 512 + t],
                              json_number_value(json_array_get(row, t)));
        }
        free(got);
        free(token);
    }
    print_message("largest difference from a golden logit: %.1e\n", far);
    assert_true(far <= 1e-4);
}

TEST_IN(cpu, chunks_equal_whole)
{
    static const int64_t chunks[] = { 1, 7, 64 };
    double               far = 0;
    ts_decoder          *m = load(story("stories260K.bin"), TS_F64);
    int64_t              n;
    int32_t             *token = integers(json_object_get(story_case(0), "greedy_tokens"), &n);
    double              *whole = logits_of(m, token, n, (way) { .chunk = n, .store = TS_F64 });
    for (int c = 0; c < 3; c++) {
        double *parts = logits_of(m, token, n, (way) { chunks[c], 16, TS_F64, 0 });
        for (int64_t i = 0; i < n * 512; i++) far = farther(far, parts[i], whole[i]);
        free(parts);
    }
    print_message("float64, 200 tokens in chunks of 1, 7, 64: largest difference %.1e\n", far);
    assert_true(far <= 1e-12);
    free(whole);
    free(token);
    ts_decoder_free(&m);
}

TEST_IN(cpu, textbook_tokens)
{
    char  why[TS_MODEL_WHY] = "";
    batch b = golden_batch(0);
    for (int i = 0; i < 2; i++) {
        int32_t token[MOST_TOKENS];
        memcpy(token, b.token[i], (size_t)b.request[i].n_prompt * sizeof *token);
        assert_true(ts_textbook(story_model, token, b.request[i].n_prompt, b.n_total[i], why));
        assert_memory_equal(token, b.token[i], (size_t)b.n_total[i] * sizeof *token);
    }
    free_batch(&b);
}

/* ---- pages that run out ---- */

/* Five sequences of up to 200 tokens over five layers, and pages for a little more than one. */
TEST(tight_pages)
{
    results                 r;
    ts_engine_stats         stats;
    batch                   b = golden_batch(3);
    const ts_engine_options o = {
        .n_seq = 5, .capacity = 200, .page = 16, .n_page = 5 * 16, .chunk = 16, .store = TS_F32
    };
    run(story_model, &o, b.request, b.n, &r, &stats);
    expect_golden(&b, &r);
    print_message("%lld times a sequence gave its pages back\n", (long long)stats.n_preempted);
    assert_true(stats.n_preempted > 0);
    free_batch(&b);
}

/* ---- quantised caches ---- */

/* KL divergence of row q from row p, in nats, and whether the most probable token changes. */
static double divergence(const double *p, const double *q, int64_t n, bool *changed)
{
    double  mp = p[0], mq = q[0], sp = 0, sq = 0, kl = 0;
    int64_t bp = 0, bq = 0;
    for (int64_t i = 1; i < n; i++) {
        if (p[i] > mp) mp = p[i], bp = i;
        if (q[i] > mq) mq = q[i], bq = i;
    }
    for (int64_t i = 0; i < n; i++) sp += exp(p[i] - mp), sq += exp(q[i] - mq);
    const double lp = mp + log(sp), lq = mq + log(sq);
    for (int64_t i = 0; i < n; i++) kl += exp(p[i] - lp) * ((p[i] - lp) - (q[i] - lq));
    *changed = bp != bq;
    return kl;
}

TEST(quantised)
{
    static const struct {
        const char *name;
        ts_dtype    store;
        ts_key_axis axis;
        double      most; /* nats: far above what is measured, far below a broken cache */
    } kinds[] = { { "f32", TS_F32, 0, 1e-9 },
                  { "bf16", TS_BF16, 0, 0.05 },
                  { "f16", TS_F16, 0, 0.01 },
                  { "int8, keys by token", TS_U8, TS_KEY_TOKEN, 0.05 },
                  { "int8, keys by channel", TS_U8, TS_KEY_CHANNEL, 0.05 },
                  { "int4, keys by token", TS_U4, TS_KEY_TOKEN, 5 },
                  { "int4, keys by channel", TS_U4, TS_KEY_CHANNEL, 5 } };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        double  worst = 0;
        int64_t n_changed = 0, n_row = 0;
        for (size_t i = 0; i < 2; i++) {
            int64_t  n;
            int32_t *token = integers(json_object_get(story_case(i), "greedy_tokens"), &n);
            double *exact = logits_of(story_model, token, n, (way) { .chunk = n, .store = TS_F32 });
            double *got =
                logits_of(story_model, token, n, (way) { 7, 16, kinds[k].store, kinds[k].axis });
            for (int64_t t = 0; t < n; t++, n_row++) {
                bool changed;
                worst =
                    farther(worst, divergence(exact + t * 512, got + t * 512, 512, &changed), 0);
                n_changed += changed;
            }
            free(exact);
            free(got);
            free(token);
        }
        print_message("%-22s largest KL %.1e nats, %4.1f %% of tokens changed\n", kinds[k].name,
                      worst, 100.0 * (double)n_changed / (double)n_row);
        assert_true(worst <= kinds[k].most);
    }
}

int main(int argc, char **argv)
{
    const bool on_cuda = argc > 1 && !strcmp(argv[1], "cuda");
    if (!story("stories260K.bin") || !story("stories260K.golden.json")) {
        print_message("skipped: stories260K is neither in ../shared/models nor in "
                      "$TOUCHSTONE_MODELS\n");
        return 77;
    }
    if (on_cuda && no_cuda()) return 77;
    story_model = load(story("stories260K.bin"), TS_F32);
    golden = read_json(story("stories260K.golden.json"));
    if (on_cuda) to_cuda(story_model);
    const int failed = unit_run() + (on_cuda ? 0 : run_group("cpu", NULL, NULL));
    ts_decoder_free(&story_model);
    json_decref(golden);
    return failed;
}
