/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.c - public cases for kv_cache against the definition in double. Attention is judged over
 * what ts_kv_read gives, and what it gives by the error that the contract declares. */
#include "selftest.h"
#include "touchstone/kv_cache.h"

enum { TOKENS = 40, SEQS = 3 };

typedef struct bench {
    char       name[96];
    ts_kv_dims d;
    ts_exec    x;
    ts_kv     *c;
    void      *memory, *k[SEQS], *v[SEQS]; /* every token that a sequence was given */
    int32_t    seq[SEQS];
    int64_t    len[SEQS];
} bench;

static int ok(bench *b, const char *what, ts_status got, ts_status want)
{
    got = finish(got);
    if (got != want) flaw(b->name, what, 0, got, want);
    return got == want;
}

static int64_t width(const bench *b)
{
    return b->d.n_kv_head * b->d.head_dim;
}

static int begin(bench *b)
{
    size_t    state, work;
    ts_status s = ts_kv_bytes(&b->d, &b->x, &state, &work);
    if (!ok(b, "status", s, TS_OK)) return 0;
    b->memory = fresh_bytes(state + 64);
    b->x.workspace = fresh_bytes(work + 64);
    b->x.workspace_bytes = work;
    return ok(b, "status", ts_kv_create(&b->d, &b->x, b->memory, state, &b->c), TS_OK);
}

/* n new tokens of every layer for sequence i; those before are still known. */
static int append(bench *b, int i, int64_t n)
{
    const int64_t W = width(b), bytes = b->d.io_dtype == TS_F32 ? 4 : 2;
    for (int64_t e = b->len[i] * W; e < (b->len[i] + n) * W; e++) {
        set(b->k[i], b->d.io_dtype, e, draw());
        set(b->v[i], b->d.io_dtype, e, draw());
    }
    for (int64_t l = 0; l < b->d.n_layer; l++) {
        const size_t    at = (size_t)(b->len[i] * W * bytes);
        const ts_status s = ts_kv_append(b->c, &b->x, l, 1, &b->seq[i], &n, (char *)b->k[i] + at,
                                         (char *)b->v[i] + at);
        if (!ok(b, "append", s, TS_OK)) return 0;
    }
    b->len[i] += n;
    return 1;
}

/* Codes: half a step of the widest group that there can be, and the metadata's rounding. */
static double declared(const bench *b)
{
    const double steps = b->d.store_dtype == TS_U8 ? 255 : 15;
    const int    codes = b->d.store_dtype == TS_U8 || b->d.store_dtype == TS_U4;
    return codes                         ? 3.4 * 2 / steps / 2 * 1.01 + 0x1p-10 * 8
           : b->d.store_dtype == TS_BF16 ? 0.02
                                         : 0;
}

static void check_read(bench *b, int i, const float *k, const float *v)
{
    for (int64_t e = 0; e < b->len[i] * width(b); e++) {
        compare(b->name, "k", e, k[e], get(b->k[i], b->d.io_dtype, e), declared(b));
        compare(b->name, "v", e, v[e], get(b->v[i], b->d.io_dtype, e), declared(b));
    }
}

/* The query at position p, over what was read. */
static void check_query(bench *b, int64_t p, int64_t h, const void *q, int64_t at, const void *out,
                        float lse, const float *k, const float *v)
{
    const int64_t D = b->d.head_dim, W = width(b), first = h * b->d.n_kv_head / b->d.n_q_head * D;
    double        score[TOKENS], most = -INFINITY, sum = 0;
    for (int64_t j = 0; j <= p; j++) {
        const int seen = !b->d.window || p - j < b->d.window || j < b->d.n_sink;
        score[j] = 0;
        for (int64_t e = 0; e < D; e++)
            score[j] += get(q, b->d.io_dtype, at + e) * k[j * W + first + e];
        score[j] = seen ? score[j] * b->d.scale : -INFINITY;
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j <= p; j++) sum += score[j] = exp(score[j] - most);
    compare(b->name, "lse", h, lse, most + log(sum), 1e-4);
    for (int64_t e = 0; e < D; e++) {
        double o = 0;
        for (int64_t j = 0; j <= p; j++) o += score[j] / sum * v[j * W + first + e];
        compare(b->name, "out", at + e, get(out, b->d.io_dtype, at + e), o,
                b->d.io_dtype == TS_BF16 ? 0.03 : 1e-4);
    }
}

