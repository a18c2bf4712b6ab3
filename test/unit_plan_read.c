/* SPDX-License-Identifier: Apache-2.0 */
/* unit_plan_read.c - tests the planner's readers with valid and invalid files. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"
#include "unit.h"

static char folder[] = "/tmp/unit_plan_XXXXXX";
static char path[256];

static int begin(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int end(void **state)
{
    (void)state;
    return rmdir(folder);
}

static const char *named(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(named(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

/* What it says of the file, which is then removed. */
static void refused(const char *name, const char *must)
{
    ts_plan_model m;
    char          why[TS_PLAN_WHY] = "";
    const bool    ok = ts_plan_read(named(name), &m, why);
    if (ok || !strstr(why, must) || strchr(why, '\n'))
        fail_msg("%s: got '%s', expected '%s'", name, ok ? "ok" : why, must);
    print_message("%s: %s\n", name, why);
    unlink(named(name));
}

/* ---- what is right ---- */

#if TS_HAVE_JANSSON

/* A file's size less eight bytes and the header that they give the length of. */
static int64_t data_bytes(const char *file)
{
    struct stat   is;
    unsigned char prefix[8];
    int64_t       n = 0;
    FILE         *f = fopen(file, "rb");
    assert_non_null(f);
    assert_int_equal(fread(prefix, 1, 8, f), 8);
    assert_int_equal(fstat(fileno(f), &is), 0);
    fclose(f);
    for (int i = 0; i < 8; i++) n |= (int64_t)prefix[i] << 8 * i;
    return is.st_size - 8 - n;
}

