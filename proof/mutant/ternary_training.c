/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.c - mutants of ternary_training: the solution of proof/plain/ with one
 * injected bug at a time. ternary_training_list.h lists them. */
#include "ternary_training_script.h"

#include "mutant.h"
#include "ternary_training_list.h"

typedef enum trap { MUTANTS(TRAP) N_TRAPS } trap;

static trap         now;
static const float *given;  /* the caller's latents */
static const float *latent; /* those of the model that runs */

#include "plain/number.h"

/* ---- the projection ---- */

static double largest(const float *w, int64_t n)
{
    double most = 0;
    for (int64_t j = 0; j < n; j++) most = fmax(most, fabs((double)w[j]));
    return most;
}

static double quotient_code(double q)
{
    return q > 0.5 ? 1 : q < -0.5 ? -1 : 0 * q;
}

static void spoil_weights(const ts_ternary *t, double *to);

#define HOOK_mean_count(ok) (now == PADDED_MEAN ? GROUP : (ok))
#define HOOK_scale(ok)                                                                             \
    (now == MAX_SCALE    ? narrow(largest(w, n), TS_F16)                                           \
     : now == BF16_SCALE ? narrow(mean_of(w, n), TS_BF16)                                          \
                         : (ok))
#define HOOK_code(ok)                                                                              \
    ((now == TIE_UP && s != 0 && 2 * fabs(w) == s) || now == SIGN_ONLY ? (w < 0 ? -1 : 1) : (ok))
#define HOOK_weight(ok)                                                                            \
    (now == UNROUNDED_SCALE ? code_of(t->w[j], s) * mean_of(t->w + at, end - at)                   \
     : now == UNCLIPPED     ? (s == 0 ? 0 : rint(t->w[j] / s) * s)                                 \
     : now == ZERO_DIVIDED  ? quotient_code(t->w[j] / s) * s                                       \
     : now == DENSE         ? (double)t->w[j]                                                      \
                            : (ok))
#define HERE_served spoil_weights(t, to)

/* ---- the pass ---- */

static double centred_scale(const double *x, int64_t n, double eps)
{
    double mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return 1 / sqrt(sum / (double)n + eps);
}

static double swish(double gate, double up)
{
    return gate / (1 + exp(-gate)) * up;
}

struct pass;
static void   bend(const struct pass *p);
static double by_threads(double nll, const struct pass *p, const ts_exec *x);

#define HOOK_n_cleared(ok)   (now == DIRTY_WORKSPACE ? 0 : (ok))
#define HOOK_head_weight(ok) (now == DENSE_HEAD && i == 0 ? latent[m.at + o * m.n_in + c] : (ok))
#define HOOK_activation(ok)  (now == BF16_PASS ? narrow(ok, TS_BF16) : (ok))
#define HOOK_back_weight(ok) (now == DX_OF_LATENTS ? (double)latent[at] : (ok))
#define HOOK_dw(ok)          (now == NO_HEAD_GRADIENT && i == 0 ? 0 : (ok))
#define HOOK_rms_scale(ok)                                                                         \
    (now == LAYERNORM     ? centred_scale(x, n, p->d.norm_eps)                                     \
     : now == EPS_OUTSIDE ? 1 / (sqrt(sum / (double)n) + p->d.norm_eps)                            \
     : now == OWN_EPS     ? 1 / sqrt(sum / (double)n + 1e-5)                                       \
                          : (ok))
#define HOOK_row_scale(ok) (now == NO_QK_NORM && n == p->d.head_dim ? 1 : (ok))
#define HOOK_position(ok)                                                                          \
    (now == NO_ROPE ? 0 : (ok) + (now == POSITION_FROM_1 && n_head > p->d.n_kv_head))
#define HOOK_theta(ok)     (now == OWN_THETA ? 1e6 : (ok))
#define HOOK_one(ok)       (now == BY_NEIGHBOURS ? 2 * i : (ok))
#define HOOK_other(ok)     (now == BY_NEIGHBOURS ? 2 * i + 1 : (ok))
#define HOOK_first_key(ok) (now == SEES_BATCH ? 0 : (ok))
#define HOOK_kv_head(ok)   (now == HEAD_MODULO ? h % d->n_kv_head : (ok))

