/* SPDX-License-Identifier: Apache-2.0 */
/* generate_search.c - `generate --beam` and `generate --draft`: beam search and speculative
 * decoding; with --verify, repeated without a cache or without drafts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate_run.h"
#include "search.h"
#include "touchstone/beam_search.h"

/* ---- beams ---- */

typedef struct found {
    int32_t *token;   /* [n_items][n_beam][n_new] */
    int64_t *length;  /* [n_items][n_beam] */
    double  *logprob; /* [n_items][n_beam] */
    double  *score;   /* [n_items][n_beam] */
    uint8_t *finished;
    int64_t *n_found; /* [n_items] */
    double   seconds;
} found;

typedef struct prompts {
    int32_t *token;
    int64_t *len;
} prompts;

static ts_beam_dims beam_dims(const ts_generate_work *w, int64_t capacity)
{
    int32_t      stop[TS_MODEL_STOPS];
    ts_beam_dims d = { w->n_story, w->p->n_beam, w->p->n_new, w->p->alpha, -1 };
    if (ts_generate_stops(w, stop)) d.eos = stop[0]; /* beam search supports one */
    for (int64_t i = 0; i < w->n_story; i++) {       /* all stories have the same number of steps */
        const int64_t room = capacity - w->story[i].n_prompt;
        if (room < d.max_new_tokens) d.max_new_tokens = room;
    }
    return d;
}

static bool list_prompts(const ts_generate_work *w, int64_t capacity, prompts *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->n_story; i++) {
        if (w->story[i].n_prompt > capacity)
            return ts_complain("prompt",
                               "more tokens than the model's context; shorten the prompt");
        n += w->story[i].n_prompt;
    }
    p->token = malloc((size_t)n * sizeof *p->token);
    p->len = malloc((size_t)w->n_story * sizeof *p->len);
    if (!p->token || !p->len) return ts_complain("--beam", "out of memory for the prompts");
    n = 0;
    for (int64_t i = 0; i < w->n_story; i++) {
        p->len[i] = w->story[i].n_prompt;
        memcpy(p->token + n, w->story[i].token, (size_t)p->len[i] * sizeof *p->token);
        n += p->len[i];
    }
    return true;
}

static bool make_found(ts_beam_dims d, found *f)
{
    const size_t n = (size_t)(d.n_items * d.beam_width);
    f->token = malloc((n * (size_t)d.max_new_tokens + 1) * sizeof *f->token);
    f->length = malloc(n * sizeof *f->length);
    f->logprob = malloc(n * sizeof *f->logprob);
    f->score = malloc(n * sizeof *f->score);
    f->finished = malloc(n * sizeof *f->finished);
    f->n_found = malloc((size_t)d.n_items * sizeof *f->n_found);
    return (f->token && f->length && f->logprob && f->score && f->finished && f->n_found) ||
           ts_complain("--beam", "out of memory for the beams");
}

static void free_found(found *f)
{
    void *const mine[] = { f->token, f->length, f->logprob, f->score, f->finished, f->n_found };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
}

static ts_beam_search_args search_args(ts_beam_dims d, const prompts *p, found *f)
{
    return (ts_beam_search_args) {
        .d = d,
        .prompts = p->token,
        .prompt_len = p->len,
        .tokens = f->token,
        .length = f->length,
        .logprob = f->logprob,
        .score = f->score,
        .finished = f->finished,
        .n_found = f->n_found,
    };
}

/* Searches with a model without a cache. */
static ts_status search(const ts_model *model, ts_beam_dims d, const prompts *p, found *f)
{
    ts_beam_search_args a = search_args(d, p, f);
    ts_exec             x = { .device = TS_CPU };
    a.model = model;
    ts_status    s = ts_beam_search_workspace(&a, &x, &x.workspace_bytes);
    const double from = ts_generate_now();
    if (s) return s;
    x.workspace = malloc(x.workspace_bytes + 1);
    s = x.workspace ? ts_beam_search(&a, &x) : TS_E_WORKSPACE;
    free(x.workspace);
    f->seconds = ts_generate_now() - from;
    return s;
}

/* Stores the best beam of each story. */
static void adopt(ts_generate_work *w, ts_beam_dims d, const found *f)
{
    for (int64_t i = 0; i < w->n_story; i++) {
        ts_story      *s = &w->story[i];
        const int64_t  at = i * d.beam_width;
        const int64_t  n = f->length[at] - f->finished[at]; /* without EOS */
        const int32_t *token = f->token + at * d.max_new_tokens;
        if (w->out && w->n_story == 1) ts_show_text(w->out, s->text, s->n_text);
        for (int64_t j = 0; j < n; j++)
            ts_generate_tell(w, &(ts_event) { .request = i, .token = token[j] });
        ts_generate_tell(w, &(ts_event) { .request = i,
                                          .token = -1,
                                          .finish = f->finished[at]          ? TS_FINISH_STOP
                                                    : s->n_token < s->n_most ? TS_FINISH_CONTEXT
                                                                             : TS_FINISH_LENGTH });
    }
}

