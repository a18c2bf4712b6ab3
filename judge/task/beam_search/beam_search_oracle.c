/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_oracle.c - beam search by its definition: every step calls the model with whole
 * strings and sorts one pool of everything. Sums are wider than the double that is judged. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_inside.h"
#include "real.h"
#include "rng.h"

typedef struct beam {
    ts_real logprob, score;
    int64_t length;
    bool    finished;
} beam;

/* One of the pool: a finished beam (token -1), or a beam and a token. */
typedef struct member {
    ts_real  logprob, score;
    float    logit;
    int64_t  parent;
    int32_t  token;
    int64_t  rank; /* of the first string told that it begins; as many as there are: of none */
    uint64_t draw; /* orders the rest */
} member;

typedef struct search {
    const ts_case *c;
    ts_toy         m;
    int64_t        n_vocab, width, steps;
    int32_t        eos;
    double         alpha, margin;
    float         *logits;
    double        *power; /* noise: of e, GRID a whole one; else NULL */
    member        *pool;  /* the best so far, one more than are kept */
    int64_t        n_pool;
    beam          *beam, *after;      /* of one item */
    int32_t       *text, *text_after; /* [width][n_prompt + steps] */
    int64_t        n_prompt, n_beam;
    double        *calls; /* [steps]: strings */
    uint64_t      *sum;   /* [steps]: of what is kept of them */
    bool           nonfinite;
    bool           archive;   /* the other search: ends are kept aside, the best first */
    member        *kept;      /* whose parent is the place of its text */
    int32_t       *kept_text; /* [width][steps] */
    int64_t       *kept_length, n_kept;
    const int32_t *told; /* of the item at hand, [width][steps]; NULL: nothing */
    uint64_t       order;
} search;

static void *get(int64_t n, size_t each)
{
    void *p = calloc((size_t)n + 1, each);
    if (!p) abort();
    return p;
}

/* ---- a row ---- */

/* Above its maximum, which is given back; NaN: the row is none. */
static ts_real log_sum_of(const float *x, int64_t n, float *max)
{
    ts_real sum = { 0, 0 };
    *max = -INFINITY;
    for (int64_t t = 0; t < n; t++) {
        if (isnan(x[t]) || x[t] == INFINITY) return ts_real_of(NAN);
        if (x[t] > *max) *max = x[t];
    }
    if (*max == -INFINITY) return ts_real_of(NAN);
    for (int64_t t = 0; t < n; t++)
        ts_real_gather(&sum, ts_real_of(ts_exp64((double)x[t] - (double)*max)));
    return ts_real_log(ts_real_gathered(sum));
}

/* Rows of the timed model are many, long and near 0: a power of e from a table, and a series for
 * the rest r, |r| <= 2^-7. With u = 2^-53, what is left out of the series is below r^6 / 600 < 4 u
 * of a term, its arithmetic and the table err by less than 4 u, and BLOCK terms that are added in
 * pairs by 6 u more. Blocks are gathered. So the logarithm errs by less than 14 u, 1.6e-15; a
 * token may be off by 1e-12. */
enum { BLOCK = 64, GRID = 64, REACH = 32 };

static double sum_of_block(const double *power, const float *x)
{
    double e[BLOCK], rest[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        const float k = (x[i] * GRID + 0x1.8p23F) - 0x1.8p23F; /* the nearest whole number */
        e[i] = power[(int)k];
        rest[i] = (double)(x[i] - k / GRID); /* exact */
    }
    for (int i = 0; i < BLOCK; i++) {
        const double r = rest[i];
        e[i] *= 1 + r * (1 + r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120)))));
    }
    for (int n = BLOCK / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++) e[i] += e[i + n];
    return e[0];
}

static ts_real log_sum_of_noise(const double *power, const float *x, int64_t n)
{
    ts_real sum = { 0, 0 };
    int64_t t = 0;
    for (; t + BLOCK <= n; t += BLOCK)
        ts_real_gather(&sum, ts_real_of(sum_of_block(power + REACH * GRID, x + t)));
    for (; t < n; t++) ts_real_gather(&sum, ts_real_of(ts_exp64(x[t])));
    return ts_real_log(ts_real_gathered(sum));
}

/* The logits after beam b, and log sum exp in two parts. */
static ts_real ask(search *s, int64_t b, float *max)
{
    const int32_t *text = s->text + b * (s->n_prompt + s->steps);
    const int64_t  len = s->n_prompt + s->beam[b].length;
    if (ts_toy_next(&s->m, len, text, s->logits)) s->logits[0] = NAN;
    if (!s->power) return log_sum_of(s->logits, s->n_vocab, max);
    *max = 0;
    return log_sum_of_noise(s->power, s->logits, s->n_vocab);
}

/* ---- the pool ---- */

