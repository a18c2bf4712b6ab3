/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy.c - mutants of cross-entropy from hidden states and from logits: one correct
 * implementation each, with one injected bug at a time. cross_entropy_list.h lists them.
 *
 * Sums are double, over tiles of 64 words with a running maximum and chunks of 16 rows. */
#include <stdlib.h>
#include <string.h>

#include "cross_entropy_list.h"
#include "mutant.h"
#include "touchstone/cross_entropy.h"
#include "values.h"

typedef ts_cross_entropy_args        hidden_args;
typedef ts_cross_entropy_logits_args logits_args;

enum { TILE = 64, CHUNK = 16 };

/* clang-format off */
typedef enum trap {
    HONEST, ROUNDED, NO_MAX, LSE_NO_MAX, NO_RESCALE, TILE_MAX, LSE_BASE_2, NO_TAIL, P_ROUNDED,
    SMOOTH_PADDED, SMOOTH_OTHERS, SMOOTH_NO_GRAD, SMOOTH_NO_LOSS, SMOOTH_FULL_TARGET,
    IGNORED_DW, IGNORED_DH, IGNORED_LOSS, IGNORED_LSE, IGNORE_100, IGNORED_ONE,
    ALL_ROWS, BY_CHUNK, NONE_0, NO_MEAN, MEAN_GRAD,
    Z_NO_GRAD, Z_NO_2, Z_NO_LOSS, Z_LINEAR, Z_TARGET,
    CAP_NO_SLOPE, CAP_SLOPE_Z, CAP_NO_DIVIDE, CAP_TARGET, CAP_LATE_BIAS, CAP_CLIPS,
    DW_16, DH_16, DW_LAST, DW_NO_G, ACC_IGNORED, ACC_TWICE, ACC_STALE, ACC_CHUNK, NARROW,
    SCALE_1, SCALE_LOSS, SCALE_ABS, NO_BIAS, TARGET_TAIL, TARGET_KEPT, TARGET_0,
    DENSE_H, DENSE_W, INT32, UINT32, WIDE_65535, NAN_AS_LOW, NONFINITE_0, NONFINITE_LEAKS, IGNORED_NONFINITE, MASK_NAN, INF_OK, HIT_TIMES_0, DROPS_12,
    MASKED_MEAN,
    NO_LSE, NO_TOTAL, ROWS_65535, WORDS_65535, LAST_ROW,
    PLACE_LATE, PLACE_KEPT, PLACE_IGNORED,
    WRITE_PAST, WRITE_GAP, WRITE_INPUT, READ_PAST, HANG, CRASH, STATUS, BY_THREADS,
    TAKES_TARGET, TAKES_LOW, TAKES_HIGH, WRITES_FIRST, TAKES_NULL, TAKES_SHAPE, TAKES_DTYPE,
    TAKES_NUMBER, TAKES_GRAD
} trap;
/* clang-format on */

/* What both functions have. */
typedef struct rule {
    ts_dtype       dtype;
    int64_t        n_rows, n_vocab;
    int32_t        ignored;
    int            mean;
    double         scale, smoothing, z_loss, softcap;
    const int32_t *target;
    int64_t        n_counted;
} rule;

static double *numbers(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof *p);
    if (!p) abort();
    return p;
}

/* ---- a row ---- */

static double capped(const rule *r, double x, trap t)
{
    const double c = r->softcap;
    if (c == 0) return x;
    if (t == CAP_CLIPS) return fmin(fmax(x, -c), c);
    return c * tanh(t == CAP_NO_DIVIDE ? x : x / c);
}

static double slope(const rule *r, double x, trap t)
{
    const double c = r->softcap, y = t == CAP_SLOPE_Z ? capped(r, x, t) : c > 0 ? tanh(x / c) : 0;
    return c == 0 || t == CAP_NO_SLOPE ? 1 : 1 - y * y;
}

static int64_t n_words(const rule *r, trap t)
{
    if (t == NO_TAIL && r->n_vocab > 16) return r->n_vocab / 16 * 16;
    return t == WORDS_65535 && r->n_vocab > 65535 ? 65535 : r->n_vocab;
}

