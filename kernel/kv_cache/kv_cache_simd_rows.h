/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_simd_rows.h - rows of a tile of keys and values, found and made floats; included by
 * kv_cache_simd.h, with its types. */
#ifndef TS_KV_CACHE_SIMD_ROWS_H
#define TS_KV_CACHE_SIMD_ROWS_H

INLINE int64_t bytes_of(ts_dtype t, int64_t n)
{
    if (t == TS_U4) return (n + 1) / 2;
    return t == TS_F32 ? 4 * n : t == TS_U8 ? n : 2 * n;
}

INLINE float meta_at(const char *meta, ts_dtype t, int64_t i)
{
    return t == TS_F32 ? ((const float *)(const void *)meta)[i]
                       : from_half(((const uint16_t *)(const void *)meta)[i]);
}

/* The last elements of a row, fewer than LANES, and 0 in the other lanes. */
INLINE vec unpack_last(const char *row, ts_dtype t, int64_t d, int64_t n)
{
    char last[LANES * sizeof(float)] = { 0 };
    memcpy(last, row + bytes_of(t, d), (size_t)bytes_of(t, n - d));
    return unpack(last, t);
}

INLINE void floats_of(const char *row, ts_dtype t, int64_t n, float *out)
{
    int64_t d = 0;
    for (; d + LANES <= n; d += LANES) put(out + d, unpack(row + bytes_of(t, d), t));
    if (d < n) put(out + d, unpack_last(row, t, d, n));
}

INLINE int is_code(ts_dtype t)
{
    return t == TS_U8 || t == TS_U4;
}

/* LANES elements as floats. Codes are rounded twice, as what read gives is. */
INLINE vec element(const char *p, ts_dtype t, vec step, vec low)
{
    const vec v = unpack(p, t);
    return is_code(t) ? add(mul(v, step), low) : v;
}

/* Codes with a pair for every channel, in step and low. */
INLINE void decode_each(const work *w, const char *row, ts_dtype t, float *out)
{
    const int64_t n = w->l->head_dim;
    int64_t       d = 0;
    for (; d + CODES <= n; d += CODES) {
        vec v[CODES / LANES];
        unpack_codes(row + bytes_of(t, d), t, v);
        UNROLL
        for (int i = 0; i < CODES / LANES; i++)
            put(out + d + i * LANES,
                add(mul(v[i], get(w->step + d + i * LANES)), get(w->low + d + i * LANES)));
    }
    for (; d + LANES <= n; d += LANES)
        put(out + d, element(row + bytes_of(t, d), t, get(w->step + d), get(w->low + d)));
    if (d < n) put(out + d, add(mul(unpack_last(row, t, d, n), get(w->step + d)), get(w->low + d)));
}

/* Codes with one pair for `group` channels, a multiple of LANES; all but the last row's end. */
INLINE void decode(const work *w, const char *row, ts_dtype t, const char *meta, int64_t pair,
                   int64_t group, float *out)
{
    const int64_t n = w->l->head_dim;
    for (int64_t g = 0; g < n; g += group, pair++) {
        const vec     step = splat(meta_at(meta, w->l->meta_dtype, 2 * pair));
        const vec     low = splat(meta_at(meta, w->l->meta_dtype, 2 * pair + 1));
        const int64_t end = ts_lesser(n, g + group);
        int64_t       d = g;
        for (; d + CODES <= end; d += CODES) {
            vec v[CODES / LANES];
            unpack_codes(row + bytes_of(t, d), t, v);
            UNROLL
            for (int i = 0; i < CODES / LANES; i++)
                put(out + d + i * LANES, add(mul(v[i], step), low));
        }
        for (; d + LANES <= end; d += LANES)
            put(out + d, element(row + bytes_of(t, d), t, step, low));
        if (d < end) put(out + d, add(mul(unpack_last(row, t, d, n), step), low));
    }
}

/* Pairs of n elements, each of which serves `group` of them, to step and low. */
INLINE void spread(work *w, const char *meta, int64_t pair, int64_t group)
{
    const ts_dtype t = w->l->meta_dtype;
    if (group == 1 && w->l->head_dim == w->width) {
        float both[2 * TS_KV_WIDEST];
        for (int64_t i = 0; i < 2 * w->width; i += LANES)
            put(both + i, widen(meta + bytes_of(t, 2 * pair + i), t));
        for (int64_t d = 0; d < w->width; d++)
            w->step[d] = both[2 * d], w->low[d] = both[2 * d + 1];
        return;
    }
    for (int64_t d = 0; d < w->l->head_dim; d++) {
        w->step[d] = meta_at(meta, w->l->meta_dtype, 2 * (pair + d / group));
        w->low[d] = meta_at(meta, w->l->meta_dtype, 2 * (pair + d / group) + 1);
    }
}

