#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# report.sh BUILD - tests `touchstone report` on logs that are complete, truncated, altered, or full
# of hostile names.
set -eu
. "$(dirname "$0")/lib.sh"
report() { "$build/touchstone" report "$@" >"$tmp/out" 2>"$tmp/err"; }
escape=$(printf '\033')
version=$("$build/touchstone" --version | cut -d ' ' -f 2)

for kind in full failures untimed backwards empty; do
    "$build/test/make_log" "$tmp/$kind" $kind
    report "$tmp/$kind" --out "$tmp/page" || fail "$kind: $(cat "$tmp/err")"
    [ ! -s "$tmp/err" ] || fail "$kind: said $(cat "$tmp/err")"
    ! LC_ALL=C grep -q "$escape" "$tmp/out" || fail "$kind: an escape reached the terminal"
    LC_ALL=C.UTF-8 awk '!/^       [^ ]*touchstone judge / && length($0) > 100 { exit 1 }' "$tmp/out" ||
        fail "$kind: wider than 100 columns"
    tail -n 1 "$tmp/$kind" | tr -d '\n' | sha256sum | cut -d ' ' -f 1 >"$tmp/hash"
    grep -qF "$(cat "$tmp/hash")" "$tmp/page/index.html" || fail "$kind: the page has not the last line's hash"
    [ "$(grep -c '<script' "$tmp/page/index.html")" = 3 ] || fail "$kind: a script that is not ours"
    [ ! -e "$tmp/page/index.html.tmp" ] || fail "$kind: left a file behind"
done
report "$tmp/full" || fail 'no tables without --out'
grep -q '^  1  touchstone  *host  *3/3 ' "$tmp/out" || fail 'touchstone is not first'
grep -q 'x robustness^0.15 x precision^0.10 x memory^0.05 x share^0.5' "$tmp/out" || fail 'no weights'
awk '/^  passed is of all 3 challenges, and ranks; of those entered/ { on = 1 } on && /^    .*red.* 1\/2 *$/ { n++ } END { exit n != 1 }' "$tmp/out" || fail 'passed of entered is not said'
grep -q '^badge reduced: 5 of 7 guarantees verified$' "$tmp/out" || fail 'no badge'
for word in sealed host python 'PASS (common)' AUDIT; do
    grep -q "^  $word: [A-Za-z]" "$tmp/out" || fail "$word is not explained"
done
grep -q '^  7  sixty-four-characters-of-a~ ' "$tmp/out" || fail 'a long name is cut too early'
grep -q 'AUDIT floor .* - .* 0 - *$' "$tmp/out" || fail 'an audit has a score'
grep -q ': sanitizer: crash: illegal instruction' "$tmp/out" || fail 'no word of the sanitizer lane'
grep -q '^       value: dgamma\[0\]\[511\] got 1.53125, want 1.49998474 +- 3.1e-05' "$tmp/out" || fail 'no first flaw'
grep -q "^       $build/touchstone judge --challenge softmax_topk --case '.*' a/path/to/a/shared/library.so$" "$tmp/out" ||
    fail 'a replay command is cut, or does not name the program as it was called'
report "$tmp/full" --out "$tmp/page" && grep -q 'touchstone judge --challenge' "$tmp/page/index.html" || fail 'no command on the page'
! grep -q "$build/touchstone" "$tmp/page/index.html" || fail 'the page names where the program is'
(PATH=$build:$PATH touchstone report "$tmp/full") | grep -q '^       touchstone judge --challenge' || fail 'a program in PATH has a path'
mkdir "$tmp/a b" && cp "$build/touchstone" "$tmp/a b"
"$tmp/a b/touchstone" report "$tmp/full" | grep -q '^       touchstone judge --challenge' || fail 'a command that a shell would split'
awk '/^softmax_topk/ { on = 1 } on && /PASS \(common\)/ { common = NR } on && /PASS  / { pass = NR } END { exit !(common > pass && pass) }' \
    "$tmp/out" || fail 'PASS (common) does not stand below PASS'
grep -q '^  best known version for python: NumPy$' "$tmp/out" && grep -q 'on different scales' "$tmp/out" || fail 'no word of what a score is relative to'
grep -q '^       hangs only when rows <= 1$' "$tmp/out" || fail 'no word of when it hangs'
grep -q 'equal logits are ordered by index' "$tmp/out" || fail 'no word of a broken rule'
grep -A 1 'textbook offers 41 % of the challenge:' "$tmp/out" | grep -q 'k <= 32 && dtype == f32' || fail 'no word of a scope'

report "$tmp/untimed" || fail 'no tables without times'
grep -q '^  1  touchstone  *host  *3/3  *-  *-  *-  *- *$' "$tmp/out" || fail 'a score without times'

! grep -q '^     workload ' "$tmp/out" || fail 'times of a run without times'
"$build/test/make_log" "$tmp/one" 1x1
"$build/touchstone" report "$tmp/one" >"$tmp/one.out" || fail 'no tables of one entrant'
awk '/^     workload .* time / { on = 1 } on && / us  *[0-9.]+  *[0-9.]+ us  *21.4  / { n++ } length > 100 { exit 1 } END { exit n != 4 }' "$tmp/one.out" ||
    fail 'no times of a single entrant'
grep -q '^  1  touchstone .* 133/133    - -$' "$tmp/out" || fail 'the robustness checks are cut'
report "$tmp/backwards" || fail 'no tables of failures before passes'
awk '/^softmax_topk/ { on = 1 } on && /PASS/ && fail { exit 1 } on && /^ .* FAIL / { fail = NR } END { exit !fail }' \
    "$tmp/out" || fail 'FAIL stands above PASS'
