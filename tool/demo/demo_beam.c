/* SPDX-License-Identifier: Apache-2.0 */
/* demo_beam.c - `demo beam`: the beams that a search keeps, step by step, and the KV cache that
 * follows.
 *
 * A beam with two continuations is forked, one with none is freed, and no token is computed twice.
 * */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "demo_graph.h"
#include "search.h"
#include "touchstone/beam_search.h"

enum { WIDTH = 4, STEPS = 10, PROMPT = 8, LENGTH = PROMPT + STEPS, PAGE = 4 };

static const double ALPHA = 0.6;

/* A beam of a step. */
typedef struct beam {
    int32_t string[LENGTH];
    int     from; /* its slot in the previous step */
    double  logprob;
} beam;

/* A model that records its calls: the strings of a step are the beams that the previous one kept.
 */
typedef struct trace {
    ts_model        inner;
    const ts_beams *beams;
    beam            step[STEPS + 1][WIDTH]; /* 0: the prompt */
    int             n[STEPS + 1], n_step;
    ts_beams_stats  stats[STEPS]; /* after the pass of each step */
    float          *logits;       /* [WIDTH][n_vocab], of the previous step */
} trace;

static double log_softmax(const float *logits, int64_t n, int32_t token)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, (double)logits[i]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)logits[i] - top);
    return (double)logits[token] - top - log(sum);
}

/* Records the beams of a step; each extends a beam of the previous step. */
static void note(trace *t, int step, int n, const int32_t *const *string)
{
    const int64_t len = PROMPT + step;
    t->n_step = step;
    t->n[step] = n;
    for (int i = 0; i < n; i++) {
        beam *b = &t->step[step][i];
        memcpy(b->string, string[i], (size_t)len * sizeof *b->string);
        if (!step) continue;
        const size_t before = (size_t)(len - 1) * sizeof *b->string;
        while (memcmp(t->step[step - 1][b->from].string, b->string, before)) b->from++;
        b->logprob =
            t->step[step - 1][b->from].logprob + log_softmax(t->logits + b->from * t->inner.n_vocab,
                                                             t->inner.n_vocab, b->string[len - 1]);
    }
}

static int next(void *self, int64_t n, const int64_t *len, const int32_t *const *string, float *out)
{
    trace    *t = self;
    const int step = (int)len[0] - PROMPT;
    note(t, step, (int)n, string);
    const int failed = t->inner.next(t->inner.self, n, len, string, out);
    memcpy(t->logits, out, (size_t)(n * t->inner.n_vocab) * sizeof *out);
    t->stats[step] = *ts_beams_stats_of(t->beams);
    return failed;
}

/* ---- the search, twice ---- */

typedef struct found {
    int32_t token[WIDTH * STEPS];
    int64_t length[WIDTH], n_found;
    double  logprob[WIDTH], score[WIDTH];
    uint8_t finished[WIDTH];
} found;

static bool search(const ts_model *model, const int32_t *prompt, found *f)
{
    const int64_t             len = PROMPT;
    const ts_beam_search_args a = { .d = { 1, WIDTH, STEPS, ALPHA, -1 },
                                    .model = model,
                                    .prompts = prompt,
                                    .prompt_len = &len,
                                    .tokens = f->token,
                                    .length = f->length,
                                    .logprob = f->logprob,
                                    .score = f->score,
                                    .finished = f->finished,
                                    .n_found = &f->n_found };
    ts_exec                   x = { .n_threads = 1 };
    if (!ts_demo_ok("beam search", ts_beam_search_workspace(&a, &x, &x.workspace_bytes)))
        return false;
    x.workspace = malloc(x.workspace_bytes + 1);
    const ts_status s = x.workspace ? ts_beam_search(&a, &x) : TS_E_WORKSPACE;
    free(x.workspace);
    return ts_demo_ok("beam search", s);
}

