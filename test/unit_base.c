/* SPDX-License-Identifier: Apache-2.0 */
/* unit_base.c - dtype conversion against another route, rng, status texts, the choice of a row,
 * powers of two. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "dtype.h"
#include "exp_table.h"
#include "impl.h"
#include "rng.h"
#include "unit.h"

/* ---- 16-bit formats: both are sign, exponent, mantissa, so one description serves ---- */

typedef struct half {
    ts_dtype dtype;
    int      n_mantissa, bias;
    uint16_t inf; /* the patterns of +inf, +1 and the smallest normal */
    uint16_t one, min_normal;
} half;

static const half halves[] = { { TS_F16, 10, 15, 0x7c00, 0x3c00, 0x0400 },
                               { TS_BF16, 7, 127, 0x7f80, 0x3f80, 0x0080 } };

static double load(const half *f, uint16_t h)
{
    const uint16_t room[4] = { h }; /* for any dtype, as far as the compiler can tell */
    return ts_load(room, f->dtype, 0);
}

static uint16_t store(const half *f, double v)
{
    uint16_t h[8] = { 0xaaaa, 0x5555, 0xaaaa };
    ts_store(h, f->dtype, 1, v);
    assert_int_equal(h[0], 0xaaaa);
    assert_int_equal(h[2], 0xaaaa);
    return h[1];
}

/* The bits placed in a double and scaled: exact, with no case for subnormals. */
static double decode(const half *f, uint16_t h)
{
    const uint64_t b = (uint64_t)(h & 0x7fffu) << (52 - f->n_mantissa);
    double         v;
    memcpy(&v, &b, sizeof v);
    v = v * 0x1p1000 * ldexp(1, 1023 - 1000 - f->bias);
    return h & 0x8000u ? -v : v;
}

TEST(loads_every_pattern)
{
    for (const half *f = halves; f < halves + 2; f++)
        for (unsigned h = 0; h <= 0xffff; h++) {
            const double   got = load(f, (uint16_t)h);
            const unsigned a = h & 0x7fffu;
            if (a > f->inf) assert_true(isnan(got));
            else if (a == f->inf) assert_true(isinf(got) && (got < 0) == (h >> 15));
            else assert_true(got == decode(f, (uint16_t)h) && !signbit(got) == !(h >> 15));
        }
}

TEST(every_pattern_round_trips)
{
    for (const half *f = halves; f < halves + 2; f++)
        for (unsigned h = 0; h <= 0xffff; h++) {
            const uint16_t back = store(f, load(f, (uint16_t)h));
            if ((h & 0x7fffu) > f->inf) assert_true((back & 0x7fffu) > f->inf); /* some NaN */
            else assert_int_equal(back, h);
        }
}

/* Between each two neighbours, the last pair being the largest number and what would follow it:
 * below the middle, above the middle, and the middle itself, which goes to the even one. */
TEST(every_gap_rounds_to_nearest_even)
{
    for (const half *f = halves; f < halves + 2; f++)
        for (unsigned h = 0; h < f->inf; h++) {
            const double   lo = decode(f, (uint16_t)h), hi = decode(f, (uint16_t)(h + 1));
            const double   mid = (lo + hi) / 2;
            const uint16_t even = (uint16_t)(h + (h & 1));
            for (unsigned sign = 0; sign <= 0x8000; sign += 0x8000) {
                const double s = sign ? -1 : 1;
                assert_int_equal(store(f, s * nextafter(mid, 0)), h | sign);
                assert_int_equal(store(f, s * nextafter(mid, INFINITY)), (h + 1) | sign);
                assert_int_equal(store(f, s * mid), even | sign);
            }
        }
}

TEST(extremes_of_double)
{
    for (const half *f = halves; f < halves + 2; f++) {
        assert_int_equal(store(f, DBL_MAX), f->inf);
        assert_int_equal(store(f, -DBL_MAX), f->inf | 0x8000);
        assert_int_equal(store(f, INFINITY), f->inf);
        assert_int_equal(store(f, DBL_TRUE_MIN), 0);
        assert_int_equal(store(f, -DBL_TRUE_MIN), 0x8000);
        assert_int_equal(store(f, -0.0), 0x8000);
        assert_true((store(f, NAN) & 0x7fff) > f->inf);
        assert_true((store(f, -NAN) & 0x7fff) > f->inf);
    }
}

