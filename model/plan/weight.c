/* SPDX-License-Identifier: Apache-2.0 */
/* weight.c - the parts of a model, in one list from which bytes, parameters and arithmetic are
 * computed. */
#include "plan_impl.h"

const char *const ts_plan_weight_name[TS_N_WEIGHTS] = { "bf16", "f32",  "fp8",     "mxfp4",
                                                        "int8", "int4", "ternary", "file" };

/* Inputs per group of int4 and ternary, and of MXFP4; rows and columns of a block of fp8. */
enum { GROUP = 128, MX_GROUP = 32, BLOCK = 128 };

ts_plan_model ts_plan_share(const ts_plan_model *m, int64_t n_gpu)
{
    ts_plan_model s = *m;
    s.n_head = ts_ceil_div(m->n_head, n_gpu);
    s.n_kv_head = ts_ceil_div(m->n_kv_head, n_gpu); /* fewer heads than GPUs: each has one */
    s.n_ffn = ts_ceil_div(m->n_ffn, n_gpu);
    s.n_expert_ffn = ts_ceil_div(m->n_expert_ffn, n_gpu);
    s.n_vocab = ts_ceil_div(m->n_vocab, n_gpu);
    s.n_linear_key = ts_ceil_div(m->n_linear_key, n_gpu);
    s.n_linear_value = ts_ceil_div(m->n_linear_value, n_gpu);
    s.file_bytes = ts_ceil_div(m->file_bytes, n_gpu);
    return s;
}

typedef struct list {
    ts_plan_part *part;
    int           n;
    bool          mixture;
} list;

static void add(list *l, const char *name, int64_t rows, int64_t cols, int64_t count,
                ts_plan_use use, bool narrow)
{
    if (rows && cols && count)
        l->part[l->n++] = (ts_plan_part) {
            name, rows, cols, count, use, narrow, use == TS_USE_EXPERT || !l->mixture
        };
}

static void matrix(list *l, const char *name, int64_t rows, int64_t cols, int64_t count)
{
    add(l, name, rows, cols, count, TS_USE_ALL, true);
}

static void vector(list *l, const char *name, int64_t n, int64_t count)
{
    add(l, name, 1, n, count, TS_USE_VECTOR, false);
}

static void latent_attention(list *l, const ts_plan_model *m)
{
    const int64_t q_in = m->q_rank ? m->q_rank : m->width;
    matrix(l, "q_down", m->q_rank, m->width, m->n_layer);
    vector(l, "q_norm", m->q_rank, m->n_layer);
    matrix(l, "q_up", m->n_head * (m->nope + m->rope), q_in, m->n_layer);
    matrix(l, "kv_down", m->kv_rank + m->rope, m->width, m->n_layer);
    vector(l, "kv_norm", m->kv_rank, m->n_layer);
    matrix(l, "kv_up", m->n_head * (m->nope + m->v_dim), m->kv_rank, m->n_layer);
    matrix(l, "o", m->width, m->n_head * m->v_dim, m->n_layer);
}

static void attention(list *l, const ts_plan_model *m)
{
    const int64_t q = m->n_head * m->head_dim, kv = m->n_kv_head * m->head_dim;
    const int64_t n = m->n_layer - m->n_linear_layer;
    matrix(l, "q", q, m->width, n);
    if (m->q_gate) matrix(l, "q gate", q, m->width, n);
    matrix(l, "k and v", kv, m->width, 2 * n);
    matrix(l, "o", m->width, q, n);
    if (m->qkv_bias) vector(l, "q, k and v bias", q + 2 * kv, n);
    if (m->o_bias) vector(l, "o bias", m->width, n);
    if (m->qk_norm) vector(l, "q and k norm", m->head_dim, 2 * n);
    if (m->sinks) vector(l, "sinks", m->n_head, n);
}

static void linear_attention(list *l, const ts_plan_model *m)
{
    const int64_t value = m->n_linear_value * m->linear_value_dim, n = m->n_linear_layer;
    const int64_t mixed = 2 * m->n_linear_key * m->linear_key_dim + value;
    matrix(l, "linear q, k and v", mixed, m->width, n);
    matrix(l, "linear gate", value, m->width, n);
    matrix(l, "linear o", m->width, value, n);
    add(l, "decay and step", m->n_linear_value, m->width, 2 * n, TS_USE_ALL, false);
    vector(l, "convolution", mixed * m->conv, n);
    vector(l, "decay and step bias", m->n_linear_value, 2 * n);
    vector(l, "linear norm", m->linear_value_dim, n);
}

