/* SPDX-License-Identifier: Apache-2.0 */
/* unit_ternary.c [cuda] - latents to codes and back: every rule of the projection, under every
 * mask, or on a CUDA device. */
#include "unit_ternary.h"

static void assert_projected(const tensor *w, int64_t n_out, int64_t n_in)
{
    packed want = project(w, n_out, n_in);
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int n_threads = 1; n_threads <= 3; n_threads++) {
            packed got = make_packed(n_out, n_in);
            ts_cpu_set_mask(masks[m]);
            assert_int_equal(pack_with(w, &got, n_threads), TS_OK);
            assert_memory_equal(got.scale, want.scale, want.scale_bytes);
            assert_memory_equal(got.code, want.code, want.code_bytes);
            drop_packed(&got);
        }
    ts_cpu_set_mask(~0u);
    drop_packed(&want);
}

TEST(test_shapes)
{
    static const int64_t n[][2] = { { 1, 1 },   { 3, 127 },  { 3, 128 },   { 3, 129 },
                                    { 5, 200 }, { 7, 1376 }, { 64, 1024 }, { 2, 16 },
                                    { 0, 5 },   { 5, 0 },    { 300, 257 } };
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        tensor w = normal(TS_F32, n[i][0] * n[i][1], i, 0.02);
        assert_projected(&w, n[i][0], n[i][1]);
        drop(&w);
    }
}

/* By hand: s = 1, and weights on both sides of a half of it. */
TEST(test_fixed_bytes)
{
    static const float first[] = { 0.5f, -0.5f, 0.50000006f, -0.50000006f, 3, -3, 0, -0.0f };
    tensor             w = make(TS_F32, 136);
    double             sum = 0;
    for (int i = 0; i < 8; i++) set(&w, i, (double)first[i]), sum += fabs((double)first[i]);
    for (int i = 8; i < 128; i++) set(&w, i, (128 - sum) / 120);
    for (int i = 128; i < 136; i++) set(&w, i, i == 135 ? -8 : 0);
    for (int m = first_mask(); m < N_MASKS; m++) {
        packed got = make_packed(1, 136);
        ts_cpu_set_mask(masks[m]);
        assert_int_equal(pack_with(&w, &got, 1), TS_OK);
        assert_int_equal(got.scale[0], 0x3c00); /* 1 */
        assert_int_equal(got.scale[1], 0x3c00); /* of 8 weights, not of 128 */
        assert_int_equal(got.code[0], 0x25);    /* 0, 0, +, - from the lowest bits on */
        assert_int_equal(got.code[1], 0x52);    /* +, -, 0, 0 */
        for (int i = 2; i < 32; i++) assert_int_equal(got.code[i], 0xaa);
        assert_int_equal(got.code[32], 0x55);
        assert_int_equal(got.code[33], 0x15); /* 0, 0, 0, - */
        for (int i = 34; i < 64; i++) assert_int_equal(got.code[i], 0x55);
        drop_packed(&got);
    }
    ts_cpu_set_mask(~0u);
    drop(&w);
}

/* |w| = s / 2 exactly is 0, of either sign; the next float is not. */
TEST(test_ties)
{
    tensor w = make(TS_F32, 128);
    for (int i = 0; i < 128; i++) set(&w, i, i % 2 ? -1.5 : 1.5);
    set(&w, 0, 0.75), set(&w, 1, -0.75), set(&w, 2, 2.25), set(&w, 3, -2.25);
    assert_projected(&w, 1, 128);
    packed p = project(&w, 1, 128);
    assert_int_equal(p.scale[0], 0x3e00); /* 1.5 */
    assert_true(get_code(&p, 0, 0) == 0 && get_code(&p, 0, 1) == 0 && get_code(&p, 0, 2) == 1);
    drop_packed(&p);
    set(&w, 0, (double)nextafterf(0.75f, 1)), set(&w, 1, (double)-nextafterf(0.75f, 1));
    assert_projected(&w, 1, 128);
    drop(&w);
}

/* A weight between half of the rounded s and half of the mean. */
TEST(test_rounded_scale)
{
    for (int up = 0; up < 2; up++) {
        const double mean = up ? 1 + 0x1.8p-11 : 1 + 0x1p-12, s = up ? 1 + 0x1p-10 : 1;
        tensor       w = make(TS_F32, 128);
        for (int i = 0; i < 128; i++) set(&w, i, mean);
        set(&w, 5, (mean + s) / 4), set(&w, 6, 2 * mean - (mean + s) / 4);
        assert_projected(&w, 1, 128);
        packed p = project(&w, 1, 128);
        assert_true(ts_widen_f16(p.scale[0]) == s);
        assert_int_equal(get_code(&p, 0, 5), up ? 0 : 1);
        drop_packed(&p);
        drop(&w);
    }
}

/* Means at a tie between two f16s, and so near it that float would not see the difference: the
 * smaller weights are lost, or not, by the order of the sum. */
