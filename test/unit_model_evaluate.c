/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_evaluate.c - log-probabilities of a text: against transformers' losses in windows,
 * against its golden logits, and against logits of one pass over a window. */
#include "unit_model.h"

static const char *const names[] = { "qwen3", "llama", "qwen2", "mistral", "starcoder2" };
enum { NAMES = sizeof names / sizeof *names, MOST = 512 };

static ts_evaluation evaluate(const ts_decoder *m, const int32_t *token, int64_t n, int64_t context,
                              int64_t stride, int64_t chunk, double *logprob)
{
    const ts_engine_options o = {
        .n_seq = 1, .capacity = context, .chunk = chunk, .store = ts_decoder_dtype(m)
    };
    char          why[TS_MODEL_WHY] = "";
    ts_evaluation e;
    assert_true(n <= MOST);
    if (!ts_evaluate(m, &o, token, n, stride, logprob, &e, why)) fail_msg("%s", why);
    return e;
}

/* The loss of transformers, in disjoint and in overlapping windows. */
TEST(equal_to_transformers)
{
    json_t       *golden = read_json(checkpoint("", "perplexity.json"));
    const json_t *run;
    double        logprob[MOST], far[2] = { 0 };
    size_t        i;
    for (int k = 0; k < NAMES; k++)
        for (int wide = 0; wide < 2; wide++) {
            ts_decoder   *m = load(checkpoint(names[k], ""), wide ? TS_F64 : TS_F32);
            const json_t *of = json_object_get(json_object_get(golden, "models"), names[k]);
            int64_t       n;
            int32_t      *token = integers(json_object_get(of, "tokens"), &n);
            assert_true(n > 64 && json_array_size(json_object_get(of, "runs")) == 4);
            json_array_foreach(json_object_get(of, "runs"), i, run)
            {
                const int64_t       stride = json_integer_value(json_object_get(run, "stride"));
                const double        want = json_number_value(json_object_get(run, "loss"));
                const ts_evaluation e = evaluate(m, token, n, 64, stride, 16, logprob);
                assert_int_equal(e.n_scored, json_integer_value(json_object_get(run, "n_scored")));
                far[wide] = farther(far[wide], -e.logprob / (double)e.n_scored / want, 1);
            }
            free(token);
            ts_decoder_free(&m);
        }
    print_message("largest relative difference of a loss: %.1e in f32, %.1e in f64\n", far[0],
                  far[1]);
    assert_true(far[0] <= 1e-5 && far[1] <= 1e-6);
    json_decref(golden);
}

/* log softmax(row)[token] */
static double logprob_of(const double *row, int64_t n, int32_t token)
{
    double most = row[0], sum = 0;
    for (int64_t i = 1; i < n; i++) most = row[i] > most ? row[i] : most;
    for (int64_t i = 0; i < n; i++) sum += exp(row[i] - most);
    return row[token] - most - log(sum);
}

/* Rows of logits that transformers wrote down. A last token is added, so that the last row counts.
 */
TEST(equal_to_golden_logits)
{
    double far = 0, logprob[MOST];
    for (int k = 0; k < NAMES; k++) {
        ts_decoder   *m = load(checkpoint(names[k], ""), TS_F32);
        json_t       *golden = read_json(checkpoint(names[k], "golden.json"));
        const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
        int64_t       n, n_rows;
        int32_t      *token = integers(json_object_get(golden, "tokens"), &n);
        int32_t      *rows = integers(json_object_get(golden, "rows"), &n_rows);
        double       *row = malloc((size_t)n_vocab * sizeof *row);
        assert_non_null(row);
        token[n] = 5; /* integers() leaves room for one */
        evaluate(m, token, n + 1, n + 1, n + 1, 7, logprob);
        for (int64_t r = 0; r < n_rows; r++) {
            const json_t *list = json_array_get(json_object_get(golden, "f64"), (size_t)r);
            for (int64_t i = 0; i < n_vocab; i++)
                row[i] = json_number_value(json_array_get(list, (size_t)i));
            const double want = logprob_of(row, n_vocab, token[rows[r] + 1]);
            far = farther(far, logprob[rows[r] + 1] / want, 1);
        }
        free(row);
        free(token);
        free(rows);
        json_decref(golden);
        ts_decoder_free(&m);
    }
    print_message("largest relative difference of a token's log-probability: %.1e\n", far);
    assert_true(far <= 1e-5);
}

/* Each token, whatever windows and chunks there are. */
TEST(windows_are_as_stated)
{
    static const int64_t ways[][4] = { /* tokens, context, stride, chunk */
                                       { 100, 60, 60, 16 }, { 100, 60, 59, 60 }, { 61, 60, 60, 9 },
                                       { 60, 60, 60, 60 },  { 100, 10, 3, 1 },   { 2, 60, 1, 4 },
                                       { 100, 2, 1, 2 },    { 90, 30, 30, 7 }
    };
    ts_decoder   *m = load(checkpoint("llama", ""), TS_F64);
    const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
    int32_t       token[128];
    double        logprob[MOST], far = 0;
    for (int i = 0; i < 128; i++) token[i] = (int32_t)((11 * i * i + 5 * i + 2) % n_vocab);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const int64_t       n = ways[w][0], context = ways[w][1], stride = ways[w][2];
        const ts_evaluation e = evaluate(m, token, n, context, stride, ways[w][3], logprob);
        double              sum = 0;
        int64_t             n_scored = 0, n_window = 0, done = 0;
        for (int64_t begin = 0; done < n; begin += stride, n_window++) {
            const int64_t end = begin + context < n ? begin + context : n;
            double       *all = logits_of(m, token + begin, end - begin,
                                          (way) { .chunk = end - begin, .store = TS_F64 });
            for (int64_t i = done; i < end; i++) {
                const double want =
                    i == begin ? 0 : logprob_of(all + (i - begin - 1) * n_vocab, n_vocab, token[i]);
                far = farther(far, logprob[i], want);
                sum += want;
                n_scored += i != begin;
            }
            done = end;
            free(all);
        }
        assert_int_equal(e.n_window, n_window);
        assert_int_equal(e.n_scored, n_scored);
        far = farther(far, e.logprob / sum, 1);
    }
    print_message("largest difference of a log-probability in float64: %.1e\n", far);
    assert_true(far <= 1e-12);
    ts_decoder_free(&m);
}

TEST(invalid_calls)
{
    const ts_engine_options o = { .n_seq = 1, .capacity = 8, .chunk = 4, .store = TS_F32 };
    ts_engine_options       bad = o;
    const int32_t           token[3] = { 1, 2, 3 }, wild[2] = { 1, 320 };
    char                    why[TS_MODEL_WHY];
    double                  logprob[3];
    ts_evaluation           e;
    ts_decoder             *m = load(checkpoint("qwen3", ""), TS_F32);
    assert_true(ts_evaluate(m, &o, token, 3, 8, logprob, &e, why));
    assert_false(ts_evaluate(m, &o, token, 1, 8, logprob, &e, why));
    assert_false(ts_evaluate(m, &o, token, 3, 0, logprob, &e, why));
    assert_false(ts_evaluate(m, &o, token, 3, 9, logprob, &e, why));
    assert_false(ts_evaluate(m, &o, wild, 2, 8, logprob, &e, why));
    bad.capacity = 65; /* the model was made for 64 */
    assert_false(ts_evaluate(m, &bad, token, 3, 8, logprob, &e, why));
    ts_decoder_free(&m);
}
