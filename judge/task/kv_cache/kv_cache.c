/* SPDX-License-Identifier: Apache-2.0 */
/* kv_cache.c - task: keys and values of past tokens, and attention over them.
 *
 * A case is a script of operations; its output is what the script observes. The cases are in
 * kv_cache_cases.c, the scripts in kv_cache_build.c, the expected observations in kv_cache_model.c.
 * */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "dtype.h"
#include "kv_cache_inside.h"
#include "rng.h"
#include "spoil.h"

/* ---- inputs ---- */

typedef enum draw {
    PLAIN,
    ZERO,
    CONSTANT,
    OFFSET,
    TO_OFFSET, /* with such keys every score of a row is far above 0, or far below */
    TINY,
    OUTLIER, /* one channel outweighs all others of its group */
    RAMP,    /* later keys score higher: with every tile of keys the largest score is another */
    TO_RAMP,
    MASKED,   /* of the first KV head every third key, the first among them, scores -inf: */
    POSITIVE, /* no query is below 0 */
} draw;

/* x: about normal */
static double drawn(draw how, double x, int64_t row, int64_t e)
{
    const double of[] = {
        [PLAIN] = x,
        [ZERO] = 0,
        [CONSTANT] = 1.5 + (double)(row % 3),
        [OFFSET] = x + 30,
        [TO_OFFSET] = x + (row % 2 ? -1 : 1),
        [TINY] = 1e-6 * x,
        [OUTLIER] = e % 16 == 3 ? 60 * x : x,
        [RAMP] = 0.02 * (double)row + 0.1 * x,
        [TO_RAMP] = 1 + 0.1 * x,
        [MASKED] = e == 0 && row % 3 == 0 ? -INFINITY : x,
        [POSITIVE] = 0.1 + fabs(x),
    };
    return of[how];
}

static const struct family {
    const char *name;
    draw        key, value, query;
} families[] = {
    { "zeros", ZERO, ZERO, ZERO },           { "constant", CONSTANT, CONSTANT, PLAIN },
    { "offset", OFFSET, OFFSET, TO_OFFSET }, { "tiny", TINY, TINY, PLAIN },
    { "outlier", OUTLIER, OUTLIER, PLAIN },  { "ramp", RAMP, PLAIN, TO_RAMP },
    { "masked", MASKED, PLAIN, POSITIVE },   { NULL, PLAIN, PLAIN, PLAIN },
};

static const struct family *family_of(const ts_case *c)
{
    const struct family *f = families;
    while (f->name && strcmp(f->name, c->family)) f++;
    return f;
}

static void fill(draw of, uint64_t seed, void *p, ts_dtype t, int64_t n_rows, int64_t width)
{
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t e = 0; e < width; e++) {
            const int64_t at = r * width + e;
            ts_store(p, t, at, drawn(of, ts_normal(seed, at), r, e));
        }
}

static void make_nonfinite(const ts_kv_script *s, int64_t width, void *p, ts_dtype t)
{
    for (int i = 0; i < s->n_cut; i++)
        for (int64_t e = s->cut[i][0] * width; e < s->cut[i][1] * width; e++)
            ts_store(p, t, e, e % 3 ? NAN : INFINITY);
}

/* Numbers that the case's name does not contain, for entrants that do not see the args. */
static void tell(ts_arena *m, const ts_kv_dims *d)
{
    ts_scalar(m, "n_seq_max", (double)d->n_seq_max);
    ts_scalar(m, "capacity", (double)d->capacity);
    ts_scalar(m, "n_page", (double)d->n_page);
    ts_scalar(m, "window", (double)d->window);
    ts_scalar(m, "n_sink", (double)d->n_sink);
    ts_scalar(m, "key_group", (double)d->key_group);
    ts_scalar(m, "max_call_tokens", (double)d->max_call_tokens);
    ts_scalar(m, "scale", d->scale);
}

