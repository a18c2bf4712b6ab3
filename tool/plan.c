/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - `touchstone plan`: parses the options of the planner. plan_show.c and plan_compare.c
 * print the tables. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plan_view.h"

typedef struct words {
    const char *model, *gpu, *gpus, *batch, *context, *weights, *kv, *axis, *group, *page, *chunk,
        *reserve, *keep, *memory, *bandwidth, *tflops, *compare, *html, *svg, *json, *seed;
} words;

static const ts_dtype STORES[] = { TS_F32, TS_BF16, TS_F16, TS_U8, TS_U4 };

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
    switch (store) {
    case TS_F32:
        return "f32";
    case TS_BF16:
        return "bf16";
    case TS_F16:
        return "f16";
    case TS_U8:
        return "int8";
    default:
        return "int4";
    }
}

static bool wrong(const char *option, const char *got, const char *expected)
{
    fprintf(stderr, "touchstone plan: %s: got '%s', expected %s\n", option, got, expected);
    return false;
}

static bool whole(const char *option, const char *text, int64_t *value)
{
    uint64_t v;
    if (!text) return true;
    if (!ts_parse_u64(option, text, &v)) return false;
    if (v > INT64_C(1) << 40) return wrong(option, text, "at most 2^40");
    *value = (int64_t)v;
    return true;
}

/* A whole number, or one of units of 1024, such as 128k. */
static bool tokens(const char *option, const char *text, int64_t *value)
{
    const size_t n = text ? strlen(text) : 0;
    char         digits[16];
    if (n < 2 || n >= sizeof digits || (text[n - 1] != 'k' && text[n - 1] != 'K'))
        return whole(option, text, value);
    memcpy(digits, text, n - 1);
    digits[n - 1] = 0;
    if (strspn(digits, "0123456789") != n - 1) return whole(option, text, value);
    if (!whole(option, digits, value)) return false;
    *value *= 1024;
    return true;
}

static bool positive(const char *option, const char *text, bool zero, double *value)
{
    char *end = NULL;
    if (!text) return true;
    errno = 0;
    const double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= 0) || !(v < 1e9) || (!zero && v <= 0))
        return wrong(option, text,
                     zero ? "a number from 0 to 1e9" : "a number above 0 and below 1e9");
    *value = v;
    return true;
}

static bool parse_weights(const char *text, ts_plan_weight *w)
{
    for (int i = 0; text && i < TS_N_WEIGHTS; i++)
        if (!strcmp(text, ts_plan_weight_name[i])) {
            *w = (ts_plan_weight)i;
            return true;
        }
    return !text || wrong("--weights", text,
                          "f32, bf16, fp8, mxfp4, int8, int4, ternary or file (as on disk)");
}

/* "paged,int8", or either part alone. */
static bool parse_kv(const char *text, ts_plan_ask *a)
{
    const char *rest = text;
    if (!text) return true;
    if (!strncmp(text, "contiguous", 10)) a->cache.page = 0, rest = text + 10;
    else if (!strncmp(text, "paged", 5)) rest = text + 5;
    if (rest != text && !*rest) return true;
    if (rest != text && *rest++ != ',') rest = "";
    for (size_t i = 0; i < sizeof STORES / sizeof *STORES; i++)
        if (!strcmp(rest, ts_plan_store_name(STORES[i]))) {
            *a = ts_plan_with(a, STORES[i]);
            return true;
        }
    return wrong(
        "--kv", text,
        "LAYOUT,DTYPE such as paged,int8: contiguous or paged, then f32, bf16, f16, int8 or int4");
}

static bool parse_cache(const words *w, ts_plan_ask *a)
{
    if (!whole("--page", w->page, &a->cache.page)) return false;
    a->cache.key_group = a->cache.page ? a->cache.page : 16;
    if (!parse_kv(w->kv, a) || !whole("--key-group", w->group, &a->cache.key_group)) return false;
    if (w->axis && strcmp(w->axis, "token") && strcmp(w->axis, "channel"))
        return wrong("--key-axis", w->axis, "token or channel");
    if (w->axis && !strcmp(w->axis, "token")) {
        a->cache.axis = TS_KEY_TOKEN;
        if (!w->group) a->cache.key_group = a->model->head_dim;
    }
    a->cache.keep_all = w->keep != NULL;
    return true;
}

