/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_threads.c - blocks of words and chunks of rows over threads.
 *
 * Two passes: the first finds every row's lse, the second computes the same logits again and from
 * them the gradients. Each takes PARTS blocks of words at a time, keeps them as floats, and meets
 * all counted rows with them, chunk by chunk. A block's rows of dw are complete after that; dh is
 * summed over parts, in their order, and over the vocabulary, in float. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cross_entropy_impl.h"
#include "dtype.h"
#include "scratch.h"
#include "threads.h"

enum { PARTS = 16, WORDS = 64, ROWS = 128, SMALL = 1 << 17 };

/* Depends on the shape and on `chunk` alone. */
typedef struct plan {
    int64_t parts, words, rows, lanes, width;
} plan;

typedef struct work {
    const ts_cross_entropy_args *a;
    const ts_xe_steps           *steps;
    plan                         p;
    ts_xe_form                   form;
    int64_t                      n; /* counted rows */
    int64_t                     *row;
    ts_xe_row                   *of;                        /* [n] */
    float                       *dh;                        /* [n][width] */
    float                       *h, *h_columns, *lse, *hit; /* of the chunk: see ts_xe_step */
    int32_t                     *target;
    float *x, *w, *bias, *dw_part, *dh_part, *max, *sum, *z_sum; /* of each part */
} work;

static int64_t round_up(int64_t n)
{
    return (n + TS_XE_LANES - 1) / TS_XE_LANES * TS_XE_LANES;
}

static plan plan_of(const ts_cross_entropy_args *a)
{
    const int64_t most = a->chunk ? a->chunk : (int64_t)PARTS * WORDS * ROWS;
    plan          p = { .words = ts_lesser(WORDS, a->n_vocab),
                        .rows = ts_greater(1, ts_lesser(ROWS, a->n_rows)) };
    p.rows = ts_lesser(p.rows, most);
    p.words = ts_greater(1, ts_lesser(p.words, most / p.rows));
    p.parts = ts_greater(1, ts_lesser(PARTS, most / (p.words * p.rows)));
    p.parts = ts_lesser(p.parts, ts_ceil_div(a->n_vocab, p.words));
    p.lanes = round_up(p.rows);
    p.width = round_up(a->n_hidden);
    return p;
}

/* Bytes; with memory, the arrays too. */
static size_t lay_out(work *k, char *base)
{
    const plan   *p = &k->p;
    const int64_t n = k->a->n_rows, parts = p->parts;
    size_t        used = 0;
    k->row = ts_cut(base, &used, n, sizeof *k->row);
    k->of = ts_cut(base, &used, n, sizeof *k->of);
    k->dh = ts_cut(base, &used, k->a->dh ? n * p->width : 0, sizeof(float));
    k->h = ts_cut(base, &used, p->rows * p->width, sizeof(float));
    k->h_columns = ts_cut(base, &used, k->a->n_hidden * p->lanes, sizeof(float));
    k->lse = ts_cut(base, &used, p->lanes, sizeof(float));
    k->hit = ts_cut(base, &used, p->lanes, sizeof(float));
    k->target = ts_cut(base, &used, p->rows, sizeof *k->target);
    k->x = ts_cut(base, &used, parts * p->words * p->lanes, sizeof(float));
    k->w = ts_cut(base, &used, parts * p->words * p->width, sizeof(float));
    k->bias = ts_cut(base, &used, parts * round_up(p->words), sizeof(float));
    k->dw_part = ts_cut(base, &used, k->a->dw ? parts * p->words * p->width : 0, sizeof(float));
    k->dh_part = ts_cut(base, &used, k->a->dh ? parts * p->rows * p->width : 0, sizeof(float));
    k->max = ts_cut(base, &used, parts * p->lanes, sizeof(float));
    k->sum = ts_cut(base, &used, parts * p->lanes, sizeof(float));
    k->z_sum = ts_cut(base, &used, parts * p->lanes, sizeof(float));
    return used + TS_LINE;
}

ts_status ts_cross_entropy_threads_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    work k = { .a = args, .p = plan_of(args) };
    (void)x;
    *n_bytes = lay_out(&k, NULL);
    return TS_OK;
}

