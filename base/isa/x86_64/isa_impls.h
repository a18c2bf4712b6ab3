/* SPDX-License-Identifier: Apache-2.0 */
/* isa_impls.h - dispatch table rows that are compiled on x86-64. */
#ifndef TS_ISA_IMPLS_H
#define TS_ISA_IMPLS_H

/* Rows of a table, best first. */
/* clang-format off */
#define TS_IMPL_AMX(dtypes, run, workspace) \
    { "amx", TS_CPU, TS_CPU_AMX, dtypes, run, workspace, NULL },
#define TS_EACH_SIMD(row, ...) \
    row(avx512, TS_CPU_AVX512, __VA_ARGS__) row(avx2, TS_CPU_AVX2, __VA_ARGS__)
/* clang-format on */

/* For tables of another kind. */
#define TS_ON_X86_64(...) __VA_ARGS__

/* Masks of cpu.h under which dispatch selects different rows, for tests: none, vectors, all. */
#define TS_CPU_MASKS                                                                               \
    {                                                                                              \
        0, TS_CPU_AVX2, ~0u                                                                        \
    }
/* Also for tables with matrix instructions. */
#define TS_CPU_MASKS_MATRIX                                                                        \
    {                                                                                              \
        0, TS_CPU_AVX2, TS_CPU_AVX2 | TS_CPU_AVX512, ~0u                                           \
    }

#endif
