/* SPDX-License-Identifier: Apache-2.0 */
/* unit_plan.c - the planner's counts against caches that were really made, against published
 * numbers of parameters, and against sums done by hand. unit_plan_read.c has files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kv_cache_impl.h"
#include "plan.h"
#include "unit_kv_cache.h"

/* ---- the cache, byte by byte ---- */

static const ts_dtype stores[] = { TS_F32, TS_BF16, TS_F16, TS_U8, TS_U4 };
enum { N_STORES = sizeof stores / sizeof *stores };

/* Shapes with odd heads, groups that do not divide a head, and pages that do not divide a length.
 */
static ts_kv_dims shape(int i)
{
    static const int64_t all[][11] = {
        /* layers, sequences, query heads, KV heads, head_dim, capacity, page, pages, key group,
         * window, sinks */
        { 2, 3, 4, 2, 8, 40, 8, 30, 8, 0, 0 },   { 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0 },
        { 5, 2, 6, 3, 37, 33, 12, 31, 4, 0, 0 }, { 3, 7, 8, 8, 128, 50, 16, 90, 16, 6, 1 },
        { 21, 67, 2, 1, 5, 9, 3, 701, 3, 0, 0 }, /* a book of many lines */
    };
    const int64_t *v = all[i];
    return (ts_kv_dims) { .n_layer = v[0],
                          .n_seq_max = v[1],
                          .n_q_head = v[2],
                          .n_kv_head = v[3],
                          .head_dim = v[4],
                          .capacity = v[5],
                          .page = v[6],
                          .n_page = v[7],
                          .key_group = v[8],
                          .window = v[9],
                          .n_sink = v[10],
                          .max_call_tokens = 64,
                          .scale = 1 };
}
enum { N_SHAPES = 5 };

/* Device memory is laid out by the same function, without a device. */
static void same_on_device(const ts_kv_dims *d)
{
    ts_kv      c;
    size_t     book, pools;
    ts_plan_kv p;
    assert_int_equal(ts_kv_lay_out(&c, d, TS_CUDA, NULL, NULL, &book, &pools), TS_OK);
    ts_plan_kv_bytes(d, TS_CUDA, false, &p);
    assert_int_equal(p.book, book);
    assert_int_equal(p.pools, pools);
}

/* Appends to two sequences, a few tokens at a time, and looks at the bytes in use. */
static void same_live(box *b)
{
    const int64_t n_max = b->d.capacity < 40 ? b->d.capacity : 40;
    const size_t  row = (size_t)(b->d.n_kv_head * b->d.head_dim);
    double       *k = calloc(64 * row, sizeof *k);
    const int32_t first = box_open(b);
    const int64_t one = 1;
    assert_non_null(k);
    for (int64_t n = 1; n <= n_max; n++) {
        for (int64_t layer = 0; layer < b->d.n_layer; layer++)
            assert_int_equal(ts_kv_append(b->c, &b->x, layer, 1, &first, &one, k, k), TS_OK);
        assert_int_equal(box_usage(b).bytes_live, b->d.n_layer * ts_plan_kv_live(&b->d, false, n));
    }
    free(k);
}

TEST(cache_bytes)
{
    int n_caches = 0;
    for (int i = 0; i < N_SHAPES; i++)
        for (int s = 0; s < N_STORES; s++)
            for (int axis = TS_KEY_TOKEN; axis <= TS_KEY_CHANNEL; axis++)
                for (int paged = 0; paged < 2; paged++)
                    for (int io = 0; io < 2; io++) {
                        ts_kv_dims d = shape(i);
                        ts_plan_kv p;
                        if (!paged) d.page = d.n_page = 0;
                        d.store_dtype = stores[s];
                        d.key_axis = (ts_key_axis)axis;
                        d.io_dtype = io ? TS_BF16 : TS_F32;
                        d.meta_dtype = stores[s] == TS_U4 ? TS_F16 : TS_F32;
                        box b = box_of(d);
                        ts_plan_kv_bytes(&d, TS_CPU, false, &p);
                        size_t made, work;
                        assert_int_equal(ts_kv_bytes(&d, &b.x, &made, &work), TS_OK);
                        assert_int_equal(p.state, made);
                        assert_int_equal(p.state, box_usage(&b).bytes_reserved);
                        same_on_device(&d);
                        same_live(&b);
                        box_drop(&b);
                        n_caches++;
                    }
    print_message("%d caches: predicted and reported bytes are equal\n", n_caches);
}

