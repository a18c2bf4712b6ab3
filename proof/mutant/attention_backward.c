/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward.c - mutants of flash_attention_backward: one correct backward pass, pair by
 * pair, with one injected bug at a time. attention_backward_list.h lists them.
 *
 * Not among them: a stored matrix of scores, which no output shows; peak memory is measured from
 * outside. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "attention_backward_cuda_list.h"
#include "attention_backward_list.h"
#include "attention_entry.h"
#include "mutant.h"
#include "mutant_cuda.h"

typedef ts_flash_attention_backward_args bwd_args;

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

enum { TILE = 16, WIDEST = 256 };

/* A query and a key. */
typedef struct pair {
    const bwd_args *a;
    const ts_exec  *x;
    trap            t;
    int64_t         b, h, i, j;
} pair;

/* ---- places ---- */

static bool heads_first(const pair *p)
{
    return p->a->d.layout == TS_BHND || p->t == LAYOUT;
}

static int64_t q_at(const pair *p)
{
    const ts_attention_dims *d = &p->a->d;
    return attention_at(d, d->n_q_head, d->n_q, p->b, p->h, p->i, heads_first(p));
}

static int64_t k_at(const pair *p)
{
    const ts_attention_dims *d = &p->a->d;
    const int64_t            share = d->n_q_head / d->n_kv_head;
    const int64_t            h = p->t == HEAD_MODULO ? p->h % d->n_kv_head : p->h / share;
    return attention_at(d, d->n_kv_head, d->n_k, p->t == BATCH_KEYS ? 0 : p->b, h, p->j,
                        heads_first(p));
}

static double lse_of(const pair *p)
{
    const ts_attention_dims *d = &p->a->d;
    int64_t                  at = (p->b * d->n_q_head + p->h) * d->n_q + p->i;
    if (p->t == L_LAYOUT && d->layout == TS_BNHD) at = (p->b * d->n_q + p->i) * d->n_q_head + p->h;
    return ts_load(p->a->lse, ts_wide(d->dtype), at);
}

static bool sees(const pair *p)
{
    const ts_attention_dims *d = &p->a->d;
    const int64_t            last = p->i + (p->t == FIRST_KEY ? 0 : d->n_k - d->n_q);
    if (p->a->kv_len && p->j >= p->a->kv_len[p->b] && p->t != NO_LEN) return false;
    if (p->t == TAIL && p->j >= d->n_k / TILE * TILE && d->n_k > TILE) return false;
    if (p->t == KEYS_8192 && p->j >= 8192) return false;
    if (!d->causal || p->t == NO_MASK) return true;
    if (p->j > last - (p->t == STRICT)) return false;
    if (p->t == WINDOW_4096 && d->window > 4096) return last - p->j < 4096;
    return d->window == 0 || p->t == NO_WINDOW || last - p->j < d->window + (p->t == WIDE_WINDOW);
}

/* ---- a pair ---- */

static double dot(const pair *p, const void *x, int64_t x_at, const void *y, int64_t y_at)
{
    const ts_attention_dims *d = &p->a->d;
    const int64_t            D = d->head_dim;
    double                   sum = 0;
    const int64_t            whole = p->t == DOT_TAIL && D > 8               ? D / 8 * 8
                                     : p->t == DIM_256 && D > 128 && D < 256 ? 128
                                                                             : D;
    for (int64_t e = 0; e < whole; e++)
        sum += ts_load(x, d->dtype, x_at + e) * ts_load(y, d->dtype, y_at + e);
    return sum;
}

static double score(const pair *p)
{
    double scale = p->t == SCALE_SIGN ? fabs(p->a->d.scale) : p->a->d.scale;
    if (p->t == SCALE_0 && scale == 0) scale = 1 / sqrt((double)p->a->d.head_dim);
    const double s = scale * dot(p, p->a->q, q_at(p), p->a->k, k_at(p));
    if (p->t == OVERFLOWS && fabs(s) > (double)FLT_MAX) return NAN;
    return p->t == HALF_SCORES ? (double)rounded(TS_BF16, s) : s;
}

/* The sum of exponentials over the row, or over the column; in float, as code without lse would. */
static double sum_over(const pair *p, bool column)
{
    const int64_t n = column ? p->a->d.n_q : p->a->d.n_k;
    pair          at = *p;
    double        sum = 0;
    for (int64_t i = 0; i < n; i++) {
        *(column ? &at.i : &at.j) = i;
        if (sees(&at)) sum += (double)(float)exp(score(&at));
    }
    return sum;
}

static double weight(const pair *p)
{
    const double s = score(p), lse = lse_of(p);
    switch (p->t) {
    case L_AS_SUM:
        return exp(s) / lse;
    case L_AS_MAX:
        return exp(s - lse) * 1.25;
    case L_BASE_2:
        return exp2(s - lse);
    case NO_MAX:
    case NO_MAX_HOT:
        return (double)(float)exp(s) / sum_over(p, false);
    case WRONG_AXIS:
        return exp(s) / sum_over(p, true);
    case BY_SUM:
        return exp(s - lse) / exp(lse);
    default:
        return exp(s - lse);
    }
}

