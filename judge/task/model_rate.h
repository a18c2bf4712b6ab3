/* SPDX-License-Identifier: Apache-2.0 */
/* model_rate.h - what the judge's model takes of a timed call. */
#ifndef TS_TASK_MODEL_RATE_H
#define TS_TASK_MODEL_RATE_H

/* The least nanoseconds per logit on this core, of writing a row and of the sum of its bits, for
 * the model that timed calls have and a usual vocabulary. */
void ts_model_rates(double *write_ns, double *sum_ns);

#endif