static ts_xe_form form_of(double softcap, double smoothing, double z_loss, int64_t n_vocab)
{
    return (ts_xe_form) { (float)softcap, (float)(smoothing / (double)n_vocab),
                          (float)(1 - smoothing), (float)(2 * z_loss), smoothing > 0 };
}

/* ---- what a tile is made of ---- */

static int64_t words_of(const work *k, int64_t tile, int64_t part)
{
    const int64_t first = tile + part * k->p.words;
    return ts_greater(0, ts_lesser(k->p.words, k->a->n_vocab - first));
}

static void pack_words(const work *k, int64_t tile, int64_t part)
{
    const ts_cross_entropy_args *a = k->a;
    const int64_t                first = tile + part * k->p.words, n = words_of(k, tile, part);
    float *const                 w = k->w + part * k->p.words * k->p.width;
    for (int64_t v = 0; v < n; v++)
        k->steps->widen(a->w, a->dtype, (first + v) * a->w_stride, a->n_hidden, w + v * k->p.width);
    if (a->bias && n)
        k->steps->widen(a->bias, a->dtype, first, n, k->bias + part * round_up(k->p.words));
    if (a->dw)
        memset(k->dw_part + part * k->p.words * k->p.width, 0,
               (size_t)(n * k->p.width) * sizeof(float));
}

/* r: a lane of the chunk that begins with counted row `first` */
static void pack_row(const work *k, int64_t first, int64_t r)
{
    const ts_cross_entropy_args *a = k->a;
    const bool                   there = first + r < k->n && r < k->p.rows;
    float *const                 h = k->h + r * k->p.width;
    k->lse[r] = k->hit[r] = 0;
    if (there) {
        const int64_t i = k->row[first + r];
        k->steps->widen(a->h, a->dtype, i * a->h_stride, a->n_hidden, h);
        k->target[r] = a->target[i];
        k->lse[r] = (float)k->of[first + r].lse;
    }
    for (int64_t d = 0; d < a->n_hidden; d++) k->h_columns[d * k->p.lanes + r] = there ? h[d] : 0;
}

static void take_step(const work *k, int64_t tile, int64_t first, int64_t part, bool back)
{
    const plan *const p = &k->p;
    const ts_xe_step  s = {
         .form = k->form,
         .n_words = words_of(k, tile, part),
         .n_rows = ts_lesser(p->rows, k->n - first),
         .lanes = p->lanes,
         .width = p->width,
         .n_hidden = k->a->n_hidden,
         .first_word = tile + part * p->words,
         .w = k->w + part * p->words * p->width,
         .bias = k->a->bias ? k->bias + part * round_up(p->words) : NULL,
         .h = k->h,
         .h_columns = k->h_columns,
         .target = k->target,
         .x = k->x + part * p->words * p->lanes,
         .max = k->max + part * p->lanes,
         .sum = k->sum + part * p->lanes,
         .z_sum = k->z_sum + part * p->lanes,
         .hit = k->hit,
         .lse = k->lse,
         .dh = k->a->dh ? k->dh_part + part * p->rows * p->width : NULL,
         .dw = k->a->dw ? k->dw_part + part * p->words * p->width : NULL,
    };
    if (!s.n_words) return;
    if (back) k->steps->backward(&s);
    else k->steps->forward(&s);
}

/* ---- sums over parts ---- */

static void merge_sums(const work *k, int64_t tile, int64_t first, int64_t r)
{
    const plan *const p = &k->p;
    ts_xe_row *const  row = &k->of[first + r];
    const int64_t     target = k->target[r];
    for (int64_t part = 0; part < p->parts && words_of(k, tile, part); part++) {
        const double max = (double)k->max[part * p->lanes + r];
        const double sum = (double)k->sum[part * p->lanes + r];
        row->z_sum += (double)k->z_sum[part * p->lanes + r];
        if (max == -INFINITY && sum == 0) continue; /* words of -inf */
        const double now = max > row->max ? max : row->max;
        row->sum =
            (row->sum > 0 ? row->sum * exp(row->max - now) : row->sum) + sum * exp(max - now);
        row->max = now;
    }
    if (target >= tile && target < tile + p->parts * p->words) row->hit = (double)k->hit[r];
}

