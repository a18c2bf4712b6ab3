#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cli.sh BUILD - tests the program from outside: exit statuses, one line per error, JSON. Slower
# tests are in cli_run.sh.
. "$(dirname "$0")/program.sh"

run 0 --help; silent; shows check; shows bench; shows list
for command in judge check bench list demo report generate chat serve evaluate train plan; do
    run 0 $command --help; silent; shows --json; shows --seed; shows "^usage: touchstone $command "
    run 2 $command --no-such-option; refused
    run 2 $command --seed; refused
    run 2 $command --seed twelve; refused
    run 2 $command --seed 7x; refused
    run 2 $command --seed -1; refused
    run 2 $command --seed 99999999999999999999; refused
    run 2 $command --json; refused
done
run 2 no-such-command; refused
run 2 juge; refused; grep -q '; expected judge, .* or list; did you mean judge$' "$tmp/err" || complain "said: $(cat "$tmp/err")"
run 2 ''; refused
run 2; [ "$(wc -l <"$tmp/err")" -ge 1 ] || complain 'said nothing'
run 2 --no-such-option; refused

run 0 list tasks; silent; shows '^layernorm_forward'; shows '^layernorm_backward'
shows '^softmax_topk'
run 0 list cases; silent; shows 'layernorm_forward/f32/rows='; shows 'layernorm_backward/bf16/rows='
run 0 list cases --challenge rms_norm_forward; silent; shows 'rms_norm_forward/f32/rows='
grep -v ' *rms_norm_forward/' "$tmp/out" && complain 'cases of other challenges'
run 2 list cases --challenge nope; refused
run 2 list impls --challenge rms_norm_forward; refused
run 0 list impls; silent; shows layernorm_forward; shows ref
shows textbook # an entrant
run 0 list devices; silent; [ -s "$tmp/out" ] || complain 'no devices'
run 2 list no-such-kind; refused
run 2 list; refused
run 2 list tasks cases; refused
run 0 list challenges; silent; shows '^softmax_topk'
run 0 --version; silent; shows '^touchstone [0-9]*[.][0-9]'
said() { grep -q "$1" "$tmp/err" || complain "said: $(cat "$tmp/err")"; }
run 2 demo no-such-demo; refused; said 'expected one of cancellation'
run 2 demo gqa --svg "$tmp/no.svg"; refused; said 'got gqa, which has no plot, expected one of cancellation'
for wrong in 'check --task' 'bench --task' 'judge --challenge'; do
    run 2 $wrong nope; refused; said "got 'nope', expected one of layernorm_forward,"
done
while IFS='|' read -r wrong said; do # each kind of option: what was given, what is expected; a name that is near
    run 2 $wrong; refused; said "^touchstone ${wrong%% *}: $said$"
done <<'EOF'
judge --chalenge x|unknown argument '--chalenge'; did you mean --challenge; try --help
generate --temp 1|unknown argument '--temp'; did you mean --temperature; try --help
plan --blue|unknown argument '--blue'; try --help
bench --task softmax_topq|--task: got 'softmax_topq', expected one of layernorm_forward, .*; did you mean softmax_topk
list taks|got 'taks', expected challenges, tasks, .* or gpus; did you mean tasks
judge --seed 7x|--seed: got '7x', expected an unsigned integer such as 7 or 0x5eed
judge --depth deep|--depth: got 'deep', expected quick, normal or full
judge --class x|--class: got 'x', expected sealed, host, python, sealed-gpu, host-gpu or python-gpu
bench --threads 257|--threads: got '257', expected 1 to 256
train --vocab 256|--vocab: got '256', expected 257 to 1048576
serve --slots 4k --slots 5k|--slots: got '5k', expected 1 to 4096
serve --timeout 0|--timeout: got '0', expected 0.1 to 1e+06
plan --key-axis up|--key-axis: got 'up', expected token or channel
check --mutants 1/0|--mutants: got '1/0', expected 1/N
chat --stop|--stop: got no value, expected TEXT...
EOF
for shown in 'train --layers N .*number of layers (default 4)' 'train --lr X .*learning rate (default 0.003)' 'serve --port N .*(default 8080)' \
    'judge --depth D .*: quick, normal or full (default normal)' 'train --dtype T .*: f32 or bf16 (default f32; bf16 on cuda)' 'list --seed N .*(default 0x5eed)'; do
    run 0 ${shown%% *} --help; shows "^  ${shown#* }$"
