/* SPDX-License-Identifier: Apache-2.0 */
/* generate_run.c - generates text, streams it, and reports speed and cache use. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "generate_run.h"
#include "rng.h"

enum { PAGE = 16, MOST_AT_ONCE = 16 };

/* ---- prompts ---- */

/* Ends with a line break: one is added if it is missing. */
static bool read_lines(ts_generate_work *w, const char *path, size_t *n)
{
    w->file = ts_read_text(path, n);
    if (w->file && w->file[*n - 1] != '\n') w->file[(*n)++] = '\n';
    return w->file;
}

/* One prompt per line. */
static bool read_prompts(ts_generate_work *w)
{
    const char *path = w->p->prompts;
    size_t      n;
    if (!read_lines(w, path, &n)) return false;
    for (size_t i = 0; i < n; i++) w->n_story += w->file[i] == '\n';
    w->story = calloc((size_t)w->n_story, sizeof *w->story);
    if (!w->story) return ts_complain(path, "out of memory for the prompts");
    char *at = w->file;
    for (int64_t i = 0; i < w->n_story; i++) {
        char *end = memchr(at, '\n', n - (size_t)(at - w->file));
        w->story[i] = (ts_story) { .text = at, .n_text = (size_t)(end - at) };
        at = end + 1;
    }
    return true;
}

/* Prompts if none was given. */
static const char *const openings[] = { "It was a truth", "The next morning", "Elizabeth had" };

static bool take_prompts(ts_generate_work *w)
{
    const char *const *text = w->p->samples ? openings : &w->p->prompt;
    w->n_story = w->p->samples ? sizeof openings / sizeof *openings : 1;
    w->story = calloc((size_t)w->n_story, sizeof *w->story);
    if (!w->story) return ts_complain("prompt", "out of memory");
    for (int64_t i = 0; i < w->n_story; i++)
        w->story[i] = (ts_story) { .text = text[i], .n_text = strlen(text[i]) };
    if (w->p->samples || strcmp(w->p->prompt, "-")) return true;
    if (!read_lines(w, "-", &w->story[0].n_text)) return false;
    w->story[0].text = w->file;
    w->story[0].n_text--; /* the last line break */
    return true;
}

static bool encode(ts_generate_work *w)
{
    char why[TS_MODEL_WHY];
    for (int64_t i = 0; i < w->n_story; i++) {
        ts_story *s = &w->story[i];
        if (!ts_tokenizer_encode(w->t, s->text, s->n_text, &s->token, &s->n_prompt, why))
            return ts_complain("prompt", why);
        if (!s->n_prompt) return ts_complain("prompt", "got no tokens, expected at least 1");
        s->n_token = s->n_prompt;
        s->n_most = s->n_prompt + w->p->n_new;
        int32_t *more = realloc(s->token, (size_t)s->n_most * sizeof *more);
        if (!more) return ts_complain("prompt", "out of memory for the tokens");
        s->token = more;
    }
    return true;
}

/* ---- the run ---- */

/* Adds the last token's text. */
static void grow(ts_generate_work *w, ts_story *s)
{
    size_t      n;
    const char *piece =
        ts_tokenizer_piece(w->t, s->token[s->n_token - 2], s->token[s->n_token - 1], &n);
    if (!ts_text_add(&s->made, piece, n, w->p->m.stop, w->n_stop)) s->status = TS_E_WORKSPACE;
}

/* What is not shown yet, up to that many bytes. */
static void show_more(const ts_generate_work *w, ts_story *s, size_t n)
{
    if (n > s->n_shown) ts_show_text(w->out, s->made.p + s->n_shown, n - s->n_shown);
    s->n_shown = n;
    fflush(w->out);
}

static void show_story(const ts_generate_work *w, int64_t nth)
{
    ts_story *s = &w->story[nth];
    fprintf(w->out, "[%lld] ", (long long)nth + 1);
    ts_show_text(w->out, s->text, s->n_text);
    show_more(w, s, s->made.n);
    fputc('\n', w->out);
}

/* Prints a single story as it is generated; of several, each once it and all before it are done. */
void ts_generate_tell(void *user, const ts_event *e)
{
    ts_generate_work *w = user;
    ts_story         *s = &w->story[e->request];
    const bool        stream = w->out && w->n_story == 1;
    if (e->token >= 0) {
        s->token[s->n_token++] = e->token;
        grow(w, s);
        if (stream) show_more(w, s, s->made.n_sure);
        if (w->e && (s->made.stopped || s->status)) ts_engine_end(w->e, e->request);
        return;
    }
    s->ended = true;
    if (!s->status) s->status = e->status;
    s->finish = s->made.stopped ? TS_FINISH_STOP : e->finish;
    if (stream) {
        show_more(w, s, s->made.n);
        fputc('\n', w->out);
    }
    for (; w->n_story > 1 && w->n_told < w->n_story && w->story[w->n_told].ended; w->n_told++)
        if (w->out) show_story(w, w->n_told);
}

