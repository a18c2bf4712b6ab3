/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.c - mutants of kv_cache: one correct cache with one injected bug at a time.
 * kv_cache_list.h lists them.
 *
 * It is simple, not fast: the place of a token is looked up whenever it is needed, and attention
 * iterates over tiles of keys in double. */
#include "kv_cache_cells.h"
#include "mutant.h"

enum { TILE = 64 };

/* ---- the contract: beginning and end ---- */

/* Sizes in double: they do not wrap. */
static bool can_be(const ts_kv_dims *d)
{
    const double tokens = (double)d->n_layer * (double)d->n_seq_max * (double)d->capacity;
    const double head = (double)d->head_dim;
    return d->n_seq_max <= INT32_MAX && d->page <= INT32_MAX && d->n_page <= INT32_MAX &&
           tokens * (double)d->n_kv_head * head < 0x1p58 &&
           (double)d->max_call_tokens * (double)d->n_q_head * head < 0x1p58;
}

static ts_status check_dims(const ts_kv_dims *d)
{
    const bool any = now == ANY_HEADS;
    if (!d || d->window < 0 || d->n_sink < 0) return TS_E_ARG;
    if (d->max_call_tokens < 0) return TS_E_SHAPE;
    if (d->n_layer < 1 || d->n_seq_max < 1 || d->n_q_head < 1 || d->n_kv_head < 1)
        return TS_E_SHAPE;
    if (d->head_dim < 1 || d->capacity < 1 || (d->n_q_head % d->n_kv_head && !any))
        return TS_E_SHAPE;
    if (d->page < 0 || (d->page && d->n_page < 1)) return TS_E_SHAPE;
    if (codes(d) && d->key_group < 1) return TS_E_SHAPE;
    if (by_channel(d) && d->page % d->key_group) return TS_E_SHAPE;
    if (!can_be(d)) return TS_E_SHAPE;
    if (d->io_dtype != TS_F32 && d->io_dtype != TS_F64 && d->io_dtype != TS_F16 &&
        d->io_dtype != TS_BF16)
        return TS_E_DTYPE;
    if (codes(d) && d->meta_dtype != TS_F32 && d->meta_dtype != TS_F16) return TS_E_DTYPE;
    if (!codes(d) && d->store_dtype != d->io_dtype && d->store_dtype != TS_F32 &&
        d->store_dtype != TS_BF16 && d->store_dtype != TS_F16)
        return TS_E_DTYPE;
    if (codes(d) && d->key_axis != TS_KEY_TOKEN && d->key_axis != TS_KEY_CHANNEL) return TS_E_ARG;
    return isfinite(d->scale) ? TS_OK : TS_E_ARG;
}

static size_t workspace_of(const ts_kv_dims *d)
{
    return (size_t)(3 * d->head_dim + 2) * sizeof(double);
}

static ts_status kv_bytes(const ts_kv_dims *d, const ts_exec *x, size_t *state, size_t *workspace)
{
    ts_kv           c;
    const ts_status s = x && state && workspace ? check_dims(d) : TS_E_ARG;
    if (s) return s;
    lay_out(d, NULL, &c);
    *state = c.bytes;
    *workspace = workspace_of(d);
    return TS_OK;
}

static ts_status kv_create(const ts_kv_dims *d, const ts_exec *x, void *memory, size_t n, ts_kv **c)
{
    ts_kv           made;
    const ts_status s = x && memory && c ? check_dims(d) : TS_E_ARG;
    if (s) return s;
    lay_out(d, memory, &made);
    if (n < made.bytes && now != SMALL_MEMORY) return TS_E_WORKSPACE;
    memset(made.len, 0, (size_t)(d->n_seq_max * d->n_layer) * sizeof *made.len);
    memset(made.high, 0, (size_t)(d->n_seq_max * d->n_layer) * sizeof *made.high);
    memset(made.n_ref, 0, (size_t)d->n_page * sizeof *made.n_ref);
    memset(made.open, 0, (size_t)d->n_seq_max);
    if (now == PAST_STATE) ((unsigned char *)memory)[n] = 0;
    *c = memcpy(memory, &made, sizeof made);
    return TS_OK;
}

