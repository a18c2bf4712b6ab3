/* SPDX-License-Identifier: Apache-2.0 */
/* unit_kv_tree.c [cuda] - tests attention of a drafted tree after a cached sequence: it equals
 * appending each path alone.
 *
 * For every implementation, store and layout, on the CPU bitwise; and nothing is stored. */
#include <stdbool.h>

#include "unit_kv_cache.h"

enum { MOST_ROWS = 1500 };

static const uint64_t K = 7, V = 8, Q = 9, DRAFT = 1000; /* streams; a tree's are DRAFT further */

static tokens tree_k, tree_v, tree_q, tree_out, path_k, path_v, path_q, path_out;
static float  tree_lse[200 * 128], path_lse[128]; /* rows, times heads */

/* A device has one row of the table. */
static size_t first_mask(void)
{
    return kv_device == TS_CPU ? 0 : sizeof masks / sizeof *masks - 1;
}

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
    const size_t     kv = kv_bytes(&b->d, s->n), n = out_bytes(&b->d, s->n);
    const size_t     n_lse = (size_t)(s->n * b->d.n_q_head) * sizeof *tree_lse;
    const ts_kv_tree tree = { s->parent, kv_there(0, &tree_k, kv), kv_there(1, &tree_v, kv) };
    memset(&tree_out, 0xff, n);
    void *const  out = kv_there(2, &tree_out, n);
    float *const lse = kv_there(3, tree_lse, n_lse);
    assert_int_equal(
        ts_kv_attend_tree(b->c, &b->x, 0, 1, &seq, &s->n, &tree, kv_there(4, &tree_q, n), out, lse),
        TS_OK);
    kv_back(&tree_out, out, n);
    kv_back(tree_lse, lse, n_lse);
}

/* Appends the path to row i to a fork, and computes attention of its last token. */
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
    assert_int_equal(ts_kv_append(b->c, &b->x, 0, 1, &fork, &n,
                                  kv_there(0, &path_k, kv_bytes(&b->d, n)),
                                  kv_there(1, &path_v, kv_bytes(&b->d, n))),
                     TS_OK);
    if (kv_device == TS_CPU)
        assert_int_equal(ts_kv_attend(b->c, &b->x, 0, 1, &fork, &one, &path_q, &path_out, path_lse),
                         TS_OK);
    read_all(b, 0, fork, 1);
    assert_int_equal(ts_kv_free(b->c, &b->x, fork), TS_OK);
    return n;
}

static void same_row(const ts_kv_dims *d, int64_t i)
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
        /* What a device has tensor cores multiply, weights among it, is rounded. */
        const double rounding = kv_device == TS_CPU ? 0 : 2 * ts_format_of(d->io_dtype)->u;
        for (int64_t e = 0; e < D; e++)
            assert_true(fabs(ts_load(&tree_out, d->io_dtype, at + e) - w.out[e]) <=
                        w.bound[e] + rounding * w.size[e]);
        assert_true(fabs((double)tree_lse[i * d->n_q_head + h] - w.lse) <= w.lse_bound);
    }
}

/* Every row of a tree behind len tokens, or, where they are many, some. */
static void paths_are_equal(ts_kv_dims d, int64_t len, const shape *s)
{
    const int64_t step = s->n > 60 ? 13 : 1;
    const bool    channel = is_code(d.store_dtype) && d.key_axis == TS_KEY_CHANNEL;
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
    for (int64_t i = s->n - 1; i >= 0; i -= step) {
        const int64_t n = ask_path(&b, seq, s, i);
        is_exact(&d, s, i, len, channel);
        /* A device adds up in another order where a tree is not a text; so does the CPU, where a
         * branch is long enough to be shared out. */
        if (kv_device == TS_CPU && s->n <= 200 && (!channel || len % d.key_group + n < d.key_group))
            same_row(&d, i);
    }
    box_drop(&b);
}

