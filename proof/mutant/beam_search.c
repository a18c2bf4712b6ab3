/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.c - mutants of beam_search: one correct search with one injected bug at a time.
 * beam_search_list.h lists them.
 *
 * It is simple, not fast: a sorted list of the best takes every candidate in turn. */
#include "beam_search_script.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "beam_search_list.h"
#include "mutant.h"

#define NAME(trap, name, fault, family) trap,
typedef enum trap { MUTANTS(NAME) N_TRAPS } trap;
static trap now;

typedef struct beam {
    double  logprob, score;
    int64_t length, row;
    bool    finished;
} beam;

typedef struct candidate {
    double  logprob, score;
    float   logit;
    int64_t parent;
    int32_t token; /* -1: a finished beam, as it is */
} candidate;

typedef struct state {
    const ts_beam_search_args *a;
    int64_t                    V, K, T, n, stride;
    float                     *logits;
    double                    *max, *log_sum;
    beam                      *beam[2], *kept;
    int32_t                   *text[2], *kept_text, *pad;
    int64_t                   *len, *n_beam, *n_kept;
    const int32_t            **string;
    candidate                 *best;
    int64_t                    n_best, n_rows;
    bool                      *stopped;
    bool                       archive; /* the other search */
} state;

/* ---- memory ---- */

static void *take(char *base, size_t *used, int64_t n, size_t each)
{
    void *const p = base ? base + *used : NULL;
    *used += ((size_t)n * each + 15) / 16 * 16;
    return p;
}

static size_t lay_out(state *s, const ts_beam_search_args *a, char *base)
{
    size_t used = 0;
    *s = (state) { .a = a, .V = a->model->n_vocab, .K = a->d.beam_width, .n = a->d.n_items };
    s->T = a->d.max_new_tokens;
    for (int64_t i = 0; i < s->n; i++)
        if (a->prompt_len[i] + s->T > s->stride) s->stride = a->prompt_len[i] + s->T;
    const int64_t rows = s->n * s->K;
    s->logits = take(base, &used, rows * s->V, sizeof *s->logits);
    s->max = take(base, &used, rows, sizeof *s->max);
    s->log_sum = take(base, &used, rows, sizeof *s->log_sum);
    for (int i = 0; i < 2; i++) {
        s->beam[i] = take(base, &used, rows, sizeof *s->beam[i]);
        s->text[i] = take(base, &used, rows * s->stride, sizeof *s->text[i]);
    }
    s->kept = take(base, &used, rows, sizeof *s->kept);
    s->kept_text = take(base, &used, rows * s->stride, sizeof *s->kept_text);
    s->pad = take(base, &used, rows * s->stride, sizeof *s->pad);
    s->len = take(base, &used, rows, sizeof *s->len);
    s->string = take(base, &used, rows, sizeof *s->string);
    s->n_beam = take(base, &used, s->n, sizeof *s->n_beam);
    s->n_kept = take(base, &used, s->n, sizeof *s->n_kept);
    s->stopped = take(base, &used, s->n, sizeof *s->stopped);
    s->best = take(base, &used, s->K + 1, sizeof *s->best);
    return used + 16;
}

/* ---- API entry point ---- */

static ts_status check(const ts_beam_search_args *a)
{
    if (!a->model || !a->model->next) return TS_E_ARG;
    const ts_beam_dims *d = &a->d;
    const int64_t       V = a->model->n_vocab;
    int64_t             at = 0;
    if (now != ANY_ALPHA && now != A_ANY_ALPHA && (!(d->alpha >= 0) || isinf(d->alpha)))
        return TS_E_ARG;
    if (d->n_items < 0 || d->beam_width < 1 || d->max_new_tokens < 0 || V < 1) return TS_E_SHAPE;
    const double all = (double)d->n_items * (double)d->beam_width;
    if (V > INT32_MAX || d->beam_width > INT32_MAX || all * (double)V >= 0x1p53) return TS_E_SHAPE;
    if (all * (double)d->max_new_tokens >= 0x1p53) return TS_E_SHAPE;
    if (now != ANY_EOS && now != A_ANY_EOS && (d->eos < -1 || d->eos >= V)) return TS_E_ARG;
    if (!d->n_items) return TS_OK;
    if (!a->prompts || !a->prompt_len || !a->n_found || !a->length || !a->logprob) return TS_E_ARG;
    if (!a->score || !a->finished || (d->max_new_tokens && !a->tokens)) return TS_E_ARG;
    for (int64_t i = 0; i < d->n_items && now != ANY_PROMPT; i++) {
        if (a->prompt_len[i] < 1) return TS_E_ARG;
        if (a->prompt_len[i] > INT32_MAX) return TS_E_SHAPE;
        for (const int64_t end = at + a->prompt_len[i]; at < end; at++)
            if (a->prompts[at] < 0 || a->prompts[at] >= V) return TS_E_ARG;
    }
    return now == TWICE_K && 2 * d->beam_width > V ? TS_E_SHAPE : TS_OK;
}

