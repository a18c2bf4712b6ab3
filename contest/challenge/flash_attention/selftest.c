/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for flash_attention against the definition in double. */
#include "selftest.h"
#include "touchstone/attention.h"

typedef struct shape {
    int64_t n_q, n_k, n_q_head, n_kv_head, head_dim;
} shape;

typedef enum family { NORMAL, CAUSAL, WINDOW, SINK, HOT, RAGGED } family;

static const char *const family_name[] = { "normal", "causal", "window", "sink", "hot", "ragged" };

static int64_t at(const ts_attention_dims *d, int64_t heads, int64_t n, int64_t b, int64_t h,
                  int64_t i)
{
    return (d->layout == TS_BHND ? (b * heads + h) * n + i : (b * n + i) * heads + h) * d->head_dim;
}

/* One score; -inf for a key that is not seen. size: what the magnitudes of its terms add up to. */
static double score(const ts_flash_attention_args *a, int64_t b, int64_t i, int64_t j, int64_t q,
                    int64_t k, double *size)
{
    const int64_t last = i + a->d.n_k - a->d.n_q;
    double        sum = 0;
    *size = 0;
    if (a->kv_len && j >= a->kv_len[b]) return -INFINITY;
    if (a->d.causal && (j > last || (a->d.window && last - j >= a->d.window))) return -INFINITY;
    for (int64_t e = 0; e < a->d.head_dim; e++) {
        const double p = get(a->q, a->d.dtype, q + e) * get(a->k, a->d.dtype, k + e);
        sum += p, *size += fabs(p * a->d.scale);
    }
    return sum * a->d.scale;
}

static void check_row(const char *name, const ts_flash_attention_args *a, int64_t b, int64_t h,
                      int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t q = at(d, d->n_q_head, d->n_q, b, h, i), g = h / (d->n_q_head / d->n_kv_head);
    const int64_t row = (b * d->n_q_head + h) * d->n_q + i;
    const double  u = d->dtype == TS_F32 ? 1e-5 : 2e-2;
    double        max = -INFINITY, sum = 0, o[256] = { 0 }, size[256] = { 0 }, largest = 0;
    double        terms, reach = 0; /* of a score, and the largest of these */
    for (int64_t pass = 0; pass < 2; pass++)
        for (int64_t j = 0; j < d->n_k; j++) {
            const int64_t k = at(d, d->n_kv_head, d->n_k, b, g, j);
            const double  s = score(a, b, i, j, q, k, &terms),
                         p = pass && s > -INFINITY ? exp(s - max) : 0;
            if (s > -INFINITY) largest = fmax(largest, fabs(s));
            reach = fmax(reach, terms);
            if (!pass) max = fmax(max, s);
            sum += p;
            for (int64_t e = 0; e < d->head_dim && p > 0; e++) {
                o[e] += p * get(a->v, d->dtype, k + e);
                size[e] += p * fabs(get(a->v, d->dtype, k + e));
            }
        }
    const double off = sum_bound(d->head_dim) * reach; /* a weight errs by that part of itself */
    const double part = (u * (1 + 0.1 * largest) + 2 * off) / (sum > 0 ? sum : 1);
    const double lse = sum > 0 ? max + log(sum) : -INFINITY;
    for (int64_t e = 0; e < d->head_dim; e++)
        compare(name, "o", q + e, get(a->o, d->dtype, q + e), sum > 0 ? o[e] / sum : 0,
                part * size[e]);
    compare(name, "lse", row, ((const float *)a->lse)[row], lse, 1e-4 + 1e-5 * fabs(largest) + off);
}

static void run(ts_dtype t, shape s, family f, ts_attention_layout layout)
{
    const int64_t  B = 2, Q = B * s.n_q_head * s.n_q, K = B * s.n_kv_head * s.n_k, D = s.head_dim;
    int32_t *const len = fresh(1);
    void *const q = fresh(Q * D), *const k = fresh(K * D), *const v = fresh(K * D);
    const ts_exec x = test_exec();
    char          name[160];
    len[0] = 0, len[1] = (int32_t)(s.n_k / 2);
    for (int64_t i = 0; i < Q * D; i++) set(q, t, i, (f == HOT ? 100 : 1) * draw());
    for (int64_t i = 0; i < K * D; i++) {
        set(k, t, i, f == SINK && i < D ? 40 : draw());
        set(v, t, i, draw());
    }
    ts_flash_attention_args a = { .d = { .dtype = t,
                                         .layout = layout,
                                         .causal = f == CAUSAL || f == WINDOW,
                                         .n_batch = B,
                                         .n_q = s.n_q,
                                         .n_k = s.n_k,
                                         .n_q_head = s.n_q_head,
                                         .n_kv_head = s.n_kv_head,
                                         .head_dim = D,
                                         .window = f == WINDOW ? 3 : 0,
                                         .scale = 0.3 },
                                  .q = q,
                                  .k = k,
                                  .v = v,
                                  .kv_len = f == RAGGED ? len : NULL,
                                  .o = fresh(Q * D),
                                  .lse = fresh(Q) };
    snprintf(name, sizeof name, "%s q=%lld k=%lld heads=%lld/%lld head_dim=%lld %s",
             t == TS_F32 ? "f32" : "bf16", (long long)s.n_q, (long long)s.n_k,
             (long long)s.n_q_head, (long long)s.n_kv_head, (long long)D, family_name[f]);
    begin_case();
    const ts_status status = finish(ts_flash_attention(&a, &x));
    if (status != TS_OK) flaw(name, "status", 0, status, TS_OK);
    for (int64_t r = 0; r < Q && status == TS_OK; r++)
        check_row(name, &a, r / s.n_q / s.n_q_head, r / s.n_q % s.n_q_head, r % s.n_q);
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
    float                   q[4] = { 0 }, o[4], lse[1];
    const ts_exec           x = test_exec();
    ts_flash_attention_args a = { .q = q, .k = q, .v = q, .o = o, .lse = lse }, b;
    a.d = (ts_attention_dims) { TS_F32, TS_BHND, 0, 1, 1, 1, 1, 1, 4, 0, 0, 0, 1 };
    b = a, b.k = NULL;
    refused("no keys", ts_flash_attention(&b, &x), TS_E_ARG);
    b = a, b.d.scale = NAN;
    refused("no scale", ts_flash_attention(&b, &x), TS_E_ARG);
    b = a, b.d.window = 2;
    refused("a window without causal", ts_flash_attention(&b, &x), TS_E_ARG);
    b = a, b.d.head_dim = 257;
    refused("a head too wide", ts_flash_attention(&b, &x), TS_E_SHAPE);
    b = a, b.d.dtype = TS_U8;
    refused("bytes", ts_flash_attention(&b, &x), TS_E_DTYPE);
    return verdict();
}
