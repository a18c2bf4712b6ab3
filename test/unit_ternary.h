/* SPDX-License-Identifier: Apache-2.0 */
/* unit_ternary.h - tensors in memory of exactly their size, calls under any mask or on a CUDA
 * device, and the definition of projection once more. For the tests of ternary. */
#ifndef TS_UNIT_TERNARY_H
#define TS_UNIT_TERNARY_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "dtype.h"
#include "isa_impls.h"
#include "rng.h"
#include "touchstone/ternary.h"
#include "unit_ternary_cuda.h"

static const unsigned masks[] = TS_CPU_MASKS_MATRIX;

enum {
    N_MASKS = sizeof masks / sizeof *masks,
    GROUP = TS_TERNARY_GROUP,
    GROUP_BYTES = TS_TERNARY_GROUP_BYTES
};

/* Whether calls go to a CUDA device, by the argument `cuda`. There one mask is enough. */
static bool on_cuda;

static inline int first_mask(void)
{
    return on_cuda ? N_MASKS - 1 : 0;
}

static inline int64_t groups_of(int64_t n_in)
{
    return (n_in + GROUP - 1) / GROUP;
}

/* n elements, the first of them aligned to its own size and no more; full of `byte`. */
typedef struct tensor {
    char    *memory;
    void    *at;
    ts_dtype dtype;
    int64_t  n;
} tensor;

static inline size_t bytes_of(const tensor *t)
{
    return (size_t)t->n * ts_format_of(t->dtype)->n_bytes;
}

static inline tensor make(ts_dtype dtype, int64_t n)
{
    tensor       t = { .dtype = dtype, .n = n };
    const size_t each = ts_format_of(dtype)->n_bytes;
    t.memory = malloc((size_t)(n + 1) * each);
    assert_non_null(t.memory);
    t.at = t.memory + each;
    memset(t.at, 0xff, bytes_of(&t));
    return t;
}

static inline void drop(tensor *t)
{
    free(t->memory);
}

static inline double value(const tensor *t, int64_t i)
{
    return ts_load(t->at, t->dtype, i);
}

static inline void set(tensor *t, int64_t i, double v)
{
    ts_store(t->at, t->dtype, i, v);
}

static inline tensor normal(ts_dtype dtype, int64_t n, uint64_t seed, double size)
{
    tensor t = make(dtype, n);
    for (int64_t i = 0; i < n; i++) set(&t, i, size * ts_normal(seed, i));
    return t;
}

/* Codes, as bytes of no alignment, and scales. */
typedef struct packed {
    uint8_t  *code_memory, *code;
    uint16_t *scale_memory, *scale;
    int64_t   n_out, n_in, n_groups; /* groups of a row */
    size_t    code_bytes, scale_bytes;
} packed;

static inline packed make_packed(int64_t n_out, int64_t n_in)
{
    packed p = { .n_out = n_out, .n_in = n_in, .n_groups = groups_of(n_in) };
    p.code_bytes = (size_t)(n_out * p.n_groups * GROUP_BYTES);
    p.scale_bytes = (size_t)(n_out * p.n_groups) * 2;
    p.code_memory = malloc(p.code_bytes + 1);
    p.scale_memory = malloc(p.scale_bytes + 2);
    assert_true(p.code_memory && p.scale_memory);
    p.code = p.code_memory + 1, p.scale = p.scale_memory + 1;
    memset(p.code, 0xff, p.code_bytes);
    memset(p.scale, 0xff, p.scale_bytes);
    return p;
}

static inline void drop_packed(packed *p)
{
    free(p->code_memory), free(p->scale_memory);
}

static inline int get_code(const packed *p, int64_t o, int64_t j)
{
    return (p->code[o * p->n_groups * GROUP_BYTES + j / 4] >> 2 * (j % 4) & 3) - 1;
}

static inline void set_code(packed *p, int64_t o, int64_t j, int point)
{
    uint8_t *const byte = &p->code[o * p->n_groups * GROUP_BYTES + j / 4];
    *byte = (uint8_t)((*byte & ~(3u << 2 * (j % 4))) | (unsigned)point << 2 * (j % 4));
}

static inline double weight(const packed *p, int64_t o, int64_t j)
{
    return get_code(p, o, j) * ts_widen_f16(p->scale[o * p->n_groups + j / GROUP]);
}

/* The definition. */
static inline packed project(const tensor *w, int64_t n_out, int64_t n_in)
{
    packed p = make_packed(n_out, n_in);
    memset(p.code, 0x55, p.code_bytes);
    for (int64_t o = 0; o < n_out; o++)
        for (int64_t g = 0; g < p.n_groups; g++) {
            const int64_t begin = g * GROUP, end = begin + GROUP < n_in ? begin + GROUP : n_in;
            double        sum = 0;
            for (int64_t j = begin; j < end; j++) sum += fabs(value(w, o * n_in + j));
            const uint16_t h = ts_narrow_f16(sum / (double)(end - begin));
            p.scale[o * p.n_groups + g] = h;
            for (int64_t j = begin; j < end && h; j++) {
                const double v = value(w, o * n_in + j);
                if (fabs(v) / ts_widen_f16(h) > 0.5) set_code(&p, o, j, v < 0 ? 0 : 2);
            }
        }
    return p;
}

