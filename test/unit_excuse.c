/* SPDX-License-Identifier: Apache-2.0 */
/* unit_excuse.c - tests that a rule of the canon excuses the elements that it is about and no
 * others, with outputs of the library's kernels in which single elements are then spoilt. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "dtype.h"
#include "task.h"
#include "touchstone/attention.h"
#include "touchstone/cross_entropy.h"
#include "touchstone/layernorm.h"
#include "touchstone/rms_norm.h"
#include "touchstone/softmax_topk.h"
#include "unit.h"

static const uint64_t SEED = UINT64_C(0x826dabb60fe22e8c);
static const double   GARBAGE = 777;

#define KERNEL(name)                                                                               \
    {                                                                                              \
#name, (ts_run_fn)ts_##name, (ts_workspace_fn)ts_##name##_workspace                        \
    }
static const struct kernel {
    const char     *name;
    ts_run_fn       run;
    ts_workspace_fn workspace;
} kernels[] = {
    KERNEL(layernorm_forward), KERNEL(layernorm_backward),   KERNEL(rms_norm_forward),
    KERNEL(rms_norm_backward), KERNEL(softmax_topk),         KERNEL(cross_entropy),
    KERNEL(flash_attention),   KERNEL(cross_entropy_logits), KERNEL(flash_attention_backward),
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };

/* A case with the kernel's output, which is right. */
typedef struct subject {
    const ts_task *t;
    const ts_case *c;
    ts_arena       m;
    void          *args;
    ts_want       *want;
} subject;

static bool is_right(const subject *s)
{
    ts_flaw   f;
    ts_errors e = { 0 };
    return s->t->check(s->c, s->args, s->want, &f, &e);
}

static bool is_excused(const subject *s)
{
    ts_flaw   f;
    ts_errors e = { 0 };
    assert_false(s->t->check(s->c, s->args, s->want, &f, &e));
    return ts_canon_broken(s->t, s->c, s->args, s->want, &f, &e) != NULL;
}

static void run(const struct kernel *k, const subject *s)
{
    ts_exec x = { .device = TS_CPU, .n_threads = 1 };
    assert_int_equal(k->workspace(s->args, &x, &x.workspace_bytes), TS_OK);
    x.workspace = aligned_alloc(64, (x.workspace_bytes + 64) / 64 * 64);
    assert_int_equal(k->run(s->args, &x), TS_OK);
    free(x.workspace);
}

static void open_subject(subject *s, const struct kernel *k, const ts_case *c)
{
    *s = (subject) { .t = ts_task_called(k->name), .c = c };
    s->args = calloc(1, s->t->args_bytes);
    s->want = calloc(s->t->n_want(c) + 1, sizeof *s->want);
    assert_true(ts_arena_open(&s->m));
    ts_arena_setup(&s->m, s->t, c, SEED, s->args);
    s->t->oracle(c, s->args, s->want);
    run(k, s);
    assert_true(is_right(s));
}

static void close_subject(subject *s)
{
    ts_arena_clear(&s->m);
    ts_arena_close(&s->m);
    free(s->args);
    free(s->want);
}

/* ---- what each rule is about, in other words than the tasks' own ---- */

enum answer { NO, YES, EITHER };

/* Of extreme magnitudes: what no square, no sum of x and no rstd^3 enters must be right. Of
 * flat_huge the error of the mean is any number. */
static enum answer norm_may(const ts_case *c, const char *buffer)
{
    if (!strcmp(buffer, "dbeta") || !strcmp(buffer, "r")) return NO;
    if (!strcmp(buffer, "mean") || !strcmp(buffer, "dgamma") || !strcmp(buffer, "dw"))
        return ts_is(c, "extreme") || ts_is(c, "flat_huge") ? EITHER : NO;
    return EITHER;
}

/* Whether an element may be any number by the usual contract. right: what the canon has there, and
 * of an index its probability. */
static enum answer may_be_garbage(const subject *s, const char *buffer, double right)
{
    const char *f = s->c->family;
    /* All logits or scores of the row may be -inf, or none may be there. */
    if (!strstr(s->t->name, "cross") && (right == 0 || isinf(right))) return EITHER;
    if (!strncmp(f, "nonfinite", 9)) return isnan(right) ? YES : NO;
    if (strstr(s->t->name, "norm")) return norm_may(s->c, buffer);
    if (!strcmp(f, "offset30") || !strcmp(f, "floor")) return EITHER;
    if (!strcmp(f, "empty")) return EITHER;
    return NO;
}

/* ---- spoiling one element after the other ---- */

