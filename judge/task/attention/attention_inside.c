/* SPDX-License-Identifier: Apache-2.0 */
/* attention_inside.c - shared by the attention tasks: visible keys, inputs, threads, and the choice
 * of checked rows. */
#include "attention_inside.h"

#include <float.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "rng.h"

/* ---- the keys that a query sees ---- */

ts_span ts_attention_keys(const ts_attention_dims *d, const int32_t *kv_len, int64_t b, int64_t i)
{
    const int64_t last = i + d->n_k - d->n_q; /* the one that it meets, if causal */
    ts_span       s = { 0, kv_len ? kv_len[b] : d->n_k };
    if (d->causal && last + 1 < s.end) s.end = last + 1;
    if (d->window > 0 && last >= d->window) s.begin = last - d->window + 1;
    return s;
}

ts_span ts_attention_queries(const ts_attention_dims *d, const int32_t *kv_len, int64_t b,
                             int64_t j)
{
    const int64_t first = j - (d->n_k - d->n_q);
    ts_span       s = { 0, d->n_q };
    if (d->causal && first > 0) s.begin = first;
    if (d->window > 0 && d->window < s.end - first) s.end = first + d->window;
    if (kv_len && j >= kv_len[b]) s.end = s.begin;
    return s;
}

double ts_attention_pairs(const ts_attention_dims *d)
{
    double n = 0;
    for (int64_t i = 0; i < d->n_q; i++) {
        const ts_span s = ts_attention_keys(d, NULL, 0, i);
        if (s.end > s.begin) n += (double)(s.end - s.begin);
    }
    return n * (double)d->n_batch * (double)d->n_q_head;
}

/* ---- work on every head ---- */

enum { MAX_THREADS = 64 };

typedef struct heads {
    void (*one)(void *of, int64_t i);
    void        *of;
    int64_t      n;
    atomic_llong next; /* the first that no thread has taken */
} heads;

static void *work(void *arg)
{
    heads *const w = arg;
    for (int64_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) w->one(w->of, i);
    return NULL;
}

void ts_attention_each(bool much, int64_t n, void (*one)(void *of, int64_t i), void *of)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int  most = !much || cores < 1 ? 1 : cores < MAX_THREADS ? (int)cores : MAX_THREADS;
    heads      w = { one, of, n, 0 };
    pthread_t  thread[MAX_THREADS];
    int        started = 0;
    while (started < most - 1 && !pthread_create(&thread[started], NULL, work, &w)) started++;
    work(&w);
    while (started) pthread_join(thread[--started], NULL);
}

/* ---- inputs ---- */

static const int64_t MANY = 1 << 22; /* elements that are worth threads */

typedef struct drawing {
    const ts_attention_drawn *of_all;
    const int32_t            *kv_len;
    int64_t                   n_head, n;
    ts_attention_draw         draw;
} drawing;

static void draw_head(void *of, int64_t i)
{
    const drawing     *p = of;
    ts_attention_drawn w = *p->of_all;
    w.b = i / p->n_head, w.h = i % p->n_head;
    w.kv_len = p->kv_len ? p->kv_len[w.b] : w.d->n_k;
    for (w.i = 0; w.i < p->n; w.i++) {
        w.begin = ts_attention_row(w.d, p->n_head, p->n, w.b, w.h, w.i) * w.d->head_dim;
        p->draw(&w);
    }
}

void ts_attention_fill(const ts_case *c, const ts_attention_dims *d, const int32_t *kv_len,
                       uint64_t seed, void *to, int64_t n_head, int64_t n, ts_attention_draw draw)
{
    const ts_attention_drawn w = { .c = c, .d = d, .seed = seed, .to = to };
    drawing                  p = { &w, kv_len, n_head, n, draw };
    const int64_t            heads = d->n_batch * n_head;
    ts_attention_each(heads * n * d->head_dim >= MANY, heads, draw_head, &p);
}

