#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# new.sh BUILD - `touchstone new`: each scaffold builds, its self-test fails with the starter and passes
# with the obvious solution; and what is refused.
set -u
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
root=$PWD
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
n=0 bad=0
complain() { echo "new: $*" >&2 && bad=$((bad + 1)); }
try() { # STATUS ARGUMENT... : output in $tmp/out, errors in $tmp/err
    want=$1
    shift
    n=$((n + 1))
    "$build/touchstone" new "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    [ $got = "$want" ] || complain "new $*: exit status $got, expected $want: $(cat "$tmp/err")"
    [ "$want" = 0 ] || [ "$(wc -l <"$tmp/err")" = 1 ] || complain "new $*: $(wc -l <"$tmp/err") lines, expected 1"
}
fails() { # FOLDER : for the right reason, in every case
    make -C "$1" test >"$tmp/log" 2>&1 && complain "$1: the starter passes"
    cases=$(sed -n 's/^\([0-9]*\) cases, .*/\1/p' "$tmp/log")
    [ "${cases:-0}" -gt 20 ] && grep -q "^$cases cases, $cases failed" "$tmp/log" ||
        complain "$1: the starter's answer: $(tail -n 1 "$tmp/log")"
}
passes() { # FOLDER TARGET
    make -C "$1" "$2" >"$tmp/log" 2>&1 || complain "$1: the solution fails: $(grep -m1 FAIL "$tmp/log" || tail -n 3 "$tmp/log")"
}

try 0 --help
try 2
try 2 "$tmp/x" --language rust
try 2 "$tmp/x" --challenge sort
[ ! -e "$tmp/x" ] || complain 'made a folder, and then refused'
touch "$tmp/file"
try 2 "$tmp/file/below"
mkdir "$tmp/full" && touch "$tmp/full/file"
try 2 "$tmp/full"
mkdir "$tmp/empty"
try 0 "$tmp/empty" --challenge softmax_topk
try 2 "$tmp/empty" --challenge softmax_topk

python=$(test/python.sh || true)
try 0 "$tmp/all"
[ "$(ls "$tmp/all" | wc -l)" = "$("$build/touchstone" list challenges | wc -l)" ] || complain 'not one folder a challenge'
for id in softmax_topk layernorm_forward layernorm_backward kv_cache flash_attention flash_attention_backward \
    beam_search tree_verify ternary_linear ternary_training rms_norm_forward rms_norm_backward \
    cross_entropy cross_entropy_logits; do
    d=$tmp/all/$id
    [ "$(ls "$d" | wc -l)" = 8 ] || complain "$d holds $(ls "$d" | tr '\n' ' ')"
    fails "$d"
    grep -q 'status\[0\] is 4, expected 0' "$tmp/log" || complain "$d: not for TS_E_UNSUPPORTED"
    cp "test/solution/$id.c" "test/solution/number.h" "$d"
    passes "$d" test
    passes "$d" sanitize
    ${CC:-cc} -std=c11 -fsyntax-only -Wall -Wextra -Werror -Iinclude "challenge/$id/adapter.c" || complain "$id: adapter"
    # the example itself, which #if 0 keeps from being compiled
    sed '/^#if 0$/d; /^#endif$/d; /^#include "theirs.c"$/d' "challenge/$id/adapter.c" >"$tmp/adapter.c"
    if [ $id = softmax_topk ]; then
        sed -i '1i void topk_10(float *, int *, const float *, int, int);' "$tmp/adapter.c"
        sed -i '1i void topk_50(float *, int *, const float *, int, int);' "$tmp/adapter.c"
    fi
    ${CC:-cc} -std=c11 -fsyntax-only -Wall -Wextra -Iinclude "$tmp/adapter.c" || complain "$id: the example does not compile"

    if [ ! -e "challenge/$id/starter.cu" ]; then # judged on the CPU only
        try 2 "$tmp/cuda-$id" --challenge $id --language cuda
        [ ! -e "$tmp/cuda-$id" ] || complain "$id: a folder without a starter"
    else
        try 0 "$tmp/cuda-$id" --challenge $id --language cuda
        [ -s "$tmp/cuda-$id/$id.cu" ] || complain "no $id.cu"
        grep -q '"class": "host-gpu"' "$tmp/cuda-$id/entry.json" || complain "$id: not of a GPU class"
    fi
    try 0 "$tmp/py-$id" --challenge $id --language python
    if [ -n "$python" ]; then
        export PYTHON="$python" PYTHONDONTWRITEBYTECODE=1
        fails "$tmp/py-$id"
        grep -q 'NotImplementedError' "$tmp/log" || complain "$id in Python: not for NotImplementedError"
        cp "$root/entrant/numpy/$id/$id.py" "$tmp/py-$id"
        passes "$tmp/py-$id" test
    fi
done
echo "$n runs, $bad complaints${python:+; Python too}"
[ $bad = 0 ]