done
cp "$(dirname "$0")"/../contest/challenge/softmax_topk/starter.c "$tmp/one.c"
cp "$(dirname "$0")"/../contest/challenge/flash_attention/starter.cu "$tmp/two.cu"
run 2 judge --challenge softmax_topk "$tmp/one.c" "$tmp/two.cu"; refused
said "class host-gpu needs --device cuda, but CPU and GPU entrants cannot be judged in one run; judge $tmp/two.cu alone$"
"$build/touchstone" list cases >"$tmp/cases"
case=$(grep -m 1 -o 'softmax_topk/[^ @]*' "$tmp/cases")
run 2 judge --case "$case" "$tmp/one.c"; refused; said "got $case without a seed, expected $case@0x...$"
for wrong in "$case@" "$case@x" "$case@7x" "${case}x@0x7" softmax_topk/none @0x7 ''; do
    run 2 judge --case "$wrong" "$tmp/one.c"; refused; said "got '$wrong', expected NAME@SEED with a NAME of 'touchstone list cases'"
done
run 2 bench --peers torch,foo; refused; said "got 'foo', expected some of numpy,"
run 3 report "$tmp/missing.log"; refused; said 'No such file'
printf 'GGUF\003\0\0\0' >"$tmp/a.gguf"
run 3 generate --model "$tmp/a.gguf" --prompt x; refused; said 'gguf: file ends inside the header'
run 0 plan --model LLAMA-3-8B --gpu H200; silent
run 0 plan --model 'meta-llama/Llama-3.1-8B-Instruct' --gpu mi300; silent; shows '^llama-3.1-8b on 1 x mi300x'
run 0 plan --model 'gpt oss 20b' --gpu 3090; silent; shows 'mxfp4 12.82'; shows 'mxfp4 weights'
run 2 plan --model llama-3-8b --gpu a100; refused; said 'expected one of the matches a100-40gb, a100-80gb'
args='list cases >/dev/full'
"$build/touchstone" list cases >/dev/full 2>"$tmp/err" && complain 'lost its output, yet exits 0'
run 2 check --device no-such-device; refused
run 2 check --mutants 1/0; refused
run 2 check --mutants 2/3; refused

model=test/checkpoint/qwen3
export TOUCHSTONE_MODEL=no-such-folder # instead of the one that comes with it
run 3 generate --prompt x; refused
run 3 generate; refused
run 2 generate --temperature x; refused
unset TOUCHSTONE_MODEL
run 2 generate --model $model; refused
for wrong in '--kv blue' '--kv paged,int3' '--top-p 2' '--top-p x' '--tokens 0' '--temperature -1' '--dtype f16' '--device blue' '--device cuda --dtype f64' \
    '--threads 0' '--threads x' '--stop' '--beam 2 --stop x' '--stop 1 --stop 2 --stop 3 --stop 4 --stop 5 --stop 6 --stop 7 --stop 8 --stop 9'; do
    run 2 generate --model $model --prompt x $wrong; refused
done
for wrong in '--beam 0' '--beam x' '--beam 1025' '--beam 2 --alpha -1' '--alpha 1' '--tree 2x2' '--verify' '--beam 2 --draft lookup' \
    '--beam 2 --temperature 1' '--draft lookup --top-k 3' '--draft lookup --textbook' '--draft lookup --tree 2' \
    '--draft lookup --tree 2x' '--draft lookup --tree 0x3' '--draft lookup --tree 3x65' '--draft lookup --tree -1x2'; do
    run 2 generate --model $model --prompt x $wrong; refused
