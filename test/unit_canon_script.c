/* SPDX-License-Identifier: Apache-2.0 */
/* unit_canon_script.c - tests which flaws of a script are excused as a rule of the canon. The
 * library plays it, with one function replaced by a wrong one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "beam_search_script.h"
#include "canon_script.h"
#include "kv_cache_script.h"
#include "ternary_training_script.h"

/* ---- KV cache ---- */

static const ts_kv_table kv = { ts_kv_bytes,  ts_kv_create,   ts_kv_destroy, ts_kv_open,
                                ts_kv_fork,   ts_kv_truncate, ts_kv_free,    ts_kv_append,
                                ts_kv_attend, ts_kv_read,     ts_kv_status,  ts_kv_attend_tree };

static const char STALE[] = "a NaN or infinity that was truncated never reappears";
static const char MASKED[] = "keys whose score is -inf have weight 0, even if they come first";
static const char NONSENSE[] = "an invalid call is rejected, with nothing written or changed";

static bool nan_seen, nan_was_there;

static ts_status append_noting(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                               const int32_t *seq, const int64_t *n_new, const void *k,
                               const void *v)
{
    const ts_status s = ts_kv_append(c, x, layer, n_seq, seq, n_new, k, v);
    int64_t         n = 0;
    for (int64_t i = 0; i < n_seq && !s; i++) n += n_new[i];
    for (int64_t i = 0; i < n * 16; i++) nan_seen |= !isfinite(((const float *)k)[i]); /* 2 x 8 */
    return s;
}

/* While the sequence is shorter than its 33 tokens were. */
static ts_status attend_nan(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                            float *lse)
{
    const ts_status s = ts_kv_attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
    int64_t         len = 0;
    ts_kv_status(c, layer, 0, &len, NULL);
    if (!s && nan_seen && len < 33 && n_seq && seq[0] == 0 && n_q[0])
        *(float *)out = NAN, nan_was_there = true;
    return s;
}

static ts_status attend_wrong(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                              float *lse)
{
    const ts_status s = ts_kv_attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
    if (!s && nan_seen && n_seq && n_q[0]) *(float *)out = 7; /* no NaN: garbage */
    return s;
}

static ts_status attend_all_nan(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                                float *lse)
{
    const ts_status s = ts_kv_attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
    if (!s && nan_seen && n_seq && seq[0] == 1 && n_q[0]) *(float *)out = NAN; /* of the other */
    return s;
}

static ts_status attend_nothing(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                                const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                                float *lse)
{
    if (nan_seen) return TS_OK;
    return ts_kv_attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
}

static ts_status read_nan(ts_kv *c, const ts_exec *x, int64_t layer, int32_t seq, int64_t from,
                          int64_t n, float *k, float *v)
{
    const ts_status s = ts_kv_read(c, x, layer, seq, from, n, k, v);
    if (!s && nan_seen && n) *k = NAN;
    return s;
}

static ts_status truncate_long(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    return nan_seen && n ? ts_kv_truncate(c, x, seq, n - 1) : ts_kv_truncate(c, x, seq, n);
}

/* One page is missing after a NaN was stored; as a cache that counts its pages has it, and as one
 * that does not. */
static int64_t n_leaked, says;

static ts_status status_leaky(const ts_kv *c, int64_t layer, int32_t seq, int64_t *len,
                              ts_kv_usage *u)
{
    const ts_status s = ts_kv_status(c, layer, seq, len, u);
    if (!s && u) u->n_free = says ? u->n_free - n_leaked : 0, u->n_page = says ? u->n_page : 0;
    return s;
}

static ts_status append_leaky(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                              const int32_t *seq, const int64_t *n_new, const void *k,
                              const void *v)
{
    ts_kv_usage     u = { 0 };
    const ts_status s = append_noting(c, x, layer, n_seq, seq, n_new, k, v);
    n_leaked = nan_seen;
    ts_kv_status(c, layer, 0, NULL, &u);
    return s ? s : u.n_free < n_leaked ? TS_E_CAPACITY : TS_OK;
}

TEST(numbers_that_come_back)
{
    question    q;
    ts_kv_table t = kv;
    ask(&q, "kv_cache", find("kv_cache", "nonfinite", "page", 0));
    nan_seen = nan_was_there = false;
    assert_right(&q, &t);
    t.append = append_noting;
    t.attend = attend_nan;
    nan_seen = false;
    assert_string_equal(verdict(&q, &t), STALE);
    assert_true(nan_was_there);
    t.attend = attend_wrong, nan_seen = false;
    assert_null(verdict(&q, &t));
    t.attend = attend_all_nan, nan_seen = false;
    assert_null(verdict(&q, &t));
    t.attend = attend_nothing, nan_seen = false;
    assert_null(verdict(&q, &t));
    t.attend = kv.attend, t.read = read_nan, nan_seen = false;
    assert_null(verdict(&q, &t));
    t.read = kv.read, t.truncate = truncate_long, nan_seen = false;
    assert_null(verdict(&q, &t));
    close_question(&q);
}

