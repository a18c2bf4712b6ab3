/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training_model.c - the expected observations of a script.
 *
 * The reference stores, for every weight and moment, a value in double and the largest error that a
 * float may have; the bound of a gradient comes from runs with noise. From these it derives which
 * codes of a weight, and which scales of a group, are correct. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "real.h"
#include "rng.h"
#include "ternary_training_inside.h"

static const double U = 0x1p-24;

enum { W, M, V, STATES };

typedef struct model {
    const ts_case                  *c;
    const ts_ternary_training_args *a;
    ts_tt_codes                     codes;
    bool                            answer, differs; /* codes are not the reference's own */
    ts_tt_script                    s;
    int64_t                         n, n_latent, n_norm, n_scale;
    double                         *at[STATES], *off[STATES];  /* [n] each: value, bound */
    double                         *serve;                     /* [n]: effective weights */
    double                         *g, *bound, *noisy, *moved; /* [n] */
    double                          nll, nll_bound;
    int64_t                         n_step, n_grad, n_export;
    double                          mean; /* the largest |m| / sqrt(v) there can be */
} model;

static double *fresh(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

/* ---- loss and gradient, and their bounds ---- */

static void widen(model *m)
{
    for (int64_t i = 0; i < ts_tref_tensors(&m->s.d); i++) {
        int64_t at, n;
        double  most = 0;
        ts_tref_tensor(&m->s.d, i, &at, &n);
        for (int64_t k = at; k < at + n; k++) most = fmax(most, fabs(m->noisy[k] - m->g[k]));
        for (int64_t k = at; k < at + n; k++) m->bound[k] = fmax(m->bound[k], TS_TREF_TIMES * most);
    }
}

/* Gains are those of the model at hand, up to their bound; of matrices the codes are known. A run
 * whose path is not compared needs no bounds. */
static void run(model *m, const ts_tt_op *o, bool back)
{
    const int n_runs = ts_tt_is_free(m->c) && m->n_step && o->what == TS_TT_STEP ? 0 : TS_TREF_RUNS;
    const int32_t *tokens = m->a->tokens + o->tokens;
    const int64_t  n_count = (int64_t)o->n_batch * (o->n_tok - 1);
    m->nll = ts_tref_run(&m->s.d, m->serve, o->n_batch, o->n_tok, tokens, 0, back ? m->g : NULL);
    m->nll_bound = 8 * U * m->nll / (double)n_count;
    memset(m->bound, 0, (size_t)m->n * sizeof *m->bound);
    memcpy(m->moved, m->serve, (size_t)m->n * sizeof *m->moved);
    for (int i = 1; i <= n_runs; i++) {
        const uint64_t noise = ts_mix((uint64_t)i);
        for (int64_t k = m->n_latent; k < m->n; k++)
            m->moved[k] = m->serve[k] + m->off[W][k] * ts_uniform(noise + 1, k);
        const double nll = ts_tref_run(&m->s.d, m->moved, o->n_batch, o->n_tok, tokens, noise,
                                       back ? m->noisy : NULL);
        m->nll_bound = fmax(m->nll_bound, TS_TREF_TIMES * fabs(nll - m->nll));
        if (back) widen(m);
    }
}

/* ---- a step ---- */

static double update(double m, double v, double bias1, double bias2, double eps, double most)
{
    const double f = m / bias1 / (sqrt(fmax(v, 0) / bias2) + eps);
    return fmax(-most, fmin(most, f));
}

/* By how much the norm of the gradient may be off, of itself. */
static double norm_of(const model *m, double *off)
{
    double sum = 0, more = 0;
    for (int64_t i = 0; i < m->n; i++) {
        sum += m->g[i] * m->g[i];
        more += 2 * fabs(m->g[i]) * m->bound[i] + m->bound[i] * m->bound[i];
    }
    *off = sum > 0 ? more / sum + 8 * sqrt((double)m->n) * U : 0;
    return sqrt(sum);
}

static void step(model *m, const double *rate)
{
    const double lr = rate[0], b1 = rate[1], b2 = rate[2], eps = rate[3], decay = rate[4];
    const double t = (double)++m->n_step;
    const double bias1 = 1 - ts_pow64(b1, t), bias2 = 1 - ts_pow64(b2, t);
    double       clip_off;
    const double norm = norm_of(m, &clip_off);
    const bool   clipped = rate[5] > 0 && norm > rate[5];
    const double clip = clipped ? rate[5] / norm : 1;
    if (!clipped) clip_off = 0;
    /* Cauchy and Schwarz: (sum a g)^2 <= (sum a^2 / b) (sum b g^2). */
    double most = 0;
    for (int64_t i = 0; i < m->n_step; i++) {
        const double a = (1 - b1) * ts_pow64(b1, (double)i) / bias1;
        most += a * a * bias2 / ((1 - b2) * ts_pow64(b2, (double)i));
        if (a == 0) break;
    }
    most = sqrt(most) * (1 + 16 * U);
    for (int64_t i = 0; i < m->n; i++) {
        const double  g = clip * m->g[i], g_off = clip * m->bound[i] + clip_off * fabs(g);
        double *const first = &m->at[M][i], *const second = &m->at[V][i], *const w = &m->at[W][i];
        double *const first_off = &m->off[M][i], *const second_off = &m->off[V][i];
        *first = b1 * *first + (1 - b1) * g;
        *first_off = b1 * *first_off + (1 - b1) * g_off + 4 * U * fabs(*first);
        *second = b2 * *second + (1 - b2) * g * g;
        *second_off =
            b2 * *second_off + (1 - b2) * (2 * fabs(g) * g_off + g_off * g_off) + 8 * U * *second;
        const double f = update(*first, *second, bias1, bias2, eps, most);
        double       f_off = 0;
        for (int k = 0; k < 4; k++) {
            const double corner =
                update(*first + (k & 1 ? 1 : -1) * *first_off,
                       *second + (k & 2 ? 1 : -1) * *second_off, bias1, bias2, eps, most);
            f_off = fmax(f_off, fabs(corner - f));
        }
        const double d = i < m->n_latent ? decay : 0;
        m->off[W][i] += lr * (f_off + 16 * U * fabs(f) + d * m->off[W][i]) + 4 * U * fabs(*w);
        *w -= lr * (f + d * *w);
    }
}

/* ---- the effective weights ---- */

static const uint8_t *code_of(const model *m, int64_t group)
{
    return m->a->code + (m->n_export * m->n_scale + group) * TS_TREF_BYTES;
}

/* Scale of n weights, each moved by `side` times its bound. The sum is of double, in some order; by
 * the usual contract it may be of float. */
static double scale_of(const model *m, int64_t at, int64_t n, double side)
{
    const double error = m->codes == TS_TT_USUAL ? (double)(n + 2) * U : 0x1p-46;
    double       sum = 0, off = 0;
    for (int64_t j = at; j < at + n; j++) {
        sum += fabs(m->at[W][j]);
        off += m->off[W][j];
    }
    return ts_widen_f16(ts_narrow_f16(fmax(0, sum * (1 + side * error) + side * off) / (double)n));
}

/* By the usual contract a weight is compared after a division in float, which says nothing of one
 * that is just half of the scale. */
static bool may_be(const model *m, int64_t i, int code, double s)
{
    const double w = m->at[W][i];
    const double off = m->off[W][i] + (m->codes == TS_TT_USUAL ? 4 * U * fabs(w) : 0);
    /* Codes rise with the weight. Around 0, one may lie between those of both ends. */
    return code >= fmin(ts_tref_code(w - off, s), ts_tref_code(w + off, s)) &&
           code <= fmax(ts_tref_code(w - off, s), ts_tref_code(w + off, s));
}

/* The exported codes and scale of a group, and its effective weights. */
static void resolve(model *m, const ts_tref_matrix *t, int64_t row, int64_t g, ts_want *code,
                    ts_want *scale)
{
    const int64_t group = t->group + row * ts_tref_groups(t->n_in) + g;
    const int64_t at = t->at + row * t->n_in + g * TS_TREF_GROUP,
                  left = t->n_in - g * TS_TREF_GROUP;
    const int64_t n = left < TS_TREF_GROUP ? left : TS_TREF_GROUP;
    double        s = scale_of(m, at, n, 0);
    if (m->answer) {
        const double got = ts_load(m->a->scale, TS_F16, m->n_export * m->n_scale + group);
        if (got >= scale_of(m, at, n, -1) && got <= scale_of(m, at, n, 1) && got != s) {
            s = got;
            m->differs = true;
        }
    }
    for (int64_t j = 0; j < TS_TREF_GROUP; j++) {
        int point = j < n ? 1 + ts_tref_code(m->at[W][at + j], s) : 1;
        if (m->answer && j < n) {
            const int got = ts_tref_point(code_of(m, group), j);
            if (got != point && may_be(m, at + j, got - 1, s)) point = got, m->differs = true;
        }
        if (j < n) m->serve[at + j] = (point - 1) * s;
        if (code) code[j / 4].value += (double)(point << 2 * (j % 4));
    }
    if (scale) *scale = (ts_want) { s, 0 };
}

/* Into `code` and `scale`, unless NULL, what an export must show. */
static void resolve_all(model *m, ts_want *code, ts_want *scale)
{
    for (int64_t i = 0; code && i < m->n_scale * TS_TREF_BYTES; i++) code[i] = (ts_want) { 0, 0 };
    for (int64_t i = 0; i < ts_tref_matrices(&m->s.d); i++) {
        const ts_tref_matrix t = ts_tref_matrix_of(&m->s.d, i);
        for (int64_t r = 0; r < t.n_out; r++)
            for (int64_t g = 0; g < ts_tref_groups(t.n_in); g++) {
                const int64_t group = t.group + r * ts_tref_groups(t.n_in) + g;
                resolve(m, &t, r, g, code ? code + group * TS_TREF_BYTES : NULL,
                        scale ? scale + group : NULL);
            }
    }
    for (int64_t i = m->n_latent; i < m->n; i++) m->serve[i] = m->at[W][i];
}

/* ---- a free run: exported codes are used if they are valid ---- */

static void adopt(model *m, ts_want *code, ts_want *scale, ts_want *gain)
{
    m->differs = true;
    for (int64_t i = 0; i < ts_tref_matrices(&m->s.d); i++) {
        const ts_tref_matrix t = ts_tref_matrix_of(&m->s.d, i);
        for (int64_t k = 0; k < t.n_out * ts_tref_groups(t.n_in); k++) {
            const int64_t group = t.group + k, g = k % ts_tref_groups(t.n_in);
            const int64_t at = t.at + k / ts_tref_groups(t.n_in) * t.n_in + g * TS_TREF_GROUP;
            const double  s = ts_load(m->a->scale, TS_F16, m->n_export * m->n_scale + group);
            scale[group] = (ts_want) { isfinite(s) && s >= 0 ? s : 0, 0 };
            for (int64_t j = 0; j < TS_TREF_BYTES; j++) code[group * TS_TREF_BYTES + j].value = 0;
            for (int64_t j = 0; j < TS_TREF_GROUP; j++) {
                const bool there = g * TS_TREF_GROUP + j < t.n_in;
                const int  got = ts_tref_point(code_of(m, group), j);
                const int  point = there && got < 3 ? got : 1;
                if (there) m->serve[at + j] = (point - 1) * s;
                code[group * TS_TREF_BYTES + j / 4].value += (double)(point << 2 * (j % 4));
                code[group * TS_TREF_BYTES + j / 4].bound = 0;
            }
        }
    }
    for (int64_t i = 0; i < m->n_norm; i++) {
        const double got = m->a->gain[m->n_export * m->n_norm + i];
        gain[i] = (ts_want) { isfinite(got) ? got : 1, 0 };
        m->serve[m->n_latent + i] = gain[i].value;
        m->off[W][m->n_latent + i] = 0;
    }
}

static void anything(ts_want *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) want[i] = (ts_want) { 0, INFINITY };
}

