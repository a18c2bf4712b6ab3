/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - task: verification of a drafted tree in one pass of one of the judge's models.
 * The output is the emitted tokens, and every argument of the model's call. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "rng.h"
#include "spoil.h"
#include "tree_verify_inside.h"

/* Choices that are nearer to another than this are drawn again. */
static const double NEAR = 1e-6;
enum { ATTEMPTS = 256 };

static void draw_clear(const ts_case *c, uint64_t seed, ts_tree_quiz *q)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        const double margin = ts_tree_draw(c, i ? ts_mix(seed + (uint64_t)i) : seed, q);
        const double near = !ts_is(c, "beside") ? NEAR : TS_TREE_BESIDE / 2;
        if (margin >= near || ts_tree_means_ties(c)) return;
        ts_tree_quiz_free(q);
    }
    abort(); /* such a case can hardly be drawn */
}

/* The outputs, in the order of their wants. */
enum { N_OUTPUTS = 4 };

static void outputs(const ts_case *c, ts_buf b[N_OUTPUTS])
{
    const int64_t n = c->dim[CYCLES], N = c->dim[NODES], M = c->dim[MAX_NEW];
    const int64_t R = ts_tree_most_rows(c), words = ts_tree_row_words(R);
    b[0] = (ts_buf) { "out", TS_OUT, TS_I32, n, M, M };
    b[1] = (ts_buf) { "path", TS_OUT, TS_I32, n, N, N };
    b[2] = (ts_buf) { "seen", TS_OUT, TS_F64, n, TS_TREE_SEEN + N, TS_TREE_SEEN + N };
    b[3] = (ts_buf) { "passed", TS_OUT, TS_I32, n * R, words, words };
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_tree_play_args *a = args;
    ts_tree_quiz       q;
    ts_buf             b[N_OUTPUTS];
    const int64_t      M = c->dim[MAX_NEW], n_script = ts_tree_script_words(c);
    if (ts_tree_function(c, NULL)) {
        ts_tree_more_setup(c, seed, m, a);
        return;
    }
    draw_clear(c, seed, &q);
    const int64_t n_word = q.model.n_word, n_weight = q.model.n_weight;
    *a = (ts_tree_play_args) { .n_cycle = c->dim[CYCLES], .n_node = c->dim[NODES], .max_new = M };
    a->n_vocab = c->dim[VOCAB];
    a->most_rows = ts_tree_most_rows(c);
    a->d = (ts_tree_dims) { c->dim[PROMPT], c->dim[NODES], M, ts_tree_temperature(c) };
    void *const word = ts_take(m, &a->word, (ts_buf) { "word", TS_IN, TS_I32, 1, n_word, n_word });
    void *const weight =
        ts_take(m, &a->weight, (ts_buf) { "weight", TS_IN, TS_F32, 1, n_weight, n_weight });
    void *const script =
        ts_take(m, &a->script, (ts_buf) { "script", TS_IN, TS_I32, 1, n_script, n_script });
    void *const u = ts_take(m, &a->u, (ts_buf) { "u", TS_IN, TS_F64, c->dim[CYCLES], M, M });
    memcpy(word, q.model.word, (size_t)n_word * sizeof *q.model.word);
    memcpy(weight, q.model.weight, (size_t)n_weight * sizeof *q.model.weight);
    memcpy(script, q.script, (size_t)n_script * sizeof *q.script);
    if (M) memcpy(u, q.u, (size_t)(c->dim[CYCLES] * M) * sizeof *q.u);
    ts_tree_quiz_free(&q);
    outputs(c, b);
    void *const slot[N_OUTPUTS] = { &a->out, &a->path, &a->seen, &a->passed };
    for (int i = 0; i < N_OUTPUTS; i++) ts_take(m, slot[i], b[i]);
    ts_scalar(m, "temperature", a->d.temperature);
}

static size_t n_want(const ts_case *c)
{
    ts_buf b[N_OUTPUTS];
    if (ts_tree_function(c, NULL)) return ts_tree_more_n_want(c);
    outputs(c, b);
    return ts_bufs_elements(b, N_OUTPUTS);
}

/* ---- what is expected ---- */

/* Of a cycle that fails, out and path stay as they were: anything goes here, see `check`. */
static void want_row(ts_want *w, int64_t n, const int32_t *value, int64_t n_value, bool any)
{
    for (int64_t i = 0; i < n; i++)
        w[i] = (ts_want) { i < n_value ? value[i] : -1, any ? INFINITY : 0 };
}

