/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - the models. Each row comes from the published config.json; a test compares its number
 * of parameters, and the bytes of checkpoints that are not bf16, with the published ones. */
#include "plan.h"

#define ATTENTION(layers, wide, heads, kv_heads, dim)                                              \
    .n_layer = layers, .width = wide, .n_head = heads, .n_kv_head = kv_heads, .head_dim = dim
#define EXPERTS(n, used, ffn) .n_expert = n, .n_expert_used = used, .n_expert_ffn = ffn
#define LLAMA_2               .n_vocab = 32000, .n_context = 4096, .note = "meta-llama/Llama-2 config.json"
#define LLAMA_3               .n_vocab = 128256, .n_context = 8192, .note = "meta-llama/Meta-Llama-3 config.json"
#define LLAMA_31                                                                                   \
    .n_vocab = 128256, .n_context = 131072, .note = "meta-llama/Llama-3.1 to 3.3 config.json"
#define LLAMA_4                                                                                    \
    ATTENTION(48, 5120, 40, 8, 128),                                                               \
        .n_ffn = 16384, .n_expert_shared = 1, .n_vocab = 202048, .window = 8192,                   \
        .n_window_layer = 36,                                                                      \
        .note = "meta-llama/Llama-4 config.json; the text model, without its vision tower; a "     \
                "chunk of attention counts as a window"
#define QWEN_3                                                                                     \
    .n_vocab = 151936, .n_context = 40960, .qk_norm = true, .note = "Qwen/Qwen3 config.json"
#define QWEN_35(layers, values)                                                                    \
    .n_vocab = 248320, .n_context = 262144, .qk_norm = true, .q_gate = true,                       \
    .n_linear_layer = layers, .n_linear_key = 16, .n_linear_value = values, .linear_key_dim = 128, \
    .linear_value_dim = 128, .conv = 4,                                                            \
    .note = "Qwen/Qwen3.5 config.json; without its vision tower and the layer that predicts ahead"
#define QWEN_35_EXPERTS(n, used, ffn)                                                              \
    EXPERTS(n, used, ffn), .n_expert_shared = 1, .shared_gate = true
#define GPT_OSS                                                                                    \
    .shipped = TS_W_MXFP4, .n_vocab = 201088, .n_context = 131072, .window = 128,                  \
    .qkv_bias = true, .o_bias = true, .ffn_bias = true, .sinks = true,                             \
    .note = "openai/gpt-oss config.json"
#define GEMMA_3                                                                                    \
    .tied = true, .qk_norm = true, .n_norm = 4,                                                    \
    .note = "google/gemma-3 config.json; the text model, without its vision tower"

