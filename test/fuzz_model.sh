#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz_model.sh BUILD ISA [SECONDS] - fuzz the readers of model/ with libFuzzer, address and undefined sanitizers,
# from the files of test/checkpoint. New inputs stay in BUILD/fuzz_model. Skipped without clang's libFuzzer.
set -eu
cd "$(dirname "$0")/.."
build=$1 isa=$2
seconds=${3:-10}
dir=$build/fuzz_model
mkdir -p "$dir/seed" "$dir/corpus"
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }' |
    clang -fsanitize=fuzzer,address,undefined -x c - -o "$dir/probe" 2>/dev/null || {
    echo 'skipped: no clang with libFuzzer' && exit 77
}
flags="-std=c11 -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Iinclude -Ibase -I$isa -Imodel"
clang $flags test/fuzz_model.c model/*.c "$build/libtouchstone.a" -ljansson -lopenblas -lpcre2-8 -lm -ldl -lpthread \
    -fopenmp -o "$dir/fuzz"

# a llama2.c checkpoint: 4 wide, 6 in the feed-forward, 1 layer, 2 heads over 1, 5 tokens, 3 positions; 158 weights
{
    printf 'c\004\000\000\000\006\000\000\000\001\000\000\000\002\000\000\000\001\000\000\000\005\000\000\000\003\000\000\000'
    i=0
    while [ $i -lt 158 ]; do printf '\000\000\200\076' && i=$((i + 1)); done
} >"$dir/seed/llama2c"
# a vocabulary: three specials, then one byte, and pieces that join
{
    printf 't\004\000\000\000'
    for piece in '\005\000\000\000<unk>' '\003\000\000\000<s>' '\004\000\000\000</s>' '\006\000\000\000<0x0A>' \
        '\001\000\000\000 ' '\001\000\000\000T' '\001\000\000\000h' '\001\000\000\000e' '\002\000\000\000Th' '\003\000\000\000The'; do
        printf "\000\000\200\077$piece"
    done
} >"$dir/seed/vocabulary"
# packed: 4 wide, 6 in the feed-forward, 1 layer, 2 heads over 1, 5 tokens; all codes and scales 0
{
    printf 's{"model_type":"qwen3","num_hidden_layers":1,"hidden_size":4,"num_attention_heads":2,"num_key_value_heads":1,'
    printf '"head_dim":2,"intermediate_size":6,"vocab_size":5,"max_position_embeddings":8,"tie_word_embeddings":true}\000'
    awk 'function entry(name, dtype, shape, n) {
            printf "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", at ? "," : "{", name, dtype, shape, at, at + n
            at += n
        }
        function matrix(name, rows) {
            entry(name ".weight.scale", "F16", rows ",1", 2 * rows)
            entry(name ".weight.code", "U8", rows ",32", 32 * rows)
        }
        BEGIN {
            l = "model.layers.0."
            entry(l "input_layernorm.weight", "F32", 4, 16)
            entry(l "post_attention_layernorm.weight", "F32", 4, 16)
            entry(l "self_attn.q_norm.weight", "F32", 2, 8)
            entry(l "self_attn.k_norm.weight", "F32", 2, 8)
            entry("model.norm.weight", "F32", 4, 16)
            matrix("model.embed_tokens", 5)
            n = split("self_attn.q_proj 4 self_attn.k_proj 2 self_attn.v_proj 2 self_attn.o_proj 4 mlp.gate_proj 6 mlp.up_proj 6 mlp.down_proj 4", m, " ")
            for (i = 1; i < n; i += 2) matrix(l m[i], m[i + 1])
            printf "}"
        }'
} >"$dir/seed/packed"
for name in qwen3 llama mistral starcoder2; do
    folder=test/checkpoint/$name
    n=$(od -An -tu8 -N8 $folder/model.safetensors | tr -d ' ')
    {
        printf s
        tr -d '\n ' <$folder/config.json
        printf '\000'
        tail -c +9 $folder/model.safetensors | head -c "$n"
    } >"$dir/seed/$name"
    [ ! -f $folder/tokenizer.json ] || { printf t && tr -d '\n' <$folder/tokenizer.json | sed 's/  */ /g'; } >"$dir/seed/$name.tokens"
done
for word in model_type llama mistral qwen2 qwen3 starcoder2 hidden_act silu num_hidden_layers hidden_size num_attention_heads \
    num_key_value_heads head_dim intermediate_size vocab_size max_position_embeddings rms_norm_eps rope_theta rope_scaling \
    rope_parameters rope_type linear llama3 factor sliding_window layer_types eos_token_id tie_word_embeddings attention_bias \
    dtype shape data_offsets F32 BF16 F16 U8 lm_head.weight model vocab merges BPE added_tokens content id pre_tokenizer Split \
    pattern Regex behavior Isolated ByteLevel use_regex pretokenizers post_processor TemplateProcessing single SpecialToken \
    Sequence special_tokens ids ignore_merges; do
    printf '"\\"%s\\""\n' $word
done >"$dir/words"
exec "$dir/fuzz" -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=2048 -dict="$dir/words" \
    -artifact_prefix="$dir/" -print_final_stats=1 "$dir/corpus" "$dir/seed"