/* ---- scores ---- */

static double score_of(const state *s, double logprob, int64_t length, int64_t item)
{
    const double n = (double)length + (double)(now == PROMPT_COUNTED ? s->a->prompt_len[item] : 0);
    if (now == RAW_SUM || now == FOLDED || length == 0) return logprob;
    return logprob / pow(n, now == ALPHA_5 ? fmin(s->a->d.alpha, 5) : s->a->d.alpha);
}

static double logprob_of(const state *s, const beam *b, int64_t t)
{
    const float *x = s->logits + b->row * s->V;
    double       step = (double)x[t] - s->max[b->row] - s->log_sum[b->row];
    if (now == RAW_LOGITS) step = x[t];
    if (now == LOG_OF_SOFTMAX) step = log(exp(x[t] - s->max[b->row]) / exp(s->log_sum[b->row]));
    if (now == FLOAT_SUMS) return (float)((float)b->logprob + (float)step);
    if (now == FREE_EOS && t == s->a->d.eos) return b->logprob;
    if (now == FOLDED)
        return (b->logprob + step) / pow((double)(b->length + 1), s->a->d.alpha) *
               (b->length ? pow((double)b->length, s->a->d.alpha) : 1);
    return b->logprob + step;
}

static bool reduce(state *s)
{
    for (int64_t r = 0; r < s->n_rows; r++) {
        const float *x = s->logits + r * s->V;
        double       max = -INFINITY, sum = 0;
        float        narrow = 0;
        for (int64_t t = 0; t < s->V; t++) {
            if (isnan(x[t]) && now != NONFINITE_PASSES && now != NAN_PASSES) return false;
            if (x[t] == INFINITY && now != NONFINITE_PASSES && now != INF_PASSES) return false;
            max = fmax(max, x[t]);
        }
        if (max == -INFINITY && now != NONFINITE_PASSES && now != NONE_PASSES) return false;
        if (now == NO_MAX) max = 0;
        for (int64_t t = 0; t < s->V; t++) {
            sum += exp((double)x[t] - max);
            narrow += expf(x[t] - (float)max);
        }
        s->max[r] = max;
        s->log_sum[r] = now == FLOAT_LSE ? logf(narrow) : log(sum);
    }
    return true;
}

/* ---- the pool ---- */

static bool is_before(const candidate *a, const candidate *b)
{
    if (now == NEAR_IS_EQUAL && fabs(a->score - b->score) < 1e-7) return a->token < b->token;
    if (a->score != b->score) return a->score > b->score;
    if (now == LAST_OF_EQUALS) return true;
    if (now == ENDS_LOSE && (a->token < 0) != (b->token < 0)) return b->token < 0;
    if (now == ENDS_WIN && (a->token < 0) != (b->token < 0)) return a->token < 0;
    if (now == MINUS_ZERO && a->logit == 0 && b->logit == 0 && a->parent == b->parent &&
        signbit(a->logit) != signbit(b->logit))
        return signbit(b->logit);
    if (now == BY_TOKEN && a->token != b->token) return a->token < b->token;
    if (a->parent != b->parent) return a->parent < b->parent;
    return a->logit != b->logit ? a->logit > b->logit : a->token < b->token;
}

static void enter(state *s, candidate c)
{
    int64_t       j = s->n_best;
    const int64_t room = now == WIDTH_16 && s->K > 16   ? 16
                         : now == WIDTH_64 && s->K > 64 ? 64
                                                        : s->K;
    if (j == room && !is_before(&c, &s->best[j - 1])) return;
    if (j == room) j--;
    else s->n_best++;
    for (; j > 0 && is_before(&c, &s->best[j - 1]); j--) s->best[j] = s->best[j - 1];
    s->best[j] = c;
}

static int32_t *text_of(const state *s, int bank, int64_t item, int64_t slot)
{
    return s->text[bank] + (item * s->K + slot) * s->stride;
}

static bool is_archived(const state *s)
{
    return now == ARCHIVE || (s->archive && now != A_SLOTS);
}

