/* SPDX-License-Identifier: Apache-2.0 */
/* train_run.c - trains a tokenizer and a model on a text, and reports progress. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train.h"
#include "train_plan.h"

typedef struct work {
    const ts_train_plan *p;
    ts_corpus           *c;
    ts_tokenizer        *t;
    char                *vocabulary; /* tokenizer.json of a new run; written when the run begins */
    size_t               n_vocabulary;
    ts_net              *n;
    ts_team              team;
    ts_folder            folder;
    FILE                *out; /* NULL if JSON goes to standard output, and on all ranks but 0 */
    bool                 terminal;
    ts_json             *looks;
} work;

static bool path_in(const work *w, const char *name, char path[4096])
{
    if (snprintf(path, 4096, "%s/%s", w->p->out, name) < 4096) return true;
    return ts_complain("--out", "path too long");
}

/* ---- the vocabulary ---- */

/* The file that transformers needs next to tokenizer.json. */
static const char tokenizer_config[] = "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                                       "  \"eos_token\": \"<|endoftext|>\"\n}\n";

/* Reads the folder's vocabulary on --resume, else trains a new one. */
static bool vocabulary(work *w)
{
    char path[4096], why[TS_MODEL_WHY];
    if (!path_in(w, "tokenizer.json", path)) return false;
    if (w->p->resume) return ts_tokenizer_load(path, &w->t, why) || ts_complain(path, why);
    return (ts_corpus_vocabulary(w->c, w->p->n_vocab, &w->vocabulary, &w->n_vocabulary, why) &&
            ts_tokenizer_parse(w->vocabulary, w->n_vocabulary, &w->t, why)) ||
           ts_complain("vocabulary", why);
}

/* A new run's first files. */
static bool begin(void *user, char why[TS_MODEL_WHY])
{
    const work *w = user;
    char        path[4096], beside[4096];
    return path_in(w, "tokenizer.json", path) && path_in(w, "tokenizer_config.json", beside) &&
           ts_file_write(beside, tokenizer_config, strlen(tokenizer_config), why) &&
           ts_file_write(path, w->vocabulary, w->n_vocabulary, why);
}

static void tell_facts(const work *w, ts_json *json)
{
    const ts_corpus_facts f = ts_corpus_facts_of(w->c);
    const int64_t         count = ts_net_count(w->n);
    if (w->out) {
        fprintf(w->out,
                "text      %lld documents, %lld bytes, %lld tokens; %lld duplicates removed\n",
                (long long)f.n_document, (long long)f.bytes,
                (long long)(f.n_token + f.n_held_out_token), (long long)f.n_repeated);
        fprintf(w->out,
                "held out  %lld documents, %lld bytes, %lld tokens; %.2f %% of their eight-word "
                "runs occur in training\n",
                (long long)f.n_held_out, (long long)f.held_out_bytes, (long long)f.n_held_out_token,
                100 * f.overlap);
        fprintf(w->out, "model     %lld weights, %s, %lld tokens in its vocabulary\n",
                (long long)count, w->p->ternary ? "ternary" : "float32",
                (long long)ts_tokenizer_size(w->t));
    }
    ts_json_int(json, "documents", f.n_document);
    ts_json_int(json, "repeated", f.n_repeated);
    ts_json_int(json, "held_out_documents", f.n_held_out);
    ts_json_int(json, "bytes", f.bytes);
    ts_json_int(json, "held_out_bytes", f.held_out_bytes);
    ts_json_int(json, "tokens", f.n_token);
    ts_json_int(json, "held_out_tokens", f.n_held_out_token);
    ts_json_number(json, "overlap", f.overlap);
    ts_json_int(json, "weights", count);
    ts_json_bool(json, "ternary", w->p->ternary);
    ts_json_int(json, "vocabulary", ts_tokenizer_size(w->t));
}

/* ---- the run ---- */

static void tell(void *user, const ts_train_event *e)
{
    work     *w = user;
    const int left = (int)e->left_s;
    if (w->terminal)
        fprintf(stderr, "\r\x1b[Kstep %lld of %lld  loss %.3f  %.0f tokens/s  %d:%02d left",
                (long long)e->step, (long long)e->n_step, e->loss, e->tokens_per_s, left / 60,
                left % 60);
    if (w->terminal && (e->step == e->n_step || !isnan(e->held_out))) fputs("\r\x1b[K", stderr);
    if (isnan(e->held_out)) return;
    if (w->out) {
        fprintf(w->out, "step %6lld  loss %.4f  held out %.4f  %.4f bits/byte  %.0f tokens/s%s\n",
                (long long)e->step, e->loss, e->held_out, e->bits_per_byte, e->tokens_per_s,
                e->best ? "  best" : "");
        fflush(w->out);
    }
    ts_json *o = ts_json_object(w->looks, NULL);
    ts_json_int(o, "step", e->step);
    ts_json_number(o, "loss", e->loss);
    ts_json_number(o, "held_out", e->held_out);
    ts_json_number(o, "bits_per_byte", e->bits_per_byte);
}

