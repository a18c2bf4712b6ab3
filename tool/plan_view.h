/* SPDX-License-Identifier: Apache-2.0 */
/* plan_view.h - what the files of `touchstone plan` share. */
#ifndef TS_PLAN_VIEW_H
#define TS_PLAN_VIEW_H

#include "plan.h"
#include "tool.h"

enum { TS_PLAN_LIST = 12, TS_PLAN_NUMBER = 32 };

typedef struct ts_plan_job {
    ts_plan_ask   ask; /* of the first model and GPU */
    ts_plan_model model[TS_PLAN_LIST];
    ts_plan_gpu   gpu[TS_PLAN_LIST];
    int           n_model, n_gpu;
    FILE         *out;    /* NULL where JSON goes to standard output */
    ts_json      *json;   /* NULL: none */
    const char   *svg;    /* NULL: none */
    int           status; /* to exit with when something was refused */
} ts_plan_job;

/* The same plan with another store in its cache. */
ts_plan_ask ts_plan_with(const ts_plan_ask *a, ts_dtype store);
const char *ts_plan_store_name(ts_dtype store);

/* "1,234,567"; "any" where nothing more is kept however long it gets. */
const char *ts_plan_count(int64_t n, char text[TS_PLAN_NUMBER]);
double      ts_plan_gib(int64_t bytes);

/* All there is to say of one plan; false when a plot could not be written. */
bool ts_plan_show(const ts_plan_job *j);
/* Largest contexts: every model on every GPU. */
bool ts_plan_compare(const ts_plan_job *j);
/* A page with the same for all models and GPUs of the tables, and plots. */
bool ts_plan_page(const ts_plan_job *j, const char *path);

#endif
