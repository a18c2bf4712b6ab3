#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# new.sh BUILD - tests `touchstone new`: each entrant builds, its self-test fails with the starter
# and passes with the obvious solution; and invalid arguments.
set -u
. "$(dirname "$0")/lib.sh"
root=$PWD
n=0
try() { # STATUS ARGUMENT... : output in $tmp/out, errors in $tmp/err
    want=$1
    shift
    n=$((n + 1))
    "$build/touchstone" new "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
    got=$?
    [ $got = "$want" ] || complain "new $*: exit status $got, expected $want: $(cat "$tmp/err")"
    [ "$want" = 0 ] || [ "$(wc -l <"$tmp/err")" = 1 ] || complain "new $*: $(wc -l <"$tmp/err") lines, expected 1"
}
fails() { # FOLDER [VARIABLE=VALUE...] : for the right reason, in every case
    make -C "$@" test >"$tmp/log" 2>&1 && complain "$1: the starter passes"
    cases=$(sed -n 's/^\([0-9]*\) cases, .*/\1/p' "$tmp/log")
    [ "${cases:-0}" -gt 20 ] && grep -q "^$cases cases, $cases failed" "$tmp/log" ||
        complain "$1: the starter's answer: $(tail -n 1 "$tmp/log")"
}
passes() { # FOLDER TARGET [VARIABLE=VALUE...]
    make -C "$@" >"$tmp/log" 2>&1 || complain "$1: the solution fails: $(grep -m1 FAIL "$tmp/log" || tail -n 3 "$tmp/log")"
}

quick='CFLAGS=-std=c11 -O1 -Wall -Wextra' # where the optimiser does not matter; half the time of -O2 -g

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

# One text to paste, on standard output or in files; nothing else is written.
try 0 --prompt --challenge softmax_topk --language cuda
grep -q '^## Your answer' "$tmp/out" && grep -q 'nvcc' "$tmp/out" || complain 'no prompt to paste'
try 2 --prompt
try 0 "$tmp/prompts" --prompt --language triton
[ "$(ls "$tmp/prompts" | wc -l)" = "$(wc -l <"$tmp/out")" ] || complain 'prompts that are not named'
[ "$(grep -c 'left out of triton, because' "$tmp/err")" -gt 0 ] || complain 'challenges left out in silence'

# A self-test says in words what was wrong.
try 0 "$tmp/words" --challenge layernorm_forward
solution=proof/plain/layernorm_forward.c
cp proof/plain/number.h "$tmp/words"
says() { # SED-SCRIPT TEXT
    sed "$1" "$solution" >"$tmp/words/layernorm_forward.c"
    cmp -s "$solution" "$tmp/words/layernorm_forward.c" && complain "words: $1 changes nothing"
    make -C "$tmp/words" "$quick" test >"$tmp/log" 2>&1 && complain "words: $1 passes"
    grep -q "$2" "$tmp/log" || complain "words: $1: expected '$2', got $(grep -m1 FAIL "$tmp/log")"
}
says 's/((float \*)a->mean)\[r\] =/(void)/' 'mean\[0\] was not written, expected'
says 's/return s;/return TS_E_DEVICE;/' 'returned TS_E_DEVICE (the device reported an error), expected TS_OK'
says 's/TS_E_SHAPE/TS_E_ARG/' 'invalid call (.*): the call returned TS_E_ARG .*, expected TS_E_SHAPE'
says 's/sqrt(/cbrt(/' 'off by .*, allowed is'

