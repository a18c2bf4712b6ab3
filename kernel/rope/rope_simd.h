/* SPDX-License-Identifier: Apache-2.0 */
/* rope_simd.h - rows of rope, written once for any width of vector. Private to the files that
 * include it.
 *
 * Each of them first includes its vec_*.h and defines, for its own instruction set,
 *
 *     swapped   the elements of each adjacent pair in the other order.
 *
 * Cosines and sines are computed once for all heads of a row, some pairs at a time. */
#ifndef TS_ROPE_SIMD_H
#define TS_ROPE_SIMD_H

#include <math.h>
#include <string.h>

#include "threads.h"
#include "vec_simd.h"

enum { PAIRS = 128 }; /* whose cosines and sines are made together */

/* Of halves one for each pair; of adjacent pairs both channels have their own, first's sine minus.
 */
typedef struct turns {
    float cosine[2 * PAIRS], sine[2 * PAIRS];
} turns;

/* ---- cosine and sine ---- */

/* angle = quarters pi / 2 + rest, |rest| <= pi / 4. Adding 0x1.8p52 rounds to an integer, whose low
 * bits are the sum's. pi / 2 is two doubles: what fma leaves of the first is exact. */
INLINE void split(const double *frequency, double position, int n, float *rest, int32_t *quarters)
{
    for (int i = 0; i < n; i++) {
        const double angle = position * frequency[i], big = 0x1.8p52;
        const double sum = __builtin_fma(angle, 0x1.45f306dc9c883p-1, big), k = sum - big;
        double       r = __builtin_fma(-k, 0x1.921fb54442d18p0, angle);
        uint64_t     bits;
        r = __builtin_fma(-k, 0x1.1a62633145c07p-54, r);
        memcpy(&bits, &sum, sizeof bits);
        rest[i] = (float)r;
        quarters[i] = (int32_t)bits & 3;
    }
}

/* The series up to r^9 and r^10: what is left is below 2^-29. */
INLINE void cosine_and_sine(const float *rest, const int32_t *quarters, int n, float *cosine,
                            float *sine)
{
    for (int i = 0; i < n; i++) {
        const float r = rest[i], z = r * r;
        float       s = 1.0f / 362880, c = -1.0f / 3628800;
        s = __builtin_fmaf(s, z, -1.0f / 5040);
        s = __builtin_fmaf(s, z, 1.0f / 120);
        s = __builtin_fmaf(s, z, -1.0f / 6);
        s = __builtin_fmaf(s * z, r, r);
        c = __builtin_fmaf(c, z, 1.0f / 40320);
        c = __builtin_fmaf(c, z, -1.0f / 720);
        c = __builtin_fmaf(c, z, 1.0f / 24);
        c = __builtin_fmaf(c, z, -0.5f);
        c = __builtin_fmaf(c, z, 1);
        const float of_cosine = quarters[i] & 1 ? s : c, of_sine = quarters[i] & 1 ? c : s;
        cosine[i] = (quarters[i] + 1) & 2 ? -of_cosine : of_cosine;
        sine[i] = quarters[i] & 2 ? -of_sine : of_sine;
    }
}

/* Of n pairs at a position. */
static void make_turns(const double *frequency, double position, int n, int adjacent, turns *t)
{
    float   rest[PAIRS], cosine[PAIRS], sine[PAIRS];
    int32_t quarters[PAIRS];
    split(frequency, position, n, rest, quarters);
    if (!adjacent) {
        cosine_and_sine(rest, quarters, n, t->cosine, t->sine);
        return;
    }
    cosine_and_sine(rest, quarters, n, cosine, sine);
    for (int i = 0; i < n; i++) {
        t->cosine[2 * i] = t->cosine[2 * i + 1] = cosine[i];
        t->sine[2 * i] = -sine[i];
        t->sine[2 * i + 1] = sine[i];
    }
}

/* ---- pairs ---- */

