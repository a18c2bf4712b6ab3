/* SPDX-License-Identifier: Apache-2.0 */
/* plan_page.c - `touchstone plan --html`: the plan, then other GPUs and other models, as one
 * self-contained page without scripts. */
#include <errno.h>
#include <string.h>

#include "plan_view.h"

enum { N_POINTS = 11 };

static const char HEAD[] =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline'\">\n<title>Touchstone: what fits</title>\n<style>\n"
    ":root { --ink: #222; --dim: #666; --page: #fff; --line: #e0e0e0; --soft: #f4f5f7; "
    "--yes: #0a6b3d; --no: #a8321c; --a: #0072b2; --b: #d55e00; --c: #8a6d00; --d: #999; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ":root { --ink: #e0e0e0; --dim: #9aa4af; --page: #0d1117; --line: #30363d; --soft: #161b22; "
    "--yes: #56d190; --no: #ff8f73; --a: #3b9ddd; --b: #e8813a; --c: #c9a227; --d: #6e7681; }\n"
    "svg { fill: #e0e0e0 } svg [fill=\"white\"] { fill: #161b22 }\n"
    "svg [stroke=\"#444\"] { stroke: #8b949e } svg [stroke=\"#e4e4e4\"] { stroke: #30363d }\n"
    "svg [fill=\"#000000\"] { fill: #fff } svg [stroke=\"#000000\"] { stroke: #fff }\n"
    "svg [fill=\"#0072b2\"] { fill: #3b9ddd } svg [stroke=\"#0072b2\"] { stroke: #3b9ddd } }\n"
    "* { box-sizing: border-box; }\n"
    "body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); "
    "margin: 0 auto; max-width: 80rem; padding: 1rem; }\n"
    "h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0; overflow-wrap: anywhere; }\n"
    "h2, summary { font-size: 1.15rem; font-weight: 600; margin: 2rem 0 .5rem; }\n"
    "h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; } p { margin: .5rem 0; }\n"
    "summary { cursor: pointer; } details > :not(summary) { margin-left: 0; }\n"
    ".answer { font-size: 1.25rem; font-weight: 600; } .yes { color: var(--yes); } "
    ".no { color: var(--no); } .dim { color: var(--dim); }\n"
    "code { background: var(--soft); border-radius: 4px; padding: .1rem .35rem; }\n"
    "ul { padding-left: 1.25rem; margin: .5rem 0; }\n"
    ".bar { display: flex; height: 1.75rem; border: 1px solid var(--line); border-radius: 6px; "
    "overflow: hidden; position: relative; margin: 1rem 0 .5rem; background: var(--soft); }\n"
    ".bar i, .key { background: var(--k); } .bar i { flex: none; }\n"
    ".bar b { position: absolute; top: 0; bottom: 0; width: 3px; background: var(--ink); "
    "box-shadow: 0 0 0 1px var(--page); }\n"
    ".key { display: inline-block; width: .8rem; height: .8rem; border-radius: 3px; "
    "margin-right: .5rem; }\n"
    ".tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); "
    "gap: .75rem; margin: 1rem 0; }\n"
    ".tiles div { background: var(--soft); border-radius: 8px; padding: .6rem .8rem; }\n"
    ".tiles b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }\n"
    ".tiles span { color: var(--dim); font-size: .85rem; }\n"
    ".wide { overflow-x: auto; }\n"
    ".side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), "
    "1fr)); "
    "gap: 0 2rem; } .side section { min-width: 0; }\n"
    "table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: .3rem .5rem; text-align: right; white-space: nowrap; font-weight: 400; "
    "border-bottom: 1px solid var(--line); }\n"
    "tr:first-child th { font-weight: 600; white-space: normal; vertical-align: bottom; }\n"
    "th:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }\n"
    ".matrix { font-size: 12px; } .matrix td, .matrix th { padding: .25rem .4rem; }\n"
    "tr.asked > * { background: var(--soft); font-weight: 600; } td.short { color: var(--dim); }\n"
    ".plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), "
    "1fr)); gap: 1rem; }\n"
    ".plot { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; min-width: 0; }\n"
    ".plot svg { display: block; width: 100%; min-width: 34rem; height: auto; }\n"
    "@media (max-width: 30rem) { table { font-size: 12.5px; } th, td { padding: .3rem .2rem; } }\n"
    "</style>\n</head>\n<body>\n";

/* ---- the answer ---- */

static void heading(FILE *f, const ts_plan_ask *a)
{
    fputs("<h1>Does ", f);
    ts_svg_text(f, a->model->id);
    fprintf(f, " fit on %lld x %s?</h1>\n", (long long)a->n_gpu, a->gpu->id);
}

static void answer(FILE *f, const ts_plan_ask *a, const ts_plan_memory *m)
{
    char      way[TS_PLAN_WAYS][TS_PLAN_WAY], number[TS_PLAN_NUMBER];
    const int n = ts_plan_ways(a, way);
    if (m->missing)
        fprintf(f, "<p class=\"answer no\">No: %.1f GiB per GPU are missing.</p>\n",
                ts_plan_gib(m->missing));
    else
        fprintf(f, "<p class=\"answer yes\">Yes: %.1f GiB per GPU remain.</p>\n",
                ts_plan_gib(m->capacity - m->total));
    if (n) fputs("<p>It fits with one of these options:</p>\n<ul>\n", f);
    for (int i = 0; i < n; i++) fprintf(f, "<li><code>%s</code></li>\n", way[i]);
    if (n) fputs("</ul>\n", f);
    else if (m->missing) fputs("<p>No narrower dtype and no number of GPUs is enough.</p>\n", f);
    fprintf(f,
            "<p class=\"dim\">%s token%s of context, batch %lld, %s weights%s, %s %s cache.</p>\n",
            ts_plan_count(a->context, number), a->context == 1 ? "" : "s", (long long)a->batch,
            ts_plan_weight_name[a->weights], a->weights == a->model->shipped ? " as published" : "",
            a->cache.page ? "paged" : "contiguous", ts_plan_store_name(a->cache.store));
}

/* A bar of what is needed; a mark where the memory of the GPU ends, if that is less. */
static void bar(FILE *f, const ts_plan_memory *m)
{
    const struct {
        const char *name, *colour;
        int64_t     bytes;
    } all[] = { { "weights", "a", m->weights },
                { "cache", "b", m->cache },
                { "activations, an estimate", "c", m->activations },
                { "reserve, an estimate", "d", m->reserve } };
    enum { N = sizeof all / sizeof *all };
    const double whole = (double)(m->missing ? m->total : m->capacity);
    fputs("<div class=\"bar\" aria-hidden=\"true\">", f);
    for (int i = 0; i < N; i++)
        fprintf(f, "<i style=\"--k: var(--%s); width: %.3f%%\"></i>", all[i].colour,
                100 * (double)all[i].bytes / whole);
    if (m->missing)
        fprintf(f, "<b style=\"left: calc(%.3f%% - 2px)\"></b>", 100 * (double)m->capacity / whole);
    fputs("</div>\n<table>\n<tr><th>memory per GPU</th><th>GiB</th></tr>\n", f);
    for (int i = 0; i < N; i++)
        fprintf(f,
                "<tr><th><span class=\"key\" style=\"--k: var(--%s)\"></span>%s</th>"
                "<td>%.2f</td></tr>\n",
                all[i].colour, all[i].name, ts_plan_gib(all[i].bytes));
    fprintf(f,
            "<tr><th>total</th><td>%.2f</td></tr>\n<tr><th>memory of the GPU%s</th><td>%.2f</td>"
            "</tr>\n</table>\n",
            ts_plan_gib(m->total), m->missing ? " (mark)" : "", ts_plan_gib(m->capacity));
}

/* Three digits are enough for a bound. */
static const char *rounded(double v, char text[TS_PLAN_NUMBER])
{
    int64_t step = 1;
    while (v / (double)step >= 1000) step *= 10;
    if (v >= 100) return ts_plan_count((int64_t)(v / (double)step + .5) * step, text);
    snprintf(text, TS_PLAN_NUMBER, "%.*f", v < 10 ? 2 : 1, v);
    return text;
}

static void tile(FILE *f, const char *value, const char *what)
{
    fprintf(f, "<div><b>%s</b><span>%s</span></div>\n", value, what);
}

/* What does not fit has no rate. */
static void tiles(FILE *f, const ts_plan_ask *a, bool fits)
{
    char          number[TS_PLAN_NUMBER], what[96];
    ts_plan_bound decode, prefill;
    ts_plan_decode(a, &decode);
    ts_plan_prefill(a, &prefill);
    const int64_t context = ts_plan_max_context(a), batch = ts_plan_max_batch(a);
    fputs("<div class=\"tiles\">\n", f);
    snprintf(what, sizeof what, "tokens: largest context at batch %lld", (long long)a->batch);
    if (context) tile(f, ts_plan_count(context, number), what);
    snprintf(what, sizeof what, "sequences: largest batch at context %lld", (long long)a->context);
    if (batch) tile(f, ts_plan_count(batch, number), what);
    if (fits) {
        tile(f, rounded(decode.tokens_per_s, number), "tokens per second at most, decoding");
        tile(f, rounded(prefill.tokens_per_s, number),
             "tokens per second at most, reading a prompt");
    }
    fputs("</div>\n", f);
}

/* ---- tables ---- */

/* Whether the plan fits, its largest context, and its bound of decoding. */
static void cells(FILE *f, const ts_plan_ask *a)
{
    char           number[TS_PLAN_NUMBER], why[TS_PLAN_WHY];
    ts_plan_memory m;
    ts_plan_bound  b;
    if (!ts_plan_check(a, why)) {
        fputs("<td class=\"short\">cannot share</td><td></td><td></td></tr>\n", f);
        return;
    }
    ts_plan_memory_of(a, &m);
    ts_plan_decode(a, &b);
    const int64_t n = ts_plan_max_context(a);
    if (m.missing) fprintf(f, "<td class=\"short\">-%.1f</td>", ts_plan_gib(m.missing));
    else fprintf(f, "<td class=\"yes\">%.1f</td>", ts_plan_gib(m.capacity - m.total));
    if (n) fprintf(f, "<td>%s</td>", ts_plan_count(n, number));
    else fputs("<td class=\"short\">none</td>", f);
    if (m.missing) fputs("<td></td></tr>\n", f);
    else fprintf(f, "<td>%s</td></tr>\n", rounded(b.tokens_per_s, number));
}

static void columns(FILE *f, const char *first)
{
    fprintf(f,
            "<div class=\"wide\"><table>\n<tr><th>%s</th><th>GiB left per GPU</th>"
            "<th>largest context</th><th>tokens/s at most</th></tr>\n",
            first);
}

static void dtypes(FILE *f, const ts_plan_ask *a)
{
    const int n = a->model->file_bytes ? TS_N_WEIGHTS : TS_W_FILE;
    fputs("<h2>With other weights</h2>\n", f);
    columns(f, "weights");
    for (int w = 0; w < n; w++) {
        ts_plan_ask b = *a;
        b.weights = (ts_plan_weight)w;
        fprintf(f, "<tr%s><th>%s</th>", b.weights == a->weights ? " class=\"asked\"" : "",
                ts_plan_weight_name[w]);
        cells(f, &b);
    }
    fputs("</table></div>\n", f);
}

static void gpus(FILE *f, const ts_plan_ask *a)
{
    if (a->n_gpu == 1) fputs("<h2>On other GPUs</h2>\n", f);
    else fprintf(f, "<h2>On %lld other GPUs</h2>\n", (long long)a->n_gpu);
    columns(f, "GPU");
    for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++) {
        ts_plan_ask b = *a;
        b.gpu = g;
        fprintf(f, "<tr%s><th>%s</th>", strcmp(g->id, a->gpu->id) ? "" : " class=\"asked\"", g->id);
        cells(f, &b);
    }
    fputs("</table></div>\n", f);
}