static void setup(const ts_case *c, uint64_t seed, ts_arena *m, void *args)
{
    ts_kv_cache_args *a = args;
    ts_kv_script      s;
    ts_kv_script_of(c, &s);
    const ts_kv_dims *d = s.dims;
    const int64_t     W = d->n_kv_head * d->head_dim, Q = d->n_q_head * d->head_dim;
    const ts_dtype    t = c->dtype;
    *a = (ts_kv_cache_args) {
        .n_cache = s.n_cache, .n_op = s.n_op, .n_word = (int64_t)s.n_word, .staged = s.staged
    };
    memcpy(a->dims, s.dims, sizeof a->dims);
    void         *k = ts_take(m, &a->k, (ts_buf) { "k", TS_IN, t, s.n_kv, W, W });
    void         *v = ts_take(m, &a->v, (ts_buf) { "v", TS_IN, t, s.n_kv, W, W });
    void         *q = ts_take(m, &a->q, (ts_buf) { "q", TS_IN, t, s.n_q, Q, Q });
    const int64_t n = (int64_t)s.n_word;
    void         *script = ts_take(m, &a->script, (ts_buf) { "script", TS_IN, TS_I32, 1, n, n });
    ts_take(m, &a->seen, (ts_buf) { "seen", TS_OUT, TS_F64, s.n_op, TS_KV_SEEN, TS_KV_SEEN });
    ts_take(m, &a->out, (ts_buf) { "out", TS_OUT, t, s.n_out, Q, Q });
    ts_take(m, &a->lse, (ts_buf) { "lse", TS_OUT, TS_F32, s.n_out, d->n_q_head, d->n_q_head });
    ts_take(m, &a->read, (ts_buf) { "read", TS_OUT, TS_F32, s.n_read, W, W });
    tell(m, d);
    memcpy(script, s.word, s.n_word * sizeof *s.word);
    free(s.word);
    const uint64_t key = ts_mix(seed);
    fill(family_of(c)->key, key + 1, k, t, s.n_kv, W);
    fill(family_of(c)->value, key + 2, v, t, s.n_kv, W);
    fill(family_of(c)->query, key + 3, q, t, s.n_q, Q);
    if (!ts_is(c, "nonfinite")) return;
    make_nonfinite(&s, W, k, t);
    make_nonfinite(&s, W, v, t);
}

/* ---- what is expected ---- */

static size_t count_want(const ts_kv_script *s)
{
    const ts_kv_dims *d = s->dims;
    return (size_t)(s->n_op * TS_KV_SEEN + s->n_read * d->n_kv_head * d->head_dim +
                    s->n_out * d->n_q_head * (d->head_dim + 1));
}

static size_t n_want(const ts_case *c)
{
    ts_kv_script s;
    ts_kv_script_of(c, &s);
    free(s.word);
    return count_want(&s);
}

/* From codes, only when it is known what was read back: then `check` works it out. */
static void oracle(const ts_case *c, const void *args, ts_want *want)
{
    const ts_kv_cache_args *a = args;
    ts_kv_script            s;
    if (ts_kv_is_code(a->dims->store_dtype)) return;
    ts_kv_script_of(c, &s);
    free(s.word);
    ts_kv_model(a, &s, NULL, want);
}

/* ---- check ---- */

/* What an operation wrote, by rows of out or of read. */
typedef struct answer {
    int64_t row, n;
    bool    reads;
} answer;

static void list_answers(const ts_kv_cache_args *a, answer *list, int32_t *same)
{
    const int32_t *at = a->script;
    int64_t        n_out = 0, n_read = 0;
    for (int64_t i = 0; i < a->n_op; i++) {
        ts_kv_op   o;
        ts_kv_item item;
        int64_t    n = 0;
        memcpy(&o, at, sizeof o);
        for (int32_t k = 0; k < o.n_item; k++) {
            memcpy(&item, at + (sizeof o + (size_t)k * sizeof item) / sizeof *at, sizeof item);
            n += item.n;
        }
        at += ts_kv_op_words(&o);
        same[i] = o.same;
        list[i] = (answer) { 0 };
        if (o.what == TS_KV_ATTEND || o.what == TS_KV_TREE)
            list[i] = (answer) { n_out, n, false }, n_out += n;
        if (o.what == TS_KV_READ) list[i] = (answer) { n_read, 2 * n, true }, n_read += 2 * n;
    }
}

