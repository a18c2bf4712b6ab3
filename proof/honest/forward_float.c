/* SPDX-License-Identifier: Apache-2.0 */
/* forward_float.c - layernorm_forward with compensated float sums, scaled so that no square leaves
 * the range. */
#include "honest.h"

typedef struct sum {
    float s, lost;
} sum;

static void add(sum *a, float v)
{
    const float s = a->s + v;
    a->lost += fabsf(a->s) >= fabsf(v) ? a->s - s + v : v - s + a->s;
    a->s = s;
}

ts_status ts_layernorm_forward(const ts_layernorm_forward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_forward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        float largest = 0;
        int   e = 0;
        sum   t = { 0, 0 }, squares = { 0, 0 };
        for (int64_t c = 0; c < a->n_cols; c++) largest = fmaxf(largest, fabs(x_at(a, r, c)));
        if (isfinite(largest)) frexpf(largest, &e);
        const double scale = ldexp(1, -e);
        for (int64_t c = 0; c < a->n_cols; c++) add(&t, (float)(x_at(a, r, c) * scale));
        const double mean = ((double)t.s + t.lost) / (double)a->n_cols;
        for (int64_t c = 0; c < a->n_cols; c++) {
            const float d = (float)(x_at(a, r, c) * scale - mean);
            add(&squares, d * d);
        }
        write_row(a, r, mean / scale,
                  ((double)squares.s + squares.lost) / (double)a->n_cols / scale / scale);
    }
    return s;
}