static void show_beams(const ts_generate_work *w, ts_beam_dims d, const found *f, ts_json *json)
{
    ts_json *list = ts_json_array(json, "beams");
    ts_print(w->out, "\n%s beam       score     logprob  tokens\n",
             w->n_story > 1 ? "story" : "     ");
    for (int64_t i = 0; i < d.n_items * d.beam_width; i++) {
        const int64_t item = i / d.beam_width, rank = i % d.beam_width;
        if (rank >= f->n_found[item]) continue;
        ts_json *o = ts_json_object(list, NULL);
        ts_json_int(o, "story", item);
        ts_json_number(o, "score", f->score[i]);
        ts_json_number(o, "logprob", f->logprob[i]);
        ts_json_int(o, "length", f->length[i]);
        ts_json_bool(o, "finished", f->finished[i]);
        if (!w->out) continue;
        if (w->n_story > 1) fprintf(w->out, "%5lld", (long long)item + 1);
        else fprintf(w->out, "%5s", "");
        fprintf(w->out, "%5lld  %10.6f  %10.5f  %6lld%s\n", (long long)rank + 1, f->score[i],
                f->logprob[i], (long long)f->length[i], f->finished[i] ? ", finished" : "");
    }
}

static void beam_summary(const ts_generate_work *w, const ts_beams_stats *s, const found *f,
                         ts_json *json)
{
    if (w->out) {
        fprintf(w->out,
                "\nbeam      %lld passes in %.3f s; %lld tokens run, %lld if recomputed without a "
                "cache\n",
                (long long)s->n_pass, f->seconds, (long long)s->n_row, (long long)s->n_string_row);
        if (w->p->kv.paged)
            fprintf(w->out,
                    "pages     at most %lld in use, %lld if each beam had its own; %lld forks "
                    "copied %lld and shared %lld\n",
                    (long long)s->held_most, (long long)s->alone_most, (long long)s->n_fork,
                    (long long)s->copied, (long long)(s->shared - s->copied));
    }
    ts_json_int(json, "passes", s->n_pass);
    ts_json_number(json, "seconds", f->seconds);
    ts_json_int(json, "tokens_run", s->n_row);
    ts_json_int(json, "tokens_without_cache", s->n_string_row);
    ts_json_int(json, "forks", s->n_fork);
    ts_json_int(json, "pages_peak", s->held_most);
    ts_json_int(json, "pages_peak_unshared", s->alone_most);
    ts_json_int(json, "pages_shared", s->shared);
    ts_json_int(json, "pages_copied", s->copied);
}

/* Sums of logarithms may differ by a rounding per token. */
static bool same_beams(ts_beam_dims d, const found *a, const found *b, double *far)
{
    bool same = !memcmp(a->n_found, b->n_found, (size_t)d.n_items * sizeof *a->n_found);
    *far = 0;
    for (int64_t i = 0; same && i < d.n_items * d.beam_width; i++) {
        if (i % d.beam_width >= a->n_found[i / d.beam_width]) continue;
        same = a->length[i] == b->length[i] &&
               !memcmp(a->token + i * d.max_new_tokens, b->token + i * d.max_new_tokens,
                       (size_t)a->length[i] * sizeof *a->token);
        *far = fmax(*far, fabs(a->score[i] - b->score[i]));
    }
    return same;
}

static bool verify_beams(const ts_generate_work *w, ts_beam_dims d, const prompts *p,
                         const found *f, ts_json *json)
{
    const ts_engine_options o = ts_generate_options(w, 1);
    char                    why[TS_MODEL_WHY];
    ts_stateless           *s = NULL;
    found                   again = { 0 };
    double                  far = 0;
    bool                    ok = make_found(d, &again);
    if (ok && !ts_stateless_create(w->m, &o, &s, why)) ok = ts_complain("--verify", why);
    if (ok) {
        const ts_model  model = ts_stateless_model(s);
        const ts_status status = search(&model, d, p, &again);
        if (status) ok = ts_complain("--verify", ts_status_text(status));
    }
    const bool same = ok && same_beams(d, f, &again, &far);
    if (ok)
        ts_print(w->out,
                 "verify    %.3f s by recomputing every string, %.2f times as long; tokens %s, "
                 "scores within %.1e\n",
                 again.seconds, again.seconds / f->seconds, same ? "equal" : "DIFFER", far);
    if (ok) {
        ts_json_number(json, "stateless_seconds", again.seconds);
        ts_json_bool(json, "tokens_equal", same);
        ts_json_number(json, "farthest_score", far);
    }
    ts_stateless_free(&s);
    free_found(&again);
    return same;
}

