/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy_simd.h - the steps of cross_entropy_impl.h, written once for any width of vector.
 *
 * Private to the files that include it, each of which has first its base/vec_*.h and, for its own
 * instruction set:
 *
 *     ROWS, VECS   rows of a product, and vecs of a row, that are taken together
 *     exponent     2^n from t = n + big
 *     below        0 where x < y, else v
 *     finite_of    0 for what is not finite */
#ifndef TS_CROSS_ENTROPY_SIMD_H
#define TS_CROSS_ENTROPY_SIMD_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "exp_simd.h"
#include "unroll.h"
#include "vec_simd.h"

/* TERMS: of one running sum. Small terms of one size added to a large one are all rounded alike:
 * over 128 rows that error exceeded the bound. */
enum { TERMS = 32, TOPS = 4 };

/* tanh(x / cap), from e = exp(-2 |x| / cap); a NaN stays one. */
INLINE vec tanh_of(vec x, float cap)
{
    const vec zero = splat(0), minus = sub(zero, x), y = divide(larger(x, minus), splat(cap));
    const vec e = exp_of(sub(zero, add(y, y)));
    const vec t = divide(sub(splat(1), e), add(splat(1), e));
    return sub(below(t, x, zero), below(t, minus, zero));
}

INLINE vec capped(vec x, const ts_xe_form *f)
{
    return f->softcap > 0 ? mul(splat(f->softcap), tanh_of(x, f->softcap)) : x;
}

/* The gradient without its factor; hit: what a target has less. */
INLINE vec gradient(vec x, vec lse, float hit, const ts_xe_form *f)
{
    const vec more = madd(splat(f->z2), lse, splat(1));
    const vec t = f->softcap > 0 ? tanh_of(x, f->softcap) : splat(0);
    const vec z = f->softcap > 0 ? mul(splat(f->softcap), t) : x;
    const vec q = sub(sub(mul(more, exp_of(sub(z, lse))), splat(hit)), splat(f->smooth));
    return f->softcap > 0 ? mul(q, nmadd(t, t, splat(1))) : q;
}

/* A target's. */
INLINE float gradient_of_hit(float x, float lse, const ts_xe_form *f)
{
    float each[LANES];
    put(each, gradient(splat(x), splat(lse), f->hit, f));
    return each[0];
}

/* ---- products ---- */

/* c = a b, or c + a b, where sums of terms are added up: `rows` rows of `vecs` vecs, sums of n
 * terms. */
