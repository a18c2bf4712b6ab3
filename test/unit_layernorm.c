/* SPDX-License-Identifier: Apache-2.0 */
/* unit_layernorm.c - tests the calls that the API of layer norm rejects, the size of what forward
 * stores, and identities that are true for all numbers.
 *
 * `touchstone check` compares values with an oracle. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "dtype.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/layernorm.h"
#include "unit.h"

enum { ROWS = 64, COLS = 33, STRIDE = 35, MARK = 0xa5 };

static const unsigned masks[] = TS_CPU_MASKS;

/* ---- refusals: the status is the promised one, and no output has changed ---- */

static float         in[ROWS * STRIDE], cotangent[ROWS * STRIDE], gains[COLS], shifts[COLS];
static float         means[ROWS], rstds[ROWS];
static unsigned char workspace[1 << 20];
static union outputs {
    struct {
        float y[ROWS * STRIDE], mean[ROWS], rstd[ROWS];
    } fwd;
    struct {
        float dx[ROWS * STRIDE], dgamma[COLS], dbeta[COLS];
    } bwd;
    unsigned char bytes[1];
} out;

static const ts_exec on_cpu = { .workspace = workspace, .workspace_bytes = sizeof workspace };

static ts_layernorm_forward_args forward_args(void)
{
    return (ts_layernorm_forward_args) {
        .dtype = TS_F32,
        .n_rows = ROWS,
        .n_cols = COLS,
        .row_stride = STRIDE,
        .eps = 1e-5,
        .x = in,
        .gamma = gains,
        .beta = shifts,
        .y = out.fwd.y,
        .mean = out.fwd.mean,
        .rstd = out.fwd.rstd,
    };
}

static ts_layernorm_backward_args backward_args(void)
{
    return (ts_layernorm_backward_args) {
        .dtype = TS_F32,
        .n_rows = ROWS,
        .n_cols = COLS,
        .row_stride = STRIDE,
        .x = in,
        .dy = cotangent,
        .gamma = gains,
        .mean = means,
        .rstd = rstds,
        .dx = out.bwd.dx,
        .dgamma = out.bwd.dgamma,
        .dbeta = out.bwd.dbeta,
    };
}

static void mark_outputs(void)
{
    memset(out.bytes, MARK, sizeof out);
}

static int is_marked(const void *p, size_t n)
{
    const unsigned char *b = p;
    while (n && b[n - 1] == MARK) n--;
    return n == 0;
}

/* Both the call and its workspace query. */
static void refuses_forward(ts_layernorm_forward_args a, ts_exec x, ts_status must)
{
    size_t n = 123;
    mark_outputs();
    assert_int_equal(ts_layernorm_forward(&a, &x), must);
    if (must != TS_E_WORKSPACE) assert_int_equal(ts_layernorm_forward_workspace(&a, &x, &n), must);
    assert_true(is_marked(&out, sizeof out));
}

static void refuses_backward(ts_layernorm_backward_args a, ts_exec x, ts_status must)
{
    size_t n = 123;
    mark_outputs();
    assert_int_equal(ts_layernorm_backward(&a, &x), must);
    if (must != TS_E_WORKSPACE) assert_int_equal(ts_layernorm_backward_workspace(&a, &x, &n), must);
    assert_true(is_marked(&out, sizeof out));
}

static int show_everything(void **state)
{
    (void)state;
    ts_cpu_set_mask(~0u);
    return 0;
}

