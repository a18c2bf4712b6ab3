/* SPDX-License-Identifier: Apache-2.0 */
/* attention_backward_simd.h - gradients of a tile of keys over all queries that see it, with the
 * vectors of attention_simd.h. Private to the files that include it.
 *
 * Keys are in lanes. K' and V' stay for the whole tile, and so do the sums dK' and dV'. For a tile
 * of queries S = Q K' and dP = dO V' become P and dS, row by row, and give dV' += dO' P, dK' += Q'
 * dS and dQ = dS K: five matmuls. The sums over terms end where the queries and the keys do, so
 * lanes without a key are computed but never used. */
#ifndef TS_ATTENTION_BACKWARD_SIMD_H
#define TS_ATTENTION_BACKWARD_SIMD_H

typedef struct keys {
    const ts_flash_attention_backward_args *a;
    const ts_attention_piece               *p;
    int64_t                                 n, width; /* keys, and lanes that they take */
    float *kt, *vt, *dkt, *dvt;                       /* [head_dim][TILE], kt times scale */
    float *k;                                         /* [keys][ld], 0 for what is not finite */
    float *q, *dout, *dq;                             /* [queries][ld] */
    float *s, *ds;                                    /* [queries][TILE] */
    float *lse, *delta, *ones;                        /* [TILE] */
} keys;

/* Keys and values as the products want them. */
INLINE void load_keys(const keys *w, int64_t ld)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            cols = round_up(d->head_dim);
    float                    v[TS_ATTENTION_WIDEST];
    const size_t             bytes = (size_t)(d->head_dim * TILE) * sizeof(float);
    memset(w->kt, 0, bytes);
    memset(w->vt, 0, bytes);
    memset(w->dkt, 0, bytes);
    memset(w->dvt, 0, bytes);
    for (int64_t j = 0; j < w->n; j++) {
        const int64_t at =
            ts_attention_row(d, d->n_kv_head, d->n_k, w->p->batch, w->p->head, w->p->begin + j);
        float *const k = w->k + j * ld;
        floats_of(w->a->k, d->dtype, at, d->head_dim, k);
        floats_of(w->a->v, d->dtype, at, d->head_dim, v);
        put_column(w->kt, j, k, d->head_dim, (float)d->scale);
        put_column(w->vt, j, v, d->head_dim, 1);
        /* For dq: an infinite key has no weight, or one that is NaN. 0 is correct for both. */
        for (int64_t c = 0; c < cols; c += LANES) put(k + c, finite_of(get(k + c)));
    }
    for (int r = 0; r < TILE; r++) w->ones[r] = 1;
}

/* Queries [begin, end) of a head, and delta. Those that saw nothing are made zeros. */
INLINE void load_tile(const keys *w, int64_t head, int64_t begin, int64_t end, int64_t ld)
{
    const ts_attention_dims *d = &w->a->d;
    const float *lse = (const float *)w->a->lse + (w->p->batch * d->n_q_head + head) * d->n_q;
    float        o[TS_ATTENTION_WIDEST];
    for (int64_t r = 0; r < end - begin; r++) {
        const int64_t at = ts_attention_row(d, d->n_q_head, d->n_q, w->p->batch, head, begin + r);
        float *const q = w->q + r * ld, *const dout = w->dout + r * ld;
        vec sum = splat(0);
        w->lse[r] = lse[begin + r];
        if (w->lse[r] == -INFINITY) {
            memset(q, 0, (size_t)ld * sizeof *q);
            memset(dout, 0, (size_t)ld * sizeof *dout);
            continue;
        }
        floats_of(w->a->q, d->dtype, at, d->head_dim, q);
        floats_of(w->a->dout, d->dtype, at, d->head_dim, dout);
        floats_of(w->a->o, d->dtype, at, d->head_dim, o);
        for (int64_t c = 0; c < d->head_dim; c += LANES) sum = madd(get(o + c), get(dout + c), sum);
        w->delta[r] = total(sum);
    }
}

/* S and dP of a query become P and dS. */
INLINE void weigh_row(const keys *w, int64_t i, int64_t r, bool mask, vec lane)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            past = i + d->n_k - d->n_q + 1 - w->p->begin;
    const vec from = splat((float)ts_greater(0, ts_lesser(TILE, past - ts_attention_window(d))));
    const vec to = splat((float)ts_greater(0, ts_lesser(TILE, past)));
    const vec lse = splat(w->lse[r]), delta = splat(w->delta[r]);
    float    *s = w->s + r * TILE, *ds = w->ds + r * TILE;
    for (int64_t c = 0; c < w->width; c += LANES) {
        vec x = sub(get(s + c), lse);
        if (mask) x = within(x, add(lane, splat((float)c)), from, to);
        const vec p = exp_of(x);
        put(s + c, p);
        put(ds + c, mul(p, sub(get(ds + c), delta)));
    }
}

INLINE void weigh_rows(const keys *w, int64_t begin, int64_t end)
{
    const ts_attention_dims *d = &w->a->d;
    const bool               mask = ts_attention_first(d, end - 1) > w->p->begin ||
                      ts_attention_end(d, d->n_k, begin) < w->p->begin + w->n;
    float lane[LANES];
    for (int i = 0; i < LANES; i++) lane[i] = (float)i;
    for (int64_t r = 0; r < end - begin; r++) {
        if (w->lse[r] == -INFINITY) {
            memset(w->s + r * TILE, 0, TILE * sizeof *w->s);
            memset(w->ds + r * TILE, 0, TILE * sizeof *w->ds);
        } else if (mask) {
            weigh_row(w, begin + r, r, true, get(lane));
        } else {
            weigh_row(w, begin + r, r, false, get(lane));
        }
    }
}