int ts_generate_beams(ts_generate_work *w, ts_json *json)
{
    const ts_engine_options o = ts_generate_options(w, w->n_story * w->p->n_beam);
    const ts_beam_dims      d = beam_dims(w, o.capacity);
    char                    why[TS_MODEL_WHY];
    ts_beams               *b = NULL;
    prompts                 p = { 0 };
    found                   f = { 0 };
    int                     status = TS_EXIT_BROKEN;
    bool                    ok = list_prompts(w, o.capacity, &p) && make_found(d, &f);
    if (ok && !ts_beams_create(w->m, &o, &b, why)) ok = ts_complain("--beam", why);
    if (ok) {
        const ts_beam_search_args a = search_args(d, &p, &f);
        const double              from = ts_generate_now();
        const ts_status           s = ts_beams_search(b, &a, false);
        f.seconds = ts_generate_now() - from;
        status = s ? TS_EXIT_FAILED : TS_EXIT_PASSED;
        if (s) ok = ts_complain("--beam", ts_status_text(s));
    }
    if (ok) {
        adopt(w, d, &f);
        show_beams(w, d, &f, json);
        beam_summary(w, ts_beams_stats_of(b), &f, json);
        status = ts_generate_stories(w, json);
        if (w->p->verify && !verify_beams(w, d, &p, &f, json)) status = TS_EXIT_FAILED;
    }
    ts_beams_free(&b);
    free(p.token);
    free(p.len);
    free_found(&f);
    return status;
}

/* ---- drafts ---- */

/* The draft model that --draft names. */
typedef struct drafts {
    ts_lookup   lookup;
    ts_decoder *m;
    ts_small   *small;
    ts_drafter  by;
} drafts;

static bool open_drafts(const ts_generate_work *w, const ts_engine_options *o, drafts *d)
{
    const int64_t     width = w->p->tree[0];
    char              why[TS_MODEL_WHY];
    ts_engine_options theirs = *o;
    d->lookup.width = width;
    d->by = ts_lookup_drafter(&d->lookup);
    if (!strcmp(w->p->draft, "lookup")) return true;
    if (!ts_decoder_load(w->p->draft, TS_F32, &d->m, why)) return ts_complain(w->p->draft, why);
    if (w->p->m.device == TS_CUDA && !ts_decoder_to_cuda(d->m, why))
        return ts_complain("--device", why);
    const ts_decoder_dims *small = ts_decoder_dims_of(d->m), *large = ts_decoder_dims_of(w->m);
    if (small->n_vocab != large->n_vocab) {
        snprintf(why, sizeof why, "got a vocabulary of %lld tokens, expected %lld as in --model",
                 (long long)small->n_vocab, (long long)large->n_vocab);
        return ts_complain(w->p->draft, why);
    }
    if (theirs.capacity > small->n_context) theirs.capacity = small->n_context;
    theirs.store = TS_F32;
    if (theirs.page) /* enough for all its sequences */
        theirs.n_page =
            width * small->n_layer * ((theirs.capacity + theirs.page - 1) / theirs.page);
    if (!ts_small_create(d->m, width, &theirs, &d->small, why)) return ts_complain("--draft", why);
    d->by = ts_small_drafter(d->small);
    return true;
}

static bool ends(const int32_t *stop, int n_stop, int32_t token)
{
    for (int i = 0; i < n_stop; i++)
        if (stop[i] == token) return true;
    return false;
}

/* Generates one story; tokens after its end are discarded. */
static ts_status tell_story(ts_generate_work *w, ts_speculator *s, const ts_drafter *d, int64_t i,
                            ts_finish *finish)
{
    ts_story      *y = &w->story[i];
    int32_t        stop[TS_MODEL_STOPS];
    const int      n_stop = ts_generate_stops(w, stop);
    ts_speculation did;
    *finish = TS_FINISH_LENGTH;
    while (y->n_token < y->n_most && !y->made.stopped) {
        const ts_status status = ts_speculator_step(s, d, y->n_most - y->n_token, &did);
        if (!status && !did.n_out) *finish = TS_FINISH_CONTEXT;
        if (status || !did.n_out) return status;
        for (int64_t j = 0; j < did.n_out; j++) {
            if (ends(stop, n_stop, did.out[j])) *finish = TS_FINISH_STOP;
            if (*finish == TS_FINISH_STOP || y->made.stopped) return TS_OK;
            ts_generate_tell(w, &(ts_event) { .request = i, .token = did.out[j] });
        }
    }
    return TS_OK;
}

