/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.h - a language model whose every matrix is ternary (ternary.h), and its
 * training.
 *
 * The model: an embedding E [n_vocab][width]; of each layer RMSNorm, Wq, Wk, Wv, RMSNorm of each
 * head of q and k, rotation by halves (pair i with i + head_dim / 2, by position *
 * rope_theta^(-2 i / head_dim)), causal attention scaled by head_dim^-1/2 in which query head h
 * reads KV head h * n_kv_head / n_head, Wo, residual; RMSNorm, Wdown (silu(Wgate x) * Wup x),
 * residual; a last RMSNorm; logits by the same E. No biases. Matrices are [n_out][n_in] and serve
 * as c s, norm gains as they are.
 *
 * Latents, their gradients and what is exported have one order: E, then of each layer Wq, Wk, Wv,
 * Wo, Wgate, Wup, Wdown; a matrix's codes and scales lie as ternary.h packs them. Norms: of each
 * layer attention's, q's, k's and the feed-forward's, then the last.
 *
 * tokens [n_batch][n_tok]: token t + 1 is what follows token t. loss is the mean of
 * -ln p(token[t + 1] | token[0 .. t]) over n_batch (n_tok - 1), by log-sum-exp. Gradients are of
 * that mean, straight through; E's has both of its uses.
 *
 * A step: gradients times min(1, clip_norm / their norm over everything), where clip_norm > 0; then
 *     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
 *     w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w),
 * t counting from 1, the decay for matrices only. Latents, gains, m and v are float.
 * Its loss is the one before it. grad, eval and export change nothing.
 *
 * Refused, with nothing written and nothing changed. TS_E_SHAPE: extents below 1 or from 2^31 on,
 * n_tok below 2, an odd head_dim or one above 256, query heads that are no multiple of KV heads.
 * TS_E_CAPACITY: n_batch or n_tok beyond the most. TS_E_ARG: a token outside the vocabulary;
 * numbers that make no sense: rope_theta, norm_eps and eps must be above 0, lr, weight_decay and
 * clip_norm not below it, both betas in [0, 1). TS_E_RANGE: latents or gains that are not finite,
 * or with a scale past f16, and a step whose gradient is not finite. TS_E_WORKSPACE: too little of
 * it, or too little memory.
 *
 * Tokens, loss, nll_sum and n_count are the host's. On the CPU only: TS_CUDA is TS_E_UNSUPPORTED.
 * One handle serves one call at a time. Nothing depends on the number of threads. */
#ifndef TOUCHSTONE_TERNARY_TRAINING_H
#define TOUCHSTONE_TERNARY_TRAINING_H

#include "touchstone/ternary.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_ternary_dims {
    int64_t n_vocab, width, n_layer, n_head, n_kv_head, head_dim, ffn; /* >= 1 each */
    int64_t max_batch, max_tokens;                                     /* of any call: >= 1, >= 2 */
    double  rope_theta, norm_eps;
} ts_ternary_dims;

typedef struct ts_adamw {
    double lr, beta1, beta2, eps, weight_decay, clip_norm; /* clip_norm 0: none */
} ts_adamw;

typedef struct ts_ternary ts_ternary;

/* state_bytes: what ts_ternary_create must be given. workspace_bytes: what every other call must
 * have, with as many threads. */
TS_API ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                                  size_t *workspace_bytes);
TS_API ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                                   const float *norm, void *memory, size_t memory_bytes,
                                   ts_ternary **m);
TS_API ts_status ts_ternary_destroy(ts_ternary **m); /* the memory stays the caller's; *m: NULL */

TS_API ts_status ts_ternary_grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                                 const int32_t *tokens, double *loss, float *dlatent, float *dnorm);
TS_API ts_status ts_ternary_step(ts_ternary *m, const ts_exec *x, const ts_adamw *h,
                                 int64_t n_batch, int64_t n_tok, const int32_t *tokens,
                                 double *loss);
TS_API ts_status ts_ternary_eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                                 const int32_t *tokens, double *nll_sum, int64_t *n_count);
TS_API ts_status ts_ternary_export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                                   float *norm);

#ifdef __cplusplus
}
#endif
#endif
