/* SPDX-License-Identifier: Apache-2.0 */
/* unit_tree_verify.c [cuda] - tests tree verification: known bugs, one by one; masks; rejected
 * calls. */
#include "unit_tree_verify.h"

enum { N_VOCAB = 97 };

static const toy_kind kinds[] = { TOY_HASH, TOY_TRANSFORMER };

static text drawn_prompt(int64_t n_vocab, int64_t n)
{
    text s = { .n = n };
    for (int64_t i = 0; i < n; i++) s.token[i] = (int32_t)below(n_vocab);
    return s;
}

/* A token that is none of the n. */
static int32_t other_than(const int32_t *token, int64_t n)
{
    for (;;) {
        const int32_t t = (int32_t)below(N_VOCAB);
        int64_t       i = 0;
        while (i < n && token[i] != t) i++;
        if (i == n) return t;
    }
}

/* ---- one small tree each, by models that look at every token and its position ---- */

typedef struct trap {
    const char *what;
    int         n, token[4], parent[4]; /* token: 0.. the plain ones; -1: a wrong one */
    int         n_out, n_path;
} trap;

static const trap traps[] = {
    { "logits at the node itself; no row for the prompt", 1, { 0 }, { -1 }, 2, 1 },
    { "logits by depth; stop at the first wrong sibling", 3, { -1, 0, 1 }, { -1, -1, 1 }, 3, 2 },
    { "logits by place in a chain", 3, { 0, 2, 1 }, { -1, -1, 0 }, 3, 2 },
    { "logits by place, a chain next to a wrong root", 3, { 1, 0, 1 }, { -1, -1, 1 }, 3, 2 },
    { "positions by index", 4, { -1, -1, 0, 1 }, { -1, -1, -1, 2 }, 3, 2 },
    { "a sibling emits again", 2, { 0, -1 }, { -1, -1 }, 2, 1 },
    { "a duplicate emits again", 2, { 0, 0 }, { -1, -1 }, 2, 1 },
    { "the second of two duplicates is followed", 3, { 0, 0, 1 }, { -1, -1, 1 }, 2, 1 },
    { "the correction comes twice", 2, { -1, -1 }, { -1, 0 }, 1, 0 },
    { "the whole tree is right", 4, { 0, 1, 2, 3 }, { -1, 0, 1, 2 }, 5, 4 },
};

TEST(traps_one_by_one)
{
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        for (int trial = 0; trial < 40; trial++) {
            const trap *const at = traps + i;
            const text        prompt = drawn_prompt(N_VOCAB, 1 + below(5));
            tree              g = { .n = at->n };
            int32_t           plain[8];
            toy               t;
            toy_make(&t, kinds[trial % 2], N_VOCAB, ts_bits(seed, n_drawn++));
            ts_cpu_set_mask(masks[trial % N_MASKS]);
            decode(&t, &prompt, 8, 0, NULL, plain);
            if (plain[0] == plain[1] || plain[0] == plain[2]) continue; /* would be right by luck */
            for (int64_t j = 0; j < g.n; j++) {
                g.parent[j] = at->parent[j];
                g.token[j] = at->token[j] < 0 ? other_than(plain, 8) : plain[at->token[j]];
            }
            const verified v = verify(&t, &prompt, &g, 8, 0, NULL);
            if (v.n_out != at->n_out || v.n_path != at->n_path) fail_msg("%s", at->what);
            is_right(&v, &g, 8, plain);
            was_asked_well(&t, &prompt, &g);
            assert_int_equal(t.n_forward, 1);
            assert_int_equal(t.n_next, 0);
            toy_free(&t);
        }
    ts_cpu_set_mask(~0u);
}