TEST(test_scale_near_ties)
{
    for (int way = 0; way < 60; way++) {
        tensor       w = make(TS_F32, 2 * 128);
        const double tie = ldexp(1 + (way % 7 * 2 + 1) * 0x1p-11, way % 5 - 2);
        for (int i = 0; i < 128; i++) set(&w, i, tie), set(&w, 128 + i, tie);
        set(&w, way, tie + ldexp(1, way % 5 - 2 - way % 24));
        set(&w, 127 - way, value(&w, 127 - way) - ldexp(1, way % 5 - 2 - (way + 3) % 24));
        set(&w, 128 + way, ldexp(tie, -way));
        set(&w, 129 + way, 2 * tie - (way % 3 ? 0 : ldexp(tie, -23)));
        assert_projected(&w, 2, 128);
        drop(&w);
    }
}

/* Scales in every binade of f16, its subnormals, and 0 for weights that are not. */
TEST(test_scale_range)
{
    for (int e = -40; e <= 15; e++) {
        tensor w = normal(TS_F32, 3 * 200, (uint64_t)(e + 99), ldexp(1, e));
        assert_projected(&w, 3, 200);
        drop(&w);
    }
    tensor w = make(TS_F32, 128);
    for (int i = 0; i < 128; i++) set(&w, i, 0x1p-26 * (i % 2 ? -1 : 1));
    assert_projected(&w, 1, 128);
    packed p = project(&w, 1, 128);
    assert_int_equal(p.scale[0], 0);
    for (int i = 0; i < 32; i++) assert_int_equal(p.code[i], 0x55);
    drop_packed(&p);
    drop(&w);
}

/* A zero row, and a zero group in a live one; subnormal and huge weights in one group. */
TEST(test_zeros)
{
    tensor w = normal(TS_F32, 4 * 384, 3, 1);
    for (int i = 0; i < 384; i++) set(&w, i, i % 2 ? 0.0 : -0.0);
    for (int i = 128; i < 256; i++) set(&w, 384 + i, 0);
    for (int i = 0; i < 128; i++) set(&w, 2 * 384 + i, i == 64 ? -65504.0 * 128 : 1e-41);
    assert_projected(&w, 4, 384);
    drop(&w);
}

/* Rows whose sizes differ, so that a group along outputs would show. */
TEST(test_rows_differ)
{
    tensor w = normal(TS_F32, 5 * 300, 4, 1);
    for (int64_t i = 0; i < w.n; i++) set(&w, i, value(&w, i) * pow(1000, (double)(i / 300) - 3));
    assert_projected(&w, 5, 300);
    drop(&w);
}

/* Codes of normal latents: the share of 0 is what lies within half the mean magnitude. */
TEST(test_histogram)
{
    enum { OUT = 256, IN = 1024 };
    tensor  w[2] = { make(TS_F32, OUT * IN), make(TS_F32, OUT * IN) };
    packed  p[2] = { make_packed(OUT, IN), make_packed(OUT, IN) };
    int64_t count[3] = { 0, 0, 0 };
    for (int64_t i = 0; i < OUT * IN; i++) { /* Box and Muller: truly normal */
        const double u = (ts_uniform(1, i) + 1) / 2, v = ts_uniform(2, i);
        const double z = sqrt(-2 * log(1 - u)) * cos(v * 3.14159265358979323846);
        set(&w[0], i, z), set(&w[1], i, ldexp((double)(float)z, -5));
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pack_with(&w[i], &p[i], 2), TS_OK);
    for (int64_t o = 0; o < OUT; o++)
        for (int64_t j = 0; j < IN; j++) count[get_code(&p[0], o, j) + 1]++;
    assert_true(fabs((double)count[0] / (OUT * IN) - 0.345) < 0.005);
    assert_true(fabs((double)count[1] / (OUT * IN) - 0.310) < 0.005);
    assert_true(fabs((double)count[2] / (OUT * IN) - 0.345) < 0.005);
    assert_memory_equal(p[0].code, p[1].code, p[0].code_bytes); /* scale-free */
    assert_true((p[0].code_bytes + p[0].scale_bytes) * 8 * 8 == (size_t)OUT * IN * 17);
    for (int i = 0; i < 2; i++) drop(&w[i]), drop_packed(&p[i]);
}

/* ---- invalid calls ---- */

TEST_IN(refusals, test_out_of_range)
{
    static const double wrong[] = { NAN, INFINITY, -INFINITY, 65520.0 * 72, 3.4e38 };
    static const double right[] = { 65519.0 * 72, -65504.0 * 72 };
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int i = 0; i < 7; i++)
            for (int last = 0; last < 2; last++) {
                tensor w = make(TS_F32, 70 * 200);
                packed p = make_packed(70, 200);
                for (int64_t j = 0; j < w.n; j++) set(&w, j, 0);
                set(&w, last ? w.n - 1 : 199, i < 5 ? wrong[i] : right[i - 5]);
                ts_cpu_set_mask(masks[m]);
                assert_int_equal(pack_with(&w, &p, 2), i < 5 ? TS_E_RANGE : TS_OK);
                if (i < 5) {
                    assert_untouched(p.code, p.code_bytes);
                    assert_untouched(p.scale, p.scale_bytes);
                } else assert_int_equal(p.scale[last ? 139 : 1], 0x7bff);
                drop(&w), drop_packed(&p);
            }
    ts_cpu_set_mask(~0u);
}

