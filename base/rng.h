/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - counter-based random numbers: any element of any stream can be recomputed on its own. */
#ifndef TS_BASE_RNG_H
#define TS_BASE_RNG_H

#include <stdint.h>

static inline uint64_t ts_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t ts_bits(uint64_t seed, int64_t i)
{
    return ts_mix(ts_mix(seed) + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15));
}

/* Uniform in [-1, 1), 53 bits. */
static inline double ts_uniform(uint64_t seed, int64_t i)
{
    return (double)(ts_bits(seed, i) >> 11) * 0x1p-52 - 1.0;
}

/* Approximately normal, for test inputs: the sum of four 16-bit uniforms, scaled to variance 1. Its
 * largest value is 3.46; it costs one hash. */
static inline double ts_normal(uint64_t seed, int64_t i)
{
    const uint64_t b = ts_bits(seed, i);
    const double   s = (double)(b & 0xffff) + (double)(b >> 16 & 0xffff) +
                     (double)(b >> 32 & 0xffff) + (double)(b >> 48);
    return (s - 131070.0) * 2.6429e-05;
}

#endif