TEST(pages_that_leak)
{
    question    q;
    ts_kv_table t = kv;
    ask(&q, "kv_cache", find("kv_cache", "nonfinite", "page", 16));
    t.status = status_leaky;
    n_leaked = 0, says = 1;
    assert_right(&q, &t);
    says = 0; /* it does not count them */
    assert_string_equal(verdict(&q, &t),
                        "a cache reports how many bytes and pages it has and uses");
    n_leaked = 1, says = 1;
    assert_null(verdict(&q, &t));
    t.append = append_leaky; /* and here it shows where every page is needed */
    n_leaked = says = 0, nan_seen = false;
    assert_null(verdict(&q, &t));
    close_question(&q);
}

static int64_t first_row;

static ts_status attend_masked(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                               const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                               float *lse)
{
    const ts_status s = ts_kv_attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
    if (!s && n_seq && n_q[0]) ((float *)out)[first_row * 16] = NAN; /* a head of 16 */
    return s;
}

/* Only heads that read the first KV head see such keys, and they have no other number than NaN. */
TEST(keys_of_minus_infinity)
{
    question    q;
    ts_kv_table t = kv;
    ask(&q, "kv_cache", find("kv_cache", "masked", "head_dim", 16));
    assert_right(&q, &t);
    t.attend = attend_masked;
    first_row = 1;
    assert_string_equal(verdict(&q, &t), MASKED);
    first_row = 2; /* of the other KV head */
    assert_null(verdict(&q, &t));
    nan_seen = true;
    t.attend = attend_wrong;
    assert_null(verdict(&q, &t));
    close_question(&q);
}

static ts_status attend_lax(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n_q, const void *q, void *out,
                            float *lse)
{
    const ts_status s = ts_kv_attend(c, x, layer, n_seq, seq, n_q, q, out, lse);
    return s ? TS_OK : s;
}

static ts_status append_lax(ts_kv *c, const ts_exec *x, int64_t layer, int64_t n_seq,
                            const int32_t *seq, const int64_t *n_new, const void *k, const void *v)
{
    const bool twice = n_seq == 2 && seq && n_new && seq[0] == seq[1];
    if (twice) return ts_kv_append(c, x, layer, 1, seq, n_new, k, v); /* once, but it is longer */
    return ts_kv_append(c, x, layer, n_seq, seq, n_new, k, v);
}

static ts_status truncate_lax(ts_kv *c, const ts_exec *x, int32_t seq, int64_t n)
{
    const ts_status s = ts_kv_truncate(c, x, seq, n);
    if (s) ts_kv_truncate(c, x, seq, 0); /* rejected, but the sequence is empty now */
    return s;
}

static ts_status free_other(ts_kv *c, const ts_exec *x, int32_t seq)
{
    const ts_status s = ts_kv_free(c, x, seq);
    return s ? TS_E_DEVICE : s; /* another status */
}

TEST(invalid_calls_of_a_cache)
{
    question    q;
    ts_kv_table t = kv;
    ask(&q, "kv_cache", find("kv_cache", "nonsense", "page", 16));
    assert_right(&q, &t);
    t.attend = attend_lax;
    assert_string_equal(verdict(&q, &t), NONSENSE);
    t = kv, t.append = append_lax;
    assert_string_equal(verdict(&q, &t), NONSENSE);
    t = kv, t.free = free_other;
    assert_string_equal(verdict(&q, &t), NONSENSE);
    t = kv, t.truncate = truncate_lax;
    assert_null(verdict(&q, &t));
    close_question(&q);
}

/* ---- training ---- */

static const ts_tt_table training = { ts_ternary_bytes, ts_ternary_create, ts_ternary_destroy,
                                      ts_ternary_grad,  ts_ternary_step,   ts_ternary_eval,
                                      ts_ternary_export };

static ts_status step_lax(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                          int64_t n_tok, const int32_t *tokens, double *loss)
{
    const ts_status s = ts_ternary_step(m, x, h, n_batch, n_tok, tokens, loss);
    return s && h && isnan(h->lr) ? TS_OK : s; /* accepted, and nothing done */
}

static ts_status step_torn(ts_ternary *m, const ts_exec *x, const ts_adamw *h, int64_t n_batch,
                           int64_t n_tok, const int32_t *tokens, double *loss)
{
    const ts_status s = ts_ternary_step(m, x, h, n_batch, n_tok, tokens, loss);
    if (s != TS_E_ARG || !h || !isnan(h->lr)) return s;
    ts_adamw sound = *h;
    sound.lr = 1e-2;
    ts_ternary_step(m, x, &sound, n_batch, n_tok, tokens, loss); /* it has changed the model, */
    return s;                                                    /* and says that it has not */
}

