/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for beam_search against the definition: one pool of everything, sorted,
 * under a model that hashes its whole string. */
#include "selftest.h"
#include "touchstone/beam_search.h"

#pragma weak ts_beam_search_host /* on a device, of a file that needs it */

enum { MOST_VOCAB = 97, MOST_WIDTH = 8, MOST_STEPS = 12, MOST_TEXT = 20 + MOST_STEPS, ITEMS = 3 };

/* ---- the model ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

typedef struct toy {
    int64_t n_vocab, n_calls, n_rows;
} toy;

static void row_after(const toy *m, int64_t n, const int32_t *text, float *out)
{
    uint64_t h = 1;
    for (int64_t i = 0; i < n; i++) h = mix(h + (uint64_t)text[i] + 1);
    for (int64_t t = 0; t < m->n_vocab; t++)
        out[t] = (float)((double)(mix(h ^ mix((uint64_t)t)) >> 40) * 0x1p-24 * 8);
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out)
{
    toy *m = self;
    finish(TS_OK); /* the logits of a device are written here too */
    m->n_calls++;
    m->n_rows += n_seq;
    for (int64_t i = 0; i < n_seq; i++) row_after(m, len[i], tokens[i], out + i * m->n_vocab);
    return 0;
}

/* ---- the definition ---- */

typedef struct beam {
    double  logprob, score;
    int64_t length, parent, finished;
    int32_t text[MOST_STEPS];
} beam;

static int by_rank(const void *left, const void *right)
{
    const beam *a = left, *b = right;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->parent != b->parent) return a->parent < b->parent ? -1 : 1;
    return a->length && b->length ? a->text[a->length - 1] - b->text[b->length - 1] : 0;
}

/* One step of one item; gives how many rows it took. */
static int64_t advance(const toy *m, const ts_beam_dims *d, const int32_t *prompt, int64_t n_prompt,
                       beam *beams, int64_t *n)
{
    static beam pool[MOST_WIDTH * MOST_VOCAB];
    int64_t     n_pool = 0, n_rows = 0;
    for (int64_t k = 0; k < *n; k++) {
        float   row[MOST_VOCAB];
        int32_t text[MOST_TEXT];
        double  sum = 0;
        beams[k].parent = k;
        if (beams[k].finished) {
            pool[n_pool++] = beams[k];
            continue;
        }
        n_rows++;
        memcpy(text, prompt, (size_t)n_prompt * sizeof *text);
        memcpy(text + n_prompt, beams[k].text, (size_t)beams[k].length * sizeof *text);
        row_after(m, n_prompt + beams[k].length, text, row);
        for (int64_t t = 0; t < m->n_vocab; t++) sum += exp(row[t]);
        for (int64_t t = 0; t < m->n_vocab; t++) {
            beam *b = &pool[n_pool++];
            *b = beams[k];
            b->text[b->length++] = (int32_t)t;
            b->logprob += row[t] - log(sum);
            b->score = b->logprob / pow((double)b->length, d->alpha);
            b->finished = t == d->eos;
        }
    }
    if (!n_rows) return 0;
    qsort(pool, (size_t)n_pool, sizeof *pool, by_rank);
    *n = n_pool < d->beam_width ? n_pool : d->beam_width;
    memcpy(beams, pool, (size_t)*n * sizeof *pool);
    return n_rows;
}

/* ---- a case ---- */

typedef struct answer {
    int32_t tokens[ITEMS * MOST_WIDTH * MOST_STEPS];
    int64_t length[ITEMS * MOST_WIDTH], n_found[ITEMS];
    double  logprob[ITEMS * MOST_WIDTH], score[ITEMS * MOST_WIDTH];
    uint8_t finished[ITEMS * MOST_WIDTH];
} answer;