TEST(every_store)
{
    static const ts_dtype ios[] = { TS_F32, TS_BF16, TS_F16, TS_F64 };
    for (size_t m = first_mask(); m < sizeof masks / sizeof *masks; m++)
        for (size_t i = 0; i < sizeof ios / sizeof *ios; i++)
            for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
                for (int axis = 0; axis <= is_code(all_stores[j]); axis++)
                    for (int paged = 0; paged < 2; paged++) {
                        ts_kv_dims  d = plain_dims();
                        const shape s = shape_of((kind)((i + j) % KINDS), 9, i + j);
                        if (ios[i] == TS_F64 && (m > 0 || kv_device != TS_CPU))
                            continue; /* plain C's alone */
                        ts_cpu_set_mask(masks[m]);
                        d.io_dtype = ios[i], d.store_dtype = all_stores[j];
                        d.key_axis = (ts_key_axis)axis;
                        d.page = paged ? 16 : 0;
                        d.meta_dtype = (i + j) % 2 ? TS_F16 : TS_F32;
                        paths_are_equal(d, 43, &s);
                    }
    ts_cpu_set_mask(~0u);
}

TEST(every_tree)
{
    static const int64_t lens[] = { 0, 1, 31, 32, 33, 64, 100 }, sizes[] = { 1, 2, 7, 40 };
    static const int64_t windows[][2] = { { 0, 0 }, { 1, 0 }, { 5, 3 }, { 40, 34 } };
    int                  turn = 0;
    for (size_t m = first_mask(); m < sizeof masks / sizeof *masks; m++)
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
TEST(every_width)
{
    static const int64_t widths[] = { 1, 16, 128 };
    const shape          s = shape_of(RANDOM, 12, 3);
    for (size_t m = first_mask(); m < sizeof masks / sizeof *masks; m++)
        for (size_t j = 0; j < sizeof all_stores / sizeof *all_stores; j++)
            for (int w = 0; w < 3; w++) {
                ts_kv_dims d = plain_dims();
                ts_cpu_set_mask(masks[m]);
                d.head_dim = widths[w], d.store_dtype = all_stores[j];
                paths_are_equal(d, 40, &s);
            }
    ts_cpu_set_mask(~0u);
}

/* ---- rows that are not on the path ---- */

TEST(strangers_do_not_matter)
{
    const shape s = shape_of(RANDOM, 20, 5);
    for (size_t m = first_mask(); m < sizeof masks / sizeof *masks; m++)
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
                ask_tree(&b, seq, &s);
                copy_row(&d, &path_out, 0, &tree_out, i, d.n_q_head);
                memcpy(path_lse, tree_lse + i * d.n_q_head, (size_t)d.n_q_head * sizeof *path_lse);
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
                same_row(&d, i);
            }
            box_drop(&b);
        }
    ts_cpu_set_mask(~0u);
}

/* Two trees in one call, and a sequence without one between them. */
TEST(company_does_not_matter)
{
    const shape s[2] = { shape_of(RANDOM, 11, 1), shape_of(COMB, 8, 0) };
    for (size_t m = first_mask(); m < sizeof masks / sizeof *masks; m++) {
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
        const int64_t    rows = s[0].n + s[1].n;
        const size_t     kv = kv_bytes(&d, rows), bytes = out_bytes(&d, rows);
        const ts_kv_tree tree = { parent, kv_there(0, &tree_k, kv), kv_there(1, &tree_v, kv) };
        void *const      out = kv_there(2, &path_out, bytes);
        assert_int_equal(ts_kv_attend_tree(b.c, &b.x, 0, 3, seq, n, &tree,
                                           kv_there(4, &tree_q, bytes), out, NULL),
                         TS_OK);
        kv_back(&path_out, out, bytes);
        for (int t = 0; t < 2; t++) { /* each alone: the second one's tokens come first then */
            const int64_t from = t ? s[0].n : 0;
            const size_t  each = out_bytes(&d, 1);
            for (int64_t i = 0; i < s[t].n; i++) {
                copy_row(&d, &tree_k, i, &tree_k, from + i, d.n_kv_head);
                copy_row(&d, &tree_v, i, &tree_v, from + i, d.n_kv_head);
                copy_row(&d, &tree_q, i, &tree_q, from + i, d.n_q_head);
            }
            ask_tree(&b, seq[2 * t], &s[t]);
            if (kv_device == TS_CPU)
                assert_memory_equal((char *)&path_out + (size_t)from * each, &tree_out,
                                    (size_t)s[t].n * each);
            const int64_t width = d.n_q_head * d.head_dim;
            for (int64_t e = 0; e < s[t].n * width; e++) /* a device shares other work out */
                assert_true(fabs(ts_load(&path_out, TS_F32, from * width + e) -
                                 ts_load(&tree_out, TS_F32, e)) <= 1e-5);
        }
        box_drop(&b);
    }
    ts_cpu_set_mask(~0u);
}