TEST_WITH(refuses_null, NULL, show_everything)
{
    size_t                           n;
    const ts_layernorm_forward_args  f = forward_args();
    const ts_layernorm_backward_args b = backward_args();
    mark_outputs();
    assert_int_equal(ts_layernorm_forward(NULL, &on_cpu), TS_E_ARG);
    assert_int_equal(ts_layernorm_forward(&f, NULL), TS_E_ARG);
    assert_int_equal(ts_layernorm_forward_workspace(NULL, &on_cpu, &n), TS_E_ARG);
    assert_int_equal(ts_layernorm_forward_workspace(&f, NULL, &n), TS_E_ARG);
    assert_int_equal(ts_layernorm_forward_workspace(&f, &on_cpu, NULL), TS_E_ARG);
    assert_int_equal(ts_layernorm_backward(NULL, &on_cpu), TS_E_ARG);
    assert_int_equal(ts_layernorm_backward(&b, NULL), TS_E_ARG);
    assert_int_equal(ts_layernorm_backward_workspace(NULL, &on_cpu, &n), TS_E_ARG);
    assert_int_equal(ts_layernorm_backward_workspace(&b, NULL, &n), TS_E_ARG);
    assert_int_equal(ts_layernorm_backward_workspace(&b, &on_cpu, NULL), TS_E_ARG);
    assert_true(is_marked(&out, sizeof out));

    static const size_t forward[] = {
        offsetof(ts_layernorm_forward_args, x),    offsetof(ts_layernorm_forward_args, gamma),
        offsetof(ts_layernorm_forward_args, beta), offsetof(ts_layernorm_forward_args, y),
        offsetof(ts_layernorm_forward_args, mean), offsetof(ts_layernorm_forward_args, rstd),
    };
    static const size_t backward[] = {
        offsetof(ts_layernorm_backward_args, x),      offsetof(ts_layernorm_backward_args, dy),
        offsetof(ts_layernorm_backward_args, gamma),  offsetof(ts_layernorm_backward_args, mean),
        offsetof(ts_layernorm_backward_args, rstd),   offsetof(ts_layernorm_backward_args, dx),
        offsetof(ts_layernorm_backward_args, dgamma), offsetof(ts_layernorm_backward_args, dbeta),
    };
    for (size_t i = 0; i < sizeof forward / sizeof *forward; i++) {
        ts_layernorm_forward_args a = f;
        memset((char *)&a + forward[i], 0, sizeof(void *));
        refuses_forward(a, on_cpu, TS_E_ARG);
    }
    for (size_t i = 0; i < sizeof backward / sizeof *backward; i++) {
        ts_layernorm_backward_args a = b;
        memset((char *)&a + backward[i], 0, sizeof(void *));
        refuses_backward(a, on_cpu, TS_E_ARG);
    }
}

TEST_WITH(refuses_shapes, NULL, show_everything)
{
    static const struct {
        int64_t n_rows, n_cols, row_stride;
    } wrong[] = {
        { -1, COLS, STRIDE },
        { INT64_MIN, COLS, STRIDE },
        { ROWS, 0, STRIDE },
        { ROWS, -1, STRIDE },
        { 0, 0, STRIDE },
        { ROWS, COLS, COLS - 1 },
        { ROWS, COLS, 0 },
        { ROWS, COLS, -STRIDE },
        { ROWS, COLS, INT64_MAX },
        { INT64_MAX, COLS, STRIDE },
        { INT64_C(1) << 32, COLS, INT64_C(1) << 32 }, /* the product is 0 in 64 bits */
        { 3, COLS, INT64_MAX / 3 },                   /* fits in elements, not in bytes */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ts_layernorm_forward_args  f = forward_args();
        ts_layernorm_backward_args b = backward_args();
        f.n_rows = b.n_rows = wrong[i].n_rows;
        f.n_cols = b.n_cols = wrong[i].n_cols;
        f.row_stride = b.row_stride = wrong[i].row_stride;
        refuses_forward(f, on_cpu, TS_E_SHAPE);
        refuses_backward(b, on_cpu, TS_E_SHAPE);
    }
}

