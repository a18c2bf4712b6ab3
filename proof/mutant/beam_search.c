/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.c - mutants of beam_search: the solution of proof/plain/, and an archive of
 * finished beams, which it lacks, with one injected bug at a time.
 *
 * beam_search_list.h lists them. */
#include "beam_search_script.h"

#include <stdbool.h>

#include "beam_search_list.h"
#include "mutant.h"

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;
static trap now;

#include "plain/number.h"

typedef ts_beam_search_args args;
struct beam;
struct candidate;
struct state;

static bool         is_archive; /* the search is that with an archive */
static struct beam *kept;       /* [items][width], the best first; row: where its text is */
static int32_t     *kept_text;  /* [items][width][stride] */
static int64_t     *n_kept;     /* [items] */
static bool        *stopped;    /* [items] */

#define HERE_lay_out                                                                               \
    kept = place(base, &used, rows, sizeof *kept);                                                 \
    kept_text = place(base, &used, rows * s->stride, sizeof *kept_text);                           \
    n_kept = place(base, &used, n, sizeof *n_kept);                                                \
    stopped = place(base, &used, n, sizeof *stopped)
#define HOOK_bad_alpha(ok) ((ok) && now != ANY_ALPHA && now != A_ANY_ALPHA)
#define HOOK_bad_eos(ok)   ((ok) && now != ANY_EOS && now != A_ANY_EOS)
#define HOOK_n_prompts(ok) (now == ANY_PROMPT ? 0 : (ok))
#define HOOK_checked(ok)   (now == TWICE_K && 2 * d->beam_width > V ? TS_E_SHAPE : (ok))

/* ---- scores ---- */

static double other_log_sum(double ok, const float *x, int64_t n, double max)
{
    double wide = 0;
    float  narrow = 0;
    for (int64_t t = 0; t < n && now == NO_MAX; t++) wide += exp(x[t]);
    for (int64_t t = 0; t < n && now == FLOAT_LSE; t++) narrow += expf(x[t] - (float)max);
    for (int64_t t = 0; t < n && now == DROPS_20; t++)
        if (x[t] > max - 20) wide += exp(x[t] - max);
    if (now == DROPS_20) return max + log(wide);
    return now == NO_MAX ? log(wide) : now == FLOAT_LSE ? max + (double)logf(narrow) : ok;
}

static double score_of(const args *a, double logprob, int64_t length, int64_t item)
{
    const double n = (double)length + (double)(now == PROMPT_COUNTED ? a->prompt_len[item] : 0);
    if (now == RAW_SUM || now == FOLDED || length == 0) return logprob;
    return logprob / pow(n, now == ALPHA_5 ? fmin(a->d.alpha, 5) : a->d.alpha);
}

static bool is_rescored(void)
{
    return now == PROMPT_COUNTED || now == RAW_SUM || now == FOLDED || now == ALPHA_5 ||
           now == FREE_EOS;
}

static double other_logprob(double ok, const args *a, const struct beam *b, double x,
                            double log_sum, int64_t t);
static int    other_tie(const struct candidate *a, const struct candidate *b);

#define HOOK_nonfinite(ok)                                                                         \
    (now != NONFINITE_PASSES && (ok) && !(isnan(x[t]) ? now == NAN_PASSES : now == INF_PASSES))
#define HOOK_none(ok)    ((ok) && now != NONFINITE_PASSES && now != NONE_PASSES)
#define HOOK_log_sum(ok) other_log_sum(ok, x, n, max)
#define HOOK_logprob(ok) other_logprob(ok, a, &b[j], x[t], s->log_sum[b[j].row], t)
#define HOOK_score(ok)                                                                             \
    (now == NEVER_EVICTED && t == a->d.eos ? INFINITY /* there for good */                         \
     : is_rescored()                                                                               \
         ? score_of(a, logprob, b[j].length + !(now == FREE_EOS && t == a->d.eos), item)           \
         : (ok))
#define HOOK_end_score(ok)                                                                         \
    (now == ENDS_AGE        ? score_of(a, b[j].logprob, other_length(a, s, item), item)            \
     : now == NEVER_EVICTED ? INFINITY                                                             \
                            : (ok))
