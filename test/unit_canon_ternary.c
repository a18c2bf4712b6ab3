/* SPDX-License-Identifier: Apache-2.0 */
/* unit_canon_ternary.c - tests which flaws of ternary_linear are excused as a rule of the canon. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "canon_script.h"
#include "dtype.h"
#include "ternary_linear_script.h"

static const ts_ternary_table sound = {
    ts_ternary_pack,
    ts_ternary_unpack,
    ts_ternary_linear,
    ts_ternary_linear_packed,
    ts_ternary_linear_backward,
    ts_ternary_pack_workspace,
    ts_ternary_unpack_workspace,
    ts_ternary_linear_workspace,
    ts_ternary_linear_packed_workspace,
    ts_ternary_linear_backward_workspace,
};

enum { GROUP = 128, BYTES = 32 };

static void ask_family(question *q, const char *family)
{
    ask(q, "ternary_linear", find("ternary_linear", family, "out", 9));
}

static const char *rule_of(const question *q)
{
    const ts_canon *r = ts_canon_of(q->t, q->c);
    assert_non_null(r);
    return r->rule;
}

static int64_t groups_of(const ts_ternary_linear_dims *d)
{
    return (d->n_in + GROUP - 1) / GROUP;
}

/* ---- calls that go on where they must be rejected ---- */

/* Whether functions accept invalid elements, with a number in their place. */
static struct {
    bool      accept;
    ts_status instead; /* they are rejected with another status */
    bool      late;    /* they are rejected after something was written */
} how;

/* Latents that are no numbers, or too large, are 1. */
static float *tame(const ts_ternary_linear_dims *d, const float *w)
{
    const int64_t n = d->n_out * d->n_in;
    float        *own = malloc((size_t)(n + 1) * sizeof *own);
    for (int64_t i = 0; i < n; i++) own[i] = isfinite(w[i]) && fabsf(w[i]) < 8e6F ? w[i] : 1;
    return own;
}

static ts_status end(ts_status s, ts_status own)
{
    if (!s) return TS_OK;
    return how.accept ? own : how.instead ? how.instead : s;
}

static ts_status pack(const ts_ternary_pack_args *a, const ts_exec *x)
{
    ts_ternary_pack_args b = *a;
    float *const         w = tame(&a->d, a->w);
    b.w = w;
    const ts_status s = ts_ternary_pack(a, x);
    const ts_status own = s && (how.accept || how.late) ? ts_ternary_pack(&b, x) : s;
    free(w);
    return end(s, own);
}

static ts_status linear(const ts_ternary_linear_args *a, const ts_exec *x)
{
    ts_ternary_linear_args b = *a;
    float *const           w = tame(&a->d, a->w);
    b.w = w;
    const ts_status s = ts_ternary_linear(a, x);
    const ts_status own = s && (how.accept || how.late) ? ts_ternary_linear(&b, x) : s;
    free(w);
    return end(s, own);
}

static ts_status backward(const ts_ternary_linear_backward_args *a, const ts_exec *x)
{
    ts_ternary_linear_backward_args b = *a;
    float *const                    w = tame(&a->d, a->w);
    b.w = w;
    const ts_status s = ts_ternary_linear_backward(a, x);
    const ts_status own = s && (how.accept || how.late) ? ts_ternary_linear_backward(&b, x) : s;
    free(w);
    return end(s, own);
}

/* Codes 3 are 1, and scales that are no numbers are 1. */
static void tame_codes(const ts_ternary_linear_dims *d, const uint8_t *code, const uint16_t *scale,
                       uint8_t **own_code, uint16_t **own_scale)
{
    const int64_t n = d->n_out * groups_of(d);
    *own_code = malloc((size_t)(n * BYTES) + 1);
    *own_scale = malloc((size_t)(n + 1) * sizeof **own_scale);
    for (int64_t i = 0; i < n * BYTES; i++)
        (*own_code)[i] = code[i] & (uint8_t) ~(code[i] >> 1 & code[i] & 0x55);
    for (int64_t i = 0; i < n; i++)
        (*own_scale)[i] = (scale[i] & 0x7c00) == 0x7c00 ? 0x3c00 : scale[i];
}

static ts_status unpack(const ts_ternary_unpack_args *a, const ts_exec *x)
{
    ts_ternary_unpack_args b = *a;
    uint8_t               *code;
    uint16_t              *scale;
    tame_codes(&a->d, a->code, a->scale, &code, &scale);
    b.code = code, b.scale = scale;
    const ts_status s = ts_ternary_unpack(a, x);
    const ts_status own = s && (how.accept || how.late) ? ts_ternary_unpack(&b, x) : s;
    free(code), free(scale);
    return end(s, own);
}