/* ---- operations ---- */

static ts_status refusal(int how)
{
    switch (how) {
    case TS_TT_SOUND:
        return TS_OK;
    case TS_TT_SHORT:
        return TS_E_WORKSPACE;
    case TS_TT_ONE_TOKEN:
    case TS_TT_NO_BATCH:
        return TS_E_SHAPE;
    case TS_TT_MORE_BATCH:
    case TS_TT_MORE_TOKENS:
        return TS_E_CAPACITY;
    default:
        return TS_E_ARG;
    }
}

typedef struct wants {
    ts_want *seen, *dlatent, *dnorm, *code, *scale, *gain;
} wants;

static void give_gradient(const model *m, const wants *w)
{
    for (int64_t i = 0; i < m->n; i++) {
        ts_want *to = i < m->n_latent ? w->dlatent + m->n_grad * m->n_latent + i
                                      : w->dnorm + m->n_grad * m->n_norm + i - m->n_latent;
        *to = (ts_want) { m->g[i], m->bound[i] + U * fabs(m->g[i]) };
    }
}

/* Nothing has changed since: what was wanted then. */
static void give_again(const model *m, const wants *w, const ts_tt_op *o, ts_want *seen)
{
    const size_t L = (size_t)m->n_latent, N = (size_t)m->n_norm;
    int64_t      row = 0;
    for (int32_t i = 0; i < o->same; i++) row += m->s.op[i].what == TS_TT_GRAD;
    memcpy(w->dlatent + (size_t)m->n_grad * L, w->dlatent + (size_t)row * L, L * sizeof(ts_want));
    memcpy(w->dnorm + (size_t)m->n_grad * N, w->dnorm + (size_t)row * N, N * sizeof(ts_want));
    seen[1] = w->seen[o->same * TS_TT_SEEN + 1];
}

