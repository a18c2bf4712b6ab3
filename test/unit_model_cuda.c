/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_cuda.c - tests models on a CUDA device against the CPU in float64: logits of the
 * checkpoints, sampling, and rejected calls. Skipped without a device. */
#include "unit_model.h"

static const char *const names[] = { "qwen3", "llama", "qwen2", "mistral", "starcoder2" };
enum { NAMES = sizeof names / sizeof *names };

/* ---- logits ---- */

/* The largest difference over all tokens of a golden text, read in these ways. `gguf`: the weights
 * come from a GGUF file, whose rows of q and k may be in another order. */
static double distance(const char *name, bool gguf, const way *ways, int n_ways)
{
    char file[64];
    snprintf(file, sizeof file, "%s.gguf", name);
    ts_decoder *exact = load(checkpoint(name, ""), TS_F64),
               *m = load(gguf ? checkpoint("gguf", file) : checkpoint(name, ""), TS_F32);
    json_t       *golden = read_json(checkpoint(name, "golden.json"));
    int64_t       n;
    int32_t      *token = integers(json_object_get(golden, "tokens"), &n);
    const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
    double       *want = logits_of(exact, token, n, (way) { .chunk = n, .store = TS_F64 });
    double        far = 0;
    to_cuda(m);
    for (int w = 0; w < n_ways; w++) {
        way how = ways[w];
        if (!how.chunk) how.chunk = n;
        double *got = logits_of(m, token, n, how);
        for (int64_t i = 0; i < n * n_vocab; i++) far = farther(far, got[i], want[i]);
        free(got);
    }
    free(want);
    free(token);
    json_decref(golden);
    ts_decoder_free(&exact);
    ts_decoder_free(&m);
    return far;
}

TEST_IN(cuda, equal_to_cpu)
{
    static const way ways[] = {
        { 0, 0, TS_F32, 0 }, { 1, 0, TS_F32, 0 }, { 7, 4, TS_F32, 0 }, { 0, 1, TS_F32, 0 }
    };
    for (int i = 0; i < 2 * NAMES; i++) {
        const bool   gguf = i >= NAMES;
        const double far = distance(names[i % NAMES], gguf, ways, sizeof ways / sizeof *ways);
        print_message("%s%s: largest difference of a logit %.1e\n", names[i % NAMES],
                      gguf ? ", GGUF" : "", far);
        assert_true(far <= 2e-5);
    }
}

/* More tokens in a call than are sent to the device at a time. */
TEST_IN(cuda, long_text)
{
    enum { LONG = 600 };
    static int32_t token[LONG];
    double         far = 0;
    ts_decoder    *exact = load(checkpoint("llama", ""), TS_F64),
               *m = load(checkpoint("llama", ""), TS_F32);
    const ts_decoder_dims *d = ts_decoder_dims_of(m);
    for (int i = 0; i < LONG; i++) token[i] = (int32_t)(i * 7919 % d->n_vocab);
    to_cuda(m);
    double *want = logits_of(exact, token, LONG, (way) { .chunk = LONG, .store = TS_F64 });
    double *got = logits_of(m, token, LONG, (way) { .chunk = LONG, .page = 16, .store = TS_F32 });
    for (int64_t i = 0; i < LONG * d->n_vocab; i++) far = farther(far, got[i], want[i]);
    print_message("%d tokens in a call: largest difference of a logit %.1e\n", LONG, far);
    assert_true(far <= 5e-5);
    free(want);
    free(got);
    ts_decoder_free(&exact);
    ts_decoder_free(&m);
}

/* ---- batches ---- */

/* The same seeds give the same tokens as on the CPU, however they are drawn. */
TEST_IN(cuda, same_draws)
{
    static const int32_t    prompt[5] = { 1, 2, 3, 4, 5 };
    const ts_engine_options o = {
        .n_seq = 3, .capacity = 60, .page = 4, .n_page = 2 * 40, .chunk = 8, .store = TS_F32
    };
    const ts_sampling how[] = {
        { 0, 0, 1, 1 }, { 0.8, 50, 0.9, 2 }, { 1, 0, 1, 3 }, { 2, 0, 0.99, 4 }, { 1, 3, 1, 5 }
    };
    enum { HOWS = sizeof how / sizeof *how };
    ts_request  q[HOWS];
    results     cpu, cuda;
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    for (int i = 0; i < HOWS; i++)
        q[i] =
            (ts_request) { .prompt = prompt, .n_prompt = 1 + i, .n_new = 30, .sampling = how[i] };
    run(m, &o, q, HOWS, &cpu, NULL);
    to_cuda(m);
    run(m, &o, q, HOWS, &cuda, NULL);
    for (int i = 0; i < HOWS; i++) {
        assert_int_equal(cuda.status[i], TS_OK);
        assert_int_equal(cuda.n[i], 30);
        assert_memory_equal(cuda.token[i], cpu.token[i], 30 * sizeof **cpu.token);
    }
    ts_decoder_free(&m);
}

/* ---- what cannot be ---- */

TEST_IN(cuda, refusal_changes_nothing)
{
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    to_cuda(m);
    refusal_leaves_the_sequence(m);
    ts_decoder_free(&m);
}

/* A cache of 256 GiB: the line says how many bytes, and what fits is served after it. */
TEST_IN(cuda, too_much_memory)
{
    static const int32_t    prompt[1] = { 1 };
    const ts_engine_options much = {
        .n_seq = 1 << 24, .capacity = 64, .chunk = 1, .store = TS_F32
    };
    const ts_engine_options little = { .n_seq = 1, .capacity = 64, .chunk = 1, .store = TS_F32 };
    const ts_request        q = { .prompt = prompt, .n_prompt = 1, .n_new = 4, .sampling = greedy };
    char                    why[TS_MODEL_WHY] = "";
    ts_engine              *e = NULL;
    results                 r;
    ts_decoder             *m = load(checkpoint("qwen3", ""), TS_F32);
    to_cuda(m);
    assert_false(ts_engine_create(m, &much, &e, why));
    assert_null(e);
    print_message("%s\n", why);
    one_line(why, "cannot allocate");
    run(m, &little, &q, 1, &r, NULL);
    assert_int_equal(r.n[0], 4);
    ts_decoder_free(&m);
}

TEST(other_precisions)
{
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F64);
    assert_false(ts_decoder_to_cuda(m, why));
    one_line(why, "expected f32");
    assert_int_equal(ts_decoder_device(m), TS_CPU);
    ts_decoder_free(&m);
}

/* The textbook reads weights of the host's. */
TEST_IN(cuda, textbook_refuses)
{
    int32_t     token[2] = { 1 };
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m = load(checkpoint("llama", ""), TS_F32);
    to_cuda(m);
    assert_false(ts_textbook(m, token, 1, 2, why));
    one_line(why, "CPU");
    ts_decoder_free(&m);
}

/* Where there is no device a decoder stays on the CPU, and there is one line. */
TEST_IN(without, no_device)
{
    static const int32_t token[3] = { 1, 2, 3 };
    char                 why[TS_MODEL_WHY] = "";
    ts_decoder          *m = load(checkpoint("qwen3", ""), TS_F32);
    assert_false(ts_decoder_to_cuda(m, why));
    one_line(why, "CUDA");
    assert_int_equal(ts_decoder_device(m), TS_CPU);
    free(logits_of(m, token, 3, (way) { .chunk = 3, .store = TS_F32 }));
    ts_decoder_free(&m);
}

int main(void)
{
    const bool cuda = !no_cuda();
    const int  failed = unit_run() + run_group(cuda ? "cuda" : "without", NULL, NULL);
    return failed || cuda ? failed : 77;
}