INLINE void prefetch(const char *row, int64_t n)
{
    for (int64_t b = 0; b < n; b += LINE) __builtin_prefetch(row + b);
}

/* Looks n rows up, from position t0 on. */
INLINE void find_rows(const work *w, int64_t t0, int64_t n, tile *y)
{
    const ts_kv_layout *l = w->l;
    for (int64_t i = 0, slot = t0 / l->page, at = t0 % l->page; i < n; slot++, at = 0) {
        const int64_t place = ts_kv_row(l, w->pages[slot], w->p->head, at);
        const int64_t end = ts_lesser(n, i + l->page - at);
        const char   *k = l->k_data + place * l->row_bytes, *v = l->v_data + place * l->row_bytes;
        for (int64_t j = 0; i < end; i++, j++, k += l->row_bytes, v += l->row_bytes) {
            y->place[i] = place + j;
            y->raw_k[i] = k;
            y->raw_v[i] = v;
        }
    }
}

/* The key at position t, which is row i of the tile, as floats. */
INLINE void key_floats(work *w, tile *y, int64_t t, int64_t i, ts_dtype store)
{
    const ts_kv_layout *l = w->l;
    const ts_kv_piece  *p = w->p;
    float              *out = w->k + i * w->width;
    y->k[i] = (const char *)out;
    if (t >= w->tail_begin) {
        const int64_t at = ts_kv_tail_at(l, p->part->seq, p->layer, p->head, t);
        floats_of(l->tail + bytes_of(l->io_dtype, at), l->io_dtype, l->head_dim, out);
    } else if (store != TS_U8 && store != TS_U4) {
        floats_of(y->raw_k[i], store, l->head_dim, out);
    } else if (l->key_axis == TS_KEY_CHANNEL) {
        const int64_t page = w->pages[t / l->page];
        if (i == 0 || t % l->key_group == 0)
            spread(w, l->k_meta, ts_kv_key_pair(l, page, p->head, t % l->page, 0), 1);
        decode_each(w, y->raw_k[i], store, out);
    } else if (l->key_group % LANES == 0 || l->n_group == 1) {
        decode(w, y->raw_k[i], store, l->k_meta, y->place[i] * l->n_group,
               l->n_group == 1 ? w->width : l->key_group, out);
    } else {
        spread(w, l->k_meta, y->place[i] * l->n_group, l->key_group);
        decode_each(w, y->raw_k[i], store, out);
    }
}

INLINE void value_floats(work *w, tile *y, int64_t i, ts_dtype store)
{
    float *out = w->v + i * w->width;
    y->v[i] = (const char *)out;
    if (store == TS_U8 || store == TS_U4)
        decode(w, y->raw_v[i], store, w->l->v_meta, y->place[i], w->width, out);
    else floats_of(y->raw_v[i], store, w->l->head_dim, out);
}

/* Whether n rows from t0 on are used as they lie: no padding, few uses, and of codes none that wait
 * in the tail or have several pairs. */
INLINE int lies_well(const work *w, int64_t t0, int64_t n, ts_dtype store)
{
    if (w->l->head_dim != w->width) return 0;
    if (store == TS_F32) return 1;
    if (is_code(store) &&
        (t0 + n > w->tail_begin || (w->l->key_axis == TS_KEY_TOKEN && w->l->n_group != 1)))
        return 0;
    return (AS_CODES || !is_code(store)) && w->p->n_rows <= FEW;
}

/* Pairs of n rows of codes. */
INLINE void load_pairs(const work *w, const tile *y, int64_t n, const char *meta, float *step,
                       float *low)
{
    for (int64_t i = 0; i < n; i++) {
        step[i] = meta_at(meta, w->l->meta_dtype, 2 * y->place[i]);
        low[i] = meta_at(meta, w->l->meta_dtype, 2 * y->place[i] + 1);
    }
}

INLINE void load_rows(work *w, tile *y, int64_t t0, int64_t n, ts_dtype store)
{
    if (lies_well(w, t0, n, store)) {
        memcpy(y->k, y->raw_k, (size_t)n * sizeof *y->k);
        memcpy(y->v, y->raw_v, (size_t)n * sizeof *y->v);
        if (!is_code(store)) return;
        load_pairs(w, y, n, w->l->v_meta, y->v_step, y->v_low);
        if (w->l->key_axis == TS_KEY_TOKEN) load_pairs(w, y, n, w->l->k_meta, y->k_step, y->k_low);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        prefetch(y->raw_k[i + AHEAD], w->l->row_bytes);
        key_floats(w, y, t0 + i, i, store);
    }
    for (int64_t i = 0; i < n; i++) {
        prefetch(y->raw_v[i + AHEAD], w->l->row_bytes);
        value_floats(w, y, i, store);
    }
}

#endif
