/* SPDX-License-Identifier: Apache-2.0 */
/* bpe.c - byte pair encoding: join the best pair of neighbours, again and again. A heap of pairs,
 * so that a long word costs n log n and not n squared. */
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

enum { SHORT = 512 }; /* bytes of a joined piece that need no memory */

/* Better pairs have lower ranks; among equals the leftmost. */
typedef struct pair {
    double  rank;
    int64_t at;                  /* of the left one */
    int32_t left, right, joined; /* out of date when either has changed */
} pair;

typedef struct heap {
    pair   *p;
    int64_t n;
} heap;

static bool before(const pair *a, const pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(heap *h, pair x)
{
    int64_t i = h->n++;
    for (; i && before(&x, &h->p[(i - 1) / 2]); i = (i - 1) / 2) h->p[i] = h->p[(i - 1) / 2];
    h->p[i] = x;
}

static pair pop(heap *h)
{
    const pair best = h->p[0], last = h->p[--h->n];
    int64_t    i = 0;
    for (int64_t c; (c = 2 * i + 1) < h->n; i = c) {
        if (c + 1 < h->n && before(&h->p[c + 1], &h->p[c])) c++;
        if (!before(&h->p[c], &last)) break;
        h->p[i] = h->p[c];
    }
    h->p[i] = last;
    return best;
}

/* ---- which pairs join ---- */

int ts_merge_order(const void *x, const void *y)
{
    const ts_merge *a = x, *b = y;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return a->right < b->right ? -1 : a->right > b->right;
}

static bool by_merge(const ts_tokenizer *t, pair *p)
{
    const ts_merge  key = { .left = p->left, .right = p->right };
    const ts_merge *m = bsearch(&key, t->merge, (size_t)t->n_merge, sizeof key, ts_merge_order);
    if (!m) return false;
    p->rank = m->rank;
    p->joined = m->joined;
    return true;
}

static bool by_score(const ts_tokenizer *t, pair *p)
{
    char            joined[SHORT];
    const ts_piece *a = &t->piece[p->left], *b = &t->piece[p->right];
    if (a->n + b->n > SHORT) return false; /* no vocabulary has such pieces: the reader saw to it */
    memcpy(joined, a->bytes, a->n);
    memcpy(joined + a->n, b->bytes, b->n);
    p->joined = ts_tokenizer_find(t, joined, a->n + b->n);
    if (p->joined < 0) return false;
    p->rank = -(double)t->piece[p->joined].score;
    return true;
}

/* ---- joining ---- */

typedef struct word {
    const ts_tokenizer *t;
    int32_t            *token; /* -1 where one was joined to its left */
    int64_t            *previous, *next;
    int64_t             n;
    heap                pairs;
} word;

static void consider(word *w, int64_t left)
{
    if (left < 0 || w->next[left] >= w->n) return;
    pair p = { .at = left, .left = w->token[left], .right = w->token[w->next[left]] };
    if (w->t->merge ? by_merge(w->t, &p) : by_score(w->t, &p)) push(&w->pairs, p);
}

static void join(word *w, const pair *p)
{
    const int64_t left = p->at, right = w->next[left];
    if (w->token[left] != p->left || right >= w->n || w->token[right] != p->right) return;
    w->token[left] = p->joined;
    w->token[right] = -1;
    w->next[left] = w->next[right];
    if (w->next[left] < w->n) w->previous[w->next[left]] = left;
    consider(w, w->previous[left]);
    consider(w, left);
}

bool ts_bpe(const ts_tokenizer *t, int32_t *token, int64_t *n_token)
{
    const int64_t n = *n_token;
    const size_t  room = (size_t)n + 1;
    word          w = { .t = t, .token = token, .n = n };
    if (n < 2) return true;
    w.previous = malloc(room * sizeof *w.previous);
    w.next = malloc(room * sizeof *w.next);
    w.pairs.p = malloc(3 * room * sizeof *w.pairs.p); /* one each, and two more a join */
    const bool ok = w.previous && w.next && w.pairs.p;
    for (int64_t i = 0; ok && i < n; i++) {
        w.previous[i] = i - 1;
        w.next[i] = i + 1;
    }
    for (int64_t i = 0; ok && i < n; i++) consider(&w, i);
    while (ok && w.pairs.n) {
        const pair p = pop(&w.pairs);
        join(&w, &p);
    }
    if (ok) *n_token = 0;
    for (int64_t i = 0; ok && i < n; i = w.next[i]) token[(*n_token)++] = token[i];
    free(w.previous);
    free(w.next);
    free(w.pairs.p);
    return ok;
}
