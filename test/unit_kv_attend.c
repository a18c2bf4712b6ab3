/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_attend.c - attention over a cache is exact, and equal in all bits where kv_cache.h says
 * so: for every implementation and every store. */
#include "unit_kv_cache.h"

/* ---- attend is exact attention over what read gives ---- */

static tokens buf_out, buf_other;
static double wide_k[MAX_TOKENS * MAX_HEADS * MAX_D], wide_v[MAX_TOKENS * MAX_HEADS * MAX_D];

/* The last n rows, which `attend` has put into out and lse. */
static void is_exact(box *b, int64_t layer, int32_t seq, uint64_t seed, int64_t n,
                     const tokens *out, const float *lse)
{
    const ts_kv_dims *d = &b->d;
    const int64_t     len = box_len(b, layer, seq), D = d->head_dim, stride = d->n_kv_head * D;
    want              w;
    double            q[MAX_D];
    read_all(b, layer, seq, 0);
    for (int64_t i = 0; i < len * stride; i++) wide_k[i] = read_k[0][i], wide_v[i] = read_v[0][i];
    for (int64_t i = 0; i < n * d->n_q_head; i++) {
        const int64_t p = len - n + i / d->n_q_head, h = i % d->n_q_head;
        const int64_t kv = h * d->n_kv_head / d->n_q_head;
        for (int64_t e = 0; e < D; e++)
            q[e] = element(d->io_dtype, seed, (p * d->n_q_head + h) * D + e);
        attend_exactly(d, p, q, wide_k + kv * D, wide_v + kv * D, stride, &w);
        for (int64_t e = 0; e < D; e++)
            if (!(fabs(ts_load(out, d->io_dtype, i * D + e) - w.out[e]) <= w.bound[e]))
                fail_msg("store %d io %d len %d p %d h %d [%d]: %.9g for %.9g +- %.2g",
                         d->store_dtype, d->io_dtype, (int)len, (int)p, (int)h, (int)e,
                         ts_load(out, d->io_dtype, i * D + e), w.out[e], w.bound[e]);
        if (lse) assert_true(fabs((double)lse[i] - w.lse) <= w.lse_bound);
    }
}

static void attend_is_exact(const ts_kv_dims *d)
{
    static const int64_t lens[] = { 1, 2, 17, 64, 65, 129, 200 };
    static float         lse[MAX_TOKENS * MAX_HEADS];
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        box           b = box_of(*d);
        const int32_t s = box_open(&b), t = box_open(&b);
        append(&b, 1, t, 77, 3, 3);
        append(&b, 1, s, 7, lens[i], 50);
        for (int64_t n = 1; n <= lens[i]; n = n * 7 + 1) {
            attend(&b, 1, s, 9, n, &buf_out, lse);
            is_exact(&b, 1, s, 9, n, &buf_out, lse);
        }
        box_drop(&b);
    }
}

TEST(attends_over_every_store)
{
    static const ts_dtype ios[] = { TS_F32, TS_BF16, TS_F16, TS_F64 };
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t i = 0; i < sizeof ios / sizeof *ios; i++)
            for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
                for (int axis = 0; axis <= is_code(all_stores[j]); axis++) {
                    ts_kv_dims d = plain_dims();
                    if (ios[i] == TS_F64 && m > 0) continue; /* plain C's alone */
                    ts_cpu_set_mask(masks[m]);
                    d.io_dtype = ios[i], d.store_dtype = all_stores[j];
                    d.key_axis = (ts_key_axis)axis;
                    d.meta_dtype = (i + j) % 2 ? TS_F16 : TS_F32;
                    attend_is_exact(&d);
                }
    ts_cpu_set_mask(~0u);
}

TEST(attends_for_every_shape)
{
    static const int64_t heads[][2] = {
        { 1, 1 }, { 4, 1 }, { 6, 3 }, { 8, 2 }, { 7, 1 }, { 5, 5 }
    };
    static const int64_t windows[][2] = { { 0, 3 }, { 1, 0 }, { 5, 0 }, { 5, 4 }, { 70, 66 } };
    static const int64_t sizes[] = { 1, 2, 8, 31, 64 };
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (int i = 0; i < 30; i++) {
            ts_kv_dims d = plain_dims();
            ts_cpu_set_mask(masks[m]);
            d.n_q_head = heads[i % 6][0], d.n_kv_head = heads[i % 6][1];
            d.window = windows[i % 5][0], d.n_sink = windows[i % 5][1];
            d.head_dim = sizes[i / 6];
            d.store_dtype = all_stores[(i + i / 5) % 5];
            d.key_axis = (ts_key_axis)(i / 2 % 2);
            d.key_group = i % 4 ? 8 : 16;
            attend_is_exact(&d);
        }
    ts_cpu_set_mask(~0u);
}

