/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda.c - a net on a CUDA device: its memory there, and what goes to and fro. */
#include <stdlib.h>

#include "net_cuda.h"
#include "scratch.h"
#include "touchstone/ternary.h"

enum {
    LOGITS = 1 << 29, /* that are in memory at once, at most */
    HEAD_ROWS = 128,  /* what their number of rows is a multiple of */
};

/* ---- memory ---- */

static void lay_layer(const ts_net *n, ts_cuda_layer *y, char *base, size_t *used)
{
    const ts_decoder_dims *d = &n->o.dims;
    const size_t           size = n->cuda->size;
    const int64_t          n_q = n->n * d->n_head, n_kv = n->n * d->n_kv_head;
    y->x = ts_cut(base, used, n->n * d->width, sizeof(float));
    y->middle = ts_cut(base, used, n->n * d->width, sizeof(float));
    y->rstd_1 = ts_cut(base, used, n->n, sizeof(float));
    y->rstd_2 = ts_cut(base, used, n->n, sizeof(float));
    y->h_1 = ts_cut(base, used, n->n * d->width, size);
    y->h_2 = ts_cut(base, used, n->n * d->width, size);
    y->q_raw = ts_cut(base, used, n_q * d->head_dim, size);
    y->k_raw = ts_cut(base, used, n_kv * d->head_dim, size);
    y->rstd_q = ts_cut(base, used, n_q, sizeof(float));
    y->rstd_k = ts_cut(base, used, n_kv, sizeof(float));
    y->q = ts_cut(base, used, n_q * d->head_dim, size);
    y->k = ts_cut(base, used, n_kv * d->head_dim, size);
    y->v = ts_cut(base, used, n_kv * d->head_dim, size);
    y->out = ts_cut(base, used, n_q * d->head_dim, size);
    y->gate_up = ts_cut(base, used, 2 * n->n * d->n_ffn, size);
    y->act = ts_cut(base, used, n->n * d->n_ffn, size);
    y->lse = ts_cut(base, used, n_q, sizeof(float));
}

static void lay_beside(const ts_net *n, ts_cuda_beside *b, char *base, size_t *used)
{
    const ts_decoder_dims *d = &n->o.dims;
    const ts_net_cuda     *c = n->cuda;
    const bool             same = c->type == TS_F32; /* then dx itself is what is read */
    b->d_down = ts_cut(base, used, same ? 0 : n->n * d->width, c->size);
    b->d_gate_up = ts_cut(base, used, 2 * n->n * d->n_ffn, c->size);
    b->d_o = ts_cut(base, used, same ? 0 : n->n * d->width, c->size);
    b->d_q = ts_cut(base, used, n->n * d->n_head * d->head_dim, c->size);
    b->d_k = ts_cut(base, used, n->n * d->n_kv_head * d->head_dim, c->size);
    b->d_v = ts_cut(base, used, n->n * d->n_kv_head * d->head_dim, c->size);
    if (!same) return;
    b->d_down = c->dx[0];
    b->d_o = c->dx[1];
}

static void lay_pass(const ts_net *n, ts_net_cuda *c, char *base, size_t *used)
{
    const ts_decoder_dims *d = &n->o.dims;
    const int64_t q = n->n * d->n_head * d->head_dim, kv = n->n * d->n_kv_head * d->head_dim;
    const int64_t wide = n->n * d->width;
    c->x = ts_cut(base, used, wide, sizeof(float));
    c->dx[0] = ts_cut(base, used, wide, sizeof(float));
    c->dx[1] = ts_cut(base, used, wide, sizeof(float));
    c->t = ts_cut(base, used, wide, sizeof(float));
    c->y = ts_cut(base, used, wide, sizeof(float));
    c->dh = ts_cut(base, used, wide, sizeof(float));
    c->rstd = ts_cut(base, used, n->n, sizeof(float));
    c->h = ts_cut(base, used, wide, c->size);
    c->dq = ts_cut(base, used, q, c->size);
    c->dk = ts_cut(base, used, kv, c->size);
    c->dout = ts_cut(base, used, q, c->size);
    c->d_act = ts_cut(base, used, n->n * d->n_ffn, c->size);
    for (int i = 0; i < TS_CUDA_BESIDES; i++) lay_beside(n, &c->beside[i], base, used);
    c->logits = ts_cut(base, used, c->n_head_row * c->n_logit, c->size);
    c->row = ts_cut(base, used, c->n_head_row, sizeof(float));
    c->total = ts_cut(base, used, 1, sizeof(float));
    c->frequency = ts_cut(base, used, d->head_dim / 2, sizeof *c->frequency);
    c->position = ts_cut(base, used, n->n, sizeof *c->position);
    c->norm = ts_cut(base, used, 2 + TS_CUDA_NORMS, sizeof *c->norm);
}

