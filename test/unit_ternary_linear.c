/* SPDX-License-Identifier: Apache-2.0 */
/* unit_ternary_linear.c [cuda [few]] - y, dx and dw against sums in double; bits that latents and
 * codes share and that no other row or thread changes; gradients as exact differences. */
#include <stdbool.h>

#include "unit_ternary.h"

static double kappa(int64_t n)
{
    return 8 + 2 * sqrt((double)n);
}

static ts_ternary_linear_dims dims(ts_dtype t, int64_t n_out, int64_t n_in, int64_t n_rows)
{
    return (ts_ternary_linear_dims) { .dtype = t, .n_out = n_out, .n_in = n_in, .n_rows = n_rows };
}

/* All that a case has. */
typedef struct world {
    ts_ternary_linear_dims d;
    tensor                 w, in, dy, y, dx, dw;
    packed                 p;
} world;

static world make_world(ts_ternary_linear_dims d, uint64_t seed)
{
    return (world) {
        .d = d,
        .w = normal(TS_F32, d.n_out * d.n_in, seed, 0.02),
        .in = normal(d.dtype, d.n_rows * d.n_in, seed + 1, 1),
        .dy = normal(d.dtype, d.n_rows * d.n_out, seed + 2, 1),
        .y = make(d.dtype, d.n_rows * d.n_out),
        .dx = make(d.dtype, d.n_rows * d.n_in),
        .dw = make(TS_F32, d.n_out * d.n_in),
        .p = make_packed(d.n_out, d.n_in),
    };
}

static void drop_world(world *c)
{
    drop(&c->w), drop(&c->in), drop(&c->dy), drop(&c->y), drop(&c->dx), drop(&c->dw);
    drop_packed(&c->p);
}

/* Below the smallest normal a rounding is as large as there. */
static void assert_near(const tensor *t, int64_t i, double sum, double size, int64_t n)
{
    const ts_format *const wide = ts_format_of(ts_wide(t->dtype)), *const to =
                                                                       ts_format_of(t->dtype);
    const double bound =
        kappa(n) * wide->u * (size + wide->min_normal) + to->u * (fabs(sum) + to->min_normal);
    if (fabs(value(t, i) - sum) <= bound) return;
    fail_msg("[%lld] is %.9g, not %.9g +- %.2g", (long long)i, value(t, i), sum, bound);
}

static void check_y(const world *c)
{
    for (int64_t r = 0; r < c->d.n_rows; r++)
        for (int64_t o = 0; o < c->d.n_out; o++) {
            double sum = 0, size = 0;
            for (int64_t j = 0; j < c->d.n_in; j++) {
                const double term = value(&c->in, r * c->d.n_in + j) * weight(&c->p, o, j);
                sum += term, size += fabs(term);
            }
            assert_near(&c->y, r * c->d.n_out + o, sum, size, c->d.n_in);
        }
}

static void check_dx(const world *c)
{
    for (int64_t r = 0; r < c->d.n_rows; r++)
        for (int64_t j = 0; j < c->d.n_in; j++) {
            double sum = 0, size = 0;
            for (int64_t o = 0; o < c->d.n_out; o++) {
                const double term = value(&c->dy, r * c->d.n_out + o) * weight(&c->p, o, j);
                sum += term, size += fabs(term);
            }
            assert_near(&c->dx, r * c->d.n_in + j, sum, size, c->d.n_out);
        }
}

/* Always float: also where the sum is double. */
static void check_dw(const world *c)
{
    for (int64_t o = 0; o < c->d.n_out; o++)
        for (int64_t j = 0; j < c->d.n_in; j++) {
            double sum = 0, size = 0;
            for (int64_t r = 0; r < c->d.n_rows; r++) {
                const double term =
                    value(&c->dy, r * c->d.n_out + o) * value(&c->in, r * c->d.n_in + j);
                sum += term, size += fabs(term);
            }
            assert_near(&c->dw, o * c->d.n_in + j, sum, size, c->d.n_rows);
        }
}