TEST(formats_describe_themselves)
{
    for (const half *f = halves; f < halves + 2; f++) {
        const ts_format *g = ts_format_of(f->dtype);
        assert_int_equal(g->n_bytes, 2);
        assert_true(g->u == (decode(f, f->one + 1) - 1) / 2);
        assert_true(g->min_normal == decode(f, f->min_normal));
        assert_true(g->max == decode(f, f->inf - 1));
    }
    assert_true(ts_format_of(TS_F32)->u == FLT_EPSILON / 2);
    assert_true(ts_format_of(TS_F32)->max == FLT_MAX);
    assert_true(ts_format_of(TS_F64)->u == DBL_EPSILON / 2);
    assert_true(ts_format_of(TS_F64)->max == DBL_MAX);
    assert_string_equal(ts_format_of(TS_F32)->name, "f32");
    assert_string_equal(ts_format_of(TS_BF16)->name, "bf16");
}

TEST(wide_formats_round_once)
{
    float  f[2] = { 7, 7 };
    double d[2] = { 7, 7 };
    ts_store(f, TS_F32, 1, 1 + 0x1p-24); /* a tie */
    assert_true(f[1] == 1 && f[0] == 7);
    ts_store(f, TS_F32, 1, 1 + 0x1.8p-23);
    assert_true(ts_load(f, TS_F32, 1) == 1 + 0x1p-22);
    ts_store(d, TS_F64, 1, 0.1);
    assert_true(d[0] == 7 && ts_load(d, TS_F64, 1) == 0.1);
}

TEST(indices_are_stored_as_they_are)
{
    const double values[] = { 0, -1, 7, INT32_MAX, INT32_MIN };
    int32_t      i[4] = { 5, 5, 5, 5 }, poison;
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        ts_store(i, TS_I32, 1, values[k]);
        assert_true(ts_load(i, TS_I32, 1) == values[k] && i[0] == 5 && i[2] == 5);
    }
    assert_true(ts_format_of(TS_I32)->n_bytes == 4 && ts_format_of(TS_I32)->u == 0);
    ts_poison(TS_I32, &poison, sizeof poison);
    assert_true(poison < -1); /* -1 is an answer, and so is whatever is not below it */
}

/* NaN in every float dtype, and none that vector code makes of a NaN or of a comparison. */
TEST(poison_is_a_nan_that_nothing_writes)
{
    static const ts_dtype of[] = { TS_F32, TS_F64, TS_F16, TS_BF16 };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const size_t  each = ts_format_of(of[i])->n_bytes;
        unsigned char p[24], ones[8], nan[8];
        ts_poison(of[i], p, sizeof p);
        assert_true(ts_is_poison(of[i], p, sizeof p) && isnan(ts_load(p, of[i], 1)));
        memset(ones, 0xff, sizeof ones);
        ts_store(nan, of[i], 0, (double)NAN);
        assert_false(ts_is_poison(of[i], ones, each) || ts_is_poison(of[i], nan, each));
        p[23] ^= 1;
        assert_false(ts_is_poison(of[i], p, sizeof p));
        assert_true(ts_is_poison(of[i], p, sizeof p - each));
    }
}

/* ---- rng ---- */

