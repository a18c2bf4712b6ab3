/* SPDX-License-Identifier: Apache-2.0 */
/* unit_attention_gradient.c - every element of dq, dk and dv by complex step and by differences,
 * with random dout; identities; and what must not contribute. */
#include <complex.h>

#include "unit_attention.h"

/* ---- shapes small enough for every element ---- */

static const int32_t short_len[] = { 7, 4 };

typedef struct shape {
    ts_attention_dims d;
    const int32_t    *kv_len;
} shape;

static ts_attention_dims dims(ts_dtype dtype, int64_t n_q, int64_t n_k, int64_t head_dim)
{
    ts_attention_dims d = one_head(dtype, n_q, n_k, head_dim);
    d.scale = 0.8;
    return d;
}

enum { N_SHAPES = 5 };

static shape shape_at(int i)
{
    shape y = { dims(TS_F64, 5, 7, 3), NULL };
    if (i > 0) y.d.causal = 1, y.d.n_q_head = 4, y.d.n_kv_head = 2;
    if (i == 2) y.d.n_batch = 2, y.d.layout = TS_BNHD, y.kv_len = short_len;
    if (i == 3) y.d.n_q = 9;
    if (i == 4) y.d.window = 3, y.d.n_kv_head = 1, y.d.n_q = 7;
    return y;
}

/* Element i of t, moved by 1e-30 along the imaginary axis where it is the one to move. */
typedef struct move {
    const world *w;
    tensor       t;
    int64_t      at;
} move;

static double complex moved(const move *m, tensor t, int64_t i)
{
    return value(m->w, t, i) + (t == m->t && i == m->at ? 1e-30 : 0) * _Complex_I;
}

/* The sum of dout o. */
static double complex loss(const move *m)
{
    const world             *w = m->w;
    const ts_attention_dims *d = &w->d;
    const int64_t            dim = d->head_dim;
    double complex           all = 0;
    for (int64_t b = 0; b < d->n_batch; b++)
        for (int64_t h = 0; h < d->n_q_head; h++)
            for (int64_t i = 0; i < d->n_q; i++) {
                const int64_t  g = h * d->n_kv_head / d->n_q_head, q = row_at(w, Q, b, h, i);
                double complex s[16], weight = 0, sum = 0;
                double         max = -INFINITY;
                for (int64_t j = 0; j < d->n_k; j++) {
                    s[j] = 0;
                    for (int64_t c = 0; c < dim; c++)
                        s[j] +=
                            d->scale * moved(m, Q, q + c) * moved(m, K, row_at(w, K, b, g, j) + c);
                    if (sees(w, b, i, j)) max = fmax(max, creal(s[j]));
                }
                for (int64_t j = 0; j < d->n_k; j++) {
                    const double complex p = sees(w, b, i, j) ? cexp(s[j] - max) : 0;
                    weight += p;
                    for (int64_t c = 0; c < dim; c++)
                        sum += p * moved(m, V, row_at(w, V, b, g, j) + c) * value(w, DOUT, q + c);
                }
                if (creal(weight) != 0) all += sum / weight;
            }
    return all;
}

TEST(test_complex_step)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const shape y = shape_at(i);
        world       w = make(y.d, y.kv_len, 0xc0de + (uint64_t)i);
        expect(&w);
        run_forward(&w, 1);
        run_backward(&w, 1);
        for (tensor t = Q; t <= V; t++) {
            const tensor dt = (tensor)(DQ + (t - Q));
            double       largest = 0, off = 0, oracle_off = 0;
            for (int64_t at = 0; at < w.n[t]; at++) {
                const double want = cimag(loss(&(move) { &w, t, at })) / 1e-30;
                largest = fmax(largest, fabs(want));
                off = fmax(off, fabs(value(&w, dt, at) - want));
                oracle_off = fmax(oracle_off, fabs(w.want[dt][at] - want));
                assert_false(isnan(value(&w, dt, at)));
            }
            assert_true(largest > 0.01);
            assert_true(off <= 1e-12 * largest);
            assert_true(oracle_off <= 1e-12 * largest);
            print_message("complex step, shape %d: d%c off by %.1e of %.2f\n", i, "qkv"[t - Q], off,
                          largest);
        }
        drop(&w);
    }
}

