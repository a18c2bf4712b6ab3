/* SPDX-License-Identifier: Apache-2.0 */
/* demo_graph.h - strings of tokens that branch, as a picture; and tokens as labels. */
#ifndef TS_DEMO_GRAPH_H
#define TS_DEMO_GRAPH_H

#include "decoder.h"
#include "demo_kv.h"

enum { TS_DEMO_LABEL = 32 };

/* The tokens' text, where the model is stories260K and its vocabulary is beside it; else NULL. */
ts_tokenizer *ts_demo_words(const ts_demo_model *m);
/* What `token` adds after `previous`, in quotes and printable; without words its number. */
void ts_demo_label(const ts_tokenizer *words, int32_t previous, int32_t token,
                   char label[TS_DEMO_LABEL]);

typedef enum ts_demo_look { TS_LOOK_CHOSEN, TS_LOOK_ALIVE, TS_LOOK_GONE } ts_demo_look;

typedef struct ts_demo_node {
    int          column, row;
    int          from; /* the node that it follows, or -1 */
    ts_demo_look look;
    char         label[TS_DEMO_LABEL];
} ts_demo_node;

/* Columns from left to right, with an edge from each node to the one it follows. `looks`: what the
 * three mean. False and one line on standard error on failure. */
bool ts_demo_graph(const char *path, const char *title, const char *const looks[3],
                   const ts_demo_node *node, int n);

#endif
