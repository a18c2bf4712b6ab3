/* SPDX-License-Identifier: Apache-2.0 */
/* unit_scope.c - tests which cases an entrant may declare as supported, and which it is then run
 * on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cover.h"
#include "dtype.h"
#include "kv_cache_inside.h"
#include "run.h"
#include "unit.h"

static double share(const char *task, const char *text)
{
    ts_scope   s;
    ts_refusal why = { 0 };
    if (!ts_scope_read(text, ts_task_called(task), TS_CPU, &s, &why)) fail_msg("%s", why.text);
    return s.share;
}

TEST(shares)
{
    assert_true(share("softmax_topk", "") == 1);
    assert_true(share("softmax_topk", "1") > 0.9999 && share("softmax_topk", "k >= 0") > 0.9999);
    const double small = share("softmax_topk", "k <= 32"), rest = share("softmax_topk", "k > 32");
    assert_true(small > 0.2 && small < 0.6 && small + rest > 0.9999 && small + rest < 1.0001);
    assert_true(share("softmax_topk", "k <= 32 && dtype == f32") < small);
    /* A store that is the dtype of the case itself is that dtype. */
    assert_true(share("kv_cache", "page == 0 && store == f32") > 0.05);
    assert_true(share("kv_cache", "store == f32 && dtype == bf16") > 0);
    assert_true(share("kv_cache", "store == u4 && channel") > 0);
    assert_true(share("kv_cache", "window > 0") > 0);
    assert_true(share("flash_attention", "causal && window == 0 && head_dim % 8 == 0") > 0.02);
}

/* What leaving a class out costs, as a multiple of 1 / (classes of that parameter). */
static double cost(const ts_task *t, int axis, int cls)
{
    const ts_cover *v = t->cover;
    const int       n = ts_cover_classes(v, axis), d = axis - TS_COVER_DIMS;
    const char     *name;
    char            text[96];
    if (axis == TS_COVER_DTYPE) {
        const ts_dtype dtype = (ts_dtype)ts_cover_dtype(v, cls);
        snprintf(text, sizeof text, "dtype != %s", ts_format_of(dtype)->name);
        return n * (1 - share(t->name, text));
    }
    name = d < TS_MAX_DIMS ? t->dim_name[d] : t->more_name[d - TS_MAX_DIMS];
    const long long from = v->dim[d].from[cls], next = cls + 1 < n ? v->dim[d].from[cls + 1] : 0;
    if (cls + 1 == n) snprintf(text, sizeof text, "%s < %lld", name, from);
    else snprintf(text, sizeof text, "%s < %lld || %s >= %lld", name, from, name, next);
    return n * (1 - share(t->name, text));
}

/* Neither the first nor the last class of a dtype or dimension may be left out for less than a
 * third of its part. Without the covering cases 153 of all 375 classes could. */
TEST(every_class_weighs)
{
    int n = 0;
    for (const ts_task *const *p = ts_tasks; *p; p++)
        for (int a = 0; a < TS_MAX_AXES && !(*p)->no_challenge; a++) {
            const int n_classes = ts_cover_classes((*p)->cover, a);
            if (a == TS_COVER_FAMILY || n_classes < 2) continue;    /* a scope cannot name it */
            if (a != TS_COVER_DTYPE && (*p)->cover->read) continue; /* not the case's own numbers */
            for (int c = 0; c < n_classes; c += n_classes - 1, n++)
                if (cost(*p, a, c) < 0.33)
                    fail_msg("%s: class %d of axis %d costs %.2f", (*p)->name, c, a,
                             cost(*p, a, c));
        }
    assert_true(n > 100);
}

/* As an entrant's is read. */
static bool open_scope(const char *task, const char *text, ts_scope *s, ts_refusal *why)
{
    const ts_task *t = ts_task_called(task);
    *why = (ts_refusal) { 0 };
    return ts_scope_read(text, t, TS_CPU, s, why) && ts_scope_fill(s, t, TS_CPU, why);
}

