#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_judge.sh BUILD facts|CHALLENGE - tests the judge's guarantees on this machine's device, or judges the built-in
# entrants of a challenge at depth quick. Prints each verdict as it comes.
set -u
. "$(dirname "$0")/lib.sh"
if [ "${2-}" != facts ]; then
    {
        python3 test/gpu_follow.py --before "$2." built-in "$tmp/log" "$build/touchstone" judge --device cuda --challenge "$2" \
            --depth quick --log "$tmp/log" 2>&1
        echo $? >"$tmp/status"
    } | tee "$tmp/out"
    grep -q 'no entrants; name one' "$tmp/out" && echo "skipped: no built-in entrant is judged in $2 on a device" && exit 77
    exit "$(cat "$tmp/status")"
fi
# The source has the names of all guarantees: one that selfcheck does not report is missing.
grep -oh '"device-[a-z0-9-]*"' judge/selfcheck/*.c judge/run/*.c | tr -d '"' | sort -u >"$tmp/names"
echo "plan $(tr '\n' ' ' <"$tmp/names")"
"$build/touchstone" judge --selfcheck --device cuda >"$tmp/out" 2>"$tmp/err"
status=$?
while read -r name; do
    line=$(grep -E "^ *(yes|NO) +$name " "$tmp/out")
    case $line in
    *yes*) echo "ok   $name ${line#*"$name"}" ;;
    '') echo "NOT  $name: selfcheck ended with status $status and does not name it" && bad=1 ;;
    *device-sanitizer*) echo "skip $name ${line#*"$name"}" ;; # a tool that may be missing
    *) echo "NOT  $name ${line#*"$name"}" && bad=1 ;;
    esac
done <"$tmp/names"
cat "$tmp/err"
[ $bad = 0 ]
