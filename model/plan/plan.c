/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - computes what fits, and upper bounds of speed. */
#include <math.h>

#include "plan_impl.h"

/* Upper ends of searches: beyond any memory, without overflow in products. */
static const int64_t TOP_CONTEXT = INT64_C(1) << 40, TOP_BATCH = INT64_C(1) << 30;

/* Layers that keep the same number of tokens share a cache; a model has at most two such kinds. */
typedef struct kind {
    ts_kv_dims dims;
    int64_t    tokens; /* per sequence, that a decode step reads */
} kind;

/* The most pages that a window of consecutive tokens touches. */
static int64_t pages_of_window(int64_t window, int64_t page)
{
    return ts_ceil_div(window - 1, page) + 1;
}

static kind kind_of(const ts_plan_ask *a, const ts_plan_model *s, int64_t n_layer, int64_t window)
{
    const ts_plan_cache *c = &a->cache;
    const int64_t        seen = window ? ts_lesser(a->context, window) : a->context;
    const int64_t        kept = c->keep_all ? a->context : seen;
    int64_t              n_pages = c->page ? ts_ceil_div(a->context, c->page) : 0;
    if (c->page && window && !c->keep_all)
        n_pages = ts_lesser(n_pages, pages_of_window(window, c->page));
    return (kind) {
        .dims = { .n_layer = n_layer,
                  .n_seq_max = a->batch,
                  .n_q_head = s->n_head,
                  .n_kv_head = s->kv_rank ? 1 : s->n_kv_head,
                  .head_dim = s->kv_rank ? s->kv_rank + s->rope : s->head_dim,
                  .capacity = c->page ? ts_times(n_pages, c->page) : kept,
                  .page = c->page,
                  .n_page = ts_times(ts_times(a->batch, n_layer), n_pages),
                  .key_group = c->key_group,
                  .key_axis = c->axis,
                  .io_dtype = c->io,
                  .store_dtype = c->store,
                  .meta_dtype = c->meta },
        .tokens = seen,
    };
}

static int kinds_of(const ts_plan_ask *a, const ts_plan_model *s, kind k[2])
{
    int           n = 0;
    const int64_t full = s->n_layer - s->n_linear_layer - s->n_window_layer;
    if (full) k[n++] = kind_of(a, s, full, 0);
    if (s->n_window_layer) k[n++] = kind_of(a, s, s->n_window_layer, s->window);
    return n;
}

/* Of one sequence: a float32 matrix per value head, and the 16-bit inputs that the convolution of
 * the next token needs. */
static int64_t state_of(const ts_plan_model *s)
{
    const int64_t value = s->n_linear_value * s->linear_value_dim;
    const int64_t inputs = 2 * s->n_linear_key * s->linear_key_dim + value;
    if (!s->n_linear_layer) return 0;
    return ts_times(s->n_linear_layer, 4 * value * s->linear_key_dim + 2 * inputs * (s->conv - 1));
}

int64_t ts_plan_state_bytes(const ts_plan_ask *a)
{
    const ts_plan_model s = ts_plan_share(a->model, a->n_gpu);
    return ts_times(state_of(&s), a->batch);
}

int64_t ts_plan_cache_bytes(const ts_plan_ask *a)
{
    const ts_plan_model s = ts_plan_share(a->model, a->n_gpu);
    int64_t             sum = ts_plan_state_bytes(a);
    kind                k[2];
    for (int i = 0, n = kinds_of(a, &s, k); i < n; i++) {
        ts_plan_kv kv;
        ts_plan_kv_bytes(&k[i].dims, TS_CUDA, s.kv_rank > 0, &kv);
        sum = ts_plus(sum, kv.state);
    }
    return sum;
}

/* For all sequences. */
static int64_t live(const kind *k, bool latent, int64_t n)
{
    return ts_times(ts_plan_kv_live(&k->dims, latent, n),
                    ts_times(k->dims.n_layer, k->dims.n_seq_max));
}

