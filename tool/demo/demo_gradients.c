/* SPDX-License-Identifier: Apache-2.0 */
/* demo_gradients.c - `demo gradients`: float64 gradients of layernorm, verified by independent
 * methods.
 *
 * A central difference has truncation and rounding errors, and about ten correct digits. The
 * complex step and the explicit Jacobian have no such limit, but their cost is quadratic in the
 * size. So small shapes must agree to 1e-13 element by element, and the large one to the limit of
 * differences, row by row. */
#define _POSIX_C_SOURCE 200809L
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "demo.h"
#include "gradients.h"
#include "real.h"
#include "rng.h"

/* Limits for the complex step and the second derivation. The Jacobian product uses pairs of doubles
 * and has the limit of the complex step. */
static const double EXACT = 1e-13, AGREE = 1e-12;
enum { BIG_ROWS = 8192, BIG_COLS = 4096 };

/* ---- methods that give every element ---- */

typedef struct gradients {
    double *of[TS_N_GRADIENTS];
} gradients;

static int64_t count(const ts_gradients_case *c, int which)
{
    return which == TS_DX ? c->n_rows * c->n_cols : c->n_cols;
}

/* Max-norm: the largest difference over the largest value. NaN on either side stays NaN. */
static double max_norm(const double *got, const double *ref, int64_t n)
{
    double difference = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs(got[i] - ref[i]);
        if (isnan(d)) return NAN;
        difference = fmax(difference, d);
        largest = fmax(largest, fabs(ref[i]));
    }
    return difference / largest;
}

/* L(x + ih) in double complex, without absolute values or conjugates. Moves element `at` of the
 * input that `which` selects. Other rows than [begin, end) do not depend on it, and their imaginary
 * part would be exactly 0. */
static double complex complex_loss(const ts_gradients_case *c, int which, int64_t at, double h,
                                   int64_t begin, int64_t end)
{
    const int64_t  D = c->n_cols;
    double complex loss = 0;
    for (int64_t r = begin; r < end; r++) {
        const double  *x = c->x + r * D;
        const int64_t  moved = which == TS_DX ? at - r * D : -1;
        double complex mean = 0, residue = 0, v = 0;
        for (int64_t j = 0; j < D; j++) mean += x[j] + (j == moved ? h * I : 0);
        mean /= (double)D;
        for (int64_t j = 0; j < D; j++) residue += x[j] + (j == moved ? h * I : 0) - mean;
        mean += residue / (double)D;
        for (int64_t j = 0; j < D; j++) {
            const double complex d = x[j] + (j == moved ? h * I : 0) - mean;
            v += d * d;
        }
        const double complex rstd = 1 / csqrt(v / (double)D + c->eps);
        for (int64_t j = 0; j < D; j++) {
            const double complex xhat = (x[j] + (j == moved ? h * I : 0) - mean) * rstd;
            const double complex gamma = c->gamma[j] + (which == TS_DGAMMA && j == at ? h * I : 0);
            const double complex beta = c->beta[j] + (which == TS_DBETA && j == at ? h * I : 0);
            loss += c->dy[r * D + j] * (gamma * xhat + beta);
        }
    }
    return loss;
}

static void complex_step(const ts_gradients_case *c, gradients *g)
{
    const double h = 1e-30; /* h^2 vanishes: no truncation error, and no cancellation */
    for (int which = 0; which < TS_N_GRADIENTS; which++)
        for (int64_t i = 0; i < count(c, which); i++) {
            const int64_t begin = which == TS_DX ? i / c->n_cols : 0;
            const int64_t end = which == TS_DX ? begin + 1 : c->n_rows;
            g->of[which][i] = cimag(complex_loss(c, which, i, h, begin, end)) / h;
        }
}

