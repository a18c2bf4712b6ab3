/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - a monotonic clock, and the CPU time of a thread. */
#ifndef TS_CLOCK_H
#define TS_CLOCK_H

double ts_now_ns(void);
double ts_seconds(void);
/* CPU time of the calling thread. */
double ts_thread_cpu_ns(void);

#endif
