/* SPDX-License-Identifier: Apache-2.0 */
/* unit_train.c - tests loss and gradient of whole nets against the model's formulas, written a
 * second time below for complex numbers.
 *
 * Every weight is moved by 1e-30 along the imaginary axis; in ternary nets, every effective weight.
 * Then tests what must not change a bit. */
#include <complex.h>

#include "dtype.h"
#include "unit_train.h"

typedef double complex number;

/* ---- the model once more, by plain loops ---- */

typedef struct oracle {
    const ts_decoder_dims *d;
    const ts_net_options  *o;
    const double          *w; /* in the order of ts_net_weights */
    int64_t                moved;
    const ts_net_batch    *b;
} oracle;

static number weight(const oracle *m, int64_t i)
{
    return m->w[i] + (i == m->moved ? 1e-30 : 0) * _Complex_I;
}

enum { MOST = 320 }; /* of any row */

/* y = W x, W [n_out][n_in] from `at` on; returns what comes after it. Real weights are a quarter of
 * the work of complex ones, so what the moved one adds is apart. */
static int64_t times(const oracle *m, int64_t at, int64_t n_out, int64_t n_in, const number *x,
                     number *y)
{
    const int64_t moved = m->moved - at;
    for (int64_t o = 0; o < n_out; o++) {
        y[o] = 0;
        for (int64_t i = 0; i < n_in; i++) y[o] += m->w[at + o * n_in + i] * x[i];
    }
    if (moved >= 0 && moved < n_out * n_in) y[moved / n_in] += 1e-30 * _Complex_I * x[moved % n_in];
    return at + n_out * n_in;
}

static void norm(const oracle *m, int64_t gain, int64_t n, const number *x, number *y)
{
    number sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    const number s = 1 / csqrt(sum / (double)n + m->d->norm_eps);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * s * weight(m, gain + i);
}

static void turn(const oracle *m, int64_t position, number *x)
{
    const int64_t half = m->d->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        const double a =
            (double)position * pow(m->d->rope_theta, -2.0 * (double)i / (double)m->d->head_dim);
        const number p = x[i], q = x[i + half];
        x[i] = p * cos(a) - q * sin(a);
        x[i + half] = q * cos(a) + p * sin(a);
    }
}

/* A sequence's rows of q, k and v after norm and rotation. */
typedef struct heads {
    number q[16][MOST], k[16][MOST], v[16][MOST];
} heads;

static void mix(const oracle *m, const heads *y, int64_t t, number *out)
{
    const int64_t dim = m->d->head_dim;
    for (int64_t h = 0; h < m->d->n_head; h++) {
        const int64_t g = h / (m->d->n_head / m->d->n_kv_head);
        number        s[16], sum = 0;
        double        most = -INFINITY;
        for (int64_t j = 0; j <= t; j++) {
            s[j] = 0;
            for (int64_t c = 0; c < dim; c++) s[j] += y->q[t][h * dim + c] * y->k[j][g * dim + c];
            s[j] /= sqrt((double)dim);
            most = fmax(most, creal(s[j]));
        }
        for (int64_t j = 0; j <= t; j++) sum += s[j] = cexp(s[j] - most);
        for (int64_t c = 0; c < dim; c++) {
            out[h * dim + c] = 0;
            for (int64_t j = 0; j <= t; j++) out[h * dim + c] += s[j] / sum * y->v[j][g * dim + c];
        }
    }
}

/* Where the weights of a layer begin, and its norms. */
static int64_t layer_at(const oracle *m, int64_t l)
{
    const ts_decoder_dims *d = m->d;
    const int64_t          q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim;
    return d->n_vocab * d->width + l * (2 * q + 2 * kv + 3 * d->n_ffn) * d->width;
}

static int64_t norm_at(const oracle *m, int64_t l)
{
    return layer_at(m, m->d->n_layer) + l * 2 * (m->d->width + m->d->head_dim);
}

