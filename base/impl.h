/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - one row of a kernel's dispatch table, and the choice among them. */
#ifndef TS_BASE_IMPL_H
#define TS_BASE_IMPL_H

#include "cpu.h"
#include "isa_impls.h"
#include "touchstone/touchstone.h"

/* What another instruction set has is no row of a table here. */
#ifndef TS_IMPL_AVX2
#define TS_IMPL_AMX(...)
#define TS_IMPL_AVX512(...)
#define TS_IMPL_AVX2(...)
#endif
#ifndef TS_IMPL_NEON
#define TS_IMPL_NEON(...)
#endif

/* Bits of ts_impl.dtypes. */
enum {
    TS_HAS_F32 = 1u << TS_F32,
    TS_HAS_F64 = 1u << TS_F64,
    TS_HAS_F16 = 1u << TS_F16,
    TS_HAS_BF16 = 1u << TS_BF16,
};

typedef struct ts_impl {
    const char     *name; /* "ref", "avx2", "avx512", "sm90" */
    ts_device       device;
    unsigned        needs;  /* feature bits of cpu.h, all required */
    unsigned        dtypes; /* TS_HAS_* */
    ts_run_fn       run;
    ts_workspace_fn workspace; /* NULL: needs none */
    const char     *symbol;    /* TS_CUDA: run and workspace are looked up in the CUDA module as
                                  `symbol` and `symbol`_workspace; NULL: they are here */
} ts_impl;

/* The first row that serves this device, its features and this dtype; a status if none.
 * `found` has run and workspace filled in. */
ts_status ts_pick(const ts_impl *rows, ts_device d, ts_dtype t, ts_impl *found);

/* The two halves of every door, once the arguments are known to be sound: pick a row, size or check
 * the workspace, call. */
ts_status ts_impl_workspace(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x,
                            size_t *n_bytes);
ts_status ts_impl_run(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x);

#endif
