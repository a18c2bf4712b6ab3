/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.h - training of a language model whose matrices are all ternary (ternary.h).
 *
 * The model is a transformer decoder. It applies, in this order:
 *     the embedding E [n_vocab][width];
 *     per layer, attention: RMSNorm; Wq, Wk, Wv; RMSNorm of each head of q and k; rotation of
 *         channels i and i + head_dim / 2 by position * rope_theta^(-2 i / head_dim); causal
 *         attention scaled by head_dim^-1/2, in which query head h reads KV head
 *         h * n_kv_head / n_head; Wo; residual;
 *     per layer, feed-forward: RMSNorm; Wdown (silu(Wgate x) * Wup x); residual;
 *     a final RMSNorm, and logits from the same E.
 * There are no biases. Matrices are [n_out][n_in] with effective weights c s; norm gains are used
 * as stored.
 *
 * Latents, gradients and exported matrices have one order: E, then per layer Wq, Wk, Wv, Wo, Wgate,
 * Wup, Wdown; codes and scales are stored as ternary.h packs them. Norm gains have this order: per
 * layer those of attention, q, k and feed-forward, then the final one.
 *
 * tokens [n_batch][n_tok]: token t + 1 follows token t. The loss is the mean of
 * -ln p(token[t + 1] | token[0 .. t]) over n_batch (n_tok - 1) predictions, by log-sum-exp.
 * Gradients are those of this mean, straight through; that of E covers both of its uses.
 *
 * A step: if clip_norm > 0, gradients times min(1, clip_norm / their global norm); then
 *     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
 *     w -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay w),
 * with t counting from 1, and decay for matrices only. Latents, gains, m and v are float. The loss
 * returned is that before the update. grad, eval and export change nothing.
 *
 * Errors change and write nothing. TS_E_SHAPE: an extent below 1 or not below 2^31, n_tok below 2,
 * an odd head_dim or one above 256, query heads that are not a multiple of KV heads. TS_E_CAPACITY:
 * n_batch or n_tok above its maximum. TS_E_ARG: a token outside the vocabulary, or an invalid
 * number; rope_theta, norm_eps and eps must be > 0, lr, weight_decay and clip_norm >= 0, both betas
 * in [0, 1). TS_E_RANGE: latents or gains that are not finite or whose scale exceeds f16, and a
 * step whose gradient is not finite. TS_E_WORKSPACE: workspace or memory too small.
 *
 * Tokens, loss, nll_sum and n_count are in host memory. CPU only: TS_CUDA is TS_E_UNSUPPORTED.
 * Calls on one handle must not overlap. Results do not depend on the number of threads. */
#ifndef TOUCHSTONE_TERNARY_TRAINING_H
#define TOUCHSTONE_TERNARY_TRAINING_H

#include "touchstone/ternary.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shape of a model, and the largest batch of one call. */
typedef struct ts_ternary_dims {
    int64_t n_vocab, width, n_layer, n_head, n_kv_head, head_dim, ffn; /* >= 1 each */
    int64_t max_batch, max_tokens; /* most n_batch and n_tok per call: >= 1, >= 2 */
    double  rope_theta, norm_eps;  /* > 0; norm_eps is added to each RMSNorm's mean square */
} ts_ternary_dims;

/* Settings of one step; clip_norm 0: no clipping. */
typedef struct ts_adamw {
    double lr, beta1, beta2, eps, weight_decay, clip_norm; /* as in the formulas above */
} ts_adamw;

/* A model in training: latents, norm gains, moments and the number of steps. */
typedef struct ts_ternary ts_ternary;

/* Sets *state_bytes to the size of `memory` that ts_ternary_create needs, and *workspace_bytes to
 * the workspace that every other call needs with the same x->n_threads. */
TS_API ts_status ts_ternary_bytes(const ts_ternary_dims *d, const ts_exec *x, size_t *state_bytes,
                                  size_t *workspace_bytes);

/* Makes a model in memory[0 .. memory_bytes), which must stay valid until ts_ternary_destroy, from
 * copies of latent and norm, and sets *m. Moments are 0, and no step has been taken. */
TS_API ts_status ts_ternary_create(const ts_ternary_dims *d, const ts_exec *x, const float *latent,
                                   const float *norm, void *memory, size_t memory_bytes,
                                   ts_ternary **m);

/* Ends the use of a model and sets *m to NULL. The caller then frees `memory`. */
TS_API ts_status ts_ternary_destroy(ts_ternary **m);

/* Computes the loss of tokens [n_batch][n_tok], and its gradients for latents and norm gains. */
TS_API ts_status ts_ternary_grad(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                                 const int32_t *tokens, double *loss, float *dlatent, float *dnorm);

/* Takes one step with the gradients of these tokens; *loss is the loss before it. */
TS_API ts_status ts_ternary_step(ts_ternary *m, const ts_exec *x, const ts_adamw *h,
                                 int64_t n_batch, int64_t n_tok, const int32_t *tokens,
                                 double *loss);

/* Computes the sum of -ln p over all predictions, and their number n_batch (n_tok - 1). */
TS_API ts_status ts_ternary_eval(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                                 const int32_t *tokens, double *nll_sum, int64_t *n_count);

/* Writes the codes and scales of all matrices, and the norm gains, in the order above. */
TS_API ts_status ts_ternary_export(ts_ternary *m, const ts_exec *x, uint8_t *code, uint16_t *scale,
                                   float *norm);

#ifdef __cplusplus
}
#endif
#endif
