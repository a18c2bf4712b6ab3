#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# report.sh BUILD - tests `touchstone report` on logs that are complete, truncated, altered, or full
# of hostile names.
set -eu
cd "$(dirname "$0")/.."
build=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "report: $*" >&2 && exit 1; }
report() { "$build/touchstone" report "$@" >"$tmp/out" 2>"$tmp/err"; }
escape=$(printf '\033')

for kind in full failures untimed empty; do
    "$build/test/make_log" "$tmp/$kind" $kind
    report "$tmp/$kind" --out "$tmp/page" || fail "$kind: $(cat "$tmp/err")"
    [ ! -s "$tmp/err" ] || fail "$kind: said $(cat "$tmp/err")"
    ! LC_ALL=C grep -q "$escape" "$tmp/out" || fail "$kind: an escape reached the terminal"
    LC_ALL=C.UTF-8 awk '!/^       touchstone judge / && length($0) > 100 { exit 1 }' "$tmp/out" ||
        fail "$kind: wider than 100 columns"
    tail -n 1 "$tmp/$kind" | tr -d '\n' | sha256sum | cut -d ' ' -f 1 >"$tmp/hash"
    grep -qF "$(cat "$tmp/hash")" "$tmp/page/index.html" || fail "$kind: the page has not the last line's hash"
    [ "$(grep -c '<script' "$tmp/page/index.html")" = 3 ] || fail "$kind: a script that is not ours"
    [ ! -e "$tmp/page/index.html.tmp" ] || fail "$kind: left a file behind"
done
report "$tmp/full" || fail 'no tables without --out'
grep -q '^  1  touchstone  *host  *3/3 ' "$tmp/out" || fail 'touchstone is not first'
grep -q 'speed^0.70 x robustness^0.15 x precision^0.10 x memory^0.05' "$tmp/out" || fail 'no weights'
grep -q '^badge reduced: 5 of 7 guarantees verified$' "$tmp/out" || fail 'no badge'
for word in sealed host python 'PASS (common)' AUDIT; do
    grep -q "^  $word: [A-Za-z]" "$tmp/out" || fail "$word is not explained"
done
grep -q '^  7  sixty-four-characters-of-a~ ' "$tmp/out" || fail 'a long name is cut too early'
grep -q 'AUDIT floor .* - .* 0 - *$' "$tmp/out" || fail 'an audit has a score'
grep -q ': sanitizer: crash: illegal instruction' "$tmp/out" || fail 'no word of the sanitizer lane'
grep -q '^       value: dgamma\[0\]\[511\] got 1.53125, want 1.49998474 +- 3.1e-05' "$tmp/out" || fail 'no first flaw'
grep -q "^       touchstone judge --challenge softmax_topk --case '.*' a/path/to/a/shared/library.so$" "$tmp/out" ||
    fail 'a replay command is cut'
awk '/^softmax_topk/ { on = 1 } on && /PASS \(common\)/ { common = NR } on && /PASS  / { pass = NR } END { exit !(common > pass && pass) }' \
    "$tmp/out" || fail 'PASS (common) does not stand below PASS'
grep -q 'equal logits are ordered by index' "$tmp/out" || fail 'no word of a broken rule'
grep -A 1 'textbook offers 41 % of the challenge:' "$tmp/out" | grep -q 'k <= 32 && dtype == f32' || fail 'no word of a scope'

report "$tmp/untimed" || fail 'no tables without times'
grep -q '^  1  touchstone  *host  *3/3  *-  *-  *- *$' "$tmp/out" || fail 'a score without times'

head -c -20 "$tmp/full" >"$tmp/torn"
report "$tmp/torn" || fail 'a torn log was refused'
grep -q 'is incomplete and was skipped' "$tmp/err" || fail 'a torn line was not said'
grep -q 'has not finished' "$tmp/out" || fail 'a run without its end looks ended'

sed '5s,"task","tAsk",' "$tmp/full" >"$tmp/changed"
cmp -s "$tmp/full" "$tmp/changed" && fail 'nothing was changed'
if report "$tmp/changed" --out "$tmp/never"; then fail 'a changed log was taken'; fi
[ "$(wc -l <"$tmp/err")" = 1 ] && grep -q 'line 5:' "$tmp/err" || fail "changed: $(cat "$tmp/err")"
[ ! -e "$tmp/never" ] || fail 'a page of a changed log'
if report "$tmp/nowhere"; then fail 'a log that is not there was taken'; fi
if report "$tmp/full" --out "$tmp/full/x"; then fail 'a page in a file'; fi
[ "$(wc -l <"$tmp/err")" = 1 ] || fail "no folder: $(cat "$tmp/err")"

# A site: the board, a page per entrant and per challenge, and every link of theirs there.
report "$tmp/full" --site "$tmp/site" || fail "site: $(cat "$tmp/err")"
grep -q '^site: 12 pages' "$tmp/out" || fail "site: $(tail -n 1 "$tmp/out")"
[ "$(ls "$tmp/site/entrant" | wc -l) $(ls "$tmp/site/challenge" | wc -l)" = '8 3' ] || fail 'site: not a page for each'
[ -e "$tmp/site/entrant/1-touchstone.html" ] || fail "site: $(ls "$tmp/site/entrant" | head -n 1)"
! ls "$tmp/site/entrant" | LC_ALL=C grep -q '[^A-Za-z0-9._-]' || fail 'site: a name that is no file name'
grep -q '"kind":"entrant"' "$tmp/site/entrant/1-touchstone.html" || fail 'site: a page that does not say what it is'
! grep -q '^.*"type":"entrant".*"name":"numpy"' "$tmp/site/entrant/1-touchstone.html" || fail "site: an entrant's page has another's records"
grep -q '"name":"numpy"' "$tmp/site/challenge/softmax_topk.html" || fail "site: a challenge's page lacks an entrant"
grep -q '"type":"source"' "$tmp/site/entrant/2-three_pass.html" || fail "site: an entrant's page lacks its source"
! grep -q '"type":"source"' "$tmp/site/index.html" "$tmp/site/challenge/softmax_topk.html" "$tmp/page/index.html" || fail 'site: a source on another page'
for file in "$tmp"/site/*.html "$tmp"/site/*/*.html; do
    [ "$(grep -c '<script' "$file")" = 3 ] || fail "site: $file: a script that is not ours"
done
grep -q 'The contract' "$tmp/site/challenge/softmax_topk.html" || fail "site: a challenge's page lacks its prompt"
report "$tmp/full" --site "$tmp/full/below" && fail 'site: a folder that cannot be'
[ "$(wc -l <"$tmp/err")" = 1 ] || fail "site: said $(cat "$tmp/err")"
echo 'report: whole, torn, changed and hostile logs'
