/* SPDX-License-Identifier: Apache-2.0 */
/* unit_model_tree.c [cuda] - tests a drafted tree after a cached sequence of a model.
 *
 * Its logits are those of each path run alone, decoding can continue from an accepted path, and the
 * output does not depend on the drafts. */
#include "rng.h"
#include "search.h"
#include "touchstone/tree_verify.h"
#include "unit_model.h"

enum { MOST_NODES = 24, CONTEXT = 64 };

static const char *const names[] = { "qwen3", "llama", "qwen2", "mistral", "starcoder2" };

static bool on_cuda;

/* In double on the CPU, where a rounding then decides nothing; in what there is, on a device. */
static ts_decoder *load_there(const char *name)
{
    ts_decoder *m = load(checkpoint(name, ""), on_cuda ? TS_F32 : TS_F64);
    if (on_cuda) to_cuda(m);
    return m;
}

/* ---- verification, cached and not ---- */

typedef struct result {
    int32_t out[MOST_NODES + 1], path[MOST_NODES];
    int64_t n_out, n_path;
    uint8_t status[MOST_NODES];
} result;

/* All of the text and the tree, by a model that remembers nothing. */
static void verify_uncached(const ts_decoder *m, const int32_t *text, int64_t n_text,
                            const ts_draft *d, double temperature, const double *u, int64_t max_new,
                            result *r)
{
    const ts_engine_options o = {
        .n_seq = 1, .capacity = CONTEXT, .chunk = 64, .store = ts_decoder_dtype(m)
    };
    char          why[TS_MODEL_WHY] = "";
    ts_stateless *s;
    ts_exec       x = { .device = TS_CPU };
    memset(r, 0, sizeof *r);
    if (!ts_stateless_create(m, &o, &s, why)) fail_msg("%s", why);
    const ts_model            model = ts_stateless_model(s);
    const ts_tree_verify_args a = { .d = { n_text, d->n_node, max_new, temperature },
                                    .model = &model,
                                    .prompt = text,
                                    .token = d->token,
                                    .parent = d->parent,
                                    .u = u,
                                    .out = r->out,
                                    .n_out = &r->n_out,
                                    .path = r->path,
                                    .n_path = &r->n_path,
                                    .status = r->status };
    assert_int_equal(ts_tree_verify_workspace(&a, &x, &x.workspace_bytes), TS_OK);
    x.workspace = malloc(x.workspace_bytes + 1);
    assert_non_null(x.workspace);
    assert_int_equal(ts_tree_verify(&a, &x), TS_OK);
    free(x.workspace);
    ts_stateless_free(&s);
}

/* ---- a drafter that is told what to say ---- */

/* The text to come, spoilt here and there: paths that are right for a while, and wrong siblings. */
typedef struct fixed {
    const int32_t *text;
    int64_t        n_text;
    uint64_t       seed; /* 0: right all the way */
    int32_t        n_vocab;
} fixed;

static ts_status say(void *self, const int32_t *text, int64_t n, int64_t n_deep, ts_draft *d)
{
    const fixed *f = self;
    int32_t      right = -1; /* the node that the right path has come to; -2: it has none */
    (void)text;
    d->n_node = 0;
    for (int64_t depth = 0; depth < n_deep && n + depth < f->n_text; depth++) {
        const uint64_t dice = f->seed ? ts_bits(f->seed, n * 100 + depth) : 0;
        const int32_t  token = f->text[n + depth], wrong = (token + 1) % f->n_vocab;
        const int32_t  parent = right == -2 ? (int32_t)d->n_node - 1 : right;
        for (int i = 0; i < 2; i++) { /* the wrong one first, if any */
            const bool put = i ? dice % 8 < 6 && right != -2 : f->seed != 0;
            if (!put || d->n_node == d->n_most) continue;
            if (i) right = (int32_t)d->n_node;
            d->token[d->n_node] = i ? token : wrong;
            d->parent[d->n_node++] = parent;
        }
        if (f->seed && dice % 8 >= 6) right = -2;
    }
    return TS_OK;
}