#define HERE_compare                                                                               \
    if (now == CLOSE_IS_EQUAL && a->parent != b->parent &&                                         \
        fabs(a->score - b->score) < 1e-7 * fabs(a->score))                                         \
        return a->parent < b->parent;                                                              \
    if (now == NEAR_IS_EQUAL && fabs(a->score - b->score) < 1e-7) return a->token < b->token
#define HERE_tie                                                                                   \
    if (other_tie(a, b) >= 0) return other_tie(a, b)

/* ---- the pool ---- */

static int64_t other_length(const args *a, const struct state *s, int64_t item);
static int64_t shared_pool(struct state *s, int64_t item);
static bool    is_entered(const args *a, struct state *s, int64_t item, struct candidate c);
static void    enter_first(const args *a, struct state *s);
static void    end_step(const args *a, struct state *s, int64_t item);

#define HOOK_width(ok)                                                                             \
    (now == WIDTH_16 && (ok) > 16 ? 16 : now == WIDTH_64 && (ok) > 64 ? 64 : (ok))
#define HOOK_n_best(ok) (now == ONE_POOL ? shared_pool(s, item) : (ok))
#define HOOK_masked(ok)                                                                            \
    (((ok) && now != MASKED_TOO) || (now == MASK_1E4 && x[t] < -1e4F) ||                           \
     (now == MASK_1E30 && x[t] < -1e30F))
#define HERE_candidate                                                                             \
    if (!is_entered(a, s, item, c)) continue
#define HERE_extended  enter_first(a, s)
#define HOOK_token(ok) (now == TOKENS_16 ? (uint16_t)(ok) : now == TOKENS_17 ? (ok)&0x1ffff : (ok))
#define HOOK_kept_score(ok)                                                                        \
    (now == NEVER_EVICTED ? score_of(a, c->logprob, to->length, item) : (ok))
#define HOOK_finished(ok) ((ok) && now != AFTER_EOS)
#define HERE_advanced     end_step(a, s, item)

/* ---- steps and answers ---- */

static int64_t   row_by_slot(const struct beam *b, int64_t slot, int64_t n);
static int64_t   other_list(const args *a, struct state *s, int64_t n);
static bool      any_runs(const args *a, const struct state *s);
static int64_t   copy_rows(const args *a, struct state *s, int64_t n);
static void      copy_beams(const args *a, struct state *s, int64_t item);
static void      answer_archive(const args *a, const struct state *s, int64_t item);
static ts_status search_items(const args *a, const ts_exec *x);

#define HOOK_idle(ok)   (now != WAITS && ((ok) || stopped[i]))
#define HOOK_row(ok)    (now == ROW_BY_SLOT ? row_by_slot(b, j, n) : (ok))
#define HOOK_listed(ok) other_list(a, s, ok)
#define HOOK_runs(ok)   (!stopped[item])
#define HOOK_tail(ok)   (now == TAIL && t >= b->length ? a->tokens[at * T + t] : (ok))
#define HOOK_length(ok) ((ok) - (now == WITHOUT_EOS && b->finished))
#define HOOK_last_score(ok)                                                                        \
    (now == RAW_SUM && b->length ? b->logprob / pow((double)b->length, a->d.alpha) : (ok))
#define HOOK_n_found(ok) (now == EMPTY_NONE && a->d.max_new_tokens == 0 ? 0 : (ok))
#define HOOK_unused(ok)  (now == UNUSED_ZERO ? 0 : (ok))
#define HERE_answer                                                                                \
    if ((is_archive && now != A_SLOTS) || now == ARCHIVE) {                                        \
        answer_archive(a, s, item);                                                                \
        return;                                                                                    \
    }
#define HOOK_short(ok) ((ok) && !(is_archive && now == A_NO_SPACE))
#define HERE_search                                                                                \
    if (now == CALL_AN_ITEM && a->d.n_items > 1) return search_items(a, x)
