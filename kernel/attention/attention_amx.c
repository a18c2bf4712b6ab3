/* SPDX-License-Identifier: Apache-2.0 */
/* attention_amx.c - forward in AMX tiles of BF16.
 *
 * K and V are packed once for all queries of their heads, in two layouts: S = Q K' sums over
 * elements, O = P V over keys. Then each thread takes some queries at a time, in strips, against a
 * block of keys: it computes S, converts rows of S to P, and adds to the sums O. P is rounded to
 * BF16; the sums of weights are not.
 *
 * Maxima are those of q.k without the scale, so the scale must not be negative: its sign is moved
 * to q. A scale of 0 is moved there, too. */
#include "attention_amx.h"

enum {
    BLOCK = 256,
    QUERIES = 128,
    WIDE = BLOCK + 32, /* elements from one row of a block to the next: rows of a power of 2 would
                          all be in the same few sets of a cache */
};

typedef struct packed {
    uint16_t *k, *v; /* [batch][kv head][strip of keys][tiles of a strip] */
    int64_t   head;  /* elements of one head in either */
} packed;

typedef struct work {
    const ts_flash_attention_args *a;
    const uint16_t                *k, *v; /* packed, of this head */
    int64_t                        dim;   /* strips(head_dim) strips */
    int64_t                        len;
    float                          scale; /* to powers of 2 */
    uint16_t                      *q;     /* [QUERIES][dim] */
    float                         *o;     /* [QUERIES][dim] */
    float                         *max;   /* [QUERIES] */
    float                         *sum;   /* [QUERIES][LANES] */
    float                         *s;     /* [STRIP][WIDE]: scores, then weights */
} work;

/* A strip of queries and a block of keys. */
typedef struct stage {
    const work *w;
    int64_t     row, i;      /* the first query: in w, and in the head */
    int64_t     begin, end;  /* keys */
    float       less[STRIP]; /* what is taken off the scaled scores of a row */
} stage;

/* ---- scores ---- */

static void multiply_keys(const stage *t)
{
    const work   *w = t->w;
    const int64_t n = strips(t->end - t->begin), c = w->dim / STRIP;
    const pair    q = rows_at(w->q + t->row * w->dim, w->dim);
    for (int64_t j = 0; j < n; j++) {
        const pair k = tiles_at(w->k + (t->begin + j * STRIP) * w->dim, c * TILE, TILE);
        product(w->s + j * STRIP, WIDE, false, &q, &k, c);
    }
}

/* Those that a query does not see become -inf. */
static void hide(const stage *t)
{
    const ts_attention_dims *d = &t->w->a->d;
    const int64_t            n = strips(t->end - t->begin) * STRIP;
    const int64_t            last = ts_lesser(t->i + STRIP, d->n_q) - 1;
    if (ts_attention_first(d, last) <= t->begin &&
        ts_attention_end(d, t->w->len, t->i) >= t->begin + n)
        return;
    for (int64_t r = 0; r < STRIP; r++) {
        const int64_t from = ts_attention_first(d, t->i + r) - t->begin;
        const int64_t to = ts_attention_end(d, t->w->len, t->i + r) - t->begin;
        float *const  s = t->w->s + r * WIDE;
        for (int64_t c = 0; c < n; c += LANES)
            put(s + c, _mm512_mask_mov_ps(splat(-INFINITY), lanes(from - c, to - c), get(s + c)));
    }
}

/* ---- weights ---- */

INLINE void keep_row(const work *w, int64_t row, vec keep)
{
    float *const o = w->o + row * w->dim, *const sum = w->sum + row * LANES;
    put(sum, mul(get(sum), keep));
    for (int64_t c = 0; c < w->dim; c += LANES) put(o + c, mul(get(o + c), keep));
}

/* The largest scores so far, and what rows keep of what they have summed. Where the largest is -inf
 * still, scores are taken relative to any number, for -inf less -inf would be NaN. Where it is
 * +inf, NaN is right. */
