/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_archive.c - the other rule: a beam that ends leaves its slot, and is kept aside. */
#include <math.h>
#include <string.h>

#include "beam_search_impl.h"

static ts_beam *archive_of(const ts_beam_state *s, int64_t item)
{
    return s->kept + item * s->a->d.beam_width;
}

static int32_t *kept_text(const ts_beam_state *s, int64_t item, const ts_beam *b)
{
    const int64_t place = item * s->a->d.beam_width + b->row;
    return s->kept_text + place * s->a->d.max_new_tokens;
}

/* An equal one stays behind those that came before it; the worst gives its place up. */
static void offer(ts_beam_state *s, int64_t item, int64_t slot, double logprob)
{
    ts_beam *const kept = archive_of(s, item);
    const ts_beam *b = ts_beam_slots(s, item) + slot;
    const double   score = logprob / s->divisor;
    int64_t        n = s->n_kept[item], place = n;
    if (n == s->a->d.beam_width) {
        if (!(score > kept[n - 1].score)) return;
        place = kept[--n].row;
    }
    int64_t j = n;
    for (; j > 0 && score > kept[j - 1].score; j--) kept[j] = kept[j - 1];
    kept[j] = (ts_beam) { logprob, score, b->length + 1, place, 1 };
    s->n_kept[item] = n + 1;
    int32_t *const text = kept_text(s, item, kept + j);
    memcpy(text, ts_beam_text(s, item, slot) + s->a->prompt_len[item],
           (size_t)b->length * sizeof *text);
    text[b->length] = s->a->d.eos;
}

/* No token raises a log-probability, and no length beyond max_new_tokens divides it. */
static int is_hopeless(const ts_beam_state *s, int64_t item, int64_t n_next)
{
    const ts_beam *next = s->beam[!s->bank[item]] + item * s->a->d.beam_width;
    const ts_beam *kept = archive_of(s, item);
    const double   most = pow((double)s->a->d.max_new_tokens, s->a->d.alpha);
    if (s->n_kept[item] < s->a->d.beam_width) return 0;
    for (int64_t j = 0; j < n_next; j++)
        if (next[j].logprob / most > kept[s->a->d.beam_width - 1].score) return 0;
    return 1;
}

int64_t ts_beam_choose_archive(ts_beam_state *s, int64_t item)
{
    const ts_beam *b = ts_beam_slots(s, item);
    const int32_t  eos = s->a->d.eos;
    for (int64_t j = 0; j < s->n_beams[item] && eos >= 0; j++) {
        const float logit = s->found.value[b[j].row * (s->n_best + 1) + s->n_best];
        if (logit != -INFINITY) offer(s, item, j, ts_beam_logprob(s, b + j, logit));
    }
    const int64_t n = ts_beam_merge(s, item, eos);
    s->done[item] = is_hopeless(s, item, n);
    return n;
}

int64_t ts_beam_finish_archive(const ts_beam_state *s, int64_t item)
{
    const ts_beam *b = ts_beam_slots(s, item), *kept = archive_of(s, item);
    const int64_t  n = s->n_beams[item], n_kept = s->n_kept[item];
    int64_t        j = 0, k = 0;
    for (; j + k < s->a->d.beam_width && (j < n || k < n_kept);) {
        const int64_t rank = j + k;
        if (j == n || (k < n_kept && kept[k].score >= b[j].score)) {
            ts_beam_write(s, item, rank, kept + k, kept_text(s, item, kept + k));
            k++;
        } else {
            ts_beam_write(s, item, rank, b + j, ts_beam_text(s, item, j) + s->a->prompt_len[item]);
            j++;
        }
    }
    return j + k;
}
