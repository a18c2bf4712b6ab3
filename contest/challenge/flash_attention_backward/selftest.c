/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for flash_attention_backward against the definition in double. */
#include "selftest.h"
#include "touchstone/attention.h"

typedef struct shape {
    int64_t n_q, n_k, n_q_head, n_kv_head, head_dim;
} shape;

typedef enum family { NORMAL, CAUSAL, WINDOW, SINK, RAGGED } family;

static const char *const family_name[] = { "normal", "causal", "window", "sink", "ragged" };

static int64_t at(const ts_attention_dims *d, int64_t heads, int64_t n, int64_t b, int64_t h,
                  int64_t i)
{
    return (d->layout == TS_BHND ? (b * heads + h) * n + i : (b * n + i) * heads + h) * d->head_dim;
}

typedef struct head {
    const ts_flash_attention_backward_args *a;
    int64_t                                 b, h;   /* batch, query head */
    double                                 *p, *ds; /* [n_q][n_k]: P, and dS with the scale */
    double *p_off, *ds_off; /* what these may be off by, the rounding of the sums in which they are
                               terms included */
} head;

static int64_t q_at(const head *w, int64_t i)
{
    return at(&w->a->d, w->a->d.n_q_head, w->a->d.n_q, w->b, w->h, i);
}

static int64_t k_at(const head *w, int64_t j)
{
    const ts_attention_dims *d = &w->a->d;
    return at(d, d->n_kv_head, d->n_k, w->b, w->h / (d->n_q_head / d->n_kv_head), j);
}

/* size: what the magnitudes of the terms add up to. */
static double dot(const head *w, const void *x, int64_t i, const void *y, int64_t j, double *size)
{
    double sum = *size = 0;
    for (int64_t e = 0; e < w->a->d.head_dim; e++) {
        const double p = get(x, w->a->d.dtype, i + e) * get(y, w->a->d.dtype, j + e);
        sum += p, *size += fabs(p);
    }
    return sum;
}

static int sees(const head *w, int64_t i, int64_t j)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            last = i + d->n_k - d->n_q;
    if (w->a->kv_len && j >= w->a->kv_len[w->b]) return 0;
    return !d->causal || (j <= last && (!d->window || last - j < d->window));
}

/* What forward writes: o and lse of row i, and P. */
static void forward(const head *w, int64_t i, void *o, float *lse)
{
    const ts_attention_dims *d = &w->a->d;
    double *const            p = w->p + i * d->n_k;
    double                   max = -INFINITY, sum = 0, size;
    for (int64_t j = 0; j < d->n_k; j++) {
        const double s = d->scale * dot(w, w->a->q, q_at(w, i), w->a->k, k_at(w, j), &size);
        p[j] = sees(w, i, j) ? s : -INFINITY;
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j < d->n_k; j++) sum += p[j] = p[j] > -INFINITY ? exp(p[j] - max) : 0;
    *lse = sum > 0 ? (float)(max + log(sum)) : -INFINITY;
    for (int64_t j = 0; j < d->n_k; j++) p[j] /= sum > 0 ? sum : 1;
    for (int64_t e = 0; e < d->head_dim; e++) {
        double value = 0;
        for (int64_t j = 0; j < d->n_k; j++) value += p[j] * get(w->a->v, d->dtype, k_at(w, j) + e);
        set(o, d->dtype, q_at(w, i) + e, value);
    }
}

/* A score that is off by some amount makes P off by that part of itself. */
static void differentiate(const head *w, int64_t i, double u)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            row = (w->b * d->n_q_head + w->h) * d->n_q + i;
    double                   delta_size, dp_size, reach;
    const double             lse = fabs((double)((const float *)w->a->lse)[row]);
    const double delta = dot(w, w->a->dout, q_at(w, i), w->a->o, q_at(w, i), &delta_size);
    for (int64_t j = 0; j < d->n_k; j++) {
        const int64_t pair = i * d->n_k + j;
        const double  dp = dot(w, w->a->dout, q_at(w, i), w->a->v, k_at(w, j), &dp_size);
        const double  p = d->scale * w->p[pair];
        dot(w, w->a->q, q_at(w, i), w->a->k, k_at(w, j), &reach);
        const double part = u + sum_bound(d->head_dim) * fabs(d->scale) * reach +
                            (isfinite(lse) ? 2 * lse * 0x1p-24 : 0);
        w->ds[pair] = p * (dp - delta);
        w->ds_off[pair] = part * fabs(p) * (dp_size + delta_size);
        w->p_off[pair] = part * w->p[pair];
    }
}

static void check_query(const char *name, const head *w, int64_t i)
{
    const ts_attention_dims *d = &w->a->d;
    for (int64_t e = 0; e < d->head_dim; e++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < d->n_k; j++) {
            const double k = get(w->a->k, d->dtype, k_at(w, j) + e);
            sum += w->ds[i * d->n_k + j] * k;
            size += w->ds_off[i * d->n_k + j] * fabs(k);
        }
        compare(name, "dq", q_at(w, i) + e, get(w->a->dq, d->dtype, q_at(w, i) + e), sum,
                size + 1e-30);
    }
}

