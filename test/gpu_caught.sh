#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_caught.sh BUILD TASK - runs the CUDA mutants of every task with this prefix by `touchstone check`: each must be
# caught by the check that it names. Prints each verdict as it comes.
set -u
. "$(dirname "$0")/lib.sh"
"$build/touchstone" list mutants | awk -v task="$2" 'index($1, task) == 1 && $2 ~ /^cuda_/ && $3 != "nothing" { print $1 "." $2 }' >"$tmp/names"
[ -s "$tmp/names" ] || fail "$2 has no CUDA mutant"
for task in $(cut -d . -f 1 "$tmp/names" | uniq); do
    grep "^$task\." "$tmp/names" | tr '\n' ' ' | sed 's/^/plan /; s/ $//'
    echo
    # check itself would hold back what it writes to a pipe; a task alone, since mutants of two have equal names.
    { stdbuf -oL "$build/touchstone" check --device cuda --only-mutants --seed 0x5eed --task "$task" \
        --impl "$(sed -n "s/^$task\.//p" "$tmp/names" | paste -sd '|')" 2>&1 && echo 0 >"$tmp/status"; } |
        tee "$tmp/$task.out" | sed -un "s/^caught \(cuda_[^ ]*\) in $task\//ok   $task.\1 /p; s/^FAIL mutant \(cuda_[^ ]*\) of $task /NOT  $task.\1 /p"
    if ! rm "$tmp/status" 2>/dev/null; then
        cat "$tmp/$task.out"
        bad=1
    fi
    tail -n 1 "$tmp/$task.out"
done
[ $bad = 0 ]
