/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.h - private to `touchstone bench`: the picture of a run. */
#ifndef TS_ROOFLINE_H
#define TS_ROOFLINE_H

#include <stdbool.h>

/* One timed implementation in one case. */
typedef struct ts_roof_point {
    const char *task, *impl;
    int         number;           /* of the case in the run */
    double      flops, bytes, ns; /* the case's work, and the median time */
    bool        counts;           /* correct, and the library's: may be its case's fastest */
} ts_roof_point;

typedef struct ts_roofline {
    const char    *machine;
    double         gbs, gflops; /* the machine's measured peaks; 0: not measured */
    ts_roof_point *point;
    int            n;
} ts_roofline;

void ts_roofline_add(ts_roofline *r, ts_roof_point p); /* strings must outlive the picture */

/* Draws rate over operations per byte under the two peak rates. A run of one task has a series per
 * implementation, a run of several one per task, with the fastest of each case. */
bool ts_roofline_write(const ts_roofline *r, const char *path);

#endif
