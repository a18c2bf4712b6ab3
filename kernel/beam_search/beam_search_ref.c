/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_ref.c - the definition: one pool of finished beams and of all extensions. */
#include <math.h>
#include <stdbool.h>

#include "beam_search_impl.h"

static double sum_ref(const float *x, int64_t n, double max)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    return sum;
}

static ts_status reduce_row(const float *x, int64_t n, ts_beam_row *r)
{
    r->max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]) || x[i] == INFINITY) return TS_E_MODEL;
        r->max = fmax(r->max, x[i]);
    }
    if (r->max == -INFINITY) return TS_E_MODEL;
    r->log_sum = log(sum_ref(x, n, r->max));
    return TS_OK;
}

static ts_status reduce(ts_beam_state *s, const ts_exec *x)
{
    const int64_t n_vocab = s->a->model->n_vocab;
    (void)x;
    for (int64_t r = 0; r < s->n_rows; r++) {
        const ts_status status = reduce_row(s->logits + r * n_vocab, n_vocab, s->row + r);
        if (status) return status;
    }
    return TS_OK;
}

/* ---- the pool ---- */

/* Here a head is a member of the pool: `at` is its parent. token -1: a finished beam. */
static bool is_before(const ts_beam_head *a, const ts_beam_head *b)
{
    if (a->score != b->score) return a->score > b->score;
    if (a->at != b->at) return a->at < b->at;
    return a->logit != b->logit ? a->logit > b->logit : a->token < b->token;
}

/* Enters h into the sorted list of n, of which beam_width may stay. */
static int64_t enter(ts_beam_state *s, int64_t n, ts_beam_head h)
{
    if (n == s->a->d.beam_width) {
        if (!is_before(&h, s->head + n - 1)) return n;
        n--;
    }
    int64_t j = n;
    for (; j > 0 && is_before(&h, s->head + j - 1); j--) s->head[j] = s->head[j - 1];
    s->head[j] = h;
    return n + 1;
}

static int64_t choose(ts_beam_state *s, int64_t item)
{
    const ts_beam *b = ts_beam_slots(s, item);
    const int64_t  n_vocab = s->a->model->n_vocab;
    int64_t        n = 0;
    for (int64_t j = 0; j < s->n_beams[item]; j++) {
        if (b[j].finished) n = enter(s, n, (ts_beam_head) { b[j].score, j, -1, 0 });
        for (int64_t t = 0; t < n_vocab && !b[j].finished; t++) {
            const float logit = s->logits[b[j].row * n_vocab + t];
            if (logit == -INFINITY) continue;
            const double score = ts_beam_logprob(s, b + j, logit) / s->divisor;
            n = enter(s, n, (ts_beam_head) { score, j, (int32_t)t, logit });
        }
    }
    for (int64_t to = 0; to < n; to++) {
        const ts_beam_head *h = s->head + to;
        if (h->token < 0) ts_beam_keep(s, item, to, h->at);
        else ts_beam_extend(s, item, to, h->at, h->token, h->logit);
    }
    return n;
}

ts_status ts_beam_search_ref(const void *args, const ts_exec *x)
{
    static const ts_beam_steps steps = { reduce, choose, ts_beam_finish_slots };
    return ts_beam_run(args, x, 0, &steps);
}

/* ---- the archive has no pool of its own ---- */

static ts_status reduce_archive(ts_beam_state *s, const ts_exec *x)
{
    return ts_beam_reduce(s, x, ts_softmax_topk, sum_ref);
}

ts_status ts_beam_search_archive_ref(const void *args, const ts_exec *x)
{
    static const ts_beam_steps steps = { reduce_archive, ts_beam_choose_archive,
                                         ts_beam_finish_archive };
    return ts_beam_run(args, x, 1, &steps);
}
