/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_beam.c [cuda] - beams as forks of the cache find what a search finds that recomputes
 * every string: the same tokens, and scores that differ by rounding. */
#include "rng.h"
#include "search.h"
#include "touchstone/beam_search.h"
#include "unit_model.h"

enum { MOST_BEAMS = 24, MOST_NEW = 64 };

static const char *const names[] = { "qwen3", "llama", "qwen2", "mistral", "starcoder2" };

static bool on_cuda;

/* ---- a search ---- */

typedef struct found {
    int32_t token[MOST_BEAMS * MOST_NEW];
    int64_t length[MOST_BEAMS], n_found[MOST_BEAMS];
    double  logprob[MOST_BEAMS], score[MOST_BEAMS];
    uint8_t finished[MOST_BEAMS];
} found;

typedef ts_status (*search_fn)(const ts_beam_search_args *a, const ts_exec *x);

static ts_beam_search_args search_args(const ts_model *model, ts_beam_dims d,
                                       const int32_t *prompts, const int64_t *len, found *f)
{
    return (ts_beam_search_args) {
        .d = d,
        .model = model,
        .prompts = prompts,
        .prompt_len = len,
        .tokens = f->token,
        .length = f->length,
        .logprob = f->logprob,
        .score = f->score,
        .finished = f->finished,
        .n_found = f->n_found,
    };
}

static ts_status search(const ts_model *model, ts_beam_dims d, const int32_t *prompts,
                        const int64_t *len, bool archive, found *f)
{
    const ts_beam_search_args a = search_args(model, d, prompts, len, f);
    ts_exec                   x = { .device = TS_CPU };
    memset(f, 0, sizeof *f);
    assert_int_equal(archive ? ts_beam_search_archive_workspace(&a, &x, &x.workspace_bytes)
                             : ts_beam_search_workspace(&a, &x, &x.workspace_bytes),
                     TS_OK);
    x.workspace = malloc(x.workspace_bytes + 1);
    assert_non_null(x.workspace);
    const search_fn go = archive ? ts_beam_search_archive : ts_beam_search;
    const ts_status s = go(&a, &x);
    free(x.workspace);
    return s;
}

static double same_found(const found *a, const found *b, ts_beam_dims d)
{
    const int64_t n = d.n_items * d.beam_width;
    double        far = 0;
    assert_memory_equal(a->token, b->token, (size_t)(n * d.max_new_tokens) * sizeof *a->token);
    assert_memory_equal(a->length, b->length, sizeof a->length);
    assert_memory_equal(a->finished, b->finished, sizeof a->finished);
    assert_memory_equal(a->n_found, b->n_found, sizeof a->n_found);
    for (int64_t i = 0; i < n; i++) {
        if (a->logprob[i] == b->logprob[i]) continue; /* -inf, too */
        const double length = (double)a->length[i];   /* each token has its rounding */
        far = farther(far, a->logprob[i] / length, b->logprob[i] / length);
        far = farther(far, a->score[i], b->score[i]);
    }
    return far;
}

/* Both ways, by the cache where the decoder is; how far their scores are apart. */
static double compare(const ts_decoder *m, const ts_engine_options *o, ts_beam_dims d,
                      const int32_t *prompts, const int64_t *len, bool archive,
                      ts_beams_stats *stats)
{
    static found  cached, plain;
    char          why[TS_MODEL_WHY] = "";
    ts_beams     *b;
    ts_stateless *s = NULL;
    if (!ts_beams_create(m, o, &b, why) || !ts_stateless_create(m, o, &s, why)) fail_msg("%s", why);
    const ts_model            by_itself = ts_stateless_model(s);
    const ts_beam_search_args a = search_args(NULL, d, prompts, len, &cached);
    assert_int_equal(search(&by_itself, d, prompts, len, archive, &plain), TS_OK);
    memset(&cached, 0, sizeof cached);
    assert_int_equal(ts_beams_search(b, &a, archive), TS_OK);
    if (stats) *stats = *ts_beams_stats_of(b);
    ts_beams_free(&b);
    ts_stateless_free(&s);
    assert_null(b);
    return same_found(&cached, &plain, d);
}