static void refuses(const char *task, const char *text, const char *expected)
{
    ts_scope   s;
    ts_refusal why;
    assert_false(open_scope(task, text, &s, &why));
    assert_string_equal(why.reason, "entry");
    if (!strstr(why.text, expected) || strchr(why.text, '\n'))
        fail_msg("'%s': '%s' is not in '%s'", text, expected, why.text);
}

TEST(mistakes)
{
    refuses("softmax_topk", "kk <= 32",
            "column 1: unknown name 'kk'; known names: rows n_rows vocab");
    refuses("kv_cache", "store == f31", "unknown name 'f31'; known names: store window channel");
    refuses("softmax_topk", "k <=", "column 5: the text ends");
    refuses("softmax_topk", "k <= 32)", "column 8: got ')'");
    refuses("softmax_topk", "k / pad", "division by zero, in case softmax_topk/");
    refuses("softmax_topk", "k < 0", "'k < 0' excludes every case of softmax_topk");
    refuses("kv_cache", "page == 0 && page == 1", "excludes every case");
}

/* A scope of fewer different cases is refused. */
TEST(needs_cases)
{
    refuses(
        "rms_norm_forward",
        "rows == 1 && cols == 64 && pad == 0 && off == 0 && res == 0 && eps == 0 && dtype == f32",
        "different cases of rms_norm_forward with an output, fewer than 24; a wider one may use: "
        "rows n_rows");
    /* A function that does nothing is right where there is nothing to do. */
    refuses("softmax_topk", "rows == 0", "excludes every case of softmax_topk with an output");
    refuses("softmax_topk", "k == 0 && lse == 0", "excludes every case of softmax_topk with an");
    refuses("flash_attention", "q == 0", "excludes every case of flash_attention with an output");
    ts_scope   s;
    ts_refusal why;
    assert_true(open_scope("rms_norm_forward", "rows == 1 && cols == 64", &s, &why));
}

/* Scopes of answers as they are published, in every challenge. */
static const char *const usual[][2] = {
    { "layernorm_forward", "cols == rows && pad == 0" },
    { "layernorm_backward", "acc == 0 && n_cols % 8 == 0" },
    { "rms_norm_forward", "res == 0 && off == 0 && eps == 0" },
    { "rms_norm_backward", "dr == 0 && acc == 0" },
    { "flash_attention", "q == k && q_heads == kv_heads && window == 0 && lse == 0" },
    { "flash_attention", "q == 1 && head_dim % 8 == 0 && (causal == 0 || kv_len)" },
    { "flash_attention_backward",
      "n_q == n_k && n_q_head == n_kv_head && window == 0 && layout == 0" },
    { "kv_cache", "q_heads == kv_heads && page == 0 && window == 0 && store == dtype" },
    { "kv_cache", "fork == 0 && truncate == 0 && sink == 0 && store == f32 && dtype == f32" },
    { "softmax_topk", "k <= 32 && k <= vocab && dtype == f32 && cool == 0" },
    { "beam_search", "items == 1 && alpha == 0" },
    { "tree_verify", "temperature == 0 && cycles == 1" },
    { "ternary_linear", "backward == 0 && dtype == f32" },
    { "ternary_training", "heads == kv_heads && layers == 1" },
    { "cross_entropy", "smooth == 0 && z == 0 && cap == 0 && bias == 0" },
    { "cross_entropy_logits", "grad == 0 && pad == 0" },
};
enum { N_USUAL = sizeof usual / sizeof *usual };

static void open_usual(int i, ts_scope *s)
{
    ts_refusal why;
    if (!open_scope(usual[i][0], usual[i][1], s, &why)) fail_msg("%s", why.text);
}