grep -q '^  [0-9]  touchstone  *host  *3/3  *-  *-  *-  *- *$' "$tmp/out" || fail 'an entrant that could not be read counts against others'
grep -q '^Not judged$' "$tmp/out" || fail 'entrants that could not be read have no table'

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

# Several logs: of like machines, of unlike machines, twice, of another version, and what is none.
one_line() { # MESSAGE, of the last report
    [ "$(wc -l <"$tmp/err")" = 1 ] && grep -q "$1" "$tmp/err" || fail "expected '$1', got $(cat "$tmp/err")"
}
shards() { # DIR MODEL MACHINE
    MODEL=$2 MACHINE=$3 "$build/test/make_shards" "$tmp/$1" 10 softmax_topk kv_cache
}
shards here ours 'one CPU'
shards there theirs 'one CPU'
shards elsewhere others 'another CPU'
report "$tmp/here" "$tmp/there/softmax_topk.sealed.log" --out "$tmp/both" || fail "like machines: $(cat "$tmp/err")"
[ "$(grep -c '^ *[0-9]*  ours-[0-9]* .*/2 ' "$tmp/out")" = 10 ] || fail 'like machines: not ten entrants of the first'
[ "$(grep -c '^ *[0-9]*  theirs-[0-9]* .*/2 ' "$tmp/out")" = 6 ] || fail 'like machines: not six entrants of the second'
! grep -q 'unlike' "$tmp/out" || fail 'like machines are called unlike'
for log in "$tmp"/here/*.log "$tmp/there/softmax_topk.sealed.log"; do
    grep -qF "$(tail -n 1 "$log" | tr -d '\n' | sha256sum | cut -d ' ' -f 1)" "$tmp/both/index.html" || fail 'the page has not every hash'
done
grep -q 'come from 7 logs' "$tmp/both/index.html" || fail 'the page does not count its logs'
report "$tmp/here" "$tmp/elsewhere/kv_cache.host.log" --out "$tmp/unlike" || fail "unlike machines: $(cat "$tmp/err")"
tr -s '\n ' '  ' <"$tmp/out" | grep -q 'Times of 1 challenge (kv_cache) are not compared, because they were measured on unlike machines (machine one CPU and another CPU)' ||
    fail 'unlike machines: not said'
grep -q '"note":"Times of 1 challenge (kv_cache)' "$tmp/unlike/index.html" || fail 'unlike machines: not said on the page'
! grep -q '"type":"\(score\|time\|match\)".*"task":"kv_cache"' "$tmp/unlike/index.html" || fail 'unlike machines: compared'
grep -q '"type":"score".*"task":"softmax_topk"' "$tmp/unlike/index.html" || fail 'unlike machines: a challenge of one machine lost its scores'
report "$tmp/here" && cp "$tmp/out" "$tmp/once"
report "$tmp/here" "$tmp/here" || fail 'the same logs twice'
cmp -s "$tmp/out" "$tmp/once" || fail 'logs that were given twice count twice'
head -n 3 "$tmp/here/kv_cache.python.log" >"$tmp/here/kv_cache.python.log.new"
mv "$tmp/here/kv_cache.python.log.new" "$tmp/here/kv_cache.python.log"
report "$tmp/here" && grep -q 'has not finished' "$tmp/out" || fail 'a shard without its end, and the board looks ended'
printf '%s\n' 'softmax_topk sealed 6' 'softmax_topk tall 6' >"$tmp/there/shards"
report "$tmp/there" && grep -q 'has not finished' "$tmp/out" || fail 'a shard without a log, and the board looks ended'
one_line 'there: 1 of 2 shards have no log yet'
if report "$tmp/elsewhere" "$tmp/full"; then fail 'logs of two versions were merged'; fi
one_line "full: judged by version $version, draw rule 1; the logs before by $version, draw rule 5; report them separately"
if report "$tmp/full" "$tmp/nowhere.log"; then fail 'a missing log was merged'; fi
one_line 'nowhere.log: cannot be read: No such file'
if report "$tmp/full" test/report.sh; then fail 'a text was merged'; fi
one_line 'report.sh: line 1: checksum mismatch: not a judge log'
mkdir "$tmp/none"
if report "$tmp/none"; then fail 'an empty folder was taken'; fi
one_line 'none: contains no file called \*.log'

# A crowd: 450 entrants, in shards of 90 and more. What is quadratic would take more CPU time.
"$build/test/make_shards" "$tmp/crowd" 450 softmax_topk
(ulimit -t 30 && report "$tmp/crowd" --site "$tmp/many") || fail "crowd: $(cat "$tmp/err")"
grep -q '^site: 452 pages' "$tmp/out" || fail "crowd: $(tail -n 1 "$tmp/out")"
[ "$(grep -c '^ *[0-9]*  model-[0-9]* .*/1 ' "$tmp/out")" = 450 ] || fail 'crowd: not 450 entrants'
! grep -q '^Head to head' "$tmp/out" || fail 'crowd: has matches'
! grep -q '"type":"time"' "$tmp/many/index.html" || fail 'crowd: its index has every call'
grep -q '"type":"time"' "$tmp/many/challenge/softmax_topk.html" || fail 'crowd: the page of the challenge has no calls'
echo 'report: whole, torn, changed and hostile logs; several logs, and 450 entrants'