/* A text that the model makes by the engine, greedily. */
static void make_text(const ts_decoder *m, const int32_t *prompt, int64_t n_prompt, int64_t n_new,
                      int32_t *text)
{
    static results   r;
    const ts_request q = {
        .prompt = prompt, .n_prompt = n_prompt, .n_new = n_new, .sampling = greedy
    };
    const ts_engine_options o = {
        .n_seq = 1, .capacity = n_prompt + n_new, .chunk = 64, .store = ts_decoder_dtype(m)
    };
    run(m, &o, &q, 1, &r, NULL);
    assert_int_equal(r.n[0], n_new);
    memcpy(text, prompt, (size_t)n_prompt * sizeof *text);
    memcpy(text + n_prompt, r.token[0], (size_t)n_new * sizeof *text);
}

/* The same text by guesses; every step also against the walk without a cache, where `check`. */
static ts_speculator_stats speculate(const ts_decoder *m, const ts_engine_options *o,
                                     const ts_drafter *d, int64_t n_node, int64_t n_deep,
                                     const int32_t *text, int64_t n_prompt, int64_t n_text,
                                     double temperature, bool check)
{
    char           why[TS_MODEL_WHY] = "";
    ts_speculator *s;
    ts_speculation did;
    int64_t        n = n_prompt;
    if (!ts_speculator_create(m, o, n_node, n_deep, &s, why) ||
        !ts_speculator_begin(s, text, n_prompt, temperature, 77, why))
        fail_msg("%s", why);
    while (n < n_text) {
        assert_int_equal(ts_speculator_step(s, d, n_text - n, &did), TS_OK);
        assert_true(did.n_out > 0 && did.n_out <= n_text - n);
        assert_memory_equal(did.out, text + n, (size_t)did.n_out * sizeof *text);
        if (check) {
            double u[MOST_NODES + 1];
            result r;
            for (int64_t i = 0; i <= MOST_NODES; i++)
                u[i] = (ts_uniform(77, n - n_prompt + i) + 1) / 2;
            verify_uncached(m, text, n, &did.tree, temperature, u,
                            did.tree.n_node + 1 < n_text - n ? did.tree.n_node + 1 : n_text - n,
                            &r);
            assert_int_equal(did.n_out, r.n_out);
            assert_memory_equal(did.out, r.out, (size_t)r.n_out * sizeof *r.out);
            if (did.tree.n_node) assert_memory_equal(did.status, r.status, (size_t)did.tree.n_node);
        }
        n += did.n_out;
    }
    const ts_speculator_stats stats = *ts_speculator_stats_of(s);
    assert_int_equal(stats.n_token, n_text - n_prompt);
    assert_int_equal(stats.n_row, stats.n_drafted + stats.n_pass); /* the tree's alone */
    ts_speculator_free(&s);
    assert_null(s);
    return stats;
}

static const int32_t some[] = { 3, 1, 2, 3, 1 };

/* Five architectures, layouts, trees that are right, wrong and in between. */
TEST(same_text)
{
    static const int64_t pages[] = { 0, 1, 4 };
    int64_t              n_pass = 0, n_accepted = 0;
    for (size_t i = 0; i < 5; i++) {
        ts_decoder *m = load_there(names[i]);
        int32_t     text[CONTEXT];
        make_text(m, some, 5, CONTEXT - 5, text);
        for (uint64_t seed = 0; seed < 6; seed++) {
            const ts_engine_options o = { .capacity = CONTEXT,
                                          .page = pages[seed % 3],
                                          .n_page = 2 * CONTEXT,
                                          .chunk = 1 + (int64_t)seed,
                                          .store = ts_decoder_dtype(m) };
            fixed            f = { text, CONTEXT, seed, (int32_t)ts_decoder_dims_of(m)->n_vocab };
            const ts_drafter d = { &f, say };
            const ts_speculator_stats s = speculate(m, &o, &d, 3 + 2 * (int64_t)seed,
                                                    3 + (int64_t)seed, text, 5, CONTEXT, 0, true);
            n_pass += s.n_pass;
            n_accepted += s.n_accepted;
            if (!seed) assert_int_equal(s.n_pass, (CONTEXT - 5 + 3) / 4); /* all of it was right */
        }
        const ts_engine_options   o = { .capacity = CONTEXT,
                                        .chunk = 8,
                                        .store = ts_decoder_dtype(m) };
        const ts_speculator_stats s = speculate(m, &o, NULL, 0, 0, text, 5, CONTEXT, 0, true);
        assert_int_equal(s.n_pass, CONTEXT - 5);
        ts_decoder_free(&m);
    }
    print_message("%lld passes, each as without a cache; %lld nodes accepted\n", (long long)n_pass,
                  (long long)n_accepted);
    assert_true(n_accepted > n_pass);
}

