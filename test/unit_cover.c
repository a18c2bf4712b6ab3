/* SPDX-License-Identifier: Apache-2.0 */
/* unit_cover.c - tests the declarations of tasks: every parameter has a range, its classes cover
 * the range, and a judging run tests every class and every possible pair of classes. */
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "run.h"
#include "unit.h"

enum { KEYS = SANITIZED ? 1 : 3, MOST_CLASSES = 48 };

static const char *axis_name(const ts_task *t, int axis)
{
    const int i = axis - TS_COVER_DIMS;
    if (axis == TS_COVER_DTYPE) return "dtype";
    if (axis == TS_COVER_FAMILY) return "family";
    return i < TS_MAX_DIMS ? t->dim_name[i] : t->more_name[i - TS_MAX_DIMS];
}

static void has_classes(const ts_task *t, const ts_cover *v)
{
    assert_true(ts_cover_classes(v, TS_COVER_DTYPE) && ts_cover_classes(v, TS_COVER_FAMILY));
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = &v->dim[a - TS_COVER_DIMS];
        if (!axis_name(t, a) != !x->n) fail_msg("%s: parameter %d", t->name, a);
        for (int i = 0; i + 1 < x->n; i++) assert_true(x->from[i] < x->from[i + 1]);
        if (x->n)
            assert_true(x->usual < x->n && x->n <= TS_MAX_CLASSES && x->most >= x->from[x->n - 1]);
    }
}

/* No parameter without a range, and no range without a parameter. */
TEST(every_parameter_has_classes)
{
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        if (!(*t)->cover) fail_msg("%s declares no ranges", (*t)->name);
        has_classes(*t, (*t)->cover);
        assert_true(!(*t)->optional == !(*t)->further);
        if ((*t)->further) has_classes(*t, (*t)->further);
    }
}

typedef struct met {
    bool one[TS_I32 + 1][TS_MAX_AXES][MOST_CLASSES];
    bool pair[TS_MAX_AXES][MOST_CLASSES][TS_MAX_AXES][MOST_CLASSES];
    bool point[TS_MAX_AXES][TS_MAX_POINTS];
    bool tail[TS_I32 + 1][TS_GAPS][TS_TAILS];
} met;

static void meet(const ts_cover *v, const ts_case *c, met *m)
{
    int cls[TS_MAX_AXES];
    for (int a = 0; a < TS_MAX_AXES; a++) {
        const int point = c->dtype == TS_F64 ? -1 : ts_cover_point(v, c, a);
        cls[a] = ts_cover_class(v, c, a);
        if (point >= 0) m->point[a][point] = true;
    }
    for (int gap = 0; gap < TS_GAPS; gap++) {
        const int tail = ts_cover_tail(v, c, (ts_gap)gap);
        if (tail >= 0) m->tail[c->dtype][gap][tail] = true;
    }
    for (int a = 0; a < TS_MAX_AXES; a++) {
        if (cls[a] < 0) continue;
        if (ts_cover_shows(v, c, a, a) && ts_cover_tells(v, c, a))
            m->one[c->dtype][a][cls[a]] = true;
        for (int b = 0; b < TS_MAX_AXES; b++)
            if (cls[b] >= 0 && ts_cover_shows(v, c, a, b)) m->pair[a][cls[a]][b][cls[b]] = true;
    }
}

static const met *draw_all(const ts_task *t, const ts_cover *v, ts_depth depth, ts_class cls,
                           int key)
{
    static met   m;
    const ts_run c = { .depth = depth, .key = { (unsigned char)key } };
    int          n;
    int         *number = ts_run_draw(&c, t, cls, NULL, &n);
    memset(&m, 0, sizeof m);
    for (int i = 0; i < n; i++) {
        const ts_case *one = &t->cases()[number[i]];
        if (one->use & TS_USE_COVER && ts_cover_class(v, one, TS_COVER_FAMILY) >= 0)
            meet(v, one, &m);
    }
    free(number);
    return &m;
}

