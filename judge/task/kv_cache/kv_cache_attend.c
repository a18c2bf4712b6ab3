/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_attend.c - what reading back and attending must give.
 *
 * Stores of floats give their values rounded once. Codes are known within the declared error from
 * the values that were stored; attention is then exact attention over what was read. With scores s,
 * weights p and A = sum p |v|, an error ds in the scores moves the answer by at most
 * sum p ds (|v| + A), where ds = kappa(D) u sum |q k| scale + u |s - max|; the sums themselves err
 * by kappa(n) u A; and what is stored, weights among them, is rounded to the dtype of the data. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "dtype.h"
#include "kv_cache_model.h"
#include "real.h"
#include "rng.h"
#include "whole.h"

static double kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

static double rounded(double v, ts_dtype t)
{
    if (t == TS_F64) return v;
    if (t == TS_F32) return (double)(float)v;
    return t == TS_BF16 ? ts_widen_bf16(ts_narrow_bf16(v)) : ts_widen_f16(ts_narrow_f16(v));
}

static int64_t width(const kv_model *m)
{
    return m->d->n_kv_head * m->d->head_dim;
}

/* ---- codes: what is stored, before it is coded ---- */

typedef struct spread {
    double lo, hi, slack; /* slack: how far both may be off */
    bool   known;
} spread;

/* Of a key, after a cut what was read back, in io_dtype. */
static double source(const kv_model *m, const kv_token *t, bool key, int64_t e, spread *s)
{
    double x;
    if (key && t->cut) {
        if (!t->key_back) s->known = false;
        x = s->known ? rounded(m->read[(t->key_back - 1) * width(m) + e], m->d->io_dtype) : 0;
        s->slack = fmax(s->slack, 2 * ts_format_of(m->d->io_dtype)->u * fabs(x));
    } else x = ts_load(key ? m->a->k : m->a->v, m->d->io_dtype, t->row * width(m) + e);
    s->lo = fmin(s->lo, x);
    s->hi = fmax(s->hi, x);
    return x;
}

static double declared(const ts_kv_dims *d, const spread *s)
{
    const int    bits = d->store_dtype == TS_U8 ? 8 : 4;
    const double step = (s->hi - s->lo + 2 * s->slack) / (ldexp(1, bits) - 1);
    const double size = fabs(s->lo) + fabs(s->hi) + 2 * s->slack;
    const double meta =
        d->meta_dtype == TS_F16 ? 0x1p-10 * size + ldexp(1, bits - 25) : 0x1p-22 * size;
    return step / 2 + meta + s->slack;
}

/* n elements from e on, all of one group, of the token at position i. */
static void want_coded(const kv_model *m, const kv_token *t, bool key, int64_t e, int64_t n,
                       ts_want *want)
{
    spread s = { INFINITY, -INFINITY, 0, true };
    for (int64_t k = 0; k < n; k++) want[k].value = source(m, t, key, e + k, &s);
    for (int64_t k = 0; k < n; k++) want[k].bound = declared(m->d, &s);
}

/* Element e of the n tokens of a finished group; or of a token in the tail, which is not coded,
 * and is read as float. */
static void want_channel(const kv_model *m, const kv_token *list, int64_t n, int64_t e,
                         ts_want *want, int64_t from, int64_t to)
{
    const bool coded = n == m->d->key_group;
    spread     s = { INFINITY, -INFINITY, 0, true };
    for (int64_t i = 0; i < n; i++) {
        const double x = source(m, &list[i], true, e, &s);
        if (i >= from && i < to) want[(i - from) * width(m)].value = coded ? x : (double)(float)x;
    }
    const double bound = !s.known ? INFINITY : coded ? declared(m->d, &s) : s.slack;
    for (int64_t i = from; i < to; i++) want[(i - from) * width(m)].bound = bound;
}

