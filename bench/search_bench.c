/* SPDX-License-Identifier: Apache-2.0 */
/* search_bench.c - times searches on a CUDA device without their model, at the shapes of the
 * challenges: a step of beam search, a walk through a tree, and attention of a tree.
 *
 * Each time is compared with that of reading its bytes at the bandwidth of a plain read in the same
 * run. Logits are computed in advance, so a model takes no time. Exits with 77 without a device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "cuda_module.h"
#include "rng.h"
#include "row_sums.h"
#include "touchstone/beam_search.h"
#include "touchstone/kv_cache.h"
#include "touchstone/softmax_topk.h"
#include "touchstone/tree_verify.h"

enum { REPEATS = 15 };

static const ts_cuda_module_ops *cuda;
static double                    bandwidth; /* bytes a second */

static void check(int failed, const char *what)
{
    if (!failed) return;
    fprintf(stderr, "search_bench: %s: %d\n", what, failed);
    exit(1);
}

static void *take(size_t n)
{
    void *p = NULL;
    check(cuda->alloc(&p, n), "device memory");
    return p;
}

static void *host(size_t n)
{
    void *const p = calloc(n + 1, 1);
    check(!p, "memory");
    return p;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of seconds. */
static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[n / 2];
}

/* Seconds of what run enqueues, by marks on the device; the first time does not count. */
typedef void (*run_fn)(void *user, int turn);

static double device_time(run_fn run, void *user)
{
    double t[REPEATS], ns;
    for (int i = -1; i < REPEATS; i++) {
        check(cuda->mark(0, 0), "mark");
        run(user, i + 1);
        check(cuda->mark(0, 1) || cuda->sync() || cuda->elapsed_ns(0, &ns), "mark");
        if (i >= 0) t[i] = 1e-9 * ns;
    }
    return median(t, REPEATS);
}

/* ---- logits, and a model that has them ---- */

typedef struct logits {
    ts_model m;
    int64_t  n_rows;
    float   *there; /* [n_rows][n_vocab] */
    int64_t  n_copied;
} logits;

/* One row, turned a little further for each. */
static logits logits_make(int64_t n_rows, int64_t n_vocab)
{
    logits       x = { .m.n_vocab = n_vocab, .n_rows = n_rows };
    const size_t n = (size_t)n_vocab;
    float *const row = host(2 * n * sizeof *row);
    for (size_t i = 0; i < n; i++) row[i] = row[n + i] = (float)(3 * ts_normal(5, (int64_t)i));
    x.there = take((size_t)n_rows * n * sizeof *x.there);
    for (int64_t r = 0; r < n_rows; r++)
        check(cuda->copy_in(x.there + (size_t)r * n, row + (size_t)(r * 977) % n, n * sizeof *row),
              "copy");
    free(row);
    return x;
}

/* Rows that are where they are wanted already stay there. */
static int copy_rows(logits *x, int64_t n, float *out)
{
    if (n <= x->n_copied) return 0;
    const size_t bytes = (size_t)(n * x->m.n_vocab) * sizeof *out;
    x->n_copied = n;
    return cuda->copy_within(out, x->there, bytes) || cuda->sync();
}

static int next(void *self, int64_t n_seq, const int64_t *len, const int32_t *const *tokens,
                float *out)
{
    (void)len, (void)tokens;
    return copy_rows(self, n_seq, out);
}

static int forward(void *self, int64_t n_row, const int32_t *token, const int64_t *position,
                   const uint8_t *visible, int64_t n_want, const int64_t *want, float *out)
{
    (void)n_row, (void)token, (void)position, (void)visible, (void)want;
    return copy_rows(self, n_want, out);
}

/* ---- a step of beam search ---- */

typedef struct selection {
    ts_softmax_topk_args best;
    ts_row_sums_args     sums;
} selection;

static void run_best(void *user, int turn)
{
    const ts_exec x = { .device = TS_CUDA };
    (void)turn;
    check((int)ts_softmax_topk(&((selection *)user)->best, &x), "softmax_topk");
}

static void run_sums(void *user, int turn)
{
    const ts_exec x = { .device = TS_CUDA };
    (void)turn;
    check((int)ts_row_sums(&((selection *)user)->sums, &x), "row_sums");
}

