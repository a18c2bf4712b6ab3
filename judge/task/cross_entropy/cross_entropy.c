/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - task: cross-entropy from hidden states.
 *
 * Inputs, the oracle of dh and dw with its bounds, the least cost. The cases are in
 * cross_entropy_cases.c, the oracle of a row in cross_entropy_inside.c.
 *
 * A logit errs by kappa(n_hidden) u |h| |w|, by the norms of the two rows, and u of the bias. dh
 * and dw are sums of n products dx x. They err by what dx errs by and by kappa(n) u sum|dx x|. In
 * 16 bits dx may be rounded to storage, once as it is and once with the scale, before it meets
 * another factor: errors of 2 w |dx x| that are independent, whose sum exceeds 8 times the root of
 * their squares' sum with a probability of 1e-13; where p is the same in all terms they are not,
 * and amount to 2 w of the sum itself, without the target's term. In f16 each may also lose
 * half of the smallest number. */
#include "touchstone/cross_entropy.h"

#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "cross_entropy_inside.h"
#include "dtype.h"
#include "rng.h"
#include "spoil.h"

/* ---- inputs ---- */

/* What is added to every logit of a word: column 0 of h is 1 in these families, and of w this. */
static double shift_of(const ts_case *c, int64_t v)
{
    const double at = (double)v / (double)c->dim[1];
    if (ts_is(c, "offset")) return 300;
    if (ts_is(c, "rising")) return 60 * at;
    if (ts_is(c, "falling")) return 120 - 120 * at;
    if (ts_is(c, "tail")) return v == ts_xe_tail_word(c) ? ts_xe_tail(c) : 0;
    if (ts_is(c, "back")) return v + 7 >= c->dim[1] ? 30 : 0;
    return 0;
}

static bool has_shift(const ts_case *c)
{
    return ts_is(c, "offset") || ts_is(c, "rising") || ts_is(c, "falling") || ts_is(c, "back") ||
           ts_is(c, "tail");
}

static double w_at(const ts_case *c, uint64_t seed, int64_t v, int64_t k)
{
    const double D = (double)c->dim[XE_WIDTH], z = ts_normal(seed, v * c->dim[XE_WIDTH] + k);
    if (k == 0 && has_shift(c)) return shift_of(c, v);
    if (ts_is(c, "ties")) return (double)(ts_bits(seed, v * c->dim[XE_WIDTH] + k) % 3) - 1;
    if (ts_is(c, "zeros")) return 0;
    if (ts_is(c, "tail")) return 0.3 * z / sqrt(D);
    return z * (ts_is(c, "steep") ? 50 : ts_is(c, "flat") ? 1e-3 : 3) / sqrt(D);
}

static double nonfinite_of(double z, int64_t i, bool chosen)
{
    return chosen && i % 4 ? (const double[]) { 0, NAN, INFINITY, -INFINITY }[i % 4] : z;
}

/* w: as stored */
static double h_at(const ts_case *c, const ts_xe_rule *r, uint64_t seed, int64_t i, int64_t k,
                   int32_t target, const void *w)
{
    const int64_t D = c->dim[XE_WIDTH];
    const double  z = ts_normal(seed, i * D + k);
    const bool    chosen = k == (int64_t)(ts_bits(seed + 8, i) % (uint64_t)D);
    if (k == 0 && has_shift(c)) return 1;
    if (ts_is(c, "ties")) return (double)(ts_bits(seed, i * D + k) % 3) - 1;
    if (ts_is(c, "coherent")) return 1 + 0.1 * z;
    if (ts_is(c, "nonfinite") && target != r->ignored) return nonfinite_of(z, i, chosen);
    if (ts_is(c, "ignored_nonfinite") && target == r->ignored)
        return nonfinite_of(z, i % 3 + 1, chosen);
    /* |w|^2 is about 9: this row's own word has a logit of some 30 */
    if (ts_is(c, "sure") && target != r->ignored)
        return 3.3 * ts_load(w, c->dtype, target * (D + c->dim[XE_PAD]) + k) + 0.1 * z;
    return z;
}

