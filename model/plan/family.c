/* SPDX-License-Identifier: Apache-2.0 */
/* family.c - properties of model families that their files do not state. */
#include <string.h>

#include "plan_impl.h"

enum {
    QK_NORM = 1,
    QKV_BIAS = 2,
    ALL_BIAS = 4, /* of attention, feed-forward and router */
    SINKS = 8,
    TIED = 16,
    FOUR_NORMS = 32,
    STARCODER = 64, /* LayerNorm and a feed-forward without a gate */
    ROUTER_BIAS = 128,
    Q_GATE = 256
};

static const struct {
    const char *type;
    unsigned    has;
    int64_t     full_every;
} families[] = {
    { "llama", 0, 1 },
    { "mistral", 0, 0 },
    { "mixtral", 0, 0 },
    { "qwen2", QKV_BIAS, 0 },
    { "qwen3", QK_NORM, 0 },
    { "qwen3_moe", QK_NORM, 0 },
    { "qwen3moe", QK_NORM, 0 },
    { "qwen3_next", QK_NORM | Q_GATE, 0 },
    { "qwen3_5_text", QK_NORM | Q_GATE, 0 },
    { "qwen3_5_moe_text", QK_NORM | Q_GATE, 0 },
    { "qwen3next", QK_NORM | Q_GATE, 0 },
    { "qwen35", QK_NORM | Q_GATE, 0 },
    { "qwen35moe", QK_NORM | Q_GATE, 0 },
    { "llama4_text", 0, 4 },
    { "llama4", 0, 4 },
    { "starcoder2", STARCODER | TIED | ALL_BIAS, 0 },
    { "gpt_oss", ALL_BIAS | SINKS, 2 },
    { "gpt-oss", ALL_BIAS | SINKS, 2 },
    { "gemma3", QK_NORM | TIED | FOUR_NORMS, 6 },
    { "gemma3_text", QK_NORM | TIED | FOUR_NORMS, 6 },
    { "deepseek_v3", ROUTER_BIAS, 1 },
    { "deepseek_v2", 0, 1 },
    { "deepseek2", 0, 1 },
};

bool ts_plan_family(const char *type, ts_plan_model *m, int64_t *full_every)
{
    *full_every = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(type, families[i].type)) continue;
        const unsigned has = families[i].has;
        *full_every = families[i].full_every;
        m->qk_norm = has & QK_NORM;
        m->qkv_bias = has & (QKV_BIAS | ALL_BIAS);
        m->o_bias = m->ffn_bias = has & ALL_BIAS;
        m->sinks = has & SINKS;
        m->tied = has & TIED;
        m->n_norm = has & FOUR_NORMS ? 4 : 2;
        m->norm_bias = m->plain_ffn = has & STARCODER;
        m->router_bias = has & ROUTER_BIAS;
        m->q_gate = has & Q_GATE;
        return true;
    }
    return false;
}
