/* SPDX-License-Identifier: Apache-2.0 */
/* ternary_training.c - task: a ternary language model and its training.
 *
 * A case is a script of operations; its output is what the script observes. The cases and scripts
 * are in ternary_training_cases.c, the expected observations in ternary_training_model.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "rng.h"
#include "spoil.h"
#include "ternary_training_inside.h"

/* ---- inputs ---- */

/* The weights of a row, and of E under "gap" the logits, are about as large as each other. */
static double latent_of(const ts_case *c, const ts_tref_matrix *t, int64_t i, uint64_t seed)
{
    const int64_t row = i / t->n_in, col = i % t->n_in;
    const double  x = ts_normal(seed, t->at + i) / sqrt((double)t->n_in);
    if (ts_is(c, "zeros") && (row % 3 == 1 || (row % 3 == 2 && col % 2))) return 0;
    /* Ones and twos: the mean of a row of eight is 5/4 or near it, and some are its half */
    if (ts_is(c, "ties"))
        return (ts_bits(seed, t->at + i) & 1 ? 1 : -1) * (col % 4 == 0   ? 0.5
                                                          : col % 4 == 1 ? 1.5
                                                          : col % 4 == 2 ? 0.75
                                                                         : 1.25);
    return x;
}

static double gain_of(const ts_case *c, int64_t i, int64_t n_norm, uint64_t seed)
{
    const bool last = i >= n_norm - c->dim[WIDTH];
    if (ts_is(c, "gap") && last) return 60 + 4 * ts_normal(seed, i);
    return 1 + 0.2 * ts_normal(seed, i);
}

/* Tokens of operation `o`. A sequence that copies its first half must look back. */
static int32_t token_of(const ts_case *c, const ts_tt_op *o, int64_t i, uint64_t seed)
{
    const int64_t at = o->tokens + i, t = i % o->n_tok, half = (o->n_tok + 1) / 2;
    if (ts_is(c, "once")) return (int32_t)((ts_bits(seed, o->tokens) + (uint64_t)(3 * i)) % 11);
    if (ts_is(c, "learn") && t >= half) return token_of(c, o, i - half, seed);
    if (ts_is(c, "learn")) return (int32_t)(ts_bits(seed, at) % 4);
    return (int32_t)(ts_bits(seed, at) % (uint64_t)c->dim[VOCAB]);
}

static void fill(const ts_case *c, uint64_t seed, const ts_tt_script *s, float *latent, float *norm,
                 int32_t *tokens)
{
    for (int64_t k = 0; k < ts_tref_matrices(&s->d); k++) {
        const ts_tref_matrix t = ts_tref_matrix_of(&s->d, k);
        for (int64_t i = 0; i < t.n_out * t.n_in; i++)
            latent[t.at + i] = (float)latent_of(c, &t, i, seed + 1);
    }
    const int64_t n_norm = ts_tref_norms(&s->d);
    for (int64_t i = 0; i < n_norm; i++) norm[i] = (float)gain_of(c, i, n_norm, seed + 2);
    for (int64_t k = 0; k < s->n_op; k++)
        for (int64_t i = 0; i < (int64_t)s->op[k].n_batch * s->op[k].n_tok; i++)
            tokens[s->op[k].tokens + i] = token_of(c, &s->op[k], i, seed + 3);
}

/* Numbers that the case's name does not contain, for entrants that do not see the args. */
static void tell(ts_arena *m, const ts_ternary_dims *d)
{
    ts_scalar(m, "ffn", (double)d->ffn);
    ts_scalar(m, "rope_theta", d->rope_theta);
    ts_scalar(m, "norm_eps", d->norm_eps);
}

/* The outputs, in the order of their wants. */
enum { SEEN, DLATENT, DNORM, CODE, SCALE, GAIN, OUTPUTS };

