/* SPDX-License-Identifier: Apache-2.0 */
/* isa_impls.h - dispatch table rows that are compiled on aarch64. */
#ifndef TS_ISA_IMPLS_H
#define TS_ISA_IMPLS_H

/* Rows of a table, best first. */
#define TS_EACH_SIMD(row, ...) row(neon, TS_CPU_NEON, __VA_ARGS__)

/* For tables of another kind. */
#define TS_ON_AARCH64(...) __VA_ARGS__

/* Masks of cpu.h under which dispatch selects different rows, for tests: none, all. */
#define TS_CPU_MASKS                                                                               \
    {                                                                                              \
        0, ~0u                                                                                     \
    }
/* Also for tables with matrix instructions: there are no such rows here. */
#define TS_CPU_MASKS_MATRIX TS_CPU_MASKS

#endif