/* An archive is offered every end, and has room for the best K, in their order. */
static void put_aside(state *s, int64_t item, const beam *from, const int32_t *text, candidate c)
{
    const int64_t at = now == A_SHARED ? 0 : item, length = from->length + 1;
    beam *const   kept = s->kept + at * s->K;
    int64_t       n = s->n_kept[at], place = n, gone = n - 1;
    const bool    late = now == A_LAST_FIRST || now == A_LATE_ENTERS;
    if (s->archive && now == A_RAW) c.score = c.logprob;
    if (s->archive && now == A_WITHOUT_EOS)
        c.score = score_of(s, c.logprob, length > 1 ? length - 1 : 1, item);
    if (n == s->K) {
        if (now == A_NO_EVICTION) return;
        if (late ? c.score < kept[n - 1].score : !(c.score > kept[n - 1].score)) return;
        if (now == A_EVICTS_BEST) gone = 0;
        for (int64_t i = 0; i < n && now == A_EVICTS_OLDEST; i++)
            if (kept[i].length < kept[gone].length) gone = i;
        place = kept[gone].row;
        for (int64_t i = gone; i + 1 < n; i++) kept[i] = kept[i + 1];
        n--;
    }
    int64_t k = n;
    for (; k > 0 &&
           (c.score > kept[k - 1].score || (now == A_LAST_FIRST && c.score == kept[k - 1].score));
         k--)
        kept[k] = kept[k - 1];
    kept[k] = (beam) { c.logprob, c.score, length, place, true };
    s->n_kept[at] = n + 1;
    int32_t *const to = s->kept_text + (at * s->K + place) * s->stride;
    memcpy(to, text + s->a->prompt_len[item], (size_t)from->length * sizeof *text);
    to[from->length] = c.token;
}

/* Whether no beam, were the rest of its tokens certain, could enter a full archive. */
static bool is_hopeless(const state *s, int64_t item, int bank)
{
    const int64_t at = now == A_SHARED ? 0 : item;
    const beam   *b = s->beam[bank] + item * s->K, *kept = s->kept + at * s->K;
    if (s->n_kept[at] < s->K || now == A_NEVER_STOPS) return false;
    if (now == A_FULL_STOPS) return true;
    for (int64_t j = 0; j < s->n_beam[item]; j++) {
        const int64_t length = now == A_HOPE_NOW ? b[j].length : s->T;
        if (score_of(s, b[j].logprob, length, item) > kept[now == A_HOPE_BEST ? 0 : s->K - 1].score)
            return false;
    }
    return true;
}

static void enter_extensions(state *s, int64_t item, int bank, int64_t parent)
{
    const beam  *b = s->beam[bank] + item * s->K + parent;
    const float *x = s->logits + b->row * s->V;
    candidate    first = { .token = -1 };
    for (int64_t t = 0; t < s->V; t++) {
        if (x[t] == -INFINITY && now != MASKED_TOO) continue;
        if (now == MASK_1E4 && x[t] < -1e4F) continue;
        const bool    ends = t == s->a->d.eos;
        const double  logprob = logprob_of(s, b, t);
        const int64_t length = b->length + !(now == FREE_EOS && ends);
        candidate     c = { logprob, score_of(s, logprob, length, item), x[t], parent, (int32_t)t };
        if (now == FREE_EOS && ends && b->length == 0) c.score = logprob;
        if (now == NEVER_EVICTED && ends) c.score = INFINITY; /* there for good */
        if (is_archived(s) && ends) {
            if (now != A_ONE_A_STEP || !parent)
                put_aside(s, item, b, text_of(s, bank, item, parent), c);
            if (now != A_HOLDS_SLOT) continue;
        }
        if (now != ONE_TOKEN || first.token < 0 || is_before(&c, &first)) first = c;
        if (now != ONE_TOKEN) enter(s, c);
    }
    if (now == ONE_TOKEN && first.token >= 0) enter(s, first);
}

static void take_over(state *s, int64_t item, int bank)
{
    const beam *from = s->beam[bank] + item * s->K;
    int64_t     n = 0;
    for (int64_t j = 0; j < s->n_best; j++) {
        const candidate *c = &s->best[j];
        beam            *b = &s->beam[!bank][item * s->K + n];
        int32_t         *text = text_of(s, !bank, item, n);
        *b = from[c->parent];
        memcpy(text, text_of(s, bank, item, c->parent), (size_t)s->stride * sizeof *text);
        if (c->token >= 0) {
            text[s->a->prompt_len[item] + b->length++] =
                now == TOKENS_16 ? (uint16_t)c->token : c->token;
            b->logprob = c->logprob;
            b->score = now == NEVER_EVICTED ? score_of(s, c->logprob, b->length, item) : c->score;
            b->finished = c->token == s->a->d.eos && now != AFTER_EOS;
        }
        if (b->finished && now == ENDS_REMOVED && n + 1 < s->n_best) continue;
        n++;
    }
    s->n_beam[item] = n;
}