# A self-test allows the error that PROMPT.md states: (8 + 2 sqrt(n)) 2^-24 for a sum of n terms is
# 8.1e-6 for 4099 of them; and no more than that by far.
try 0 "$tmp/bound" --challenge softmax_topk
cp proof/plain/number.h "$tmp/bound"
for part in 0.8 4; do
    sed "s|/ sum) : 0|/ sum * (1 + $part * (8 + 2 * sqrt((double)a->n_vocab)) / 16777216)) : 0|" \
        proof/plain/softmax_topk.c >"$tmp/bound/softmax_topk.c"
    cmp -s proof/plain/softmax_topk.c "$tmp/bound/softmax_topk.c" && complain 'bound: nothing changed'
    make -C "$tmp/bound" "$quick" test >"$tmp/log" 2>&1
    [ $? != 0 ] && got=fails || got=passes
    [ $part = 4 ] && want=fails || want=passes
    [ $got = $want ] || complain "bound: an error of $part of the stated one $got: $(grep -m1 FAIL "$tmp/log")"
done

python=$(test/python.sh || true)

# An adapter is the challenge's function, empty: one call of the code that is to be judged fills it.
adapts() { # LANGUAGE ENDING CODE FROM TO : judged, it passes
    d=$tmp/adapter-$1
    try 0 "$d" --challenge softmax_topk --language "$1" --adapter
    grep -q 'questions about theirs' "$d/adapter.$2" || complain "$1: an adapter without questions"
    grep -q '| `pad` | row_stride - n_vocab |' "$d/adapter.$2" || complain "$1: an adapter without the names for offers"
    "$build/touchstone" judge "$d" --depth quick --no-timing --log "$tmp/$1.log" >"$tmp/log" 2>&1 &&
        complain "$1: an empty adapter passes"
    cp "$3" "$d/theirs.$2"
    sed -i "s|$4|$5|" "$d/adapter.$2"
    "$build/touchstone" judge "$d" --depth quick --no-timing --log "$tmp/$1-filled.log" >"$tmp/log" 2>&1 ||
        complain "$1: a filled adapter fails: $(grep -m1 FAIL "$tmp/log")"
}
try 2 "$tmp/both" --challenge softmax_topk --adapter --prompt
{ echo '#define ts_softmax_topk their_topk'
  echo '#define ts_softmax_topk_workspace their_workspace'
  sed 's|#include "number.h"||; /^#include "touchstone/r proof/plain/number.h' proof/plain/softmax_topk.c; } >"$tmp/theirs.c"
adapts c c "$tmp/theirs.c" 'return TS_E_UNSUPPORTED;' 'ts_status their_topk(const ts_softmax_topk_args *, const ts_exec *); return their_topk(a, x);'
# PyTorch, too, asks for a temporary folder when it is imported
{ printf 'import tempfile\ntempfile.gettempdir()\n'; cat contest/entrant/numpy/softmax_topk/softmax_topk.py; } >"$tmp/theirs.py"
[ -z "$python" ] || adapts python py "$tmp/theirs.py" \
    'raise NotImplementedError.*' 'return theirs.softmax_topk(logits, k, inv_temperature, out)'