/* Seconds a step of a whole search: kernels, the copy and the host's part. */
static double search_time(logits *x, ts_beam_dims d)
{
    const size_t        n = (size_t)(d.n_items * d.beam_width);
    ts_exec             e = { .device = TS_CUDA };
    double              t[REPEATS];
    int32_t *const      prompts = host((size_t)d.n_items * sizeof *prompts);
    int64_t *const      len = host((size_t)d.n_items * sizeof *len);
    ts_beam_search_args a = { .d = d, .model = &x->m, .prompts = prompts, .prompt_len = len };
    x->m.self = x, x->m.next = next;
    for (int64_t i = 0; i < d.n_items; i++) len[i] = 1;
    a.tokens = host(n * (size_t)d.max_new_tokens * sizeof *a.tokens);
    a.length = host(n * sizeof *a.length);
    a.logprob = host(n * sizeof *a.logprob);
    a.score = host(n * sizeof *a.score);
    a.finished = host(n);
    a.n_found = host((size_t)d.n_items * sizeof *a.n_found);
    check((int)ts_beam_search_workspace(&a, &e, &e.workspace_bytes), "beam_search");
    check((int)ts_beam_search_host(&a, &e, &a.host_bytes), "beam_search");
    e.workspace = take(e.workspace_bytes);
    a.host = host(a.host_bytes);
    for (int i = -1; i < REPEATS; i++) {
        const double from = ts_seconds();
        check((int)ts_beam_search(&a, &e), "beam_search");
        if (i >= 0) t[i] = (ts_seconds() - from) / (double)d.max_new_tokens;
    }
    void *const mine[] = { prompts, len,        a.tokens,  a.length, a.logprob,
                           a.score, a.finished, a.n_found, a.host };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    check(cuda->release(e.workspace), "release");
    return median(t, REPEATS);
}

static void beam_search(int64_t n_items, int64_t width, int64_t n_vocab, int64_t steps)
{
    const int64_t n_rows = n_items * width, pieces = (n_vocab + 4095) / 4096;
    logits        x = logits_make(n_rows, n_vocab);
    int32_t      *index = take((size_t)(n_rows * width) * sizeof *index);
    float        *prob = take((size_t)(n_rows * width) * sizeof *prob);
    float        *value = take((size_t)(n_rows * (width + 1)) * sizeof *value);
    double       *sum = take((size_t)(n_rows * (pieces + 1)) * sizeof *sum);
    selection     s = {
            .best = { TS_F32, n_rows, n_vocab, n_vocab, width, 1, x.there, index, prob, NULL },
            .sums = { n_rows, n_vocab, 4096, width, 1, -1, x.there, index, sum, sum + n_rows * pieces,
                      value },
    };
    const double floor = 4 * (double)(n_rows * n_vocab) / bandwidth;
    const double best = device_time(run_best, &s), sums = device_time(run_sums, &s);
    const double step = search_time(&x, (ts_beam_dims) { n_items, width, steps, 0.6, -1 });
    printf("beam_search %lldx%lldx%lld: floor %.1f us; softmax_topk %.1f us (%.0f %%), row_sums "
           "%.1f us (%.0f %%), both %.1f us (%.0f %%); a step of the search %.1f us (%.0f %%)\n",
           (long long)n_items, (long long)width, (long long)n_vocab, 1e6 * floor, 1e6 * best,
           100 * floor / best, 1e6 * sums, 100 * floor / sums, 1e6 * (best + sums),
           100 * floor / (best + sums), 1e6 * step, 100 * floor / step);
    void *const theirs[] = { x.there, index, prob, value, sum };
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) check(cuda->release(theirs[i]), "");
}

/* ---- a tree: n_path paths, each as long, behind the first row ---- */

static void make_tree(int64_t n_node, int64_t deep, int32_t *parent)
{
    for (int64_t i = 0; i < n_node; i++) parent[i] = i % deep ? (int32_t)i - 1 : -1;
}