static void layer(const oracle *m, int64_t l, number x[][MOST])
{
    static heads           y;
    const ts_decoder_dims *d = m->d;
    const int64_t          n = m->o->n_token, w = d->width, dim = d->head_dim;
    const int64_t          q = d->n_head * dim, kv = d->n_kv_head * dim;
    const int64_t          gain = norm_at(m, l);
    int64_t                o_at = 0;
    number                 h[MOST], a[MOST], b[MOST];
    for (int64_t t = 0; t < n; t++) {
        norm(m, gain, w, x[t], h);
        int64_t at = times(m, layer_at(m, l), q, w, h, y.q[t]);
        at = times(m, at, kv, w, h, y.k[t]);
        o_at = times(m, at, kv, w, h, y.v[t]);
        for (int64_t i = 0; i < q; i += dim) {
            norm(m, gain + w, dim, y.q[t] + i, y.q[t] + i);
            turn(m, t, y.q[t] + i);
        }
        for (int64_t i = 0; i < kv; i += dim) {
            norm(m, gain + w + dim, dim, y.k[t] + i, y.k[t] + i);
            turn(m, t, y.k[t] + i);
        }
    }
    for (int64_t t = 0; t < n; t++) {
        mix(m, &y, t, a);
        int64_t at = times(m, o_at, w, q, a, h);
        for (int64_t i = 0; i < w; i++) x[t][i] += h[i];
        norm(m, gain + w + 2 * dim, w, x[t], h);
        at = times(m, at, d->n_ffn, w, h, a);
        at = times(m, at, d->n_ffn, w, h, b);
        for (int64_t i = 0; i < d->n_ffn; i++) a[i] = a[i] / (1 + cexp(-a[i])) * b[i];
        times(m, at, w, d->n_ffn, a, h);
        for (int64_t i = 0; i < w; i++) x[t][i] += h[i];
    }
}

/* Summed over the batch. */
static number loss(const oracle *m)
{
    const ts_decoder_dims *d = m->d;
    const int64_t          n = m->o->n_token;
    number                 all = 0, h[MOST], z[MOST];
    static number          x[16][MOST];
    for (int64_t s = 0; s < m->o->n_batch; s++) {
        const int32_t *input = m->b->input + s * n, *target = m->b->target + s * n;
        for (int64_t t = 0; t < n; t++)
            for (int64_t i = 0; i < d->width; i++) x[t][i] = weight(m, input[t] * d->width + i);
        for (int64_t l = 0; l < d->n_layer; l++) layer(m, l, x);
        for (int64_t t = 0; t < n; t++) {
            if (target[t] < 0) continue;
            number sum = 0;
            double most = -INFINITY;
            norm(m, norm_at(m, d->n_layer), d->width, x[t], h);
            times(m, 0, d->n_vocab, d->width, h, z);
            for (int64_t v = 0; v < d->n_vocab; v++) most = fmax(most, creal(z[v]));
            for (int64_t v = 0; v < d->n_vocab; v++) sum += cexp(z[v] - most);
            all += clog(sum) + most - z[target[t]];
        }
    }
    return all;
}

/* ---- the gradient ---- */

/* Weights that are not all alike: gains near 1, latents of any size. */
static void stir(ts_net *n)
{
    double *w = ts_net_weights(n);
    for (int64_t i = 0; i < ts_net_count(n); i++)
        w[i] =
            (float)(w[i] * (i < ts_net_matrix_count(n) ? 2 : 1) * (1 + 0.3 * ts_normal(0xacc, i)));
}

static double *serving(ts_net *n)
{
    const int64_t count = ts_net_count(n);
    float        *narrow = malloc((size_t)count * sizeof *narrow);
    double       *w = malloc((size_t)count * sizeof *w);
    assert_true(narrow && w);
    assert_int_equal(ts_net_effective(n, narrow), TS_OK);
    for (int64_t i = 0; i < count; i++) w[i] = narrow[i];
    free(narrow);
    return w;
}

/* `every`: how many weights are passed over between two that are tried. In double what a ternary
 * kernel gives is rounded to float once, a matrix's gradient being float by contract. */
