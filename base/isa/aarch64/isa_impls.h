/* SPDX-License-Identifier: Apache-2.0 */
/* isa_impls.h - the implementations of a dispatch table that are compiled here: those of aarch64.
 */
#ifndef TS_ISA_IMPLS_H
#define TS_ISA_IMPLS_H

/* A row of a table, best first. */
/* clang-format off */
#define TS_IMPL_NEON(dtypes, run, workspace) \
    { "neon", TS_CPU, TS_CPU_NEON, dtypes, run, workspace, NULL },
/* clang-format on */

/* Masks of cpu.h under which the tables choose differently, for tests: none, all. */
#define TS_CPU_MASKS                                                                               \
    {                                                                                              \
        0, ~0u                                                                                     \
    }
/* The same where matrix instructions come on top of vectors: no table has a row for them here. */
#define TS_CPU_MASKS_MATRIX TS_CPU_MASKS

#endif
