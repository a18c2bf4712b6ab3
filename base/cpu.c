/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* clang's __builtin_cpu_supports does not know this one. */
static int has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static unsigned visible = ~0u;

unsigned ts_cpu_features(void)
{
    unsigned f = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        f |= TS_CPU_AVX2;
    if ((f & TS_CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        f |= TS_CPU_AVX512;
#endif
    return f & visible;
}

void ts_cpu_set_mask(unsigned mask)
{
    visible = mask;
}
