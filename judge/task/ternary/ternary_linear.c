/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear.c - task: one matrix packed, unpacked, multiplied by, and differentiated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case_list.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "spoil.h"
#include "task.h"
#include "ternary_linear_script.h"
#include "ternary_reference.h"

enum { OUT, IN, ROWS, PARTS };
enum { EACH = 31, PACKED = 1 << TS_TL_PACKED, BACK = 1 << TS_TL_BACKWARD, PACK = 1 << TS_TL_PACK };
enum { CHECK = TS_USE_CHECK, HOST = TS_USE_HOST, JUDGE = TS_USE_JUDGE, TIME = TS_USE_TIME };

/* clang-format off */
static const ts_case some[] = {
    { CHECK, TS_F32, { 3, 127, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 3, 128, 17, EACH }, "normal" },
    { CHECK, TS_F32, { 3, 129, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 1, 1, 1, EACH }, "normal" },
    { CHECK, TS_F32, { 5, 200, 17, EACH }, "normal" },
    { CHECK, TS_F32, { 7, 1376, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 64, 1024, 64, EACH }, "normal" },
    { CHECK, TS_F32, { 65, 384, 5, EACH }, "normal" },
    { CHECK, TS_F32, { 128, 16, 9, EACH }, "normal" },
    { CHECK, TS_F32, { 2, 16500, 2, EACH }, "normal" },
    { CHECK, TS_F32, { 4100, 5, 2, EACH }, "normal" },
    { CHECK, TS_F32, { 3, 5, 1030, EACH }, "normal" },
    { CHECK, TS_F32, { 0, 5, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 5, 0, 3, EACH }, "normal" },
    { CHECK, TS_F32, { 5, 130, 0, EACH }, "normal" },
    { CHECK, TS_F64, { 5, 200, 3, EACH }, "normal" },
    { CHECK, TS_F64, { 7, 1376, 17, EACH }, "normal" },
    { CHECK, TS_F16, { 5, 200, 17, EACH }, "normal" },
    { CHECK, TS_F16, { 64, 1024, 3, EACH }, "normal" },
    { CHECK, TS_BF16, { 3, 129, 17, EACH }, "normal" },
    { CHECK, TS_BF16, { 64, 1024, 17, EACH }, "normal" },
    { CHECK, TS_F32, { 9, 384, 3, EACH }, "ties" },
    { CHECK, TS_F32, { 6, 200, 3, EACH }, "ties" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "zeros" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "spike" },
    { CHECK, TS_F32, { 9, 300, 3, EACH }, "steep" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "tiny" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "huge" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "huge" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "brink" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "brink" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "loud" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "loud" },
    { CHECK, TS_F32, { 9, 260, 3, EACH }, "faint" },
    { CHECK, TS_BF16, { 9, 260, 3, EACH }, "faint" },
    { CHECK, TS_F32, { 9, 260, 5, EACH }, "nonfinite" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_code" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_scale" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_code_last" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_code_padding" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_scale_inf" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_scale_minus" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_latent" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "bad_latent_inf" },
    { CHECK, TS_F32, { 9, 260, 5, EACH }, "negative" },
    { CHECK, TS_BF16, { 9, 260, 5, EACH }, "negative" },
    { CHECK | HOST, TS_F32, { 9, 260, 3, EACH }, "past_f16" },
    { JUDGE, TS_F32, { 1024, 1024, 1, PACKED }, "normal" },
    { JUDGE, TS_F32, { 512, 1024, 8, PACKED }, "normal" },
    { JUDGE, TS_F32, { 256, 512, 64, BACK }, "normal" },
    { JUDGE, TS_F32, { 1024, 1024, 1, PACK }, "normal" },
    { TIME, TS_F32, { 4096, 4096, 1, PACKED }, "normal" },
    { TIME, TS_F32, { 4096, 4096, 8, PACKED }, "normal" },
    { TIME | TS_USE_LARGE, TS_F32, { 14336, 4096, 1, PACKED }, "normal" },
    { TIME, TS_F32, { 3072, 1024, 8, PACKED }, "normal" },
    { TIME | TS_USE_LARGE, TS_F32, { 151936, 1024, 1, PACKED }, "normal" },
    { TIME, TS_F32, { 3072, 1024, 1, PACK }, "normal" },
    { TIME, TS_F32, { 1024, 1024, 128, BACK }, "normal" },
};
/* clang-format on */

/* Whether the contents of tensors must be rejected. */
static bool is_bad(const ts_case *c)
{
    return !strncmp(c->family, "bad_", 4) || ts_is(c, "past_f16");
}

static bool affordable(const ts_case *c)
{
    const int64_t o = c->dim[OUT], n = c->dim[IN], r = c->dim[ROWS];
    if (is_bad(c) && (!o || !n || !r)) return false;
    if (ts_is(c, "bad_code_padding") && n % TS_TREF_GROUP == 0) return false;
    return (o + 1) * (n + 1) * (r + 1) <= 600000;
}

static void mark_host(ts_case *c)
{
    if (is_bad(c)) c->use |= HOST;
}

/* out, in, rows, parts */
static const ts_cover cover = {
    .use = CHECK,
    .dtypes = ALL,
    .family = { { "normal", ALL },
                { "ties", ALL },
                { "zeros", ALL },
                { "spike", ALL },
                { "steep", WIDE },
                { "tiny", ALL },
                { "huge", WIDE },
                { "nonfinite", ALL },
                { "negative", ALL },
                { "bad_code", ALL },
                { "bad_code_last", ALL },
                { "bad_code_padding", ALL },
                { "bad_scale", ALL },
                { "bad_scale_inf", ALL },
                { "bad_scale_minus", ALL },
                { "bad_latent", ALL },
                { "bad_latent_inf", ALL },
                { "past_f16", ALL } },
    .empties = 1u << OUT | 1u << IN | 1u << ROWS,
    .dim = { TS_RANGE(1, 300, 0, 1, 2, 9, 17, 33, 65, 129, 257),
             TS_RANGE(3, 4224, 0, 1, 2, 9, 33, 65, 127, 128, 129, 257, 513, 1025, 4097),
             TS_RANGE(1, 200, 0, 1, 2, 3, 5, 9, 17, 33, 65, 129), TS_NUMBERS(0, EACH) },
    .allows = affordable,
    .make = mark_host,
};

static const ts_case *all_cases(void)
{
    static ts_case_list l;
    if (l.n) return l.c;
    ts_list_append(&l, some, COUNT(some));
    ts_list_cover(&l, &cover);
    return l.c;
}

/* ---- inputs ---- */

/* Where the scale is known. A group's mean is 1 exactly, or, in every third row, a little more than
 * the f16 that it is rounded to, and weights are at, or around, half of both; or it is so little
 * more than half-way between two of f16 that a sum in float does not see it. */
static double tie_of(int64_t row, int64_t col, int64_t n, uint64_t bits)
{
    const double  sign = bits & 1 ? 1 : -1;
    const int64_t j = col % TS_TREF_GROUP;
    const double  mean = row % 3 ? 1 : 1 + 0x1.4p-12; /* rounds to 1 */
    if (row % 3 == 2) return sign * (j == n - 1 ? 1 + (double)n * (0x1p-11 + 0x1p-26) : 1);
    if (j == n - 1 && n % 2) return sign * mean;
    if (j < 2) return sign * (j ? mean * 2 - 0.5 : 0.5); /* half of the rounded one, exactly */
    if (j < 4) return sign * (j % 2 ? mean * 2 - mean / 2 : mean / 2); /* half of the mean */
    return sign * (j % 2 ? 1.25 : 0.75) * mean;
}

static double latent_of(const ts_case *c, int64_t row, int64_t col, uint64_t seed)
{
    const int64_t n_in = c->dim[IN], at = row * n_in + col, g = col / TS_TREF_GROUP;
    const int64_t left = n_in - g * TS_TREF_GROUP, n = left < TS_TREF_GROUP ? left : TS_TREF_GROUP;
    const double  x = ts_normal(seed, at);
    if (ts_is(c, "ties")) return tie_of(row, col, n, ts_bits(seed, at));
    if (ts_is(c, "zeros")) return row % 3 == 1 || (row % 3 == 2 && g == 1) ? 0 : x;
    if (ts_is(c, "spike")) return col % 61 == 5 ? 40 * x : x;
    if (ts_is(c, "steep")) return x * (const double[]) { 0.001, 1, 1000 }[row % 3];
    /* Scales that are subnormal in f16, or rounded to 0 */
    if (ts_is(c, "tiny")) return x * (row % 3 ? 3e-6 : 1e-8);
    /* A scale that is rounded down to the largest of f16, and single latents far beyond it. */
    if (ts_is(c, "brink") && row % 3) return x < 0 ? -65510 : 65510;
    if (ts_is(c, "brink")) return n >= 64 && col % TS_TREF_GROUP == 7 ? 1e6 : x;
    if (ts_is(c, "huge")) return x * 1.8e4; /* 3.46 times that is still f16 */
    return x;
}

static void spoil_latents(const ts_case *c, uint64_t seed, float *w)
{
    const int64_t at = (int64_t)(ts_bits(seed, 1) % (uint64_t)(c->dim[OUT] * c->dim[IN]));
    if (ts_is(c, "bad_latent")) w[at] = NAN;
    if (ts_is(c, "bad_latent_inf")) w[at] = -INFINITY;
    if (ts_is(c, "past_f16")) w[at] = 65520.f * TS_TREF_GROUP;
}

/* The judge's own codes: those of the latents. */
static void project(const ts_case *c, const float *w, uint8_t *code, uint16_t *scale)
{
    const int64_t n_in = c->dim[IN];
    for (int64_t r = 0; r < c->dim[OUT]; r++)
        for (int64_t g = 0; g < ts_tref_groups(n_in); g++, scale++, code += TS_TREF_BYTES) {
            const float  *at = w + r * n_in + g * TS_TREF_GROUP;
            const int64_t left = n_in - g * TS_TREF_GROUP;
            const int64_t n = left < TS_TREF_GROUP ? left : TS_TREF_GROUP;
            double        sum = 0;
            for (int64_t j = 0; j < n; j++) sum += fabs((double)at[j]);
            *scale = ts_narrow_f16(sum / (double)n);
            const double wide = ts_widen_f16(*scale);
            memset(code, 0, TS_TREF_BYTES);
            for (int64_t j = 0; j < TS_TREF_GROUP; j++) {
                const int k = j < n ? ts_tref_code(at[j], wide) : 0;
                code[j / 4] |= (uint8_t)((1 + k) << 2 * (j % 4));
            }
        }
}

static void spoil_codes(const ts_case *c, uint64_t seed, uint8_t *code, uint16_t *scale)
{
    const int64_t n_in = c->dim[IN], groups = ts_tref_groups(n_in);
    const int64_t row = (int64_t)(ts_bits(seed, 2) % (uint64_t)c->dim[OUT]);
    const int64_t j = (int64_t)(ts_bits(seed, 3) % (uint64_t)n_in);
    const int64_t room = groups * TS_TREF_GROUP, last = c->dim[OUT] - 1;
    int64_t       at = row * room + j;
    if (ts_is(c, "bad_code_last")) at = last * room + n_in - 1;
    if (ts_is(c, "bad_code_padding"))
        at = row * room + n_in + (int64_t)(ts_bits(seed, 3) % (uint64_t)(room - n_in));
    if (!strncmp(c->family, "bad_code", 8)) code[at / 4] |= (uint8_t)(3 << 2 * (at % 4));
    /* NaN in the last of all, infinities in any. */
    const int64_t any = (int64_t)(ts_bits(seed, 5) % (uint64_t)(c->dim[OUT] * groups));
    if (ts_is(c, "bad_scale")) scale[c->dim[OUT] * groups - 1] = 0x7e00;
    if (ts_is(c, "bad_scale_inf")) scale[any] = 0x7c00;
    if (ts_is(c, "bad_scale_minus")) scale[any] = 0xfc00;
    for (int64_t i = 0; i < c->dim[OUT] * groups && ts_is(c, "negative"); i++)
        if (i % 3 != 1) scale[i] ^= 0x8000;
}

static void draw(uint64_t seed, void *p, ts_dtype t, int64_t n, double size, double nonfinite)
{
    for (int64_t i = 0; i < n; i++) ts_store(p, t, i, size * ts_normal(seed, i));
    if (nonfinite != 0 && n) ts_store(p, t, (int64_t)(ts_bits(seed, 4) % (uint64_t)n), nonfinite);
}

/* The outputs, in the order of their wants. */
enum { SEEN, CODE, SCALE, WT, Y, Y_PACKED, DX, DW, OUTPUTS };

/* A tensor that is not requested has no rows. */
static void outputs(const ts_case *c, ts_buf b[OUTPUTS])
{
    const int64_t o = c->dim[OUT], n = c->dim[IN], r = c->dim[ROWS], g = ts_tref_groups(n);
    const int64_t parts = c->dim[PARTS];
    const bool    pack = parts >> TS_TL_PACK & 1, back = parts >> TS_TL_BACKWARD & 1;
    b[SEEN] = (ts_buf) { "seen", TS_OUT, TS_F64, 1, TS_TL_FUNCTIONS, TS_TL_FUNCTIONS };
    b[CODE] =
        (ts_buf) { "code", TS_OUT, TS_U8, pack ? o : 0, g * TS_TREF_BYTES, g * TS_TREF_BYTES };
    b[SCALE] = (ts_buf) { "scale", TS_OUT, TS_F16, pack ? o : 0, g, g };
    b[WT] = (ts_buf) { "wt", TS_OUT, TS_F32, parts >> TS_TL_UNPACK & 1 ? o : 0, n, n };
    b[Y] = (ts_buf) { "y", TS_OUT, c->dtype, parts >> TS_TL_LINEAR & 1 ? r : 0, o, o };
    b[Y_PACKED] =
        (ts_buf) { "y_packed", TS_OUT, c->dtype, parts >> TS_TL_PACKED & 1 ? r : 0, o, o };
    b[DX] = (ts_buf) { "dx", TS_OUT, c->dtype, back ? r : 0, n, n };
    b[DW] = (ts_buf) { "dw", TS_OUT, TS_F32, back ? o : 0, n, n };
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_ternary_play_args *a = args;
    const int64_t         o = c->dim[OUT], n = c->dim[IN], r = c->dim[ROWS], g = ts_tref_groups(n);
    const int64_t         g_bytes = g * TS_TREF_BYTES;
    const uint64_t        key = ts_mix(seed);
    ts_buf                b[OUTPUTS];
    *a = (ts_ternary_play_args) { .d = { c->dtype, o, n, r }, .parts = c->dim[PARTS] };
    float   *w = ts_take(m, &a->w, (ts_buf) { "w", TS_IN, TS_F32, o, n, n });
    uint8_t *code =
        ts_take(m, &a->code_in, (ts_buf) { "code_in", TS_IN, TS_U8, o, g_bytes, g_bytes });
    uint16_t *scale = ts_take(m, &a->scale_in, (ts_buf) { "scale_in", TS_IN, TS_F16, o, g, g });
    void     *in = ts_take(m, &a->in, (ts_buf) { "in", TS_IN, c->dtype, r, n, n });
    void     *dy = ts_take(m, &a->dy, (ts_buf) { "dy", TS_IN, c->dtype, r, o, o });
    outputs(c, b);
    void *const slot[OUTPUTS] = { &a->seen, &a->code,     &a->scale, &a->wt,
                                  &a->y,    &a->y_packed, &a->dx,    &a->dw };
    for (int i = 0; i < OUTPUTS; i++) ts_take(m, slot[i], b[i]);
    const bool normal = ts_is(c, "normal"); /* the large cases are: no names in their loop */
    for (int64_t i = 0; i < o * n; i++)
        w[i] = (float)(normal ? ts_normal(key + 1, i) : latent_of(c, i / n, i % n, key + 1));
    project(c, w, code, scale);
    if (o > 0 && n > 0) spoil_latents(c, key, w);
    if (o > 0 && n > 0) spoil_codes(c, key, code, scale);
    const double size = ts_is(c, "loud") ? 1000 : ts_is(c, "faint") ? 1e-9 : 1;
    draw(key + 2, in, c->dtype, r * n, size, ts_is(c, "nonfinite") ? NAN : 0);
    draw(key + 3, dy, c->dtype, r * o, size, ts_is(c, "nonfinite") ? NAN : 0);
}

/* ---- what is expected ---- */

static size_t n_want(const ts_case *c)
{
    ts_buf b[OUTPUTS];
    outputs(c, b);
    return ts_bufs_elements(b, OUTPUTS);
}

static ts_status must(const ts_case *c, int function)
{
    const bool latent = !strncmp(c->family, "bad_latent", 10) || ts_is(c, "past_f16");
    const bool code = is_bad(c) && !latent;
    if (function == TS_TL_UNPACK || function == TS_TL_PACKED) return code ? TS_E_FORMAT : TS_OK;
    return latent ? TS_E_RANGE : TS_OK;
}

/* What is summed in: a sum of n terms of magnitudes A, stored as t. */
typedef struct sum {
    double value, A;
} sum;

static ts_want want_of(sum s, int64_t n, ts_dtype sums, ts_dtype t)
{
    const double u = ts_format_of(sums)->u, kappa = 8 + 2 * sqrt((double)n);
    const double v = s.value, A = s.A;
    if (isnan(v)) return (ts_want) { v, 0 };
    return (ts_want) { v, kappa * u * A + ts_format_of(t)->u * (fabs(v) + kappa * u * A) +
                              ts_format_of(t)->min_normal * ts_format_of(t)->u };
}

/* sum over k of a[k a_step] b[k b_step]; wider than what is judged. */
static sum product(const double *a, int64_t a_step, const double *b, int64_t b_step, int64_t n)
{
    sum s = { ts_real_dot(a, a_step, b, b_step, n).hi, 0 };
    for (int64_t k = 0; k < n; k++) s.A += fabs(a[k * a_step] * b[k * b_step]);
    return s;
}

static double *widened(const void *p, ts_dtype t, int64_t n)
{
    double *y = malloc(((size_t)n + 1) * sizeof *y);
    if (!y) abort();
    for (int64_t i = 0; i < n; i++) y[i] = ts_load(p, t, i);
    return y;
}

/* The judge's own effective weights: from the given codes or, if those are invalid on purpose or it
 * is requested, from the latents. */
static double *serving(const ts_case *c, const ts_ternary_play_args *a, bool latents)
{
    const int64_t o = c->dim[OUT], n = c->dim[IN], groups = ts_tref_groups(n);
    double       *w = malloc(((size_t)(o * n) + 1) * sizeof *w);
    uint8_t      *code = malloc((size_t)(o * groups * TS_TREF_BYTES) + 1);
    uint16_t     *scale = malloc(((size_t)(o * groups) + 1) * sizeof *scale);
    if (!w || !code || !scale) abort();
    memcpy(code, a->code_in, (size_t)(o * groups * TS_TREF_BYTES));
    memcpy(scale, a->scale_in, (size_t)(o * groups) * sizeof *scale);
    if (must(c, TS_TL_PACKED) || latents) project(c, a->w, code, scale);
    for (int64_t i = 0; i < o * n; i++) {
        const int64_t r = i / n, j = i % n;
        w[i] = (ts_tref_point(code + r * groups * TS_TREF_BYTES, j) - 1) *
               ts_widen_f16(scale[r * groups + j / TS_TREF_GROUP]);
    }
    free(code);
    free(scale);
    return w;
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_ternary_play_args *a = args;
    const int64_t  o = c->dim[OUT], n = c->dim[IN], r = c->dim[ROWS], groups = ts_tref_groups(n);
    const ts_dtype t = c->dtype, sums = ts_wide(t);
    ts_buf         b[OUTPUTS];
    double        *w = serving(c, a, false), *own = ts_is(c, "negative") ? serving(c, a, true) : w;
    double        *in = widened(a->in, t, r * n), *dy = widened(a->dy, t, r * o);
    uint8_t       *code = malloc((size_t)(o * groups * TS_TREF_BYTES) + 1);
    uint16_t      *scale = malloc(((size_t)(o * groups) + 1) * sizeof *scale);
    if (!code || !scale) abort();
    outputs(c, b);
    if (b[CODE].n_rows) project(c, a->w, code, scale);
    for (int i = 0; i < TS_TL_FUNCTIONS; i++) *want++ = (ts_want) { must(c, i), 0 };
    for (int64_t i = 0; i < b[CODE].n_rows * b[CODE].n_cols; i++)
        *want++ = (ts_want) { code[i], 0 };
    for (int64_t i = 0; i < b[SCALE].n_rows * groups; i++)
        *want++ = (ts_want) { ts_widen_f16(scale[i]), 0 };
    for (int64_t i = 0; i < b[WT].n_rows * n; i++) *want++ = (ts_want) { w[i], 0 };
    for (int k = Y; k <= Y_PACKED; k++)
        for (int64_t i = 0; i < b[k].n_rows * o; i++)
            *want++ = want_of(product(in + i / o * n, 1, (k == Y ? own : w) + i % o * n, 1, n), n,
                              sums, t);
    for (int64_t i = 0; i < b[DX].n_rows * n; i++)
        *want++ = want_of(product(dy + i / n * o, 1, own + i % n, n, o), o, sums, t);
    for (int64_t i = 0; i < b[DW].n_rows * n; i++)
        *want++ = want_of(product(dy + i / n, o, in + i % n, n, r), r, sums, TS_F32);
    if (own != w) free(own);
    free(w);
    free(in);
    free(dy);
    free(code);
    free(scale);
}

/* ---- check ---- */

/* Both forwards, bit for bit. */
static bool forwards_agree(ts_buf b, const ts_ternary_play_args *a, ts_flaw *f)
{
    const size_t n_bytes = ts_format_of(b.dtype)->n_bytes;
    for (int64_t i = 0; i < b.n_rows * b.n_cols; i++) {
        const double got = ts_load(a->y_packed, b.dtype, i), want = ts_load(a->y, b.dtype, i);
        if (!memcmp((const char *)a->y + (size_t)i * n_bytes,
                    (const char *)a->y_packed + (size_t)i * n_bytes, n_bytes) ||
            (isnan(got) && isnan(want)))
            continue;
        *f = (ts_flaw) { TS_FAULT_VALUE, "y_packed", i / b.n_cols, i % b.n_cols, got, want, 0 };
        return false;
    }
    return true;
}

static bool check_outputs(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    static const int            by[] = { -1,           TS_TL_PACK,   TS_TL_PACK,     TS_TL_UNPACK,
                                         TS_TL_LINEAR, TS_TL_PACKED, TS_TL_BACKWARD, TS_TL_BACKWARD };
    const ts_ternary_play_args *a = args;
    const void *const p[] = { a->seen, a->code, a->scale, a->wt, a->y, a->y_packed, a->dx, a->dw };
    ts_buf            b[OUTPUTS];
    outputs(c, b);
    for (int i = 0; i < OUTPUTS; i++) {
        const bool refused = by[i] >= 0 && must(c, by[i]);
        if (refused ? !ts_check_untouched(b[i], p[i], f) : !ts_check_buf(b[i], p[i], want, f, e))
            return false;
        want += b[i].n_rows * b[i].n_cols;
    }
    return true;
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    ts_buf b[OUTPUTS];
    outputs(c, b);
    if (!check_outputs(c, args, want, f, e)) return false;
    if (b[Y].n_rows != b[Y_PACKED].n_rows || must(c, TS_TL_LINEAR) || must(c, TS_TL_PACKED) ||
        ts_is(c, "negative"))
        return true;
    return forwards_agree(b[Y], args, f);
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    return check_outputs(c, args, want, f, e)
               ? "the forward from codes is bitwise identical to the forward from latents"
               : NULL;
}

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    (void)c, (void)args;
    if (!strcmp(f->what, "seen") && f->col < TS_TL_FUNCTIONS)
        snprintf(s, n, "status of %s", ts_ternary_linear_names[f->col]);
}

