#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda.sh test|bench - runs the tests or benchmarks that need a GPU.
#
# Detects the GPU without the program under test. $ONLY, an extended regular expression, selects
# tests by name; $JOBS is the number of parallel tests (default: a quarter of the cores).
set -u
cd "$(dirname "$0")/.." || exit 2
if ! nvidia-smi -L 2>/dev/null | grep -q GPU && [ ! -e /dev/nvidia0 ]; then
    echo 'skipped: no CUDA device'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
if [ "$1" = bench ]; then
    build/bench/search_bench || exit
    [ ! -x build/test/ternary_time ] || build/test/ternary_time || exit
    build/touchstone bench --device cuda --peers torch,torch.lse,torch.compile,torch.flash,torch.cudnn || exit
    [ ! -x build/bench/train_bench ] || build/bench/train_bench || exit
    python=${TOUCHSTONE_PYTHON:-python3}
    "$python" -c 'import torch' 2>/dev/null || exit 0
    "$python" test/train_peer.py && exec "$python" bench/cross_entropy.py
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
check='build/touchstone check --device cuda'
# Sanitizers skip the mutants: some have exactly the bugs that sanitizers report.
small="$check --no-mutants --seed 0x5eed"
# racecheck takes seconds per call, however small, if a kernel uses clusters: there it runs one case
# per code path.
few='rows=257,vocab=3|rows=1,vocab=2,|rows=2,vocab=1024,|rows=33,vocab=1024,|rows=9,vocab=7,'
few="$few|vocab=4099,k=1025,|vocab=32000,k=31,"
# The smallest attention cases have no full tile, so a few larger ones run too.
tiles='q=17,k=17,|q=5,k=64,|q=65,k=130,|q=63,k=63,|q=65,k=65,batch=1,q_heads=2,kv_heads=2,|q=17,k=33,'
tiles="$tiles|q=129,k=129,|q=40,k=40,"
steps() { # one line each: NAME COMMAND; a command that answers 77 is skipped
    echo "mutants $check --only-mutants"
    if [ -x build/test/unit_model_cuda ]; then
        echo "model build/test/unit_model_cuda"
        echo "model_story build/test/unit_model_story cuda"
        echo "model_beam build/test/unit_model_beam cuda"
        echo "model_tree build/test/unit_model_tree cuda"
        # The test requests more memory than exists on purpose: not an error of the program.
        echo "memcheck/model compute-sanitizer --tool memcheck --error-exitcode 1" \
            "--report-api-errors no build/test/unit_model_cuda"
        echo "model_packed build/test/unit_model_packed cuda"
        echo "memcheck/model_packed compute-sanitizer --tool memcheck --error-exitcode 1" \
            "--report-api-errors no build/test/unit_model_packed cuda"
        echo "train build/test/unit_train_cuda"
        echo "train_run build/test/unit_train_run cuda"
        for tool in memcheck racecheck; do
            echo "$tool/train compute-sanitizer --tool $tool --error-exitcode 1 build/test/unit_train_cuda"
        done
    else
        echo "model test/skip.sh no jansson, CBLAS, PCRE2 or cmocka"
    fi
    if [ -x build/test/unit_ternary ]; then # racecheck runs only a few of ternary's matmuls
        for unit in unit_ternary unit_ternary_linear unit_attention_fp8; do
            echo "$unit build/test/$unit cuda"
            echo "memcheck/$unit compute-sanitizer --tool memcheck --error-exitcode 1 build/test/$unit cuda"
        done
        echo "racecheck/ternary compute-sanitizer --tool racecheck --error-exitcode 1" \
            "build/test/unit_ternary_linear cuda few"
    else
        echo "ternary test/skip.sh no cmocka"
    fi
    if [ -x build/test/unit_kv_tree ]; then
        for unit in kv_tree beam_search beam_search_random tree_verify tree_verify_random; do
            echo "$unit build/test/unit_$unit cuda"
        done
        echo "memcheck/kv_tree compute-sanitizer --tool memcheck --error-exitcode 1" \
            "build/test/unit_kv_tree cuda"
        echo "memcheck/beam_search compute-sanitizer --tool memcheck --error-exitcode 1" \
            "build/test/unit_beam_search cuda"
    else
        echo "searches test/skip.sh no cmocka"
    fi
    echo "example_cuda_stream python3 test/example.py build cuda_stream"
    for task in $(build/touchstone list impls | awk '$2 ~ /^(sm90|cuda)$/ && !seen[$1]++ { print $1 }'); do
        case $task in
        flash_attention_backward | flash_attention_fp8) continue ;; # covered by their stem
        cross_entropy_logits) continue ;;
        cross_entropy) memory=--small race=--small impls=cuda ;;
        flash_attention) memory="--case $tiles" race=$memory impls='sm90 cuda' ;;
        softmax_topk) memory=--small race="--small --case $few" impls='sm90 cuda' ;;
        *) memory=--small race=--small impls=$(build/touchstone list impls | awk -v t="$task" '$1 == t && $2 ~ /^(sm90|cuda)$/ { print $2 }') ;;
        esac
        echo "check/$task $check --task $task"
        for impl in $impls; do
            for dtype in f32 bf16 f16; do
                one="$small --task $task --impl $impl --dtype $dtype"
                echo "memcheck/$task/$impl/$dtype" "compute-sanitizer --tool memcheck --error-exitcode 1" "$one $memory"
                echo "racecheck/$task/$impl/$dtype" "compute-sanitizer --tool racecheck --error-exitcode 1" "$one $race"
            done
        done
    done
}
only=${ONLY:-.}
# Most steps wait for the CPU oracle, which is multithreaded. shellcheck disable=SC2016 # the inner
# shell expands it
steps | ONLY=$only awk '$1 ~ ENVIRON["ONLY"]' | xargs -r -P "${JOBS:-$((($(nproc) + 3) / 4))}" -L 1 sh -c '
    name=$1 log=$0/$(echo "$1" | tr / .) began=$(date +%s)
    shift
    if [ "$1" = compute-sanitizer ] && ! command -v "$1" >/dev/null; then
        echo "skipped: $name: no compute-sanitizer" >"$log.skipped"
    else
        "$@" >"$log.log" 2>&1
        case $? in
        0) mv "$log.log" "$log.passed" ;;
        77) mv "$log.log" "$log.skipped" ;;
        *) mv "$log.log" "$log.failed" ;;
        esac
    fi
    for f in "$log".*; do
        echo "== $name: ${f##*.}, $(($(date +%s) - began)) s"
        case $f in *.failed) tail -n 40 "$f" ;; *) tail -n 4 "$f" ;; esac
    done