done
run 2 generate no-such-file; refused; said 'no-such-file: no such file'
for name in no-such-file nö-such-file; do # named once
    run 3 generate --model $name --prompt x; refused; said "^touchstone generate: $name: cannot open: No such"
done
mkdir "$tmp/folder"
run 3 generate --model "$tmp/folder" --prompt x; refused; said "^touchstone generate: $tmp/folder/config.json: cannot open"
if [ -f "$build/libmodel.a" ]; then
    run 0 generate --model $model --prompt Hello --tokens 5 --kv paged,int8 --temperature 1 --top-k 9; silent
    shows '^Hello'; shows '^prefill'; shows '^decode'; shows '^cache'
    printf 'one\ntwo\nthree\n' >"$tmp/prompts"
    run 0 generate --model $model --prompts "$tmp/prompts" --tokens 5; silent; shows '^\[3\] three'
    export TOUCHSTONE_MODEL=$model
    run 0 generate --tokens 5; silent; shows '^\[3\] .'; shows '^decode'
    run 0 generate --tokens 5 --prompt Hello; silent; shows '^Hello'
    unset TOUCHSTONE_MODEL
    if [ -d share/austen ]; then
        run 0 generate; silent; shows '^\[1\] .'; shows '^\[2\] .'; shows '^\[3\] .'; shows '^decode'
        grep -o '^\[[0-9]\]' "$tmp/out" | sort -c 2>/dev/null || complain 'the third story ends first, and was told first'
    fi
    export TOUCHSTONE_CUDA_MODULE=/nonexistent # the same on a machine with a GPU
    run 3 generate --model $model --prompt x --device cuda; refused
    unset TOUCHSTONE_CUDA_MODULE
    run 3 generate --model $model --tokenizer $model/config.json --prompt x; refused
    run 1 generate --model $model --prompt x --tokens 40 --pages 2 # ends early, and says so
    [ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'
    run 0 generate --model $model --prompt Hello --tokens 5 --json -; silent
    json prefill_tokens decode_tokens cache_bytes_peak stories.0.tokens.4 stories.0.status
    for threads in 1 2; do
        run 0 generate --model $model --prompt Hello --tokens 5 --threads $threads --json -; silent; json stories.0.text stories.0.finish
        [ "$(tr '\n' ' ' <"$tmp/values")" = '"<5555" "length" ' ] || complain "$(cat "$tmp/values")"
    done
    for draft in '' '--draft lookup --verify'; do # "<5555" without a stop; it comes one character at a time
        run 0 generate --model $model --prompt Hello --tokens 9 --stop xyz --stop 555 $draft; silent; shows '^Hello<$'; shows '^finish    stop$'
    done
    run 0 generate --model $model --prompt Hello --tokens 9 --stop 5555555555; silent; shows '^Hello<55555555$'; shows '^finish    length$'
    run 0 generate --model $model --prompt Hello --tokens 99 --json -; silent; json stories.0.finish
    [ "$(cat "$tmp/values")" = '"context"' ] || complain "$(cat "$tmp/values")"
    run 0 generate --model $model --prompt Hello --tokens 12 --temperature 2 --seed 1 --json -; silent # no UTF-8
    json stories.0.bytes.0 stories.0.bytes.1 stories.0.bytes.14 stories.0.text && [ "$(head -n 3 "$tmp/values" | tr '\n' ' ')" = '210 32 110 ' ] || complain 'lost bytes'
    printf 'Hel\nlo\n' >"$tmp/several" && input=$tmp/several
    run 0 generate --model $model --prompt - --tokens 5; silent; shows '^Hel$'; shows '^lo.'
    run 0 generate --model $model --prompts - --tokens 5; silent; shows '^\[1\] Hel'; shows '^\[2\] lo'; shows '^finish    2 length'
    input=
    run 3 generate --model $model --prompt -; refused; said 'standard input'
    mkdir "$tmp/drawn" && cp $model/*.json $model/model.safetensors "$tmp/drawn"
    echo '{"do_sample": true, "temperature": 0.25, "top_k": 3, "eos_token_id": 22}' >"$tmp/drawn/generation_config.json"
    run 0 generate --model "$tmp/drawn" --prompt Hello --tokens 5 --top-k 4 --json -; silent; json temperature top_k
    [ "$(tr '\n' ' ' <"$tmp/values")" = '0.25 4 ' ] || complain "$(cat "$tmp/values")"
    run 0 generate --model "$tmp/drawn" --prompt Hello --tokens 5 --temperature 0; silent; shows '^Hello<$'; shows '^finish    stop$' # 22 is 5
    run 0 generate --model "$tmp/drawn" --prompt Hello --tokens 5 --draft lookup --verify; silent; shows 'tokens equal'
    echo '{"top_p": 7}' >"$tmp/drawn/generation_config.json"
    run 3 generate --model "$tmp/drawn" --prompt Hello; refused; said 'generation_config.json: top_p'
    printf '{%% for m in messages %%}{{ m.content }}{%% endfor %%}' >"$tmp/plain.jinja"
    printf 'Hello\n' >"$tmp/said" && input=$tmp/said
    run 0 chat $model --template "$tmp/plain.jinja" --tokens 5; silent; shows '^<5555$'; shows '^.length.$' # as generate has it
    run 0 chat $model --template "$tmp/plain.jinja" --tokens 9 --stop 55 --json -; silent
    json turns.0.text turns.0.finish turns.0.tokens_run turns.0.message tokens_per_s
    [ "$(head -n 2 "$tmp/values" | tr '\n' ' ')" = '"<" "stop" ' ] || complain "$(cat "$tmp/values")"
    printf 'Hello\nHel\\\nlo\n\n/reset\nHello\n/exit\nHello\n' >"$tmp/said"
    run 0 chat $model --template "$tmp/plain.jinja" --tokens 5 --system x --temperature 1 --top-k 9 --json -; silent; json turns.2.message turns.1.message
    [ "$(cat "$tmp/values")" = "$(printf '"Hello"\n"Hel\\nlo"')" ] || complain "$(cat "$tmp/values")"
    ! grep -q '"prompt_tokens": 0' "$tmp/out" || complain 'no prompt'
    "$build/test/json_get" turns.3.message <"$tmp/out" >/dev/null 2>&1 && complain 'talks after /exit'
    run 1 chat $model --template "$tmp/plain.jinja" --context 4; [ "$(wc -l <"$tmp/err")" = 3 ] || complain "$(cat "$tmp/err")"
    run 3 chat $model; refused; said 'chat template'
    printf '{%% include "x" %%}' >"$tmp/bad.jinja"; run 3 chat $model --template "$tmp/bad.jinja"; refused; said "include"
    run 3 chat $model --template no-such-file; refused
    input=
    run 0 chat $model --template "$tmp/plain.jinja"; silent
    for wrong in '--tokens 0' '--context 1' '--top-p 2' '--threads 0' '--stop'; do run 2 chat $model $wrong; refused; done
    for wrong in '--port 65536' '--port x' '--slots 0' '--queue -1' '--kv blue' '--timeout 0' '--temperature 3' '--body 0' '--context 1'; do
        run 2 serve $model $wrong; refused
    done
    if [ -f "$build/libserve.a" ]; then
        run 3 serve $model --host no.such.host.invalid --port 0; refused; said 'host: got'
        run 3 serve $model --context 65; refused; said '65'
        run 3 serve $model --cache 20; refused; said 'cache: got 20'
        run 3 serve $model --api-key-file /dev/null; refused
        run 3 serve no-such-file --port 0; refused
    else run 3 serve $model; refused; fi
    run 0 evaluate $model --text README.md --context 64 --stride 63; silent; shows '^perplexity [1-9]'; shows '^text .* windows of 64, stride 63'; shows '^speed'
    run 0 evaluate $model --text README.md --dtype f64 --chunk 5 --threads 1 --json -; silent
    json tokens_per_s windows stride tokens tokens_scored loss_nats perplexity && {
        set -- $(cat "$tmp/values")
        [ "$3" = 64 ] && [ $(($4 - $5)) = "$2" ] || complain "windows $2 of $3, tokens $4, scored $5"
    }
    run 3 evaluate $model --text no-such-file; refused
    run 3 evaluate no-such-file --text README.md; refused
    printf x >"$tmp/short" && run 3 evaluate $model --text "$tmp/short"; refused; said 'expected at least 2'
    printf 'a\377' >"$tmp/short" && run 3 evaluate $model --text "$tmp/short"; refused; said 'UTF-8'
    run 3 evaluate $model --text README.md --context 65; refused
    run 3 evaluate $model --text README.md --stride 65; refused
    for wrong in '' '--text README.md --context 1' '--text README.md --stride 0' '--text README.md --threads 0' '--text README.md --dtype f16'; do
        run 2 evaluate $model $wrong; refused
    done
    run 0 generate --model $model --prompt Hello --tokens 8 --beam 3 --alpha 0.6 --verify; silent
    shows '^Hello'; shows '^ *3 .*8'; shows '^beam .* passes'; shows '^pages'; shows '^verify .*tokens equal'
    run 0 generate --model $model --prompts "$tmp/prompts" --tokens 5 --beam 2 --kv contiguous,f32; silent; shows '^\[3\] three'
    run 0 generate --model $model --prompt Hello --tokens 8 --beam 2 --verify --json -; silent
    json beams.1.score pages_copied stories.0.tokens.0 tokens_equal && grep -q true "$tmp/values" || complain 'not equal'
    run 1 generate --model $model --prompt Hello --tokens 40 --beam 4 --pages 4; refused
    for draft in lookup $model; do
        run 0 generate --model $model --prompt Hello --tokens 12 --draft $draft --tree 2x3 --verify; silent
        shows '^Hello'; shows '^draft .*12 tokens in'; shows '^decode'; shows '^verify .*tokens equal'
    done
    run 0 generate --model $model --prompts "$tmp/prompts" --tokens 5 --draft lookup --verify --json -; silent
    json tokens_per_pass nodes_accepted stories.2.status tokens_equal && grep -q true "$tmp/values" || complain 'not equal'
    run 3 generate --model $model --prompt x --draft no-such-file; refused
    run 3 generate --model $model --prompt x --draft test/checkpoint/mistral; refused # other tokens
    run 1 generate --model $model --prompt x --tokens 40 --draft lookup --pages 2
    [ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'
else
    run 3 generate --model $model --prompt x; refused
fi

for kind in models gpus; do run 0 list $kind; silent; done
shows '^h100 .*data sheet'
on_h100() { # STATUS MODEL [OPTION...]
    status=$1 name=$2
    shift 2
    run $status plan --model $name --gpu h100 "$@"
}
on_h100 0 llama-3-8b; silent; shows '^weights, GiB'; shows '^largest context at batch 1   514,800 tokens'
shows '^  decode .*memory$'; shows '^  prefill .*compute$'
on_h100 0 deepseek-v3 --gpus 32 --weights fp8 --kv paged,int4; silent; shows '(latent)'
on_h100 0 gpt-oss-20b --kv contiguous,int8 --key-axis token --keep-all --batch 3; silent
run 0 plan --model llama-3-8b --memory 24 --bandwidth 500 --tflops 50 --svg "$tmp/plot.svg"; silent; shows ' x given'
grep -q '^</svg>' "$tmp/plot.svg" || complain 'no plot'
run 0 plan --compare --svg "$tmp/plot.svg"; silent; shows '^llama-3-8b  *56,080 '; shows 'GiB short'
run 0 plan --html "$tmp/page.html"; silent
[ "$(grep -c '^</svg>' "$tmp/page.html")" = 14 ] && grep -q '^</html>' "$tmp/page.html" || complain 'no page of 14 plots'
run 3 plan --html "$tmp/no/such/folder"; refused
run 0 plan --compare --model mistral-7b --gpu h100,h200; silent; shows 'any'
on_h100 1 llama-3-70b; shows 'DOES NOT FIT'
grep -q 'short by .* GiB; fits with --weights fp8 or --gpus 2$' "$tmp/err" || complain "said: $(cat "$tmp/err")"
[ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'
for wrong in '--kv blue' '--kv paged,int3' '--weights f8' '--batch 0' '--context 0' '--gpus 3' '--page 0x' '--key-axis up' \
    '--key-group 5' '--reserve -1' '--memory none' '--bandwidth 0' '--tflops nan' '--weights file' '--batch 1e3'; do
    on_h100 2 llama-3-8b $wrong; refused
done
run 2 plan; refused
run 2 plan --model llama-3-8b; refused
run 2 plan --model llama-3-8b --memory 24; refused
run 2 plan --model llama-3-8b,llama-3-70b --gpu h100; refused
run 2 plan --model '' --gpu h100; refused
on_h100 2 lama3-8b; refused
grep -q 'nearest are llama-3-8b,' "$tmp/err" || complain "said: $(cat "$tmp/err")"
run 2 plan --model llama-3-8b --gpu h1000; refused
grep -q 'nearest are h100,.*--memory, --bandwidth and --tflops' "$tmp/err" || complain "said: $(cat "$tmp/err")"
on_h100 2 llama-3-8b --context 0; refused; said 'context: got 0, expected 1 to'
on_h100 0 llama-3-8b --context 128k; silent; shows 'context 131072'
on_h100 2 llama-3-8b --context 1xk; refused
printf 'GGUF\003' >"$tmp/short.gguf"
on_h100 3 "$tmp/short.gguf"; refused
on_h100 3 ./no-such-file; refused
on_h100 3 Qwen/Qwen3-8B-FP8; refused; said "no such file, and unknown model 'qwen3-8b-fp8'; nearest are qwen3-8b,"
run 3 plan --model llama-3-8b --gpu h100 --svg "$tmp/no/such/folder"
[ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'
if [ -x "$build/test/json_get" ]; then
    on_h100 0 test/checkpoint/qwen3 --context 64; silent; shows 'file weights'
    on_h100 0 share/austen; silent; shows 'memory per GPU, MiB .* file weights'; shows ' e6 parameters'
    for wrong in '{' '[]' '{"hidden_size": 8}' '{"num_hidden_layers": 1e400}' '{"num_hidden_layers": -1}'; do
        printf '%s' "$wrong" >"$tmp/config.json"
        on_h100 3 "$tmp/config.json"; refused
    done
    on_h100 0 llama-3-8b --json -; silent
    if json memory.cache max_context max_batch decode.bound_by decode.ms prefill.tokens_per_s growth.10.int4 gains.2.int4.max_context; then
        set -- $(cat "$tmp/values")
        [ "$1" = 1073807616 ] && [ "$2" = 514800 ] && [ "$4" = '"memory"' ] || complain "got $*"
    fi
    run 0 plan --compare --json -; silent; json cells.107.max_context
    on_h100 1 llama-3-70b --json -; json memory.missing fits_with.1
    [ "$(tail -1 "$tmp/values")" = '"--gpus 2"' ] || complain "fits with $(cat "$tmp/values")"
fi

if [ -x "$build/test/json_get" ]; then
    for kind in tasks cases impls devices models gpus; do run 0 list $kind --json -; json; done
    run 0 list tasks --json "$tmp/file"; silent
    "$build/test/json_get" <"$tmp/file" || complain 'no JSON in the file'
    run 3 list tasks --json /dev/full; [ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'
    run 3 list tasks --json "$tmp/no/such/folder"; [ "$(wc -l <"$tmp/err")" = 1 ] || complain 'no line on standard error'
else
    echo 'without jansson: --json must be refused'
    run 2 list tasks --json -; refused
fi
verdict
