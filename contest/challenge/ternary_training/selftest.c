/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for ternary_training.
 *
 * A decoder in double, below, reads what was exported: its loss must be that of eval, its
 * differences are the gradient, and a step is what the formula makes of that gradient. */
#include "selftest.h"
#include "touchstone/ternary_training.h"

enum { MOST = 1 << 14, ROWS = 64, WIDE = 64, TOKENS = 256 };

typedef struct bench {
    char            name[96];
    ts_ternary_dims d;
    ts_exec         x;
    ts_ternary     *m;
    int64_t         n_latent, n_norm, n_group;
    float           latent[MOST], norm[MOST], dlatent[MOST], dnorm[MOST], gain[MOST];
    uint8_t         code[MOST * 32];
    uint16_t        scale[MOST];
    double          w[MOST]; /* effective weights, then gains */
    int32_t         tokens[TOKENS];
} bench;

static double half(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    return e == 31 ? NAN : e == 0 ? ldexp(m, -24) : ldexp(m + 1024, e - 25);
}

/* ---- the decoder: one sequence at a time ---- */

static void shape_of(const ts_ternary_dims *d, int64_t i, int64_t *out, int64_t *in)
{
    const int64_t q = d->n_head * d->head_dim, kv = d->n_kv_head * d->head_dim;
    const int64_t n_out[] = { q, kv, kv, d->width, d->ffn, d->ffn, d->width };
    const int64_t n_in[] = { d->width, d->width, d->width, q, d->width, d->width, d->ffn };
    *out = i ? n_out[(i - 1) % 7] : d->n_vocab;
    *in = i ? n_in[(i - 1) % 7] : d->width;
}

/* Matrix number i, E or seven of each layer, times x. */
static void times(const bench *b, int64_t i, const double *x, double *y)
{
    int64_t at = 0, out, in;
    for (int64_t k = 0; k < i; k++) shape_of(&b->d, k, &out, &in), at += out * in;
    shape_of(&b->d, i, &out, &in);
    for (int64_t o = 0; o < out; o++) {
        y[o] = 0;
        for (int64_t c = 0; c < in; c++) y[o] += b->w[at + o * in + c] * x[c];
    }
}

static void norm(const bench *b, int64_t gain, int64_t n, const double *x, double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    const double s = 1 / sqrt(sum / (double)n + b->d.norm_eps);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * s * b->w[b->n_latent + gain + i];
}

static void turn(const bench *b, int64_t position, double *x)
{
    const int64_t n = b->d.head_dim / 2;
    for (int64_t i = 0; i < n; i++) {
        const double a =
            (double)position * pow(b->d.rope_theta, -2.0 * (double)i / (double)b->d.head_dim);
        const double u = x[i], v = x[i + n];
        x[i] = u * cos(a) - v * sin(a);
        x[i + n] = v * cos(a) + u * sin(a);
    }
}

static void layer(const bench *b, int64_t l, int64_t n, double x[ROWS][WIDE])
{
    static double          q[ROWS][WIDE], k[ROWS][WIDE], v[ROWS][WIDE];
    const ts_ternary_dims *d = &b->d;
    const int64_t          D = d->head_dim, first = 1 + 7 * l, gain = l * 2 * (d->width + D);
    double                 h[WIDE], a[WIDE], u[WIDE];
    for (int64_t t = 0; t < n; t++) {
        norm(b, gain, d->width, x[t], h);
        times(b, first, h, q[t]), times(b, first + 1, h, k[t]), times(b, first + 2, h, v[t]);
        for (int64_t i = 0; i < d->n_head; i++) {
            norm(b, gain + d->width, D, q[t] + i * D, q[t] + i * D);
            turn(b, t, q[t] + i * D);
        }
        for (int64_t i = 0; i < d->n_kv_head; i++) {
            norm(b, gain + d->width + D, D, k[t] + i * D, k[t] + i * D);
            turn(b, t, k[t] + i * D);
        }
    }
    for (int64_t t = 0; t < n; t++) {
        for (int64_t i = 0; i < d->n_head; i++) {
            const int64_t kv = i * d->n_kv_head / d->n_head * D;
            double        p[ROWS], most = -INFINITY, sum = 0;
            for (int64_t j = 0; j <= t; j++) {
                p[j] = 0;
                for (int64_t c = 0; c < D; c++) p[j] += q[t][i * D + c] * k[j][kv + c];
                p[j] /= sqrt((double)D);
                most = fmax(most, p[j]);
            }
            for (int64_t j = 0; j <= t; j++) sum += p[j] = exp(p[j] - most);
            for (int64_t c = 0; c < D; c++) {
                a[i * D + c] = 0;
                for (int64_t j = 0; j <= t; j++) a[i * D + c] += p[j] / sum * v[j][kv + c];
            }
        }
        times(b, first + 3, a, h);
        for (int64_t i = 0; i < d->width; i++) x[t][i] += h[i];
        norm(b, gain + d->width + 2 * D, d->width, x[t], h);
        times(b, first + 4, h, a), times(b, first + 5, h, u);
        for (int64_t i = 0; i < d->ffn; i++) a[i] = a[i] / (1 + exp(-a[i])) * u[i];
        times(b, first + 6, a, h);
        for (int64_t i = 0; i < d->width; i++) x[t][i] += h[i];
    }
}

