/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search_oracle.c - beam search by its definition: every step calls the model with whole
 * strings and sorts one pool of everything. Sums are wider than the double that is judged.
 *
 * By the usual contract a search may be in float. With u = 2^-24, kappa(n) = 8 + 2 sqrt(n) and V
 * tokens, log softmax(x) errs by u (kappa(V) + 16 + 2 log V) through the sum of exponentials, whose
 * own errors u |x - max| are log V at most on average; by 2 u |max| where maximum and logarithm are
 * held in one float; and by 2 u |x - max| for the differences. Where many logits are equal,
 * roundings are too: there the sum may err by twice what it does from left to right. Adding it to
 * its beam costs u of the sum. A score is off by the sum of these over its penalty, and by u (4 + 2
 * alpha log(length)) of itself. Such a search is right if each of its choices is, of scores that
 * may be off so far. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_inside.h"
#include "bound.h"
#include "real.h"
#include "rng.h"

typedef struct beam {
    ts_real logprob, score;
    double  error; /* how far logprob may be off */
    int64_t length;
    bool    finished;
} beam;

/* One of the pool: a finished beam (token -1), or a beam and a token. */
typedef struct member {
    ts_real  logprob, score, key; /* key: what it is sorted by */
    double   error, slack;        /* how far logprob may be off, and in float the score */
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
    bool           in_float;
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

/* Two scores that are so far apart decide something. */
static void note(search *s, double difference, double slack)
{
    s->margin = fmin(s->margin, fabs(difference) - slack);
}

static bool is_before(const member *a, const member *b)
{
    if (ts_real_less(a->key, b->key) || ts_real_less(b->key, a->key))
        return ts_real_less(b->key, a->key);
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

/* How far a score may be off in float. */
static double slack_of(const search *s, double error, double score, int64_t length)
{
    const double n = length > 0 ? (double)length : 1;
    return error / ts_pow64(n, s->alpha) + 0x1p-24 * (4 + 2 * s->alpha * ts_log64(n)) * fabs(score);
}

/* What is sorted: what was told comes first, as far as its score may be off. Of the others order 0
 * takes each for as small as it may be, and others draw it. */
static ts_real key_of(const search *s, ts_real score, double slack, int64_t rank, uint64_t draw)
{
    const double part = rank < s->width ? 1 : draw ? (double)(draw >> 11) * 0x1p-52 - 1 : -1;
    return s->in_float ? ts_real_add(score, ts_real_of(part * slack)) : score;
}

static member join(const search *s, int64_t b, int32_t token, ts_real logprob, ts_real score,
                   float logit, double error)
{
    const uint64_t order = s->order ? ts_bits(s->order, b * (s->n_vocab + 1) + token) : 0;
    const double   slack =
        s->in_float ? slack_of(s, error, score.hi, s->beam[b].length + (token >= 0)) : 0;
    const int64_t rank = rank_of(s, b, token);
    return (member) { logprob, score, key_of(s, score, slack, rank, order),
                      error,   slack, logit,
                      b,       token, rank,
                      order };
}

/* An end of beam b is offered to the archive: among equals it comes after those that are there. */
static void offer(search *s, int64_t b, member m)
{
    const int64_t T = s->steps, length = s->beam[b].length;
    int64_t       j = s->n_kept, place = j;
    for (int64_t i = 0; i < s->n_kept; i++)
        note(s, ts_real_sub(s->kept[i].score, m.score).hi, s->kept[i].slack + m.slack);
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

/* How far the log-softmax of the row at hand may be off. In double that is 1e-12, and where logits
 * are far from 0 what is lost if maximum and logarithm are held in one number: half an ulp of it,
 * and the same again of the difference. Twice that is given. In float, all but the token's own
 * part. */
static double row_error(const search *s, float max, double log_sum)
{
    if (!s->in_float) return 1e-12 + 0x1p-51 * fabs((double)max);
    const double u = 0x1p-24, V = (double)s->n_vocab;
    const double error = u * (ts_kappa(s->n_vocab) + 16 + 2 * ts_log64(V) + 2 * fabs((double)max));
    float        sum = 0;
    if (s->power) return error; /* no two logits of the timed model need be equal */
    for (int64_t t = 0; t < s->n_vocab; t++)
        sum += (float)ts_exp64((double)s->logits[t] - (double)max);
    return error + 2 * fabs(ts_log64((double)sum) - log_sum);
}

/* All extensions of beam b; but those are passed over whose logit is clearly too small for the
 * pool.
 */
static void enter_extensions(search *s, int64_t b, ts_real penalty)
{
    float         max;
    const ts_real log_sum = ask(s, b, &max), parent = s->beam[b].logprob;
    const double  error = s->beam[b].error + row_error(s, max, log_sum.hi);
    double        least = -INFINITY;
    s->nonfinite |= isnan(log_sum.hi);
    for (int64_t t = 0; t < s->n_vocab && !s->nonfinite; t++) {
        const bool end = s->archive && t == s->eos;
        if (s->logits[t] == -INFINITY || (s->logits[t] < least && !end)) continue;
        const ts_real above = ts_real_sub(ts_real_sum(s->logits[t], -max), log_sum);
        const ts_real logprob = ts_real_add(parent, above);
        const double  part = 2 * fabs((double)s->logits[t] - (double)max) + fabs(logprob.hi);
        const member  m = join(s, b, (int32_t)t, logprob, ts_real_div(logprob, penalty),
                               s->logits[t], error + (s->in_float ? 0x1p-24 * part : 0));
        if (end) {
            offer(s, b, m);
            continue;
        }
        enter(s, &m);
        if (s->n_pool <= s->width) continue;
        const member *lowest = &s->pool[s->width];
        const double  last = ts_real_sub(ts_real_mul(lowest->key, penalty), parent).hi;
        least = last + max + log_sum.hi - 1e-6 * (1 + fabs(last)) - 4 * lowest->slack * penalty.hi;
    }
}

/* Of one beam the logits decide, which nothing rounds: they are equal or clear. In float only what
 * is kept matters here; see `arrange`. */
static void measure(search *s)
{
    for (int64_t i = s->in_float ? s->width : 1; i < s->n_pool; i++) {
        const member *a = &s->pool[i - 1], *b = &s->pool[i];
        if (!s->in_float && a->parent == b->parent && a->logit != b->logit) continue;
        note(s, ts_real_sub(a->score, b->score).hi, a->slack + b->slack);
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
        b->logprob = m->logprob, b->score = m->score, b->error = m->error;
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
        const double  slack = s->in_float ? s->kept[s->width - 1].slack +
                                               slack_of(s, s->beam[b].error, best.hi, s->steps)
                                          : 0;
        note(s, above.hi, slack);
        hope |= above.hi > (s->order % 2 ? slack : -slack);
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
            const beam   *b = &s->beam[j];
            const int64_t rank = rank_of(s, j, -1);
            const double  slack = s->in_float ? slack_of(s, b->error, b->score.hi, b->length) : 0;
            const ts_real above = ts_real_sub(s->kept[k].key, key_of(s, b->score, slack, rank, 0));
            note(s, ts_real_sub(s->kept[k].score, b->score).hi, s->kept[k].slack + slack);
            first = above.hi > 0 || (above.hi == 0 && s->kept[k].rank <= rank);
        }
        if (first) {
            const member *m = &s->kept[k++];
            s->after[n] =
                (beam) { m->logprob, m->score, m->error, s->kept_length[m->parent], true };
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

static bool has_unfinished(const search *s)
{
    bool any = false;
    for (int64_t b = 0; b < s->n_beam; b++) any |= !s->beam[b].finished;
    return any;
}

/* False: the item has stopped. */
static bool advance(search *s, int64_t step)
{
    const ts_real penalty = ts_real_pow((double)(step + 1), s->alpha);
    const int64_t stride = s->n_prompt + s->steps;
    const bool    any = has_unfinished(s);
    s->n_pool = 0;
    for (int64_t b = 0; b < s->n_beam && any; b++) {
        const beam *p = &s->beam[b];
        if (p->finished) {
            const member m = join(s, b, -1, p->logprob, p->score, 0, p->error);
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

static double slack_at(const search *s, int64_t b)
{
    return slack_of(s, s->beam[b].error, s->beam[b].score.hi, s->beam[b].length);
}

/* In float the beams found may be in the order told, if their scores may be. */
static void arrange(search *s)
{
    const int64_t stride = s->n_prompt + s->steps;
    for (int64_t i = 1; i < s->n_beam; i++)
        for (int64_t j = i; j > 0 && rank_of(s, j, -1) < rank_of(s, j - 1, -1); j--) {
            const beam b = s->beam[j];
            if (s->beam[j - 1].score.hi - b.score.hi > slack_at(s, j) + slack_at(s, j - 1)) return;
            s->beam[j] = s->beam[j - 1], s->beam[j - 1] = b;
            for (int64_t t = 0; t < stride; t++) {
                int32_t *const at = s->text + j * stride + t;
                const int32_t  was = *at;
                *at = at[-stride], at[-stride] = was;
            }
        }
}

/* True: the item has stopped within n_steps. */
static bool search_item(search *s, const int32_t *prompt, int64_t n_prompt, int64_t n_steps)
{
    const size_t n = (size_t)(s->width * (n_prompt + s->steps) + 1) * sizeof *s->text;
    free(s->text), free(s->text_after);
    s->text = get((int64_t)n, 1), s->text_after = get((int64_t)n, 1);
    memcpy(s->text, prompt, (size_t)n_prompt * sizeof *prompt);
    s->n_prompt = n_prompt;
    s->n_beam = 1;
    s->n_kept = 0;
    s->beam[0] = (beam) { 0 };
    int64_t t = 0;
    while (t < n_steps && advance(s, t)) t++;
    if (s->nonfinite || (t == n_steps && n_steps < s->steps && has_unfinished(s))) return false;
    if (s->archive) merge(s);
    if (s->in_float) arrange(s);
    return true;
}

/* ---- wants ---- */

static void want(ts_want *w, double value, double bound)
{
    *w = (ts_want) { value, bound };
}

/* Of the score: also a power, a division and the rounding of both. */
static double score_room(const search *s, const beam *b)
{
    if (s->in_float) return slack_of(s, b->error, b->score.hi, b->length);
    const double penalty = b->length ? ts_pow64((double)b->length, s->alpha) : 1;
    return b->error / penalty + 0x1p-50 * fabs(b->score.hi);
}

static void want_item(const search *s, int64_t item, ts_want *w)
{
    const int64_t K = s->width, T = s->steps, n = s->c->dim[ITEMS];
    ts_want      *tokens = w + item * K * T, *logprob = w + n * K * T + item * K;
    ts_want      *score = logprob + n * K, *beams = w + n * K * (T + 2) + item * (2 * K + 1);
    for (int64_t i = 0; i < K; i++) {
        const bool     is = i < s->n_beam;
        const beam     none = { { -INFINITY, 0 }, { -INFINITY, 0 }, 0, 0, false };
        const beam    *b = is ? &s->beam[i] : &none;
        const int32_t *text = s->text + (is ? i : 0) * (s->n_prompt + T) + s->n_prompt;
        for (int64_t t = 0; t < T; t++) want(&tokens[i * T + t], t < b->length ? text[t] : -1, 0);
        want(&logprob[i], b->logprob.hi, is ? b->error : 0);
        want(&score[i], b->score.hi, is ? score_room(s, b) : 0);
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

static search open_search(const ts_case *c, const ts_toy *m)
{
    const int64_t K = c->dim[WIDTH], T = c->dim[STEPS], V = c->dim[VOCAB];
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
    return s;
}

static void close_search(const search *s)
{
    void *const all[] = {
        s->logits, s->pool,  s->beam,       s->after, s->calls,     s->sum,
        s->text,   s->power, s->text_after, s->kept,  s->kept_text, s->kept_length
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void tell(search *s, const ts_beam_told *told, int64_t item)
{
    if (told) s->told = told->tokens + item * s->width * s->steps, s->order = told->order;
    s->in_float = told && told->in_float;
    s->nonfinite = false;
}

/* An invalid row ends the whole search in the step in which it comes up. Items do not meet, so they
 * are searched one after the other; what the step of the first invalid row would have been for the
 * others is all the same, since every string of a nonfinite case is of one length. */
double ts_beam_solve(const ts_case *c, const ts_toy *m, const int32_t *prompts,
                     const ts_beam_told *told, ts_want *w)
{
    search s = open_search(c, m);
    bool   nonfinite = false;
    for (int64_t i = 0; i < c->dim[ITEMS]; prompts += ts_beam_prompt_len(c, i++)) {
        tell(&s, told, i);
        search_item(&s, prompts, ts_beam_prompt_len(c, i), s.steps);
        nonfinite |= s.nonfinite;
        if (w) want_item(&s, i, w);
    }
    s.nonfinite = nonfinite;
    if (w) want_calls(&s, w);
    close_search(&s);
    return s.margin;
}

static void keep_string(const search *s, const beam *b, const int32_t *text, ts_beam_state *to)
{
    int32_t *const tokens = to->tokens + to->n * s->steps;
    if (b->length) memcpy(tokens, text, (size_t)b->length * sizeof *text);
    to->string[to->n++] = (ts_beam_string) { tokens,
                                             b->length,
                                             b->finished,
                                             { b->logprob.hi, b->error },
                                             { b->score.hi, score_room(s, b) } };
}

double ts_beam_state_after(const ts_case *c, const ts_toy *m, const int32_t *prompts,
                           int64_t n_steps, const ts_beam_told *told, ts_beam_state *state)
{
    search s = open_search(c, m);
    for (int64_t i = 0; i < c->dim[ITEMS]; prompts += ts_beam_prompt_len(c, i++)) {
        ts_beam_state *const to = &state[i];
        const int64_t        n_prompt = ts_beam_prompt_len(c, i), stride = n_prompt + s.steps;
        tell(&s, told, i);
        *to = (ts_beam_state) { .string = get(2 * s.width, sizeof *to->string) };
        to->tokens = get(2 * s.width * s.steps, sizeof *to->tokens);
        to->stopped = search_item(&s, prompts, n_prompt, n_steps);
        for (int64_t b = 0; b < s.n_beam; b++)
            keep_string(&s, &s.beam[b], s.text + b * stride + n_prompt, to);
        for (int64_t k = 0; k < s.n_kept && !to->stopped; k++) {
            const member *const e = &s.kept[k];
            const beam b = { e->logprob, e->score, e->error, s.kept_length[e->parent], true };
            keep_string(&s, &b, s.kept_text + e->parent * s.steps, to);
        }
    }
    close_search(&s);
    return s.margin;
}

void ts_beam_state_free(ts_beam_state *state, int64_t n_items)
{
    for (int64_t i = 0; i < n_items; i++) free(state[i].string), free(state[i].tokens);
}