static void give_export(model *m, const wants *w)
{
    ts_want *const code = w->code + m->n_export * m->n_scale * TS_TREF_BYTES;
    ts_want *const scale = w->scale + m->n_export * m->n_scale;
    ts_want *const gain = w->gain + m->n_export * m->n_norm;
    if (ts_tt_is_free(m->c) && !m->answer) {
        anything(code, m->n_scale * TS_TREF_BYTES);
        anything(scale, m->n_scale);
        anything(gain, m->n_norm);
        resolve_all(m, NULL, NULL);
    } else if (ts_tt_is_free(m->c)) {
        adopt(m, code, scale, gain);
    } else {
        resolve_all(m, code, scale);
        for (int64_t i = 0; i < m->n_norm; i++) {
            const int64_t at = m->n_latent + i;
            gain[i] = (ts_want) { m->at[W][at], m->off[W][at] + U * fabs(m->at[W][at]) };
        }
    }
}

/* Rejected ones leave their rows alone: `check` sees to that. */
static void perform(model *m, const ts_tt_op *o, const wants *w, ts_want *seen)
{
    const double n_count = (double)o->n_batch * (o->n_tok - 1);
    const bool   sound = o->how == TS_TT_SOUND;
    const bool   loose = ts_tt_is_free(m->c) && m->n_step; /* the state of the run is unknown */
    seen[0].value = o->what == TS_TT_SIZE ? TS_OK : refusal(o->how);
    seen[1].value = TS_TT_UNSEEN;
    if (!sound && o->what == TS_TT_EVAL) seen[2].value = TS_TT_UNSEEN;
    switch (o->what) {
    case TS_TT_SIZE:
        seen[1] = (ts_want) { 0, INFINITY };
        seen[2].value = o->how == TS_TT_ONE_LESS ? TS_E_WORKSPACE : TS_E_RANGE;
        break;
    case TS_TT_GRAD:
        if (o->same >= 0) give_again(m, w, o, seen);
        else if (sound) {
            run(m, o, true);
            give_gradient(m, w);
            seen[1] = (ts_want) { m->nll / n_count, m->nll_bound / n_count };
        }
        m->n_grad++;
        break;
    case TS_TT_STEP:
        if (!sound) break;
        run(m, o, true);
        seen[1] = (ts_want) { m->nll / n_count, loose ? INFINITY : m->nll_bound / n_count };
        step(m, m->s.rate[o->rate]);
        resolve_all(m, NULL, NULL); /* an export that follows may know better */
        break;
    case TS_TT_EVAL:
        if (!sound) break;
        run(m, o, false);
        seen[1] = (ts_want) { m->nll, m->nll_bound };
        seen[2].value = n_count;
        break;
    case TS_TT_EXPORT:
        if (sound) give_export(m, w);
        m->n_export++;
        break;
    case TS_TT_WITHOUT:
        seen[0].value = TS_E_ARG;
        break;
    default:
        seen[1].value = 0;
    }
}

