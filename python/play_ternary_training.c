/* SPDX-License-Identifier: Apache-2.0 */
/* play_ternary_training.c - the Python interface of ternary_training: a class whose objects are
 * models. */
#include "ask.h"
#include "ternary_training_script.h"

static const ts_ternary_training_args *args;
static struct model {
    bool   made, fresh; /* fresh: the next create has already been done */
    size_t n_bytes;
} model;

static const ts_refusals refusals = { TS_E_ARG, TS_E_CAPACITY, TS_OK, TS_E_RANGE };

static void begin(const void *a)
{
    args = a;
    model = (struct model) { 0 };
}

static ts_status make(const ts_ternary_dims *d, const float *latent, const float *norm)
{
    ts_ask_begin("", 0, refusals);
    ts_give("", TS_RECORD)->integer = 11;
    ts_give_integer("n_vocab", d->n_vocab);
    ts_give_integer("width", d->width);
    ts_give_integer("n_layer", d->n_layer);
    ts_give_integer("n_head", d->n_head);
    ts_give_integer("n_kv_head", d->n_kv_head);
    ts_give_integer("head_dim", d->head_dim);
    ts_give_integer("ffn", d->ffn);
    ts_give_integer("max_batch", d->max_batch);
    ts_give_integer("max_tokens", d->max_tokens);
    ts_give_real("rope_theta", d->rope_theta);
    ts_give_real("norm_eps", d->norm_eps);
    ts_give_array("", TS_LENT, ts_array('f', latent, 1, args->n_latent, 0, 0));
    ts_give_array("", TS_LENT, ts_array('f', norm, 1, args->n_norm, 0, 0));
    return ts_ask();
}

/* Creates the model: only an object knows its size. */
static ts_status bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state, size_t *work)
{
    ts_status s = TS_OK;
    int64_t   n = 0;
    if (!d || !x || !state || !work) return TS_E_ARG;
    if (!model.made) {
        s = make(d, args->latent, args->norm);
        if (s) return s;
        ts_ask_begin("nbytes", 0, refusals);
        ts_back(TS_INTEGER, &n);
        s = ts_ask();
        model = (struct model) { true, true, (size_t)n };
    }
    *state = model.n_bytes;
    *work = 0;
    return s;
}

static ts_status create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                        const float *norm, void *p, size_t n, ts_ternary **m)
{
    if (!d || !x || !latent || !norm || !p || !m) return TS_E_ARG;
    if (n < model.n_bytes) return TS_E_WORKSPACE;
    const ts_status s = model.fresh ? TS_OK : make(d, latent, norm);
    model.fresh = false;
    if (!s) *m = (ts_ternary *)(void *)&model;
    return s;
}

static ts_status destroy(ts_ternary **m)
{
    if (!m) return TS_E_ARG;
    ts_ask_begin("", 0, refusals);
    ts_player_asked.drop = 1;
    *m = NULL;
    return ts_ask();
}

/* A ValueError means TS_E_SHAPE if the shape is invalid. */
static void begin_batch(const char *name, int64_t n_batch, int64_t n_tok, const int32_t *tokens)
{
    ts_refusals r = refusals;
    if (n_batch < 1 || n_tok < 2) r.value = TS_E_SHAPE;
    ts_ask_begin(name, 0, r);
    ts_give_array("", TS_LENT, ts_array('i', tokens, 2, n_batch, n_tok, 0));
}

static ts_status grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                      const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    if (!m || !x || !tokens || !loss || !dlatent || !dnorm) return TS_E_ARG;
    begin_batch("grad", n_batch, n_tok, tokens);
    ts_back(TS_REAL, loss);
    ts_back_array(ts_array('f', dlatent, 1, args->n_latent, 0, 0));
    ts_back_array(ts_array('f', dnorm, 1, args->n_norm, 0, 0));
    return ts_ask();
}

static ts_status step(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                      int64_t n_tok, const int32_t *tokens, double *loss)
{
    if (!m || !x || !h || !tokens || !loss) return TS_E_ARG;
    begin_batch("step", n_batch, n_tok, tokens);
    ts_give_real("lr", h->lr);
    ts_give_real("beta1", h->beta1);
    ts_give_real("beta2", h->beta2);
    ts_give_real("eps", h->eps);
    ts_give_real("weight_decay", h->weight_decay);
    ts_give_real("clip_norm", h->clip_norm);
    ts_back(TS_REAL, loss);
    return ts_ask();
}

static ts_status eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                      const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    if (!m || !x || !tokens || !nll_sum || !n_count) return TS_E_ARG;
    begin_batch("eval", n_batch, n_tok, tokens);
    ts_back(TS_REAL, nll_sum);
    ts_back(TS_INTEGER, n_count);
    return ts_ask();
}

static ts_status export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                        float *gain)
{
    if (!m || !x || !code || !scale || !gain) return TS_E_ARG;
    ts_ask_begin("export", 0, refusals);
    ts_back_array(ts_array('B', code, 1, args->n_code, 0, 0));
    ts_back_array(ts_array('e', scale, 1, args->n_scale, 0, 0));
    ts_back_array(ts_array('f', gain, 1, args->n_norm, 0, 0));
    return ts_ask();
}

static const ts_tt_table table = { bytes, create, destroy, grad, step, eval, export };
const ts_python          ts_python_ternary_training = { &table, begin };