void ts_attention_take_lengths(const ts_case *c, uint64_t seed, ts_arena *m, const int32_t **slot)
{
    const int64_t B = c->dim[2];
    if (!ts_attention_has_lengths(c)) return;
    int32_t *len = ts_take(m, slot, (ts_buf) { "kv_len", TS_IN, TS_I32, 1, B, B });
    for (int64_t b = 0; b < B; b++) len[b] = ts_attention_length(c, seed, b);
}

void ts_attention_shape(const ts_case *c, const char *buffer, int64_t extent[TS_MAX_RANK])
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    const bool              keys = strchr(buffer, 'k') || strchr(buffer, 'v'); /* k, dk, v, dv */
    const int64_t           heads = keys ? d.n_kv_head : d.n_q_head, n = keys ? d.n_k : d.n_q;
    const bool inner = d.layout == TS_BNHD && strcmp(buffer, "lse"); /* heads within tokens */
    extent[0] = d.n_batch;
    extent[1] = inner ? n : heads;
    extent[2] = inner ? heads : n;
    extent[3] = d.head_dim;
}

void ts_attention_scalars(ts_arena *m, const ts_attention_dims *d)
{
    ts_scalar(m, "layout", d->layout);
    ts_scalar(m, "causal", d->causal);
    ts_scalar(m, "window", (double)d->window);
    ts_scalar(m, "scale", d->scale);
    ts_scalar(m, "tile_q", (double)d->tile_q);
    ts_scalar(m, "tile_k", (double)d->tile_k);
}

typedef struct widening {
    const ts_attention_dims *d;
    const void              *p;
    ts_dtype                 t;
    int64_t                  n_head, n, head_dim;
    double                  *to;
} widening;

static void widen_head(void *of, int64_t h)
{
    const widening *w = of;
    double         *to = w->to + h * w->n * w->head_dim;
    for (int64_t i = 0; i < w->n; i++) {
        const int64_t row =
            ts_attention_row(w->d, w->n_head, w->n, h / w->n_head, h % w->n_head, i);
        for (int64_t e = 0; e < w->head_dim; e++)
            *to++ = ts_load(w->p, w->t, row * w->head_dim + e);
    }
}

double *ts_attention_wide(const ts_attention_dims *d, const void *p, ts_dtype t, int64_t n_head,
                          int64_t n, int64_t head_dim)
{
    const int64_t heads = d->n_batch * n_head, all = heads * n * head_dim;
    widening      w = { d, p, t, n_head, n, head_dim, malloc((size_t)(all + 1) * sizeof *w.to) };
    if (!w.to) abort();
    ts_attention_each(all >= MANY, heads, widen_head, &w);
    return w.to;
}

/* ---- bounds ---- */

/* Storing errs by w of the result, or by half the spacing of what is not normal, which may be
 * flushed. What no number of the dtype holds is stored as infinity. */
ts_want ts_attention_stored(double v, double error, ts_dtype t)
{
    const ts_format *f = ts_format_of(t);
    if (isnan(v)) return (ts_want) { NAN, 0 };
    if (isinf(v)) return (ts_want) { v, 0 };
    return (ts_want) { v, error + f->u * fabs(v) + ts_attention_step(t) +
                              (fabs(v) < f->min_normal ? fabs(v) : 0) };
}

/* ---- large cases ---- */

int64_t ts_attention_n_picked(int64_t n, double cost)
{
    const double work = 0x1p27; /* some tenths of a second */
    if (n == 0 || (double)n * cost <= work) return n;
    const double most = fmax(work / cost, 16);
    return most < (double)n ? (int64_t)most : n;
}

void ts_attention_pick(int64_t n, int64_t n_picked, ts_want *want)
{
    uint64_t secret = 0;
    if (n_picked < n && getrandom(&secret, sizeof secret, 0) != sizeof secret) abort();
    for (int64_t i = 0; i < n_picked; i++) { /* one of each of n_picked shares */
        const int64_t begin = i * n / n_picked, end = (i + 1) * n / n_picked;
        const int64_t at = begin + (int64_t)(ts_bits(secret, i) % (uint64_t)(end - begin));
        want[i] = (ts_want) { (double)at, 0 };
    }
}