/* The tensors that were counted from config.json are the bytes that lie in the file. */
TEST(checkpoints)
{
    static const struct {
        const char    *name;
        ts_plan_weight as;
        int            n_shards;
    } all[] = {
        { "llama", TS_W_BF16, 0 }, { "mistral", TS_W_BF16, 0 },   { "qwen2", TS_W_BF16, 3 },
        { "qwen3", TS_W_F32, 0 },  { "starcoder2", TS_W_F32, 0 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char          at[512], file[600], why[TS_PLAN_WHY];
        ts_plan_model m;
        int64_t       n = 0;
        snprintf(at, sizeof at, "%s/test/checkpoint/%s", TS_TEST_SOURCE, all[i].name);
        for (int k = 0; k < all[i].n_shards; k++) {
            snprintf(file, sizeof file, "%s/model-0000%d-of-00003.safetensors", at, k + 1);
            n += data_bytes(file);
        }
        snprintf(file, sizeof file, "%s/model.safetensors", at);
        if (!all[i].n_shards) n = data_bytes(file);
        assert_true(ts_plan_read(at, &m, why));
        assert_int_equal(m.file_bytes, n);
        assert_int_equal(ts_plan_weight_bytes(&m, 1, all[i].as), n);
        assert_int_equal(ts_plan_weight_bytes(&m, 1, TS_W_FILE), n);
        print_message("%s: %lld bytes, counted and on disk\n", all[i].name, (long long)n);
        if (!all[i].n_shards) assert_true(ts_plan_read(file, &m, why) && m.file_bytes == n);
        snprintf(file, sizeof file, "%s/config.json", at);
        assert_true(ts_plan_read(file, &m, why) && m.file_bytes == 0);
    }
}

/* Files as their makers write them give what the table has. */
TEST(configs)
{
    static const char *const text[] = {
        "{\"model_type\":\"gpt_oss\",\"num_hidden_layers\":36,\"hidden_size\":2880,"
        "\"num_attention_heads\":64,\"num_key_value_heads\":8,\"head_dim\":64,"
        "\"intermediate_size\":2880,\"vocab_size\":201088,\"num_local_experts\":128,"
        "\"num_experts_per_tok\":4,\"sliding_window\":128,\"attention_bias\":true,"
        "\"quantization_config\":{\"quant_method\":\"mxfp4\"}}",
        "{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":61,\"hidden_size\":7168,"
        "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"intermediate_size\":18432,"
        "\"vocab_size\":129280,\"n_routed_experts\":256,\"num_experts_per_tok\":8,"
        "\"n_shared_experts\":1,\"moe_intermediate_size\":2048,\"first_k_dense_replace\":3,"
        "\"kv_lora_rank\":512,\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,"
        "\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
        "\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}",
        "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\","
        "\"hidden_size\":2560,\"intermediate_size\":10240,\"num_hidden_layers\":34,"
        "\"sliding_window\":1024}}",
        "{\"model_type\":\"qwen3_moe\",\"num_hidden_layers\":94,\"hidden_size\":4096,"
        "\"num_attention_heads\":64,\"num_key_value_heads\":4,\"head_dim\":128,"
        "\"intermediate_size\":12288,\"vocab_size\":151936,\"num_experts\":128,"
        "\"num_experts_per_tok\":8,\"moe_intermediate_size\":1536,\"sliding_window\":null}",
        "{\"model_type\":\"mixtral\",\"num_hidden_layers\":32,\"hidden_size\":4096,"
        "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
        "\"vocab_size\":32000,\"num_local_experts\":8,\"num_experts_per_tok\":2}",
        "{\"model_type\":\"llama4\",\"text_config\":{\"model_type\":\"llama4_text\","
        "\"attention_chunk_size\":8192,\"head_dim\":128,\"hidden_size\":5120,"
        "\"interleave_moe_layer_step\":2,\"intermediate_size\":8192,"
        "\"intermediate_size_mlp\":16384,\"num_attention_heads\":40,\"num_experts_per_tok\":1,"
        "\"num_hidden_layers\":48,\"num_key_value_heads\":8,\"num_local_experts\":128,"
        "\"vocab_size\":202048}}",
        "{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"model_type\":\"qwen3_5_moe_text\","
        "\"full_attention_interval\":4,\"head_dim\":256,\"hidden_size\":2048,"
        "\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,\"linear_num_key_heads\":16,"
        "\"linear_num_value_heads\":32,\"linear_value_head_dim\":128,"
        "\"moe_intermediate_size\":512,\"num_attention_heads\":16,\"num_experts\":256,"
        "\"num_experts_per_tok\":8,\"num_hidden_layers\":40,\"num_key_value_heads\":2,"
        "\"shared_expert_intermediate_size\":512,\"vocab_size\":248320}}",
    };
    static const char *const same[] = { "gpt-oss-120b",    "deepseek-v3",  "gemma-3-4b",
                                        "qwen3-235b-a22b", "mixtral-8x7b", "llama-4-maverick",
                                        "qwen3.5-35b-a3b" };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        char                 why[TS_PLAN_WHY] = "";
        ts_plan_model        m;
        const ts_plan_model *t = ts_plan_find_model(same[i], why);
        const ts_plan_cache  c = { TS_BF16, TS_F32, TS_BF16, TS_KEY_CHANNEL, 16, 16, false };
        put("config.json", text[i], strlen(text[i]));
        if (!ts_plan_read(named("config.json"), &m, why)) fail_msg("%s: %s", same[i], why);
        assert_int_equal(ts_plan_params(&m), ts_plan_params(t));
        assert_int_equal(ts_plan_active_params(&m), ts_plan_active_params(t));
        assert_int_equal(m.n_window_layer, t->n_window_layer);
        assert_int_equal(m.window, t->window);
        assert_int_equal(m.n_linear_layer, t->n_linear_layer);
        assert_int_equal(m.shipped, t->shipped);
        assert_true(ts_plan_kv_per_token(&m, 1, &c) == ts_plan_kv_per_token(t, 1, &c));
        unlink(named("config.json"));
    }
}

#endif

/* ---- GGUF, written here ---- */

typedef struct pen {
    unsigned char b[4096];
    size_t        n;
} pen;

static void bytes(pen *p, const void *from, size_t n)
{
    memcpy(p->b + p->n, from, n);
    p->n += n;
}

static void number(pen *p, uint64_t v, size_t n)
{
    bytes(p, &v, n);
}

static void text(pen *p, const char *s)
{
    number(p, strlen(s), 8);
    bytes(p, s, strlen(s));
}

static void key(pen *p, const char *name, uint32_t value)
{
    text(p, name);
    number(p, 4, 4); /* u32 */
    number(p, value, 4);
}

static void tensor(pen *p, const char *name, uint64_t rows, uint64_t cols, uint32_t type,
                   uint64_t offset)
{
    text(p, name);
    number(p, 2, 4);
    number(p, cols, 8);
    number(p, rows, 8);
    number(p, type, 4);
    number(p, offset, 8);
}

