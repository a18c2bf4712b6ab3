/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.c - cases, and their verification by central differences.
 *
 * In x: along a direction d the loss of one row is exactly
 *     f(t) = (A + t B) / sqrt(V + 2 t C + t^2 E) + constant,
 * with A = sum g (x - mean), B = sum g (d - mean d), g = gamma * dy, V = v + eps, E = var d. With
 * rho = sqrt(V / E), the root is the generating function of the Legendre polynomials, which stay
 * within [-1, 1], so the n-th Taylor coefficient of f is at most (|F| + rho r |B|) / rho^n, where
 * F = sum g xhat. Richardson's (4 D(h/2) - D(h)) / 3 removes n = 3 and keeps at most a third of
 * each later odd term. Hence, with q = h / rho,
 *     truncation <= (|F| / rho + r |B|) q^4 / (3 (1 - q^2)).
 *
 * The rounding error of one evaluation of f, with unit roundoff u and k(n) = 8 + 2 sqrt(n), is
 *     N = u (k(D) |F| + 8 r max|x| |sum g| + 8 sqrt(sum (4 dy (|gamma xhat| + |beta|))^2)).
 * The terms are the row's common error of rstd, that of mean, and four independent roundings per
 * element; eight times the root of a sum of squares is exceeded with probability 3e-14 (Hoeffding).
 * Richardson makes it 3 N / h. The step is the power of two next to the h that minimises the sum of
 * both: since the bound is known, no series of steps is needed. x + h d is exact, and sums are in
 * pairs of doubles, so there is no other error. The gradient itself may have an error of
 *     (2 k(D) + 8 r max|x|) u M,   M = r sum |d| (|g| + avg|g| + |xhat| avg|g xhat|),
 * where M are the magnitudes that cancel in <dx, d>. Errors and limits are relative to M.
 *
 * In gamma and beta the loss is linear: there is no truncation, and the step is 1. */
#include "gradients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "real.h"
#include "rng.h"
#include "touchstone/layernorm.h"

enum { BLOCK = 64, COPIES = 4 }; /* rows per block; +h, -h, +h/2, -h/2 */

static const double U = 0x1p-53;

static double kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

/* Keeps the pair with the larger ratio of error to limit; NaN counts as largest. */
static void note(ts_gradients_report *r, int which, double error, double limit)
{
    const double known = r->error[which] / r->limit[which];
    if (r->limit[which] != 0 && (isnan(known) || error / limit <= known)) return;
    r->error[which] = error;
    r->limit[which] = limit;
}

/* ---- cases ---- */

static double on_grid(double v)
{
    return rint(v * 0x1p30) * 0x1p-30;
}

static bool out_of_memory(void)
{
    return ts_complain("gradients", "out of memory");
}

static double *doubles(int64_t n)
{
    return malloc((size_t)n * sizeof(double));
}

bool ts_gradients_forward(const ts_gradients_case *c, int64_t n_rows, const double *x,
                          const double *gamma, const double *beta, double *y, double *mean,
                          double *rstd)
{
    const ts_exec                   exec = { .device = TS_CPU, .n_threads = 1 };
    const ts_layernorm_forward_args a = {
        TS_F64, n_rows, c->n_cols, c->n_cols, c->eps, x, gamma, beta, y, mean, rstd,
    };
    const ts_status s = ts_layernorm_forward(&a, &exec);
    return !s || ts_complain("layernorm_forward f64", ts_status_text(s));
}

static bool backward(const ts_gradients_case *c)
{
    const ts_exec                    exec = { .device = TS_CPU, .n_threads = 1 };
    const ts_layernorm_backward_args a = {
        TS_F64,   0,       c->n_rows, c->n_cols, c->n_cols, c->x,     c->dy,
        c->gamma, c->mean, c->rstd,   c->dx,     c->dgamma, c->dbeta,
    };
    const ts_status s = ts_layernorm_backward(&a, &exec);
    return !s || ts_complain("layernorm_backward f64", ts_status_text(s));
}