/* Drawn: what comes does not depend on what was guessed. */
TEST(same_draws)
{
    ts_decoder             *m = load_there("qwen3");
    const ts_engine_options o = {
        .capacity = CONTEXT, .page = 4, .n_page = 40, .chunk = 8, .store = ts_decoder_dtype(m)
    };
    char           why[TS_MODEL_WHY] = "";
    int32_t        text[CONTEXT];
    ts_speculator *s;
    ts_speculation did;
    memcpy(text, some, sizeof some);
    if (!ts_speculator_create(m, &o, 0, 0, &s, why) ||
        !ts_speculator_begin(s, text, 5, 1.5, 77, why))
        fail_msg("%s", why);
    for (int64_t n = 5; n < CONTEXT; n++) {
        assert_int_equal(ts_speculator_step(s, NULL, CONTEXT, &did), TS_OK);
        assert_int_equal(did.n_out, 1);
        text[n] = did.out[0];
    }
    assert_int_equal(ts_speculator_step(s, NULL, 1, &did), TS_OK);
    assert_int_equal(did.n_out, 0); /* no room for more */
    ts_speculator_free(&s);
    fixed            f = { text, CONTEXT, 5, (int32_t)ts_decoder_dims_of(m)->n_vocab };
    ts_lookup        l = { 3 };
    const ts_drafter by[] = { { &f, say }, ts_lookup_drafter(&l) };
    for (int i = 0; i < 2; i++)
        speculate(m, &o, &by[i], MOST_NODES, 6, text, 5, CONTEXT, 1.5, true);
    ts_decoder_free(&m);
}

/* ---- drafts ---- */

TEST_IN(cpu, lookup_finds)
{
    /* The last three tokens, 1 2 3, stood before 4 5 and before 6 7; the last two also before 8. */
    static const int32_t text[] = { 1, 2, 3, 4, 5, 1, 2, 3, 6, 7, 9, 2, 3, 8, 1, 2, 3 };
    int32_t              token[8], parent[8];
    ts_draft             d = { 0, 8, token, parent };
    ts_lookup            l = { 3 };
    const ts_drafter     by = ts_lookup_drafter(&l);
    assert_int_equal(by.draft(by.self, text, 17, 2, &d), TS_OK);
    static const int32_t tokens[] = { 6, 7, 4, 5, 8, 1 }, parents[] = { -1, 0, -1, 2, -1, 4 };
    assert_int_equal(d.n_node, 6);
    assert_memory_equal(token, tokens, sizeof tokens);
    assert_memory_equal(parent, parents, sizeof parents);
    d.n_most = 3; /* fewer nodes than there are guesses */
    assert_int_equal(by.draft(by.self, text, 17, 2, &d), TS_OK);
    assert_int_equal(d.n_node, 3);
    assert_memory_equal(token, tokens, 3 * sizeof *tokens);
    l.width = 1;
    d.n_most = 8;
    assert_int_equal(by.draft(by.self, text, 17, 9, &d), TS_OK);
    assert_int_equal(d.n_node, 8); /* one path, as long as there is room */
    for (int i = 0; i < 8; i++) assert_int_equal(parent[i], i - 1);
    assert_int_equal(by.draft(by.self, text, 1, 4, &d), TS_OK);
    assert_int_equal(d.n_node, 0);
    static const int32_t twice[] = { 5, 5 }; /* a token that followed itself */
    assert_int_equal(by.draft(by.self, twice, 2, 4, &d), TS_OK);
    assert_int_equal(d.n_node, 1);
    assert_int_equal(token[0], 5);
}

