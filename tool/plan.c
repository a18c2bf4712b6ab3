/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - `touchstone plan`: parses the options of the planner. plan_show.c and plan_compare.c
 * print the tables. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "model_options.h"
#include "plan_view.h"

#define MOST 0x1p40

typedef struct plan_options {
    const char  *model, *gpu, *html, *svg, *json;
    int64_t      n_gpu, batch, chunk, page;
    int64_t      context, key_group; /* below 0: default */
    double       reserve;
    double       memory, bandwidth, tflops; /* 0: the GPU's */
    int          weights;                   /* a ts_plan_weight; below 0: default */
    int          axis;                      /* a ts_key_axis */
    ts_kv_layout kv;
    bool         keep_all, compare;
    uint64_t     seed; /* unused */
} plan_options;

ts_plan_ask ts_plan_with(const ts_plan_ask *a, ts_dtype store)
{
    ts_plan_ask b = *a;
    b.cache.store = store;
    b.cache.meta = store == TS_U4 ? TS_F16 : TS_F32; /* as in `touchstone generate` */
    return b;
}

ts_plan_ask ts_plan_for(const ts_plan_job *j, const ts_plan_ask *a, const ts_plan_model *m)
{
    ts_plan_ask b = *a;
    b.model = m;
    if (j->as_shipped || (b.weights == TS_W_FILE && !m->file_bytes))
        b.weights = m->file_bytes ? TS_W_FILE : m->shipped;
    if (b.cache.axis == TS_KEY_TOKEN && a->cache.key_group == a->model->head_dim)
        b.cache.key_group = m->head_dim; /* a whole head is one group */
    return b;
}

const char *ts_plan_store_name(ts_dtype store)
{
    const ts_choice *c = ts_stores;
    while (c[1].name && c->value != (int)store) c++;
    return c->name;
}

static void fill_ask(const plan_options *o, ts_plan_ask *a)
{
    const int64_t made_for = a->model->n_context;
    a->n_gpu = o->n_gpu;
    a->batch = o->batch;
    a->chunk = o->chunk;
    a->reserve_gib = o->reserve;
    a->context = o->context >= 0 ? o->context : made_for > 0 && made_for < 8192 ? made_for : 8192;
    a->weights = o->weights >= 0        ? (ts_plan_weight)o->weights
                 : a->model->file_bytes ? TS_W_FILE
                                        : a->model->shipped;
    a->cache = (ts_plan_cache) { .meta = TS_F32,
                                 .io = TS_BF16,
                                 .axis = (ts_key_axis)o->axis,
                                 .page = o->kv.paged ? o->page : 0,
                                 .keep_all = o->keep_all };
    *a = ts_plan_with(a, (ts_dtype)o->kv.store);
    a->cache.key_group = o->key_group >= 0         ? o->key_group
                         : o->axis == TS_KEY_TOKEN ? a->model->head_dim
                         : o->page                 ? o->page
                                                   : 16;
}

/* An id of the table, or a path. What exists is a path, unless it is named exactly as an id. */
static bool take_model(ts_plan_job *j, const char *name)
{
    char                 why[TS_PLAN_WHY];
    struct stat          is;
    ts_plan_model       *m = &j->model[j->n_model];
    const ts_plan_model *known = ts_plan_find_model(name, why);
    const bool           exact = known && !strcasecmp(known->id, name);
    const bool           path = *name == '.' || *name == '/' || (!stat(name, &is) && !exact);
    if (known && !path) *m = *known;
    else if (!path && !strchr(name, '/')) return ts_fail("--model: %s", why);
    else if (!path || !ts_plan_read(name, m, why)) {
        j->status = TS_EXIT_BROKEN;
        return ts_fail("%s: %s%s", name, path ? "" : "no such file, and ", why);
    }
    j->n_model++;
    return true;
}

static bool take_gpu(ts_plan_job *j, const char *name)
{
    char               why[TS_PLAN_WHY];
    const ts_plan_gpu *known = ts_plan_find_gpu(name, why);
    if (!known) return ts_fail("--gpu: %s, or give --memory, --bandwidth and --tflops", why);
    j->gpu[j->n_gpu++] = *known;
    return true;
}

/* Splits `list` at its commas, in place: the parts live as long as the list. */
static bool take_all(ts_plan_job *j, char *list, int most,
                     bool (*take)(ts_plan_job *j, const char *name))
{
    char *save = NULL;
    int   n = 0;
    for (char *p = strtok_r(list, ",", &save); p; p = strtok_r(NULL, ",", &save))
        if (++n > most || !take(j, p)) {
            if (n > most)
                ts_fail("got '%s', expected at most %d model and GPU each%s", p, most,
                        most == 1 ? "; use --compare for lists" : "");
            return false;
        }
    return true;
}

