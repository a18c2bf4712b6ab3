/* SPDX-License-Identifier: Apache-2.0 */
/* chat_run.c - reads messages line by line and streams the model's answers.
 *
 * The whole conversation is rendered by the model's template for each answer; the session runs only
 * the tokens that its cache does not have yet. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "clock.h"
#include "model_open.h"
#include "rng.h"

enum { DEFAULT_CONTEXT = 4096 };

typedef struct talk {
    const ts_chat_plan *p;
    ts_decoder         *m;
    ts_tokenizer       *t;
    ts_chat            *c;
    ts_session         *s;
    ts_generation       model;
    ts_sampling         sampling;
    int32_t             stop[TS_MODEL_STOPS];
    int                 n_stop, n_stop_text;
    int64_t             capacity;
    ts_message         *message; /* contents are the talk's own, but the system message */
    int64_t             n_message, n_answer;
    FILE               *out; /* NULL if JSON goes to standard output */
    ts_json            *turns;
    double              seconds;
    int64_t             n_run;
    bool                failed;
} talk;

/* One answer as it grows. */
typedef struct answer {
    int32_t  *token; /* the conversation's, then its own */
    int64_t   n, n_prompt, n_run;
    ts_text   text;
    ts_finish finish;
    ts_status status;
} answer;

/* ---- messages ---- */

static bool add_message(talk *k, const char *role, const char *content)
{
    ts_message *more = realloc(k->message, (size_t)(k->n_message + 1) * sizeof *more);
    char       *copy = more ? strdup(content) : NULL;
    if (more) k->message = more;
    if (!copy) return ts_complain("conversation", "out of memory");
    k->message[k->n_message++] = (ts_message) { role, copy };
    return true;
}

static void forget(talk *k, int64_t n)
{
    while (k->n_message > n) free((char *)(uintptr_t)k->message[--k->n_message].content);
}

/* A line, and the next one after a backslash at its end. False at the end of the input. */
static bool read_message(const talk *k, ts_text *line)
{
    char  *part = NULL;
    size_t room = 0;
    bool   more = true, any = false;
    *line = (ts_text) { 0 };
    while (more) {
        if (k->out && isatty(STDIN_FILENO)) {
            fputs(any ? "... " : "> ", k->out);
            fflush(k->out);
        }
        ssize_t n = getline(&part, &room, stdin);
        if (n < 0) break;
        any = true;
        if (n && part[n - 1] == '\n') n--;
        more = n && part[n - 1] == '\\';
        if (more) part[n - 1] = '\n';
        if (!ts_text_add(line, part, (size_t)n, NULL, 0)) break;
    }
    free(part);
    return any && line->p;
}

/* ---- an answer ---- */

static bool encode(talk *k, answer *a)
{
    char     why[TS_MODEL_WHY];
    ts_text  text = { 0 };
    int32_t *all = NULL;
    bool     ok = ts_chat_render(k->c, k->message, k->n_message, true, &text, why) &&
              ts_tokenizer_encode(k->t, text.p ? text.p : "", text.n, &all, &a->n, why);
    free(text.p);
    if (!ok) return ts_complain("conversation", why);
    const int64_t first = ts_tokenizer_first(k->t); /* the template has written its own */
    a->n_prompt = a->n -= first;
    if (a->n < 1 || a->n >= k->capacity) {
        snprintf(why, sizeof why,
                 "got %lld tokens, expected 1 to %lld in this context; /reset starts anew",
                 (long long)a->n, (long long)k->capacity - 1);
        ok = ts_complain("conversation", why);
    }
    a->token = ok ? malloc((size_t)k->capacity * sizeof *a->token) : NULL;
    if (a->token) memcpy(a->token, all + first, (size_t)a->n * sizeof *all);
    else if (ok) ok = ts_complain("conversation", "out of memory");
    free(all);
    return ok;
}

static bool ends(const talk *k, int32_t token)
{
    for (int i = 0; i < k->n_stop; i++)
        if (k->stop[i] == token) return true;
    return false;
}

/* Streams what no stop text can remove. */
static void say(talk *k, answer *a)
{
    ts_sampling how = k->sampling;
    size_t      n_shown = 0, n;
    how.seed = ts_bits(k->p->m.seed, k->n_answer++);
    a->finish = TS_FINISH_LENGTH;
    for (int64_t i = 0; i < k->p->n_new; i++) {
        int32_t token;
        int64_t n_run;
        a->status = ts_session_next(k->s, a->token, a->n, &how, i, &token, &n_run);
        if (a->status) break;
        a->n_run += n_run;
        a->finish = ends(k, token) ? TS_FINISH_STOP : TS_FINISH_LENGTH;
        if (a->finish == TS_FINISH_STOP) break;
        const char *piece = ts_tokenizer_piece(k->t, a->token[a->n - 1], token, &n);
        a->token[a->n++] = token;
        if (!ts_text_add(&a->text, piece, n, k->p->m.stop, k->n_stop_text))
            a->status = TS_E_WORKSPACE;
        if (k->out && a->text.n_sure > n_shown) {
            ts_show_text(k->out, a->text.p + n_shown, a->text.n_sure - n_shown);
            n_shown = a->text.n_sure;
            fflush(k->out);
        }
        if (a->text.stopped) a->finish = TS_FINISH_STOP;
        else if (a->n == k->capacity) a->finish = TS_FINISH_CONTEXT;
        if (a->status || a->finish != TS_FINISH_LENGTH) break;
    }
    if (!k->out) return;
    if (a->text.n > n_shown) ts_show_text(k->out, a->text.p + n_shown, a->text.n - n_shown);
    fputc('\n', k->out);
    if (a->finish != TS_FINISH_STOP && !a->status)
        fprintf(k->out, "[%s]\n", ts_finish_names[a->finish]);
    fflush(k->out);
}

