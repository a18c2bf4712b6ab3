#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# times.sh BUILD - tests that `judge --replay LOG --times` finds times that were divided by ten in a log of two
# entrants, with valid hashes, and takes the true ones as the same.
set -eu
. "$(dirname "$0")/lib.sh"
"$build/test/honest" -l "$tmp/all" >/dev/null
set -- "$tmp/all/forward_two_pass.c" "$tmp/all/forward_welford.c"
status=0
"$build/touchstone" judge "$@" --depth quick --log "$tmp/log" >"$tmp/out" 2>"$tmp/err" || status=$?
[ $status != 3 ] || { echo "skipped: $(tail -n 1 "$tmp/err")" && exit 77; }
[ "$(grep -c '"type":"time"' "$tmp/log")" -gt 1 ] || { cat "$tmp/err" && fail 'nothing was timed'; }
python3 -B test/forge.py "$tmp/log" "$tmp/forged" --divide
differ() { # LOG ENTRANT...: as n.NAME
    log=$1
    shift
    status=0
    "$build/touchstone" judge --replay "$log" --times "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    grep '^[a-zA-Z]* .* us \[' "$tmp/out" >"$tmp/times" || complain "no times: $(cat "$tmp/out" "$tmp/err")"
}
differ "$tmp/forged" "$@"
first=$(sed 's/^[a-zA-Z]* *\([^,]*\),.*/\1/' "$tmp/times" | sort -u | while read -r name; do
    grep " $name, " "$tmp/times" | grep -vq '^DIFFERENT' || echo "$name"
done)
[ $status = 1 ] && [ -n "$first" ] || complain "divided by ten: status $status, $(cat "$tmp/out")"
# Another run on a busy machine may differ: of three, one is the same.
for i in 1 2 3; do
    differ "$tmp/log" "$@"
    [ $status != 0 ] || break
done
[ $status = 0 ] || complain "true times: status $status, $(cat "$tmp/out")"
status=0 && "$build/touchstone" judge --times "$1" 2>"$tmp/err" || status=$?
[ $status = 2 ] && grep -q -- '--times: got no --replay' "$tmp/err" || complain "no log: $status, $(cat "$tmp/err")"
[ $bad = 0 ] || exit 1
echo 'times: 0 complaints'
