/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - the implementations in a kernel's dispatch table, and selection among them. */
#ifndef TS_BASE_IMPL_H
#define TS_BASE_IMPL_H

#include <stdbool.h>

#include "cpu.h"
#include "isa_impls.h"
#include "touchstone/touchstone.h"

/* Implementations for other instruction sets are not in the table. TS_EACH_SIMD(row, ...) is
 * row(suffix, feature bit, ...) for each width of vector that this one has, best first. */
#ifndef TS_EACH_SIMD
#define TS_EACH_SIMD(...)
#endif
#ifndef TS_IMPL_AMX
#define TS_IMPL_AMX(...)
#endif
#ifndef TS_ON_AARCH64
#define TS_ON_AARCH64(...)
#endif
#ifndef TS_ON_X86_64
#define TS_ON_X86_64(...)
#endif

/* Bits of ts_impl.dtypes. */
enum {
    TS_HAS_F32 = 1u << TS_F32,
    TS_HAS_F64 = 1u << TS_F64,
    TS_HAS_F16 = 1u << TS_F16,
    TS_HAS_BF16 = 1u << TS_BF16,
    TS_HAS_FAST =
        TS_HAS_F32 | TS_HAS_F16 | TS_HAS_BF16, /* those that vectors and GPUs compute with */
    TS_HAS_ANY = TS_HAS_FAST | TS_HAS_F64,
};

typedef struct ts_impl {
    const char     *name; /* "ref", "avx2", "avx512", "sm90" */
    ts_device       device;
    unsigned        needs;  /* feature bits of cpu.h, all required */
    unsigned        dtypes; /* TS_HAS_* */
    ts_run_fn       run;
    ts_workspace_fn workspace; /* NULL: needs none */
    const char *symbol; /* TS_CUDA: run and workspace are looked up in the CUDA module as `symbol`
                           and `symbol`_workspace; lookups are cached by its address, so it must be
                           a constant; NULL: both are set already */
} ts_impl;

/* Rows of a table for every width of vector: of functions run_avx2, run_neon ...; of those with
 * workspace queries run_workspace_avx2 ...; of one function for all. */
/* clang-format off */
#define TS_SIMD_IMPLS(dtypes, run, workspace) TS_EACH_SIMD(TS_SIMD_IMPL, dtypes, run, workspace)
#define TS_SIMD_IMPL(set, needs, dtypes, run, workspace) \
    { #set, TS_CPU, needs, dtypes, run##_##set, workspace, NULL },
#define TS_SIMD_SIZED_IMPLS(dtypes, run) TS_EACH_SIMD(TS_SIMD_SIZED_IMPL, dtypes, run)
#define TS_SIMD_SIZED_IMPL(set, needs, dtypes, run) \
    { #set, TS_CPU, needs, dtypes, run##_##set, run##_workspace_##set, NULL },
#define TS_SIMD_ONE_IMPL(dtypes, run, workspace) TS_EACH_SIMD(TS_SIMD_ONE, dtypes, run, workspace)
#define TS_SIMD_ONE(set, needs, dtypes, run, workspace) \
    { #set, TS_CPU, needs, dtypes, run, workspace, NULL },
/* clang-format on */

/* Prototypes of run_ref and of run_avx2, run_neon ...; and of the workspace queries of these. */
#define TS_DECLARE_IMPLS(run)                                                                      \
    ts_status run##_ref(const void *args, const ts_exec *x);                                       \
    TS_EACH_SIMD(TS_DECLARE_IMPL, run)
#define TS_DECLARE_IMPL(set, needs, run) ts_status run##_##set(const void *args, const ts_exec *x);
#define TS_DECLARE_SIZES(run)            TS_EACH_SIMD(TS_DECLARE_SIZE, run)
#define TS_DECLARE_SIZE(set, needs, run)                                                           \
    ts_status run##_workspace_##set(const void *args, const ts_exec *x, size_t *n_bytes);

/* Defines the API functions `name`_workspace and `name`: `check` validates the arguments `a`,
 * `apart` compares their memory (overlap.h), and one of `name`_impls is selected by `dtype` and
 * called. Callers query before there is memory: a query compares none. */
#define TS_API_ENTRY(name, check, apart, dtype)                                                    \
    ts_status name##_workspace(const name##_args *a, const ts_exec *x, size_t *n_bytes)            \
    {                                                                                              \
        const ts_status s = n_bytes ? check(a, x) : TS_E_ARG;                                      \
        return s ? s : ts_impl_workspace(name##_impls, dtype, a, x, n_bytes);                      \
    }                                                                                              \
    ts_status name(const name##_args *a, const ts_exec *x)                                         \
    {                                                                                              \
        const ts_status s = check(a, x);                                                           \
        return s ? s : ts_impl_run(name##_impls, dtype, a, x, apart);                              \
    }

/* Selects the first implementation for this device, its features and this dtype; an error status if
 * there is none. Sets run and workspace in `found`. */
ts_status ts_pick(const ts_impl *rows, ts_device d, ts_dtype t, ts_impl *found);

/* Common to all API functions, after validation: select an implementation, query or check the
 * workspace, call. With `apart`, memory is compared first: that of args, and of the workspace what
 * the call needs. */
ts_status ts_impl_workspace(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x,
                            size_t *n_bytes);
typedef bool (*ts_apart_fn)(const void *args, const ts_exec *x);
ts_status ts_impl_run(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x,
                      ts_apart_fn apart);

#endif
