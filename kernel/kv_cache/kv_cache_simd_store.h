/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_simd_store.h - append for any width of vector, included by kv_cache_simd.h: what
 * kv_cache_rows.c does, a row at a time instead of an element. */
#ifndef TS_KV_CACHE_SIMD_STORE_H
#define TS_KV_CACHE_SIMD_STORE_H

/* A row of floats on its way to codes, and what its channels are coded with. */
typedef struct coder {
    _Alignas(LINE) float x[TS_KV_WIDEST], s[TS_KV_WIDEST], lo[TS_KV_WIDEST], hi[TS_KV_WIDEST];
} coder;

INLINE void convert_row(const char *from, ts_dtype io, char *to, ts_dtype store, int64_t n)
{
    int64_t d = 0;
    for (; d + LANES <= n; d += LANES)
        narrow(to + bytes_of(store, d), store, widen(from + bytes_of(io, d), io));
    if (d == n) return;
    char last[LANES * sizeof(float)];
    narrow(last, store, unpack_last(from, io, d, n));
    memcpy(to + bytes_of(store, d), last, (size_t)bytes_of(store, n - d));
}

/* Keeps a pair, and gives it back as it is kept. A group that is not finite is kept as NaN. */
INLINE void keep_pair(const ts_kv_layout *l, char *meta, int64_t i, float *s, float *lo, float hi)
{
    const int top = l->store_dtype == TS_U8 ? 255 : 15;
    if (!isfinite(*lo) || !isfinite(hi)) *lo = NAN;
    *s = (float)(((double)hi - (double)*lo) / top);
    if (l->meta_dtype == TS_F32) {
        ((float *)(void *)meta)[2 * i] = *s;
        ((float *)(void *)meta)[2 * i + 1] = *lo;
        return;
    }
    ((uint16_t *)(void *)meta)[2 * i] = half_of(*s);
    ((uint16_t *)(void *)meta)[2 * i + 1] = half_of(*lo);
    *s = meta_at(meta, TS_F16, 2 * i);
    *lo = meta_at(meta, TS_F16, 2 * i + 1);
}

/* The bounds of x[0..n); NaN, if there is one, in lo. */
INLINE void bounds_of(const float *x, int64_t n, float *lo, float *hi)
{
    vec     top = splat(-INFINITY), bottom = splat(-INFINITY), odd = splat(0);
    int64_t d = 0;
    for (; d + LANES <= n; d += LANES) {
        const vec v = get(x + d);
        top = larger(top, v), bottom = larger(bottom, sub(splat(0), v));
        odd = add(odd, sub(v, v));
    }
    float low = -largest(bottom), high = largest(top), nan = total(odd);
    for (; d < n; d++) {
        low = x[d] < low ? x[d] : low;
        high = x[d] > high ? x[d] : high;
        nan += x[d] - x[d];
    }
    *lo = low + nan;
    *hi = high;
}

INLINE void put_codes(const coder *c, int64_t n, ts_dtype store, char *row)
{
    unsigned char code[TS_KV_WIDEST + 1];
    const double  top = store == TS_U8 ? 255 : 15;
    for (int64_t d = 0; d < n; d++) {
        const double q = rint(((double)c->x[d] - (double)c->lo[d]) / (double)c->s[d]);
        const double most = q < top ? q : top;
        code[d] = (unsigned char)(int)(c->s[d] > 0 && q > 0 ? most : 0);
    }
    code[n] = 0;
    if (store == TS_U8) memcpy(row, code, (size_t)n);
    else
        for (int64_t i = 0; 2 * i < n; i++) row[i] = (char)(code[2 * i] | code[2 * i + 1] << 4);
}

/* x is coded in groups of `group` channels. */
INLINE void code_row(const ts_kv_layout *l, coder *c, char *row, char *meta, int64_t pair,
                     int64_t group)
{
    const int64_t n = l->head_dim;
    for (int64_t g = 0; g < n; g += group, pair++) {
        float s, lo, hi;
        bounds_of(c->x + g, ts_lesser(group, n - g), &lo, &hi);
        keep_pair(l, meta, pair, &s, &lo, hi);
        for (int64_t d = g; d < ts_lesser(n, g + group); d++) c->s[d] = s, c->lo[d] = lo;
    }
    put_codes(c, n, l->store_dtype, row);
}