static void advance(state *s, int64_t item, int bank, int64_t step)
{
    const beam *b = s->beam[bank] + item * s->K;
    if (!(now == ONE_POOL && item)) s->n_best = 0; /* else the last item's stay in the way */
    if (now == ONE_POOL && s->n_best > 1) s->n_best = 1, s->best[0].parent = 0;
    for (int64_t j = 0; j < s->n_beam[item]; j++) {
        candidate c = { b[j].logprob, b[j].score, 0, j, -1 };
        if (now == ENDS_AGE) c.score = score_of(s, b[j].logprob, step + 1, item);
        if (now == NEVER_EVICTED) c.score = INFINITY;
        if (b[j].finished) enter(s, c);
        else enter_extensions(s, item, bank, j);
    }
    take_over(s, item, bank);
    if (s->archive && now != A_SLOTS) s->stopped[item] = is_hopeless(s, item, !bank);
    if (now == STOPS_AT_BEST) s->stopped[item] = s->beam[!bank][item * s->K].finished;
}

/* ---- steps ---- */

static void start(state *s)
{
    const int32_t *prompt = s->a->prompts;
    memset(s->text[0], 0, (size_t)(s->n * s->K * s->stride) * sizeof *s->text[0]);
    for (int64_t i = 0; i < s->n; i++) {
        s->n_beam[i] = now == COPIES ? s->K : 1;
        s->n_kept[i] = 0;
        s->stopped[i] = false;
        for (int64_t j = 0; j < s->n_beam[i]; j++) {
            s->beam[0][i * s->K + j] = (beam) { 0 };
            memcpy(text_of(s, 0, i, j), prompt, (size_t)s->a->prompt_len[i] * sizeof *prompt);
            for (int64_t k = 128; k < s->a->prompt_len[i] && now == PROMPT_128; k++)
                text_of(s, 0, i, j)[k] = 0;
        }
        prompt += s->a->prompt_len[i];
    }
}

static bool runs(const state *s, int64_t item, int bank)
{
    bool any = false;
    for (int64_t j = 0; j < s->n_beam[item]; j++) any |= !s->beam[bank][item * s->K + j].finished;
    return any && !s->stopped[item];
}

/* False: no beam is left to extend. */
static bool list_rows(state *s, int bank, int64_t from, int64_t to)
{
    int64_t most = 0;
    s->n_rows = 0;
    for (int64_t i = from; i < to; i++) {
        if (now == ONE_STOPS_ALL && !runs(s, i, bank)) return false;
        for (int64_t j = 0; j < s->n_beam[i] && (runs(s, i, bank) || now == WAITS); j++) {
            beam *const b = &s->beam[bank][i * s->K + j];
            b->row = now == ROW_BY_SLOT && j > 0 ? b[-1].row + 1 : s->n_rows;
            if (b->finished && now != WAITS) continue;
            s->len[s->n_rows] = s->a->prompt_len[i] + b->length;
            if (s->len[s->n_rows] > most) most = s->len[s->n_rows];
            s->string[s->n_rows++] = text_of(s, bank, i, j);
        }
    }
    for (int64_t r = 0; r < s->n_rows && now == PADS_SEEN; r++) s->len[r] = most;
    return s->n_rows > 0;
}

/* The search from here on, for the items from `from` to `to`. */
static ts_status steps(state *s, int64_t from, int64_t to, int *bank)
{
    const ts_model *m = s->a->model;
    for (int64_t t = 0; t < s->T; t++, *bank = !*bank) {
        bool any = false;
        for (int64_t i = from; i < to; i++) any |= runs(s, i, *bank);
        if (!any || !list_rows(s, *bank, from, to)) break;
        if (m->next(m->self, s->n_rows, s->len, s->string, s->logits) && now != FAILURE_PASSES &&
            now != A_FAILURE)
            return TS_E_MODEL;
        if (now == ROW_BY_SLOT)
            for (int64_t r = s->n_rows; r < (to - from) * s->K && r > 0; r++)
                memcpy(s->logits + r * s->V, s->logits + (r - 1) * s->V,
                       (size_t)s->V * sizeof *s->logits);
        if (now == ROW_BY_SLOT) s->n_rows = (to - from) * s->K;
        if (!reduce(s)) return TS_E_MODEL;
        for (int64_t i = from; i < to; i++) {
            if (runs(s, i, *bank)) {
                advance(s, i, *bank, t);
                continue;
            }
            memcpy(s->beam[!*bank] + i * s->K, s->beam[*bank] + i * s->K,
                   (size_t)s->K * sizeof(beam));
            memcpy(text_of(s, !*bank, i, 0), text_of(s, *bank, i, 0),
                   (size_t)(s->K * s->stride) * sizeof(int32_t));
        }
    }
    return TS_OK;
}