typedef struct counts {
    int excused, wrong, unwritten;
} counts;

static double *probabilities(const subject *s, const ts_buf *b)
{
    if (strcmp(b->name, "index")) return NULL;
    const ts_softmax_topk_args *a = s->args;
    double                     *p = malloc((size_t)(b->n_rows * b->n_cols) * sizeof *p);
    for (int64_t i = 0; i < b->n_rows * b->n_cols; i++) p[i] = (double)a->prob[i];
    return p;
}

static void spoil_buffer(const subject *s, int i, counts *n)
{
    const ts_buf *b = &s->m.buf[i].b;
    const size_t  each = ts_format_of(b->dtype)->n_bytes;
    const int64_t all = b->n_rows * b->n_cols, step = all > 16 ? all / 16 : 1;
    double *const prob = probabilities(s, b);
    char          name[192], was[8];
    ts_case_string(s->t, s->c, SEED, name, sizeof name);
    for (int64_t k = 0; k < all; k += step) {
        const int64_t     at = k / b->n_cols * b->row_stride + k % b->n_cols;
        void *const       p = s->m.buf[i].p + (size_t)at * each;
        const double      right = prob ? prob[k] : ts_load(p, b->dtype, 0);
        const enum answer may = may_be_garbage(s, b->name, right);
        memcpy(was, p, each);
        ts_store(p, b->dtype, 0, b->dtype == TS_I32 ? -7 : GARBAGE);
        if (!is_right(s)) {
            const bool excused = is_excused(s);
            if (may != EITHER && excused != (may == YES))
                fail_msg("%s: %s[%lld], %g: %s", name, b->name, (long long)k, right,
                         excused ? "excused" : "not excused");
            n->excused += excused, n->wrong += !excused;
        }
        ts_poison(b->dtype, p, each);
        if (b->role == TS_OUT && !is_right(s)) {
            if (is_excused(s)) fail_msg("%s: %s[%lld] unwritten", name, b->name, (long long)k);
            n->unwritten++;
        }
        memcpy(p, was, each);
    }
    free(prob);
}

TEST(elements_that_no_rule_names)
{
    counts   all = { 0 };
    unsigned of_kernel = 0;
    for (int k = 0; k < N_KERNELS; k++) {
        const ts_task *t = ts_task_called(kernels[k].name);
        counts         n = { 0 };
        assert_non_null(t->excuse);
        for (const ts_case *c = t->cases(); c->use; c++) {
            subject s;
            if (!(c->use & TS_USE_CHECK) || c->use & TS_USE_COVER || !ts_canon_of(t, c)) continue;
            if (t->cost(c).flops > (SANITIZED ? 1e4 : 2e5) || t->n_want(c) > 4000) continue;
            open_subject(&s, &kernels[k], c);
            for (int i = 0; i < s.m.n; i++)
                if (s.m.buf[i].b.role != TS_IN) spoil_buffer(&s, i, &n);
            close_subject(&s);
        }
        of_kernel |= (unsigned)(n.excused > 0 && n.wrong > 0 && n.unwritten > 0) << k;
        all.excused += n.excused, all.wrong += n.wrong, all.unwritten += n.unwritten;
    }
    /* Of attention backward no number is excused, only NaN is. */
    assert_int_equal(of_kernel | 1u << (N_KERNELS - 1), (1u << N_KERNELS) - 1);
    assert_true(all.excused > 500 && all.wrong > 500 && all.unwritten > 1000);
}

/* A kernel that, because of one row, leaves or spoils all others. */
TEST(outputs_beside_a_named_one)
{
    int n = 0;
    for (int k = 0; k < N_KERNELS; k++) {
        const ts_task *t = ts_task_called(kernels[k].name);
        for (const ts_case *c = t->cases(); c->use; c++) {
            subject s;
            if (!(c->use & TS_USE_CHECK) || c->use & TS_USE_COVER || !ts_canon_of(t, c)) continue;
            if (t->cost(c).flops > (SANITIZED ? 1e4 : 2e5) || t->n_want(c) > 4000) continue;
            open_subject(&s, &kernels[k], c);
            ts_arena_reset(&s.m);
            if (!is_right(&s)) assert_false(is_excused(&s));
            for (int i = 0; i < s.m.n; i++)
                if (s.m.buf[i].b.role == TS_OUT) memset(s.m.buf[i].p, 1, s.m.buf[i].n_bytes);
            if (strncmp(c->family, "nonfinite", 9) || c->dim[0] < 3 || is_right(&s)) {
                close_subject(&s);
                continue;
            }
            n++;
            assert_false(is_excused(&s));
            close_subject(&s);
        }
    }
    assert_true(n > 40);
}

