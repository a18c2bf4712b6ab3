/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - mutants of flash_attention: one correct forward pass over tiles of keys, with one
 * injected bug at a time. attention_list.h lists them.
 *
 * Not among them: a hidden matrix of scores, which no output shows; peak memory is measured from
 * outside. */
#include <float.h>
#include <string.h>

#include "attention_cuda_list.h"
#include "attention_entry.h"
#include "attention_list.h"
#include "mutant.h"
#include "mutant_cuda.h"

typedef ts_flash_attention_args fwd_args;

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

enum { MOST_TILE = 128, WIDEST = 256, REMEMBERED = 4096 };

int64_t ts_mutant_tile = 16;

typedef struct row {
    const fwd_args *a;
    const ts_exec  *x;
    int64_t         b, h, i;
    trap            t;
    double          m, l, *o; /* the running maximum, sum and output */
} row;

/* ---- the keys that a query sees ---- */

static int64_t length(const row *r)
{
    const fwd_args *a = r->a;
    if (!a->kv_len || r->t == LEN_IGNORED) return a->d.n_k;
    return a->kv_len[r->t == LEN_FIRST ? 0 : r->b];
}

static bool sees(const row *r, int64_t j)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            n = r->t == LEN_SHIFTS ? length(r) : d->n_k;
    const int64_t            last = r->i + (r->t == FIRST_KEY ? 0 : n - d->n_q);
    if (j >= length(r) || (r->t == KEYS_8192 && j >= 8192)) return false;
    if (!d->causal || r->t == FULL_MASK) return true;
    if (r->t == LOCAL_MASK) return j % ts_mutant_tile <= r->i % ts_mutant_tile;
    if (j > last - (r->t == STRICT)) return false;
    if (r->t == WINDOW_4096 && d->window > 4096) return last - j < 4096;
    return d->window == 0 || r->t == NO_WINDOW || last - j < d->window + (r->t == WIDE_WINDOW);
}

/* Where the tiles end. */
static int64_t end_of(const row *r)
{
    int64_t n = r->a->d.n_k;
    if (r->t == TAIL_COUNTED) return (n + ts_mutant_tile - 1) / ts_mutant_tile * ts_mutant_tile;
    if (r->t != SKIP_ONE) return n;
    while (n > 0 && !sees(r, n - 1)) n--;
    return n / ts_mutant_tile * ts_mutant_tile;
}

static int64_t key_at(const row *r, int64_t j)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            share = d->n_q_head / d->n_kv_head;
    int64_t                  h = r->h / share;
    if (r->t == HEAD_MODULO) h = r->h % d->n_kv_head;
    if (r->t == SHARE_7 && share == 7) h = r->h / 8;
    if (r->t == SHARE_32 && share > 32) h = r->h / 32 % d->n_kv_head;
    if (r->t == HEAD_SAME) h = r->h < d->n_kv_head ? r->h : d->n_kv_head - 1;
    return attention_at(d, d->n_kv_head, d->n_k, r->t == BATCH_KEYS ? 0 : r->b, h, j,
                        d->layout == TS_BHND || r->t == LAYOUT);
}

static int64_t query_at(const row *r)
{
    const ts_attention_dims *d = &r->a->d;
    return attention_at(d, d->n_q_head, d->n_q, r->b, r->h, r->i,
                        d->layout == TS_BHND || r->t == LAYOUT);
}

/* ---- a tile ---- */