static bool is_before(const member *a, const member *b)
{
    if (ts_real_less(a->score, b->score) || ts_real_less(b->score, a->score))
        return ts_real_less(b->score, a->score);
    if (a->rank != b->rank) return a->rank < b->rank;
    if (a->draw != b->draw) return a->draw < b->draw;
    if (a->parent != b->parent) return a->parent < b->parent;
    if (a->logit != b->logit) return a->logit > b->logit;
    return a->token < b->token;
}

static void enter(search *s, const member *m)
{
    int64_t j = s->n_pool;
    if (j > s->width && !is_before(m, &s->pool[j - 1])) return;
    if (j > s->width) j--;
    else s->n_pool++;
    for (; j > 0 && is_before(m, &s->pool[j - 1]); j--) s->pool[j] = s->pool[j - 1];
    s->pool[j] = *m;
}

/* The first string told that begins with beam b and the token; with token -1, that is beam b. */
static int64_t rank_of(const search *s, int64_t b, int32_t token)
{
    const int64_t  length = s->beam[b].length;
    const int32_t *text = s->text + b * (s->n_prompt + s->steps) + s->n_prompt;
    int64_t        k = 0;
    for (; s->told && k < s->width; k++) {
        const int32_t *told = s->told + k * s->steps;
        if (memcmp(told, text, (size_t)length * sizeof *text)) continue;
        if (length == s->steps ? token < 0 : told[length] == token) break;
    }
    return k;
}

static member join(const search *s, int64_t b, int32_t token, ts_real logprob, ts_real score,
                   float logit)
{
    const uint64_t order = s->order ? ts_bits(s->order, b * (s->n_vocab + 1) + token) : 0;
    return (member) { logprob, score, logit, b, token, rank_of(s, b, token), order };
}

/* An end of beam b is offered to the archive: among equals it comes after those that are there. */
static void offer(search *s, int64_t b, member m)
{
    const int64_t T = s->steps, length = s->beam[b].length;
    int64_t       j = s->n_kept, place = j;
    for (int64_t i = 0; i < s->n_kept; i++)
        s->margin = fmin(s->margin, fabs(ts_real_sub(s->kept[i].score, m.score).hi));
    m.draw = 0, m.logit = 0, m.token = 0, m.parent = INT64_MAX; /* after its equals */
    if (j == s->width) {
        if (!is_before(&m, &s->kept[j - 1])) return;
        place = s->kept[--j].parent;
    }
    s->n_kept = j + 1;
    for (; j > 0 && is_before(&m, &s->kept[j - 1]); j--) s->kept[j] = s->kept[j - 1];
    s->kept[j] = m;
    s->kept[j].parent = place;
    s->kept_length[place] = length + 1;
    memcpy(s->kept_text + place * T, s->text + b * (s->n_prompt + T) + s->n_prompt,
           (size_t)length * sizeof *s->text);
    s->kept_text[place * T + length] = s->eos;
}

/* All extensions of beam b; but those are passed over whose logit is clearly too small for the
 * pool.
 */
static void enter_extensions(search *s, int64_t b, ts_real penalty)
{
    float         max;
    const ts_real log_sum = ask(s, b, &max), parent = s->beam[b].logprob;
    double        least = -INFINITY;
    s->nonfinite |= isnan(log_sum.hi);
    for (int64_t t = 0; t < s->n_vocab && !s->nonfinite; t++) {
        const bool end = s->archive && t == s->eos;
        if (s->logits[t] == -INFINITY || (s->logits[t] < least && !end)) continue;
        const ts_real above = ts_real_sub(ts_real_sum(s->logits[t], -max), log_sum);
        const ts_real logprob = ts_real_add(parent, above);
        const member  m =
            join(s, b, (int32_t)t, logprob, ts_real_div(logprob, penalty), s->logits[t]);
        if (end) {
            offer(s, b, m);
            continue;
        }
        enter(s, &m);
        if (s->n_pool <= s->width) continue;
        const double last = ts_real_sub(ts_real_mul(s->pool[s->width].score, penalty), parent).hi;
        least = last + max + log_sum.hi - 1e-6 * (1 + fabs(last));
    }
}

/* Of one beam the logits decide, which nothing rounds: they are equal or clear. */
static void measure(search *s)
{
    for (int64_t i = 1; i < s->n_pool; i++) {
        const member *a = &s->pool[i - 1], *b = &s->pool[i];
        if (a->parent == b->parent && a->logit != b->logit) continue;
        s->margin = fmin(s->margin, ts_real_sub(a->score, b->score).hi);
    }
}