/* w: the first of the heads that share this key. */
static void check_key(const char *name, const head *w, int64_t j)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            share = d->n_q_head / d->n_kv_head, to = k_at(w, j);
    for (int64_t e = 0; e < d->head_dim; e++) {
        double dk = 0, dv = 0, dk_size = 0, dv_size = 0;
        for (int64_t h = 0; h < share; h++)
            for (int64_t i = 0; i < d->n_q; i++) {
                const int64_t pair = i * d->n_k + j;
                const double  q = get(w->a->q, d->dtype, q_at(w + h, i) + e);
                const double  g = get(w->a->dout, d->dtype, q_at(w + h, i) + e);
                dk += w[h].ds[pair] * q, dk_size += w[h].ds_off[pair] * fabs(q);
                dv += w[h].p[pair] * g, dv_size += w[h].p_off[pair] * fabs(g);
            }
        compare(name, "dk", to + e, get(w->a->dk, d->dtype, to + e), dk, dk_size + 1e-30);
        compare(name, "dv", to + e, get(w->a->dv, d->dtype, to + e), dv, dv_size + 1e-30);
    }
}

static void check_all(const char *name, const ts_flash_attention_backward_args *a, const head *w)
{
    const ts_attention_dims *d = &a->d;
    const double             u = d->dtype == TS_F32 ? 3e-5 : 3e-2;
    const int64_t            share = d->n_q_head / d->n_kv_head;
    for (int64_t h = 0; h < d->n_batch * d->n_q_head; h++)
        for (int64_t i = 0; i < d->n_q; i++) {
            differentiate(&w[h], i, u);
            check_query(name, &w[h], i);
        }
    for (int64_t h = 0; h < d->n_batch * d->n_q_head; h += share)
        for (int64_t j = 0; j < d->n_k; j++) check_key(name, &w[h], j);
}

static void run(ts_dtype t, shape s, family f, ts_attention_layout layout)
{
    enum { B = 2, MOST = 16 };
    const int64_t Q = B * s.n_q_head * s.n_q, K = B * s.n_kv_head * s.n_k, D = s.head_dim;
    const int64_t n_pair = s.n_q * s.n_k;
    const int32_t len[B] = { 0, (int32_t)(s.n_k / 2) };
    void *const q = fresh(Q * D), *const k = fresh(K * D), *const v = fresh(K * D);
    void *const o = fresh(Q * D), *const dout = fresh(Q * D);
    float *const  lse = fresh(Q);
    double *const room = fresh(4 * B * s.n_q_head * n_pair);
    const ts_exec x = test_exec();
    head          w[MOST];
    char          name[160];
    for (int64_t i = 0; i < Q * D; i++) set(q, t, i, draw()), set(dout, t, i, draw());
    for (int64_t i = 0; i < K * D; i++)
        set(k, t, i, f == SINK && i < D ? 40 : draw()), set(v, t, i, draw());
    ts_flash_attention_backward_args a = { .q = q, .k = k, .v = v, .o = o, .dout = dout };
    a.d = (ts_attention_dims) {
        t,           layout, f == CAUSAL || f == WINDOW, B, s.n_q, s.n_k, s.n_q_head,
        s.n_kv_head, D,      f == WINDOW ? 3 : 0,        0, 0,     0.3
    };
    a.lse = lse, a.kv_len = f == RAGGED ? len : NULL;
    a.dq = fresh(Q * D), a.dk = fresh(K * D), a.dv = fresh(K * D);
    for (int64_t h = 0; h < B * s.n_q_head; h++) {
        double *p = room + 4 * h * n_pair;
        w[h] = (head) { &a,         h / s.n_q_head, h % s.n_q_head, p,
                        p + n_pair, p + 2 * n_pair, p + 3 * n_pair };
        for (int64_t i = 0; i < s.n_q; i++) forward(&w[h], i, o, &lse[h * s.n_q + i]);
    }
    snprintf(name, sizeof name, "%s q=%lld k=%lld heads=%lld/%lld head_dim=%lld %s",
             t == TS_F32 ? "f32" : "bf16", (long long)s.n_q, (long long)s.n_k,
             (long long)s.n_q_head, (long long)s.n_kv_head, (long long)D, family_name[f]);
    begin_case();
    const ts_status status = finish(ts_flash_attention_backward(&a, &x));
    if (status != TS_OK) flaw(name, "status", 0, status, TS_OK);
    else check_all(name, &a, w);
    drop_all();
}

int main(void)
{
    static const shape shapes[] = { { 1, 1, 1, 1, 1 },
                                    { 17, 17, 4, 2, 8 },
                                    { 5, 64, 2, 1, 33 },
                                    { 40, 9, 2, 2, 16 },
                                    { 65, 65, 2, 1, 64 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int f = NORMAL; f <= RAGGED; f++) {
            run(TS_F32, shapes[i], (family)f, TS_BHND);
            run(TS_BF16, shapes[i], (family)f, TS_BNHD);
        }
    float                            q[4] = { 0 }, out[4];
    const ts_exec                    x = test_exec();
    ts_flash_attention_backward_args a = { .q = q, .k = q, .v = q, .o = q, .dout = q, .lse = q }, b;
    a.d = (ts_attention_dims) { TS_F32, TS_BHND, 0, 1, 1, 1, 1, 1, 4, 0, 0, 0, 1 };
    a.dq = a.dk = a.dv = out;
    b = a, b.lse = NULL;
    refused("no lse", ts_flash_attention_backward(&b, &x), TS_E_ARG);
    b = a, b.d.scale = NAN;
    refused("no scale", ts_flash_attention_backward(&b, &x), TS_E_ARG);
    b = a, b.d.head_dim = 257;
    refused("a head too wide", ts_flash_attention_backward(&b, &x), TS_E_SHAPE);
    b = a, b.d.dtype = TS_U8;
    refused("bytes", ts_flash_attention_backward(&b, &x), TS_E_DTYPE);
    return verdict();
}
