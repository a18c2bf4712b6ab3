/* SPDX-License-Identifier: Apache-2.0 */
/* draft.c - guesses at what follows a text, as trees: what followed before, or what a smaller model
 * thinks. A wrong guess costs time and nothing else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"
#include "touchstone/softmax_topk.h"

#include "model_impl.h"

/* The child of `parent` that carries the token, made where there is none; -1: no room for it. */
static int32_t child(ts_draft *d, int32_t parent, int32_t token)
{
    for (int32_t i = parent + 1; i < d->n_node; i++)
        if (d->parent[i] == parent && d->token[i] == token) return i;
    if (d->n_node == d->n_most) return -1;
    d->token[d->n_node] = token;
    d->parent[d->n_node] = parent;
    return (int32_t)d->n_node++;
}

/* ---- prompt lookup ---- */

enum { LONGEST = 3 };

static ts_status look_up(void *self, const int32_t *text, int64_t n, int64_t n_deep, ts_draft *d)
{
    int64_t left = ((const ts_lookup *)self)->width;
    d->n_node = 0;
    for (int64_t gram = n - 1 < LONGEST ? n - 1 : LONGEST; gram > 0; gram--)
        for (int64_t at = n - 1; left > 0 && at >= gram; at--) {
            if (memcmp(text + at - gram, text + n - gram, (size_t)gram * sizeof *text)) continue;
            const int64_t before = d->n_node;
            int32_t       node = -1;
            for (int64_t i = at; i < n && i < at + n_deep; i++)
                if ((node = child(d, node, text[i])) < 0) break;
            left -= d->n_node > before; /* else it was there already */
        }
    return TS_OK;
}

ts_drafter ts_lookup_drafter(ts_lookup *l)
{
    return (ts_drafter) { l, look_up };
}

/* ---- a smaller model ---- */

/* A string that may go on: a node, or the text itself (-1). */
typedef struct tip {
    int32_t node, token;
    double  logprob;
} tip;

struct ts_small {
    ts_beams       *beams;
    ts_model        model;
    int64_t         width, capacity;
    tip            *tip, *next; /* [width]: of a depth, and of the one below; best first */
    int32_t        *tokens;     /* [width][capacity] */
    const int32_t **string;     /* [width] */
    int64_t        *len;        /* [width] */
    float          *logits;     /* [width][n_vocab] */
    int32_t        *index;      /* [width] */
    float          *prob;       /* [width] */
    ts_exec         exec;       /* of softmax_topk */
};

static ts_softmax_topk_args likeliest(const ts_small *s, int64_t row)
{
    return (ts_softmax_topk_args) {
        .dtype = TS_F32,
        .n_rows = 1,
        .n_vocab = s->model.n_vocab,
        .row_stride = s->model.n_vocab,
        .k = s->width,
        .inv_temperature = 1,
        .logits = s->logits + row * s->model.n_vocab,
        .index = s->index,
        .prob = s->prob,
    };
}

static bool make_lists(ts_small *s, char why[TS_MODEL_WHY])
{
    const size_t n = (size_t)s->width;
    s->tip = malloc(n * sizeof *s->tip);
    s->next = malloc(n * sizeof *s->next);
    s->tokens = malloc(n * (size_t)s->capacity * sizeof *s->tokens);
    s->string = malloc(n * sizeof *s->string);
    s->len = malloc(n * sizeof *s->len);
    s->logits = malloc(n * (size_t)s->model.n_vocab * sizeof *s->logits);
    s->index = malloc(n * sizeof *s->index);
    s->prob = malloc(n * sizeof *s->prob);
    if (!s->tip || !s->next || !s->tokens || !s->string || !s->len || !s->logits || !s->index ||
        !s->prob)
        return ts_say(why, "out of memory for drafts of %zu strings", n);
    const ts_softmax_topk_args a = likeliest(s, 0);
    s->exec.n_threads = 1; /* a row is too little to share */
    const ts_status status = ts_softmax_topk_workspace(&a, &s->exec, &s->exec.workspace_bytes);
    if (status) return ts_say(why, "drafts: %s", ts_status_text(status));
    return ts_memory_take(TS_CPU, s->exec.workspace_bytes + 1, "drafts", &s->exec.workspace, why);
}