const ts_plan_model ts_plan_models[] = {
    { .id = "llama-2-7b", ATTENTION(32, 4096, 32, 32, 128), .n_ffn = 11008, LLAMA_2 },
    { .id = "llama-2-13b", ATTENTION(40, 5120, 40, 40, 128), .n_ffn = 13824, LLAMA_2 },
    { .id = "llama-2-70b", ATTENTION(80, 8192, 64, 8, 128), .n_ffn = 28672, LLAMA_2 },
    { .id = "llama-3-8b", ATTENTION(32, 4096, 32, 8, 128), .n_ffn = 14336, LLAMA_3 },
    { .id = "llama-3-70b", ATTENTION(80, 8192, 64, 8, 128), .n_ffn = 28672, LLAMA_3 },
    { .id = "llama-3.1-8b", ATTENTION(32, 4096, 32, 8, 128), .n_ffn = 14336, LLAMA_31 },
    { .id = "llama-3.1-70b", ATTENTION(80, 8192, 64, 8, 128), .n_ffn = 28672, LLAMA_31 },
    { .id = "llama-3.1-405b", ATTENTION(126, 16384, 128, 8, 128), .n_ffn = 53248, LLAMA_31 },
    { .id = "llama-3.2-1b", ATTENTION(16, 2048, 32, 8, 64), .n_ffn = 8192, .tied = true, LLAMA_31 },
    { .id = "llama-3.2-3b",
      ATTENTION(28, 3072, 24, 8, 128),
      .n_ffn = 8192,
      .tied = true,
      LLAMA_31 },
    { .id = "llama-3.3-70b", ATTENTION(80, 8192, 64, 8, 128), .n_ffn = 28672, LLAMA_31 },
    { .id = "llama-4-scout", LLAMA_4, EXPERTS(16, 1, 8192), .n_context = 10485760 },
    { .id = "llama-4-maverick",
      LLAMA_4,
      EXPERTS(128, 1, 8192),
      .n_dense_layer = 24,
      .n_context = 1048576 },
    { .id = "mistral-7b",
      ATTENTION(32, 4096, 32, 8, 128),
      .n_ffn = 14336,
      .n_vocab = 32000,
      .n_context = 32768,
      .window = 4096,
      .n_window_layer = 32,
      .note = "mistralai/Mistral-7B-v0.1 config.json; later versions have no window" },
    { .id = "mixtral-8x7b",
      ATTENTION(32, 4096, 32, 8, 128),
      EXPERTS(8, 2, 14336),
      .n_vocab = 32000,
      .n_context = 32768,
      .note = "mistralai/Mixtral-8x7B-v0.1 config.json" },
    { .id = "qwen3-0.6b", ATTENTION(28, 1024, 16, 8, 128), .n_ffn = 3072, .tied = true, QWEN_3 },
    { .id = "qwen3-1.7b", ATTENTION(28, 2048, 16, 8, 128), .n_ffn = 6144, .tied = true, QWEN_3 },
    { .id = "qwen3-4b", ATTENTION(36, 2560, 32, 8, 128), .n_ffn = 9728, .tied = true, QWEN_3 },
    { .id = "qwen3-8b", ATTENTION(36, 4096, 32, 8, 128), .n_ffn = 12288, QWEN_3 },
    { .id = "qwen3-14b", ATTENTION(40, 5120, 40, 8, 128), .n_ffn = 17408, QWEN_3 },
    { .id = "qwen3-32b", ATTENTION(64, 5120, 64, 8, 128), .n_ffn = 25600, QWEN_3 },
    { .id = "qwen3-30b-a3b", ATTENTION(48, 2048, 32, 4, 128), EXPERTS(128, 8, 768), QWEN_3 },
    { .id = "qwen3-235b-a22b", ATTENTION(94, 4096, 64, 4, 128), EXPERTS(128, 8, 1536), QWEN_3 },
    { .id = "qwen3.5-0.8b",
      ATTENTION(24, 1024, 8, 2, 256),
      .n_ffn = 3584,
      .tied = true,
      QWEN_35(18, 16) },
    { .id = "qwen3.5-2b",
      ATTENTION(24, 2048, 8, 2, 256),
      .n_ffn = 6144,
      .tied = true,
      QWEN_35(18, 16) },
    { .id = "qwen3.5-4b",
      ATTENTION(32, 2560, 16, 4, 256),
      .n_ffn = 9216,
      .tied = true,
      QWEN_35(24, 32) },
    { .id = "qwen3.5-9b", ATTENTION(32, 4096, 16, 4, 256), .n_ffn = 12288, QWEN_35(24, 32) },
    { .id = "qwen3.5-27b", ATTENTION(64, 5120, 24, 4, 256), .n_ffn = 17408, QWEN_35(48, 48) },
    { .id = "qwen3.5-35b-a3b",
      ATTENTION(40, 2048, 16, 2, 256),
      QWEN_35_EXPERTS(256, 8, 512),
      QWEN_35(30, 32) },
    { .id = "qwen3.5-122b-a10b",
      ATTENTION(48, 3072, 32, 2, 256),
      QWEN_35_EXPERTS(256, 8, 1024),
      QWEN_35(36, 64) },
    { .id = "qwen3.5-397b-a17b",
      ATTENTION(60, 4096, 32, 2, 256),
      QWEN_35_EXPERTS(512, 10, 1024),
      QWEN_35(45, 64) },
    { .id = "gpt-4-class",
      ATTENTION(120, 15360, 120, 1, 128),
      EXPERTS(16, 2, 20480),
      .n_vocab = 100277,
      .n_context = 131072,
      .note =
          "AN ASSUMPTION: no such figures are published; 1.9e12 parameters, 16 experts of which "
          "a token uses 2, one KV head" },
    { .id = "deepseek-v3",
      .shipped = TS_W_FP8,
      ATTENTION(61, 7168, 128, 128, 192),
      .n_ffn = 18432,
      EXPERTS(256, 8, 2048),
      .n_expert_shared = 1,
      .n_dense_layer = 3,
      .kv_rank = 512,
      .q_rank = 1536,
      .nope = 128,
      .rope = 64,
      .v_dim = 128,
      .router_bias = true,
      .n_vocab = 129280,
      .n_context = 163840,
      .note = "deepseek-ai/DeepSeek-V3 config.json; without the layer that predicts ahead" },
    { .id = "gpt-oss-20b",
      ATTENTION(24, 2880, 64, 8, 64),
      EXPERTS(32, 4, 2880),
      .n_window_layer = 12,
      GPT_OSS },
    { .id = "gpt-oss-120b",
      ATTENTION(36, 2880, 64, 8, 64),
      EXPERTS(128, 4, 2880),
      .n_window_layer = 18,
      GPT_OSS },
    { .id = "gemma-3-1b",
      ATTENTION(26, 1152, 4, 1, 256),
      .n_ffn = 6912,
      .n_vocab = 262144,
      .n_context = 32768,
      .window = 512,
      .n_window_layer = 22,
      GEMMA_3 },
    { .id = "gemma-3-4b",
      ATTENTION(34, 2560, 8, 4, 256),
      .n_ffn = 10240,
      .n_vocab = 262208,
      .n_context = 131072,
      .window = 1024,
      .n_window_layer = 29,
      GEMMA_3 },
    { .id = "gemma-3-12b",
      ATTENTION(48, 3840, 16, 8, 256),
      .n_ffn = 15360,
      .n_vocab = 262208,
      .n_context = 131072,
      .window = 1024,
      .n_window_layer = 40,
      GEMMA_3 },
    { .id = "gemma-3-27b",
      ATTENTION(62, 5376, 32, 16, 128),
      .n_ffn = 21504,
      .n_vocab = 262208,
      .n_context = 131072,
      .window = 1024,
      .n_window_layer = 52,
      GEMMA_3 },
    { 0 },
};
