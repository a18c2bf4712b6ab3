/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_simd.h - packing, unpacking and elements as floats, written once for any width of vector.
 *
 * Private to the files that include it, each of which has first its vec_*.h and, for its own
 * instruction set:
 *
 *     GROUP, GROUP_BYTES   of the contract, in short
 *     magnitude            |v|
 *     total_of             the sum of GROUP magnitudes, off by at most SLACK / 2 units of a float
 *     half_of, float_of    a float as f16, and back
 *     codes_of             GROUP latents as GROUP_BYTES of code points, by 2 |w| > s
 *     spread               those bytes as GROUP floats: -s, 0, s or NaN */
#ifndef TS_TERNARY_SIMD_H
#define TS_TERNARY_SIMD_H

#include "ternary_elements_simd.h"

static void store(const float *from, int64_t n, float scale, void *to, ts_dtype t, int64_t at)
{
    char   *p = (char *)to + bytes_of(t, at);
    int64_t c = 0;
    for (; c + LANES <= n; c += LANES)
        narrow(p + bytes_of(t, c), t, mul(get(from + c), splat(scale)));
    for (; c < n; c++) {
        char last[LANES * sizeof(float)];
        narrow(last, t, splat(from[c] * scale));
        memcpy(p + bytes_of(t, c), last, (size_t)bytes_of(t, 1));
    }
}

static float largest(const void *in, ts_dtype t, int64_t at, int64_t n)
{
    vec   max = splat(0);
    float some[GROUP], most = 0;
    for (int64_t c = 0; c < n; c += GROUP) {
        const int64_t m = min_of(GROUP, n - c);
        floats_of(in, t, at + c, m, 1, some);
        for (int64_t i = 0; i < m; i += LANES) max = larger(magnitude(get(some + i)), max);
    }
    put(some, max);
    for (int i = 0; i < LANES; i++) most = some[i] > most ? some[i] : most;
    return most;
}

/* ---- pack and unpack ---- */

/* The scale of GROUP floats of which n count and the others are 0. Where the mean as a float lies
 * farther from a tie between two f16s than it may be off, it rounds as the exact one does;
 * elsewhere the sum is made again in the order of the definition. */
INLINE uint16_t scale_of(const float *w, int64_t n)
{
    const float mean = (float)(total_of(w) / (double)n);
    uint32_t    bits;
    memcpy(&bits, &mean, sizeof bits);
    const uint32_t past = (bits & 0x1fffu) - (0x1000u - SLACK); /* a tie is at SLACK */
    if (!(mean >= 0x1p-14f && mean < 65504) || past <= 2 * SLACK) return ts_ternary_scale(w, n);
    return half_of(mean);
}

static bool pack(const float *w, int64_t n_in, uint8_t *code, uint16_t *scale)
{
    float last[GROUP];
    for (int64_t g = 0; g * GROUP < n_in; g++, code += GROUP_BYTES) {
        const int64_t n = ts_ternary_width(n_in, g);
        const float  *p = w + g * GROUP;
        if (n < GROUP) {
            memset(last, 0, sizeof last);
            p = memcpy(last, p, (size_t)n * sizeof *p);
        }
        for (uintptr_t i = 0; i < GROUP * sizeof(float); i += 64) /* the next row's, too */
            __builtin_prefetch((const char *)((uintptr_t)p + 8 * sizeof last + i), 0, 2);
        scale[g] = scale_of(p, n);
        if (scale[g] == 0x7c00u) return false;
        /* With s = 0 every code is 0: any threshold that no weight passes. */
        codes_of(p, scale[g] ? from_half(scale[g]) : INFINITY, code);
    }
    return true;
}

/* Group g of an output: GROUP floats, whether or not so many count. */
INLINE void weights(const ts_ternary_matrix *m, int64_t out, int64_t g, float *wt)
{
    const int64_t at = out * m->n_groups + g;
    spread(m->code + at * GROUP_BYTES, from_half(m->scale[at]), wt);
}

static void unpack(const ts_ternary_matrix *m, int64_t out, float *wt)
{
    float last[GROUP];
    for (int64_t g = 0; g < m->n_groups; g++) {
        const int64_t n = ts_ternary_width(m->n_in, g);
        weights(m, out, g, n < GROUP ? last : wt + g * GROUP);
        if (n < GROUP) memcpy(wt + g * GROUP, last, (size_t)n * sizeof *wt);
    }
}

#endif
