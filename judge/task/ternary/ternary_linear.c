/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_linear.c - task: one matrix packed, unpacked, multiplied by, and differentiated.
 *
 * By the common contract sums may be plain loops, as in bound.h, and the mean of a group may be one
 * of float: off by (n + 2) u, after which its f16 may be the neighbour of the exact one. A code may
 * come of w / s or w (1 / s), off by 4 u. What a weight may therefore be else is added to the
 * bounds of y and dx. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bound.h"
#include "case_list.h"
#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "spoil.h"
#include "task.h"
#include "ternary_linear_cases.h"
#include "ternary_linear_script.h"
#include "ternary_reference.h"

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

void ts_ternary_linear_outputs(const ts_case *c, ts_buf b[OUTPUTS])
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
    ts_ternary_linear_outputs(c, b);
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
    ts_ternary_linear_outputs(c, b);
    return ts_bufs_elements(b, OUTPUTS);
}

/* What is summed in: a sum of n terms of magnitudes A, stored as t; and the span of its first
 * terms. */
typedef struct sum {
    double  value, A;
    ts_span first;
} sum;

static ts_want want_of(sum s, int64_t n, ts_dtype sums, ts_dtype t, bool any)
{
    const double u = ts_format_of(sums)->u, v = s.value;
    const double error = ts_kappa(n) * u * s.A + (any ? ts_plain_error(&s.first, n, 0, u) : 0);
    if (isnan(v)) return (ts_want) { v, 0 };
    return (ts_want) { v, error + ts_format_of(t)->u * (fabs(v) + error) +
                              ts_format_of(t)->min_normal * ts_format_of(t)->u };
}

/* sum over k of a[k a_step] b[k b_step]; wider than what is judged. */
static sum product(const double *a, int64_t a_step, const double *b, int64_t b_step, int64_t n)
{
    sum s = { ts_real_dot(a, a_step, b, b_step, n).hi, 0, { 0, 0, 0 } };
    for (int64_t k = 0; k < n; k++) {
        const double term = a[k * a_step] * b[k * b_step];
        s.A += fabs(term);
        ts_span_add(&s.first, term);
    }
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
    if (ts_ternary_linear_must(c, TS_TL_PACKED) || latents) project(c, a->w, code, scale);
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
    ts_ternary_linear_outputs(c, b);
    if (b[CODE].n_rows) project(c, a->w, code, scale);
    for (int i = 0; i < TS_TL_FUNCTIONS; i++)
        *want++ = (ts_want) { ts_ternary_linear_must(c, i), 0 };
    for (int64_t i = 0; i < b[CODE].n_rows * b[CODE].n_cols; i++)
        *want++ = (ts_want) { code[i], 0 };
    for (int64_t i = 0; i < b[SCALE].n_rows * groups; i++)
        *want++ = (ts_want) { ts_widen_f16(scale[i]), 0 };
    for (int64_t i = 0; i < b[WT].n_rows * n; i++) *want++ = (ts_want) { w[i], 0 };
    for (int k = Y; k <= Y_PACKED; k++)
        for (int64_t i = 0; i < b[k].n_rows * o; i++)
            *want++ = want_of(product(in + i / o * n, 1, (k == Y ? own : w) + i % o * n, 1, n), n,
                              sums, t, false);
    for (int64_t i = 0; i < b[DX].n_rows * n; i++)
        *want++ = want_of(product(dy + i / n * o, 1, own + i % n, n, o), o, sums, t, false);
    for (int64_t i = 0; i < b[DW].n_rows * n; i++)
        *want++ = want_of(product(dy + i / n, o, in + i % n, n, r), r, sums, TS_F32, false);
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
    const ts_ternary_play_args *a = args;
    const void *const p[] = { a->seen, a->code, a->scale, a->wt, a->y, a->y_packed, a->dx, a->dw };
    ts_buf            b[OUTPUTS];
    ts_ternary_linear_outputs(c, b);
    for (int i = 0; i < OUTPUTS; i++) {
        const int by = ts_ternary_linear_by[i];
        /* What is accepted against the rule is compared. */
        const bool refused = by >= 0 && ts_ternary_linear_must(c, by) && a->seen[by] != 0;
        const bool any = b[i].n_rows * b[i].n_cols == 0 || want->bound == INFINITY;
        if (refused && !any ? !ts_check_untouched(b[i], p[i], f)
                            : !ts_check_buf(b[i], p[i], want, f, e))
            return false;
        want += b[i].n_rows * b[i].n_cols;
    }
    return true;
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    ts_buf b[OUTPUTS];
    ts_ternary_linear_outputs(c, b);
    if (!check_outputs(c, args, want, f, e)) return false;
    if (b[Y].n_rows != b[Y_PACKED].n_rows || ts_ternary_linear_must(c, TS_TL_LINEAR) ||
        ts_ternary_linear_must(c, TS_TL_PACKED) || ts_is(c, "negative"))
        return true;
    return forwards_agree(b[Y], args, f);
}

/* ---- the common contract ---- */

/* What the scale of a group may be if its mean is one of float. */
typedef struct span {
    double low, high;
} span;

static span span_of(const float *w, int64_t n)
{
    const double off = (double)(n + 2) * 0x1p-24;
    double       sum = 0;
    for (int64_t j = 0; j < n; j++) sum += fabs((double)w[j]);
    return (span) { ts_widen_f16(ts_narrow_f16(sum / (double)n * (1 - off))),
                    ts_widen_f16(ts_narrow_f16(sum / (double)n * (1 + off))) };
}