#define HERE_start                                                                                 \
    n_kept[i] = 0, stopped[i] = false;                                                             \
    memset(text_of(a, &s, 0, i, 0), 0, (size_t)(a->d.beam_width * s.stride) * sizeof *prompt)
#define HERE_started copy_beams(a, &s, i)
#define HERE_ready                                                                                 \
    for (int64_t i = 0; i < a->d.n_items; i++)                                                     \
        if (now == WRITES_FIRST || (is_archive && now == A_WRITES_FIRST)) answer(a, &s, i)
#define HOOK_done(ok)   ((ok) || !any_runs(a, &s))
#define HOOK_failed(ok) ((ok) && now != FAILURE_PASSES && now != A_FAILURE)
#define HOOK_n_rows(ok)                                                                            \
    (now == ROW_BY_SLOT ? copy_rows(a, &s, ok) : now == ROWS_1024 && (ok) > 1024 ? 1024 : (ok))
#define HOOK_n_answers(ok) (now == ITEMS_32 && (ok) > 32 ? 32 : (ok))
#define HERE_answered                                                                              \
    if (now == BY_THREADS && x->n_threads != 1 && a->d.n_items) a->logprob[0] *= 1 + 0x1p-50

static __typeof__(ts_beam_search)           search_beams;
static __typeof__(ts_beam_search_workspace) search_workspace;
#define ts_beam_search           search_beams
#define ts_beam_search_workspace search_workspace
#include "plain/beam_search.c"

/* ---- bugs that take more than a line ---- */

static double other_logprob(double ok, const args *a, const beam *b, double x, double log_sum,
                            int64_t t)
{
    const double alpha = a->d.alpha, n = (double)b->length;
    if (now == RAW_LOGITS) return b->logprob + x;
    if (now == LOG_OF_SOFTMAX) return b->logprob + log(exp(x - log_sum));
    if (now == FLOAT_SUMS) return (float)((float)b->logprob + (float)(x - log_sum));
    if (now == FREE_EOS && t == a->d.eos) return b->logprob;
    if (now == FOLDED) return ok / pow(n + 1, alpha) * (n > 0 ? pow(n, alpha) : 1);
    return ok;
}

/* Among equal scores: whether a comes first; -1: as it should be. */
static int other_tie(const candidate *a, const candidate *b)
{
    if (now == LAST_OF_EQUALS) return 1;
    if (now == ENDS_LOSE && (a->token < 0) != (b->token < 0)) return b->token < 0;
    if (now == ENDS_WIN && (a->token < 0) != (b->token < 0)) return a->token < 0;
    if (now == MINUS_ZERO && a->logit == 0 && b->logit == 0 && a->parent == b->parent &&
        signbit(a->logit) != signbit(b->logit))
        return signbit(b->logit) != 0;
    return now == BY_TOKEN && a->token != b->token ? a->token < b->token : -1;
}

/* Of the beams that are extended in this step. */
static int64_t other_length(const args *a, const state *s, int64_t item)
{
    const beam *b = s->beam[s->bank[item]] + item * a->d.beam_width;
    int64_t     most = 0;
    for (int64_t j = 0; j < s->n_beam[item]; j++)
        if (!b[j].finished && b[j].length > most) most = b[j].length;
    return most + 1;
}

/* The best of the item before stays in the way. */
static int64_t shared_pool(state *s, int64_t item)
{
    if (item == 0 || s->n_best == 0) return 0;
    s->best[0].parent = 0;
    return 1;
}