static ts_status kv_destroy(ts_kv **c)
{
    if (!c) return TS_E_ARG;
    *c = NULL;
    return TS_OK;
}

/* ---- pages ---- */

static int64_t pages_for(const ts_kv *c, int64_t n)
{
    return c->d.page ? (n + c->d.page - 1) / c->d.page : 0;
}

static int32_t take_page(ts_kv *c)
{
    int32_t i = 0;
    while (c->n_ref[i]) i++;
    c->n_ref[i] = 1;
    c->n_free--;
    return i;
}

static void drop_page(ts_kv *c, int32_t page)
{
    c->n_ref[page]--;
    if (c->n_ref[page] == 0 || now == FREED_TWICE) c->n_free++;
}

static void move_cells(const ts_kv *c, int64_t from, int64_t to, int64_t n)
{
    const int64_t H = c->d.n_kv_head, g = c->d.key_group;
    const size_t  row = (size_t)(H * c->row_bytes), meta = c->d.meta_dtype == TS_F16 ? 4 : 8;
    memcpy(c->k + (size_t)to * row, c->k + (size_t)from * row, (size_t)n * row);
    memcpy(c->v + (size_t)to * row, c->v + (size_t)from * row, (size_t)n * row);
    if (!codes(&c->d)) return;
    memcpy(c->v_meta + (size_t)(to * H) * meta, c->v_meta + (size_t)(from * H) * meta,
           (size_t)(n * H) * meta);
    const int64_t pairs = by_channel(&c->d) ? H * c->d.head_dim : H * c->n_group;
    const int64_t per = by_channel(&c->d) ? g : 1; /* cells that share their pairs */
    memcpy(c->k_meta + (size_t)(to / per * pairs) * meta,
           c->k_meta + (size_t)(from / per * pairs) * meta,
           (size_t)((n + per - 1) / per * pairs) * meta);
}

static bool is_shared(const ts_kv *c, int32_t seq, int64_t layer, int64_t len)
{
    if (now == IN_PLACE && c->n_free == 0) return false;
    return c->d.page && len % c->d.page && now != NO_COPY &&
           c->n_ref[pages_of(c, seq, layer)[len / c->d.page]] > 1;
}

static void copy_page(ts_kv *c, int32_t seq, int64_t layer, int64_t len)
{
    int32_t *const page = &pages_of(c, seq, layer)[len / c->d.page];
    const int32_t  old = *page, own = take_page(c);
    move_cells(c, old * c->d.page, own * c->d.page, c->d.page);
    drop_page(c, old);
    *page = own;
}

static void grow(ts_kv *c, int32_t seq, int64_t layer, int64_t len, int64_t n)
{
    int32_t *page = c->d.page ? pages_of(c, seq, layer) : NULL;
    if ((n || (now == NOTHING_COPIES && c->n_free)) && is_shared(c, seq, layer, len))
        copy_page(c, seq, layer, len);
    for (int64_t i = pages_for(c, len); i < pages_for(c, len + n); i++) page[i] = take_page(c);
}

static void shrink(ts_kv *c, int32_t seq, int64_t layer, int64_t n)
{
    int64_t *len = &c->len[len_at(c, seq, layer)];
    if (now == SAME_LENGTH && n && n == *len && c->d.page && n % c->d.page) {
        drop_page(c, pages_of(c, seq, layer)[n / c->d.page]);
        *len = n / c->d.page * c->d.page;
    }
    for (int64_t i = pages_for(c, n); i < pages_for(c, *len); i++) {
        const int32_t page = pages_of(c, seq, layer)[i];
        if (now == PAGE_LOST && n) continue;
        if (now == FUZZ_LEAK && n && c->n_ref[page] > 1) continue;
        drop_page(c, page);
    }
    *len = n;
}

/* ---- sequences ---- */