/* Over tiles, with a running maximum. */
static double lse_of(const rule *r, const double *x, trap t)
{
    double        m = -INFINITY, sum = 0;
    bool          nonfinite = false;
    const int64_t V = n_words(r, t);
    if (t == NO_MAX) {
        float all = 0;
        for (int64_t v = 0; v < V; v++) all += (float)exp(capped(r, x[v], t));
        return log((double)all);
    }
    for (int64_t v = 0; v < V; v += TILE) {
        double top = -INFINITY;
        for (int64_t k = v; k < v + TILE && k < V; k++) {
            const double z = capped(r, x[k], t);
            nonfinite |= (isnan(z) && t != NAN_AS_LOW) || (z == INFINITY && t != INF_OK);
            if (z > top) top = z;
        }
        const double now = t == TILE_MAX ? top : fmax(m, top);
        if (m != -INFINITY && t != NO_RESCALE)
            sum *= t == TILE_MAX ? (double)(float)exp(m - now) : exp(m - now);
        if (t == TILE_MAX) sum = (double)(float)sum;
        for (int64_t k = v; k < v + TILE && k < V && now != -INFINITY; k++) {
            const double z = capped(r, x[k], t);
            if (!isnan(z) && !(t == DROPS_12 && z < now - 12)) sum += exp(z - now);
        }
        m = now;
    }
    if (t == INF_OK && m == INFINITY) return m;
    if (nonfinite || m == -INFINITY) return NAN;
    if (t == LSE_NO_MAX) return log(sum);
    return (m + log(sum)) * (t == LSE_BASE_2 ? 1.4426950408889634 : 1);
}

static double mean_of(const rule *r, const double *x, trap t)
{
    double        sum = 0;
    const int64_t V = r->n_vocab;
    for (int64_t v = 0; v < n_words(r, t); v++)
        if (t != MASKED_MEAN || x[v] != -INFINITY) sum += capped(r, x[v], t);
    return sum / (double)(t == SMOOTH_PADDED ? (V + TILE - 1) / TILE * TILE : V);
}

static double loss_of(const rule *r, const double *x, int32_t target, double lse, trap t)
{
    const double s = r->smoothing, a = t == SMOOTH_FULL_TARGET ? 1 : 1 - s;
    const double hit = t == CAP_TARGET ? x[target] : capped(r, x[target], t);
    double       loss = lse;
    if (t != Z_NO_LOSS) loss += r->z_loss * lse * (t == Z_LINEAR ? 1 : lse);
    if (a > 0 || t == HIT_TIMES_0) loss -= a * hit;
    if ((s > 0 || t == MASK_NAN) && t != SMOOTH_NO_LOSS) loss -= s * mean_of(r, x, t);
    return t == SCALE_LOSS ? loss * r->scale : loss;
}

static double share(const rule *r, int64_t i, trap t)
{
    double  n = (double)r->n_counted;
    int64_t begin = i / CHUNK * CHUNK, here = 0;
    if (!r->mean || t == MEAN_GRAD) return 1;
    if (t == ALL_ROWS) n = (double)r->n_rows;
    for (int64_t k = begin; k < begin + CHUNK && k < r->n_rows; k++)
        here += r->target[k] != r->ignored;
    return 1 / (t == BY_CHUNK ? (double)here : n);
}

/* x becomes dx */
static void gradient(const rule *r, double *x, int64_t i, int32_t target, double lse, trap t)
{
    const double  s = r->smoothing, n = (double)r->n_vocab;
    const double  scale = t == SCALE_1 ? 1 : t == SCALE_ABS ? fabs(r->scale) : r->scale;
    const double  g = scale * share(r, i, t);
    const double  z = t == Z_NO_GRAD ? 0 : r->z_loss * (t == Z_NO_2 ? 1 : 2);
    const int64_t tail = t == TARGET_TAIL ? r->n_vocab / 16 * 16 : r->n_vocab;
    for (int64_t v = 0; v < r->n_vocab; v++) {
        const double raw = t == NO_MAX ? (double)(float)exp(capped(r, x[v], t)) / exp(lse)
                                       : exp(capped(r, x[v], t) - lse);
        const double p = t == P_ROUNDED                   ? (double)rounded(TS_BF16, raw)
                         : isnan(x[v]) && t == NAN_AS_LOW ? 0
                                                          : raw;
        const bool   hit = t == TARGET_0 ? v == 0 : v == target && v < tail && t != TARGET_KEPT;
        double       dz = p + (t == Z_TARGET && !hit ? 0 : z * lse * p);
        if (hit) dz -= t == SMOOTH_FULL_TARGET ? 1 : 1 - s;
        if (t == SMOOTH_PADDED) dz -= s / (double)((r->n_vocab + TILE - 1) / TILE * TILE);
        else if (t == SMOOTH_OTHERS) dz -= hit || n < 2 ? 0 : s / (n - 1);
        else if (t != SMOOTH_NO_GRAD) dz -= s / n;
        x[v] = g * dz * slope(r, x[v], t);
    }
}