static size_t lay(const ts_net *n, ts_net_cuda *c, char *base)
{
    size_t used = 0;
    c->weight = ts_cut(base, &used, n->n_count, sizeof(float));
    c->gradient = ts_cut(base, &used, n->n_count, sizeof(float));
    c->serving = ts_cut(base, &used, c->how == TS_SERVE_SAME ? 0 : n->n_count, c->size);
    for (int64_t l = 0; l < n->o.dims.n_layer; l++) lay_layer(n, &c->layer[l], base, &used);
    lay_pass(n, c, base, &used);
    c->in_memory = ts_cut(base, &used, (int64_t)c->in_bytes, 1);
    c->result_memory = ts_cut(base, &used, (int64_t)c->result_bytes, 1);
    if (c->how == TS_SERVE_SAME) c->serving = c->weight;
    return used;
}

static size_t lay_input(ts_cuda_input *i, char *base, int64_t n)
{
    size_t used = 0;
    i->row = ts_cut(base, &used, n, sizeof *i->row);
    i->target = ts_cut(base, &used, n, sizeof *i->target);
    i->weight = ts_cut(base, &used, 1, sizeof *i->weight);
    return used;
}

static size_t lay_output(ts_cuda_output *o, char *base, int64_t n)
{
    size_t used = 0;
    o->loss = ts_cut(base, &used, n, sizeof *o->loss);
    o->top = ts_cut(base, &used, n, sizeof *o->top);
    o->n_bad = ts_cut(base, &used, 1, sizeof *o->n_bad);
    return used;
}

/* ---- begin and end ---- */

static bool check(const ts_net_options *o, char why[TS_MODEL_WHY])
{
    const ts_decoder_dims *d = &o->dims;
    const struct {
        const char *name;
        int64_t     value;
    } widths[] = { { "width", d->width },
                   { "head size", d->head_dim },
                   { "feed-forward width", d->n_ffn } };
    for (int i = 0; i < 3; i++)
        if (widths[i].value % TS_CUDA_EACH)
            return ts_say(why, "%s: got %lld, expected a multiple of %d on a CUDA device",
                          widths[i].name, (long long)widths[i].value, (int)TS_CUDA_EACH);
    return true;
}

/* Angles of the rotation. */
static bool put_angles(const ts_net *n)
{
    const ts_net_cuda *c = n->cuda;
    const int64_t      half = n->o.dims.head_dim / 2;
    double            *frequency = malloc((size_t)half * sizeof *frequency);
    int32_t           *position = malloc((size_t)n->n * sizeof *position);
    const bool         ok = frequency && position;
    for (int64_t i = 0; ok && i < half; i++) frequency[i] = ts_rope_frequency(&n->o.dims, i);
    for (int64_t i = 0; ok && i < n->n; i++) position[i] = (int32_t)(i % n->o.n_token);
    if (ok) c->ops->put(c->self, c->frequency, frequency, (size_t)half * sizeof *frequency);
    if (ok) c->ops->put(c->self, c->position, position, (size_t)n->n * sizeof *position);
    free(frequency);
    free(position);
    return ok;
}

static void choose(const ts_net *n, ts_net_cuda *c)
{
    const ts_decoder_dims *d = &n->o.dims;
    const int64_t          head = LOGITS / d->n_vocab / HEAD_ROWS * HEAD_ROWS;
    c->type = n->o.dtype;
    c->size = c->type == TS_BF16 ? 2 : sizeof(float);
    c->how = n->o.paired          ? TS_SERVE_PAIRED
             : n->o.ternary       ? TS_SERVE_TERNARY
             : c->type == TS_BF16 ? TS_SERVE_COPY
                                  : TS_SERVE_SAME;
    c->flat = !n->o.ternary ||
              (!n->o.paired && d->width % TS_TERNARY_GROUP == 0 &&
               d->n_ffn % TS_TERNARY_GROUP == 0 && d->n_head * d->head_dim % TS_TERNARY_GROUP == 0);
    c->clean = true;
    c->n_head_row = head < HEAD_ROWS ? HEAD_ROWS : head;
    if (c->n_head_row > n->n) c->n_head_row = n->n;
    c->n_logit = (d->n_vocab + TS_CUDA_EACH - 1) / TS_CUDA_EACH * TS_CUDA_EACH;
    c->exec = (ts_exec) { .device = TS_CUDA, .deterministic = 1 };
}