/* The largest error of (loss(x + h) - loss(x - h)) / 2h against the gradient. Every moved copy is a
 * batch of one call of the library's own forward pass. */
static double difference_error(const world *w, tensor t, double h)
{
    ts_attention_dims d = w->d;
    const int64_t     n = w->n[t];
    double            worst = 0;
    d.n_batch = 2 * n;
    world copies = make(d, NULL, 0);
    for (tensor s = Q; s <= DOUT; s++)
        for (int64_t i = 0; i < copies.n[s]; i++) set(&copies, s, i, value(w, s, i % w->n[s]));
    for (int64_t i = 0; i < n; i++) {
        set(&copies, t, 2 * i * n + i, value(w, t, i) + h);
        set(&copies, t, (2 * i + 1) * n + i, value(w, t, i) - h);
    }
    run_forward(&copies, 1);
    for (int64_t i = 0; i < n; i++) {
        double rise = 0;
        for (int64_t c = 0; c < w->n[O]; c++)
            rise += value(w, DOUT, c) * (value(&copies, O, 2 * i * w->n[O] + c) -
                                         value(&copies, O, (2 * i + 1) * w->n[O] + c));
        worst = fmax(worst, fabs(rise / (2 * h) - value(w, (tensor)(DQ + (t - Q)), i)));
    }
    drop(&copies);
    return worst;
}

/* The best of a ladder of steps: with h the truncation, h^2, falls and the rounding, 1 / h, rises.
 */
TEST(test_differences)
{
    for (int i = 0; i < N_SHAPES; i++) {
        const shape y = shape_at(i);
        if (y.d.n_batch > 1) continue;
        world w = make(y.d, NULL, 0xd1ff + (uint64_t)i);
        run_forward(&w, 1);
        run_backward(&w, 1);
        for (tensor t = Q; t <= V; t++) {
            double best = INFINITY;
            for (double h = 1e-3; h > 1e-7; h /= 10) best = fmin(best, difference_error(&w, t, h));
            assert_true(best <= 1e-8);
            print_message("differences, shape %d: d%c off by %.1e\n", i, "qkv"[t - Q], best);
        }
        drop(&w);
    }
}

/* ---- identities, which hold whatever the numbers ---- */

/* One coordinate of every key is 1: of dq it makes scale times the sum of dS over the row, 0. The
 * values' gradients of a head add up to what its queries that see anything were given. */
TEST(test_identities)
{
    for (int m = 0; m < N_MASKS; m++)
        for (int64_t n_k = 100; n_k <= 200; n_k += 100) {
            ts_attention_dims d = dims(TS_F32, 150, n_k, 9);
            d.causal = 1, d.n_q_head = 3, d.n_kv_head = 1, d.scale = 0.2;
            world w = make(d, NULL, 7);
            for (int64_t j = 0; j < n_k; j++) set(&w, K, j * 9 + 4, 1);
            expect(&w);
            ts_cpu_set_mask(masks[m]);
            run_forward(&w, 2);
            run_backward(&w, 2);
            double given[9] = { 0 }, got[9] = { 0 }, size[9] = { 0 };
            for (int64_t r = 0; r < 450; r++) {
                assert_true(fabs(value(&w, DQ, r * 9 + 4)) <= w.bound[DQ][r * 9 + 4]);
                const int empty = r % 150 + n_k - 150 < 0;
                assert_int_equal(value(&w, LSE, r) == -INFINITY, empty);
                for (int c = 0; c < 9 && !empty; c++) {
                    given[c] += value(&w, DOUT, r * 9 + c);
                    size[c] += fabs(value(&w, DOUT, r * 9 + c));
                }
            }
            for (int64_t i = 0; i < n_k * 9; i++) got[i % 9] += value(&w, DV, i);
            for (int c = 0; c < 9; c++) assert_true(fabs(got[c] - given[c]) <= 1e-5 * size[c]);
            drop(&w);
        }
    ts_cpu_set_mask(~0u);
}