static void want_seen(const ts_tree_walk *t, bool asked, int64_t n_row, int64_t n_node, ts_want *w)
{
    const double value[TS_TREE_SEEN] = {
        [TS_TREE_STATUS] = t->nonfinite ? TS_E_MODEL : TS_OK,
        [TS_TREE_N_OUT] = t->nonfinite ? 0 : (double)t->n_out,
        [TS_TREE_N_PATH] = t->nonfinite ? 0 : (double)t->n_path,
        [TS_TREE_FORWARDS] = asked,
        [TS_TREE_ROWS] = asked ? (double)n_row : 0,
        [TS_TREE_WANTS] = asked ? (double)n_node + 1 : 0,
    };
    for (int i = 0; i < TS_TREE_SEEN; i++) w[i] = (ts_want) { value[i], 0 };
    for (int64_t i = 0; i < n_node; i++)
        w[TS_TREE_SEEN + i] = (ts_want) { t->nonfinite ? 0 : t->status[i], 0 };
}

/* Row r of a pass: its token, its position, whether its logits are requested, and the rows it sees,
 * which are queried one by one: the prompt up to itself; or, for a node, all of the prompt, its
 * ancestors, and itself. */
static void want_pass_row(const int32_t *cycle, int64_t n_node, int64_t r, uint32_t *word)
{
    const int64_t  n_prompt = *cycle++;
    const int32_t *token = cycle + n_prompt, *parent = token + n_node;
    const int64_t  node = r - n_prompt;
    int64_t        depth = 0;
    for (int64_t k = 0; k < n_prompt && k <= r; k++) word[3 + k / 32] |= 1u << k % 32;
    for (int64_t i = node; i >= 0; i = parent[i], depth++)
        word[3 + (n_prompt + i) / 32] |= 1u << (n_prompt + i) % 32;
    word[0] = (uint32_t)(node < 0 ? cycle[r] : token[node]);
    word[1] = (uint32_t)(node < 0 ? r : n_prompt + depth - 1);
    word[2] = r >= n_prompt - 1;
}

/* Of the logits after row r, which is wanted: ts_toy_digest. */
static uint32_t digest_after(const ts_toy *m, const int32_t *cycle, int64_t n_node, int64_t r)
{
    const int64_t  n_prompt = *cycle++;
    const int32_t *token = cycle + n_prompt, *parent = token + n_node;
    int32_t       *text = malloc((size_t)(n_prompt + n_node) * sizeof *text);
    float         *logits = malloc((size_t)m->word[TS_TOY_VOCAB] * sizeof *logits);
    int64_t        n = n_prompt;
    if (!text || !logits) abort();
    memcpy(text, cycle, (size_t)n_prompt * sizeof *text);
    for (int64_t i = r - n_prompt; i >= 0; i = parent[i]) n++;
    for (int64_t i = r - n_prompt, at = n; i >= 0; i = parent[i]) text[--at] = token[i];
    const uint32_t digest = ts_toy_next(m, n, text, logits) ? 0 : ts_toy_digest(m, logits);
    free(text), free(logits);
    return digest;
}

static void want_passed(const ts_toy *m, const int32_t *cycle, int64_t n_node, bool asked,
                        int64_t most_rows, ts_want *w)
{
    const int64_t words = ts_tree_row_words(most_rows), n_row = *cycle + n_node;
    const bool    timed = m->word[TS_TOY_KIND] == TS_TOY_NOISE;
    uint32_t     *word = calloc((size_t)words, sizeof *word);
    if (!word) abort();
    for (int64_t r = 0; r < most_rows; r++, w += words) {
        memset(word, 0, (size_t)words * sizeof *word);
        if (asked && r < n_row) want_pass_row(cycle, n_node, r, word);
        if (timed && word[2]) word[2] += digest_after(m, cycle, n_node, r);
        for (int64_t i = 0; i < words; i++) w[i] = (ts_want) { (double)(int32_t)word[i], 0 };
    }
    free(word);
}

/* What an output is compared by. */
typedef struct terms {
    unsigned rules; /* 0: by the canon; else those of ts_tree_told */
    bool     none;  /* rows that are no distribution may be taken for one */
} terms;

/* But of the pass, of which all terms say the same. False: a cycle cannot be right by these terms,
 * and where in *f. */
