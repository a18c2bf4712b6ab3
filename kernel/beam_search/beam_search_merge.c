/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_merge.c - a search step from the best candidates of each row only.
 *
 * The extensions of one beam share its log-probability and length, so their order is that of their
 * logits, and more than beam_width of them can never be kept. softmax_topk returns them in that
 * order, equal ones by token. */
#include <math.h>

#include "beam_search_impl.h"
#include "threads.h"

enum { SMALL = 1 << 14 }; /* logits: fewer are done before a second thread wakes up */

int64_t ts_beam_pieces(int64_t n_vocab)
{
    return (n_vocab + TS_BEAM_PIECE - 1) / TS_BEAM_PIECE;
}

ts_softmax_topk_args ts_beam_topk_args(const ts_beam_state *s, int64_t first, int64_t n)
{
    const int64_t n_vocab = s->a->model->n_vocab;
    return (ts_softmax_topk_args) {
        .dtype = TS_F32,
        .n_rows = n,
        .n_vocab = n_vocab,
        .row_stride = n_vocab,
        .k = s->n_best,
        .inv_temperature = 1,
        .logits = s->logits + first * n_vocab,
        .index = s->device.best + first * s->n_best,
        .prob = s->prob + first * s->n_best,
    };
}

/* Candidates alone: probabilities need sums in double. */
static ts_status find_best(ts_beam_state *s, ts_topk_fn topk)
{
    const int64_t n_vocab = s->a->model->n_vocab, n_best = s->n_best;
    for (int64_t r = 0; r < s->n_rows; r += TS_BEAM_GROUP) {
        const ts_softmax_topk_args a =
            ts_beam_topk_args(s, r, ts_lesser(TS_BEAM_GROUP, s->n_rows - r));
        const ts_status status = topk(&a, &s->inner);
        if (status) return status;
    }
    for (int64_t r = 0; r < s->n_rows; r++) {
        const float   *x = s->logits + r * n_vocab;
        const int32_t *best = s->found.best + r * n_best;
        float         *value = s->found.value + r * (n_best + 1);
        if (best[0] < 0) return TS_E_MODEL; /* a NaN or +inf */
        for (int64_t i = 0; i < n_best; i++) value[i] = x[best[i]];
        if (s->a->d.eos >= 0) value[n_best] = x[s->a->d.eos];
    }
    return TS_OK;
}

ts_status ts_beam_take_rows(ts_beam_state *s)
{
    for (int64_t r = 0; r < s->n_rows; r++) {
        const double max = s->found.value[r * (s->n_best + 1)];
        if (s->found.best[r * s->n_best] < 0 || max == -INFINITY) return TS_E_MODEL;
        s->row[r] = (ts_beam_row) { max, log(s->found.total[r]) };
    }
    return TS_OK;
}

ts_status ts_beam_reduce(ts_beam_state *s, const ts_exec *x, ts_topk_fn topk, ts_beam_sum_fn sum)
{
    const int64_t   n_vocab = s->a->model->n_vocab, n_pieces = ts_beam_pieces(n_vocab);
    const int64_t   n = s->n_rows * n_pieces;
    const int64_t   most = ts_threads(x);
    const int       n_threads = s->n_rows * n_vocab < SMALL ? 1 : (int)ts_lesser(most, n);
    const ts_status status = find_best(s, topk);
    if (status) return status;
#pragma omp parallel for num_threads(n_threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = i / n_pieces, begin = i % n_pieces * TS_BEAM_PIECE;
        s->sum[i] = sum(s->logits + r * n_vocab + begin, ts_lesser(TS_BEAM_PIECE, n_vocab - begin),
                        s->found.value[r * (s->n_best + 1)]);
    }
    for (int64_t r = 0; r < s->n_rows; r++) {
        double total = 0;
        for (int64_t i = 0; i < n_pieces; i++) total += s->sum[r * n_pieces + i];
        s->found.total[r] = total;
    }
    return ts_beam_take_rows(s);
}

/* ---- heads: what each beam has to offer next ---- */

/* From the at-th candidate on. Scores are never -inf: that says there is none. */
static void look(const ts_beam_state *s, const ts_beam *b, int32_t barred, ts_beam_head *h)
{
    const int32_t *best = s->found.best + b->row * s->n_best;
    if (h->at < s->n_best && best[h->at] == barred) h->at++;
    h->score = -INFINITY;
    if (h->at >= s->n_best) return;
    h->token = best[h->at];
    h->logit = s->found.value[b->row * (s->n_best + 1) + h->at];
    if (h->logit == -INFINITY) return;
    h->score = ts_beam_logprob(s, b, h->logit) / s->divisor;
}

/* The first of the best: a smaller slot wins among equals. */
static int64_t best_of(const ts_beam_head *h, int64_t n)
{
    int64_t best = 0;
    for (int64_t j = 1; j < n; j++)
        if (h[j].score > h[best].score) best = j;
    return best;
}

int64_t ts_beam_merge(ts_beam_state *s, int64_t item, int32_t barred)
{
    const ts_beam      *b = ts_beam_slots(s, item);
    const int64_t       n = s->n_beams[item];
    ts_beam_head *const h = s->head;
    for (int64_t j = 0; j < n; j++) {
        h[j] = (ts_beam_head) { .score = b[j].score };
        if (!b[j].finished) look(s, b + j, barred, h + j);
    }
    for (int64_t to = 0; to < s->a->d.beam_width; to++) {
        const int64_t j = best_of(h, n);
        if (h[j].score == -INFINITY) return to;
        if (b[j].finished) {
            ts_beam_keep(s, item, to, j);
            h[j].score = -INFINITY;
        } else {
            ts_beam_extend(s, item, to, j, h[j].token, h[j].logit);
            h[j].at++;
            look(s, b + j, barred, h + j);
        }
    }
    return s->a->d.beam_width;
}

int64_t ts_beam_choose_slots(ts_beam_state *s, int64_t item)
{
    return ts_beam_merge(s, item, -1);
}