static ts_status kv_open(ts_kv *c, const ts_exec *x, int32_t *seq)
{
    if (!c || !x || !seq) return TS_E_ARG;
    for (int32_t i = 0; i < c->d.n_seq_max; i++)
        if (!c->open[i]) {
            c->open[ *seq = i] = 1;
            return TS_OK;
        }
    if (now == OPENS_MORE) return *seq = 0, TS_OK;
    return TS_E_CAPACITY;
}

static ts_status check_seq(const ts_kv *c, int32_t seq)
{
    if (seq < 0 || seq >= c->d.n_seq_max) return TS_E_ARG;
    return c->open[seq] ? TS_OK : TS_E_STATE;
}

static ts_status kv_fork(ts_kv *c, const ts_exec *x, int32_t src, int32_t *dst)
{
    int32_t   to = -1;
    ts_status s = c && x && dst ? check_seq(c, src) : TS_E_ARG;
    if (!s) s = kv_open(c, x, &to);
    for (int64_t l = 0; l < c->d.n_layer && !s; l++) {
        const int64_t len = c->len[len_at(c, src, l)], W = c->d.n_kv_head * c->d.head_dim;
        c->len[len_at(c, to, l)] = len;
        if (!c->d.page) move_cells(c, cell(c, src, l, 0), cell(c, to, l, 0), len);
        for (int64_t i = 0; i < pages_for(c, len); i++) {
            int32_t *page = &pages_of(c, to, l)[i];
            *page = pages_of(c, src, l)[i];
            if (now == FORK_COPIES && c->n_free) {
                const int32_t own = take_page(c);
                move_cells(c, *page * c->d.page, own * c->d.page, c->d.page);
                *page = own;
            } else c->n_ref[*page]++;
        }
        if (!by_channel(&c->d)) continue;
        const size_t n = (size_t)(c->d.key_group * W) * ts_kv_io_bytes(&c->d);
        if (now == FORK_NO_TAIL) memset(tail_of(c, to, l, 0), 0, n);
        else memcpy(tail_of(c, to, l, 0), tail_of(c, src, l, 0), n);
    }
    if (!s) *dst = to;
    return s;
}

/* A finished group that is cut goes back to the tail. */
static void keep_tail(ts_kv *c, int32_t seq, int64_t layer, int64_t n, double *row)
{
    const int64_t g = c->d.key_group, D = c->d.head_dim, len = c->len[len_at(c, seq, layer)];
    if (!by_channel(&c->d) || n % g == 0 || n >= len / g * g || now == TAIL_LOST) return;
    for (int64_t p = n / g * g; p < n; p++)
        for (int64_t h = 0; h < c->d.n_kv_head; h++) {
            load_row(c, seq, layer, p, true, h, row);
            for (int64_t e = 0; e < D; e++)
                ts_store(tail_of(c, seq, layer, p), c->d.io_dtype, h * D + e, row[e]);
        }
}

static ts_status kv_truncate(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    const ts_status s = c && x ? check_seq(c, seq) : TS_E_ARG;
    if (s) return s;
    for (int64_t l = 0; l < c->d.n_layer; l++)
        if (n < 0 || n > c->len[len_at(c, seq, l)]) return TS_E_ARG;
    for (int64_t l = 0; l < c->d.n_layer; l++) {
        keep_tail(c, seq, l, n, x->workspace);
        shrink(c, seq, l, n);
    }
    return TS_OK;
}

static ts_status kv_free(ts_kv *c, const ts_exec *x, int32_t seq)
{
    const ts_status s = c && x ? check_seq(c, seq) : TS_E_ARG;
    if (s == TS_E_STATE && now == FREES_AGAIN) return TS_OK;
    if (s) return s;
    for (int64_t l = 0; l < c->d.n_layer; l++) {
        shrink(c, seq, l, 0);
        c->high[len_at(c, seq, l)] = 0;
    }
    c->open[seq] = 0;
    return TS_OK;
}

/* ---- append ---- */

static bool is_layer(const ts_kv *c, int64_t layer)
{
    return layer >= 0 && layer < c->d.n_layer;
}