static bool prepare(work *w)
{
    const ts_train_plan *p = w->p;
    char                 why[TS_MODEL_WHY];
    if (p->n_batch % w->team.size)
        return ts_complain("--batch", "not a multiple of the number of processes");
    if (!w->team.rank && !ts_folder_claim(&w->folder, p->out, p->resume, why))
        return ts_complain(p->out, why);
    if (!ts_corpus_load(p->data, p->seed, &w->c, why)) return ts_complain(p->data, why);
    if (!vocabulary(w)) return false;
    if (!ts_corpus_encode(w->c, w->t, p->length, why)) return ts_complain(p->data, why);
    ts_net_options o = {
        .dims = { .n_layer = p->n_layer,
                  .width = p->width,
                  .n_head = p->n_head,
                  .n_kv_head = p->n_kv_head,
                  .head_dim = p->head_dim,
                  .n_ffn = p->n_ffn,
                  .n_vocab = ts_tokenizer_size(w->t),
                  .n_context = p->length,
                  .norm_eps = 1e-6,
                  .rope_theta = 10000 },
        .ternary = p->ternary,
        .paired = p->paired,
        .device = p->device,
        .dtype = (ts_dtype)p->dtype,
        .n_batch = p->n_batch / w->team.size,
        .n_token = p->length,
    };
    ts_net_dims_set(&o.dims);
    return ts_net_create(&o, p->seed, &w->n, why) || ts_complain("model", why);
}

static void tell_packed(const work *w, ts_json *json)
{
    char         path[4096];
    struct stat  is;
    const double n = (double)ts_net_matrix_count(w->n);
    if (!w->p->ternary || !path_in(w, "ternary.safetensors", path) || stat(path, &is)) return;
    ts_print(w->out, "packed    %lld bytes, %.3f bits per weight for %.0f weights in matrices\n",
             (long long)is.st_size, 8 * (double)is.st_size / n, n);
    ts_json_int(json, "packed_bytes", is.st_size);
}

/* From the folder's files, which hold the best step. */
static bool export_gguf(const work *w, ts_json *json)
{
    char        path[4096], why[TS_MODEL_WHY];
    struct stat is;
    if (!w->p->gguf || w->team.rank) return true;
    if (!ts_folder_export_gguf(w->p->out, why)) return ts_complain("--export", why);
    if (!path_in(w, "model.gguf", path) || stat(path, &is)) return false;
    ts_print(w->out, "exported  %s, %lld bytes\n", path, (long long)is.st_size);
    ts_json_int(json, "gguf_bytes", is.st_size);
    return true;
}

static bool picture(const work *w)
{
    char path[4096], title[128];
    if (!w->p->svg || w->team.rank) return true;
    snprintf(title, sizeof title, "%s, %lld weights, %llu sequences of %llu tokens per step",
             w->p->ternary ? "Ternary" : "Float", (long long)ts_net_count(w->n),
             (long long)(w->p->n_batch * w->p->n_accumulate), (long long)w->p->length);
    return path_in(w, "log.jsonl", path) && ts_train_svg(path, title, w->p->svg);
}

static bool run(work *w, ts_json *json)
{
    const ts_train_plan   *p = w->p;
    const ts_feed          f = ts_corpus_feed(w->c);
    const int64_t          n_step = p->n_step;
    const ts_train_options o = {
        .adamw = { p->lr, 0.9, 0.95, 1e-8, p->weight_decay, 1 },
        .last = 0.1,
        .n_step = n_step,
        .n_warm = n_step / 20 < 200 ? n_step / 20 : 200,
        .n_accumulate = p->n_accumulate,
        .eval_every = p->eval_every,
        .patience = p->patience,
        .save_every = p->eval_every,
        .seed = p->seed,
        .data = ts_corpus_facts_of(w->c).hash,
        .folder = p->out,
        .resume = p->resume,
        .begin = begin,
        .stop_token = TS_CORPUS_END,
        .team = &w->team,
    };
    char            why[TS_MODEL_WHY];
    ts_train_result r;
    w->looks = ts_json_array(json, "looks");
    if (!ts_train(w->n, &f, &o, tell, w, &r, why)) {
        if (w->terminal) fputs("\r\x1b[K", stderr);
        return ts_complain(p->out, why);
    }
    ts_print(
        w->out,
        "best      step %lld of %lld%s: held out %.4f, %.4f bits/byte; %.1f s; written to %s\n",
        (long long)r.best_step, (long long)r.n_step, r.early ? ", stopped early" : "", r.best,
        r.best_bits_per_byte, r.took_s, p->out);
    ts_json_int(json, "steps", r.n_step);
    ts_json_int(json, "best_step", r.best_step);
    ts_json_number(json, "best_held_out", r.best);
    ts_json_number(json, "best_bits_per_byte", r.best_bits_per_byte);
    ts_json_bool(json, "ended_early", r.early);
    ts_json_number(json, "seconds", r.took_s);
    tell_packed(w, json);
    return export_gguf(w, json) && picture(w);
}

/* Only rank 0 writes JSON. */
static int work_on(work *w)
{
    const char *path = w->team.rank ? NULL : w->p->json;
    ts_json    *json = NULL;
    if (w->team.rank || (path && !strcmp(path, "-"))) w->out = NULL;
    w->terminal = isatty(STDERR_FILENO) && !w->team.rank;
    if (!prepare(w) || !ts_json_open(path, &json)) return TS_EXIT_BROKEN;
    tell_facts(w, json);
    const bool ok = run(w, json);
    return ts_json_close(path, json) && ok ? TS_EXIT_PASSED : TS_EXIT_BROKEN;
}

int ts_train_text(const ts_train_plan *p)
{
    work w = { .p = p, .out = stdout, .folder = { .fd = -1 } };
    char why[TS_MODEL_WHY];
    if (!ts_team_join(&w.team, why)) return ts_complain("MPI", why), TS_EXIT_BROKEN;
    const int status = work_on(&w);
    ts_net_free(&w.n);
    ts_tokenizer_free(&w.t);
    ts_corpus_free(&w.c);
    free(w.vocabulary);
    ts_folder_leave(&w.folder, status == TS_EXIT_PASSED);
    fflush(stdout);
    ts_team_leave(&w.team, status == TS_EXIT_PASSED);
    return status;
}