static bool allocate(ts_net *n, char why[TS_MODEL_WHY])
{
    ts_net_cuda *c = n->cuda;
    c->layer = calloc((size_t)n->o.dims.n_layer, sizeof *c->layer);
    c->in_bytes = lay_input(&c->in, NULL, n->n);
    c->result_bytes = lay_output(&c->result, NULL, n->n);
    c->host_memory = malloc(c->in_bytes);
    c->seen_memory = malloc(c->result_bytes);
    if (!c->layer || !c->host_memory || !c->seen_memory)
        return ts_say(why, "out of memory for a batch");
    lay_input(&c->host, c->host_memory, n->n);
    lay_output(&c->seen, c->seen_memory, n->n);
    if (!ts_memory_take(TS_CUDA, lay(n, c, NULL), "network", &c->memory, why)) return false;
    lay(n, c, c->memory);
    lay_input(&c->in, c->in_memory, n->n);
    lay_output(&c->result, c->result_memory, n->n);
    return ts_cuda_workspace(n, &c->exec, why);
}

bool ts_net_cuda_make(ts_net *n, char why[TS_MODEL_WHY])
{
    const ts_train_module *ops = NULL;
    if (!check(&n->o, why) || !ts_train_module_load(&ops, why)) return false;
    n->cuda = calloc(1, sizeof *n->cuda);
    if (!n->cuda) return ts_say(why, "out of memory for a net");
    n->cuda->ops = ops;
    choose(n, n->cuda);
    if (!ops->open(&n->cuda->self, why, TS_MODEL_WHY)) return false;
    n->cuda->exec.stream = ops->stream(n->cuda->self);
    if (!allocate(n, why)) return false;
    ops->clear(n->cuda->self, n->cuda->result_memory, n->cuda->result_bytes);
    if (!put_angles(n)) return ts_say(why, "out of memory for a rotation");
    const ts_status s = ts_net_cuda_push(n, TS_NET_WEIGHTS);
    return !s || ts_say(why, "weights: cannot be copied to the CUDA device");
}

void ts_net_cuda_free(ts_net *n)
{
    ts_net_cuda *c = n->cuda;
    if (!c) return;
    for (int k = 0; k < TS_PASSES; k++) c->ops->forget(c->self, c->recording[k]);
    if (c->self) c->ops->close(c->self);
    ts_memory_give(TS_CUDA, c->memory);
    ts_memory_give(TS_CUDA, c->moments);
    ts_memory_give(TS_CUDA, c->exec.workspace);
    free(c->layer);
    free(c->host_memory);
    free(c->seen_memory);
    free(c);
    n->cuda = NULL;
}

/* ---- to and from the host ---- */

static size_t count_bytes(const ts_net *n)
{
    return (size_t)n->n_count * sizeof(float);
}

void ts_cuda_settle(const ts_net *n)
{
    const ts_net_cuda *c = n->cuda;
    if (c->clean) c->ops->clear(c->self, c->gradient, count_bytes(n));
}

ts_status ts_net_cuda_pull(ts_net *n, unsigned parts)
{
    const ts_net_cuda *c = n->cuda;
    ts_status          s = TS_OK;
    if (parts & TS_NET_WEIGHTS) s = c->ops->get(c->self, n->weight, c->weight, count_bytes(n));
    if (!s && parts & TS_NET_GRADIENT) {
        ts_cuda_settle(n);
        s = c->ops->get(c->self, n->gradient, c->gradient, count_bytes(n));
    }
    if (!s && parts & TS_NET_MOMENTS && c->moments)
        s = c->ops->get(c->self, n->moments, c->moments, 2 * count_bytes(n));
    return s;
}

ts_status ts_net_cuda_push(ts_net *n, unsigned parts)
{
    ts_net_cuda *c = n->cuda;
    if (parts & TS_NET_WEIGHTS) {
        c->ops->put(c->self, c->weight, n->weight, count_bytes(n));
        c->fresh = c->how == TS_SERVE_SAME;
    }
    if (parts & TS_NET_GRADIENT) {
        c->ops->put(c->self, c->gradient, n->gradient, count_bytes(n));
        c->clean = false;
    }
    if (parts & TS_NET_MOMENTS && c->moments)
        c->ops->put(c->self, c->moments, n->moments, 2 * count_bytes(n));
    return c->ops->wait(c->self);
}

bool ts_net_cuda_begin(ts_net *n)
{
    ts_net_cuda *c = n->cuda;
    char         why[TS_MODEL_WHY];
    if (!c->moments && !ts_memory_take(TS_CUDA, 2 * count_bytes(n), "moments", &c->moments, why))
        return false;
    c->ops->clear(c->self, c->moments, 2 * count_bytes(n));
    return true;
}

void ts_net_cuda_zero(ts_net *n)
{
    n->cuda->clean = true;
}