static bool want_walks(const ts_tree_play_args *a, terms by, ts_want *want, ts_flaw *f)
{
    const ts_toy   m = { a->word, a->weight };
    const int64_t  N = a->n_node, M = a->max_new;
    const int32_t *cycle = a->script;
    ts_want       *out = want, *path = out + a->n_cycle * M, *seen = path + a->n_cycle * N;
    bool           ok = true;
    for (int64_t i = 0; i < a->n_cycle && ok; i++, seen += TS_TREE_SEEN + N, out += M, path += N) {
        const ts_tree_told told = { a->out + i * M, by.rules };
        ts_tree_walk       t;
        ts_tree_decode(&m, cycle, N, M, a->d.temperature, a->u + i * M, by.rules ? &told : NULL,
                       &t);
        want_row(out, M, t.out, t.n_out, t.nonfinite);
        want_row(path, N, t.path, t.n_path, t.nonfinite);
        want_seen(&t, M > 0, cycle[0] + N, N, seen);
        ok = !by.none || ts_tree_excuse(a, i, cycle, &t, out, path, seen, f);
        ts_tree_walk_free(&t);
        cycle += 1 + *cycle + 2 * N;
    }
    return ok;
}

static void want_passes(const ts_tree_play_args *a, ts_want *want)
{
    const ts_toy   m = { a->word, a->weight };
    const int64_t  N = a->n_node, R = a->most_rows, n = R * ts_tree_row_words(R);
    const int32_t *cycle = a->script;
    for (int64_t i = 0; i < a->n_cycle; i++, want += n, cycle += 1 + *cycle + 2 * N)
        want_passed(&m, cycle, N, a->max_new > 0, R, want);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_tree_play_args *a = args;
    if (ts_tree_function(c, NULL)) {
        ts_tree_more_oracle(c, args, want);
        return;
    }
    want_walks(a, (terms) { 0, false }, want, NULL);
    want_passes(a, want + a->n_cycle * (a->max_new + 2 * a->n_node + TS_TREE_SEEN));
}

/* ---- check ---- */

/* Rows in which anything goes belong to calls that failed, which write nothing. */
static bool is_untouched(ts_buf b, const int32_t *p, const ts_want *w, ts_flaw *f)
{
    int32_t poison;
    ts_poison(TS_I32, &poison, sizeof poison);
    for (int64_t i = 0; i < b.n_rows * b.n_cols; i++) {
        if (w[i].bound == 0 || p[i] == poison) continue;
        *f = (ts_flaw) { TS_FAULT_VALUE, b.name, i / b.n_cols, i % b.n_cols, p[i], NAN, 0 };
        return false;
    }
    return true;
}

/* The flaw of the first wrong cycle. In it the pass first: it says most about what went wrong. */
static bool check_cycles(const ts_case *c, const ts_tree_play_args *a, const ts_want *want,
                         bool untouched, ts_flaw *f, ts_errors *e)
{
    const void *const p[] = { a->out, a->path, a->seen, a->passed };
    ts_buf            b[N_OUTPUTS];
    const ts_want    *of[N_OUTPUTS];
    outputs(c, b);
    for (int i = 0; i < N_OUTPUTS; i++) {
        of[i] = want;
        want += b[i].n_rows * b[i].n_cols;
    }
    int64_t first = 0;
    bool    ok = true;
    for (int i = N_OUTPUTS - 1; i >= 0; i--) {
        ts_flaw at;
        if (ts_check_buf(b[i], p[i], of[i], &at, e)) continue;
        const int64_t cycle = p[i] == a->passed ? at.row / a->most_rows : at.row;
        if (ok || cycle < first) first = cycle, *f = at;
        ok = false;
    }
    if (!ok || !untouched) return ok;
    return is_untouched(b[0], a->out, of[0], f) && is_untouched(b[1], a->path, of[1], f);
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_tree_play_args *a = args;
    if (a->function) return ts_tree_more_check(c, a, want, f, e);
    return check_cycles(c, a, want, true, f, e);
}

static const char TIES[] = "equal logits: the smallest token is chosen";
static const char SUMS[] = "probabilities are summed in double";
static const char SIBLINGS[] = "after a rejected node the walk goes on to its siblings";
static const char REJECTED[] = "the siblings of an accepted node are rejected, not unreached";

static const char NONFINITE[] = "logits without a distribution end the cycle with TS_E_MODEL";
static const char FAILS[] = "a model that fails ends the cycle with TS_E_MODEL";
static const char REFUSED[] = "an invalid call is rejected, with nothing written";