/* Two kinds of layers are two caches. */
TEST(model_cache)
{
    const ts_plan_model m = { .id = "small",
                              .n_layer = 5,
                              .width = 32,
                              .n_head = 4,
                              .n_kv_head = 2,
                              .head_dim = 8,
                              .n_vocab = 64,
                              .n_ffn = 40,
                              .window = 21,
                              .n_window_layer = 3 };
    const ts_plan_gpu   g = { "toy", 1, 1, 1, 0, 0, "" };
    ts_plan_ask         a = { &m,  &g, 1,         3,
                              100, 8,  TS_W_BF16, { TS_U4, TS_F16, TS_BF16, TS_KEY_CHANNEL, 8, 8, false },
                              0 };
    /* 100 tokens are 13 pages; 21 in a row touch 4 pages at most. */
    ts_kv_dims d = { .n_layer = 2,
                     .n_seq_max = 3,
                     .n_q_head = 4,
                     .n_kv_head = 2,
                     .head_dim = 8,
                     .capacity = 104,
                     .page = 8,
                     .n_page = 2 * 3 * 13,
                     .key_group = 8,
                     .key_axis = TS_KEY_CHANNEL,
                     .io_dtype = TS_BF16,
                     .store_dtype = TS_U4,
                     .meta_dtype = TS_F16,
                     .scale = 1 };
    ts_kv      c;
    size_t     book, full, window, all;
    assert_int_equal(ts_kv_lay_out(&c, &d, TS_CUDA, NULL, NULL, &book, &full), TS_OK);
    d.n_layer = 3, d.capacity = 32, d.n_page = 3 * 3 * 4;
    assert_int_equal(ts_kv_lay_out(&c, &d, TS_CUDA, NULL, NULL, &book, &window), TS_OK);
    assert_int_equal(ts_plan_cache_bytes(&a), full + window + 2 * 256);
    d.capacity = 104, d.n_page = 3 * 3 * 13;
    assert_int_equal(ts_kv_lay_out(&c, &d, TS_CUDA, NULL, NULL, &book, &all), TS_OK);
    a.cache.keep_all = true;
    assert_int_equal(ts_plan_cache_bytes(&a), full + all + 2 * 256);
}

/* ---- weights ---- */

/* Of a vision tower of Qwen3.5: patches of 2 x 16 x 16 of three colours, 2304 positions, layers
 * with biases and layer norms, and a merger of four patches to the width of the text model. */
static int64_t qwen_vision(int64_t n_layer, int64_t w, int64_t ffn, int64_t out)
{
    const int64_t layer = 4 * w * w + 4 * w + 2 * w * ffn + ffn + w + 4 * w;
    return (3 * 2 * 16 * 16 + 1) * w + 2304 * w + n_layer * layer + 2 * w + 16 * w * w + 4 * w +
           4 * w * out + out;
}

/* Of the layer of Qwen3.5 that predicts ahead: a layer with full attention, a projection of two
 * rows to one, and three norms. */
static int64_t qwen_ahead(const ts_plan_model *m)
{
    ts_plan_model one = *m, none = *m;
    one.n_layer = 1, none.n_layer = 0;
    one.n_linear_layer = none.n_linear_layer = 0;
    return ts_plan_params(&one) - ts_plan_params(&none) + 2 * m->width * m->width + 3 * m->width;
}

/* From model cards, and the parameter counts that hubs of models show. Those of Qwen3.5 include a
 * vision tower, by its layers, width and feed-forward. */