/* At quick, and in Python: each class of each parameter, in every dtype in which it can be. */
static void asks_every_class(const ts_task *t, const ts_cover *v, ts_class cls, int key)
{
    const met *m = draw_all(t, v, TS_QUICK, cls, key);
    for (int a = TS_COVER_FAMILY; a < TS_MAX_AXES; a++)
        for (int i = 0; i < ts_cover_classes(v, a); i++)
            for (int k = 0; k < ts_cover_classes(v, TS_COVER_DTYPE); k++) {
                int dtype = 0;
                for (int skip = k; !(v->dtypes >> dtype & 1u) || skip--;) dtype++;
                if (ts_cover_allows(v, TS_COVER_DTYPE, k, a, i) && !m->one[dtype][a][i])
                    fail_msg("%s, quick, key %d: class %d of %s is not asked in dtype %d", t->name,
                             key, i, axis_name(t, a), dtype);
            }
}

/* At normal: every two classes of two parameters that can meet. */
static void asks_every_pair(const ts_task *t, const ts_cover *v, int key, int *n_pairs)
{
    const met *m = draw_all(t, v, TS_NORMAL, TS_SEALED, key);
    for (int a = 0; a < TS_MAX_AXES; a++)
        for (int b = 0; b < a; b++)
            for (int i = 0; i < ts_cover_classes(v, a); i++)
                for (int k = 0; k < ts_cover_classes(v, b); k++) {
                    if (!ts_cover_allows(v, a, i, b, k)) continue;
                    ++*n_pairs;
                    if (!m->pair[a][i][b][k])
                        fail_msg("%s, normal, key %d: class %d of %s never meets class %d of %s",
                                 t->name, key, i, axis_name(t, a), k, axis_name(t, b));
                }
}

/* Every tail before a gap in every dtype, at quick without f64; before one that fills a vector, and
 * at normal without a gap, in one. */
static void asks_every_tail(const ts_task *t, const ts_cover *v, ts_depth depth, ts_class cls,
                            int key)
{
    const met *m = draw_all(t, v, depth, cls, key);
    const int  n_dtypes = v->row ? ts_cover_classes(v, TS_COVER_DTYPE) : 0;
    for (int i = 0; i < n_dtypes * TS_GAPS * TS_TAILS; i++) {
        const int tail = i % TS_TAILS, gap = i / TS_TAILS % TS_GAPS;
        const int dtype = ts_cover_dtype(v, i / TS_TAILS / TS_GAPS);
        bool      met = m->tail[dtype][gap][tail];
        if (depth == TS_QUICK && (gap == TS_GAP_NONE || dtype == TS_F64)) continue;
        for (int k = 0; gap != TS_GAP_ANY && k <= TS_I32; k++) met |= m->tail[k][gap][tail];
        if (!met)
            fail_msg("%s, depth %d, key %d: no rows of 8 n + %d elements with gap %d in dtype %d",
                     t->name, (int)depth, key, tail, gap, dtype);
    }
}

typedef uint64_t shown_of(const ts_cover *v, const ts_case *c, int axis);

/* At quick: what any case has of the ends of blocks, or of products, but in f64. */
static void asks_all_of(shown_of *shown, const char *what, const ts_task *t, const ts_cover *v,
                        int key)
{
    const ts_run c = { .depth = TS_QUICK, .key = { (unsigned char)key } };
    int          n;
    int         *number = ts_run_draw(&c, t, TS_SEALED, NULL, &n);
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        uint64_t all = 0, met = 0;
        for (const ts_case *one = t->cases(); one->use; one++)
            if (one->use & TS_USE_COVER && one->dtype != TS_F64) all |= shown(v, one, a);
        for (int i = 0; i < n; i++)
            if (t->cases()[number[i]].use & TS_USE_COVER && t->cases()[number[i]].dtype != TS_F64)
                met |= shown(v, &t->cases()[number[i]], a);
        if (met != all)
            fail_msg("%s, quick, key %d: %s has %s %llx, not %llx", t->name, key, axis_name(t, a),
                     what, (unsigned long long)met, (unsigned long long)all);
    }
    free(number);
}