/* The width that models have most, for which vector code is made apart. */
TEST(attends_over_wide_rows)
{
    for (size_t m = 1; m < sizeof masks / sizeof *masks; m++)
        for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
            for (int axis = 0; axis <= is_code(all_stores[j]); axis++) {
                ts_kv_dims d = plain_dims();
                ts_cpu_set_mask(masks[m]);
                d.n_q_head = 8, d.head_dim = 128;
                d.store_dtype = all_stores[j];
                d.key_axis = (ts_key_axis)axis;
                d.key_group = 16;
                attend_is_exact(&d);
            }
    ts_cpu_set_mask(~0u);
}

/* In double nothing but the last bits may differ, so the content is compared with what went in. */
TEST(doubles_stay_doubles)
{
    ts_kv_dims d = plain_dims();
    d.io_dtype = d.store_dtype = TS_F64;
    d.n_q_head = d.n_kv_head = 1;
    box           b = box_of(d);
    const int32_t s = box_open(&b);
    want          w;
    double        q[MAX_D];
    append(&b, 0, s, 7, 100, 30);
    for (int64_t i = 0; i < 100 * 33; i++) wide_k[i] = ts_normal(7, i), wide_v[i] = ts_normal(8, i);
    for (int64_t e = 0; e < 33; e++) q[e] = ts_normal(9, 99 * 33 + e);
    attend(&b, 0, s, 9, 1, &buf_out, NULL);
    attend_exactly(&d, 99, q, wide_k, wide_v, 33, &w);
    for (int e = 0; e < 33; e++) assert_true(fabs(buf_out.v[e] - w.out[e]) <= w.bound[e]);
    box_drop(&b);
}

/* Long enough to be split among threads, whose number must not show. */
TEST(attends_far)
{
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++) {
            ts_kv_dims d = plain_dims();
            ts_cpu_set_mask(masks[m]);
            d.n_layer = 1, d.n_q_head = 2, d.n_kv_head = 1, d.head_dim = 24;
            d.capacity = 5000, d.page = 64, d.n_page = 80;
            d.store_dtype = all_stores[j];
            d.key_axis = (ts_key_axis)(j % 2);
            box           b = box_of(d);
            const int32_t s = box_open(&b);
            append(&b, 0, s, 7, 4500, 300);
            for (int64_t n = 1; n < 20; n += 17) {
                attend(&b, 0, s, 9, n, &buf_out, NULL);
                is_exact(&b, 0, s, 9, n, &buf_out, NULL);
                for (int threads = 1; threads < 8; threads += 3) {
                    b.x.n_threads = threads;
                    attend(&b, 0, s, 9, n, &buf_other, NULL);
                    assert_memory_equal(&buf_out, &buf_other, out_bytes(&d, n));
                }
                b.x.n_threads = 0;
            }
            box_drop(&b);
        }
    ts_cpu_set_mask(~0u);
}

/* ---- equalities, bit for bit ---- */

typedef void (*equality)(ts_kv_dims d);

static void for_every_store(equality holds)
{
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
            for (int axis = 0; axis <= is_code(all_stores[j]); axis++) {
                ts_kv_dims d = plain_dims();
                ts_cpu_set_mask(masks[m]);
                d.n_layer = 1;
                d.store_dtype = all_stores[j];
                d.key_axis = (ts_key_axis)axis;
                holds(d);
            }
    ts_cpu_set_mask(~0u);
}

