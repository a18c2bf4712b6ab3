/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_tree.c - queries of a tree behind a cached sequence: equal to appending each path alone,
 * in all bits, for every implementation, store and layout; nothing is stored by it. */
#include <stdbool.h>

#include "unit_kv_cache.h"

enum { MOST_ROWS = 40 };

static const uint64_t K = 7, V = 8, Q = 9, DRAFT = 1000; /* streams; a tree's are DRAFT further */

static tokens tree_k, tree_v, tree_q, tree_out, path_k, path_v, path_q, path_out;
static float  tree_lse[MOST_ROWS * MAX_HEADS], path_lse[MAX_HEADS];

/* ---- trees ---- */

typedef struct shape {
    int64_t n;
    int32_t parent[MOST_ROWS];
} shape;

typedef enum kind { CHAIN, STAR, RANDOM, COMB, KINDS } kind;

static shape shape_of(kind k, int64_t n, uint64_t seed)
{
    shape s = { .n = n };
    for (int64_t i = 0; i < n; i++)
        s.parent[i] = k == CHAIN  ? (int32_t)i - 1
                      : k == STAR ? -1
                      : k == COMB ? (int32_t)(i < 2 ? -1 : i - 2) /* two paths, interleaved */
                                  : (int32_t)(ts_bits(seed, i) % (uint64_t)(i + 1)) - 1;
    return s;
}

/* The rows on the way to row i, root first; their number. */
static int64_t path_to(const shape *s, int64_t i, int64_t *row)
{
    int64_t n = 0;
    for (int64_t j = i; j >= 0; j = s->parent[j]) n++;
    for (int64_t j = i, at = n; j >= 0; j = s->parent[j]) row[--at] = j;
    return n;
}

static void copy_row(const ts_kv_dims *d, tokens *to, int64_t i, const tokens *from, int64_t j,
                     int64_t n_head)
{
    const size_t bytes = (size_t)(n_head * d->head_dim) * ts_format_of(d->io_dtype)->n_bytes;
    memcpy((char *)to + (size_t)i * bytes, (const char *)from + (size_t)j * bytes, bytes);
}

static void fill_tree(const ts_kv_dims *d, int64_t n)
{
    fill(&tree_k, d, d->n_kv_head, K + DRAFT, 0, n);
    fill(&tree_v, d, d->n_kv_head, V + DRAFT, 0, n);
    fill(&tree_q, d, d->n_q_head, Q + DRAFT, 0, n);
}

static void ask_tree(box *b, int32_t seq, const shape *s)
{
    const ts_kv_tree tree = { s->parent, &tree_k, &tree_v };
    memset(&tree_out, 0xff, sizeof tree_out);
    assert_int_equal(
        ts_kv_attend_tree(b->c, &b->x, 0, 1, &seq, &s->n, &tree, &tree_q, &tree_out, tree_lse),
        TS_OK);
}

/* Appends the path to row i to a fork, and asks for its last token. */
static int64_t ask_path(box *b, int32_t seq, const shape *s, int64_t i)
{
    int64_t       row[MOST_ROWS], one = 1;
    const int64_t n = path_to(s, i, row);
    int32_t       fork;
    for (int64_t j = 0; j < n; j++) {
        copy_row(&b->d, &path_k, j, &tree_k, row[j], b->d.n_kv_head);
        copy_row(&b->d, &path_v, j, &tree_v, row[j], b->d.n_kv_head);
    }
    copy_row(&b->d, &path_q, 0, &tree_q, i, b->d.n_q_head);
    assert_int_equal(ts_kv_fork(b->c, &b->x, seq, &fork), TS_OK);
    assert_int_equal(ts_kv_append(b->c, &b->x, 0, 1, &fork, &n, &path_k, &path_v), TS_OK);
    assert_int_equal(ts_kv_attend(b->c, &b->x, 0, 1, &fork, &one, &path_q, &path_out, path_lse),
                     TS_OK);
    read_all(b, 0, fork, 1);
    assert_int_equal(ts_kv_free(b->c, &b->x, fork), TS_OK);
    return n;
}

static void same_bits(const ts_kv_dims *d, int64_t i)
{
    const size_t bytes = out_bytes(d, 1);
    assert_memory_equal((char *)&tree_out + (size_t)i * bytes, &path_out, bytes);
    assert_memory_equal(tree_lse + i * d->n_q_head, path_lse,
                        (size_t)d->n_q_head * sizeof *path_lse);
}

/* Row i against attention in double, over what read gave of the path: of its keys those from len
 * on, where `exact`, as they were given. */