/* xhat and rstd of one row from x alone, in pairs of doubles. */
static ts_real normalised(const ts_gradients_case *c, int64_t row, ts_real *xhat)
{
    const int64_t D = c->n_cols;
    const ts_real n = ts_real_of((double)D);
    ts_real       mean = { 0, 0 }, v = { 0, 0 };
    for (int64_t j = 0; j < D; j++) ts_real_gather(&mean, ts_real_of(c->x[row * D + j]));
    mean = ts_real_div(ts_real_gathered(mean), n);
    for (int64_t j = 0; j < D; j++) {
        xhat[j] = ts_real_sub(ts_real_of(c->x[row * D + j]), mean);
        ts_real_gather(&v, ts_real_mul(xhat[j], xhat[j]));
    }
    v = ts_real_add(ts_real_div(ts_real_gathered(v), n), ts_real_of(c->eps));
    const ts_real rstd = ts_real_div(ts_real_of(1), ts_real_sqrt(v));
    for (int64_t j = 0; j < D; j++) xhat[j] = ts_real_mul(xhat[j], rstd);
    return rstd;
}

/* dx = J^T (gamma dy) with J_ij = d xhat_i / d x_j, all D^2 elements; the Jacobians of y by gamma
 * and by beta are diagonal: xhat_i and 1. */
static bool jacobian_product(const ts_gradients_case *c, gradients *g)
{
    const int64_t D = c->n_cols;
    const ts_real n = ts_real_of((double)D);
    ts_real *xhat = calloc(3 * (size_t)D, sizeof *xhat), *dgamma = xhat + D, *dbeta = xhat + 2 * D;
    if (!xhat) return false;
    for (int64_t r = 0; r < c->n_rows; r++) {
        const double *dy = c->dy + r * D;
        const ts_real rstd = normalised(c, r, xhat);
        for (int64_t j = 0; j < D; j++) {
            ts_real sum = { 0, 0 };
            for (int64_t i = 0; i < D; i++) {
                const ts_real means = ts_real_add(ts_real_of(1), ts_real_mul(xhat[i], xhat[j]));
                const ts_real J = ts_real_sub(ts_real_of(i == j), ts_real_div(means, n));
                ts_real_gather(&sum, ts_real_mul(J, ts_real_product(c->gamma[i], dy[i])));
            }
            g->of[TS_DX][r * D + j] = ts_real_mul(rstd, ts_real_gathered(sum)).hi;
            ts_real_gather_product(&dgamma[j], xhat[j], dy[j]);
            ts_real_gather(&dbeta[j], ts_real_of(dy[j]));
        }
    }
    for (int64_t j = 0; j < D; j++) {
        g->of[TS_DGAMMA][j] = ts_real_gathered(dgamma[j]).hi;
        g->of[TS_DBETA][j] = ts_real_gathered(dbeta[j]).hi;
    }
    free(xhat);
    return true;
}

/* The chain rule through separate dv and dmean, as in textbooks, in double. dgamma and dbeta are
 * summed from the last row to the first. */
static void second_derivation(const ts_gradients_case *c, gradients *g)
{
    const int64_t D = c->n_cols;
    for (int64_t j = 0; j < D; j++) g->of[TS_DGAMMA][j] = g->of[TS_DBETA][j] = 0;
    for (int64_t r = c->n_rows - 1; r >= 0; r--) {
        const double *x = c->x + r * D, *dy = c->dy + r * D;
        double        mean = 0, v = 0, dv = 0, dmean = 0, centred = 0;
        for (int64_t j = 0; j < D; j++) mean += x[j] / (double)D;
        for (int64_t j = 0; j < D; j++) v += (x[j] - mean) * (x[j] - mean) / (double)D;
        const double deviation = sqrt(v + c->eps);
        for (int64_t j = 0; j < D; j++) {
            const double dxhat = dy[j] * c->gamma[j];
            dv += dxhat * (x[j] - mean) * -0.5 / (deviation * deviation * deviation);
            dmean -= dxhat / deviation;
            centred += x[j] - mean;
            g->of[TS_DGAMMA][j] += dy[j] * ((x[j] - mean) / deviation);
            g->of[TS_DBETA][j] += dy[j];
        }
        dmean += dv * -2 * centred / (double)D;
        for (int64_t j = 0; j < D; j++)
            g->of[TS_DX][r * D + j] = dy[j] * c->gamma[j] / deviation +
                                      dv * 2 * (x[j] - mean) / (double)D + dmean / (double)D;
    }
}