static ts_status packed(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    ts_ternary_linear_packed_args b = *a;
    uint8_t                      *code;
    uint16_t                     *scale;
    tame_codes(&a->d, a->code, a->scale, &code, &scale);
    b.code = code, b.scale = scale;
    const ts_status s = ts_ternary_linear_packed(a, x);
    const ts_status own = s && (how.accept || how.late) ? ts_ternary_linear_packed(&b, x) : s;
    free(code), free(scale);
    return end(s, own);
}

static const ts_ternary_table lax = {
    pack,
    unpack,
    linear,
    packed,
    backward,
    ts_ternary_pack_workspace,
    ts_ternary_unpack_workspace,
    ts_ternary_linear_workspace,
    ts_ternary_linear_packed_workspace,
    ts_ternary_linear_backward_workspace,
};

static const char *const bad[] = { "bad_code",   "bad_code_last",  "bad_code_padding",
                                   "bad_scale",  "bad_scale_inf",  "bad_scale_minus",
                                   "bad_latent", "bad_latent_inf", "past_f16" };
enum { N_BAD = sizeof bad / sizeof *bad, FIRST_LATENT = 6 };

TEST(invalid_elements_are_accepted)
{
    for (int i = 0; i < N_BAD; i++) {
        question q;
        ask_family(&q, bad[i]);
        assert_right(&q, &sound);
        memset(&how, 0, sizeof how);
        assert_right(&q, &lax);
        how.accept = true;
        assert_string_equal(verdict(&q, &lax), rule_of(&q));
        how.accept = false, how.instead = i < FIRST_LATENT ? TS_E_RANGE : TS_E_FORMAT;
        assert_string_equal(verdict(&q, &lax), rule_of(&q));
        how.instead = 0, how.late = true;
        assert_string_equal(verdict(&q, &lax), rule_of(&q));
        close_question(&q);
    }
}

/* ---- one element of an output is wrong ---- */

typedef struct place {
    const char *buffer;
    int64_t     at;
    bool        unwritten;
} place;

/* The output with this element wrong, whose rest is as the table gives it. */
static const char *spoilt(question *q, const ts_ternary_table *t, place p)
{
    ts_flaw   f = { 0 };
    ts_errors e = { 0 };
    play(q, t);
    for (int i = 0; i < q->m.n; i++) {
        const ts_buf *b = &q->m.buf[i].b;
        const size_t  each = ts_format_of(b->dtype)->n_bytes;
        if (strcmp(b->name, p.buffer)) continue;
        assert_true(p.at >= 0 && p.at < b->n_rows * b->n_cols);
        if (p.unwritten) ts_poison(b->dtype, q->m.buf[i].p + (size_t)p.at * each, each);
        else ts_store(q->m.buf[i].p, b->dtype, p.at, b->dtype == TS_U8 ? 0x2a : 777);
    }
    if (q->t->check(q->c, q->args, q->want, &f, &e)) return "";
    return ts_canon_broken(q->t, q->c, q->args, q->want, &f, &e);
}

/* An element may be any number, but is not left out. */
static void assert_free(question *q, const ts_ternary_table *t, const char *buffer, int64_t at)
{
    const char *rule = spoilt(q, t, (place) { buffer, at, false });
    if (!rule || !*rule) fail_msg("%s: %s[%lld]", q->c->family, buffer, (long long)at);
    assert_string_equal(rule, rule_of(q));
    if (spoilt(q, t, (place) { buffer, at, true }))
        fail_msg("%s: %s[%lld] unwritten", q->c->family, buffer, (long long)at);
}

static void assert_compared(question *q, const ts_ternary_table *t, const char *buffer, int64_t at)
{
    for (int unwritten = 0; unwritten < 2; unwritten++)
        if (spoilt(q, t, (place) { buffer, at, unwritten }))
            fail_msg("%s: %s[%lld]", q->c->family, buffer, (long long)at);
}

/* Of accepted latents those outputs that follow from the group of the invalid one. */
TEST(invalid_latents_spread_no_further)
{
    for (int i = FIRST_LATENT; i < N_BAD; i++) {
        question q;
        ask_family(&q, bad[i]);
        const ts_ternary_play_args *a = q.args;
        const int64_t               n = a->d.n_in, o = a->d.n_out, groups = groups_of(&a->d);
        int64_t                     at = 0;
        memset(&how, 0, sizeof how), how.accept = true;
        while (isfinite(a->w[at]) && fabsf(a->w[at]) < 8e6F) at++;
        const int64_t row = at / n, other = (row + 1) % o, g = at % n / GROUP;
        const int64_t g_other = (g + 1) % groups, in = g * GROUP, past = g_other * GROUP;
        assert_free(&q, &lax, "code", (row * groups + g) * BYTES);
        assert_free(&q, &lax, "scale", row * groups + g);
        assert_free(&q, &lax, "y", 2 * o + row);
        assert_free(&q, &lax, "dx", 2 * n + in);
        assert_compared(&q, &lax, "code", (other * groups + g) * BYTES);
        assert_compared(&q, &lax, "code", (row * groups + g_other) * BYTES);
        assert_compared(&q, &lax, "scale", row * groups + g_other);
        assert_compared(&q, &lax, "y", 2 * o + other);
        assert_compared(&q, &lax, "dx", 2 * n + past);
        assert_compared(&q, &lax, "dw", at);
        assert_compared(&q, &lax, "wt", at);
        assert_compared(&q, &lax, "y_packed", 2 * o + row);
        close_question(&q);
    }
}