static void outputs(const ts_tt_script *s, ts_buf b[OUTPUTS])
{
    const int64_t L = ts_tref_latents(&s->d), N = ts_tref_norms(&s->d), S = ts_tref_scales(&s->d);
    b[SEEN] = (ts_buf) { "seen", TS_OUT, TS_F64, s->n_op, TS_TT_SEEN, TS_TT_SEEN };
    b[DLATENT] = (ts_buf) { "dlatent", TS_OUT, TS_F32, s->n_grad, L, L };
    b[DNORM] = (ts_buf) { "dnorm", TS_OUT, TS_F32, s->n_grad, N, N };
    b[CODE] = (ts_buf) { "code", TS_OUT, TS_U8, s->n_export, S * TS_TREF_BYTES, S * TS_TREF_BYTES };
    b[SCALE] = (ts_buf) { "scale", TS_OUT, TS_F16, s->n_export, S, S };
    b[GAIN] = (ts_buf) { "gain", TS_OUT, TS_F32, s->n_export, N, N };
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_ternary_training_args *a = args;
    ts_tt_script              s;
    ts_buf                    b[OUTPUTS];
    ts_tt_script_of(c, &s);
    outputs(&s, b);
    const int64_t L = b[DLATENT].n_cols, N = b[DNORM].n_cols, n = s.n_token, w = TS_TT_OP_WORDS;
    *a = (ts_ternary_training_args) { .d = s.d,
                                      .n_op = s.n_op,
                                      .n_latent = L,
                                      .n_norm = N,
                                      .n_code = b[CODE].n_cols,
                                      .n_scale = b[SCALE].n_cols };
    float      *latent = ts_take(m, &a->latent, (ts_buf) { "latent", TS_IN, TS_F32, 1, L, L });
    float      *norm = ts_take(m, &a->norm, (ts_buf) { "norm", TS_IN, TS_F32, 1, N, N });
    int32_t    *tokens = ts_take(m, &a->tokens, (ts_buf) { "tokens", TS_IN, TS_I32, 1, n, n });
    double     *rate = ts_take(m, &a->rate,
                               (ts_buf) { "rate", TS_IN, TS_F64, TS_TT_RATES, TS_TT_RATE, TS_TT_RATE });
    int32_t    *script = ts_take(m, &a->script, (ts_buf) { "script", TS_IN, TS_I32, s.n_op, w, w });
    void *const slot[OUTPUTS] = { &a->seen, &a->dlatent, &a->dnorm, &a->code, &a->scale, &a->gain };
    for (int i = 0; i < OUTPUTS; i++) ts_take(m, slot[i], b[i]);
    tell(m, &s.d);
    fill(c, ts_mix(seed), &s, latent, norm, tokens);
    memcpy(rate, s.rate, sizeof s.rate);
    memcpy(script, s.op, (size_t)s.n_op * sizeof *s.op);
    free(s.op);
}

/* ---- what is expected ---- */

static size_t n_want(const ts_case *c)
{
    ts_tt_script s;
    ts_buf       b[OUTPUTS];
    ts_tt_script_of(c, &s);
    outputs(&s, b);
    free(s.op);
    return ts_bufs_elements(b, OUTPUTS);
}

static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    ts_tt_model(c, args, TS_TT_OWN, want);
}

/* ---- check ---- */

/* Row r of a buffer is as it was before, or as row `same` is. */
static bool row_agrees(ts_buf b, const void *p, int64_t r, int64_t same, ts_flaw *f)
{
    const size_t         each = ts_format_of(b.dtype)->n_bytes, row = each * (size_t)b.n_cols;
    const unsigned char *mine = (const unsigned char *)p + (size_t)r * row;
    const unsigned char *theirs = (const unsigned char *)p + (size_t)(same < 0 ? r : same) * row;
    for (int64_t at = 0; at < b.n_cols; at++) {
        const size_t i = (size_t)at * each;
        if (same < 0 ? ts_is_poison(b.dtype, mine + i, each) : !memcmp(mine + i, theirs + i, each))
            continue;
        *f = (ts_flaw) { TS_FAULT_VALUE,
                         b.name,
                         r,
                         at,
                         ts_load(mine, b.dtype, at),
                         same < 0 ? NAN : ts_load(theirs, b.dtype, at),
                         0 };
        return false;
    }
    return true;
}

