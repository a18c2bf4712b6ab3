/* SPDX-License-Identifier: Apache-2.0 */
/* plan_page.c - `touchstone plan --html`: all models on all GPUs, as one self-contained page
 * without scripts. */
#include <errno.h>
#include <string.h>

#include "plan_view.h"

enum { N_POINTS = 11, MOST_LINES = 8 };

static const char HEAD[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n<title>Touchstone: what fits</title>\n<style>\n"
    "body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 2rem "
    "auto; "
    "max-width: 88rem; padding: 0 1rem; }\n"
    "h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }\n"
    ".wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: 12px; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: .25rem .45rem; text-align: right; white-space: nowrap; "
    "border-bottom: 1px solid #e4e4e4; }\n"
    "th:first-child { text-align: left; } td.short { color: #777; }\n"
    ".plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(26rem, 1fr)); "
    "gap: 1rem; }\n"
    ".plots svg { width: 100%; height: auto; border: 1px solid #e4e4e4; }\n"
    "</style>\n</head>\n<body>\n<h1>What fits</h1>\n";

/* Models that share a plot, by prefixes of their ids. */
static const struct {
    const char *name, *begins[3];
} families[] = {
    { "Llama 2 and 3", { "llama-", 0, 0 } },
    { "Mistral and Mixtral", { "mistral", "mixtral", 0 } },
    { "Qwen3", { "qwen3-", 0, 0 } },
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
    else fprintf(f, "<td class=\"short\">%.1f GiB short</td>", ts_plan_gib(m.missing));
}

static void table(FILE *f, const ts_plan_ask *ask, ts_dtype store)
{
    fprintf(f,
            "<h2>Largest context at batch %lld: %s cache, %s weights, one GPU</h2>\n"
            "<div class=\"wide\"><table>\n<tr><th>model</th>",
            (long long)ask->batch, ts_plan_store_name(store), ts_plan_weight_name[ask->weights]);
    for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++) fprintf(f, "<th>%s</th>", g->id);
    fprintf(f, "</tr>\n");
    for (const ts_plan_model *m = ts_plan_models; m->id; m++) {
        fprintf(f, "<tr><th>%s</th>", m->id);
        for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++) {
            ts_plan_ask a = ts_plan_with(ask, store);
            a.model = m;
            a.gpu = g;
            cell(f, &a);
        }
        fprintf(f, "</tr>\n");
    }
    fprintf(f, "</table></div>\n");
}

/* Plots GiB of cache, or milliseconds per decode step, over the length. */
static void plot(FILE *f, const ts_plan_ask *ask, size_t family, bool speed)
{
    double    x[N_POINTS], y[MOST_LINES][N_POINTS];
    ts_series series[MOST_LINES];
    int       n = 0;
    char      title[128];
    for (const ts_plan_model *m = ts_plan_models; m->id && n < MOST_LINES; m++) {
        if (!belongs(m->id, families[family].begins)) continue;
        for (int i = 0; i < N_POINTS; i++) {
            ts_plan_ask   a = ts_plan_with(ask, TS_BF16);
            ts_plan_bound b;
            a.model = m;
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
                 ask->gpu->id);
    else snprintf(title, sizeof title, "%s: a bf16 cache", families[family].name);
    ts_svg_draw(f, title, "tokens per sequence", speed ? "ms, at least" : "GiB", x, N_POINTS,
                series, n);
}

static void page(FILE *f, const ts_plan_ask *ask)
{
    ts_plan_ask a = *ask;
    a.n_gpu = 1;
    if (a.weights == TS_W_FILE) a.weights = TS_W_BF16;
    fputs(HEAD, f);
    fprintf(
        f,
        "<p>Weights and caches are counted to the byte, activations (%lld prompt tokens in a "
        "step) and a reserve of %.1f GiB are estimates; doc/plan.md has the formulas and the "
        "sources. If nothing fits, the cell gives the memory missing for a single token. 'any': "
        "every layer has a window, so that the cache stops growing. gpt-4-class is an "
        "assumption. Times are bounds: weights and cache read once, at the data sheet's "
        "bandwidth, whether or not they fit.</p>\n",
        (long long)a.chunk, a.reserve_gib);
    table(f, &a, TS_BF16);
    table(f, &a, TS_U4);
    fprintf(f, "<h2>Growth over the length, batch %lld</h2>\n<div class=\"plots\">\n",
            (long long)a.batch);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        plot(f, &a, i, false);
        plot(f, &a, i, true);
    }
    fputs("</div>\n</body>\n</html>\n", f);
}

bool ts_plan_page(const ts_plan_job *j, const char *path)
{
    FILE *f = fopen(path, "w");
    if (f) page(f, &j->ask);
    const bool wrote = f && !ferror(f);
    if (f && fclose(f) == 0 && wrote) return true;
    fprintf(stderr, "touchstone plan: --html: %s: %s\n", path, strerror(errno));
    return false;
}
