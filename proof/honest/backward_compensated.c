/* SPDX-License-Identifier: Apache-2.0 */
/* backward_compensated.c - layernorm_backward with compensated float sums: the rounding error of
 * each addition is kept. */
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

ts_status ts_layernorm_backward(const ts_layernorm_backward_args *a, const ts_exec *x)
{
    const ts_status s = refuse_backward(a, x);
    for (int64_t r = 0; !s && r < a->n_rows; r++) {
        sum g = { 0, 0 }, gx = { 0, 0 };
        for (int64_t c = 0; c < a->n_cols; c++) {
            add(&g, (float)g_at(a, r, c));
            add(&gx, (float)(g_at(a, r, c) * xhat_at(a, r, c)));
        }
        write_dx(a, r, ((double)g.s + g.lost) / (double)a->n_cols,
                 ((double)gx.s + gx.lost) / (double)a->n_cols);
    }
    for (int64_t c = 0; !s && c < a->n_cols; c++) {
        sum dgamma = { 0, 0 }, dbeta = { 0, 0 };
        for (int64_t r = 0; r < a->n_rows; r++) {
            add(&dgamma, (float)(dy_at(a, r, c) * xhat_at(a, r, c)));
            add(&dbeta, (float)dy_at(a, r, c));
        }
        write_sums(a, c, (double)dgamma.s + dgamma.lost, (double)dbeta.s + dbeta.lost);
    }
    return s;
}
