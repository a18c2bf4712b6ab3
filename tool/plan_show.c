/* SPDX-License-Identifier: Apache-2.0 */
/* plan_show.c - prints one plan: sizes, what fits, speed limits, and the gain from fewer KV heads
 * and codes. */
#include <stdlib.h>
#include <string.h>

#include "plan_view.h"

enum { N_STORES = 5, N_POINTS = 11 };

static const ts_dtype STORES[N_STORES] = { TS_F32, TS_BF16, TS_F16, TS_U8, TS_U4 };
static const ts_dtype NARROW[] = { TS_BF16, TS_U8, TS_U4 };
enum { N_NARROW = sizeof NARROW / sizeof *NARROW };

double ts_plan_gib(int64_t bytes)
{
    return (double)bytes / 1073741824.0;
}

const char *ts_plan_count(int64_t n, char text[TS_PLAN_NUMBER])
{
    char digits[TS_PLAN_NUMBER];
    int  at = 0;
    if (n >= INT64_C(1) << 40) return "any";
    const int n_digits = snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (int i = 0; i < n_digits; i++) {
        if (i && (n_digits - i) % 3 == 0) text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

/* The unit of a model's tables: MiB if its weights are less than a GiB even in float32. */
typedef struct unit {
    const char *name;
    double      bytes;
} unit;

static unit unit_of(const ts_plan_model *m)
{
    const bool small = ts_plan_weight_bytes(m, 1, TS_W_F32) < INT64_C(1) << 30;
    return small ? (unit) { "MiB", 1048576.0 } : (unit) { "GiB", 1073741824.0 };
}

static double in_unit(unit u, int64_t bytes)
{
    return (double)bytes / u.bytes;
}

/* ---- the model ---- */

static const char *attention_name(const ts_plan_model *m)
{
    if (m->kv_rank) return "latent";
    if (m->n_kv_head == m->n_head) return "MHA";
    return m->n_kv_head == 1 ? "MQA" : "GQA";
}

static void show_model(const ts_plan_job *j)
{
    const ts_plan_model *m = j->ask.model;
    const ts_plan_gpu   *g = j->ask.gpu;
    ts_json             *o = ts_json_object(j->json, "model");
    ts_json_text(o, "id", m->id);
    ts_json_text(o, "from", m->note);
    ts_json_text(o, "attention", attention_name(m));
    ts_json_text(o, "published_as", ts_plan_weight_name[m->shipped]);
    ts_json_int(o, "parameters", ts_plan_params(m));
    ts_json_int(o, "active_parameters", ts_plan_active_params(m));
    o = ts_json_object(j->json, "gpu");
    ts_json_text(o, "id", g->id);
    ts_json_text(o, "from", g->source);
    ts_json_int(o, "count", j->ask.n_gpu);
    if (!j->out) return;
    fprintf(j->out,
            "%s on %lld x %s\n  %lld layers of width %lld, %lld heads over %lld (%s) of %lld, "
            "vocabulary %lld",
            m->id, (long long)j->ask.n_gpu, g->id, (long long)m->n_layer, (long long)m->width,
            (long long)m->n_head, (long long)m->n_kv_head, attention_name(m),
            (long long)m->head_dim, (long long)m->n_vocab);
    if (m->n_window_layer)
        fprintf(j->out, ", %lld layers with a window of %lld", (long long)m->n_window_layer,
                (long long)m->window);
    if (m->n_linear_layer)
        fprintf(j->out, ", %lld layers with linear attention", (long long)m->n_linear_layer);
    if (m->n_expert)
        fprintf(j->out, ", %lld experts, %lld per token", (long long)m->n_expert,
                (long long)m->n_expert_used);
    const int    power = ts_plan_params(m) < 1000000000 ? 6 : 9;
    const double scale = power == 6 ? 1e6 : 1e9;
    fprintf(j->out, "\n  %.3f e%d parameters, of which a token uses %.3f e%d; from %s\n",
            (double)ts_plan_params(m) / scale, power, (double)ts_plan_active_params(m) / scale,
            power, m->note);
    fprintf(j->out, "  %.0f GiB, %.0f GB/s, %.0f dense bf16 TFLOPS; from %s\n", g->gib, g->gbs,
            g->bf16, g->source);
}

/* ---- sizes ---- */

static void show_sizes(const ts_plan_job *j)
{
    const ts_plan_ask *a = &j->ask;
    ts_json           *o = ts_json_object(j->json, "weight_bytes");
    const int          n = a->model->file_bytes ? TS_N_WEIGHTS : TS_W_FILE;
    const unit         u = unit_of(a->model);
    ts_print(j->out, "\nweights, %s per GPU      ", u.name);
    for (int w = 0; w < n; w++) {
        const int64_t bytes = ts_plan_weight_bytes(a->model, a->n_gpu, (ts_plan_weight)w);
        ts_json_int(o, ts_plan_weight_name[w], bytes);
        ts_print(j->out, "  %s %.2f", ts_plan_weight_name[w], in_unit(u, bytes));
    }
    o = ts_json_object(j->json, "kv_bytes_per_token");
    ts_print(j->out, "\ncache, bytes per token    ");
    for (int i = 0; i < N_STORES; i++) {
        const ts_plan_ask b = ts_plan_with(a, STORES[i]);
        const double      bytes = ts_plan_kv_per_token(b.model, b.n_gpu, &b.cache);
        ts_json_number(o, ts_plan_store_name(STORES[i]), bytes);
        ts_print(j->out, "  %s %.0f", ts_plan_store_name(STORES[i]), bytes);
    }
    ts_print(j->out, "\n");
}

/* ---- memory ---- */

static void show_memory(const ts_plan_job *j)
{
    const ts_plan_ask *a = &j->ask;
    ts_plan_memory     m;
    ts_plan_memory_of(a, &m);
    ts_json *o = ts_json_object(j->json, "memory");
    ts_json_int(o, "batch", a->batch);
    ts_json_int(o, "context", a->context);
    ts_json_text(o, "weights_dtype", ts_plan_weight_name[a->weights]);
    ts_json_text(o, "cache_dtype", ts_plan_store_name(a->cache.store));
    ts_json_int(o, "page", a->cache.page);
    ts_json_int(o, "weights", m.weights);
    ts_json_int(o, "cache", m.cache);
    ts_json_int(o, "cache_waste", m.waste);
    ts_json_int(o, "linear_state", ts_plan_state_bytes(a));
    ts_json_int(o, "activations_estimate", m.activations);
    ts_json_int(o, "reserve_estimate", m.reserve);
    ts_json_int(o, "total", m.total);
    ts_json_int(o, "capacity", m.capacity);
    ts_json_int(o, "missing", m.missing);
    char      way[TS_PLAN_WAYS][TS_PLAN_WAY], ways[TS_PLAN_WAYS * TS_PLAN_WAY];
    const int n_way = ts_plan_ways(a, way);
    ts_json  *list = ts_json_array(j->json, "fits_with");
    for (int i = 0; i < n_way; i++) ts_json_text(list, NULL, way[i]);
    if (!j->out) return;
    const unit u = unit_of(a->model);
    fprintf(j->out, "\nmemory per GPU, %s         batch %lld, context %lld, %s weights, ", u.name,
            (long long)a->batch, (long long)a->context, ts_plan_weight_name[a->weights]);
    if (a->cache.page) fprintf(j->out, "pages of %lld, ", (long long)a->cache.page);
    else fprintf(j->out, "contiguous, ");
    fprintf(j->out, "%s cache\n  weights      %9.3f\n", ts_plan_store_name(a->cache.store),
            in_unit(u, m.weights));
    fprintf(j->out, "  cache        %9.3f   of which %.6f without tokens\n", in_unit(u, m.cache),
            in_unit(u, m.waste));
    fprintf(j->out, "  activations  %9.3f   an estimate\n  reserve      %9.3f   an estimate\n",
            in_unit(u, m.activations), in_unit(u, m.reserve));
    fprintf(j->out, "  total        %9.3f   of %.0f: %s by %.3f\n", in_unit(u, m.total),
            in_unit(u, m.capacity), m.missing ? "DOES NOT FIT" : "fits",
            in_unit(u, m.missing ? m.missing : m.capacity - m.total));
    if (n_way) fprintf(j->out, "  fits with %s\n", ts_plan_ways_text(a, ways));
}

static void show_limits(const ts_plan_job *j)
{
    const ts_plan_ask *a = &j->ask;
    char               number[TS_PLAN_NUMBER], batch[TS_PLAN_NUMBER];
    const int64_t      context = ts_plan_max_context(a), most = ts_plan_max_batch(a);
    ts_json_int(j->json, "max_context", context);
    ts_json_int(j->json, "max_batch", most);
    ts_json_int(j->json, "made_for", a->model->n_context);
    if (!j->out) return;
    fprintf(j->out, "\nlargest context at batch %lld   %s tokens; the model was made for %lld\n",
            (long long)a->batch, ts_plan_count(context, number), (long long)a->model->n_context);
    fprintf(j->out, "largest batch at context %lld   %s sequences\n", (long long)a->context,
            ts_plan_count(most, batch));
}

/* ---- speed ---- */

static void show_bound(const ts_plan_job *j, const char *name, const ts_plan_bound *b)
{
    const bool memory = b->memory_s >= b->compute_s;
    ts_json   *o = ts_json_object(j->json, name);
    ts_json_number(o, "flops", b->flops);
    ts_json_number(o, "bytes", b->bytes);
    ts_json_number(o, "weight_bytes", b->weight_bytes);
    ts_json_number(o, "cache_bytes", b->cache_bytes);
    ts_json_number(o, "flops_per_byte", b->intensity);
    ts_json_number(o, "ridge", b->ridge);
    ts_json_number(o, "compute_ms", b->compute_s * 1e3);
    ts_json_number(o, "memory_ms", b->memory_s * 1e3);
    ts_json_number(o, "ms", b->seconds * 1e3);
    ts_json_number(o, "tokens_per_s", b->tokens_per_s);
    ts_json_text(o, "bound_by", memory ? "memory" : "compute");
    ts_print(j->out, "  %-8s %12.2f %10.1f %12.3f %12.3f %13.1f   %s\n", name, b->intensity,
             b->ridge, b->memory_s * 1e3, b->compute_s * 1e3, b->tokens_per_s,
             memory ? "memory" : "compute");
}

static void show_speed(const ts_plan_job *j)
{
    ts_plan_bound decode, prefill;
    ts_plan_decode(&j->ask, &decode);
    ts_plan_prefill(&j->ask, &prefill);
    ts_print(j->out, "\nno faster than  flops/byte      ridge    memory ms   compute ms      "
                     "tokens/s   bound by\n");
    show_bound(j, "decode", &decode);
    show_bound(j, "prefill", &prefill);
}

/* ---- growth ---- */

static void show_growth(const ts_plan_job *j)
{
    char       number[TS_PLAN_NUMBER];
    ts_json   *rows = ts_json_array(j->json, "growth");
    const unit u = unit_of(j->ask.model);
    ts_print(j->out, "\n%12s  cache per GPU, %s\n%12s  %10s %10s %10s   memory %s %12s\n",
             "context", u.name, "", "bf16", "int8", "int4", u.name, "decode ms");
    for (int i = 0; i < N_POINTS; i++) {
        ts_plan_ask    a = j->ask;
        ts_plan_memory m;
        ts_plan_bound  b;
        ts_json       *o = ts_json_object(rows, NULL);
        a.context = INT64_C(1024) << i;
        ts_json_int(o, "context", a.context);
        ts_print(j->out, "%12s ", ts_plan_count(a.context, number));
        for (int k = 0; k < N_NARROW; k++) {
            const ts_plan_ask narrow = ts_plan_with(&a, NARROW[k]);
            const int64_t     bytes = ts_plan_cache_bytes(&narrow);
            ts_json_int(o, ts_plan_store_name(NARROW[k]), bytes);
            ts_print(j->out, " %10.3f", in_unit(u, bytes));
        }
        ts_plan_memory_of(&a, &m);
        ts_plan_decode(&a, &b);
        ts_json_int(o, "total", m.total);
        ts_json_number(o, "decode_ms", b.seconds * 1e3);
        ts_print(j->out, " %12.3f %12.3f%s\n", in_unit(u, m.total), b.seconds * 1e3,
                 m.missing ? "   does not fit" : "");
    }
}

/* ---- gain from fewer KV heads and codes ---- */

static void show_variant(const ts_plan_job *j, ts_json *rows, const char *name,
                         const ts_plan_model *m)
{
    char     number[TS_PLAN_NUMBER], why[TS_PLAN_WHY];
    ts_json *o = ts_json_object(rows, NULL);
    ts_json_text(o, "heads", name);
    ts_print(j->out, "  %-26.26s", name);
    for (int k = 0; k < N_NARROW; k++) {
        ts_plan_ask a = ts_plan_with(&j->ask, NARROW[k]);
        a.model = m;
        if (!ts_plan_check(&a, why)) continue;
        const double  bytes = ts_plan_kv_per_token(m, a.n_gpu, &a.cache);
        const int64_t most = ts_plan_max_context(&a);
        ts_json      *cell = ts_json_object(o, ts_plan_store_name(NARROW[k]));
        ts_json_number(cell, "bytes_per_token", bytes);
        ts_json_int(cell, "max_context", most);
        ts_print(j->out, " %9.0f %12s", bytes, ts_plan_count(most, number));
    }
    ts_print(j->out, "\n");
}

/* Weights stay the same: only the cache changes. */
static void show_gains(const ts_plan_job *j)
{
    ts_plan_model m = *j->ask.model;
    char          name[64];
    ts_json      *rows = ts_json_array(j->json, "gains");
    ts_print(j->out,
             "\nbytes per token and largest context at batch %lld, by heads and codes\n"
             "  %-26s %22s %22s %22s\n",
             (long long)j->ask.batch, "", "bf16", "int8", "int4");
    snprintf(name, sizeof name, "unchanged (%s)", attention_name(&m));
    show_variant(j, rows, name, j->ask.model);
    if (m.kv_rank) { /* keys of nope + rope channels and values of v_dim, per head */
        m.head_dim = (m.nope + m.rope + m.v_dim) / 2;
        m.kv_rank = 0;
    }
    m.n_kv_head = m.n_head;
    snprintf(name, sizeof name, "a KV head per head: %lld", (long long)m.n_head);
    show_variant(j, rows, name, &m);
    m.n_kv_head = 1;
    show_variant(j, rows, "one KV head", &m);
}

/* ---- the plot ---- */

static bool plot(const ts_plan_job *j)
{
    const ts_plan_ask *a = &j->ask;
    double             x[N_POINTS], y[N_NARROW + 1][N_POINTS];
    ts_series          series[N_NARROW + 1];
    char               title[160];
    ts_plan_memory     m;
    ts_plan_memory_of(a, &m);
    const double left = ts_plan_gib(m.capacity - m.weights - m.activations - m.reserve);
    for (int i = 0; i < N_POINTS; i++) x[i] = (double)(INT64_C(1024) << i), y[N_NARROW][i] = left;
    for (int k = 0; k < N_NARROW; k++) {
        ts_plan_ask b = ts_plan_with(a, NARROW[k]);
        for (int i = 0; i < N_POINTS; i++) {
            b.context = (int64_t)x[i];
            y[k][i] = ts_plan_gib(ts_plan_cache_bytes(&b));
        }
        series[k] = (ts_series) { ts_plan_store_name(NARROW[k]), y[k] };
    }
    series[N_NARROW] = (ts_series) { "memory left", y[N_NARROW] };
    snprintf(title, sizeof title, "%.60s on %lld x %s: the cache at batch %lld", a->model->id,
             (long long)a->n_gpu, a->gpu->id, (long long)a->batch);
    return ts_svg_write(j->svg,
                        &(ts_plot) { title, "tokens per sequence", "GiB per GPU", x, N_POINTS,
                                     series, left > 0 ? N_NARROW + 1 : N_NARROW },
                        1);
}

bool ts_plan_show(const ts_plan_job *j)
{
    show_model(j);
    show_sizes(j);
    show_memory(j);
    show_limits(j);
    show_speed(j);
    show_growth(j);
    show_gains(j);
    return !j->svg || plot(j);
}