static bool run(const ts_demo_model *m, const int32_t *prompt, trace *t, found *cached,
                found *plain)
{
    const int64_t           n_vocab = ts_decoder_dims_of(m->m)->n_vocab;
    const int64_t           n_layer = ts_decoder_dims_of(m->m)->n_layer;
    const ts_engine_options o = { .n_seq = WIDTH,
                                  .capacity = LENGTH,
                                  .page = PAGE,
                                  .n_page = WIDTH * n_layer * (LENGTH / PAGE + 1),
                                  .chunk = PROMPT,
                                  .store = TS_F32,
                                  .n_threads = 1 };
    char                    why[TS_MODEL_WHY] = "out of memory";
    ts_beams               *b = NULL;
    ts_stateless           *s = NULL;
    t->logits = malloc((size_t)(WIDTH * n_vocab) * sizeof *t->logits);
    bool ok =
        t->logits && ts_beams_create(m->m, &o, &b, why) && ts_stateless_create(m->m, &o, &s, why);
    if (!ok) ts_complain("beam", why);
    if (ok) {
        t->inner = ts_beams_model(b);
        t->beams = b;
        const ts_model traced = { t, n_vocab, next, NULL }, stateless = ts_stateless_model(s);
        ok = search(&traced, prompt, cached) && search(&stateless, prompt, plain);
    }
    if (ok) { /* the beams of the last step never reach the model */
        int32_t        string[WIDTH][LENGTH];
        const int32_t *last[WIDTH];
        for (int i = 0; i < cached->n_found; i++) {
            memcpy(string[i], prompt, PROMPT * sizeof *prompt);
            memcpy(string[i] + PROMPT, cached->token + (size_t)i * STEPS, STEPS * sizeof *prompt);
            last[i] = string[i];
        }
        note(t, STEPS, (int)cached->n_found, last);
    }
    ts_beams_free(&b);
    ts_stateless_free(&s);
    free(t->logits);
    return ok;
}

/* ---- output ---- */

static bool goes_on(const trace *t, int step, int slot)
{
    for (int i = 0; step < t->n_step && i < t->n[step + 1]; i++)
        if (t->step[step + 1][i].from == slot) return true;
    return step == t->n_step;
}

/* Slots of the final best string, from step 0 on. */
static void best_path(const trace *t, int slot[STEPS + 1])
{
    slot[t->n_step] = 0;
    for (int s = t->n_step; s > 0; s--) slot[s - 1] = t->step[s][slot[s]].from;
}

static void show_cache(const ts_demo_args *a, const trace *t, int step)
{
    const ts_beams_stats  none = { 0 }, *s = &t->stats[step];
    const ts_beams_stats *before = step ? &t->stats[step - 1] : &none;
    ts_print(a->table,
             "        cache: %lld tokens run, %lld fork%s, %lld pages shared, %lld copied on "
             "write\n",
             (long long)(s->n_row - before->n_row), (long long)(s->n_fork - before->n_fork),
             s->n_fork - before->n_fork == 1 ? "" : "s", (long long)(s->shared - before->shared),
             (long long)(s->copied - before->copied));
}

static void show_steps(const ts_demo_args *a, const trace *t, const ts_tokenizer *words)
{
    ts_json *rows = ts_json_array(a->json, "rows");
    char     label[TS_DEMO_LABEL];
    for (int s = 1; s <= t->n_step; s++) {
        show_cache(a, t, s - 1);
        for (int i = 0; i < t->n[s]; i++) {
            const beam *b = &t->step[s][i];
            ts_json    *o = ts_json_object(rows, NULL);
            ts_demo_label(words, b->string[PROMPT + s - 2], b->string[PROMPT + s - 1], label);
            ts_json_int(o, "step", s);
            ts_json_int(o, "slot", i + 1);
            ts_json_int(o, "from", b->from + 1);
            ts_json_int(o, "token", b->string[PROMPT + s - 1]);
            ts_json_number(o, "logprob", b->logprob);
            ts_print(a->table, "step %2d  slot %d <- %d  %-14s logprob %8.3f  score %7.3f%s\n", s,
                     i + 1, b->from + 1, label, b->logprob, b->logprob / pow(s, ALPHA),
                     goes_on(t, s, i) ? "" : "  not continued");
        }
    }
}

