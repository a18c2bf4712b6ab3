/* SPDX-License-Identifier: Apache-2.0 */
/* demo_kv.c - a cache for demos; and `demo gqa`: savings when query heads share keys and values. */
#define _POSIX_C_SOURCE 200809L
#include "demo_kv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dtype.h"
#include "rng.h"

bool ts_demo_ok(const char *what, ts_status s)
{
    return !s || ts_complain(what, ts_status_text(s));
}

/* CPU time: demos use one thread, and other programs affect it less than wall time. */
double ts_demo_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ts_kv_dims ts_demo_kv_dims(int64_t n_layer, int64_t n_seq, int64_t n_q_head, int64_t n_kv_head,
                           int64_t head_dim, int64_t capacity)
{
    return (ts_kv_dims) {
        .n_layer = n_layer,
        .n_seq_max = n_seq,
        .n_q_head = n_q_head,
        .n_kv_head = n_kv_head,
        .head_dim = head_dim,
        .capacity = capacity,
        .max_call_tokens = capacity,
        .io_dtype = TS_BF16,
        .store_dtype = TS_BF16,
        .scale = 1 / sqrt((double)head_dim),
    };
}

bool ts_demo_kv_make(const ts_kv_dims *d, ts_demo_kv *k)
{
    *k = (ts_demo_kv) { .x = { .n_threads = 1, .deterministic = 1 } };
    if (!ts_demo_ok("kv_bytes", ts_kv_bytes(d, &k->x, &k->state_bytes, &k->workspace_bytes)))
        return false;
    k->memory = malloc(k->state_bytes);
    k->x.workspace = malloc(k->workspace_bytes);
    k->x.workspace_bytes = k->workspace_bytes;
    if (!k->memory || !k->x.workspace)
        return ts_fail("out of memory for a cache of %zu bytes", k->state_bytes);
    return ts_demo_ok("kv_create", ts_kv_create(d, &k->x, k->memory, k->state_bytes, &k->c));
}

void ts_demo_kv_free(ts_demo_kv *k)
{
    if (k->c) ts_kv_destroy(&k->c);
    free(k->memory);
    free(k->x.workspace);
    *k = (ts_demo_kv) { 0 };
}

/* ---- gqa ---- */

enum { Q_HEADS = 32, D = 128, LENGTH = 1024, N_LAYER = 2, N_KINDS = 4, REPEATS = 20 };

static const int64_t KV_HEADS[N_KINDS] = { 32, 8, 4, 1 };

typedef struct sharing {
    size_t  reserved, live;
    int64_t per_token; /* bytes, all layers */
    double  seconds;   /* of one query over LENGTH keys in one layer */
    bool    equal;     /* bitwise, to full heads with the same values */
} sharing;

/* Head h of a row gets the values of head h * n_kv / n_head in a cache of n_kv heads. */
static void fill_rows(uint16_t *x, uint64_t seed, int64_t n_head, int64_t n_kv)
{
    for (int64_t t = 0; t < LENGTH; t++)
        for (int64_t h = 0; h < n_head; h++)
            for (int64_t i = 0; i < D; i++)
                x[(t * n_head + h) * D + i] =
                    ts_narrow_bf16(ts_normal(seed, (t * Q_HEADS + h * n_kv / n_head) * D + i));
}

/* Fills a cache of n_head heads with the values of n_kv heads and attends. */
static bool attend_shared(uint64_t seed, int64_t n_head, int64_t n_kv, uint16_t *rows,
                          uint16_t *out, sharing *s)
{
    const ts_kv_dims d = ts_demo_kv_dims(N_LAYER, 1, Q_HEADS, n_head, D, LENGTH);
    const int64_t    n = LENGTH, one = 1;
    uint16_t        *k = rows, *v = rows + (size_t)LENGTH * Q_HEADS * D, q[Q_HEADS * D];
    ts_demo_kv       kv;
    ts_kv_usage      use;
    int32_t          seq;
    bool ok = ts_demo_kv_make(&d, &kv) && ts_demo_ok("open", ts_kv_open(kv.c, &kv.x, &seq));
    fill_rows(k, ts_bits(seed, 0), n_head, n_kv);
    fill_rows(v, ts_bits(seed, 1), n_head, n_kv);
    for (int i = 0; i < Q_HEADS * D; i++) q[i] = ts_narrow_bf16(ts_normal(ts_bits(seed, 2), i));
    for (int64_t l = 0; ok && l < N_LAYER; l++)
        ok = ts_demo_ok("append", ts_kv_append(kv.c, &kv.x, l, 1, &seq, &n, k, v));
    s->seconds = INFINITY;
    for (int i = 0; ok && i < REPEATS; i++) {
        const double begin = ts_demo_seconds();
        ok = ts_demo_ok("attend", ts_kv_attend(kv.c, &kv.x, 0, 1, &seq, &one, q, out, NULL));
        s->seconds = fmin(s->seconds, ts_demo_seconds() - begin);
    }
    ok = ok && ts_demo_ok("status", ts_kv_status(kv.c, 0, seq, NULL, &use));
    if (ok) {
        s->reserved = use.bytes_reserved;
        s->live = use.bytes_live;
        s->per_token = (int64_t)use.bytes_live / LENGTH;
    }
    ts_demo_kv_free(&kv);
    return ok;
}