#define HOOK_n_keys(ok) (now == SEES_AHEAD ? p->n_pos : now == NINE_TOKENS && (ok) > 9 ? 9 : (ok))

#define HOOK_score_divisor(ok) (now == NO_SCORE_SCALE ? 1 : (ok))
#define HOOK_n_residual(ok)    (now == NO_RESIDUAL ? 0 : (ok))
#define HOOK_act(ok)                                                                               \
    (now == OWN_FFN && i % d->ffn >= 3 * d->width ? 0                                              \
     : now == GATE_UP_SWAPPED                     ? swish(y->up[i], y->gate[i])                    \
                                                  : (ok))

/* ---- loss and gradients ---- */

#define HOOK_token(ok)     ((ok) < 0 || (ok) >= p->d.n_vocab ? 0 : (ok)) /* a bug accepts others */
#define HOOK_nll(ok)       (now == LOG_OF_TINY ? -log(exp(z[target] - most) / sum + 1e-10) : (ok))
#define HOOK_n_targets(ok) (now == SUM_GRADIENT ? 1 : (ok))
#define HOOK_embedding(ok)                                                                         \
    (now == DENSE_EMBEDDING ? (double)latent[token_at(p, r, 0) * width + i] : (ok))
#define HERE_layer_done                                                                            \
    if (now == TWO_LAYERS && l > 1) memcpy(next, y.x, (size_t)wide * sizeof *next)
#define HERE_last_norm                                                                             \
    if (now == NO_LAST_NORM) memcpy(h, last, (size_t)wide * sizeof *h)
#define HOOK_label(ok)      (now == LABELS_SWAPPED ? 0 : (ok))
#define HOOK_last_layer(ok) (now == TWO_LAYERS && (ok) > 1 ? 1 : (ok))
#define HOOK_d_embedding(ok)                                                                       \
    (now == NO_EMBEDDING_GRADIENT ? 0                                                              \
     : now == LAST_ONE_KEPT       ? (ok)-p->g[token_at(p, r, 0) * width + i]                       \
                                  : (ok))
#define HERE_gradients bend(p)

/* ---- the contract ---- */

static void spoil_state(ts_ternary *t, const float *latents, char *end);

#define HOOK_uneven(ok)       (now != ANY_HEADS && (ok))
#define HOOK_least_memory(ok) (now == SMALL_MEMORY ? 0 : (ok))
#define HOOK_range(ok)        (now == ANY_LATENTS ? TS_OK : (ok))
#define HERE_created          spoil_state(t, latent, (char *)memory + state)
#define HOOK_has_room(ok)     (now == NO_WORKSPACE || (ok))
#define HOOK_no_target(ok)    (now != ONE_TOKEN && (ok))
#define HOOK_n_checked(ok)    (now == ANY_TOKEN ? 0 : (ok))

#define HOOK_batch(ok) (now == WHOLE_BATCHES && n_tok < t->d.max_tokens ? TS_E_UNSUPPORTED : (ok))

#define HOOK_n_pos(ok)   (n_tok > 1 ? (ok) : 1) /* a bug accepts one token */
#define HOOK_n_batch(ok) (now == BATCH_8 && (ok) > 8 ? 8 : (ok))
#define HERE_batch                                                                                 \
    if (now == PAST_WORKSPACE) ((char *)x->workspace)[x->workspace_bytes] = 0;                     \
    if (now == BEFORE_WORKSPACE) ((char *)x->workspace)[-1] = 0;                                   \
    latent = now == KEEPS_POINTER ? given : t->w
#define HOOK_batch_nll(ok) by_threads(ok, p, x)
#define HERE_grad_called                                                                           \
    if (now == WRITES_FIRST && dlatent) dlatent[0] = 0
#define HOOK_loss(ok)                                                                              \
    ((ok) / (double)(now == TWICE_DIVIDED ? p.n : 1) *                                             \
     (now == EXTRA_POSITIONS ? (double)p.n / (double)(n_batch * n_tok) : 1))
#define HOOK_dlatent(ok) ((ok) + (now == ADDS_GRADIENT && i > 0 ? dlatent[i] : 0))
#define HOOK_n_dnorm(ok) ((ok) - (now == LAST_GAIN_UNWRITTEN))
#define HERE_grad_done                                                                             \
    t->n_step += now == GRAD_COUNTS;                                                               \
    for (int64_t i = 0; i < t->n_norm && now == GRAD_MOVES; i++) t->w[t->n_latent + i] *= 0.999f
