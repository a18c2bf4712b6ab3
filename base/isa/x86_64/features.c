/* SPDX-License-Identifier: Apache-2.0 */
/* features.c - features of an x86-64 CPU, as bits of cpu.h. */
#define _GNU_SOURCE /* syscall */
#include <cpuid.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

/* Results are cached, since CPUID takes tens of microseconds under a hypervisor. Threads that race
 * get the same result. */
enum { UNKNOWN, NO, YES };

static int once(atomic_int *answer, int (*find)(void))
{
    int known = atomic_load_explicit(answer, memory_order_relaxed);
    if (known != UNKNOWN) return known == YES;
    known = find() ? YES : NO;
    atomic_store_explicit(answer, known, memory_order_relaxed);
    return known == YES;
}

/* clang's __builtin_cpu_supports does not know this one. */
static int find_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static int has_f16c(void)
{
    static atomic_int answer = UNKNOWN;
    return once(&answer, find_f16c);
}

/* Nor AMX: TILE, BF16 and INT8 of leaf 7, BF16 vectors of its subleaf 1, GFNI, which every CPU with
 * tiles has, and tile registers that the system saves. */
static int has_tiles(void)
{
    enum { AMX_BF16 = 1u << 22, AMX_TILE = 1u << 24, AMX_INT8 = 1u << 25 };
    enum { AMX = AMX_BF16 | AMX_TILE | AMX_INT8, AVX512_BF16 = 1u << 5, OSXSAVE = 1u << 27 };
    enum { GFNI = 1u << 8 };
    enum { TILES = 3u << 17 }; /* of XCR0: tile configuration and data */
    unsigned a, b, c, d, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX) != AMX || !(c & GFNI)) return 0;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & AVX512_BF16)) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILES) == TILES;
}

/* A process must request tile registers from the system, for all its threads. */
static int find_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return has_tiles() && !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA);
}

static int may_use_tiles(void)
{
    static atomic_int answer = UNKNOWN;
    return once(&answer, find_tiles);
}
unsigned ts_isa_features(unsigned wanted)
{
    unsigned f = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c())
        f |= TS_CPU_AVX2;
    if ((f & TS_CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        f |= TS_CPU_AVX512;
    if ((f & TS_CPU_AVX512) && __builtin_cpu_supports("avx512vnni")) f |= TS_CPU_VNNI;
    /* Tile registers are requested only if wanted. */
    if ((f & TS_CPU_VNNI) && (wanted & TS_CPU_AMX) && may_use_tiles()) f |= TS_CPU_AMX;
    return f;
}