/* As many as without a scope, and nothing but what is offered. */
TEST(draws_as_many)
{
    for (int i = 0; i < N_USUAL; i++) {
        const ts_task *t = ts_task_called(usual[i][0]);
        ts_scope       s;
        open_usual(i, &s);
        for (int depth = TS_QUICK; depth <= TS_NORMAL; depth++)
            for (int python = 0; python < 2; python++) {
                const ts_run   c = { .depth = (ts_depth)depth, .key = { (unsigned char)i } };
                const ts_class cls = python ? TS_PYTHON : TS_SEALED;
                int            n, n_all;
                free(ts_run_draw(&c, t, cls, NULL, &n_all));
                int *number = ts_run_draw(&c, t, cls, &s, &n);
                if (n < n_all) fail_msg("%s: %s: %d of %d", t->name, usual[i][1], n, n_all);
                for (int k = 0; k < n; k++)
                    assert_true(ts_scope_takes(&s, t, &ts_scope_cases(&s, t)[number[k]]));
                free(number);
            }
    }
}

/* Every class of a parameter that can be in scope is drawn, in every dtype that can be. */
TEST(covers_what_is_left)
{
    const ts_task *t = ts_task_called("flash_attention");
    bool           rows[300] = { false }, dtype[TS_I32] = { false };
    int            n, two_heads = 0;
    ts_scope       s;
    ts_refusal     why;
    const ts_run   c = { .depth = TS_QUICK };
    assert_true(open_scope(t->name, usual[4][1], &s, &why));
    int *number = ts_run_draw(&c, t, TS_SEALED, &s, &n);
    for (int i = 0; i < n; i++) {
        const ts_case *one = &ts_scope_cases(&s, t)[number[i]];
        dtype[one->dtype] = true;
        if (one->dim[0] < 300) rows[one->dim[0]] = true;
        two_heads += one->dim[3] == 2 && one->dim[0] > 1;
    }
    free(number);
    assert_true(rows[0] && rows[1] && rows[2]);
    assert_true(two_heads > 2);
    assert_true(dtype[TS_F32] && dtype[TS_F64] && dtype[TS_F16] && dtype[TS_BF16]);
}

/* The list follows from the scope alone, and a name leads back to its case. */
TEST(is_found_again)
{
    const ts_task *t = ts_task_called("kv_cache");
    ts_scope       s[2];
    ts_refusal     why;
    assert_true(
        open_scope(t->name, "q_heads == kv_heads && page == 0 && window == 0", &s[0], &why));
    assert_true(open_scope(t->name, " q_heads==kv_heads && page==0 && window==0", &s[1], &why));
    assert_true(s[0].list != s[1].list);
    for (int i = 0;; i++) {
        const ts_case *a = &s[0].list->c[i], *b = &s[1].list->c[i];
        char           name[192];
        uint64_t       seed;
        ts_case        read;
        assert_int_equal(a->use, b->use);
        if (!a->use) break;
        assert_true(a->dtype == b->dtype && ts_is(a, b->family));
        assert_memory_equal(a->dim, b->dim, sizeof a->dim);
        ts_case_string(t, a, 77, name, sizeof name);
        const int at = ts_run_case_named(&s[0], t, name, &seed);
        assert_true(at >= 0 && seed == 77);
        assert_true(ts_case_read(t, name, &read, &seed) && seed == 77);
        assert_true(read.dtype == a->dtype && ts_is(&read, a->family));
        assert_memory_equal(read.dim, a->dim, sizeof a->dim);
        assert_memory_equal(s[0].list->c[at].dim, a->dim, sizeof a->dim);
    }
}