/* Both forwards and the backward, under every mask. */
static void examine(world *c)
{
    tensor y = make(c->d.dtype, c->y.n);
    for (int m = first_mask(); m < N_MASKS; m++) {
        ts_cpu_set_mask(masks[m]);
        memset(c->y.at, 0xff, bytes_of(&c->y));
        memset(y.at, 0xff, bytes_of(&y));
        memset(c->dx.at, 0xff, bytes_of(&c->dx));
        memset(c->dw.at, 0xff, bytes_of(&c->dw));
        assert_int_equal(pack_with(&c->w, &c->p, 1), TS_OK);
        assert_int_equal(packed_with(&c->d, &c->p, &c->in, &c->y, 2), TS_OK);
        assert_int_equal(linear_with(&c->d, &c->w, &c->in, &y, 1), TS_OK);
        assert_same_bits(&c->y, &y);
        assert_int_equal(backward_with(&c->d, &c->w, &c->in, &c->dy, &c->dx, &c->dw, 2), TS_OK);
        check_y(c);
        check_dx(c);
        check_dw(c);
    }
    ts_cpu_set_mask(~0u);
    drop(&y);
}

TEST(test_shapes)
{
    static const int64_t n[][2] = { { 1, 1 },    { 3, 127 },   { 3, 128 },   { 3, 129 }, { 5, 200 },
                                    { 7, 1376 }, { 64, 1024 }, { 65, 1152 }, { 130, 40 } };
    static const int64_t rows[] = { 1, 2, 3, 4, 5, 17, 64, 65 };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            if (n[i][0] * n[i][1] * rows[r] > 1 << 21) continue;
            world c = make_world(dims(TS_F32, n[i][0], n[i][1], rows[r]), 10 * i + r);
            examine(&c);
            drop_world(&c);
        }
}

TEST_IN(few, test_dtypes)
{
    static const ts_dtype types[] = { TS_F64, TS_F16, TS_BF16 };
    for (int t = on_cuda; t < 3; t++)
        for (int64_t rows = 1; rows <= 9; rows += 4)
            for (int64_t n_in = 63; n_in <= 300; n_in += 79) {
                world c = make_world(dims(types[t], 19, n_in, rows), 5);
                examine(&c);
                drop_world(&c);
            }
}

/* More than one tile of outputs, of inputs and of rows, whole ones and parts. */
TEST(test_tiles)
{
    static const int64_t n[][3] = {
        { 136, 264, 130 }, { 320, 128, 40 }, { 72, 520, 200 }, { 130, 257, 65 }, { 1100, 130, 20 }
    };
    static const ts_dtype types[] = { TS_F16, TS_BF16 };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int t = 0; t < 2; t++) {
            world c = make_world(dims(types[t], n[i][0], n[i][1], n[i][2]), 7 + i);
            examine(&c);
            drop_world(&c);
        }
}

/* No inputs: y is 0. No outputs: dx is 0. No rows: dw is 0. */
TEST(test_empty)
{
    for (int way = 0; way < 8; way++) {
        world c = make_world(dims(TS_F32, way & 1 ? 0 : 5, way & 2 ? 0 : 130, way & 4 ? 0 : 3), 6);
        examine(&c);
        drop_world(&c);
    }
}

/* Tables of a wide matrix leave room for fewer rows at once. */
TEST(test_wide)
{
    for (int64_t n_in = 11008; n_in <= 40000; n_in += 28992) {
        world c = make_world(dims(TS_F32, 3, n_in, 5), 8);
        examine(&c);
        drop_world(&c);
    }
}

/* ---- bits ---- */

/* Row r of many is what it is alone; and no number of threads changes anything. */
static void assert_alone(world *c, int64_t step)
{
    ts_ternary_linear_dims d = c->d;
    tensor                 one = make(d.dtype, d.n_out);
    const int64_t          each = (int64_t)ts_format_of(d.dtype)->n_bytes;
    assert_int_equal(pack_with(&c->w, &c->p, 1), TS_OK);
    assert_int_equal(packed_with(&d, &c->p, &c->in, &c->y, 2), TS_OK);
    d.n_rows = 1;
    for (int64_t r = 0; r < c->d.n_rows; r += step) {
        const tensor row = { .at = (char *)c->in.at + r * d.n_in * each,
                             .dtype = d.dtype,
                             .n = d.n_in };
        assert_int_equal(packed_with(&d, &c->p, &row, &one, 1), TS_OK);
        assert_memory_equal(one.at, (char *)c->y.at + r * d.n_out * each, bytes_of(&one));
    }
    drop(&one);
}