int64_t ts_plan_cache_live(const ts_plan_ask *a)
{
    const ts_plan_model s = ts_plan_share(a->model, a->n_gpu);
    int64_t             sum = ts_plan_state_bytes(a);
    kind                k[2];
    for (int i = 0, n = kinds_of(a, &s, k); i < n; i++)
        sum =
            ts_plus(sum, live(&k[i], s.kv_rank > 0, a->cache.keep_all ? a->context : k[i].tokens));
    return sum;
}

/* Numbers per token in the widest attention: q (and its gate), the output, k and v. */
static int64_t attention_width(const ts_plan_model *s)
{
    const int64_t value = s->n_linear_value * s->linear_value_dim;
    const int64_t linear = 2 * s->n_linear_key * s->linear_key_dim + 3 * value;
    if (s->kv_rank) return s->n_head * (s->nope + s->rope + s->v_dim) * 2;
    const int64_t full = ((s->q_gate ? 3 : 2) * s->n_head + 2 * s->n_kv_head) * s->head_dim;
    return linear > full ? linear : full;
}

/* An estimate: per token of a step, the residual and two normed copies, the numbers of the widest
 * attention, and both halves of the widest feed-forward; and float32 logits per sequence. */
static int64_t activations(const ts_plan_ask *a)
{
    const ts_plan_model s = ts_plan_share(a->model, a->n_gpu);
    const int64_t       tokens = ts_lesser(a->chunk, ts_times(a->batch, a->context)) + a->batch;
    const int64_t       experts = (s.n_expert_used + s.n_expert_shared) * s.n_expert_ffn;
    const int64_t       ffn = experts > s.n_ffn ? experts : s.n_ffn;
    const int64_t       numbers = 3 * s.width + attention_width(&s) + 2 * ffn;
    const int64_t       each = numbers * (a->weights == TS_W_F32 ? 4 : 2);
    return ts_plus(ts_times(tokens, each), ts_times(ts_times(a->batch, s.n_vocab), 4));
}

void ts_plan_memory_of(const ts_plan_ask *a, ts_plan_memory *m)
{
    const double gib = 1073741824.0;
    m->capacity = (int64_t)(a->gpu->gib * gib);
    m->reserve = (int64_t)(a->reserve_gib * gib);
    m->weights = ts_plan_weight_bytes(a->model, a->n_gpu, a->weights);
    m->cache = ts_plan_cache_bytes(a);
    m->waste = m->cache - ts_plan_cache_live(a);
    m->activations = activations(a);
    m->total = ts_plus(ts_plus(m->weights, m->cache), ts_plus(m->activations, m->reserve));
    m->missing = m->total > m->capacity ? m->total - m->capacity : 0;
}

static bool fits(const ts_plan_ask *a)
{
    ts_plan_memory m;
    ts_plan_memory_of(a, &m);
    return !m.missing;
}

/* The largest value up to `top` of *what, a field of *a, that fits. Binary search: memory never
 * decreases with it. */
static int64_t largest(ts_plan_ask *a, int64_t *what, int64_t top)
{
    int64_t low = 0, high = top;
    while (low < high) {
        *what = low + (high - low + 1) / 2;
        if (fits(a)) low = *what;
        else high = *what - 1;
    }
    return low;
}

int64_t ts_plan_max_context(const ts_plan_ask *a)
{
    ts_plan_ask b = *a;
    return largest(&b, &b.context, TOP_CONTEXT);
}

int64_t ts_plan_max_batch(const ts_plan_ask *a)
{
    ts_plan_ask b = *a;
    return largest(&b, &b.batch, TOP_BATCH);
}

static bool check_range(const char *option, int64_t value, int64_t most, char why[TS_PLAN_WHY])
{
    return (value >= 1 && value <= most) || ts_say(why, "%s: got %lld, expected 1 to %lld", option,
                                                   (long long)value, (long long)most);
}

