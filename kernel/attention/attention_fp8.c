/* SPDX-License-Identifier: Apache-2.0 */
/* attention_fp8.c - API entry points of flash_attention_fp8, and its CPU implementations.
 *
 * They decode q, k and v into the workspace and then call attention itself: `ref` in double, where
 * decoding is exact, the others in float, by the same instruction set's implementation. */
#include <math.h>

#include "attention_impl.h"
#include "dtype.h"
#include "overlap.h"
#include "scratch.h"
#include "threads.h"
#include "touchstone/attention_fp8.h"

typedef ts_flash_attention_fp8_args fp8_args;

enum { OUT = TS_HAS_F32 | TS_HAS_F16 | TS_HAS_BF16 };

/* clang-format off */
const ts_impl ts_flash_attention_fp8_impls[] = {
    { "sm90", TS_CUDA, TS_SM90, OUT, NULL, NULL, "ts_flash_attention_fp8_sm90" },
    { "cuda", TS_CUDA, TS_SM80, OUT, NULL, NULL, "ts_flash_attention_fp8_cuda" },
    TS_SIMD_ONE_IMPL(OUT, ts_flash_attention_fp8_floats,
                     ts_flash_attention_fp8_floats_workspace)
    { "ref", TS_CPU, 0, OUT, ts_flash_attention_fp8_ref, ts_flash_attention_fp8_ref_workspace, NULL },
    { 0 },
};
/* clang-format on */

/* ---- the call as one of attention ---- */

static int64_t q_size(const ts_attention_dims *d)
{
    return d->n_batch * d->n_q_head * d->n_q * d->head_dim;
}

static int64_t k_size(const ts_attention_dims *d)
{
    return d->n_batch * d->n_kv_head * d->n_k * d->head_dim;
}

/* As attention of dtype t has it; tensors that differ from the caller's are cut from m. */
static ts_flash_attention_args plain_call(const fp8_args *a, ts_dtype t, ts_room *m)
{
    const size_t            each = ts_format_of(t)->n_bytes;
    ts_flash_attention_args f = { a->d, NULL, NULL, NULL, a->kv_len, a->o, a->lse };
    f.d.dtype = t;
    f.q = ts_take(m, q_size(&a->d), each);
    f.k = ts_take(m, k_size(&a->d), each);
    f.v = ts_take(m, k_size(&a->d), each);
    if (a->d.dtype != t) f.o = ts_take(m, q_size(&a->d), each);
    if (a->lse && t == TS_F64) f.lse = ts_take(m, q_size(&a->d) / a->d.head_dim, each);
    return f;
}

/* The real numbers of n_head heads of n rows each. */
static void decode(const ts_flash_attention_args *f, void *to, const uint8_t *codes,
                   const float *scale, int64_t n_head, int64_t n, int n_threads)
{
    const ts_attention_dims *d = &f->d;
    const int64_t            D = d->head_dim;
#pragma omp parallel for num_threads(n_threads)
    for (int64_t h = 0; h < d->n_batch * n_head; h++) {
        double number[256];
        for (int c = 0; c < 256; c++) number[c] = ts_widen_e4m3((uint8_t)c) * (double)scale[h];
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = ts_attention_row(d, n_head, n, h / n_head, h % n_head, i);
            for (int64_t e = at; e < at + D; e++)
                if (d->dtype == TS_F64) ((double *)to)[e] = number[codes[e]];
                else ((float *)to)[e] = (float)number[codes[e]];
        }
    }
}

static void decode_all(const fp8_args *a, const ts_flash_attention_args *f, int n_threads)
{
    const ts_attention_dims *d = &a->d;
    decode(f, (void *)f->q, a->q, a->q_scale, d->n_q_head, d->n_q, n_threads);
    decode(f, (void *)f->k, a->k, a->k_scale, d->n_kv_head, d->n_k, n_threads);
    decode(f, (void *)f->v, a->v, a->v_scale, d->n_kv_head, d->n_k, n_threads);
}

/* Rounds o and lse, if they were not computed in the caller's memory. */
static void round_all(const fp8_args *a, const ts_flash_attention_args *f, int n_threads)
{
    const int64_t n = q_size(&a->d), n_rows = n / a->d.head_dim;
    if (f->o != a->o)
#pragma omp parallel for num_threads(n_threads)
        for (int64_t i = 0; i < n; i++) ts_store(a->o, a->d.dtype, i, ts_load(f->o, f->d.dtype, i));
    if (f->lse != a->lse)
        for (int64_t i = 0; i < n_rows; i++) a->lse[i] = (float)((const double *)f->lse)[i];
}