static void turn_to_json(const talk *k, const answer *a, const char *message)
{
    ts_json *o = ts_json_object(k->turns, NULL), *tokens = ts_json_array(o, "tokens");
    for (int64_t i = a->n_prompt; o && i < a->n; i++) ts_json_int(tokens, NULL, a->token[i]);
    ts_json_text(o, "message", message);
    ts_text_to_json(o, &a->text);
    ts_json_text(o, "finish", a->status ? "error" : ts_finish_names[a->finish]);
    ts_json_int(o, "prompt_tokens", a->n_prompt);
    ts_json_int(o, "tokens_run", a->n_run);
}

/* False if the conversation cannot go on with this message, which is then dropped. */
static bool take_turn(talk *k, const char *message)
{
    const int64_t before = k->n_message;
    answer        a = { 0 };
    bool          ok = add_message(k, "user", message) && encode(k, &a);
    if (ok) {
        const double from = ts_seconds();
        say(k, &a);
        k->seconds += ts_seconds() - from;
        k->n_run += a.n_run;
        turn_to_json(k, &a, message);
        ok = !a.status || ts_complain("answer", ts_status_text(a.status));
    }
    /* A text that ends inside a character is no message. */
    size_t valid = 0, len;
    while (valid < a.text.n &&
           (len = ts_utf8_length((unsigned char *)a.text.p + valid, a.text.n - valid)))
        valid += len;
    if (a.text.p) a.text.p[valid] = 0;
    ok = ok && add_message(k, "assistant", a.text.p ? a.text.p : "");
    if (!ok) forget(k, before);
    free(a.token);
    free(a.text.p);
    return ok;
}

/* ---- the conversation ---- */

static void converse(talk *k)
{
    const int64_t first = k->n_message;
    ts_text       line;
    while (read_message(k, &line)) {
        if (!strcmp(line.p, "/exit")) {
            free(line.p);
            return;
        }
        if (!strcmp(line.p, "/reset")) forget(k, first);
        else if (line.n && !take_turn(k, line.p)) k->failed = true;
        free(line.p);
    }
    free(line.p);
}

static bool open_template(talk *k)
{
    char   why[TS_MODEL_WHY];
    size_t n;
    if (!k->p->template)
        return ts_chat_load(k->p->m.model, &k->c, why) || ts_complain(k->p->m.model, why);
    char      *source = ts_read_text(k->p->template, &n);
    const bool ok =
        source && (ts_chat_parse(source, n, &k->c, why) || ts_complain(k->p->template, why));
    free(source);
    return ok;
}

static bool prepare(talk *k)
{
    const ts_chat_plan *p = k->p;
    char                why[TS_MODEL_WHY];
    if (!open_template(k) || !ts_model_open(&p->m, &k->m, &k->t, &k->model)) return false;
    const int64_t most = ts_decoder_dims_of(k->m)->n_context;
    k->sampling = ts_model_sampling(&k->model, &p->m);
    k->n_stop = ts_model_stops(k->m, k->t, &k->model, k->stop);
    while (p->m.stop[k->n_stop_text]) k->n_stop_text++;
    k->capacity = p->context ? p->context : most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
    const ts_engine_options o = { .n_seq = 1,
                                  .capacity = k->capacity,
                                  .chunk = p->m.chunk,
                                  .store = p->m.dtype,
                                  .n_threads = (int)p->m.n_threads };
    if (!ts_session_create(k->m, &o, &k->s, why)) return ts_complain("--context", why);
    return !p->system || add_message(k, "system", p->system);
}

int ts_chat_run(const ts_chat_plan *p)
{
    const bool to_json = p->m.json && !strcmp(p->m.json, "-");
    talk       k = { .p = p, .out = to_json ? NULL : stdout };
    ts_json   *json = NULL;
    int        status = TS_EXIT_BROKEN;
    if (prepare(&k) && ts_json_open(p->m.json, &json)) {
        k.turns = ts_json_array(json, "turns");
        converse(&k);
        ts_json_int(json, "tokens_run", k.n_run);
        ts_json_number(json, "tokens_per_s", k.seconds > 0 ? (double)k.n_run / k.seconds : 0);
        status = k.failed ? TS_EXIT_FAILED : TS_EXIT_PASSED;
        if (!ts_json_close(p->m.json, json)) status = TS_EXIT_BROKEN;
    }
    forget(&k, 0);
    free(k.message);
    ts_session_free(&k.s);
    ts_chat_free(&k.c);
    ts_tokenizer_free(&k.t);
    ts_decoder_free(&k.m);
    return status;
}