static const struct {
    const char *id;
    int64_t     n;
    int         tower[3];
} known[] = {
    { "llama-2-7b", 6738415616, { 0 } },
    { "llama-2-13b", 13015864320, { 0 } },
    { "llama-2-70b", 68976648192, { 0 } },
    { "llama-3-8b", 8030261248, { 0 } },
    { "llama-3-70b", 70553706496, { 0 } },
    { "llama-3.1-8b", 8030261248, { 0 } },
    { "llama-3.1-70b", 70553706496, { 0 } },
    { "llama-3.1-405b", 405853388800, { 0 } },
    { "llama-3.2-1b", 1235814400, { 0 } },
    { "llama-3.2-3b", 3212749824, { 0 } },
    { "llama-3.3-70b", 70553706496, { 0 } },
    { "mistral-7b", 7241732096, { 0 } },
    { "mixtral-8x7b", 46702792704, { 0 } },
    { "qwen3-0.6b", 596049920, { 0 } },
    { "qwen3-1.7b", 1720574976, { 0 } },
    { "qwen3-4b", 4022468096, { 0 } },
    { "qwen3-8b", 8190735360, { 0 } },
    { "qwen3-14b", 14768307200, { 0 } },
    { "qwen3-32b", 32762123264, { 0 } },
    { "qwen3-30b-a3b", 30532122624, { 0 } },
    { "qwen3-235b-a22b", 235093634560, { 0 } },
    { "qwen3.5-0.8b", 873438784, { 12, 768, 3072 } },
    { "qwen3.5-2b", 2274069824, { 24, 1024, 4096 } },
    { "qwen3.5-4b", 4659865088, { 24, 1024, 4096 } },
    { "qwen3.5-9b", 9653104368, { 27, 1152, 4304 } },
    { "qwen3.5-27b", 27781427952, { 27, 1152, 4304 } },
    { "qwen3.5-35b-a3b", 35951822704, { 27, 1152, 4304 } },
    { "qwen3.5-122b-a10b", 125086497008, { 27, 1152, 4304 } },
    { "qwen3.5-397b-a17b", 403397928944, { 27, 1152, 4304 } },
    { "deepseek-v3", 671026419200, { 0 } },
    { "gpt-oss-20b", 20914757184, { 0 } },
    { "gpt-oss-120b", 116829156672, { 0 } },
    { "gemma-3-1b", 999885952, { 0 } },
    { "gemma-3-4b", 3880263168, { 0 } },
    { "gemma-3-12b", 11766034176, { 0 } },
    { "gemma-3-27b", 27009346304, { 0 } },
};
enum { N_KNOWN = sizeof known / sizeof *known };

static const ts_plan_model *model(const char *id)
{
    char                 why[TS_PLAN_WHY];
    const ts_plan_model *m = ts_plan_find_model(id, why);
    assert_non_null(m);
    assert_string_equal(m->id, id);
    return m;
}

static void within(int64_t got, int64_t want, double share)
{
    if (fabs((double)(got - want)) > share * (double)want)
        fail_msg("got %lld, expected %lld", (long long)got, (long long)want);
}

TEST(published)
{
    char   why[TS_PLAN_WHY];
    size_t n_models = 0;
    for (const ts_plan_model *m = ts_plan_models; m->id; m++) {
        if (!ts_plan_check_model(m, why)) fail_msg("%s: %s", m->id, why);
        assert_true(m->note && (m->n_window_layer == 0) == (m->window == 0));
        n_models++;
    }
    for (size_t i = 0; i < N_KNOWN; i++) {
        const ts_plan_model *m = model(known[i].id);
        const int           *t = known[i].tower;
        const int64_t        n = ts_plan_params(m);
        const int64_t more = t[0] ? qwen_vision(t[0], t[1], t[2], m->width) + qwen_ahead(m) : 0;
        assert_int_equal(n + more, known[i].n);
        assert_int_equal(ts_plan_weight_bytes(m, 1, TS_W_F32), 4 * n);
        assert_int_equal(ts_plan_weight_bytes(m, 1, TS_W_BF16), 2 * n);
    }
    /* The published figures of Llama 4 include a vision tower of less than 1 %. */
    within(ts_plan_params(model("llama-4-scout")), 108641793536, 0.01);
    within(ts_plan_params(model("llama-4-maverick")), 401583781376, 0.01);
    assert_int_equal(n_models, N_KNOWN + 3); /* these two and the assumption */
    assert_non_null(strstr(model("gpt-4-class")->note, "ASSUMPTION"));
}