static bool is_ignored(const rule *r, int64_t i, trap t)
{
    return r->target[i] == (t == IGNORE_100 ? -100 : r->ignored);
}

static double total_of(const rule *r, const ts_exec *x, const double *loss, trap t)
{
    double  sum = 0, chunk = 0;
    int64_t here = 0;
    if (t == BY_THREADS) { /* in float, by shares */
        const int n = x->n_threads > 0 ? x->n_threads : 3;
        float     part[8] = { 0 }, all = 0;
        for (int64_t i = 0; i < r->n_rows; i++) part[i % n % 8] += (float)loss[i];
        for (int k = 0; k < 8; k++) all += part[k];
        return (double)all / (r->mean ? (double)r->n_counted : 1);
    }
    for (int64_t i = 0; i < r->n_rows; i++) {
        chunk += loss[i];
        here += r->target[i] != r->ignored;
        if ((i + 1) % CHUNK && i + 1 < r->n_rows) continue;
        sum += t == BY_CHUNK && r->mean && here ? chunk / (double)here : chunk;
        chunk = 0, here = 0;
    }
    if (!r->mean || t == NO_MEAN) return sum;
    if (t == BY_CHUNK) return sum / ceil((double)r->n_rows / CHUNK);
    if (t == NONE_0 && !r->n_counted) return 0;
    return sum / (double)(t == ALL_ROWS      ? r->n_rows
                          : t == IGNORED_ONE ? r->n_counted + 1
                                             : r->n_counted);
}

/* ---- invalid calls ---- */

/* The status that is returned where s is correct. */
static ts_status refusal(ts_status s, trap t)
{
    const ts_status taken = t == TAKES_NULL    ? TS_E_ARG
                            : t == TAKES_SHAPE ? TS_E_SHAPE
                            : t == TAKES_DTYPE ? TS_E_DTYPE
                                               : TS_OK;
    return s == taken ? TS_OK : s;
}

static bool is_number(double v, double least, double most)
{
    return isfinite(v) && v >= least && v <= most;
}

static ts_status check_rule(const rule *r, trap t)
{
    if (t == TAKES_NUMBER) return TS_OK;
    return (r->mean == 0 || r->mean == 1) && isfinite(r->scale) && is_number(r->smoothing, 0, 1) &&
                   is_number(r->z_loss, 0, INFINITY) && is_number(r->softcap, 0, INFINITY)
               ? TS_OK
               : TS_E_ARG;
}

static ts_status check_target(const rule *r, trap t)
{
    for (int64_t i = 0; i < r->n_rows && t != TAKES_TARGET; i++) {
        const int64_t word = r->target[i];
        if (word == r->ignored || (word >= 0 && word < r->n_vocab)) continue;
        if ((word < 0 && t == TAKES_LOW) || (word > 0 && t == TAKES_HIGH)) continue;
        return TS_E_ARG;
    }
    return TS_OK;
}

/* A target that was let pass is not used. */
static bool out_of_range(const rule *r, int64_t i)
{
    return r->target[i] < 0 || r->target[i] >= r->n_vocab;
}

static bool fits(int64_t n, int64_t stride)
{
    return stride <= INT64_MAX / 8 / (n > 0 ? n : 1);
}

/* ---- from hidden states ---- */

static int64_t row_at(int64_t i, int64_t stride, int64_t width, bool dense, trap t)
{
    const int64_t at = i * (dense ? width : stride);
    return t == INT32 ? at & INT32_MAX : t == UINT32 ? at & UINT32_MAX : at;
}

static double h_at(const hidden_args *a, int64_t i, int64_t k, trap t)
{
    return ts_load(a->h, a->dtype, row_at(i, a->h_stride, a->n_hidden, t == DENSE_H, t) + k);
}