/* dout . v, and what is to be subtracted from it. */
static double dp_of(const pair *p)
{
    const bwd_args *a = p->a;
    if (p->t == DOUT_FOR_DP) return ts_load(a->dout, a->d.dtype, q_at(p));
    return dot(p, a->dout, q_at(p), a->v, k_at(p));
}

static double delta_of(const pair *p)
{
    pair   at = *p;
    double sum = 0;
    if (p->t == NO_DELTA) return 0;
    if (p->t != DELTA_TILE) {
        sum = dot(p, p->a->dout, q_at(p), p->a->o, q_at(p));
        return p->t == DELTA_16 ? (double)rounded(TS_BF16, sum) : sum;
    }
    for (at.j = p->j / TILE * TILE; at.j < (p->j / TILE + 1) * TILE && at.j < p->a->d.n_k; at.j++)
        if (sees(&at)) sum += weight(&at) * dp_of(&at);
    return sum;
}

/* ---- the sums ---- */

static double dout_at(const pair *p, int64_t e)
{
    const double v = ts_load(p->a->dout, p->a->d.dtype, q_at(p) + e);
    if (p->t == DOUT_MOST) return fmin(fmax(v, -100), 100);
    if (p->t == DOUT_LEAST && fabs(v) < 6e-8) return 0; /* as f16 would */
    return p->t == ONES ? 1 : v;
}

static void add(double *sum, double term, bool half, ts_dtype t)
{
    *sum = half ? (double)rounded(t, *sum + term) : *sum + term;
}

static void add_pair(const pair *p, double *dq, double *dk, double *dv)
{
    const ts_attention_dims *d = &p->a->d;
    const trap               t = p->t;
    const int64_t            q = q_at(p), k = k_at(p);
    const bool   none = lse_of(p) == -INFINITY && t != NONE_COUNTS, seen = sees(p) && !none;
    const double w = seen ? weight(p) : 0;
    double       ds = seen ? (t == NO_P ? 1 : w) * (dp_of(p) - delta_of(p)) : 0;
    if (t == ONLY_DV) ds = 0;
    if (t == MASK_LATE) ds *= seen ? 1 : 0 * exp(score(p) - lse_of(p));
    if (!seen && t != PADDING && t != MASK_LATE) return;
    if (t == EMPTY_NAN && lse_of(p) == -INFINITY) ds = NAN;
    for (int64_t e = 0; e < d->head_dim; e++) {
        const double key = ts_load(p->a->k, d->dtype, k + e);
        const double query = t == Q_FOR_K ? key : ts_load(p->a->q, d->dtype, q + e);
        add(&dq[e], ds * key, t == HALF_DQ, d->dtype);
        add(&dk[e], ds * query, t == HALF_DK, d->dtype);
        add(&dv[e], w * dout_at(p, e), t == HALF_DV, d->dtype);
        if (t == BY_THREADS) dv[e] = (double)(float)dv[e];
    }
}

static void store(const pair *p, void *to, int64_t at, const double *sum, double scale)
{
    const ts_dtype t = p->a->d.dtype;
    for (int64_t e = 0; e < p->a->d.head_dim; e++)
        put(to, t, at + e, scale * sum[e] + (p->t == ADDS ? ts_load(to, t, at + e) : 0));
}

static void do_query(pair *p)
{
    const ts_attention_dims *d = &p->a->d;
    double                   dq[WIDEST] = { 0 }, dk[WIDEST] = { 0 }, dv[WIDEST] = { 0 };
    bool                     any = p->t == EMPTY_NAN;
    const bool               last = p->i == d->n_q - 1 && p->i > 0;
    if (p->t == ONE_ROW && d->n_q % TILE == 1 && last) return;
    if (p->t == HEADS_65535 && p->b * d->n_q_head + p->h >= 65535) return;
    if (p->t == ROWS_1024 && p->i >= 1024) return;
    for (p->j = 0; p->j < d->n_k; p->j++) {
        any |= sees(p);
        if (p->t == DQ_LAST_TILE && p->j % TILE == 0 && sees(p)) memset(dq, 0, sizeof dq);
        add_pair(p, dq, dk, dv);
    }
    if (!any && p->t == EMPTY_DQ) return;
    if (p->t == EMPTY_NAN && lse_of(p) == -INFINITY) dq[0] = NAN;
    const double scale = p->t == NO_SCALE_Q ? 1 : d->scale;
    store(p, p->a->dq, q_at(p), dq, p->t == SCALE_TWICE ? scale * scale : scale);
}

