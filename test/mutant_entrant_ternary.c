/* SPDX-License-Identifier: Apache-2.0 */
/* mutant_entrant_ternary.c - a mutant of ternary_linear or ternary_training as a third-party shared
 * library, which exports the functions of both.
 *
 * mutant.sh compiles it once for each, with MUTANT. */
#include "mutant_entrant.h"
#include "ternary_linear_script.h"
#include "ternary_training_script.h"

TABLE_OF(ts_ternary_table, ternary_linear)
TABLE_OF(ts_tt_table, ternary_training)
CALL(ternary_linear, ts_ternary_pack, ts_ternary_pack_args, pack)
CALL(ternary_linear, ts_ternary_unpack, ts_ternary_unpack_args, unpack)
CALL(ternary_linear, ts_ternary_linear, ts_ternary_linear_args, linear)
CALL(ternary_linear, ts_ternary_linear_packed, ts_ternary_linear_packed_args, packed)
CALL(ternary_linear, ts_ternary_linear_backward, ts_ternary_linear_backward_args, backward)

ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state, size_t *work)
{
    return ternary_training_mutant()->bytes(d, x, state, work);
}

ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                            const float *norm, void *memory, size_t n, ts_ternary **m)
{
    return ternary_training_mutant()->create(d, x, latent, norm, memory, n, m);
}

ts_status ts_ternary_destroy(ts_ternary **m)
{
    return ternary_training_mutant()->destroy(m);
}

ts_status ts_ternary_grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    return ternary_training_mutant()->grad(m, x, n_batch, n_tok, tokens, loss, dlatent, dnorm);
}

ts_status ts_ternary_step(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                          int64_t n_tok, const int32_t *tokens, double *loss)
{
    return ternary_training_mutant()->step(m, x, h, n_batch, n_tok, tokens, loss);
}

ts_status ts_ternary_eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    return ternary_training_mutant()->eval(m, x, n_batch, n_tok, tokens, nll_sum, n_count);
}

ts_status ts_ternary_export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                            float *norm)
{
    return ternary_training_mutant()->export(m, x, code, scale, norm);
}
