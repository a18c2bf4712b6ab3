/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache_ref.c - the definition: attention over what read gives, one key at a time, in double. */
#include <math.h>

#include "dtype.h"
#include "kv_cache_impl.h"

static size_t workspace(const ts_kv_layout *l)
{
    return 2 * (size_t)l->head_dim * sizeof(double) + 64; /* a row, and a sum of rows */
}

static int sees(const ts_kv_layout *l, int64_t p, int64_t j)
{
    return l->window == 0 || p - j < l->window || j < l->n_sink;
}

/* A query and what it may see. */
typedef struct query {
    const ts_kv_view *s;
    const ts_kv_part *part;
    const ts_kv_tree *tree;
    int64_t           i, p, head; /* number i of its part, at position p, for a KV head */
} query;

/* The row of the tree at position j on the path to the query. */
static int64_t ancestor(const query *y, int64_t j)
{
    int64_t i = y->i;
    for (int64_t p = y->p; p > j; p--) i = y->tree->parent[y->part->first + i];
    return i;
}

/* The key or the value at position j. */
static void load_row(const query *y, int64_t j, int is_value, double *row)
{
    const ts_kv_layout *l = y->s->l;
    if (!y->tree || j < y->part->len) {
        if (is_value) ts_kv_value(y->s, y->head, j, row);
        else ts_kv_key(y->s, y->head, j, row);
        return;
    }
    const int64_t token = y->part->first + ancestor(y, j);
    const int64_t at = (token * l->n_kv_head + y->head) * l->head_dim;
    if (is_value) ts_kv_as_value(l, y->tree->v, at, row);
    else ts_kv_as_key(l, y->tree->k, at, row);
}

/* One query: out = sum exp(s_j - m) v_j / sum exp(s_j - m), with m the largest score so far. A
 * score of -inf has no weight. */
static void attend_one(const query *y, const ts_exec *x, const void *q, int64_t at, void *out,
                       float *lse)
{
    const ts_kv_layout *l = y->s->l;
    const int64_t       D = l->head_dim;
    double             *row = ts_kv_scratch(x), *sum = row + D;
    double              m = -INFINITY, total = 0;
    for (int64_t d = 0; d < D; d++) sum[d] = 0;
    for (int64_t j = 0; j <= y->p; j++) {
        if (!sees(l, y->p, j)) continue;
        double score = 0;
        load_row(y, j, 0, row);
        for (int64_t d = 0; d < D; d++) score += ts_load(q, l->io_dtype, at + d) * row[d];
        score *= l->scale;
        if (score == -INFINITY) continue;
        const double next = score > m ? score : m, keep = exp(m - next), w = exp(score - next);
        load_row(y, j, 1, row);
        for (int64_t d = 0; d < D; d++) sum[d] = sum[d] * keep + w * row[d];
        total = total * keep + w;
        m = next;
    }
    for (int64_t d = 0; d < D; d++) ts_store(out, l->io_dtype, at + d, sum[d] / total);
    if (lse) *lse = (float)(m + log(total));
}

ts_status ts_kv_attend_tree_ref(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                                const ts_kv_part *part, const ts_kv_tree *tree, const void *q,
                                void *out, float *lse)
{
    const int64_t H = c->l.n_q_head, group = H / c->l.n_kv_head;
    for (int64_t i = 0; i < n_part; i++) {
        const ts_kv_view s = ts_kv_view_of(c, layer, part[i].seq, part[i].len);
        for (int64_t j = 0; j < part[i].n * H; j++) {
            const query y = {
                &s, part + i, tree, j / H, ts_kv_position(tree, part + i, j / H), j % H / group
            };
            const int64_t row = part[i].first * H + j;
            attend_one(&y, x, q, row * c->l.head_dim, out, lse ? lse + row : NULL);
        }
    }
    return TS_OK;
}

static ts_status attend(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                        const ts_kv_part *part, const void *q, void *out, float *lse)
{
    return ts_kv_attend_tree_ref(c, x, layer, n_part, part, NULL, q, out, lse);
}

ts_status ts_kv_cache_ref(const void *ask, const ts_exec *x)
{
    static const ts_kv_ops ops = {
        .workspace = workspace,
        .append = ts_kv_rows_append,
        .attend = attend,
        .read = ts_kv_rows_read,
        .copy_pages = ts_kv_rows_copy_pages,
        .copy_tail = ts_kv_rows_copy_tail,
        .fill_tail = ts_kv_rows_fill_tail,
        .attend_tree = ts_kv_attend_tree_ref,
    };
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}
