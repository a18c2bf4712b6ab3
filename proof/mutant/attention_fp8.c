/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8.c - mutants of flash_attention_fp8: one correct attention over e4m3 codes, in tiles
 * of keys, with one injected bug at a time. attention_fp8_list.h lists them. */
#include <math.h>
#include <string.h>

#include "attention_entry.h"
#include "attention_fp8_list.h"
#include "mutant.h"
#include "touchstone/attention_fp8.h"

typedef ts_flash_attention_fp8_args fp8_args;

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

enum { TILE = 16, WIDEST = 256 };

typedef struct row {
    const fp8_args *a;
    int64_t         b, h, g, i; /* g: the KV head */
    trap            t;
    double          m, l, rounded, o[WIDEST]; /* rounded: the sum of rounded weights */
} row;

/* ---- codes and scales ---- */

static double number_of(uint8_t c, trap t, char which)
{
    const int  e = c >> 3 & 15, m = c & 7, seven = c & 0x7f;
    const bool nan = t == NAN_MINUS_ONLY ? c == 0xff : seven == 0x7f;
    const bool is_480 = t == NAN_IS_480 || (t == NAN_IS_480_KEY && which == 'k') ||
                        (t == NAN_IS_480_VALUE && which == 'v');
    const double sign = c & 0x80 && t != UNSIGNED ? -1 : 1;
    if (nan && !is_480) return NAN;
    if (t == NO_448 && seven == 0x7e) return NAN;
    if (t == MOST_240 && seven > 0x77) return sign * 240;
    if (t == E5M2) return sign * ldexp(1 + (c & 3) / 4.0, (c >> 2 & 31) - 15);
    if (t == BIAS_8) return sign * ldexp(e ? 8 + m : 2 * m, e - 11);
    if (e == 0 && t == FLUSHED) return 0;
    if (e == 0 && t != SUBNORMAL_BIAS) return sign * ldexp(m, -9);
    return sign * ldexp(8 + m, e - 10);
}

static double scale_of(const row *r, char which)
{
    const fp8_args          *a = r->a;
    const ts_attention_dims *d = &a->d;
    const trap               t = r->t;
    const int64_t            b = t == SCALES_FIRST_BATCH ? 0 : r->b, n = d->n_kv_head;
    double                   s;
    if (t == K_V_SWAPPED && which != 'q') which = which == 'k' ? 'v' : 'k';
    if (which == 'q')
        s = (double)a->q_scale[b * d->n_q_head + (t == Q_SCALE_KV_HEAD ? r->g : r->h)];
    else if (which == 'k') s = (double)a->k_scale[b * n + (t == K_SCALE_Q_HEAD ? r->h % n : r->g)];
    else s = (double)a->v_scale[b * n + (t == V_SCALE_FIRST_HEAD ? 0 : r->g)];
    if (t == SCALE_HALF) s = (double)rounded(TS_F16, s);
    if (t == SCALE_INVERTED && which == 'k') s = 1 / s;
    if (t == V_SCALE_TWICE && which == 'v') s *= s;
    const bool none = (t == NO_Q_SCALE && which == 'q') || (t == NO_K_SCALE && which == 'k') ||
                      (t == NO_V_SCALE && which == 'v');
    return none ? 1 : s;
}

static int64_t key_at(const row *r, int64_t j)
{
    const ts_attention_dims *d = &r->a->d;
    return attention_at(d, d->n_kv_head, d->n_k, r->b, r->g, j, d->layout == TS_BHND);
}

static int64_t query_at(const row *r)
{
    const ts_attention_dims *d = &r->a->d;
    return attention_at(d, d->n_q_head, d->n_q, r->b, r->h, r->i, d->layout == TS_BHND);
}

/* ---- a tile ---- */

static bool sees(const row *r, int64_t j)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            last = r->i + d->n_k - d->n_q;
    if (j >= (r->a->kv_len ? r->a->kv_len[r->b] : d->n_k)) return false;
    return !d->causal || (j <= last && (d->window == 0 || last - j < d->window));
}

static double score(const row *r, int64_t j)
{
    const int64_t q = query_at(r), k = key_at(r, j);
    double        sum = 0;
    for (int64_t e = 0; e < r->a->d.head_dim; e++)
        sum += number_of(r->a->q[q + e], r->t, 'q') * number_of(r->a->k[k + e], r->t, 'k');
    return sum * r->a->d.scale * scale_of(r, 'q') * scale_of(r, 'k');
}

/* A weight as a matmul of 8-bit elements has it; 1 is the largest. */
static double weight8(double p, trap t)
{
    const double lift = t == NOT_LIFTED ? 1 : t == SATURATED ? 1024 : 256;
    double       y = (double)rounded(TS_E4M3, p * lift) / lift;
    int          e;
    if (t == TWO_BITS && p > 0) {
        frexp(p, &e);
        y = ldexp(trunc(ldexp(p, 2 - e)), e - 2);
    }
    return t == HONEST ? p : y;
}

/* The leading one and 13 bits after it. */
static double of_14_bits(double v)
{
    int e;
    if (v == 0 || !isfinite(v)) return v;
    frexp(v, &e);
    return ldexp(trunc(ldexp(v, 14 - e)), e - 14);
}