/* Two tensors: 64 x 32 in Q8_0 (34 bytes for 32) and 64 x 32 in F16. */
static pen gguf(uint32_t version)
{
    pen p = { .n = 0 };
    bytes(&p, "GGUF", 4);
    number(&p, version, 4);
    number(&p, 2, 8);
    number(&p, 8, 8);
    text(&p, "general.architecture");
    number(&p, 8, 4);
    text(&p, "gemma3");
    key(&p, "gemma3.block_count", 12);
    key(&p, "gemma3.embedding_length", 32);
    key(&p, "gemma3.feed_forward_length", 96);
    key(&p, "gemma3.attention.head_count", 4);
    key(&p, "gemma3.attention.key_length", 16);
    key(&p, "gemma3.attention.sliding_window", 7);
    text(&p, "tokenizer.ggml.tokens");
    number(&p, 9, 4); /* an array */
    number(&p, 8, 4); /* of strings */
    number(&p, 64, 8);
    for (int i = 0; i < 64; i++) text(&p, "a");
    tensor(&p, "token_embd.weight", 64, 32, 8, 0);
    tensor(&p, "output.weight", 64, 32, 1, 64 * 34);
    while (p.n % 32) number(&p, 0, 1);
    return p;
}

TEST(gguf_header)
{
    const size_t  n_data = 64 * 34 + 64 * 64;
    pen           p = gguf(3);
    ts_plan_model m;
    char          why[TS_PLAN_WHY] = "";
    char         *whole = calloc(1, p.n + n_data);
    assert_non_null(whole);
    memcpy(whole, p.b, p.n);
    put("x.gguf", whole, p.n + n_data);
    if (!ts_plan_read(named("x.gguf"), &m, why)) fail_msg("%s", why);
    assert_int_equal(m.file_bytes, n_data);
    assert_true(m.n_layer == 12 && m.width == 32 && m.n_ffn == 96 && m.n_head == 4 &&
                m.n_kv_head == 4 && m.head_dim == 16 && m.n_vocab == 64 && m.window == 7 &&
                m.n_window_layer == 10 && m.n_norm == 4 && !m.tied);
    put("x.gguf", whole, p.n + n_data - 1);
    refused("x.gguf", "in a file of");
    for (size_t n = 0; n < p.n; n += 7) { /* cut anywhere: never a crash, always a line */
        put("x.gguf", whole, n);
        assert_false(ts_plan_read(named("x.gguf"), &m, why));
        assert_true(why[0] && !strchr(why, '\n'));
    }
    for (size_t i = 0; i < p.n; i++) { /* any byte wrong: no crash, and if it is taken, sane */
        whole[i] ^= (char)0xff;
        put("x.gguf", whole, p.n + n_data);
        if (ts_plan_read(named("x.gguf"), &m, why)) assert_true(ts_plan_check_model(&m, why));
        whole[i] ^= (char)0xff;
    }
    free(whole);
    p = gguf(9);
    put("x.gguf", p.b, p.n);
    refused("x.gguf", "got version 9, expected 2 or 3");
}

/* Reads a file of one tensor with these keys of a family. */
static void read_keys(const char *type, const char *const *keys, const uint32_t *values,
                      ts_plan_model *m)
{
    pen      p = { .n = 0 };
    char     name[128], why[TS_PLAN_WHY] = "";
    uint64_t n = 0;
    while (keys[n]) n++;
    bytes(&p, "GGUF", 4);
    number(&p, 3, 4);
    number(&p, 1, 8);
    number(&p, n + 1, 8);
    text(&p, "general.architecture");
    number(&p, 8, 4);
    text(&p, type);
    for (uint64_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s.%s", type, keys[i]);
        key(&p, name, values[i]);
    }
    tensor(&p, "output.weight", 2, 32, 1, 0);
    while (p.n % 32) number(&p, 0, 1);
    for (int i = 0; i < 16; i++) number(&p, 0, 8);
    put("x.gguf", p.b, p.n);
    if (!ts_plan_read(named("x.gguf"), m, why)) fail_msg("%s: %s", type, why);
    unlink(named("x.gguf"));
}

