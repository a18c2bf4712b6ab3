/* SPDX-License-Identifier: Apache-2.0 */
/* plan_view.h - private to the files of `touchstone plan`. */
#ifndef TS_PLAN_VIEW_H
#define TS_PLAN_VIEW_H

#include "plan.h"
#include "tool.h"

enum { TS_PLAN_LIST = 16, TS_PLAN_NUMBER = 32, TS_PLAN_WAY = 64, TS_PLAN_WAYS = 6 };

typedef struct ts_plan_job {
    ts_plan_ask   ask; /* of the first model and GPU */
    ts_plan_model model[TS_PLAN_LIST];
    ts_plan_gpu   gpu[TS_PLAN_LIST];
    int           n_model, n_gpu;
    bool          as_shipped; /* no dtype of weights was given */
    FILE         *out;        /* NULL if JSON goes to standard output */
    ts_json      *json;       /* NULL: none */
    const char   *svg;        /* NULL: none */
    int           status;     /* exit status after an error */
} ts_plan_job;

/* The plan with another store dtype in its cache. */
ts_plan_ask ts_plan_with(const ts_plan_ask *a, ts_dtype store);
const char *ts_plan_store_name(ts_dtype store);

/* "1,234,567"; "any" if the cache does not grow with the length. */
const char *ts_plan_count(int64_t n, char text[TS_PLAN_NUMBER]);
double      ts_plan_gib(int64_t bytes);

/* The plan for another model: with the weights as published, or as on disk, if j->as_shipped. */
ts_plan_ask ts_plan_for(const ts_plan_job *j, const ts_plan_ask *a, const ts_plan_model *m);

/* The options that make a plan fit, one per line of `way`; returns their number. 0: it fits, or
 * none does. */
int ts_plan_ways(const ts_plan_ask *a, char way[TS_PLAN_WAYS][TS_PLAN_WAY]);
/* "--weights fp8 or --gpus 2"; empty if there is none. */
const char *ts_plan_ways_text(const ts_plan_ask *a, char text[TS_PLAN_WAYS * TS_PLAN_WAY]);

/* Prints one plan; false if a plot could not be written. */
bool ts_plan_show(const ts_plan_job *j);
/* Prints the largest context of every model on every GPU. */
bool ts_plan_compare(const ts_plan_job *j);
/* Writes a page: the plan, if `asked`, then tables of all models and GPUs, and plots. */
bool ts_plan_page(const ts_plan_job *j, bool asked, const char *path);
/* The part of that page about all models and GPUs, folded or not. */
void ts_plan_page_all(FILE *f, const ts_plan_job *j, bool folded);

#endif
