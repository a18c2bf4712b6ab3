/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_script.c - plays one beam search and records what the model was called with. */
#include "beam_search_script.h"

#include <math.h>
#include <string.h>

#include "band.h"
#include "logits.h"
#include "spoil.h"

const char *const ts_beam_names[2] = { "ts_beam_search", NULL };
const char *const ts_beam_optional[2] = { "ts_beam_search_archive", NULL };
const char *const ts_beam_queries[5] = { "ts_beam_search_workspace",
                                         "ts_beam_search_archive_workspace", "ts_beam_search_host",
                                         "ts_beam_search_archive_host", NULL };

enum { BAND = TS_HELD_BAND, BAND_BYTE = TS_HELD_BYTE, POISON = TS_HELD_POISON };

/* Outputs whose C type has no ts_dtype are stored here, between bands, and copied to doubles. */
typedef struct held {
    unsigned char before[BAND];
    int64_t       length[TS_BEAM_MOST];
    unsigned char between[BAND];
    int64_t       found[TS_BEAM_MOST];
    unsigned char after[BAND];
    uint8_t       finished[TS_BEAM_MOST];
    unsigned char end[BAND];
} held;

typedef struct player {
    const ts_beam_play_args *a;
    const ts_mover          *m; /* logits are on a device; NULL: on the host */
    ts_toy                   toy;
    ts_model                 model;
    int64_t                  prompt_len[TS_BEAM_ITEMS]; /* of a query, or an invalid call */
    int32_t                  first[2];                  /* an invalid prompt */
    int64_t                  n_next, n_forward;
    bool                     asked[TS_BEAM_ITEMS]; /* the prompt alone was a string */
    bool                     none; /* the model failed, or gave a row that is no distribution */
    ts_beam_search_args      b;    /* the call */
    const void              *args; /* b, and x, unless NULL on purpose */
    const ts_exec           *exec;
    ts_exec                  x;
} player;

static ts_scratch scratch; /* on a device */

/* ---- the model ---- */

/* Notes whose prompt a string is. Others continue one, or fill a batch. */
static void compare_prompts(player *p, int64_t len, const int32_t *tokens)
{
    const int32_t *prompt = p->a->prompts + p->a->n_items;
    for (int64_t i = 0; i < p->a->n_items; prompt += p->a->prompt_len[i++])
        p->asked[i] |=
            len == p->a->prompt_len[i] && !memcmp(tokens, prompt, (size_t)len * sizeof *prompt);
}

static void note_none(player *p, int bad, int64_t n_row, const float *row)
{
    const int64_t V = p->toy.word[TS_TOY_VOCAB];
    p->none |= bad != 0;
    for (int64_t i = 0; i < n_row && !p->none; i++, row += V) {
        float most = -INFINITY;
        for (int64_t t = 0; t < V && !p->none; t++) {
            p->none = isnan(row[t]) || row[t] == INFINITY;
            if (row[t] > most) most = row[t];
        }
        p->none |= most == -INFINITY;
    }
}

static int64_t count_unasked(const player *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < p->a->n_items && p->a->steps; i++) n += !p->asked[i];
    return n;
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out)
{
    player  *p = self;
    uint64_t h = 0;
    int      bad = 0;
    /* A call that is meant to fail is recorded too. */
    const bool   fails = p->toy.word[TS_TOY_HOW] == TS_NONFINITE_FAILS;
    float *const rows = ts_logits_begin(p->m, n_seq, p->a->n_vocab, out);
    if (!rows) return 1;
    for (int64_t i = 0; i < n_seq && (!bad || fails); i++) {
        bad |= ts_toy_next(&p->toy, len[i], tokens[i], rows + i * p->toy.word[TS_TOY_VOCAB]);
        compare_prompts(p, len[i], tokens[i]);
        if (!bad || fails) h += ts_toy_string(len[i], tokens[i]);
    }
    if (p->n_next < p->a->steps) {
        double *const seen = p->a->calls + p->n_next * TS_BEAM_SEEN;
        seen[0] = (double)n_seq;
        seen[1] = (double)(uint32_t)h;
        seen[2] = (double)(h >> 32);
    }
    p->n_next++;
    if (p->toy.word[TS_TOY_NONFINITE]) note_none(p, bad, n_seq, rows);
    ts_logits_end(p->m, n_seq, p->a->n_vocab, rows, out);
    return ts_toy_says(&p->toy, bad);
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    player      *p = self;
    float *const rows = ts_logits_begin(p->m, n_want, p->a->n_vocab, out);
    p->n_forward++;
    if (!rows) return 1;
    const int bad = ts_toy_forward(&p->toy, n_row, token, position, visible, n_want, want, rows);
    if (p->toy.word[TS_TOY_NONFINITE]) note_none(p, bad, n_want, rows);
    ts_logits_end(p->m, n_want, p->a->n_vocab, rows, out);
    return ts_toy_says(&p->toy, bad);
}