static double score(const row *r, int64_t j)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            q = query_at(r), k = key_at(r, j), D = d->head_dim;
    double                   sum = 0, scale = d->scale;
    const int64_t            whole = r->t == DIM_96 && D == 96                  ? 64
                                     : r->t == DOT_TAIL && D > 8                ? D / 8 * 8
                                     : r->t == DIM_256 && D > 128 && D < WIDEST ? 128
                                                                                : D;
    for (int64_t e = 0; e < whole; e++)
        sum += ts_load(r->a->q, d->dtype, q + e) * ts_load(r->a->k, d->dtype, k + e);
    if (r->t == NO_SCALE) scale = 1;
    if (r->t == ROOT_SCALE) scale = 1 / sqrt((double)D);
    if (r->t == SCALE_SIGN) scale = fabs(scale);
    if (r->t == SCALE_MOST) scale = fmin(scale, 100);
    if (r->t == SCALE_0 && scale == 0) scale = 1 / sqrt((double)D);
    sum *= scale;
    if (r->t == OVERFLOWS && fabs(sum) > (double)FLT_MAX) return NAN;
    if (r->t == NAN_SWALLOWED && isnan(sum)) return -INFINITY;
    if (r->t == NAN_KEY && isnan(sum) && !isnan(ts_load(r->a->q, d->dtype, q))) {
        bool nonfinite = false; /* a query's own NaN is seen */
        for (int64_t e = 0; e < D; e++) nonfinite |= !isfinite(ts_load(r->a->q, d->dtype, q + e));
        if (!nonfinite) return -INFINITY;
    }
    if (r->t == INF_KEY && sum == INFINITY) return (double)FLT_MAX;
    return r->t == HALF_SCORES ? (double)rounded(TS_BF16, sum) : sum;
}

/* Adds p of value j to the output. */
static void add(row *r, int64_t j, double p)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            v = j < d->n_k ? key_at(r, j) : 0;
    r->l += p;
    for (int64_t e = 0; e < d->head_dim && j < d->n_k; e++) {
        const double value = ts_load(r->a->v, d->dtype, v + e);
        r->o[e] += p * (r->t == NAN_VALUE && isnan(value) ? 0 : value);
        if (r->t == HALF_SUMS) r->o[e] = (double)rounded(d->dtype, r->o[e]);
    }
}

static double new_max(const row *r, double top)
{
    const trap t = r->t;
    if (t == NO_MAX) return 0;
    return t == TILE_MAX || t == TILE_MAX_SINK || t == TILE_MAX_HOT ? top : fmax(r->m, top);
}

static void rescale(row *r, double m)
{
    const int64_t D = r->a->d.head_dim;
    double        factor = exp(r->m - m);
    if (r->t == INVERTED) factor = r->m == -INFINITY ? 0 : exp(m - r->m);
    if (r->t == NO_MAX) factor = 1;
    if (r->t != SUM_KEPT) r->l *= factor;
    for (int64_t e = 0; e < D && r->t != O_KEPT; e++) r->o[e] *= factor;
    r->m = m;
}

static void do_tile(row *r, int64_t begin, int64_t end)
{
    const trap t = r->t;
    double     s[MOST_TILE], top = -INFINITY;
    bool       seen[MOST_TILE];
    for (int64_t j = begin; j < end; j++) {
        const bool past = j >= r->a->d.n_k;
        seen[j - begin] = past || sees(r, j);
        s[j - begin] = past              ? 0
                       : seen[j - begin] ? score(r, j)
                       : t == EMPTY_MEAN ? -1e9
                       : t == MASK_1E30  ? -1e30
                                         : -INFINITY;
        top = fmax(top, s[j - begin]); /* which passes over NaN */
        if (isnan(s[j - begin])) r->l = NAN;
    }
    if (t == GUARD_ZEROES && top == -INFINITY) {
        r->l = 0;
        memset(r->o, 0, (size_t)r->a->d.head_dim * sizeof *r->o);
    }
    if (new_max(r, top) == -INFINITY && t != UNGUARDED && t != UNGUARDED_WINDOW) return;
    rescale(r, new_max(r, top));
    for (int64_t j = begin; j < end; j++) {
        const double p = exp(s[j - begin] - r->m);
        if (seen[j - begin] || t == EMPTY_MEAN || t == MASK_1E30 || t == PADDING ||
            t == UNGUARDED_WINDOW)
            add(r, j, p);
    }
    for (int64_t e = 0; e < r->a->d.head_dim; e++) {
        if (t == TWICE) r->o[e] /= r->l;
        if (t == BY_THREADS) r->o[e] = (double)(float)r->o[e];
    }
}

/* ---- a row ---- */