/* The width best strings of each depth, found by trying all. */
TEST_IN(cpu, small_model_drafts)
{
    enum { WIDTH = 3, DEEP = 3 };
    const ts_engine_options o = {
        .n_seq = 1, .capacity = CONTEXT, .page = 4, .n_page = 200, .chunk = 8, .store = TS_F64
    };
    char          why[TS_MODEL_WHY] = "";
    ts_small     *s;
    ts_stateless *plain = NULL;
    int32_t       token[WIDTH * DEEP], parent[WIDTH * DEEP], string[CONTEXT];
    ts_draft      d = { 0, WIDTH * DEEP, token, parent };
    ts_decoder   *m = load(checkpoint("llama", ""), TS_F64);
    const int64_t n_vocab = ts_decoder_dims_of(m)->n_vocab;
    float        *logits = malloc((size_t)n_vocab * sizeof *logits);
    if (!ts_small_create(m, WIDTH, &o, &s, why) || !ts_stateless_create(m, &o, &plain, why))
        fail_msg("%s", why);
    const ts_drafter by = ts_small_drafter(s);
    const ts_model   model = ts_stateless_model(plain);
    for (int64_t n_text = 5; n_text < 40;
         n_text += 7) { /* the text grows by tokens that were not drafted */
        for (int64_t i = 0; i < n_text; i++) string[i] = (int32_t)(i * i % 11);
        assert_int_equal(by.draft(by.self, string, n_text, DEEP, &d), TS_OK);
        assert_int_equal(d.n_node, WIDTH * DEEP);
        double  sum[WIDTH * DEEP + 1] = { 0 }; /* of a node, at 1 + its number; of the text at 0 */
        int64_t level = 0, n_level = 1;        /* the nodes that go on, from 1 + number on */
        for (int64_t depth = 0; depth < DEEP; depth++) {
            const int64_t below = 1 + depth * WIDTH;
            double        least = INFINITY; /* of those that were taken */
            int64_t       n_better = 0;
            for (int64_t i = 0; i < WIDTH; i++)
                assert_in_range(parent[below - 1 + i] + 1, level, level + n_level - 1);
            for (int pass = 0; pass < 2; pass++)
                for (int64_t p = level; p < level + n_level; p++) {
                    int64_t        at = n_text + depth;
                    const int32_t *strings[1] = { string };
                    for (int64_t node = p - 1; node >= 0; node = parent[node])
                        string[--at] = token[node];
                    const int64_t len = n_text + depth;
                    assert_int_equal(model.next(model.self, 1, &len, strings, logits), 0);
                    double top = -INFINITY, total = 0;
                    for (int64_t t = 0; t < n_vocab; t++) top = fmax(top, (double)logits[t]);
                    for (int64_t t = 0; t < n_vocab; t++) total += exp((double)logits[t] - top);
                    for (int64_t t = 0; t < n_vocab; t++) {
                        const double at_t = sum[p] + (double)logits[t] - top - log(total);
                        for (int64_t i = 0; pass == 0 && i < WIDTH; i++)
                            if (parent[below - 1 + i] + 1 == p && token[below - 1 + i] == t)
                                sum[below + i] = at_t, least = fmin(least, at_t);
                        n_better += pass == 1 && at_t > least + 1e-5;
                    }
                }
            assert_in_range(n_better, 0, WIDTH - 1);
            level = below;
            n_level = WIDTH;
        }
    }
    ts_small_free(&s);
    ts_stateless_free(&plain);
    assert_null(s);
    free(logits);
    ts_decoder_free(&m);
}

/* ---- what is rejected ---- */

static ts_status wild(void *self, const int32_t *text, int64_t n, int64_t n_deep, ts_draft *d)
{
    (void)text, (void)n, (void)n_deep;
    d->n_node = 1;
    d->token[0] = *(const int32_t *)self;
    d->parent[0] = -1;
    return d->token[0] == -7 ? TS_E_DEVICE : TS_OK;
}

TEST(refusals)
{
    const ts_engine_options o = {
        .capacity = 20, .page = 4, .n_page = 8, .chunk = 8, .store = TS_F32
    };
    char           why[TS_MODEL_WHY] = "";
    ts_speculator *s;
    ts_speculation did;
    int32_t        token = 320, text[20];
    ts_decoder    *m = load(checkpoint("qwen3", ""), TS_F32);
    if (on_cuda) to_cuda(m);
    const ts_drafter d = { &token, wild };
    make_text(m, some, 5, 15, text);
    assert_false(ts_speculator_create(m, &o, -1, 1, &s, why));
    assert_null(s);
    if (!ts_speculator_create(m, &o, 4, 2, &s, why)) fail_msg("%s", why);
    assert_false(ts_speculator_begin(s, text, 0, 0, 0, why));
    assert_false(ts_speculator_begin(s, text, 21, 0, 0, why));
    assert_false(ts_speculator_begin(s, &token, 1, 0, 0, why));
    assert_true(ts_speculator_begin(s, text, 5, 0, 0, why));
    assert_int_equal(ts_speculator_step(s, &d, 9, &did), TS_E_ARG); /* no such token */
    token = -7;
    assert_int_equal(ts_speculator_step(s, &d, 9, &did), TS_E_DEVICE); /* the drafter's own */
    token = text[5];
    int64_t n = 5;
    while (n < 16) { /* as though nothing had been */
        assert_int_equal(ts_speculator_step(s, NULL, 9, &did), TS_OK);
        assert_int_equal(did.out[0], text[n]);
        n += did.n_out;
    }
    /* Two layers and eight pages: the seventeenth token's has none. */
    ts_status last = TS_OK;
    while (!last && n < 20) {
        last = ts_speculator_step(s, NULL, 9, &did);
        n += !last;
    }
    assert_int_equal(last, TS_E_CAPACITY);
    assert_int_equal(n, 17);
    ts_speculator_free(&s);
    ts_decoder_free(&m);
}