/* What is timed within is as large as what is timed without. */
TEST(times_within)
{
    const ts_run c = { .depth = TS_NORMAL };
    for (int i = 0; i < N_USUAL; i++) {
        const ts_task *t = ts_task_called(usual[i][0]);
        int            number[TS_WORKLOADS];
        const int      n = ts_run_workloads(&c, t, number);
        ts_scope       s;
        open_usual(i, &s);
        for (int w = 0; w < n; w++) {
            const ts_case *own = ts_run_workload_within(t, &s, number[w]);
            if (!own && t->has_model) continue; /* no larger script is made */
            if (!own) fail_msg("%s: %s: workload %d", t->name, usual[i][1], w);
            const double bytes = t->cost(own).bytes, common = t->cost(&t->cases()[number[w]]).bytes;
            assert_true(ts_scope_takes(&s, t, own) && bytes >= 0.4 * common &&
                        bytes <= 1.3 * common);
        }
    }
    ts_scope   s;
    ts_refusal why;
    int        number[TS_WORKLOADS];
    assert_true(open_scope("rms_norm_forward", "rows == 1 && cols == 64", &s, &why));
    assert_true(ts_run_workloads(&c, ts_task_called("rms_norm_forward"), number) > 0);
    assert_null(ts_run_workload_within(ts_task_called("rms_norm_forward"), &s, number[0]));
}

/* The scope that excludes this case alone, as far as dimensions tell. */
static void all_but(const ts_task *t, const ts_case *c, char *text, size_t n)
{
    size_t k = 0;
    for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i] && k < n; i++)
        k += (size_t)snprintf(text + k, n - k, "%s%s != %lld", k ? " || " : "", t->dim_name[i],
                              (long long)c->dim[i]);
}

/* No shape of another kind can be chosen to be timed in, by leaving out the one that is timed. */
TEST(times_near)
{
    const ts_run c = { .depth = TS_NORMAL };
    int          n_near = 0;
    for (const ts_task *const *p = ts_tasks; *p; p++) {
        const ts_task *t = *p;
        int            number[TS_WORKLOADS];
        const int      n = t->no_challenge ? 0 : ts_run_workloads(&c, t, number);
        for (int w = 0; w < n; w++) {
            const ts_case *common = &t->cases()[number[w]];
            ts_scope       s;
            ts_refusal     why;
            char           text[TS_ENTRANT_OFFERS + 1];
            all_but(t, common, text, sizeof text);
            if (!open_scope(t->name, text, &s, &why)) continue;
            const ts_case *own = ts_run_workload_within(t, &s, number[w]);
            if (!own && t->has_model) continue;
            assert_non_null(own);
            for (int i = 0; i < TS_MAX_DIMS && t->dim_name[i]; i++) {
                const double is = (double)own->dim[i], was = (double)common->dim[i];
                if (is < was / 1.25 - 1 || is > 1.25 * was + 1)
                    fail_msg("%s: %s: %s is %g", t->name, text, t->dim_name[i], is);
            }
            n_near++;
        }
    }
    assert_true(n_near > 10);
    /* As near as the scope lets it. */
    ts_scope   s;
    ts_refusal why;
    int        number[TS_WORKLOADS];
    assert_true(open_scope("softmax_topk", "vocab <= 65536", &s, &why));
    const ts_task *t = ts_task_called("softmax_topk");
    const int      n = ts_run_workloads(&c, t, number);
    for (int w = 0; w < n; w++) {
        const ts_case *own = ts_run_workload_within(t, &s, number[w]);
        assert_true(own && own->dim[1] <= 65536 &&
                    2.1 * (double)own->dim[1] >= fmin(65536, (double)t->cases()[number[w]].dim[1]));
    }
}

/* ---- names ---- */

/* Whether the text has the word. */
static bool says(const char *text, const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t      n = strlen(word);
    for (const char *at = text ? strstr(text, word) : NULL; at; at = strstr(at + 1, word))
        if ((at == text || !strchr(letters, at[-1])) && (!at[n] || !strchr(letters, at[n])))
            return true;
    return false;
}

/* By its own name; or by one whose meaning mentions it, such as `heat`: 100 inv_temperature. */
static bool has_name(const ts_task *t, const char *word)
{
    char names[512];
    ts_scope_names(t, names, sizeof names);
    bool known = says(names, word);
    for (int i = 0; i < TS_MAX_DIMS && !known; i++) known = says(t->dim_says[i], word);
    for (int i = 0; i < TS_MAX_MORE && !known; i++) known = says(t->more_says[i], word);
    return known;
}

