/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_amx.c - backward in AMX tiles of BF16.
 *
 * Keys are divided among threads and summed as in attention_threads.c. Before that, every operand
 * that tiles need in another order than that of memory is packed once.
 *
 * For a tile of keys and strips of queries, S = Q K' and dP = dO V' become P and dS, row by row,
 * both rounded to BF16, and give dV' += dO' P, dK' += Q' dS and dQ += dS K. dO' and Q' are packed;
 * P and dS are written in the layouts of the matmuls, by pairs of queries, and dS also by rows. */
#include "attention_amx.h"

enum {
    KEYS = 128,
    QUERIES = 128,             /* taken together: terms of dK and dV */
    WIDE = KEYS + LANES,       /* floats from one row of scores to the next */
    ROW = KEYS / STRIP * TILE, /* elements of 16 rows of dS */
    PIECES = 32,               /* wanted of a call, to keep threads level */
    MOST_SUMS = 4,             /* of one head: they bound the workspace */
};

/* Extents that are padded to strips, and what they make. */
typedef struct sizes {
    int64_t dim, n_q, n_k;   /* elements of a row, rows of a head */
    int64_t q_heads, heads;  /* of queries and of keys, over all batches */
    int64_t n_sums;          /* of dq, for each head */
    int64_t scratch, packed; /* floats: of a thread, and of all before that */
} sizes;

/* Packed tensors, head by head: across and along are of keys, turned of queries. */
typedef struct packed {
    uint16_t *k_across, *v_across, *k_along, *q_turned, *dout_turned;
    float    *lse, *delta; /* in powers of 2, +inf for a row that saw nothing; times 1 */
    float    *sums;        /* [n_sums][q head][n_q][dim] */
} packed;

typedef struct work {
    const ts_flash_attention_backward_args *a;
    const packed                           *x;
    const sizes                            *z;
    int64_t                                 batch, head; /* of keys */
    int64_t                                 begin, n;    /* the keys of the tile */
    float                                  *s, *dp;      /* [STRIP][WIDE] */
    float                                  *dkt, *dvt;   /* [dim][KEYS] */
    uint16_t                               *q, *dout;    /* [STRIP][dim], where copies are made */
    uint16_t *p_pairs, *ds_pairs; /* [QUERIES / STRIP][KEYS / 16] tiles: b over queries */
    uint16_t *ds_rows;            /* [QUERIES / 16][KEYS / STRIP] tiles: a over keys */
} work;

/* ---- P and dS ---- */

typedef struct two {
    __m512i p, ds;
} two;

/* A row's 32 keys from column c on, of which it sees [from, to). */
INLINE two weigh(const work *w, int64_t r, int64_t c, vec by, vec lse, vec delta, bool mask,
                 int64_t from, int64_t to)
{
    const float *s = w->s + r * WIDE + c, *dp = w->dp + r * WIDE + c;
    vec          p[2], ds[2];
    for (int i = 0; i < 2; i++) {
        const __mmask16 seen = mask ? lanes(from - c - i * LANES, to - c - i * LANES) : 0xffff;
        p[i] = boosted(_mm512_fmsub_ps(get(s + i * LANES), by, lse));
        ds[i] = mul(p[i], sub(get(dp + i * LANES), delta));
        if (mask) p[i] = _mm512_maskz_mov_ps(seen, p[i]), ds[i] = _mm512_maskz_mov_ps(seen, ds[i]);
    }
    return (two) { halves(p[0], p[1]), halves(ds[0], ds[1]) };
}