/* Numbers on the command line: instead of a GPU's, or instead of a GPU. */
static bool take_numbers(const plan_options *o, ts_plan_job *j)
{
    if (!j->n_gpu && !(o->memory && o->bandwidth && o->tflops))
        return ts_fail("no GPU given, expected --gpu, or --memory, --bandwidth and --tflops");
    if (!j->n_gpu) j->gpu[j->n_gpu++] = (ts_plan_gpu) { .id = "given", .source = "command line" };
    for (int i = 0; i < j->n_gpu; i++) {
        ts_plan_gpu *g = &j->gpu[i];
        if (o->memory) g->gib = o->memory;
        if (o->bandwidth) g->gbs = o->bandwidth;
        if (o->tflops) g->bf16 = o->tflops, g->fp8 = g->int8t = 0; /* one rate for everything */
    }
    return true;
}

static bool settle(const plan_options *o, ts_plan_job *j, char *models, char *gpus)
{
    const int most = o->compare ? TS_PLAN_LIST : 1;
    if (!o->model && !o->compare && !o->html)
        return ts_fail("no model given, expected --model; see 'touchstone list models'");
    if (!take_all(j, models, most, take_model) || !take_all(j, gpus, most, take_gpu) ||
        !take_numbers(o, j))
        return false;
    if (!j->n_model)
        return ts_fail("--model: got '%s', expected the name of a model; see 'touchstone list "
                       "models'",
                       o->model);
    j->ask.model = &j->model[0];
    j->ask.gpu = &j->gpu[0];
    j->as_shipped = o->weights < 0;
    fill_ask(o, &j->ask);
    return true;
}

/* Defaults if nothing is named. */
static const char *models_of(const plan_options *o)
{
    if (o->model) return o->model;
    if (o->compare) return "llama-2-13b,llama-3-8b,llama-3-70b,qwen3-32b,gpt-oss-20b,gemma-3-27b";
    return o->html ? "llama-3-8b" : "";
}

static const char *gpus_of(const plan_options *o)
{
    if (o->gpu) return o->gpu;
    if (o->memory && o->bandwidth && o->tflops) return "";
    if (o->compare) return "rtx-4090,l40s,h100,h200,b200,mi300x";
    return o->html ? "h200" : "";
}

static int verdict(const ts_plan_ask *a)
{
    ts_plan_memory m;
    char           ways[TS_PLAN_WAYS * TS_PLAN_WAY];
    ts_plan_memory_of(a, &m);
    if (!m.missing) return TS_EXIT_PASSED;
    ts_plan_ways_text(a, ways);
    ts_fail("%s does not fit on %lld x %s: needs %.2f GiB per GPU, has %.2f, short by %.2f GiB; "
            "%s%s",
            a->model->id, (long long)a->n_gpu, a->gpu->id, ts_plan_gib(m.total),
            ts_plan_gib(m.capacity), ts_plan_gib(m.missing),
            *ways ? "fits with " : "no narrower dtype and no number of GPUs is enough", ways);
    return TS_EXIT_FAILED;
}

/* --html without a model. */
static bool page_alone(const plan_options *o)
{
    return o->html && !o->model && !o->compare;
}

static int run(const plan_options *o, ts_plan_job *j)
{
    char     why[TS_PLAN_WHY];
    ts_json *root;
    if (!o->compare && !ts_plan_check(&j->ask, why)) return ts_fail("%s", why), TS_EXIT_USAGE;
    if (!ts_json_open(o->json, &root)) return TS_EXIT_USAGE;
    j->json = root;
    j->svg = o->svg;
    j->out = ts_json_beside(o->json, NULL);
    bool drawn = true;
    if (o->html) drawn = ts_plan_page(j, o->model && !o->compare, o->html);
    if (drawn && !page_alone(o)) drawn = o->compare ? ts_plan_compare(j) : ts_plan_show(j);
    if (!ts_json_close(o->json, root) || !drawn) return TS_EXIT_BROKEN;
    fflush(stdout); /* the table comes before its errors */
    return o->compare || page_alone(o) ? TS_EXIT_PASSED : verdict(&j->ask);
}

