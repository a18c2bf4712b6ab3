/* SPDX-License-Identifier: Apache-2.0 */
/* demo.h - the demos: each makes one idea visible. */
#ifndef TS_DEMO_H
#define TS_DEMO_H

#include "cli.h"

int ts_tool_demo(int argc, char **argv); /* `touchstone demo` */

/* Arguments of a demo. If JSON goes to standard output, no table is printed. */
typedef struct ts_demo_args {
    uint64_t    seed;
    const char *svg;   /* NULL: no plot */
    ts_json    *json;  /* NULL: none */
    FILE       *table; /* output of the table; NULL if JSON goes to standard output */
} ts_demo_args;

/* Writes "passed" to the JSON; the exit status of a demo that ran to its end. `drawn`: its plot was
 * written, or is not wanted. */
int ts_demo_end(const ts_demo_args *a, bool passed, bool drawn);
/* On a terminal: which of n parts runs now; done == n removes the line. */
void ts_demo_progress(const char *what, int64_t done, int64_t n);

int ts_demo_cancellation(const ts_demo_args *a);
int ts_demo_gradients(const ts_demo_args *a);
int ts_demo_flash(const ts_demo_args *a);
int ts_demo_gqa(const ts_demo_args *a);
int ts_demo_paged(const ts_demo_args *a);
int ts_demo_prefix(const ts_demo_args *a);
int ts_demo_cage(const ts_demo_args *a);
/* Only if the program has the libraries that models need: */
int ts_demo_cache(const ts_demo_args *a);
int ts_demo_ragged(const ts_demo_args *a);
int ts_demo_chunked(const ts_demo_args *a);
int ts_demo_quantised(const ts_demo_args *a);
int ts_demo_sampling(const ts_demo_args *a);
int ts_demo_beam(const ts_demo_args *a);
int ts_demo_tree(const ts_demo_args *a);

#endif
