/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_script.c - plays a script of operations on a model in training. */
#include "ternary_training_script.h"

#include <assert.h>
#include <string.h>

#include "band.h"

const char *const ts_tt_names[TS_TT_FUNCTIONS + 1] = {
    "ts_ternary_bytes", "ts_ternary_create", "ts_ternary_destroy", "ts_ternary_grad",
    "ts_ternary_step",  "ts_ternary_eval",   "ts_ternary_export",  NULL,
};

enum { ALIGN = 64, BAND = 64, WORK_BAND = 256, BAND_BYTE = 0xfe, LENT_BYTE = 0xff };

/* Layout of the workspace: the state and a band, copies lent to a call, the model's own workspace
 * between bands. */
typedef struct plan {
    size_t state_bytes, work_bytes, lent_bytes;
    size_t lent, work, end; /* offsets */
} plan;

typedef struct player {
    const ts_tt_table              *t;
    const ts_ternary_training_args *a;
    ts_exec                         x; /* as passed to the model */
    plan                            p;
    unsigned char                  *base;
    ts_ternary                     *m;
    int64_t                         n_grad, n_export; /* so far */
} player;

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static ts_status make_plan(const ts_tt_table *t, const ts_ternary_training_args *a,
                           const ts_exec *x, plan *p)
{
    *p = (plan) { 0 };
    const ts_status s = t->bytes(&a->d, x, &p->state_bytes, &p->work_bytes);
    if (s) return s;
    const size_t weights = (size_t)(a->n_latent + a->n_norm) * sizeof(float);
    const size_t tokens = (size_t)((a->d.max_batch + 1) * (a->d.max_tokens + 1)) * sizeof(int32_t);
    p->lent_bytes = weights > tokens ? weights : tokens;
    p->lent = round_up(p->state_bytes + BAND);
    p->work = p->lent + round_up(p->lent_bytes + sizeof(float)) + WORK_BAND;
    p->end = p->work + round_up(p->work_bytes + WORK_BAND) + 2 * ALIGN + sizeof(float);
    return TS_OK;
}

static ts_status workspace(const void *table, const void *args, const ts_exec *x, size_t *n_bytes)
{
    plan            p;
    const ts_status s = make_plan(table, args, x, &p);
    if (!s) *n_bytes = p.end;
    return s;
}

/* Not aligned to more than its element. */
static void *lent(const player *w)
{
    return w->base + w->p.lent + sizeof(float);
}

/* Fills the copy with NaN, for entrants that kept a pointer. */
static void take_back(const player *w)
{
    memset(lent(w), LENT_BYTE, w->p.lent_bytes);
}

static int64_t band_changed(const player *w)
{
    return ts_count_other(w->base + w->p.state_bytes, w->p.lent - w->p.state_bytes, BAND_BYTE) +
           ts_count_other(w->base + w->p.work - WORK_BAND, WORK_BAND, BAND_BYTE) +
           ts_count_other(w->base + w->p.work + w->p.work_bytes, WORK_BAND, BAND_BYTE);
}

/* ---- creation ---- */

static ts_status create(player *w, int how, ts_ternary **m)
{
    const ts_ternary_training_args *a = w->a;
    static const float              infinity = 1e38f * 1e38f;
    float *const latent = lent(w), *const norm = latent + a->n_latent;
    memcpy(latent, a->latent, (size_t)a->n_latent * sizeof *latent);
    memcpy(norm, a->norm, (size_t)a->n_norm * sizeof *norm);
    if (how == TS_TT_NAN_LATENT) latent[a->n_latent - 1] = infinity - infinity;
    if (how == TS_TT_INF_GAIN) norm[a->n_norm - 1] = infinity;
    if (how == TS_TT_PAST_F16) latent[a->n_latent - 1] = 65520.f * 128;
    const ts_status s = w->t->create(&a->d, &w->x, latent, norm, w->base,
                                     w->p.state_bytes - (how == TS_TT_ONE_LESS), m);
    take_back(w);
    return s;
}

/* ---- operations ---- */

typedef struct call {
    int64_t        n_batch, n_tok;
    const int32_t *tokens;
    ts_exec        x;
    ts_adamw       h;
} call;