static bool check_by(const ts_case *c, const ts_tree_play_args *a, terms by, const ts_want *canon,
                     ts_flaw *f, ts_errors *e)
{
    ts_want  *now = calloc(n_want(c) + 1, sizeof *now);
    ts_errors mine = *e;
    if (!now) abort();
    memcpy(now, canon, n_want(c) * sizeof *now);
    const bool ok = want_walks(a, by, now, f) && check_cycles(c, a, now, !by.none, f, &mine);
    if (ok) *e = mine;
    free(now);
    return ok;
}

/* Of equally likely tokens any may be emitted; sums may be in float; and a walk may always end at
 * the first child that is wrong, or leave the siblings of an accepted node out: what it emits is
 * then a shorter prefix of plain decoding, or all of it. Which of these it does is one choice for
 * all cycles: a walk that ends now here, now there, loses nodes. The rule is the one that alone
 * explains the output, or the last. Where rows are none, see tree_verify_canon.c. */
static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    enum { TOKENS = TS_TREE_BY_TIES | TS_TREE_BY_FLOAT };
    static const struct {
        unsigned    rules;
        const char *rule;
    } way[] = { { TS_TREE_BY_TIES, TIES },
                { TS_TREE_BY_FLOAT, SUMS },
                { TS_TREE_STOPS | TOKENS, SIBLINGS },
                { TS_TREE_STOPS | TS_TREE_LEAVES | TOKENS, SIBLINGS },
                { TS_TREE_STOPS | TS_TREE_PASSES | TOKENS, SIBLINGS },
                { TS_TREE_STOPS | TS_TREE_LEAVES | TS_TREE_PASSES | TOKENS, SIBLINGS },
                { TS_TREE_PASSES | TOKENS, REJECTED } };
    const size_t             n_way = sizeof way / sizeof *way;
    const ts_tree_play_args *a = args;
    ts_flaw                  other;
    if (a->refused) return ts_tree_more_spares(a, f) ? REFUSED : NULL;
    if (a->function) return NULL;
    for (size_t i = 0; i < n_way; i++)
        if (check_by(c, a, (terms) { way[i].rules, false }, want, &other, e)) return way[i].rule;
    if (!a->word[TS_TOY_NONFINITE]) return NULL;
    const char *const rule = ts_is(c, "fails") ? FAILS : NONFINITE;
    if (check_by(c, a, (terms) { 0, true }, want, f, e)) return rule;
    for (size_t i = 0; i < n_way; i++)
        if (check_by(c, a, (terms) { way[i].rules, true }, want, &other, e)) return rule;
    return NULL;
}

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    static const char *const seen[TS_TREE_SEEN] = {
        [TS_TREE_STATUS] = "status",
        [TS_TREE_N_OUT] = "tokens emitted",
        [TS_TREE_N_PATH] = "nodes on the path",
        [TS_TREE_NEXTS] = "calls of next",
        [TS_TREE_FORWARDS] = "calls of forward",
        [TS_TREE_ROWS] = "rows of the pass",
        [TS_TREE_WANTS] = "rows whose logits were requested",
        [TS_TREE_OVER] = "bytes written outside the caller's memory",
        [TS_TREE_WROTE] = "bytes written by a call that failed",
    };
    static const char *const word[] = { "token", "position",
                                        "whether its logits are requested, and a digest of them" };
    const ts_tree_play_args *a = args;
    const long long          row = f->row, col = f->col;
    (void)c;
    if (a->refused) snprintf(s, n, "invalid call %lld: status", col);
    else if (a->function)
        snprintf(s, n, "call %lld%s",
                 strcmp(f->what, "visible") && strcmp(f->what, "bias")
                     ? row
                     : row / (a->d.prompt_len + a->n_node),
                 strcmp(f->what, "seen")   ? ""
                 : col == TS_MORE_STATUS   ? ": status"
                 : col == TS_MORE_OVER     ? ": bytes written outside the caller's memory"
                 : col == TS_MORE_ACCEPTED ? ": which child is accepted"
                                           : ": a position");
    else if (!strcmp(f->what, "passed"))
        snprintf(s, n, "cycle %lld, row %lld of the pass: %s", row / a->most_rows,
                 row % a->most_rows, col < 3 ? word[col] : "visibility mask, 32 rows");
    else if (strcmp(f->what, "seen")) snprintf(s, n, "cycle %lld", row);
    else if (col < TS_TREE_SEEN) snprintf(s, n, "cycle %lld: %s", row, seen[col]);
    else snprintf(s, n, "cycle %lld: status of node %lld", row, col - TS_TREE_SEEN);
}

