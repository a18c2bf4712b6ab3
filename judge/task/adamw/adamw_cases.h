/* SPDX-License-Identifier: Apache-2.0 */
/* adamw_cases.h - the cases of the adamw task, and the arguments that a case determines. */
#ifndef TS_TASK_ADAMW_CASES_H
#define TS_TASK_ADAMW_CASES_H

#include "task.h"

/* Dimensions of a case. DECAY is the share of n that decays, in sixteenths; MASTER, WIDE and CLIP
 * say whether there is a master copy, whether gradients are float, and whether they are scaled;
 * BETA is the number of a pair of betas, and EPS a power of ten, 0 for -8. */
enum {
    TS_ADAM_N,
    TS_ADAM_DECAY,
    TS_ADAM_STEP,
    TS_ADAM_MASTER,
    TS_ADAM_WIDE,
    TS_ADAM_CLIP,
    TS_ADAM_BETA = TS_MAX_DIMS,
    TS_ADAM_EPS,
};

extern const ts_cover ts_adamw_step_cover;
const ts_case        *ts_adamw_step_cases(void);

typedef struct ts_adam_rates {
    double lr, beta1, beta2, eps, weight_decay, scale;
} ts_adam_rates;
ts_adam_rates ts_adam_rates_of(const ts_case *c);

typedef struct ts_adam_drawn {
    double grad, w, m, v;
} ts_adam_drawn;
ts_adam_drawn ts_adam_draw(const ts_case *c, uint64_t seed, int64_t i);

#endif
