/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_script.c - plays one beam search and records what the model was called with. */
#include "beam_search_script.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

const char *const ts_beam_names[2] = { "ts_beam_search", NULL };
const char *const ts_beam_optional[2] = { "ts_beam_search_archive", NULL };
const char *const ts_beam_queries[3] = { "ts_beam_search_workspace",
                                         "ts_beam_search_archive_workspace", NULL };

enum { BAND = 64, BAND_BYTE = 0xfe, POISON = 0x80 };

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
    ts_toy                   toy;
    ts_model                 model;
    int64_t                  prompt_len[TS_BEAM_ITEMS]; /* of a query, or an invalid call */
    int32_t                  first[2];                  /* an invalid prompt */
    int64_t                  n_next, n_forward;
} player;

/* ---- the model ---- */

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out)
{
    player  *p = self;
    uint64_t h = 0;
    int      bad = 0;
    /* A call that is meant to fail is recorded too. */
    const bool fails = p->toy.word[TS_TOY_HOW] == TS_NONFINITE_FAILS;
    for (int64_t i = 0; i < n_seq && (!bad || fails); i++) {
        bad |= ts_toy_next(&p->toy, len[i], tokens[i], out + i * p->toy.word[TS_TOY_VOCAB]);
        if (!bad || fails) h += ts_toy_string(len[i], tokens[i]);
    }
    if (p->n_next < p->a->steps) {
        double *const seen = p->a->calls + p->n_next * TS_BEAM_SEEN;
        seen[0] = (double)n_seq;
        seen[1] = (double)(uint32_t)h;
        seen[2] = (double)(h >> 32);
    }
    p->n_next++;
    return bad;
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    player *p = self;
    p->n_forward++;
    return ts_toy_forward(&p->toy, n_row, token, position, visible, n_want, want, out);
}

/* ---- the call ---- */

#define AT(member) offsetof(ts_beam_search_args, member)
static const size_t required[] = { AT(model),   AT(prompts), AT(prompt_len), AT(tokens), AT(length),
                                   AT(logprob), AT(score),   AT(finished),   AT(n_found) };

int ts_beam_without(void)
{
    return sizeof required / sizeof *required;
}

/* Sets two prompts of one token each; the second is `token`. */
static void prompt_of(player *p, ts_beam_search_args *b, int32_t token)
{
    p->prompt_len[0] = p->prompt_len[1] = 1;
    b->prompt_len = p->prompt_len;
    p->first[1] = token;
    b->prompts = p->first;
    b->d.n_items = 2;
}

static void spoil_dims(ts_beam_dims *d, int64_t n_vocab, int64_t how)
{
    const int64_t huge = (int64_t)1 << 60;
    if (how == TS_BEAM_ITEMS_MINUS) d->n_items = -1;
    if (how == TS_BEAM_ITEMS_HUGE) d->n_items = huge;
    if (how == TS_BEAM_WIDTH_0) d->beam_width = 0;
    if (how == TS_BEAM_WIDTH_HUGE) d->beam_width = (int64_t)1 << 31;
    if (how == TS_BEAM_STEPS_MINUS) d->max_new_tokens = -1;
    if (how == TS_BEAM_STEPS_HUGE) d->max_new_tokens = huge;
    if (how == TS_BEAM_ALPHA_NAN) d->alpha = (double)NAN;
    if (how == TS_BEAM_ALPHA_MINUS) d->alpha = -1;
    if (how == TS_BEAM_ALPHA_INF) d->alpha = (double)INFINITY;
    if (how == TS_BEAM_EOS_MINUS) d->eos = -2;
    if (how == TS_BEAM_EOS_FAR) d->eos = (int32_t)n_vocab;
}

static void spoil(player *p, ts_beam_search_args *b, int64_t how)
{
    spoil_dims(&b->d, p->a->n_vocab, how);
    if (how >= TS_BEAM_WITHOUT)
        memset((char *)b + required[how - TS_BEAM_WITHOUT], 0, sizeof(void *));
    if (how == TS_BEAM_NO_NEXT) p->model.next = NULL;
    if (how == TS_BEAM_NO_VOCAB) p->model.n_vocab = 0;
    if (how == TS_BEAM_MUCH_VOCAB) p->model.n_vocab = (int64_t)1 << 31;
    if (how == TS_BEAM_EMPTY_PROMPT || how == TS_BEAM_LONG_PROMPTS) b->prompt_len = p->prompt_len;
    if (how == TS_BEAM_EMPTY_PROMPT) p->prompt_len[p->a->n_items - 1] = 0;
    for (int64_t i = 0; i < p->a->n_items && how == TS_BEAM_LONG_PROMPTS; i++)
        p->prompt_len[i] = (int64_t)1 << 52;
    if (how == TS_BEAM_NO_TOKEN) prompt_of(p, b, (int32_t)p->a->n_vocab);
    if (how == TS_BEAM_LOW_TOKEN) prompt_of(p, b, -1);
}

