/* SPDX-License-Identifier: Apache-2.0 */
/* demo_graph.h - draws branching strings of tokens, with tokens as labels. */
#ifndef TS_DEMO_GRAPH_H
#define TS_DEMO_GRAPH_H

#include "decoder.h"
#include "demo_kv.h"

enum { TS_DEMO_LABEL = 32 };

/* The vocabulary in the model or next to it; NULL if there is none. */
ts_tokenizer *ts_demo_words(const ts_demo_model *m);
/* The text of `token` after `previous`, quoted and printable; without `words` its number. */
void ts_demo_label(const ts_tokenizer *words, int32_t previous, int32_t token,
                   char label[TS_DEMO_LABEL]);

typedef enum ts_demo_look { TS_LOOK_CHOSEN, TS_LOOK_ALIVE, TS_LOOK_GONE } ts_demo_look;

typedef struct ts_demo_node {
    int          column, row;
    int          from; /* its predecessor, or -1 */
    ts_demo_look look;
    char         label[TS_DEMO_LABEL];
} ts_demo_node;

/* Draws columns from left to right, with an edge from each node to its predecessor. `looks`: the
 * legend of the three styles. False and one line on standard error on failure. */
bool ts_demo_graph(const char *path, const char *title, const char *const looks[3],
                   const ts_demo_node *node, int n);

#endif