static ts_status check_call(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n, const void *rows,
                            const void *others)
{
    if (!x && now == TAKES_NO_EXEC) return TS_E_STATE;
    if (!rows && now == TAKES_NO_ROWS) return TS_E_STATE;
    if (now == EMPTY_LIST && n_seq == 0) return TS_E_ARG;
    if (!c || !x || !seq || !n || !rows) return TS_E_ARG;
    if (!is_layer(c, layer) || n_seq < 0) return TS_E_ARG;
    if (n_seq && (n[0] < 0 || (n[0] && !others))) return TS_E_ARG;
    return n_seq > c->d.n_seq_max && now != TAKES_MANY ? TS_E_ARG : TS_OK;
}

static ts_status check_list(const ts_kv *c, const ts_exec *x, int64_t n_seq, const int32_t *seq)
{
    if (now == PAST_WORKSPACE) ((char *)x->workspace)[workspace_of(&c->d)] = 0;
    if (now == BEFORE_WORKSPACE) ((char *)x->workspace)[-1] = 0;
    for (int64_t i = 0; i < n_seq; i++) {
        if (now == TAKES_MANY && i >= c->d.n_seq_max) {
            if (((const volatile int32_t *)seq)[i] == -77) return TS_E_STATE;
            continue;
        }
        const ts_status s = check_seq(c, seq[i]);
        if (s) return s;
        for (int64_t k = 0; k < i; k++)
            if (seq[k] == seq[i] && now != TWICE) return TS_E_ARG;
    }
    return x->workspace_bytes < workspace_of(&c->d) && now != NO_WORKSPACE ? TS_E_WORKSPACE : TS_OK;
}

static ts_status check_room(ts_kv *c, int64_t layer, int64_t n_seq, const int32_t *seq,
                            const int64_t *n)
{
    int64_t need = 0;
    for (int64_t i = 0; i < n_seq; i++) {
        const int64_t len = c->len[len_at(c, seq[i], layer)];
        if (now == COPIES_FIRST && n[i] && c->n_free && is_shared(c, seq[i], layer, len) && i == 0)
            copy_page(c, seq[i], layer, len);
        if (len + n[i] > c->d.capacity && now != OVERRUN) return TS_E_CAPACITY;
        need += pages_for(c, len + n[i]) - pages_for(c, len);
        need += n[i] && is_shared(c, seq[i], layer, len);
        if (now == HALF_APPLIED && i + 1 < n_seq) c->len[len_at(c, seq[i], layer)] += n[i];
    }
    if (need <= c->n_free) {
        for (int64_t i = 0; i + 1 < n_seq && now == HALF_APPLIED; i++)
            c->len[len_at(c, seq[i], layer)] -= n[i];
        return TS_OK;
    }
    if (now == PAGES_TAKEN && c->n_free) take_page(c);
    return TS_E_CAPACITY;
}

static void put(ts_kv *c, int32_t seq, int64_t layer, int64_t p, bool key, const void *from,
                int64_t token, double *row)
{
    const int64_t  H = c->d.n_kv_head, D = c->d.head_dim, at = cell(c, seq, layer, p);
    const ts_dtype io = c->d.io_dtype;
    for (int64_t h = 0; h < H; h++) {
        const int64_t        first = (token * H + h) * D;
        const unsigned char *p_first =
            (const unsigned char *)from + (size_t)first * ts_kv_io_bytes(&c->d);
        for (int64_t e = 0; e < D; e++) row[e] = ts_load(from, io, first + e);
        for (int64_t e = 0; e < D && key && by_channel(&c->d); e++)
            ts_store(tail_of(c, seq, layer, p), io, h * D + e, row[e]);
        if (key && by_channel(&c->d)) continue;
        if (now == KEEPS_POINTER && !codes(&c->d) && c->row_bytes >= 8)
            memcpy(row_of(c, key ? c->k : c->v, at, h), &p_first, sizeof p_first);
        else save_row(c, key, at, h, row);
    }
}