/* Scores of a strip, queries from i on, into the tiles of strip number t. */
INLINE void weigh_strip(const work *w, int64_t i, const float *lse, const float *delta, int64_t t,
                        bool mask)
{
    const ts_attention_dims *d = &w->a->d;
    const vec                by = splat((float)(d->scale * LOG2_E));
    for (int64_t r = 0; r < STRIP; r += 2) {
        int64_t from[2] = { 0, 0 }, to[2] = { 0, 0 };
        for (int e = 0; e < 2 && mask; e++) {
            if (lse[r + e] == INFINITY) continue;
            from[e] = ts_attention_first(d, i + r + e) - w->begin;
            to[e] = ts_attention_end(d, w->begin + w->n, i + r + e) - w->begin;
        }
        const vec     l0 = splat(lse[r]), l1 = splat(lse[r + 1]);
        const vec     d0 = splat(delta[r]), d1 = splat(delta[r + 1]);
        const int64_t row = t * 2 * ROW + r / 2 * 32;
        uint16_t     *rows = w->ds_rows + (t * 2 + r / 16) * ROW + r % 16 * 32;
        for (int64_t c = 0; c < w->n; c += STRIP) {
            const two       x = weigh(w, r, c, by, l0, d0, mask, from[0], to[0]);
            const two       y = weigh(w, r + 1, c, by, l1, d1, mask, from[1], to[1]);
            uint16_t *const p = w->p_pairs + row + c / 16 * TILE;
            uint16_t *const ds = w->ds_pairs + row + c / 16 * TILE;
            _mm512_store_si512(p, in_turn(x.p, y.p, 0));
            _mm512_store_si512(p + TILE, in_turn(x.p, y.p, 16));
            _mm512_store_si512(ds, in_turn(x.ds, y.ds, 0));
            _mm512_store_si512(ds + TILE, in_turn(x.ds, y.ds, 16));
            _mm512_store_si512(rows + c / STRIP * TILE, x.ds);
            _mm512_store_si512(rows + c / STRIP * TILE + 32, y.ds);
        }
    }
}

/* ---- queries against a tile of keys ---- */

/* Rows in place if they are whole strips. */
INLINE pair rows_of(const work *w, const void *tensor, int64_t head_q, int64_t i, uint16_t *copy)
{
    const ts_attention_dims *d = &w->a->d;
    const head               h = head_of(d, tensor, d->n_q_head, d->n_q, w->batch, head_q);
    if (h.dim == w->z->dim && i + STRIP <= h.n) return rows_at(h.at + i * h.stride, h.stride);
    copy_rows(copy, &h, i);
    return rows_at(copy, w->z->dim);
}

/* Queries [i, i + STRIP) of a head: P and dS, and what dQ gets of them. */
static void do_strip(const work *w, int64_t head_q, int64_t i, int64_t t, float *sums)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            dim = w->z->dim, c = dim / STRIP, n = strips(w->n);
    const int64_t            row = (w->batch * d->n_q_head + head_q) * w->z->n_q + i;
    const int64_t key = ((w->batch * d->n_kv_head + w->head) * w->z->n_k + w->begin) * dim;
    const pair    q = rows_of(w, w->a->q, head_q, i, w->q);
    const pair    dout = rows_of(w, w->a->dout, head_q, i, w->dout);
    const float  *lse = w->x->lse + row, *delta = w->x->delta + row;
    const int64_t last = ts_lesser(i + STRIP, d->n_q) - 1;
    const vec     dead = splat(INFINITY);
    const bool    mask = ts_attention_first(d, last) > w->begin || w->n % STRIP ||
                      ts_attention_end(d, w->begin + w->n, i) < w->begin + w->n ||
                      _mm512_cmp_ps_mask(get(lse), dead, _CMP_EQ_OQ) ||
                      _mm512_cmp_ps_mask(get(lse + LANES), dead, _CMP_EQ_OQ);
    for (int64_t j = 0; j < n; j++) {
        const pair k = tiles_at(w->x->k_across + key + j * STRIP * dim, c * TILE, TILE);
        const pair v = tiles_at(w->x->v_across + key + j * STRIP * dim, c * TILE, TILE);
        product(w->s + j * STRIP, WIDE, false, &q, &k, c);
        product(w->dp + j * STRIP, WIDE, false, &dout, &v, c);
    }
    if (mask) weigh_strip(w, i, lse, delta, t, true);
    else weigh_strip(w, i, lse, delta, t, false);
    const pair ds = tiles_at(w->ds_rows + t * 2 * ROW, ROW, TILE);
    for (int64_t e = 0; e < c; e++) {
        const pair k = tiles_at(w->x->k_along + key + e * 2 * TILE, TILE, STRIP * dim);
        product(sums + i * dim + e * STRIP, dim, true, &ds, &k, n);
    }
}

