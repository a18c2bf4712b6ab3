/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_residual.c - residual sampling: children drawn from one distribution are accepted so
 * that the token has another.
 *
 * After any number of rejections p has the form max(a p0 - b q, 0), with the given p0 and q,
 * because max(max(v, 0) - w, 0) is max(v - w, 0) for w >= 0. So no distribution is ever stored. */
#include <math.h>

#include "overlap.h"
#include "tree_verify_impl.h"

/* The remaining sum of p is the probability that the child was rejected. If it is smaller than
 * this, only rounding can have rejected the child, and what remains is rounding errors. */
static const double LEAST = 0x1p-100;

typedef struct law {
    const double *p, *q; /* q NULL: b is 0 */
    double        a, b;
} law;

static double at(const law *l, int64_t i)
{
    return l->q ? fmax(l->a * l->p[i] - l->b * l->q[i], 0) : l->a * l->p[i];
}

static double total_of(const law *l, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += at(l, i);
    return sum;
}

static ts_status check_law(const double *p, int64_t n)
{
    double sum = 0;
    if (!p) return TS_E_ARG;
    for (int64_t i = 0; i < n; i++) {
        if (!(p[i] >= 0)) return TS_E_ARG;
        sum += p[i];
    }
    return sum > 0 && !isinf(sum) && !isinf(1 / sum) ? TS_OK : TS_E_ARG;
}

static ts_status check(const ts_tree_residual_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    if (a->n_vocab < 1 || a->n_vocab > INT32_MAX || a->n_child < 0) return TS_E_SHAPE;
    if (a->n_child >= INT64_MAX / 8) return TS_E_SHAPE; /* bytes of u */
    if (!a->u || !a->token || !a->accepted || (a->n_child > 0 && !a->child)) return TS_E_ARG;
    ts_status s = check_law(a->p, a->n_vocab);
    if (!s && a->n_child > 0) s = check_law(a->q, a->n_vocab);
    for (int64_t j = 0; !s && j <= a->n_child; j++)
        if (!(a->u[j] >= 0 && a->u[j] < 1)) s = TS_E_ARG;
    for (int64_t j = 0; !s && j < a->n_child; j++)
        if (a->child[j] < 0 || a->child[j] >= a->n_vocab || !(a->q[a->child[j]] > 0)) s = TS_E_ARG;
    const bool apart =
        TS_APART(NULL, 2, ts_vector(a->token, 1, TS_I32),
                 ts_flat(a->accepted, 1, sizeof *a->accepted), ts_vector(a->p, a->n_vocab, TS_F64),
                 ts_vector(a->n_child > 0 ? a->q : NULL, a->n_vocab, TS_F64),
                 ts_vector(a->child, a->n_child, TS_I32), ts_vector(a->u, a->n_child + 1, TS_F64));
    return s || apart ? s : TS_E_ARG;
}

static int32_t draw(const law *l, int64_t n, double u)
{
    const double total = total_of(l, n);
    double       sum = 0;
    int64_t      i = 0;
    while ((sum += at(l, i)) <= u * total && i < n - 1) i++;
    return (int32_t)i;
}

ts_status ts_tree_residual(const ts_tree_residual_args *a, const ts_exec *x)
{
    const ts_status s = check(a, x);
    if (s) return s;
    law l = { a->p, NULL, 1, 0 };
    l.a = 1 / total_of(&l, a->n_vocab);
    const law    given = { a->q, NULL, 1, 0 };
    const double q_total = a->n_child > 0 ? total_of(&given, a->n_vocab) : 1;
    l.q = a->n_child > 0 ? a->q : NULL;
    for (int64_t j = 0; j < a->n_child; j++) {
        const int32_t c = a->child[j];
        if (a->u[j] * (a->q[c] / q_total) < at(&l, c)) {
            *a->token = c;
            *a->accepted = j;
            return TS_OK;
        }
        const law    less = { l.p, l.q, l.a, l.b + 1 / q_total };
        const double left = total_of(&less, a->n_vocab);
        if (left > LEAST) l = (law) { l.p, l.q, less.a / left, less.b / left };
    }
    *a->token = draw(&l, a->n_vocab, a->u[a->n_child]);
    *a->accepted = -1;
    return TS_OK;
}