static call call_of(player *w, const ts_tt_op *o)
{
    const double *r = w->a->rate + o->rate * TS_TT_RATE;
    int32_t      *tokens = lent(w);
    const int64_t n = (int64_t)o->n_batch * o->n_tok;
    call c = { o->n_batch, o->n_tok, tokens, w->x, { r[0], r[1], r[2], r[3], r[4], r[5] } };
    if (n) memcpy(tokens, w->a->tokens + o->tokens, (size_t)n * sizeof *tokens);
    if (o->how == TS_TT_SHORT) c.x.workspace_bytes = 0;
    if (o->how == TS_TT_NO_TOKEN) tokens[n - 1] = (int32_t)w->a->d.n_vocab;
    if (o->how == TS_TT_LOW_TOKEN) tokens[0] = -1;
    if (o->how == TS_TT_ONE_TOKEN) c.n_tok = 1;
    if (o->how == TS_TT_NO_BATCH) c.n_batch = 0;
    if (o->how == TS_TT_MORE_BATCH) c.n_batch = w->a->d.max_batch + 1;
    if (o->how == TS_TT_MORE_TOKENS) c.n_tok = w->a->d.max_tokens + 1;
    if (o->how == TS_TT_MORE_BATCH || o->how == TS_TT_MORE_TOKENS)
        memset(tokens, 0, (size_t)(c.n_batch * c.n_tok) * sizeof *tokens);
    if (o->how == TS_TT_BAD_RATE) c.h.lr = 0. / (c.h.lr * 0);
    if (o->how == TS_TT_BAD_BETA) c.h.beta2 = 1;
    return c;
}

static ts_status grad(player *w, const ts_tt_op *o, double *seen)
{
    const ts_ternary_training_args *a = w->a;
    const call                      c = call_of(w, o);
    const ts_status                 s =
        w->t->grad(w->m, &c.x, c.n_batch, c.n_tok, c.tokens, &seen[1],
                   a->dlatent + w->n_grad * a->n_latent, a->dnorm + w->n_grad * a->n_norm);
    w->n_grad++;
    return s;
}

static ts_status eval(player *w, const ts_tt_op *o, double *seen)
{
    const call      c = call_of(w, o);
    int64_t         n = TS_TT_UNSEEN;
    const ts_status s = w->t->eval(w->m, &c.x, c.n_batch, c.n_tok, c.tokens, &seen[1], &n);
    seen[2] = (double)n;
    return s;
}

static ts_status step(player *w, const ts_tt_op *o, double *seen)
{
    const call c = call_of(w, o);
    return w->t->step(w->m, &c.x, &c.h, c.n_batch, c.n_tok, c.tokens, &seen[1]);
}

static ts_status export(player *w, const ts_tt_op *o)
{
    const ts_ternary_training_args *a = w->a;
    const int64_t                   i = w->n_export++;
    ts_exec                         x = w->x;
    if (o->how == TS_TT_SHORT) x.workspace_bytes = 0;
    return w->t->export(w->m, &x, a->code + i * a->n_code, a->scale + i * a->n_scale,
                        a->gain + i * a->n_norm);
}

/* ---- without a pointer ---- */

enum { BYTES, CREATE, DESTROY, GRAD, STEP, EVAL, EXPORT, N_FUNCTIONS };
static_assert((int)N_FUNCTIONS == TS_TT_FUNCTIONS, "in the order of the table");

int ts_tt_pointers(int function)
{
    static const int n[TS_TT_FUNCTIONS] = {
        [BYTES] = 4, [CREATE] = 6, [DESTROY] = 1, [GRAD] = 6, [STEP] = 5, [EVAL] = 5, [EXPORT] = 5
    };
    return n[function];
}