TEST_WITH(refuses_values, NULL, show_everything)
{
    static const double eps[] = { 0, -0.0, -1, NAN, INFINITY, -INFINITY };
    static const int    dtype[] = { TS_U8, TS_U4, 99, -1 };
    for (size_t i = 0; i < sizeof eps / sizeof *eps; i++) {
        ts_layernorm_forward_args f = forward_args();
        f.eps = eps[i];
        refuses_forward(f, on_cpu, TS_E_ARG);
    }
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t i = 0; i < sizeof dtype / sizeof *dtype; i++) {
            ts_layernorm_forward_args  f = forward_args();
            ts_layernorm_backward_args b = backward_args();
            f.dtype = b.dtype = (ts_dtype)dtype[i];
            ts_cpu_set_mask(masks[m]);
            refuses_forward(f, on_cpu, TS_E_DTYPE);
            refuses_backward(b, on_cpu, TS_E_DTYPE);
        }
    ts_layernorm_backward_args b = backward_args();
    b.accumulate = 2;
    refuses_backward(b, on_cpu, TS_E_ARG);
    ts_exec x = on_cpu;
    x.device = (ts_device)9;
    refuses_forward(forward_args(), x, TS_E_ARG);
    refuses_backward(backward_args(), x, TS_E_ARG);
}

TEST_WITH(refuses_small_workspace, NULL, show_everything)
{
    int n_tried = 0;
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        const ts_layernorm_backward_args b = backward_args();
        ts_exec                          x = on_cpu;
        size_t                           n;
        ts_cpu_set_mask(masks[m]);
        assert_int_equal(ts_layernorm_backward_workspace(&b, &x, &n), TS_OK);
        assert_true(n <= sizeof workspace);
        if (n) {
            x.workspace_bytes = n - 1;
            refuses_backward(b, x, TS_E_WORKSPACE);
            x.workspace_bytes = 0;
            refuses_backward(b, x, TS_E_WORKSPACE);
            x.workspace = NULL;
            x.workspace_bytes = n;
            refuses_backward(b, x, TS_E_WORKSPACE);
            n_tried++;
        }
        /* A workspace of exactly the requested size is enough, and nothing past it is touched. */
        x.workspace = workspace;
        x.workspace_bytes = n;
        memset(workspace, MARK, sizeof workspace);
        assert_int_equal(ts_layernorm_backward(&b, &x), TS_OK);
        assert_true(is_marked(workspace + n, sizeof workspace - n));
    }
    if (!n_tried) skip(); /* no row of this CPU takes a workspace */
}

/* ---- no rows, and what forward keeps ---- */

TEST_WITH(no_rows, NULL, show_everything)
{
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        ts_layernorm_forward_args  f = forward_args();
        ts_layernorm_backward_args b = backward_args();
        ts_cpu_set_mask(masks[m]);
        f.n_rows = b.n_rows = 0;
        f.x = b.x = b.dy = b.mean = b.rstd = NULL;
        f.y = f.mean = f.rstd = b.dx = NULL;
        mark_outputs();
        assert_int_equal(ts_layernorm_forward(&f, &on_cpu), TS_OK);
        b.accumulate = 1;
        assert_int_equal(ts_layernorm_backward(&b, &on_cpu), TS_OK);
        assert_true(is_marked(&out, sizeof out));
        b.accumulate = 0;
        assert_int_equal(ts_layernorm_backward(&b, &on_cpu), TS_OK);
        for (int c = 0; c < COLS; c++) assert_true(out.bwd.dgamma[c] == 0 && out.bwd.dbeta[c] == 0);
        assert_true(is_marked(out.bwd.dx, sizeof out.bwd.dx));
    }
}

