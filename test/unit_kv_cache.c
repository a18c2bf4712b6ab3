/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_cache.c - tests the calls that the API of the KV cache rejects, capacity, sizes and
 * codes.
 *
 * unit_kv_attend.c tests attention and the equalities that kv_cache.h promises, unit_kv_fuzz.c
 * mixes everything. */
#include "unit_kv_cache.h"

static tokens buf_out;

/* ---- invalid calls ---- */

static void refuses(ts_kv_dims d, ts_status must)
{
    size_t  n = 7, m = 9;
    ts_exec x = { 0 };
    ts_kv  *c = NULL;
    char    memory[64];
    assert_int_equal(ts_kv_bytes(&d, &x, &n, &m), must);
    assert_true(n == 7 && m == 9);
    assert_int_equal(ts_kv_create(&d, &x, memory, sizeof memory, &c), must);
    assert_null(c);
}

TEST(refuses_dims)
{
    static const size_t extents[] = {
        offsetof(ts_kv_dims, n_layer),  offsetof(ts_kv_dims, n_seq_max),
        offsetof(ts_kv_dims, n_q_head), offsetof(ts_kv_dims, n_kv_head),
        offsetof(ts_kv_dims, head_dim), offsetof(ts_kv_dims, capacity),
        offsetof(ts_kv_dims, n_page),   offsetof(ts_kv_dims, max_call_tokens),
    };
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        for (int64_t v = -1; v < 1; v++) {
            ts_kv_dims d = plain_dims();
            memcpy((char *)&d + extents[i], &v, sizeof v);
            refuses(d, TS_E_SHAPE);
        }
    const ts_kv_dims good = plain_dims();
    ts_kv_dims       d = good;
#define WITH(change, status) (d = good, change, refuses(d, status))
    WITH(d.n_q_head = 3, TS_E_SHAPE);
    WITH(d.n_q_head = INT64_C(1) << 62, TS_E_SHAPE);
    WITH(d.page = -1, TS_E_SHAPE);
    WITH(d.head_dim = INT64_MAX, TS_E_SHAPE);
    WITH(d.capacity = INT64_MAX, TS_E_SHAPE);
    WITH((d.n_page = INT64_MAX / 8, d.page = 1), TS_E_SHAPE);
    WITH((d.page = 0, d.n_seq_max = INT32_MAX, d.n_layer = 1 << 20), TS_E_SHAPE);
    WITH((d.store_dtype = TS_U8, d.key_group = 0), TS_E_SHAPE);
    WITH((d.store_dtype = TS_U8, d.key_axis = TS_KEY_CHANNEL, d.key_group = 5), TS_E_SHAPE);
    WITH(d.window = -1, TS_E_ARG);
    WITH(d.n_sink = -1, TS_E_ARG);
    WITH(d.scale = NAN, TS_E_ARG);
    WITH((d.store_dtype = TS_U4, d.key_axis = (ts_key_axis)5), TS_E_ARG);
    WITH(d.io_dtype = TS_U8, TS_E_DTYPE);
    WITH(d.io_dtype = (ts_dtype)77, TS_E_DTYPE);
    WITH(d.store_dtype = TS_F64, TS_E_DTYPE);
    WITH(d.store_dtype = TS_I32, TS_E_DTYPE);
    WITH((d.store_dtype = TS_U8, d.meta_dtype = TS_BF16), TS_E_DTYPE);
#undef WITH
}

