/* SPDX-License-Identifier: Apache-2.0 */
/* unit_plan_decode.c [GPU] - compares the planner's bound on decode with a decode that is run here.
 *
 * On the CPU the bound is computed from the measured memory bandwidth, on a CUDA device from the
 * planner's table for that GPU. Machines are shared, so no speed is required: the ratio is printed.
 * Under a sanitizer it is meaningless. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "decoder.h"
#include "plan.h"
#include "unit.h"

/* No cache holds them. On a GPU a small model waits for launches alone. */
static const ts_plan_model small = { .id = "small",
                                     .n_layer = 8,
                                     .width = 768,
                                     .n_head = 12,
                                     .n_kv_head = 4,
                                     .head_dim = 64,
                                     .n_ffn = 2048,
                                     .n_vocab = 8192 };
static const ts_plan_model large = { .id = "large",
                                     .n_layer = 8,
                                     .width = 4096,
                                     .n_head = 32,
                                     .n_kv_head = 8,
                                     .head_dim = 128,
                                     .n_ffn = 14336,
                                     .n_vocab = 8192 };
enum { PROMPT = 64, STEPS = 24, ROUNDS = 5, READS = 4, ROW = (1 << 22) + 72, N_READ = 8 * ROW };

/* ---- a checkpoint ---- */

typedef struct header {
    char   text[16384];
    size_t n, n_data;
} header;

static void tensor(header *h, int layer, const char *name, int64_t rows, int64_t cols)
{
    const size_t bytes = (size_t)rows * (size_t)(cols ? cols : 1) * sizeof(float);
    char         full[64], shape[32];
    if (layer < 0) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "model.layers.%d.%s", layer, name);
    if (cols) snprintf(shape, sizeof shape, "%" PRId64 ",%" PRId64, rows, cols);
    else snprintf(shape, sizeof shape, "%" PRId64, rows);
    h->n +=
        (size_t)snprintf(h->text + h->n, sizeof h->text - h->n,
                         "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                         h->n_data ? ',' : '{', full, shape, h->n_data, h->n_data + bytes);
    h->n_data += bytes;
}

static void tensors(const ts_plan_model *p, header *h)
{
    const int64_t q = p->n_head * p->head_dim, kv = p->n_kv_head * p->head_dim;
    tensor(h, -1, "model.embed_tokens.weight", p->n_vocab, p->width);
    tensor(h, -1, "model.norm.weight", p->width, 0);
    tensor(h, -1, "lm_head.weight", p->n_vocab, p->width);
    for (int i = 0; i < p->n_layer; i++) {
        tensor(h, i, "input_layernorm.weight", p->width, 0);
        tensor(h, i, "post_attention_layernorm.weight", p->width, 0);
        tensor(h, i, "self_attn.q_proj.weight", q, p->width);
        tensor(h, i, "self_attn.k_proj.weight", kv, p->width);
        tensor(h, i, "self_attn.v_proj.weight", kv, p->width);
        tensor(h, i, "self_attn.o_proj.weight", p->width, q);
        tensor(h, i, "mlp.gate_proj.weight", p->n_ffn, p->width);
        tensor(h, i, "mlp.up_proj.weight", p->n_ffn, p->width);
        tensor(h, i, "mlp.down_proj.weight", p->width, p->n_ffn);
    }
    h->n += (size_t)snprintf(h->text + h->n, sizeof h->text - h->n, "}");
    while (h->n % 8) h->text[h->n++] = ' ';
}

static ts_decoder *decoder(const ts_plan_model *p)
{
    char           config[512], why[TS_MODEL_WHY] = "";
    static header  h;
    ts_decoder    *m = NULL;
    const uint64_t one = 1;
    assert_true(*(const char *)&one == 1); /* the length below is little-endian */
    tensors(p, &h);
    const uint64_t n = h.n;
    char          *bytes = malloc(8 + h.n + h.n_data);
    assert_non_null(bytes);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, h.text, h.n);
    float *w = (float *)(void *)(bytes + 8 + h.n);
    for (size_t i = 0; i < h.n_data / sizeof *w; i++)
        w[i] = (float)((int)(i * 2654435761u >> 20 & 255) - 128) / 4096;
    snprintf(config, sizeof config,
             "{\"model_type\":\"llama\",\"num_hidden_layers\":%d,\"hidden_size\":%d,"
             "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,"
             "\"intermediate_size\":%d,\"vocab_size\":%d,\"max_position_embeddings\":256}",
             (int)p->n_layer, (int)p->width, (int)p->n_head, (int)p->n_kv_head, (int)p->head_dim,
             (int)p->n_ffn, (int)p->n_vocab);
    if (!ts_decoder_safetensors(config, strlen(config), bytes, 8 + h.n + h.n_data, TS_F32, &m, why))
        fail_msg("%s", why);
    free(bytes);
    return m;
}