/* By the exponents alone: of a large case nearly all rows are looked at so. */
static bool all_finite(const void *p, ts_dtype t, int64_t n)
{
    const unsigned  all = t == TS_BF16 ? 0x7f80u : 0x7c00u;
    const uint16_t *h = p;
    bool            nonfinite = false;
    if (ts_format_of(t)->n_bytes == sizeof *h)
        for (int64_t i = 0; i < n; i++) nonfinite |= (h[i] & all) == all;
    else
        for (int64_t i = 0; i < n; i++) nonfinite |= !isfinite(ts_load(p, t, i));
    return !nonfinite;
}

bool ts_attention_check(const ts_attention_dims *d, const int32_t *kv_len,
                        const ts_attention_rows *t, const ts_want *picked, int64_t n_picked,
                        const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_buf b = t->b, row = { b.name, b.role, b.dtype, 1, b.n_cols, b.n_cols };
    const size_t n_bytes = (size_t)b.n_cols * ts_format_of(b.dtype)->n_bytes;
    ts_want      finite[256], none[256], written[256];
    ts_errors    unseen;
    int64_t      next = 0;
    for (int i = 0; i < 256; i++) {
        finite[i] = (ts_want) { 0, DBL_MAX };
        none[i] = (ts_want) { t->none, 0 };
        written[i] = (ts_want) { 0, TS_WRITTEN };
    }
    for (int64_t r = 0; r < b.n_rows; r++) {
        const int64_t  batch = r / (t->n_head * t->n), head = r / t->n % t->n_head, i = r % t->n;
        const int64_t  at = ts_attention_row(d, t->n_head, t->n, batch, head, i);
        const bool     known = next < n_picked && picked[next].value == (double)r;
        const ts_span  span = t->seen(d, kv_len, batch, i);
        const ts_want *w = known ? want + next++ * b.n_cols : span.begin < span.end ? finite : none;
        const char *const p = (const char *)t->p + (size_t)at * n_bytes;
        if (!known && t->skip && t->skip(d, kv_len, batch, i)) w = written;
        if (w == finite && all_finite(p, b.dtype, b.n_cols)) continue;
        if (!known) unseen = (ts_errors) { 0 };
        if (ts_check_buf(row, p, w, f, known ? e : &unseen)) continue;
        f->row = at;
        return false;
    }
    return true;
}

bool ts_attention_sees_none(const ts_attention_dims *d, const int32_t *kv_len, int64_t b, int64_t i)
{
    const ts_span keys = ts_attention_keys(d, kv_len, b, i);
    return keys.begin >= keys.end;
}

bool ts_attention_beside_none(const ts_attention_dims *d, const int32_t *kv_len, int64_t b,
                              int64_t j)
{
    (void)j;
    for (int64_t i = 0; i < d->n_q; i++)
        if (ts_attention_sees_none(d, kv_len, b, i)) return true;
    return false;
}

void ts_attention_excuse_none(const ts_attention_dims *d, const int32_t *kv_len,
                              const ts_want *picked, int64_t n, int64_t n_cols, ts_want *want)
{
    for (int64_t r = 0; r < n; r++) {
        const int64_t row = (int64_t)picked[r].value;
        if (ts_attention_sees_none(d, kv_len, row / d->n_q / d->n_q_head, row % d->n_q))
            ts_excuse(want + r * n_cols, n_cols);
    }
}

int64_t ts_attention_beyond(const ts_attention_dims *d, ts_span keys, const double *q,
                            const double *k)
{
    const double most = ts_format_of(ts_wide(d->dtype))->max / fmax(1, fabs(d->scale));
    int64_t      n = 0;
    for (int64_t j = keys.begin; j < keys.end; j++) {
        double size = 0;
        for (int64_t e = 0; e < d->head_dim; e++) size += fabs(q[e] * k[j * d->head_dim + e]);
        n += !(size < most);
    }
    return n;
}