/* The rows that an answer has in one buffer: those of an earlier one have the same bits, and those
 * of a rejected operation are untouched. */
static bool rows_agree(const ts_want *seen, const answer *list, int64_t i, int32_t same, ts_buf b,
                       const void *p, ts_flaw *f)
{
    const size_t         row = (size_t)b.n_cols * ts_format_of(b.dtype)->n_bytes;
    const unsigned char *mine = (const unsigned char *)p + (size_t)list[i].row * row;
    const bool           refused = seen[i * TS_KV_SEEN].value != 0;
    if (refused && !ts_is_poison(b.dtype, mine, (size_t)list[i].n * row)) {
        const double got = ts_load(mine, b.dtype, 0);
        *f = (ts_flaw) { TS_FAULT_VALUE, b.name, list[i].row, 0, got, NAN, 0 };
        return false;
    }
    for (int64_t r = 0; r < list[i].n && same >= 0; r++) {
        const int64_t        at = list[same].row + r;
        const unsigned char *theirs = (const unsigned char *)p + (size_t)at * row;
        if (!memcmp(mine + (size_t)r * row, theirs, row)) continue;
        int64_t e = 0;
        while (!memcmp(mine + (size_t)r * row + (size_t)e * (row / (size_t)b.n_cols),
                       theirs + (size_t)e * (row / (size_t)b.n_cols), row / (size_t)b.n_cols))
            e++;
        *f = (ts_flaw) { TS_FAULT_VALUE,
                         b.name,
                         list[i].row + r,
                         e,
                         ts_load(p, b.dtype, (list[i].row + r) * b.n_cols + e),
                         ts_load(p, b.dtype, at * b.n_cols + e),
                         0 };
        return false;
    }
    return true;
}

static bool agree(const ts_kv_cache_args *a, const ts_want *seen, const ts_buf *b,
                  const void *const *p, ts_flaw *f)
{
    const size_t n = (size_t)a->n_op;
    answer      *list = malloc(n * sizeof *list);
    int32_t     *same = malloc(n * sizeof *same);
    bool         ok = true;
    if (!list || !same) abort();
    list_answers(a, list, same);
    for (int64_t i = 0; i < a->n_op && ok; i++)
        for (int k = list[i].reads ? 1 : 2; k <= (list[i].reads ? 1 : 3) && ok && list[i].n; k++)
            ok = rows_agree(seen, list, i, same[i], b[k], p[k], f);
    free(list);
    free(same);
    return ok;
}

/* The operation that wrote row `row` of out, lse or read, or that a row of seen is of. */
static int64_t op_of(const ts_kv_cache_args *a, const char *what, int64_t row, ts_kv_op *o)
{
    const bool seen = !strcmp(what, "seen");
    answer    *list = malloc((size_t)(a->n_op + 1) * sizeof *list);
    int32_t   *same = malloc((size_t)(a->n_op + 1) * sizeof *same);
    int64_t    i = 0;
    if (!list || !same) abort();
    list_answers(a, list, same);
    for (const int32_t *at = a->script; i < a->n_op; i++, at += ts_kv_op_words(o)) {
        memcpy(o, at, sizeof *o);
        if (seen ? i == row
                 : list[i].n && list[i].reads == !strcmp(what, "read") && row >= list[i].row &&
                       row < list[i].row + list[i].n)
            break;
    }
    free(list);
    free(same);
    return i < a->n_op ? i : -1;
}

/* seen, read, out, lse: in the order in which one follows from the other. The flaw is that of the
 * first wrong operation; with codes, what is expected of the others follows from what was read. By
 * the canon what was observed twice has the same bits. */
