/* SPDX-License-Identifier: Apache-2.0 */
/* codes_vnni.c - codes times bytes with the dot products of AVX512-VNNI. */
#include "codes_avx2.h"
#include "codes_simd.h"
#include "cpu.h"

INLINE __m256i add_dot(__m256i sum, bytes u, bytes x)
{
    return _mm256_dpbusd_epi32(sum, u, x);
}

#include "codes_dots_x86.h"
#include "codes_rows.h"

const ts_codes ts_codes_vnni = { TS_CPU_VNNI, 1, round_rows, multiply };