/* The number of a point: as in a case that has it. */
static int point_of(const ts_cover *v, int axis, int64_t value)
{
    ts_case   raw = ts_cover_usual(v);
    const int next_to = v->dim[axis - TS_COVER_DIMS].next_to;
    raw.dim[axis - TS_COVER_DIMS] = value;
    if (next_to) raw.dim[next_to - 1] = 2;
    if (v->make) v->make(&raw);
    return ts_cover_point(v, &raw, axis);
}

/* How many points of a hundred quick has: more where many parameters count, since a case may have a
 * point of each. */
static int least_percent(const ts_cover *v)
{
    int n = 0;
    for (int i = 0; i < TS_MAX_DIMS + TS_MAX_MORE; i++) n += v->dim[i].counts;
    return n > 3 ? 45 : 20;
}

/* At normal every point, in some dtype but f64; at quick a part. */
static void asks_points(const ts_task *t, const ts_cover *v, ts_depth depth, int key, int *n)
{
    const met *m = draw_all(t, v, depth, TS_SEALED, key);
    int        n_all = 0, n_met = 0;
    for (int a = TS_COVER_DIMS; a < TS_MAX_AXES; a++) {
        const ts_axis *x = &v->dim[a - TS_COVER_DIMS];
        for (int64_t i = x->counts ? x->from[0] : INT64_MAX; i <= x->most && i < INT64_MAX;
             i = ts_cover_next_point(i)) {
            const int p = point_of(v, a, i);
            if (p < 0 || !ts_cover_has_point(v, 0, a, i)) continue;
            n_all++;
            n_met += m->point[a][p];
            if (depth == TS_NORMAL && !m->point[a][p])
                fail_msg("%s, normal, key %d: no case has %s=%lld", t->name, key, axis_name(t, a),
                         (long long)i);
        }
    }
    if (n_met * 100 < n_all * least_percent(v))
        fail_msg("%s, quick, key %d: %d of %d points", t->name, key, n_met, n_all);
    if (depth == TS_QUICK && n_all)
        print_message("%s, quick, key %d: %d of %d points\n", t->name, key, n_met, n_all);
    *n += depth == TS_NORMAL ? n_all : 0;
}

/* What a query head shares, counts and blocks: the numbers that wrong kernels have missed. */
TEST(points_are_where_blocks_end)
{
    static const int64_t  is[] = { 1,  3,  7,  13,  16,  17,  31,  33,  65, 66,
                                   80, 96, 97, 112, 129, 192, 193, 255, 256 };
    static const int64_t  is_not[] = { 19, 71, 100, 200 };
    const ts_cover *const v = ts_task_called("flash_attention")->cover;
    const int             axis = TS_COVER_DIMS + 5 /* head_dim */;
    for (size_t i = 0; i < sizeof is / sizeof *is; i++) assert_true(point_of(v, axis, is[i]) >= 0);
    for (size_t i = 0; i < sizeof is_not / sizeof *is_not; i++)
        assert_int_equal(point_of(v, axis, is_not[i]), -1);
    assert_true(ts_cover_has_point(v, 0, TS_COVER_DIMS + 3 /* ratio */, 7));
}

/* Where a table for all items and beams ends, though neither number is large. */
TEST(products_pass_tables)
{
    const ts_task *t = ts_task_called("beam_search");
    int64_t        most = 0;
    for (const ts_case *c = t->cases(); c->use; c++) {
        const int64_t n = c->dim[0] * c->dim[2];
        if (c->use & TS_USE_COVER && ts_cover_products(t->cover, c, TS_COVER_DIMS) && n > most)
            most = n;
    }
    assert_true(most > 4096);
}

/* ---- how calls are made ---- */