/* What is compared: by the canon all; by the usual contract no answers to invalid calls, and after
 * one that has changed the model, not what follows. */
typedef struct terms {
    bool    usual;
    int64_t n_known; /* operations */
} terms;

static bool is_written(ts_buf b, const void *p, int64_t r, ts_flaw *f)
{
    const size_t         each = ts_format_of(b.dtype)->n_bytes;
    const unsigned char *row = (const unsigned char *)p + (size_t)(r * b.n_cols) * each;
    for (int64_t i = 0; i < b.n_cols; i++) {
        if (!ts_is_poison(b.dtype, row + (size_t)i * each, each)) continue;
        *f = (ts_flaw) { TS_FAULT_UNWRITTEN, b.name, r, i, ts_load(row, b.dtype, i), NAN, 0 };
        return false;
    }
    return true;
}

/* One operation's rows: those of a rejected one are untouched, others within their bounds, and
 * equal in bits to those of an earlier one where nothing can have changed. */
static bool check_rows(const ts_tt_op *o, const ts_buf *b, const void *const *p, int from, int to,
                       const int64_t *row, const ts_want *const *want, ts_flaw *f, ts_errors *e)
{
    for (int i = from; i <= to; i++) {
        ts_buf one = b[i];
        if (o->how != TS_TT_SOUND) {
            if (!row_agrees(b[i], p[i], row[0], -1, f)) return false;
            continue;
        }
        if (row[1] >= 0 && !row_agrees(b[i], p[i], row[0], row[1], f)) return false;
        one.n_rows = 1;
        const size_t skip = (size_t)(row[0] * b[i].n_cols) * ts_format_of(b[i].dtype)->n_bytes;
        if (!ts_check_buf(one, (const unsigned char *)p[i] + skip, want[i] + row[0] * b[i].n_cols,
                          f, e)) {
            f->row = row[0];
            return false;
        }
    }
    return true;
}

static bool check_all(const ts_tt_script *s, const ts_buf *b, const void *const *p,
                      const ts_want *first, terms by, ts_flaw *f, ts_errors *e)
{
    const double *const seen = p[SEEN];
    const ts_want      *want[OUTPUTS];
    int64_t            *place = malloc((size_t)s->n_op * sizeof *place), n_grad = 0, n_export = 0;
    bool                ok;
    if (!place) abort();
    for (int i = 0; i < OUTPUTS; i++) want[i] = first, first += b[i].n_rows * b[i].n_cols;
    ok = ts_check_buf(b[SEEN], p[SEEN], want[SEEN], f, e);
    /* The flaw of the first wrong operation; but a NaN that came out of memory that was not written
     * looks like an output that was not. */
    const int64_t n = ok ? s->n_op : f->row;
    ts_flaw       at = { 0 };
    bool          rows = true;
    for (int64_t i = 0; rows && i < n; i++) {
        const ts_tt_op *o = &s->op[i];
        const bool      grad = o->what == TS_TT_GRAD;
        const int       from = grad ? DLATENT : CODE, to = grad ? DNORM : GAIN;
        if (!grad && o->what != TS_TT_EXPORT) continue;
        place[i] = grad ? n_grad++ : n_export++;
        const int64_t row[] = { place[i], o->same < 0 ? -1 : place[o->same] };
        if (by.usual && o->how != TS_TT_SOUND) continue;
        if (i < by.n_known) rows = check_rows(o, b, p, from, to, row, want, &at, e);
        for (int k = from; k <= to && i >= by.n_known && rows && seen[i * TS_TT_SEEN] == 0; k++)
            rows = is_written(b[k], p[k], row[0], &at);
    }
    if (!rows && (ok || at.fault != TS_FAULT_UNWRITTEN)) *f = at;
    free(place);
    return ok && rows;
}

/* A free run ends where the reference's does, up to what the contract leaves it. */
static const double LEEWAY = 0.05;

