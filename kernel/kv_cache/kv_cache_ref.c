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

/* One query, at position p: out = sum exp(s_j - m) v_j / sum exp(s_j - m), with m the largest score
 * so far. A score of -inf has no weight. */
static void attend_one(const ts_kv_view *s, const ts_exec *x, int64_t p, int64_t head,
                       const void *q, int64_t at, void *out, float *lse)
{
    const ts_kv_layout *l = s->l;
    const int64_t       D = l->head_dim;
    double             *row = ts_kv_scratch(x), *sum = row + D;
    double              m = -INFINITY, total = 0;
    for (int64_t d = 0; d < D; d++) sum[d] = 0;
    for (int64_t j = 0; j <= p; j++) {
        if (!sees(l, p, j)) continue;
        double score = 0;
        ts_kv_key(s, head, j, row);
        for (int64_t d = 0; d < D; d++) score += ts_load(q, l->io_dtype, at + d) * row[d];
        score *= l->scale;
        if (score == -INFINITY) continue;
        const double next = score > m ? score : m, keep = exp(m - next), w = exp(score - next);
        ts_kv_value(s, head, j, row);
        for (int64_t d = 0; d < D; d++) sum[d] = sum[d] * keep + w * row[d];
        total = total * keep + w;
        m = next;
    }
    for (int64_t d = 0; d < D; d++) ts_store(out, l->io_dtype, at + d, sum[d] / total);
    if (lse) *lse = (float)(m + log(total));
}

ts_status ts_kv_attend_ref(const ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_part,
                           const ts_kv_part *part, const void *q, void *out, float *lse)
{
    const int64_t H = c->l.n_q_head, group = H / c->l.n_kv_head;
    for (int64_t i = 0; i < n_part; i++) {
        const ts_kv_view s = ts_kv_view_of(c, layer, part[i].seq, part[i].len);
        for (int64_t j = 0; j < part[i].n * H; j++) {
            const int64_t p = part[i].len - part[i].n + j / H, row = part[i].first * H + j;
            attend_one(&s, x, p, j % H / group, q, row * c->l.head_dim, out,
                       lse ? lse + row : NULL);
        }
    }
    return TS_OK;
}

ts_status ts_kv_cache_ref(const void *ask, const ts_exec *x)
{
    static const ts_kv_ops ops = {
        .workspace = workspace,
        .append = ts_kv_rows_append,
        .attend = ts_kv_attend_ref,
        .read = ts_kv_rows_read,
        .copy_pages = ts_kv_rows_copy_pages,
        .copy_tail = ts_kv_rows_copy_tail,
        .fill_tail = ts_kv_rows_fill_tail,
    };
    (void)x;
    *((const ts_kv_ask *)ask)->ops = &ops;
    return TS_OK;
}