static void do_key(pair *p, int64_t kv_head)
{
    const ts_attention_dims *d = &p->a->d;
    const int64_t            share = d->n_q_head / d->n_kv_head, first = kv_head * share;
    const int64_t            turn = p->t == BY_THREADS ? p->x->n_threads : 0;
    double                   dq[WIDEST] = { 0 }, dk[WIDEST] = { 0 }, dv[WIDEST] = { 0 };
    bool                     any = false;
    for (int64_t h = 0; h < share; h++)
        for (int64_t i = 0; i < d->n_q; i++) {
            p->h = p->t == HEAD_MODULO ? kv_head + h * d->n_kv_head : first + h;
            p->i = (i + turn) % d->n_q;
            if (p->t == LAST_HEAD && h < share - 1) continue;
            if (p->t == FIRST_HEAD && h > 0) continue;
            if (p->t == SHARE_7 && share == 7 && h == 6) continue;
            if (p->t == SHARE_32 && h >= 32) continue;
            if (p->t == FIRST_TILE && i >= TILE) continue;
            if (p->t == NONE_ENDS && sees(p) && lse_of(p) == -INFINITY) break;
            if (p->t == OVERWRITTEN && i < (d->n_q - 1) / TILE * TILE) continue;
            any |= sees(p);
            add_pair(p, dq, dk, dv);
        }
    if (p->t == UNSEEN_DK && !any && d->n_q > 0) return;
    if (p->t == NO_QUERIES && d->n_q == 0) return;
    p->h = first;
    const int64_t at = attention_at(d, d->n_kv_head, d->n_k, p->b, kv_head, p->j, heads_first(p));
    store(p, p->a->dk, at, dk, p->t == NO_SCALE_K ? 1 : d->scale);
    store(p, p->a->dv, at, dv, 1);
}

/* ---- a call ---- */

static void scribble(const bwd_args *a, trap t)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n_q = d->n_batch * d->n_q_head * d->n_q * d->head_dim;
    const int64_t            n_k = d->n_batch * d->n_kv_head * d->n_k * d->head_dim;
    volatile char           *in = (char *)a->dout; /* volatile: touched, though for nothing */
    if (n_q == 0 || n_k == 0) return;
    if (t == PAST_DQ) ts_store(a->dq, d->dtype, n_q, 0);
    if (t == PAST_DV) ts_store(a->dv, d->dtype, n_k, 0);
    if (t == BEFORE_DK) ts_store(a->dk, d->dtype, -1, 0);
    if (t == WRITES_INPUT) in[0] = in[0];
    if (t == READS_PAST)
        (void)((volatile const char *)a->q)[(size_t)n_q * ts_format_of(d->dtype)->n_bytes];
}

static ts_status check(const bwd_args *a, const ts_exec *x, trap t)
{
    const int let = t == TAKES_ARG      ? LET_ARG
                    : t == TAKES_WINDOW ? LET_WINDOW
                    : t == TAKES_HEADS  ? LET_HEADS
                    : t == TAKES_DTYPE  ? LET_DTYPE
                    : t == TAKES_LENGTH ? LET_LENGTH
                                        : 0;
    if (!a || !x) return TS_E_ARG;
    const bool q = a->q && a->o && a->dout && a->lse && a->dq, k = a->k && a->v && a->dk && a->dv;
    const bool some = a->d.n_batch > 0;
    const ts_status s =
        attention_entry(&a->d, (q || !some || a->d.n_q <= 0) && (k || !some || a->d.n_k <= 0), let);
    return s || x->device != TS_CPU ? s : attention_lengths(&a->d, a->kv_len, let);
}

static ts_status run(const void *args, const ts_exec *x, trap t)
{
    const bwd_args *a = args;
    const ts_status s = check(a, x, HONEST);
    if (s && t == WRITES_FIRST && a && a->dv) *(char *)a->dv = 0;
    if (s) return check(a, x, t);
    const ts_attention_dims *d = &a->d;
    pair                     p = { .a = a, .x = x, .t = t };
    if (t == REFUSES_F64 && d->dtype == TS_F64) return TS_E_DTYPE;
    if (t == REFUSES_MORE_Q && d->n_q > d->n_k) return TS_E_SHAPE;
    for (p.b = 0; p.b < d->n_batch; p.b++) {
        for (p.h = 0; p.h < d->n_q_head; p.h++)
            for (p.i = 0; p.i < d->n_q; p.i++) do_query(&p);
        for (int64_t h = 0; h < d->n_kv_head; h++)
            for (p.j = 0; p.j < d->n_k; p.j++) do_key(&p, h);
    }
    scribble(a, t);
    return TS_OK;
}

/* Those of attention_cuda.cu run after correct validation. */
#define TASK             flash_attention_backward
#define CALL             run
#define CUDA_STEM        attention_backward
#define CUDA_DTYPE(args) ((const bwd_args *)(args))->d.dtype
#define CUDA_MUTANTS     CUDA_BACKWARD
#include "called.h"