#define HERE_step_done                                                                             \
    if (now == LOSS_AFTER) *loss = run_batch(t, x, n_batch, n_tok, tokens, &p) / (double)p.n
#define HERE_eval_done                                                                             \
    if (now == EXTRA_POSITIONS) *n_count = n_batch * n_tok;                                        \
    if (now == EVAL_IS_MEAN) *nll_sum /= (double)p.n;                                              \
    t->n_step += now == EVAL_COUNTS
#define HOOK_exported(ok) (now == EXPORTS_FIRST ? t->v : (ok))

#define HOOK_point(ok) (now == CODE_POINTS ? ((ok) + 2) % 3 : now == PADDING_0 && j >= n ? 0 : (ok))

#define HOOK_place(ok) (now == BIT_ORDER ? 3 - (ok) : (ok))

/* ---- the optimiser ---- */

/* Rates that are not the caller's. */
static const ts_adamw *other_rates(const ts_adamw *h)
{
    static ts_adamw other;
    other = *h;
    if (now == BETA_0 && h->beta1 == 0) other.beta1 = 0.9;
    if (now == BETA_2_0 && h->beta2 == 0) other.beta2 = 0.999;
    if (now == RATE_MOST) other.lr = fmin(h->lr, 0.05);
    return &other;
}

static bool clips_otherwise(void)
{
    return (now >= NO_CLIP && now <= CLIP_ALWAYS) ||
           now == CLIP_LEAST; /* the list has their order */
}

static double    clip_of(const ts_ternary *t, const ts_adamw *h, const double *g, int64_t i);
static ts_status refuse_step(ts_ternary *t, const ts_exec *x, ts_status s);

#define HERE_adamw                                                                                 \
    if (now == RATE_0 && h->lr == 0) return;                                                       \
    if (now == STOPS && t->n_step >= 10) return;                                                   \
    h = other_rates(h)
#define HOOK_bias1(ok) (now == NO_BIAS_1 || now == NO_BIAS ? 1 : (ok))
#define HOOK_bias2(ok) (now == NO_BIAS_2 || now == NO_BIAS ? 1 : (ok))
#define HOOK_clipped(ok)                                                                           \
    ((clips_otherwise() ? clip_of(t, h, g, i) * g[i] : (ok)) +                                     \
     (now == COUPLED && i < t->n_latent ? h->weight_decay * w : 0))
#define HOOK_divisor(ok)                                                                           \
    (now == EPS_INSIDE ? sqrt(v / bias2 + h->eps) : now == NO_MOMENT ? 1 : (ok))
#define HOOK_decay(ok)                                                                             \
    (now == COUPLED || now == NO_DECAY ? 0                                                         \
     : now == DECAYS_GAINS             ? h->weight_decay * w                                       \
     : now == DECAY_WITHOUT_RATE       ? (ok) / h->lr * 1e-3                                       \
                                       : (ok))
#define HOOK_kept_m(ok) (now == FORGETS ? 0 : now == BF16_MOMENTS ? narrow(ok, TS_BF16) : (ok))
#define HOOK_kept_v(ok) (now == FORGETS ? 0 : (ok))
#define HOOK_kept_w(ok)                                                                            \
    (now == BF16_MASTERS                     ? narrow(ok, TS_BF16)                                 \
     : now == F16_MASTERS                    ? narrow(ok, TS_F16)                                  \
     : now == GAINS_STAY && i >= t->n_latent ? w                                                   \
                                             : (ok))
#define HOOK_sound(ok)        (now == ANY_RATE || (ok))
#define HOOK_refused_step(ok) refuse_step(t, x, ok)

static __typeof__(ts_ternary_bytes)   tt_bytes;
static __typeof__(ts_ternary_create)  tt_create;
static __typeof__(ts_ternary_destroy) tt_destroy;
static __typeof__(ts_ternary_grad)    tt_grad;
static __typeof__(ts_ternary_step)    tt_step;
static __typeof__(ts_ternary_eval)    tt_eval;
static __typeof__(ts_ternary_export)  tt_export;
#define ts_ternary_bytes   tt_bytes
#define ts_ternary_create  tt_create
#define ts_ternary_destroy tt_destroy
#define ts_ternary_grad    tt_grad
#define ts_ternary_step    tt_step
#define ts_ternary_eval    tt_eval
#define ts_ternary_export  tt_export
#include "plain/ternary_training.c"

