/* SPDX-License-Identifier: Apache-2.0 */
/* isa_impls.h - no dispatch table rows: only ref is compiled. */
#ifndef TS_ISA_IMPLS_H
#define TS_ISA_IMPLS_H

/* Masks of cpu.h under which dispatch selects different rows, for tests: none, all. */
#define TS_CPU_MASKS                                                                               \
    {                                                                                              \
        0, ~0u                                                                                     \
    }
#define TS_CPU_MASKS_MATRIX TS_CPU_MASKS

#endif
