/* SPDX-License-Identifier: Apache-2.0 */
/* plan_compare.c - `touchstone plan --compare`: largest contexts, every model on every GPU. */
#include <stdlib.h>
#include <string.h>

#include "plan_view.h"

static const ts_dtype STORES[] = { TS_BF16, TS_U8, TS_U4 };

/* Prints the number of tokens, or the bytes missing for the first one. */
static void cell(const ts_plan_job *j, const ts_plan_ask *a, ts_json *rows)
{
    char           number[TS_PLAN_NUMBER], why[TS_PLAN_WHY];
    ts_json       *o = ts_json_object(rows, NULL);
    ts_plan_ask    one = *a;
    ts_plan_memory m;
    ts_json_text(o, "model", a->model->id);
    ts_json_text(o, "gpu", a->gpu->id);
    ts_json_text(o, "weights", ts_plan_weight_name[a->weights]);
    ts_json_text(o, "cache", ts_plan_store_name(a->cache.store));
    if (!ts_plan_check(a, why)) {
        ts_json_text(o, "refused", why);
        ts_print(j->out, "  %15s", "cannot share");
        return;
    }
    const int64_t n = ts_plan_max_context(a);
    one.context = 1;
    ts_plan_memory_of(&one, &m);
    ts_json_int(o, "max_context", n);
    ts_json_int(o, "missing_bytes", m.missing);
    if (!j->out) return;
    if (n) fprintf(j->out, "  %15s", ts_plan_count(n, number));
    else fprintf(j->out, "  %5.1f GiB short", ts_plan_gib(m.missing));
}

static void table(const ts_plan_job *j, ts_dtype store, ts_json *rows)
{
    const ts_plan_ask *a = &j->ask;
    ts_print(j->out, "\nlargest context at batch %lld, %s cache, %s weights, %lld GPU%s\n%-17s",
             (long long)a->batch, ts_plan_store_name(store),
             j->as_shipped ? "published" : ts_plan_weight_name[a->weights], (long long)a->n_gpu,
             a->n_gpu == 1 ? "" : "s", "");
    for (int g = 0; j->out && g < j->n_gpu; g++) fprintf(j->out, "  %15s", j->gpu[g].id);
    ts_print(j->out, "\n");
    for (int m = 0; m < j->n_model; m++) {
        ts_print(j->out, "%-17.40s", j->model[m].id);
        for (int g = 0; g < j->n_gpu; g++) {
            const ts_plan_ask for_model = ts_plan_for(j, a, &j->model[m]);
            ts_plan_ask       b = ts_plan_with(&for_model, store);
            b.gpu = &j->gpu[g];
            cell(j, &b, rows);
        }
        ts_print(j->out, "\n");
    }
}

enum { N_POINTS = 11 };

static bool plot(const ts_plan_job *j)
{
    double    x[N_POINTS], y[TS_PLAN_LIST][N_POINTS];
    ts_series series[TS_PLAN_LIST];
    for (int m = 0; m < j->n_model; m++) {
        ts_plan_ask a = ts_plan_with(&j->ask, TS_BF16);
        a.model = &j->model[m];
        for (int i = 0; i < N_POINTS; i++) {
            a.context = INT64_C(1024) << i;
            x[i] = (double)a.context;
            y[m][i] = ts_plan_gib(ts_plan_cache_bytes(&a));
        }
        series[m] = (ts_series) { a.model->id, y[m] };
    }
    return ts_svg_write(j->svg,
                        &(ts_plot) { "A bf16 cache over its length", "tokens per sequence",
                                     "GiB per GPU", x, N_POINTS, series, j->n_model },
                        1);
}

bool ts_plan_compare(const ts_plan_job *j)
{
    ts_json *rows = ts_json_array(j->json, "cells");
    for (size_t i = 0; i < sizeof STORES / sizeof *STORES; i++) table(j, STORES[i], rows);
    ts_print(j->out, "\n'short': what is missing for a single token. 'any': all layers have a "
                     "window.\n");
    return !j->svg || plot(j);
}