TEST(invalid_codes_spread_no_further)
{
    for (int i = 0; i < FIRST_LATENT; i++) {
        question q;
        ask_family(&q, bad[i]);
        const ts_ternary_play_args *a = q.args;
        const int64_t               n = a->d.n_in, o = a->d.n_out, groups = groups_of(&a->d);
        const int64_t               room = groups * GROUP;
        int64_t                     at = 0;
        memset(&how, 0, sizeof how), how.accept = true;
        while ((a->code_in[at / 4] >> 2 * (at % 4) & 3) != 3 &&
               (a->scale_in[at / GROUP] & 0x7c00) != 0x7c00)
            at++;
        const int64_t row = at / room, j = at % room, other = (row + 1) % o;
        if (j < n) assert_free(&q, &lax, "wt", row * n + j);
        assert_free(&q, &lax, "y_packed", o + row);
        assert_compared(&q, &lax, "wt", other * n);
        assert_compared(&q, &lax, "wt", row * n + (j + GROUP) % n / 4);
        assert_compared(&q, &lax, "y_packed", o + other);
        assert_compared(&q, &lax, "y", o + row);
        assert_compared(&q, &lax, "code", row * groups * BYTES);
        assert_compared(&q, &lax, "dx", 3);
        close_question(&q);
    }
}

/* ---- NaN among the inputs ---- */

static ts_status linear_lazy(const ts_ternary_linear_args *a, const ts_exec *x)
{
    bool none = false;
    for (int64_t i = 0; i < a->d.n_rows * a->d.n_in; i++) none |= isnan(((const float *)a->in)[i]);
    return none ? TS_OK : ts_ternary_linear(a, x);
}

TEST(a_nan_stays_where_it_is)
{
    question q;
    ask_family(&q, "nonfinite");
    const ts_ternary_play_args *a = q.args;
    const int64_t               n = a->d.n_in, o = a->d.n_out, rows = a->d.n_rows;
    const float                *in = a->in, *dy = a->dy;
    int64_t                     i = 0, k = 0;
    while (!isnan(in[i])) i++;
    while (!isnan(dy[k])) k++;
    const int64_t row = i / n, other = (row + 1) % rows, back = k / o;
    assert_right(&q, &sound);
    for (int64_t c = 0; c < o; c++) {
        assert_string_equal(spoilt(&q, &sound, (place) { "y", row * o + c, false }), rule_of(&q));
        assert_compared(&q, &sound, "y", other * o + c);
        assert_compared(&q, &sound, "y_packed", other * o + c);
    }
    assert_string_equal(spoilt(&q, &sound, (place) { "dx", back * n + 5, false }), rule_of(&q));
    assert_string_equal(spoilt(&q, &sound, (place) { "dw", i % n, false }), rule_of(&q));
    assert_string_equal(spoilt(&q, &sound, (place) { "dw", k % o * n, false }), rule_of(&q));
    assert_compared(&q, &sound, "dx", (back + 1) % rows * n + 5);
    assert_compared(&q, &sound, "dw", (k % o + 1) % o * n + (i % n + 1) % n);
    assert_compared(&q, &sound, "code", 0);
    assert_compared(&q, &sound, "wt", 0);
    ts_ternary_table t = sound;
    t.linear = linear_lazy;
    assert_null(verdict(&q, &t));
    close_question(&q);
}

/* ---- magnitudes ---- */

TEST(scales_at_the_ends)
{
    question q;
    ask_family(&q, "tiny");
    assert_free(&q, &sound, "y", 1);
    assert_free(&q, &sound, "y_packed", 1);
    assert_free(&q, &sound, "dx", 1);
    assert_free(&q, &sound, "scale", 4);
    assert_compared(&q, &sound, "dw", 1);
    close_question(&q);
    ask_family(&q, "brink"); /* every third row is not */
    const ts_ternary_play_args *a = q.args;
    const int64_t               n = a->d.n_in, o = a->d.n_out, groups = groups_of(&a->d);
    assert_free(&q, &sound, "y", o + 1);
    assert_free(&q, &sound, "scale", groups);
    assert_free(&q, &sound, "dx", n + 4);
    assert_compared(&q, &sound, "y", o + 3);
    assert_compared(&q, &sound, "scale", 0);
    assert_compared(&q, &sound, "code", 3 * groups * BYTES);
    assert_compared(&q, &sound, "wt", n); /* 65504 is a scale as others */
    assert_compared(&q, &sound, "y_packed", o + 1);
    assert_compared(&q, &sound, "dw", n);
    close_question(&q);
}