/* ---- calls ---- */

/* A workspace of exactly the requested size, full of NaN and unaligned. */
static inline char *workspace_of(ts_exec *x, size_t n_bytes)
{
    char *const memory = malloc(n_bytes + 4);
    assert_non_null(memory);
    memset(memory, 0xff, n_bytes + 4);
    x->workspace = memory + 4;
    x->workspace_bytes = n_bytes;
    return memory;
}

/* Every pass has one shape; only the API function differs. */
static inline ts_status call(ts_run_fn run, ts_workspace_fn ask, const void *args,
                             size_t args_bytes, const handed *h, int n, int n_threads)
{
    ts_exec   x = { .n_threads = n_threads, .deterministic = 1 };
    size_t    n_bytes = 0;
    ts_status s;
    if (on_cuda) return call_on_cuda(run, ask, args, args_bytes, h, n);
    if ((s = ask(args, &x, &n_bytes)) != TS_OK) return s;
    char *const memory = workspace_of(&x, n_bytes);
    s = run(args, &x);
    free(memory);
    return s;
}

#define CALL(pass, args, handed, n_threads)                                                        \
    call((ts_run_fn)ts_ternary_##pass, (ts_workspace_fn)ts_ternary_##pass##_workspace, &(args),    \
         sizeof(args), handed, (int)(sizeof(handed) / sizeof *(handed)), n_threads)
#define HAND(type, field, t, out)                                                                  \
    {                                                                                              \
        offsetof(type, field), bytes_of(t), ts_format_of((t)->dtype)->n_bytes, out                 \
    }

static inline ts_status pack_with(const tensor *w, packed *p, int n_threads)
{
    const ts_ternary_pack_args a = {
        { .n_out = p->n_out, .n_in = p->n_in }, w->at, p->code, p->scale
    };
    const handed h[] = { HAND(ts_ternary_pack_args, w, w, false),
                         { offsetof(ts_ternary_pack_args, code), p->code_bytes, 1, true },
                         { offsetof(ts_ternary_pack_args, scale), p->scale_bytes, 2, true } };
    return CALL(pack, a, h, n_threads);
}

static inline ts_status unpack_with(const packed *p, tensor *wt, int n_threads)
{
    const ts_ternary_unpack_args a = {
        { .n_out = p->n_out, .n_in = p->n_in }, p->code, p->scale, wt->at
    };
    const handed h[] = { { offsetof(ts_ternary_unpack_args, code), p->code_bytes, 1, false },
                         { offsetof(ts_ternary_unpack_args, scale), p->scale_bytes, 2, false },
                         HAND(ts_ternary_unpack_args, wt, wt, true) };
    return CALL(unpack, a, h, n_threads);
}

static inline ts_status linear_with(const ts_ternary_linear_dims *d, const tensor *w,
                                    const tensor *in, tensor *y, int n_threads)
{
    const ts_ternary_linear_args a = { *d, w->at, in->at, y->at };
    const handed                 h[] = { HAND(ts_ternary_linear_args, w, w, false),
                                         HAND(ts_ternary_linear_args, in, in, false),
                                         HAND(ts_ternary_linear_args, y, y, true) };
    return CALL(linear, a, h, n_threads);
}

static inline ts_status packed_with(const ts_ternary_linear_dims *d, const packed *p,
                                    const tensor *in, tensor *y, int n_threads)
{
    const ts_ternary_linear_packed_args a = { *d, p->code, p->scale, in->at, y->at };
    const handed                        h[] = {
                               { offsetof(ts_ternary_linear_packed_args, code), p->code_bytes, 1, false },
                               { offsetof(ts_ternary_linear_packed_args, scale), p->scale_bytes, 2, false },
                               HAND(ts_ternary_linear_packed_args, in, in, false),
                               HAND(ts_ternary_linear_packed_args, y, y, true),
    };
    return CALL(linear_packed, a, h, n_threads);
}

static inline ts_status backward_with(const ts_ternary_linear_dims *d, const tensor *w,
                                      const tensor *in, const tensor *dy, tensor *dx, tensor *dw,
                                      int n_threads)
{
    const ts_ternary_linear_backward_args a = { *d, w->at, in->at, dy->at, dx->at, dw->at };
    const handed                          h[] = {
                                 HAND(ts_ternary_linear_backward_args, w, w, false),
                                 HAND(ts_ternary_linear_backward_args, in, in, false),
                                 HAND(ts_ternary_linear_backward_args, dy, dy, false),
                                 HAND(ts_ternary_linear_backward_args, dx, dx, true),
                                 HAND(ts_ternary_linear_backward_args, dw, dw, true),
    };
    return CALL(linear_backward, a, h, n_threads);
}

static inline void assert_untouched(const void *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) assert_int_equal(((const unsigned char *)p)[i], 0xff);
}

static inline void assert_same_bits(const tensor *a, const tensor *b)
{
    assert_memory_equal(a->at, b->at, bytes_of(a));
}

#endif