/* A wrong root, whose child is what the model would say after it. */
TEST(children_of_the_refused_stay_out)
{
    for (int trial = 0; trial < 40; trial++) {
        text    prompt = drawn_prompt(N_VOCAB, 3), wrong = prompt;
        int32_t plain[3];
        toy     t;
        toy_make(&t, kinds[trial % 2], N_VOCAB, ts_bits(seed, n_drawn++));
        decode(&t, &prompt, 3, 0, NULL, plain);
        const int32_t root = other_than(plain, 3);
        wrong.token[wrong.n++] = root;
        const tree     g = { 3, { root, decode_one(&t, &wrong, 0, 0), plain[0] }, { -1, 0, -1 } };
        const verified v = verify(&t, &prompt, &g, 3, 0, NULL);
        is_right(&v, &g, 3, plain);
        assert_int_equal(v.status[1], TS_NODE_UNREACHED);
        assert_int_equal(v.path[0], 2);
        toy_free(&t);
    }
}

TEST(no_more_than_asked_for)
{
    const text prompt = drawn_prompt(N_VOCAB, 4);
    int32_t    plain[8];
    toy        t;
    toy_make(&t, TOY_HASH, N_VOCAB, ts_bits(seed, n_drawn++));
    decode(&t, &prompt, 8, 0, NULL, plain);
    tree g = { .n = 6 };
    for (int32_t i = 0; i < 6; i++) g.token[i] = plain[i], g.parent[i] = i - 1;
    for (int64_t most = 0; most < 9; most++) {
        const verified v = verify(&t, &prompt, &g, most, 0, NULL);
        is_right(&v, &g, most, plain);
        assert_int_equal(v.n_out, most < 7 ? most : 7);
    }
    assert_int_equal(t.n_forward, 8); /* none for no token */
    g.n = 0;
    const verified v = verify(&t, &prompt, &g, 5, 0, NULL);
    is_right(&v, &g, 5, plain);
    assert_int_equal(v.n_out, 1);
    toy_free(&t);
}

/* ---- masks ---- */

TEST(masks_by_the_rules)
{
    static uint8_t visible[80 * 80];
    static float   bias[80 * 80];
    int64_t        position[80];
    const float    behind = 7;
    const ts_exec  x = { 0 };
    for (int trial = 0; trial < 200; trial++) {
        const int64_t P = 1 + below(12), n_node = below(60), n = P + n_node;
        tree          g = { .n = n_node };
        for (int64_t i = 0; i < n_node; i++) g.parent[i] = (int32_t)(below(i + 1) - 1);
        const ts_tree_mask_args a = { { P, n_node, 0, 0 }, g.parent, visible, position };
        const ts_tree_bias_args b = { { P, n_node, 0, 0 }, g.parent, bias };
        memset(visible, 0x80, sizeof visible);
        bias[n * n] = behind, position[n] = (int64_t)behind;
        assert_int_equal(ts_tree_mask(&a, &x), TS_OK);
        assert_int_equal(ts_tree_bias(&b, &x), TS_OK);
        for (int64_t r = 0; r < n; r++) {
            assert_int_equal(position[r], r < P ? r : P + depth_of(&g, r - P) - 1);
            for (int64_t c = 0; c < n; c++) {
                const int sees = c < P ? c <= r : r >= P && is_ancestor(&g, c - P, r - P);
                assert_int_equal(visible[r * n + c], sees);
                assert_true(bias[r * n + c] == (sees ? 0.0F : (float)-INFINITY));
            }
        }
        assert_true(bias[n * n] == behind && position[n] == (int64_t)behind);
        assert_int_equal(visible[n * n], 0x80);
    }
}

/* With this mask a row's logits do not change with a cousin, and the prompt's are a plain pass's.
 */