static void fill(ts_gradients_case *c)
{
    const uint64_t sx = ts_bits(c->seed, 0), sdy = ts_bits(c->seed, 1), so = ts_bits(c->seed, 2);
    const uint64_t sg = ts_bits(c->seed, 3), sb = ts_bits(c->seed, 4);
    for (int64_t r = 0, i = 0; r < c->n_rows; r++) {
        const double offset = 4 * ts_uniform(so, r);
        for (int64_t j = 0; j < c->n_cols; j++, i++) {
            c->x[i] = on_grid(offset + ts_normal(sx, i));
            c->dy[i] = ts_normal(sdy, i);
        }
    }
    for (int64_t j = 0; j < c->n_cols; j++) {
        c->gamma[j] = on_grid(2 * ts_uniform(sg, j));
        c->beta[j] = on_grid(ts_uniform(sb, j));
        c->dgamma[j] = c->dbeta[j] =
            NAN; /* so that elements that backward does not write are noticed */
    }
}

/* The next n doubles from *at on. */
static double *take(double **at, int64_t n)
{
    *at += n;
    return *at - n;
}

bool ts_gradients_make(uint64_t seed, int64_t n_rows, int64_t n_cols, ts_gradients_case *c)
{
    const int64_t n = n_rows * n_cols;
    double       *memory = doubles(3 * n + 2 * n_rows + 4 * n_cols), *at = memory;
    if (!memory) return out_of_memory();
    *c = (ts_gradients_case) { n_rows, n_cols, seed, .eps = 1e-5, .memory = memory };
    c->x = take(&at, n), c->dy = take(&at, n), c->dx = take(&at, n);
    c->gamma = take(&at, n_cols), c->beta = take(&at, n_cols);
    c->dgamma = take(&at, n_cols), c->dbeta = take(&at, n_cols);
    c->mean = take(&at, n_rows), c->rstd = take(&at, n_rows);
    fill(c);
    /* Only the statistics of this forward pass are needed; dx overwrites y. */
    const bool ok =
        ts_gradients_forward(c, n_rows, c->x, c->gamma, c->beta, c->dx, c->mean, c->rstd) &&
        backward(c);
    if (!ok) ts_gradients_free(c);
    return ok;
}

void ts_gradients_free(ts_gradients_case *c)
{
    free(c->memory);
    *c = (ts_gradients_case) { 0 };
}

static uint64_t hash(uint64_t h, const double *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &p[i], sizeof bits);
        h = ts_mix(h + bits + UINT64_C(0x9e3779b97f4a7c15));
    }
    return h;
}

uint64_t ts_gradients_hash(const ts_gradients_case *c)
{
    const uint64_t h = hash(hash(1, c->gamma, c->n_cols), c->beta, c->n_cols);
    return hash(hash(h, c->x, c->n_rows * c->n_cols), c->dy, c->n_rows * c->n_cols);
}

/* Random signs: adding them is exact, and every element of the gradient has the same weight. */
static void signs(uint64_t seed, int64_t first, int64_t n, double *d)
{
    for (int64_t i = 0; i < n; i++) d[i] = ts_bits(seed, first + i) >> 63 ? 1 : -1;
}

/* ---- x: BLOCK directional derivatives from one call ---- */

typedef struct block {
    int64_t n, row[BLOCK]; /* the rows under test */
    double *d;             /* [n][n_cols], their directions */
    double *x, *y;         /* [n][COPIES][n_cols] */
    double *mean, *rstd;   /* [n][COPIES] */
    double  step[BLOCK], magnitude[BLOCK], limit[BLOCK];
    double *memory; /* of the arrays above */
} block;

static bool block_make(int64_t n_cols, block *b)
{
    double *at = b->memory = doubles(BLOCK * ((1 + 2 * COPIES) * n_cols + 2 * COPIES));
    if (!at) return out_of_memory();
    b->d = take(&at, BLOCK * n_cols);
    b->x = take(&at, BLOCK * COPIES * n_cols), b->y = take(&at, BLOCK * COPIES * n_cols);
    b->mean = take(&at, BLOCK * COPIES), b->rstd = take(&at, BLOCK * COPIES);
    return true;
}