/* The usual method: two evaluations of the whole loss per element. */
static bool naive(const ts_gradients_case *c, gradients *g)
{
    const double  h = 1e-5;
    double       *inputs[TS_N_GRADIENTS] = { c->x, c->gamma, c->beta };
    const int64_t n = c->n_rows * c->n_cols;
    double       *y = malloc((size_t)(n + 2 * c->n_rows) * sizeof *y);
    bool          ok = y;
    for (int which = 0; which < TS_N_GRADIENTS; which++)
        for (int64_t i = 0; ok && i < count(c, which); i++) {
            const double kept = inputs[which][i];
            double       loss[2] = { 0, 0 };
            for (int s = 0; ok && s < 2; s++) {
                inputs[which][i] = s ? kept - h : kept + h;
                ok = ts_gradients_forward(c, c->n_rows, c->x, c->gamma, c->beta, y, y + n,
                                          y + n + c->n_rows);
                for (int64_t k = 0; ok && k < n; k++) loss[s] += c->dy[k] * y[k];
            }
            inputs[which][i] = kept;
            g->of[which][i] = (loss[0] - loss[1]) / (2 * h);
        }
    free(y);
    return ok;
}

/* ---- the table ---- */

typedef enum way { COMPLEX, JACOBIAN, SECOND, BATCHED, SPOTS, NAIVE } way;

static const char *const WAYS[] = {
    "complex step",        "Jacobian product", "second derivation",
    "batched differences", "spot differences", "naive differences",
};

typedef struct table {
    const ts_demo_args *a;
    ts_json            *rows;
    bool                passed, unchanged;
} table;

static void show(table *t, way w, const ts_gradients_case *c, const ts_gradients_report *r,
                 double took)
{
    static const char *const names[] = { "dx", "dgamma", "dbeta" };
    static const char *const limits[] = { "dx_limit", "dgamma_limit", "dbeta_limit" };
    char                     shape[48];
    bool                     right = true;
    ts_json                 *o = ts_json_object(t->rows, NULL);
    snprintf(shape, sizeof shape, "%lldx%lld", (long long)c->n_rows, (long long)c->n_cols);
    ts_json_text(o, "way", WAYS[w]);
    ts_json_text(o, "shape", shape);
    ts_print(t->a->table, "%-19s  %9s", WAYS[w], shape);
    for (int k = 0; k < TS_N_GRADIENTS; k++) {
        right = right && r->error[k] <= r->limit[k];
        ts_json_number(o, names[k], r->error[k]);
        if (w != NAIVE) ts_json_number(o, limits[k], r->limit[k]);
        if (t->a->table && w != NAIVE)
            fprintf(t->a->table, "  %7.1e (%7.1e)", r->error[k], r->limit[k]);
        else ts_print(t->a->table, "  %7.1e          ", r->error[k]);
    }
    const char *verdict = w == NAIVE ? "not checked" : right ? "right" : "WRONG";
    ts_json_number(o, "seconds", took);
    ts_json_text(o, "verdict", verdict);
    ts_print(t->a->table, "  %7.2f  %s\n", took, verdict), fflush(t->a->table);
    if (w != NAIVE && !right) t->passed = false;
}

static bool elements(way w, const ts_gradients_case *c, ts_gradients_report *r)
{
    const double *claimed[TS_N_GRADIENTS] = { c->dx, c->dgamma, c->dbeta };
    const size_t  n = (size_t)(c->n_rows * c->n_cols), d = (size_t)c->n_cols;
    double       *pool = malloc((n + 2 * d) * sizeof *pool);
    if (!pool) return false;
    gradients g = { { pool, pool + n, pool + n + d } };
    bool      ok = true;
    if (w == COMPLEX) complex_step(c, &g);
    if (w == JACOBIAN) ok = jacobian_product(c, &g);
    if (w == SECOND) second_derivation(c, &g);
    if (w == NAIVE) ok = naive(c, &g);
    for (int k = 0; ok && k < TS_N_GRADIENTS; k++) {
        /* For the naive method the library is the reference. */
        r->error[k] = w == NAIVE ? max_norm(g.of[k], claimed[k], count(c, k))
                                 : max_norm(claimed[k], g.of[k], count(c, k));
        r->limit[k] = w == NAIVE ? INFINITY : w == SECOND ? AGREE : EXACT;
    }
    free(pool);
    return ok;
}