static bool measure_sharing(uint64_t seed, sharing s[N_KINDS])
{
    static uint16_t shared[Q_HEADS * D], full[Q_HEADS * D];
    sharing         copied;
    uint16_t       *rows = malloc(2 * (size_t)LENGTH * Q_HEADS * D * sizeof *rows);
    bool            ok = rows;
    for (int i = 0; ok && i < N_KINDS; i++) {
        ok = attend_shared(seed, KV_HEADS[i], KV_HEADS[i], rows, shared, &s[i]) &&
             attend_shared(seed, Q_HEADS, KV_HEADS[i], rows, full, &copied);
        s[i].equal = ok && !memcmp(shared, full, sizeof full);
    }
    free(rows);
    return ok;
}

static void print_sharing(const ts_demo_args *a, int i, const sharing *s, ts_json *rows)
{
    static const char *const names[N_KINDS] = { "MHA", "GQA", "GQA", "MQA" };
    ts_json                 *o = ts_json_object(rows, NULL);
    const double             ratio = (double)s[0].live / (double)s[i].live;
    const double             context = 0x1p30 / (double)s[i].per_token;
    ts_json_text(o, "kind", names[i]);
    ts_json_int(o, "kv_heads", KV_HEADS[i]);
    ts_json_int(o, "bytes_allocated", (int64_t)s[i].reserved);
    ts_json_int(o, "bytes_live", (int64_t)s[i].live);
    ts_json_int(o, "bytes_per_token", s[i].per_token);
    ts_json_number(o, "saving", ratio);
    ts_json_number(o, "tokens_per_gib", context);
    ts_json_number(o, "attend_seconds", s[i].seconds);
    ts_json_bool(o, "equal", s[i].equal);
    if (!a->table) return;
    fprintf(a->table, "%-4s  %8lld  %12zu  %12lld  %7.1fx  %12.0f  %10.1f  %8.1fx  %s\n", names[i],
            (long long)KV_HEADS[i], s[i].reserved, (long long)s[i].per_token, ratio, context,
            1e6 * s[i].seconds, s[0].seconds / s[i].seconds, s[i].equal ? "equal" : "DIFFER");
}

int ts_demo_gqa(const ts_demo_args *a)
{
    sharing  s[N_KINDS];
    bool     equal = true, exact = true;
    ts_json *rows = ts_json_array(a->json, "rows");
    if (!measure_sharing(a->seed, s)) return TS_EXIT_BROKEN;
    ts_print(a->table,
             "A cache of %d tokens, %d layers, %d query heads of %d channels, in bf16. Query "
             "heads share\nkeys and values in groups; fewer KV heads mean less to store, and "
             "less to read for each token.\n\n%-4s  %8s  %12s  %12s  %8s  %12s  %10s  %9s  %s\n",
             LENGTH, N_LAYER, Q_HEADS, D, "", "KV heads", "allocated, B", "B per token", "saving",
             "tokens / GiB", "attend, us", "faster", "bits");
    for (int i = 0; i < N_KINDS; i++) {
        print_sharing(a, i, s, rows);
        equal = equal && s[i].equal;
        exact = exact && (int64_t)s[i].live == 2 * N_LAYER * KV_HEADS[i] * LENGTH * D * 2;
    }
    ts_print(a->table,
             "\nBits: the output compared with that of %d full KV heads, each shared head "
             "repeated\nfor its group: %s. Live bytes %s 2 * layers * KV heads * tokens * channels "
             "* 2.\nTime: one query of one layer over all tokens, best of %d, one thread.\n",
             Q_HEADS, equal ? "equal" : "FAILED", exact ? "are exactly" : "FAILED to be", REPEATS);
    return ts_demo_end(a, equal && exact, true);
}