/* An archive is offered every end, and has room for the best, in their order. */
static void put_aside(const args *a, const state *s, int64_t item, candidate c)
{
    const int64_t at = now == A_SHARED ? 0 : item, K = a->d.beam_width, bank = s->bank[item];
    const beam   *from = s->beam[bank] + item * K + c.parent;
    const bool    late = now == A_LAST_FIRST || now == A_LATE_ENTERS;
    beam *const   to = kept + at * K;
    int64_t       n = n_kept[at], place = n, gone = n - 1, k;
    if (is_archive && now == A_RAW) c.score = c.logprob;
    if (is_archive && now == A_WITHOUT_EOS)
        c.score = score_of(a, c.logprob, from->length > 0 ? from->length : 1, item);
    if (n == K) {
        if (now == A_NO_EVICTION) return;
        if (late ? c.score < to[n - 1].score : !(c.score > to[n - 1].score)) return;
        if (now == A_EVICTS_BEST) gone = 0;
        for (int64_t i = 0; i < n && now == A_EVICTS_OLDEST; i++)
            if (to[i].length < to[gone].length) gone = i;
        place = to[gone].row;
        for (int64_t i = gone; i + 1 < n; i++) to[i] = to[i + 1];
        n--;
    }
    for (k = n; k > 0; k--) {
        const bool equal = now == A_LAST_FIRST && c.score == to[k - 1].score;
        if (!(c.score > to[k - 1].score) && !equal) break;
        to[k] = to[k - 1];
    }
    to[k] = (beam) { c.logprob, c.score, from->length + 1, place, 1 };
    n_kept[at] = n + 1;
    int32_t *const text = kept_text + (at * K + place) * s->stride;
    memcpy(text, text_of(a, s, bank, item, c.parent) + a->prompt_len[item],
           (size_t)from->length * sizeof *text);
    text[from->length] = c.token;
}

static candidate first = { .token = -1 }; /* the best of a beam, for ONE_TOKEN */

static bool is_entered(const args *a, state *s, int64_t item, candidate c)
{
    if (((is_archive && now != A_SLOTS) || now == ARCHIVE) && c.token == a->d.eos) {
        if (now != A_ONE_A_STEP || !c.parent) put_aside(a, s, item, c);
        if (now != A_HOLDS_SLOT) return false;
    }
    if (now != ONE_TOKEN) return true;
    if (first.token < 0 || is_before(&c, &first)) first = c;
    return false;
}

static void enter_first(const args *a, state *s)
{
    if (now == ONE_TOKEN && first.token >= 0) enter(a, s, first);
    first.token = -1;
}

/* Whether no beam, were the rest of its tokens certain, could enter a full archive. */
static bool is_hopeless(const args *a, const state *s, int64_t item)
{
    const int64_t K = a->d.beam_width, at = now == A_SHARED ? 0 : item;
    const beam   *b = s->beam[s->bank[item]] + item * K, *to = kept + at * K;
    if (n_kept[at] < K || now == A_NEVER_STOPS) return false;
    if (now == A_FULL_STOPS) return true;
    for (int64_t j = 0; j < s->n_beam[item]; j++) {
        const int64_t length = now == A_HOPE_NOW ? b[j].length : a->d.max_new_tokens;
        const double  least = to[now == A_HOPE_BEST ? 0 : K - 1].score;
        if (score_of(a, b[j].logprob, length, item) > least) return false;
    }
    return true;
}

static void end_step(const args *a, state *s, int64_t item)
{
    const int64_t bank = s->bank[item];
    beam *const   b = s->beam[bank] + item * a->d.beam_width;
    int64_t       n = 0;
    for (int64_t j = 0; j < s->n_best && now == ENDS_REMOVED; j++) {
        if (b[j].finished && n + 1 < s->n_best) continue;
        b[n] = b[j];
        memmove(text_of(a, s, bank, item, n++), text_of(a, s, bank, item, j),
                (size_t)s->stride * sizeof(int32_t));
    }
    if (now == ENDS_REMOVED) s->n_beam[item] = n;
    if (is_archive && now != A_SLOTS) stopped[item] = is_hopeless(a, s, item);
    if (now == STOPS_AT_BEST) stopped[item] = b[0].finished;
}

static int64_t row_by_slot(const beam *b, int64_t slot, int64_t n)
{
    for (int64_t j = 1; j <= slot; j++) n += b[-j].finished != 0;
    return n;
}

static bool any_runs(const args *a, const state *s)
{
    for (int64_t i = 0; i < a->d.n_items; i++)
        if (runs(a, s, i)) return true;
    return false;
}