static void rows_alone(ts_dtype t, int64_t n_in, int64_t rows, int64_t step)
{
    world c = make_world(dims(t, 150, n_in, rows), 11);
    assert_alone(&c, step);
    drop_world(&c);
}

TEST_IN(few, test_rows_alone)
{
    static const ts_dtype types[] = { TS_F32, TS_F16, TS_BF16 };
    for (int m = first_mask(); m < N_MASKS; m++) {
        ts_cpu_set_mask(masks[m]);
        for (int t = 0; t < 3; t++) {
            rows_alone(types[t], 1300, 11, 1);
            rows_alone(types[t], 1300, 45, 22); /* a device has other kernels for so many */
            rows_alone(types[t], 1300, 137, 34);
        }
    }
    ts_cpu_set_mask(~0u);
}

TEST(test_threads)
{
    static const int n[] = { 1, 2, 3, 7, 64 };
    for (int m = first_mask(); m < N_MASKS; m++) {
        world c[2] = { make_world(dims(TS_F32, 200, 700, 70), 12),
                       make_world(dims(TS_F32, 200, 700, 70), 12) };
        ts_cpu_set_mask(masks[m]);
        for (int i = 0; i < 5; i++) {
            world *k = &c[i > 0];
            assert_int_equal(linear_with(&k->d, &k->w, &k->in, &k->y, n[i]), TS_OK);
            assert_int_equal(backward_with(&k->d, &k->w, &k->in, &k->dy, &k->dx, &k->dw, n[i]),
                             TS_OK);
            assert_same_bits(&c[0].y, &k->y);
            assert_same_bits(&c[0].dx, &k->dx);
            assert_same_bits(&c[0].dw, &k->dw);
        }
        drop_world(&c[0]), drop_world(&c[1]);
    }
    ts_cpu_set_mask(~0u);
}

/* ---- the surrogate's gradient, with the effective weights as variables ---- */

enum { OUT = 9, IN = 260, ROWS = 3 };

/* Whole numbers, few enough that every sum is exact, and s = 1: groups of 96 weights of 4/3 or so
 * would not do, so each has weights of 1 and 0, and three that lift the mean to 1 exactly. */
static world whole_world(void)
{
    world c = make_world(dims(TS_F32, OUT, IN, ROWS), 21);
    for (int64_t i = 0; i < c.in.n; i++) set(&c.in, i, floor(4 * ts_uniform(31, i)));
    for (int64_t i = 0; i < c.dy.n; i++) set(&c.dy, i, floor(4 * ts_uniform(32, i)));
    for (int64_t o = 0; o < OUT; o++)
        for (int64_t g = 0; g < groups_of(IN); g++) {
            const int64_t begin = g * GROUP, n = IN - begin < GROUP ? IN - begin : GROUP;
            double        sum = 0;
            for (int64_t j = 1; j < n; j++) {
                const double v = floor(1.5 * ts_uniform(33, o * IN + begin + j) + 0.5);
                set(&c.w, o * IN + begin + j, v), sum += fabs(v);
            }
            set(&c.w, o * IN + begin, (double)n - sum); /* far beyond s: not masked */
        }
    return c;
}

static double loss(world *c)
{
    double sum = 0;
    assert_int_equal(packed_with(&c->d, &c->p, &c->in, &c->y, 1), TS_OK);
    for (int64_t i = 0; i < c->y.n; i++) sum += value(&c->y, i) * value(&c->dy, i);
    return sum;
}

/* The loss sum dy y is linear in each weight and each input, so a difference is the derivative, and
 * in whole numbers it is exact. A weight is changed by its code. */