static void any_page(ts_kv_dims d)
{
    static const int64_t pages[] = { 8, 16, 64, 1, 7 };
    const int            n_pages = d.key_axis == TS_KEY_CHANNEL ? 3 : 5;
    d.page = 0;
    box           a = box_of(d);
    const int32_t s = box_open(&a);
    append(&a, 0, s, 7, 150, 150);
    read_all(&a, 0, s, 0);
    attend(&a, 0, s, 9, 30, &buf_out, NULL);
    for (int i = 0; i < n_pages; i++) {
        d.page = pages[i], d.n_page = 400;
        box           b = box_of(d);
        const int32_t other = box_open(&b), t = box_open(&b);
        for (int j = 0; j < 15; j++) { /* pages of the two are mixed */
            append(&b, 0, t, 7, 10, 10);
            append(&b, 0, other, 1, 3, 3);
        }
        read_all(&b, 0, t, 1);
        same_read();
        attend(&b, 0, t, 9, 30, &buf_other, NULL);
        assert_memory_equal(&buf_out, &buf_other, out_bytes(&d, 30));
        box_drop(&b);
    }
    box_drop(&a);
}

TEST(paged_is_contiguous)
{
    for_every_store(any_page);
}

static void any_chunks(ts_kv_dims d)
{
    box           b = box_of(d);
    const int32_t s = box_open(&b), t = box_open(&b);
    append(&b, 0, s, 7, 5, 5), append(&b, 0, s, 7, 144, 144);
    append(&b, 0, t, 7, 100, 1), append(&b, 0, t, 7, 49, 13);
    read_all(&b, 0, s, 0), read_all(&b, 0, t, 1);
    same_read();
    box_drop(&b);
}

TEST(chunks_do_not_show)
{
    for_every_store(any_chunks);
}

/* Sequences of different lengths in one call are as each alone. */
static void any_batch(ts_kv_dims d)
{
    box           b = box_of(d);
    const int32_t s[] = { box_open(&b), box_open(&b), box_open(&b) };
    const int64_t n[] = { 1, 5, 17 }, from[] = { 0, 1, 6 };
    const int64_t k_row = 2 * 33 * 4, q_row = 4 * 33 * 4;
    for (int i = 0; i < 3; i++) {
        fill(&buf_q, &d, 2, 20u + (unsigned)i, 0, n[i]);
        memcpy((char *)&buf_k + from[i] * k_row, &buf_q, (size_t)(n[i] * k_row));
        fill(&buf_q, &d, 2, 21u + (unsigned)i, 0, n[i]);
        memcpy((char *)&buf_v + from[i] * k_row, &buf_q, (size_t)(n[i] * k_row));
    }
    assert_int_equal(ts_kv_append(b.c, &b.x, 0, 3, s, n, &buf_k, &buf_v), TS_OK);
    fill(&buf_q, &d, 4, 9, 0, 23);
    memset(&buf_out, 0xff, sizeof buf_out);
    assert_int_equal(ts_kv_attend(b.c, &b.x, 0, 3, s, n, &buf_q, &buf_out, NULL), TS_OK);
    for (int i = 0; i < 3; i++) {
        const int32_t solo = box_open(&b);
        append(&b, 0, solo, 20u + (unsigned)i, n[i], n[i]);
        assert_int_equal(box_len(&b, 0, s[i]), n[i]);
        read_all(&b, 0, s[i], 0), read_all(&b, 0, solo, 1);
        same_read();
        fill(&buf_q, &d, 4, 9, 0, 23);
        assert_int_equal(ts_kv_attend(b.c, &b.x, 0, 1, &solo, &n[i],
                                      (char *)&buf_q + from[i] * q_row, &buf_other, NULL),
                         TS_OK);
        assert_memory_equal((char *)&buf_out + from[i] * q_row, &buf_other, (size_t)(n[i] * q_row));
        assert_int_equal(ts_kv_free(b.c, &b.x, solo), TS_OK);
    }
    box_drop(&b);
}

TEST(batched_is_solo)
{
    for_every_store(any_batch);
}

/* A later token changes nothing before it. Tails aside: there a group is coded when complete. */
static void any_future(ts_kv_dims d)
{
    box           b = box_of(d);
    const int32_t s = box_open(&b), t = box_open(&b);
    append(&b, 0, s, 7, 136, 40), append(&b, 0, t, 7, 136, 40);
    append(&b, 0, s, 7, 4, 4), append(&b, 0, t, 1000, 4, 4);
    attend(&b, 0, s, 9, 140, &buf_out, NULL);
    attend(&b, 0, t, 9, 140, &buf_other, NULL);
    assert_memory_equal(&buf_out, &buf_other, out_bytes(&d, 136));
    assert_memory_not_equal(&buf_out, &buf_other, out_bytes(&d, 140));
    box_drop(&b);
}