static void check_gradient(const char *name, ts_net_options o, int kind, int64_t every)
{
    o.dtype = TS_F64;
    set_kind(&o, kind);
    ts_net      *n = net_of(&o, 0x5eed);
    ts_net_batch b = batch_of(&o);
    ts_net_score s = { 0 };
    double       off = 0, largest = 0, bound = o.ternary && !o.paired ? 0x1p-23 : 1e-12;
    int64_t      n_tried = 0;
    batch_fill(&o, &b, o.dims.n_vocab - 2, 7); /* two tokens that are never seen, only scored */
    b.target[2] = -1;
    stir(n);
    const double  weight_of_loss = 0.37;
    double *const w = serving(n);
    assert_int_equal(ts_net_grad(n, &b, weight_of_loss, &s), TS_OK);
    const double *g = ts_net_gradient(n);
    oracle        m = { &o.dims, &o, w, -1, &b };
    const double  want = creal(loss(&m));
    assert_true(fabs(s.nll - want) <= 1e-12 * fabs(want));
    assert_int_equal(s.n_count, o.n_batch * (o.n_token - 1) - 1);
    for (int64_t i = 0; i < ts_net_count(n); i += every, n_tried++) {
        m.moved = i;
        const double d = weight_of_loss * cimag(loss(&m)) / 1e-30;
        largest = fmax(largest, fabs(d));
        off = fmax(off, fabs(g[i] - d));
        assert_false(isnan(g[i]));
    }
    print_message("%s, %s: loss off by %.1e of %.3f; %lld of %lld gradients off by %.1e of %.2f\n",
                  name, kinds[kind], fabs(s.nll - want), want, (long long)n_tried,
                  (long long)ts_net_count(n), off, largest);
    assert_true(largest > 0.01);
    assert_true(off <= bound * largest);
    free(w);
    batch_free(&b);
    ts_net_free(&n);
}

TEST(gradients)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_gradient("1,8,2/1,4,12,11", net_options(1, 8, 2, 1, 4, 12, 11), kind, 1);
        check_gradient("2,12,4/2,6,20,17", net_options(2, 12, 4, 2, 6, 20, 17), kind,
                       SANITIZED ? 7 : 1);
        if (kind == 2) /* more than one pair in a row */
            check_gradient("1,300,2/2,4,310,13", net_options(1, 300, 2, 2, 4, 310, 13), kind, 3331);
        check_gradient("1,130,2/2,4,140,13", net_options(1, 130, 2, 2, 4, 140, 13), kind, 331);
    }
}

/* The oracle must be able to see a fault: with one input token changed its loss and the net's part.
 */
TEST(another_input_is_another_loss)
{
    ts_net_options o = net_options(1, 8, 2, 1, 4, 12, 11);
    o.dtype = TS_F64;
    ts_net      *n = net_of(&o, 3);
    ts_net_batch b = batch_of(&o);
    ts_net_score s = { 0 };
    batch_fill(&o, &b, 11, 5);
    double *const w = serving(n);
    assert_int_equal(ts_net_eval(n, &b, &s), TS_OK);
    b.input[0] = (b.input[0] + 1) % 11;
    const oracle m = { &o.dims, &o, w, -1, &b };
    assert_true(fabs(creal(loss(&m)) - s.nll) > 1e-6);
    free(w);
    batch_free(&b);
    ts_net_free(&n);
}

/* ---- paired groups ---- */

/* Against the definition in plain words: in each span of 256 weights of a row one scale, the mean
 * of their magnitudes in f16, and a weight is 0 where twice its magnitude does not exceed it. */
TEST(one_scale_for_two_groups)
{
    ts_net_options o = net_options(1, 300, 2, 2, 4, 310, 13);
    set_kind(&o, 2);
    ts_net       *n = net_of(&o, 0x5eed);
    const int64_t rows = o.dims.n_vocab, cols = o.dims.width; /* of the first matrix */
    const float  *w = ts_net_weights(n);
    double *const served = serving(n);
    int64_t       n_zero = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t from = 0; from < cols; from += 256) {
            const int64_t to = from + 256 < cols ? from + 256 : cols;
            double        sum = 0;
            uint16_t      half;
            for (int64_t c = from; c < to; c++) sum += fabs((double)w[r * cols + c]);
            ts_store(&half, TS_F16, 0, sum / (double)(to - from));
            const double s = ts_load(&half, TS_F16, 0);
            for (int64_t c = from; c < to; c++) {
                const double v = w[r * cols + c], want = 2 * fabs(v) <= s ? 0 : v > 0 ? s : -s;
                assert_true(served[r * cols + c] == want);
                n_zero += want == 0;
            }
        }
    assert_in_range(n_zero, 1, rows * cols - 1);
    free(served);
    ts_net_free(&n);
}