static double w_at(const hidden_args *a, int64_t v, int64_t k, trap t)
{
    return ts_load(a->w, a->dtype, row_at(v, a->w_stride, a->n_hidden, t == DENSE_W, t) + k);
}

static void logits_of(const hidden_args *a, const rule *r, int64_t i, double *x, trap t)
{
    for (int64_t v = 0; v < a->n_vocab; v++) {
        const double bias = a->bias && t != NO_BIAS ? ts_load(a->bias, a->dtype, v) : 0;
        double       sum = 0;
        for (int64_t k = 0; k < a->n_hidden; k++) sum += h_at(a, i, k, t) * w_at(a, v, k, t);
        x[v] = sum + bias;
        if (t == CAP_LATE_BIAS && r->softcap > 0)
            x[v] = r->softcap *
                   atanh(fmin(fmax((capped(r, sum, t) + bias) / r->softcap, -0.999999), 0.999999));
        if (t == ROUNDED) x[v] = (double)rounded(a->dtype, x[v]);
    }
}

static void put_gradient(const hidden_args *a, void *to, int64_t at, double v, trap t)
{
    const ts_dtype gt = t == NARROW ? a->dtype : a->grad_dtype;
    const bool     adds = (a->accumulate && t != ACC_IGNORED) || t == ACC_STALE;
    put(to, gt, at, v + (adds ? ts_load(to, gt, at) * (t == ACC_TWICE ? 2 : 1) : 0));
}

static void hidden_row(const hidden_args *a, const rule *r, int64_t i, double *x, double *loss,
                       double *dw, bool *nonfinite, trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const bool     ignored = is_ignored(r, i, t),
               skipped = ignored && t != IGNORED_DW && t != IGNORED_NONFINITE;
    double lse = 0;
    if (out_of_range(r, i) && !ignored) return;
    if (!skipped) {
        logits_of(a, r, i, x, t);
        lse = lse_of(r, x, t);
        if (t == NONFINITE_LEAKS && *nonfinite) lse = NAN;
        *nonfinite |= isnan(lse);
        if (t == NONFINITE_0 && isnan(lse)) {
            memset(x, 0, (size_t)a->n_vocab * sizeof *x);
            lse = 0;
        }
    }
    loss[i] = ignored ? 0 : loss_of(r, x, r->target[i], lse, t);
    if (t == ROWS_65535 && i >= 65535) return;
    if (t == WIDE_65535 && i >= 65535 && a->n_vocab > 64) return;
    if (t == LAST_ROW && i == a->n_rows - 1) return;
    if (!(ignored && t == IGNORED_LOSS)) put(a->loss, wide, i, loss[i]);
    if (!(ignored && t == IGNORED_LSE) && t != NO_LSE) put(a->lse, wide, i, ignored ? 0 : lse);
    if (!skipped) gradient(r, x, i, ignored ? -1 : r->target[i], lse, t);
    if (ignored && t == IGNORED_NONFINITE)
        for (int64_t v = 0; v < a->n_vocab; v++) x[v] = 0; /* which do not make 0 of a NaN */
    for (int64_t k = 0; k < a->n_hidden && a->dh && !(ignored && t == IGNORED_DH); k++) {
        double sum = 0;
        for (int64_t v = 0; v < n_words(r, t) && !ignored; v++) {
            sum += x[v] * w_at(a, v, k, t);
            if (t == DH_16) sum = (double)rounded(a->dtype == TS_F32 ? TS_BF16 : a->dtype, sum);
        }
        put_gradient(a, a->dh, i * a->h_stride + k, sum, t);
    }
    if (t == DW_LAST && i % CHUNK == 0)
        memset(dw, 0, (size_t)(a->n_vocab * a->n_hidden) * sizeof *dw);
    for (int64_t v = 0; v < n_words(r, t) && a->dw && !skipped; v++)
        for (int64_t k = 0; k < a->n_hidden; k++) {
            double *const to = &dw[v * a->n_hidden + k];
            *to += x[v] * h_at(a, i, k, t);
            if (t == DW_16) *to = (double)rounded(a->dtype == TS_F32 ? TS_BF16 : a->dtype, *to);
        }
}