/* ---- the call ---- */

/* The last prompt is empty. */
static int64_t empty_prompt(void *self)
{
    player *p = self;
    p->prompt_len[p->a->n_items - 1] = 0;
    return (intptr_t)p->prompt_len;
}

static int64_t long_prompts(void *self)
{
    player *p = self;
    for (int64_t i = 0; i < p->a->n_items; i++) p->prompt_len[i] = (int64_t)1 << 52;
    return (intptr_t)p->prompt_len;
}

/* Two prompts of one token each; the second is invalid. */
static int64_t short_prompts(void *self)
{
    player *p = self;
    p->prompt_len[0] = p->prompt_len[1] = 1;
    p->b.prompts = p->first;
    p->b.d.n_items = 2;
    return (intptr_t)p->prompt_len;
}

#define BAD(must, ...)  TS_BAD(player, TS_E_##must, __VA_ARGS__)
#define LIKE(must, ...) TS_BAD_LIKE(player, must, __VA_ARGS__)
#define OF(must, ...)   TS_BAD_OF(player, TS_E_##must, b.prompt_len, __VA_ARGS__)

static const ts_bad odd[] = {
    BAD(ARG, model.next, 0),
    BAD(SHAPE, model.n_vocab, 0, 0x1p31),
    OF(ARG, empty_prompt),
    OF(SHAPE, long_prompts),
    OF(ARG, short_prompts),
    LIKE(TS_ALSO, first[1], model.n_vocab, 0),
    OF(ARG, short_prompts),
    TS_BAD(player, TS_ALSO, first[1], -1),
    { 0 },
};

static const ts_bad numbers[] = {
    BAD(SHAPE, b.d.n_items, -1, 0x1p60), /* must be rejected before anything is read */
    BAD(SHAPE, b.d.beam_width, 0, 0x1p31),
    BAD(SHAPE, b.d.max_new_tokens, -1, 0x1p60),
    BAD(ARG, b.d.alpha, NAN, -1, INFINITY),
    BAD(ARG, b.d.eos, -2),
    LIKE(TS_E_ARG, b.d.eos, model.n_vocab, 0),
    BAD(ARG, args, 0),
    BAD(ARG, exec, 0),
    BAD(WORKSPACE, x.workspace, 0),
    LIKE(TS_E_WORKSPACE, x.workspace_bytes, x.workspace_bytes, -1),
    { 0 },
};

static const ts_bad without[] = {
    BAD(ARG, b.model, 0),      BAD(ARG, b.prompts, 0),
    BAD(ARG, b.prompt_len, 0), BAD(ARG, b.tokens, 0),
    BAD(ARG, b.length, 0),     BAD(ARG, b.logprob, 0),
    BAD(ARG, b.score, 0),      BAD(ARG, b.finished, 0),
    BAD(ARG, b.n_found, 0),    { 0 },
};

static bool spoil(player *p, int64_t how, ts_status *must)
{
    static const ts_bad *const list[] = { NULL, odd, numbers, without };
    int                        i = (int)(how % TS_BEAM_LISTS);
    return ts_bad_call(list[how / TS_BEAM_LISTS], &i, p, TS_CPU, must);
}

bool ts_beam_must(const void *args, int64_t how, ts_status *must)
{
    (void)args;
    return spoil(NULL, how, must);
}

/* Without inputs for a workspace query. */
static void prepare(player *p, const ts_beam_play_args *a, const int32_t *prompts, bool inputs,
                    held *h, const ts_mover *m, ts_workspace_fn host, const ts_exec *x)
{
    ts_status must;
    *p = (player) { .a = a, .toy = { a->word, a->weight } };
    p->model = (ts_model) { p, a->n_vocab, next, forward };
    for (int64_t i = 0; i < a->n_items; i++) p->prompt_len[i] = a->prompt_len[i];
    p->b = (ts_beam_search_args) {
        .d = a->d,
        .model = &p->model,
        .prompts = prompts,
        .prompt_len = inputs ? a->lengths : p->prompt_len,
        .tokens = a->tokens,
        .length = h->length,
        .logprob = a->logprob,
        .score = a->score,
        .finished = h->finished,
        .n_found = h->found,
    };
    p->args = &p->b;
    p->exec = &p->x;
    p->m = x->device == TS_CPU ? NULL : m;
    p->x = *x;
    if (p->m) ts_scratch_lay(&scratch, host, &p->b, x, &p->b.host, &p->b.host_bytes);
    if (a->how) spoil(p, a->how, &must);
}

static void poison(held *h)
{
    memset(h, BAND_BYTE, sizeof *h);
    memset(h->length, POISON, sizeof h->length);
    memset(h->found, POISON, sizeof h->found);
    memset(h->finished, POISON, sizeof h->finished);
}

