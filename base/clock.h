/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - a monotonic clock. */
#ifndef TS_CLOCK_H
#define TS_CLOCK_H

double ts_now_ns(void);
double ts_seconds(void);

#endif