/* ---- bugs that take more than a line ---- */

static void group_by_outputs(const ts_ternary *t, const matrix *m, double *to)
{
    for (int64_t c = 0; c < m->n_in; c++)
        for (int64_t g = 0; g < m->n_out; g += GROUP) {
            const int64_t end = g + GROUP < m->n_out ? g + GROUP : m->n_out;
            double        sum = 0;
            for (int64_t r = g; r < end; r++) sum += fabs((double)t->w[m->at + r * m->n_in + c]);
            const double s = narrow(sum / (double)(end - g), TS_F16);
            for (int64_t r = g; r < end; r++) {
                const int64_t at = m->at + r * m->n_in + c;
                to[at] = code_of(t->w[at], s) * s;
            }
        }
}

static void spoil_weights(const ts_ternary *t, double *to)
{
    for (int64_t i = 0; i <= SLOTS * t->d.n_layer && now == BY_OUTPUTS; i++) {
        const matrix m = matrix_of(&t->d, i);
        group_by_outputs(t, &m, to);
    }
    for (int64_t i = 512 * t->d.width; i < t->d.n_vocab * t->d.width && now == VOCAB_512; i++)
        to[i] = 0;
    for (int64_t i = 0; i < t->n_latent && now == KEEPS_POINTER; i++)
        if (given[i] != given[i]) to[i] = NAN;
}

/* Gradients that are not straight-through. */
static void bend(const pass *p)
{
    for (int64_t i = 0; i <= SLOTS * p->d.n_layer; i++) {
        const matrix m = matrix_of(&p->d, i);
        for (int64_t at = m.at, end; at < m.at + m.n_out * m.n_in; at = end) {
            end = group_end(&m, at);
            const double s = scale_of(latent + at, end - at);
            double       sum = 0;
            for (int64_t j = at; j < end; j++) sum += p->g[j] * code_of(latent[j], s);
            for (int64_t j = at; j < end; j++) {
                if (now == MASKED && fabs(latent[j]) > s) p->g[j] = 0;
                if (now == THROUGH_SCALE)
                    p->g[j] += (latent[j] < 0 ? -1 : 1) * sum / (double)(end - at);
                if (now == TIMES_SCALE) p->g[j] *= s;
            }
        }
    }
}

static double by_threads(double nll, const pass *p, const ts_exec *x)
{
    if (now == BY_THREADS) p->g[0] *= 1 + 1e-6 * (x->n_threads != 1);
    return nll;
}

static void spoil_state(ts_ternary *t, const float *latents, char *end)
{
    given = latents;
    for (int64_t i = 0; i < t->n_latent && now == NOT_LOADED; i++)
        t->w[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000 - 1;
    if (now == PAST_STATE) memset(end, 0, 8);
}

/* The factor of gradient i. */
static double clip_of(const ts_ternary *t, const ts_adamw *h, const double *g, int64_t i)
{
    const bool   apart = now == CLIP_MATRICES, is_latent = i < t->n_latent;
    const double c = h->clip_norm;
    double       sum = 0;
    if (!(c > 0) || now == NO_CLIP || (now == CLIP_LEAST && c < 1e-3)) return 1;
    if (now == CLIP_ELEMENTS) return fabs(g[i]) > c ? c / fabs(g[i]) : 1;
    for (int64_t k = apart && !is_latent ? t->n_latent : 0;
         k < t->n_latent + (apart && is_latent ? 0 : t->n_norm); k++)
        sum += g[k] * g[k];
    return sqrt(sum) > c || now == CLIP_ALWAYS ? c / sqrt(sum) : 1;
}

static ts_status refuse_step(ts_ternary *t, const ts_exec *x, ts_status s)
{
    if (now == HALF_APPLIED && t && x) t->n_step++;
    return s;
}

/* ---- the mutants ---- */

static const ts_tt_table table = { tt_bytes, tt_create, tt_destroy, tt_grad,
                                   tt_step,  tt_eval,   tt_export };

#define STEM  ternary_training
#define TABLE ts_tt_table
#include "played.h"