/* A product with ternary weights can be one addition a byte of codes, from a table of sums. */
static ts_cost cost(const ts_case *c)
{
    enum { CODES_A_BYTE = 4 };
    const double o = (double)c->dim[OUT], n = (double)c->dim[IN], r = (double)c->dim[ROWS];
    const double each = (double)ts_format_of(c->dtype)->n_bytes;
    const double codes = o * (double)ts_tref_groups(c->dim[IN]) * (TS_TREF_BYTES + 2);
    ts_cost      s = { .reads_only = c->dim[PARTS] == PACKED };
    if (c->dim[PARTS] & (PACK | 1 << TS_TL_LINEAR | BACK)) s.bytes += 4 * o * n;
    if (c->dim[PARTS] & (PACK | 1 << TS_TL_UNPACK | PACKED)) s.bytes += codes;
    if (c->dim[PARTS] & (1 << TS_TL_LINEAR | PACKED)) s.bytes += each * r * (n + o);
    if (c->dim[PARTS] & 1 << TS_TL_UNPACK) s.bytes += 4 * o * n;
    if (c->dim[PARTS] & BACK) s.bytes += each * r * (2 * n + o) + 4 * o * n;
    for (int i = TS_TL_LINEAR; i <= TS_TL_BACKWARD; i++) {
        const bool back = i == TS_TL_BACKWARD; /* of its two products, one is of two inputs */
        if (!(c->dim[PARTS] >> i & 1)) continue;
        s.flops += (back ? 4 : 2) * r * o * n;
        s.least_flops += (back ? 2 * r * o * n : 0) + r * o * n / CODES_A_BYTE;
    }
    return s;
}

