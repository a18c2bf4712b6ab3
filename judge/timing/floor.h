/* SPDX-License-Identifier: Apache-2.0 */
/* floor.h - the floor: the least time in which this machine can run a workload, from its measured
 * peak rates.
 *
 * It is the largest of bytes over bandwidth, arithmetic and exponentials over their peaks, and the
 * time of an empty call; and what the judge's own model takes, if an entrant has to call it. */
#ifndef TS_FLOOR_H
#define TS_FLOOR_H

#include "ceiling.h"
#include "task.h"

/* The best rates measured so far. */
typedef struct ts_peaks {
    double gbs;           /* of memory, any kind of pass over any size, with cold caches */
    double gflops;        /* float32 multiplications and additions of the vector units */
    double matrix;        /* multiple of that for float32 composed on matrix units, at most */
    double gexps, gdexps; /* exponentials to the precision of float and double; 0: not measured */
    double model_ns, sum_ns; /* one logit of the judge's model, and its part of a sum; one thread */
    double call_ns;          /* of an empty call or kernel */
} ts_peaks;

typedef struct ts_floor {
    double      ns;
    double      hard_ns; /* least time at the best rates seen: no entrant can be faster */
    const char *by;      /* "memory", "arithmetic", "exponentials" or "call" */
} ts_floor;

/* Whether ns is below the floor, which is measured to 2 %. */
bool ts_floor_beaten(ts_floor f, double ns);

/* gbs: bandwidth for as many bytes as the workload has. */
ts_floor ts_floor_of(const ts_peaks *p, ts_cost cost, double gbs);

/* Measures the CPU: memory bandwidth over this many bytes with cold caches, with passes of each
 * kind by n_threads and fewer until it stops growing; and arithmetic, exponentials (by `sums`;
 * NULL: not measured) and the model. Raises *p accordingly. */
double ts_floor_memory(ts_peaks *p, double bytes, int n_threads);
void   ts_floor_arithmetic(ts_peaks *p, const ts_exp_sums *sums, int n_threads);

#endif