static double walk_time(logits *x, int64_t n_prompt, int64_t n_node, double temperature,
                        int64_t *n_path)
{
    const size_t   n = (size_t)n_node + 1;
    ts_exec        e = { .device = TS_CUDA };
    double         t[REPEATS];
    int64_t        n_out;
    int32_t *const prompt = host((size_t)n_prompt * sizeof *prompt);
    int32_t *const token = host(n * sizeof *token), *const parent = host(n * sizeof *parent);
    double *const       u = host(n * sizeof *u);
    ts_tree_verify_args a = { .d = { n_prompt, n_node, n_node + 1, temperature },
                              .model = &x->m,
                              .prompt = prompt,
                              .token = token,
                              .parent = parent,
                              .u = u,
                              .n_out = &n_out,
                              .n_path = n_path };
    x->m.self = x, x->m.forward = forward;
    make_tree(n_node, 16 < n_node ? 16 : 4, parent);
    for (size_t i = 0; i < n; i++) u[i] = (ts_uniform(9, (int64_t)i) + 1) / 2;
    a.out = host(n * sizeof *a.out);
    a.path = host(n * sizeof *a.path);
    a.status = host(n);
    check((int)ts_tree_verify_workspace(&a, &e, &e.workspace_bytes), "tree_verify");
    check((int)ts_tree_verify_host(&a, &e, &a.host_bytes), "tree_verify");
    e.workspace = take(e.workspace_bytes);
    a.host = host(a.host_bytes);
    x->n_copied = 0;
    for (int i = 0; i < 5; i++) { /* nodes of the path learn what they must say to be accepted */
        check((int)ts_tree_verify(&a, &e), "tree_verify");
        if (n_out <= n_node && n_out < 5) token[n_out - 1] = a.out[n_out - 1];
    }
    for (int i = -1; i < REPEATS; i++) {
        const double from = ts_seconds();
        check((int)ts_tree_verify(&a, &e), "tree_verify");
        if (i >= 0) t[i] = ts_seconds() - from;
    }
    void *const mine[] = { prompt, token, parent, u, a.out, a.path, a.status, a.host };
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) free(mine[i]);
    check(cuda->release(e.workspace), "release");
    return median(t, REPEATS);
}

static void tree_verify(int64_t n_prompt, int64_t n_node, int64_t n_vocab)
{
    logits       x = logits_make(n_node + 1, n_vocab);
    const double floor = 4 * (double)((n_node + 1) * n_vocab) / bandwidth;
    for (int drawn = 0; drawn < 2; drawn++) {
        int64_t      n_path = 0;
        const double t = walk_time(&x, n_prompt, n_node, drawn ? 0.8 : 0, &n_path);
        printf("tree_verify %lldx%lldx%lld at temperature %g: %.1f us with %lld nodes accepted, "
               "the host's part included; reading all rows takes %.1f us (%.0f %%)\n",
               (long long)n_prompt, (long long)n_node, (long long)n_vocab, drawn ? 0.8 : 0.0,
               1e6 * t, (long long)n_path, 1e6 * floor, 100 * floor / t);
    }
    check(cuda->release(x.there), "release");
}

/* ---- a tree's attention ---- */

typedef struct tree_call {
    ts_kv     *c;
    ts_exec    x;
    ts_kv_tree tree;
    int64_t    n_layer, n_row;
    int32_t    seq;
    void      *q, *out;
} tree_call;

static void run_tree(void *user, int turn)
{
    tree_call *t = user;
    check((int)ts_kv_attend_tree(t->c, &t->x, turn % t->n_layer, 1, &t->seq, &t->n_row, &t->tree,
                                 t->q, t->out, NULL),
          "attend_tree");
}

/* The same queries as the last tokens of the text. */
static void run_text(void *user, int turn)
{
    tree_call *t = user;
    check((int)ts_kv_attend(t->c, &t->x, turn % t->n_layer, 1, &t->seq, &t->n_row, t->q, t->out,
                            NULL),
          "attend");
}

