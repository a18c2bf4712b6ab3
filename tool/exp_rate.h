/* SPDX-License-Identifier: Apache-2.0 */
/* exp_rate.h - the library's sums of exponentials, by whose time the judge knows what a core can
 * do. */
#ifndef TS_EXP_RATE_H
#define TS_EXP_RATE_H

#include "ceiling.h"

/* The fastest on this core. */
const ts_exp_sums *ts_exp_sums_here(void);

extern const ts_exp_sums ts_exp_sums_avx2, ts_exp_sums_avx512, ts_exp_sums_neon;

#endif