static void models(FILE *f, const ts_plan_job *j)
{
    fprintf(f, "<details><summary>Other models on %lld x %s</summary>\n", (long long)j->ask.n_gpu,
            j->ask.gpu->id);
    columns(f, "model");
    for (const ts_plan_model *m = ts_plan_models; m->id; m++) {
        const ts_plan_ask b = ts_plan_for(j, &j->ask, m);
        fprintf(f, "<tr%s><th>%s</th>", strcmp(m->id, j->ask.model->id) ? "" : " class=\"asked\"",
                m->id);
        cells(f, &b);
    }
    fputs("</table></div>\n</details>\n", f);
}

static void growth(FILE *f, const ts_plan_ask *ask)
{
    static const ts_dtype stores[] = { TS_BF16, TS_U8, TS_U4 };
    char                  number[TS_PLAN_NUMBER];
    fputs("<h2>Over the context</h2>\n<div class=\"wide\"><table>\n<tr><th>tokens</th>"
          "<th>bf16 cache, GiB</th><th>int8</th><th>int4</th><th>ms per step at least</th></tr>\n",
          f);
    for (int i = 0; i < N_POINTS; i++) {
        ts_plan_ask    a = *ask;
        ts_plan_bound  b;
        ts_plan_memory m;
        a.context = INT64_C(1024) << i;
        fprintf(f, "<tr><th>%s</th>", ts_plan_count(a.context, number));
        for (int k = 0; k < 3; k++) {
            const ts_plan_ask narrow = ts_plan_with(&a, stores[k]);
            ts_plan_memory_of(&narrow, &m);
            fprintf(f, "<td%s>%.2f</td>", m.missing ? " class=\"short\"" : "",
                    ts_plan_gib(m.cache));
        }
        ts_plan_decode(&a, &b);
        fprintf(f, "<td>%.2f</td></tr>\n", b.seconds * 1e3);
    }
    fputs("</table></div>\n<p class=\"dim\">Grey: does not fit.</p>\n", f);
}