/* ---- results ---- */

static void answer(const state *s, int64_t item, int64_t rank, const beam *b, const int32_t *text)
{
    const int64_t at = item * s->K + rank;
    for (int64_t t = 0; t < s->T; t++) {
        if (b && t < b->length) s->a->tokens[at * s->T + t] = text[t];
        else if (now != TAIL) s->a->tokens[at * s->T + t] = -1;
    }
    const double none = now == UNUSED_ZERO ? 0 : -INFINITY;
    const double rescored = b ? b->logprob / pow((double)b->length, s->a->d.alpha) : 0;
    s->a->length[at] = b ? b->length - (now == WITHOUT_EOS && b->finished) : 0;
    s->a->logprob[at] = b ? b->logprob : none;
    s->a->score[at] = !b ? none : now == RAW_SUM ? rescored : b->score;
    s->a->finished[at] = b && b->finished;
}

/* The beams by rank; with an archive, the best of both, it first among equals. */
static void finish(state *s, int64_t item, int bank)
{
    const int64_t at = now == A_SHARED ? 0 : item, n_kept = s->n_kept[at];
    const beam   *b = s->beam[bank] + item * s->K, *kept = s->kept + at * s->K;
    const bool    none = (now == EMPTY_NONE && s->T == 0) || (now == A_ENDS_ONLY && s->archive);
    int64_t       n = none ? 0 : s->n_beam[item], j = 0, k = 0, rank = 0;
    while (rank < s->K && (j < n || k < n_kept)) {
        const bool first =
            j == n || (s->archive && now == A_ENDS_FIRST) ||
            (k < n_kept && (kept[k].score > b[j].score ||
                            (s->archive && now != A_BEAMS_FIRST && kept[k].score == b[j].score)));
        if (k < n_kept && first) {
            answer(s, item, rank++, &kept[k], s->kept_text + (at * s->K + kept[k].row) * s->stride);
            k++;
        } else {
            answer(s, item, rank++, &b[j], text_of(s, bank, item, j) + s->a->prompt_len[item]);
            j++;
        }
    }
    s->a->n_found[item] = rank;
    for (; rank < s->K; rank++) answer(s, item, rank, NULL, NULL);
}

static ts_status run(const void *args, const ts_exec *x, bool archive)
{
    state     s;
    int       bank = 0;
    ts_status status = args && x ? check(args) : TS_E_ARG;
    if (status) return status;
    if (x->device != TS_CPU) return TS_E_UNSUPPORTED;
    const size_t need = lay_out(&s, args, NULL);
    const bool   any = archive && now == A_NO_SPACE && x->workspace;
    if ((!x->workspace || x->workspace_bytes < need) && !any) return TS_E_WORKSPACE;
    lay_out(&s, args, (char *)x->workspace + (16 - (uintptr_t)x->workspace % 16));
    s.archive = archive;
    start(&s);
    if (now == WRITES_FIRST || (archive && now == A_WRITES_FIRST))
        for (int64_t i = 0; i < s.n; i++) finish(&s, i, 0);
    if (now == CALL_AN_ITEM)
        for (int64_t i = 0; i < s.n && !status; i++) {
            bank = 0;
            status = steps(&s, i, i + 1, &bank);
            if (!status) finish(&s, i, bank);
        }
    else status = steps(&s, 0, s.n, &bank);
    if (status || now == CALL_AN_ITEM) return status;
    for (int64_t i = 0; i < (now == ITEMS_32 && s.n > 32 ? 32 : s.n); i++) finish(&s, i, bank);
    if (now == BY_THREADS && x->n_threads != 1 && s.n) s.a->logprob[0] *= 1 + 0x1p-50;
    return TS_OK;
}

static ts_status search(const void *args, const ts_exec *x)
{
    return run(args, x, false);
}

static ts_status archive(const void *args, const ts_exec *x)
{
    return run(args, x, true);
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    state           s;
    const ts_status status = check(args);
    (void)x;
    if (!status) *n_bytes = lay_out(&s, args, NULL);
    return status;
}

static const ts_beam_table table = { search, archive, workspace, workspace };

#define STEM  beam_search
#define TABLE ts_beam_table
#include "played.h"
