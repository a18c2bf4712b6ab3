/* SPDX-License-Identifier: Apache-2.0 */
/* tree_ways.c - tree_verify with the choice, the mask and the walk by the forms in use.
 *
 * Ways: cumulative normalised residual online by_parent
 * Common ways: in_float first_child
 *
 * cumulative: weights are summed until they exceed u times their sum. normalised: probabilities
 * are, until they exceed u. residual: they are taken from u until nothing is left. online: the sum
 * of weights follows a running maximum. by_parent: a node's mask is that of its parent and itself.
 * in_float: normalised, in float. first_child: the walk ends at the first node that is rejected. */
#include <math.h>
#include <stdint.h>

static int32_t choose_by(const float *x, int64_t n, double temperature, double u);

enum { cumulative, normalised, residual, online, by_parent, in_float, first_child };
static const int way = WAY;

#define POINT_choice ~, CHOICE
#define POINT_pass   ~, MASK
#define POINT_child  ~, CHILD
#define POINT_ends   ~, ENDS
#define CHOICE(...)  choose_by(x, a->model->n_vocab, tau, u)
#define MASK()       mask_by_parent(a, s)
#define CHILD(...)   (way == first_child ? a->parent[i] == node : (__VA_ARGS__))
#define ENDS(...)    ((__VA_ARGS__) || a->token[next] != s->last)
#include "hooks.h"

#include "touchstone/tree_verify.h"

struct state;
static void mask_by_parent(const ts_tree_verify_args *a, struct state *s);

#include "tree_verify.c"

/* Rows of nodes, in the order of nodes: parents come first. */
static void mask_by_parent(const ts_tree_verify_args *a, struct state *s)
{
    const int64_t P = a->d.prompt_len, R = P + a->d.n_node;
    for (int64_t r = P; way == by_parent && r < R; r++) {
        const int64_t above = P + a->parent[r - P];
        const int     root = a->parent[r - P] < 0;
        memcpy(s->visible + r * R, s->visible + (root ? P - 1 : above) * R, (size_t)R);
        s->visible[r * R + r] = 1;
        s->position[r] = root ? P : s->position[above] + 1;
    }
}

static double in(double v)
{
    return way == in_float ? (double)(float)v : v;
}

static double weight(float x, double max, double temperature)
{
    return in(exp(in(in(x - max) / in(temperature))));
}

static int32_t choose_by(const float *x, int64_t n, double temperature, double u)
{
    const int32_t best = choose(x, n, 0, 0);
    double        max = -INFINITY, total = 0, sum = 0;
    int64_t       last = 0;
    if (best < 0 || temperature == 0) return best;
    if (way != online) max = x[best];
    for (int64_t t = 0; t < n; t++) {
        if (way == online && x[t] > max) {
            total = max == -INFINITY ? 0 : total * exp((max - x[t]) / temperature);
            max = x[t];
        }
        if (x[t] != -INFINITY) total = in(total + weight(x[t], max, temperature));
    }
    if (way == residual) sum = -u;
    for (int64_t t = 0; t < n; t++) {
        const double w = weight(x[t], max, temperature), p = in(w / total);
        sum = in(sum + (way == cumulative || way == online ? w : p));
        if (w > 0) last = t;
        if (sum > (way == residual ? 0 : way == cumulative || way == online ? u * total : u))
            return (int32_t)t;
    }
    return (int32_t)last;
}
