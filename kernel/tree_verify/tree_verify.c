/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify.c - API entry points: validate the arguments, select an implementation, call it. */
#include "cpu.h"
#include "overlap.h"
#include "tree_verify_impl.h"

/* clang-format off */
const ts_impl ts_tree_verify_impls[] = {
    TS_SIMD_IMPLS(TS_HAS_F32, ts_tree_verify, ts_tree_verify_any_workspace)
    { "ref", TS_CPU, 0, TS_HAS_F32, ts_tree_verify_ref, ts_tree_verify_any_workspace, NULL },
    { 0 },
};
/* clang-format on */

/* Separate from the table above, which tasks use: a task's model runs on the host. */
const ts_impl ts_tree_verify_device_impls[] = {
    { "cuda", TS_CUDA, 0, TS_HAS_F32, ts_tree_verify_cuda, ts_tree_verify_any_workspace, NULL },
    { 0 },
};

static const ts_impl *rows_of(const ts_exec *x)
{
    return x->device == TS_CPU ? ts_tree_verify_impls : ts_tree_verify_device_impls;
}

static ts_status check_tokens(const int32_t *token, int64_t n, int64_t n_vocab)
{
    for (int64_t i = 0; i < n; i++)
        if (token[i] < 0 || token[i] >= n_vocab) return TS_E_ARG;
    return TS_OK;
}

static ts_status check(const ts_tree_verify_args *a, const ts_exec *x)
{
    if (!a || !x || !a->model || !a->model->forward) return TS_E_ARG;
    const ts_tree_dims *d = &a->d;
    const int64_t       n_vocab = a->model->n_vocab;
    ts_status           s = ts_tree_check(d, a->parent);
    if (s) return s;
    if (n_vocab < 1 || n_vocab > INT32_MAX) return TS_E_SHAPE;
    if (n_vocab > INT64_MAX / 64 / (d->n_node + 1)) return TS_E_SHAPE; /* bytes of logits */
    if (!a->prompt || !a->n_out || !a->n_path) return TS_E_ARG;
    if (d->n_node > 0 && (!a->token || !a->path || !a->status)) return TS_E_ARG;
    if (d->max_new > 0 && (!a->out || (d->temperature > 0 && !a->u))) return TS_E_ARG;
    s = check_tokens(a->prompt, d->prompt_len, n_vocab);
    if (!s) s = check_tokens(a->token, d->n_node, n_vocab);
    for (int64_t i = 0; !s && i < d->max_new && d->temperature > 0; i++)
        if (!(a->u[i] >= 0 && a->u[i] < 1)) s = TS_E_ARG;
    return s;
}

static bool apart(const void *args, const ts_exec *x)
{
    const ts_tree_verify_args *a = args;
    const ts_tree_dims        *d = &a->d;
    return TS_APART(
        x, 5, ts_vector(a->out, d->max_new, TS_I32), ts_flat(a->n_out, 1, sizeof *a->n_out),
        ts_vector(a->path, d->n_node, TS_I32), ts_flat(a->n_path, 1, sizeof *a->n_path),
        ts_vector(a->status, d->n_node, TS_U8), ts_vector(a->prompt, d->prompt_len, TS_I32),
        ts_vector(a->token, d->n_node, TS_I32), ts_vector(a->parent, d->n_node, TS_I32),
        ts_vector(a->u, d->temperature > 0 ? d->max_new : 0, TS_F64));
}

ts_status ts_tree_verify_workspace(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_bytes)
{
    const ts_status s = n_bytes ? check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(rows_of(x), TS_F32, a, x, n_bytes);
}

ts_status ts_tree_verify_host(const ts_tree_verify_args *a, const ts_exec *x, size_t *n_bytes)
{
    ts_impl   row;
    ts_status s = n_bytes ? check(a, x) : TS_E_ARG;
    if (!s) s = ts_pick(rows_of(x), x->device, TS_F32, &row);
    return s ? s : ts_tree_host_bytes(a, x, n_bytes);
}

ts_status ts_tree_verify(const ts_tree_verify_args *a, const ts_exec *x)
{
    const ts_status s = check(a, x);
    return s ? s : ts_impl_run(rows_of(x), TS_F32, a, x, apart);
}