TEST(equal_to_stateless)
{
    static const int32_t prompts[] = { 1, 2, 3, 9, 8, 7, 6, 5, 4, 3, 50 };
    static const int64_t len[] = { 3, 7, 1 }, pages[] = { 0, 4, 1 }, chunks[] = { 64, 3, 1 };
    double               far = 0, far32 = 0;
    int                  n_run = 0;
    for (size_t i = 0; i < 5; i++)
        for (int dtype = on_cuda; dtype < 2; dtype++) {
            ts_decoder *m = load(checkpoint(names[i], ""), dtype ? TS_F32 : TS_F64);
            if (on_cuda) to_cuda(m);
            for (int k = 0; k < 6; k++, n_run++) {
                const ts_beam_dims      d = { 3, 1 + k, 12, k % 3 * 0.6, k % 2 ? 11 : -1 };
                const ts_engine_options o = { .n_seq = 3 * d.beam_width,
                                              .capacity = 20,
                                              .page = pages[k % 3],
                                              .n_page = 1200,
                                              .chunk = chunks[k / 2],
                                              .store = ts_decoder_dtype(m) };
                const double            at = compare(m, &o, d, prompts, len, k == 5, NULL);
                if (dtype) far32 = fmax(far32, at);
                else far = fmax(far, at);
            }
            ts_decoder_free(&m);
        }
    print_message("%d searches; farthest score: float64 %.1e, float32 %.1e\n", n_run, far, far32);
    assert_true(far <= 1e-10 && far32 <= 1e-5);
}

/* What a query sees of codes depends on how a text was cut into calls: a group is coded when it is
 * complete. So beams are compared with beams that share nothing: in a contiguous cache a fork is a
 * copy. In float64 a rounding does not reach the next code. */
TEST_IN(cpu, codes_are_shared)
{
    static const int32_t  prompt[] = { 5, 4, 3, 2, 1 };
    static const int64_t  len[] = { 5 };
    static const ts_dtype stores[] = { TS_U8, TS_U4, TS_BF16 };
    static found          f[2];
    ts_decoder           *m = load(checkpoint("llama", ""), TS_F64);
    for (int i = 0; i < 3; i++) {
        const ts_beam_dims d = { 1, 4, 40, 0.7, 11 };
        ts_engine_options  o = {
             .n_seq = 4, .capacity = 48, .page = 16, .n_page = 64, .chunk = 8, .store = stores[i]
        };
        for (int flat = 0; flat < 2; flat++) {
            char      why[TS_MODEL_WHY] = "";
            ts_beams *b;
            if (flat) o.page = 0; /* groups are of 16 tokens still */
            if (!ts_beams_create(m, &o, &b, why)) fail_msg("%s", why);
            const ts_model model = ts_beams_model(b);
            assert_int_equal(search(&model, d, prompt, len, false, &f[flat]), TS_OK);
            assert_true(ts_beams_stats_of(b)->n_fork > 0);
            ts_beams_free(&b);
        }
        assert_true(same_found(&f[0], &f[1], d) <= 1e-9);
    }
    ts_decoder_free(&m);
}

/* ---- any strings in any order ---- */