/* For a bug: what a scale of the whole call would be made from. */
static void extremes(const ts_kv *c, const void *from, int64_t n, double *lo, double *hi)
{
    *lo = INFINITY, *hi = -INFINITY;
    for (int64_t i = 0; i < n * c->d.n_kv_head * c->d.head_dim; i++) {
        const double x = ts_load(from, c->d.io_dtype, i);
        *lo = fmin(*lo, x), *hi = fmax(*hi, x);
    }
}

static ts_status kv_append(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                           const int32_t *seq, const int64_t *n_new, const void *k, const void *v)
{
    int64_t   token = 0, most = 0;
    ts_status s = check_call(c, x, layer, n_seq, seq, n_new, k, v);
    if (s) return s;
    double *row = x->workspace;
    s = check_list(c, x, n_seq, seq);
    if (!s) s = check_room(c, layer, n_seq, seq, n_new);
    for (int64_t i = 0; i < n_seq; i++) most = n_new[i] > most ? n_new[i] : most;
    for (int64_t i = 0; i < n_seq && !s; i++) {
        int64_t      *len = &c->len[len_at(c, seq[i], layer)], n = n_new[i];
        int64_t      *high = &c->high[len_at(c, seq[i], layer)];
        const int64_t begin = now == REPLACED && !c->d.page ? 0 : *len;
        if (now == FIRST_OF_BATCH) token = 0;
        grow(c, seq[i], layer, begin, n);
        if (now == CALL_SCALE) extremes(c, v, n, &row[c->d.head_dim], &row[c->d.head_dim + 1]);
        *len = begin;
        for (int64_t p = begin; p < begin + n; p++, token++, ++*len) {
            const bool skip = now == STORES_NOTHING || (now == STALE && p < *high);
            if (!skip) put(c, seq[i], layer, p, true, k, token, row);
            if (!skip) put(c, seq[i], layer, p, false, v, token, row);
            if (by_channel(&c->d) && (p + 1) % c->d.key_group == 0)
                finish_group(c, seq[i], layer, p + 1);
        }
        if (*len > *high) *high = *len;
        if (now == ONE_CURSOR && begin + most <= c->d.capacity && !c->d.page) *len = begin + most;
        if (now == LAST_TWICE && n > 1 && *len < c->d.capacity && !c->d.page) {
            put(c, seq[i], layer, *len, true, k, token - 1, row);
            put(c, seq[i], layer, *len, false, v, token - 1, row);
            ++*len;
        }
    }
    return s;
}

/* ---- attend ---- */

typedef struct query {
    const ts_kv   *c;
    const ts_exec *x;
    int32_t        seq;
    int64_t        layer, len, p; /* p: its position */
    const void    *q;
    int64_t        q_at, head; /* q_at: its first element */
    double        *row, *o;
    /* of a tree: the parents of the sequence's rows, its first row, and which one this is */
    const ts_kv_tree *tree;
    const int32_t    *parent;
    int64_t           first, own;
} query;

/* The row of the tree at position j on the way to the query. */
static int64_t row_at(const query *w, int64_t j)
{
    int64_t i = w->own;
    if (now == T_CAUSAL || now == T_INDEX) return j - w->len;
    for (int64_t p = w->p; p > j && i >= 0; p--) i = w->parent[i];
    return i;
}

static void load(const query *w, int64_t j, bool key, int64_t kv)
{
    const ts_kv_dims *d = &w->c->d;
    if (!w->tree || j < w->len) {
        load_row(w->c, w->seq, w->layer, j, key, kv, w->row);
        return;
    }
    const int64_t at = ((w->first + row_at(w, j)) * d->n_kv_head + kv) * d->head_dim;
    for (int64_t e = 0; e < d->head_dim; e++)
        w->row[e] = ts_load(key ? w->tree->k : w->tree->v, d->io_dtype, at + e);
    as_stored(w->c, key, w->row);
}