static void is_exact(const ts_kv_dims *d, const shape *s, int64_t i, int64_t len, bool exact)
{
    static double k[MAX_TOKENS * MAX_HEADS * MAX_D], v[MAX_TOKENS * MAX_HEADS * MAX_D];
    const int64_t D = d->head_dim, stride = d->n_kv_head * D;
    int64_t       row[MOST_ROWS];
    const int64_t n = path_to(s, i, row);
    want          w;
    double        q[MAX_D];
    for (int64_t e = 0; e < (len + n) * stride; e++) k[e] = read_k[1][e], v[e] = read_v[1][e];
    for (int64_t e = 0; e < len * stride; e++) k[e] = read_k[0][e];
    for (int64_t e = 0; exact && e < n * stride; e++)
        k[len * stride + e] = ts_load(&tree_k, d->io_dtype, row[e / stride] * stride + e % stride);
    for (int64_t h = 0; h < d->n_q_head; h++) {
        const int64_t kv = h * d->n_kv_head / d->n_q_head, at = (i * d->n_q_head + h) * D;
        for (int64_t e = 0; e < D; e++) q[e] = ts_load(&tree_q, d->io_dtype, at + e);
        attend_exactly(d, len + n - 1, q, k + kv * D, v + kv * D, stride, &w);
        for (int64_t e = 0; e < D; e++)
            assert_true(fabs(ts_load(&tree_out, d->io_dtype, at + e) - w.out[e]) <= w.bound[e]);
        assert_true(fabs((double)tree_lse[i * d->n_q_head + h] - w.lse) <= w.lse_bound);
    }
}

/* Every row of a tree behind len tokens. */
static void paths_are_equal(ts_kv_dims d, int64_t len, const shape *s)
{
    const bool channel = is_code(d.store_dtype) && d.key_axis == TS_KEY_CHANNEL;
    d.n_layer = 1, d.n_seq_max = 3;
    box           b = box_of(d);
    const int32_t other = box_open(&b), seq = box_open(&b);
    append(&b, 0, other, 1, 5, 5); /* so that pages are not in order */
    append(&b, 0, seq, K, len, 20);
    fill_tree(&d, s->n);
    const ts_kv_usage before = box_usage(&b);
    read_all(&b, 0, seq, 0);
    ask_tree(&b, seq, s);
    read_all(&b, 0, seq, 1);
    same_read();
    const ts_kv_usage after = box_usage(&b);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(box_len(&b, 0, seq), len);
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t n = ask_path(&b, seq, s, i);
        is_exact(&d, s, i, len, channel);
        if (!channel || len % d.key_group + n < d.key_group) same_bits(&d, i);
    }
    box_drop(&b);
}

static void every_store(void **state)
{
    (void)state;
    static const ts_dtype ios[] = { TS_F32, TS_BF16, TS_F16, TS_F64 };
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t i = 0; i < sizeof ios / sizeof *ios; i++)
            for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
                for (int axis = 0; axis <= is_code(all_stores[j]); axis++)
                    for (int paged = 0; paged < 2; paged++) {
                        ts_kv_dims  d = plain_dims();
                        const shape s = shape_of((kind)((i + j) % KINDS), 9, i + j);
                        if (ios[i] == TS_F64 && m > 0) continue; /* plain C's alone */
                        ts_cpu_set_mask(masks[m]);
                        d.io_dtype = ios[i], d.store_dtype = all_stores[j];
                        d.key_axis = (ts_key_axis)axis;
                        d.page = paged ? 16 : 0;
                        d.meta_dtype = (i + j) % 2 ? TS_F16 : TS_F32;
                        paths_are_equal(d, 43, &s);
                    }
    ts_cpu_set_mask(~0u);
}