static ts_status grad_wrong(ts_ternary *m, const ts_exec *x, int64_t n_batch, int64_t n_tok,
                            const int32_t *tokens, double *loss, float *dlatent, float *dnorm)
{
    const ts_status s = ts_ternary_grad(m, x, n_batch, n_tok, tokens, loss, dlatent, dnorm);
    if (!s) dnorm[0] *= 1.01F;
    return s;
}

TEST(invalid_calls_in_training)
{
    question    q;
    ts_tt_table t = training;
    ask(&q, "ternary_training", find("ternary_training", "nonsense", "tokens", 6));
    assert_right(&q, &t);
    t.step = step_lax;
    assert_string_equal(verdict(&q, &t), NONSENSE);
    t.grad = grad_wrong; /* which is before any invalid call */
    assert_null(verdict(&q, &t));
    t = training, t.grad = grad_wrong;
    assert_null(verdict(&q, &t));
    t = training, t.step = step_torn;
    assert_null(verdict(&q, &t));
    close_question(&q);
}

/* ---- beam search ---- */

static ts_status beam_sound(const void *a, const ts_exec *x)
{
    return ts_beam_search(a, x);
}

static ts_status beam_bytes(const void *a, const ts_exec *x, size_t *n)
{
    return ts_beam_search_workspace(a, x, n);
}

/* A model whose rows are all right, but for the strings it is given. */
typedef struct tamed {
    const ts_model *m;
    int64_t         n_ask;
    bool            wrong_prompt; /* the second string begins with another token */
} tamed;

static int next_tamed(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                      float *out)
{
    tamed          *t = self;
    const int64_t   V = t->m->n_vocab;
    const bool      wrong = t->wrong_prompt && n_seq > 1;
    const int32_t **string = malloc((size_t)n_seq * sizeof *string);
    int32_t        *other = malloc((size_t)len[n_seq > 1] * sizeof *other);
    memcpy(string, tokens, (size_t)n_seq * sizeof *string);
    if (wrong) {
        memcpy(other, tokens[1], (size_t)len[1] * sizeof *other);
        other[0] = (other[0] + 1) % (int32_t)V;
        string[1] = other;
    }
    const int bad = t->m->next(t->m->self, n_seq, len, string, out);
    for (int64_t i = 0; i < n_seq * V; i++)
        if (!isfinite(out[i])) out[i] = (float)(i % V) * 0.01F;
    free(other), free(string);
    return bad;
}

static tamed tame;

/* Goes on where rows are none, as a search that puts other numbers there. */
static ts_status beam_goes_on(const void *args, const ts_exec *x)
{
    ts_beam_search_args a = *(const ts_beam_search_args *)args;
    tame.m = a.model;
    const ts_model m = { &tame, a.model->n_vocab, next_tamed, NULL };
    a.model = &m;
    return ts_beam_search(&a, x);
}

enum { SCORE, TOKEN, PREFIX, LATER, COUNT };
static int spoil;

static ts_status beam_spoilt(const void *args, const ts_exec *x)
{
    const ts_beam_search_args *a = args;
    const ts_status            s = beam_goes_on(args, x);
    const int64_t              T = a->d.max_new_tokens, K = a->d.beam_width;
    if (s) return s;
    for (int64_t i = 0; i < a->d.n_items * K; i++) {
        const bool done = a->finished[i] && a->length[i] == 1; /* before any row was none */
        if (spoil == SCORE && done) a->score[i] += 0.5;
        if (spoil == TOKEN && a->length[i] == T)
            a->tokens[i * T + T - 1] = (int32_t)a->model->n_vocab;
        if (spoil == PREFIX) a->tokens[i * T] = (a->tokens[i * T] + 1) % (int32_t)a->model->n_vocab;
        if (spoil == LATER && a->length[i] > 1) a->logprob[i] = a->score[i] = NAN;
    }
    if (spoil == COUNT) a->n_found[0] = K + 1;
    return s;
}

static ts_status beam_ends_late(const void *args, const ts_exec *x)
{
    const ts_beam_search_args *a = args;
    const ts_status            s = ts_beam_search(args, x);
    if (s == TS_E_MODEL) a->n_found[0] = 0; /* it has written something */
    return s;
}