static void draw(const ts_case *c, const ts_xe_rule *r, uint64_t seed, const int32_t *target,
                 void *h, void *w, void *bias)
{
    const int64_t D = c->dim[XE_WIDTH], S = D + c->dim[XE_PAD], W = ts_is(c, "far") ? D : S;
    for (int64_t v = 0; v < r->n_vocab; v++)
        for (int64_t k = 0; k < D; k++)
            ts_store(w, c->dtype, v * W + k, w_at(c, ts_mix(seed + 1), v, k));
    for (int64_t v = 0; v < r->n_vocab && bias; v++)
        ts_store(bias, c->dtype, v,
                 (ts_xe_masks(c) || ts_is(c, "capped")) && ts_xe_is_masked(v)
                     ? -INFINITY
                     : 0.5 * ts_normal(ts_mix(seed + 2), v));
    for (int64_t i = 0; i < r->n_rows; i++)
        for (int64_t k = 0; k < D; k++)
            ts_store(h, c->dtype, i * S + k, h_at(c, r, ts_mix(seed), i, k, target[i], w));
}

static void draw_gradient(ts_dtype t, void *p, int64_t n_rows, int64_t n, int64_t stride,
                          uint64_t seed)
{
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t k = 0; k < n; k++) ts_store(p, t, i * stride + k, ts_normal(seed, i * n + k));
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_cross_entropy_args *a = args;
    const ts_xe_rule       r = ts_xe_rule_of(c, c->dim[XE_MEAN], c->dim[XE_SKIP], seed);
    const ts_dtype         t = c->dtype, wide = ts_wide(t);
    const int64_t          R = r.n_rows, V = r.n_vocab, D = c->dim[XE_WIDTH];
    const int64_t  S = D + c->dim[XE_PAD], W = ts_is(c, "far") ? D : S, grad = c->dim[XE_GRAD];
    const ts_role  role = grad & XE_ACCUMULATE ? TS_INOUT : TS_OUT;
    const ts_dtype gt = grad & XE_WIDE ? wide : t;
    *a = (ts_cross_entropy_args) { .dtype = t, .grad_dtype = gt, .mean = r.mean };
    a->accumulate = grad & XE_ACCUMULATE ? 1 : 0;
    a->ignore_index = r.ignored;
    a->n_rows = R, a->n_vocab = V, a->n_hidden = D, a->h_stride = S, a->w_stride = W;
    a->chunk = c->dim[XE_CHUNK];
    a->scale = r.scale, a->smoothing = r.smoothing, a->z_loss = r.z_loss, a->softcap = r.softcap;
    ts_xe_scalars(m, &r);
    ts_scalar(m, "chunk", (double)a->chunk);
    void    *h = ts_take(m, &a->h, (ts_buf) { "h", TS_IN, t, R, D, S });
    void    *w = ts_take(m, &a->w, (ts_buf) { "w", TS_IN, t, V, D, W }), *bias = NULL;
    int32_t *target = ts_take(m, &a->target, (ts_buf) { "target", TS_IN, TS_I32, 1, R, R });
    if (c->dim[XE_BIAS]) bias = ts_take(m, &a->bias, (ts_buf) { "bias", TS_IN, t, 1, V, V });
    ts_take(m, &a->loss, (ts_buf) { "loss", TS_OUT, wide, 1, R, R });
    ts_take(m, &a->lse, (ts_buf) { "lse", TS_OUT, wide, 1, R, R });
    ts_take(m, &a->total, (ts_buf) { "total", TS_OUT, wide, 1, 1, 1 });
    void *dh = grad & XE_DH ? ts_take(m, &a->dh, (ts_buf) { "dh", role, gt, R, D, S }) : NULL;
    void *dw = grad & XE_DW ? ts_take(m, &a->dw, (ts_buf) { "dw", role, gt, V, D, W }) : NULL;
    ts_xe_targets(c, &r, c->dim[XE_SKIP], ts_mix(seed + 3), target);
    draw(c, &r, seed, target, h, w, bias);
    if (dh && a->accumulate) draw_gradient(gt, dh, R, D, S, ts_mix(seed + 4));
    if (dw && a->accumulate) draw_gradient(gt, dw, V, D, W, ts_mix(seed + 5));
}