static void ffn(list *l, const ts_plan_model *m)
{
    const int64_t ups = m->plain_ffn ? 1 : 2;
    const int64_t dense = m->n_expert ? m->n_dense_layer : m->n_layer, mixed = m->n_layer - dense;
    const int64_t experts = ts_times(mixed, m->n_expert), shared = mixed * m->n_expert_shared;
    matrix(l, "ffn up", m->n_ffn, m->width, ups * dense);
    matrix(l, "ffn down", m->width, m->n_ffn, dense);
    if (m->ffn_bias) vector(l, "ffn bias", ups * m->n_ffn + m->width, dense);
    if (!m->n_expert) return;
    add(l, "router", m->n_expert, m->width, mixed, TS_USE_ALL, false);
    if (m->ffn_bias || m->router_bias) vector(l, "router bias", m->n_expert, mixed);
    if (m->shared_gate) vector(l, "shared expert gate", m->width, mixed);
    matrix(l, "shared expert up", m->n_expert_ffn, m->width, ups * shared);
    matrix(l, "shared expert down", m->width, m->n_expert_ffn, shared);
    add(l, "expert up", m->n_expert_ffn, m->width, ups * experts, TS_USE_EXPERT, true);
    add(l, "expert down", m->width, m->n_expert_ffn, experts, TS_USE_EXPERT, true);
    if (m->ffn_bias)
        add(l, "expert bias", 1, ups * m->n_expert_ffn + m->width, experts, TS_USE_EXPERT, false);
}

int ts_plan_parts(const ts_plan_model *whole, int64_t n_gpu, ts_plan_part part[TS_PLAN_PARTS])
{
    const ts_plan_model m = ts_plan_share(whole, n_gpu);
    const int64_t       n_norm = (m.n_norm ? m.n_norm : 2) * m.n_layer + 1;
    list                l = { part, 0, m.n_expert > 0 };
    if (!m.tied) add(&l, "embedding", m.n_vocab, m.width, 1, TS_USE_LOOKUP, false);
    add(&l, m.tied ? "embedding and head" : "head", m.n_vocab, m.width, 1, TS_USE_HEAD, false);
    vector(&l, "norm", m.width, m.norm_bias ? 2 * n_norm : n_norm);
    if (m.kv_rank) latent_attention(&l, &m);
    else attention(&l, &m);
    linear_attention(&l, &m);
    ffn(&l, &m);
    return l.n;
}

/* Bytes of a row of n inputs. int8: one float32 scale per row. int4: two codes per byte, and a
 * float16 scale and offset per group. MXFP4: 16 bytes and a byte of scale per group; ternary: 32
 * bytes and a float16 scale; the last group is padded. fp8: without its scales. */
static int64_t row_bytes(ts_plan_weight w, int64_t n)
{
    if (w == TS_W_F32) return ts_times(n, 4);
    if (w == TS_W_FP8) return n;
    if (w == TS_W_INT8) return n + 4;
    if (w == TS_W_MXFP4) return ts_times(ts_ceil_div(n, MX_GROUP), MX_GROUP / 2 + 1);
    if (w == TS_W_INT4) return ts_ceil_div(n, 2) + 4 * ts_ceil_div(n, GROUP);
    if (w == TS_W_TERNARY) return ts_times(ts_ceil_div(n, GROUP), GROUP / 4 + 2);
    return ts_times(n, 2);
}

int64_t ts_plan_part_bytes(const ts_plan_part *p, ts_plan_weight w)
{
    if (w == TS_W_MXFP4 && !p->mxfp4) w = TS_W_BF16;
    if (!p->narrow && w != TS_W_F32) w = TS_W_BF16;
    const int64_t blocks = ts_times(ts_ceil_div(p->rows, BLOCK), ts_ceil_div(p->cols, BLOCK));
    const int64_t scales = w == TS_W_FP8 ? ts_times(blocks, 4) : 0;
    return ts_times(ts_plus(ts_times(p->rows, row_bytes(w, p->cols)), scales), p->count);
}

int64_t ts_plan_params(const ts_plan_model *m)
{
    ts_plan_part p[TS_PLAN_PARTS];
    int64_t      sum = 0;
    for (int i = 0, n = ts_plan_parts(m, 1, p); i < n; i++)
        sum = ts_plus(sum, ts_times(ts_times(p[i].rows, p[i].cols), p[i].count));
    return sum;
}

/* Of an embedding lookup only one row counts. */
int64_t ts_plan_active_params(const ts_plan_model *m)
{
    ts_plan_part p[TS_PLAN_PARTS];
    int64_t      sum = 0;
    for (int i = 0, n = ts_plan_parts(m, 1, p); i < n; i++) {
        int64_t count = p[i].count;
        if (p[i].use == TS_USE_LOOKUP) continue;
        if (p[i].use == TS_USE_EXPERT) count = count / m->n_expert * m->n_expert_used;
        sum = ts_plus(sum, ts_times(ts_times(p[i].rows, p[i].cols), count));
    }
    return sum;
}

int64_t ts_plan_weight_bytes(const ts_plan_model *m, int64_t n_gpu, ts_plan_weight w)
{
    ts_plan_part p[TS_PLAN_PARTS];
    int64_t      sum = 0;
    if (w == TS_W_FILE) return ts_plan_share(m, n_gpu).file_bytes;
    for (int i = 0, n = ts_plan_parts(m, n_gpu, p); i < n; i++)
        sum = ts_plus(sum, ts_plan_part_bytes(&p[i], w));
    return sum;
}