/* What is computed: how much of it, and in which dtypes. */
static const ts_option *work_options(plan_options *o)
{
    static const ts_choice axes[] = { { "token", TS_KEY_TOKEN },
                                      { "channel", TS_KEY_CHANNEL },
                                      { 0 } };
    static ts_choice       weights[TS_N_WEIGHTS + 1];
    for (int i = 0; i < TS_N_WEIGHTS; i++) weights[i] = (ts_choice) { ts_plan_weight_name[i], i };
    const ts_option all[] = {
        { "--gpus", "N", "1", "GPUs that share every matrix", .count = &o->n_gpu,
          .range = { 0, MOST } },
        { "--batch", "N", "1", "sequences at once", .count = &o->batch, .range = { 0, MOST } },
        { "--context", "N", NULL,
          "tokens per sequence, such as 128k (default 8192, or the model's maximum if less)",
          .count = &o->context, .range = { 0, MOST } },
        { "--weights", "DTYPE", NULL, "weights (default: as on disk or as published)",
          .to = &o->weights, .choices = weights },
        { "--kv", "LAYOUT,DTYPE", "paged,bf16", "contiguous|paged,f32|bf16|f16|int8|int4",
          .to = &o->kv, .parse = ts_parse_kv, .expected = TS_KV_EXPECTED },
        { "--page", "N", "16", "tokens per page", .count = &o->page, .range = { 0, MOST } },
        { "--key-axis", "AXIS", "channel", "axis along which keys are quantised", .to = &o->axis,
          .choices = axes },
        { "--key-group", "N", NULL, "tokens, or channels, per scale (default: one page, one head)",
          .count = &o->key_group, .range = { 0, MOST } },
        { "--keep-all", NULL, NULL, "keep all tokens in sliding-window layers, as ts_kv does",
          .flag = &o->keep_all },
        { "--chunk", "N", "2048", "prompt tokens per prefill step", .count = &o->chunk,
          .range = { 0, MOST } },
        { 0 },
    };
    static ts_option kept[sizeof all / sizeof *all];
    return memcpy(kept, all, sizeof all);
}

static bool parse(int argc, char **argv, plan_options *o, int *status)
{
    const ts_option options[] = {
        { "--model", "ID|PATH", NULL,
          "name in 'list models', a folder, config.json, .safetensors or .gguf",
          .text = &o->model },
        { "--gpu", "ID", NULL, "name in 'list gpus'", .text = &o->gpu },
        { "", .more = work_options(o) },
        { "--reserve", "GIB", "2", "GPU memory to leave free, in GiB", .real = &o->reserve,
          .range = { 0, 1e9 } },
        { "--memory", "GIB", NULL, "memory per GPU, in GiB (default: the GPU's)",
          .real = &o->memory, .range = { 1e-9, 1e9 } },
        { "--bandwidth", "GB/S", NULL, "memory bandwidth, in GB/s (default: the GPU's)",
          .real = &o->bandwidth, .range = { 1e-9, 1e9 } },
        { "--tflops", "N", NULL, "dense TFLOP/s for every dtype (default: the GPU's)",
          .real = &o->tflops, .range = { 1e-9, 1e9 } },
        { "--compare", NULL, NULL, "table of largest contexts; --model and --gpu take lists: a,b,c",
          .flag = &o->compare },
        { "--html", "FILE", NULL, "write an HTML page: the plan, then all models on all GPUs",
          .text = &o->html },
        { "--svg", "FILE", NULL, "plot the cache size over the context", .text = &o->svg },
        { "--json", "FILE|-", NULL, "write the result as JSON", .text = &o->json },
        { "--seed", "N", NULL, "accepted for uniformity; a plan draws nothing", .seed = &o->seed },
        { 0 },
    };
    return ts_options(argc, argv, "plan --model ID|PATH --gpu ID [OPTION...]", options, NULL, 0,
                      status);
}

int ts_tool_plan(int argc, char **argv)
{
    plan_options o = {
        .context = -1, .key_group = -1, .weights = -1, .kv = { .stores = ts_stores, .paged = true }
    };
    int status;
    if (!parse(argc, argv, &o, &status)) return status;
    char        *m = strdup(models_of(&o)), *g = strdup(gpus_of(&o));
    ts_plan_job *j = calloc(1, sizeof *j);
    status = TS_EXIT_BROKEN;
    if (j) j->status = TS_EXIT_USAGE;
    if (m && g && j) status = settle(&o, j, m, g) ? run(&o, j) : j->status;
    free(j);
    free(g);
    free(m);
    return status;
}
