/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.c - task: the best continuations of prompts under one of the judge's models. The
 * output is the beams, and the record of the model's calls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_inside.h"
#include "dtype.h"
#include "rng.h"
#include "spoil.h"

enum { ATTEMPTS = 64 };

/* Scores that are nearer to each other than this, and on which something hangs, are drawn again.
 * What is timed has so many of them that some are always near: there it is eight times what two
 * right ones may be off together; an archive compares every end with every other. */
static double nearest(const ts_case *c)
{
    if (ts_beam_is_archive(c)) return 1e-9;
    return c->dim[MODEL] == TS_TOY_NOISE ? 16e-12 * (double)c->dim[STEPS] : 1e-6;
}

static void draw_clear(const ts_case *c, uint64_t seed, ts_beam_quiz *q)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        ts_beam_draw(c, i ? ts_mix(seed + (uint64_t)i) : seed, q);
        const ts_toy m = ts_model_toy(&q->model);
        if (ts_beam_means_ties(c) || ts_beam_solve(c, &m, q->prompts, NULL, NULL) >= nearest(c))
            return;
        ts_beam_quiz_free(q);
    }
    abort(); /* such a case can hardly be drawn */
}

/* The outputs, in the order of their wants. */
enum { N_OUTPUTS = 5 };

static void outputs(const ts_case *c, ts_buf b[N_OUTPUTS])
{
    const int64_t n = c->dim[ITEMS], K = c->dim[WIDTH], T = c->dim[STEPS];
    b[0] = (ts_buf) { "tokens", TS_OUT, TS_I32, n * K, T, T };
    b[1] = (ts_buf) { "logprob", TS_OUT, TS_F64, n, K, K };
    b[2] = (ts_buf) { "score", TS_OUT, TS_F64, n, K, K };
    b[3] = (ts_buf) { "beams", TS_OUT, TS_F64, n, 2 * K + 1, 2 * K + 1 };
    b[4] = (ts_buf) { "calls", TS_OUT, TS_F64, T + TS_BEAM_SEEN_MORE, TS_BEAM_SEEN, TS_BEAM_SEEN };
}

static bool is_refused(const ts_case *c)
{
    return ts_is(c, "archive_refused");
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_beam_play_args *a = args;
    ts_beam_quiz       q;
    ts_buf             b[N_OUTPUTS];
    draw_clear(c, seed, &q);
    const int64_t n_word = q.model.n_word, n_weight = q.model.n_weight, n = q.n_tokens;
    *a = (ts_beam_play_args) { .n_items = c->dim[ITEMS], .width = c->dim[WIDTH] };
    a->steps = c->dim[STEPS];
    a->n_vocab = c->dim[VOCAB];
    a->archive = ts_beam_is_archive(c);
    a->refused = is_refused(c);
    for (int64_t i = 0; i < a->n_items; i++) a->prompt_len[i] = (int32_t)ts_beam_prompt_len(c, i);
    a->d = (ts_beam_dims) { .n_items = c->dim[ITEMS],
                            .beam_width = c->dim[WIDTH],
                            .max_new_tokens = c->dim[STEPS],
                            .alpha = (double)c->dim[ALPHA] / 100,
                            .eos = (int32_t)c->dim[EOS] };
    void *const word = ts_take(m, &a->word, (ts_buf) { "word", TS_IN, TS_I32, 1, n_word, n_word });
    void *const weight =
        ts_take(m, &a->weight, (ts_buf) { "weight", TS_IN, TS_F32, 1, n_weight, n_weight });
    const int64_t  n_all = a->n_items + n;
    int32_t *const prompts =
        ts_take(m, &a->prompts, (ts_buf) { "prompts", TS_IN, TS_I32, 1, n_all, n_all });
    /* The lengths are int64_t; of the dtypes this one has their size and alignment. */
    char *const lengths =
        ts_take(m, &a->lengths, (ts_buf) { "lengths", TS_IN, TS_F64, 1, a->n_items, a->n_items });
    for (int64_t i = 0; i < a->n_items; i++)
        memcpy(lengths + 8 * i, &(int64_t) { a->prompt_len[i] }, sizeof(int64_t));
    memcpy(word, q.model.word, (size_t)n_word * sizeof *q.model.word);
    memcpy(weight, q.model.weight, (size_t)n_weight * sizeof *q.model.weight);
    for (int64_t i = 0; i < a->n_items; i++) prompts[i] = a->prompt_len[i];
    if (n) memcpy(prompts + a->n_items, q.prompts, (size_t)n * sizeof *q.prompts);
    ts_beam_quiz_free(&q);
    outputs(c, b);
    void *const slot[N_OUTPUTS] = { &a->tokens, &a->logprob, &a->score, &a->beams, &a->calls };
    for (int i = 0; i < N_OUTPUTS; i++) ts_take(m, slot[i], b[i]);
}