/* Queries [begin, end) of a head, at most QUERIES, from a whole strip on. */
static void add_queries(const work *w, int64_t head_q, int64_t begin, int64_t end, float *sums)
{
    const int64_t dim = w->z->dim, n = strips(end - begin);
    const int64_t at = ((w->batch * w->a->d.n_q_head + head_q) * w->z->n_q + begin) * dim;
    for (int64_t t = 0; t < n; t++) do_strip(w, head_q, begin + t * STRIP, t, sums);
    for (int64_t e = 0; e < dim / STRIP; e++)
        for (int64_t j = 0; j < strips(w->n); j++) {
            const int64_t to = e * STRIP * KEYS + j * STRIP, from = at + e * 2 * TILE;
            const int64_t tile = j * 2 * TILE, step = 2 * ROW;
            const pair    dout = tiles_at(w->x->dout_turned + from, TILE, STRIP * dim);
            const pair    q = tiles_at(w->x->q_turned + from, TILE, STRIP * dim);
            const pair    p = tiles_at(w->p_pairs + tile, TILE, step);
            const pair    ds = tiles_at(w->ds_pairs + tile, TILE, step);
            product(w->dvt + to, KEYS, true, &dout, &p, n);
            product(w->dkt + to, KEYS, true, &q, &ds, n);
        }
}

/* Columns of dK' or dV', times `by`; zeros past the end of the sequence. */
static void store_keys(const work *w, void *tensor, const float *from, int64_t end, float by)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t head_at = ts_attention_row(d, d->n_kv_head, d->n_k, w->batch, w->head, w->begin);
    uint16_t *const to = (uint16_t *)tensor + head_at;
    const int64_t   stride = ts_attention_stride(d, d->n_kv_head);
    for (int64_t j = 0; j < end - w->begin; j += 16)
        for (int64_t c = 0; c < d->head_dim; c += 16) {
            __m512i x[16];
            for (int i = 0; i < 16; i++) x[i] = _mm512_load_si512(from + (c + i) * KEYS + j);
            turn(x);
            for (int64_t i = 0; i < ts_lesser(16, end - w->begin - j); i++) {
                const vec row = j + i < w->n ? mul(_mm512_castsi512_ps(x[i]), splat(by)) : splat(0);
                _mm256_mask_storeu_epi16(to + (j + i) * stride + c, lanes(0, d->head_dim - c),
                                         to_bf16(row));
            }
        }
}

/* Keys [w->begin, end) of a head. */
static void do_keys(work *w, int64_t end, float *sums)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            group = d->n_q_head / d->n_kv_head, dim = w->z->dim;
    const int64_t            len = ts_attention_keys(d, w->a->kv_len, w->batch);
    w->n = ts_greater(0, ts_lesser(end, len) - w->begin);
    memset(w->dkt, 0, (size_t)(dim * KEYS) * sizeof *w->dkt);
    memset(w->dvt, 0, (size_t)(dim * KEYS) * sizeof *w->dvt);
    const int64_t past = d->n_k - d->n_q;
    const int64_t first = d->causal ? ts_greater(0, w->begin - past) / STRIP * STRIP : 0;
    const int64_t after = w->begin + w->n - 1 - past + ts_attention_window(d);
    const int64_t last = w->n == 0 ? 0 : d->causal ? ts_lesser(d->n_q, after) : d->n_q;
    for (int64_t h = 0; h < group; h++)
        for (int64_t i = first; i < last; i += QUERIES)
            add_queries(w, w->head * group + h, i, ts_lesser(i + QUERIES, last),
                        sums + h * w->z->n_q * dim);
    store_keys(w, w->a->dk, w->dkt, end, (float)d->scale * 0x1p-40f);
    store_keys(w, w->a->dv, w->dvt, end, 0x1p-40f);
}

/* ---- before and after ---- */

static bool pack_keys(const ts_flash_attention_backward_args *a, const packed *x, const sizes *z,
                      int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = z->n_k / STRIP, each = STRIP * z->dim, j = i % n * STRIP;
    const int64_t            b = i / n / d->n_kv_head, h = i / n % d->n_kv_head;
    head                     k = head_of(d, a->k, d->n_kv_head, d->n_k, b, h);
    head                     v = head_of(d, a->v, d->n_kv_head, d->n_k, b, h);
    k.n = v.n = ts_attention_keys(d, a->kv_len, b);
    /* An infinite key has no weight in dq, or one that is NaN: 0 is correct for both. */
    return pack_across(x->k_across + i * each, &k, j) | pack_across(x->v_across + i * each, &v, j) |
           pack_along(x->k_along + i * each, &k, j, true);
}