bool ts_plan_check(const ts_plan_ask *a, char why[TS_PLAN_WHY])
{
    const ts_plan_model *m = a->model;
    const ts_plan_cache *c = &a->cache;
    const long long      n_gpu = (long long)a->n_gpu;
    if (!check_range("--gpus", a->n_gpu, TOP_BATCH, why) ||
        !check_range("--batch", a->batch, TOP_BATCH, why) ||
        !check_range("--context", a->context, TOP_CONTEXT, why) ||
        !check_range("--chunk", a->chunk, TOP_CONTEXT, why))
        return false;
    if (m->n_head % a->n_gpu)
        return ts_say(why, "%s: %lld query heads cannot be divided among %lld GPUs", m->id,
                      (long long)m->n_head, n_gpu);
    if (!m->kv_rank && m->n_kv_head % a->n_gpu && a->n_gpu % m->n_kv_head)
        return ts_say(why, "%s: %lld KV heads cannot be divided among %lld GPUs", m->id,
                      (long long)m->n_kv_head, n_gpu);
    if (m->n_linear_layer && (m->n_linear_value % a->n_gpu ||
                              (m->n_linear_key % a->n_gpu && a->n_gpu % m->n_linear_key)))
        return ts_say(why, "%s: %lld and %lld linear heads cannot be divided among %lld GPUs",
                      m->id, (long long)m->n_linear_key, (long long)m->n_linear_value, n_gpu);
    if (a->weights == TS_W_FILE && !m->file_bytes)
        return ts_say(why, "%s: --weights: got file, but no weights were read; expected a dtype",
                      m->id);
    if (c->page < 0 || c->key_group < 1)
        return ts_say(why, "--page: expected at least 0; --key-group: at least 1");
    if (c->axis == TS_KEY_CHANNEL && c->page % c->key_group)
        return ts_say(why, "--page: got %lld tokens, expected a multiple of the key group, %lld",
                      (long long)c->page, (long long)c->key_group);
    return true;
}

/* ---- how fast at most ---- */

static double rate(const ts_plan_gpu *g, ts_plan_weight w)
{
    double tera = g->bf16; /* MXFP4, int4 and ternary are converted to bf16 before the matmul */
    if (w == TS_W_F32) tera = g->bf16 / 2; /* TF32 has half the rate on all of these */
    if (w == TS_W_FP8 && g->fp8 > 0) tera = g->fp8;
    if (w == TS_W_INT8 && g->int8t > 0) tera = g->int8t;
    return tera * 1e12;
}

/* The expected share of experts that n tokens use, if each chooses at random. */
static double experts_met(const ts_plan_model *m, double n)
{
    return 1 - pow(1 - (double)m->n_expert_used / (double)m->n_expert, n);
}

/* `tokens` go through the matrices, `rows` of them through the head. */
static void weigh(const ts_plan_ask *a, double tokens, double rows, double *flops, double *bytes)
{
    ts_plan_part p[TS_PLAN_PARTS];
    double       all = 0;
    *flops = *bytes = 0;
    for (int i = 0, n = ts_plan_parts(a->model, a->n_gpu, p); i < n; i++) {
        const double each = 2.0 * (double)p[i].rows * (double)p[i].cols * (double)p[i].count;
        const double used = (double)a->model->n_expert_used;
        double       size = (double)ts_plan_part_bytes(&p[i], a->weights);
        all += size;
        if (p[i].use == TS_USE_ALL) *flops += each * tokens;
        if (p[i].use == TS_USE_HEAD) *flops += each * rows;
        if (p[i].use == TS_USE_EXPERT) {
            *flops += each * tokens * used / (double)a->model->n_expert;
            size *= experts_met(a->model, tokens);
        }
        if (p[i].use == TS_USE_LOOKUP) size *= fmin(1, tokens / (double)a->model->n_vocab);
        *bytes += size;
    }
    if (a->weights ==
        TS_W_FILE) /* the parts were counted as bf16; on disk they may have any dtype */
        *bytes *= (double)ts_plan_weight_bytes(a->model, a->n_gpu, TS_W_FILE) / all;
}