/* ---- float against double ---- */

TEST(float_near_double)
{
    for (int kind = 0; kind < KINDS; kind++) {
        ts_net_options o = net_options(2, 128, 4, 2, 32, 384, 256);
        o.n_token = 40;
        set_kind(&o, kind);
        ts_net *f = net_of(&o, 11);
        o.dtype = TS_F64;
        ts_net      *d = net_of(&o, 11);
        ts_net_batch b = batch_of(&o);
        ts_net_score sf = { 0 }, sd = { 0 };
        batch_fill(&o, &b, o.dims.n_vocab, 1);
        for (int64_t i = 0; i < ts_net_count(d); i++)
            ((double *)ts_net_weights(d))[i] = ((float *)ts_net_weights(f))[i];
        assert_int_equal(ts_net_grad(f, &b, 1, &sf), TS_OK);
        assert_int_equal(ts_net_grad(d, &b, 1, &sd), TS_OK);
        double off = 0, largest = 0;
        for (int64_t i = 0; i < ts_net_count(d); i++) {
            const double want = ((double *)ts_net_gradient(d))[i];
            const double gap = fabs(((float *)ts_net_gradient(f))[i] - want);
            off = gap <= off ? off : gap;
            largest = fmax(largest, fabs(want));
        }
        print_message("%s: float's loss off by %.1e, its gradient by %.1e of %.2f\n", kinds[kind],
                      fabs(sf.nll / sd.nll - 1), off, largest);
        assert_true(fabs(sf.nll / sd.nll - 1) <= 1e-6);
        assert_true(off <= 2e-5 * largest);
        batch_free(&b);
        ts_net_free(&f);
        ts_net_free(&d);
    }
}

/* ---- what must not change ---- */

TEST(threads_change_no_bit)
{
    for (int kind = 0; kind < KINDS; kind++) {
        ts_net_options o = net_options(2, 160, 4, 2, 32, 400, 300);
        o.n_batch = 5;
        o.n_token = 101;
        set_kind(&o, kind);
        o.n_threads = 1;
        ts_net      *one = net_of(&o, 9);
        ts_net_batch b = batch_of(&o);
        ts_net_score s = { 0 };
        const size_t bytes = (size_t)ts_net_count(one) * sizeof(float);
        batch_fill(&o, &b, o.dims.n_vocab, 2);
        assert_int_equal(ts_net_grad(one, &b, 0.1, &s), TS_OK);
        for (int n_threads = 2; n_threads <= 5; n_threads += SANITIZED ? 3 : 1) {
            o.n_threads = n_threads;
            ts_net      *many = net_of(&o, 9);
            ts_net_score t = { 0 };
            assert_int_equal(ts_net_grad(many, &b, 0.1, &t), TS_OK);
            assert_memory_equal(&s, &t, sizeof s);
            assert_memory_equal(ts_net_gradient(one), ts_net_gradient(many), bytes);
            ts_net_free(&many);
        }
        batch_free(&b);
        ts_net_free(&one);
    }
}