static double decode(const bench *b, int64_t n_batch, int64_t n_tok)
{
    static double          x[ROWS][WIDE];
    const ts_ternary_dims *d = &b->d;
    double                 h[WIDE], z[WIDE], nll = 0;
    for (int64_t s = 0; s < n_batch; s++) {
        const int32_t *token = b->tokens + s * n_tok;
        for (int64_t t = 0; t + 1 < n_tok; t++)
            memcpy(x[t], b->w + token[t] * d->width, (size_t)d->width * sizeof **x);
        for (int64_t l = 0; l < d->n_layer; l++) layer(b, l, n_tok - 1, x);
        for (int64_t t = 0; t + 1 < n_tok; t++) {
            double most = -INFINITY, sum = 0;
            norm(b, d->n_layer * 2 * (d->width + d->head_dim), d->width, x[t], h);
            times(b, 0, h, z);
            for (int64_t v = 0; v < d->n_vocab; v++) most = fmax(most, z[v]);
            for (int64_t v = 0; v < d->n_vocab; v++) sum += exp(z[v] - most);
            nll += log(sum) + most - z[token[t + 1]];
        }
    }
    return nll;
}

/* ---- what is tried ---- */

/* Exports, and checks the codes against latents, where those are known; then they serve. */
static void take_export(bench *b, const float *latent)
{
    const ts_status s = ts_ternary_export(b->m, &b->x, b->code, b->scale, b->gain);
    int64_t         at = 0, group = 0, out, in;
    if (s) flaw(b->name, "status", 0, s, TS_OK);
    for (int64_t i = 0; i < 1 + 7 * b->d.n_layer && !s; i++) {
        shape_of(&b->d, i, &out, &in);
        for (int64_t r = 0; r < out; r++)
            for (int64_t g = 0; g < in; g += 128, group++)
                for (int64_t j = g; j < in && j < g + 128; j++) {
                    const int    point = b->code[group * 32 + (j - g) / 4] >> 2 * (j % 4) & 3;
                    const double scale = half(b->scale[group]),
                                 w = latent ? latent[at + r * in + j] : 0;
                    if (latent)
                        compare(b->name, "code", at + r * in + j, point,
                                2 * fabs(w) <= scale ? 1
                                : w < 0              ? 0
                                                     : 2,
                                0);
                    b->w[at + r * in + j] = (point - 1) * scale;
                }
        at += out * in;
    }
    for (int64_t i = 0; i < b->n_norm && !s; i++) b->w[b->n_latent + i] = b->gain[i];
}

static void try_eval(bench *b, int64_t n_batch, int64_t n_tok)
{
    double  nll = NAN;
    int64_t n = -1;
    begin_case();
    const ts_status s = ts_ternary_eval(b->m, &b->x, n_batch, n_tok, b->tokens, &nll, &n);
    if (s) flaw(b->name, "status", 0, s, TS_OK);
    compare(b->name, "count", 0, (double)n, (double)(n_batch * (n_tok - 1)), 0);
    const double want = decode(b, n_batch, n_tok);
    compare(b->name, "nll", 0, nll, want, 1e-4 * want);
}

/* Every gain, and every 37th weight, against a difference. */
static void try_grad(bench *b, int64_t n_batch, int64_t n_tok)
{
    double       loss = NAN;
    const double n = (double)(n_batch * (n_tok - 1)), h = 1e-5;
    begin_case();
    const ts_status s =
        ts_ternary_grad(b->m, &b->x, n_batch, n_tok, b->tokens, &loss, b->dlatent, b->dnorm);
    if (s) flaw(b->name, "status", 0, s, TS_OK);
    compare(b->name, "loss", 0, loss, decode(b, n_batch, n_tok) / n, 1e-4 * loss);
    for (int64_t i = 0; i < b->n_latent + b->n_norm && !is_failing; i += i < b->n_latent ? 37 : 1) {
        const double w = b->w[i], got = i < b->n_latent ? b->dlatent[i] : b->dnorm[i - b->n_latent];
        b->w[i] = w + h;
        const double up = decode(b, n_batch, n_tok);
        b->w[i] = w - h;
        const double down = decode(b, n_batch, n_tok);
        b->w[i] = w;
        compare(b->name, "gradient", i, got, (up - down) / (2 * h * n), 1e-5);
    }
}

