/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_fuzz.c - random operations on a paged and a contiguous cache at once, against a list of
 * tokens in double that is recomputed from scratch. KV_SEED=N replays a run. */
#include <inttypes.h>
#include <time.h>

#include "unit_kv_list.h"

/* ---- comparing ---- */

static int64_t width(void)
{
    return paged.d.n_kv_head * paged.d.head_dim;
}

static float got_k[2][CAPACITY * ROW], got_v[2][CAPACITY * ROW];

/* How far the key or value at position p, element e, may be from what went in. */
static double read_bound(const list *l, int64_t p, int64_t e, int value)
{
    const ts_kv_dims *d = &paged.d;
    const int64_t     D = d->head_dim, h = e / D * D;
    const int         bits = d->store_dtype == TS_U8 ? 8 : 4;
    int64_t           p0 = p, p1 = p + 1, e0 = h, e1 = h + D;
    double            lo = INFINITY, hi = -INFINITY;
    if (!is_code(d->store_dtype)) return 0;
    if (!value && d->key_axis == TS_KEY_CHANNEL) {
        if (p >= l->len - l->len % d->key_group) return 0;
        p0 = p - p % d->key_group, p1 = p0 + d->key_group, e0 = e, e1 = e + 1;
    } else if (!value) {
        e0 = h + (e - h) / d->key_group * d->key_group;
        e1 = e0 + d->key_group < h + D ? e0 + d->key_group : h + D;
    }
    for (int64_t i = p0; i < p1; i++)
        for (int64_t j = e0; j < e1; j++) {
            lo = fmin(lo, value ? l->v[i][j] : l->k[i][j]);
            hi = fmax(hi, value ? l->v[i][j] : l->k[i][j]);
        }
    const double s = (hi - lo) / ((1 << bits) - 1), size = fabs(lo) + fabs(hi);
    if (d->meta_dtype == TS_F32) return s / 2 + 0x1p-22 * size;
    return s / 2 + 0x1p-10 * size + ldexp(1, bits - 25);
}

static double as_read(double x)
{
    const ts_dtype t = paged.d.store_dtype;
    return (double)(float)(is_code(t) ? x : rounded(t, x));
}