ts_engine_options ts_generate_options(const ts_generate_work *w, int64_t n_seq)
{
    const ts_decoder_dims *d = ts_decoder_dims_of(w->m);
    int64_t                longest = 0;
    for (int64_t i = 0; i < w->n_story; i++)
        if (w->story[i].n_most > longest) longest = w->story[i].n_most;
    if (longest > d->n_context) longest = d->n_context;
    const int64_t enough = n_seq * d->n_layer * ((longest + PAGE - 1) / PAGE);
    return (ts_engine_options) {
        .n_seq = n_seq,
        .capacity = longest,
        .page = w->p->kv.paged ? PAGE : 0,
        .n_page = !w->p->kv.paged ? 0
                  : w->p->n_page  ? w->p->n_page
                                  : enough,
        .chunk = w->p->m.chunk,
        .store = (ts_dtype)w->p->kv.store,
        .n_threads = (int)w->p->m.n_threads,
    };
}

int ts_generate_stops(const ts_generate_work *w, int32_t stop[TS_MODEL_STOPS])
{
    return ts_model_stops(w->m, w->t, &w->model, stop);
}

bool ts_generate_add_all(const ts_generate_work *w, ts_engine *e)
{
    char      why[TS_MODEL_WHY];
    int32_t   stop[TS_MODEL_STOPS];
    const int n_stop = ts_generate_stops(w, stop);
    for (int64_t i = 0; i < w->n_story; i++) {
        const ts_story *s = &w->story[i];
        ts_request      r = {
                 .prompt = s->token,
                 .n_prompt = s->n_prompt,
                 .n_new = w->p->n_new,
                 .sampling = w->sampling,
                 .stop = stop,
                 .n_stop = n_stop,
        };
        r.sampling.seed = ts_bits(w->p->m.seed, i);
        if (!ts_engine_add(e, &r, why)) return ts_complain(w->p->m.model, why);
    }
    return true;
}

/* The command line, then the model's authors, then greedy. Searches and comparisons are greedy. */
static void settle(ts_generate_work *w)
{
    const ts_generate_plan *p = w->p;
    if (p->n_beam || p->draft || p->textbook) w->model.sampling = (ts_sampling) { .top_p = 1 };
    w->sampling = ts_model_sampling(&w->model, &p->m);
    while (p->m.stop[w->n_stop]) w->n_stop++;
}

/* Checks and allocates everything: after this the run as a whole cannot fail. */
static bool prepare(ts_generate_work *w)
{
    ts_model_plan from = w->p->m;
    char          why[TS_MODEL_WHY];
    from.exact |= w->p->textbook; /* which multiplies floats */
    if (!ts_model_open(&from, &w->m, &w->t, &w->model)) return false;
    settle(w);
    if (!(w->p->prompts ? read_prompts(w) : take_prompts(w)) || !encode(w)) return false;
    if (w->p->n_beam || w->p->draft) return true;
    const int64_t           n_seq = w->n_story < MOST_AT_ONCE ? w->n_story : MOST_AT_ONCE;
    const ts_engine_options o = ts_generate_options(w, n_seq);
    if (!ts_engine_create(w->m, &o, &w->e, why)) return ts_complain("engine", why);
    return ts_generate_add_all(w, w->e);
}

/* ---- final report ---- */

double ts_generate_rate(int64_t n, double s)
{
    return s > 0 ? (double)n / s : 0;
}

double ts_generate_now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The textbook version wants floats on the CPU: the model is read again. */
static bool by_textbook(const ts_generate_work *w, const ts_story *s, int32_t *token,
                        double *took_s, char why[TS_MODEL_WHY])
{
    ts_decoder *again = NULL;
    bool        ok =
        ts_decoder_load(w->p->m.model, w->p->m.dtype, &again, why) && ts_decoder_decode(again, why);
    const double from = ts_generate_now();
    ok = ok && ts_textbook(again, token, s->n_prompt, s->n_token, why);
    *took_s = ts_generate_now() - from;
    ts_decoder_free(&again);
    return ok;
}

/* Repeats the first story with the textbook version. */
static bool textbook(const ts_generate_work *w, const ts_engine_stats *stats, ts_json *json)
{
    const ts_story *s = &w->story[0];
    char            why[TS_MODEL_WHY];
    int32_t        *token = malloc((size_t)s->n_token * sizeof *token);
    if (!token) return ts_complain("--textbook", "out of memory for the tokens");
    memcpy(token, s->token, (size_t)s->n_prompt * sizeof *token);
    double       took_s = 0;
    const bool   ok = by_textbook(w, s, token, &took_s, why);
    const double theirs = ts_generate_rate(s->n_token - 1, took_s);
    const double ours =
        ts_generate_rate(stats->n_prompt + stats->n_decode, stats->prompt_s + stats->decode_s);
    const bool same = ok && !memcmp(token, s->token, (size_t)s->n_token * sizeof *token);
    free(token);
    if (!ok) return ts_complain("--textbook", why);
    ts_print(w->out, "textbook  %.1f tokens/s overall; ours %.1f, %.2f times as fast; tokens %s\n",
             theirs, ours, ours / theirs, same ? "equal" : "DIFFER");
    ts_json_number(json, "textbook_tokens_per_s", theirs);
    ts_json_bool(json, "textbook_tokens_equal", same);
    return same;
}