/* Invalid trees, and rows that do not exist. */
TEST_IN(cpu, refused_passes)
{
    ts_decoder      *m = load(checkpoint("qwen3", ""), TS_F32);
    const ts_kv_dims kv = { .n_layer = 2,
                            .n_seq_max = 1,
                            .n_q_head = ts_decoder_dims_of(m)->n_head,
                            .n_kv_head = ts_decoder_dims_of(m)->n_kv_head,
                            .head_dim = ts_decoder_dims_of(m)->head_dim,
                            .capacity = 8,
                            .max_call_tokens = 4,
                            .scale = 1 };
    ts_exec          x = { .device = TS_CPU };
    size_t           state_bytes, work;
    ts_kv           *cache;
    int32_t          seq, parent[3] = { -1, 0, 2 }, token[3] = { 1, 2, 3 };
    int64_t          n = 3, len, row[2] = { 0, 3 };
    assert_int_equal(ts_decoder_dims_of(m)->n_layer, 2);
    assert_int_equal(ts_kv_bytes(&kv, &x, &state_bytes, &work), TS_OK);
    x.workspace_bytes = ts_decoder_workspace(m, 4, work);
    x.workspace = malloc(x.workspace_bytes);
    void  *memory = malloc(state_bytes);
    float *room = calloc(4 * 4 * 1024, sizeof *room);
    assert_true(x.workspace && memory && room);
    assert_int_equal(ts_kv_create(&kv, &x, memory, state_bytes, &cache), TS_OK);
    assert_int_equal(ts_kv_open(cache, &x, &seq), TS_OK);
    const ts_forward_args a = {
        .cache = cache, .n_seq = 1, .seq = &seq, .n_new = &n, .token = token
    };
    ts_forward_tree t = { parent, room };
    assert_int_equal(ts_decoder_forward_tree(m, &a, NULL, &x), TS_E_ARG);
    assert_int_equal(ts_decoder_forward_tree(m, &a, &t, &x), TS_E_ARG);
    parent[2] = -2;
    assert_int_equal(ts_decoder_forward_tree(m, &a, &t, &x), TS_E_ARG);
    parent[2] = 1;
    t.kv = NULL;
    assert_int_equal(ts_decoder_forward_tree(m, &a, &t, &x), TS_E_ARG);
    t.kv = room;
    assert_int_equal(ts_decoder_forward_tree(m, &a, &t, &x), TS_OK);
    assert_int_equal(ts_kv_status(cache, 0, seq, &len, NULL), TS_OK);
    assert_int_equal(len, 0);
    ts_keep_args k = { cache, seq, 3, 2, row, room };
    assert_int_equal(ts_decoder_keep(m, &k, &x), TS_E_ARG);
    row[1] = 2;
    k.kv = NULL;
    assert_int_equal(ts_decoder_keep(m, &k, &x), TS_E_ARG);
    k.kv = room;
    for (int i = 0; i < 4; i++) assert_int_equal(ts_decoder_keep(m, &k, &x), TS_OK);
    assert_int_equal(ts_decoder_keep(m, &k, &x), TS_E_CAPACITY);
    for (int64_t layer = 0; layer < 2; layer++) {
        assert_int_equal(ts_kv_status(cache, layer, seq, &len, NULL), TS_OK);
        assert_int_equal(len, 8);
    }
    ts_kv_destroy(&cache);
    free(x.workspace);
    free(memory);
    free(room);
    ts_decoder_free(&m);
}

/* ---- a real model ---- */