/* Padding, and values at positions without a target, change neither losses nor gradients. */
TEST(padding_counts_for_nothing)
{
    ts_net_options o = net_options(2, 12, 4, 2, 6, 20, 17);
    ts_net        *n = net_of(&o, 1), *other = net_of(&o, 1);
    ts_net_batch   b = batch_of(&o);
    ts_net_score   s = { 0 }, t = { 0 };
    batch_fill(&o, &b, 17, 3);
    for (int64_t i = 4; i < 7; i++) b.target[i] = -1;
    assert_int_equal(ts_net_grad(n, &b, 1, &s), TS_OK);
    for (int64_t i = 4; i < 7; i++) b.input[i] = (b.input[i] + 5) % 17;
    assert_int_equal(ts_net_grad(other, &b, 1, &t), TS_OK);
    assert_int_equal(s.n_count, 4 + 6);
    assert_memory_equal(&s, &t, sizeof s);
    assert_memory_equal(ts_net_gradient(n), ts_net_gradient(other),
                        (size_t)ts_net_count(n) * sizeof(float));
    batch_free(&b);
    ts_net_free(&n);
    ts_net_free(&other);
}

TEST(gradients_add_up)
{
    ts_net_options o = net_options(2, 12, 4, 2, 6, 20, 17);
    o.dtype = TS_F64;
    ts_net_batch b = batch_of(&o);
    ts_net      *once = net_of(&o, 1), *twice = net_of(&o, 1);
    ts_net_score s = { 0 };
    double       off = 0;
    batch_fill(&o, &b, 17, 3);
    assert_int_equal(ts_net_grad(once, &b, 1, &s), TS_OK);
    assert_int_equal(ts_net_grad(twice, &b, 0.25, &s), TS_OK);
    assert_int_equal(ts_net_grad(twice, &b, 0.75, &s), TS_OK);
    for (int64_t i = 0; i < ts_net_count(once); i++)
        off = fmax(off, fabs(((double *)ts_net_gradient(once))[i] -
                             ((double *)ts_net_gradient(twice))[i]));
    assert_true(off <= 1e-13);
    batch_free(&b);
    ts_net_free(&once);
    ts_net_free(&twice);
}

/* ln(softmax + tiny) would be capped near 23. */
TEST(a_gap_of_logits_is_not_capped)
{
    ts_net_options o = net_options(1, 8, 2, 1, 4, 12, 11);
    ts_net        *n = net_of(&o, 1);
    ts_net_batch   b = batch_of(&o);
    ts_net_score   s = { 0 };
    float         *w = ts_net_weights(n);
    for (int64_t i = 0; i < ts_net_matrix_count(n); i++) w[i] = 0;
    for (int64_t v = 0; v < 11; v++)
        for (int64_t i = 0; i < 8; i++) w[v * 8 + i] = v == 3 ? -12.5f : 12.5f;
    for (int64_t i = 0; i < 14; i++) b.input[i] = 1, b.target[i] = i ? -1 : 3;
    assert_int_equal(ts_net_grad(n, &b, 1, &s), TS_OK);
    print_message("a logit 200 below the others: nll %.4f\n", s.nll);
    assert_true(fabs(s.nll - (200 + log(10))) <= 1e-3);
    for (int64_t i = 0; i < ts_net_count(n); i++)
        assert_true(isfinite(((float *)ts_net_gradient(n))[i]));
    batch_free(&b);
    ts_net_free(&n);
}

TEST(refusals)
{
    ts_net_options o = net_options(1, 8, 2, 1, 4, 12, 11);
    char           why[TS_MODEL_WHY] = "";
    ts_net        *n = net_of(&o, 1), *none;
    ts_net_batch   b = batch_of(&o);
    ts_net_score   s = { 0 };
    batch_fill(&o, &b, 11, 1);
    b.input[3] = 11;
    assert_int_equal(ts_net_eval(n, &b, &s), TS_E_ARG);
    b.input[3] = 0;
    b.target[3] = -2;
    assert_int_equal(ts_net_eval(n, &b, &s), TS_E_ARG);
    assert_int_equal(s.n_count, 0);
    o.dims.head_dim = 258;
    assert_false(ts_net_create(&o, 1, &none, why));
    assert_non_null(strstr(why, "head size"));
    o.dims.head_dim = 4;
    o.n_token = 257;
    assert_false(ts_net_create(&o, 1, &none, why));
    assert_non_null(strstr(why, "length"));
    o.n_token = 7;
    o.dims.n_kv_head = 3;
    assert_false(ts_net_create(&o, 1, &none, why));
    assert_null(none);
    batch_free(&b);
    ts_net_free(&n);
}