/* Computes step, cancelling magnitudes and limit of row i of the block from the formulas above. */
static void plan(const ts_gradients_case *c, block *b, int64_t i)
{
    const int64_t D = c->n_cols, row = b->row[i] * D;
    const double  n = (double)D, mean = c->mean[b->row[i]], r = c->rstd[b->row[i]];
    double        F = 0, G = 0, gd = 0, squares = 0, largest = 0, abs_g = 0, abs_gx = 0;
    double        d1 = 0, d2 = 0, abs_dg = 0, abs_d = 0, abs_dx = 0;
    for (int64_t j = 0; j < D; j++) {
        const double d = b->d[i * D + j], w = c->dy[row + j], g = c->gamma[j] * w;
        const double xhat = (c->x[row + j] - mean) * r;
        const double e = 4 * w * (fabs(c->gamma[j] * xhat) + fabs(c->beta[j]));
        F += g * xhat, G += g, gd += g * d, squares += e * e;
        largest = fmax(largest, fabs(c->x[row + j]));
        abs_g += fabs(g), abs_gx += fabs(g * xhat);
        d1 += d, d2 += d * d;
        abs_dg += fabs(d * g), abs_d += fabs(d), abs_dx += fabs(d * xhat);
    }
    const double E = d2 / n - d1 / n * (d1 / n), rho = 1 / (r * sqrt(E));
    const double slope = fabs(F) / rho + r * fabs(gd - G * d1 / n);
    const double N = U * (kappa(D) * fabs(F) + 8 * r * largest * fabs(G) + 8 * sqrt(squares));
    /* The minimum is at 3 N / h^2 = 4 slope h^3 / (3 rho^4); h is at most a sixteenth of the
     * radius. */
    const double best = fmin(pow(2.25 * N / slope * pow(rho, 4), 0.2), rho / 16);
    const double h = exp2(rint(log2(best))), q = h / rho;
    const double M = r * (abs_dg + abs_d * abs_g / n + abs_dx * abs_gx / n);
    b->step[i] = h;
    b->magnitude[i] = M;
    b->limit[i] = (3 * N / h + slope * pow(q, 4) / (3 * (1 - q * q))) / M +
                  (2 * kappa(D) + 8 * r * largest) * U;
}

static void stack(const ts_gradients_case *c, block *b, int64_t i)
{
    static const double part[COPIES] = { 1, -1, 0.5, -0.5 };
    const int64_t       D = c->n_cols;
    for (int k = 0; k < COPIES; k++)
        for (int64_t j = 0; j < D; j++)
            b->x[(i * COPIES + k) * D + j] =
                c->x[b->row[i] * D + j] + part[k] * b->step[i] * b->d[i * D + j];
}

/* Differences are computed per element, before summing: y cancels, its sum need not. */
static double row_error(const ts_gradients_case *c, const block *b, int64_t i)
{
    const int64_t D = c->n_cols, row = b->row[i] * D;
    const double *y = b->y + i * COPIES * D, *d = b->d + i * D;
    ts_real       wide = { 0, 0 }, narrow = { 0, 0 };
    for (int64_t j = 0; j < D; j++) {
        const double w = c->dy[row + j];
        ts_real_gather_product(&wide, ts_real_of(y[j] - y[D + j]), w);
        ts_real_gather_product(&narrow, ts_real_of(y[2 * D + j] - y[3 * D + j]), w);
    }
    const ts_real h = ts_real_of(b->step[i]), claimed = ts_real_dot(c->dx + row, 1, d, 1, D);
    const ts_real near = ts_real_div(ts_real_gathered(narrow), h);
    const ts_real far = ts_real_div(ts_real_gathered(wide), ts_real_of(2 * b->step[i]));
    const ts_real three = ts_real_sub(ts_real_mul(ts_real_of(4), near), far);
    const ts_real found = ts_real_div(three, ts_real_of(3));
    return fabs(ts_real_sub(found, claimed).hi) / b->magnitude[i];
}