TEST(cousins_do_not_meet)
{
    const ts_device         device = where;
    float                   tree_row[N_VOCAB], moved[N_VOCAB], plain[N_VOCAB];
    int32_t                 token[6] = { 5, 9, 1, 40, 41, 42 };
    int32_t                 parent[4] = { -1, -1, 0, 1 };
    uint8_t                 visible[36];
    int64_t                 position[6];
    int64_t                 want[1] = { 4 }; /* node 2, child of node 0 */
    const ts_exec           x = { 0 };
    const ts_tree_mask_args a = { { 2, 4, 0, 0 }, parent, visible, position };
    toy                     t;
    where = TS_CPU; /* the model is called here, without a search */
    toy_make(&t, TOY_TRANSFORMER, N_VOCAB, ts_bits(seed, n_drawn++));
    assert_int_equal(ts_tree_mask(&a, &x), TS_OK);
    assert_int_equal(toy_forward(&t, 6, token, position, visible, 1, want, tree_row), 0);
    const int32_t string[] = { 5, 9, 1, 41 };
    toy_after(&t, 4, string, plain);
    assert_memory_equal(tree_row, plain, sizeof plain);
    token[3] = 77, token[5] = 78; /* node 1 and its child */
    assert_int_equal(toy_forward(&t, 6, token, position, visible, 1, want, moved), 0);
    assert_memory_equal(tree_row, moved, sizeof moved);
    want[0] = 1;
    assert_int_equal(toy_forward(&t, 6, token, position, visible, 1, want, tree_row), 0);
    toy_after(&t, 2, string, plain);
    assert_memory_equal(tree_row, plain, sizeof plain);
    token[2] = 3; /* an ancestor does matter */
    want[0] = 4;
    assert_int_equal(toy_forward(&t, 6, token, position, visible, 1, want, tree_row), 0);
    assert_true(memcmp(tree_row, moved, sizeof moved));
    toy_free(&t);
    where = device;
}

/* ---- choices ---- */

static const float *row;

static void table_row(const int32_t *token, int64_t n, float *out, int64_t n_vocab)
{
    (void)token, (void)n;
    memcpy(out, row, (size_t)n_vocab * sizeof *out);
}

static int32_t chosen(int64_t n_vocab, double temperature, double u)
{
    const text prompt = { .n = 1 };
    const tree none = { 0 };
    toy        t;
    toy_make(&t, TOY_TABLE, n_vocab, 0);
    t.table = table_row;
    const verified v = verify(&t, &prompt, &none, 1, temperature, &u);
    toy_free(&t);
    return v.out[0];
}

TEST(choices_at_the_edge)
{
    enum { MANY = 10000 };
    static float x[MANY];
    const double last_u = 1 - 0x1p-53;
    row = x;
    for (int mask = 0; mask < N_MASKS; mask++) {
        ts_cpu_set_mask(masks[mask]);
        for (int i = 0; i < MANY; i++) x[i] = (float)-INFINITY;
        x[5000] = x[7000] = -3, x[9000] = -60;
        assert_int_equal(chosen(MANY, 0, 0), 5000); /* the lower of equal ones */
        assert_int_equal(chosen(MANY, 1, 0), 5000); /* what has no weight is never chosen */
        assert_int_equal(chosen(MANY, 1, 0.4999), 5000);
        assert_int_equal(chosen(MANY, 1, 0.5001), 7000);
        assert_true(chosen(MANY, 1, last_u) >= 7000); /* nor past the end */
        assert_int_equal(chosen(MANY, 1e300, 0.7), 9000);
        assert_int_equal(chosen(MANY, 5e-324, 0.9), 7000);
        x[100] = -3 - 720; /* a weight below the smallest normal is one */
        assert_int_equal(chosen(MANY, 1, 0), 100);
        x[100] = -3 - 750; /* exp of it is 0 */
        assert_int_equal(chosen(MANY, 1, 0), 5000);
        for (int i = 0; i < MANY; i++) x[i] = 0;
        for (int i = 0; i < MANY; i += 37) assert_int_equal(chosen(MANY, 0.5, (i + 0.5) / MANY), i);
        assert_int_equal(chosen(MANY, 2, last_u), MANY - 1);
        for (int trial = 0; trial < 200; trial++) { /* sums by other orders end a little short */
            for (int i = 0; i < MANY; i++)
                x[i] = i < 4000 ? (float)ts_normal(seed, n_drawn++) : (float)-INFINITY;
            assert_true(isfinite(x[chosen(4096, 1, last_u)]));
            assert_true(isfinite(x[chosen(MANY, 1, last_u)]));
        }
        for (int i = 0; i < 4; i++) x[i] = i % 2 ? -0.0F : 0.0F;
        assert_int_equal(chosen(4, 0, 0), 0);
    }
    ts_cpu_set_mask(~0u);
}

