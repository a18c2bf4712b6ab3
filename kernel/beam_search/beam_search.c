/* SPDX-License-Identifier: Apache-2.0 */
/* beam_search.c - API entry points of both searches: validate the arguments, select an
 * implementation, call it. */
#include <math.h>
#include <stdbool.h>

#include "beam_search_impl.h"
#include "cpu.h"
#include "overlap.h"

/* clang-format off */
const ts_impl ts_beam_search_impls[] = {
    TS_SIMD_IMPLS(TS_HAS_F32, ts_beam_search, ts_beam_slots_workspace)
    { "ref", TS_CPU, 0, TS_HAS_F32, ts_beam_search_ref, ts_beam_slots_workspace, NULL },
    { 0 },
};

const ts_impl ts_beam_search_archive_impls[] = {
    TS_SIMD_IMPLS(TS_HAS_F32, ts_beam_search_archive, ts_beam_archive_workspace)
    { "ref", TS_CPU, 0, TS_HAS_F32, ts_beam_search_archive_ref, ts_beam_archive_workspace, NULL },
    { 0 },
};
/* clang-format on */

/* Separate from the tables above, which tasks use: a task's model runs on the host. */
const ts_impl ts_beam_search_device_impls[] = {
    { "cuda", TS_CUDA, 0, TS_HAS_F32, ts_beam_search_cuda, ts_beam_slots_workspace, NULL },
    { 0 },
};

const ts_impl ts_beam_search_archive_device_impls[] = {
    { "cuda", TS_CUDA, 0, TS_HAS_F32, ts_beam_search_archive_cuda, ts_beam_archive_workspace,
      NULL },
    { 0 },
};

/* Whether a * b elements, with b >= 1, fit in 63 bits of bytes, and so do a few arrays of them. */
static bool fits(int64_t a, int64_t b)
{
    return a <= INT64_MAX / 1024 / b;
}

static ts_status check_dims(const ts_beam_dims *d, int64_t n_vocab)
{
    if (!(d->alpha >= 0) || isinf(d->alpha)) return TS_E_ARG;
    if (d->n_items < 0 || d->beam_width < 1 || d->max_new_tokens < 0) return TS_E_SHAPE;
    if (n_vocab < 1 || n_vocab > INT32_MAX || d->beam_width > INT32_MAX) return TS_E_SHAPE;
    if (d->eos < -1 || d->eos >= n_vocab) return TS_E_ARG;
    /* Before any length of a prompt is read: the array may be shorter. */
    const int64_t n_step = d->max_new_tokens > 0 ? d->max_new_tokens : 1;
    if (!fits(d->n_items, d->beam_width) || !fits(d->n_items * d->beam_width, n_vocab) ||
        !fits(d->n_items * d->beam_width, n_step))
        return TS_E_SHAPE;
    return TS_OK;
}

/* Validates lengths and tokens of the prompts. Tokens to be generated are checked with the dims. */
static ts_status check_prompts(const ts_beam_search_args *a)
{
    const ts_beam_dims *d = &a->d;
    int64_t             n = 0, n_text = 0;
    for (int64_t i = 0; i < d->n_items; i++) {
        if (a->prompt_len[i] < 1) return TS_E_ARG;
        if (!fits(a->prompt_len[i], 1)) return TS_E_SHAPE;
        n_text += a->prompt_len[i];
        if (!fits(n_text, d->beam_width)) return TS_E_SHAPE;
    }
    for (int64_t i = 0; i < d->n_items; i++)
        for (const int64_t end = n + a->prompt_len[i]; n < end; n++)
            if (a->prompts[n] < 0 || a->prompts[n] >= a->model->n_vocab) return TS_E_ARG;
    return TS_OK;
}

ts_status ts_beam_search_check(const ts_beam_search_args *a, const ts_exec *x)
{
    if (!a || !x || !a->model || !a->model->next) return TS_E_ARG;
    const ts_status s = check_dims(&a->d, a->model->n_vocab);
    if (s) return s;
    if (a->d.n_items == 0) return TS_OK;
    if (!a->prompts || !a->prompt_len || !a->n_found) return TS_E_ARG;
    if (!a->length || !a->logprob || !a->score || !a->finished) return TS_E_ARG;
    if (a->d.max_new_tokens > 0 && !a->tokens) return TS_E_ARG;
    return check_prompts(a);
}

/* Outputs on the host, whatever the device. */
static bool apart(const void *args, const ts_exec *x)
{
    const ts_beam_search_args *a = args;
    const ts_beam_dims        *d = &a->d;
    const int64_t              n = d->n_items * d->beam_width;
    int64_t                    n_text = 0;
    for (int64_t i = 0; i < d->n_items; i++) n_text += a->prompt_len[i];
    if (n == 0) return true;
    return TS_APART(x, 6, ts_vector(a->tokens, n * d->max_new_tokens, TS_I32),
                    ts_flat(a->length, n, sizeof *a->length), ts_vector(a->logprob, n, TS_F64),
                    ts_vector(a->score, n, TS_F64), ts_vector(a->finished, n, TS_U8),
                    ts_flat(a->n_found, d->n_items, sizeof *a->n_found),
                    ts_vector(a->prompts, n_text, TS_I32),
                    ts_flat(a->prompt_len, d->n_items, sizeof *a->prompt_len));
}

static const ts_impl *rows_of(const ts_exec *x, int archive)
{
    if (x->device == TS_CPU) return archive ? ts_beam_search_archive_impls : ts_beam_search_impls;
    return archive ? ts_beam_search_archive_device_impls : ts_beam_search_device_impls;
}

static ts_status workspace(const ts_beam_search_args *a, const ts_exec *x, int archive,
                           size_t *n_bytes)
{
    const ts_status s = n_bytes ? ts_beam_search_check(a, x) : TS_E_ARG;
    return s ? s : ts_impl_workspace(rows_of(x, archive), TS_F32, a, x, n_bytes);
}

/* ts_pick reports an absent device. */
static ts_status host(const ts_beam_search_args *a, const ts_exec *x, int archive, size_t *n_bytes)
{
    ts_impl   row;
    ts_status s = n_bytes ? ts_beam_search_check(a, x) : TS_E_ARG;
    if (!s) s = ts_pick(rows_of(x, archive), x->device, TS_F32, &row);
    return s ? s : ts_beam_host_bytes(a, x, archive, n_bytes);
}

static ts_status run(const ts_beam_search_args *a, const ts_exec *x, int archive)
{
    const ts_status s = ts_beam_search_check(a, x);
    return s ? s : ts_impl_run(rows_of(x, archive), TS_F32, a, x, apart);
}

ts_status ts_beam_search_workspace(const ts_beam_search_args *a, const ts_exec *x, size_t *n_bytes)
{
    return workspace(a, x, 0, n_bytes);
}

ts_status ts_beam_search_host(const ts_beam_search_args *a, const ts_exec *x, size_t *n_bytes)
{
    return host(a, x, 0, n_bytes);
}

ts_status ts_beam_search(const ts_beam_search_args *a, const ts_exec *x)
{
    return run(a, x, 0);
}

ts_status ts_beam_search_archive_workspace(const ts_beam_search_args *a, const ts_exec *x,
                                           size_t *n_bytes)
{
    return workspace(a, x, 1, n_bytes);
}

ts_status ts_beam_search_archive_host(const ts_beam_search_args *a, const ts_exec *x,
                                      size_t *n_bytes)
{
    return host(a, x, 1, n_bytes);
}

ts_status ts_beam_search_archive(const ts_beam_search_args *a, const ts_exec *x)
{
    return run(a, x, 1);
}
