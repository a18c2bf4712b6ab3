/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - draws the next token from a row of logits, by ts_softmax_topk. The whole vocabulary is
 * never sorted: only as many of the most probable tokens are requested as the draw needs. */
#include <math.h>
#include <stdlib.h>

#include "cuda_module.h"
#include "model_impl.h"
#include "rng.h"
#include "touchstone/softmax_topk.h"

enum { FIRST = 64, GROWTH = 8 };

/* k indices and behind them k probabilities, so that one copy brings both from a device. */
struct ts_sampler {
    int64_t  n_vocab;
    int32_t *index; /* [2 n_vocab], of the host */
    float   *prob;  /* index + k */
    int32_t *found; /* where the kernel writes: index, or the same on the device */
    float    lse;   /* of the last row, on the host */
    ts_exec  exec;
};

static ts_softmax_topk_args args(ts_sampler *s, const float *logits, int64_t k, double temperature)
{
    return (ts_softmax_topk_args) {
        .dtype = TS_F32,
        .n_rows = 1,
        .n_vocab = s->n_vocab,
        .row_stride = s->n_vocab,
        .k = k,
        .inv_temperature = temperature > 0 ? 1 / temperature : 1,
        .logits = logits,
        .index = s->found,
        .prob = (float *)(void *)(s->found + k),
        .lse = s->exec.device == TS_CPU ? &s->lse : NULL,
    };
}

bool ts_sampler_make(int64_t n_vocab, ts_device device, ts_sampler **out, char why[TS_MODEL_WHY])
{
    const size_t n_bytes = (size_t)n_vocab * (sizeof(int32_t) + sizeof(float));
    void        *host = NULL, *found = NULL;
    ts_sampler  *s = calloc(1, sizeof *s);
    *out = s;
    if (!s) return ts_say(why, "out of memory for a sampler");
    s->n_vocab = n_vocab;
    s->exec.device = device;
    s->exec.n_threads = 1; /* one row is too little to share */
    if (ts_memory_take(TS_CPU, n_bytes, "draws", &host, why) &&
        (device == TS_CPU || ts_memory_take(device, n_bytes, "draws", &found, why))) {
        s->index = host;
        s->found = found ? found : host;
        return true;
    }
    free(host);
    ts_sampler_free(out);
    return false;
}

bool ts_sampler_create(int64_t n_vocab, ts_sampler **s)
{
    char why[TS_MODEL_WHY];
    return ts_sampler_make(n_vocab, TS_CPU, s, why);
}

void ts_sampler_free(ts_sampler **s)
{
    if (!*s) return;
    if ((*s)->found != (*s)->index) ts_memory_give((*s)->exec.device, (*s)->found);
    free((*s)->index);
    ts_memory_give((*s)->exec.device, (*s)->exec.workspace);
    free(*s);
    *s = NULL;
}

/* The workspace depends on k, which grows rarely. */
static ts_status enlarge(ts_exec *x, size_t n_bytes)
{
    char why[TS_MODEL_WHY];
    if (n_bytes <= x->workspace_bytes) return TS_OK;
    ts_memory_give(x->device, x->workspace);
    x->workspace_bytes = 0;
    if (!ts_memory_take(x->device, n_bytes, "draws", &x->workspace, why)) return TS_E_WORKSPACE;
    x->workspace_bytes = n_bytes;
    return TS_OK;
}

static ts_status topk(ts_sampler *s, const float *logits, int64_t k, double temperature)
{
    const ts_softmax_topk_args a = args(s, logits, k, temperature);
    size_t                     n = 0;
    ts_status                  status = ts_softmax_topk_workspace(&a, &s->exec, &n);
    if (!status) status = enlarge(&s->exec, n);
    if (!status) status = ts_softmax_topk(&a, &s->exec);
    if (status) return status;
    const size_t n_bytes = (size_t)k * (sizeof *s->index + sizeof *s->prob);
    if (s->found != s->index && ts_cuda_ops()->copy_out(s->index, s->found, n_bytes))
        return TS_E_DEVICE;
    s->prob = (float *)(void *)(s->index + k);
    return s->index[0] >= 0 && s->prob[0] > 0 ? TS_OK : TS_E_MODEL;
}

/* The place that u in [0, 1) falls on among the first k, which are part of `total`; -1: more of
 * them are needed to tell. With top_p < 1 only the shortest prefix that has this share of the total
 * is drawn from. */
static int64_t place(const float *prob, int64_t k, double total, double top_p, double u)
{
    double kept = total, sum = 0;
    if (top_p < 1) {
        int64_t i = 0;
        for (kept = 0; i < k && kept < top_p * total; i++) kept += prob[i];
        if (kept < top_p * total) return -1;
    }
    for (int64_t i = 0; i < k; i++)
        if ((sum += prob[i]) > u * kept) return i;
    return -1;
}

static double mass(const float *prob, int64_t k)
{
    double sum = 0;
    for (int64_t i = 0; i < k; i++) sum += prob[i];
    return sum;
}

ts_status ts_sampler_draw(ts_sampler *s, const ts_sampling *how, int64_t i, const float *logits,
                          int32_t *token)
{
    const bool    all = how->top_k <= 0 || how->top_k >= s->n_vocab;
    const int64_t most = all ? s->n_vocab : how->top_k;
    const double  u = (ts_uniform(how->seed, i) + 1) / 2;
    int64_t       k = how->temperature <= 0 ? 1 : all && most > FIRST ? FIRST : most;
    for (;;) {
        const ts_status status = topk(s, logits, k, how->temperature);
        if (status) return status;
        *token = s->index[0];
        if (how->temperature <= 0) return TS_OK;
        const bool    last = k == most;
        const int64_t at = place(s->prob, k, last ? mass(s->prob, k) : 1, how->top_p, u);
        if (at >= 0) *token = s->index[at];
        if (at >= 0 || last) return TS_OK; /* the last resort: rounding left u above every sum */
        k = k > most / GROWTH ? most : k * GROWTH;
    }
}

/* At most 0, for all the rounding. */
static double logprob_of(const ts_sampler *s, const float *logits, int32_t token)
{
    return fmin((double)logits[token] - s->lse, 0);
}

ts_status ts_sampler_likely(ts_sampler *s, const float *logits, int n, ts_likely *likely,
                            int32_t token, double *logprob)
{
    if (s->exec.device != TS_CPU || n < 1 || n > s->n_vocab || token < 0 || token >= s->n_vocab)
        return TS_E_ARG;
    const ts_status status = topk(s, logits, n, 1);
    if (status) return status;
    for (int i = 0; i < n; i++)
        likely[i] = (ts_likely) { s->index[i], logprob_of(s, logits, s->index[i]) };
    *logprob = logprob_of(s, logits, token);
    return TS_OK;
}