static bool run_way(table *t, way w, const ts_gradients_case *c, double *took)
{
    ts_gradients_report r = { 0 };
    const double        begin = ts_seconds();
    const bool          ok = w == BATCHED ? ts_gradients_batched(c, &r)
                             : w == SPOTS ? ts_gradients_spots(c, &r)
                                          : elements(w, c, &r);
    *took = ts_seconds() - begin;
    if (ok) show(t, w, c, &r, *took);
    return ok;
}

/* Naive: 2 (n + 2 D) losses of n elements each, n = rows * D. */
static double naive_cost(double rows, double cols)
{
    return 2 * (rows * cols + 2 * cols) * rows * cols;
}

static void extrapolate(const table *t, const ts_gradients_case *c, double took)
{
    const double all =
        took * naive_cost(BIG_ROWS, BIG_COLS) / naive_cost((double)c->n_rows, (double)c->n_cols);
    ts_json_number(t->a->json, "naive_extrapolated_seconds", all);
    ts_print(t->a->table, "%-19s  %4dx%d%57s  %7.1e  extrapolated, not run: %.1f years\n",
             WAYS[NAIVE], BIG_ROWS, BIG_COLS, "", all, all / (365.25 * 86400));
}

/* Runs every method that applies to this shape, and hashes the inputs before and after. */
static bool run_shape(table *t, int64_t n_rows, int64_t n_cols, unsigned ways)
{
    ts_gradients_case c;
    const uint64_t    seed = ts_bits(t->a->seed, n_rows * 1000003 + n_cols);
    double            took, begin = ts_seconds();
    if (!ts_gradients_make(seed, n_rows, n_cols, &c)) return false;
    if (t->a->table && n_rows == BIG_ROWS)
        fprintf(t->a->table, "%-19s  %4dx%d%57s  %7.2f  setup, not a check\n", "inputs, gradients",
                BIG_ROWS, BIG_COLS, "", ts_seconds() - begin);
    const uint64_t before = ts_gradients_hash(&c);
    bool           ok = true;
    for (way w = COMPLEX; ok && w <= NAIVE; w++) {
        if (!(ways >> w & 1)) continue;
        ok = run_way(t, w, &c, &took);
        if (ok && w == NAIVE) extrapolate(t, &c, took);
    }
    if (ts_gradients_hash(&c) != before) t->unchanged = false;
    ts_gradients_free(&c);
    return ok;
}

int ts_demo_gradients(const ts_demo_args *a)
{
    enum { SMALL = 1 << COMPLEX | 1 << JACOBIAN | 1 << SECOND, LARGE = 1 << BATCHED | 1 << SPOTS };
    static const struct {
        int64_t  n_rows, n_cols;
        unsigned ways;
    } shapes[] = {
        { 3, 5, SMALL },
        { 17, 33, SMALL | 1 << BATCHED | 1 << NAIVE },
        { 9, 257, SMALL },
        { 33, 1025, 1 << JACOBIAN | 1 << SECOND },
        { 257, 768, 1 << SECOND | LARGE },
        { BIG_ROWS, BIG_COLS, LARGE },
    };
    const double begin = ts_seconds();
    table        t = { a, ts_json_array(a->json, "rows"), true, true };
    ts_print(a->table,
             "Float64 gradients of sum(dy * layernorm(x)) against independent methods.\nError "
             "(limit): relative to the largest value for the first three methods, to the "
             "magnitudes that\ncancel for differences. Every error must be within its "
             "limit.\n\n%-19s  %9s  %-17s  %-17s  %-17s  %7s  %s\n",
             "way", "shape", "dx", "dgamma", "dbeta", "seconds", "verdict");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (!run_shape(&t, shapes[i].n_rows, shapes[i].n_cols, shapes[i].ways))
            return TS_EXIT_BROKEN;
    const bool passed = t.passed && t.unchanged;
    ts_json_bool(a->json, "inputs_unchanged", t.unchanged);
    ts_json_number(a->json, "seconds", ts_seconds() - begin);
    ts_print(a->table, "\nInputs %s afterwards. %s in %.1f s on one thread.\n",
             t.unchanged ? "unchanged" : "CHANGED",
             passed     ? "Every gradient is correct"
             : t.passed ? "FAILED: the inputs changed"
                        : "FAILED: a gradient is WRONG",
             ts_seconds() - begin);
    return ts_demo_end(a, passed, true);
}