/* ---- unpack ---- */

TEST(test_unpack)
{
    static const int64_t n[][2] = { { 1, 1 }, { 3, 127 }, { 3, 129 }, { 5, 200 }, { 40, 1376 } };
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int i = 0; i < 5; i++) {
            tensor w = normal(TS_F32, n[i][0] * n[i][1], 7, 1), wt = make(TS_F32, w.n);
            packed p = make_packed(n[i][0], n[i][1]);
            ts_cpu_set_mask(masks[m]);
            assert_int_equal(pack_with(&w, &p, 1), TS_OK);
            assert_int_equal(unpack_with(&p, &wt, 2), TS_OK);
            for (int64_t j = 0; j < w.n; j++)
                assert_true(value(&wt, j) == weight(&p, j / n[i][1], j % n[i][1]));
            drop(&w), drop(&wt), drop_packed(&p);
        }
    ts_cpu_set_mask(~0u);
}

/* Code point 3 at any place, in padding, too; scales that are no numbers. */
TEST_IN(refusals, test_bad_codes)
{
    for (int m = first_mask(); m < N_MASKS; m++)
        for (int i = 0; i < 10; i++) {
            static const int64_t at[] = { 0, 1, 2, 3, 130, 199, 200, 255 };
            packed               p = make_packed(3, 200);
            tensor               wt = make(TS_F32, 600);
            memset(p.code, 0x55, p.code_bytes);
            memset(p.scale, 0, p.scale_bytes);
            if (i < 8) set_code(&p, i % 3, at[i], 3);
            else p.scale[5] = i == 8 ? 0xfc00 : 0x7e00;
            ts_cpu_set_mask(masks[m]);
            assert_int_equal(unpack_with(&p, &wt, 1), TS_E_FORMAT);
            assert_untouched(wt.at, bytes_of(&wt));
            drop(&wt), drop_packed(&p);
        }
    ts_cpu_set_mask(~0u);
}

/* ---- a device does not refuse: what it gives is not finite ---- */

TEST_IN(cuda, test_out_of_range_cuda)
{
    static const double wrong[] = { NAN, INFINITY, -INFINITY, 65520.0 * 72, 3.4e38 };
    for (int i = 0; i < 5; i++)
        for (int last = 0; last < 2; last++) {
            tensor        w = normal(TS_F32, 70 * 200, 9, 1), wt = make(TS_F32, w.n);
            packed        want = project(&w, 70, 200), got = make_packed(70, 200);
            const int64_t group = last ? 139 : 1;
            set(&w, last ? w.n - 1 : 199, wrong[i]);
            memset(want.code + group * GROUP_BYTES, 0x55, GROUP_BYTES);
            assert_int_equal(pack_with(&w, &got, 1), TS_OK);
            assert_true(isnan(ts_widen_f16(got.scale[group])));
            assert_int_equal(unpack_with(&got, &wt, 1), TS_OK);
            for (int64_t j = 0; j < w.n; j++)
                assert_int_equal(isnan(value(&wt, j)), j / 200 * 2 + j % 200 / GROUP == group);
            want.scale[group] = got.scale[group];
            assert_memory_equal(got.scale, want.scale, want.scale_bytes);
            assert_memory_equal(got.code, want.code, want.code_bytes);
            drop(&w), drop(&wt), drop_packed(&want), drop_packed(&got);
        }
}

TEST_IN(cuda, test_bad_codes_cuda)
{
    static const int64_t at[] = { 0, 1, 2, 3, 130, 199, 200, 255 };
    for (int i = 0; i < 10; i++) {
        packed p = make_packed(3, 200);
        tensor wt = make(TS_F32, 600);
        memset(p.code, 0x55, p.code_bytes);
        memset(p.scale, 0, p.scale_bytes);
        if (i < 8) set_code(&p, i % 3, at[i], 3);
        else p.scale[5] = i == 8 ? 0xfc00 : 0x7e00;
        assert_int_equal(unpack_with(&p, &wt, 1), TS_OK);
        for (int64_t j = 0; j < wt.n; j++) {
            const bool bad = i < 8 ? j == i % 3 * 200 + at[i] && at[i] < 200 : j >= 2 * 200 + GROUP;
            assert_int_equal(isfinite(value(&wt, j)), !bad);
        }
        drop(&wt), drop_packed(&p);
    }
}

int main(int argc, char **argv)
{
    on_cuda = argc > 1 && !strcmp(argv[1], "cuda");
    if (on_cuda && no_cuda()) return 77;
    return unit_run() + run_group(on_cuda ? "cuda" : "refusals", NULL, NULL);
}