/* ---- the two measurements ---- */

static void ignore(void *user, const ts_event *e)
{
    (void)user, (void)e;
}

static double decode_s(const ts_plan_model *p, const ts_decoder *m)
{
    int32_t                 prompt[PROMPT];
    char                    why[TS_MODEL_WHY] = "";
    ts_engine              *e;
    const ts_engine_options o = { .n_seq = 1,
                                  .capacity = 128,
                                  .page = 16,
                                  .n_page = 8 * p->n_layer,
                                  .chunk = PROMPT,
                                  .store = TS_F32 };
    for (int i = 0; i < PROMPT; i++) prompt[i] = i;
    const ts_request r = {
        .prompt = prompt, .n_prompt = PROMPT, .n_new = STEPS, .sampling = { .top_p = 1 }
    };
    if (!ts_engine_create(m, &o, &e, why) || !ts_engine_add(e, &r, why)) fail_msg("%s", why);
    while (ts_engine_step(e, ignore, NULL)) continue;
    const ts_engine_stats *s = ts_engine_stats_of(e);
    assert_true(s->n_decode > 0);
    const double t = s->decode_s / (double)s->n_decode;
    ts_engine_free(&e);
    return t;
}

/* Reads memory as the matrix products do: with all cores, and several rows at a time. */
static double read_gbs(const uint64_t *p)
{
    const double begin = ts_seconds();
    uint64_t     sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int i = 0; i < ROW; i++)
        sum += p[i] + p[i + ROW] + p[i + 2 * ROW] + p[i + 3 * ROW] + p[i + 4 * ROW] +
               p[i + 5 * ROW] + p[i + 6 * ROW] + p[i + 7 * ROW];
    const double took = ts_seconds() - begin;
    assert_true(sum != 1);
    return (double)N_READ * 8 / took / 1e9;
}

static void beside_the_bound(const ts_plan_model *p, ts_plan_gpu here)
{
    const ts_plan_ask a = { p,
                            &here,
                            1,
                            1,
                            PROMPT + STEPS / 2,
                            PROMPT,
                            TS_W_F32,
                            { TS_F32, TS_F32, TS_F32, TS_KEY_TOKEN, p->head_dim, 16, false },
                            0 };
    const bool        on_cpu = !here.gbs;
    char              why[TS_MODEL_WHY] = "";
    ts_plan_bound     b;
    ts_decoder       *m = decoder(p);
    double            best = INFINITY;
    uint64_t         *memory = malloc((size_t)N_READ * sizeof *memory);
    assert_non_null(memory);
    memset(memory, 1, (size_t)N_READ * sizeof *memory);
    assert_int_equal(ts_plan_weight_bytes(p, 1, TS_W_F32), ts_decoder_bytes(m));
    if (!on_cpu && !ts_decoder_to_cuda(m, why)) fail_msg("%s", why);
    for (int i = 0; i < ROUNDS; i++) { /* in turns: others are on the machine */
        for (int k = 0; on_cpu && k < READS; k++) here.gbs = fmax(here.gbs, read_gbs(memory));
        best = fmin(best, decode_s(p, m));
    }
    ts_plan_decode(&a, &b);
    print_message("decode: %.2f ms a token, bound %.2f ms (%.1f MB at %.1f GB/s): ratio %.2f\n",
                  best * 1e3, b.seconds * 1e3, b.bytes / 1e6, here.gbs, best / b.seconds);
    assert_true(b.seconds > 0 && isfinite(best / b.seconds));
    free(memory);
    ts_decoder_free(&m);
}

TEST(on_the_cpu)
{
    beside_the_bound(&small, (ts_plan_gpu) { "here", 1, 0, 1e6, 0, 0, "measured" });
}

static const char *gpu_name;

TEST_IN(gpu, on_a_gpu)
{
    char               why[TS_PLAN_WHY];
    const ts_plan_gpu *g = ts_plan_find_gpu(gpu_name, why);
    if (!g) fail_msg("%s", why);
    beside_the_bound(&large, *g);
}

int main(int argc, char **argv)
{
    gpu_name = argv[argc - 1];
    return argc > 1 ? run_group("gpu", NULL, NULL) : unit_run();
}