/* The mask of every pass, and the logits that it must request; what the walk reads of them depends
 * on the tree. */
static ts_cost cost(const ts_case *c)
{
    const double R = (double)(c->dim[PROMPT] + c->dim[NODES]), V = (double)c->dim[VOCAB];
    const double n = c->dim[MAX_NEW] ? (double)c->dim[CYCLES] : 0;
    const double logits = n * V * (double)(c->dim[NODES] + 1);
    if (ts_tree_function(c, NULL)) return (ts_cost) { .bytes = ts_tree_more_bytes(c), .flops = n };
    return (ts_cost) { .bytes = n * R * R + 4 * logits,
                       .flops = n * V,
                       .model_logits = logits,
                       .model_sums = logits };
}

static int64_t too_many_nodes(void *args)
{
    return INT32_MAX - ((ts_tree_play_args *)args)->d.prompt_len + 1;
}

#define BAD(must, ...) TS_BAD(ts_tree_play_args, must, __VA_ARGS__)
static const ts_bad bad[] = {
    BAD(TS_E_ARG, d.temperature, NAN, -1, INFINITY),
    TS_BAD_OF(ts_tree_play_args, TS_E_SHAPE, d.n_node, too_many_nodes),
    BAD(TS_E_SHAPE, d.max_new, 0x1p60), /* no machine has that much memory */
    BAD(TS_ALSO, d.temperature, 1),
    { 0 },
};

#define DIM(member) offsetof(ts_tree_play_args, d.member)

/* prompt_len, n_node, max_new */
static const ts_invalid invalid = {
    .extent = { { DIM(prompt_len), 1, INT32_MAX, 0, false, false },
                { DIM(n_node), 0, INT32_MAX, 0, false, false },
                { DIM(max_new), 0, 0, 0, false, false } },
    .n_extent = 3,
    .bad = bad,
    .how = offsetof(ts_tree_play_args, how),
    .how_must = ts_tree_must,
    .without = TS_TREE_WITHOUT,
    .odd = TS_TREE_ODD,
    .always = (const ts_bad[]) { BAD(TS_ALSO, spoilt, 1), { 0 } },
};

static int about(const ts_case *c)
{
    return (int)ts_tree_function(c, NULL) - TS_TREE_MASK; /* as ts_tree_optional has them */
}

const ts_task ts_task_tree_verify = {
    .name = "tree_verify",
    .dim_name = { "nodes", "vocab", "prompt", "max_new", "cycles", "temperature", "model" },
    .dim_says = { "n_node", "n_vocab of the model", "prompt_len of the first call", "max_new",
                  "calls, the prompt of each being that of the last and the tokens it emitted",
                  "100 temperature (100000 in cases `cold`)",
                  "kind of model: 0 hash, 1 transformer, 2 table, 3 copied rows (timed)" },
    .kind = TS_SCRIPT,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .has_model = true,
    .buffer = { { "word", TS_IN, 1, true },
                { "weight", TS_IN, 1, false },
                { "script", TS_IN, 2, true },
                { "u", TS_IN, 2, false },
                { "p", TS_IN, 2, false },
                { "q", TS_IN, 2, false },
                { "out", TS_OUT, 2, true },
                { "path", TS_OUT, 2, true },
                { "seen", TS_OUT, 2, true },
                { "passed", TS_OUT, 2, true },
                { "visible", TS_OUT, 2, true },
                { "bias", TS_OUT, 2, false } },
    .number = { { "temperature", false } },
    .exports = ts_tree_names,
    .optional = ts_tree_optional,
    .about = about,
    .args_bytes = sizeof(ts_tree_play_args),
    .cases = ts_tree_verify_cases,
    .cover = &ts_tree_verify_cover,
    .further = &ts_tree_more_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .canon = { { "ties", TIES, false },
               { "beside", SUMS, false },
               { "nonfinite", NONFINITE, true },
               { "nonfinite_inf", NONFINITE, true },
               { "nonfinite_none", NONFINITE, true },
               { "fails", FAILS, true },
               { "mask_refused", REFUSED, true },
               { "bias_refused", REFUSED, true },
               { "residual_refused", REFUSED, true } },
    .common = common,
    .common_decides = true,
    .explain = explain,
};
