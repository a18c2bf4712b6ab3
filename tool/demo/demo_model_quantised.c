/* SPDX-License-Identifier: Apache-2.0 */
/* demo_model_quantised.c - `demo quantised`: savings and errors of quantised caches. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"
#include "demo_kv.h"
#include "dtype.h"

enum { LENGTH = 256, GROUP = 16, N_STORES = 7, N_RANKS = 8 };

typedef struct store {
    const char *name;
    ts_dtype    dtype, meta;
    ts_key_axis axis;
    int         bits; /* of codes */
} store;

static const store STORES[N_STORES] = {
    { "f32, pages of 16", TS_F32, TS_F32, TS_KEY_TOKEN, 0 },
    { "f16", TS_F16, TS_F32, TS_KEY_TOKEN, 0 },
    { "bf16", TS_BF16, TS_F32, TS_KEY_TOKEN, 0 },
    { "int8 by channel", TS_U8, TS_F32, TS_KEY_CHANNEL, 8 },
    { "int8 by token", TS_U8, TS_F32, TS_KEY_TOKEN, 8 },
    { "int4 by channel", TS_U4, TS_F16, TS_KEY_CHANNEL, 4 },
    { "int4 by token", TS_U4, TS_F16, TS_KEY_TOKEN, 4 },
};

/* A text through one cache. */
typedef struct passage {
    double *logits; /* [LENGTH][n_vocab] */
    float  *k,
        *v; /* [LENGTH][n_kv_head][head_dim], of layer 0, whose input does not depend on a cache */
    double bytes; /* live bytes per token */
} passage;

typedef struct loss {
    double error[2],
        bound[2]; /* keys, values: largest error relative to the largest value, and to its bound */
    double kl[LENGTH]; /* nats, worst first */
    double mean_kl;
    int    n_changed;
} loss;

static bool read_passage(const ts_demo_model *m, const store *s, bool paged, const int32_t *token,
                         passage *p)
{
    const int64_t n_vocab = ts_decoder_dims_of(m->m)->n_vocab, one = 1;
    ts_kv_dims    d = ts_demo_model_dims(m, 1, LENGTH, 1);
    const size_t  row = (size_t)(d.n_kv_head * d.head_dim);
    ts_demo_kv    k = { 0 };
    ts_kv_usage   u;
    int32_t       seq;
    d.store_dtype = s->dtype, d.meta_dtype = s->meta, d.key_axis = s->axis;
    d.key_group = s->axis == TS_KEY_CHANNEL ? GROUP : d.head_dim;
    if (paged) d.page = GROUP, d.n_page = d.n_layer * LENGTH / GROUP;
    p->logits = malloc((size_t)(LENGTH * n_vocab) * sizeof *p->logits);
    p->k = malloc(LENGTH * row * sizeof *p->k);
    p->v = malloc(LENGTH * row * sizeof *p->v);
    bool ok = p->logits && p->k && p->v && ts_demo_model_cache(m, &d, &k) &&
              ts_demo_ok("open", ts_kv_open(k.c, &k.x, &seq));
    for (int64_t i = 0; ok && i < LENGTH; i++) {
        const ts_demo_batch b = { 1, &seq, &one, token + i, false };
        ok = ts_demo_model_forward(m, &k, &b, p->logits + i * n_vocab);
    }
    ok = ok && ts_demo_ok("read", ts_kv_read(k.c, &k.x, 0, seq, 0, LENGTH, p->k, p->v)) &&
         ts_demo_ok("status", ts_kv_status(k.c, 0, seq, NULL, &u));
    if (ok) p->bytes = (double)u.bytes_live / LENGTH;
    ts_demo_kv_free(&k);
    return ok;
}

static void free_passage(passage *p)
{
    free(p->logits);
    free(p->k);
    free(p->v);
    *p = (passage) { 0 };
}