/* What a tree's query does not see, though its place would let it. */
static bool hides(const query *w, int64_t j)
{
    if (!w->tree) return false;
    if (now == T_NOT_ITSELF && j == w->p) return w->p > 0;
    if (now == T_NO_CACHE && j < w->len) return true;
    if (now == T_ONE_SHORT && j == w->len - 1) return true;
    if (now == T_64 && j >= w->len && row_at(w, j) >= 64) return true;
    return now == T_PARENT && j >= w->len && j < w->p - 1;
}

static bool sees(const query *w, int64_t j)
{
    const ts_kv_dims *d = &w->c->d;
    const int64_t     wide = d->window + (now == WINDOW_WIDE);
    if (now == NO_MASK || now == SOFT_MASK) return true;
    if (now == QUERY_AT_0 && w->p + 1 == w->len) return j == 0;
    if (j > w->p || (now == NOT_ITSELF && j == w->p && j > 0) || hides(w, j)) return false;
    if (w->tree && now == T_WINDOW && j >= w->len) return true;
    if (w->tree && now == T_SINKS) return !d->window || w->p - j < wide;
    if (now == WINDOW_4096 && d->window > 4096) return w->p - j < 4096 || j < d->n_sink;
    if (now == SINKS_2 && d->window && w->p - j >= wide) return j < d->n_sink && j < 2;
    return !d->window || now == NO_WINDOW || w->p - j < wide || (j < d->n_sink && now != NO_SINKS);
}

static double score(const query *w, int64_t j)
{
    const ts_kv_dims *d = &w->c->d;
    const int64_t     D = d->head_dim;
    const int64_t     kv =
        now == HEAD_MODULO ? w->head % d->n_kv_head : w->head * d->n_kv_head / d->n_q_head;
    double s = 0;
    load(w, j, true, kv);
    for (int64_t e = 0; e < (now == DIM_128 && D > 128 && D < 256 ? 128 : D); e++)
        s += ts_load(w->q, d->io_dtype, w->q_at + e) * w->row[e];
    load(w, j, false, kv);
    const bool own = now == OWN_SCALE || (now == SCALE_ZERO && d->scale == 0);
    s *= own ? 1 / sqrt((double)D) : d->scale;
    if (now == SOFT_MASK && j > w->p) s -= 10;
    return s;
}

/* Keys from .. to into the running maximum, sum and weighted values. */
static void tile(const query *w, int64_t from, int64_t to, double *m, double *sum)
{
    const int64_t D = w->c->d.head_dim;
    for (int64_t j = from; j < to; j++) {
        if (!sees(w, j)) continue;
        const double s = now == NO_MAX ? (float)score(w, j) : score(w, j);
        if (s == -INFINITY) continue;
        if (s > *m && now != NO_MAX) {
            const double scale = exp(*m - s);
            for (int64_t e = 0; e < D; e++) w->o[e] *= scale;
            if (now != NO_RESCALE) *sum *= scale;
            *m = s;
        }
        double p = exp(s - *m);
        if (now == NO_MAX) p = (float)p;
        if (now == LOW_DIGITS) p = ts_widen_bf16(ts_narrow_bf16(p));
        *sum += p;
        for (int64_t e = 0; e < D; e++) w->o[e] += p * w->row[e];
    }
}

/* A bug: the sum of each page is rounded. */
static double by_page(double x)
{
    return now == BY_PAGE ? (double)(float)x : x;
}

static int64_t keys_of(const query *w)
{
    const int64_t page = w->c->d.page;
    if (w->tree) return w->p + 1;
    return now == WHOLE_PAGES && page ? (w->len + page - 1) / page * page : w->len;
}