/* A case without a scope's name for it would be outside of what an entrant can say. */
static void names_buffers(const ts_task *t)
{
    unsigned char args[TS_CALL_ARGS];
    ts_arena      m;
    int           n_cases = 0, had[TS_MAX_NAMES] = { 0 };
    /* Only where k is 0. */
    static const char empty[] = "index prob";
    assert_true(ts_arena_open(&m));
    for (const ts_case *c = t->cases(); c->use; c++) {
        if (t->cost(c).bytes > 1e4 || c->use & TS_USE_COVER || ts_is(c, "far")) continue;
        memset(args, 0, sizeof args);
        ts_arena_setup(&m, t, c, 1, args);
        n_cases++;
        for (int i = 0; t->buffer[i].name; i++)
            for (int k = 0; k < m.n; k++) had[i] += !strcmp(m.buf[k].b.name, t->buffer[i].name);
        ts_arena_clear(&m);
    }
    ts_arena_close(&m);
    for (int i = 0; t->buffer[i].name; i++)
        if (had[i] < n_cases && !has_name(t, t->buffer[i].name) && !says(empty, t->buffer[i].name))
            fail_msg("%s: no name in offers for the optional %s", t->name, t->buffer[i].name);
}

TEST(every_parameter_has_a_name)
{
    /* Sizes that follow from those that have names; and what is drawn with the inputs. */
    static const char implied[] = " n_seq_max capacity n_page max_call_tokens ";
    for (const ts_task *const *t = ts_tasks; *t; t++) {
        if ((*t)->no_challenge) continue;
        for (int i = 0; i < TS_MAX_DIMS && (*t)->dim_name[i]; i++)
            assert_true(has_name(*t, (*t)->dim_name[i]));
        for (int i = 0; i < TS_MAX_MORE && (*t)->more_name[i]; i++)
            assert_true(has_name(*t, (*t)->more_name[i]));
        for (const ts_number *n = (*t)->number; n->name; n++)
            if (!has_name(*t, n->name) && !says(implied, n->name) &&
                !(!strncmp((*t)->name, "cross_entropy", 13) && !strcmp(n->name, "scale")))
                fail_msg("%s: no name in offers for %s", (*t)->name, n->name);
        if ((*t)->kind == TS_PLAIN) names_buffers(*t);
    }
}

/* What the scripts of kv_cache do is what their names in a scope say. */
TEST(names_what_scripts_do)
{
    static const int   what[] = { TS_KV_FORK, TS_KV_TRUNCATE, TS_KV_FREE, TS_KV_TREE };
    static const char *name[] = { "fork", "truncate", "free", "tree" };
    const ts_task     *t = ts_task_called("kv_cache");
    for (const ts_case *c = t->cases(); c->use; c++) {
        ts_kv_script s;
        ts_parameter p[TS_MAX_PARAMETERS];
        bool         does[4] = { false };
        const int    n = t->scope(c, p);
        if (c->use & TS_USE_LARGE) continue;
        ts_kv_script_of(c, &s);
        for (size_t at = 0; at < s.n_word;) {
            ts_kv_op o;
            memcpy(&o, s.word + at, sizeof o);
            for (int i = 0; i < 4; i++) does[i] |= o.what == what[i];
            at += (sizeof o + (size_t)o.n_item * sizeof(ts_kv_item)) / sizeof *s.word;
            if (o.what == TS_KV_TREE) at += (size_t)o.from;
        }
        free(s.word);
        for (int k = 0; k < n; k++)
            for (int i = 0; i < 4; i++)
                if (!strcmp(p[k].name, name[i]) && does[i] && !p[k].value)
                    fail_msg("family %s: %s is called, and its name is 0", c->family, name[i]);
    }
}