/* The group of tokens from p on is complete: from the tail into the page. */
INLINE void code_tokens(const ts_kv_view *y, coder *c, int64_t head, int64_t p)
{
    const ts_kv_layout *l = y->l;
    const int64_t       n = l->head_dim, page = y->pages[p / l->page], at = p % l->page;
    const int64_t       each = bytes_of(l->io_dtype, n);
    const char *tail = l->tail + bytes_of(l->io_dtype, ts_kv_tail_at(l, y->seq, y->layer, head, p));
    char       *row = l->k_data + ts_kv_row(l, page, head, at) * l->row_bytes;
    for (int64_t d = 0; d < n; d++) c->lo[d] = INFINITY, c->hi[d] = -INFINITY, c->s[d] = 0;
    for (int64_t j = 0; j < l->key_group; j++) {
        floats_of(tail + j * each, l->io_dtype, n, c->x);
        for (int64_t d = 0; d < n; d++) {
            c->lo[d] = c->x[d] < c->lo[d] ? c->x[d] : c->lo[d];
            c->hi[d] = c->x[d] > c->hi[d] ? c->x[d] : c->hi[d];
            c->s[d] += c->x[d] - c->x[d]; /* 0, or NaN */
        }
    }
    for (int64_t d = 0; d < n; d++) {
        c->lo[d] += c->s[d];
        keep_pair(l, l->k_meta, ts_kv_key_pair(l, page, head, at, d), &c->s[d], &c->lo[d],
                  c->hi[d]);
    }
    for (int64_t j = 0; j < l->key_group; j++) {
        floats_of(tail + j * each, l->io_dtype, n, c->x);
        put_codes(c, n, l->store_dtype, row + j * l->row_bytes);
    }
}

/* One token's head. */
INLINE void put_rows(const ts_kv_view *y, coder *c, int64_t head, int64_t p, const char *k,
                     const char *v)
{
    const ts_kv_layout *l = y->l;
    const ts_dtype      io = l->io_dtype, store = l->store_dtype;
    const int64_t       n = l->head_dim;
    const int64_t       i = ts_kv_row(l, y->pages[p / l->page], head, p % l->page);
    char               *k_row = l->k_data + i * l->row_bytes, *v_row = l->v_data + i * l->row_bytes;
    if (!ts_kv_code_bits(l)) {
        convert_row(k, io, k_row, store, n);
        convert_row(v, io, v_row, store, n);
        return;
    }
    floats_of(v, io, n, c->x);
    code_row(l, c, v_row, l->v_meta, i, n);
    if (l->key_axis == TS_KEY_TOKEN) {
        floats_of(k, io, n, c->x);
        code_row(l, c, k_row, l->k_meta, i * l->n_group, l->key_group);
        return;
    }
    memcpy(l->tail + bytes_of(io, ts_kv_tail_at(l, y->seq, y->layer, head, p)), k,
           (size_t)bytes_of(io, n));
    if ((p + 1) % l->key_group == 0) code_tokens(y, c, head, p + 1 - l->key_group);
}

static ts_status append(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                        const ts_kv_part *part, const void *k, const void *v)
{
    const ts_kv_layout *l = &c->l;
    const int64_t       H = l->n_kv_head, each = bytes_of(l->io_dtype, l->head_dim);
    if (l->head_dim > TS_KV_WIDEST) return ts_kv_rows_append(c, x, layer, n_part, part, k, v);
    for (int64_t i = 0; i < n_part; i++) {
        const ts_kv_view y = ts_kv_view_of(c, layer, part[i].seq, part[i].len);
        for (int64_t j = 0; j < part[i].n * H; j++) {
            coder         room;
            const int64_t at = (part[i].first * H + j) * each;
            put_rows(&y, &room, j % H, part[i].len + j / H, (const char *)k + at,
                     (const char *)v + at);
        }
    }
    return TS_OK;
}

#endif