void ts_attention_excuse_row(const ts_attention_dims *d, const ts_attention_rows *t, int64_t r,
                             ts_want *want)
{
    const int64_t b = r / (t->n_head * t->n), h = r / t->n % t->n_head, C = t->b.n_cols;
    const int64_t at = ts_attention_row(d, t->n_head, t->n, b, h, r % t->n);
    const ts_buf  row = { t->b.name, t->b.role, t->b.dtype, 1, C, C };
    ts_excuse_nonfinite(
        row, (const char *)t->p + (size_t)(at * C) * ts_format_of(t->b.dtype)->n_bytes, want);
}

/* ---- forward tasks ---- */

int64_t ts_attention_rows_q(const ts_attention_dims *d)
{
    return d->n_batch * d->n_q_head * d->n_q;
}

int64_t ts_attention_picked_q(const ts_attention_dims *d)
{
    return ts_attention_n_picked(ts_attention_rows_q(d), (double)d->n_k * (double)d->head_dim);
}

size_t ts_attention_forward_n_want(const ts_case *c)
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    return (size_t)(ts_attention_picked_q(&d) * (d.head_dim + 2));
}

bool ts_attention_forward_check(const ts_attention_dims *d, const int32_t *kv_len, const void *o,
                                const void *lse, bool all, const ts_want *want, ts_flaw *f,
                                ts_errors *e)
{
    const int64_t     D = d->head_dim, n = ts_attention_picked_q(d), Q = ts_attention_rows_q(d);
    const ts_buf      of_o = { "o", TS_OUT, d->dtype, Q, D, D };
    const ts_buf      of_lse = { "lse", TS_OUT, ts_wide(d->dtype), Q, 1, 1 };
    ts_attention_dims heads_first = *d; /* as lse always is */
    heads_first.layout = TS_BHND;
    ts_attention_rows to = { of_o, o, d->n_q_head, d->n_q, ts_attention_keys, 0, NULL };
    ts_attention_rows tl = { of_lse, lse, d->n_q_head, d->n_q, ts_attention_keys, -INFINITY, NULL };
    if (!all) to.skip = tl.skip = ts_attention_sees_none;
    return ts_attention_check(d, kv_len, &to, want, n, want + n, f, e) &&
           (!lse || ts_attention_check(&heads_first, kv_len, &tl, want, n, want + n + n * D, f, e));
}

ts_cost ts_attention_forward_cost(const ts_case *c, double bytes_q, double bytes_k)
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    const double            D = (double)d.head_dim, Q = (double)ts_attention_rows_q(&d);
    const double            K = (double)d.n_batch * (double)(d.n_kv_head * d.n_k);
    return (ts_cost) { .bytes = D * (bytes_q * Q + bytes_k * K) + 4 * Q,
                       .flops = 4 * D * ts_attention_pairs(&d),
                       .exps = ts_attention_pairs(&d) };
}

int ts_attention_scope(const ts_case *c, ts_parameter p[TS_MAX_PARAMETERS])
{
    const ts_attention_dims d = ts_attention_dims_of(c);
    p[0] = (ts_parameter) { "causal", d.causal };
    p[1] = (ts_parameter) { "window", d.window };
    p[2] = (ts_parameter) { "kv_len", ts_attention_has_lengths(c) };
    p[3] = (ts_parameter) { "lse", !(c->dim[7] % 10 & TS_FORM_NO_LSE) };
    p[4] = (ts_parameter) { "layout", d.layout };
    p[5] = (ts_parameter) { "tile_q", d.tile_q };
    p[6] = (ts_parameter) { "tile_k", d.tile_k };
    return 7;
}

/* ---- invalid calls ---- */

int64_t ts_attention_uneven(void *dims)
{
    return 2 * ((const ts_attention_dims *)dims)->n_kv_head + 1;
}
