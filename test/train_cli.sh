#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# train_cli.sh BUILD - tests `touchstone train` from outside: bad input gets one line; a run killed
# with -9 resumes to the losses of an uninterrupted one; generate reads the result.
set -eu
. "$(dirname "$0")/lib.sh"
program=$build/touchstone
export OMP_NUM_THREADS=2

# refused STATUS WORD ARGUMENT...: expects that status, one line with WORD in it, and nothing on
# standard output
refused() {
    local status=0 want=$1 word=$2
    shift 2
    "$program" train "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    [ "$status" = "$want" ] || fail "$*: status $status, expected $want: $(cat "$tmp/err")"
    [ "$(wc -l <"$tmp/err")" = 1 ] || fail "$*: expected one line, got: $(cat "$tmp/err")"
    grep -q -- "$word" "$tmp/err" || fail "$*: nothing about '$word': $(cat "$tmp/err")"
}

# Like refused, for errors at the end: standard output may be non-empty.
refused_after() {
    local word=$1
    shift
    ! "$program" train "$@" >"$tmp/out" 2>"$tmp/err" || fail "$*: it passed"
    [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q -- "$word" "$tmp/err" || fail "$*: $(cat "$tmp/err")"
}

# Documents of numbers in words, so that each number predicts the next.
awk 'BEGIN {
    split("one two three four five six seven eight nine ten", w, " ")
    for (d = 0; d < 400; d++) {
        n = d * 7 % 10
        for (i = 0; i < 12 + d % 5; i++) printf "%s%s", i ? " " : "", w[(n + i) % 10 + 1]
        printf " (%d)\n\n", d
    }
}' >"$tmp/text"
head -c 4000 "$tmp/text" >"$tmp/fewer"
small="--layers 1 --width 32 --heads 2 --kv-heads 1 --head-dim 16 --ffn 48 --vocab 300 --batch 4 --length 24 --eval-every 10"

"$program" train --help | grep -q -- --ternary || fail '--help says nothing of --ternary'
refused 2 '--data' --out "$tmp/x"
refused 2 '--out' --data "$tmp/text"
refused 2 'unknown argument' --data "$tmp/text" --out "$tmp/x" --layer 3
refused 2 '--vocab' --data "$tmp/text" --out "$tmp/x" --vocab 100
refused 2 '--lr' --data "$tmp/text" --out "$tmp/x" --lr fast
refused 2 '--device' --data "$tmp/text" --out "$tmp/x" --device gpu
refused 2 '--dtype' --data "$tmp/text" --out "$tmp/x" --device cuda --dtype f64
refused 2 'got bf16 on the CPU' --data "$tmp/text" --out "$tmp/x" --dtype bf16
refused 3 'cannot open' --data "$tmp/nothing" --out "$tmp/x"
printf 'a\n\nb\377' >"$tmp/bad"
refused 3 'UTF-8 at byte 4' --data "$tmp/bad" --out "$tmp/x"
echo one >"$tmp/bad"
refused 3 'got 1 documents' --data "$tmp/bad" --out "$tmp/x"
printf 'a\n\nb\n' >"$tmp/bad"
refused 3 'too short' --data "$tmp/bad" --out "$tmp/x"
refused 3 'KV heads' --data "$tmp/text" --out "$tmp/x" --heads 4 --kv-heads 3
refused 3 'text/x' --data "$tmp/text" --out "$tmp/text/x"
mkfifo "$tmp/fifo"
refused 3 'regular, non-empty file' --data "$tmp/fifo" --out "$tmp/x"
refused 3 'cannot open the folder' --data "$tmp/text" --out "$tmp/x" --resume
[ ! -e "$tmp/x" ] || fail 'a refused run left a folder'
mkdir "$tmp/other"
refused 3 'no checkpoint to continue from' --data "$tmp/text" --out "$tmp/other" --resume
echo '{}' >"$tmp/other/tokenizer.json"
refused 3 'holds tokenizer.json' --data "$tmp/text" --out "$tmp/other"
[ "$(ls "$tmp/other") $(cat "$tmp/other/tokenizer.json")" = 'tokenizer.json {}' ] || fail "another model's folder was changed"
# With little memory: one line, or it fits.
for kib in 120000 200000 400000; do
    status=0
    (ulimit -v $kib && OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 timeout 60 "$program" train --data "$tmp/text" --out "$tmp/low" \
        --width 1024 --ffn 4096 --batch 8 --steps 1) >"$tmp/out" 2>"$tmp/err" || status=$?
    [ $status = 0 ] || { [ $status -lt 124 ] && [ "$(grep -c . "$tmp/err")" = 1 ]; } || fail "in $kib KiB: status $status: $(cat "$tmp/err")"
    rm -rf "$tmp/low"