/* ---- implementations ---- */

ts_status ts_flash_attention_fp8_ref_workspace(const void *args, const ts_exec *x, size_t *n_bytes)
{
    ts_room m = { NULL, 0 };
    (void)x;
    (void)plain_call(args, TS_F64, &m);
    *n_bytes = m.used + TS_LINE;
    return TS_OK;
}

ts_status ts_flash_attention_fp8_ref(const void *args, const ts_exec *x)
{
    ts_room                       m = { ts_scratch(x), 0 };
    const ts_flash_attention_args f = plain_call(args, TS_F64, &m);
    decode_all(args, &f, 1);
    const ts_status s = ts_flash_attention_ref(&f, x);
    if (s == TS_OK) round_all(args, &f, 1);
    return s;
}

ts_status ts_flash_attention_fp8_floats_workspace(const void *args, const ts_exec *x,
                                                  size_t *n_bytes)
{
    ts_room                       m = { NULL, 0 };
    const ts_flash_attention_args f = plain_call(args, TS_F32, &m);
    size_t                        own = 0;
    const ts_status s = ts_impl_workspace(ts_flash_attention_impls, TS_F32, &f, x, &own);
    if (s == TS_OK) *n_bytes = m.used + TS_LINE + own;
    return s;
}

ts_status ts_flash_attention_fp8_floats(const void *args, const ts_exec *x)
{
    const fp8_args               *a = args;
    ts_room                       m = { ts_scratch(x), 0 };
    const ts_flash_attention_args f = plain_call(a, TS_F32, &m);
    const int                     most = ts_threads(x);
    const int n_threads = q_size(&a->d) + 2 * k_size(&a->d) < 1 << 16 ? 1 : most;
    ts_exec   rest = *x;
    rest.workspace = m.base + m.used;
    rest.workspace_bytes =
        x->workspace_bytes - (size_t)((char *)rest.workspace - (char *)x->workspace);
    decode_all(a, &f, n_threads);
    const ts_status s = ts_impl_run(ts_flash_attention_impls, TS_F32, &f, &rest, NULL);
    if (s == TS_OK) round_all(a, &f, n_threads);
    return s;
}

/* ---- API ---- */

/* On another device scales cannot be read from here. */
static ts_status check_scales(const float *scale, int64_t n, const ts_exec *x)
{
    if (!scale) return TS_E_ARG;
    for (int64_t i = 0; i < n && x->device == TS_CPU; i++)
        if (!(scale[i] > 0 && isfinite(scale[i]))) return TS_E_ARG;
    return TS_OK;
}

static ts_status check(const fp8_args *a, const ts_exec *x)
{
    if (!a || !x) return TS_E_ARG;
    const ts_attention_dims      *d = &a->d;
    const ts_flash_attention_args f = { *d, a->q, a->k, a->v, a->kv_len, a->o, a->lse };
    const int64_t                 of_k = d->n_batch * d->n_kv_head;
    ts_status                     s = ts_flash_attention_check(&f, x);
    if (!s && d->n_batch > 0 && d->n_q > 0)
        s = check_scales(a->q_scale, d->n_batch * d->n_q_head, x);
    if (!s && d->n_batch > 0 && d->n_k > 0) s = check_scales(a->k_scale, of_k, x);
    if (!s && d->n_batch > 0 && d->n_k > 0) s = check_scales(a->v_scale, of_k, x);
    return s;
}

static bool apart(const void *args, const ts_exec *x)
{
    const fp8_args          *a = args;
    const ts_attention_dims *d = &a->d;
    const int64_t rows = d->n_batch * d->n_q_head * d->n_q, heads = d->n_batch * d->n_kv_head;
    return TS_APART(x, 2, ts_vector(a->o, q_size(d), d->dtype), ts_vector(a->lse, rows, TS_F32),
                    ts_vector(a->q, q_size(d), TS_U8), ts_vector(a->k, k_size(d), TS_U8),
                    ts_vector(a->v, k_size(d), TS_U8),
                    ts_vector(a->q_scale, d->n_batch * d->n_q_head, TS_F32),
                    ts_vector(a->k_scale, heads, TS_F32), ts_vector(a->v_scale, heads, TS_F32),
                    ts_vector(a->kv_len, d->n_batch, TS_I32));
}

TS_API_ENTRY(ts_flash_attention_fp8, check, apart, a->d.dtype)