TEST(the_future_does_not_show)
{
    for_every_store(any_future);
}

/* Not even where it is NaN, nor does what the window has passed. */
static void any_nan(ts_kv_dims d)
{
    if (is_code(d.store_dtype)) return; /* a group of tokens would share it */
    d.window = 20, d.n_sink = 3;
    box           b = box_of(d);
    const int32_t s = box_open(&b), t = box_open(&b);
    const int64_t n = 90;
    append(&b, 0, s, 7, n, n);
    fill(&buf_k, &d, 2, 7, 0, n), fill(&buf_v, &d, 2, 8, 0, n);
    for (int64_t i = 0; i < 66; i++) {
        ((float *)&buf_k)[10 * 66 + i] = ((float *)&buf_v)[10 * 66 + i] = NAN;
        ((float *)&buf_k)[80 * 66 + i] = ((float *)&buf_v)[80 * 66 + i] = NAN;
    }
    assert_int_equal(ts_kv_append(b.c, &b.x, 0, 1, &t, &n, &buf_k, &buf_v), TS_OK);
    attend(&b, 0, s, 9, n, &buf_out, NULL);
    attend(&b, 0, t, 9, n, &buf_other, NULL);
    const float *out = (const float *)&buf_other;
    for (int64_t p = 0; p < n; p++) {
        const int sees = (p >= 10 && p < 30) || p >= 80;
        assert_true(sees ? isnan(out[p * 132]) : !isnan(out[p * 132]));
        if (!sees) assert_memory_equal((const float *)&buf_out + p * 132, out + p * 132, 132 * 4);
    }
    box_drop(&b);
}

TEST(unseen_nan_does_not_show)
{
    for_every_store(any_nan);
}

/* Truncated and grown again, a sequence is as if it had never been longer. */
static void any_truncation(ts_kv_dims d)
{
    box           b = box_of(d);
    const int32_t s = box_open(&b), t = box_open(&b);
    append(&b, 0, s, 1000, 100, 100);
    assert_int_equal(ts_kv_truncate(b.c, &b.x, s, 0), TS_OK);
    assert_int_equal(box_usage(&b).n_free, d.n_page);
    append(&b, 0, s, 7, 100, 100);
    assert_int_equal(ts_kv_truncate(b.c, &b.x, s, 72), TS_OK);
    assert_int_equal(box_usage(&b).n_free, d.n_page - 5);
    append(&b, 0, s, 7, 68, 9);
    append(&b, 0, t, 7, 140, 140);
    read_all(&b, 0, s, 0), read_all(&b, 0, t, 1);
    same_read();
    attend(&b, 0, s, 9, 5, &buf_out, NULL);
    attend(&b, 0, t, 9, 5, &buf_other, NULL);
    assert_memory_equal(&buf_out, &buf_other, out_bytes(&d, 5));
    box_drop(&b);
}

TEST(truncation_leaves_no_trace)
{
    for_every_store(any_truncation);
}

/* Both go on differently from the middle of a page; neither sees the other. */
static void any_fork(ts_kv_dims d)
{
    for (d.page = 0; d.page <= 16; d.page += 16) {
        box           b = box_of(d);
        const int32_t s = box_open(&b);
        int32_t       t = -1;
        append(&b, 0, s, 7, 37, 37);
        const int64_t n_free = box_usage(&b).n_free;
        const size_t  live = box_usage(&b).bytes_live;
        assert_int_equal(ts_kv_fork(b.c, &b.x, s, &t), TS_OK);
        assert_int_equal(box_usage(&b).n_free, n_free);
        if (d.page && d.key_axis == TS_KEY_TOKEN) assert_int_equal(box_usage(&b).bytes_live, live);
        append(&b, 0, t, 1000, 30, 30);
        append(&b, 0, s, 7, 30, 30);
        assert_int_equal(ts_kv_free(b.c, &b.x, t), TS_OK);
        t = box_open(&b);
        append(&b, 0, t, 7, 67, 67);
        read_all(&b, 0, s, 0), read_all(&b, 0, t, 1);
        same_read();
        box_drop(&b);
    }
}

TEST(forks_are_independent)
{
    for_every_store(any_fork);
}
