/* SPDX-License-Identifier: Apache-2.0 */
/* tree_verify_ref.c - the definition of a choice. */
#include <math.h>

#include "tree_verify_impl.h"

static ts_status choose(const ts_tree_chooser *c, int64_t row, double u, int32_t *token)
{
    const float *x = c->logits + row * c->n_vocab;
    double       sum = 0, total = 0;
    int64_t      first = 0;
    for (int64_t i = 0; i < c->n_vocab; i++) {
        if (isnan(x[i]) || x[i] == INFINITY) return TS_E_MODEL;
        if (x[i] > x[first]) first = i;
    }
    if (x[first] == -INFINITY) return TS_E_MODEL;
    *token = (int32_t)first;
    if (c->temperature == 0) return TS_OK;
    for (int64_t i = 0; i < c->n_vocab; i++)
        total += exp(((double)x[i] - (double)x[first]) / c->temperature);
    for (int64_t i = 0; sum <= u * total;
         i++) { /* u < 1: it is exceeded at the last, if not before */
        sum += exp(((double)x[i] - (double)x[first]) / c->temperature);
        *token = (int32_t)i;
    }
    return TS_OK;
}

ts_status ts_tree_verify_ref(const void *args, const ts_exec *x)
{
    static const ts_tree_steps steps = { NULL, choose };
    return ts_tree_run(args, x, &steps);
}