TEST(test_exact_differences)
{
    for (int m = first_mask(); m < N_MASKS; m++) {
        world c = whole_world();
        ts_cpu_set_mask(masks[m]);
        assert_int_equal(pack_with(&c.w, &c.p, 1), TS_OK);
        for (int i = 0; i < OUT * 3; i++) assert_int_equal(c.p.scale[i], 0x3c00);
        assert_int_equal(backward_with(&c.d, &c.w, &c.in, &c.dy, &c.dx, &c.dw, 1), TS_OK);
        const double base = loss(&c);
        for (int64_t i = 0; i < OUT * IN; i += 7) {
            const int64_t o = i / IN, j = i % IN;
            const int     was = get_code(&c.p, o, j), to = was < 1 ? was + 1 : -1;
            set_code(&c.p, o, j, to + 1);
            assert_true(loss(&c) - base == (to - was) * value(&c.dw, i));
            set_code(&c.p, o, j, was + 1);
        }
        for (int64_t i = 0; i < ROWS * IN; i += 5) {
            const double was = value(&c.in, i);
            set(&c.in, i, was + 1);
            assert_true(loss(&c) - base == value(&c.dx, i));
            set(&c.in, i, was);
        }
        drop_world(&c);
    }
    ts_cpu_set_mask(~0u);
}

/* ---- values that lead astray ---- */

/* One weight of a group matters, next to far larger inputs that meet code 0. */
TEST(test_hidden_inputs)
{
    static const int64_t rows[] = { 4, 40 };
    for (int k = 0; k < 4; k++) {
        world c = make_world(dims(k % 2 ? TS_BF16 : TS_F32, 40, 256, rows[k / 2]), 41);
        for (int64_t i = 0; i < c.w.n; i++) set(&c.w, i, i % 128 == 77 ? 1 : 1e-6);
        for (int64_t i = 0; i < c.in.n; i++)
            if (i % 128 != 77) set(&c.in, i, value(&c.in, i) * 1e7);
        examine(&c);
        drop_world(&c);
    }
}

/* In row r inputs of a group differ by up to 5 r powers of two: numbers of few bytes hold some
 * rows, next to others that they do not. Outputs of one code that is not 0 show every input. */
TEST_IN(few, test_ranges)
{
    world c = make_world(dims(TS_F32, 130, 300, 23), 44);
    for (int64_t i = 0; i < c.in.n; i++)
        set(&c.in, i, ldexp(value(&c.in, i), -(int)(i / 300 * (i % 6))));
    for (int64_t i = 0; i < c.w.n; i++)
        if (i / 300 % 2 && i % 300 % 128 != i / 300) set(&c.w, i, 0);
    examine(&c);
    for (int m = first_mask(); m < N_MASKS; m++) {
        ts_cpu_set_mask(masks[m]);
        assert_alone(&c, 1);
    }
    ts_cpu_set_mask(~0u);
    drop_world(&c);
}

/* Sums of a group pass the largest float, the result does not; and the smallest inputs. */
TEST(test_extreme_inputs)
{
    static const double  sizes[] = { 9e37, 1e-39 };
    static const int64_t rows[] = { 5, 40 };
    for (int k = 0; k < 8; k++) {
        const int i = k % 2;
        world     c = make_world(dims(k & 2 ? TS_BF16 : TS_F32, 40, 300, rows[k / 4]), 42);
        for (int64_t j = 0; j < c.in.n; j++)
            set(&c.in, j, sizes[i] * (1 + fabs(value(&c.in, j)) / 4));
        for (int64_t j = 0; j < c.w.n; j++) set(&c.w, j, fabs(value(&c.w, j)) * (i ? 1 : 0.05));
        for (int64_t j = 0; j < c.dy.n; j++) set(&c.dy, j, value(&c.dy, j) * (i ? 1 : 1e-3));
        examine(&c);
        drop_world(&c);
    }
}

static int kind_of(double v)
{
    return isnan(v) ? 3 : v == INFINITY ? 1 : v == -INFINITY ? 2 : 0;
}