static ts_status linear_loud(const ts_ternary_linear_args *a, const ts_exec *x)
{
    return fabsf(((const float *)a->in)[0]) > 100 ? TS_OK : ts_ternary_linear(a, x);
}

/* Inputs as f16 has them. */
static void *narrowed(const void *in, ts_dtype t, int64_t n)
{
    void *own = malloc((size_t)(n + 1) * ts_format_of(t)->n_bytes);
    for (int64_t i = 0; i < n; i++)
        ts_store(own, t, i, ts_widen_f16(ts_narrow_f16(ts_load(in, t, i))));
    return own;
}

static ts_status linear_f16(const ts_ternary_linear_args *a, const ts_exec *x)
{
    ts_ternary_linear_args b = *a;
    void *const            in = narrowed(a->in, a->d.dtype, a->d.n_rows * a->d.n_in);
    b.in = in;
    const ts_status s = ts_ternary_linear(&b, x);
    free(in);
    return s;
}

static ts_status packed_f16(const ts_ternary_linear_packed_args *a, const ts_exec *x)
{
    ts_ternary_linear_packed_args b = *a;
    void *const                   in = narrowed(a->in, a->d.dtype, a->d.n_rows * a->d.n_in);
    b.in = in;
    const ts_status s = ts_ternary_linear_packed(&b, x);
    free(in);
    return s;
}

/* One loop in float, as it is usually written. */
static ts_status linear_loop(const ts_ternary_linear_args *a, const ts_exec *x)
{
    const int64_t          o = a->d.n_out, n = a->d.n_in;
    float                 *wt = malloc((size_t)(o * n) * sizeof *wt);
    ts_ternary_linear_args one = *a;
    float                 *eye = calloc((size_t)(n * n), sizeof *eye);
    float                 *by_row = malloc((size_t)(o * n) * sizeof *by_row);
    for (int64_t i = 0; i < n; i++) eye[i * n + i] = 1;
    one.d.n_rows = n, one.d.dtype = TS_F32, one.in = eye, one.y = by_row;
    ts_exec own = { .device = TS_CPU, .n_threads = 1 };
    ts_ternary_linear_workspace(&one, &own, &own.workspace_bytes);
    own.workspace = aligned_alloc(64, (own.workspace_bytes + 64) / 64 * 64);
    const ts_status s = ts_ternary_linear(&one, &own);
    for (int64_t i = 0; i < o * n; i++) wt[i] = by_row[i % n * o + i / n];
    for (int64_t i = 0; i < a->d.n_rows * o && !s; i++) {
        float sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += wt[i % o * n + k] * (float)ts_load(a->in, a->d.dtype, i / o * n + k);
        ts_store(a->y, a->d.dtype, i, (double)sum);
    }
    free(own.workspace), free(wt), free(eye), free(by_row);
    (void)x;
    return s;
}

TEST(inputs_of_any_size)
{
    static const char *const family[] = { "loud", "faint", "huge" };
    const ts_task           *t = ts_task_called("ternary_linear");
    int                      n = 0;
    for (const ts_case *c = t->cases(); c->use; c++)
        for (int i = 0; i < 3; i++) {
            question         q;
            ts_ternary_table table = sound;
            if (!ts_is(c, family[i]) || c->use & TS_USE_COVER || c->dtype == TS_F16) continue;
            ask(&q, "ternary_linear", c);
            assert_null(ts_canon_of(t, c));
            assert_right(&q, &sound);
            table.linear = linear_loop;
            assert_non_null(verdict(&q, &table));
            table.linear = linear_f16, table.packed = packed_f16;
            if (i == 1) assert_null(verdict(&q, &table)); /* all of them are 0 */
            table = sound, table.linear = linear_loud;
            if (i == 0 && c->dtype == TS_F32 &&
                fabsf(*(const float *)((ts_ternary_play_args *)q.args)->in) > 100)
                assert_null(verdict(&q, &table)), n++;
            assert_null(spoilt(&q, &sound, (place) { "y", 0, true }));
            assert_null(spoilt(&q, &sound, (place) { "dw", 0, false }));
            close_question(&q);
            n++;
        }
    assert_true(n > 5);
}
