/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate_run.c - computes the perplexity of a text and reports it. */
#include <math.h>
#include <stdlib.h>

#include "evaluate.h"
#include "model_open.h"

enum { DEFAULT_CONTEXT = 2048 };

typedef struct figures {
    int64_t       n_token, context, stride;
    size_t        n_bytes;
    ts_evaluation e;
} figures;

static int report(const ts_evaluate_plan *p, const figures *f)
{
    const ts_evaluation *e = &f->e;
    const double         loss = -e->logprob / (double)e->n_scored;
    const double         speed = e->seconds > 0 ? (double)e->n_run / e->seconds : 0;
    ts_json             *json;
    if (!ts_json_open(p->m.json, &json)) return TS_EXIT_BROKEN;
    if (!p->m.json || p->m.json[0] != '-' || p->m.json[1]) {
        printf("perplexity %.6g\n", exp(loss));
        printf("loss       %.6f nats per token, %.6f bits\n", loss, loss / log(2));
        printf("text       %lld tokens of %zu bytes; %lld scored, in %lld windows of %lld, stride "
               "%lld\n",
               (long long)f->n_token, f->n_bytes, (long long)e->n_scored, (long long)e->n_window,
               (long long)f->context, (long long)f->stride);
        printf("speed      %.1f tokens/s over %lld tokens\n", speed, (long long)e->n_run);
    }
    ts_json_number(json, "perplexity", exp(loss));
    ts_json_number(json, "loss_nats", loss);
    ts_json_number(json, "logprob", e->logprob);
    ts_json_int(json, "bytes", (int64_t)f->n_bytes);
    ts_json_int(json, "tokens", f->n_token);
    ts_json_int(json, "tokens_scored", e->n_scored);
    ts_json_int(json, "tokens_run", e->n_run);
    ts_json_int(json, "windows", e->n_window);
    ts_json_int(json, "context", f->context);
    ts_json_int(json, "stride", f->stride);
    ts_json_number(json, "seconds", e->seconds);
    ts_json_number(json, "tokens_per_s", speed);
    if (!ts_json_close(p->m.json, json)) return TS_EXIT_BROKEN;
    if (isfinite(loss)) return TS_EXIT_PASSED;
    ts_complain(p->text, "the loss is not finite: the model's logits have a NaN or an infinity");
    return TS_EXIT_FAILED;
}

/* Windows fit the model and are not longer than the text. */
static bool settle(const ts_evaluate_plan *p, const ts_decoder *m, figures *f)
{
    const int64_t most = ts_decoder_dims_of(m)->n_context;
    f->context = most < DEFAULT_CONTEXT ? most : DEFAULT_CONTEXT;
    if (p->context) f->context = p->context;
    f->stride = p->stride ? p->stride : f->context;
    if (f->context > most) return ts_complain("--context", "more tokens than the model's context");
    if (f->stride > f->context)
        return ts_complain("--stride", "more tokens than a window; some would not be scored");
    return true;
}

static int evaluate(const ts_evaluate_plan *p, const ts_decoder *m, const int32_t *token,
                    figures *f)
{
    char    why[TS_MODEL_WHY];
    double *logprob = malloc(((size_t)f->n_token + 1) * sizeof *logprob);
    if (!logprob) ts_complain(p->text, "out of memory for its tokens");
    ts_engine_options o = {
        .n_seq = 1,
        .capacity = f->context,
        .chunk = p->m.chunk < f->context ? p->m.chunk : f->context,
        .store = p->m.dtype,
        .n_threads = (int)p->m.n_threads,
    };
    const bool ok =
        logprob && ts_evaluate(m, &o, token, f->n_token, f->stride, logprob, &f->e, why);
    if (logprob && !ok) ts_complain(p->text, why);
    free(logprob);
    return ok ? report(p, f) : TS_EXIT_BROKEN;
}

int ts_evaluate_text(const ts_evaluate_plan *p)
{
    char          why[TS_MODEL_WHY];
    ts_decoder   *m = NULL;
    ts_tokenizer *t = NULL;
    figures       f = { 0 };
    int32_t      *token = NULL;
    int           status = TS_EXIT_BROKEN;
    char         *text = ts_read_text(p->text, &f.n_bytes);
    if (text && ts_model_open(&p->m, &m, &t, NULL) && settle(p, m, &f)) {
        if (ts_tokenizer_encode(t, text, f.n_bytes, &token, &f.n_token, why))
            status = evaluate(p, m, token, &f);
        else ts_complain(p->text, why);
    }
    free(text);
    free(token);
    ts_tokenizer_free(&t);
    ts_decoder_free(&m);
    return status;
}