static void draft_summary(const ts_generate_work *w, const ts_speculator_stats *s, ts_json *json)
{
    const double a_pass = ts_generate_rate(s->n_token, (double)s->n_pass);
    const double decode = ts_generate_rate(s->n_token, s->draft_s + s->run_s);
    const double share = s->draft_s / (s->draft_s + s->run_s);
    ts_print(w->out,
             "\ndraft     %s, %lldx%lld: %lld tokens in %lld passes, %.2f per pass; %lld of %lld "
             "nodes accepted\ndecode    %.1f tokens/s; %.0f %% of the time spent on drafts\n",
             w->p->draft, (long long)w->p->tree[0], (long long)w->p->tree[1], (long long)s->n_token,
             (long long)s->n_pass, a_pass, (long long)s->n_accepted, (long long)s->n_drafted,
             decode, 100 * share);
    ts_json_int(json, "passes", s->n_pass);
    ts_json_int(json, "tokens_made", s->n_token);
    ts_json_number(json, "tokens_per_pass", a_pass);
    ts_json_int(json, "nodes_drafted", s->n_drafted);
    ts_json_int(json, "nodes_accepted", s->n_accepted);
    ts_json_number(json, "decode_tokens_per_s", decode);
    ts_json_number(json, "draft_share", share);
}

/* The tokens of plain decoding, one story after the other. */
typedef struct plain {
    const ts_generate_work *w;
    int64_t                *n;    /* [n_story]: tokens generated */
    bool                    same; /* identical so far */
    ts_engine              *e;
} plain;

static void compare(void *user, const ts_event *e)
{
    plain          *y = user;
    const ts_story *s = &y->w->story[e->request];
    const int64_t   at = s->n_prompt + y->n[e->request];
    if (e->token >= 0) {
        y->same = y->same && at < s->n_token && s->token[at] == e->token;
        y->n[e->request]++;
        if (s->made.stopped && at + 1 == s->n_token) ts_engine_end(y->e, e->request);
    } else y->same = y->same && at == s->n_token && e->status == TS_OK;
}

static bool verify_drafts(const ts_generate_work *w, const ts_speculator_stats *s, ts_json *json)
{
    const ts_engine_options o = ts_generate_options(w, 1);
    const double            ours = ts_generate_rate(s->n_token, s->draft_s + s->run_s);
    char                    why[TS_MODEL_WHY];
    ts_engine              *e = NULL;
    plain                   y = { w, calloc((size_t)w->n_story, sizeof *y.n), true, NULL };
    bool                    ok = y.n || ts_complain("--verify", "out of memory for the tokens");
    if (ok && !ts_engine_create(w->m, &o, &e, why)) ok = ts_complain("--verify", why);
    y.e = e;
    ok = ok && ts_generate_add_all(w, e);
    while (ok && ts_engine_step(e, compare, &y)) continue;
    if (ok) {
        const ts_engine_stats *t = ts_engine_stats_of(e);
        const double           theirs = ts_generate_rate(t->n_decode, t->decode_s);
        ts_print(w->out,
                 "verify    plain decoding %.1f tokens/s; drafts %.2f times as fast; tokens %s\n",
                 theirs, theirs > 0 ? ours / theirs : 0, y.same ? "equal" : "DIFFER");
        ts_json_number(json, "plain_tokens_per_s", theirs);
        ts_json_bool(json, "tokens_equal", y.same);
    }
    ts_engine_free(&e);
    free(y.n);
    return ok && y.same;
}

int ts_generate_drafts(ts_generate_work *w, ts_json *json)
{
    const int64_t           n_deep = w->p->tree[1];
    const ts_engine_options o = ts_generate_options(w, 1);
    char                    why[TS_MODEL_WHY];
    ts_speculator          *s = NULL;
    drafts                  d = { 0 };
    int                     status = TS_EXIT_BROKEN;
    bool                    ok = open_drafts(w, &o, &d);
    if (ok && !ts_speculator_create(w->m, &o, w->p->tree[0] * n_deep, n_deep, &s, why))
        ok = ts_complain("--draft", why);
    for (int64_t i = 0; ok && i < w->n_story; i++) {
        const ts_story *y = &w->story[i];
        ts_event        end = { .request = i, .token = -1 };
        if (!ts_speculator_begin(s, y->token, y->n_prompt, 0, 0, why)) {
            ok = ts_complain(w->p->m.model, why);
            break;
        }
        if (w->out && w->n_story == 1) ts_show_text(w->out, y->text, y->n_text);
        end.status = tell_story(w, s, &d.by, i, &end.finish);
        ts_generate_tell(w, &end);
    }
    if (ok) {
        draft_summary(w, ts_speculator_stats_of(s), json);
        status = ts_generate_stories(w, json);
        if (w->p->verify && !verify_drafts(w, ts_speculator_stats_of(s), json))
            status = TS_EXIT_FAILED;
    }
    ts_speculator_free(&s);
    ts_small_free(&d.small);
    ts_decoder_free(&d.m);
    return status;
}