/* The pool's best become the beams. */
static void keep_best(search *s)
{
    const int64_t stride = s->n_prompt + s->steps;
    const int64_t n = s->n_pool < s->width ? s->n_pool : s->width;
    for (int64_t i = 0; i < n; i++) {
        const member *m = &s->pool[i];
        beam         *b = &s->after[i];
        *b = s->beam[m->parent];
        memcpy(s->text_after + i * stride, s->text + m->parent * stride,
               (size_t)stride * sizeof *s->text);
        if (m->token < 0) continue;
        s->text_after[i * stride + s->n_prompt + b->length++] = m->token;
        b->logprob = m->logprob, b->score = m->score;
        b->finished = m->token == s->eos;
    }
    beam    *beams = s->beam;
    int32_t *text = s->text;
    s->beam = s->after, s->after = beams;
    s->text = s->text_after, s->text_after = text;
    s->n_beam = n;
}

/* Whether the archive is full, and no beam could enter it, were the rest of its tokens certain. */
static bool is_hopeless(search *s)
{
    const ts_real most = ts_real_pow((double)s->steps, s->alpha);
    bool          hope = false;
    if (!s->archive || s->n_kept < s->width) return false;
    for (int64_t b = 0; b < s->n_beam; b++) {
        const ts_real best = ts_real_div(s->beam[b].logprob, most);
        const ts_real above = ts_real_sub(best, s->kept[s->width - 1].score);
        s->margin = fmin(s->margin, fabs(above.hi));
        hope |= above.hi > 0;
    }
    return !hope;
}

/* Archive and beams become the beams: it comes first among equals. */
static void merge(search *s)
{
    const int64_t stride = s->n_prompt + s->steps, T = s->steps;
    int64_t       j = 0, k = 0, n = 0;
    for (; n < s->width && (j < s->n_beam || k < s->n_kept); n++) {
        int32_t *const text = s->text_after + n * stride;
        bool           first = j == s->n_beam;
        if (j < s->n_beam && k < s->n_kept) {
            const ts_real above = ts_real_sub(s->kept[k].score, s->beam[j].score);
            s->margin = fmin(s->margin, fabs(above.hi));
            first = above.hi > 0 || (above.hi == 0 && s->kept[k].rank <= rank_of(s, j, -1));
        }
        if (first) {
            const member *m = &s->kept[k++];
            s->after[n] = (beam) { m->logprob, m->score, s->kept_length[m->parent], true };
            memcpy(text + s->n_prompt, s->kept_text + m->parent * T, (size_t)T * sizeof *text);
        } else {
            memcpy(text, s->text + j * stride, (size_t)stride * sizeof *text);
            s->after[n] = s->beam[j++];
        }
    }
    beam    *beams = s->beam;
    int32_t *text = s->text;
    s->beam = s->after, s->after = beams;
    s->text = s->text_after, s->text_after = text;
    s->n_beam = n;
}

/* False: the item has stopped. */
static bool advance(search *s, int64_t step)
{
    const ts_real penalty = ts_real_pow((double)(step + 1), s->alpha);
    const int64_t stride = s->n_prompt + s->steps;
    bool          any = false;
    s->n_pool = 0;
    for (int64_t b = 0; b < s->n_beam; b++) any |= !s->beam[b].finished;
    for (int64_t b = 0; b < s->n_beam && any; b++) {
        const beam *p = &s->beam[b];
        if (p->finished) {
            const member m = join(s, b, -1, p->logprob, p->score, 0);
            enter(s, &m);
            continue;
        }
        s->calls[step]++;
        s->sum[step] += ts_toy_string(s->n_prompt + p->length, s->text + b * stride);
        enter_extensions(s, b, penalty);
    }
    if (!any || s->nonfinite) return false;
    measure(s);
    keep_best(s);
    return !is_hopeless(s);
}

static void search_item(search *s, const int32_t *prompt, int64_t n_prompt)
{
    const size_t n = (size_t)(s->width * (n_prompt + s->steps) + 1) * sizeof *s->text;
    free(s->text), free(s->text_after);
    s->text = get((int64_t)n, 1), s->text_after = get((int64_t)n, 1);
    memcpy(s->text, prompt, (size_t)n_prompt * sizeof *prompt);
    s->n_prompt = n_prompt;
    s->n_beam = 1;
    s->n_kept = 0;
    s->beam[0] = (beam) { 0 };
    for (int64_t t = 0; t < s->steps && advance(s, t); t++) {}
    if (s->archive && !s->nonfinite) merge(s);
}

/* ---- wants ---- */

static void want(ts_want *w, double value, double bound)
{
    *w = (ts_want) { value, bound };
}

/* How far a log-probability may be off: 1e-12 for each of its tokens. Where logits are far from 0,
 * a double that holds the maximum and the logarithm together is off by more, and not wrong. */
static double room(const search *s, int64_t length)
{
    return (strcmp(s->c->family, "offset") ? 1e-12 : 8e-12) * (double)length;
}