/* The first step's gains by the formula, from the gradient that try_grad has checked. */
static void try_step(bench *b, int64_t n_batch, int64_t n_tok, double clip_norm)
{
    const ts_adamw h = { 1e-2, 0.9, 0.95, 1e-3, 0.1, clip_norm };
    float          before[MOST];
    double         loss = NAN, sum = 0;
    memcpy(before, b->gain, sizeof before);
    begin_case();
    const ts_status s = ts_ternary_step(b->m, &b->x, &h, n_batch, n_tok, b->tokens, &loss);
    if (s) flaw(b->name, "status", 0, s, TS_OK);
    if (is_failing) return;
    take_export(b, NULL);
    for (int64_t i = 0; i < b->n_latent; i++) sum += (double)b->dlatent[i] * b->dlatent[i];
    for (int64_t i = 0; i < b->n_norm; i++) sum += (double)b->dnorm[i] * b->dnorm[i];
    const double clip = clip_norm > 0 && sqrt(sum) > clip_norm ? clip_norm / sqrt(sum) : 1;
    for (int64_t i = 0; i < b->n_norm; i++) {
        const double g = clip * b->dnorm[i];
        compare(b->name, "gain", i, b->gain[i], before[i] - h.lr * g / (fabs(g) + h.eps), 1e-5);
    }
}

static void try(ts_ternary_dims d, int64_t n_batch, int64_t n_tok, double clip_norm)
{
    static bench b;
    size_t       state = 0, work = 0;
    int64_t      out, in;
    b = (bench) { .d = d, .x = { .device = TS_CPU, .n_threads = 1, .deterministic = 1 } };
    snprintf(b.name, sizeof b.name, "layers=%d width=%d batch=%d tokens=%d clip=%g", (int)d.n_layer,
             (int)d.width, (int)n_batch, (int)n_tok, clip_norm);
    for (int64_t i = 0; i < 1 + 7 * d.n_layer; i++)
        shape_of(&d, i, &out, &in), b.n_latent += out * in, b.n_group += out * ((in + 127) / 128);
    b.n_norm = d.n_layer * 2 * (d.width + d.head_dim) + d.width;
    for (int64_t i = 0; i < b.n_latent; i++) b.latent[i] = (float)draw();
    for (int64_t i = 0; i < b.n_norm; i++) b.norm[i] = (float)(1 + 0.2 * draw());
    for (int64_t i = 0; i < n_batch * n_tok; i++)
        b.tokens[i] = (int32_t)((i * i + (int64_t)(1e6 + 1e5 * draw())) % d.n_vocab);
    begin_case();
    ts_status s = ts_ternary_bytes(&d, &b.x, &state, &work);
    if (s) flaw(b.name, "status", 0, s, TS_OK);
    void *memory = s ? NULL : fresh_bytes(state + 64);
    if (!s) b.x.workspace = fresh_bytes(work + 64);
    b.x.workspace_bytes = work;
    if (!s) s = ts_ternary_create(&d, &b.x, b.latent, b.norm, memory, state, &b.m);
    if (s) flaw(b.name, "status", 0, s, TS_OK);
    if (b.m) {
        take_export(&b, b.latent);
        try_eval(&b, n_batch, n_tok);
        try_grad(&b, n_batch, n_tok);
        try_step(&b, n_batch, n_tok, clip_norm);
        try_eval(&b, n_batch, n_tok);
        ts_ternary_destroy(&b.m);
    }
    drop_all();
}

int main(void)
{
    for (int64_t i = 0; i < 24; i++) {
        const ts_ternary_dims small = { 11, 8, 1, 2, 1, 4, 12, 4, 9, 10000, 1e-6 };
        const ts_ternary_dims other = { 13, 12, 2, 4, 2, 6, 18, 4, 9, 10000, 1e-6 };
        try(i % 2 ? other : small, 1 + i % 3, 2 + i % 7, i % 3 ? 0 : 0.05);
    }
    return verdict();
}
