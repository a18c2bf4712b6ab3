/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.c - your trainer. The prompt is the specification. */
#include "touchstone/ternary_training.h"

/* What a model in training is made of. It lives in the memory that ts_ternary_create is given. */
struct ts_ternary {
    ts_ternary_dims d;
};

/* Begin here: reject invalid calls (TS_E_SHAPE, TS_E_ARG), and return how much memory a model of
 * these dims takes, and how much scratch memory every other call needs in x->workspace. */
ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                           size_t *workspace_bytes)
{
    (void)d, (void)x, (void)state_bytes, (void)workspace_bytes;
    return TS_E_UNSUPPORTED;
}

/* Latents and gains are lent for the call only. */
ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                            const float *norm, void *memory, size_t memory_bytes, ts_ternary **m)
{
    (void)d, (void)x, (void)latent, (void)norm, (void)memory, (void)memory_bytes, (void)m;
    return TS_E_UNSUPPORTED;
}

ts_status ts_ternary_destroy(ts_ternary **m)
{
    *m = NULL;
    return TS_OK;
}

/* The gradient of the mean, straight through. Changes nothing. */
ts_status ts_ternary_grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    (void)m, (void)x, (void)n_batch, (void)n_tok, (void)tokens, (void)loss;
    (void)dlatent, (void)dnorm;
    return TS_E_UNSUPPORTED;
}

/* One step of AdamW; the loss is the one before it. */
ts_status ts_ternary_step(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                          int64_t n_tok, const int32_t *tokens, double *loss)
{
    (void)m, (void)x, (void)h, (void)n_batch, (void)n_tok, (void)tokens, (void)loss;
    return TS_E_UNSUPPORTED;
}

ts_status ts_ternary_eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                          const int32_t *tokens, double *nll_sum, int64_t *n_count)
{
    (void)m, (void)x, (void)n_batch, (void)n_tok, (void)tokens, (void)nll_sum, (void)n_count;
    return TS_E_UNSUPPORTED;
}

/* Codes and scales of every matrix, and gains: all that a decoder needs. */
ts_status ts_ternary_export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                            float *norm)
{
    (void)m, (void)x, (void)code, (void)scale, (void)norm;
    return TS_E_UNSUPPORTED;
}