/* The header's error bound for element i of x, [LENGTH][n], in heads of D channels. */
static double promise(const store *s, bool keys, const float *x, int64_t i, int64_t n, int64_t D)
{
    const ts_format *f = s->bits ? NULL : ts_format_of(s->dtype);
    if (f) return fmax(f->u * fabs((double)x[i]), f->u * f->min_normal);
    const bool    channel = keys && s->axis == TS_KEY_CHANNEL;
    const int64_t first = channel ? i / n / GROUP * GROUP * n + i % n : i / D * D;
    double        lo = INFINITY, hi = -INFINITY;
    for (int64_t j = 0; j < (channel ? GROUP : D); j++) {
        const double y = x[first + j * (channel ? n : 1)];
        lo = fmin(lo, y), hi = fmax(hi, y);
    }
    const double half = (hi - lo) / (exp2(s->bits) - 1) / 2, ends = fabs(lo) + fabs(hi);
    return s->meta == TS_F32 ? half + 0x1p-22 * ends : half + 0x1p-10 * ends + exp2(s->bits - 25);
}

static void compare_rows(const store *s, bool keys, const float *x, const float *got, int64_t n,
                         int64_t D, loss *l)
{
    double far = 0, largest = 0, bound = 0;
    for (int64_t i = 0; i < LENGTH * n; i++) {
        const double e = fabs((double)got[i] - x[i]);
        far = fmax(far, e);
        largest = fmax(largest, fabs((double)x[i]));
        bound = fmax(bound, e / promise(s, keys, x, i, n, D));
    }
    l->error[!keys] = far / largest;
    l->bound[!keys] = bound;
}

static double log_sum(const double *x, int64_t n)
{
    const double m = x[ts_demo_likeliest(x, n)];
    double       sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - m);
    return m + log(sum);
}

/* KL divergence of q from p, in nats. Rounding may give slightly negative values for 0. */
static double divergence(const double *p, const double *q, int64_t n)
{
    const double lp = log_sum(p, n), lq = log_sum(q, n);
    double       kl = 0;
    for (int64_t i = 0; i < n; i++) kl += exp(p[i] - lp) * ((p[i] - lp) - (q[i] - lq));
    return fmax(kl, 0);
}

static int worst_first(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a < b) - (a > b);
}

static void compare_logits(const passage *exact, const passage *got, int64_t n_vocab, loss *l)
{
    l->mean_kl = l->n_changed = 0;
    for (int64_t t = 0; t < LENGTH; t++) {
        const double *p = exact->logits + t * n_vocab, *q = got->logits + t * n_vocab;
        l->kl[t] = divergence(p, q, n_vocab);
        l->mean_kl += l->kl[t] / LENGTH;
        l->n_changed += ts_demo_likeliest(p, n_vocab) != ts_demo_likeliest(q, n_vocab);
    }
    qsort(l->kl, LENGTH, sizeof *l->kl, worst_first);
}

static void show_loss(const ts_demo_args *a, const store *s, double bytes, double full,
                      const loss *l, ts_json *rows)
{
    ts_json *o = ts_json_object(rows, NULL);
    ts_json_text(o, "store", s->name);
    ts_json_number(o, "bytes_per_token", bytes);
    ts_json_number(o, "key_error", l->error[0]);
    ts_json_number(o, "value_error", l->error[1]);
    ts_json_number(o, "key_error_of_bound", l->bound[0]);
    ts_json_number(o, "value_error_of_bound", l->bound[1]);
    ts_json_number(o, "kl_mean", l->mean_kl);
    ts_json_number(o, "kl_largest", l->kl[0]);
    ts_json_int(o, "tokens_changed", l->n_changed);
    ts_print(a->table,
             "%-16s  %7.0f  %5.1fx  %7.1e  %7.1e  %5.2f  %5.2f  %8.1e  %8.1e  %3d of %d\n", s->name,
             bytes, full / bytes, l->error[0], l->error[1], l->bound[0], l->bound[1], l->mean_kl,
             l->kl[0], l->n_changed, LENGTH);
}

