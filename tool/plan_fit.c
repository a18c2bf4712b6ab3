/* SPDX-License-Identifier: Apache-2.0 */
/* plan_fit.c - what makes a plan fit that does not: one change of an option each, or two. */
#include <string.h>

#include "plan_view.h"

static bool fits(const ts_plan_ask *a)
{
    char           why[TS_PLAN_WHY];
    ts_plan_memory m;
    if (!ts_plan_check(a, why)) return false;
    ts_plan_memory_of(a, &m);
    return !m.missing;
}

/* Narrower weights, widest first. Neither ternary, which needs a model trained for it, nor MXFP4
 * unless the model is published so. */
static int narrower(const ts_plan_ask *a, ts_plan_weight out[TS_N_WEIGHTS])
{
    const ts_plan_weight all[] = { TS_W_BF16, a->gpu->fp8 > 0 ? TS_W_FP8 : TS_W_INT8,
                                   a->model->shipped == TS_W_MXFP4 ? TS_W_MXFP4 : TS_W_INT4,
                                   TS_W_INT4 };
    const int64_t        now = ts_plan_weight_bytes(a->model, a->n_gpu, a->weights);
    int                  n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (ts_plan_weight_bytes(a->model, a->n_gpu, all[i]) < now && (!n || out[n - 1] != all[i]))
            out[n++] = all[i];
    return n;
}

static int caches(const ts_plan_ask *a, ts_dtype out[3])
{
    static const ts_dtype all[] = { TS_BF16, TS_U8, TS_U4 };
    const int64_t         now = ts_plan_cache_bytes(a);
    int                   n = 0;
    for (int i = 0; i < 3; i++) {
        const ts_plan_ask b = ts_plan_with(a, all[i]);
        if (ts_plan_cache_bytes(&b) < now) out[n++] = all[i];
    }
    return n;
}

static const char *layout(const ts_plan_ask *a)
{
    return a->cache.page ? "paged" : "contiguous";
}

static int change_dtype(const ts_plan_ask *a, char way[][TS_PLAN_WAY])
{
    ts_plan_weight w[TS_N_WEIGHTS];
    ts_dtype       kv[3];
    const int      n_w = narrower(a, w), n_kv = caches(a, kv);
    int            n = 0;
    for (int i = 0; i < n_w && !n; i++) {
        ts_plan_ask b = *a;
        b.weights = w[i];
        if (fits(&b)) snprintf(way[n++], TS_PLAN_WAY, "--weights %s", ts_plan_weight_name[w[i]]);
    }
    for (int i = 0; i < n_kv; i++) {
        const ts_plan_ask b = ts_plan_with(a, kv[i]);
        if (!fits(&b)) continue;
        snprintf(way[n++], TS_PLAN_WAY, "--kv %s,%s", layout(a), ts_plan_store_name(kv[i]));
        break;
    }
    for (int i = 0; i < n_w && !n; i++)
        for (int k = 0; k < n_kv && !n; k++) {
            ts_plan_ask b = ts_plan_with(a, kv[k]);
            b.weights = w[i];
            if (fits(&b))
                snprintf(way[n++], TS_PLAN_WAY, "--weights %s --kv %s,%s",
                         ts_plan_weight_name[w[i]], layout(a), ts_plan_store_name(kv[k]));
        }
    return n;
}

/* The GPUs given, doubled until the model fits; 0: none is enough. */
static int64_t enough(const ts_plan_ask *a)
{
    ts_plan_ask b = *a;
    for (b.n_gpu = a->n_gpu * 2; b.n_gpu <= a->model->n_head; b.n_gpu *= 2)
        if (fits(&b)) return b.n_gpu;
    return 0;
}

/* Less than a quarter of the request is no useful suggestion. */
static int ask_less(const ts_plan_ask *a, char way[][TS_PLAN_WAY])
{
    const int64_t context = ts_plan_max_context(a), batch = ts_plan_max_batch(a);
    int           n = 0;
    if (context < a->context && context >= (a->context + 3) / 4)
        snprintf(way[n++], TS_PLAN_WAY, "--context %lld", (long long)context);
    if (batch < a->batch && batch >= (a->batch + 3) / 4)
        snprintf(way[n++], TS_PLAN_WAY, "--batch %lld", (long long)batch);
    return n;
}

/* More GPUs; or fewer of them with narrower weights, if nothing was found on these. */
static int add_gpus(const ts_plan_ask *a, bool found, char way[][TS_PLAN_WAY])
{
    ts_plan_weight w[TS_N_WEIGHTS];
    const int64_t  n_gpu = enough(a);
    int            n = 0;
    for (int i = 0, n_w = narrower(a, w); i < n_w && !found && !n; i++) {
        ts_plan_ask b = *a;
        b.weights = w[i];
        const int64_t fewer = enough(&b);
        if (fewer && (!n_gpu || fewer < n_gpu))
            snprintf(way[n++], TS_PLAN_WAY, "--weights %s --gpus %lld", ts_plan_weight_name[w[i]],
                     (long long)fewer);
    }
    if (n_gpu) snprintf(way[n++], TS_PLAN_WAY, "--gpus %lld", (long long)n_gpu);
    return n;
}

int ts_plan_ways(const ts_plan_ask *a, char way[TS_PLAN_WAYS][TS_PLAN_WAY])
{
    int n = 0;
    if (fits(a)) return 0;
    n += change_dtype(a, way + n);
    n += ask_less(a, way + n);
    return n + add_gpus(a, n > 0, way + n);
}

const char *ts_plan_ways_text(const ts_plan_ask *a, char text[TS_PLAN_WAYS * TS_PLAN_WAY])
{
    char      way[TS_PLAN_WAYS][TS_PLAN_WAY];
    const int n = ts_plan_ways(a, way);
    size_t    at = 0;
    text[0] = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, TS_PLAN_WAYS * TS_PLAN_WAY - at, "%s%s",
                               !i           ? ""
                               : i + 1 == n ? " or "
                                            : ", ",
                               way[i]);
    return text;
}