/* Tokens from .. to of a sequence. */
static void want_channels(const kv_model *m, const kv_token *list, int64_t len, int64_t from,
                          int64_t to, ts_want *want)
{
    const int64_t g = m->d->key_group, W = width(m);
    for (int64_t first = from / g * g; first < to; first += g) {
        const int64_t lo = first < from ? from - first : 0, hi = ts_lesser(to - first, g);
        const int64_t n = ts_lesser(len - first, g);
        ts_want      *at = want + (first + lo - from) * W;
        for (int64_t e = 0; e < W && n == g; e++)
            want_channel(m, list + first, n, e, at + e, lo, hi);
        for (int64_t i = lo; i < hi && n < g; i++) /* each by itself */
            for (int64_t e = 0; e < W; e++)
                want_channel(m, list + first + i, 1, e, at + (i - lo) * W + e, 0, 1);
    }
}

static void want_rows(const kv_model *m, const kv_token *t, bool key, ts_want *want)
{
    const ts_kv_dims *d = m->d;
    const int64_t     n = key ? d->key_group : d->head_dim;
    const void       *from = key ? m->a->k : m->a->v;
    if (ts_kv_is_code(d->store_dtype)) {
        for (int64_t e = 0, left; e < width(m); e += ts_lesser(n, left)) {
            left = d->head_dim - e % d->head_dim;
            want_coded(m, t, key, e, ts_lesser(n, left), want + e);
        }
        return;
    }
    for (int64_t e = 0; e < width(m); e++) {
        const double x = ts_load(from, d->io_dtype, t->row * width(m) + e);
        want[e] = (ts_want) { (float)rounded(x, d->store_dtype), 0 };
    }
}

void ts_kv_model_read(kv_model *m, const ts_kv_op *o, const ts_kv_item *item, bool done)
{
    kv_seq       *q = &m->cache[o->cache].seq[item->slot];
    kv_token     *list = done ? q->token[o->layer] : NULL;
    const int64_t n = item->n, W = width(m), from = o->from;
    const bool    by_channel = ts_kv_is_code(m->d->store_dtype) && m->d->key_axis == TS_KEY_CHANNEL;
    for (int64_t i = 0; i < 2 * n * W && !done; i++) m->want_read[i] = (ts_want) { 0, INFINITY };
    for (int64_t i = 0; i < n && done; i++) {
        if (!by_channel) want_rows(m, &list[from + i], true, m->want_read + i * W);
        want_rows(m, &list[from + i], false, m->want_read + (n + i) * W);
    }
    if (by_channel && done) want_channels(m, list, q->len[o->layer], from, from + n, m->want_read);
    for (int64_t i = 0; i < n && done; i++) {
        list[o->from + i].key_read = m->n_read + i + 1;
        list[o->from + i].value_read = m->n_read + n + i + 1;
    }
    m->want_read += 2 * n * W;
    m->n_read += 2 * n;
}

/* ---- attention ---- */

/* False: it was never read since it changed. */
static bool load_row(const kv_model *m, const kv_token *t, bool key, int64_t head, double *to)
{
    const int64_t D = m->d->head_dim, at = head * D;
    if (ts_kv_is_code(m->d->store_dtype) && !(key && t->exact)) {
        const int64_t row = key ? t->key_read : t->value_read;
        if (!row) return false;
        for (int64_t e = 0; e < D; e++) to[e] = m->read[(row - 1) * width(m) + at + e];
        return true;
    }
    const void    *from = key ? m->a->k : m->a->v;
    const int64_t  base = t->row * width(m) + at;
    const ts_dtype io = m->d->io_dtype, store = m->d->store_dtype;
    for (int64_t e = 0; e < D; e++) to[e] = ts_load(from, io, base + e);
    for (int64_t e = 0; e < D && io != store && !t->exact; e++) to[e] = rounded(to[e], store);
    return true;
}

typedef struct query {
    const kv_model *m;
    const kv_token *list;
    int64_t         position, row, head, kv_head;
    double         *q, *x;               /* its row; the row of a key or a value */
    ts_real        *s, *o;               /* of every key, the score; of every channel, sum p v */
    double         *ds, *size, *shifted; /* how far a score may be off; sums of p |v|, p ds |v| */
} query;

static bool sees(const ts_kv_dims *d, int64_t p, int64_t j)
{
    return d->window == 0 || p - j < d->window || j < d->n_sink;
}

