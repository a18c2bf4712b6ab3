/* SPDX-License-Identifier: Apache-2.0 */
/* demo.h - the demos: each makes one idea visible. */
#ifndef TS_DEMO_H
#define TS_DEMO_H

#include "cli.h"

int ts_tool_demo(int argc, char **argv); /* `touchstone demo` */

/* What `touchstone demo NAME` runs. With json, tables go there instead of the terminal when
 * the JSON goes to standard output. */
typedef struct ts_demo_args {
    uint64_t    seed;
    const char *svg;   /* NULL: no plot */
    ts_json    *json;  /* NULL: none */
    FILE       *table; /* where the readable table goes; NULL when standard output carries JSON */
} ts_demo_args;

int ts_demo_cancellation(const ts_demo_args *a);
int ts_demo_gradients(const ts_demo_args *a);
int ts_demo_flash(const ts_demo_args *a);
int ts_demo_gqa(const ts_demo_args *a);
int ts_demo_paged(const ts_demo_args *a);
int ts_demo_prefix(const ts_demo_args *a);
/* Where the program has the libraries that a model takes: */
int ts_demo_cache(const ts_demo_args *a);
int ts_demo_ragged(const ts_demo_args *a);
int ts_demo_chunked(const ts_demo_args *a);
int ts_demo_quantised(const ts_demo_args *a);
int ts_demo_sampling(const ts_demo_args *a);
int ts_demo_beam(const ts_demo_args *a);
int ts_demo_tree(const ts_demo_args *a);

#endif