static size_t n_want(const ts_case *c)
{
    ts_buf b[N_OUTPUTS];
    outputs(c, b);
    return ts_bufs_elements(b, N_OUTPUTS);
}

static int64_t n_refused(void)
{
    ts_status must;
    int64_t   n = 0;
    for (int64_t list = TS_BEAM_ODD; list <= TS_BEAM_WITHOUT; list += TS_BEAM_LISTS)
        for (int64_t how = list; ts_beam_must(NULL, how, &must); how++) n++;
    return n;
}

/* Of spoilt calls the statuses, in the place of calls; nothing is written. */
static void want_refused(const ts_case *c, ts_want *want)
{
    const size_t n = n_want(c), n_seen = TS_BEAM_SEEN * (size_t)(c->dim[STEPS] + TS_BEAM_SEEN_MORE);
    ts_status    must;
    for (size_t i = 0; i < n; i++) want[i] = (ts_want) { 0, i < n - n_seen ? INFINITY : 0 };
    ts_want *const end = want + n;
    want += n - n_seen;
    for (int64_t list = TS_BEAM_ODD; list <= TS_BEAM_WITHOUT; list += TS_BEAM_LISTS)
        for (int64_t how = list; ts_beam_must(NULL, how, &must); how++) {
            if (want == end) abort(); /* too few steps to record all calls */
            (want++)->value = must;
        }
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_beam_play_args *a = args;
    const ts_toy             m = { a->word, a->weight };
    if (is_refused(c)) want_refused(c, want);
    else ts_beam_solve(c, &m, a->prompts + a->n_items, NULL, want);
}

/* The record of the model's calls is compared first: it says most about what went wrong. */
static bool check_calls(const ts_case *c, const ts_beam_play_args *a, const ts_want *want,
                        ts_flaw *f, ts_errors *e)
{
    ts_buf b[N_OUTPUTS];
    outputs(c, b);
    return ts_check_buf(b[4], a->calls, want + n_want(c) - b[4].n_rows * b[4].n_cols, f, e);
}

static bool check_found(const ts_case *c, const ts_beam_play_args *a, const ts_want *want,
                        ts_flaw *f, ts_errors *e)
{
    const void *const p[] = { a->tokens, a->logprob, a->score, a->beams };
    const bool        sound = ts_beam_is_sound(c, want);
    ts_buf            b[N_OUTPUTS];
    outputs(c, b);
    for (int i = 0; i < N_OUTPUTS - 1; i++) {
        if (sound ? !ts_check_buf(b[i], p[i], want, f, e) : !ts_check_untouched(b[i], p[i], f))
            return false;
        want += b[i].n_rows * b[i].n_cols;
    }
    return true;
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    return check_calls(c, args, want, f, e) && check_found(c, args, want, f, e);
}

static const char TIES[] = "equal scores: the parent's smaller slot first, then the smaller token";
static const char ONE_CALL[] = "each step calls next once, for the unfinished beams";
static const char EXACT[] = "log-probabilities are exact to 1e-12 per token";
static const char FAILS[] = "a model that fails ends the search with TS_E_MODEL";
static const char NONFINITE[] = "logits without a distribution end the search with TS_E_MODEL";
static const char REFUSED[] = "an invalid call is rejected, with nothing written";

static const char *rule_of_none(const ts_case *c)
{
    return strstr(c->family, "fails") ? FAILS : NONFINITE;
}

/* The number and arguments of the model's calls are rules of the canon; the status and bytes
 * outside the buffers are not. Where scores are equal, or a log-softmax in float may not tell them
 * apart, the result must follow from some order among them: a beam in the output was kept, and of
 * the others that could be kept instead several orders are tried. */
uint64_t ts_beam_orders(const ts_case *c)
{
    return c->dim[VOCAB] * c->dim[WIDTH] * c->dim[STEPS] < 1000 ? 1000 : 2;
}

/* Whether the output is that of a search with such choices. *clear: there is no other order. */
static bool follows(const ts_case *c, const ts_beam_play_args *a, uint64_t order, bool in_float,
                    ts_errors *e, bool *clear)
{
    const ts_toy       m = { a->word, a->weight };
    const ts_beam_told told = { a->tokens, order, in_float };
    ts_want           *now = calloc(n_want(c) + 1, sizeof *now);
    ts_errors          mine = *e;
    ts_flaw            other;
    if (!now) abort();
    *clear = ts_beam_solve(c, &m, a->prompts + a->n_items, &told, now) > 0;
    const bool ok = check_found(c, a, now, &other, &mine);
    if (ok) *e = mine;
    free(now);
    return ok;
}