/* ---- what must not contribute ---- */

/* Queries from 100 on are given nothing, and those before do not see the keys from 100 on. */
TEST(test_hidden_pairs)
{
    for (int m = 0; m < N_MASKS; m++) {
        ts_attention_dims d = dims(TS_F32, 130, 130, 8);
        d.causal = 1;
        world w = make(d, NULL, 8);
        for (int64_t i = 100 * 8; i < w.n[DOUT]; i++) set(&w, DOUT, i, 0);
        ts_cpu_set_mask(masks[m]);
        run_forward(&w, 1);
        run_backward(&w, 1);
        for (int64_t i = 0; i < w.n[DK]; i++) {
            assert_int_equal(value(&w, DV, i) == 0, i >= 100 * 8);
            assert_int_equal(value(&w, DK, i) == 0, i >= 100 * 8);
        }
        drop(&w);
    }
    ts_cpu_set_mask(~0u);
}

/* Queries that see nothing: whatever they hold, dq is 0, and dk and dv never hear of it. */
static void see_nothing(ts_dtype type)
{
    ts_attention_dims d = dims(type, 150, 80, 8);
    d.causal = 1, d.scale = 0.3;
    world w = make(d, NULL, 9);
    expect(&w);
    for (int64_t i = 0; i < 70 * 8; i++)
        set(&w, Q, i, NAN), set(&w, DOUT, i, NAN), set(&w, O, i, NAN);
    for (int m = 0; m < N_MASKS; m++) {
        ts_cpu_set_mask(masks[m]);
        run_backward(&w, 2);
        for (tensor t = DQ; t <= DV; t++) compare(&w, t, "empty rows");
        for (int64_t i = 0; i < 70 * 8; i++) assert_true(value(&w, DQ, i) == 0);
    }
    drop(&w);
    ts_cpu_set_mask(~0u);
}

TEST(test_empty_rows)
{
    see_nothing(TS_F32);
    see_nothing(TS_BF16);
}

/* The same, where every score is -inf, and the query lies among others that do see keys. */
static void ask_infinity(ts_dtype type)
{
    world w = make(dims(type, 20, 80, 1), NULL, 11);
    for (int64_t j = 0; j < w.n[K]; j++) set(&w, K, j, 1 + fabs(value(&w, K, j)));
    for (int64_t i = 3; i < 20; i += 5) set(&w, Q, i, -INFINITY);
    expect(&w);
    for (int64_t i = 3; i < 20; i += 5) set(&w, DOUT, i, NAN);
    for (int m = 0; m < N_MASKS; m++) {
        ts_cpu_set_mask(masks[m]);
        run_backward(&w, 1);
        for (tensor t = DQ; t <= DV; t++) compare(&w, t, "infinite queries");
    }
    drop(&w);
    ts_cpu_set_mask(~0u);
}

TEST(test_infinite_queries)
{
    ask_infinity(TS_F32);
    ask_infinity(TS_BF16);
}

/* Sums of a thousand like terms: kept in 16 bits they would stand still. */
TEST(test_long_sums)
{
    ts_attention_dims d = dims(TS_BF16, 1021, 300, 4);
    d.scale = 0.01;
    world w = make(d, NULL, 10);
    for (tensor t = V; t <= DOUT; t++)
        for (int64_t i = 0; i < w.n[t]; i++) set(&w, t, i, 1 + 0.1 * value(&w, t, i));
    examine(&w, "long sums");
    drop(&w);
}