/* Its first layers: the same file with less in it. A llama2.c file is seven integers, then kinds of
 * weights, each for all layers. */
static ts_decoder *cut_layers(int32_t n_keep)
{
    size_t      n;
    char       *from = read_bytes(story("stories260K.bin"), &n), *to = malloc(n), *at = to;
    int32_t     h[7];
    char        why[TS_MODEL_WHY] = "";
    ts_decoder *m;
    assert_non_null(to);
    memcpy(h, from, sizeof h);
    const size_t dim = (size_t)h[0], ffn = (size_t)h[1], heads = (size_t)h[3], kv = (size_t)h[4];
    const size_t layers = (size_t)h[2], keep = (size_t)n_keep, narrow = dim / heads * kv;
    const size_t each[] = { dim, dim * dim, dim * narrow, dim * narrow, dim * dim,
                            dim, dim * ffn, ffn * dim,    dim * ffn };
    const size_t embed = (size_t)abs(h[5]) * dim;
    size_t       used = sizeof h + embed * sizeof(float);
    h[2] = n_keep;
    memcpy(at, h, sizeof h);
    memcpy(at + sizeof h, from + sizeof h, embed * sizeof(float));
    at += used;
    for (int i = 0; i < 9; i++) {
        memcpy(at, from + used, keep * each[i] * sizeof(float));
        at += keep * each[i] * sizeof(float);
        used += layers * each[i] * sizeof(float);
    }
    memcpy(at, from + used, n - used);
    at += n - used;
    if (!ts_decoder_llama2c(to, (size_t)(at - to), TS_F32, &m, why)) fail_msg("%s", why);
    free(from);
    free(to);
    return m;
}

TEST(story_text)
{
    enum { WIDTH = 2, DEEP = 4 };
    if (!story("stories260K.bin") || !story("stories260K.golden.json")) {
        print_message("skipped: no stories260K\n");
        skip();
    }
    char                    why[TS_MODEL_WHY] = "";
    ts_decoder             *m = load(story("stories260K.bin"), TS_F32), *few = cut_layers(4);
    json_t                 *golden = read_json(story("stories260K.golden.json"));
    const ts_engine_options o = { .n_seq = 1,
                                  .capacity = 200,
                                  .page = 16,
                                  .n_page = WIDTH * 5 * 13,
                                  .chunk = 64,
                                  .store = TS_F32 };
    ts_lookup               l = { WIDTH };
    ts_small               *self, *cut = NULL;
    if (on_cuda) to_cuda(m), to_cuda(few);
    if (!ts_small_create(m, WIDTH, &o, &self, why) || !ts_small_create(few, WIDTH, &o, &cut, why))
        fail_msg("%s", why);
    const struct {
        const char *name;
        ts_drafter  by;
        double      least; /* tokens a pass */
    } how[] = { { "lookup", ts_lookup_drafter(&l), 1.2 },
                { "its first 4 layers", ts_small_drafter(cut), 1.2 },
                { "itself", ts_small_drafter(self), 4.5 } };
    for (size_t i = 0; i < 3; i++)
        for (size_t c = 0; c < 2; c++) {
            const json_t *one = json_array_get(json_object_get(golden, "cases"), c);
            int64_t       n_prompt, n;
            free(integers(json_object_get(one, "prompt_tokens"), &n_prompt));
            int32_t                  *text = integers(json_object_get(one, "greedy_tokens"), &n);
            const ts_speculator_stats s =
                speculate(m, &o, &how[i].by, WIDTH * DEEP, DEEP, text, n_prompt, n, 0, false);
            const double a_pass = (double)s.n_token / (double)s.n_pass;
            print_message("%-18s %lld tokens in %lld passes, %.2f a pass; %lld of %lld nodes "
                          "accepted\n",
                          how[i].name, (long long)s.n_token, (long long)s.n_pass, a_pass,
                          (long long)s.n_accepted, (long long)s.n_drafted);
            assert_true(a_pass >= how[i].least);
            free(text);
        }
    ts_small_free(&self);
    ts_small_free(&cut);
    json_decref(golden);
    ts_decoder_free(&m);
    ts_decoder_free(&few);
}

int main(int argc, char **argv)
{
    on_cuda = argc > 1 && !strcmp(argv[1], "cuda");
    if (on_cuda && no_cuda()) return 77;
    return unit_run() + (!on_cuda ? run_group("cpu", NULL, NULL) : 0);
}