/* As the formula has it: infinity times 0 is NaN. Other rows and outputs are not touched. */
TEST(test_not_finite)
{
    static const double   odd[] = { NAN, INFINITY, -INFINITY };
    static const ts_dtype types[] = { TS_F32, TS_F16, TS_BF16 };
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int k = 0; k < 18; k++) {
            const int i = k % 3;
            world     c = make_world(dims(types[k / 3 % 3], 70, 200, k < 9 ? 6 : 40), 43);
            set(&c.in, 4 * 200 + 150, odd[i]);
            set(&c.dy, 2 * 70 + 66, odd[i]);
            ts_cpu_set_mask(masks[m]);
            assert_int_equal(pack_with(&c.w, &c.p, 1), TS_OK);
            assert_int_equal(packed_with(&c.d, &c.p, &c.in, &c.y, 1), TS_OK);
            assert_int_equal(backward_with(&c.d, &c.w, &c.in, &c.dy, &c.dx, &c.dw, 1), TS_OK);
            for (int64_t j = 0; j < c.y.n; j++)
                assert_int_equal(kind_of(value(&c.y, j)),
                                 j / 70 == 4 ? kind_of(odd[i] * weight(&c.p, j % 70, 150)) : 0);
            for (int64_t j = 0; j < c.dx.n; j++)
                assert_int_equal(kind_of(value(&c.dx, j)),
                                 j / 200 == 2 ? kind_of(odd[i] * weight(&c.p, 66, j % 200)) : 0);
            drop_world(&c);
        }
    ts_cpu_set_mask(~0u);
}

/* ---- refusals: nothing is written ---- */

TEST_IN(refusals, test_out_of_range)
{
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int64_t rows = 0; rows <= 5; rows += 5) {
            world c = make_world(dims(TS_F32, 70, 200, rows), 51);
            set(&c.w, 69 * 200 + 199, rows ? NAN : 1e10);
            ts_cpu_set_mask(masks[m]);
            assert_int_equal(linear_with(&c.d, &c.w, &c.in, &c.y, 2), TS_E_RANGE);
            assert_int_equal(backward_with(&c.d, &c.w, &c.in, &c.dy, &c.dx, &c.dw, 2), TS_E_RANGE);
            assert_untouched(c.y.at, bytes_of(&c.y));
            assert_untouched(c.dx.at, bytes_of(&c.dx));
            assert_untouched(c.dw.at, bytes_of(&c.dw));
            drop_world(&c);
        }
    ts_cpu_set_mask(~0u);
}

/* Also where an input would be NaN anyway, and in padding. */
static void refuse_code(int i, bool nan)
{
    static const int64_t at[] = { 0, 1, 2, 3, 130, 199, 200, 255 };
    const ts_status      want = i < 10 ? TS_E_FORMAT : TS_OK;
    world                c = make_world(dims(TS_F32, 70, 200, i % 4 ? 6 : 1), 52);
    assert_int_equal(pack_with(&c.w, &c.p, 1), TS_OK);
    if (i < 8) set_code(&c.p, 69 - 10 * (i % 3), at[i], 3);
    else if (i < 10) c.p.scale[139] = i == 8 ? 0xfc00 : 0x7e00;
    if (nan) set(&c.in, 0, NAN);
    assert_int_equal(packed_with(&c.d, &c.p, &c.in, &c.y, 2), want);
    if (want) assert_untouched(c.y.at, bytes_of(&c.y));
    c.d.n_rows = 0;
    assert_int_equal(packed_with(&c.d, &c.p, &c.in, &c.y, 2), want);
    drop_world(&c);
}

TEST_IN(refusals, test_bad_codes)
{
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int i = 0; i < 12; i++) {
            ts_cpu_set_mask(masks[m]);
            refuse_code(i, false);
            refuse_code(i, true);
        }
    ts_cpu_set_mask(~0u);
}

/* ---- a device does not refuse: what it gives is not finite ---- */

static void assert_finite_but(const tensor *t, int64_t i, bool bad)
{
    if (!!isfinite(value(t, i)) == bad) fail_msg("[%lld] is %g", (long long)i, value(t, i));
}