bool ts_small_create(const ts_decoder *m, int64_t width, const ts_engine_options *o, ts_small **out,
                     char why[TS_MODEL_WHY])
{
    ts_small         *s = calloc(1, sizeof *s);
    ts_engine_options wide = *o;
    *out = NULL;
    if (!s) return ts_say(why, "out of memory for drafts");
    wide.n_seq = s->width = width < m->dims.n_vocab ? width : m->dims.n_vocab;
    s->capacity = o->capacity;
    bool ok = ts_beams_create(m, &wide, &s->beams, why);
    if (ok) s->model = ts_beams_model(s->beams);
    ok = ok && make_lists(s, why);
    if (ok) *out = s;
    else ts_small_free(&s);
    return ok;
}

void ts_small_free(ts_small **p)
{
    ts_small *s = *p;
    if (!s) return;
    ts_beams_free(&s->beams);
    ts_memory_give(TS_CPU, s->exec.workspace);
    void *const mine[] = { s->tip,   s->next, s->tokens, (void *)s->string, s->len, s->logits,
                           s->index, s->prob, s };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    *p = NULL;
}

/* The text and the path to a tip. */
static void spell(ts_small *s, const ts_draft *d, const int32_t *text, int64_t n_text, int64_t i,
                  int64_t depth)
{
    int32_t *const string = s->tokens + i * s->capacity;
    int64_t        at = n_text + depth;
    s->string[i] = string;
    s->len[i] = at;
    memcpy(string, text, (size_t)n_text * sizeof *text);
    for (int32_t node = s->tip[i].node; node >= 0; node = d->parent[node])
        string[--at] = d->token[node];
}

/* Into the `width` best so far, which are in order; among equal ones the first come first. */
static int64_t offer(ts_small *s, int64_t n, tip t)
{
    int64_t at = n;
    while (at > 0 && s->next[at - 1].logprob < t.logprob) at--;
    if (at == s->width) return n;
    if (n == s->width) n--;
    memmove(s->next + at + 1, s->next + at, (size_t)(n - at) * sizeof *s->next);
    s->next[at] = t;
    return n + 1;
}

static ts_status expand(ts_small *s, int64_t n_tip, int64_t *n_next)
{
    *n_next = 0;
    for (int64_t i = 0; i < n_tip; i++) {
        const ts_softmax_topk_args a = likeliest(s, i);
        const ts_status            status = ts_softmax_topk(&a, &s->exec);
        if (status) return status;
        for (int64_t j = 0; j < s->width && s->index[j] >= 0 && s->prob[j] > 0; j++)
            *n_next = offer(
                s, *n_next,
                (tip) { s->tip[i].node, s->index[j], s->tip[i].logprob + log((double)s->prob[j]) });
    }
    return TS_OK;
}

static ts_status think(void *self, const int32_t *text, int64_t n_text, int64_t n_deep, ts_draft *d)
{
    ts_small *s = self;
    int64_t   n_tip = 1, n_next;
    d->n_node = 0;
    s->tip[0] = (tip) { .node = -1 };
    for (int64_t depth = 0; depth < n_deep && n_text + depth <= s->capacity; depth++) {
        for (int64_t i = 0; i < n_tip; i++) spell(s, d, text, n_text, i, depth);
        if (s->model.next(s->model.self, n_tip, s->len, s->string, s->logits))
            return ts_beams_status(s->beams);
        const ts_status status = expand(s, n_tip, &n_next);
        if (status) return status;
        for (n_tip = 0; n_tip < n_next; n_tip++) {
            s->tip[n_tip] = s->next[n_tip];
            s->tip[n_tip].node = child(d, s->next[n_tip].node, s->next[n_tip].token);
            if (s->tip[n_tip].node < 0) return TS_OK; /* as many nodes as there may be */
        }
        if (!n_tip) break;
    }
    return TS_OK;
}

ts_drafter ts_small_drafter(ts_small *s)
{
    return (ts_drafter) { s, think };
}