static bool check_all(const ts_kv_cache_args *a, const ts_kv_script *s, bool canon,
                      const ts_want *want, ts_flaw *f, ts_errors *e)
{
    const ts_kv_dims *d = a->dims;
    const int64_t     W = d->n_kv_head * d->head_dim, Q = d->n_q_head * d->head_dim;
    const ts_buf      b[] = {
             { "seen", TS_OUT, TS_F64, s->n_op, TS_KV_SEEN, TS_KV_SEEN },
             { "read", TS_OUT, TS_F32, s->n_read, W, W },
             { "out", TS_OUT, d->io_dtype, s->n_out, Q, Q },
             { "lse", TS_OUT, TS_F32, s->n_out, d->n_q_head, d->n_q_head },
    };
    const void *const    p[] = { a->seen, a->read, a->out, a->lse };
    const ts_want *const seen = want;
    const bool           code = ts_kv_is_code(d->store_dtype);
    int64_t              first = 0;
    bool                 ok = true;
    for (int i = 0; i < 4 && (ok || !code); i++) {
        ts_flaw  at;
        ts_kv_op o;
        if (!ts_check_buf(b[i], p[i], want, &at, e)) {
            const int64_t op = op_of(a, at.what, at.row, &o);
            if (ok || op < first) first = op, *f = at;
            ok = false;
        }
        want += b[i].n_rows * b[i].n_cols;
    }
    return ok && (!canon || agree(a, seen, b, p, f));
}

/* rule: of the canon, that alone excuses something; NULL: by the canon. */
static bool check_by(const ts_case *c, const void *args, const char **rule, const ts_want *want,
                     ts_flaw *f, ts_errors *e)
{
    const ts_kv_cache_args *a = args;
    ts_kv_script            s;
    ts_kv_script_of(c, &s);
    free(s.word);
    const bool   code = ts_kv_is_code(a->dims->store_dtype), canon = !rule;
    const size_t n = count_want(&s);
    if (canon && !code) return check_all(a, &s, canon, want, f, e);
    ts_want *now = malloc((n + 1) * sizeof *now);
    if (!now) abort();
    if (code) ts_kv_model(a, &s, a->read, now);
    else memcpy(now, want, n * sizeof *now);
    if (!canon) *rule = ts_kv_excuse(c, a, &s, now);
    const bool ok = check_all(a, &s, canon, now, f, e);
    free(now);
    return ok;
}

static bool check(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f, ts_errors *e)
{
    return check_by(c, args, NULL, want, f, e);
}

static const char *common(const ts_case *c, const void *args, const ts_want *want, ts_flaw *f,
                          ts_errors *e)
{
    const bool  bytes = !strcmp(f->what, "seen");
    const char *rule;
    if (!check_by(c, args, &rule, want, f, e)) return NULL;
    if (rule) return rule;
    return bytes ? "a cache reports how many bytes and pages it has and uses"
                 : "a repeated call is bitwise identical, and a rejected call writes nothing";
}

static void explain(const ts_case *c, const void *args, const ts_flaw *f, char *s, size_t n)
{
    static const char *const name[] = {
        "bytes", "open", "append", "attend",  "read",  "truncate",
        "fork",  "free", "status", "destroy", "wrong", "attend_tree"
    };
    static const char *const usage[TS_KV_SEEN] = { "status",       "",
                                                   "pages",        "free pages",
                                                   "bytes in use", "bytes reserved" };
    const ts_kv_cache_args  *a = args;
    ts_kv_op                 o;
    (void)c;
    const int64_t i = op_of(a, f->what, f->row, &o);
    if (i < 0 || o.what < TS_KV_SIZE || o.what > TS_KV_TREE) return;
    if (o.what == TS_KV_WRONG) {
        snprintf(s, n, "operation %lld of %lld, %s called wrongly, way %d", (long long)i,
                 (long long)a->n_op, ts_kv_names[o.data], (int)o.from);
        return;
    }
    const char *field = f->col < TS_KV_SEEN ? usage[f->col] : "";
    if (f->col == 1)
        field = o.what == TS_KV_SIZE     ? "bytes of state"
                : o.what == TS_KV_STATUS ? "length of the sequence"
                                         : "id of the sequence";
    if (f->col == 2 && o.what == TS_KV_SIZE) field = "status of a creation with one byte less";
    const bool seen = !strcmp(f->what, "seen");
    snprintf(s, n, "operation %lld of %lld, %s in layer %d%s%s", (long long)i, (long long)a->n_op,
             name[o.what], (int)o.layer, seen ? ": " : "", seen ? field : "");
}