static void raise(stage *t)
{
    const work   *w = t->w;
    const int64_t n = strips(t->end - t->begin) * STRIP;
    const vec     by = splat(w->scale), none = splat(-INFINITY);
    float         top[STRIP], keep[LANES];
    for (int64_t r = 0; r < STRIP; r++) {
        const float *s = t->w->s + r * WIDE;
        vec          one = none, two = none;
        for (int64_t c = 0; c < n; c += STRIP) {
            one = larger(get(s + c), one);
            two = larger(get(s + c + LANES), two);
        }
        top[r] = _mm512_reduce_max_ps(larger(one, two));
    }
    for (int r = 0; r < STRIP; r += LANES) {
        float *const    at = w->max + t->row + r;
        const vec       before = get(at), max = larger(get(top + r), before);
        const __mmask16 nothing = _mm512_cmp_ps_mask(max, none, _CMP_EQ_OQ);
        const vec       less = mul(_mm512_mask_mov_ps(max, nothing, splat(0)), by);
        put(at, max);
        put(t->less + r, less);
        put(keep, mul(boosted(_mm512_fmsub_ps(before, by, less)), splat(0x1p-40f)));
        for (unsigned m = _mm512_cmp_ps_mask(max, before, _CMP_NEQ_UQ); m; m &= m - 1)
            keep_row(w, t->row + r + __builtin_ctz(m), splat(keep[__builtin_ctz(m)]));
    }
}

/* Row r of scores becomes weights, in its own place, which is twice as wide as these are. */
INLINE void weigh(const stage *t, int64_t r)
{
    const work   *w = t->w;
    const int64_t n = t->end - t->begin;
    const vec     by = splat(w->scale), less = splat(t->less[r]);
    float *const s = w->s + r * WIDE, *const sum = w->sum + (t->row + r) * LANES;
    uint16_t *const p = (uint16_t *)(void *)s;
    vec             one = get(sum), two = splat(0);
    for (int64_t c = 0; c < n; c += STRIP) {
        const vec x = boosted(_mm512_fmsub_ps(get(s + c), by, less));
        const vec y = boosted(_mm512_fmsub_ps(get(s + c + LANES), by, less));
        one = add(one, x), two = add(two, y);
        _mm512_store_si512(p + c, halves(x, y));
    }
    put(sum, add(one, two));
}

/* ---- values ---- */

static void multiply_values(const stage *t)
{
    const work   *w = t->w;
    const int64_t n = strips(t->end - t->begin), c = w->dim / STRIP;
    const pair    p = rows_at((const uint16_t *)(const void *)w->s, 2 * WIDE);
    for (int64_t e = 0; e < c; e++) {
        const pair v = tiles_at(w->v + t->begin * w->dim + e * 2 * TILE, TILE, c * 2 * TILE);
        product(w->o + t->row * w->dim + e * STRIP, w->dim, true, &p, &v, n);
    }
}

/* ---- a piece ---- */

/* Infinite and NaN times 0 is NaN, as the score is. */
static void scale_queries(const work *w, int64_t n, double scale)
{
    const __m512i sign = _mm512_set1_epi16((short)0x8000), inf = _mm512_set1_epi16(255 << 7);
    for (int64_t c = 0; c < n && scale <= 0; c += STRIP) {
        const __m512i   q = _mm512_load_si512(w->q + c);
        const __mmask32 finite = _mm512_cmpneq_epi16_mask(_mm512_and_si512(q, inf), inf);
        _mm512_store_si512(w->q + c, scale < 0
                                         ? _mm512_xor_si512(q, sign)
                                         : _mm512_mask_mov_epi16(_mm512_set1_epi16(0x7fc0), finite,
                                                                 _mm512_setzero_si512()));
    }
}

