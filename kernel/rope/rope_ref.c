/* SPDX-License-Identifier: Apache-2.0 */
/* rope_ref.c - the definition of rope, for every dtype and shape. Arithmetic is double throughout;
 * one thread; no workspace. */
#include <math.h>
#include <stdbool.h>

#include "dtype.h"
#include "rope_impl.h"

double ts_rope_frequency_of(const ts_rope_args *a, int64_t pair)
{
    if (a->frequency) return a->frequency[pair];
    return pow(a->theta, -2.0 * (double)pair / (double)a->rotary_dim);
}

/* Channels a and b of every head of a row. */
static void turn(const ts_rope_args *a, int64_t row, int64_t first, int64_t second, double angle)
{
    const double c = cos(angle), s = a->inverse ? -sin(angle) : sin(angle);
    for (int64_t h = 0; h < a->n_heads; h++) {
        const int64_t x = row * a->x_stride + h * a->head_dim;
        const int64_t y = row * a->y_stride + h * a->head_dim;
        const double  p = ts_load(a->x, a->dtype, x + first),
                     q = ts_load(a->x, a->dtype, x + second);
        ts_store(a->y, a->dtype, y + first, p * c - q * s);
        ts_store(a->y, a->dtype, y + second, q * c + p * s);
    }
}

/* What is not turned, where it is not there already. */
static void copy_rest(const ts_rope_args *a, int64_t row)
{
    const size_t each = ts_format_of(a->dtype)->n_bytes;
    for (int64_t h = 0; a->x != a->y && h < a->n_heads; h++) {
        const int64_t at = h * a->head_dim + a->rotary_dim;
        memcpy((char *)a->y + (size_t)(row * a->y_stride + at) * each,
               (const char *)a->x + (size_t)(row * a->x_stride + at) * each,
               (size_t)(a->head_dim - a->rotary_dim) * each);
    }
}

ts_status ts_rope_ref(const void *args, const ts_exec *x)
{
    const ts_rope_args *a = args;
    const int64_t       half = a->rotary_dim / 2;
    (void)x;
    for (int64_t i = 0; i < half; i++) {
        const bool   adjacent = a->pairing == TS_ROPE_ADJACENT;
        const double f = ts_rope_frequency_of(a, i);
        for (int64_t row = 0; row < a->n_rows; row++)
            turn(a, row, adjacent ? 2 * i : i, adjacent ? 2 * i + 1 : i + half,
                 (double)a->position[row] * f);
    }
    for (int64_t row = 0; row < a->n_rows; row++) copy_rest(a, row);
    return TS_OK;
}