/* Files with the keys of llama.cpp's converters give what the table has. */
TEST(gguf_families)
{
    static const char *const qwen[] = { "block_count",
                                        "embedding_length",
                                        "attention.head_count",
                                        "attention.head_count_kv",
                                        "attention.key_length",
                                        "vocab_size",
                                        "expert_count",
                                        "expert_used_count",
                                        "expert_feed_forward_length",
                                        "expert_shared_feed_forward_length",
                                        "full_attention_interval",
                                        "ssm.conv_kernel",
                                        "ssm.state_size",
                                        "ssm.group_count",
                                        "ssm.time_step_rank",
                                        "ssm.inner_size",
                                        NULL };
    static const uint32_t    of_qwen[] = { 40,  2048, 16, 2, 256, 248320, 256, 8,
                                           512, 512,  4,  4, 128, 16,     32,  4096 };
    static const char *const llama[] = { "block_count",
                                         "embedding_length",
                                         "feed_forward_length",
                                         "attention.head_count",
                                         "attention.head_count_kv",
                                         "attention.key_length",
                                         "vocab_size",
                                         "expert_count",
                                         "expert_used_count",
                                         "expert_feed_forward_length",
                                         "interleave_moe_layer_step",
                                         NULL };
    static const uint32_t    of_llama[] = { 48, 5120, 16384, 40, 8, 128, 202048, 128, 1, 8192, 2 };
    char                     why[TS_PLAN_WHY];
    ts_plan_model            m;
    const ts_plan_model     *t = ts_plan_find_model("qwen3.5-35b-a3b", why);
    read_keys("qwen35moe", qwen, of_qwen, &m);
    assert_int_equal(ts_plan_params(&m), ts_plan_params(t));
    assert_int_equal(m.n_linear_layer, t->n_linear_layer);
    read_keys("mamba", qwen, of_qwen, &m); /* the same keys, with another meaning */
    assert_int_equal(m.n_linear_layer, 0);
    t = ts_plan_find_model("llama-4-maverick", why);
    read_keys("llama4", llama, of_llama, &m);
    assert_int_equal(ts_plan_params(&m), ts_plan_params(t));
    assert_int_equal(m.n_window_layer, t->n_window_layer);
    assert_int_equal(m.window, t->window);
}

/* ---- what is wrong ---- */

TEST(malformed)
{
#if TS_HAVE_JANSSON
    static const struct {
        const char *config, *must;
    } configs[] = {
        { "", "config: line 1" },
        { "[1, 2]", "expected a JSON object" },
        { "{\"num_hidden_layers\": \"many\"}", "num_hidden_layers: expected an integer" },
        { "{\"num_hidden_layers\": 2}", "width: got 0, expected 1" },
        { "{\"num_hidden_layers\": 4000000000, \"hidden_size\": 8, \"num_attention_heads\": 2}",
          "layers: got 4000000000" },
        { "{\"num_hidden_layers\": 2, \"hidden_size\": 8, \"num_attention_heads\": 3, "
          "\"num_key_value_heads\": 2, \"intermediate_size\": 8, \"vocab_size\": 9}",
          "query heads: got 3, expected a multiple of the 2 KV heads" },
        { "{\"num_hidden_layers\": 4, \"hidden_size\": 8, \"num_attention_heads\": 2, "
          "\"intermediate_size\": 8, \"vocab_size\": 9, \"linear_num_value_heads\": 2}",
          "linear key heads: got 0, expected 1" },
        { "{\"num_hidden_layers\": 4, \"linear_num_value_heads\": 2, "
          "\"full_attention_interval\": 0}",
          "full_attention_interval: expected at least 1" },
        { "{\"num_hidden_layers\": 4, \"intermediate_size_mlp\": 8, "
          "\"interleave_moe_layer_step\": 0}",
          "interleave_moe_layer_step: expected at least 1" },
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        put("c.json", configs[i].config, strlen(configs[i].config));
        refused("c.json", configs[i].must);
    }
    static const char good[] = "{\"num_hidden_layers\": 1, \"hidden_size\": 8, "
                               "\"num_attention_heads\": 2, \"intermediate_size\": 8, "
                               "\"vocab_size\": 9}";
    put("t.safetensors", "\377\377\377\377\377\377\377\177", 8);
    refused("t.safetensors", "no config.json next to the file");
    put("config.json", good, sizeof good - 1);
    put("t.safetensors", "\377\377\377\377\377\377\377\177", 8);
    refused("t.safetensors", "a header of 9223372036854775807 bytes in a file of 8");
    put("t.safetensors", "\5\0\0\0\0\0\0\0{{}}}", 13);
    refused("t.safetensors", "safetensors header:");
    put("t.safetensors", "\40\0\0\0\0\0\0\0{\"a\":{\"data_offsets\":[0,9999]}}  1234", 44);
    refused("t.safetensors", "tensor a: data_offsets outside the 4 bytes of data");
    put("t.safetensors", "\40\0\0\0\0\0\0\0{\"a\":{\"data_offsets\":[0,   2]}}  1234", 44);
    refused("t.safetensors", "2 bytes of tensors in 4 bytes of data");
    put("m.index.json", "{\"weight_map\":{\"a\":\"../x\"}}", 27);
    refused("m.index.json", "tensor a: no file named");
    unlink(named("config.json"));
#endif
    refused("nothing", "no such file");
    put("x.gguf", "GGUF\3\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377",
        32);
    refused("x.gguf", "a string of 18446744073709551615 bytes in a file of 32");
}

int main(void)
{
    return run_group("", begin, end);
}