TEST(rng_is_splitmix64)
{
    /* outputs 1 to 3 of splitmix64 from seed 0 */
    assert_true(ts_bits(0, 1) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(ts_bits(0, 2) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(ts_bits(0, 3) == UINT64_C(0x06c45d188009454f));
    assert_true(ts_bits(5, -1) != ts_bits(5, 1) && ts_bits(5, 0) != ts_bits(6, 0));
}

/* Moments over n draws, each within six of its own standard deviations. */
static void moments(double (*draw)(uint64_t, int64_t), double variance, double fourth, double most)
{
    enum { N = 1 << 18 };
    for (uint64_t seed = 1; seed <= 4; seed++) {
        double s1 = 0, s2 = 0, lag = 0, cross = 0;
        for (int64_t i = 0; i < N; i++) {
            const double v = draw(seed, i);
            assert_true(v == draw(seed, i) && fabs(v) <= most);
            s1 += v;
            s2 += v * v;
            lag += v * draw(seed, i + 1);
            cross += v * draw(seed + 1, i);
        }
        assert_true(fabs(s1 / N) < 6 * sqrt(variance / N));
        assert_true(fabs(s2 / N - variance) < 6 * sqrt((fourth - variance * variance) / N));
        assert_true(fabs(lag / N) < 6 * variance / sqrt(N));
        assert_true(fabs(cross / N) < 6 * variance / sqrt(N));
    }
}

TEST(uniform_has_its_moments)
{
    moments(ts_uniform, 1.0 / 3, 1.0 / 5, 1);
}

TEST(normal_has_its_moments)
{
    /* the sum of four uniforms: kurtosis 3 - 6/5/4 */
    moments(ts_normal, 1, 2.7, 3.4642);
}

/* ---- status ---- */

TEST(every_status_has_a_text)
{
    for (int s = TS_OK; s <= TS_E_DEVICE; s++) {
        const char *text = ts_status_text((ts_status)s);
        assert_non_null(text);
        assert_true(strlen(text) > 1);
        for (int other = TS_OK; other < s; other++)
            assert_string_not_equal(text, ts_status_text((ts_status)other));
        assert_string_not_equal(text, "unknown status");
    }
    assert_string_equal(ts_status_text((ts_status)(TS_E_DEVICE + 1)), "unknown status");
    assert_string_equal(ts_status_text((ts_status)-1), "unknown status");
}

TEST(abi_is_that_of_the_headers)
{
    assert_int_equal(ts_abi_version(), TS_ABI_VERSION);
}

/* ---- the choice of a row ---- */

static const ts_impl rows[] = {
    { "sm90", TS_CUDA, TS_SM90, TS_HAS_F32, NULL, NULL, "nowhere" },
    { "avx512", TS_CPU, TS_CPU_AVX512, TS_HAS_F32, NULL, NULL, NULL },
    { "dotprod", TS_CPU, TS_CPU_DOTPROD, TS_HAS_F32, NULL, NULL, NULL },
    { "avx2", TS_CPU, TS_CPU_AVX2, TS_HAS_F32 | TS_HAS_BF16, NULL, NULL, NULL },
    { "neon", TS_CPU, TS_CPU_NEON, TS_HAS_F32 | TS_HAS_BF16, NULL, NULL, NULL },
    { "ref", TS_CPU, 0, TS_HAS_F32 | TS_HAS_BF16 | TS_HAS_F64, NULL, NULL, NULL },
    { 0 },
};

static const char *picked(unsigned mask, ts_dtype t)
{
    ts_impl found = { 0 };
    ts_cpu_set_mask(mask);
    assert_int_equal(ts_pick(rows, TS_CPU, t, &found), TS_OK);
    ts_cpu_set_mask(~0u);
    return found.name;
}

TEST(pick_takes_the_best_visible_row)
{
    const unsigned has = ts_cpu_features();
    const unsigned vectors = TS_CPU_AVX2 | TS_CPU_NEON;
    const char    *good = has & TS_CPU_AVX2 ? "avx2" : has & TS_CPU_NEON ? "neon" : "ref";
    const char    *best = has & TS_CPU_AVX512 ? "avx512" : has & TS_CPU_DOTPROD ? "dotprod" : good;
    assert_string_equal(picked(~0u, TS_F32), best);
    assert_string_equal(picked(vectors | TS_CPU_AVX512 | TS_CPU_DOTPROD, TS_F32), best);
    assert_string_equal(picked(vectors, TS_F32), good);
    assert_string_equal(picked(0, TS_F32), "ref");
    assert_string_equal(picked(~0u, TS_BF16), good); /* the best row that has the dtype */
    assert_string_equal(picked(~0u, TS_F64), "ref");
}

TEST(pick_says_why_not)
{
    ts_impl found;
    assert_int_equal(ts_pick(rows, TS_CPU, TS_F16, &found), TS_E_DTYPE);
    assert_int_equal(ts_pick(rows, TS_CPU, TS_U8, &found), TS_E_DTYPE);
    assert_int_equal(ts_pick(rows, TS_CPU, TS_I32, &found), TS_E_DTYPE);
    assert_int_equal(ts_pick(rows, TS_CPU, (ts_dtype)99, &found), TS_E_DTYPE);
    assert_int_equal(ts_pick(rows, TS_CPU, (ts_dtype)-1, &found), TS_E_DTYPE);
    assert_int_equal(ts_pick(rows, (ts_device)9, TS_F32, &found), TS_E_ARG);
    ts_cpu_set_mask(0);
    const ts_impl only[] = { rows[1], { 0 } }, none[] = { { 0 } };
    assert_int_equal(ts_pick(only, TS_CPU, TS_F32, &found), TS_E_UNSUPPORTED);
    ts_cpu_set_mask(~0u);
    assert_int_equal(ts_pick(none, TS_CPU, TS_F32, &found), TS_E_UNSUPPORTED);
    assert_int_equal(ts_pick(rows, TS_CUDA, TS_F32, &found), TS_E_DEVICE);
    assert_non_null(strstr(ts_cuda_unavailable_reason(), "CUDA module not found"));
}

/* ---- exp_table.c ---- */

TEST(table_has_powers_of_two)
{
    for (int i = 0; i < TS_EXP_TABLE; i++) {
        const double power = exp2(i / (double)TS_EXP_TABLE);
        uint64_t     bits;
        double       entry;
        memcpy(&bits, &ts_exp_table[i], sizeof bits);
        bits += (uint64_t)i << 41;
        memcpy(&entry, &bits, sizeof entry);
        assert_true(fabs(entry - power) <= 5e-16 * power);
    }
}

int main(void)
{
    setenv("TOUCHSTONE_CUDA_MODULE", "/nonexistent", 1); /* the same on a machine with a GPU */
    return unit_run();
}