/* ---- oracle ---- */

/* n sums of products dx x, element by element. */
typedef struct sum {
    double *value, *low; /* low: where double is judged */
    double *linear, *squares, *target;
} sum;

static double *zeros(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

static sum sum_open(ts_dtype t, int64_t n)
{
    return (sum) { zeros(n), t == TS_F64 ? zeros(n) : NULL, zeros(n), zeros(n), zeros(n) };
}

static void sum_close(sum *s)
{
    free(s->value);
    free(s->low);
    free(s->linear);
    free(s->squares);
    free(s->target);
}

/* linear: of the error of dx, and of the sum */
static void sum_add(sum *s, int64_t at, const ts_xe_value *dx, double linear, double target,
                    const double *x, int64_t n)
{
    const double d = dx->v.hi, square = d * d;
    double      *value = s->value + at, *lin = s->linear + at, *sq = s->squares + at;
    for (int64_t k = 0; k < n; k++) {
        lin[k] += linear * fabs(x[k]);
        sq[k] += square * (x[k] * x[k]);
    }
    for (int64_t k = 0; k < n && !s->low; k++) value[k] += d * x[k];
    for (int64_t k = 0; k < n && s->low; k++) {
        ts_real sofar = { value[k], s->low[at + k] };
        ts_real_gather_product(&sofar, dx->v, x[k]);
        value[k] = sofar.hi, s->low[at + k] = sofar.lo;
    }
    for (int64_t k = 0; k < n && target > 0; k++) s->target[at + k] += target * fabs(x[k]);
}

/* any: by the common contract, with the value that `want` has, as the old one is overwritten by
 * now. Terms may then be added to the old value one by one, with ku the error of that. */
static ts_want sum_want(const sum *s, int64_t at, const ts_cross_entropy_args *a, const void *old,
                        int64_t old_at, double ku, const ts_want *want, bool any)
{
    const double w = a->dtype == TS_F64 || a->dtype == TS_F32 ? 0 : ts_format_of(a->dtype)->u;
    const double u = ts_format_of(ts_wide(a->dtype))->u;
    ts_real      v = { s->value[at], s->low ? s->low[at] : 0 };
    v = ts_real_tidy(v.hi, v.lo);
    const double had = !a->accumulate ? 0
                       : any          ? want->value - v.hi
                                      : ts_load(old, a->grad_dtype, old_at);
    const double error = s->linear[at] + 16 * w * sqrt(s->squares[at]) +
                         2 * w * (fabs(v.hi) + s->target[at]) + (any ? ku : 2 * u) * fabs(had);
    return ts_xe_stored(any ? want->value : ts_real_add(v, ts_real_of(had)).hi, error,
                        a->grad_dtype);
}

static double *widened(const void *p, ts_dtype t, int64_t n_rows, int64_t n, int64_t stride)
{
    double *d = zeros(n_rows * n);
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t k = 0; k < n; k++) d[i * n + k] = ts_load(p, t, i * stride + k);
    return d;
}

static double norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += x[k] * x[k];
    return sqrt(sum);
}