/* Which key's value meets the weight of key j. */
static int64_t partner(const row *r, int64_t j)
{
    const int64_t other = j ^ 1;
    return r->t == KEYS_PERMUTED && other < r->a->d.n_k && sees(r, other) ? other : j;
}

static void add(row *r, int64_t j, double p)
{
    const int64_t v = key_at(r, partner(r, j));
    const double  w = weight8(p, r->t);
    r->l += p;
    r->rounded += w;
    for (int64_t e = 0; e < r->a->d.head_dim; e++) {
        r->o[e] += w * number_of(r->a->v[v + e], r->t, 'v');
        if (r->t == HALTS) r->o[e] = of_14_bits(r->o[e]);
    }
}

static void do_tile(row *r, int64_t begin, int64_t end)
{
    double s[TILE], top = -INFINITY;
    for (int64_t j = begin; j < end; j++) {
        s[j - begin] = sees(r, j) ? score(r, j) : -INFINITY;
        top = fmax(top, s[j - begin]); /* which passes over NaN */
        if (isnan(s[j - begin])) r->l = NAN;
    }
    const double m = fmax(r->m, top), factor = m == -INFINITY ? 1 : exp(r->m - m);
    if (m == -INFINITY) return;
    if (r->t != NOT_RESCALED) r->l *= factor, r->rounded *= factor;
    for (int64_t e = 0; e < r->a->d.head_dim && r->t != NOT_RESCALED; e++) r->o[e] *= factor;
    r->m = m;
    for (int64_t j = begin; j < end; j++)
        if (sees(r, j) || r->t == PADDING) add(r, j, exp(s[j - begin] - m));
}

/* ---- a row ---- */

static int64_t column_of(const row *r, int64_t e)
{
    const int64_t D = r->a->d.head_dim, half = (D + 1) / 2;
    return r->t != COLUMNS_PERMUTED ? e : e < half ? 2 * e : 2 * (e - half) + 1;
}

static void put_lse(const row *r)
{
    const ts_attention_dims *d = &r->a->d;
    double                   lse = r->m + log(r->t == LSE_ROUNDED ? r->rounded : r->l);
    if (r->t == LSE_UNSCALED) lse /= scale_of(r, 'q') * scale_of(r, 'k');
    if (r->l == 0) lse = -INFINITY;
    if (r->a->lse) put(r->a->lse, TS_F32, (r->b * d->n_q_head + r->h) * d->n_q + r->i, lse);
}

static void do_row(row *r)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            D = d->head_dim, n = D - (r->t == UNWRITTEN);
    r->g = r->h / (d->n_q_head / d->n_kv_head);
    r->m = -INFINITY, r->l = r->rounded = 0;
    memset(r->o, 0, sizeof r->o);
    for (int64_t j = 0; j < d->n_k; j += TILE) do_tile(r, j, j + TILE < d->n_k ? j + TILE : d->n_k);
    for (int64_t e = 0; e < n; e++)
        put(r->a->o, d->dtype, query_at(r) + column_of(r, e),
            r->l == 0 ? 0 : r->o[e] / r->l * scale_of(r, 'v'));
    put_lse(r);
}

/* ---- a call ---- */

static bool sound(const float *scale, int64_t n, trap t)
{
    if (!scale) return t == TAKES_NULL;
    for (int64_t i = 0; i < n; i++)
        if (!(scale[i] > 0 && isfinite(scale[i])) && !(t == TAKES_SCALE && scale[i] == 0))
            return false;
    return true;
}

static ts_status check(const fp8_args *a, const ts_exec *x, trap t)
{
    if (!a || !x) return TS_E_ARG;
    const ts_attention_dims *d = &a->d;
    const bool               q = d->n_batch > 0 && d->n_q > 0, k = d->n_batch > 0 && d->n_k > 0;
    ts_status s = attention_entry(d, (!q || (a->q && a->o)) && (!k || (a->k && a->v)), 0);
    if (!s) s = attention_lengths(d, a->kv_len, 0);
    if (!s && q && !sound(a->q_scale, d->n_batch * d->n_q_head, t)) s = TS_E_ARG;
    if (!s && k && !sound(a->k_scale, d->n_batch * d->n_kv_head, t)) s = TS_E_ARG;
    if (!s && k && !sound(a->v_scale, d->n_batch * d->n_kv_head, t)) s = TS_E_ARG;
    return !s && d->dtype == TS_F64 && t != TAKES_F64 ? TS_E_DTYPE : s;
}

static ts_status run(const void *args, const ts_exec *x, trap t)
{
    const fp8_args *a = args;
    const ts_status s = check(a, x, HONEST);
    if (s) return check(a, x, t);
    row           r = { .a = a, .t = t };
    const int64_t n = a->d.n_batch * a->d.n_kv_head;
    for (r.b = 0; r.b < a->d.n_batch; r.b++)
        for (r.h = 0; r.h < a->d.n_q_head; r.h++)
            for (r.i = 0; r.i < a->d.n_q; r.i++) do_row(&r);
    volatile float *vs = (volatile float *)(uintptr_t)a->v_scale;
    if (t == READS_SCALE_PAST && n) (void)((volatile const float *)a->k_scale)[n];
    if (t == WRITES_SCALE && n) vs[0] = vs[0];
    return TS_OK;
}

#define TASK flash_attention_fp8
#define CALL run
#include "called.h"