/* Two numbers a row: n_rows floats of mean, n_rows of rstd (doubles for f64), no byte more. */
TEST_WITH(forward_keeps_two_numbers_a_row, NULL, show_everything)
{
    static const ts_dtype dtypes[] = { TS_F32, TS_BF16, TS_F16, TS_F64 };
    static double         x[5 * 19], gamma[17], beta[17];
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t t = 0; t < 4; t++)
            for (int64_t n_rows = 1; n_rows <= 5; n_rows++) {
                const size_t  each = ts_format_of(ts_wide(dtypes[t]))->n_bytes;
                unsigned char mean[80], rstd[80], y[5 * 19 * sizeof(double)];
                memset(mean, MARK, sizeof mean);
                memset(rstd, MARK, sizeof rstd);
                memset(y, MARK, sizeof y);
                for (int i = 0; i < 5 * 19; i++) ts_store(x, dtypes[t], i, ts_normal(3, i));
                const ts_layernorm_forward_args a = { dtypes[t], n_rows, 17, 19,   1e-5, x,
                                                      gamma,     beta,   y,  mean, rstd };
                ts_cpu_set_mask(masks[m]);
                assert_int_equal(ts_layernorm_forward(&a, &on_cpu), TS_OK);
                for (int64_t r = 0; r < n_rows; r++) {
                    assert_false(is_marked(mean + (size_t)r * each, each));
                    assert_false(is_marked(rstd + (size_t)r * each, each));
                }
                assert_true(is_marked(mean + (size_t)n_rows * each, 80 - (size_t)n_rows * each));
                assert_true(is_marked(rstd + (size_t)n_rows * each, 80 - (size_t)n_rows * each));
                const size_t width = ts_format_of(dtypes[t])->n_bytes;
                for (int64_t r = 0; r < n_rows; r++) /* nor between rows */
                    assert_true(is_marked(y + (size_t)(r * 19 + 17) * width, 2 * width));
            }
}

/* ---- identities, in float64 ----
 * Bounds are u times a count of roundings, at most n_cols + 16 in any chain here, times the
 * magnitudes that cancel. The contract lets the mean be off by 8u * max|x|: hence `far`. */

enum { D_MAX = 1024 };

typedef struct row {
    int64_t n_cols;
    double  eps, x[D_MAX], gamma[D_MAX], beta[D_MAX], dy[D_MAX];
    double  y[D_MAX], mean, rstd, dx[D_MAX], dgamma[D_MAX], dbeta[D_MAX];
} row;

static row one, two;

static void draw(row *w, int64_t n_cols, double eps, uint64_t seed)
{
    w->n_cols = n_cols;
    w->eps = eps;
    for (int64_t c = 0; c < n_cols; c++) {
        w->x[c] = ts_normal(seed, c);
        w->gamma[c] = ts_uniform(seed + 1, c);
        w->beta[c] = ts_uniform(seed + 2, c);
        w->dy[c] = ts_normal(seed + 3, c);
    }
}

static void run(row *w)
{
    const ts_layernorm_forward_args  f = { TS_F64,   1,       w->n_cols, w->n_cols, w->eps,  w->x,
                                           w->gamma, w->beta, w->y,      &w->mean,  &w->rstd };
    const ts_layernorm_backward_args b = { TS_F64, 0,         1,        w->n_cols, w->n_cols,
                                           w->x,   w->dy,     w->gamma, &w->mean,  &w->rstd,
                                           w->dx,  w->dgamma, w->dbeta };
    assert_int_equal(ts_layernorm_forward(&f, &on_cpu), TS_OK);
    assert_int_equal(ts_layernorm_backward(&b, &on_cpu), TS_OK);
}

static void each_shape(void (*test)(int64_t n_cols, double eps, uint64_t seed))
{
    static const int64_t cols[] = { 1, 2, 3, 7, 64, 257, 1000 };
    static const double  eps[] = { 1e-12, 1e-5, 0.1, 10 };
    uint64_t             seed = 0x5eed;
    for (size_t i = 0; i < sizeof cols / sizeof *cols; i++)
        for (size_t j = 0; j < sizeof eps / sizeof *eps; j++, seed += 10)
            test(cols[i], eps[j], seed);
}