TEST_IN(cpu, any_strings)
{
    enum { STRINGS = 6, LONG = 40, CALLS = 60 };
    static int32_t        text[2][STRINGS][LONG];
    static const ts_dtype stores[] = { TS_F64, TS_U8 };
    static const int64_t  pages[] = { 0, 8 };
    char                  why[TS_MODEL_WHY] = "";
    double                far[2] = { 0 }; /* by store */
    ts_decoder           *m = load(checkpoint("qwen3", ""), TS_F64);
    const int64_t         n_vocab = ts_decoder_dims_of(m)->n_vocab;
    float                *got = malloc((size_t)(STRINGS * n_vocab) * sizeof *got);
    float                *want = malloc((size_t)(STRINGS * n_vocab) * sizeof *want);
    for (int kind = 0; kind < 4; kind++) {
        const ts_engine_options o = { .n_seq = STRINGS,
                                      .capacity = LONG,
                                      .page = pages[kind / 2],
                                      .n_page = 100,
                                      .chunk = 10,
                                      .store = stores[kind % 2] };
        ts_engine_options       alike = o; /* groups of as many tokens */
        ts_beams               *b, *fresh;
        int64_t                 len[2][STRINGS] = { { 0 } }, n_draw = 0;
        if (!ts_beams_create(m, &o, &b, why)) fail_msg("%s", why);
        const ts_model model = ts_beams_model(b);
        for (int call = 0, turn = 0; call < CALLS; call++, turn = !turn) {
            const int64_t  n = 1 + (int64_t)(ts_bits(3, n_draw++) % STRINGS);
            const int32_t *string[STRINGS];
            for (int64_t s = 0; s < n; s++) { /* part of an old one, and some more */
                const int     old = (int)(ts_bits(3, n_draw++) % STRINGS);
                const int64_t had = len[!turn][old];
                const int64_t keep = had - (had ? (int64_t)(ts_bits(3, n_draw++) % 4) : 0);
                int64_t       k = keep > 0 ? keep : 0;
                memcpy(text[turn][s], text[!turn][old], (size_t)k * sizeof **text[0]);
                if (k > LONG - 3) k = 2; /* begins again */
                for (int64_t more = 1 + (int64_t)(ts_bits(3, n_draw++) % 3); more > 0; more--)
                    text[turn][s][k++] = (int32_t)(ts_bits(3, n_draw++) % 5);
                len[turn][s] = k;
                string[s] = text[turn][s];
            }
            assert_int_equal(model.next(model.self, n, len[turn], string, got), 0);
            if (!ts_beams_create(m, &alike, &fresh, why)) fail_msg("%s", why);
            const ts_model other = ts_beams_model(fresh);
            assert_int_equal(other.next(other.self, n, len[turn], string, want), 0);
            ts_beams_free(&fresh);
            for (int64_t i = 0; i < n * n_vocab; i++)
                far[kind % 2] = farther(far[kind % 2], (double)got[i], (double)want[i]);
        }
        assert_true(ts_beams_stats_of(b)->n_row < ts_beams_stats_of(b)->n_string_row);
        ts_beams_free(&b);
    }
    print_message("%d calls of random strings: farthest logit %.1e, of codes %.1e\n", 4 * CALLS,
                  far[0], far[1]);
    /* They come as floats; and codes see other groups complete than a text that is read at once. */
    assert_true(far[0] <= 1e-6 && far[1] <= 0.05);
    free(got);
    free(want);
    ts_decoder_free(&m);
}

/* ---- what does not fit ---- */

/* Strings that did not fit are not taken for cached ones. */
static void after_failure(const ts_decoder *m, const ts_engine_options *o)
{
    static const int32_t text[4][6] = {
        { 1, 2, 3, 4, 5, 6 }, { 2, 2, 3, 4, 5, 6 }, { 3, 2, 3, 4, 5, 6 }, { 4, 2, 3, 4, 5, 6 }
    };
    static const int32_t longer[] = { 4, 2, 3, 4, 5, 6, 7 };
    static const int64_t len[] = { 6, 6, 6, 6 }, one = 7;
    const int32_t       *four[] = { text[0], text[1], text[2], text[3] }, *string[] = { longer };
    const int64_t        n_vocab = ts_decoder_dims_of(m)->n_vocab;
    float               *got = malloc((size_t)(4 * n_vocab) * sizeof *got);
    float               *want = malloc((size_t)n_vocab * sizeof *want);
    char                 why[TS_MODEL_WHY] = "";
    ts_beams            *b;
    ts_stateless        *s = NULL;
    assert_true(got && want);
    if (!ts_beams_create(m, o, &b, why) || !ts_stateless_create(m, o, &s, why)) fail_msg("%s", why);
    const ts_model model = ts_beams_model(b), plain = ts_stateless_model(s);
    assert_int_not_equal(model.next(model.self, 4, len, four, got), 0);
    assert_int_equal(ts_beams_status(b), TS_E_CAPACITY);
    assert_int_equal(model.next(model.self, 1, &one, string, got), 0);
    assert_int_equal(plain.next(plain.self, 1, &one, string, want), 0);
    for (int64_t i = 0; i < n_vocab; i++) assert_true(fabsf(got[i] - want[i]) <= 1e-5f);
    ts_beams_free(&b);
    ts_stateless_free(&s);
    free(got);
    free(want);
}