static void check_item(const char *name, const ts_beam_dims *d, const answer *a, int64_t item,
                       const beam *beams, int64_t n)
{
    compare(name, "n_found", item, (double)a->n_found[item], (double)n, 0);
    for (int64_t k = 0; k < d->beam_width; k++) {
        const int64_t at = item * d->beam_width + k;
        const beam    none = { .logprob = -INFINITY, .score = -INFINITY };
        const beam   *b = k < n ? &beams[k] : &none;
        compare(name, "length", at, (double)a->length[at], (double)b->length, 0);
        for (int64_t t = 0; t < d->max_new_tokens; t++)
            compare(name, "tokens", at * d->max_new_tokens + t,
                    a->tokens[at * d->max_new_tokens + t], t < b->length ? b->text[t] : -1, 0);
        compare(name, "logprob", at, a->logprob[at], b->logprob, 1e-12 * (double)(b->length + 1));
        compare(name, "score", at, a->score[at], b->score, 1e-12 * (double)(b->length + 1));
        compare(name, "finished", at, a->finished[at], (double)b->finished, 0);
    }
}

static void try(int64_t n_items, int64_t n_vocab, int64_t width, int64_t steps, double alpha,
                int32_t eos)
{
    static answer       got;
    toy                 m = { .n_vocab = n_vocab };
    const ts_model      model = { &m, n_vocab, next, NULL };
    const int64_t       len[ITEMS] = { 1, 5, 20 };
    int32_t             prompts[26];
    char                name[96];
    size_t              n_bytes = 0;
    ts_exec             x = { .device = TEST_DEVICE, .n_threads = 1, .deterministic = 1 };
    ts_beam_search_args a = { .d = { n_items, width, steps, alpha, eos }, .model = &model };
    snprintf(name, sizeof name, "items=%d vocab=%d width=%d steps=%d alpha=%g eos=%d", (int)n_items,
             (int)n_vocab, (int)width, (int)steps, alpha, (int)eos);
    for (int i = 0; i < 26; i++) prompts[i] = (int32_t)(mix((uint64_t)i) % (uint64_t)n_vocab);
    memset(&got, 0xff, sizeof got);
    a.prompts = prompts, a.prompt_len = len, a.tokens = got.tokens, a.length = got.length;
    a.logprob = got.logprob, a.score = got.score, a.finished = got.finished,
    a.n_found = got.n_found;
    begin_case();
    ts_status s = ts_beam_search_workspace(&a, &x, &n_bytes);
    x.workspace = fresh_bytes(n_bytes + 64);
    x.workspace_bytes = n_bytes;
    if (!s && TEST_DEVICE != TS_CPU && ts_beam_search_host)
        s = ts_beam_search_host(&a, &x, &a.host_bytes);
    a.host = a.host_bytes ? fresh_bytes(a.host_bytes) : NULL;
    if (!s) s = finish(ts_beam_search(&a, &x));
    if (s) flaw(name, "status", 0, s, TS_OK);
    const int32_t *prompt = prompts;
    int64_t        rows = 0, most = 0;
    for (int64_t i = 0; i < n_items && !s; prompt += len[i++]) {
        static beam beams[MOST_WIDTH];
        int64_t     n = 1, taken = 0;
        memset(beams, 0, sizeof beams);
        for (int64_t t = 0, now = 1; t < steps && now; t++) {
            now = advance(&m, &a.d, prompt, len[i], beams, &n);
            rows += now, taken += now > 0;
        }
        if (taken > most) most = taken;
        check_item(name, &a.d, &got, i, beams, n);
    }
    if (!s) compare(name, "calls", 0, (double)m.n_calls, (double)most, 0);
    if (!s) compare(name, "rows", 0, (double)m.n_rows, (double)rows, 0);
    drop_all();
}

int main(void)
{
    const double alphas[] = { 0, 0.6, 1, 2 };
    for (int i = 0; i < 4; i++) {
        try(1, 5, 1, 8, alphas[i], 4);
        try(1, 3, 4, 6, alphas[i], 2);
        try(3, 97, 4, 12, alphas[i], 1);
        try(3, 97, 8, 6, alphas[i], -1);
        try(2, 11, 3, 12, alphas[i], 7);
        try(2, 7, 8, 1, alphas[i], 0);
    }
    try(2, 5, 3, 0, 1, 2);
    return verdict();
}