/* An end is likely, so that there are some before rows are none. */
static void ask_beams(question *q, const char *family)
{
    const ts_case *c = find("beam_search", family, "vocab", 97);
    uint64_t       seed = SEED;
    for (;; seed++) {
        ask_with(q, "beam_search", c, seed);
        const ts_beam_play_args *a = q->args;
        bool                     ends = false;
        tame = (tamed) { 0 };
        play(q, &(ts_beam_table) { beam_goes_on, NULL, beam_bytes, NULL, NULL, NULL });
        for (int64_t i = 0; i < a->n_items * a->width; i++)
            ends |= a->beams[i / a->width * (2 * a->width + 1) + a->width + i % a->width] == 1 &&
                    a->beams[i / a->width * (2 * a->width + 1) + i % a->width] == 1;
        if (ends && a->word[TS_TOY_NONFINITE] == a->prompt_len[0] + 1) return;
        close_question(q);
    }
}

TEST(searches_that_go_on)
{
    static const char *const family[] = { "nonfinite", "nonfinite_inf", "nonfinite_none" };
    static const char rule[] = "logits without a distribution end the search with TS_E_MODEL";
    ts_beam_table     t = { beam_sound, NULL, beam_bytes, NULL, NULL, NULL };
    for (int i = 0; i < 3; i++) {
        question q;
        ask_beams(&q, family[i]);
        t.search = beam_sound;
        assert_right(&q, &t);
        t.search = beam_ends_late;
        assert_string_equal(verdict(&q, &t), rule);
        t.search = beam_goes_on;
        tame = (tamed) { 0 };
        assert_string_equal(verdict(&q, &t), rule);
        tame.wrong_prompt = true;
        assert_null(verdict(&q, &t));
        tame = (tamed) { 0 };
        t.search = beam_spoilt, spoil = LATER;
        assert_string_equal(verdict(&q, &t), rule);
        for (spoil = SCORE; spoil <= COUNT; spoil++)
            if (spoil != LATER) assert_null(verdict(&q, &t));
        close_question(&q);
    }
}

/* A batch that is never smaller: what no beam needs holds a string of one token. */
static int next_padded(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                       float *out)
{
    static const int32_t none = 0;
    const ts_model      *m = self;
    const int64_t        V = m->n_vocab, n = n_seq + 2;
    const int32_t      **string = malloc((size_t)n * sizeof *string);
    int64_t             *length = malloc((size_t)n * sizeof *length);
    float               *row = malloc((size_t)(n * V) * sizeof *row);
    for (int64_t i = 0; i < n; i++)
        string[i] = i < n_seq ? tokens[i] : &none, length[i] = i < n_seq ? len[i] : 1;
    const int bad = m->next(m->self, n, length, string, row);
    memcpy(out, row, (size_t)(n_seq * V) * sizeof *row);
    free(string), free(length), free(row);
    return bad;
}

static ts_status beam_padded(const void *args, const ts_exec *x)
{
    ts_beam_search_args a = *(const ts_beam_search_args *)args;
    const ts_model      m = { (void *)a.model, a.model->n_vocab, next_padded, NULL };
    a.model = &m;
    return ts_beam_search(&a, x);
}

/* Ends though nothing was wrong with the model; before any call, and after the first. */
static bool asks_first;

static ts_status beam_gives_up(const void *args, const ts_exec *x)
{
    ts_beam_search_args a = *(const ts_beam_search_args *)args;
    a.d.max_new_tokens = 1;
    if (!asks_first) return TS_E_MODEL;
    int32_t *const tokens = malloc((size_t)(a.d.n_items * a.d.beam_width) * sizeof *tokens);
    double *const  number = malloc((size_t)(a.d.n_items * a.d.beam_width) * sizeof *number);
    a.tokens = tokens, a.score = a.logprob = number;
    ts_beam_search(&a, x);
    free(tokens), free(number);
    return TS_E_MODEL;
}

/* Other strings than those of beams may be passed to the model, also where it ends the search. That
 * it did, and that every prompt was passed to it, is compared. */
TEST(strings_of_no_beam)
{
    static const char *const family[] = { "normal", "nonfinite", "nonfinite_inf", "nonfinite_none",
                                          "fails" };
    ts_beam_table            t = { beam_padded, NULL, beam_bytes, NULL, NULL, NULL };
    for (int i = 0; i < 5; i++) {
        question    q;
        const char *rule;
        ask(&q, "beam_search", find("beam_search", family[i], "vocab", 97));
        t.search = beam_padded;
        rule = verdict(&q, &t);
        assert_non_null(rule);
        assert_string_equal(rule, "each step calls next once, for the unfinished beams");
        t.search = beam_gives_up;
        asks_first = false;
        assert_null(verdict(&q, &t));
        const ts_beam_play_args *a = q.args;
        asks_first = true; /* a first row that is right */
        if (!i || a->word[TS_TOY_NONFINITE] > a->prompt_len[0]) assert_null(verdict(&q, &t));
        close_question(&q);
    }
}