/* Queries [begin, end) of a head; sums are their rows of [n_q][head_dim]. */
INLINE void add_queries(const keys *w, int64_t head, int64_t begin, int64_t end, float *sums)
{
    const ts_attention_dims *d = &w->a->d;
    const int64_t            ld = ts_attention_width(d), m = end - begin, dim = d->head_dim;
    load_tile(w, head, begin, end, ld);
    product_rows(w->s, TILE, w->q, ld, w->kt, TILE, m, w->width, dim);
    product_rows(w->ds, TILE, w->dout, ld, w->vt, TILE, m, w->width, dim);
    weigh_rows(w, begin, end);
    product_cols(w->dvt, w->dout, ld, w->s, w->ones, dim, w->width, m);
    product_cols(w->dkt, w->q, ld, w->ds, w->ones, dim, w->width, m);
    product_rows(w->dq, ld, w->ds, TILE, w->k, ld, m, round_up(dim), w->n);
    for (int64_t r = 0; r < m; r++) {
        const float *dq = w->dq + r * ld;
        float       *sum = sums + r * dim;
        int64_t      c = 0;
        for (; c + LANES <= dim; c += LANES) put(sum + c, add(get(sum + c), get(dq + c)));
        for (; c < dim; c++) sum[c] += dq[c];
    }
}

/* Keys past the end of the sequence get zeros. */
INLINE void store_keys(const keys *w)
{
    const ts_attention_dims *d = &w->a->d;
    for (int64_t j = 0; j < w->p->end - w->p->begin; j++) {
        const int64_t at =
            ts_attention_row(d, d->n_kv_head, d->n_k, w->p->batch, w->p->head, w->p->begin + j);
        float dk[TS_ATTENTION_WIDEST] = { 0 }, dv[TS_ATTENTION_WIDEST] = { 0 };
        if (j < w->n) {
            get_column(w->dkt, j, dk, d->head_dim, (float)d->scale);
            get_column(w->dvt, j, dv, d->head_dim, 1);
        }
        store_row(w->a->dk, d->dtype, at, d->head_dim, dk);
        store_row(w->a->dv, d->dtype, at, d->head_dim, dv);
    }
}

static void backward(const ts_flash_attention_backward_args *a, const ts_attention_piece *p,
                     float *sums, float *scratch)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            tile = ts_attention_tile(d), group = d->n_q_head / d->n_kv_head;
    const int64_t            len = ts_attention_keys(d, a->kv_len, p->batch);
    float *const             last = scratch + 10 * tile;
    keys w = { .a = a, .p = p, .n = ts_greater(0, ts_lesser(p->end, len) - p->begin) };
    w.width = round_up(w.n);
    w.kt = scratch, w.vt = scratch + tile, w.dkt = scratch + 2 * tile, w.dvt = scratch + 3 * tile;
    w.k = scratch + 4 * tile, w.q = scratch + 5 * tile, w.dout = scratch + 6 * tile;
    w.dq = scratch + 7 * tile, w.s = scratch + 8 * tile, w.ds = scratch + 9 * tile;
    w.lse = last, w.delta = last + TILE, w.ones = last + 2 * TILE;
    load_keys(&w, ts_attention_width(d));
    const int64_t past = d->n_k - d->n_q, step = d->tile_q > 0 ? ts_lesser(d->tile_q, TILE) : TILE;
    const int64_t begin = d->causal ? ts_greater(0, p->begin - past) : 0;
    const int64_t after = p->begin + w.n - 1 - past + ts_attention_window(d);
    const int64_t end = w.n == 0 ? 0 : d->causal ? ts_lesser(d->n_q, after) : d->n_q;
    for (int64_t h = 0; h < group; h++)
        for (int64_t i = begin; i < end; i += step)
            add_queries(&w, p->head * group + h, i, ts_lesser(i + step, end),
                        sums + (h * d->n_q + i) * d->head_dim);
    store_keys(&w);
}

static void finish(const ts_flash_attention_backward_args *a, const ts_attention_piece *p,
                   const float *sums, int64_t n_sums, int64_t stride)
{
    const ts_attention_dims *d = &a->d;
    const int64_t            dim = d->head_dim;
    for (int64_t r = 0; r < p->end - p->begin; r++, sums += dim) {
        float row[TS_ATTENTION_WIDEST] = { 0 };
        for (int64_t s = 0; s < n_sums; s++)
            for (int64_t c = 0; c < dim; c++) row[c] += sums[s * stride + c];
        for (int64_t c = 0; c < dim; c++) row[c] *= (float)d->scale;
        store_row(a->dq, d->dtype,
                  ts_attention_row(d, d->n_q_head, d->n_q, p->batch, p->head, p->begin + r), dim,
                  row);
    }
}

static const ts_attention_steps steps = { forward, backward, finish };

ts_status SIMD(ts_flash_attention)(const void *args, const ts_exec *x)
{
    return ts_attention_threads(args, x, &steps);
}

ts_status SIMD(ts_flash_attention_backward)(const void *args, const ts_exec *x)
{
    return ts_attention_threads_backward(args, x, &steps);
}

#endif
