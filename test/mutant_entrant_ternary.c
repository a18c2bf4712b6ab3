/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_ternary.c - a mutant of ternary_linear or ternary_training as a third-party shared
 * library, which exports the functions of both.
 *
 * mutant.sh compiles it once for each, with MUTANT. */
#include <stdlib.h>

#include "ternary_linear_script.h"
#include "ternary_training_script.h"

#define TEXT(a)   #a
#define QUOTED(a) TEXT(a)

/* mutant/ */
const ts_ternary_table *ts_ternary_linear_mutant(const char *name);
const ts_tt_table      *ts_ternary_training_mutant(const char *name);

static const ts_ternary_table *layers(void)
{
    const ts_ternary_table *t = ts_ternary_linear_mutant(QUOTED(MUTANT));
    if (!t) abort();
    return t;
}

static const ts_tt_table *model(void)
{
    const ts_tt_table *t = ts_ternary_training_mutant(QUOTED(MUTANT));
    if (!t) abort();
    return t;
}

ts_status ts_ternary_pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    return layers()->pack(a, x);
}

ts_status ts_ternary_unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    return layers()->unpack(a, x);
}

ts_status ts_ternary_linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    return layers()->linear(a, x);
}

ts_status ts_ternary_linear_packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    return layers()->packed(a, x);
}

ts_status ts_ternary_linear_backward(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    return layers()->backward(a, x);
}

ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state, size_t *work)
{
    return model()->bytes(d, x, state, work);
}

ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                            const float *norm, void *memory, size_t n, ts_ternary **m)
{
    return model()->create(d, x, latent, norm, memory, n, m);
}

ts_status ts_ternary_destroy(ts_ternary **m)
{
    return model()->destroy(m);
}

ts_status ts_ternary_grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    return model()->grad(m, x, n_batch, n_tok, tokens, loss, dlatent, dnorm);
}

ts_status ts_ternary_step(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                          int64_t n_tok, const int32_t *tokens, double *loss)
{
    return model()->step(m, x, h, n_batch, n_tok, tokens, loss);
}

ts_status ts_ternary_eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    return model()->eval(m, x, n_batch, n_tok, tokens, nll_sum, n_count);
}

ts_status ts_ternary_export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                            float *norm)
{
    return model()->export(m, x, code, scale, norm);
}
