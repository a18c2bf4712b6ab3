/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - a step of AdamW on the CPU, clipped by the norm of the whole gradient, and the rate it
 * is taken at. */
#include <math.h>
#include <stdlib.h>

#include "norm.h"
#include "touchstone/adamw.h"
#include "train_impl.h"

ts_status ts_clipped_step(const ts_clipped_args *a)
{
    const ts_exec x = { .device = TS_CPU, .n_threads = ts_thread_count(a->n_threads) };
    double       *part = malloc((size_t)(ts_norm_parts(a->n) + 1) * sizeof *part);
    if (!part) return TS_E_CAPACITY;
    const double norm = ts_norm(a->gradient, a->n, part, x.n_threads);
    const double scale = ts_clip(norm, a->how.clip_norm);
    free(part);
    if (!isfinite(norm)) return TS_E_RANGE;
    const ts_adamw_step_args step = {
        .dtype = TS_F32,
        .grad_dtype = TS_F32,
        .n = a->n,
        .n_decay = a->n_matrix,
        .step = a->step,
        .lr = a->how.lr,
        .beta1 = a->how.beta1,
        .beta2 = a->how.beta2,
        .eps = a->how.eps,
        .weight_decay = a->how.weight_decay,
        .scale = &scale,
        .grad = a->gradient,
        .w = a->w,
        .m = a->m,
        .v = a->v,
    };
    const ts_status s = ts_adamw_step(&step, &x);
    if (!s) *a->norm = norm;
    return s;
}

double ts_schedule(double lr, double last, int64_t n_warm, int64_t n_step, int64_t step)
{
    if (step <= n_warm) return lr * (double)step / (double)n_warm;
    const double share = (double)(step - n_warm) / (double)(n_step - n_warm);
    return lr * (last + (1 - last) * 0.5 * (1 + cos(3.141592653589793 * share)));
}