/* Counts changed bytes around the buffers. */
static int64_t overstepped(const ts_beam_play_args *a, const held *h)
{
    const size_t n = (size_t)(a->n_items * a->width), all = TS_BEAM_MOST;
    const size_t items = (size_t)a->n_items;
    return ts_scratch_changed(&scratch) + ts_count_other(h->before, BAND, BAND_BYTE) +
           ts_count_other(h->between, BAND, BAND_BYTE) + ts_count_other(h->after, BAND, BAND_BYTE) +
           ts_count_other(h->end, BAND, BAND_BYTE) +
           ts_count_other(h->length + n, (all - n) * sizeof *h->length, POISON) +
           ts_count_other(h->found + items, (all - items) * sizeof *h->found, POISON) +
           ts_count_other(h->finished + n, all - n, POISON);
}

static int64_t written(const held *h)
{
    return ts_count_other(h->length, sizeof h->length, POISON) +
           ts_count_other(h->found, sizeof h->found, POISON) +
           ts_count_other(h->finished, sizeof h->finished, POISON);
}

static void tell(const ts_beam_play_args *a, const held *h)
{
    double *to = a->beams;
    for (int64_t i = 0; i < a->n_items; i++) {
        for (int64_t k = 0; k < a->width; k++) *to++ = (double)h->length[i * a->width + k];
        for (int64_t k = 0; k < a->width; k++) *to++ = h->finished[i * a->width + k];
        *to++ = (double)h->found[i];
    }
}

/* Makes every invalid call in turn. */
static void play_refused(ts_run_fn f, ts_workspace_fn host, const ts_beam_play_args *a,
                         const ts_mover *m, const ts_exec *x)
{
    static held   h;
    static player p;
    ts_status     must;
    double       *seen = a->calls, inside = 0, over = 0;
    for (int64_t list = TS_BEAM_ODD; list <= TS_BEAM_WITHOUT; list += TS_BEAM_LISTS)
        for (int64_t how = list; ts_beam_must(a, how, &must); how++) {
            prepare(&p, a, a->prompts + a->n_items, true, &h, m, host, x);
            poison(&h);
            spoil(&p, how, &must);
            const bool needless = must == TS_E_WORKSPACE && !x->workspace_bytes;
            *seen++ = needless ? must : f(p.args, p.exec);
            inside += (double)(written(&h) + p.n_next + p.n_forward);
            over += (double)overstepped(a, &h);
        }
    *seen++ = inside, *seen++ = over;
    while (seen < a->calls + (a->steps + TS_BEAM_SEEN_MORE) * TS_BEAM_SEEN) *seen++ = 0;
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    static held                    h;
    static player                  p;
    const ts_beam_table *const     t = table;
    const ts_beam_play_args *const a = args;
    if (!a || !x) return t->search(a, x);
    const ts_run_fn       search = a->archive ? t->archive : t->search;
    const ts_workspace_fn host = a->archive ? t->archive_host : t->search_host;
    if (!search) return TS_E_UNSUPPORTED;
    if (a->refused) return play_refused(search, host, a, m, x), TS_OK;
    poison(&h);
    prepare(&p, a, a->prompts + a->n_items, true, &h, m, host, x);
    const ts_status s = search(&p.b, x);
    if (s && s != TS_E_MODEL) {
        if (written(&h) || overstepped(a, &h)) tell(a, &h);
        return s;
    }
    double *const more = a->calls + a->steps * TS_BEAM_SEEN;
    for (double *c = a->calls + (p.n_next < a->steps ? p.n_next : a->steps) * TS_BEAM_SEEN;
         c < more; c++)
        *c = 0;
    more[0] = (double)p.n_next, more[1] = (double)p.n_forward, more[2] = (double)overstepped(a, &h);
    more[3] = s, more[4] = s ? (double)written(&h) : 0;
    more[5] = (double)(s ? !p.none : count_unasked(&p));
    if (!s) tell(a, &h);
    return TS_OK;
}

static ts_status workspace(const void *table, const void *args, const ts_exec *x, size_t *n_bytes)
{
    static const int32_t           none[TS_TOY_MOST_ROWS];
    static held                    h;
    static player                  p;
    const ts_beam_table *const     t = table;
    const ts_beam_play_args *const a = args;
    if (!a || !x || !n_bytes) return t->search_workspace(NULL, x, n_bytes);
    const ts_workspace_fn query = a->archive ? t->archive_workspace : t->search_workspace;
    *n_bytes = 0;
    if (!query) return TS_OK;
    prepare(&p, a, none, false, &h, NULL, NULL, x);
    return query(&p.b, x, n_bytes);
}

const ts_player ts_player_beam_search = {
    ts_beam_names, ts_beam_optional, ts_beam_queries, play, workspace, .on_host = true,
};