static int64_t other_list(const args *a, state *s, int64_t n)
{
    int64_t most = 0;
    for (int64_t r = 0; r < n; r++)
        if (s->len[r] > most) most = s->len[r];
    for (int64_t r = 0; r < n && now == PADS_SEEN; r++) s->len[r] = most;
    for (int64_t i = 0; i < a->d.n_items && now == ONE_STOPS_ALL; i++)
        if (!runs(a, s, i)) return 0;
    return n;
}

/* Rows that the model has not given are those before them. */
static int64_t copy_rows(const args *a, state *s, int64_t n)
{
    const int64_t V = a->model->n_vocab, all = a->d.n_items * a->d.beam_width;
    for (int64_t r = n; r < all && r > 0; r++)
        memcpy(s->logits + r * V, s->logits + (r - 1) * V, (size_t)V * sizeof *s->logits);
    return all;
}

static void copy_beams(const args *a, state *s, int64_t item)
{
    const size_t bytes = (size_t)s->stride * sizeof(int32_t);
    int32_t     *text = text_of(a, s, 0, item, 0);
    for (int64_t k = 128; k < a->prompt_len[item] && now == PROMPT_128; k++) text[k] = 0;
    for (; s->n_beam[item] < a->d.beam_width && now == COPIES; s->n_beam[item]++) {
        beam *const b = &s->beam[0][item * a->d.beam_width];
        b[s->n_beam[item]] = b[0];
        memcpy(text_of(a, s, 0, item, s->n_beam[item]), text, bytes);
    }
}

/* The best of beams and archive; among equals the archive comes first. */
static void answer_archive(const args *a, const state *s, int64_t item)
{
    const int64_t at = now == A_SHARED ? 0 : item, K = a->d.beam_width, bank = s->bank[item];
    const int64_t n = now == A_ENDS_ONLY && is_archive ? 0 : s->n_beam[item];
    const beam   *b = s->beam[bank] + item * K, *to = kept + at * K;
    const beam    none = { -INFINITY, -INFINITY, 0, 0, 0 };
    int64_t       j = 0, k = 0;
    for (; j + k < K && (j < n || k < n_kept[at]);) {
        const bool equal = is_archive && now != A_BEAMS_FIRST;
        const bool ahead =
            k < n_kept[at] && (j == n || (is_archive && now == A_ENDS_FIRST) ||
                               to[k].score > b[j].score || (equal && to[k].score == b[j].score));
        if (ahead)
            put(a, item * K + j + k, &to[k], kept_text + (at * K + to[k].row) * s->stride), k++;
        else
            put(a, item * K + j + k, &b[j], text_of(a, s, bank, item, j) + a->prompt_len[item]),
                j++;
    }
    a->n_found[item] = j + k;
    for (int64_t r = j + k; r < K; r++) put(a, item * K + r, &none, NULL);
}

/* CALL_AN_ITEM: a search for each item. */
static ts_status search_items(const args *a, const ts_exec *x)
{
    ts_status s = TS_OK;
    args      one = *a;
    one.d.n_items = 1;
    for (int64_t i = 0; i < a->d.n_items && !s; i++) {
        const int64_t at = i * a->d.beam_width;
        one.prompt_len = a->prompt_len + i, one.n_found = a->n_found + i;
        one.tokens = a->tokens + at * a->d.max_new_tokens, one.length = a->length + at;
        one.logprob = a->logprob + at, one.score = a->score + at, one.finished = a->finished + at;
        s = search_beams(&one, x);
        one.prompts += a->prompt_len[i];
    }
    return s;
}

static ts_status search(const void *a, const ts_exec *x)
{
    is_archive = false;
    return search_beams(a, x);
}

static ts_status archive(const void *a, const ts_exec *x)
{
    is_archive = true;
    return search_beams(a, x);
}

static ts_status workspace(const void *a, const ts_exec *x, size_t *n_bytes)
{
    return search_workspace(a, x, n_bytes);
}

static const ts_beam_table table = { search, archive, workspace, workspace, NULL, NULL };

#define STEM  beam_search
#define TABLE ts_beam_table
#include "played.h"
