/* SPDX-License-Identifier: Apache-2.0 */
/* unit_rms_norm.c - tests what no case of rms_norm can express, on every CPU mask.
 *
 * Gradients against central differences of forward, in double; and a norm in place that is bitwise
 * identical to one that is not. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/rms_norm.h"
#include "unit.h"

enum { ROWS = 5, COLS = 37, STRIDE = 40, SIZE = ROWS * STRIDE };

static const unsigned masks[] = TS_CPU_MASKS;

/* The sum of y * dy and of r * dr: what backward is the gradient of. */
static double loss(const double *x, const double *w, int w_offset, const double *dy,
                   const double *dr)
{
    static const double zero[SIZE];
    static double       r[SIZE], y[SIZE], rstd[ROWS];
    const ts_exec       exec = { .device = TS_CPU };
    double              sum = 0;

    const ts_rms_norm_forward_args a = { TS_F64, w_offset, ROWS, COLS, STRIDE, 1e-3,
                                         x,      zero,     w,    r,    y,      rstd };
    assert_int_equal(ts_rms_norm_forward(&a, &exec), TS_OK);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < COLS; c++)
            sum += y[i * STRIDE + c] * dy[i * STRIDE + c] + r[i * STRIDE + c] * dr[i * STRIDE + c];
    return sum;
}

/* The error is h^2 times a third derivative, and u times the loss over h. */
static void is_slope(double *at, double gradient, const double *x, const double *w, int w_offset,
                     const double *dy, const double *dr)
{
    const double h = 1e-5, was = *at;
    *at = was + h;
    const double up = loss(x, w, w_offset, dy, dr);
    *at = was - h;
    const double down = loss(x, w, w_offset, dy, dr);
    *at = was;
    if (fabs((up - down) / (2 * h) - gradient) > 1e-7)
        fail_msg("slope %.12g, gradient %.12g", (up - down) / (2 * h), gradient);
}

TEST(gradients_are_slopes)
{
    static double x[SIZE], dy[SIZE], dr[SIZE], w[COLS], y[SIZE], rstd[ROWS], dx[SIZE], dw[COLS];
    const ts_exec exec = { .device = TS_CPU };
    for (int i = 0; i < SIZE; i++)
        x[i] = ts_normal(1, i), dy[i] = ts_normal(2, i), dr[i] = ts_normal(3, i);
    for (int c = 0; c < COLS; c++) w[c] = c % 5 ? ts_uniform(4, c) : 0;
    for (int w_offset = 0; w_offset < 2; w_offset++) {
        const ts_rms_norm_forward_args  f = { TS_F64, w_offset, ROWS, COLS, STRIDE, 1e-3,
                                              x,      NULL,     w,    NULL, y,      rstd };
        const ts_rms_norm_backward_args b = { TS_F64, w_offset, 0, ROWS, COLS, STRIDE, x,
                                              dy,     dr,       w, rstd, dx,   dw };
        assert_int_equal(ts_rms_norm_forward(&f, &exec), TS_OK);
        assert_int_equal(ts_rms_norm_backward(&b, &exec), TS_OK);
        for (int i = 0; i < ROWS; i++)
            for (int c = 0; c < COLS; c++)
                is_slope(&x[i * STRIDE + c], dx[i * STRIDE + c], x, w, w_offset, dy, dr);
        for (int c = 0; c < COLS; c++) is_slope(&w[c], dw[c], x, w, w_offset, dy, dr);
    }
}

TEST(in_place_is_as_apart)
{
    static float  x[SIZE], residual[SIZE], w[COLS], r[SIZE], y[2][SIZE], rstd[2][ROWS];
    const ts_exec exec = { .device = TS_CPU };
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        ts_cpu_set_mask(masks[m]);
        for (int i = 0; i < SIZE; i++)
            x[i] = (float)ts_normal(1, i), residual[i] = (float)ts_normal(2, i);
        for (int c = 0; c < COLS; c++) w[c] = (float)ts_uniform(4, c);
        ts_rms_norm_forward_args a = { TS_F32, 0,        ROWS, COLS, STRIDE, 1e-6,
                                       x,      residual, w,    r,    y[0],   rstd[0] };
        memcpy(r, x, sizeof r); /* so that gaps are the same */
        assert_int_equal(ts_rms_norm_forward(&a, &exec), TS_OK);
        a.r = x, a.y = y[1], a.rstd = rstd[1];
        assert_int_equal(ts_rms_norm_forward(&a, &exec), TS_OK);
        assert_memory_equal(x, r, sizeof x);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        assert_memory_equal(rstd[0], rstd[1], sizeof rstd[0]);
    }
    ts_cpu_set_mask(~0u);
}
