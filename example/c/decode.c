/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - a decode loop from C: paged KV cache, attention over it, top-k sampling.
 *
 * The model is one attention layer with random weights; its tokens mean nothing. Two sequences
 * share the pages of a prompt, and each step runs both. One pass over all tokens must then give
 * the logits that the steps gave. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <touchstone/kv_cache.h>
#include <touchstone/softmax_topk.h>

enum { VOCAB = 200, HEADS = 4, KV_HEADS = 2, DIM = 32, WIDTH = HEADS * DIM, KV = KV_HEADS * DIM };
enum { PROMPT = 24, STEPS = 10, TOKENS = PROMPT + STEPS, TOP = 8, PAGE = 8 };

static float    embed[VOCAB * WIDTH], w_k[WIDTH * KV], w_v[WIDTH * KV], head[WIDTH * VOCAB];
static float    logits[TOKENS][VOCAB], prob[2][TOP];
static int32_t  most[2][TOP];
static uint32_t state = 7;

/* The TOP most probable tokens of two rows of logits, at a temperature of 0.7. */
static const ts_softmax_topk_args top = { TS_F32,  2,      VOCAB,   VOCAB,   TOP,
                                          1 / 0.7, logits, most[0], prob[0], NULL };

static float uniform(void) /* in [0, 1), and the same on every machine */
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216;
}

static void must(ts_status s, const char *what)
{
    if (s == TS_OK) return;
    fprintf(stderr, "decode: %s: %s\n", what, ts_status_text(s));
    exit(1);
}

static void multiply(const float *x, const float *w, int n_out, float *y) /* y = x w */
{
    for (int j = 0; j < n_out; j++) y[j] = 0;
    for (int i = 0; i < WIDTH; i++)
        for (int j = 0; j < n_out; j++) y[j] += x[i] * w[i * n_out + j];
}

/* Runs n_new[s] new tokens of each sequence, packed one sequence behind the other: stores their
 * keys and values, then attends, and writes the logits of every token. */
static void run(ts_kv *c, const ts_exec *x, int n_seq, const int32_t *seq, const int64_t *n_new,
                const int *token)
{
    static float q[TOKENS][WIDTH], k[TOKENS][KV], v[TOKENS][KV], o[TOKENS][WIDTH];
    int          n = 0;
    for (int s = 0; s < n_seq; s++) n += (int)n_new[s];
    for (int i = 0; i < n; i++) {
        memcpy(q[i], embed + token[i] * WIDTH, sizeof q[i]); /* w_q is the identity */
        multiply(q[i], w_k, KV, k[i]);
        multiply(q[i], w_v, KV, v[i]);
    }
    must(ts_kv_append(c, x, 0, n_seq, seq, n_new, k, v), "append");
    must(ts_kv_attend(c, x, 0, n_seq, seq, n_new, q, o, NULL), "attend");
    for (int i = 0; i < n; i++) multiply(o[i], head, VOCAB, logits[i]);
}

int main(void)
{
    int         token[2][TOKENS], next[2];
    int32_t     seq[3];
    ts_kv_usage usage;
    for (int i = 0; i < VOCAB * WIDTH; i++) {
        embed[i] = uniform() - 0.5f, head[i] = uniform() - 0.5f;
        if (i < WIDTH * KV) w_k[i] = uniform() - 0.5f, w_v[i] = uniform() - 0.5f;
    }
    for (int i = 0; i < PROMPT; i++) token[0][i] = token[1][i] = i * 7 % VOCAB;

    ts_exec    x = { .device = TS_CPU, .n_threads = 2 };
    ts_kv_dims d = { .n_layer = 1, .n_seq_max = 3, .capacity = TOKENS, .max_call_tokens = TOKENS };
    d.n_q_head = HEADS, d.n_kv_head = KV_HEADS, d.head_dim = DIM, d.scale = 1 / sqrt(DIM);
    d.page = PAGE, d.n_page = 16;                 /* shared by all sequences */
    d.io_dtype = TS_F32, d.store_dtype = TS_BF16; /* TS_U8 and TS_U4 take less memory */

    /* All memory is the caller's: one block for the cache, one workspace for every call. */
    size_t cache_bytes, cache_needs, top_needs;
    must(ts_kv_bytes(&d, &x, &cache_bytes, &cache_needs), "sizes of the cache");
    must(ts_softmax_topk_workspace(&top, &x, &top_needs), "workspace of softmax_topk");
    x.workspace_bytes = cache_needs > top_needs ? cache_needs : top_needs;
    x.workspace = malloc(x.workspace_bytes);
    void  *memory = malloc(cache_bytes);
    ts_kv *cache;
    must(ts_kv_create(&d, &x, memory, cache_bytes, &cache), "create");

    must(ts_kv_open(cache, &x, &seq[0]), "open");
    run(cache, &x, 1, seq, (const int64_t[1]) { PROMPT }, token[0]);
    must(ts_kv_fork(cache, &x, seq[0], &seq[1]), "fork"); /* copies nothing */
    for (int s = 0; s < 2; s++) memcpy(logits[s], logits[PROMPT - 1], sizeof logits[s]);
    for (int i = PROMPT; i < TOKENS; i++) {
        must(ts_softmax_topk(&top, &x), "softmax_topk");
        for (int s = 0; s < 2; s++) { /* prob is over the whole row: the sum is below 1 */
            double left = 0;
            int    j = 0;
            for (int t = 0; t < TOP; t++) left += prob[s][t];
            for (left *= uniform(); j < TOP - 1 && left >= prob[s][j]; j++) left -= prob[s][j];
            token[s][i] = next[s] = most[s][j];
            printf("%s%d", s ? " | " : i > PROMPT ? ", " : "", next[s]);
        }
        run(cache, &x, 2, seq, (const int64_t[2]) { 1, 1 }, next);
    }
    must(ts_kv_status(cache, 0, seq[0], NULL, &usage), "status");
    printf("\n%d pages in use for 2 x %d tokens\n", (int)(usage.n_page - usage.n_free), TOKENS);

    float  last[VOCAB]; /* the second sequence's, which one pass over all its tokens must repeat */
    double worst = 0;
    memcpy(last, logits[1], sizeof last);
    must(ts_kv_open(cache, &x, &seq[2]), "open");
    run(cache, &x, 1, &seq[2], (const int64_t[1]) { TOKENS }, token[1]);
    for (int j = 0; j < VOCAB; j++) worst = fmax(worst, fabs(last[j] - logits[TOKENS - 1][j]));
    printf("all tokens at once: %s logits\n", worst < 1e-4 ? "the same" : "DIFFERENT");
    must(ts_kv_destroy(&cache), "destroy");
    free(memory), free(x.workspace);
    return worst >= 1e-4;
}
