/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - CPU features, and a mask with which tests and users hide some of them. */
#ifndef TS_BASE_CPU_H
#define TS_BASE_CPU_H

enum {
    TS_CPU_AVX2 = 1u << 0,    /* AVX2, FMA and F16C */
    TS_CPU_AVX512 = 1u << 1,  /* F, BW, DQ and VL, on top of AVX2 */
    TS_CPU_AMX = 1u << 2,     /* tiles of BF16 and bytes, BF16 vectors, GFNI, on top of VNNI */
    TS_CPU_NEON = 1u << 3,    /* Advanced SIMD: every aarch64 CPU */
    TS_CPU_DOTPROD = 1u << 4, /* dot products of bytes */
    TS_CPU_BF16 = 1u << 5,    /* BF16 matmul and conversion */
    TS_CPU_I8MM = 1u << 6,    /* matmul of bytes */
    TS_CPU_VNNI = 1u << 7,    /* dot products of bytes, on top of AVX512 */
    TS_SM90 = 1u << 16,       /* a GPU of compute capability 9.0 or later, with its shared memory */
    TS_SM80 = 1u << 17,       /* 8.0 or later */
};

unsigned ts_cpu_features(void);          /* detected and not masked */
void     ts_cpu_set_mask(unsigned mask); /* features outside the mask are hidden */
unsigned ts_cpu_mask(void);              /* also applies to GPU features */

/* ---- base/isa/<set>/features.c ---- */

unsigned ts_isa_features(unsigned wanted); /* detected; features not in `wanted` may be missing */

#endif