/* The numbers at the end of the record; of a search that no row ended, not whether every prompt was
 * passed: what was found says so. */
static bool check_more(const ts_beam_play_args *a, const ts_want *more, bool sound, ts_flaw *f)
{
    const double *const got = a->calls + a->steps * TS_BEAM_SEEN;
    for (int i = 2; i < TS_BEAM_SEEN * TS_BEAM_SEEN_MORE; i++) {
        if (sound ? i == TS_BEAM_AMISS : i == TS_BEAM_STATUS || i == TS_BEAM_WROTE) continue;
        if (got[i] == more[i].value) continue;
        *f = (ts_flaw) {
            TS_FAULT_VALUE, "calls", a->steps + i / TS_BEAM_SEEN, i % TS_BEAM_SEEN, got[i],
            more[i].value,  0
        };
        return false;
    }
    return true;
}

/* Whether the model ended a search in a case of rows that are none: with other calls than those of
 * the canon it may come to them, as one that passes finished beams does. */
static bool reaches_none(const ts_case *c, const ts_beam_play_args *a)
{
    const bool none = strstr(c->family, "fails") || strstr(c->family, "nonfinite");
    return none && a->calls[a->steps * TS_BEAM_SEEN + TS_BEAM_STATUS] == TS_E_MODEL;
}

/* Where rows are none a search may end as it will, or go on: see beam_search_canon.c. */
static const char *common_of_none(const ts_case *c, const ts_beam_play_args *a, const ts_want *want,
                                  ts_flaw *f, ts_errors *e)
{
    const double *const more = a->calls + a->steps * TS_BEAM_SEEN;
    ts_flaw             other;
    if (!more[TS_BEAM_STATUS]) return ts_beam_goes_on(c, a, f) ? rule_of_none(c) : NULL;
    const bool untouched = !more[TS_BEAM_WROTE] && check_found(c, a, want, &other, e);
    return untouched ? ONE_CALL : rule_of_none(c);
}

/* Of invalid calls the statuses, and what those have written that were accepted. */
static const char *common_of_refused(const ts_case *c, const ts_beam_play_args *a, ts_flaw *f)
{
    const int64_t n = (c->dim[STEPS] + TS_BEAM_SEEN_MORE) * TS_BEAM_SEEN;
    for (int64_t i = n_refused() + 1; i < n; i++) {
        if (a->calls[i] == 0) continue;
        *f = (ts_flaw) {
            TS_FAULT_VALUE, "calls", i / TS_BEAM_SEEN, i % TS_BEAM_SEEN, a->calls[i], 0, 0
        };
        return NULL;
    }
    return REFUSED;
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const ts_beam_play_args *a = args;
    const ts_want           *more = want + n_want(c) - TS_BEAM_SEEN * TS_BEAM_SEEN_MORE;
    const bool               sound = ts_beam_is_sound(c, want) && !reaches_none(c, a);
    ts_errors                mine = *e;
    if (is_refused(c)) return common_of_refused(c, a, f);
    if (!check_more(a, more, sound, f)) return NULL;
    if (!sound) return common_of_none(c, a, want, f, e);
    if (check_found(c, a, want, f, &mine)) return *e = mine, ONE_CALL;
    bool clear = false;
    for (uint64_t i = 0; i < ts_beam_orders(c) && !clear; i++) {
        mine = *e;
        if (!follows(c, a, i, true, &mine, &clear)) continue;
        if (follows(c, a, i, false, e, &clear)) return TIES;
        return *e = mine, EXACT;
    }
    return NULL;
}

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    static const char *const more[TS_BEAM_SEEN * TS_BEAM_SEEN_MORE] = {
        "total calls of next",
        "total calls of forward",
        "bytes written outside the caller's memory",
        "status",
        "bytes written by a failed search",
        "prompts that were not passed; or 1: the model gave no row that ends a search"
    };
    static const char *const seen[TS_BEAM_SEEN] = {
        "number of strings passed to next", "strings passed to next, lower half of their hash",
        "strings passed to next, upper half of their hash"
    };
    const int64_t   K = c->dim[WIDTH], T = c->dim[STEPS];
    const long long row = f->row, col = f->col;
    (void)args;
    if (is_refused(c)) snprintf(s, n, "invalid call %lld: status", row * TS_BEAM_SEEN + col);
    else if (!strcmp(f->what, "tokens"))
        snprintf(s, n, "item %lld, beam %lld, token %lld", row / K, row % K, col);
    else if (!strcmp(f->what, "beams"))
        snprintf(s, n, "item %lld: %s %lld", row,
                 col < K       ? "length of beam"
                 : col < 2 * K ? "finished flag of beam"
                               : "beams found of",
                 col < 2 * K ? col % K : K);
    else if (strcmp(f->what, "calls")) snprintf(s, n, "item %lld, beam %lld", row, col);
    else if (row < T) snprintf(s, n, "step %lld: %s", row, seen[col]);
    else snprintf(s, n, "%s", more[(row - T) * TS_BEAM_SEEN + col]);
}