/* Checkpoints that are not bf16, as published: bytes of their tensors. */
TEST(shipped)
{
    const ts_plan_model *m = model("gpt-oss-20b");
    assert_int_equal(ts_plan_weight_bytes(m, 1, m->shipped), 13761264768);
    m = model("gpt-oss-120b");
    assert_int_equal(ts_plan_weight_bytes(m, 1, m->shipped), 65248815744);
    /* The files of DeepSeek-V3 also contain a 62nd layer that predicts ahead, with a projection of
     * two rows to one and copies of embedding and head. */
    m = model("deepseek-v3");
    ts_plan_model ahead = *m;
    ahead.n_layer++;
    const int64_t copies = 2 * m->n_vocab * m->width + 2 * m->width * m->width;
    const int64_t got = ts_plan_weight_bytes(&ahead, 1, m->shipped) + 2 * copies;
    print_message("deepseek-v3: %lld bytes, published 688586727753\n", (long long)got);
    within(got, 688586727753, 0.0005);
    for (m = ts_plan_models; m->id; m++)
        assert_true(m->shipped == TS_W_BF16 || !strncmp(m->id, "gpt-oss", 7) ||
                    !strcmp(m->id, "deepseek-v3"));
}

/* Seven rows of 300 inputs: three groups of 128, ten of 32, a row of three blocks. */
TEST(narrow_rows)
{
    const ts_plan_part p = { "x", 7, 300, 2, TS_USE_ALL, true, true };
    const ts_plan_part wide = { "x", 7, 300, 2, TS_USE_ALL, false, true };
    const ts_plan_part attention = { "x", 7, 300, 2, TS_USE_ALL, true, false };
    static const struct {
        ts_plan_weight w;
        int64_t        row, more;
    } want[] = {
        { TS_W_F32, 1200, 0 },       { TS_W_BF16, 600, 0 }, { TS_W_FP8, 300, 3 * 4 },
        { TS_W_MXFP4, 10 * 17, 0 },  { TS_W_INT8, 304, 0 }, { TS_W_INT4, 150 + 12, 0 },
        { TS_W_TERNARY, 3 * 34, 0 },
    };
    assert_int_equal(sizeof want / sizeof *want, TS_W_FILE);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const ts_plan_weight w = want[i].w;
        const int64_t        all = 2 * (7 * want[i].row + want[i].more);
        assert_int_equal(ts_plan_part_bytes(&p, w), all);
        assert_int_equal(ts_plan_part_bytes(&wide, w), 14 * (w == TS_W_F32 ? 1200 : 600));
        assert_int_equal(ts_plan_part_bytes(&attention, w), w == TS_W_MXFP4 ? 14 * 600 : all);
    }
}

/* By any spelling: case, separators, beginnings of words, parts, maker and variant. */
TEST(names)
{
    static const char *const same[][2] = {
        { "LLAMA-3-8B", "llama-3-8b" },
        { "Llama 3.1 8B", "llama-3.1-8b" },
        { "llama_3.1_405b", "llama-3.1-405b" },
        { "meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b" },
        { "openai/gpt-oss-20b", "gpt-oss-20b" },
        { "qwen3 8b", "qwen3-8b" },
        { "qwen3.5 35b", "qwen3.5-35b-a3b" },
        { "maverick", "llama-4-maverick" },
        { "DeepSeek", "deepseek-v3" },
        { "120B", "gpt-oss-120b" },
    };
    char why[TS_PLAN_WHY];
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const ts_plan_model *m = ts_plan_find_model(same[i][0], why);
        if (!m || strcmp(m->id, same[i][1])) fail_msg("%s: %s", same[i][0], m ? m->id : why);
    }
    assert_string_equal(ts_plan_find_gpu("3090", why)->id, "rtx-3090");
    assert_string_equal(ts_plan_find_gpu("RTX A6000", why)->id, "rtx-a6000");
    assert_string_equal(ts_plan_find_gpu("B200", why)->id, "b200");
    assert_string_equal(ts_plan_find_gpu("mi300", why)->id, "mi300x");
    assert_null(ts_plan_find_model("llama 8b", why));
    assert_non_null(strstr(why, "expected one of the matches llama-3-8b, llama-3.1-8b"));
    /* Other weights, and files, are not the model of the table. */
    assert_null(ts_plan_find_model("Qwen/Qwen3-8B-FP8", why));
    assert_null(ts_plan_find_model("llama-3-8b-q4.gguf", why));
    assert_null(ts_plan_find_model(" ", why));
}