/* Whether the first export shows the model as it was made. */
static bool shows_first(const ts_tt_script *s)
{
    for (int64_t i = 0; i < s->n_op; i++) {
        if (s->op[i].how != TS_TT_SOUND) continue;
        if (s->op[i].what == TS_TT_STEP) return false;
        if (s->op[i].what == TS_TT_EXPORT) return true;
    }
    return false;
}

static void begin(model *m, const ts_case *c, const ts_ternary_training_args *a, ts_tt_codes codes)
{
    *m = (model) { .c = c, .a = a, .codes = codes };
    ts_tt_script_of(c, &m->s);
    m->n_latent = ts_tref_latents(&m->s.d);
    m->n_norm = ts_tref_norms(&m->s.d);
    m->n_scale = ts_tref_scales(&m->s.d);
    m->n = m->n_latent + m->n_norm;
    for (int i = 0; i < STATES; i++) m->at[i] = fresh(m->n), m->off[i] = fresh(m->n);
    m->serve = fresh(m->n), m->moved = fresh(m->n);
    m->g = fresh(m->n), m->bound = fresh(m->n), m->noisy = fresh(m->n);
    for (int64_t i = 0; i < m->n; i++)
        m->at[W][i] = i < m->n_latent ? a->latent[i] : a->norm[i - m->n_latent];
    m->answer = codes == TS_TT_USUAL && shows_first(&m->s);
    resolve_all(m, NULL, NULL);
    m->answer = codes != TS_TT_OWN;
}