static void store(const work *w, const ts_attention_piece *p)
{
    const ts_attention_dims *d = &w->a->d;
    const double             scale = d->scale == 0 ? 1 : fabs(d->scale);
    float *const             lse = w->a->lse;
    uint16_t *const          o = w->a->o;
    for (int64_t i = p->begin; i < p->end; i++) {
        const int64_t r = i - p->begin;
        const double  sum = (double)total(get(w->sum + r * LANES));
        const vec     by = splat(sum != 0 ? (float)(1 / sum) : 0);
        store_bf16(o + ts_attention_row(d, d->n_q_head, d->n_q, p->batch, p->head, i),
                   w->o + r * w->dim, d->head_dim, by);
        if (lse)
            lse[(p->batch * d->n_q_head + p->head) * d->n_q + i] =
                (float)((double)w->max[r] * scale + (log(sum) - BOOST * LN_2));
    }
}

static void do_stage(stage *t)
{
    multiply_keys(t);
    hide(t);
    raise(t);
    for (int64_t r = 0; r < STRIP; r++) weigh(t, r);
    multiply_values(t);
}

static void load_queries(work *w, const ts_attention_piece *p, int64_t n)
{
    const ts_attention_dims *d = &w->a->d;
    const head               h = head_of(d, w->a->q, d->n_q_head, d->n_q, p->batch, p->head);
    for (int64_t r = 0; r < n; r += STRIP) copy_rows(w->q + r * w->dim, &h, p->begin + r);
    scale_queries(w, n * w->dim, d->scale);
    memset(w->o, 0, (size_t)(n * w->dim) * sizeof *w->o);
    memset(w->sum, 0, (size_t)(n * LANES) * sizeof *w->sum);
    for (int64_t r = 0; r < n; r++) w->max[r] = -INFINITY;
}

static void do_piece(work *w, const packed *k, const ts_attention_piece *p)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            kv_head = p->head / (d->n_q_head / d->n_kv_head);
    const int64_t            n = strips(p->end - p->begin) * STRIP;
    const int64_t            first = ts_attention_first(d, p->begin) / STRIP * STRIP;
    w->k = k->k + (p->batch * d->n_kv_head + kv_head) * k->head;
    w->v = k->v + (p->batch * d->n_kv_head + kv_head) * k->head;
    w->len = ts_attention_keys(d, w->a->kv_len, p->batch);
    load_queries(w, p, n);
    for (int64_t b = first; b < ts_attention_end(d, w->len, p->end - 1); b += BLOCK)
        for (int64_t r = 0; r < n; r += STRIP) {
            const int64_t i = p->begin + r, last = ts_lesser(i + STRIP, p->end) - 1;
            stage         t = { .w = w, .row = r, .i = i };
            t.begin = ts_greater(b, ts_attention_first(d, i) / STRIP * STRIP);
            t.end = ts_lesser(b + BLOCK, ts_attention_end(d, w->len, last));
            if (t.begin < t.end) do_stage(&t);
        }
    store(w, p);
}

/* ---- the call ---- */

/* Floats; rows are whole lines. */
static int64_t scratch_of(const ts_attention_dims *d)
{
    const int64_t dim = strips(d->head_dim) * STRIP;
    return QUERIES * dim / 2 + QUERIES * dim + STRIP * WIDE + QUERIES * (1 + LANES);
}

/* Elements of a head's packed keys. */
static int64_t head_elements(const ts_attention_dims *d)
{
    return strips(d->n_k) * STRIP * strips(d->head_dim) * STRIP;
}

static int64_t n_pieces(const ts_attention_dims *d)
{
    return d->n_batch * d->n_q_head * ts_ceil_div(d->n_q, QUERIES);
}

/* Of threads; 0 where the packed keys are more than 4 MiB and twice q, k, v and o as floats. */
static int64_t count_threads(const ts_attention_dims *d, const ts_exec *x)
{
    const int64_t q = d->n_batch * d->n_q_head * d->n_q * d->head_dim;
    const int64_t heads = d->n_batch * d->n_kv_head, k = heads * d->n_k * d->head_dim;
    const int64_t room = (1 << 20) + 4 * q + 4 * k - LINE;
    if (heads > 0 && head_elements(d) > room / heads) return 0;
    return threads_for(d, x, n_pieces(d), room - heads * head_elements(d), scratch_of(d));
}

