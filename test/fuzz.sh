#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh BUILD|both SECONDS [TARGET...] - runs fuzz targets (default: all of BUILD), each for
# SECONDS.
#
# `both` builds and runs them in build/ with fuzz_main.c, and in build-clang/ with libFuzzer.
#
# Each run adds a line to BUILD/fuzz/total: date, target, seconds of one core. `total` as the first
# argument prints what BUILD has run in all.
#
# Seeds are written to BUILD/fuzz/TARGET/seed. Runs of a minute or more also detect leaks, and keep
# inputs that reach new code in BUILD/fuzz/TARGET/corpus for later runs. An input that crashes a
# target is left in BUILD/fuzz/TARGET.
set -eu
cd "$(dirname "$0")/.."
# Of all folders' runs, by target and in all.
total() {
    cat build/fuzz/total build-clang/fuzz/total 2>/dev/null | sort -k 2,2 | awk '
        $2 != name { if (name != "") printf "%-22s %8.2f core hours\n", name, sum / 3600; name = $2; sum = 0 }
        { sum += $3; all += $3 }
        END { if (name != "") printf "%-22s %8.2f core hours\n", name, sum / 3600; printf "%-22s %8.2f core hours\n", "in all", all / 3600 }'
}
[ "$1" != total ] || { total && exit; }
build=$1 seconds=$2
shift 2
if [ "$build" = both ]; then
    cmake -S . -B build -G Ninja >/dev/null
    cmake --build build --target fuzz
    test/fuzz.sh build "$seconds" "$@"
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n > 9; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null || {
        echo 'skipped: all targets with libFuzzer, no clang that has it'
        total
        exit 0
    }
    cmake -S . -B build-clang -G Ninja -DCMAKE_C_COMPILER=clang -DTS_CUDA=OFF >/dev/null
    cmake --build build-clang --target fuzz
    test/fuzz.sh build-clang "$seconds" "$@"
    total
    exit 0
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
[ $# -gt 0 ] || set -- $(cd "$build/test" && ls -d fuzz_* | grep -v '\.')

words() { # AFTER WORD...: a dictionary of words in quotes
    local after=$1
    shift
    for word; do printf '"\\"%s\\"%s"\n' "$word" "$after"; done >"$words"
}

# Objects with both kinds of hash table and page size, as the judge builds sealed entrants; and
# other objects.
seeds_object() {
    local flags='-w -O1 -shared -fPIC -nostdlib -fvisibility=hidden -fno-stack-protector -Iinclude -Iproof/plain'
    local isa=base/isa/$(uname -m)
    local link='-Wl,-z,noexecstack,-z,now,-z,norelro,--build-id=none'
    [ -d "$isa" ] || isa=base/isa/generic
    for source in proof/plain/softmax_topk proof/plain/kv_cache proof/exploit/init_array proof/exploit/constructor proof/exploit/ifunc \
        proof/exploit/tls proof/exploit/weak_libc; do
        cc $flags -I$isa $link,--hash-style=sysv,-z,max-page-size=4096 $source.c -o "$seed/$(basename $source)" -lgcc
    done
    cc $flags $link,--hash-style=gnu proof/plain/softmax_topk.c -o "$seed/gnu" -lgcc
    cc -w -O1 -shared -fPIC -Iinclude proof/plain/softmax_topk.c -o "$seed/plain" -lm
    cp "$build/touchstone-probe.so" "$seed"
}

seeds_entrant() {
    for file in $(find contest/entrant proof/exploit -name entry.json | sort | head -n 40); do
        { printf 1 && cat "$file"; } >"$seed/$(echo "$file" | tr / _)"
        { printf 0 && cat "$file"; } >"$seed/json_$(echo "$file" | tr / _)"
    done
    for class in sealed,c,c host,c++,c python,python,py sealed-gpu,cuda,cu; do
        echo $class | awk -F, '{ printf "1{\"name\":\"n\",\"author\":\"a\",\"challenge\":\"softmax_topk\"," \
            "\"class\":\"%s\",\"language\":\"%s\",\"sources\":[\"k.%s\"],\"offers\":\"k <= 32\"%s}", $1, $2, $3, $1 == "sealed-gpu" ? \
            ",\"workspace\":\"rows*8\",\"launch\":[{\"kernel\":\"k\",\"grid\":[\"rows\"],\"block\":[256],\"args\":[\"ptr logits\"]}]" : "" }' \
            >"$seed/$class"
    done
    for file in proof/exploit/include_file.c proof/exploit/fast_math_attribute.c proof/exploit/incbin.c proof/exploit/constant.c proof/exploit/py_noop.py; do
        { printf 2 && head -c 3000 $file; } >"$seed/$(basename $file)"
    done
    words '' name author challenge class language sources adapter launch workspace offers sealed host python sealed-gpu \
        c c++ cuda binary k.c k.h k.py k.cu softmax_topk kernel grid block args shared when
    printf '"touchstone-offers: "\n"#include "\n"#pragma "\n"optimize("\n"ts_softmax_topk("\n"/*"\n"*/"\n' >>"$words"
}

# What is read, then changes of three bytes to a valid reply; the target finds the places.
seeds_reading() {
    for what in 0 1 2 3; do
        printf $what >"$seed/as_it_is$what"
        printf "$what"'\010\002\377\014\002\377\020\002x' >"$seed/three$what"
        printf "$what"'\004\000\001\200' >"$seed/short$what"
        { printf $what && head -c 14000 /dev/zero; } >"$seed/zeros$what"
    done
}

seeds_launch() {
    printf '1workspace rows*8\nkernel softmax_{dtype}\nwhen k <= 64\ngrid rows, 2\nblock 256\nshared 4*k*8\narg ptr x\narg f32 t\narg i64 ceil_div(rows, 4)\nkernel b\ngrid 1\nblock 32\narg ptr workspace + 8*k\narg u32 (k || 1/n) && -rows %% 3 != 0\n' >"$seed/plan"
    printf '0{"workspace":"rows*8","launch":[{"kernel":"softmax_{dtype}","when":"k <= 64","grid":["rows",2],"block":[256],"shared":"4*k*8","args":["ptr x","f32 t","i32 k"]}]}' >"$seed/json"
    printf '2k <= 32 && dtype == f32 || rows %% 2 == 0' >"$seed/offers"
    for file in $(grep -l '"launch"' contest/entrant/*/*/entry.json); do
        { printf 0 && cat "$file"; } >"$seed/$(echo "$file" | tr / _)"
    done
    words '' workspace launch kernel when grid block shared args
    for word in 'min(' 'max(' 'ceil_div(' 'align(' '||' '&&' '==' '!=' '<=' '>=' rows x.stride 'arg ptr ' 'arg i32 ' 'arg f64 ' 'kernel ' \
        'grid ' 'block ' 'shared ' 'when ' 'workspace ' '{dtype}' 9223372036854775807 dtype f32 bf16; do
        printf '"%s"\n' "$word"
    done >>"$words"
}

seeds_log() {
    for kind in full failures untimed empty; do
        rm -f "$tmp/$kind.log"
        "$build/test/make_log" "$tmp/$kind.log" $kind
        # only the bodies of records, with short times: the target adds the hash chain
        sed -E 's/^\{"seq":[0-9]+,"prev":"[0-9a-f]*",//; s/,"self":"[0-9a-f]*"\}$//; s/("ns":\[[^],]*,[^],]*)[^]]*\]/\1]/' \
            "$tmp/$kind.log" >"$seed/$kind"
        head -n 12 "$seed/$kind" >"$seed/$kind.head"
        head -n 3 "$tmp/$kind.log" >"$seed/$kind.raw"
    done
    awk '{ print >("'"$seed"'/line" NR % 40) }' "$seed/full"
    words : type run entrant source file sha256 verdict time match score rank reveal end seq prev self version machine guarantees badge commit \
        depth started id name author class language task source_sha256 family reason text case index got want bound replay \
        categories worst robustness robustness_text floor_ns ns time_ns lo_ns hi_ns fraction a b effect lo hi pairs S S_lo S_hi S_min P R M \
        grade rows rating seed verdicts PASS FAIL AUDIT overall nan inf tie noise
}

seeds_model() {
    # a llama2.c checkpoint: 4 wide, 6 in the feed-forward, 1 layer, 2 heads over 1, 5 tokens, 3 positions; 158 weights
    {
        printf 'c\004\000\000\000\006\000\000\000\001\000\000\000\002\000\000\000\001\000\000\000\005\000\000\000\003\000\000\000'
        i=0
        while [ $i -lt 158 ]; do printf '\000\000\200\076' && i=$((i + 1)); done
    } >"$seed/llama2c"
    # a vocabulary: three special tokens, one byte, and tokens that merge
    {
        printf 't\004\000\000\000'
        for piece in '\005\000\000\000<unk>' '\003\000\000\000<s>' '\004\000\000\000</s>' '\006\000\000\000<0x0A>' \
            '\001\000\000\000 ' '\001\000\000\000T' '\001\000\000\000h' '\001\000\000\000e' '\002\000\000\000Th' '\003\000\000\000The'; do
            printf "\000\000\200\077$piece"
        done
    } >"$seed/vocabulary"
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
    } >"$seed/packed"
    for name in qwen3 llama mistral starcoder2; do
        folder=test/checkpoint/$name
        n=$(od -An -tu8 -N8 $folder/model.safetensors | tr -d ' ')
        {
            printf s
            tr -d '\n ' <$folder/config.json
            printf '\000'
            tail -c +9 $folder/model.safetensors | head -c "$n"
        } >"$seed/$name"
        [ ! -f $folder/tokenizer.json ] || { printf t && cat $folder/tokenizer.json; } >"$seed/$name.tokens"
    done
    words '' model_type llama mistral qwen2 qwen3 starcoder2 hidden_act silu num_hidden_layers hidden_size num_attention_heads \
        num_key_value_heads head_dim intermediate_size vocab_size max_position_embeddings rms_norm_eps rope_theta rope_scaling \
        rope_parameters rope_type linear llama3 factor sliding_window layer_types eos_token_id tie_word_embeddings attention_bias \
        dtype shape data_offsets F32 BF16 F16 U8 lm_head.weight model vocab merges BPE added_tokens content id pre_tokenizer Split \
        pattern Regex behavior Isolated ByteLevel use_regex pretokenizers post_processor TemplateProcessing single SpecialToken \
        Sequence special_tokens ids ignore_merges
}