static void summary(const ts_generate_work *w, const ts_engine_stats *s, ts_json *json)
{
    const double prefill = ts_generate_rate(s->n_prompt, s->prompt_s),
                 decode = ts_generate_rate(s->n_decode, s->decode_s);
    if (w->out) {
        fprintf(w->out, "\nprefill   %lld tokens, %.1f tokens/s\n", (long long)s->n_prompt,
                prefill);
        fprintf(w->out, "decode    %lld tokens, %.1f tokens/s\n", (long long)s->n_decode, decode);
        fprintf(w->out, "cache     %zu bytes reserved, at most %zu in use; %lld preempted\n",
                s->cache_reserved, s->cache_live_peak, (long long)s->n_preempted);
    }
    ts_json_text(json, "device", w->p->m.device == TS_CUDA ? "cuda" : "cpu");
    ts_json_number(json, "temperature", w->sampling.temperature);
    ts_json_int(json, "top_k", w->sampling.top_k);
    ts_json_number(json, "top_p", w->sampling.top_p);
    ts_json_int(json, "prefill_tokens", s->n_prompt);
    ts_json_int(json, "decode_tokens", s->n_decode);
    ts_json_int(json, "tokens_made", s->n_token);
    ts_json_number(json, "prefill_tokens_per_s", prefill);
    ts_json_number(json, "decode_tokens_per_s", decode);
    ts_json_int(json, "cache_bytes_reserved", (int64_t)s->cache_reserved);
    ts_json_int(json, "cache_bytes_peak", (int64_t)s->cache_live_peak);
    ts_json_int(json, "weight_bytes", (int64_t)ts_decoder_bytes(w->m));
    ts_json_int(json, "preempted", s->n_preempted);
}

static void story_to_json(const ts_story *s, ts_json *list)
{
    ts_json *o = ts_json_object(list, NULL), *tokens = ts_json_array(o, "tokens");
    for (int64_t i = s->n_prompt; o && i < s->n_token; i++) ts_json_int(tokens, NULL, s->token[i]);
    ts_text_to_json(o, &s->made);
    ts_json_text(o, "finish", s->status ? "error" : ts_finish_names[s->finish]);
    ts_json_text(o, "status", ts_status_text(s->status));
}

/* How many stories ended in which way. */
static void show_finishes(const ts_generate_work *w)
{
    int64_t     n[3] = { 0 };
    const char *before = "";
    for (int64_t i = 0; i < w->n_story; i++)
        if (!w->story[i].status) n[w->story[i].finish]++;
    fprintf(w->out, "finish    ");
    for (int i = 0; i < 3; i++) {
        if (!n[i]) continue;
        if (w->n_story > 1)
            fprintf(w->out, "%s%lld %s", before, (long long)n[i], ts_finish_names[i]);
        else fprintf(w->out, "%s", ts_finish_names[i]);
        before = ", ";
    }
    fprintf(w->out, "%s\n", *before ? "" : "error");
}

int ts_generate_stories(const ts_generate_work *w, ts_json *json)
{
    int      status = TS_EXIT_PASSED;
    ts_json *list = ts_json_array(json, "stories");
    if (w->out) show_finishes(w);
    for (int64_t i = 0; i < w->n_story; i++) {
        story_to_json(&w->story[i], list);
        if (!w->story[i].status) continue;
        ts_complain("a sequence ended early", ts_status_text(w->story[i].status));
        status = TS_EXIT_FAILED;
    }
    return status;
}

static int run(ts_generate_work *w, ts_json *json)
{
    if (w->out && w->n_story == 1) ts_show_text(w->out, w->story[0].text, w->story[0].n_text);
    while (ts_engine_step(w->e, ts_generate_tell, w)) continue;
    summary(w, ts_engine_stats_of(w->e), json);
    int status = ts_generate_stories(w, json);
    if (w->p->textbook && !textbook(w, ts_engine_stats_of(w->e), json)) status = TS_EXIT_FAILED;
    return status;
}

int ts_generate(const ts_generate_plan *p)
{
    ts_json         *json = NULL;
    ts_generate_work w = { .p = p, .out = p->m.json && !strcmp(p->m.json, "-") ? NULL : stdout };
    int              status = TS_EXIT_BROKEN;
    if (prepare(&w) && ts_json_open(p->m.json, &json)) {
        status = p->n_beam  ? ts_generate_beams(&w, json)
                 : p->draft ? ts_generate_drafts(&w, json)
                            : run(&w, json);
        if (!ts_json_close(p->m.json, json)) status = TS_EXIT_BROKEN;
    }
    for (int64_t i = 0; i < w.n_story; i++) {
        free(w.story[i].token);
        free(w.story[i].made.p);
    }
    free(w.story);
    free(w.file);
    ts_engine_free(&w.e);
    ts_tokenizer_free(&w.t);
    ts_decoder_free(&w.m);
    return status;
}