' "$out"
# The judge needs the device for itself.
after() { # NAME COMMAND...
    name=$1 began=$(date +%s)
    echo "$name" | grep -Eq "$only" || return 0
    shift
    if "$@" >"$out/$name.log" 2>&1; then mv "$out/$name.log" "$out/$name.passed"; else mv "$out/$name.log" "$out/$name.failed"; fi
    for f in "$out/$name".*; do echo "== $name: ${f##*.}, $(($(date +%s) - began)) s" && tail -n 40 "$f"; done
}
# shellcheck disable=SC2016 # the inner shell expands it
after facts sh -c 'build/touchstone judge --selfcheck --device cuda >"$0" && cat "$0" &&
    ! grep "NO *device-" "$0" | grep -v sanitizer' "$out/facts"
after doc_commands python3 test/doc_commands.py build gpu
after judge build/touchstone judge --device cuda --log build/judge-cuda.log
after gpu_exploit test/gpu_exploit.sh "$PWD/build"
after gpu_sanitize test/gpu_sanitize.sh "$PWD/build"
after gpu_adapted test/gpu_adapted.sh "$PWD/build"
after gpu_mutant test/gpu_mutant.sh "$PWD/build"
after gpu_fair_20us test/gpu_fair.sh "$PWD/build" 1
after gpu_fair_200us test/gpu_fair.sh "$PWD/build" 10
count() { find "$out" -name "*.$1" | wc -l; }
for f in "$out"/*.failed; do [ -e "$f" ] && echo "== all of $(basename "$f")" && cat "$f"; done
echo "$(count passed) passed, $(count failed) failed, $(count skipped) skipped"
[ -n "$(ls "$out")" ] || echo "cuda.sh: no test has '$only' in its name" >&2
[ "$(count failed)" = 0 ] && [ -n "$(ls "$out")" ]
