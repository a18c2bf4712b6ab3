/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - the implementations in a kernel's dispatch table, and selection among them. */
#ifndef TS_BASE_IMPL_H
#define TS_BASE_IMPL_H

#include "cpu.h"
#include "isa_impls.h"
#include "touchstone/touchstone.h"

/* Implementations for other instruction sets are not in the table. */
#ifndef TS_IMPL_AVX2
#define TS_IMPL_AMX(...)
#define TS_IMPL_AVX512(...)
#define TS_IMPL_AVX2(...)
#endif
#ifndef TS_IMPL_NEON
#define TS_IMPL_NEON(...)
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

/* Selects the first implementation for this device, its features and this dtype; an error status if
 * there is none. Sets run and workspace in `found`. */
ts_status ts_pick(const ts_impl *rows, ts_device d, ts_dtype t, ts_impl *found);

/* Common to all API functions, after validation: select an implementation, query or check the
 * workspace, call. */
ts_status ts_impl_workspace(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x,
                            size_t *n_bytes);
ts_status ts_impl_run(const ts_impl *rows, ts_dtype t, const void *args, const ts_exec *x);

#endif