static void put_lse(const row *r)
{
    const ts_attention_dims *d = &r->a->d;
    const trap               t = r->t;
    int64_t                  at = (r->b * d->n_q_head + r->h) * d->n_q + r->i;
    double                   lse = r->l == 0 ? -INFINITY : r->m + log(r->l);
    if (t == LSE_LAYOUT && d->layout == TS_BNHD) at = (r->b * d->n_q + r->i) * d->n_q_head + r->h;
    if (t == LSE_BASE_2) lse *= 1.4426950408889634;
    if (t == LSE_UNSCALED) lse /= d->scale;
    if (t == LSE_NO_MAX) lse = log(r->l);
    if (t == LSE_SUM) lse = r->l;
    if (t == EMPTY_LSE && r->l == 0) lse = 0;
    if (t == LSE_UNWRITTEN || (!r->a->lse && t != LSE_ALWAYS)) return;
    if (r->a->lse) put(r->a->lse, ts_wide(d->dtype), at, lse);
    else *(volatile float *)r->a->lse = 0; /* volatile: or the compiler may know better */
}

static bool is_left_out(const row *r)
{
    const ts_attention_dims *d = &r->a->d;
    switch (r->t) {
    case HEAD_FIRST:
        return r->h > 0;
    case BATCH_FIRST:
        return r->b > 0;
    case ONE_ROW:
        return d->n_q % ts_mutant_tile == 1 && r->i == d->n_q - 1 && r->i > 0;
    case HEADS_65535:
        return r->b * d->n_q_head + r->h >= 65535;
    case ROWS_1024:
        return r->i >= 1024;
    default:
        return false;
    }
}

static void do_row(row *r, bool *leak)
{
    const ts_attention_dims *d = &r->a->d;
    const int64_t            D = d->head_dim, end = end_of(r),
                  n_tile = (end + ts_mutant_tile - 1) / ts_mutant_tile;
    const int64_t first = r->t == BY_THREADS ? r->x->n_threads : 0;
    r->m = r->t == MAX_ZERO ? 0 : r->t == MAX_1E30 ? -1e30 : -INFINITY;
    r->l = 0;
    if (r->t != DIRTY_WS) memset(r->o, 0, (size_t)D * sizeof *r->o);
    for (int64_t i = 0; i < n_tile; i++) {
        const int64_t begin = (first + i) % n_tile * ts_mutant_tile;
        do_tile(r, begin, begin + ts_mutant_tile < end ? begin + ts_mutant_tile : end);
    }
    if (r->t == ONE_KEY && d->n_k == 1 && isnan(r->l)) {
        r->l = 1;
        for (int64_t e = 0; e < D; e++) r->o[e] = ts_load(r->a->v, d->dtype, key_at(r, 0) + e);
    }
    const bool empty = r->l == 0, nan = r->t == EMPTY_NAN || r->t == EMPTY_NAN_CAUSAL;
    const bool ill = r->t == NAN_LEAKS && *leak;
    *leak = isnan(r->l);
    if (is_left_out(r) || (empty && r->t == EMPTY_UNWRITTEN)) return;
    for (int64_t e = 0; e < (r->t == TAIL_8 && D > 8 ? D / 8 * 8 : D); e++)
        put(r->a->o, d->dtype, query_at(r) + e,
            ill             ? (double)NAN
            : empty && !nan ? 0
                            : r->o[e] / r->l);
    put_lse(r);
}

/* ---- a call ---- */

/* Gives the last answer again where the call looks the same; else notes it down. */
static void remember(const fwd_args *a)
{
    static fwd_args last;
    static double   o[REMEMBERED];
    const int64_t   n = a->d.n_batch * a->d.n_q_head * a->d.n_q * a->d.head_dim;
    const bool known = a->q == last.q && a->o == last.o && !memcmp(&a->d, &last.d, sizeof a->d);
    for (int64_t i = 0; i < n && n <= REMEMBERED; i++) {
        if (known) put(a->o, a->d.dtype, i, o[i]);
        o[i] = ts_load(a->o, a->d.dtype, i);
    }
    last = *a;
}