static bool parse_ask(const words *w, ts_plan_ask *a)
{
    const int64_t made_for = a->model->n_context;
    a->n_gpu = a->batch = 1;
    a->context = made_for > 0 && made_for < 8192 ? made_for : 8192;
    a->chunk = 2048;
    a->reserve_gib = 2;
    a->weights = a->model->file_bytes ? TS_W_FILE : a->model->shipped;
    a->cache = (ts_plan_cache) { TS_BF16, TS_F32, TS_BF16, TS_KEY_CHANNEL, 16, 16, false };
    return whole("--gpus", w->gpus, &a->n_gpu) && whole("--batch", w->batch, &a->batch) &&
           tokens("--context", w->context, &a->context) && whole("--chunk", w->chunk, &a->chunk) &&
           positive("--reserve", w->reserve, true, &a->reserve_gib) &&
           parse_weights(w->weights, &a->weights) && parse_cache(w, a);
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
    else if (!path && !strchr(name, '/')) {
        fprintf(stderr, "touchstone plan: --model: %s\n", why);
        return false;
    } else if (!path) {
        fprintf(stderr, "touchstone plan: %s: no such file, and %s\n", name, why);
        j->status = TS_EXIT_BROKEN;
        return false;
    } else if (!ts_plan_read(name, m, why)) {
        fprintf(stderr, "touchstone plan: %s: %s\n", name, why);
        j->status = TS_EXIT_BROKEN;
        return false;
    }
    j->n_model++;
    return true;
}

static bool take_gpu(ts_plan_job *j, const char *name)
{
    char               why[TS_PLAN_WHY];
    const ts_plan_gpu *known = ts_plan_find_gpu(name, why);
    if (!known)
        fprintf(stderr, "touchstone plan: --gpu: %s, or give --memory, --bandwidth and --tflops\n",
                why);
    else j->gpu[j->n_gpu++] = *known;
    return known;
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
                fprintf(stderr,
                        "touchstone plan: got '%s', expected at most %d model and GPU each%s\n", p,
                        most, most == 1 ? "; use --compare for lists" : "");
            return false;
        }
    return true;
}

/* Numbers on the command line: instead of a GPU's, or instead of a GPU. */
static bool take_numbers(const words *w, ts_plan_job *j)
{
    double gib = 0, gbs = 0, tera = 0;
    if (!positive("--memory", w->memory, false, &gib) ||
        !positive("--bandwidth", w->bandwidth, false, &gbs) ||
        !positive("--tflops", w->tflops, false, &tera))
        return false;
    if (!j->n_gpu && (!w->memory || !w->bandwidth || !w->tflops)) {
        fprintf(stderr, "touchstone plan: no GPU given, expected --gpu, or --memory, --bandwidth "
                        "and --tflops\n");
        return false;
    }
    if (!j->n_gpu) j->gpu[j->n_gpu++] = (ts_plan_gpu) { .id = "given", .source = "command line" };
    for (int i = 0; i < j->n_gpu; i++) {
        ts_plan_gpu *g = &j->gpu[i];
        if (w->memory) g->gib = gib;
        if (w->bandwidth) g->gbs = gbs;
        if (w->tflops) g->bf16 = tera, g->fp8 = g->int8t = 0; /* one rate for everything */
    }
    return true;
}

static bool parse(const words *w, ts_plan_job *j, char *models, char *gpus)
{
    const int most = w->compare ? TS_PLAN_LIST : 1;
    uint64_t  seed;
    if (w->seed && !ts_parse_u64("--seed", w->seed, &seed)) return false;
    if (!w->model && !w->compare && !w->html) {
        fprintf(
            stderr,
            "touchstone plan: no model given, expected --model; see 'touchstone list models'\n");
        return false;
    }
    if (!take_all(j, models, most, take_model) || !take_all(j, gpus, most, take_gpu) ||
        !take_numbers(w, j))
        return false;
    if (!j->n_model)
        return wrong("--model", w->model, "the name of a model; see 'touchstone list models'");
    j->ask.model = &j->model[0];
    j->ask.gpu = &j->gpu[0];
    j->as_shipped = !w->weights;
    return parse_ask(w, &j->ask);
}

/* Defaults if nothing is named. */
static const char *models_of(const words *w)
{
    if (w->model) return w->model;
    if (w->compare) return "llama-2-13b,llama-3-8b,llama-3-70b,qwen3-32b,gpt-oss-20b,gemma-3-27b";
    return w->html ? "llama-3-8b" : "";
}

static const char *gpus_of(const words *w)
{
    if (w->gpu) return w->gpu;
    if (w->memory && w->bandwidth && w->tflops) return "";
    if (w->compare) return "rtx-4090,l40s,h100,h200,b200,mi300x";
    return w->html ? "h200" : "";
}