/* ---- refusals: the status is the promised one, and nothing has been written ---- */

static float   nonfinite_value;
static int64_t nonfinite_row;

static void make_nonfinite(int64_t r, float *out, int64_t n_vocab)
{
    if (r != nonfinite_row) return;
    for (int64_t v = 0; v < n_vocab; v++)
        if (v == n_vocab / 2 || nonfinite_value == -INFINITY) out[v] = nonfinite_value;
}

TEST(a_nonfinite_row_on_the_way_is_refused)
{
    const float  values[] = { NAN, INFINITY, -INFINITY };
    const double u[4] = { 0.1, 0.2, 0.3, 0.4 };
    const text   prompt = drawn_prompt(N_VOCAB, 3);
    for (int i = 0; i < 3 * 2 * N_MASKS; i++) {
        const double temperature = i / 3 % 2;
        int32_t      plain[4];
        verified     v, before;
        toy          t;
        toy_make(&t, TOY_HASH, N_VOCAB, 5);
        ts_cpu_set_mask(masks[i / 6]);
        decode(&t, &prompt, 4, temperature, u, plain);
        const tree g = { 3, { plain[0], other_than(plain, 4), plain[1] }, { -1, -1, 0 } };
        t.spoil = make_nonfinite;
        nonfinite_value = values[i % 3];
        for (nonfinite_row = 2; nonfinite_row < 6;
             nonfinite_row++) { /* the last prompt's, then the nodes' */
            memset(&v, 0x80, sizeof v);
            memset(&before, 0x80, sizeof v);
            const ts_tree_verify_args a = verify_args(&t, &prompt, &g, 4, temperature, u, &v);
            if (nonfinite_row == 4) { /* the wrong root is not on the way */
                assert_int_equal(run_args(&a, 1), TS_OK);
                is_right(&v, &g, 4, (int32_t[]) { plain[0], plain[1], plain[2], plain[3] });
            } else {
                assert_int_equal(run_args(&a, 1), TS_E_MODEL);
                assert_memory_equal(&v, &before, sizeof v);
            }
        }
        toy_free(&t);
    }
    ts_cpu_set_mask(~0u);
    toy t;
    toy_make(&t, TOY_HASH, N_VOCAB, 5);
    t.n_left = 0;
    const tree                none = { 0 };
    verified                  v;
    const ts_tree_verify_args a = verify_args(&t, &prompt, &none, 4, 0, NULL, &v);
    assert_int_equal(run_args(&a, 1), TS_E_MODEL);
    toy_free(&t);
}

static void refuse(ts_tree_verify_args a, ts_status status)
{
    verified v, before;
    memset(&v, 0x80, sizeof v);
    memset(&before, 0x80, sizeof v);
    if (a.out) a.out = v.out;
    if (a.path) a.path = v.path;
    if (a.status) a.status = v.status;
    if (a.n_out) a.n_out = &v.n_out;
    if (a.n_path) a.n_path = &v.n_path;
    assert_int_equal(run_args(&a, 1), status);
    if (status) assert_memory_equal(&v, &before, sizeof v);
}