static ts_status call_without(player *w, const ts_tt_op *o, double *loss)
{
    const ts_tt_table              *t = w->t;
    const ts_ternary_training_args *a = w->a;
    ts_tt_op                        sound = *o;
    ts_ternary                     *made = NULL;
    size_t                          bytes[2];
    int64_t                         n;
    sound.tokens = sound.rate = 0;
    call  c = call_of(w, &sound);
    void *tokens = lent(w);
    void *all[TS_TT_FUNCTIONS][6] = {
        [BYTES] = { (void *)&a->d, &c.x, &bytes[0], &bytes[1] },
        [CREATE] = { (void *)&a->d, &c.x, (void *)a->latent, (void *)a->norm, w->base, &made },
        [DESTROY] = { &made },
        [GRAD] = { w->m, &c.x, tokens, loss, a->dlatent + w->n_grad * a->n_latent,
                   a->dnorm + w->n_grad * a->n_norm },
        [STEP] = { w->m, &c.x, &c.h, tokens, loss },
        [EVAL] = { w->m, &c.x, tokens, loss, &n },
        [EXPORT] = { w->m, &c.x, a->code + w->n_export * a->n_code,
                     a->scale + w->n_export * a->n_scale, a->gain + w->n_export * a->n_norm },
    };
    void **const p = all[o->rate];
    p[o->tokens] = NULL;
    switch (o->rate) {
    case BYTES:
        return t->bytes(p[0], p[1], p[2], p[3]);
    case CREATE:
        return t->create(p[0], p[1], p[2], p[3], p[4], w->p.state_bytes, p[5]);
    case DESTROY:
        return t->destroy(p[0]);
    case GRAD:
        return t->grad(p[0], p[1], c.n_batch, c.n_tok, p[2], p[3], p[4], p[5]);
    case STEP:
        return t->step(p[0], p[1], p[2], c.n_batch, c.n_tok, p[3], p[4]);
    case EVAL:
        return t->eval(p[0], p[1], c.n_batch, c.n_tok, p[2], p[3], p[4]);
    default:
        return t->export(p[0], p[1], p[2], p[3], p[4]);
    }
}

static ts_status perform(player *w, const ts_tt_op *o, double *seen)
{
    ts_ternary *none = NULL;
    ts_status   s;
    if (o->what != TS_TT_SIZE && o->how == TS_TT_SHORT &&
        !w->p.work_bytes) { /* no workspace is needed */
        w->n_export += o->what == TS_TT_EXPORT;
        w->n_grad += o->what == TS_TT_GRAD;
        if (o->what == TS_TT_EVAL) seen[2] = TS_TT_UNSEEN;
        return TS_E_WORKSPACE;
    }
    switch (o->what) {
    case TS_TT_SIZE:
        seen[1] = (double)w->p.state_bytes;
        seen[2] = create(w, o->how, &none);
        seen[3] = none != NULL;
        s = create(w, TS_TT_MADE, &w->m); /* the old model may be damaged */
        break;
    case TS_TT_GRAD:
        s = grad(w, o, seen);
        break;
    case TS_TT_STEP:
        s = step(w, o, seen);
        break;
    case TS_TT_EVAL:
        s = eval(w, o, seen);
        break;
    case TS_TT_EXPORT:
        s = export(w, o);
        break;
    case TS_TT_WITHOUT:
        s = call_without(w, o, &seen[1]);
        break;
    default:
        s = w->t->destroy(&w->m);
        seen[1] = w->m != NULL;
        seen[2] = (double)band_changed(w);
    }
    take_back(w);
    return s;
}

static ts_status play(const void *table, const ts_mover *m, const void *args, const ts_exec *x)
{
    const ts_ternary_training_args *const a = args;
    player                                w = { .t = table, .a = a, .x = *x };
    ts_status                             s = make_plan(w.t, a, x, &w.p);
    (void)m;
    if (s) return s;
    if (!x->workspace || x->workspace_bytes < w.p.end) return TS_E_WORKSPACE;
    w.base = (unsigned char *)x->workspace + (ALIGN - (uintptr_t)x->workspace % ALIGN) % ALIGN;
    /* Misalign the model's workspace if the whole is unaligned, as it is except for timing. */
    if ((uintptr_t)x->workspace % ALIGN) w.p.work += ts_odd_offset(w.base + w.p.work);
    w.x.workspace = w.p.work_bytes ? w.base + w.p.work : NULL;
    w.x.workspace_bytes = w.p.work_bytes;
    memset(w.base + w.p.state_bytes, BAND_BYTE, w.p.lent - w.p.state_bytes);
    memset(w.base + w.p.work - WORK_BAND, BAND_BYTE, WORK_BAND);
    memset(w.base + w.p.work + w.p.work_bytes, BAND_BYTE, WORK_BAND);
    s = create(&w, TS_TT_MADE, &w.m);
    for (int64_t i = 0; i < a->n_op && !s; i++) {
        ts_tt_op o;
        double   seen[TS_TT_SEEN] = { 0, TS_TT_UNSEEN, 0, 0 };
        memcpy(&o, a->script + i * TS_TT_OP_WORDS, sizeof o);
        seen[0] = perform(&w, &o, seen);
        memcpy(a->seen + i * TS_TT_SEEN, seen, sizeof seen);
    }
    return s;
}

const ts_player ts_player_ternary_training = {
    ts_tt_names, NULL, NULL, play, workspace, false,
};
