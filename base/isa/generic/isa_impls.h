/* SPDX-License-Identifier: Apache-2.0 */
/* isa_impls.h - the implementations of a dispatch table that are compiled here: only ref. */
#ifndef TS_ISA_IMPLS_H
#define TS_ISA_IMPLS_H

/* Masks of cpu.h under which the tables choose differently, for tests: none, all. */
#define TS_CPU_MASKS                                                                               \
    {                                                                                              \
        0, ~0u                                                                                     \
    }
#define TS_CPU_MASKS_MATRIX TS_CPU_MASKS

#endif