/* Every small number of threads is that of some case at quick, whatever the key; and a large one.
 * Of few cases one number may be missing. */
TEST(asks_every_number_of_threads)
{
    for (const ts_task *const *t = ts_tasks; *t; t++)
        for (int k = 0; k < KEYS; k++) {
            const ts_run c = { .depth = TS_QUICK, .key = { (unsigned char)k }, .n_threads = 8 };
            unsigned     met = 0;
            int          n;
            int         *number = ts_run_draw(&c, *t, TS_SEALED, NULL, &n);
            for (int i = 0; i < n; i++) {
                const int threads = ts_run_case_threads(&c, ts_run_case_seed(&c, *t, number[i]));
                met |= 1u << (threads < 9 ? threads : 9);
            }
            free(number);
            const unsigned missing = ~met & ((2u << 9) - 2);
            if (missing && (n > 60 || missing & (missing - 1)))
                fail_msg("%s, key %d, %d cases: threads %x", (*t)->name, k, n, met);
        }
}

/* More rows than a launch has blocks, with more columns than a warp has lanes; and rows further
 * apart than 32 bits count. */
TEST(asks_what_is_large)
{
    static const char *const some[] = { "layernorm_forward",   "layernorm_backward",
                                        "rms_norm_forward",    "rms_norm_backward",
                                        "softmax_topk",        "cross_entropy",
                                        "cross_entropy_logits" };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (int k = 0; k < KEYS; k++) {
            const ts_task *t = ts_task_called(some[i]);
            const ts_run   c = { .depth = TS_QUICK, .key = { (unsigned char)k } };
            int            n, n_tall = 0, n_far = 0;
            int           *number = ts_run_draw(&c, t, TS_SEALED, NULL, &n);
            for (int j = 0; j < n; j++) {
                const ts_case *one = &t->cases()[number[j]];
                n_tall += one->dim[0] > 65535 && one->dim[1] > 64;
                n_far += !strcmp(one->family, "farther");
            }
            free(number);
            if (!n_tall || n_far < 2) fail_msg("%s, key %d: %d, %d", t->name, k, n_tall, n_far);
        }
}

TEST(asks_all)
{
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        int n_pairs = 0, n_classes = 0, n_cases = 0, n_points = 0;
        for (int k = 0; k < KEYS; k++) {
            n_points = 0;
            for (ts_depth d = TS_QUICK; d <= TS_NORMAL; d++)
                asks_points(*t, (*t)->cover, d, k, &n_points);
            for (ts_depth d = TS_QUICK; d <= TS_NORMAL && (*t)->further; d++)
                asks_points(*t, (*t)->further, d, k, &n_points);
            asks_every_class(*t, (*t)->cover, TS_SEALED, k);
            asks_every_class(*t, (*t)->cover, TS_PYTHON, k);
            asks_all_of(ts_cover_blocks, "ends of blocks", *t, (*t)->cover, k);
            asks_all_of(ts_cover_products, "products", *t, (*t)->cover, k);
            asks_every_tail(*t, (*t)->cover, TS_QUICK, TS_SEALED, k);
            asks_every_tail(*t, (*t)->cover, TS_QUICK, TS_PYTHON, k);
            asks_every_tail(*t, (*t)->cover, TS_NORMAL, TS_SEALED, k);
            n_pairs = 0;
            asks_every_pair(*t, (*t)->cover, k, &n_pairs);
            if (!(*t)->further) continue;
            asks_every_class(*t, (*t)->further, TS_SEALED, k);
            asks_every_pair(*t, (*t)->further, k, &n_pairs);
        }
        for (int a = 0; a < TS_MAX_AXES; a++) n_classes += ts_cover_classes((*t)->cover, a);
        for (const ts_case *c = (*t)->cases(); c->use; c++) n_cases += !!(c->use & TS_USE_COVER);
        print_message("%s: %d classes, %d pairs, %d points in %d cases\n", (*t)->name, n_classes,
                      n_pairs, n_points, n_cases);
    }
}