static bool may_be_code(double w, span s, int code)
{
    const double size = 2 * fabs(w), off = 4 * 0x1p-24;
    if (code == 0) return s.low == 0 || size * (1 - off) <= s.high;
    return s.high > 0 && size * (1 + off) > s.low && (w < 0 ? -1 : 1) == code;
}

/* How far the effective weight may be from that of the canon. */
static double weight_off(double w, span s, double canon)
{
    double off = may_be_code(w, s, 0) ? fabs(canon) : 0;
    for (int code = -1; code <= 1; code += 2)
        if (may_be_code(w, s, code))
            off = fmax(off, fmax(fabs(code * s.low - canon), fabs(code * s.high - canon)));
    return off;
}

/* Codes and scales as the output has them, where they may be so; and the room that weights have. */
static void accept_codes(const ts_case *c, const ts_ternary_play_args *a, const ts_buf *b,
                         const double *own, ts_want *code, ts_want *scale, double *room)
{
    const int64_t n_in = c->dim[IN], groups = ts_tref_groups(n_in);
    for (int64_t i = 0; i < c->dim[OUT] * groups; i++) {
        const int64_t first = i % groups * TS_TREF_GROUP, at = i / groups * n_in + first;
        const int64_t n = n_in - first < TS_TREF_GROUP ? n_in - first : TS_TREF_GROUP;
        const span    s = span_of(a->w + at, n);
        bool          ok = b[CODE].n_rows != 0;
        for (int64_t j = 0; j < n; j++) {
            room[at + j] = weight_off((double)a->w[at + j], s, own[at + j]);
            ok = ok && may_be_code((double)a->w[at + j], s,
                                   ts_tref_point(a->code + i * TS_TREF_BYTES, j) - 1);
        }
        for (int64_t j = n; j < TS_TREF_GROUP && ok; j++)
            ok = ts_tref_point(a->code + i * TS_TREF_BYTES, j) == 1;
        for (int64_t j = i * TS_TREF_BYTES; j < (i + 1) * TS_TREF_BYTES && ok; j++)
            code[j].value = a->code[j];
        const double got = b[SCALE].n_rows ? ts_load(a->scale, TS_F16, i) : NAN;
        if (got == s.low || got == s.high) scale[i].value = got;
    }
}

/* The sum with the room that its weights have; x[k x_step] meets w[k w_step]. */
static ts_want roomy(const double *x, int64_t x_step, const double *w, const double *room,
                     int64_t w_step, int64_t n, ts_dtype sums, ts_dtype t)
{
    ts_want want = want_of(product(x, x_step, w, w_step, n), n, sums, t, true);
    for (int64_t k = 0; k < n && room; k++) want.bound += fabs(x[k * x_step]) * room[k * w_step];
    return want;
}

/* Widens the wants of the canon. */
static void widen_wants(const ts_case *c, const void *args, ts_want *want)
{
    const ts_ternary_play_args *a = args;
    const int64_t               o = c->dim[OUT], n = c->dim[IN], r = c->dim[ROWS];
    const ts_dtype              t = c->dtype, sums = ts_wide(t);
    ts_buf                      b[OUTPUTS];
    ts_want                    *at[OUTPUTS];
    double                     *w = serving(c, a, false), *own = serving(c, a, true),
           *room = malloc(8 * (size_t)(o * n) + 8);
    double *in = widened(a->in, t, r * n), *dy = widened(a->dy, t, r * o);
    if (!room) abort();
    ts_ternary_linear_outputs(c, b);
    for (int i = 0; i < OUTPUTS; i++) at[i] = want, want += b[i].n_rows * b[i].n_cols;
    accept_codes(c, a, b, own, at[CODE], at[SCALE], room);
    for (int64_t i = 0; i < b[Y].n_rows * o; i++)
        at[Y][i] = roomy(in + i / o * n, 1, own + i % o * n, room + i % o * n, 1, n, sums, t);
    for (int64_t i = 0; i < b[Y_PACKED].n_rows * o; i++)
        at[Y_PACKED][i] = roomy(in + i / o * n, 1, w + i % o * n, NULL, 1, n, sums, t);
    for (int64_t i = 0; i < b[DX].n_rows * n; i++)
        at[DX][i] = roomy(dy + i / n * o, 1, own + i % n, room + i % n, n, o, sums, t);
    for (int64_t i = 0; i < b[DW].n_rows * n; i++)
        at[DW][i] = roomy(dy + i / n, o, in + i % n, NULL, n, r, sums, TS_F32);
    free(w);
    free(own);
    free(room);
    free(in);
    free(dy);
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const ts_errors before = *e;
    if (check_outputs(c, args, want, f, e))
        return "the forward from codes is bitwise identical to the forward from latents";
    *e = before;
    return ts_common_by(widen_wants, check_outputs, want, n_want(c),
                        "the mean of a group is one of double, and the error of a sum grows as the "
                        "root of its length",
                        c, args, f, e);
}

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    (void)c, (void)args;
    if (!strcmp(f->what, "seen") && f->col < TS_TL_FUNCTIONS)
        snprintf(s, n, "%s: status", ts_ternary_linear_names[f->col]);
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
    .devices = TS_ON_CPU | TS_ON_CUDA,
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
    .cases = ts_ternary_linear_cases,
    .cover = &ts_ternary_linear_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .scope = ts_ternary_linear_scope,
    .scope_says = "the functions have names of their own, `pack`, `unpack`, `linear`, "
                  "`linear_packed` and `backward`, which are 1 where one is called",
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
    .canon_of = ts_ternary_linear_canon_of,
    .excuse = ts_ternary_linear_excuse,
    .common = common,
    .explain = explain,
};
