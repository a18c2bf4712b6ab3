#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu_adapted.sh BUILD - judges a kernel with its own names behind an adapter, on a device: correct
# for every k that it supports, and rejected for the first other k.
set -u
. "$(dirname "$0")/lib.sh"
entrant=contest/entrant/adapted/softmax_topk
echo 'plan k8 k16 k32 k64 other_k'
for k in 8 16 32 64; do
    case=$("$build/touchstone" list cases --seed 7 | sed -n "s/.*\(softmax_topk.f32.rows=[0-9]*,vocab=[0-9]\{4,\},k=$k,.*.normal@.*\)/\1/p" | head -n 1)
    [ "$case" ] || { complain "no case of k = $k" && continue; }
    if "$build/touchstone" judge --case "$case" $entrant >"$tmp/out" 2>&1; then echo "ok   k$k $case"; else
        echo "NOT  k$k $case" && bad=1 && cat "$tmp/out"
    fi
done
"$build/touchstone" judge --depth quick --no-timing --first --log "$tmp/log" $entrant >"$tmp/out" 2>&1
if grep '"type":"verdict"' "$tmp/log" | grep -q '"verdict":"FAIL","reason":"status".*not supported'; then echo 'ok   other_k FAIL status'; else
    echo "NOT  other_k expected FAIL status; got $(grep '"type":"verdict"' "$tmp/log")"
    bad=1
fi
[ $bad = 0 ]