#define DIM(member, keeps)                                                                         \
    {                                                                                              \
        offsetof(ts_ternary_play_args, d.member), 0, 0, 0, false, keeps                            \
    }

#define BAD(must, ...) TS_BAD(ts_ternary_play_args, must, __VA_ARGS__)
static const ts_bad bad[] = { BAD(TS_E_DTYPE, d.dtype, TS_I32, 99), { 0 } };

static bool must_without(const void *args, int64_t how, ts_status *status)
{
    *status = TS_E_ARG;
    return how - TS_TL_WITHOUT < ts_ternary_linear_without(args);
}

/* Each function alone: without something, in the valid call and in the least; with dims that make
 * no sense; and, but for packing, with dtypes that are not offered. */
#define ALONE(function)                                                                            \
    .how = offsetof(ts_ternary_play_args, how), .how_must = must_without,                          \
    .without = TS_TL_WITHOUT, .odd = INT64_MAX, .always = (const ts_bad[])                         \
    {                                                                                              \
        BAD(TS_ALSO, parts, 1 << (function)), BAD(TS_ALSO, how, TS_TL_DIMS),                       \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* n_out, n_in */
#define MATRIX(function)                                                                           \
    .extent = { DIM(n_out, false), DIM(n_in, false) }, .n_extent = 2, .product = { { { 1, 2 } } }, \
    ALONE(function)

/* and n_rows, of which packing and unpacking know nothing */
#define PRODUCT(function)                                                                          \
    .extent = { DIM(n_out, false), DIM(n_in, false), DIM(n_rows, false) }, .n_extent = 3,          \
    .product = { { { 1, 2 } }, { { 3, 2 } }, { { 3, 1 } } }, .bad = bad, ALONE(function)

static const ts_invalid invalid[TS_TL_FUNCTIONS] = {
    { MATRIX(TS_TL_PACK), .next = &invalid[1] },
    { MATRIX(TS_TL_UNPACK), .next = &invalid[2] },
    { PRODUCT(TS_TL_LINEAR), .next = &invalid[3] },
    { PRODUCT(TS_TL_PACKED), .next = &invalid[4] },
    { PRODUCT(TS_TL_BACKWARD) },
};

static const char BAD_CODE[] = "code point 3 is rejected, with nothing written";
static const char BAD_SCALE[] = "a non-finite scale is rejected, with nothing written";
static const char BAD_LATENT[] = "non-finite latents are rejected, with nothing written";

const ts_task ts_task_ternary_linear = {
    .name = "ternary_linear",
    .dim_name = { "out", "in", "rows", "parts" },
    .dim_says = { "n_out", "n_in", "n_rows",
                  "functions called: sum of 1 (pack), 2 (unpack), 4 (linear), 8 (linear_packed), "
                  "16 (backward)" },
    .kind = TS_SCRIPT,
    .devices = TS_ON_CPU,
    .buffer = { { "w", TS_IN, 2, false },
                { "code_in", TS_IN, 2, true },
                { "scale_in", TS_IN, 2, false },
                { "in", TS_IN, 2, false },
                { "dy", TS_IN, 2, false },
                { "seen", TS_OUT, 1, true },
                { "code", TS_OUT, 2, true },
                { "scale", TS_OUT, 2, false },
                { "wt", TS_OUT, 2, false },
                { "y", TS_OUT, 2, false },
                { "y_packed", TS_OUT, 2, false },
                { "dx", TS_OUT, 2, false },
                { "dw", TS_OUT, 2, false } },
    .exports = ts_ternary_linear_names,
    .args_bytes = sizeof(ts_ternary_play_args),
    .cases = all_cases,
    .cover = &cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = invalid,
    .canon = { { "nonfinite", "a NaN in an input row makes NaN only the outputs that depend on it",
                 true },
               { "bad_code", BAD_CODE, true },
               { "bad_code_last", BAD_CODE, true },
               { "bad_code_padding", BAD_CODE, true },
               { "bad_scale", BAD_SCALE, true },
               { "bad_scale_inf", BAD_SCALE, true },
               { "bad_scale_minus", BAD_SCALE, true },
               { "bad_latent", BAD_LATENT, true },
               { "bad_latent_inf", BAD_LATENT, true },
               { "past_f16", "a scale beyond f16 is rejected, with nothing written", true } },
    .common = common,
    .explain = explain,
};