static void compare_content(int s, int layer)
{
    const list *l = &lists[s][layer];
    assert_int_equal(box_len(&paged, layer, id[s]), l->len);
    assert_int_equal(box_len(&flat, layer, flat_id[s]), l->len);
    assert_int_equal(ts_kv_read(paged.c, &paged.x, layer, id[s], 0, l->len, got_k[0], got_v[0]), 0);
    assert_int_equal(ts_kv_read(flat.c, &flat.x, layer, flat_id[s], 0, l->len, got_k[1], got_v[1]),
                     0);
    const int64_t n = l->len * width();
    assert_memory_equal(got_k[0], got_k[1], (size_t)n * sizeof(float));
    assert_memory_equal(got_v[0], got_v[1], (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        const int64_t p = i / width(), e = i % width();
        assert_true(fabs((double)got_k[0][i] - as_read(l->k[p][e])) <= read_bound(l, p, e, 0));
        assert_true(fabs((double)got_v[0][i] - as_read(l->v[p][e])) <= read_bound(l, p, e, 1));
    }
}

static void compare_pages(void)
{
    const ts_kv_usage u = box_usage(&paged);
    assert_int_equal(u.n_page, paged.d.n_page);
    assert_int_equal(u.n_free + count_distinct(), u.n_page);
}

static void compare_all(void)
{
    for (int s = 0; s < SEQS; s++)
        for (int i = 0; is_open[s] && i < paged.d.n_layer; i++) compare_content(s, i);
}

/* ---- operations ---- */

static int pick_open(void)
{
    const int64_t from = below(SEQS);
    for (int i = 0; i < SEQS; i++)
        if (is_open[(from + i) % SEQS]) return (int)((from + i) % SEQS);
    return -1;
}

static int pick_shut(void)
{
    int s = 0;
    while (s < SEQS && is_open[s]) s++;
    return s < SEQS ? s : -1;
}

static void do_open(void)
{
    const int s = pick_shut();
    int32_t   none;
    if (s < 0) {
        assert_int_equal(ts_kv_open(paged.c, &paged.x, &none), TS_E_CAPACITY);
        assert_int_equal(ts_kv_open(flat.c, &flat.x, &none), TS_E_CAPACITY);
        return;
    }
    id[s] = box_open(&paged), flat_id[s] = box_open(&flat);
    is_open[s] = 1;
    for (int i = 0; i < LAYERS; i++) lists[s][i].len = 0;
}

static void do_fork(int src)
{
    const int s = pick_shut();
    int32_t   none;
    if (s < 0) {
        assert_int_equal(ts_kv_fork(paged.c, &paged.x, id[src], &none), TS_E_CAPACITY);
        return;
    }
    assert_int_equal(ts_kv_fork(paged.c, &paged.x, id[src], &id[s]), TS_OK);
    assert_int_equal(ts_kv_fork(flat.c, &flat.x, flat_id[src], &flat_id[s]), TS_OK);
    is_open[s] = 1;
    memcpy(lists[s], lists[src], sizeof lists[s]);
}

static void do_free(int s)
{
    assert_int_equal(ts_kv_free(paged.c, &paged.x, id[s]), TS_OK);
    assert_int_equal(ts_kv_free(paged.c, &paged.x, id[s]), TS_E_STATE);
    assert_int_equal(ts_kv_free(flat.c, &flat.x, flat_id[s]), TS_OK);
    is_open[s] = 0;
}

static void do_truncate(int s)
{
    const ts_kv_dims *d = &paged.d;
    int64_t           least = CAPACITY;
    for (int i = 0; i < d->n_layer; i++) least = lists[s][i].len < least ? lists[s][i].len : least;
    const int64_t n = below(8) ? below(least + 1) : least + 1;
    /* Finished groups that are cut live on as they read back. */
    for (int i = 0; n <= least && d->key_axis == TS_KEY_CHANNEL && i < d->n_layer; i++) {
        list *l = &lists[s][i];
        if (!is_code(d->store_dtype) || n >= l->len - l->len % d->key_group) continue;
        compare_content(s, i);
        for (int64_t p = n - n % d->key_group; p < n; p++)
            for (int64_t e = 0; e < width(); e++)
                l->k[p][e] = rounded(d->io_dtype, (double)got_k[0][p * width() + e]);
    }
    const ts_status must = n <= least ? TS_OK : TS_E_ARG;
    assert_int_equal(ts_kv_truncate(paged.c, &paged.x, id[s], n), must);
    assert_int_equal(ts_kv_truncate(flat.c, &flat.x, flat_id[s], n), must);
    for (int i = 0; !must && i < d->n_layer; i++) lists[s][i].len = n;
}

/* A ragged call: `most` tokens a sequence at most. Returns how many sequences are in it. */
static int64_t draw_batch(int *who, int64_t *n, int64_t most)
{
    int64_t n_seq = 0, n_left = paged.d.max_call_tokens;
    for (int s = 0; s < SEQS; s++) {
        if (!is_open[s] || !below(3)) continue;
        who[n_seq] = s;
        n[n_seq] = below((most < n_left ? most : n_left) + 1);
        n_left -= n[n_seq++];
    }
    for (int64_t i = n_seq - 1; i > 0; i--) { /* in any order */
        const int64_t j = below(i + 1), t = n[i];
        const int     w = who[i];
        who[i] = who[j], n[i] = n[j];
        who[j] = w, n[j] = t;
    }
    return n_seq;
}

static double in_k[CALL * ROW], in_v[CALL * ROW], in_q[CALL * Q_ROW], out[2][CALL * Q_ROW];
static float  lse[2][CALL * Q_ROW];
static list   before[SEQS];

static void do_append(void)
{
    int           who[SEQS];
    int64_t       n[SEQS], total = 0;
    int32_t       a[SEQS], b[SEQS];
    const int     layer = (int)below(paged.d.n_layer);
    const int64_t n_seq = draw_batch(who, n, ONE_OF(1, 3, 20, 70)), names = n_names;
    ts_status     must = TS_OK;
    for (int64_t i = 0; i < n_seq; i++) {
        list *l = &lists[who[i]][layer];
        a[i] = id[who[i]], b[i] = flat_id[who[i]];
        before[i] = *l;
        if (l->len + n[i] > paged.d.capacity) must = TS_E_CAPACITY;
        total += n[i];
    }
    const double far = below(20) ? 1 : 1000;
    for (int64_t i = 0; i < total * width(); i++) {
        ts_store(in_k, paged.d.io_dtype, i, far * ts_normal(seed, n_drawn++));
        ts_store(in_v, paged.d.io_dtype, i, ts_normal(seed, n_drawn++));
    }
    for (int64_t i = 0, at = 0; !must && i < n_seq; i++) {
        list *l = &lists[who[i]][layer];
        for (int64_t j = 0; j < n[i] * width(); j++, at++) {
            l->k[l->len + j / width()][j % width()] = ts_load(in_k, paged.d.io_dtype, at);
            l->v[l->len + j / width()][j % width()] = ts_load(in_v, paged.d.io_dtype, at);
        }
        grow_pages(l, layer, n[i]);
    }
    if (!must && count_distinct() > paged.d.n_page) must = TS_E_CAPACITY;
    assert_int_equal(ts_kv_append(paged.c, &paged.x, layer, n_seq, a, n, in_k, in_v), must);
    if (!must) {
        assert_int_equal(ts_kv_append(flat.c, &flat.x, layer, n_seq, b, n, in_k, in_v), TS_OK);
    } else {
        for (int64_t i = 0; i < n_seq; i++) lists[who[i]][layer] = before[i];
        n_names = names;
    }
    for (int64_t i = 0; i < n_seq; i++) compare_content(who[i], layer);
}

/* Where the store loses nothing the model's own numbers are attended to, else what is read. */
static void compare_attention(int s, int layer, int64_t n, int64_t first)
{
    static double     k[CAPACITY * ROW], v[CAPACITY * ROW];
    const ts_kv_dims *d = &paged.d;
    const list       *l = &lists[s][layer];
    const int64_t     D = d->head_dim;
    want              w;
    double            q[64];
    compare_content(s, layer);
    for (int64_t i = 0; i < l->len * width(); i++) {
        const int64_t p = i / width(), e = i % width();
        k[i] = is_code(d->store_dtype) ? (double)got_k[0][i] : rounded(d->store_dtype, l->k[p][e]);
        v[i] = is_code(d->store_dtype) ? (double)got_v[0][i] : rounded(d->store_dtype, l->v[p][e]);
    }
    for (int64_t i = 0; i < n * d->n_q_head; i++) {
        const int64_t h = i % d->n_q_head * d->n_kv_head / d->n_q_head,
                      row = first * d->n_q_head + i;
        for (int64_t e = 0; e < D; e++) q[e] = ts_load(in_q, d->io_dtype, row * D + e);
        attend_exactly(d, l->len - n + i / d->n_q_head, q, k + h * D, v + h * D, width(), &w);
        for (int64_t e = 0; e < D; e++)
            assert_true(fabs(ts_load(out[0], d->io_dtype, row * D + e) - w.out[e]) <= w.bound[e]);
        assert_true(fabs((double)lse[0][row] - w.lse) <= w.lse_bound);
    }
}

static void do_attend(void)
{
    const ts_kv_dims *d = &paged.d;
    int               who[SEQS];
    int64_t           n[SEQS], total = 0;
    int32_t           a[SEQS], b[SEQS];
    const int         layer = (int)below(d->n_layer);
    const int64_t     n_seq = draw_batch(who, n, ONE_OF(1, 1, 5, 40));
    for (int64_t i = 0; i < n_seq; i++) {
        const int64_t len = lists[who[i]][layer].len;
        n[i] = n[i] < len ? n[i] : len;
        a[i] = id[who[i]], b[i] = flat_id[who[i]];
        total += n[i];
    }
    const int64_t n_out = total * d->n_q_head * d->head_dim;
    const size_t  size = ts_format_of(d->io_dtype)->n_bytes;
    for (int64_t i = 0; i < n_out; i++) ts_store(in_q, d->io_dtype, i, ts_normal(seed, n_drawn++));
    memset(out, 0xff, sizeof out);
    assert_int_equal(ts_kv_attend(paged.c, &paged.x, layer, n_seq, a, n, in_q, out[0], lse[0]), 0);
    assert_int_equal(ts_kv_attend(flat.c, &flat.x, layer, n_seq, b, n, in_q, out[1], lse[1]), 0);
    assert_memory_equal(out[0], out[1], (size_t)n_out * size);
    assert_memory_equal(lse[0], lse[1], (size_t)(total * d->n_q_head) * sizeof(float));
    for (int64_t i = 0, first = 0; i < n_seq; first += n[i++])
        compare_attention(who[i], layer, n[i], first);
}

/* ---- a run ---- */

static void draw_caches(void)
{
    const int64_t heads = below(5);
    ts_kv_dims    d = {
           .n_layer = 1 + below(LAYERS),
           .n_seq_max = SEQS,
           .n_q_head = (const int64_t[]) { 1, 4, 6, 2, 6 }[heads],
           .n_kv_head = (const int64_t[]) { 1, 1, 3, 2, 2 }[heads],
           .head_dim = ONE_OF(1, 2, 5, 8, 17, 33),
           .capacity = ONE_OF(5, 20, 70, CAPACITY),
           .key_group = ONE_OF(1, 4, 8),
           .key_axis = below(2) ? TS_KEY_CHANNEL : TS_KEY_TOKEN,
           .max_call_tokens = CALL,
           .io_dtype = (ts_dtype)ONE_OF(TS_F32, TS_BF16, TS_F16, TS_F64),
           .store_dtype = (ts_dtype)ONE_OF(TS_F32, TS_BF16, TS_F16, TS_U8, TS_U4, TS_U4),
           .meta_dtype = below(2) ? TS_F16 : TS_F32,
           .scale = 0.3,
    };
    if (below(2)) d.window = 1 + below(40), d.n_sink = below(6);
    if (d.io_dtype == TS_F64 && below(2)) d.store_dtype = TS_F64;
    ts_cpu_set_mask(masks[below(sizeof masks / sizeof *masks)]);
    flat = box_of(d);
    d.page = d.key_group * ONE_OF(1, 2, 3, 8);
    d.n_page = 1 + below(SEQS * d.n_layer * (d.capacity / d.page + 1));
    paged = box_of(d);
}

static void do_something(void)
{
    const int64_t die = below(20);
    const int     s = pick_open();
    if (s < 0 || die == 0) do_open();
    else if (die < 3) do_fork(s);
    else if (die < 4) do_free(s);
    else if (die < 7) do_truncate(s);
    else if (die < 14) do_append();
    else do_attend();
    const int other = pick_open();
    if (other >= 0) compare_content(other, (int)below(paged.d.n_layer));
}

TEST(agrees_with_a_list)
{
    for (int e = 0; e < N_EPISODES; e++) {
        draw_caches();
        memset(is_open, 0, sizeof is_open);
        for (int i = 0; i < N_OPS / N_EPISODES; i++) {
            do_something();
            compare_pages();
            if (i % 50 == 0) compare_all();
        }
        compare_all();
        for (int s = 0; s < SEQS; s++)
            if (is_open[s]) do_free(s);
        assert_int_equal(box_usage(&paged).n_free, paged.d.n_page);
        assert_int_equal(box_usage(&paged).bytes_live, 0);
        assert_int_equal(box_usage(&flat).bytes_live, 0);
        box_drop(&paged), box_drop(&flat);
    }
    ts_cpu_set_mask(~0u);
}

int main(void)
{
    const char     *asked = getenv("KV_SEED");
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    seed = asked ? strtoull(asked, NULL, 0)
                 : ts_mix((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec);
    print_message("KV_SEED=0x%" PRIx64 "\n", seed);
    return unit_run();
}