static void want_item(const search *s, int64_t item, ts_want *w)
{
    const int64_t K = s->width, T = s->steps, n = s->c->dim[ITEMS];
    ts_want      *tokens = w + item * K * T, *logprob = w + n * K * T + item * K;
    ts_want      *score = logprob + n * K, *beams = w + n * K * (T + 2) + item * (2 * K + 1);
    for (int64_t i = 0; i < K; i++) {
        const bool     is = i < s->n_beam;
        const beam     none = { { -INFINITY, 0 }, { -INFINITY, 0 }, 0, false };
        const beam    *b = is ? &s->beam[i] : &none;
        const double   penalty = b->length ? ts_pow64((double)b->length, s->alpha) : 1;
        const double   value = b->score.hi;
        const int32_t *text = s->text + (is ? i : 0) * (s->n_prompt + T) + s->n_prompt;
        for (int64_t t = 0; t < T; t++) want(&tokens[i * T + t], t < b->length ? text[t] : -1, 0);
        want(&logprob[i], b->logprob.hi, room(s, b->length));
        /* A power, a division and the rounding of both. */
        want(&score[i], value, is ? room(s, b->length) / penalty + 0x1p-50 * fabs(value) : 0);
        want(&beams[i], (double)b->length, 0);
        want(&beams[K + i], b->finished, 0);
    }
    want(&beams[2 * K], (double)s->n_beam, 0);
}

/* Steps, then the number of the model's calls, and the status. After an invalid row the model is
 * not called again, and nothing is written. */
static void want_calls(const search *s, ts_want *w)
{
    const int64_t n = s->c->dim[ITEMS] * s->width, before = n * (s->steps + 4) + s->c->dim[ITEMS];
    ts_want      *calls = w + before;
    double        n_calls = 0;
    for (int64_t i = 0; i < before && s->nonfinite; i++) want(&w[i], 0, INFINITY);
    for (int64_t t = 0; t < s->steps; t++, calls += TS_BEAM_SEEN) {
        n_calls += s->calls[t] > 0;
        want(&calls[0], s->calls[t], 0);
        want(&calls[1], (double)(uint32_t)s->sum[t], 0);
        want(&calls[2], (double)(s->sum[t] >> 32), 0);
    }
    const double more[] = { n_calls, 0, 0, s->nonfinite ? TS_E_MODEL : TS_OK, 0, 0 };
    for (int i = 0; i < TS_BEAM_SEEN * TS_BEAM_SEEN_MORE; i++) want(&calls[i], more[i], 0);
}

bool ts_beam_is_sound(const ts_case *c, const ts_want *w)
{
    return c->dim[ITEMS] == 0 || w[0].bound != INFINITY;
}

/* An invalid row ends the whole search in the step in which it comes up. Items do not meet, so they
 * are searched one after the other; what the step of the first invalid row would have been for the
 * others is all the same, since every string of a nonfinite case is of one length. */
double ts_beam_solve(const ts_case *c, const ts_toy *m, const int32_t *prompts,
                     const ts_beam_told *told, ts_want *w)
{
    const int64_t n = c->dim[ITEMS], K = c->dim[WIDTH], T = c->dim[STEPS], V = c->dim[VOCAB];
    const int64_t n_power = c->dim[MODEL] == TS_TOY_NOISE ? 2 * REACH * GRID : 0;
    search        s = { .c = c, .m = *m, .n_vocab = V, .width = K, .steps = T };
    s.alpha = (double)c->dim[ALPHA] / 100;
    s.eos = (int32_t)c->dim[EOS];
    s.archive = ts_beam_is_archive(c);
    s.kept = get(K, sizeof *s.kept), s.kept_length = get(K, sizeof *s.kept_length);
    s.kept_text = get(K * T, sizeof *s.kept_text);
    s.margin = INFINITY;
    s.logits = get(V, sizeof *s.logits);
    s.pool = get(K + 1, sizeof *s.pool);
    s.beam = get(K, sizeof *s.beam), s.after = get(K, sizeof *s.after);
    s.calls = get(T, sizeof *s.calls), s.sum = get(T, sizeof *s.sum);
    if (n_power) s.power = get(n_power, sizeof *s.power);
    for (int64_t i = 0; i < n_power; i++) s.power[i] = ts_exp64((double)i / GRID - REACH);
    bool nonfinite = false;
    for (int64_t i = 0; i < n; prompts += ts_beam_prompt_len(c, i++)) {
        s.nonfinite = false;
        if (told) s.told = told->tokens + i * K * T, s.order = told->order;
        search_item(&s, prompts, ts_beam_prompt_len(c, i));
        nonfinite |= s.nonfinite;
        if (w) want_item(&s, i, w);
    }
    s.nonfinite = nonfinite;
    if (w) want_calls(&s, w);
    void *const all[] = { s.logits, s.pool,  s.beam,       s.after, s.calls,     s.sum,
                          s.text,   s.power, s.text_after, s.kept,  s.kept_text, s.kept_length };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return s.margin;
}
