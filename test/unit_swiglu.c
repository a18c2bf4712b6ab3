/* SPDX-License-Identifier: Apache-2.0 */
/* unit_swiglu.c - what no case of swiglu can express: gradients against central differences of
 * forward, in double; halves of one product's rows; and calls in place that name two strides. */
#include <math.h>
#include <string.h>

#include "rng.h"
#include "touchstone/swiglu.h"
#include "unit.h"

enum { ROWS = 5, COLS = 37, SIZE = ROWS * COLS };

static const ts_exec cpu = { .device = TS_CPU };

/* The documentation's example. */
TEST(is_as_documented)
{
    const float                  x[4] = { 0, 100, 3, 2 }; /* two gates, and up */
    float                        y[2];
    const ts_swiglu_forward_args a = { TS_F32, 1, 2, 4, 2, x, x + 2, y };
    assert_int_equal(ts_swiglu_forward(&a, &cpu), TS_OK);
    assert_true(y[0] == 0 && y[1] == 200);
}

static double loss(const double *gate, const double *up, const double *dy)
{
    static double                y[SIZE];
    const ts_swiglu_forward_args a = { TS_F64, ROWS, COLS, COLS, COLS, gate, up, y };
    double                       sum = 0;
    assert_int_equal(ts_swiglu_forward(&a, &cpu), TS_OK);
    for (int i = 0; i < SIZE; i++) sum += y[i] * dy[i];
    return sum;
}

/* The error is h^2 times a third derivative, and u times the loss over h. */
static void is_slope(double *at, double gradient, const double *gate, const double *up,
                     const double *dy)
{
    const double h = 1e-5, was = *at;
    *at = was + h;
    const double above = loss(gate, up, dy);
    *at = was - h;
    const double below = loss(gate, up, dy);
    *at = was;
    if (fabs((above - below) / (2 * h) - gradient) > 1e-8)
        fail_msg("slope %.12g, gradient %.12g", (above - below) / (2 * h), gradient);
}

TEST(gradients_are_slopes)
{
    static double gate[SIZE], up[SIZE], dy[SIZE], dgate[SIZE], dup[SIZE];
    for (int i = 0; i < SIZE; i++)
        gate[i] = 3 * ts_normal(1, i), up[i] = ts_normal(2, i), dy[i] = ts_normal(3, i);
    const ts_swiglu_backward_args a = { TS_F64, ROWS, COLS, COLS, COLS, gate, up, dy, dgate, dup };
    assert_int_equal(ts_swiglu_backward(&a, &cpu), TS_OK);
    for (int i = 0; i < SIZE; i++) {
        is_slope(&gate[i], dgate[i], gate, up, dy);
        is_slope(&up[i], dup[i], gate, up, dy);
    }
}

/* Rows of 2 COLS: gates, then ups; backward writes the same rows anew. */
TEST(takes_fused_rows)
{
    static float x[2 * SIZE], gate[SIZE], up[SIZE], y[SIZE], want[SIZE], dgate[SIZE], dup[SIZE];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) {
            const int i = r * COLS + c;
            x[2 * r * COLS + c] = gate[i] = (float)ts_normal(4, i);
            x[(2 * r + 1) * COLS + c] = up[i] = (float)ts_normal(5, i);
        }
    const ts_swiglu_forward_args f = { TS_F32, ROWS, COLS, 2 * COLS, COLS, x, x + COLS, y };
    const ts_swiglu_forward_args g = { TS_F32, ROWS, COLS, COLS, COLS, gate, up, want };
    assert_int_equal(ts_swiglu_forward(&f, &cpu), TS_OK);
    assert_int_equal(ts_swiglu_forward(&g, &cpu), TS_OK);
    assert_memory_equal(y, want, sizeof y);
    const ts_swiglu_backward_args b = { TS_F32, ROWS,     COLS, 2 * COLS, COLS,
                                        x,      x + COLS, y,    x,        x + COLS };
    const ts_swiglu_backward_args d = { TS_F32, ROWS, COLS, COLS, COLS, gate, up, y, dgate, dup };
    assert_int_equal(ts_swiglu_backward(&d, &cpu), TS_OK);
    assert_int_equal(ts_swiglu_backward(&b, &cpu), TS_OK);
    for (int r = 0; r < ROWS; r++) {
        assert_memory_equal(x + 2 * r * COLS, dgate + r * COLS, COLS * sizeof *x);
        assert_memory_equal(x + (2 * r + 1) * COLS, dup + r * COLS, COLS * sizeof *x);
    }
}

TEST(in_place_has_one_stride)
{
    static float            x[4 * SIZE], z[4 * SIZE];
    ts_swiglu_forward_args  f = { TS_F32, 2, COLS, COLS, COLS + 1, x, z, x };
    ts_swiglu_backward_args b = { TS_F32, 2, COLS, COLS, COLS + 1, x, z, x + SIZE, x, x + SIZE };
    assert_int_equal(ts_swiglu_forward(&f, &cpu), TS_E_ARG);
    f.y = z;
    assert_int_equal(ts_swiglu_forward(&f, &cpu), TS_E_ARG);
    assert_int_equal(ts_swiglu_backward(&b, &cpu), TS_E_ARG);
    b.dgate = x + SIZE;
    b.dup = z;
    assert_int_equal(ts_swiglu_backward(&b, &cpu), TS_E_ARG);
}