static int verdict(const ts_plan_ask *a)
{
    ts_plan_memory m;
    char           ways[TS_PLAN_WAYS * TS_PLAN_WAY];
    ts_plan_memory_of(a, &m);
    if (!m.missing) return TS_EXIT_PASSED;
    ts_plan_ways_text(a, ways);
    fprintf(stderr,
            "touchstone plan: %s does not fit on %lld x %s: needs %.2f GiB per GPU, has %.2f, "
            "short by %.2f GiB; %s%s\n",
            a->model->id, (long long)a->n_gpu, a->gpu->id, ts_plan_gib(m.total),
            ts_plan_gib(m.capacity), ts_plan_gib(m.missing),
            *ways ? "fits with " : "no narrower dtype and no number of GPUs is enough", ways);
    return TS_EXIT_FAILED;
}

/* --html without a model. */
static bool page_alone(const words *w)
{
    return w->html && !w->model && !w->compare;
}

static int run(const words *w, ts_plan_job *j)
{
    char     why[TS_PLAN_WHY];
    ts_json *root;
    if (!w->compare && !ts_plan_check(&j->ask, why)) {
        fprintf(stderr, "touchstone plan: %s\n", why);
        return TS_EXIT_USAGE;
    }
    if (!ts_json_open(w->json, &root)) return TS_EXIT_USAGE;
    j->json = root;
    j->svg = w->svg;
    j->out = w->json && !strcmp(w->json, "-") ? NULL : stdout;
    bool drawn = true;
    if (w->html) drawn = ts_plan_page(j, w->model && !w->compare, w->html);
    if (drawn && !page_alone(w)) drawn = w->compare ? ts_plan_compare(j) : ts_plan_show(j);
    if (!ts_json_close(w->json, root) || !drawn) return TS_EXIT_BROKEN;
    fflush(stdout); /* the table comes before its errors */
    return w->compare || page_alone(w) ? TS_EXIT_PASSED : verdict(&j->ask);
}

int ts_tool_plan(int argc, char **argv)
{
    words           w = { 0 };
    int             status;
    const ts_option options[] = {
        { "--model", "ID|PATH",
          "name in 'list models', a folder, config.json, .safetensors or .gguf", &w.model },
        { "--gpu", "ID", "name in 'list gpus'", &w.gpu },
        { "--gpus", "N", "GPUs that share every matrix (default 1)", &w.gpus },
        { "--batch", "N", "sequences at once (default 1)", &w.batch },
        { "--context", "N",
          "tokens per sequence, such as 128k (default 8192, or the model's maximum if less)",
          &w.context },
        { "--weights", "DTYPE",
          "f32 bf16 fp8 mxfp4 int8 int4 ternary file (default: as on disk or as published)",
          &w.weights },
        { "--kv", "LAYOUT,DTYPE", "contiguous|paged,f32|bf16|f16|int8|int4 (default paged,bf16)",
          &w.kv },
        { "--page", "N", "tokens per page (default 16)", &w.page },
        { "--key-axis", "AXIS", "quantise keys by channel or token (default channel)", &w.axis },
        { "--key-group", "N", "tokens, or channels, per scale (default: one page, one head)",
          &w.group },
        { "--keep-all", NULL, "keep all tokens in sliding-window layers, as ts_kv does", &w.keep },
        { "--chunk", "N", "prompt tokens per prefill step (default 2048)", &w.chunk },
        { "--reserve", "GIB", "GPU memory to leave free, in GiB (default 2)", &w.reserve },
        { "--memory", "GIB", "memory per GPU, in GiB (default: the GPU's)", &w.memory },
        { "--bandwidth", "GB/S", "memory bandwidth, in GB/s (default: the GPU's)", &w.bandwidth },
        { "--tflops", "N", "dense TFLOP/s for every dtype (default: the GPU's)", &w.tflops },
        { "--compare", NULL, "table of largest contexts; --model and --gpu take lists: a,b,c",
          &w.compare },
        { "--html", "FILE", "write an HTML page: the plan, then all models on all GPUs", &w.html },
        { "--svg", "FILE", "plot the cache size over the context", &w.svg },
        { "--json", "FILE|-", "write the result as JSON", &w.json },
        { "--seed", "N", "accepted for uniformity; a plan draws nothing", &w.seed },
        { 0 },
    };
    if (!ts_options(argc, argv, "plan --model ID|PATH --gpu ID [OPTION...]", options, NULL,
                    &status))
        return status;
    char        *m = strdup(models_of(&w)), *g = strdup(gpus_of(&w));
    ts_plan_job *j = calloc(1, sizeof *j);
    status = TS_EXIT_BROKEN;
    if (j) j->status = TS_EXIT_USAGE;
    if (m && g && j) status = parse(&w, j, m, g) ? run(&w, j) : j->status;
    free(j);
    free(g);
    free(m);
    return status;
}