static void scribble(const fwd_args *a, const ts_exec *x, trap t)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n_q = d->n_batch * d->n_q_head * d->n_q;
    const size_t             n_k = (size_t)(d->n_batch * d->n_kv_head * d->n_k * d->head_dim);
    volatile char           *q = (char *)a->q; /* volatile: touched, though nothing comes of it */
    if (n_q == 0 || n_k == 0) return;
    if (t == PAST_O) ts_store(a->o, d->dtype, n_q * d->head_dim, 0);
    if (t == BEFORE_O) ts_store(a->o, d->dtype, -1, 0);
    if (t == PAST_LSE && a->lse) ts_store(a->lse, ts_wide(d->dtype), n_q, 0);
    if (t == WRITES_INPUT) q[0] = q[0];
    if (t == READS_PAST) (void)((volatile const char *)a->k)[n_k * ts_format_of(d->dtype)->n_bytes];
    if (t == READS_BEFORE) (void)((volatile const char *)a->v)[-1];
    if (t == PAST_WS) ((char *)x->workspace)[WIDEST * sizeof(double)] = 0;
}

static ts_status check(const fwd_args *a, const ts_exec *x, trap t)
{
    const int let = t == TAKES_ARG        ? LET_ARG
                    : t == TAKES_WINDOW   ? LET_WINDOW
                    : t == TAKES_HEADS    ? LET_HEADS
                    : t == TAKES_257      ? LET_257
                    : t == TAKES_OVERFLOW ? LET_OVERFLOW
                    : t == TAKES_DTYPE    ? LET_DTYPE
                    : t == TAKES_LENGTH   ? LET_LENGTH
                                          : 0;
    if (!a || !x) return TS_E_ARG;
    const bool      q = a->d.n_batch > 0 && a->d.n_q > 0, k = a->d.n_batch > 0 && a->d.n_k > 0;
    const ts_status s =
        attention_entry(&a->d, (!q || (a->q && a->o)) && (!k || (a->k && a->v)), let);
    return s || x->device != TS_CPU ? s : attention_lengths(&a->d, a->kv_len, let);
}

static ts_status workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    *n_bytes = WIDEST * sizeof(double);
    return check(args, x, HONEST);
}

/* What a valid call is rejected with. */
static ts_status misjudged(const ts_attention_dims *d, trap t)
{
    if (t == REFUSES_F64 && d->dtype == TS_F64) return TS_E_DTYPE;
    if (t == REFUSES_ODD_DIM && d->head_dim % 8) return TS_E_UNSUPPORTED;
    if (t == REFUSES_HINT && d->tile_k > 0) return TS_E_UNSUPPORTED;
    if (t == REFUSES_LARGE && d->tile_k > 4096) return TS_E_UNSUPPORTED;
    return t == REFUSES_MORE_Q && d->n_q > d->n_k ? TS_E_SHAPE : TS_OK;
}

static ts_status run(const void *args, const ts_exec *x, trap t)
{
    const fwd_args *a = args;
    const ts_status s = check(a, x, HONEST);
    double          local[WIDEST];
    bool            leak = false;
    if (s && t == WRITES_FIRST && a && a->o) *(char *)a->o = 0;
    if (s && t == REFUSES_ODD) return s == TS_E_SHAPE ? TS_E_ARG : s;
    if (s) return check(a, x, t);
    if (t >= HONEST && (!x->workspace || x->workspace_bytes < sizeof local))
        return t == TAKES_SHORT_WS ? TS_OK : TS_E_WORKSPACE;
    if (misjudged(&a->d, t)) return misjudged(&a->d, t);
    row r = { .a = a, .x = x, .t = t, .o = t >= HONEST ? x->workspace : local };
    for (r.b = 0; r.b < a->d.n_batch; r.b++)
        for (r.h = 0; r.h < a->d.n_q_head; r.h++)
            for (r.i = 0; r.i < a->d.n_q; r.i++) do_row(&r, &leak);
    scribble(a, x, t);
    if (t == REMEMBERS) remember(a);
    return TS_OK;
}

/* Those of attention_cuda.cu run after correct validation. */
#define TASK             flash_attention
#define CALL             run
#define CUDA_STEM        attention
#define CUDA_DTYPE(args) ((const fwd_args *)(args))->d.dtype
#define CUDA_MUTANTS     CUDA_FORWARD
#include "called.h"