static void finish(const ts_plan_ask *a, double matrix_flops, double attention_flops, double tokens,
                   ts_plan_bound *b)
{
    const double bandwidth = a->gpu->gbs * 1e9;
    b->flops = matrix_flops + attention_flops;
    b->bytes = b->weight_bytes + b->cache_bytes;
    b->intensity = b->flops / b->bytes;
    b->compute_s =
        matrix_flops / rate(a->gpu, a->weights) + attention_flops / (a->gpu->bf16 * 1e12);
    b->memory_s = b->bytes / bandwidth;
    b->ridge = b->flops / b->compute_s / bandwidth;
    b->seconds = fmax(b->compute_s, b->memory_s);
    b->tokens_per_s = tokens / b->seconds;
}

/* Flops of a query for one key and its value, over all heads. With latents, a decode step folds
 * kv_up into query and result; a prefill expands keys and values instead. */
static double pair_flops(const ts_plan_model *s, bool folded)
{
    if (!s->kv_rank) return 4.0 * (double)(s->n_head * s->head_dim);
    if (folded) return 2.0 * (double)(s->n_head * (2 * s->kv_rank + s->rope));
    return 2.0 * (double)(s->n_head * (s->nope + s->rope + s->v_dim));
}

/* Flops of a token for the states: decay, two products with the state and an outer product. */
static double state_flops(const ts_plan_model *s)
{
    const int64_t one = s->n_linear_value * s->linear_value_dim * s->linear_key_dim;
    return 7.0 * (double)one * (double)s->n_linear_layer;
}

void ts_plan_decode(const ts_plan_ask *a, ts_plan_bound *b)
{
    const ts_plan_model s = ts_plan_share(a->model, a->n_gpu);
    const double        batch = (double)a->batch;
    double              matrices, pairs = 0;
    kind                k[2];
    *b = (ts_plan_bound) { 0 };
    weigh(a, batch, batch, &matrices, &b->weight_bytes);
    for (int i = 0, n = kinds_of(a, &s, k); i < n; i++) {
        const double read = (double)live(&k[i], s.kv_rank > 0, k[i].tokens);
        b->cache_bytes +=
            read + read / (double)k[i].tokens; /* plus the new token, which is written */
        pairs += (double)k[i].tokens * (double)k[i].dims.n_layer * batch;
    }
    b->cache_bytes += 2.0 * (double)ts_plan_state_bytes(a); /* read and written */
    finish(a, matrices, pairs * pair_flops(&s, true) + state_flops(&s) * batch, batch, b);
}

/* Every step reads all weights, and the cache of the steps before it. */
void ts_plan_prefill(const ts_plan_ask *a, ts_plan_bound *b)
{
    const ts_plan_model s = ts_plan_share(a->model, a->n_gpu);
    const double        n = (double)a->context, batch = (double)a->batch;
    const double        steps = ceil(n * batch / (double)a->chunk);
    const double        own = fmax(ceil(n / (double)a->chunk), 1); /* steps of one sequence */
    double              matrices, pairs = 0;
    kind                k[2];
    *b = (ts_plan_bound) { 0 };
    weigh(a, n * batch / steps, batch / steps, &matrices, &b->weight_bytes);
    matrices *= steps;
    b->weight_bytes *= steps;
    for (int i = 0, n_kind = kinds_of(a, &s, k); i < n_kind; i++) {
        const double w = (double)k[i].tokens;
        const double written = (double)live(&k[i], s.kv_rank > 0, a->context);
        const double kept = written * w / n;
        b->cache_bytes += written + kept * (w < n ? own - 1 : (own - 1) / 2);
        pairs += (w * (w + 1) / 2 + (n - w) * w) * (double)k[i].dims.n_layer * batch;
    }
    b->cache_bytes +=
        (double)ts_plan_state_bytes(a) * (2 * own - 1); /* the first step reads none */
    finish(a, matrices, pairs * pair_flops(&s, false) + state_flops(&s) * n * batch, n * batch, b);
}