/* Every second element. */
INLINE vec even(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
}

INLINE vec uneven(__m512i x)
{
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}

static bool pack_queries(const ts_flash_attention_backward_args *a, const packed *x, const sizes *z,
                         int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = z->n_q / STRIP, each = STRIP * z->dim, j = i % n * STRIP;
    const int64_t            b = i / n / d->n_q_head, h = i / n % d->n_q_head;
    head                     q = head_of(d, a->q, d->n_q_head, d->n_q, b, h);
    head                     dout = head_of(d, a->dout, d->n_q_head, d->n_q, b, h);
    const head               o = head_of(d, a->o, d->n_q_head, d->n_q, b, h);
    q.lse = dout.lse = (const float *)a->lse + i / n * d->n_q;
    for (int64_t r = 0; r < STRIP; r++) {
        const bool seen = j + r < d->n_q && q.lse[j + r] != -INFINITY;
        vec        sum = splat(0);
        for (int64_t c = 0; c < d->head_dim && seen; c += STRIP) {
            const __m512i y = part(&dout, j + r, c), t = part(&o, j + r, c);
            sum = madd(even(y), even(t), madd(uneven(y), uneven(t), sum));
        }
        x->delta[i * STRIP + r] = total(sum);
        x->lse[i * STRIP + r] = seen ? (float)((double)q.lse[j + r] * LOG2_E) : INFINITY;
    }
    return pack_turned(x->q_turned + i * each, &q, j) |
           pack_turned(x->dout_turned + i * each, &dout, j);
}

/* Strip i of all queries. */
static void finish(const ts_flash_attention_backward_args *a, const packed *x, const sizes *z,
                   int64_t i)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            n = z->n_q / STRIP, j = i % n * STRIP;
    const int64_t            b = i / n / d->n_q_head, h = i / n % d->n_q_head;
    const vec                by = splat((float)d->scale * 0x1p-40f);
    float                    row[TS_ATTENTION_WIDEST];
    for (int64_t r = 0; r < ts_lesser(STRIP, d->n_q - j); r++) {
        const float *sums = x->sums + (i * STRIP + r) * z->dim;
        for (int64_t c = 0; c < z->dim; c += LANES) {
            vec sum = splat(0);
            for (int64_t s = 0; s < z->n_sums; s++)
                sum = add(sum, get(sums + s * z->q_heads * z->n_q * z->dim + c));
            put(row + c, sum);
        }
        store_bf16((uint16_t *)a->dq + ts_attention_row(d, d->n_q_head, d->n_q, b, h, j + r), row,
                   d->head_dim, by);
    }
}

/* Every n_sums-th tile of a head's keys, which evens out what a causal mask hides. */
static void sum_up(work *w, int64_t first)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            each = d->n_q_head / d->n_kv_head * w->z->n_q * w->z->dim;
    float *const             sums = w->x->sums + first * w->z->q_heads * w->z->n_q * w->z->dim +
                        (w->batch * d->n_kv_head + w->head) * each;
    memset(sums, 0, (size_t)each * sizeof *sums);
    for (w->begin = first * KEYS; w->begin < d->n_k; w->begin += w->z->n_sums * KEYS)
        do_keys(w, ts_lesser(w->begin + KEYS, d->n_k), sums);
}

/* ---- the call ---- */

static sizes sizes_of(const ts_attention_dims *d)
{
    sizes z = { .dim = strips(d->head_dim) * STRIP,
                .n_q = strips(d->n_q) * STRIP,
                .n_k = strips(d->n_k) * STRIP,
                .q_heads = d->n_batch * d->n_q_head,
                .heads = d->n_batch * d->n_kv_head };
    if (z.heads > 0)
        z.n_sums = ts_lesser(ts_lesser(MOST_SUMS, ts_ceil_div(d->n_k, KEYS)),
                             ts_ceil_div(PIECES, z.heads));
    z.scratch = 2 * STRIP * WIDE + 2 * z.dim * KEYS + STRIP * z.dim + 3 * QUERIES * KEYS / 2;
    return z;
}