TEST(invalid_calls_are_refused)
{
    const text          prompt = { 2, { 1, 96 } }, high = { 2, { 1, 97 } }, low = { 2, { -1, 1 } };
    const tree          g = { 3, { 0, 96, 5 }, { -1, 0, 0 } };
    const int32_t       self[] = { -1, 1, 0 }, late[] = { 2, 0, 0 }, deep[] = { -2, 0, 0 };
    const int32_t       too_high[] = { 0, 97, 0 }, too_low[] = { 0, -1, 0 };
    const double        u[] = { 0, 0.5, 1 - 0x1p-53, 0 }, one[] = { 0, 1, 0, 0 };
    const double        minus[] = { 0, 0, 0, -0.1 }, nan[] = { 0, NAN, 0, 0 };
    verified            v;
    toy                 t;
    ts_model            m;
    ts_tree_verify_args a;
    toy_make(&t, TOY_HASH, N_VOCAB, 5);
    const ts_tree_verify_args good = verify_args(&t, &prompt, &g, 4, 1, u, &v);
    refuse(good, TS_OK);
    a = good, a.d.prompt_len = 0, refuse(a, TS_E_SHAPE);
    a = good, a.d.n_node = -1, refuse(a, TS_E_SHAPE);
    a = good, a.d.n_node = INT32_MAX, refuse(a, TS_E_SHAPE);
    a = good, a.d.prompt_len = INT64_MAX, refuse(a, TS_E_SHAPE);
    a = good, a.d.max_new = -1, refuse(a, TS_E_SHAPE);
    a = good, a.d.temperature = -1, refuse(a, TS_E_ARG);
    a = good, a.d.temperature = NAN, refuse(a, TS_E_ARG);
    a = good, a.d.temperature = INFINITY, refuse(a, TS_E_ARG);
    a = good, a.parent = self, refuse(a, TS_E_ARG);
    a = good, a.parent = late, refuse(a, TS_E_ARG);
    a = good, a.parent = deep, refuse(a, TS_E_ARG);
    a = good, a.token = too_high, refuse(a, TS_E_ARG);
    a = good, a.token = too_low, refuse(a, TS_E_ARG);
    a = good, a.prompt = high.token, refuse(a, TS_E_ARG);
    a = good, a.prompt = low.token, refuse(a, TS_E_ARG);
    a = good, a.u = one, refuse(a, TS_E_ARG);
    a = good, a.u = minus, refuse(a, TS_E_ARG);
    a = good, a.u = nan, refuse(a, TS_E_ARG);
    a = good, a.u = NULL, refuse(a, TS_E_ARG);
    a.d.temperature = 0, refuse(a, TS_OK);
    a = good, a.u = nan, a.d.temperature = 0, refuse(a, TS_OK);
    a = good, a.prompt = NULL, refuse(a, TS_E_ARG);
    a = good, a.token = NULL, refuse(a, TS_E_ARG);
    a = good, a.parent = NULL, refuse(a, TS_E_ARG);
    a = good, a.out = NULL, refuse(a, TS_E_ARG);
    a = good, a.path = NULL, refuse(a, TS_E_ARG);
    a = good, a.status = NULL, refuse(a, TS_E_ARG);
    a = good, a.n_out = NULL, refuse(a, TS_E_ARG);
    a = good, a.n_path = NULL, refuse(a, TS_E_ARG);
    a = good, a.model = NULL, refuse(a, TS_E_ARG);
    m = t.m, m.forward = NULL, a = good, a.model = &m, refuse(a, TS_E_ARG);
    m = t.m, m.n_vocab = 0, refuse(a, TS_E_SHAPE);
    m = t.m, m.n_vocab = INT64_C(1) << 31, refuse(a, TS_E_SHAPE);
    a = good, a.d.max_new = 0, a.out = NULL, a.u = NULL, refuse(a, TS_OK);
    a = good, a.d.n_node = 0, a.token = a.parent = NULL, a.path = NULL, a.status = NULL;
    refuse(a, TS_OK);
    toy_free(&t);
}