static rule rule_of(const hidden_args *a)
{
    rule r = { a->dtype,     a->n_rows, a->n_vocab, a->ignore_index, a->mean, a->scale,
               a->smoothing, a->z_loss, a->softcap, a->target,       0 };
    for (int64_t i = 0; i < r.n_rows && a->target; i++) r.n_counted += a->target[i] != r.ignored;
    return r;
}

static ts_status check_hidden(const hidden_args *a, const ts_exec *x, trap t)
{
    if (!a || !x || !a->w || !a->total) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->h || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->n_hidden < 1) return TS_E_SHAPE;
    if (a->h_stride < a->n_hidden || a->w_stride < a->n_hidden) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->h_stride) || !fits(a->n_vocab, a->w_stride)) return TS_E_SHAPE;
    if ((unsigned)a->dtype > TS_BF16) return TS_E_DTYPE;
    if (a->grad_dtype != a->dtype && a->grad_dtype != ts_wide(a->dtype) && t != TAKES_GRAD)
        return TS_E_DTYPE;
    return TS_OK;
}

static ts_status check_rest(const hidden_args *a, trap t)
{
    const rule r = rule_of(a);
    if (t != TAKES_NUMBER && (a->chunk < 0 || (a->accumulate != 0 && a->accumulate != 1)))
        return TS_E_ARG;
    const ts_status s = check_rule(&r, t);
    return s ? s : check_target(&r, t);
}

static ts_status hidden(const void *args, const ts_exec *e, trap t)
{
    const hidden_args *a = args;
    ts_status          s = check_hidden(a, e, t);
    bool               nonfinite = false;
    if (s) return refusal(s, t);
    s = check_rest(a, t);
    if (s && t == WRITES_FIRST && a->n_rows) put(a->loss, TS_F32, 0, 0);
    if (s) return s;
    if ((unsigned)a->grad_dtype > TS_BF16 || !(a->smoothing >= 0)) return TS_OK;
    if (t == STATUS && a->n_hidden == 33) return TS_E_UNSUPPORTED;
    if (t == CRASH && a->n_vocab == 129) abort();
    while (t == HANG && a->n_vocab == 129) {}
    const rule    r = rule_of(a);
    const int64_t V = a->n_vocab, D = a->n_hidden;
    double       *x = numbers(V), *loss = numbers(a->n_rows), *dw = numbers(V * D);
    for (int64_t i = 0; i < a->n_rows; i++) {
        hidden_row(a, &r, i, x, loss, dw, &nonfinite, t);
        for (int64_t k = 0;
             k < V * D && t == ACC_CHUNK && a->dw && a->accumulate && i % CHUNK == CHUNK - 1; k++)
            dw[k] += ts_load(a->dw, a->grad_dtype, k / D * a->w_stride + k % D);
    }
    for (int64_t v = 0; v < n_words(&r, t) && a->dw; v++)
        for (int64_t k = 0; k < D; k++)
            put_gradient(a, a->dw, v * a->w_stride + k,
                         dw[v * D + k] / (t == DW_NO_G ? r.scale : 1), t);
    if (t != NO_TOTAL) put(a->total, ts_wide(a->dtype), 0, total_of(&r, e, loss, t));
    volatile char *in = (char *)a->w; /* volatile: touched, though nothing comes of it */
    if (t == WRITE_INPUT) in[0] = in[0];
    if (t == READ_PAST)
        (void)in[(size_t)((V - 1) * a->w_stride + D) * ts_format_of(a->dtype)->n_bytes];
    if (t == WRITE_PAST && a->dw) put(a->dw, a->grad_dtype, (V - 1) * a->w_stride + D, 0);
    if (t == WRITE_GAP && a->dw && V > 1 && a->w_stride > D) put(a->dw, a->grad_dtype, D, 0);
    free(x);
    free(loss);
    free(dw);
    return TS_OK;
}

/* ---- from logits ---- */

static ts_status check_logits(const logits_args *a, const ts_exec *x)
{
    if (!a || !x || !a->total || (a->in_place && a->dlogits)) return TS_E_ARG;
    if (a->n_rows != 0 && (!a->logits || !a->target || !a->loss || !a->lse)) return TS_E_ARG;
    if (a->n_rows < 0 || a->n_vocab < 1 || a->row_stride < a->n_vocab) return TS_E_SHAPE;
    if (!fits(a->n_rows, a->row_stride)) return TS_E_SHAPE;
    return (unsigned)a->dtype > TS_BF16 ? TS_E_DTYPE : TS_OK;
}