done

# A run that is killed before its first evaluation resumes, too.
rare="${small% --eval-every *} --eval-every 2000 --steps 2000"
"$program" train --data "$tmp/text" --out "$tmp/young" $rare >/dev/null &
run=$!
for _ in $(seq 600); do
    [ -f "$tmp/young/log.jsonl" ] && [ "$(wc -l <"$tmp/young/log.jsonl")" -ge 3 ] && break
    sleep 0.01
done
kill -9 $run || fail 'a young run ended before it could be killed'
wait $run 2>/dev/null || true
"$program" train --data "$tmp/text" --out "$tmp/young" $rare --resume >/dev/null || fail 'a young run does not resume'
[ "$(wc -l <"$tmp/young/log.jsonl")" = 2000 ] || fail 'a young run resumed has not every step'
rm -rf "$tmp/young"

losses() { sed 's/,"lr".*//' "$1/log.jsonl"; }
for kind in '' --ternary; do
    "$program" train --data "$tmp/text" --out "$tmp/whole" $small --steps 300 $kind --svg "$tmp/svg" >"$tmp/facts"
    # Three panels; every evaluation on held-out text is a marker in two of them.
    [ "$(grep -c '<circle' "$tmp/svg") $(grep -c '</svg>' "$tmp/svg") $(grep -c '<rect x' "$tmp/svg")" = '60 1 3' ] ||
        fail "--svg drew something else: $(grep -c '<circle' "$tmp/svg") markers"
    ! grep -qi 'nan\|inf"' "$tmp/svg" || fail '--svg has places that are none'
    "$program" train --data "$tmp/text" --out "$tmp/whole" $small --steps 300 $kind --resume --svg "$tmp/again" >/dev/null
    cmp -s "$tmp/svg" "$tmp/again" || fail 'a run that goes on draws other curves'
    refused_after 'svg' --data "$tmp/text" --out "$tmp/whole" $small --steps 300 $kind --resume --svg "$tmp/none/svg"
    grep -q 'of their eight-word runs' "$tmp/facts" || fail 'overlap was not told'
    refused 3 'exists; continue with --resume' --data "$tmp/text" --out "$tmp/whole" $small --steps 300 $kind
    cp -r "$tmp/whole" "$tmp/was"
    refused 3 'steps: got 290' --data "$tmp/text" --out "$tmp/whole" $small --steps 290 $kind --resume
    refused 3 'lr: got 0.01' --data "$tmp/text" --out "$tmp/whole" $small --steps 310 --lr 0.01 $kind --resume
    refused 3 'vocabulary\|text' --data "$tmp/fewer" --out "$tmp/whole" $small --steps 300 $kind --resume
    head -c 40 "$tmp/whole/log.jsonl" >"$tmp/log" && cp "$tmp/log" "$tmp/whole/log.jsonl"
    refused 3 'shorter than the checkpoint says' --data "$tmp/text" --out "$tmp/whole" $small --steps 300 $kind --resume
    cp "$tmp/was/log.jsonl" "$tmp/whole"
    head -c 5000 "$tmp/was/checkpoint.bin" >"$tmp/whole/checkpoint.bin"
    refused 3 'checkpoint: got 5000 bytes' --data "$tmp/text" --out "$tmp/whole" $small --steps 300 $kind --resume
    cp "$tmp/was/checkpoint.bin" "$tmp/whole"
    diff -r "$tmp/was" "$tmp/whole" >/dev/null || fail 'a refused run changed a file'
    # A run that is over goes on with more steps; one that is not keeps its schedule.
    "$program" train --data "$tmp/text" --out "$tmp/was" $small --steps 310 $kind --resume >"$tmp/more"
    [ "$(wc -l <"$tmp/was/log.jsonl")" = 310 ] || fail "extended to $(wc -l <"$tmp/was/log.jsonl") steps"
    cmp -s -n $(stat -c %s "$tmp/whole/log.jsonl") "$tmp/was/log.jsonl" "$tmp/whole/log.jsonl" || fail 'an extended run changed its past'
    rm -rf "$tmp/was"
    "$program" train --data "$tmp/text" --out "$tmp/parts" $small --steps 300 $kind >/dev/null &
    run=$!
    for _ in $(seq 600); do
        [ -f "$tmp/parts/checkpoint.bin" ] && break
        sleep 0.05
    done
    refused 3 'another run' --data "$tmp/text" --out "$tmp/parts" $small --steps 300 $kind --resume
    for _ in $(seq 600); do
        [ -f "$tmp/parts/log.jsonl" ] && [ "$(wc -l <"$tmp/parts/log.jsonl")" -ge 33 ] && break
        sleep 0.05
    done
    kill -9 $run || fail 'it ended before it could be killed'
    wait $run 2>/dev/null || true
    killed=$(wc -l <"$tmp/parts/log.jsonl")
    "$program" train --data "$tmp/text" --out "$tmp/parts" $small --steps 300 $kind --resume >/dev/null
    [ "$(losses "$tmp/whole" | wc -l)" = 300 ] || fail 'the log has not every step'
    [ "$(losses "$tmp/whole")" = "$(losses "$tmp/parts")" ] || fail "killed at step $killed: other losses"
    cmp -s "$tmp/whole/model.safetensors" "$tmp/parts/model.safetensors" || fail 'another model'
    echo "${kind:-float}: killed after step $killed, went on to the same 300 losses; $(grep ^best "$tmp/facts" | cut -d: -f2 | cut -d\; -f1)"
    "$program" generate --model "$tmp/whole" --prompt 'one two three' --tokens 8 --json "$tmp/said" >/dev/null
    grep -q '"tokens_made": 8' "$tmp/said" || fail "generate: $(cat "$tmp/said")"
    rm -rf "$tmp/whole" "$tmp/parts"