static bool ends_near(const ts_tt_script *s, const ts_ternary_training_args *a,
                      const ts_want *reference, ts_flaw *f)
{
    const int64_t eval = s->n_op - 2;
    const double  got = a->seen[eval * TS_TT_SEEN + 1];
    const double  want = reference[eval * TS_TT_SEEN + 1].value;
    if (fabs(got - want) <= LEEWAY * want) return true;
    *f = (ts_flaw) { TS_FAULT_VALUE, "seen", eval, 1, got, want, LEEWAY * want };
    return false;
}

/* The codes that were exported, unless they are the reference's, are taken into account. */
static bool same_codes(const ts_buf *b, const ts_ternary_training_args *a, const ts_want *want)
{
    for (int i = 0; i < CODE; i++) want += b[i].n_rows * b[i].n_cols;
    const int64_t n_code = b[CODE].n_rows * b[CODE].n_cols;
    for (int64_t i = 0; i < n_code; i++)
        if (want[i].bound == 0 && a->code[i] != want[i].value) return false;
    want += n_code;
    for (int64_t i = 0; i < b[SCALE].n_rows * b[SCALE].n_cols; i++)
        if (ts_load(a->scale, TS_F16, i) != want[i].value) return false;
    return true;
}

static uint64_t hash_of(uint64_t h, const void *p, size_t n)
{
    for (const unsigned char *b = p; n--; b++) h = (h ^ *b) * UINT64_C(0x100000001b3);
    return h;
}

/* The expected outputs of an export. Cached, since the same export is mostly expected again, with
 * other numbers of threads and from other implementations. */
static const ts_want *wants_after(const ts_case *c, const ts_ternary_training_args *a,
                                  const ts_buf *b)
{
    static ts_want *kept;
    static uint64_t key;
    const size_t    n = (size_t)b[SCALE].n_rows * (size_t)a->n_scale;
    uint64_t        h = hash_of((uintptr_t)c, a->latent, (size_t)a->n_latent * sizeof(float));
    h = hash_of(h, a->code, n * TS_TREF_BYTES);
    h = hash_of(h, a->scale, n * sizeof *a->scale);
    h = hash_of(h, a->gain, (size_t)(b[GAIN].n_rows * a->n_norm) * sizeof *a->gain);
    if (kept && h == key) return kept;
    free(kept);
    kept = malloc((ts_bufs_elements(b, OUTPUTS) + 1) * sizeof *kept);
    if (!kept) abort();
    ts_tt_model(c, a, TS_TT_EXPORTED, kept);
    key = h;
    return kept;
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_ternary_training_args *a = args;
    const void *const p[] = { a->seen, a->dlatent, a->dnorm, a->code, a->scale, a->gain };
    ts_tt_script      s;
    ts_buf            b[OUTPUTS];
    bool              ok;
    ts_tt_script_of(c, &s);
    outputs(&s, b);
    if (ts_tt_is_free(c) || !same_codes(b, a, want)) {
        ok = check_all(&s, b, p, wants_after(c, a, b), (terms) { false, s.n_op }, f, e);
        if (ok && ts_tt_is_free(c)) ok = ends_near(&s, a, want, f);
    } else ok = check_all(&s, b, p, want, (terms) { false, s.n_op }, f, e);
    free(s.op);
    return ok;
}

/* ---- the common contract ---- */

static const char REFUSED[] = "an invalid call is rejected, with nothing written or changed";
static const char HALVES[] =
    "a weight of half the scale has code 0, and the scale is a mean of double";

static bool is_invalid(const ts_tt_op *o)
{
    return o->what == TS_TT_WITHOUT || (o->how != TS_TT_SOUND && o->what != TS_TT_SIZE);
}

/* Whether an invalid call may have changed the model, if it was accepted. */
static bool may_change(const ts_tt_op *o)
{
    if (o->what != TS_TT_WITHOUT) return o->what == TS_TT_STEP;
    return !strcmp(ts_tt_names[o->rate], "ts_ternary_step") ||
           !strcmp(ts_tt_names[o->rate], "ts_ternary_create");
}