TEST_IN(cuda, test_out_of_range_cuda)
{
    for (int64_t rows = 5; rows <= 20; rows += 15) {
        world c = make_world(dims(TS_F32, 70, 200, rows), 51);
        set(&c.w, 69 * 200 + 199, rows == 5 ? NAN : 1e10);
        assert_int_equal(linear_with(&c.d, &c.w, &c.in, &c.y, 1), TS_OK);
        assert_int_equal(backward_with(&c.d, &c.w, &c.in, &c.dy, &c.dx, &c.dw, 1), TS_OK);
        for (int64_t i = 0; i < c.y.n; i++) assert_finite_but(&c.y, i, i % 70 == 69);
        for (int64_t i = 0; i < c.dx.n; i++) assert_finite_but(&c.dx, i, i % 200 >= GROUP);
        for (int64_t i = 0; i < c.dw.n; i++) assert_finite_but(&c.dw, i, false);
        drop_world(&c);
    }
}

static void unsound_cuda(ts_dtype t, int64_t rows, int i)
{
    static const int64_t at[] = { 0, 1, 2, 3, 130, 199, 200, 255 };
    const int64_t        out = i < 8 ? 69 - 10 * (i % 3) : 69;
    world                c = make_world(dims(t, 70, 200, rows), 52);
    assert_int_equal(pack_with(&c.w, &c.p, 1), TS_OK);
    if (i < 8) set_code(&c.p, out, at[i], 3);
    else c.p.scale[139] = i == 8 ? 0xfc00 : 0x7e00;
    assert_int_equal(packed_with(&c.d, &c.p, &c.in, &c.y, 1), TS_OK);
    for (int64_t j = 0; j < c.y.n; j++) assert_finite_but(&c.y, j, j % 70 == out);
    drop_world(&c);
}

TEST_IN(cuda, test_bad_codes_cuda)
{
    for (int i = 0; i < 10; i++)
        for (int64_t rows = 1; rows <= 41; rows += 20) {
            unsound_cuda(TS_F32, rows, i);
            unsound_cuda(TS_F16, rows, i);
            unsound_cuda(TS_BF16, rows, i);
        }
}

/* More tiles of outputs than teams of warps, which then take a second one: teams of one warp, and
 * of eight; and more rows than are laid out at one time. */
TEST_IN(cuda, test_large_cuda)
{
    static const int64_t n[][3] = {
        { 70000, 130, 2 }, { 8500, 3600, 1 }, { 8, 300, 4200 }, { 700, 1030, 70 }
    };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        world c = make_world(dims(TS_BF16, n[i][0], n[i][1], n[i][2]), 61);
        examine(&c);
        drop_world(&c);
    }
}

/* Kernels for a row, some and many, blocks that share a sum or do not: one, two, some stripes. */
TEST_IN(cuda, test_rows_shared_cuda)
{
    static const ts_dtype types[] = { TS_F16, TS_BF16 };
    for (int t = 0; t < 2; t++) {
        rows_alone(types[t], 1300, 5000, 1666);
        rows_alone(types[t], 300, 20, 7);
        rows_alone(types[t], 600, 70, 23);
        rows_alone(types[t], 2100, 100, 33);
        rows_alone(types[t], 2100, 9, 3);
        rows_alone(types[t], 4096, 3000, 999);
    }
}

TEST_IN(cuda, test_no_f64_cuda)
{
    world c = make_world(dims(TS_F64, 5, 130, 3), 62);
    assert_int_equal(linear_with(&c.d, &c.w, &c.in, &c.y, 1), TS_E_DTYPE);
    assert_int_equal(packed_with(&c.d, &c.p, &c.in, &c.y, 1), TS_E_DTYPE);
    assert_int_equal(backward_with(&c.d, &c.w, &c.in, &c.dy, &c.dx, &c.dw, 1), TS_E_DTYPE);
    assert_untouched(c.y.at, bytes_of(&c.y));
    drop_world(&c);
}

int main(int argc, char **argv)
{
    on_cuda = argc > 1 && !strcmp(argv[1], "cuda");
    if (on_cuda && no_cuda()) return 77;
    /* for a tool that takes seconds a call */
    if (argc > 2 && !strcmp(argv[2], "few")) return run_group("few", NULL, NULL);
    return unit_run() + run_group("few", NULL, NULL) +
           run_group(on_cuda ? "cuda" : "refusals", NULL, NULL);
}