static void asked_first(FILE *f, const ts_plan_job *j)
{
    const ts_plan_ask *a = &j->ask;
    ts_plan_memory     m;
    ts_plan_memory_of(a, &m);
    heading(f, a);
    answer(f, a, &m);
    bar(f, &m);
    tiles(f, a, !m.missing);
    fputs("<div class=\"side\">\n<section>\n", f);
    dtypes(f, a);
    fputs("</section>\n<section>\n", f);
    gpus(f, a);
    fputs("</section>\n<section>\n", f);
    growth(f, a);
    fputs("</section>\n</div>\n", f);
    models(f, j);
}

static void page(FILE *f, const ts_plan_job *j, bool asked)
{
    fputs(HEAD, f);
    if (asked) asked_first(f, j);
    else fputs("<h1>What fits</h1>\n", f);
    ts_plan_page_all(f, j, asked);
    fprintf(f,
            "<p class=\"dim\">Weights and caches are counted to the byte; activations (%lld prompt "
            "tokens in a step) and a reserve of %.1f GiB are estimates. Rates are bounds from data "
            "sheets: no code that reads weights and cache once per step is faster. doc/plan.md has "
            "the formulas and the sources.</p>\n</body>\n</html>\n",
            (long long)j->ask.chunk, j->ask.reserve_gib);
}

bool ts_plan_page(const ts_plan_job *j, bool asked, const char *path)
{
    FILE *f = fopen(path, "w");
    if (f) page(f, j, asked);
    const bool wrote = f && !ferror(f);
    if (f && fclose(f) == 0 && wrote) return true;
    return ts_fail("--html: %s: %s", path, strerror(errno));
}