/* Everything about sequence i, in every layer; the last n tokens are the queries. */
static void check_seq(bench *b, int i, int64_t n)
{
    const int64_t H = b->d.n_q_head, D = b->d.head_dim;
    float        *k = fresh(TOKENS * width(b)), *v = fresh(TOKENS * width(b));
    float        *lse = fresh(TOKENS * H);
    void         *q = fresh(TOKENS * H * D), *out = fresh(TOKENS * H * D);
    for (int64_t e = 0; e < n * H * D; e++) set(q, b->d.io_dtype, e, draw());
    for (int64_t l = 0; l < b->d.n_layer; l++) {
        int64_t len = -1;
        ok(b, "read", ts_kv_read(b->c, &b->x, l, b->seq[i], 0, b->len[i], k, v), TS_OK);
        ok(b, "attend", ts_kv_attend(b->c, &b->x, l, 1, &b->seq[i], &n, q, out, lse), TS_OK);
        ok(b, "status", ts_kv_status(b->c, l, b->seq[i], &len, NULL), TS_OK);
        compare(b->name, "length", l, (double)len, (double)b->len[i], 0);
        check_read(b, i, k, v);
        for (int64_t r = 0; r < n; r++)
            for (int64_t h = 0; h < H; h++)
                check_query(b, b->len[i] - n + r, h, q, (r * H + h) * D, out, lse[r * H + h], k, v);
    }
}

/* Grow, fork, go apart, cut, grow again, free, and fill up. */
static void play(bench *b)
{
    const int64_t over = TOKENS;
    int32_t       none = -5;
    for (int i = 0; i < 2; i++)
        if (!ok(b, "open", ts_kv_open(b->c, &b->x, &b->seq[i]), TS_OK) || !append(b, i, 7 + 10 * i))
            return;
    check_seq(b, 0, 7);
    check_seq(b, 1, 3);
    if (!ok(b, "fork", ts_kv_fork(b->c, &b->x, b->seq[1], &b->seq[2]), TS_OK)) return;
    memcpy(b->k[2], b->k[1], (size_t)(b->len[1] * width(b)) * 4);
    memcpy(b->v[2], b->v[1], (size_t)(b->len[1] * width(b)) * 4);
    b->len[2] = b->len[1];
    if (!append(b, 2, 2) || !append(b, 1, 5)) return;
    check_seq(b, 1, 2);
    check_seq(b, 2, 2);
    ok(b, "truncate", ts_kv_truncate(b->c, &b->x, b->seq[1], 16), TS_OK);
    b->len[1] = 16;
    if (!append(b, 1, 3)) return;
    check_seq(b, 1, 1);
    ok(b, "append", ts_kv_append(b->c, &b->x, 0, 1, &b->seq[0], &over, b->k[0], b->v[0]),
       TS_E_CAPACITY);
    ok(b, "open", ts_kv_open(b->c, &b->x, &none), TS_E_CAPACITY);
    ok(b, "free", ts_kv_free(b->c, &b->x, b->seq[2]), TS_OK);
    ok(b, "free", ts_kv_free(b->c, &b->x, b->seq[2]), TS_E_STATE);
    check_seq(b, 0, 1);
    check_seq(b, 1, 1);
}

static void try(ts_dtype io, ts_dtype store, ts_key_axis axis, int64_t page, int64_t window)
{
    bench b = { .x = { .device = TEST_DEVICE, .n_threads = 1, .deterministic = 1 } };
    snprintf(b.name, sizeof b.name, "io=%d store=%d axis=%d page=%d window=%d", io, store, axis,
             (int)page, (int)window);
    b.d = (ts_kv_dims) { .n_layer = 2,
                         .n_seq_max = SEQS,
                         .n_q_head = 4,
                         .n_kv_head = 2,
                         .head_dim = 33,
                         .capacity = TOKENS - 1,
                         .page = page,
                         .window = window };
    b.d.n_sink = window ? 1 : 0;
    b.d.n_page = page ? 2 * SEQS * (TOKENS / page + 1) : 0;
    b.d.key_group = axis == TS_KEY_TOKEN ? 11 : page ? page : 8;
    b.d.max_call_tokens = TOKENS;
    b.d.key_axis = axis, b.d.io_dtype = io, b.d.store_dtype = store, b.d.meta_dtype = TS_F32;
    b.d.scale = 0.17;
    for (int i = 0; i < SEQS; i++)
        b.k[i] = fresh(TOKENS * width(&b)), b.v[i] = fresh(TOKENS * width(&b));
    begin_case();
    if (begin(&b)) play(&b);
    if (b.c) ok(&b, "destroy", ts_kv_destroy(&b.c), TS_OK);
    drop_all();
}

int main(void)
{
    const int64_t  pages[] = { 0, 16, 7, 1 };
    const ts_dtype io[] = { TS_F32, TS_BF16 };
    for (int t = 0; t < 2; t++)
        for (int p = 0; p < 4; p++)
            for (int64_t window = 0; window < 10; window += 5) {
                try(io[t], io[t], TS_KEY_TOKEN, pages[p], window);
                try(TS_F32, TS_U8, (ts_key_axis)t, pages[p], window);
                if (window) try(TS_F32, TS_U4, (ts_key_axis)t, pages[p], window);
            }
    return verdict();
}