static bool run_stores(const ts_demo_args *a, const ts_demo_model *m, loss l[N_STORES])
{
    const ts_decoder_dims *d = ts_decoder_dims_of(m->m);
    static const store     plain = { "f32", TS_F32, TS_F32, TS_KEY_TOKEN, 0 };
    ts_json               *rows = ts_json_array(a->json, "rows");
    int32_t                token[LENGTH];
    passage                exact = { 0 }, got = { 0 };
    const int64_t          n = d->n_kv_head * d->head_dim;
    bool                   ok = ts_demo_model_text(m, a->seed, token, LENGTH) &&
              read_passage(m, &plain, false, token, &exact);
    for (int i = 0; ok && i < N_STORES; i++) {
        ok = read_passage(m, &STORES[i], STORES[i].dtype == TS_F32, token, &got);
        if (ok) {
            compare_rows(&STORES[i], true, exact.k, got.k, n, d->head_dim, &l[i]);
            compare_rows(&STORES[i], false, exact.v, got.v, n, d->head_dim, &l[i]);
            compare_logits(&exact, &got, d->n_vocab, &l[i]);
            show_loss(a, &STORES[i], got.bytes, exact.bytes, &l[i], rows);
        }
        free_passage(&got);
    }
    free_passage(&exact);
    return ok;
}

static bool plot_losses(const char *path, const loss l[N_STORES])
{
    double    x[N_RANKS], y[N_STORES - 1][N_RANKS];
    ts_series s[N_STORES - 1];
    for (int r = 0; r < N_RANKS; r++) x[r] = exp2(r);
    for (int i = 1; i < N_STORES; i++) { /* the first has no error to plot */
        for (int r = 0; r < N_RANKS; r++) y[i - 1][r] = l[i].kl[(1 << r) - 1];
        s[i - 1] = (ts_series) { STORES[i].name, y[i - 1] };
    }
    return ts_svg_write(path,
                        &(ts_plot) { "Effect of a narrower cache on the next token",
                                     "tokens of the sequence, worst first",
                                     "KL from the float32 cache, nats", x, N_RANKS, s,
                                     N_STORES - 1 },
                        1);
}

int ts_demo_quantised(const ts_demo_args *a)
{
    static loss   l[N_STORES];
    ts_demo_model m;
    bool          right = true, ok = ts_demo_model_open(a, TS_F32, &m);
    if (ok)
        ts_print(a->table,
                 "%d tokens generated by the model, read one by one with caches of several widths, "
                 "each compared\nwith the float32 cache. Keys quantised by channel have groups of "
                 "%d tokens.\n",
                 LENGTH, GROUP);
    if (ok) ts_demo_model_about(a, &m);
    if (ok)
        ts_print(
            a->table,
            "\n%-16s  %7s  %6s  %16s  %12s  %18s  %s\n%-16s  %7s  %6s  %7s  %7s  %5s  %5s  %8s  "
            "%8s  %s\n",
            "", "B per", "", "error, of largest", "of its bound", "KL, nats", "top token", "cache",
            "token", "saving", "keys", "values", "keys", "val.", "mean", "largest", "changed");
    ok = ok && run_stores(a, &m, l);
    ts_demo_model_close(&m);
    if (!ok) return TS_EXIT_BROKEN;
    for (int i = 0; i < N_STORES; i++) right = right && l[i].bound[0] <= 1 && l[i].bound[1] <= 1;
    right = right && l[0].kl[0] == 0 && l[0].error[0] == 0 && l[0].error[1] == 0;
    ts_print(a->table, "\nErrors are of layer 0, whose input does not depend on the cache.\n%s\n",
             right ? "All are within the derived bounds, and paging changes no bit."
                   : "FAILED: an error is outside its bound, or paging changed a bit.");
    return ts_demo_end(a, right, !a->svg || plot_losses(a->svg, l));
}