# The first byte says whether it is a chat.
seeds_serve() {
    printf 't{"model":"m","prompt":["a",[1,2]],"stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"temperature":0.5,"top_p":0.9,"top_k":3,"seed":-1,"n":2,"stop":["b","c"],"logprobs":2,"echo":false,"user":"u"}' >"$seed/text"
    printf 'c{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"x"}]}],"max_completion_tokens":5,"logprobs":true,"top_logprobs":3,"response_format":{"type":"text"}}' >"$seed/chat"
    words '' model m prompt messages role content type text system developer user assistant stream stream_options include_usage max_tokens \
        max_completion_tokens temperature top_p top_k seed n stop logprobs top_logprobs echo logit_bias tools response_format best_of suffix
}

for target; do
    dir=$build/fuzz/$target
    seed=$dir/seed words=$dir/words kind=${target#fuzz_}
    mkdir -p "$seed" "$dir/corpus"
    if [ ! -f "$words" ] || [ "$words" -ot test/fuzz.sh ]; then
        printf '"ts_softmax_topk"\n"expf"\n"memcpy"\n' >"$words" # for objects; other targets have their own
        case $kind in
        object | entrant | reading | launch | log | model | serve) seeds_$kind ;;
        *) ;; # objects of another instruction set: made by hand in fuzz_elf.c
        esac
    fi
    case $kind in object*) length=131072 ;; model | reading) length=16384 ;; *) length=8192 ;; esac
    if [ "$seconds" -ge 60 ]; then
        corpus=$dir/corpus leaks=1
    else # libFuzzer writes to the first folder; leak detection takes longer than such short runs
        cp -r "$seed" "$tmp/$target"
        corpus= leaks=0 seed=$tmp/$target
    fi
    echo "== $target, $seconds s"
    ASAN_OPTIONS=detect_leaks=$leaks "$build/test/$target" -max_total_time="$seconds" -max_len=$length -timeout=20 -rss_limit_mb=2048 -dict="$words" \
        -artifact_prefix="$dir/" -print_final_stats=1 $corpus "$seed" >"$tmp/said" 2>&1 || {
        tail -n 60 "$tmp/said"
        echo "fuzz.sh: $target failed"
        exit 1
    }
    echo "$(date +%Y-%m-%d) $target $seconds" >>"$build/fuzz/total"
    grep -E '^fuzz_|^stat::(number_of|new_units)|cov: ' "$tmp/said" | grep -vE '(NEW|REDUCE|pulse|INITED|RELOAD)' || tail -n 3 "$tmp/said"
done
echo "$# targets ran $seconds s each"