static void merge_dh(const work *k, int64_t tile, int64_t first, int64_t r)
{
    const int64_t width = k->p.width;
    float *const  to = k->dh + (first + r) * width;
    for (int64_t part = 0; part < k->p.parts && words_of(k, tile, part); part++) {
        const float *from = k->dh_part + (part * k->p.rows + r) * width;
        for (int64_t d = 0; d < width; d++) to[d] += from[d];
    }
}

/* Adds to what is there, or replaces it. */
static void put(const ts_cross_entropy_args *a, void *to, int64_t at, const float *from, double g)
{
    for (int64_t d = 0; d < a->n_hidden; d++) {
        const double had = a->accumulate ? ts_load(to, a->grad_dtype, at + d) : 0;
        ts_store(to, a->grad_dtype, at + d, had + (from ? g * (double)from[d] : 0));
    }
}

static void put_dw(const work *k, int64_t tile, int64_t part, double g)
{
    const int64_t first = tile + part * k->p.words;
    for (int64_t v = 0; v < words_of(k, tile, part); v++)
        put(k->a, k->a->dw, (first + v) * k->a->w_stride,
            k->dw_part + (part * k->p.words + v) * k->p.width, g);
}

/* ---- passes ---- */

static void pass(const work *k, bool back, double g, int n_threads)
{
    const plan *const p = &k->p;
#pragma omp parallel num_threads(n_threads)
    for (int64_t tile = 0; tile < k->a->n_vocab; tile += p->parts * p->words) {
#pragma omp for schedule(static)
        for (int64_t part = 0; part < p->parts; part++) pack_words(k, tile, part);
        for (int64_t first = 0; first < k->n; first += p->rows) {
            const int64_t n = ts_lesser(p->rows, k->n - first);
#pragma omp for schedule(static)
            for (int64_t r = 0; r < p->lanes; r++) pack_row(k, first, r);
#pragma omp for schedule(dynamic)
            for (int64_t part = 0; part < p->parts; part++) take_step(k, tile, first, part, back);
#pragma omp for schedule(static)
            for (int64_t r = 0; r < n; r++) {
                if (!back) merge_sums(k, tile, first, r);
                else if (k->a->dh) merge_dh(k, tile, first, r);
            }
        }
#pragma omp for schedule(static)
        for (int64_t part = 0; part < p->parts; part++)
            if (back && k->a->dw) put_dw(k, tile, part, g);
    }
}

static double lse_of(const ts_xe_row *r)
{
    return isfinite(r->max) ? r->max + log(r->sum) : (double)NAN;
}

static double loss_of(const ts_xe_row *r, double smoothing, double z_loss, int64_t n_vocab)
{
    double loss = r->lse + z_loss * r->lse * r->lse;
    if (smoothing < 1) loss -= (1 - smoothing) * r->hit;
    if (smoothing > 0) loss -= smoothing * (r->z_sum / (double)n_vocab);
    return loss;
}

static int count_threads(const ts_exec *x, double work)
{
    if (work < SMALL) return 1;
    return ts_threads(x);
}

static void list_rows(work *k)
{
    k->n = 0;
    for (int64_t i = 0; i < k->a->n_rows; i++) {
        if (k->a->target[i] == k->a->ignore_index) continue;
        k->of[k->n] = (ts_xe_row) { .max = -INFINITY };
        k->row[k->n++] = i;
    }
}

/* loss, lse and total, of ignored rows too. */
static void put_losses(const work *k)
{
    const ts_cross_entropy_args *a = k->a;
    float *const loss = a->loss, *const lse = a->lse;
    double total = 0;
    for (int64_t i = 0; i < a->n_rows; i++) loss[i] = lse[i] = 0;
    for (int64_t j = 0; j < k->n; j++) {
        ts_xe_row *const r = &k->of[j];
        r->lse = lse_of(r);
        const double l = loss_of(r, a->smoothing, a->z_loss, a->n_vocab);
        loss[k->row[j]] = (float)l;
        lse[k->row[j]] = (float)r->lse;
        total += l;
    }
    *(float *)a->total = (float)(a->mean ? total / (double)k->n : total);
}