/* What n GPUs hold is what one holds, and n - 1 copies of what cannot be shared: norms. */
TEST(shared)
{
    char                 why[TS_PLAN_WHY];
    const ts_plan_model *m = ts_plan_find_model("llama-3-70b", why);
    const int64_t        norms = (2 * 80 + 1) * 8192 * 2;
    for (int64_t n = 1; n <= 8; n *= 2)
        assert_int_equal(n * ts_plan_weight_bytes(m, n, TS_W_BF16),
                         ts_plan_weight_bytes(m, 1, TS_W_BF16) + (n - 1) * norms);
    const ts_plan_cache c = { TS_BF16, TS_F32, TS_BF16, TS_KEY_CHANNEL, 16, 16, false };
    assert_true(ts_plan_kv_per_token(m, 1, &c) == 80 * 8 * 128 * 2 * 2);
    assert_true(ts_plan_kv_per_token(m, 4, &c) == 80 * 2 * 128 * 2 * 2);
    assert_true(ts_plan_kv_per_token(m, 16, &c) == 80 * 1 * 128 * 2 * 2); /* a head is held twice */
    m = ts_plan_find_model("deepseek-v3", why);
    assert_true(ts_plan_kv_per_token(m, 1, &c) == 61 * 576 * 2);
    assert_true(ts_plan_kv_per_token(m, 8, &c) == 61 * 576 * 2); /* latents are for all heads */
    m = ts_plan_find_model("gpt-oss-20b", why);
    assert_true(ts_plan_kv_per_token(m, 1, &c) == 12 * 8 * 64 * 2 * 2);
    m = ts_plan_find_model("qwen3.5-27b", why); /* 16 of 64 layers have keys and values */
    assert_true(ts_plan_kv_per_token(m, 2, &c) == 16 * 2 * 256 * 2 * 2);
}

/* ---- plans ---- */

static ts_plan_ask ask(const char *model, const char *gpu)
{
    char why[TS_PLAN_WHY];
    return (ts_plan_ask) { ts_plan_find_model(model, why),
                           ts_plan_find_gpu(gpu, why),
                           1,
                           1,
                           8192,
                           2048,
                           TS_W_BF16,
                           { TS_BF16, TS_F32, TS_BF16, TS_KEY_CHANNEL, 16, 16, false },
                           2 };
}

/* The state of linear attention does not grow: 48 heads of 128 x 128 float32, and three inputs of a
 * convolution over 2 x 16 + 48 heads of 128, in 48 layers. */
TEST(linear_state)
{
    ts_plan_ask   a = ask("qwen3.5-27b", "h200");
    const int64_t one = 48 * (48 * 128 * 128 * 4 + 3 * (2 * 16 + 48) * 128 * 2);
    ts_plan_bound b, c;
    assert_int_equal(ts_plan_state_bytes(&a), one);
    ts_plan_decode(&a, &b);
    const int64_t at = ts_plan_cache_bytes(&a), live = ts_plan_cache_live(&a);
    assert_true(fabs(b.cache_bytes - 2.0 * (double)one - 65536.0 * 8193) < 1);
    /* Two flops per weight of a matrix, four per channel of 24 heads and token in 16 layers, seven
     * per number of the states. */
    ts_plan_part p[TS_PLAN_PARTS];
    double       flops = 16.0 * 4 * 24 * 256 * 8192 + 48.0 * 7 * 48 * 128 * 128;
    for (int i = 0, n = ts_plan_parts(a.model, 1, p); i < n; i++)
        if (p[i].use == TS_USE_ALL || p[i].use == TS_USE_HEAD)
            flops += 2.0 * (double)(p[i].rows * p[i].cols * p[i].count);
    assert_true(fabs(b.flops - flops) < 1);
    a.batch = 3, a.n_gpu = 2;
    assert_int_equal(ts_plan_state_bytes(&a), 3 * one / 2);
    a.batch = 1, a.n_gpu = 1, a.context *= 2;
    assert_int_equal(ts_plan_cache_live(&a) - live, live - one);
    assert_true(ts_plan_cache_bytes(&a) - at <= at - one);
    ts_plan_decode(&a, &c);
    assert_true(c.cache_bytes > b.cache_bytes && c.flops > b.flops);
    char why[TS_PLAN_WHY];
    a.n_gpu = 3; /* 24 query heads and 48 value heads, but 16 key heads */
    assert_false(ts_plan_check(&a, why));
}