static void logits_row(const logits_args *a, const rule *r, int64_t i, double *x, double *loss,
                       trap t)
{
    const ts_dtype wide = ts_wide(a->dtype);
    const bool     ignored = is_ignored(r, i, t);
    const int64_t  at = row_at(i, a->row_stride, a->n_vocab, t == DENSE_H, t);
    const int64_t  to = i * a->row_stride;
    void *const    dx = a->in_place ? a->logits : a->dlogits;
    double         lse = 0;
    if (out_of_range(r, i) && !ignored) return;
    for (int64_t v = 0; v < r->n_vocab; v++) x[v] = ts_load(a->logits, a->dtype, at + v);
    if (!ignored) lse = lse_of(r, x, t);
    loss[i] = ignored ? 0 : loss_of(r, x, r->target[i], lse, t);
    if (!ignored) gradient(r, x, i, r->target[i], lse, t);
    for (int64_t v = 0; v < n_words(r, t) && dx; v++) {
        if (a->in_place && t == PLACE_KEPT) break;
        if (ignored && (t == IGNORED_DH || (t == PLACE_IGNORED && a->in_place))) break;
        put(dx, a->dtype, to + v, ignored ? t == IGNORED_NONFINITE ? 0 * x[v] : 0 : x[v]);
    }
    if (t == PLACE_LATE && a->in_place && !ignored) /* the target's logit is gone by now */
        loss[i] = lse - ts_load(a->logits, a->dtype, at + r->target[i]);
    if (t == ROWS_65535 && i >= 65535) return;
    if (t == WIDE_65535 && i >= 65535 && a->n_vocab > 64) return;
    if (t == LAST_ROW && i == a->n_rows - 1) return;
    if (!(ignored && t == IGNORED_LOSS)) put(a->loss, wide, i, loss[i]);
    if (!(ignored && t == IGNORED_LSE) && t != NO_LSE) put(a->lse, wide, i, lse);
}

static ts_status logits(const void *args, const ts_exec *e, trap t)
{
    const logits_args *a = args;
    ts_status          s = check_logits(a, e);
    if (s) return refusal(s, t);
    rule r = { a->dtype,     a->n_rows, a->n_vocab, a->ignore_index, a->mean, a->scale,
               a->smoothing, a->z_loss, a->softcap, a->target,       0 };
    for (int64_t i = 0; i < r.n_rows; i++) r.n_counted += a->target[i] != r.ignored;
    s = a->in_place == 0 || a->in_place == 1 || t == TAKES_NUMBER ? check_rule(&r, t) : TS_E_ARG;
    if (!s) s = check_target(&r, t);
    if (s && t == WRITES_FIRST && a->n_rows && a->dlogits) put(a->dlogits, a->dtype, 0, 0);
    if (s) return s;
    if (!(a->smoothing >= 0)) return TS_OK;
    double *x = numbers(a->n_vocab), *loss = numbers(a->n_rows);
    for (int64_t i = 0; i < a->n_rows; i++) logits_row(a, &r, i, x, loss, t);
    if (t != NO_TOTAL) put(a->total, ts_wide(a->dtype), 0, total_of(&r, e, loss, t));
    const int64_t end = (a->n_rows - 1) * a->row_stride + a->n_vocab;
    if (t == WRITE_PAST && a->dlogits && a->n_rows) put(a->dlogits, a->dtype, end, 0);
    if (t == WRITE_GAP && a->n_rows > 1 && a->row_stride > a->n_vocab && a->dlogits)
        put(a->dlogits, a->dtype, a->n_vocab, 0);
    if (t == WRITE_INPUT && a->n_rows && !a->in_place) {
        volatile char *in = a->logits;
        in[0] = in[0];
    }
    free(x);
    free(loss);
    return TS_OK;
}

#define TASK    cross_entropy
#define MUTANTS HIDDEN
#define CALL    hidden
#include "called.h"

#define TASK    cross_entropy_logits
#define MUTANTS LOGITS
#define CALL    logits
#include "called.h"