/* Lifts the wants of answers to invalid calls; and from one on that was accepted and may have
 * changed the model, of what it shows. True: something was lifted that is not so. */
static bool lift_refusals(const ts_tt_script *s, const double *got, ts_want *seen, terms *by)
{
    bool broken = false;
    for (int64_t i = 0; i < s->n_op; i++, seen += TS_TT_SEEN, got += TS_TT_SEEN) {
        const ts_tt_op *o = &s->op[i];
        const int       from = o->what == TS_TT_SIZE ? 2 : 0, to = from ? TS_TT_SEEN : 3;
        const bool      invalid = is_invalid(o), unknown = i >= by->n_known;
        if (o->what == TS_TT_DESTROY || !(invalid || unknown || from)) continue;
        for (int k = from; k < to; k++) {
            broken |= !(fabs(got[k] - seen[k].value) <= seen[k].bound);
            seen[k].bound = INFINITY;
        }
        if (invalid && got[0] == 0 && may_change(o) && i < by->n_known) by->n_known = i + 1;
    }
    return broken;
}

/* Each row of a refused operation that was written breaks the rule. */
static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const ts_ternary_training_args *a = args;
    const void *const p[] = { a->seen, a->dlatent, a->dnorm, a->code, a->scale, a->gain };
    ts_tt_script      s;
    ts_buf            b[OUTPUTS];
    if (ts_tt_is_free(c)) return NULL;
    ts_tt_script_of(c, &s);
    outputs(&s, b);
    terms    by = { ts_is(c, "nonsense"), s.n_op };
    ts_want *now = malloc((ts_bufs_elements(b, OUTPUTS) + 1) * sizeof *now);
    if (!now) abort();
    const bool other = ts_tt_model(c, a, TS_TT_USUAL, now) && !same_codes(b, a, want);
    const bool broken = by.usual && lift_refusals(&s, a->seen, now, &by);
    const bool ok = check_all(&s, b, p, now, by, f, e);
    free(now);
    free(s.op);
    return !ok ? NULL : by.usual && (broken || !other) ? REFUSED : HALVES;
}

/* Latents and moments of every step, as AdamW has it, and its products; of those with ternary
 * weights, as in judge/task/ternary/ternary_linear.c, an eighth. */
static ts_cost cost(const ts_case *c)
{
    ts_tt_script s;
    double       flops = 0, least = 0, steps = 0;
    ts_tt_script_of(c, &s);
    const double n = (double)ts_tref_latents(&s.d);
    for (int64_t i = 0; i < s.n_op; i++) {
        const double tokens = (double)s.op[i].n_batch * (s.op[i].n_tok - 1);
        const bool   back = s.op[i].what == TS_TT_GRAD || s.op[i].what == TS_TT_STEP;
        if (s.op[i].how != TS_TT_SOUND) continue;
        if (back) flops += 6 * n * tokens, least += 2.5 * n * tokens;
        if (s.op[i].what == TS_TT_EVAL) flops += 2 * n * tokens, least += n * tokens / 4;
        steps += s.op[i].what == TS_TT_STEP;
    }
    free(s.op);
    /* What fits into a cache may stay there from step to step. */
    return (ts_cost) { .bytes = 4 * n + (steps > 0 ? 28 * n : 0),
                       .flops = flops,
                       .least_flops = least };
}