/* store: the dtype in which keys and values are kept, instead of the case's own number for it. */
static int scope(const ts_case *c, ts_parameter p[TS_MAX_PARAMETERS])
{
    static const char *const what[TS_KV_DOES] = { "fork", "truncate", "free", "tree", "refused" };
    const ts_kv_dims         d = ts_kv_dims_of(c);
    const unsigned           does = ts_kv_does(c);
    int                      n = 0;
    p[n++] = (ts_parameter) { "store", d.store_dtype };
    p[n++] = (ts_parameter) { "window", d.window };
    p[n++] = (ts_parameter) { "channel", d.key_axis == TS_KEY_CHANNEL };
    p[n++] = (ts_parameter) { "sink", d.n_sink };
    p[n++] = (ts_parameter) { "n_sink", d.n_sink };
    p[n++] = (ts_parameter) { "group", d.key_group };
    p[n++] = (ts_parameter) { "key_group", d.key_group };
    for (int i = 0; i < TS_KV_DOES; i++) p[n++] = (ts_parameter) { what[i], does >> i & 1 };
    return n;
}

static ts_cost cost(const ts_case *c)
{
    ts_kv_script s;
    ts_kv_script_of(c, &s);
    free(s.word);
    return (ts_cost) { .bytes = s.bytes,
                       .flops = s.flops,
                       .exps = s.flops / (4.0 * (double)ts_kv_dims_of(c).head_dim), /* per score */
                       .reads_only = true };
}

/* A cache holds as much as its dims say, however little of it a script writes and reads. */
static double kept(const ts_case *c)
{
    double       bytes = 0;
    ts_kv_script s;
    ts_kv_script_of(c, &s);
    free(s.word);
    for (int64_t i = 0; i < s.n_cache; i++) {
        const ts_want state = ts_kv_want_state(&s.dims[i]);
        bytes += state.value + state.bound;
    }
    return bytes;
}

/* ---- invalid calls ---- */

#define DIM(member)            offsetof(ts_kv_cache_args, dims[0].member)
#define BAD(must, member, ...) TS_BAD(ts_kv_cache_args, must, dims[0].member, __VA_ARGS__)

static const ts_bad bad[] = {
    BAD(TS_E_SHAPE, n_page, 0, -1, 0x1p31),
    BAD(TS_ALSO, page, 4),
    BAD(TS_E_SHAPE, page, -1, 0x1p31),
    BAD(TS_ALSO, n_page, 8),
    BAD(TS_E_SHAPE, n_q_head, 3),
    BAD(TS_ALSO, n_kv_head, 2),
    BAD(TS_E_SHAPE, key_group, 0, -1),
    BAD(TS_ALSO, store_dtype, TS_U8),
    BAD(TS_E_SHAPE, key_group, 3),
    BAD(TS_ALSO, store_dtype, TS_U8),
    BAD(TS_ALSO, key_axis, TS_KEY_CHANNEL),
    BAD(TS_ALSO, page, 8),
    BAD(TS_ALSO, n_page, 8),
    BAD(TS_E_DTYPE, io_dtype, TS_U8, 99),
    BAD(TS_E_DTYPE, store_dtype, TS_I32),
    BAD(TS_E_DTYPE, store_dtype, TS_U4),
    BAD(TS_ALSO, key_group, 8),
    BAD(TS_ALSO, meta_dtype, TS_BF16),
    BAD(TS_E_ARG, scale, NAN, -INFINITY),
    BAD(TS_E_ARG, key_axis, 7),
    BAD(TS_ALSO, store_dtype, TS_U8),
    BAD(TS_ALSO, key_group, 8),
    BAD(TS_E_ARG, window, -1),
    BAD(TS_E_ARG, n_sink, -1),
    { 0 },
};