static bool check_rows(const ts_gradients_case *c, block *b, ts_gradients_report *r)
{
    for (int64_t i = 0; i < b->n; i++) {
        plan(c, b, i);
        stack(c, b, i);
    }
    if (!ts_gradients_forward(c, b->n * COPIES, b->x, c->gamma, c->beta, b->y, b->mean, b->rstd))
        return false;
    for (int64_t i = 0; i < b->n; i++) note(r, TS_DX, row_error(c, b, i), b->limit[i]);
    return true;
}

/* ---- gamma and beta: all rows, parameters moved by +d and -d ---- */

/* y of a column depends only on that column's gamma and beta, so one pair of calls gives the
 * derivative for every column, and their sum is the derivative along the whole direction. */
typedef struct column {
    ts_real found;     /* sum over rows of dy * (y+ - y-) / 2 */
    double  magnitude; /* sum over rows of the terms' magnitudes */
    double  squares;   /* sum over rows of the square of an element's rounding, in u */
    double  shift;     /* sum over rows of the effect of an error of r max|x| in xhat */
} column;

static double off(const column *k, ts_real claimed)
{
    return fabs(ts_real_sub(ts_real_gathered(k->found), claimed).hi);
}

static void add_row(const ts_gradients_case *c, int64_t row, const double *dgamma,
                    const double *dbeta, const double *plus, const double *minus, column *k)
{
    const double *x = c->x + row * c->n_cols, *dy = c->dy + row * c->n_cols;
    const double  mean = c->mean[row], r = c->rstd[row];
    double        largest = 0;
    for (int64_t j = 0; j < c->n_cols; j++) largest = fmax(largest, fabs(x[j]));
    for (int64_t j = 0; j < c->n_cols; j++) {
        const double w = fabs(dy[j]), xhat = fabs((x[j] - mean) * r);
        const double g = fabs(c->gamma[j]) + fabs(dgamma[j]), b = fabs(c->beta[j]) + fabs(dbeta[j]);
        const double e = 4 * w * (g * xhat + b);
        ts_real_gather_product(&k[j].found, ts_real_of((plus[j] - minus[j]) / 2), dy[j]);
        k[j].magnitude += w * (fabs(dgamma[j]) * xhat + fabs(dbeta[j]));
        k[j].squares += e * e;
        k[j].shift += w * fabs(dgamma[j]) * r * largest;
    }
}

/* The directions are rows 0 and 1 of b->d; the moved parameters go to rows 2 to 5. */
static column *move_columns(const ts_gradients_case *c, block *b)
{
    const int64_t D = c->n_cols;
    const double *dgamma = b->d, *dbeta = b->d + D;
    double       *gamma = b->d + 2 * D, *beta = b->d + 4 * D;
    double       *plus = b->y, *minus = b->y + BLOCK * D;
    for (int64_t j = 0; j < D; j++) {
        gamma[j] = c->gamma[j] + dgamma[j], gamma[D + j] = c->gamma[j] - dgamma[j];
        beta[j] = c->beta[j] + dbeta[j], beta[D + j] = c->beta[j] - dbeta[j];
    }
    column *k = calloc((size_t)D, sizeof *k);
    bool    ok = k || out_of_memory();
    for (int64_t r = 0; ok && r < c->n_rows; r += BLOCK) {
        const int64_t n = c->n_rows - r < BLOCK ? c->n_rows - r : BLOCK;
        const double *x = c->x + r * D;
        ok = ts_gradients_forward(c, n, x, gamma, beta, plus, b->mean, b->rstd) &&
             ts_gradients_forward(c, n, x, gamma + D, beta + D, minus, b->mean, b->rstd);
        for (int64_t i = 0; ok && i < n; i++)
            add_row(c, r + i, dgamma, dbeta, plus + i * D, minus + i * D, k);
    }
    if (ok) return k;
    free(k);
    return NULL;
}

/* Halving the difference of two evaluations halves the variance of their roundings; the gradient
 * may err by k(n_rows) u in its sum, and xhat by k(D) u and by 8 u r max|x|. */
static double column_limit(const ts_gradients_case *c, const column *k)
{
    const double sums = kappa(c->n_rows) + kappa(c->n_cols);
    return U * ((8 * sqrt(k->squares / 2) + 8 * k->shift) / k->magnitude + sums);
}