/* ---- numbers that no formula has ---- */

/* An output is off by more than `times` its bounds; within the common contract it is none. */
static bool is_far_off(const subject *s, double times)
{
    const size_t n = s->t->n_want(s->c);
    ts_want     *wide = malloc((n + 1) * sizeof *wide);
    ts_errors    e = { 0 };
    ts_flaw      f;
    memcpy(wide, s->want, n * sizeof *wide);
    for (size_t i = 0; i < n; i++)
        if (wide[i].bound > 0) wide[i].bound *= times;
    const bool off = !s->t->check(s->c, s->args, wide, &f, &e);
    free(wide);
    return off;
}

/* Cases that rules of all families are about: subnormal numbers may be taken for 0. In x a + b two
 * numbers of 32768 rstd gamma cancel each other where flat_huge is no rule's, which is in f16. */
static bool is_ordinary(const subject *s)
{
    const int64_t most = SANITIZED ? 2000 : 20000;
    return s->c->use & TS_USE_CHECK && !ts_canon_of(s->t, s->c) && !ts_is(s->c, "denormal") &&
           !ts_is(s->c, "flat_huge") && !ts_is(s->c, "far") && !ts_is(s->c, "farther") &&
           (int64_t)s->t->n_want(s->c) <= most;
}

/* Whether a query sees no key, of which a rule is wherever there is one: its lse is -inf. */
static bool has_blind_query(const subject *s)
{
    for (int i = 0; i < s->m.n; i++) {
        const ts_buf *b = &s->m.buf[i].b;
        for (int64_t k = 0; !strcmp(b->name, "lse") && k < b->n_rows * b->n_cols; k++)
            if (ts_load(s->m.buf[i].p, b->dtype, k) == -INFINITY) return true;
    }
    return false;
}

enum spoil { ZERO, SAME, TWICE, N_SPOILS };

/* What an element becomes. Of a number a row its mean would be a fair answer for rows alike. */
static double spoilt(enum spoil how, double x, double mean)
{
    return how == ZERO ? 0 : how == SAME ? mean : 2 * x;
}

static double mean_of(const ts_arena_buf *m)
{
    const size_t each = ts_format_of(m->b.dtype)->n_bytes;
    double       sum = 0, n = 0;
    for (int64_t k = 0; k < m->b.n_rows * m->b.n_cols; k++) {
        const int64_t at = k / m->b.n_cols * m->b.row_stride + k % m->b.n_cols;
        const double  x = ts_load(m->p + (size_t)at * each, m->b.dtype, 0);
        if (isfinite(x)) sum += x, n++;
    }
    return n > 0 ? sum / n : 0;
}

/* One output of such numbers throughout, the others right; whether it is far off. */
static bool spoil_all(const subject *s, int i, enum spoil how)
{
    const ts_arena_buf *m = &s->m.buf[i];
    const size_t        each = ts_format_of(m->b.dtype)->n_bytes;
    unsigned char      *was = malloc(m->n_bytes + 1);
    const double        mean = mean_of(m);
    char                name[192];
    memcpy(was, m->p, m->n_bytes);
    for (int64_t k = 0; k < m->b.n_rows * m->b.n_cols; k++) {
        const int64_t at = k / m->b.n_cols * m->b.row_stride + k % m->b.n_cols;
        void *const   p = m->p + (size_t)at * each;
        ts_store(p, m->b.dtype, 0, spoilt(how, ts_load(p, m->b.dtype, 0), mean));
    }
    const bool off = is_far_off(s, how == SAME ? 256 : 4); /* some rows are nearly all the same */
    ts_case_string(s->t, s->c, SEED, name, sizeof name);
    if (off && is_excused(s)) fail_msg("%s: %s, spoilt as %d", name, m->b.name, (int)how);
    memcpy(m->p, was, m->n_bytes);
    free(was);
    return off;
}

/* On inputs that no rule is about, the common contract has no output of zeros, of one number, or
 * twice as large, that is far from the canon's. Of cases that cover.c makes, a part. */