TEST(masks_refuse_no_trees)
{
    const int32_t           late[] = { 0 };
    const ts_exec           x = { 0 };
    uint8_t                 visible[4] = { 9, 9, 9, 9 };
    int64_t                 position[2] = { 9, 9 };
    float                   bias[4] = { 9, 9, 9, 9 };
    const ts_tree_mask_args a = { { 1, 1, 0, 0 }, late, visible, position };
    const ts_tree_bias_args b = { { 1, 1, 0, 0 }, late, bias };
    assert_int_equal(ts_tree_mask(&a, &x), TS_E_ARG);
    assert_int_equal(ts_tree_bias(&b, &x), TS_E_ARG);
    for (int i = 0; i < 4; i++)
        assert_true(visible[i] == 9 && bias[i] == 9 && position[i / 2] == 9);
    assert_int_equal(ts_tree_mask(NULL, &x), TS_E_ARG);
    assert_int_equal(ts_tree_bias(NULL, &x), TS_E_ARG);
    const int32_t     first[] = { -1 };
    ts_tree_mask_args c = a;
    ts_tree_bias_args d = b;
    c.parent = d.parent = first; /* sound, but for what follows */
    assert_int_equal(ts_tree_mask(&c, NULL), TS_E_ARG);
    assert_int_equal(ts_tree_bias(&d, NULL), TS_E_ARG);
    c.visible = NULL, d.bias = NULL;
    assert_int_equal(ts_tree_mask(&c, &x), TS_E_ARG);
    assert_int_equal(ts_tree_bias(&d, &x), TS_E_ARG);
    c.visible = visible, d.bias = bias, c.position = NULL;
    assert_int_equal(ts_tree_mask(&c, &x), TS_E_ARG);
    assert_int_equal(ts_tree_bias(&d, &x), TS_OK);
    const ts_tree_dims bad[] = { { 0, 1, 0, 0 },
                                 { (int64_t)INT32_MAX + 1, 0, 0, 0 },
                                 { 1, -1, 0, 0 },
                                 { 1, INT32_MAX, 0, 0 },
                                 { 1, 1, -1, 0 } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c = (ts_tree_mask_args) { bad[i], first, visible, position };
        d = (ts_tree_bias_args) { bad[i], first, bias };
        assert_int_equal(ts_tree_mask(&c, &x), TS_E_SHAPE);
        assert_int_equal(ts_tree_bias(&d, &x), TS_E_SHAPE);
    }
    for (int i = 0; i < 3; i++) {
        c = (ts_tree_mask_args) { { 1, 1, 0, 0 }, first, visible, position };
        c.d.temperature = (const double[]) { -1, NAN, INFINITY }[i];
        assert_int_equal(ts_tree_mask(&c, &x), TS_E_ARG);
    }
    c = (ts_tree_mask_args) { { 1, 1, 0, 0 }, NULL, visible, position };
    assert_int_equal(ts_tree_mask(&c, &x), TS_E_ARG);
    c.parent = (const int32_t[]) { -2 };
    assert_int_equal(ts_tree_mask(&c, &x), TS_E_ARG);
}

TEST(short_workspaces_are_refused)
{
    const text    prompt = { 2, { 1, 2 } };
    const tree    g = { 1, { 5 }, { -1 } };
    const ts_exec none = { 0 }, gpu = { .device = TS_CUDA };
    verified      v, before;
    size_t        n;
    toy           t;
    toy_make(&t, TOY_HASH, N_VOCAB, 5);
    memset(&v, 0x80, sizeof v);
    memset(&before, 0x80, sizeof v);
    const ts_tree_verify_args a = verify_args(&t, &prompt, &g, 4, 0, NULL, &v);
    assert_int_equal(ts_tree_verify_workspace(&a, &none, &n), TS_OK);
    char         *memory = malloc(n);
    const ts_exec less = { .workspace = memory, .workspace_bytes = n - 1 };
    assert_int_equal(ts_tree_verify(&a, &none), TS_E_WORKSPACE);
    assert_int_equal(ts_tree_verify(&a, &less), TS_E_WORKSPACE);
    assert_int_equal(ts_tree_verify_workspace(&a, &none, NULL), TS_E_ARG);
    assert_int_equal(ts_tree_verify(&a, NULL), TS_E_ARG);
    const ts_status s = ts_tree_verify(&a, &gpu);
    assert_true(s == TS_E_DEVICE || s == TS_E_WORKSPACE);
    assert_memory_equal(&v, &before, sizeof v);
    assert_int_equal(t.n_forward, 0);
    free(memory);
    toy_free(&t);
}

int main(int argc, char **argv)
{
    const int absent = choose_device(argc, argv);
    if (absent) return absent;
    draw_seed("TREE_SEED");
    return unit_run();
}
