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
} met;

static void meet(const ts_cover *v, const ts_case *c, met *m)
{
    int cls[TS_MAX_AXES];
    for (int a = 0; a < TS_MAX_AXES; a++) cls[a] = ts_cover_class(v, c, a);
    for (int a = 0; a < TS_MAX_AXES; a++) {
        if (cls[a] < 0) continue;
        if (ts_cover_shows(v, c, a, a)) m->one[c->dtype][a][cls[a]] = true;
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

TEST(asks_all)
{
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        int n_pairs = 0, n_classes = 0, n_cases = 0;
        for (int k = 0; k < KEYS; k++) {
            asks_every_class(*t, (*t)->cover, TS_SEALED, k);
            asks_every_class(*t, (*t)->cover, TS_PYTHON, k);
            n_pairs = 0;
            asks_every_pair(*t, (*t)->cover, k, &n_pairs);
            if (!(*t)->further) continue;
            asks_every_class(*t, (*t)->further, TS_SEALED, k);
            asks_every_pair(*t, (*t)->further, k, &n_pairs);
        }
        for (int a = 0; a < TS_MAX_AXES; a++) n_classes += ts_cover_classes((*t)->cover, a);
        for (const ts_case *c = (*t)->cases(); c->use; c++) n_cases += !!(c->use & TS_USE_COVER);
        print_message("%s: %d classes, %d pairs in %d cases\n", (*t)->name, n_classes, n_pairs,
                      n_cases);
    }
}
