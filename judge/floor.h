/* SPDX-License-Identifier: Apache-2.0 */
/* floor.h - the least time in which this machine could do a workload, from what it was measured to
 * do at best: bytes over the bandwidth for as many bytes, arithmetic over its peak, or a call that
 * does nothing, whichever is most. */
#ifndef TS_FLOOR_H
#define TS_FLOOR_H

#include "task.h"

/* The best that was seen. */
typedef struct ts_peaks {
    double gbs;     /* of memory, by any pass over any size, with cold caches */
    double gflops;  /* float32 multiplications and additions, as the vector units do them */
    double matrix;  /* times that, at most, where matrix units can be put together to float32 */
    double call_ns; /* of a call, or of a kernel, that does nothing */
} ts_peaks;

typedef struct ts_floor {
    double      ns;
    double      hard_ns; /* faster than this, something is wrong: the least of any machine's ways */
    const char *by;      /* "memory", "arithmetic" or "call" */
} ts_floor;

/* Faster than can be? Floors are measured to 2 %. */
bool ts_floor_beaten(ts_floor f, double ns);

/* gbs: of as many bytes as the workload has. */
ts_floor ts_floor_of(const ts_peaks *p, ts_cost cost, double gbs);

/* Measures: the bandwidth of the CPU's memory over so many bytes with cold caches, in passes of
 * each kind by n_threads and by fewer until it grows no more; and its arithmetic. Raises *p to what
 * it finds. */
double ts_floor_memory(ts_peaks *p, double bytes, int n_threads);
void   ts_floor_arithmetic(ts_peaks *p, int n_threads);

#endif