static void end(model *m)
{
    for (int i = 0; i < STATES; i++) {
        free(m->at[i]);
        free(m->off[i]);
    }
    free(m->serve);
    free(m->moved);
    free(m->g);
    free(m->bound);
    free(m->noisy);
    free(m->s.op);
}

bool ts_tt_model(const ts_case *c, const ts_ternary_training_args *a, ts_tt_codes codes,
                 ts_want *want)
{
    model m;
    begin(&m, c, a, codes);
    wants w = { .seen = want };
    w.dlatent = w.seen + m.s.n_op * TS_TT_SEEN;
    w.dnorm = w.dlatent + m.s.n_grad * m.n_latent;
    w.code = w.dnorm + m.s.n_grad * m.n_norm;
    w.scale = w.code + m.s.n_export * m.n_scale * TS_TREF_BYTES;
    w.gain = w.scale + m.s.n_export * m.n_scale;
    for (int64_t i = 0; i < m.s.n_op; i++) {
        ts_want *seen = want + i * TS_TT_SEEN;
        for (int k = 0; k < TS_TT_SEEN; k++) seen[k] = (ts_want) { 0, 0 };
        perform(&m, &m.s.op[i], &w, seen);
    }
    const bool differs = m.differs;
    end(&m);
    return differs;
}