/* Scores of the keys in sight, and the largest of them. */
static bool score(const query *w, double u, ts_real *most)
{
    const ts_kv_dims *d = w->m->d;
    const int64_t     D = d->head_dim;
    *most = ts_real_of(-INFINITY);
    for (int64_t e = 0; e < D; e++)
        w->q[e] = ts_load(w->m->a->q, d->io_dtype, (w->row * d->n_q_head + w->head) * D + e);
    for (int64_t j = 0; j <= w->position; j++) {
        if (!sees(d, w->position, j)) continue;
        if (!load_row(w->m, &w->list[j], true, w->kv_head, w->x)) return false;
        double size = 0;
        for (int64_t e = 0; e < D; e++) size += fabs(w->q[e] * w->x[e]);
        w->s[j] = ts_real_mul(ts_real_dot(w->q, 1, w->x, 1, D), ts_real_of(d->scale));
        w->ds[j] = kappa(D) * u * size * fabs(d->scale);
        if (isinf(size)) w->s[j] = ts_real_of(-INFINITY); /* there is no +inf */
        if (ts_real_less(*most, w->s[j])) *most = w->s[j];
    }
    return true;
}

static bool weigh(const query *w, double u, ts_real most, ts_real *sum, double *shift, int64_t *n)
{
    const ts_kv_dims *d = w->m->d;
    for (int64_t e = 0; e < d->head_dim; e++)
        w->o[e] = (ts_real) { 0, 0 }, w->size[e] = w->shifted[e] = 0;
    *sum = (ts_real) { 0, 0 }, *shift = 0, *n = 0;
    for (int64_t j = 0; j <= w->position; j++) {
        if (!sees(d, w->position, j) || w->s[j].hi == -INFINITY) continue;
        if (!load_row(w->m, &w->list[j], false, w->kv_head, w->x)) return false;
        const ts_real below = ts_real_sub(w->s[j], most), p = ts_real_exp(below);
        const double  off = p.hi * (w->ds[j] - u * below.hi);
        *sum = ts_real_add(*sum, p), *shift += off, ++*n;
        for (int64_t e = 0; e < d->head_dim; e++) {
            ts_real_gather_product(&w->o[e], p, w->x[e]);
            w->size[e] += p.hi * fabs(w->x[e]);
            w->shifted[e] += off * fabs(w->x[e]);
        }
    }
    return true;
}

static void expect(const query *w, bool with_lse, ts_want *out, ts_want *lse)
{
    const ts_kv_dims *d = w->m->d;
    const double      u = d->store_dtype == TS_F64 ? 0x1p-53 : 0x1p-24;
    const ts_format  *io = ts_format_of(d->io_dtype);
    ts_real           most, sum;
    double            shift;
    int64_t           n;
    if (!score(w, u, &most)) return;
    if (most.hi == -INFINITY) return; /* no key has any weight: undefined */
    if (!weigh(w, u, most, &sum, &shift, &n)) return;
    for (int64_t e = 0; e < d->head_dim; e++) {
        const double v = ts_real_div(ts_real_gathered(w->o[e]), sum).hi;
        const double size = w->size[e] / sum.hi;
        const double off = w->shifted[e] / sum.hi + shift / sum.hi * size + kappa(n) * u * size;
        const double stored = io->u * (fmax(fabs(v), io->min_normal) + 2 * size);
        out[e] = (ts_want) { v, off + stored + (double)FLT_MIN };
    }
    const double l = ts_real_add(most, ts_real_log(sum)).hi;
    if (with_lse)
        *lse = (ts_want) { l, shift / sum.hi + kappa(n) * u +
                                  0x1p-23 * (fabs(l) + fabs(most.hi) + 1) };
}

static void attend_row(kv_model *m, query *w, bool with_lse)
{
    const ts_kv_dims *d = m->d;
    for (w->head = 0; w->head < d->n_q_head; w->head++) {
        if (ts_bits((uint64_t)m->n_out, w->head) % m->one_in) continue;
        w->kv_head = w->head * d->n_kv_head / d->n_q_head;
        expect(w, with_lse, m->want_out + w->head * d->head_dim, m->want_lse + w->head);
    }
}

