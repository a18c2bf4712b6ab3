/* SPDX-License-Identifier: Apache-2.0 */
/* unit_draw.c - tests that even the shortest judging run covers every family in every dtype, and
 * finds a known bug for every key.
 *
 * Cases prepared in advance, by many threads, are identical to those prepared alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "dtype.h"
#include "examine.h"
#include "run.h"
#include "touchstone/layernorm.h"
#include "unit.h"

enum { KEYS = 20 };

static bool alike(const ts_task *t, const ts_case *a, const ts_case *b, bool any_dtype)
{
    return (any_dtype || a->dtype == b->dtype) && !strcmp(a->family, b->family) &&
           ts_case_category(t, a) == ts_case_category(t, b);
}

/* Whether one of the n drawn is of the same family and category, and of the same dtype unless it
 * has many rows and one dtype is enough. */
static bool is_drawn(const ts_task *t, const ts_case *c, const int *number, int n,
                     bool one_is_enough)
{
    const bool any_dtype = one_is_enough && !strncmp(c->family, "tall", 4);
    for (int i = 0; i < n; i++)
        if (alike(t, c, &t->cases()[number[i]], any_dtype)) return true;
    return false;
}

/* In Python, rows 2^30 elements apart, many rows and crowds are tested at depth full only; rows
 * 2^32 apart never. Many rows are tested in one dtype below depth full, the most of them, and
 * crowds, from depth normal on. */
static bool may_lack(const ts_case *c, ts_depth depth, ts_class cls)
{
    const bool python = cls == TS_PYTHON, tall = !strncmp(c->family, "tall", 4);
    const bool crowd = !strcmp(c->family, "crowd");
    if (!strcmp(c->family, "farther")) return python;
    if (depth == TS_FULL) return false;
    if ((crowd || !strcmp(c->family, "taller")) && depth == TS_QUICK) return true;
    return python && (crowd || tall || !strcmp(c->family, "far"));
}

static void asks_every_family(ts_depth depth, ts_class cls)
{
    for (const ts_task *const *t = ts_tasks; *t; t++)
        for (int k = 0; k < KEYS; k++) {
            const ts_run c = { .depth = depth, .key = { (unsigned char)k } };
            int          n;
            int         *number = ts_run_draw(&c, *t, cls, NULL, &n);
            for (const ts_case *one = (*t)->cases(); one->use; one++) {
                char name[192];
                if (!ts_case_checks(one, TS_CPU) || one->use & TS_USE_COVER) continue;
                if (may_lack(one, depth, cls)) continue;
                ts_case_string(*t, one, 0, name, sizeof name);
                if (!is_drawn(*t, one, number, n, depth != TS_FULL))
                    fail_msg("depth %s, key %d: no case of the family and dtype of %s",
                             ts_depth_name(depth), k, name);
            }
            free(number);
        }
}

TEST(asks_every_family_of_native_ones)
{
    for (int d = 0; d < TS_N_DEPTHS; d++) asks_every_family((ts_depth)d, TS_SEALED);
}

TEST(asks_every_family_of_python)
{
    for (int d = 0; d < TS_N_DEPTHS; d++) asks_every_family((ts_depth)d, TS_PYTHON);
}

/* ---- a mistake of textbooks: the variance as the mean of squares less the square of the mean ----
 */

/* In double it is right of float32 and narrower, and in float64 by chance; in float nowhere but by
 * chance. */
typedef double rounding(double);

static double to_double(double v)
{
    return v;
}

static double to_float(double v)
{
    return (float)v;
}

static void naive_row(const ts_layernorm_forward_args *a, int64_t r, rounding *to)
{
    const ts_dtype t = a->dtype;
    const double   n = (double)a->n_cols;
    double         sum = 0, squares = 0;
    for (int64_t i = 0; i < a->n_cols; i++) {
        const double x = ts_load(a->x, t, r * a->row_stride + i);
        sum = to(sum + x);
        squares = to(squares + to(x * x));
    }
    const double mean = to(sum / n), var = to(to(squares / n) - to(mean * mean));
    const double rstd = to(1 / sqrt(to(var + a->eps)));
    for (int64_t i = 0; i < a->n_cols; i++) {
        const int64_t at = r * a->row_stride + i;
        const double  xhat = to(to(ts_load(a->x, t, at) - mean) * rstd);
        ts_store(a->y, t, at, xhat * ts_load(a->gamma, t, i) + ts_load(a->beta, t, i));
    }
    ts_store(a->mean, ts_wide(t), r, mean);
    ts_store(a->rstd, ts_wide(t), r, rstd);
}

/* As an entrant that offers the dtypes of this mask, 1u << dtype. */
static bool naive_passes(const ts_run *c, const ts_task *t, unsigned dtypes, rounding *to,
                         ts_arena *m)
{
    int  n, *number = ts_run_draw(c, t, TS_SEALED, NULL, &n);
    bool right = true;
    for (int i = 0; i < n && right; i++) {
        const ts_case *one = &t->cases()[number[i]];
        ts_exam        e;
        ts_flaw        f;
        ts_errors      errors = { 0 };
        if (!(dtypes & 1u << one->dtype)) continue;
        ts_exam_open(&e, t, one, ts_run_case_seed(c, t, number[i]), m);
        for (int64_t r = 0; r < one->dim[0]; r++) naive_row(e.args, r, to);
        right = t->check(one, e.args, e.want, &f, &errors);
        ts_exam_close(&e);
    }
    free(number);
    return right;
}

TEST(a_naive_variance_never_passes)
{
    const ts_task *t = ts_task_called("layernorm_forward");
    ts_arena       m;
    int            all = 0, f32 = 0;
    assert_non_null(t);
    assert_true(ts_arena_open(&m));
    for (int k = 0; k < KEYS; k++) {
        const ts_run c = { .depth = TS_QUICK, .key = { (unsigned char)k } };
        all += naive_passes(&c, t, ~0u, to_double, &m);
        f32 += naive_passes(&c, t, 1u << TS_F32, to_float, &m);
    }
    ts_arena_close(&m);
    if (all || f32)
        fail_msg("of %d keys a naive variance passes with %d in double, with %d in float", KEYS,
                 all, f32);
}

/* ---- made ahead ---- */

static void same_as_alone(const ts_task *t, const ts_exam *x, ts_arena *m)
{
    ts_exam e;
    char    name[192];
    ts_exam_open(&e, t, x->c, x->seed, m);
    ts_case_string(t, x->c, x->seed, name, sizeof name);
    if (memcmp(e.want, x->want, t->n_want(x->c) * sizeof *e.want) ||
        m->input_hash != x->arena->input_hash)
        fail_msg("%s: another case when it is made ahead", name);
    ts_exam_close(&e);
}

/* All small cases of every task in one row, two at a time; those that cover are like them. */
TEST(ahead_is_as_alone)
{
    static ts_question q[4096];
    ts_arena           m;
    assert_true(ts_arena_open(&m));
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        int n = 0;
        for (const ts_case *c = (*t)->cases(); c->use; c++)
            if ((*t)->cost(c).bytes < 1e4 && !(c->use & TS_USE_COVER)) {
                assert_true(n < (int)(sizeof q / sizeof *q));
                q[n] = (ts_question) { c, (uint64_t)n }, n++;
            }
        ts_ahead *a = ts_ahead_open(*t, q, n);
        for (int i = 0; i < n; i++) same_as_alone(*t, ts_ahead_at(a, i), &m);
        ts_ahead_close(&a);
    }
    ts_arena_close(&m);
}