static void every_tree(void **state)
{
    (void)state;
    static const int64_t lens[] = { 0, 1, 31, 32, 33, 64, 100 }, sizes[] = { 1, 2, 7, 40 };
    static const int64_t windows[][2] = { { 0, 0 }, { 1, 0 }, { 5, 3 }, { 40, 34 } };
    int                  turn = 0;
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (int k = 0; k < KINDS; k++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (size_t j = 0; j < sizeof lens / sizeof *lens; j++, turn++) {
                    ts_kv_dims  d = plain_dims();
                    const shape s = shape_of((kind)k, sizes[i], (uint64_t)turn);
                    ts_cpu_set_mask(masks[m]);
                    d.n_q_head = turn % 3 ? 4 : 6, d.head_dim = turn % 2 ? 8 : 17;
                    d.window = windows[turn % 4][0], d.n_sink = windows[turn % 4][1];
                    d.store_dtype = turn % 5 ? TS_F32 : TS_BF16;
                    paths_are_equal(d, lens[j], &s);
                }
    ts_cpu_set_mask(~0u);
}

/* Narrower than a vector, one, and the width for which vector code is made apart. */
static void every_width(void **state)
{
    (void)state;
    static const int64_t widths[] = { 1, 16, 128 };
    const shape          s = shape_of(RANDOM, 12, 3);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
            for (int w = 0; w < 3; w++) {
                ts_kv_dims d = plain_dims();
                ts_cpu_set_mask(masks[m]);
                d.head_dim = widths[w], d.store_dtype = all_stores[j];
                paths_are_equal(d, 40, &s);
            }
    ts_cpu_set_mask(~0u);
}

/* ---- who is not on the path ---- */

static void strangers_do_not_matter(void **state)
{
    (void)state;
    const shape s = shape_of(RANDOM, 20, 5);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++)
        for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++) {
            ts_kv_dims d = plain_dims();
            ts_cpu_set_mask(masks[m]);
            d.n_layer = 1, d.store_dtype = all_stores[j];
            box           b = box_of(d);
            const int32_t seq = box_open(&b);
            append(&b, 0, seq, K, 30, 30);
            for (int64_t i = 0; i < s.n; i++) {
                int64_t       row[MOST_ROWS];
                const int64_t n = path_to(&s, i, row), width = d.n_kv_head * d.head_dim;
                fill_tree(&d, s.n);
                ask_path(&b, seq, &s, i);
                for (int64_t r = 0, on = 0; r < s.n; r++) {
                    if (on < n && row[on] == r) {
                        on++;
                        continue;
                    }
                    for (int64_t e = 0; e < width; e++) {
                        ts_store(&tree_k, TS_F32, r * width + e, e % 2 ? NAN : INFINITY);
                        ts_store(&tree_v, TS_F32, r * width + e, e % 2 ? INFINITY : NAN);
                    }
                }
                ask_tree(&b, seq, &s);
                same_bits(&d, i);
            }
            box_drop(&b);
        }
    ts_cpu_set_mask(~0u);
}

/* Two trees in one call, and a sequence without one between them. */
static void company_does_not_matter(void **state)
{
    (void)state;
    const shape s[2] = { shape_of(RANDOM, 11, 1), shape_of(COMB, 8, 0) };
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        ts_kv_dims d = plain_dims();
        ts_cpu_set_mask(masks[m]);
        d.n_layer = 1;
        box     b = box_of(d);
        int32_t seq[3], parent[MOST_ROWS];
        int64_t n[3] = { s[0].n, 0, s[1].n };
        for (int i = 0; i < 3; i++) seq[i] = box_open(&b);
        append(&b, 0, seq[0], K, 50, 50);
        append(&b, 0, seq[2], K + 50, 33, 33);
        fill_tree(&d, s[0].n + s[1].n);
        memcpy(parent, s[0].parent, (size_t)s[0].n * sizeof *parent);
        memcpy(parent + s[0].n, s[1].parent, (size_t)s[1].n * sizeof *parent);
        const ts_kv_tree tree = { parent, &tree_k, &tree_v };
        assert_int_equal(
            ts_kv_attend_tree(b.c, &b.x, 0, 3, seq, n, &tree, &tree_q, &path_out, tree_lse), TS_OK);
        for (int t = 0; t < 2; t++) { /* each alone: the second one's tokens come first then */
            const int64_t from = t ? s[0].n : 0;
            const size_t  each = out_bytes(&d, 1);
            for (int64_t i = 0; i < s[t].n; i++) {
                copy_row(&d, &tree_k, i, &tree_k, from + i, d.n_kv_head);
                copy_row(&d, &tree_v, i, &tree_v, from + i, d.n_kv_head);
                copy_row(&d, &tree_q, i, &tree_q, from + i, d.n_q_head);
            }
            ask_tree(&b, seq[2 * t], &s[t]);
            assert_memory_equal((char *)&path_out + (size_t)from * each, &tree_out,
                                (size_t)s[t].n * each);
        }
        box_drop(&b);
    }
    ts_cpu_set_mask(~0u);
}