static void *numbers(int64_t n)
{
    void *p = malloc(((size_t)n + 1) * sizeof(ts_real));
    if (!p) abort();
    return p;
}

static query open_query(const kv_model *m, int64_t row, int64_t n_keys)
{
    const int64_t D = m->d->head_dim;
    return (query) { .m = m,
                     .row = row,
                     .q = numbers(D),
                     .x = numbers(D),
                     .s = numbers(n_keys),
                     .o = numbers(D),
                     .ds = numbers(n_keys),
                     .size = numbers(D),
                     .shifted = numbers(D) };
}

static void close_query(const query *w)
{
    free(w->q), free(w->x), free(w->s), free(w->ds), free(w->o), free(w->size), free(w->shifted);
}

/* The next row of answers: of anything, or of what the query says. */
static void want_next(kv_model *m, const ts_kv_op *o, query *w, bool done)
{
    const int64_t D = m->d->head_dim, H = m->d->n_q_head;
    for (int64_t e = 0; e < H * D; e++) m->want_out[e] = (ts_want) { 0, INFINITY };
    for (int64_t e = 0; e < H; e++) m->want_lse[e] = (ts_want) { 0, INFINITY };
    if (done) attend_row(m, w, !(o->how & TS_KV_NO_LSE));
    m->want_out += H * D, m->want_lse += H, m->n_out++;
    w->row++;
}

void ts_kv_model_attend(kv_model *m, const ts_kv_op *o, const ts_kv_item *item, bool done)
{
    query w = open_query(m, o->data, m->d->capacity);
    for (int32_t i = 0; i < o->n_item; i++) {
        const kv_seq *q = &m->cache[o->cache].seq[item[i].slot];
        for (int64_t k = 0; k < item[i].n; k++) {
            w.list = q->token[o->layer];
            w.position = q->len[o->layer] - item[i].n + k;
            want_next(m, o, &w, done);
        }
    }
    close_query(&w);
}

/* Row `row` of the inputs as a token. Of codes, what was read of it where the script has appended
 * it, by which it is known how it is stored. */
static kv_token drafted(const kv_model *m, const ts_kv_op *o, int64_t row)
{
    const kv_cache *c = &m->cache[o->cache];
    const bool      codes = ts_kv_is_code(m->d->store_dtype);
    kv_token        t = { .row = row, .exact = codes && m->d->key_axis == TS_KEY_CHANNEL };
    for (int32_t i = 0; i < TS_KV_SLOTS && codes; i++) {
        const kv_seq *q = &c->seq[i];
        if (!q->open || q->len[o->layer] <= row - o->data) continue;
        const kv_token *there = &q->token[o->layer][row - o->data];
        if (there->row == row) t.key_read = there->key_read, t.value_read = there->value_read;
    }
    return t;
}

/* As though the ancestors of a row, and then itself, had been appended. */
void ts_kv_model_tree(kv_model *m, const ts_kv_op *o, const ts_kv_item *item, const int32_t *word,
                      bool done)
{
    const int64_t  n_keys = m->d->capacity + o->from;
    const int32_t *parent = word + 1;
    query          w = open_query(m, word[0], n_keys);
    kv_token      *list = calloc((size_t)n_keys, sizeof *list);
    int64_t        first = o->data;
    if (!list) abort();
    w.list = list;
    for (int32_t i = 0; i < o->n_item; i++, first += item[i - 1].n, parent += item[i - 1].n) {
        const kv_seq *q = &m->cache[o->cache].seq[item[i].slot];
        const int64_t len = q->len[o->layer];
        if (done && len) memcpy(list, q->token[o->layer], (size_t)len * sizeof *list);
        for (int64_t k = 0; k < item[i].n; k++) {
            int64_t depth = 0;
            for (int64_t up = k; done && up >= 0; up = parent[up]) depth++;
            w.position = len + depth - 1;
            for (int64_t up = k, at = w.position; done && up >= 0; up = parent[up])
                list[at--] = drafted(m, o, first + up);
            want_next(m, o, &w, done);
        }
    }
    free(list);
    close_query(&w);
}