done

# --export gguf: the same tokens as from the folder, whatever format the widths allow; a finished run exports too.
exports() { # FORMAT ARGUMENT...: F32 is 0, F16 1, Q4_0 2, TQ2_0 35
    local format=$1 from at got
    shift
    rm -rf "$tmp/gguf"
    "$program" train --data "$tmp/text" --out "$tmp/gguf" "$@" --steps 30 --eval-every 10 >/dev/null
    "$program" train --data "$tmp/text" --out "$tmp/gguf" "$@" --steps 30 --eval-every 10 --resume --export gguf >"$tmp/out"
    grep -q '^exported ' "$tmp/out" || fail "--export said nothing: $(cat "$tmp/out")"
    for from in "$tmp/gguf" "$tmp/gguf/model.gguf"; do
        "$program" generate "$from" --prompt 'one two three' --tokens 12 --json "$tmp/said" >/dev/null
        tr -d ' \n' <"$tmp/said" | grep -o '"tokens":\[[0-9,]*\]' >>"$tmp/tokens"
    done
    [ "$(wc -l <"$tmp/tokens") $(sort -u "$tmp/tokens" | wc -l)" = '2 1' ] || fail "$format: the export has other tokens: $(cat "$tmp/tokens")"
    rm "$tmp/tokens"
    # The embedding's format follows its name and extents.
    at=$(grep -abo token_embd.weight "$tmp/gguf/model.gguf" | cut -d: -f1)
    got=$(od -An -tu4 -j $((at + 37)) -N 4 "$tmp/gguf/model.gguf" | tr -d ' ')
    [ "$got" = "$format" ] || fail "the export has format $got, expected $format"
}
refused 2 '--export' --data "$tmp/text" --out "$tmp/x" --export onnx
refused 2 '--group: needs --ternary' --data "$tmp/text" --out "$tmp/x" --group 256
refused 2 '--group' --data "$tmp/text" --out "$tmp/x" --ternary --group 64
exports 0 $small
exports 2 $small --ternary
exports 1 $small --ternary --width 24 --head-dim 6 --ffn 20
exports 35 $small --ternary --group 256 --width 256 --head-dim 128 --ffn 256
