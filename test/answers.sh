#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# answers.sh BUILD - tests a contest from its prompts to its board, without timing.
#
# Prompts of every challenge and language, the answers of example/contest/ judged as a tree, and the
# board's text about them.
set -u
. "$(dirname "$0")/lib.sh"
[ -x "$build/test/json_get" ] || { echo 'skipped: no jansson' && exit 77; }
get() { "$build/test/json_get" "$2" <"$1" | tr -d '"'; }

for language in c c++ cuda python triton; do
    "$build/touchstone" new "$tmp/prompts/$language" --prompt --language $language >/dev/null 2>&1 || fail "no prompts in $language"
done
[ "$(ls "$tmp/prompts/c" | wc -l)" = "$("$build/touchstone" list challenges | wc -l)" ] || fail 'not one prompt a challenge'

python=$(test/python.sh || true)
cp -r example/contest "$tmp/contest"
echo 'an answer?' >"$tmp/contest/hasty/softmax.md"
"$build/touchstone" judge "$tmp/contest" --no-timing --depth quick --seed 1 --log "$tmp/log" --json "$tmp/verdicts" >"$tmp/out" 2>"$tmp/err"
status=$?
[ $status = 3 ] && { echo "skipped: $(tail -n 1 "$tmp/err")" && exit 77; }
[ $status = 1 ] || fail "exit status $status, expected 1: some answers are wrong: $(tail -n 1 "$tmp/err")"
says() { # NAME SAMPLE CHALLENGE VERDICT REASON, of any of the verdicts
    for i in 0 1 2 3 4 5 6; do
        row=
        for key in name sample task verdict reason; do row="$row|$(get "$tmp/verdicts" verdicts.$i.$key)"; done
        [ "$row" = "|$1|$2|$3|$4|$5" ] && return
    done
    fail "$*: not among the verdicts"
}
says careful '' softmax_topk PASS ''
says careful '' layernorm_forward PASS ''
says hasty sample-1 softmax_topk FAIL value
says hasty sample-2 softmax_topk PASS ''
says hasty sample-3 softmax_topk FAIL build
says chatty sample-2 softmax_topk FAIL entry
if [ -n "$python" ]; then says chatty sample-1 softmax_topk PASS ''; fi
for line in 'careful *softmax_topk *PASS' 'hasty/sample-1 *softmax_topk *FAIL value' 'hasty/sample-2 *softmax_topk *PASS'; do
    grep -q "$line" "$tmp/err" || fail "no line '$line': $(cat "$tmp/err")"
done
grep -q 'files* ignored, such as .*/hasty/softmax.md' "$tmp/err" || fail "a file is ignored silently: $(cat "$tmp/err")"
! grep -q '"type":"time"' "$tmp/log" || fail 'correctness alone took times'
grep -q '"block":"code block 2 of 3, from line ' "$tmp/log" || fail 'the log does not say which code block'
[ "$(grep -c '"type":"source"' "$tmp/log")" = 7 ] || fail 'the log does not have the source of every answer'
for file in careful/softmax_topk.c hasty/softmax_topk/sample-1.c; do
    grep -q "\"type\":\"source\".*\"file\":\"${file##*/}\",\"sha256\":\"$(sha256sum <"example/contest/$file" | cut -d ' ' -f 1)\"" "$tmp/log" ||
        fail "the log has another source than $file"
done
grep -q '^  1  careful ' "$tmp/out" || fail 'careful is not first'
grep -q '^  [23]  hasty  *3   0.167   3   0.500 ' "$tmp/out" || fail "hasty's chances: $(grep hasty "$tmp/out" | head -n 2)"
"$build/touchstone" report "$tmp/log" --json "$tmp/board" >/dev/null || fail 'no report'
[ "$(get "$tmp/board" entrants.0.name)" = careful ] || fail "the report's first is $(get "$tmp/board" entrants.0.name)"

# A scope of many cases of which, with the dtypes that it rejects, few are compared.
mkdir "$tmp/few"
sed 's/\(touchstone-offers:\) dtype == f32/\1 dtype != f32 || (rows == 1 \&\& vocab == 33 \&\& k == 1)/' \
    example/contest/hasty/softmax_topk/sample-2.c >"$tmp/few/softmax_topk.c"
"$build/touchstone" judge "$tmp/few" --no-timing --depth quick --seed 1 --log "$tmp/few.log" >"$tmp/out" 2>&1
[ $? = 1 ] && grep -q 'cases with an output were run within the declared offers, fewer than 24' "$tmp/out" ||
    fail "four cases are enough: $(tail -n 5 "$tmp/out")"
echo "answers: 7 of 3 models judged as expected"