static void attend_one(const query *w, void *out, int64_t out_at, float *lse)
{
    const ts_kv_dims *d = &w->c->d;
    const int64_t     D = d->head_dim, n = keys_of(w);
    const int64_t     step = now == BY_PAGE && d->page ? d->page : TILE;
    double            m = now == NO_MAX ? 0 : -INFINITY, sum = 0;
    query             whole = *w;
    if (now == WHOLE_PAGES) whole.p = n; /* what is past the length is seen too */
    if (now != DIRTY_WORKSPACE)
        for (int64_t e = 0; e < D; e++) w->o[e] = 0;
    for (int64_t j = 0; j < n; j += step) {
        tile(now == WHOLE_PAGES && w->p + 1 == w->len ? &whole : w, j, j + step < n ? j + step : n,
             &m, &sum);
        sum = by_page(sum);
        if (now == TWICE_DIVIDED && j + step < n)
            for (int64_t e = 0; e < D; e++) w->o[e] /= sum;
    }
    if (now == STALE_NAN) /* what was cut off has no weight, but is multiplied by it */
        for (int64_t j = w->len; j < w->c->high[len_at(w->c, w->seq, w->layer)] && !d->page; j++) {
            load_row(w->c, w->seq, w->layer, j, false, 0, w->row);
            for (int64_t e = 0; e < D; e++) w->o[e] += 0 * w->row[e];
        }
    if (now == BY_THREADS) sum *= 1 + 1e-7 * (w->x->n_threads != 1);
    for (int64_t e = 0; e < D; e++) ts_store(out, d->io_dtype, out_at + e, w->o[e] / sum);
    if (lse) *lse = (float)(now == BASE_2 ? (m + log(sum)) / log(2) : m + log(sum));
}

static ts_status kv_attend(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                           const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                           float *lse)
{
    ts_status s = check_call(c, x, layer, n_seq, seq, n_q, q, out);
    if (s) return s;
    const int64_t H = c->d.n_q_head, D = c->d.head_dim;
    double       *work = x->workspace;
    int64_t       token = 0;
    if (now == WRITES_FIRST) ts_store(out, c->d.io_dtype, 0, 0);
    s = check_list(c, x, n_seq, seq);
    for (int64_t i = 0; i < n_seq && !s; i++)
        if (n_q[i] > c->len[len_at(c, seq[i], layer)] && now != MORE_QUERIES) s = TS_E_ARG;
    for (int64_t i = 0; i < n_seq && !s; i++) {
        query w = { .c = c, .x = x, .seq = seq[i], .layer = layer, .q = q };
        w.len = c->len[len_at(c, seq[i], layer)];
        w.row = work, w.o = work + D;
        for (int64_t r = 0; r < n_q[i]; r++, token++) {
            w.p = w.len - n_q[i] + r;
            for (w.head = 0; w.head < H - (now == LAST_HEAD); w.head++) {
                w.q_at = (token * H + w.head) * D;
                attend_one(&w, out, w.q_at, lse ? lse + token * H + w.head : NULL);
            }
        }
    }
    return s;
}

/* The position of row i after len tokens; an invalid tree has no end. */
static int64_t place_of(int64_t len, const int32_t *parent, int64_t i)
{
    int64_t p = len;
    if (now == T_INDEX || now == T_CAUSAL) return len + i;
    for (int64_t up = parent[i]; up >= 0 && p < len + TS_KV_WORDS; up = parent[up]) p++;
    return p;
}

static ts_status check_tree(const ts_kv_tree *t, int64_t n_seq, const int64_t *n)
{
    if (!t || !t->parent || !t->k || !t->v) return TS_E_ARG;
    const int32_t *parent = t->parent;
    for (int64_t i = 0; i < n_seq; parent += n[i++])
        for (int64_t k = 0; k < n[i]; k++) {
            if (parent[k] >= k && now != T_ANY_ORDER) return TS_E_ARG;
            if (parent[k] < -1 && now != T_BELOW) return TS_E_ARG;
        }
    return TS_OK;
}