ts_status ts_flash_attention_amx_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    const ts_attention_dims *d = &((const ts_flash_attention_args *)args)->d;
    const int64_t            n = count_threads(d, x), heads = d->n_batch * d->n_kv_head;
    const size_t    mine = (size_t)(heads * head_elements(d) + n * scratch_of(d)) * sizeof(float);
    const ts_status s = ts_attention_threads_workspace(args, x, n_bytes);
    if (n > 0 && *n_bytes < mine + LINE) *n_bytes = mine + LINE;
    return s;
}

/* Strip number i of all keys, and a strip of queries to look at. */
static bool pack(const ts_flash_attention_args *a, const packed *k, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = strips(d->n_k), each = STRIP * strips(d->head_dim) * STRIP;
    const int64_t            b = i / n / d->n_kv_head, h = i / n % d->n_kv_head, j = i % n * STRIP;
    head                     keys = head_of(d, a->k, d->n_kv_head, d->n_k, b, h), values = keys;
    values.at = head_of(d, a->v, d->n_kv_head, d->n_k, b, h).at;
    keys.n = values.n = ts_attention_keys(d, a->kv_len, b);
    return pack_across(k->k + i * each, &keys, j) | pack_along(k->v + i * each, &values, j, false);
}

static bool look(const ts_flash_attention_args *a, int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = strips(d->n_q);
    const head h = head_of(d, a->q, d->n_q_head, d->n_q, i / n / d->n_q_head, i / n % d->n_q_head);
    __mmask32  odd = 0;
    for (int64_t r = 0; r < STRIP; r++)
        for (int64_t c = 0; c < h.dim; c += STRIP) odd |= odd_ones(part(&h, i % n * STRIP + r, c));
    return odd;
}

static work work_at(const ts_flash_attention_args *a, float *scratch)
{
    const int64_t dim = strips(a->d.head_dim) * STRIP;
    work          w = { .a = a, .dim = dim };
    w.scale = a->d.scale == 0 ? 1 : (float)(fabs(a->d.scale) * LOG2_E);
    w.o = scratch, w.s = w.o + QUERIES * dim, w.sum = w.s + STRIP * WIDE;
    w.max = w.sum + QUERIES * LANES, w.q = (uint16_t *)(void *)(w.max + QUERIES);
    return w;
}

/* False: something was odd, and nothing has been written. */
static bool attend(const ts_flash_attention_args *a, const ts_exec *x, int64_t n_threads)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            heads = d->n_batch * d->n_kv_head, scratch = scratch_of(d);
    const int64_t            n_tiles = ts_ceil_div(d->n_q, QUERIES), each = head_elements(d);
    uint16_t *const          k = (uint16_t *)(void *)aligned(x);
    const packed             keys = { k, k + heads * each, each };
    float *const             room = aligned(x) + heads * each;
    const int64_t            n = heads * strips(d->n_k);
    const int64_t            n_look = n + d->n_batch * d->n_q_head * strips(d->n_q);
    int                      odd = 0;
#pragma omp parallel num_threads((int)n_threads)
    {
#pragma omp for reduction(| : odd)
        for (int64_t i = 0; i < n_look; i++) odd |= i < n ? pack(a, &keys, i) : look(a, i - n);
        work w = work_at(a, room + omp_get_thread_num() * scratch);
        if (!odd) take_tiles(16);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < (odd ? 0 : n_pieces(d)); i++) {
            const int64_t h = i / n_tiles;
            const int64_t begin = (n_tiles - 1 - i % n_tiles) * QUERIES; /* most keys first */
            const ts_attention_piece p = { h / d->n_q_head, h % d->n_q_head, begin,
                                           ts_lesser(begin + QUERIES, d->n_q) };
            do_piece(&w, &keys, &p);
        }
        if (!odd) leave_tiles();
    }
    return !odd;
}

ts_status ts_flash_attention_amx(const void *args, const ts_exec *x)
{
    const ts_flash_attention_args *a = args;
    const int64_t                  n = count_threads(&a->d, x);
    if (n == 0 || odd_scale(a->d.scale) || !attend(a, x, n))
        return ts_flash_attention_avx512(args, x);
    return TS_OK;
}
