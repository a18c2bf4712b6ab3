/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_mask.c - validates a tree, and computes its attention mask and positions. */
#include <math.h>
#include <string.h>

#include "overlap.h"
#include "tree_verify_impl.h"

ts_status ts_tree_check(const ts_tree_dims *d, const int32_t *parent)
{
    if (!(d->temperature >= 0) || isinf(d->temperature)) return TS_E_ARG;
    if (d->prompt_len < 1 || d->n_node < 0 || d->max_new < 0) return TS_E_SHAPE;
    if (d->max_new > INT64_MAX / 8) return TS_E_SHAPE; /* bytes of u */
    if (d->prompt_len > INT32_MAX || d->n_node > INT32_MAX - d->prompt_len) return TS_E_SHAPE;
    if (d->n_node > 0 && !parent) return TS_E_ARG;
    for (int64_t i = 0; i < d->n_node; i++)
        if (parent[i] < -1 || parent[i] >= i) return TS_E_ARG;
    return TS_OK;
}

/* A parent precedes its children: its row of the mask can be copied, and its position incremented.
 * */
void ts_tree_fill(const ts_tree_dims *d, const int32_t *parent, uint8_t *visible, int64_t *position)
{
    const int64_t n_prompt = d->prompt_len, n = n_prompt + d->n_node;
    for (int64_t r = 0; r < n; r++) {
        const int64_t  above = r < n_prompt               ? r - 1
                               : parent[r - n_prompt] < 0 ? n_prompt - 1
                                                          : n_prompt + parent[r - n_prompt];
        uint8_t *const row = visible + r * n;
        if (above < 0) memset(row, 0, (size_t)n);
        else memcpy(row, visible + above * n, (size_t)n);
        row[r] = 1;
        position[r] = above < 0 ? 0 : position[above] + 1;
    }
}

ts_status ts_tree_mask(const ts_tree_mask_args *a, const ts_exec *x)
{
    if (!a || !x || !a->visible || !a->position) return TS_E_ARG;
    ts_status     s = ts_tree_check(&a->d, a->parent);
    const int64_t n = a->d.prompt_len + a->d.n_node;
    if (!s &&
        !TS_APART(NULL, 2, ts_vector(a->visible, n * n, TS_U8), ts_vector(a->position, n, TS_F64),
                  ts_vector(a->parent, a->d.n_node, TS_I32)))
        s = TS_E_ARG;
    if (!s) ts_tree_fill(&a->d, a->parent, a->visible, a->position);
    return s;
}

/* Walks up from every row, since there is no row of bytes to copy. */
ts_status ts_tree_bias(const ts_tree_bias_args *a, const ts_exec *x)
{
    if (!a || !x || !a->bias) return TS_E_ARG;
    const ts_status s = ts_tree_check(&a->d, a->parent);
    if (s) return s;
    const int64_t n_prompt = a->d.prompt_len, n = n_prompt + a->d.n_node;
    if (!TS_APART(NULL, 1, ts_vector(a->bias, n * n, TS_F32),
                  ts_vector(a->parent, a->d.n_node, TS_I32)))
        return TS_E_ARG;
    for (int64_t r = 0; r < n; r++) {
        float *const row = a->bias + r * n;
        for (int64_t c = 0; c < n; c++) row[c] = c <= r && c < n_prompt ? 0.0F : (float)-INFINITY;
        for (int64_t i = r - n_prompt; i >= 0; i = a->parent[i]) row[n_prompt + i] = 0;
    }
    return TS_OK;
}