static ts_real dot(ts_dtype t, const double *x, const double *y, int64_t n)
{
    double  sum[4] = { 0, 0, 0, 0 };
    int64_t k = 0;
    if (t == TS_F64) return ts_real_dot(x, 1, y, 1, n);
    for (; k + 4 <= n; k += 4)
        for (int j = 0; j < 4; j++) sum[j] += x[k + j] * y[k + j];
    for (; k < n; k++) sum[0] += x[k] * y[k];
    return ts_real_of((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static void logits_of(const ts_xe_rule *r, const ts_cross_entropy_args *a, const double *h,
                      const double *w, const double *norms, ts_xe_value *x)
{
    const int64_t D = a->n_hidden;
    const double  u = ts_format_of(ts_wide(a->dtype))->u, size = ts_xe_kappa(r, D) * u * norm(h, D);
    for (int64_t v = 0; v < a->n_vocab; v++) {
        const double bias = a->bias ? ts_load(a->bias, a->dtype, v) : 0;
        x[v].v = dot(a->dtype, h, w + v * D, D);
        x[v].error = size * norms[v];
        if (!a->bias) continue;
        x[v].v = ts_real_add(x[v].v, ts_real_of(bias));
        if (isfinite(bias)) x[v].error += 2 * u * fabs(bias);
    }
}

static size_t n_want(const ts_case *c)
{
    const int64_t R = c->dim[0], V = c->dim[1], D = c->dim[XE_WIDTH], grad = c->dim[XE_GRAD];
    return (size_t)(2 * R + 1 + (grad & XE_DH ? R * D : 0) + (grad & XE_DW ? V * D : 0));
}

/* want: loss, lse, total, then dh and dw if requested */
static void oracle_by(const ts_case *c, const void *args, ts_want *want, bool any)
{
    const ts_cross_entropy_args *a = args;
    const int64_t                R = a->n_rows, V = a->n_vocab, D = a->n_hidden;
    const ts_dtype               t = a->dtype, wide = ts_wide(t);
    ts_xe_rule                   r = ts_xe_rule_of(c, c->dim[XE_MEAN], c->dim[XE_SKIP], 0);
    r.scale = a->scale, r.any = any;
    r.g = ts_xe_share(&r, ts_xe_counted(&r, a->target));
    const double lost = t == TS_F16 ? 0x1p-25 * fabs(r.g) : 0, u = ts_format_of(wide)->u;
    const double ku_v = ts_xe_kappa(&r, V) * u, ku_r = ts_xe_kappa(&r, R) * u;
    double      *h = widened(a->h, t, R, D, a->h_stride), *w = widened(a->w, t, V, D, a->w_stride);
    double      *norms = zeros(V);
    ts_xe_value *x = calloc((size_t)V, sizeof *x), *loss = calloc((size_t)R + 1, sizeof *loss);
    ts_want     *lse = want + R, *dh = lse + R + 1, *dw = dh + (a->dh ? R * D : 0);
    sum          of_w = sum_open(t, a->dw ? V * D : 0);
    if (!x || !loss) abort();
    for (int64_t v = 0; v < V; v++) norms[v] = norm(w + v * D, D);
    for (int64_t i = 0; i < R; i++) {
        const bool  counted = a->target[i] != a->ignore_index;
        ts_xe_value l = { { 0, 0 }, 0 };
        sum         of_h = sum_open(t, D);
        if (counted) {
            logits_of(&r, a, h + i * D, w, norms, x);
            ts_xe_row(&r, x, a->target[i], a->dh || a->dw, &loss[i], &l);
        }
        want[i] = ts_xe_stored(loss[i].v.hi, counted ? loss[i].error : 0, wide);
        lse[i] = ts_xe_stored(l.v.hi, l.error, wide);
        for (int64_t v = 0; v < V && counted && (a->dh || a->dw); v++) {
            const double hit = v == a->target[i] ? fabs(r.g) : 0, e = x[v].error + lost;
            const double d = fabs(x[v].v.hi);
            if (a->dh) sum_add(&of_h, 0, &x[v], e + ku_v * d, hit, w + v * D, D);
            if (a->dw) sum_add(&of_w, v * D, &x[v], e + ku_r * d, hit, h + i * D, D);
        }
        for (int64_t k = 0; k < D && a->dh; k++)
            *dh = sum_want(&of_h, k, a, a->dh, i * a->h_stride + k, ku_v, dh, any), dh++;
        sum_close(&of_h);
    }
    want[2 * R] = ts_xe_total(&r, loss, a->target);
    for (int64_t at = 0; at < V * D && a->dw; at++)
        dw[at] = sum_want(&of_w, at, a, a->dw, at / D * a->w_stride + at % D, ku_r, &dw[at], any);
    sum_close(&of_w);
    free(h);
    free(w);
    free(norms);
    free(x);
    free(loss);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    oracle_by(c, args, want, false);
}

static void oracle_any(const ts_case *c, const void *args, ts_want *want)
{
    oracle_by(c, args, want, true);
}

/* ---- check, cost ---- */

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_cross_entropy_args *a = args;
    const int64_t                R = a->n_rows, V = a->n_vocab, D = a->n_hidden;
    const ts_dtype               wide = ts_wide(a->dtype), gt = a->grad_dtype;
    const ts_want               *dh = want + 2 * R + 1, *dw = dh + (a->dh ? R * D : 0);
    const ts_buf                 of_h = { "dh", TS_OUT, gt, R, D, a->h_stride };
    const ts_buf                 of_w = { "dw", TS_OUT, gt, V, D, a->w_stride };
    (void)c;
    return ts_xe_check_loss(wide, R, a->loss, a->lse, a->total, want, f, e) &&
           (!a->dh || ts_check_buf(of_h, a->dh, dh, f, e)) &&
           (!a->dw || ts_check_buf(of_w, a->dw, dw, f, e));
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    return ts_common_by(oracle_any, check, want, n_want(c), TS_SUMS_RULE, c, args, f, e);
}

/* What is NaN by the canon may be anything. -inf, and what ignored rows hold, may make NaN of rows
 * and of sums over rows. */
static void excuse(const ts_case *c, const void *args, ts_want *want)
{
    const ts_cross_entropy_args *a = args;
    const int64_t                R = a->n_rows, V = a->n_vocab, D = a->n_hidden;
    ts_xe_rule                   r = ts_xe_rule_of(c, c->dim[XE_MEAN], c->dim[XE_SKIP], 0);
    const ts_dtype               gt = a->grad_dtype;
    const size_t                 each = ts_format_of(gt)->n_bytes;
    ts_want                     *dh = want + 2 * R + 1, *dw = dh + (a->dh ? R * D : 0);
    ts_xe_excuse_loss(c, &r, a->target, a->loss, a->lse, a->total, want);
    ts_excuse_nan(dh, (a->dh ? R * D : 0) + (a->dw ? V * D : 0));
    for (int64_t i = 0; i < R && a->dh; i++)
        if (ts_xe_may_be_nan(c, &r, a->target[i]))
            ts_excuse_nonfinite((ts_buf) { "dh", TS_OUT, gt, 1, D, D },
                                (const char *)a->dh + (size_t)(i * a->h_stride) * each, dh + i * D);
    if (a->dw && !ts_is(c, "nonfinite"))
        ts_excuse_nonfinite((ts_buf) { "dw", TS_OUT, gt, V, D, a->w_stride }, a->dw, dw);
}

/* Logits once, and a matmul for each gradient; a kernel that stores few logits computes them twice.
 */
static ts_cost cost(const ts_case *c)
{
    const double  R = (double)c->dim[0], V = (double)c->dim[1], D = (double)c->dim[XE_WIDTH];
    const double  b = (double)ts_format_of(c->dtype)->n_bytes;
    const int64_t grad = c->dim[XE_GRAD];
    const double  wide = grad & XE_WIDE ? (double)ts_format_of(ts_wide(c->dtype))->n_bytes : b;
    const double  each = wide * (grad & XE_ACCUMULATE ? 2 : 1);
    const bool    dh = grad & XE_DH, dw = grad & XE_DW;
    return (ts_cost) { .bytes = b * (R * D + V * D) + each * (dh * R * D + dw * V * D) + 12 * R,
                       .flops = (2 + 2 * dh + 2 * dw) * R * V * D + 4 * R * V,
                       .exps = R * V };
}

/* ---- invalid calls ---- */

#define AT(member)          offsetof(ts_cross_entropy_args, member)
#define BAD(must, ...)      TS_BAD(ts_cross_entropy_args, TS_E_##must, __VA_ARGS__)
#define LIKE(must, ...)     TS_BAD_LIKE(ts_cross_entropy_args, must, __VA_ARGS__)
#define ALSO(member, value) TS_BAD(ts_cross_entropy_args, TS_ALSO, member, value)

static const ts_bad bad[] = {
    TS_XE_BAD_NUMBERS(ts_cross_entropy_args),
    BAD(ARG, accumulate, -1),
    BAD(ARG, chunk, -1),
    LIKE(TS_E_SHAPE, h_stride, n_hidden, -1),
    LIKE(TS_E_SHAPE, w_stride, n_hidden, -1),
    BAD(DTYPE, dtype, TS_U8, TS_I32, 99),
    BAD(DTYPE, grad_dtype, TS_F64, TS_F16, 99),
    TS_XE_BAD_TARGETS(ts_cross_entropy_args),
    ALSO(dh, 0),
    ALSO(dw, 0),
    { 0 },
};

/* n_rows, n_vocab, n_hidden, h_stride, w_stride */
static const ts_invalid invalid = {
    .pointer = { AT(h) + 1, AT(w) + 1, AT(target) + 1, AT(loss) + 1, AT(lse) + 1, AT(total) + 1 },
    .extent = { { AT(n_rows), 0, 0, 0, true, false },
                { AT(n_vocab), 1, 0, 0, false, false },
                { AT(n_hidden), 1, 0, AT(h_stride), false, false },
                { AT(h_stride), 1, 0, 0, false, true },
                { AT(w_stride), 1, 0, 0, false, true } },
    .n_extent = 5,
    .product = { { { 1, 3 } }, { { 1, 4 } }, { { 2, 3 } }, { { 2, 5 } } },
    .bad = bad,
};

const ts_task ts_task_cross_entropy = {
    .name = "cross_entropy",
    .dim_name = { "rows", "vocab", "width", "pad", "grad", "mean", "bias", "skip" },
    .dim_says = { "n_rows", "n_vocab", "n_hidden", "h_stride - n_hidden, and w_stride - n_hidden",
                  "sum of: 1 (dh is wanted), 2 (dw is wanted), 4 (accumulate), 8 (dh and dw have "
                  "the dtype of loss)",
                  "mean", "1 if there is a bias", TS_XE_SKIP_SAYS },
    .more_name = { "smooth", "z", "cap", "chunk" },
    .more_says = { "100 smoothing", "10000 z_loss", "softcap", "chunk" },
    TS_XE_TASK,
    .buffer = { { "h", TS_IN, 2, false },
                { "w", TS_IN, 2, false },
                { "target", TS_IN, 1, true },
                { "bias", TS_IN, 1, false },
                { "loss", TS_OUT, 1, false },
                { "lse", TS_OUT, 1, false },
                { "total", TS_OUT, 1, false },
                { "dh", TS_OUT, 2, false },
                { "dw", TS_OUT, 2, false } },
    .number = { { "scale", false },
                { "smoothing", false },
                { "z_loss", false },
                { "softcap", false },
                { "mean", true },
                { "ignore_index", true },
                { "chunk", true } },
    .args_bytes = sizeof(ts_cross_entropy_args),
    .cases = ts_cross_entropy_cases,
    .cover = &ts_cross_entropy_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .excuse = excuse,
    .common = common,
};