TEST(refuses_memory)
{
    ts_kv_dims d = plain_dims();
    ts_exec    x = { 0 };
    size_t     n, m;
    ts_kv     *c = NULL;
    assert_int_equal(ts_kv_bytes(&d, &x, &n, &m), TS_OK);
    char *memory = malloc(n);
    assert_int_equal(ts_kv_create(&d, &x, NULL, n, &c), TS_E_ARG);
    assert_int_equal(ts_kv_create(&d, &x, memory, n, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_create(NULL, &x, memory, n, &c), TS_E_ARG);
    assert_int_equal(ts_kv_create(&d, NULL, memory, n, &c), TS_E_ARG);
    assert_int_equal(ts_kv_create(&d, &x, memory, n - 1, &c), TS_E_WORKSPACE);
    assert_int_equal(ts_kv_bytes(&d, &x, NULL, &m), TS_E_ARG);
    assert_int_equal(ts_kv_bytes(&d, &x, &n, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_destroy(NULL), TS_E_ARG);
    assert_null(c);
    free(memory);
}

/* Every refused call leaves lengths, pages and content as they were. */
TEST(refuses_calls)
{
    box           b = box_of(plain_dims());
    const int32_t s = box_open(&b), t = box_open(&b), twice[] = { s, t, s }, shut[] = { s, 3 };
    const int32_t wild[] = { s, 4 }, below[] = { -1 }, both[] = { s, t };
    const int64_t one[] = { 1, 1, 1 }, minus[] = { 1, -1 }, many[] = { 1, MAX_TOKENS };
    const ts_exec x = b.x;
    ts_exec       bad = x;
    int32_t       id = -7;
    append(&b, 0, s, 1, 20, 20);
    read_all(&b, 0, s, 0);
    const ts_kv_usage before = box_usage(&b);
#define APPEND(n, list, counts) ts_kv_append(b.c, &x, 0, n, list, counts, &buf_k, &buf_v)
    assert_int_equal(APPEND(3, twice, one), TS_E_ARG);
    assert_int_equal(APPEND(2, shut, one), TS_E_STATE);
    assert_int_equal(APPEND(2, wild, one), TS_E_ARG);
    assert_int_equal(APPEND(1, below, one), TS_E_ARG);
    assert_int_equal(APPEND(2, both, minus), TS_E_ARG);
    assert_int_equal(APPEND(2, both, many), TS_E_ARG);
    assert_int_equal(APPEND(-1, both, one), TS_E_ARG);
    assert_int_equal(APPEND(1, NULL, one), TS_E_ARG);
    assert_int_equal(APPEND(1, both, NULL), TS_E_ARG);
    assert_int_equal(APPEND(0, NULL, NULL), TS_OK);
#undef APPEND
    assert_int_equal(ts_kv_append(b.c, &x, 2, 1, both, one, &buf_k, &buf_v), TS_E_ARG);
    assert_int_equal(ts_kv_append(b.c, &x, -1, 1, both, one, &buf_k, &buf_v), TS_E_ARG);
    assert_int_equal(ts_kv_append(b.c, &x, 0, 1, both, one, NULL, &buf_v), TS_E_ARG);
    assert_int_equal(ts_kv_append(b.c, &x, 0, 1, both, one, &buf_k, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_append(NULL, &x, 0, 1, both, one, &buf_k, &buf_v), TS_E_ARG);
    assert_int_equal(ts_kv_append(b.c, NULL, 0, 1, both, one, &buf_k, &buf_v), TS_E_ARG);
    assert_int_equal(ts_kv_attend(b.c, &x, 0, 2, both, one, &buf_q, &buf_out, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_attend(b.c, &x, 0, 1, both, one, NULL, &buf_out, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_attend(b.c, &x, 0, 1, both, one, &buf_q, NULL, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_read(b.c, &x, 0, s, 0, 21, read_k[1], read_v[1]), TS_E_ARG);
    assert_int_equal(ts_kv_read(b.c, &x, 0, s, INT64_MAX, 2, read_k[1], read_v[1]), TS_E_ARG);
    assert_int_equal(ts_kv_read(b.c, &x, 0, s, -1, 2, read_k[1], read_v[1]), TS_E_ARG);
    assert_int_equal(ts_kv_read(b.c, &x, 0, 3, 0, 0, NULL, NULL), TS_E_STATE);
    assert_int_equal(ts_kv_read(b.c, &x, 0, s, 20, 0, NULL, NULL), TS_OK);
    assert_int_equal(ts_kv_truncate(b.c, &x, s, 1), TS_E_ARG); /* layer 1 has none */
    assert_int_equal(ts_kv_truncate(b.c, &x, s, -1), TS_E_ARG);
    assert_int_equal(ts_kv_truncate(b.c, &x, 3, 0), TS_E_STATE);
    assert_int_equal(ts_kv_free(b.c, &x, 3), TS_E_STATE);
    assert_int_equal(ts_kv_fork(b.c, &x, 3, &id), TS_E_STATE);
    assert_int_equal(ts_kv_fork(b.c, &x, s, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_open(b.c, &x, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_status(b.c, 2, s, &(int64_t) { 0 }, NULL), TS_E_ARG);
    assert_int_equal(ts_kv_status(b.c, 0, 3, &(int64_t) { 0 }, NULL), TS_E_STATE);
    bad.workspace_bytes = x.workspace_bytes - 1;
    assert_int_equal(ts_kv_append(b.c, &bad, 0, 1, both, one, &buf_k, &buf_v), TS_E_WORKSPACE);
    assert_int_equal(ts_kv_free(b.c, &bad, s), TS_E_WORKSPACE);
    bad = x, bad.device = TS_CUDA;
    assert_int_equal(ts_kv_attend(b.c, &bad, 0, 1, both, one, &buf_q, &buf_out, NULL), TS_E_ARG);
    read_all(&b, 0, s, 1);
    same_read();
    const ts_kv_usage after = box_usage(&b);
    assert_memory_equal(&before, &after, sizeof after);
    assert_true(id == -7 && box_len(&b, 0, s) == 20 && box_len(&b, 1, s) == 0);
    (void)box_open(&b), (void)box_open(&b);
    assert_int_equal(ts_kv_open(b.c, &x, &id), TS_E_CAPACITY);
    assert_int_equal(ts_kv_fork(b.c, &x, s, &id), TS_E_CAPACITY);
    assert_int_equal(ts_kv_free(b.c, &x, s), TS_OK);
    assert_int_equal(ts_kv_free(b.c, &x, s), TS_E_STATE);
    box_drop(&b);
}

/* ---- capacity: all of a call or nothing ---- */

TEST(capacity_is_all_or_nothing)
{
    for (int paged = 0; paged < 2; paged++) {
        ts_kv_dims d = plain_dims();
        d.page = paged ? 16 : 0;
        d.n_page = 13; /* three sequences of 64 tokens, and one page */
        d.n_layer = 1;
        d.capacity = paged ? 200 : 80;
        box           b = box_of(d);
        const int32_t s[] = { box_open(&b), box_open(&b), box_open(&b) };
        const int64_t third[] = { 5, 5, 17 }, fits[] = { 0, 0, 16 };
        for (int i = 0; i < 3; i++) append(&b, 0, s[i], 10u * (unsigned)i, 64, 64);
        fill(&buf_k, &d, 2, 5, 0, 27), fill(&buf_v, &d, 2, 6, 0, 27);
        read_all(&b, 0, s[0], 0);
        assert_int_equal(ts_kv_append(b.c, &b.x, 0, 3, s, third, &buf_k, &buf_v), TS_E_CAPACITY);
        for (int i = 0; i < 3; i++) assert_int_equal(box_len(&b, 0, s[i]), 64);
        assert_int_equal(box_usage(&b).n_free, paged);
        assert_int_equal(ts_kv_append(b.c, &b.x, 0, 3, s, fits, &buf_k, &buf_v), TS_OK);
        assert_int_equal(box_len(&b, 0, s[2]), 80);
        read_all(&b, 0, s[0], 1);
        same_read();
        box_drop(&b);
    }
}

/* Two forks that share a begun page need one page between them, not two. */
TEST(the_last_page_is_given)
{
    ts_kv_dims d = plain_dims();
    d.n_layer = 1, d.n_page = 2;
    box     b = box_of(d);
    int32_t s[2] = { box_open(&b), -1 };
    append(&b, 0, s[0], 1, 5, 5);
    assert_int_equal(ts_kv_fork(b.c, &b.x, s[0], &s[1]), TS_OK);
    assert_int_equal(box_usage(&b).n_free, 1);
    const int64_t n[] = { 11, 3 }, over[] = { 11, 12 };
    assert_int_equal(ts_kv_append(b.c, &b.x, 0, 2, s, over, &buf_k, &buf_v), TS_E_CAPACITY);
    assert_int_equal(box_usage(&b).n_free, 1);
    assert_int_equal(ts_kv_append(b.c, &b.x, 0, 2, s, n, &buf_k, &buf_v), TS_OK);
    assert_int_equal(box_usage(&b).n_free, 0);
    box_drop(&b);
}

/* ---- sizes ---- */

TEST(bytes_are_what_they_should_be)
{
    for (size_t i = 0; i < sizeof all_stores / sizeof *all_stores; i++)
        for (int axis = TS_KEY_TOKEN; axis <= TS_KEY_CHANNEL; axis++)
            for (int page = 0; page <= 16; page += 16) {
                ts_kv_dims d = plain_dims();
                d.store_dtype = all_stores[i];
                d.key_axis = (ts_key_axis)axis;
                d.page = page;
                box           b = box_of(d);
                const int32_t s = box_open(&b), t = box_open(&b);
                append(&b, 0, s, 1, 21, 7), append(&b, 1, s, 2, 20, 20), append(&b, 0, t, 3, 1, 1);
                const size_t code = d.store_dtype == TS_U4 ? 17 : 33;
                const size_t row =
                    is_code(d.store_dtype) ? code : 33 * ts_format_of(d.store_dtype)->n_bytes;
                size_t live = 42 * 2 * 2 * row;
                if (is_code(d.store_dtype) && axis == TS_KEY_TOKEN) live += 42 * 2 * (5 + 1) * 8;
                if (is_code(d.store_dtype) &&
                    axis == TS_KEY_CHANNEL) /* 4 groups; tails of 5, 4, 1 */
                    live += (42 + 4 * 33) * 2 * 8 - 10 * 2 * row + 10 * 2 * 33 * 4;
                assert_int_equal(box_usage(&b).bytes_live, live);
                const size_t tokens_reserved = page ? 104 * 16 : 200 * 8;
                size_t       full = tokens_reserved * 2 * 2 * row + 4 * 2 * (page ? 13 : 1) * 4;
                if (is_code(d.store_dtype)) {
                    full += tokens_reserved * 2 * 8;
                    if (axis == TS_KEY_TOKEN) full += tokens_reserved * 2 * 5 * 8;
                    else full += tokens_reserved / 8 * 2 * 33 * 8 + 4 * 2 * 2 * 8 * 33 * 4;
                }
                assert_true(box_usage(&b).bytes_reserved >= full);
                assert_true((double)box_usage(&b).bytes_reserved <= 1.05 * (double)full + 65536);
                box_drop(&b);
            }
}

TEST(layers_have_their_own_lengths)
{
    box           b = box_of(plain_dims());
    const int32_t s = box_open(&b), t = box_open(&b);
    for (int i = 0; i < 4; i++) append(&b, 0, s, 1, i ? 1 : 5, 5);
    append(&b, 1, s, 2, 3, 1), append(&b, 1, t, 3, 17, 17);
    assert_int_equal(box_len(&b, 0, s), 8);
    assert_int_equal(box_len(&b, 1, s), 3);
    assert_int_equal(box_len(&b, 0, t), 0);
    assert_int_equal(box_len(&b, 1, t), 17);
    read_all(&b, 0, s, 0);
    for (int i = 0; i < 8 * 66; i++) assert_true(read_k[0][i] == (float)ts_normal(1, i));
    read_all(&b, 1, t, 0);
    for (int i = 0; i < 17 * 66; i++) assert_true(read_v[0][i] == (float)ts_normal(4, i));
    box_drop(&b);
}

/* ---- codes ---- */

/* Odd rows, constant rows, zeros, and a row far from 0 that uses every code. */
TEST(codes_keep_their_promise)
{
    for (int i = 0; i < 8 * (int)(sizeof masks / sizeof *masks); i++) {
        ts_kv_dims d = plain_dims();
        ts_cpu_set_mask(masks[i / 8]);
        d.n_layer = 1, d.n_kv_head = d.n_q_head = 1;
        d.store_dtype = i & 1 ? TS_U8 : TS_U4;
        d.meta_dtype = i & 2 ? TS_F16 : TS_F32;
        d.key_axis = i & 4 ? TS_KEY_CHANNEL : TS_KEY_TOKEN;
        const int     bits = i & 1 ? 8 : 4;
        box           b = box_of(d);
        const int32_t s = box_open(&b);
        const int64_t n = 8;
        float        *x = (float *)&buf_k;
        for (int j = 0; j < 8 * 33; j++)
            x[j] = j < 33   ? 0
                   : j < 66 ? -3.25f
                   : j < 99 ? 1000 + (float)(j % 33)
                            : (float)ts_normal(3, j);
        assert_int_equal(ts_kv_append(b.c, &b.x, 0, 1, &s, &n, x, x), TS_OK);
        read_all(&b, 0, s, 0);
        for (int j = 0; j < 2 * 8 * 33; j++) {
            const int t = j / 2 / 33, c = j / 2 % 33, value = j % 2; /* token, channel */
            double    lo = INFINITY, hi = -INFINITY;
            for (int e = 0; e < 8 * 33; e++) {
                int with = e / 33 == t && (value || e % 33 / 8 == c / 8);
                if (!value && d.key_axis == TS_KEY_CHANNEL) with = e % 33 == c;
                if (with) lo = fmin(lo, (double)x[e]), hi = fmax(hi, (double)x[e]);
            }
            double bound = (hi - lo) / ((1 << bits) - 1) / 2;
            if (d.meta_dtype == TS_F32) bound += 0x1p-22 * (fabs(lo) + fabs(hi));
            else bound += 0x1p-10 * (fabs(lo) + fabs(hi)) + ldexp(1, bits - 25);
            const float got = (value ? read_v : read_k)[0][j / 2];
            assert_true(fabs((double)got - (double)x[j / 2]) <= bound);
        }
        for (int j = 0; j < 66; j++) assert_true(read_v[0][j] == x[j]);
        box_drop(&b);
    }
    ts_cpu_set_mask(~0u);
}

/* What is not a number must not come back as one. */
TEST(codes_keep_nan)
{
    for (int i = 0; i < 2 * (int)(sizeof masks / sizeof *masks); i++) {
        ts_kv_dims d = plain_dims();
        ts_cpu_set_mask(masks[i / 2]);
        d.store_dtype = i % 2 ? TS_U8 : TS_U4;
        d.key_axis = TS_KEY_CHANNEL;
        box           b = box_of(d);
        const int32_t s = box_open(&b);
        const int64_t n = 8;
        fill(&buf_k, &d, 2, 7, 0, n), fill(&buf_v, &d, 2, 8, 0, n);
        ((float *)&buf_k)[3 * 66 + 5] = NAN;                          /* channel 5 */
        ((float *)&buf_v)[5] = NAN, ((float *)&buf_v)[40] = INFINITY; /* both heads of token 0 */
        assert_int_equal(ts_kv_append(b.c, &b.x, 0, 1, &s, &n, &buf_k, &buf_v), TS_OK);
        read_all(&b, 0, s, 0);
        for (int j = 0; j < n * 66; j++) {
            assert_int_equal(isnan(read_v[0][j]) != 0, j < 66);
            assert_int_equal(isnan(read_k[0][j]) != 0, j % 66 == 5);
        }
        box_drop(&b);
    }
    ts_cpu_set_mask(~0u);
}