/* n_layer, n_seq_max, n_q_head, n_kv_head, head_dim, capacity, max_call_tokens; keys and values of
 * all sequences, and the queries of a call. */
static const ts_invalid invalid = {
    .extent = { { DIM(n_layer), 1, 0, 0, false, true },
                { DIM(n_seq_max), 1, INT32_MAX, 0, false, true },
                { DIM(n_q_head), 1, 0, 0, false, true },
                { DIM(n_kv_head), 1, 0, DIM(n_q_head), false, true },
                { DIM(head_dim), 1, 0, 0, false, true },
                { DIM(capacity), 1, 0, 0, false, true },
                { DIM(max_call_tokens), 0, 0, 0, false, true } },
    .n_extent = 7,
    .product = { { { 1, 2, 6, 4 } }, { { 1, 6, 4, 5 } }, { { 3, 5, 7 } } },
    .bad = bad,
};

static int about(const ts_case *c)
{
    return strncmp(c->family, "tree", 4) ? -1 : 0;
}

const ts_task ts_task_kv_cache = {
    .name = "kv_cache",
    .dim_name = { "seqs", "len", "layers", "q_heads", "kv_heads", "head_dim", "page", "store" },
    .dim_says = { "sequences", "tokens of the longest", "n_layer", "n_q_head", "n_kv_head",
                  "head_dim", "page",
                  "0: io_dtype; 32, 16, 17: f32, f16, bf16; 8, 4: u8, u4 with keys by token; 9, 5: "
                  "by channel; 10 more: metadata in f16" },
    .kind = TS_SCRIPT,
    .devices = TS_ON_CPU | TS_ON_CUDA,
    .buffer = { { "k", TS_IN, 2, false },
                { "v", TS_IN, 2, false },
                { "q", TS_IN, 2, false },
                { "script", TS_IN, 1, true },
                { "seen", TS_OUT, 2, true },
                { "out", TS_OUT, 2, false },
                { "lse", TS_OUT, 2, false },
                { "read", TS_OUT, 2, false } },
    .number = { { "n_seq_max", true },
                { "capacity", true },
                { "n_page", true },
                { "window", true },
                { "n_sink", true },
                { "key_group", true },
                { "max_call_tokens", true },
                { "scale", false } },
    .exports = ts_kv_names,
    .optional = ts_kv_optional,
    .about = about,
    .args_bytes = sizeof(ts_kv_cache_args),
    .more_name = { "window", "sink", "scale", "group" },
    .more_says = { "window", "n_sink", "number of a scale; 0: 1 / sqrt(head_dim)", "key_group" },
    .cases = ts_kv_cache_cases,
    .cover = &ts_kv_cache_cover,
    .further = &ts_kv_tree_cover,
    .setup = setup,
    .n_want = n_want,
    .oracle = oracle,
    .check = check,
    .cost = cost,
    .kept = kept,
    .invalid = &invalid,
    .canon = { { "nonfinite", TS_KV_STALE, false },
               { "masked", TS_KV_MASKED, false },
               { "nonsense", TS_KV_NONSENSE, true },
               { "tree_nonsense", TS_KV_NONSENSE, true } },
    .common = common,
    .common_decides = true,
    .explain = explain,
    .scope = scope,
    .scope_says = "`store` is a dtype instead, such as u8, `channel` is 1 where keys are coded by "
                  "channel, `fork`, `truncate`, `free` and `tree` are 1 where that function is "
                  "called, and `refused` where a call must be rejected",
};