static void *noise(int64_t n)
{
    uint16_t *const x = host((size_t)n * sizeof *x);
    void *const     there = take((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) { /* bf16: the upper half of a float */
        const float f = (float)ts_uniform(3, i);
        uint32_t    u;
        memcpy(&u, &f, sizeof u);
        x[i] = (uint16_t)(u >> 16);
    }
    check(cuda->copy_in(there, x, (size_t)n * sizeof *x), "copy");
    free(x);
    return there;
}

/* Layers enough that one's keys have left the cache of the device when its turn comes again. */
static void tree_attention(int64_t n_text, int64_t n_node, ts_dtype store)
{
    enum { HEADS = 32, KV_HEADS = 8, D = 128, PAGE = 64 };
    const int64_t n_row = n_node + 1, width = KV_HEADS * D, deep = 16 < n_node ? 16 : 4;
    const double  each = 2 * (double)(n_text * width) *
                        (store == TS_BF16 ? 2
                         : store == TS_U8 ? 1
                                          : 0.5);
    const int64_t    n_layer = 1 + (int64_t)fmin(3e8 / each, 400);
    const int64_t    pages = (n_text + PAGE - 1) / PAGE, most = n_text > n_row ? n_text : n_row;
    const ts_kv_dims d = { .n_layer = n_layer,
                           .n_seq_max = 1,
                           .n_q_head = HEADS,
                           .n_kv_head = KV_HEADS,
                           .head_dim = D,
                           .capacity = n_text,
                           .page = PAGE,
                           .n_page = n_layer * pages,
                           .key_group = D,
                           .max_call_tokens = most,
                           .io_dtype = TS_BF16,
                           .store_dtype = store,
                           .meta_dtype = TS_F16,
                           .scale = 1 / sqrt(D) };
    int32_t *const   parent = host((size_t)n_row * sizeof *parent);
    tree_call        t = { .x.device = TS_CUDA, .n_layer = n_layer, .n_row = n_row };
    size_t           state;
    make_tree(n_node, deep, parent + 1);
    for (int64_t i = n_node; i > 0; i--) parent[i]++; /* all behind row 0, the text's last */
    parent[0] = -1;
    check((int)ts_kv_bytes(&d, &t.x, &state, &t.x.workspace_bytes), "cache");
    void *const memory = take(state), *const k = noise(most * width),
                *const v = noise(most * width);
    t.x.workspace = take(t.x.workspace_bytes);
    t.q = noise(n_row * HEADS * D), t.out = take((size_t)(n_row * HEADS * D) * 2);
    t.tree = (ts_kv_tree) { parent, k, v };
    check((int)ts_kv_create(&d, &t.x, memory, state, &t.c), "cache");
    check((int)ts_kv_open(t.c, &t.x, &t.seq), "cache");
    for (int64_t l = 0; l < n_layer; l++)
        check((int)ts_kv_append(t.c, &t.x, l, 1, &t.seq, &n_text, k, v), "append");
    const double in_tree = device_time(run_tree, &t);
    const double as_text = n_row <= n_text ? device_time(run_text, &t) : NAN;
    const double bytes = each + 4 * (double)(n_row * width) + 4 * (double)(n_row * HEADS * D);
    const double flops = 4.0 * (double)(n_text * n_row) * HEADS * D;
    printf("attend_tree %lldx%lld, 32 heads of 8, 128, %s: %.1f us; bytes take %.1f us (%.0f %%); "
           "%.0f TFLOP/s; as many rows of a text %.1f us; workspace %.1f MB\n",
           (long long)n_text, (long long)n_node,
           store == TS_BF16 ? "bf16"
           : store == TS_U8 ? "u8"
                            : "u4",
           1e6 * in_tree, 1e6 * bytes / bandwidth, 100 * bytes / bandwidth / in_tree,
           1e-12 * flops / in_tree, 1e6 * as_text, 1e-6 * (double)t.x.workspace_bytes);
    ts_kv_destroy(&t.c);
    free(parent);
    void *const theirs[] = { memory, k, v, t.x.workspace, t.q, t.out };
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) check(cuda->release(theirs[i]), "");
}

/* ---- the ceiling ---- */

enum { CEILING_BYTES = 1 << 30 };

static void run_read(void *user, int turn)
{
    void **const p = user;
    (void)turn;
    check(cuda->stream_read(p[1], p[0], CEILING_BYTES), "read");
}

int main(void)
{
    const char *absent = ts_cuda_unavailable_reason();
    char        name[256];
    if (absent) printf("skipped: %s\n", absent);
    if (absent) return 77;
    cuda = ts_cuda_ops();
    void *const p[2] = { take(CEILING_BYTES), take(1 << 20) };
    check(cuda->describe(name, sizeof name) || cuda->fill(p[0], 1, CEILING_BYTES), "device");
    bandwidth = CEILING_BYTES / device_time(run_read, (void *)(uintptr_t)p);
    printf("%s; a plain read: %.2f TB/s\n", name, 1e-12 * bandwidth);
    check(cuda->release(p[0]) || cuda->release(p[1]), "release");
    beam_search(1, 4, 32000, 64);
    beam_search(32, 4, 128256, 16);
    beam_search(8, 16, 50257, 32);
    beam_search(64, 8, 151936, 8);
    tree_verify(128, 16, 32000);
    tree_verify(1024, 64, 128256);
    tree_verify(4096, 256, 151936);
    static const ts_dtype stores[] = { TS_BF16, TS_U8, TS_U4 };
    for (int i = 0; i < 3; i++) {
        tree_attention(128, 16, stores[i]);
        tree_attention(1024, 64, stores[i]);
        tree_attention(4096, 256, stores[i]);
    }
    return 0;
}