/* Without inputs for a workspace query. */
static ts_beam_search_args prepare(player *p, const ts_beam_play_args *a, const int32_t *prompts,
                                   bool inputs, held *h)
{
    *p = (player) { .a = a, .toy = { a->word, a->weight } };
    p->model = (ts_model) { p, a->n_vocab, next, forward };
    for (int64_t i = 0; i < a->n_items; i++) p->prompt_len[i] = a->prompt_len[i];
    ts_beam_search_args b = {
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
    if (a->how) spoil(p, &b, a->how);
    return b;
}

static int64_t count_other(const unsigned char *p, size_t n, unsigned char byte)
{
    int64_t other = 0;
    for (size_t i = 0; i < n; i++) other += p[i] != byte;
    return other;
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
    return count_other(h->before, BAND, BAND_BYTE) + count_other(h->between, BAND, BAND_BYTE) +
           count_other(h->after, BAND, BAND_BYTE) + count_other(h->end, BAND, BAND_BYTE) +
           count_other((const void *)(h->length + n), (all - n) * sizeof *h->length, POISON) +
           count_other((const void *)(h->found + items), (all - items) * sizeof *h->found, POISON) +
           count_other(h->finished + n, all - n, POISON);
}

static int64_t written(const held *h)
{
    return count_other((const void *)h->length, sizeof h->length, POISON) +
           count_other((const void *)h->found, sizeof h->found, POISON) +
           count_other(h->finished, sizeof h->finished, POISON);
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
static void play_refused(ts_run_fn f, const ts_beam_play_args *a, const ts_exec *x)
{
    static held   h;
    static player p;
    double       *seen = a->calls, over = 0;
    for (int64_t how = TS_BEAM_SOUND + 1; how < TS_BEAM_WITHOUT + ts_beam_without(); how++) {
        ts_beam_search_args b = prepare(&p, a, a->prompts + a->n_items, true, &h);
        ts_exec             own = *x;
        poison(&h);
        spoil(&p, &b, how);
        if (how == TS_BEAM_NO_WORKSPACE) own.workspace = NULL;
        if (how == TS_BEAM_SHORT && x->workspace_bytes) own.workspace_bytes--;
        const bool less = how == TS_BEAM_NO_WORKSPACE || how == TS_BEAM_SHORT;
        const bool none = less && !x->workspace_bytes;
        *seen++ = none ? TS_E_WORKSPACE /* no workspace is needed */
                       : (double)f(how == TS_BEAM_NO_ARGS ? NULL : &b,
                                   how == TS_BEAM_NO_EXEC ? NULL : &own);
        over += (double)(written(&h) + overstepped(a, &h) + p.n_next + p.n_forward);
    }
    *seen++ = over;
    while (seen < a->calls + (a->steps + TS_BEAM_SEEN_MORE) * TS_BEAM_SEEN) *seen++ = 0;
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    static held                    h;
    static player                  p;
    const ts_beam_table *const     t = table;
    const ts_beam_play_args *const a = args;
    (void)m;
    if (!a || !x) return t->search(a, x);
    const ts_run_fn search = a->archive ? t->archive : t->search;
    if (!search) return TS_E_UNSUPPORTED;
    if (a->refused) return play_refused(search, a, x), TS_OK;
    poison(&h);
    const ts_beam_search_args b = prepare(&p, a, a->prompts + a->n_items, true, &h);
    const ts_status           s = search(&b, x);
    if (s && s != TS_E_MODEL) {
        if (written(&h) || overstepped(a, &h)) tell(a, &h);
        return s;
    }
    double *const more = a->calls + a->steps * TS_BEAM_SEEN;
    for (double *c = a->calls + (p.n_next < a->steps ? p.n_next : a->steps) * TS_BEAM_SEEN;
         c < more; c++)
        *c = 0;
    more[0] = (double)p.n_next, more[1] = (double)p.n_forward, more[2] = (double)overstepped(a, &h);
    more[3] = s, more[4] = s ? (double)written(&h) : 0, more[5] = 0;
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
    const ts_beam_search_args b = prepare(&p, a, none, false, &h);
    return query(&b, x, n_bytes);
}

const ts_player ts_player_beam_search = {
    ts_beam_names, ts_beam_optional, ts_beam_queries, play, workspace,
};