/* Long enough to be split among threads, whose number must not show. */
TEST(behind_many)
{
    static tokens first;
    const shape   s = shape_of(RANDOM, 5, 2);
    for (size_t m = first_mask(); m < sizeof masks / sizeof *masks; m++) {
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
        float *const from_k = kv_there(0, k, sizeof k), *const from_v = kv_there(1, v, sizeof v);
        assert_int_equal(ts_kv_read(b.c, &b.x, 0, seq, 0, 2020, from_k, from_v), TS_OK);
        kv_back(k, from_k, sizeof k);
        kv_back(v, from_v, sizeof v);
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

/* Shapes that tensor cores serve, few columns and many, behind nothing, a token, and more tiles
 * than one; windows that hide all that is cached, and some of a branch. */
TEST(sixteen_bits)
{
    static const int64_t lens[] = { 0, 1, 64, 65, 200 }, sizes[] = { 3, 16, 18, 40, 100 };
    static const int64_t windows[][2] = { { 0, 0 }, { 1, 0 }, { 70, 3 }, { 3, 190 } };
    int                  turn = 0;
    for (size_t j = 1; j < sizeof all_stores / sizeof *all_stores; j++)
        for (int axis = 0; axis <= is_code(all_stores[j]); axis++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                for (size_t k = 0; k < sizeof lens / sizeof *lens; k++, turn++) {
                    ts_kv_dims  d = plain_dims();
                    const shape s = shape_of((kind)(turn % KINDS), sizes[i], (uint64_t)turn);
                    d.n_q_head = 8, d.head_dim = turn % 2 ? 64 : 128;
                    d.page = turn % 3 ? 16 << turn % 3 : 0;
                    d.capacity = 300, d.n_page = 200;
                    d.io_dtype = all_stores[j] == TS_F16 || turn % 4 == 1 ? TS_F16 : TS_BF16;
                    d.store_dtype = is_code(all_stores[j]) ? all_stores[j] : d.io_dtype;
                    d.key_axis = (ts_key_axis)axis;
                    d.key_group = axis ? 16 : d.head_dim;
                    d.meta_dtype = turn % 5 ? TS_F32 : TS_F16;
                    d.scale = 0.1;
                    d.window = windows[turn % 4][0], d.n_sink = windows[turn % 4][1];
                    paths_are_equal(d, lens[k], &s);
                }
}

/* More rows than a device attends to in a round, or is sent word of at a time. */
TEST(many_rows)
{
    for (int k = 0; k < KINDS; k++) {
        ts_kv_dims  d = plain_dims();
        const shape s = shape_of((kind)k, 200, 7), all = shape_of((kind)k, MOST_ROWS, 8);
        d.n_q_head = 128, d.head_dim = 8;
        d.capacity = 2000, d.page = 64, d.n_page = 200;
        d.max_call_tokens = 2000;
        d.window = 30, d.n_sink = 5; /* so that positions matter */
        paths_are_equal(d, 40, &s);
        d.n_q_head = 2, d.n_kv_head = 1;
        d.window = 9, d.n_sink = 50;
        paths_are_equal(d, 40, &all);
    }
}

/* ---- what is rejected ---- */

TEST_IN(cpu, refusals)
{
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

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "cuda")) {
        const char *absent = ts_cuda_unavailable_reason();
        if (absent) print_message("skipped: %s\n", absent);
        if (absent) return 77;
        kv_device = TS_CUDA;
    }
    return unit_run() + (kv_device == TS_CPU ? run_group("cpu", NULL, NULL) : 0);
}