TEST_IN(cpu, too_few_pages)
{
    static const int32_t    prompt[] = { 1, 2, 3, 4, 5 };
    static const int64_t    len[] = { 5 };
    static found            f;
    const ts_engine_options o = {
        .n_seq = 4, .capacity = 60, .page = 4, .n_page = 12, .chunk = 8, .store = TS_F32
    };
    char        why[TS_MODEL_WHY] = "";
    ts_beams   *b;
    ts_decoder *m = load(checkpoint("qwen3", ""), TS_F32);
    if (!ts_beams_create(m, &o, &b, why)) fail_msg("%s", why);
    const ts_model     model = ts_beams_model(b);
    const ts_beam_dims large = { 1, 4, 40, 0, -1 }, small = { 1, 2, 4, 0, -1 };
    const ts_beam_dims wide = { 1, 5, 4, 0, -1 };
    assert_int_equal(search(&model, large, prompt, len, false, &f), TS_E_MODEL);
    assert_int_equal(ts_beams_status(b), TS_E_CAPACITY);
    assert_int_equal(search(&model, wide, prompt, len, false, &f), TS_E_MODEL);
    assert_int_equal(ts_beams_status(b), TS_E_CAPACITY);
    const ts_beam_search_args a = search_args(NULL, wide, prompt, len, &f);
    assert_int_equal(ts_beams_search(b, &a, false), TS_E_CAPACITY);
    assert_int_equal(search(&model, small, prompt, len, false, &f), TS_OK);
    assert_int_equal(ts_beams_status(b), TS_OK);
    assert_int_equal(f.n_found[0], 2);
    ts_beams_free(&b);
    after_failure(m, &o);
    ts_engine_options bad = o;
    bad.n_seq = 0;
    assert_false(ts_beams_create(m, &bad, &b, why));
    assert_null(b);
    ts_decoder_free(&m);
}

/* ---- a real model ---- */

TEST(story_beams)
{
    static const int32_t prompt[] = { 1, 403, 407, 261, 378 }; /* as golden texts begin */
    static const int64_t len[] = { 5 };
    enum { NEW = 60 };
    if (!story("stories260K.bin")) {
        print_message("skipped: no stories260K\n");
        skip();
    }
    ts_decoder    *m = load(story("stories260K.bin"), TS_F32);
    ts_beams_stats s[2];
    if (on_cuda) to_cuda(m);
    for (int i = 0; i < 2; i++) {
        const int64_t           width = i ? 4 : 1;
        const ts_beam_dims      d = { 1, width, NEW, 0.6, 1 };
        const ts_engine_options o = {
            .n_seq = width, .capacity = 80, .page = 4, .n_page = 400, .chunk = 64, .store = TS_F32
        };
        const double far = compare(m, &o, d, prompt, len, false, &s[i]);
        print_message("beam %d: %lld passes, %lld tokens run of %lld; %lld forks; pages: at most "
                      "%lld held, %lld if each had its own; %lld shared by forks, %lld copied to "
                      "be written; farthest score %.1e\n",
                      (int)width, (long long)s[i].n_pass, (long long)s[i].n_row,
                      (long long)s[i].n_string_row, (long long)s[i].n_fork,
                      (long long)s[i].held_most, (long long)s[i].alone_most, (long long)s[i].shared,
                      (long long)s[i].copied, far);
        assert_true(far <= 1e-5);
    }
    assert_int_equal(s[0].n_row, 5 + NEW - 1);
    assert_int_equal(s[0].n_fork + s[0].shared + s[0].copied, 0);
    assert_int_equal(s[0].held_most, s[0].alone_most);
    assert_true(s[1].n_row <= 5 + 4 * (NEW - 1)); /* no token twice */
    assert_true(s[1].n_fork > 0 && s[1].copied < s[1].shared / 4);
    assert_true(s[1].held_most < s[1].alone_most);
    ts_decoder_free(&m);
}

int main(int argc, char **argv)
{
    on_cuda = argc > 1 && !strcmp(argv[1], "cuda");
    if (on_cuda && no_cuda()) return 77;
    return unit_run() + (!on_cuda ? run_group("cpu", NULL, NULL) : 0);
}