/* Of threads; 0 where what is packed is more than 4 MiB and twice the eight tensors as floats. */
static int64_t count_threads(const ts_attention_dims *d, const ts_exec *x, sizes *z)
{
    const int64_t q = z->q_heads * d->n_q * d->head_dim, k = z->heads * d->n_k * d->head_dim;
    const int64_t room = (1 << 20) + 8 * q + 8 * k - LINE;
    const int64_t rows_q = z->n_q * (z->dim + 2 + z->n_sums * z->dim), rows_k = z->n_k * z->dim * 2;
    if (z->heads > 0 && (rows_q > room / 2 / z->q_heads || rows_k > room / 2 / z->heads)) return 0;
    z->packed = z->q_heads * rows_q + z->heads * rows_k;
    return threads_for(d, x, z->heads * z->n_sums, room - z->packed, z->scratch);
}

ts_status ts_flash_attention_backward_amx_workspace(const void *args, const ts_exec *x,
                                                    size_t *n_bytes)
{
    const ts_attention_dims *d = &((const ts_flash_attention_backward_args *)args)->d;
    sizes                    z = sizes_of(d);
    const int64_t            n = count_threads(d, x, &z);
    const size_t             mine = (size_t)(z.packed + n * z.scratch) * sizeof(float) + LINE;
    const ts_status          s = ts_attention_threads_backward_workspace(args, x, n_bytes);
    if (n > 0 && *n_bytes < mine) *n_bytes = mine;
    return s;
}

static work work_at(const ts_flash_attention_backward_args *a, const packed *x, const sizes *z,
                    float *scratch)
{
    work w = { .a = a, .x = x, .z = z };
    w.s = scratch, w.dp = w.s + STRIP * WIDE;
    w.dkt = w.dp + STRIP * WIDE, w.dvt = w.dkt + z->dim * KEYS;
    w.q = (uint16_t *)(void *)(w.dvt + z->dim * KEYS), w.dout = w.q + STRIP * z->dim;
    w.p_pairs = w.dout + STRIP * z->dim, w.ds_pairs = w.p_pairs + QUERIES * KEYS;
    w.ds_rows = w.ds_pairs + QUERIES * KEYS;
    return w;
}

static packed packed_at(const sizes *z, float *at)
{
    const int64_t q = z->q_heads * z->n_q * z->dim, k = z->heads * z->n_k * z->dim;
    packed        x = { .sums = at };
    x.q_turned = (uint16_t *)(void *)(at + z->n_sums * q), x.dout_turned = x.q_turned + q;
    x.k_across = x.dout_turned + q, x.v_across = x.k_across + k, x.k_along = x.v_across + k;
    x.lse = (float *)(void *)(x.k_along + k), x.delta = x.lse + z->q_heads * z->n_q;
    return x;
}

/* False: something was odd, and nothing has been written. */
static bool learn(const ts_flash_attention_backward_args *a, const ts_exec *e, const sizes *z,
                  int64_t n_threads)
{
    const packed  x = packed_at(z, aligned(e));
    float *const  room = aligned(e) + z->packed;
    const int64_t n_k = z->heads * z->n_k / STRIP, n_q = z->q_heads * z->n_q / STRIP;
    int           odd = 0;
#pragma omp parallel num_threads((int)n_threads)
    {
#pragma omp for reduction(| : odd)
        for (int64_t i = 0; i < n_k + n_q; i++)
            odd |= i < n_k ? pack_keys(a, &x, z, i) : pack_queries(a, &x, z, i - n_k);
        work w = work_at(a, &x, z, room + omp_get_thread_num() * z->scratch);
        if (!odd) take_tiles(16);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < (odd ? 0 : z->heads * z->n_sums); i++) {
            w.batch = i / z->n_sums / a->d.n_kv_head, w.head = i / z->n_sums % a->d.n_kv_head;
            sum_up(&w, i % z->n_sums);
        }
        if (!odd) leave_tiles();
#pragma omp for schedule(static)
        for (int64_t i = 0; i < (odd ? 0 : n_q); i++) finish(a, &x, z, i);
    }
    return !odd;
}

ts_status ts_flash_attention_backward_amx(const void *args, const ts_exec *x)
{
    const ts_flash_attention_backward_args *a = args;
    sizes                                   z = sizes_of(&a->d);
    const int64_t                           n = count_threads(&a->d, x, &z);
    if (n == 0 || odd_scale(a->d.scale) || !learn(a, x, &z, n))
        return ts_flash_attention_backward_avx512(args, x);
    return TS_OK;
}