static bool plot(const ts_demo_args *a, const trace *t, const ts_tokenizer *words)
{
    static const char *const looks[3] = { "best", "kept", "abandoned" };
    static ts_demo_node      node[1 + STEPS * WIDTH];
    int                      best[STEPS + 1], n = 1, first = 0;
    best_path(t, best);
    node[0] = (ts_demo_node) { .from = -1, .label = "prompt" };
    for (int s = 1; s <= t->n_step; s++) {
        const int before = first;
        first = n;
        for (int i = 0; i < t->n[s]; i++) {
            const beam *b = &t->step[s][i];
            node[n] = (ts_demo_node) { .column = s, .row = i, .from = before + b->from };
            node[n].look = best[s] == i       ? TS_LOOK_CHOSEN
                           : goes_on(t, s, i) ? TS_LOOK_ALIVE
                                              : TS_LOOK_GONE;
            ts_demo_label(words, b->string[PROMPT + s - 2], b->string[PROMPT + s - 1],
                          node[n++].label);
        }
    }
    return ts_demo_graph(a->svg, "Beam search: slots by step, best first", looks, node, n);
}

static bool agree(const trace *t, const found *a, const found *b, double *far)
{
    bool same = a->n_found == b->n_found && !memcmp(a->token, b->token, sizeof a->token);
    *far = 0;
    for (int i = 0; i < a->n_found; i++) {
        *far = fmax(*far, fabs(a->score[i] - b->score[i]));
        /* The recorded steps must lead to the result of the search. */
        same = same && fabs(t->step[t->n_step][i].logprob - a->logprob[i]) <= 1e-6 * STEPS;
    }
    return same && *far <= 1e-5;
}

int ts_demo_beam(const ts_demo_args *a)
{
    static trace  t;
    static found  cached, plain;
    ts_demo_model m;
    int32_t       prompt[PROMPT];
    double        far = 0;
    bool          ok = ts_demo_model_open(a, TS_F32, &m);
    if (ok)
        ts_print(
            a->table,
            "Beam search: %d slots, %d tokens after a prompt of %d, score = logprob / length^%g.\n",
            WIDTH, STEPS, PROMPT, ALPHA);
    if (ok) ts_demo_model_about(a, &m);
    if (ok && a->table) fputc('\n', a->table);
    ok = ok && ts_demo_model_text(&m, a->seed, prompt, PROMPT) &&
         run(&m, prompt, &t, &cached, &plain);
    ts_tokenizer *words = ok ? ts_demo_words(&m) : NULL;
    if (ok) show_steps(a, &t, words);
    const bool right = ok && agree(&t, &cached, &plain, &far);
    if (ok && a->svg) ok = plot(a, &t, words);
    ts_tokenizer_free(&words);
    ts_demo_model_close(&m);
    if (!ok) return TS_EXIT_BROKEN;
    const ts_beams_stats *s = &t.stats[t.n_step - 1];
    ts_print(a->table,
             "\n%lld tokens run; %lld if every string were recomputed. Pages of %d tokens: at "
             "most %lld in use,\n%lld if each beam had its own; forks shared %lld and copied "
             "%lld. The search without a cache finds\n%s, with scores within %.1e.\n",
             (long long)s->n_row, (long long)s->n_string_row, PAGE, (long long)s->held_most,
             (long long)s->alone_most, (long long)s->shared, (long long)s->copied,
             right ? "the same tokens" : "FAILED: other tokens", far);
    ts_json_int(a->json, "tokens_run", s->n_row);
    ts_json_int(a->json, "tokens_without_cache", s->n_string_row);
    ts_json_int(a->json, "pages_peak", s->held_most);
    ts_json_int(a->json, "pages_peak_unshared", s->alone_most);
    ts_json_int(a->json, "pages_shared", s->shared);
    ts_json_int(a->json, "pages_copied", s->copied);
    ts_json_number(a->json, "farthest_score", far);
    return ts_demo_end(a, right, true);
}