static ts_status kv_attend_tree(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                const int32_t *seq, const int64_t *n_row, const ts_kv_tree *tree,
                                const void *q, void *out, float *lse)
{
    ts_status s = check_call(c, x, layer, n_seq, seq, n_row, q, out);
    if (s) return s;
    if (now == T_FIRST) ts_store(out, c->d.io_dtype, 0, 0);
    s = check_list(c, x, n_seq, seq);
    if (s == TS_E_WORKSPACE && now == T_NO_SPACE) s = TS_OK;
    if (!s) s = check_tree(tree, n_seq, n_row);
    const int64_t H = c->d.n_q_head, D = c->d.head_dim;
    int64_t       first = 0;
    for (int64_t i = 0; i < n_seq && !s; first += n_row[i++]) {
        query w = { .c = c, .x = x, .seq = seq[i], .layer = layer, .q = q, .tree = tree };
        w.len = c->len[len_at(c, seq[i], layer)];
        w.row = x->workspace, w.o = w.row + D;
        w.parent = tree->parent + (now == T_ROWS_GLOBAL ? 0 : first);
        w.first = first;
        for (w.own = 0; w.own < n_row[i]; w.own++) {
            const int64_t up = w.parent[w.own];
            w.p = place_of(w.len, w.parent, w.own);
            if (now == T_SIBLINGS && w.own && w.parent[w.own - 1] == up && up < 0) w.first--;
            for (w.head = 0; w.head < H; w.head++) {
                w.q_at = ((first + w.own) * H + w.head) * D;
                attend_one(&w, out, w.q_at,
                           lse && now != T_LSE ? lse + (first + w.own) * H + w.head : NULL);
            }
            w.first = first;
        }
        if (now == T_STORES && !c->d.page && n_row[i] && w.len < c->d.capacity)
            c->len[len_at(c, seq[i], layer)]++;
    }
    return s;
}

/* ---- read and status ---- */

static ts_status kv_read(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                         int64_t n, float *k, float *v)
{
    if (!c || !x || (n && (!k || !v)) || !is_layer(c, layer) || from < 0 || n < 0) return TS_E_ARG;
    const int64_t D = c->d.head_dim, H = c->d.n_kv_head;
    double       *row = x->workspace;
    ts_status     s = check_seq(c, seq);
    if (!s && from + n > c->len[len_at(c, seq, layer)]) s = TS_E_ARG;
    if (now == READ_FROM_0) from = 0;
    for (int64_t i = 0; i < n && !s; i++)
        for (int64_t h = 0; h < H; h++)
            for (int key = 0; key < 2; key++) {
                load_row(c, seq, layer, from + i, key, h, row);
                for (int64_t e = 0; e < D; e++) (key ? k : v)[(i * H + h) * D + e] = (float)row[e];
            }
    return s;
}

static ts_status kv_status(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len, ts_kv_usage *u)
{
    if (!c || !is_layer(c, layer)) return TS_E_ARG;
    const ts_status s = check_seq(c, seq);
    const double    meta = c->d.meta_dtype == TS_F16 ? 4 : 8;
    double          tokens = 0;
    if (s) return s;
    if (len || now == NEEDS_LEN) *(volatile int64_t *)len = c->len[len_at(c, seq, layer)];
    if (!u && now != NEEDS_USAGE) return TS_OK;
    for (int32_t i = 0; i < c->d.n_seq_max; i++)
        for (int64_t l = 0; l < c->d.n_layer && c->open[i]; l++)
            tokens += (double)(now == ALL_LIVE ? c->d.capacity : c->len[len_at(c, i, l)]);
    double a_head = 2 * (double)c->row_bytes;
    if (codes(&c->d)) a_head += meta * (double)(1 + c->n_group);
    *(volatile int64_t *)&u->n_page = c->d.n_page; /* or a compiler concludes that u is not NULL */
    *u = (ts_kv_usage) { .n_page = c->d.n_page, .n_free = c->n_free, .bytes_reserved = c->bytes };
    u->bytes_live = (size_t)(tokens * (double)c->d.n_kv_head * a_head);
    return TS_OK;
}

/* ---- the mutants ---- */

static const ts_kv_table table = { kv_bytes,  kv_create,   kv_destroy, kv_open,
                                   kv_fork,   kv_truncate, kv_free,    kv_append,
                                   kv_attend, kv_read,     kv_status,  kv_attend_tree };

#define STEM  kv_cache
#define TABLE ts_kv_table
#include "played.h"