TEST(outputs_that_no_formula_has)
{
    for (int k = 0; k < N_KERNELS; k++) {
        const ts_task *t = ts_task_called(kernels[k].name);
        int            n = 0, n_made = 0;
        for (const ts_case *c = t->cases(); c->use; c++) {
            subject s = { .t = t, .c = c };
            if (!is_ordinary(&s) || t->cost(c).flops > (SANITIZED ? 1e4 : 1e6)) continue;
            if (c->use & TS_USE_COVER && n_made++ % 8) continue;
            open_subject(&s, &kernels[k], c);
            for (int i = 0; i < s.m.n && !has_blind_query(&s); i++) {
                const ts_buf *b = &s.m.buf[i].b;
                if (b->role == TS_IN || b->dtype == TS_I32) continue;
                /* A sum of thousands from -80 to 80 is next to nothing, and may err by as much. */
                if (ts_is(c, "ramp") && !strcmp(b->name, "mean")) continue;
                n += spoil_all(&s, i, ZERO) + spoil_all(&s, i, TWICE);
                if (b->n_rows > 1) n += spoil_all(&s, i, SAME);
            }
            close_subject(&s);
        }
        assert_seen(n > 100);
    }
}

/* The sums over rows of a task, with the number of rows; NULL: it has none, or adds to them. */
static int64_t *rows_summed(const subject *s)
{
    ts_layernorm_backward_args *l = s->args;
    ts_rms_norm_backward_args  *r = s->args;
    ts_cross_entropy_args      *x = s->args;
    if (!strcmp(s->t->name, "layernorm_backward")) return l->accumulate ? NULL : &l->n_rows;
    if (!strcmp(s->t->name, "rms_norm_backward")) return r->accumulate ? NULL : &r->n_rows;
    if (strcmp(s->t->name, "cross_entropy")) return NULL;
    return x->accumulate || x->mean ? NULL : &x->n_rows;
}

/* Such a sum without the last tenth of the rows, or those past a launch limit. */
TEST(sums_of_some_rows)
{
    int n = 0, n_many = 0;
    for (int k = 0; k < N_KERNELS; k++) {
        const ts_task *t = ts_task_called(kernels[k].name);
        int            n_made = 0;
        for (const ts_case *c = t->cases(); c->use; c++) {
            subject    s = { .t = t, .c = c };
            const bool many = c->dim[0] - c->dim[0] / 10 > 65535 && c->use & TS_USE_CHECK &&
                              !ts_is(c, "farther") && !SANITIZED;
            char name[192];
            if (c->dim[0] > 65535 && !many)
                continue; /* 66 of 65601 rows may be less than rounding */
            if ((!is_ordinary(&s) || t->cost(c).flops > (SANITIZED ? 1e4 : 1e6)) && !many) continue;
            if (c->dim[0] < 10 || (c->use & TS_USE_COVER && n_made++ % 4)) continue;
            if (strcmp(t->name, "cross_entropy") && !strstr(t->name, "norm_backward")) continue;
            open_subject(&s, &kernels[k], c);
            int64_t *const rows = rows_summed(&s), all = rows ? *rows : 0;
            if (rows) {
                *rows = many ? 65535 : all - all / 10;
                run(&kernels[k], &s); /* the other outputs stay as they are */
                *rows = all;
                const bool off = is_far_off(&s, 4);
                ts_case_string(t, c, SEED, name, sizeof name);
                if (off && is_excused(&s)) fail_msg("%s", name);
                n += off, n_many += off && many;
            }
            close_subject(&s);
        }
    }
    assert_seen(n > 50 && n_many > 1);
}

/* Beside an ignored row of NaN they may be NaN as a whole, but must be written. */
TEST(gradients_that_were_never_written)
{
    const struct kernel *k = kernels;
    int                  n = 0;
    while (strcmp(k->name, "cross_entropy")) k++;
    for (const ts_case *c = ts_task_called(k->name)->cases(); c->use; c++) {
        subject s;
        if (!ts_is(c, "ignored_nonfinite") || !(c->use & TS_USE_CHECK) || c->dim[1] < 2) continue;
        if (ts_task_called(k->name)->n_want(c) > 20000) continue;
        open_subject(&s, k, c);
        for (int i = 0; i < s.m.n; i++) {
            ts_arena_buf *const b = &s.m.buf[i];
            if (strcmp(b->b.name, "dw") && strcmp(b->b.name, "total")) continue;
            if (b->b.role != TS_OUT) continue;
            unsigned char *was = malloc(b->n_bytes + 1);
            memcpy(was, b->p, b->n_bytes);
            ts_poison(b->b.dtype, b->p, b->n_bytes);
            if (!is_right(&s)) assert_false(is_excused(&s)), n++;
            memcpy(b->p, was, b->n_bytes);
            free(was);
        }
        close_subject(&s);
    }
    assert_true(n > 4);
}