/* sum dx = 0, and sum dx * xhat = eps * rstd^3 * sum g * xhat. */
static void sums(int64_t n_cols, double eps, uint64_t seed)
{
    const double d = (double)n_cols, count = (d + 16) * DBL_EPSILON / 2;
    long double  dx = 0, dx_xhat = 0, g_xhat = 0;
    double       abs_g = 0, abs_gx = 0, abs_xhat = 0, far = 0;
    draw(&one, n_cols, eps, seed);
    run(&one);
    for (int64_t c = 0; c < n_cols; c++) {
        const double      g = one.gamma[c] * one.dy[c];
        const long double xhat = ((long double)one.x[c] - one.mean) * one.rstd;
        dx += one.dx[c];
        dx_xhat += one.dx[c] * xhat;
        g_xhat += g * xhat;
        abs_g += fabs(g);
        abs_gx += fabs(g * (double)xhat);
        abs_xhat += fabs((double)xhat);
        far = fmax(far, fabs(one.x[c]) * one.rstd);
    }
    const double r = one.rstd;
    assert_true(fabsl(dx) <= count * r * (abs_g + abs_gx / d * (abs_xhat + d * far)));
    assert_true(fabsl(dx_xhat - eps * r * r * r * g_xhat) <=
                count * r * (2 * abs_gx + (abs_g + 2 * abs_gx * far) / d * (abs_xhat + d * far)));
    assert_true(r <= (1 + 4 * DBL_EPSILON) / sqrt(eps));
}

TEST_WITH(sums_of_dx, NULL, show_everything)
{
    each_shape(sums);
}

/* x and x + c are exact, so y differs only by what the mean may be off and by its own rounding. */
static void shifted(int64_t n_cols, double eps, uint64_t seed)
{
    for (double c = 0x1p-10; c < 0x1p31; c *= 0x1p10) {
        draw(&one, n_cols, eps, seed);
        for (int64_t i = 0; i < n_cols; i++) one.x[i] = rint(one.x[i] * 0x1p18) * 0x1p-18;
        two = one;
        for (int64_t i = 0; i < n_cols; i++) {
            two.x[i] += c;
            assert_true(two.x[i] - c == one.x[i]);
        }
        run(&one);
        run(&two);
        for (int64_t i = 0; i < n_cols; i++) {
            const double xhat = fabs(one.x[i] - one.mean) * one.rstd;
            const double off = 16 * (c + 4) * one.rstd;
            const double bound = DBL_EPSILON * (((double)n_cols + 16) * xhat + off * (1 + xhat)) *
                                     fabs(one.gamma[i]) +
                                 2 * DBL_EPSILON * fabs(one.y[i]);
            assert_true(fabs(two.y[i] - one.y[i]) <= bound);
        }
    }
}

TEST_WITH(shift_leaves_y, NULL, show_everything)
{
    each_shape(shifted);
}

/* A row without variance: y = beta, rstd = eps^-1/2, dx = (g - avg g) / sqrt(eps). */
static void zero(int64_t n_cols, double eps, uint64_t seed)
{
    double sum = 0, abs_sum = 0;
    draw(&one, n_cols, eps, seed);
    for (int64_t c = 0; c < n_cols; c++) {
        one.x[c] = 0;
        sum += one.gamma[c] * one.dy[c];
        abs_sum += fabs(one.gamma[c] * one.dy[c]);
    }
    run(&one);
    assert_true(one.mean == 0 && fabs(one.rstd * sqrt(eps) - 1) <= 4 * DBL_EPSILON);
    for (int64_t c = 0; c < n_cols; c++) {
        const double g = one.gamma[c] * one.dy[c], d = (double)n_cols;
        const double bound = (d + 16) * DBL_EPSILON * (fabs(g) + abs_sum / d) / sqrt(eps);
        assert_true(one.y[c] == one.beta[c] && one.dgamma[c] == 0 && one.dbeta[c] == one.dy[c]);
        assert_true(fabs(one.dx[c] - (g - sum / d) / sqrt(eps)) <= bound);
    }
}

TEST_WITH(zero_row, NULL, show_everything)
{
    each_shape(zero);
}

int main(void)
{
    for (int i = 0; i < ROWS * STRIDE; i++) in[i] = (float)ts_normal(1, i);
    for (int i = 0; i < ROWS * STRIDE; i++) cotangent[i] = (float)ts_normal(2, i);
    for (int i = 0; i < COLS; i++) gains[i] = shifts[i] = 1;
    for (int i = 0; i < ROWS; i++) rstds[i] = 1;
    return unit_run();
}