#define OVER "bytes changed past the state"

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    static const char *const name[] = {
        "size", "grad", "step", "eval", "export", "destroy", "without a pointer"
    };
    static_assert(sizeof name / sizeof *name == TS_TT_OPS, "a name for every operation");
    static const char *const field[TS_TT_OPS][TS_TT_SEEN] = {
        { "status", "bytes of state", "status of a creation that must fail", OVER },
        { "status", "loss", "nothing", OVER },
        { "status", "loss", "nothing", OVER },
        { "status", "sum of the losses", "number of tokens", OVER },
        { "status", "nothing", "nothing", OVER },
        { "status", "nothing", "nothing", OVER },
        { "status", "loss", "nothing", OVER },
    };
    const ts_ternary_training_args *a = args;
    (void)c;
    if (strcmp(f->what, "seen") || f->row >= a->n_op || f->col >= TS_TT_SEEN) return;
    const int32_t what = a->script[f->row * TS_TT_OP_WORDS];
    if (what >= 0 && what < TS_TT_OPS)
        snprintf(s, n, "call %lld, %s: %s", (long long)f->row, name[what], field[what][f->col]);
}

/* ---- invalid calls ---- */

#define BAD(must, member, ...) TS_BAD(ts_ternary_training_args, must, d.member, __VA_ARGS__)

static const ts_bad bad[] = {
    BAD(TS_E_SHAPE, head_dim, 3),
    BAD(TS_E_SHAPE, n_head, 3),
    BAD(TS_ALSO, n_kv_head, 2),
    BAD(TS_E_ARG, rope_theta, 0, NAN, INFINITY),
    BAD(TS_E_ARG, norm_eps, 0, NAN, INFINITY),
    { 0 },
};

#define DIM(member, least, most, with)                                                             \
    {                                                                                              \
        offsetof(ts_ternary_training_args, d.member), least, most, with, false, true               \
    }

/* The weights of E, of layers and of their parts, and the activations. */
static const ts_invalid invalid = {
    .extent = { DIM(n_vocab, 1, INT32_MAX, 0), DIM(width, 1, INT32_MAX, 0),
                DIM(n_layer, 1, INT32_MAX, 0), DIM(n_head, 1, INT32_MAX, 0),
                DIM(n_kv_head, 1, INT32_MAX, offsetof(ts_ternary_training_args, d.n_head)),
                DIM(head_dim, 1, 256, 0), DIM(ffn, 1, INT32_MAX, 0),
                DIM(max_batch, 1, INT32_MAX, 0), DIM(max_tokens, 2, INT32_MAX, 0) },
    .n_extent = 9,
    .product = { { { 1, 2 } },
                 { { 3, 2, 7 } },
                 { { 3, 2, 4 } },
                 { { 8, 9, 2 } },
                 { { 8, 9, 3, 7 } } },
    .bad = bad,
};

const ts_task ts_task_ternary_training = {
    .name = "ternary_training",
    .dim_name = { "vocab", "width", "layers", "heads", "kv_heads", "head_dim", "batch", "tokens" },
    .dim_says = { "n_vocab", "width", "n_layer", "n_head", "n_kv_head", "head_dim",
                  "sequences of a batch", "tokens of a sequence" },
    .kind = TS_SCRIPT,
    .devices = TS_ON_CPU,
    .buffer = { { "latent", TS_IN, 1, false },
                { "norm", TS_IN, 1, false },
                { "tokens", TS_IN, 1, true },
                { "rate", TS_IN, 2, false },
                { "script", TS_IN, 2, true },
                { "seen", TS_OUT, 2, false },
                { "dlatent", TS_OUT, 2, false },
                { "dnorm", TS_OUT, 2, false },
                { "code", TS_OUT, 2, true },
                { "scale", TS_OUT, 2, false },
                { "gain", TS_OUT, 2, false } },
    .number = { { "ffn", true }, { "rope_theta", false }, { "norm_eps", false } },
    .exports = ts_tt_names,
    .args_bytes = sizeof(ts_ternary_training_args),
    .more_name = { "theta", "eps", "ffn" },
    .more_says = { "rope_theta; 0: 10000", "log10(norm_eps); 0: 1e-6",
                   "ffn; 0: 3 width, or 1.5 width rounded up where width < 128" },
    .cases = ts_ternary_training_cases,
    .cover = &ts_ternary_training_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .invalid = &invalid,
    .canon = { { "nonsense", REFUSED, true }, { "ties", HALVES, false } },
    .common = common,
    .common_decides = true,
    .explain = explain,
};