/* n pairs of halves that lie `apart` bytes from each other. */
INLINE void turn_halves(const char *x, char *y, ts_dtype t, int64_t apart, const turns *by, int i,
                        int n)
{
    const vec c = get(by->cosine + i), s = get(by->sine + i);
    const vec a = fetch(x, t, n), b = fetch(x + apart, t, n);
    leave(y, t, n, nmadd(b, s, mul(a, c)));
    leave(y + apart, t, n, madd(a, s, mul(b, c)));
}

/* n channels. */
INLINE void turn_adjacent(const char *x, char *y, ts_dtype t, const turns *by, int i, int n)
{
    const vec v = fetch(x, t, n);
    leave(y, t, n, madd(swapped(v), get(by->sine + i), mul(v, get(by->cosine + i))));
}

/* Pairs first .. first + n of one head. */
INLINE void turn_head(const ts_rope_args *a, const char *x, char *y, ts_dtype t, int64_t first,
                      int n, const turns *by)
{
    const int64_t size = size_of(t);
    if (a->pairing == TS_ROPE_ADJACENT) {
        int i = 0;
        for (x += 2 * first * size, y += 2 * first * size; i + LANES <= 2 * n; i += LANES)
            turn_adjacent(x + i * size, y + i * size, t, by, i, LANES);
        if (i < 2 * n) turn_adjacent(x + i * size, y + i * size, t, by, i, 2 * n - i);
    } else {
        const int64_t apart = a->rotary_dim / 2 * size;
        int           i = 0;
        for (x += first * size, y += first * size; i + LANES <= n; i += LANES)
            turn_halves(x + i * size, y + i * size, t, apart, by, i, LANES);
        if (i < n) turn_halves(x + i * size, y + i * size, t, apart, by, i, n - i);
    }
}

/* What is not turned, where it is not there already. */
static void copy_rest(const ts_rope_args *a, const char *x, char *y, int64_t size)
{
    const size_t n = (size_t)((a->head_dim - a->rotary_dim) * size);
    x += a->rotary_dim * size, y += a->rotary_dim * size;
    for (int64_t h = 0; n && h < a->n_heads; h++, x += a->head_dim * size, y += a->head_dim * size)
        memcpy(y, x, n);
}

INLINE void rope_rows(const ts_rope_args *a, int64_t begin, int64_t end, ts_dtype t)
{
    const int64_t size = size_of(t), half = a->rotary_dim / 2;
    const char   *from = a->x;
    char         *to = a->y;
    double        frequency[PAIRS];
    turns         by;
    for (int64_t first = 0; first < half; first += PAIRS) {
        const int n = (int)ts_lesser(PAIRS, half - first);
        for (int i = 0; i < n; i++) frequency[i] = ts_rope_frequency_of(a, first + i);
        for (int64_t r = begin; r < end; r++) {
            const double position = a->inverse ? -(double)a->position[r] : (double)a->position[r];
            const char  *x = from + r * a->x_stride * size;
            char        *y = to + r * a->y_stride * size;
            make_turns(frequency, position, n, a->pairing == TS_ROPE_ADJACENT, &by);
            for (int64_t h = 0; h < a->n_heads; h++)
                turn_head(a, x + h * a->head_dim * size, y + h * a->head_dim * size, t, first, n,
                          &by);
        }
    }
    for (int64_t r = begin; a->x != a->y && r < end; r++)
        copy_rest(a, from + r * a->x_stride * size, to + r * a->y_stride * size, size);
}

static void rope_any(const void *args, int64_t begin, int64_t end)
{
    const ts_rope_args *a = args;
    if (a->dtype == TS_BF16) rope_rows(a, begin, end, TS_BF16);
    else if (a->dtype == TS_F16) rope_rows(a, begin, end, TS_F16);
    else rope_rows(a, begin, end, TS_F32);
}

ts_status SIMD(ts_rope)(const void *args, const ts_exec *x)
{
    const ts_rope_args *a = args; /* no row knows of another */
    return ts_chunk_run(a, a->n_rows, a->n_heads * a->head_dim, x, rope_any);
}

#endif