/* The largest fits, and one more does not. */
TEST(largest)
{
    int n_tried = 0;
    for (const ts_plan_model *m = ts_plan_models; m->id; m++)
        for (const ts_plan_gpu *g = ts_plan_gpus; g->id; g++)
            for (int s = 0; s < N_STORES; s++) {
                ts_plan_ask    a = ask(m->id, g->id);
                ts_plan_memory mem;
                a.cache.store = stores[s];
                a.context = ts_plan_max_context(&a);
                if (a.context > 0 && a.context < INT64_C(1) << 40) {
                    ts_plan_memory_of(&a, &mem);
                    assert_int_equal(mem.missing, 0);
                    a.context++;
                    ts_plan_memory_of(&a, &mem);
                    assert_true(mem.missing > 0);
                    n_tried++;
                }
                a.context = 4096;
                a.batch = ts_plan_max_batch(&a);
                if (a.batch) {
                    ts_plan_memory_of(&a, &mem);
                    assert_int_equal(mem.missing, 0);
                }
                a.batch++;
                ts_plan_memory_of(&a, &mem);
                assert_true(mem.missing > 0 && mem.missing == mem.total - mem.capacity);
            }
    assert_true(n_tried > 400);
}

/* One decode step of Llama 3 8B on an H100, by hand. */
TEST(decode_by_hand)
{
    ts_plan_ask   a = ask("llama-3-8b", "h100");
    ts_plan_bound b;
    ts_plan_decode(&a, &b);
    /* All weights but the embedding, of which one row; 128 KiB a token, and one is written. */
    const double weights = 2.0 * (8030261248.0 - 128256.0 * 4096) + 2 * 4096;
    const double cache = 131072.0 * 8193;
    assert_true(fabs(b.weight_bytes - weights) < 1 && fabs(b.cache_bytes - cache) < 1);
    assert_true(fabs(b.memory_s - (weights + cache) / 3.35e12) < 1e-9 && b.seconds == b.memory_s);
    /* Two flops a weight of a matrix, norms are none; four a channel of every head and token. */
    const double matrices = 2.0 * (8030261248.0 - 128256.0 * 4096 - 65 * 4096.0);
    assert_true(fabs(b.flops - matrices - 32.0 * 4 * 4096 * 8192) < 1);
    ts_plan_prefill(&a, &b);
    assert_true(b.seconds == b.compute_s && b.intensity > b.ridge);
    /* A mixture reads the experts it meets: one token a quarter, many tokens all. */
    a = ask("mixtral-8x7b", "h200");
    ts_plan_decode(&a, &b);
    assert_true(b.weight_bytes < 0.3 * 2 * 46702792704.0);
    a.batch = 256;
    ts_plan_decode(&a, &b);
    assert_true(b.weight_bytes > 0.99 * 2 * 46702792704.0);
}

TEST(refusals)
{
    char        why[TS_PLAN_WHY];
    ts_plan_ask a = ask("llama-3-8b", "h100");
    assert_true(ts_plan_check(&a, why));
    a.n_gpu = 3;
    assert_false(ts_plan_check(&a, why));
    assert_non_null(strstr(why, "32 query heads cannot be divided among 3 GPUs"));
    a.n_gpu = 1, a.weights = TS_W_FILE;
    assert_false(ts_plan_check(&a, why));
    a.weights = TS_W_BF16, a.batch = 0;
    assert_false(ts_plan_check(&a, why));
    a.batch = 1, a.cache.page = 24;
    assert_false(ts_plan_check(&a, why));
    assert_non_null(strstr(why, "got 24 tokens, expected a multiple of the key group, 16"));
    assert_null(ts_plan_find_model("lama3-8b", why));
    assert_non_null(strstr(why, "nearest are llama-3-8b,"));
    assert_null(ts_plan_find_gpu("", why));
    assert_null(
        ts_plan_find_gpu("a gpu with a name that is much longer than any that there is", why));
    /* Nothing overflows, however large the request. */
    a = ask("gpt-4-class", "rtx-4090");
    a.batch = 1 << 30, a.context = INT64_C(1) << 40;
    ts_plan_memory m;
    ts_plan_memory_of(&a, &m);
    assert_true(m.missing > INT64_C(1) << 55);
}