/* Checks one direction of all of gamma or beta column by column: if all parts are correct, so is
 * their sum. */
static bool check_direction(const ts_gradients_case *c, block *b, int which, ts_gradients_report *r)
{
    const double *claims = which == TS_DGAMMA ? c->dgamma : c->dbeta;
    double       *d = b->d + (which == TS_DGAMMA ? 0 : c->n_cols);
    for (int64_t j = 0; j < 2 * c->n_cols; j++) b->d[j] = 0;
    signs(ts_bits(c->seed, 5 + which), 0, c->n_cols, d);
    column *k = move_columns(c, b);
    if (!k) return false;
    for (int64_t j = 0; j < c->n_cols; j++)
        note(r, which, off(&k[j], ts_real_product(claims[j], d[j])) / k[j].magnitude,
             column_limit(c, &k[j]));
    free(k);
    return true;
}

/* ---- the two methods ---- */

bool ts_gradients_batched(const ts_gradients_case *c, ts_gradients_report *r)
{
    block b;
    bool  ok = block_make(c->n_cols, &b);
    *r = (ts_gradients_report) { 0 };
    if (!ok) return false;
    for (int64_t first = 0; ok && first < c->n_rows; first += BLOCK) {
        b.n = c->n_rows - first < BLOCK ? c->n_rows - first : BLOCK;
        for (int64_t i = 0; i < b.n; i++) b.row[i] = first + i;
        signs(ts_bits(c->seed, 5), first * c->n_cols, b.n * c->n_cols, b.d);
        ok = check_rows(c, &b, r);
    }
    ok = ok && check_direction(c, &b, TS_DGAMMA, r) && check_direction(c, &b, TS_DBETA, r);
    free(b.memory);
    return ok;
}

/* Moves gamma of BLOCK columns and beta of BLOCK other columns together. No other column may
 * change, so each result is a derivative by one element. */
static bool spot_columns(const ts_gradients_case *c, block *b, ts_gradients_report *r)
{
    double *dgamma = b->d, *dbeta = b->d + c->n_cols;
    for (int64_t j = 0; j < c->n_cols; j++) dgamma[j] = dbeta[j] = 0;
    for (int64_t i = 0, at = 0; i < BLOCK && i < c->n_cols / 2; at++) {
        const int64_t j = (int64_t)(ts_bits(c->seed ^ 7, at) % (uint64_t)(c->n_cols / 2));
        if (dgamma[2 * j] != 0) continue;
        dgamma[2 * j] = dbeta[2 * j + 1] = 1;
        i++;
    }
    column *k = move_columns(c, b);
    if (!k) return false;
    for (int64_t j = 0; j < c->n_cols; j++) {
        const int    which = dgamma[j] != 0 ? TS_DGAMMA : TS_DBETA;
        const double claimed = which == TS_DGAMMA ? c->dgamma[j] : c->dbeta[j];
        if (k[j].magnitude > 0)
            note(r, which, off(&k[j], ts_real_of(claimed)) / k[j].magnitude,
                 column_limit(c, &k[j]));
        else if (ts_real_gathered(k[j].found).hi != 0) note(r, which, INFINITY, U);
    }
    free(k);
    return true;
}

bool ts_gradients_spots(const ts_gradients_case *c, ts_gradients_report *r)
{
    block b;
    *r = (ts_gradients_report) { 0 };
    if (!block_make(c->n_cols, &b)) return false;
    b.n = BLOCK;
    for (int64_t i = 0; i < BLOCK; i++) {
        const uint64_t at = ts_bits(c->seed ^ 8, i);
        b.row[i] = (int64_t)(at % (uint64_t)c->n_rows);
        for (int64_t j = 0; j < c->n_cols; j++) b.d[i * c->n_cols + j] = 0;
        b.d[i * c->n_cols + (int64_t)((at >> 32) % (uint64_t)c->n_cols)] = 1;
    }
    const bool ok = check_rows(c, &b, r) && spot_columns(c, &b, r);
    free(b.memory);
    return ok;
}
