/* SPDX-License-Identifier: Apache-2.0 */
/* net_cuda_pass.c - passes and steps of a net on a CUDA device. A pass is recorded when it comes a
 * second time, since it is hundreds of launches, and played from then on. */
#include <math.h>
#include <string.h>

#include "net_cuda.h"
#include "touchstone/adamw.h"

/* In float dx is read while it changes, so nothing may run on the second stream. */
static ts_status play(ts_net *n, ts_cuda_kind k)
{
    ts_net_cuda *c = n->cuda;
    if (c->watched || !c->n_pass[k]++) return ts_cuda_enqueue(n, k, false);
    if (!c->recording[k]) {
        c->ops->record(c->self);
        const ts_status s = ts_cuda_enqueue(n, k, k != TS_PASS_EVAL && c->type != TS_F32);
        c->recording[k] = c->ops->recorded(c->self);
        if (s || !c->recording[k]) return s ? s : TS_E_DEVICE;
    }
    c->ops->play(c->self, c->recording[k]);
    return TS_OK;
}

/* The effective weights, if they are out of date. */
static void project(ts_net *n)
{
    ts_net_cuda    *c = n->cuda;
    ts_cuda_project p = { .type = c->type, .how = c->how, .n_bad = c->result.n_bad };
    if (c->fresh) return;
    ts_cuda_part_is(n, TS_PART_PROJECT);
    c->ops->clear(c->self, p.n_bad, sizeof *p.n_bad);
    for (int64_t i = 0; i < n->n_param && n->param[i].shape.cols; i++) {
        const ts_param *w = &n->param[i];
        p.w = c->weight + w->at;
        p.y = (char *)c->serving + (size_t)w->at * c->size;
        p.rows = c->flat ? 1 : w->shape.rows;
        p.cols = c->flat ? n->n_matrix : w->shape.cols;
        c->ops->project(c->self, &p);
        if (c->flat) break;
    }
    p = (ts_cuda_project) {
        .type = c->type,
        .how = TS_SERVE_COPY,
        .w = c->weight + n->n_matrix,
        .y = (char *)c->serving + (size_t)n->n_matrix * c->size,
        .rows = 1,
        .cols = n->n_count - n->n_matrix,
    };
    c->ops->project(c->self, &p);
    c->fresh = true;
}

static void take(const ts_net *n, const ts_net_batch *b, double weight)
{
    const ts_net_cuda   *c = n->cuda;
    const ts_cuda_input *h = &c->host;
    memcpy(h->row, b->input, (size_t)n->n * sizeof *h->row);
    memcpy(h->target, b->target, (size_t)n->n * sizeof *h->target);
    *h->weight = (float)weight;
    c->ops->put(c->self, c->in_memory, c->host_memory, c->in_bytes);
}

ts_status ts_net_cuda_pass(ts_net *n, const ts_net_batch *b, bool back, double weight,
                           ts_net_score *score)
{
    ts_net_cuda       *c = n->cuda;
    const ts_cuda_kind k = !back ? TS_PASS_EVAL : c->clean ? TS_PASS_FIRST : TS_PASS_AGAIN;
    project(n);
    take(n, b, weight);
    const ts_status s = play(n, k);
    const ts_status waited =
        c->ops->get(c->self, c->seen_memory, c->result_memory, c->result_bytes);
    if (s || waited) return s ? s : waited;
    if (back) c->clean = false;
    if (*c->seen.n_bad) return TS_E_RANGE;
    double nll = 0;
    for (int64_t i = 0; i < n->n; i++) {
        if (b->target[i] < 0) continue;
        nll += c->seen.loss[i];
        score->n_count++;
        score->n_right += c->seen.top[i] == b->target[i];
    }
    score->nll += nll;
    return TS_OK;
}

/* ---- the optimiser ---- */

/* A bf16 copy is written in the same pass; a projection before the next pass. */
static ts_status enqueue_step(ts_net *n, const ts_adamw *how, int64_t step)
{
    ts_net_cuda             *c = n->cuda;
    const bool               copy = c->how == TS_SERVE_COPY;
    const ts_adamw_step_args a = {
        .dtype = copy ? c->type : TS_F32,
        .grad_dtype = TS_F32,
        .n = n->n_count,
        .n_decay = n->n_matrix,
        .step = step,
        .lr = how->lr,
        .beta1 = how->beta1,
        .beta2 = how->beta2,
        .eps = how->eps,
        .weight_decay = how->weight_decay,
        .scale = c->norm + 1,
        .grad = c->gradient,
        .w = copy ? c->serving : c->weight,
        .master = copy ? c->weight : NULL,
        .m = c->moments,
        .v = (float *)c->moments + n->n_count,
    };
    ts_cuda_settle(n);
    ts_cuda_part_is(n, TS_PART_ADAMW);
    c->ops->clip(c->self, c->gradient, n->n_count, how->clip_norm, c->norm);
    c->fresh = copy || c->how == TS_SERVE_SAME;
    return ts_adamw_step(&a, &c->exec);
}

ts_status ts_net_cuda_step(ts_net *n, const ts_adamw *how, int64_t step, double *norm)
{
    ts_net_cuda *c = n->cuda;
    double       got;
    ts_status    s = enqueue_step(n, how, step);
    if (!s) s = c->ops->get(c->self, &got, c->norm, sizeof got);
    if (s) return s;
    if (!isfinite(got)) return TS_E_RANGE;
    *norm = got;
    return TS_OK;
}

/* ---- where the time goes ---- */

int ts_net_profile(ts_net *n, const ts_net_batch *b, const ts_adamw *how, ts_net_time time[])
{
    static const char *const name[TS_PARTS] = {
        "products of layers", "products of the head",
        "attention",          "norms",
        "heads: norm, turn",  "SwiGLU",
        "cross-entropy",      "embedding",
        "projection",         "AdamW",
    };
    ts_net_cuda *c = n->cuda;
    double       ms[TS_PARTS];
    if (!c || !c->moments) return 0;
    c->ops->watch(c->self);
    c->watched = true;
    project(n);
    take(n, b, 1);
    ts_status s = ts_cuda_enqueue(n, TS_PASS_FIRST, false);
    if (!s) s = enqueue_step(n, how, 1);
    ts_cuda_part_is(n, TS_PARTS);
    c->watched = false;
    const ts_status waited = c->ops->times(c->self, ms);
    if (s || waited) return 0;
    for (int i = 0; i < TS_PARTS; i++) time[i] = (ts_net_time) { name[i], ms[i] };
    return TS_PARTS;
}