static void put_dh(const work *k, double g)
{
    const ts_cross_entropy_args *a = k->a;
    for (int64_t i = 0, j = 0; i < a->n_rows; i++) {
        const bool counted = j < k->n && k->row[j] == i;
        put(a, a->dh, i * a->h_stride, counted ? k->dh + j++ * k->p.width : NULL, g);
    }
}

ts_status ts_cross_entropy_threads(const ts_cross_entropy_args *a, const ts_exec *x,
                                   const ts_xe_steps *steps)
{
    work k = { .a = a, .steps = steps, .p = plan_of(a) };
    lay_out(&k, ts_scratch(x));
    k.form = form_of(a->softcap, a->smoothing, a->z_loss, a->n_vocab);
    list_rows(&k);
    const double g = a->mean && k.n ? a->scale / (double)k.n : a->scale;
    const int n_threads = count_threads(x, (double)k.n * (double)a->n_vocab * (double)a->n_hidden);
    pass(&k, false, g, n_threads);
    put_losses(&k);
    if (!a->dh && !a->dw) return TS_OK;
    if (a->dh && k.n) memset(k.dh, 0, (size_t)(k.n * k.p.width) * sizeof(float));
    pass(&k, true, g, n_threads);
    if (a->dh) put_dh(&k, g);
    return TS_OK;
}

/* ---- from logits ---- */

ts_status ts_cross_entropy_logits_threads_workspace(const void *args, const ts_exec *x,
                                                    size_t *n_bytes)
{
    const ts_cross_entropy_logits_args *a = args;
    (void)x;
    *n_bytes = TS_LINE + (size_t)a->n_rows * sizeof(double); /* every row's loss, to be summed */
    return TS_OK;
}

static double do_row(const ts_cross_entropy_logits_args *a, const ts_xe_steps *steps, int64_t i,
                     const ts_xe_form *form, float g)
{
    const int64_t at = i * a->row_stride;
    const int32_t target = a->target[i];
    void *const   to = a->in_place ? a->logits : a->dlogits;
    const double  hit = ts_load(a->logits, a->dtype, at + target), c = a->softcap;
    ts_xe_row     r = { .hit = c > 0 ? c * tanh(hit / c) : hit };
    ts_xe_kept room, *const kept = to && a->n_vocab <= TS_XE_KEPT ? &room : NULL;
    steps->sum_row(a->logits, a->dtype, at, a->n_vocab, form, &r, kept);
    r.lse = lse_of(&r);
    ((float *)a->lse)[i] = (float)r.lse;
    if (to) steps->grade_row(a->logits, to, a->dtype, at, a->n_vocab, form, &r, kept, target, g);
    return loss_of(&r, a->smoothing, a->z_loss, a->n_vocab);
}

ts_status ts_cross_entropy_logits_threads(const ts_cross_entropy_logits_args *a, const ts_exec *x,
                                          const ts_xe_steps *steps)
{
    double *const    loss = (double *)(void *)ts_scratch(x);
    const ts_xe_form form = form_of(a->softcap, a->smoothing, a->z_loss, a->n_vocab);
    const size_t     row_bytes = (size_t)a->n_vocab * ts_format_of(a->dtype)->n_bytes;
    void *const      to = a->in_place ? a->logits : a->dlogits;
    const int        n_threads = count_threads(x, (double)a->n_rows * (double)a->n_vocab);
    int64_t          n = 0;
    double           total = 0;
    for (int64_t i = 0; i < a->n_rows; i++) n += a->target[i] != a->ignore_index;
    const float g = (float)(a->mean && n ? a->scale / (double)n : a->scale);
#pragma omp parallel for num_threads(n_threads) schedule(dynamic, 4)
    for (int64_t i = 0; i < a->n_rows; i++) {
        loss[i] = 0;
        if (a->target[i] != a->ignore_index) {
            loss[i] = do_row(a, steps, i, &form, g);
        } else {
            ((float *)a->lse)[i] = 0;
            if (to)
                memset((char *)to + (size_t)(i * a->row_stride) * ts_format_of(a->dtype)->n_bytes,
                       0, row_bytes);
        }
        ((float *)a->loss)[i] = (float)loss[i];
    }
    for (int64_t i = 0; i < a->n_rows; i++) total += loss[i];
    *(float *)a->total = (float)(a->mean ? total / (double)n : total);
    return TS_OK;
}
