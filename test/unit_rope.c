/* SPDX-License-Identifier: Apache-2.0 */
/* unit_rope.c - tests what no case of rope can express, on every CPU mask.
 *
 * The inverse restores the input, dot products of queries and keys depend on their distance only,
 * and in-place results are bitwise identical to others. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/rope.h"
#include "unit.h"

enum { ROWS = 37, HEADS = 3, DIM = 44, ROTARY = 38, WIDTH = HEADS * DIM, SIZE = ROWS * WIDTH };

static const unsigned masks[] = TS_CPU_MASKS;

static ts_rope_args args_of(ts_dtype t, int pairing, const int32_t *position, const void *x,
                            void *y)
{
    return (ts_rope_args) { t,     pairing, 0,     ROWS, HEADS,    DIM, ROTARY,
                            WIDTH, WIDTH,   10000, NULL, position, x,   y };
}

/* The documentation's example. */
TEST(is_as_documented)
{
    const float   x[4] = { 1, 2, 3, 4 };
    const int32_t position = 1;
    const double  frequency[2] = { 1.5707963267948966, 0 }; /* a quarter turn, and none */
    float         y[4];
    const ts_exec exec = { .device = TS_CPU };

    ts_rope_args a = { TS_F32, TS_ROPE_HALVES, 0, 1, 1, 4, 4, 4, 4, 0, frequency, &position, x, y };
    assert_int_equal(ts_rope(&a, &exec), TS_OK);
    assert_true(fabsf(y[0] + 3) < 1e-6f && y[1] == 2 && fabsf(y[2] - 1) < 1e-6f && y[3] == 4);
    a.pairing = TS_ROPE_ADJACENT;
    assert_int_equal(ts_rope(&a, &exec), TS_OK);
    assert_true(fabsf(y[0] + 2) < 1e-6f && fabsf(y[1] - 1) < 1e-6f && y[2] == 3 && y[3] == 4);
}

TEST(inverse_gives_back)
{
    static double  x[SIZE], y[SIZE];
    static int32_t position[ROWS];
    const ts_exec  exec = { .device = TS_CPU };
    for (int i = 0; i < SIZE; i++) x[i] = ts_normal(1, i);
    for (int i = 0; i < ROWS; i++) position[i] = (int32_t)ts_bits(2, i);
    for (int pairing = 0; pairing < 2; pairing++) {
        ts_rope_args a = args_of(TS_F64, pairing, position, x, y);
        assert_int_equal(ts_rope(&a, &exec), TS_OK);
        a.inverse = 1;
        a.x = y; /* in place, by the same angles: no error of theirs is left */
        assert_int_equal(ts_rope(&a, &exec), TS_OK);
        for (int i = 0; i < SIZE; i++) assert_true(fabs(x[i] - y[i]) < 1e-14);
    }
}

/* All rows are the same q, at 0, 1, 2, ...; all keys the same k, 7 further on. */
TEST(products_depend_on_distance)
{
    static float   q[SIZE], k[SIZE];
    static int32_t at[ROWS], ahead[ROWS];
    const ts_exec  exec = { .device = TS_CPU };
    for (int pairing = 0; pairing < 2; pairing++)
        for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
            for (int i = 0; i < SIZE; i++)
                q[i] = (float)ts_normal(3, i % WIDTH), k[i] = (float)ts_normal(4, i % WIDTH);
            for (int r = 0; r < ROWS; r++) at[r] = 100003 * r, ahead[r] = at[r] + 7;
            ts_cpu_set_mask(masks[m]);
            const ts_rope_args a = args_of(TS_F32, pairing, at, q, q);
            const ts_rope_args b = args_of(TS_F32, pairing, ahead, k, k);
            assert_int_equal(ts_rope(&a, &exec), TS_OK);
            assert_int_equal(ts_rope(&b, &exec), TS_OK);
            double first = 0;
            for (int r = 0; r < ROWS; r++) {
                double dot = 0;
                for (int i = 0; i < DIM; i++) dot += (double)q[r * WIDTH + i] * k[r * WIDTH + i];
                if (!r) first = dot;
                assert_true(fabs(dot - first) < 1e-5);
            }
        }
    ts_cpu_set_mask(~0u);
}

TEST(in_place_has_the_same_bits)
{
    static float   x[SIZE], y[SIZE];
    static int32_t position[ROWS];
    const ts_exec  exec = { .device = TS_CPU };
    for (int i = 0; i < ROWS; i++) position[i] = 1000 * i;
    for (int t = TS_F32; t <= TS_BF16; t++)
        for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
            const size_t n = t == TS_F32 ? sizeof x : sizeof x / 2;
            if (t == TS_F64) continue;
            for (int i = 0; i < SIZE; i++) x[i] = (float)ts_normal(5, i);
            ts_cpu_set_mask(masks[m]);
            const ts_rope_args a = args_of((ts_dtype)t, (int)m % 2, position, x, y);
            ts_rope_args       b = a;
            b.y = x;
            assert_int_equal(ts_rope(&a, &exec), TS_OK);
            assert_int_equal(ts_rope(&b, &exec), TS_OK);
            assert_memory_equal(x, y, n);
        }
    ts_cpu_set_mask(~0u);
}

TEST(in_place_has_one_stride)
{
    static float   x[SIZE];
    static int32_t position[ROWS];
    const ts_exec  exec = { .device = TS_CPU };
    ts_rope_args   a = args_of(TS_F32, 0, position, x, x);
    a.n_rows = 2;
    a.y_stride = WIDTH + 1;
    assert_int_equal(ts_rope(&a, &exec), TS_E_ARG);
}