/* A step reads the logits of its unfinished beams once. How many those are the model says; the
 * floor is what they are when none ends. */
static ts_cost cost(const ts_case *c)
{
    const double V = (double)c->dim[VOCAB], K = (double)c->dim[WIDTH], n = (double)c->dim[ITEMS];
    const double T = (double)c->dim[STEPS], rows = T > 0 ? n * (1 + (T - 1) * K) : 0;
    return (ts_cost) { .bytes = rows * V * 4,
                       .flops = rows * V * 3,
                       .dexps = rows * V,
                       .model_logits = rows * V,
                       .reads_only = true };
}

static const ts_bad bad[] = {
    TS_BAD(ts_beam_play_args, TS_E_ARG, d.alpha, NAN, -1, INFINITY),
    TS_BAD(ts_beam_play_args, TS_E_ARG, d.eos, -2),
    TS_BAD_LIKE(ts_beam_play_args, TS_E_ARG, d.eos, n_vocab, 0),
    { 0 },
};

#define DIM(member) offsetof(ts_beam_play_args, d.member)

/* n_items, beam_width, max_new_tokens: of the tokens that are found. */
static const ts_invalid invalid = {
    .extent = { { DIM(n_items), 0, 0, 0, true, false },
                { DIM(beam_width), 1, INT32_MAX, 0, false, false },
                { DIM(max_new_tokens), 0, 0, 0, false, false } },
    .n_extent = 3,
    .product = { { { 1, 2, 3 } } },
    .told = true,
    .bad = bad,
    .how = offsetof(ts_beam_play_args, how),
    .how_must = ts_beam_must,
    .without = TS_BEAM_WITHOUT,
    .odd = TS_BEAM_ODD,
};

static int about(const ts_case *c)
{
    return ts_beam_is_archive(c) ? 0 : -1;
}

const ts_task ts_task_beam_search = {
    .name = "beam_search",
    .dim_name = { "items", "vocab", "width", "steps", "prompt", "alpha", "eos", "model" },
    .dim_says = { "n_items", "n_vocab of the model", "beam_width", "max_new_tokens",
                  "length of the longest prompt", "100 alpha", "eos",
                  "kind of model: 0 hash, 1 transformer, 2 table, 3 copied rows (timed)" },
    .kind = TS_SCRIPT,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .has_model = true,
    /* A length penalty beyond 2 brings the scores of a large model so near to each other that
     * hardly a draw is clear. */
    .varies = { "alpha", 200 },
    .scarce = { "width", "vocab" },
    .buffer = { { "word", TS_IN, 1, true },
                { "weight", TS_IN, 1, false },
                { "prompts", TS_IN, 1, true },
                { "lengths", TS_IN, 1, true },
                { "tokens", TS_OUT, 2, true },
                { "logprob", TS_OUT, 2, false },
                { "score", TS_OUT, 2, false },
                { "beams", TS_OUT, 2, true },
                { "calls", TS_OUT, 2, true } },
    .exports = ts_beam_names,
    .optional = ts_beam_optional,
    .about = about,
    .args_bytes = sizeof(ts_beam_play_args),
    .cases = ts_beam_search_cases,
    .cover = &ts_beam_search_cover,
    .further = &ts_beam_archive_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .canon = { { "ties", TIES, false },
               { "underflow", TIES, false },
               { "near", EXACT, false },
               { "close", EXACT, false },
               { "nonfinite", NONFINITE, true },
               { "nonfinite_inf", NONFINITE, true },
               { "nonfinite_none", NONFINITE, true },
               { "fails", FAILS, true },
               { "archive_ties", "equal scores: what was archived first comes first", false },
               { "archive_nonfinite", NONFINITE, true },
               { "archive_fails", FAILS, true },
               { "archive_refused", REFUSED, true } },
    .common = common,
    .common_decides = true,
    .explain = explain,
};