/* Long enough to be split among threads, whose number must not show. */
static void behind_many(void **state)
{
    (void)state;
    static tokens first;
    const shape   s = shape_of(RANDOM, 5, 2);
    for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) {
        ts_kv_dims d = plain_dims();
        ts_cpu_set_mask(masks[m]);
        d.n_layer = 1, d.n_q_head = 2, d.n_kv_head = 1, d.head_dim = 24;
        d.capacity = 3000, d.page = 64, d.n_page = 100;
        box           b = box_of(d);
        const int32_t seq = box_open(&b);
        int64_t       row[MOST_ROWS];
        append(&b, 0, seq, K, 2020, 300);
        fill_tree(&d, s.n);
        ask_tree(&b, seq, &s);
        first = tree_out;
        for (b.x.n_threads = 1; b.x.n_threads < 8; b.x.n_threads += 3) {
            ask_tree(&b, seq, &s);
            assert_memory_equal(&first, &tree_out, out_bytes(&d, s.n));
        }
        static float  k[2100 * 24], v[2100 * 24];
        static double wide_k[2100 * 24], wide_v[2100 * 24];
        assert_int_equal(ts_kv_read(b.c, &b.x, 0, seq, 0, 2020, k, v), TS_OK);
        for (int64_t i = 0; i < s.n * 2; i++) {
            const int64_t n = path_to(&s, i / 2, row);
            double        q[24];
            want          w;
            for (int64_t e = 0; e < (2020 + n) * 24; e++) {
                const int64_t r = e / 24 < 2020 ? 0 : row[e / 24 - 2020] * 24 + e % 24;
                wide_k[e] = e / 24 < 2020 ? (double)k[e] : ts_load(&tree_k, TS_F32, r);
                wide_v[e] = e / 24 < 2020 ? (double)v[e] : ts_load(&tree_v, TS_F32, r);
            }
            for (int64_t e = 0; e < 24; e++) q[e] = ts_load(&tree_q, TS_F32, i * 24 + e);
            attend_exactly(&d, 2020 + n - 1, q, wide_k, wide_v, 24, &w);
            for (int64_t e = 0; e < 24; e++)
                assert_true(fabs(ts_load(&tree_out, TS_F32, i * 24 + e) - w.out[e]) <= w.bound[e]);
        }
        box_drop(&b);
    }
    ts_cpu_set_mask(~0u);
}

/* ---- what is refused ---- */

static void refusals(void **state)
{
    (void)state;
    ts_kv_dims d = plain_dims();
    d.max_call_tokens = 4;
    box        b = box_of(d);
    int32_t    seq = box_open(&b), closed = 3, parent[5] = { -1, 0, 1, 2, 3 };
    int64_t    n = 3, many = 5;
    ts_kv_tree tree = { parent, &tree_k, &tree_v };
    tokens    *out = &tree_out;
    fill_tree(&d, 5);
    memset(out, 0xff, sizeof *out);
    path_out = *out;
#define ASK(c, layer, seq, n, tree, q, out)                                                        \
    ts_kv_attend_tree(c, &b.x, layer, 1, seq, n, tree, q, out, NULL)
    assert_int_equal(ASK(NULL, 0, &seq, &n, &tree, &tree_q, out), TS_E_ARG);
    assert_int_equal(ASK(b.c, 2, &seq, &n, &tree, &tree_q, out), TS_E_ARG);
    assert_int_equal(ASK(b.c, 0, NULL, &n, &tree, &tree_q, out), TS_E_ARG);
    assert_int_equal(ASK(b.c, 0, &closed, &n, &tree, &tree_q, out), TS_E_STATE);
    assert_int_equal(ASK(b.c, 0, &seq, &many, &tree, &tree_q, out), TS_E_ARG);
    assert_int_equal(ASK(b.c, 0, &seq, &n, NULL, &tree_q, out), TS_E_ARG);
    assert_int_equal(ASK(b.c, 0, &seq, &n, &tree, NULL, out), TS_E_ARG);
    assert_int_equal(ASK(b.c, 0, &seq, &n, &tree, &tree_q, NULL), TS_E_ARG);
    for (int i = 0; i < 3; i++) {
        ts_kv_tree lacks = tree;
        if (i == 0) lacks.parent = NULL;
        if (i == 1) lacks.k = NULL;
        if (i == 2) lacks.v = NULL;
        assert_int_equal(ASK(b.c, 0, &seq, &n, &lacks, &tree_q, out), TS_E_ARG);
    }
    static const int32_t wrong[] = { -2, 2, 3, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        parent[2] = wrong[i];
        assert_int_equal(ASK(b.c, 0, &seq, &n, &tree, &tree_q, out), TS_E_ARG);
    }
    parent[2] = 1;
    b.x.workspace_bytes--;
    assert_int_equal(ASK(b.c, 0, &seq, &n, &tree, &tree_q, out), TS_E_WORKSPACE);
    b.x.workspace_bytes++;
    assert_memory_equal(out, &path_out, sizeof *out);
    assert_int_equal(ASK(b.c, 0, &seq, &n, &tree, &tree_q, out), TS_OK);
    n = 0;
    assert_int_equal(ASK(b.c, 0, &seq, &n, NULL, NULL, NULL), TS_OK);
#undef ASK
    box_drop(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_store),
        cmocka_unit_test(every_tree),
        cmocka_unit_test(every_width),
        cmocka_unit_test(strangers_do_not_matter),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(behind_many),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
