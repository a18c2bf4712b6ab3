/* SPDX-License-Identifier: Apache-2.0 */
/* plan_page_all.c - the part of the page of `touchstone plan --html` about all models and GPUs:
 * largest contexts as tables, and plots of growth. */
#include <string.h>

#include "plan_view.h"

enum { N_POINTS = 11, MOST_LINES = 8 };

/* Models that share a plot, by prefixes of their ids. */
static const struct {
    const char *name, *begins[3];
} families[] = {
    { "Llama 2 and 3", { "llama-2-", "llama-3-", 0 } },
    { "Llama 3.1 to 4", { "llama-3.", "llama-4-", 0 } },
    { "Mistral and Mixtral", { "mistral", "mixtral", 0 } },
    { "Qwen3", { "qwen3-", 0, 0 } },
    { "Qwen3.5", { "qwen3.5-", 0, 0 } },
    { "DeepSeek-V3, gpt-oss, an assumption", { "deepseek", "gpt-", 0 } },
    { "Gemma 3", { "gemma-", 0, 0 } },
};

static bool belongs(const char *id, const char *const begins[3])
{
    for (int i = 0; i < 3 && begins[i]; i++)
        if (!strncmp(id, begins[i], strlen(begins[i]))) return true;
    return false;
}

static void cell(FILE *f, const ts_plan_ask *a)
{
    char           number[TS_PLAN_NUMBER];
    ts_plan_ask    one = *a;
    ts_plan_memory m;
    const int64_t  n = ts_plan_max_context(a);
    one.context = 1;
    ts_plan_memory_of(&one, &m);
    if (n) fprintf(f, "<td>%s</td>", ts_plan_count(n, number));
    else fprintf(f, "<td class=\"short\">-%.1f GiB</td>", ts_plan_gib(m.missing));
}

static void table(FILE *f, const ts_plan_job *j, ts_dtype store)
{
    fprintf(f,
            "<h3>%s cache, %s weights</h3>\n<div class=\"wide\"><table "
            "class=\"matrix\">\n<tr><th>model</th>",
            ts_plan_store_name(store),
            j->as_shipped ? "published" : ts_plan_weight_name[j->ask.weights]);
    for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++) fprintf(f, "<th>%s</th>", g->id);
    fprintf(f, "</tr>\n");
    for (const ts_plan_model *m = ts_plan_models; m->id; m++) {
        fprintf(f, "<tr><th>%s</th>", m->id);
        for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++) {
            const ts_plan_ask for_model = ts_plan_for(j, &j->ask, m);
            ts_plan_ask       a = ts_plan_with(&for_model, store);
            a.gpu = g;
            a.n_gpu = 1;
            cell(f, &a);
        }
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table></div>\n");
}

/* Plots GiB of cache, or milliseconds per decode step, over the length. */
static void plot(FILE *f, const ts_plan_job *j, size_t family, bool speed)
{
    double    x[N_POINTS], y[MOST_LINES][N_POINTS];
    ts_series series[MOST_LINES];
    int       n = 0;
    char      title[128];
    for (const ts_plan_model *m = ts_plan_models; m->id && n < MOST_LINES; m++) {
        if (!belongs(m->id, families[family].begins)) continue;
        for (int i = 0; i < N_POINTS; i++) {
            const ts_plan_ask for_model = ts_plan_for(j, &j->ask, m);
            ts_plan_ask       a = ts_plan_with(&for_model, TS_BF16);
            ts_plan_bound     b;
            a.n_gpu = 1;
            a.context = INT64_C(1024) << i;
            ts_plan_decode(&a, &b);
            x[i] = (double)a.context;
            y[n][i] = speed ? b.seconds * 1e3 : ts_plan_gib(ts_plan_cache_bytes(&a));
        }
        series[n] = (ts_series) { m->id, y[n] };
        n++;
    }
    if (speed)
        snprintf(title, sizeof title, "%s: a decode step on %s", families[family].name,
                 j->ask.gpu->id);
    else snprintf(title, sizeof title, "%s: a bf16 cache", families[family].name);
    fputs("<div class=\"plot\">", f);
    ts_svg_draw(f, &(ts_plot) { title, "tokens per sequence", speed ? "ms, at least" : "GiB", x,
                                N_POINTS, series, n });
    fputs("</div>\n", f);
}

static void begin(FILE *f, const char *title, bool folded)
{
    fprintf(f, folded ? "<details><summary>%s</summary>\n" : "<section><h2>%s</h2>\n", title);
}

void ts_plan_page_all(FILE *f, const ts_plan_job *j, bool folded)
{
    const char *end = folded ? "</details>\n" : "</section>\n";
    char        title[96];
    snprintf(title, sizeof title, "Largest context at batch %lld: all models, one GPU",
             (long long)j->ask.batch);
    begin(f, title, folded);
    fputs(
        "<p>In tokens; if not even one fits, the memory that is missing. 'any': every "
        "layer has a window, so that the cache stops growing. gpt-4-class is an assumption.</p>\n",
        f);
    table(f, j, TS_BF16);
    table(f, j, TS_U4);
    fputs(end, f);
    begin(f, "Growth over the length", folded);
    fprintf(
        f,
        "<p>Batch %lld, one GPU, bf16 cache. A step of decoding reads weights and cache once, at "
        "the data sheet's bandwidth, whether or not they fit.</p>\n<div class=\"plots\">\n",
        (long long)j->ask.batch);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        plot(f, j, i, false);
        plot(f, j, i, true);
    }
    fputs("</div>\n", f);
    fputs(end, f);
}