begun='' turn=0 each=1
# on aarch64 a search for leaks takes 4 s (leaks.sh): one challenge in four, others each time
[ "$(uname -m)" != aarch64 ] || each=4
leaks=$(($(date +%s) % each))
echo "leaks: challenges of number $leaks modulo $each"
try 0 "$tmp/all"
[ "$(ls "$tmp/all" | wc -l)" = "$("$build/touchstone" list challenges | wc -l)" ] || complain 'not one folder a challenge'
for id in softmax_topk layernorm_forward layernorm_backward kv_cache flash_attention flash_attention_backward \
    beam_search tree_verify ternary_linear ternary_training rms_norm_forward rms_norm_backward \
    cross_entropy cross_entropy_logits; do
    d=$tmp/all/$id
    [ "$(ls "$d" | wc -l)" = 8 ] || complain "$d holds $(ls "$d" | tr '\n' ' ')"
    set -- "$quick"
    [ $id != softmax_topk ] || set -- # once with the flags of Makefile, which is alike in all folders
    fails "$d" "$@"
    grep -q 'returned TS_E_UNSUPPORTED (legal, but not offered), expected TS_OK' "$tmp/log" || complain "$d: not for TS_E_UNSUPPORTED"
    cp "proof/plain/$id.c" "proof/plain/number.h" "$d"
    passes "$d" test
    turn=$((turn + 1))
    export ASAN_OPTIONS=detect_leaks=$((turn % each == leaks)) UBSAN_OPTIONS=halt_on_error=1
    passes "$d" sanitize "$@"
    if [ $id = softmax_topk ]; then # test/prompt.py compiles the others
        try 0 "$tmp/cxx" --challenge $id --language c++
        fails "$tmp/cxx"
    fi
    ${CC:-cc} -std=c11 -fsyntax-only -Wall -Wextra -Werror -Iinclude "contest/challenge/$id/adapter.c" || complain "$id: adapter"
    # the example itself, which is under #if 0
    sed '/^#if 0$/d; /^#endif$/d; /^#include "theirs.c"$/d' "contest/challenge/$id/adapter.c" >"$tmp/adapter.c"
    if [ $id = softmax_topk ]; then
        sed -i '1i void topk_10(float *, int *, const float *, int, int);' "$tmp/adapter.c"
        sed -i '1i void topk_50(float *, int *, const float *, int, int);' "$tmp/adapter.c"
    fi
    ${CC:-cc} -std=c11 -fsyntax-only -Wall -Wextra -Iinclude "$tmp/adapter.c" || complain "$id: the example does not compile"

    # ternary_training is judged on the CPU only; on a device, a script needs host code
    for language in cuda triton; do
        case $language/$id in
        */ternary_training | triton/kv_cache | triton/beam_search | triton/tree_verify | triton/ternary_linear)
            try 2 "$tmp/$language-$id" --challenge $id --language $language
            grep -q "left out of $language, because" "$tmp/err" || complain "$id: not said why"
            [ ! -e "$tmp/$language-$id" ] || complain "$id: a folder without a starter"
            continue
            ;;
        cuda/*) class=host-gpu file=$id.cu ;;
        *) class=python-gpu file=$id.py ;;
        esac
        try 0 "$tmp/$language-$id" --challenge $id --language $language
        [ -s "$tmp/$language-$id/$file" ] || complain "no $file"
        grep -q "\"class\": \"$class\"" "$tmp/$language-$id/entry.json" || complain "$id: not of a GPU class"
    done
    try 0 "$tmp/py-$id" --challenge $id --language python
    if [ -n "$python" ]; then
        export PYTHON="$python" PYTHONDONTWRITEBYTECODE=1
        fails "$tmp/py-$id"
        grep -q 'raised NotImplementedError' "$tmp/log" || complain "$id in Python: not for NotImplementedError"
        # the judge passes every argument that the starter names
        mkdir "$tmp/begun-$id"
        sed 's/NotImplementedError("begin here")/RuntimeError("begun")/' "$tmp/py-$id/$id.py" >"$tmp/begun-$id/$id.py"
        ! grep -q '^def ' "$tmp/begun-$id/$id.py" || begun="$begun $tmp/begun-$id/$id.py"
        cp "$root/contest/entrant/numpy/$id/$id.py" "$tmp/py-$id"
        passes "$tmp/py-$id" test
    fi
done
if [ -n "$begun" ]; then
    "$build/touchstone" judge --first --depth quick --no-timing --log "$tmp/begun" $begun >"$tmp/log" 2>&1
    for file in $begun; do
        id=$(basename "$file" .py)
        grep -q "\"task\":\"$id\",\"verdict\":\"FAIL\",[^{]*RuntimeError: begun" "$tmp/begun" ||
            complain "$id in Python: the starter is called otherwise: $(grep "\"verdict\".*\"$id\"\|\"$id\",\"verdict\"" "$tmp/begun" | grep -o '"text":"[^"]*"' | head -n 1)"
    done
fi
echo "$n runs, $bad complaints${python:+; Python too}"
[ $bad = 0 ]