INLINE void block(float *c, int64_t ldc, const float *a, int64_t row, int64_t term, const float *b,
                  int64_t ldb, int64_t n, bool adds, int rows, int vecs)
{
    vec sum[ROWS][VECS];
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) sum[r][v] = splat(0);
    }
    for (int64_t i = 0; i < n; i++) {
        vec y[VECS];
        UNROLL
        for (int v = 0; v < vecs; v++) y[v] = get(b + i * ldb + v * LANES);
        UNROLL
        for (int r = 0; r < rows; r++) {
            const vec x = splat(a[r * row + i * term]);
            UNROLL
            for (int v = 0; v < vecs; v++) sum[r][v] = madd(x, y[v], sum[r][v]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        UNROLL
        for (int v = 0; v < vecs; v++) {
            float *const to = c + r * ldc + v * LANES;
            put(to, adds ? add(get(to), sum[r][v]) : sum[r][v]);
        }
    }
}

INLINE void column(float *c, int64_t ldc, const float *a, int64_t row, int64_t term, const float *b,
                   int64_t ldb, int64_t m, int64_t n, bool adds, int vecs)
{
    int64_t r = 0;
    for (; r + ROWS <= m; r += ROWS)
        block(c + r * ldc, ldc, a + r * row, row, term, b, ldb, n, adds, ROWS, vecs);
    for (; r < m; r++) block(c + r * ldc, ldc, a + r * row, row, term, b, ldb, n, adds, 1, vecs);
}

/* c of m rows and `width` columns (a multiple of LANES), sums of n terms. Element i of row r of a
 * is a[r * row + i * term]; rows of b and c are ldb and ldc floats apart. */
static __attribute__((noinline)) void product(float *c, int64_t ldc, const float *a, int64_t row,
                                              int64_t term, const float *b, int64_t ldb, int64_t m,
                                              int64_t width, int64_t n, bool adds)
{
    for (int64_t i = 0; i < n; i += TERMS, adds = true, a += TERMS * term, b += TERMS * ldb) {
        const int64_t terms = ts_lesser(TERMS, n - i);
        int64_t       v = 0;
        for (; v + VECS * LANES <= width; v += VECS * LANES)
            column(c + v, ldc, a, row, term, b + v, ldb, m, terms, adds, VECS);
        for (; v < width; v += LANES)
            column(c + v, ldc, a, row, term, b + v, ldb, m, terms, adds, 1);
    }
}

/* ---- rows of memory ---- */

INLINE int64_t bytes_of(ts_dtype t, int64_t n)
{
    return t == TS_F32 ? 4 * n : 2 * n;
}

/* n elements as floats, and `rest` up to a multiple of LANES. */
INLINE void floats_of(const void *from, ts_dtype t, int64_t at, int64_t n, float rest, float *to)
{
    const char *p = (const char *)from + bytes_of(t, at);
    int64_t     c = 0;
    for (; c + LANES <= n; c += LANES) put(to + c, widen(p + bytes_of(t, c), t));
    if (c < n) {
        char last[LANES * sizeof(float)] = { 0 };
        memcpy(last, p + bytes_of(t, c), (size_t)bytes_of(t, n - c));
        put(to + c, widen(last, t));
        for (int64_t k = n; k < c + LANES; k++) to[k] = rest;
    }
}

static void widen_row(const void *from, ts_dtype t, int64_t at, int64_t n, float *to)
{
    if (t == TS_F32) floats_of(from, TS_F32, at, n, 0, to);
    else if (t == TS_F16) floats_of(from, TS_F16, at, n, 0, to);
    else floats_of(from, TS_BF16, at, n, 0, to);
    for (int64_t k = (n + LANES - 1) / LANES * LANES; k % TS_XE_LANES; k++) to[k] = 0;
}

/* ---- steps from hidden states ---- */

static void fill_logits(const ts_xe_step *s)
{
    product(s->x, s->lanes, s->w, s->width, 1, s->h_columns, s->lanes, s->n_words, s->lanes,
            s->n_hidden, false);
    for (int64_t v = 0; v < s->n_words && s->bias; v++)
        for (int64_t c = 0; c < s->lanes; c += LANES)
            put(s->x + v * s->lanes + c, add(get(s->x + v * s->lanes + c), splat(s->bias[v])));
}

/* Whether the block has this row's target; *at is its place there. */
INLINE bool has_target(const ts_xe_step *s, int64_t r, int64_t *at)
{
    const int64_t v = s->target[r] - s->first_word;
    *at = v * s->lanes + r;
    return v >= 0 && v < s->n_words;
}

static void forward(const ts_xe_step *s)
{
    fill_logits(s);
    for (int64_t c = 0; c < s->lanes; c += LANES) {
        vec top = splat(-INFINITY), sum = splat(0), z_sum = splat(0);
        for (int64_t v = 0; v < s->n_words; v++) {
            float *const at = s->x + v * s->lanes + c;
            const vec    z = capped(get(at), &s->form);
            put(at, z);
            top = larger(z, top);
        }
        const vec base = finite_of(top); /* words of -inf alone have a sum of 0 */
        for (int64_t v = 0; v < s->n_words; v++) {
            const vec z = get(s->x + v * s->lanes + c);
            sum = add(sum, exp_of(sub(z, base)));
            z_sum = add(z_sum, z);
        }
        put(s->max + c, top);
        put(s->sum + c, sum);
        put(s->z_sum + c, z_sum);
    }
    for (int64_t r = 0, at; r < s->n_rows; r++)
        if (has_target(s, r, &at)) s->hit[r] = s->x[at];
}

/* Targets' gradients wait in `sum`, which the first pass used. */
static void backward(const ts_xe_step *s)
{
    fill_logits(s);
    for (int64_t r = 0, at; r < s->n_rows; r++)
        if (has_target(s, r, &at)) s->sum[r] = gradient_of_hit(s->x[at], s->lse[r], &s->form);
    for (int64_t c = 0; c < s->lanes; c += LANES) {
        const vec lse = get(s->lse + c);
        for (int64_t v = 0; v < s->n_words; v++) {
            float *const at = s->x + v * s->lanes + c;
            put(at, gradient(get(at), lse, 0, &s->form));
        }
    }
    for (int64_t r = 0, at; r < s->n_rows; r++)
        if (has_target(s, r, &at)) s->x[at] = s->sum[r];
    if (s->dw)
        product(s->dw, s->width, s->x, s->lanes, 1, s->h, s->width, s->n_words, s->width, s->n_rows,
                true);
    if (s->dh)
        product(s->dh, s->width, s->x, 1, s->lanes, s->w, s->width, s->n_rows, s->width, s->n_words,
                false);
}

/* ---- rows of logits ---- */

INLINE float largest_of(vec v)
{
    float each[LANES], m;
    put(each, v);
    m = each[0];
    for (int i = 1; i < LANES; i++) m = each[i] > m ? each[i] : m;
    return m;
}

/* n <= TS_XE_LINE logits as z, and -inf up to a multiple of LANES; gives the largest. */
INLINE float fill_line(const void *x, ts_dtype t, int64_t at, int64_t n, const ts_xe_form *f,
                       float *line)
{
    const char *const p = (const char *)x + bytes_of(t, at);
    int64_t           k = 0;
    vec               top[TOPS];
    UNROLL
    for (int i = 0; i < TOPS; i++) top[i] = splat(-INFINITY);
    for (; k + TOPS * LANES <= n; k += TOPS * LANES) {
        UNROLL
        for (int i = 0; i < TOPS; i++) {
            const vec v = widen(p + bytes_of(t, k + i * LANES), t);
            put(line + k + i * LANES, v);
            top[i] = larger(v, top[i]);
        }
    }
    floats_of(x, t, at + k, n - k, -INFINITY, line + k);
    for (; k < n; k += LANES) top[0] = larger(get(line + k), top[0]);
    const float all = largest_of(larger(larger(top[0], top[1]), larger(top[2], top[3])));
    if (!(f->softcap > 0)) return all;
    for (k = 0; k < n; k += LANES) put(line + k, capped(get(line + k), f));
    for (; n % LANES; n++) line[n] = -INFINITY; /* again */
    return largest_of(capped(splat(all), f));
}

/* z becomes exp(z - base), of which it gives the sum. */
INLINE double weigh_line(float *line, int64_t n, float base)
{
    vec sum = splat(0);
    for (int64_t k = 0; k < n; k += LANES) {
        const vec e = exp_of(sub(get(line + k), splat(base)));
        put(line + k, e);
        sum = add(sum, e);
    }
    return (double)total(sum);
}

/* Rows of -inf have a sum of 0, those with +inf are NaN without it. */
INLINE float base_of(double max)
{
    return isfinite(max) ? (float)max : 0;
}

/* A line at a time, with a running maximum. */
INLINE void sum_row_of(const void *x, ts_dtype t, int64_t at, int64_t n, const ts_xe_form *f,
                       ts_xe_row *r, ts_xe_kept *kept)
{
    double m = -INFINITY;
    r->sum = r->z_sum = 0;
    for (int64_t i = 0; i < n; i += TS_XE_LINE) {
        const int64_t words = ts_lesser(TS_XE_LINE, n - i);
        float other[TS_XE_LINE], *const line = kept ? kept->e + i : other;
        const double here = (double)fill_line(x, t, at + i, words, f, line);
        const double now = here > m ? here : m;
        for (int64_t k = 0; k < words && f->means; k++) r->z_sum += (double)line[k];
        if (now != m && r->sum > 0) r->sum *= exp(m - now);
        r->sum += weigh_line(line, words, base_of(now));
        if (kept) kept->base[i / TS_XE_LINE] = base_of(now);
        m = now;
    }
    r->max = m;
}

/* Exponentials that were not kept are computed again. */
INLINE void grade_row_of(const void *x, void *dx, ts_dtype t, int64_t at, int64_t n,
                         const ts_xe_form *f, const ts_xe_row *r, ts_xe_kept *kept, int32_t target,
                         float g)
{
    const char *const from = (const char *)x + bytes_of(t, at);
    char *const       to = (char *)dx + bytes_of(t, at);
    const int64_t     group = target / LANES * LANES;
    float             less[2][LANES]; /* of other groups; of the target's */
    for (int j = 0; j < LANES; j++) less[0][j] = less[1][j] = -f->smooth;
    less[1][target - group] -= f->hit;
    for (int64_t i = 0; i < n; i += TS_XE_LINE) {
        const int64_t words = ts_lesser(TS_XE_LINE, n - i);
        float other[TS_XE_LINE], *const line = kept ? kept->e + i : other;
        const float  base = kept ? kept->base[i / TS_XE_LINE] : base_of(r->max);
        const double share = exp((double)base - r->lse) * (1 + (double)f->z2 * r->lse);
        if (!kept) fill_line(x, t, at + i, words, f, line);
        if (!kept) weigh_line(line, words, base);
        for (int64_t k = 0; k < words; k += LANES) {
            const int64_t c = bytes_of(t, i + k);
            const int     some = (int)ts_lesser(LANES, words - k);
            vec           q = madd(get(line + k), splat((float)share), get(less[i + k == group]));
            if (f->softcap > 0) {
                const vec y = tanh_of(fetch(from + c, t, some), f->softcap);
                q = mul(q, nmadd(y, y, splat(1)));
            }
            leave(to + c, t, some, mul(q, splat(g)));
        }
    }
}

static void sum_row(const void *x, ts_dtype t, int64_t at, int64_t n, const ts_xe_form *f,
                    ts_xe_row *r, ts_xe_kept *kept)
{
    if (t == TS_F32) sum_row_of(x, TS_F32, at, n, f, r, kept);
    else if (t == TS_F16) sum_row_of(x, TS_F16, at, n, f, r, kept);
    else sum_row_of(x, TS_BF16, at, n, f, r, kept);
}

static void grade_row(const void *x, void *dx, ts_dtype t, int64_t at, int64_t n,
                      const ts_xe_form *f, const ts_xe_row *r, ts_xe_kept *kept, int32_t target,
                      float g)
{
    if (t == TS_F32) grade_row_of(x, dx, TS_F32, at, n, f, r, kept, target, g);
    else if (t == TS_F16) grade_row_of(x, dx, TS_F16, at, n, f, r, kept, target, g);
    else grade_row_of(x, dx, TS_BF16, at, n, f, r, kept, target, g);
}

static const ts_xe_steps steps = { widen_row, forward, backward, sum_row, grade_row };

ts_status SIMD(ts_cross_entropy)(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_threads(args, x, &steps);
}

ts_status SIMD(ts_cross_entropy_logits)(const void *args, const ts_exec *x)
{
    return ts_cross_entropy_logits_threads(args, x, &steps);
}

#endif
